"""Every metric: one key, one label, one meaning, one direction.

Terminals, reports, alerts and mails take their words from here, and `docs/metrics.md` is written from it. The rows of
retrieval measures are in `retrieval.measures`, beside the functions that compute them; custom metrics of installed
packages join the list.
"""

from collections.abc import Mapping
from functools import cache, partial

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.custom import installed_metrics
from rag_eval_pipeline.metrics.metric_info import (
    COUNT,
    Direction,
    MetricInfo,
    Need,
    label_from_key,
)
from rag_eval_pipeline.metrics.retrieval.measures import FAMILIES

PAGE_PREFIX = "page/"  # of retrieval measures by page

_SPECIFICATION = "Citation Accuracy Evaluation"
_CORRECTED = f"{_SPECIFICATION} 4.2, corrected"
_HOTPOT = "HotpotQA, hotpot_evaluate_v1.py"
_SQUAD = "SQuAD 2.0, evaluate-v2.0.py"
_ANSWERS: tuple[Need, ...] = ("answer", "accepted_answers")
_SPANS: tuple[Need, ...] = ("citations", "gold_spans")
_JUDGED: tuple[Need, ...] = ("answer", "judge")

_span = partial(MetricInfo, source=_CORRECTED, needs=_SPANS, levels=("span",), category="citations")
_answer = partial(MetricInfo, needs=_ANSWERS, levels=("question",), category="answers")
_judged = partial(MetricInfo, source="judges.md", needs=_JUDGED, levels=("question",), category="claims")
_claim = partial(MetricInfo, source=_SPECIFICATION, needs=_JUDGED, levels=("claim",), category="claims")
_context = partial(MetricInfo, needs=("contexts", "gold_spans"), levels=("span",), category="contexts")
_performance = partial(MetricInfo, levels=("question",), direction="lower", category="performance")


def _abstention(name: str, meaning: str, direction: Direction = "higher", label: str = "") -> MetricInfo:
    return MetricInfo(
        f"abstention_{name}", meaning, "SQuAD 2.0, is_impossible", ("answer",), ("question",), direction,
        aliases=(f"abstention/{name}",), category="abstention", label=label,
    )  # fmt: skip


def _ragchecker(name: str, meaning: str, direction: Direction = "higher") -> MetricInfo:
    return _claim(f"ragchecker/{name}", meaning, source="RAGChecker, computation.py", direction=direction)


def _covered(unit: str, word: str) -> tuple[MetricInfo, ...]:
    span = partial(_span, source=f"{_SPECIFICATION} 3.1")
    return (
        span(f"{unit}_precision", f"Cited {word} that are gold, among the cited."),
        span(f"{unit}_recall", f"Gold {word} that are cited, among the gold."),
        span(f"{unit}_f1", f"Harmonic mean of precision and recall of {word}, which is their Dice.",
             aliases=(f"{unit}_dice",)),
        span(f"{unit}_jaccard", f"Shared {word} among those on either side."),
    )  # fmt: skip


_OVERLAP = "Overlap of cited and gold spans, ends that differ by a few characters counted as equal"

