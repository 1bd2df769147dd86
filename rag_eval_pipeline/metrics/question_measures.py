"""The measures of citations, answers, claims and contexts as rows of the registry.

A row says what a measure is; it is computed by the module that its source names. Names are those of the results.
"""

from typing import NamedTuple

from rag_eval_pipeline.metrics.registry import COUNT, SHARE, Direction, Level, Metric, Need, Range

SPANS: tuple[Need, ...] = ("citations", "gold_spans")
ANSWERS: tuple[Need, ...] = ("answer", "accepted_answers")
JUDGED: tuple[Need, ...] = ("answer", "judge")
SPECIFICATION = "Citation Accuracy Evaluation"


class Described(NamedTuple):
    """A measure whose row is all that the registry holds of it."""

    metric: Metric


def definitions() -> tuple[Described, ...]:
    """The rows, room by room."""
    rooms = (*_spans(), *_answers(), *_abstention(), *_verdicts(), *_claims(), *_contexts())
    return tuple(Described(metric) for metric in rooms)


def _spans() -> list[Metric]:
    mended = f"{SPECIFICATION} 4.2, mended"
    matched = "matched one to one"
    rows = [
        _row("exact_jaccard", f"Mean Jaccard of the gold spans with their citations, {matched}.", mended),
        _row("tolerance_jaccard", "Mean Jaccard, each end moved towards the gold one within the tolerance.", mended,
             aliases=("citation_span_accuracy",)),
        _row("perfect_matches", "Gold spans that are cited exactly.", mended, range=COUNT),
        _row("good_matches", "Gold spans with a tolerance Jaccard of at least 0.8.", mended, range=COUNT),
        _row("true_spans", "Distinct gold spans.", mended, range=COUNT, direction="neither"),
        _row("predicted_spans", "Distinct cited spans.", mended, range=COUNT, direction="neither"),
        _row("span_precision", f"Cited spans that find a gold span, {matched}, among the cited.", mended),
        _row("span_recall", f"Gold spans that are found, {matched}, among the gold.", mended),
        _row("span_f1", "Harmonic mean of span precision and recall.", mended),
        _row("best_exact_jaccard", "Mean Jaccard of the gold spans with their best citation, which may serve several.",
             mended),
        _row("best_tolerance_jaccard", "The same with tolerance.", mended),
        _row("best_span_precision", "Cited spans that find any gold span, among the cited.", mended),
        _row("best_span_recall", "Gold spans that any cited span finds, among the gold.", mended),
    ]  # fmt: skip
    for unit, word in (("char", "characters"), ("token", "words")):
        source = f"{SPECIFICATION} 3.1"
        rows += [
            _row(f"{unit}_precision", f"Cited {word} that are gold, among the cited.", source),
            _row(f"{unit}_recall", f"Gold {word} that are cited, among the gold.", source),
            _row(f"{unit}_f1", f"Harmonic mean of precision and recall of {word}, which is their Dice.", source,
                 aliases=(f"{unit}_dice",)),
            _row(f"{unit}_jaccard", f"Shared {word} among those on either side.", source),
        ]  # fmt: skip
    hotpot = "HotpotQA, hotpot_evaluate_v1.py"
    for name, meaning in (
        ("facts_em", "Every gold span at least half cited, and no citation beside them."),
        ("facts_precision", "Gold spans at least half cited, among these and the citations beside them."),
        ("facts_recall", "Gold spans at least half cited, among the gold spans."),
        ("facts_f1", "Harmonic mean of the facts' precision and recall."),
    ):
        rows.append(_row(name, meaning, hotpot))
    return rows


def _answers() -> list[Metric]:
    def row(name: str, meaning: str, source: str, *needs: Need) -> Metric:
        return Metric(name, meaning, source, needs or ANSWERS, ("question",), room="answers")

    squad, hotpot = "SQuAD 2.0, evaluate-v2.0.py", "HotpotQA, hotpot_evaluate_v1.py"
    both: tuple[Need, ...] = (*ANSWERS, *SPANS)
    return [
        row("exact_match", "The normalised answer equals an accepted one.", squad),
        row("f1", "Token F1 against the best accepted answer.", squad),
        row("exact_match_in", "Exact match by the rules of the dataset's language.", "MLQA"),
        row("f1_in", "Token F1 by the rules of the dataset's language; characters where it writes no spaces.", "MLQA"),
        row("hotpot_em", "Exact match of the answer.", hotpot),
        row("hotpot_f1", "Token F1 of the answer; yes and no have no parts.", hotpot),
        row("joint_em", "Answer and supporting facts both match exactly.", hotpot, *both),
        row("joint_f1", "F1 of the products of precision and of recall of answer and supporting facts.", hotpot, *both),
        row("rouge_l", "F1 of the longest common subsequence of words.", "Lin 2004, ROUGE"),
        Metric("abstained", "The system declined to answer.", "answers", ("answer",), ("question",), "neither",
               room="answers"),
    ]  # fmt: skip


def _abstention() -> list[Metric]:
    def row(name: str, meaning: str, direction: Direction = "higher") -> Metric:
        return Metric(
            f"abstention/{name}", meaning, "SQuAD 2.0, is_impossible", ("answer",), ("question",), direction,
            room="answers",
        )  # fmt: skip

    return [
        row("precision", "Unanswerable questions among the declined."),
        row("recall", "Declined questions among the unanswerable."),
        row("f1", "Harmonic mean of precision and recall."),
        row("over_refusal_rate", "Declined questions among the answerable.", "lower"),
        row("false_answer_rate", "Answered questions among the unanswerable.", "lower"),
        row("abstention_rate", "Declined questions among all.", "neither"),
        row("accuracy", "Questions that were answered or declined as they should be, whether rightly answered or not."),
    ]