QUESTION_METRICS: tuple[MetricInfo, ...] = (
    _span("exact_jaccard", "Mean Jaccard of the gold spans with their citations, matched one to one."),
    _span("tolerance_jaccard", f"{_OVERLAP}: each question's, and their mean.", label="Citation overlap"),
    _span("citation_span_accuracy", "Citation overlap, under the name that the specification gives it.",
          label="Span accuracy"),
    _span("citation_jaccard", f"{_OVERLAP}: the mean over all gold spans."),
    _span("perfect_matches", "Gold spans that are cited exactly.", range=COUNT),
    _span("good_matches", "Gold spans with a tolerance Jaccard of at least 0.8.", range=COUNT),
    _span("true_spans", "Distinct gold spans.", range=COUNT, direction="neither"),
    _span("predicted_spans", "Distinct cited spans.", range=COUNT, direction="neither"),
    _span("span_precision", "Cited spans that find a gold span, matched one to one, among the cited."),
    _span("span_recall", "Gold spans that are found, matched one to one, among the gold."),
    _span("span_f1", "Harmonic mean of span precision and recall."),
    _span("best_exact_jaccard",
          "Mean Jaccard of the gold spans with their best citation, which may serve several."),
    _span("best_tolerance_jaccard", "Overlap of each gold span with its best citation, with tolerance at the ends."),
    _span("best_span_precision", "Cited spans that find any gold span, among the cited."),
    _span("best_span_recall", "Gold spans that any cited span finds, among the gold."),
    *_covered("char", "characters"),
    *_covered("token", "words"),
    _span("facts_em", "Every gold span at least half cited, and no citation elsewhere.", source=_HOTPOT),
    _span("facts_precision", "Gold spans at least half cited, among these and the citations elsewhere.",
          source=_HOTPOT),
    _span("facts_recall", "Gold spans at least half cited, among the gold spans.", source=_HOTPOT),
    _span("facts_f1", "Harmonic mean of the facts' precision and recall.", source=_HOTPOT),

    _answer("exact_match", "Answers equal to a gold answer, as SQuAD compares them.", _SQUAD),
    _answer("f1", "Words that answer and gold answer share, as SQuAD counts them.", _SQUAD),
    _answer("answerable_exact_match", "Exact match of the questions with an answer.", _SQUAD,
            label="Exact match, answerable"),
    _answer("answerable_f1", "F1 of the questions with an answer.", _SQUAD, label="F1, answerable"),
    _answer("unanswerable_exact_match", "Unanswerable questions on which the system abstains.", _SQUAD,
            label="Exact match, unanswerable"),
    _answer("exact_match_in", "Exact match by the rules of the dataset's language.", "MLQA"),
    _answer("f1_in", "Token F1 by the rules of the dataset's language; characters where it writes no spaces.", "MLQA"),
    _answer("hotpot_em", "Exact match of the answer.", _HOTPOT),
    _answer("hotpot_f1", "Token F1 of the answer; yes and no have no parts.", _HOTPOT),
    _answer("joint_em", "Answer and supporting facts both match exactly.", _HOTPOT, needs=(*_ANSWERS, *_SPANS)),
    _answer("joint_f1", "F1 of the products of precision and of recall of answer and supporting facts.", _HOTPOT,
            needs=(*_ANSWERS, *_SPANS)),
    _answer("rouge_l", "F1 of the longest common subsequence of words.", "Lin 2004, ROUGE", label="ROUGE-L"),
    MetricInfo("verbatim_share", "Claims whose words are found verbatim in a cited or retrieved text.", "judges.md",
               ("answer",), ("claim",), category="answers", label="Verbatim claims"),
    _answer("abstained", "The system declined to answer.", "answers", needs=("answer",), direction="neither"),
    _abstention("f1", "Whether the system abstains on unanswerable questions, and only there."),
    _abstention("precision", "Abstentions that were right: the question has no answer in the documents."),
    _abstention("recall", "Unanswerable questions on which the system abstains."),
    _abstention("accuracy", "Questions on which abstaining or answering was right."),
    _abstention("over_refusal_rate", "Answerable questions on which the system abstains.", "lower",
                label="Over-refusal rate"),
    _abstention("false_answer_rate", "Unanswerable questions that the system answers all the same.", "lower",
                label="False answer rate"),
    _abstention("abstention_rate", "Questions on which the system abstains.", "neither", label="Abstention rate"),

    _judged("judged_correct", "Answers that the judge finds right; unsure ones count as wrong."),
    _judged("judged_correct_upper", "Answers that the judge finds right; unsure ones count as right.",
            label="Judged correct, at most"),
    _judged("judged_refused", "Answers that the judge takes for a refusal.", direction="neither",
            label="Judged refusal"),
    _judged("judged_unsure", "Answers about which the judge cannot decide.", direction="neither", label="Judge unsure"),
    _claim("claims", "Claims of the answer.", direction="neither", range=COUNT),
    _claim("cited_claims", "Claims that have a citation.", direction="neither", range=COUNT),
    _claim("resolved_claims", "Claims whose cited texts exist.", direction="neither", range=COUNT),
    _claim("citations", "Citations of the answer.", direction="neither", range=COUNT),
    _claim("citation_completeness", "Cited claims among all.", source=f"{_SPECIFICATION} 3.2"),
    _claim("citation_correctness", "Citations that support their claim among all.", source=f"{_SPECIFICATION} 3.2"),
    _claim("citation_relevance", "Citations on the subject of their claim or on a gold span, among all.",
           source=f"{_SPECIFICATION} 3.2"),
    _claim("citation_support", "Mean support of the citations.", source=f"{_SPECIFICATION} 4.2"),
    _claim("factual_consistency", "Claims that their cited texts support, among those with one.",
           source=f"{_SPECIFICATION} 3.3"),
    _claim("faithfulness", "Claims that the retrieved texts support, by the judge.", source="RAGAS, Faithfulness"),
    _claim("hallucination_vs_citations", "Claims that no cited text supports, by the judge.",
           source=f"{_SPECIFICATION} 5.1", direction="lower", aliases=("hallucination_rate",),
           label="Hallucination rate, cited"),
    _claim("hallucination_vs_retrieved", "Claims that no retrieved text supports, by the judge.",
           source=f"{_SPECIFICATION} 3.3", direction="lower", aliases=("hallucination_rate_retrieved",),
           label="Hallucination rate, retrieved"),
    _claim("citation_density", "Characters of citations among those of the answer.", source=f"{_SPECIFICATION} 3.3",
           direction="neither"),
    _claim("cited_text_share", "Characters of cited claims among those of all claims.", source=f"{_SPECIFICATION} 3.3",
           direction="neither"),
    _claim("overall_citation_accuracy",
           "Weighted mean of span accuracy, citation correctness, consistency and absence of hallucination.",
           source=f"{_SPECIFICATION} 5.1"),
    _claim("overall_coverage", "Weights of the available parts of the overall score.", source=f"{_SPECIFICATION} 5.1",
           direction="neither"),
    _claim("citation_recall", "Statements that their citations together entail.", source="ALCE, eval.py"),
    _claim("citation_precision", "Citations that are needed for their statement.", source="ALCE, eval.py"),
    _ragchecker("precision", "Claims of the answer that the gold answer entails."),
    _ragchecker("recall", "Claims of the gold answer that the answer entails."),
    _ragchecker("f1", "Harmonic mean of precision and recall."),
    _ragchecker("claim_recall", "Claims of the gold answer that a retrieved passage entails."),
    _ragchecker("context_precision", "Passages that entail a claim of the gold answer."),
    _ragchecker("context_utilization", "Retrieved claims of the gold answer that the answer uses."),
    _ragchecker("noise_sensitivity_in_relevant", "Wrong claims of the answer that a useful passage entails.", "lower"),
    _ragchecker("noise_sensitivity_in_irrelevant", "Wrong claims that only a useless passage entails.", "lower"),
    _ragchecker("hallucination", "Wrong claims of the answer that no retrieved passage entails.", "lower"),
    _ragchecker("self_knowledge", "Right claims of the answer that no retrieved passage entails.", "neither"),
    _ragchecker("faithfulness", "Claims of the answer that a retrieved passage entails."),

    _context("context_precision",
             "Mean share of useful passages up to each useful one; useful means sharing a gold span.",
             "RAGAS, ContextPrecision", levels=("passage",)),
    _context("context_char_recall", "Gold characters in what was retrieved, among the gold.",
             "Chroma, Evaluating Chunking"),
    _context("context_char_precision", "Retrieved characters that are gold, among the retrieved.",
             "Chroma, Evaluating Chunking"),
    _context("context_char_iou", "Shared characters among those that are gold or retrieved.",
             "Chroma, Evaluating Chunking"),

    _performance("Failure rate", "Questions without an answer: errors and timeouts.", "answers", ("answer",)),
    _performance("latency_p50_ms", "Milliseconds to an answer, the median.", "timings", ("timings",), range=COUNT,
                 label="Latency p50"),
)  # fmt: skip


def built_in_metrics() -> tuple[MetricInfo, ...]:
    """Return the metrics of this package."""
    return (*(family.metric for family in FAMILIES), *QUESTION_METRICS)


def metrics() -> tuple[MetricInfo, ...]:
    """Return every metric: the built-in ones, then those of installed packages.

    Raises:
        InputError: `bad_metric` for an installed metric that cannot be loaded, `duplicate_metric` for a taken name.
    """
    found = (*built_in_metrics(), *(custom.metric for custom in installed_metrics()))
    taken: set[str] = set()
    for info in found:
        for name in (info.name, *info.aliases):
            if name in taken:
                raise InputError("duplicate_metric", "metrics", "each name and alias once", found=name)
            taken.add(name)
    return found


def find_metric_info(key: str) -> MetricInfo | None:
    """Return the row of a key such as `f1` or `page/ndcg@10`; None for a metric that is not known here."""
    rows, bare = metrics_by_key(), key.removeprefix(PAGE_PREFIX)
    family, at, _ = bare.partition("@")
    return rows.get(bare) or (rows.get(f"{family}@k") if at else None)


def metric_label(key: str) -> str:
    """Return what people read for a key: `page/ndcg@10` is "nDCG@10 by page"."""
    bare = key.removeprefix(PAGE_PREFIX)
    info = find_metric_info(bare)
    label = label_from_key(bare) if info is None else info.label.replace("@k", f"@{bare.partition('@')[2]}")
    return label if bare == key else f"{label} by page"


@cache
def metrics_by_key() -> Mapping[str, MetricInfo]:
    """Return every metric by its key and aliases; installed metrics are left out if one cannot be loaded."""
    try:
        rows = metrics()
    except InputError:
        rows = built_in_metrics()
    return {key: info for info in rows for key in (info.name, *info.aliases)}