def _verdicts() -> list[Metric]:
    def row(name: str, meaning: str, direction: Direction = "higher") -> Metric:
        return Metric(name, meaning, "judges.md", JUDGED, ("question",), direction, room="claims")

    return [
        row("judged_correct", "The judge finds the answer right."),
        row("judged_correct_upper", "The same, with the answers of which the judge is unsure."),
        row("judged_refused", "The judge finds that the answer declines.", "neither"),
        row("judged_unsure", "The judge cannot tell.", "neither"),
    ]


def _claims() -> list[Metric]:
    def row(
        name: str, meaning: str, *, direction: Direction = "higher", range: Range = SHARE, source: str = SPECIFICATION
    ) -> Metric:
        return Metric(name, meaning, source, JUDGED, ("claim",), direction, range, room="claims")  # fmt: skip

    ragchecker = "RAGChecker, computation.py"
    rows = [
        row("claims", "Claims of the answer.", direction="neither", range=COUNT),
        row("cited_claims", "Claims that a citation stands with.", direction="neither", range=COUNT),
        row("resolved_claims", "Claims whose cited texts exist.", direction="neither", range=COUNT),
        row("citations", "Citations of the answer.", direction="neither", range=COUNT),
        row("citation_completeness", "Cited claims among all.", source=f"{SPECIFICATION} 3.2"),
        row("citation_correctness", "Citations that support their claim among all.", source=f"{SPECIFICATION} 3.2"),
        row("citation_relevance", "Citations on the subject of their claim or on a gold span, among all.",
            source=f"{SPECIFICATION} 3.2"),
        row("citation_support", "Mean support of the citations.", source=f"{SPECIFICATION} 4.2"),
        row("factual_consistency", "Claims that their cited texts support, among those with one.",
            source=f"{SPECIFICATION} 3.3"),
        row("faithfulness", "Claims that what was retrieved supports.", source="RAGAS, Faithfulness"),
        row("hallucination_vs_citations", "Claims that no cited text supports.", direction="lower",
            source=f"{SPECIFICATION} 5.1"),
        row("hallucination_vs_retrieved", "Claims that nothing retrieved supports.", direction="lower",
            source=f"{SPECIFICATION} 3.3"),
        row("citation_density", "Characters of citations among those of the answer.", direction="neither",
            source=f"{SPECIFICATION} 3.3"),
        row("cited_text_share", "Characters of cited claims among those of all claims.", direction="neither",
            source=f"{SPECIFICATION} 3.3"),
        row("overall_citation_accuracy", "Weighted mean of span accuracy, citation quality, consistency and absence of "
            "hallucination, over those that there are.", source=f"{SPECIFICATION} 5.1"),
        row("overall_coverage", "Weights of the parts of the overall score that there are.", direction="neither",
            source=f"{SPECIFICATION} 5.1"),
        row("citation_recall", "Statements that their citations together entail.", source="ALCE, eval.py"),
        row("citation_precision", "Citations that are needed for their statement.", source="ALCE, eval.py"),
    ]  # fmt: skip
    for name, meaning, direction in _RAGCHECKER:
        rows.append(row(f"ragchecker/{name}", meaning, direction=direction, source=ragchecker))
    return rows


_RAGCHECKER: tuple[tuple[str, str, Direction], ...] = (
    ("precision", "Claims of the answer that the gold answer entails.", "higher"),
    ("recall", "Claims of the gold answer that the answer entails.", "higher"),
    ("f1", "Harmonic mean of precision and recall.", "higher"),
    ("claim_recall", "Claims of the gold answer that something retrieved entails.", "higher"),
    ("context_precision", "Passages that entail a claim of the gold answer.", "higher"),
    ("context_utilization", "Retrieved claims of the gold answer that the answer makes use of.", "higher"),
    ("noise_sensitivity_in_relevant", "Wrong claims of the answer that a useful passage entails.", "lower"),
    ("noise_sensitivity_in_irrelevant", "Wrong claims that only a useless passage entails.", "lower"),
    ("hallucination", "Wrong claims of the answer that nothing retrieved entails.", "lower"),
    ("self_knowledge", "Right claims of the answer that nothing retrieved entails.", "neither"),
    ("faithfulness", "Claims of the answer that something retrieved entails.", "higher"),
)


def _contexts() -> list[Metric]:
    def row(name: str, meaning: str, source: str, *, level: Level = "passage") -> Metric:
        return Metric(name, meaning, source, ("contexts", "gold_spans"), (level,), room="contexts")

    precision, spans = "RAGAS, ContextPrecision", "Chroma, Evaluating Chunking"
    return [
        row("context_precision", "Mean share of useful passages up to each useful one; useful shares a gold span.",
            precision),
        row("context_char_recall", "Gold characters in what was retrieved, among the gold.", spans, level="span"),
        row("context_char_precision", "Retrieved characters that are gold, among the retrieved.", spans, level="span"),
        row("context_char_iou", "Shared characters among those that are gold or retrieved.", spans, level="span"),
    ]  # fmt: skip


def _row(
    name: str,
    meaning: str,
    source: str,
    *,
    direction: Direction = "higher",
    range: Range = SHARE,
    aliases: tuple[str, ...] = (),
) -> Metric:
    return Metric(name, meaning, source, SPANS, ("span",), direction, range, aliases, "citations")
