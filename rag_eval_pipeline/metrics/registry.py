"""Every metric: one key, one label, one meaning, one direction; docs/reference/metrics.md lists them.

The rows of retrieval measures are in `retrieval.families`; custom metrics of installed packages join the list.
"""

from collections.abc import Mapping
from functools import cache, partial

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.metrics.custom import installed_metrics
from rag_eval_pipeline.metrics.metric_info import COUNT, OF_SEGMENT, Direction, MetricInfo, Need, label_from_key
from rag_eval_pipeline.metrics.retrieval.families import FAMILIES

PAGE_PREFIX = "page/"  # of retrieval measures by page

_SPECIFICATION = "Citation Accuracy Evaluation"
_CORRECTED = f"{_SPECIFICATION} 4.2, corrected"
_SQUAD = "SQuAD 2.0, evaluate-v2.0.py"
_ANSWERS: tuple[Need, ...] = ("answer", "accepted_answers")
_SPANS: tuple[Need, ...] = ("citations", "gold_spans")
_JUDGED: tuple[Need, ...] = ("answer", "judge")

_span = partial(MetricInfo, source=_CORRECTED, needs=_SPANS, levels=("span",), category="citations")
_answer = partial(MetricInfo, needs=_ANSWERS, levels=("question",), category="answers")
_judged = partial(
    MetricInfo, source="docs/explanation/judges.md", needs=_JUDGED, levels=("question",), category="claims"
)
_claim = partial(MetricInfo, source=_SPECIFICATION, needs=_JUDGED, levels=("claim",), category="claims")
_fact = partial(_judged, source="TREC 2024 RAG Track, AutoNuggetizer")
_context = partial(MetricInfo, needs=("contexts", "gold_spans"), levels=("span",), category="contexts")
_performance = partial(MetricInfo, levels=("question",), direction="lower", category="performance")


def _abstention(name: str, meaning: str, direction: Direction = "higher", label: str = "") -> MetricInfo:
    return MetricInfo(
        f"abstention_{name}", meaning, "SQuAD 2.0, is_impossible", ("answer",), ("question",), direction,
        aliases=(f"abstention/{name}",), category="abstention", label=label,
    )  # fmt: skip


def _covered(unit: str, word: str) -> tuple[MetricInfo, ...]:
    span = partial(_span, source=f"{_SPECIFICATION} 3.1")
    return (
        span(f"{unit}_precision", f"Share of the cited {word} that are gold."),
        span(f"{unit}_recall", f"Share of the gold {word} that are cited."),
        span(f"{unit}_f1", f"Harmonic mean of precision and recall of {word}, which equals Dice.",
             aliases=(f"{unit}_dice",)),
    )  # fmt: skip


_OVERLAP = "Overlap of cited and gold spans, where ends that differ by a few characters count as equal"

QUESTION_METRICS: tuple[MetricInfo, ...] = (
    _span("exact_jaccard", "Mean Jaccard of the gold spans with their citations, matched one to one."),
    _span("tolerance_jaccard", f"{_OVERLAP}; mean over questions.", aliases=("citation_span_accuracy",),
          label="Citation overlap"),
    _span("citation_jaccard", f"{_OVERLAP}; mean over all gold spans.", label="Citation overlap, pooled"),
    _span("perfect_matches", "Gold spans that are cited exactly.", range=COUNT),
    _span("good_matches", "Gold spans with a tolerance Jaccard of at least 0.8.", range=COUNT),
    _span("true_spans", "Distinct gold spans.", range=COUNT, direction="neither"),
    _span("predicted_spans", "Distinct cited spans.", range=COUNT, direction="neither"),
    _span("span_precision", "Share of the cited spans that match a gold span, one to one."),
    _span("span_recall", "Share of the gold spans that a cited span matches, one to one."),
    _span("span_f1", "Harmonic mean of span precision and recall."),
    *_covered("char", "characters"),
    _span("char_jaccard", "Characters both cited and gold, as a share of those that are either.",
          source=f"{_SPECIFICATION} 3.1"),
    *_covered("token", "words"),

    _answer("exact_match", "Whether the answer without citations and markup equals a gold answer, as SQuAD compares.",
            _SQUAD),
    _answer("f1", "F1 of the words that the answer without citations and markup shares with a gold answer; "
            "characters in scripts without spaces.", _SQUAD),
    _answer("squad/exact_match", "Exact match of the answer as it is, as the official scorer prints it.", _SQUAD,
            label="Exact match, official"),
    _answer("squad/f1", "F1 of the answer as it is, as the official scorer prints it.", _SQUAD, label="F1, official"),
    _answer("answerable_exact_match", "Exact match of the questions with an answer.", _SQUAD,
            label="Exact match, answerable"),
    _answer("answerable_f1", "F1 of the questions with an answer.", _SQUAD, label="F1, answerable"),
    _answer("unanswerable_exact_match", "Share of the unanswerable questions on which the system abstains.", _SQUAD,
            label="Exact match, unanswerable"),
    _answer("abstained", "Whether the system declined to answer.", "answers", needs=("answer",), direction="neither"),
    _abstention("f1", "Harmonic mean of abstention precision and recall."),
    _abstention("precision", "Share of the abstentions that were right: the question has no answer in the documents."),
    _abstention("recall", "Share of the unanswerable questions on which the system abstains."),
    _abstention("accuracy", "Share of the questions on which abstaining or answering was right."),
    _abstention("over_refusal_rate", "Share of the answerable questions on which the system abstains.", "lower",
                label="Over-refusal rate"),
    _abstention("false_answer_rate", "Share of the unanswerable questions that the system answers.", "lower",
                label="False answer rate"),
    _abstention("abstention_rate", "Share of the questions on which the system abstains.",
                "neither", label="Abstention rate"),

    _judged("judged_correct", "Share of the answers that the judge finds correct; unsure ones count as wrong."),
    _judged("judged_correct_upper", "Share of the answers that the judge finds correct; unsure ones count as right.",
            label="Judged correct, at most"),
    _judged("judged_refused", "Share of the answers that the judge regards as a refusal, also where that is right.",
            direction="neither",
            label="Judged refusal"),
    _judged("judged_unsure", "Share of the answers that the judge cannot decide.",
            direction="neither", label="Judge unsure"),
    _fact("strict_vital_score", "Share of the vital gold facts that the answer states whole; to be read as a mean, as "
          "it is weak by question.", label="Vital facts"),
    _fact("vital_score", "Share of the vital gold facts that the answer states; one stated in part counts as a half.",
          label="Vital facts, in part"),
    _fact("strict_all_score", "Share of the gold facts, vital and okay, that the answer states whole.",
          label="All facts"),
    _fact("all_score", "Share of the gold facts, vital and okay, that the answer states; one stated in part counts as "
          "a half.", label="All facts, in part"),
    _fact("decided_facts", "Number of gold facts on which the judge has a verdict.", direction="neither", range=COUNT),
    _fact("undecided_facts", "Number of gold facts that the default judge does not decide; they are in no score.",
          direction="neither", range=COUNT),
    _claim("claims", "Number of claims in the answer.", direction="neither", range=COUNT),
    _claim("cited_claims", "Number of claims that have a citation.", direction="neither", range=COUNT),
    _claim("resolved_claims", "Number of claims whose cited texts exist.", direction="neither", range=COUNT),
    _claim("citations", "Number of citations in the answer.", direction="neither", range=COUNT),
    _claim("citation_completeness", "Share of the claims that are cited.", source=f"{_SPECIFICATION} 3.2"),
    _claim("citation_correctness", "Share of the citations that support their claim.", source=f"{_SPECIFICATION} 3.2"),
    _claim("citation_relevance", "Share of the citations that are about their claim or on a gold span.",
           source=f"{_SPECIFICATION} 3.2"),
    _claim("citation_support", "Mean support of the citations whose place exists.", source=f"{_SPECIFICATION} 4.2"),
    _claim("citation_support_all", "Mean support of all citations; one whose place does not exist has none.",
           source=f"{_SPECIFICATION} 4.2"),
    _claim("factual_consistency", "Share of the claims that their cited texts support; one that cites nothing, or a "
           "place that does not exist, is not supported.", source=f"{_SPECIFICATION} 3.3"),
    _claim("consistency_of_resolved", "Share of the claims with cited texts that these texts support."),
    _claim("faithfulness", "Share of the claims that the retrieved texts support, according to the judge.",
           source="RAGAS, Faithfulness"),
    _claim("hallucination_vs_citations", "Share of the claims that no cited text supports, according to the judge.",
           source=f"{_SPECIFICATION} 5.1", direction="lower", aliases=("hallucination_rate",),
           label="Hallucination rate, cited"),
    _claim("hallucination_vs_retrieved", "Share of the claims that no retrieved text supports, according to the judge.",
           source=f"{_SPECIFICATION} 3.3", direction="lower", aliases=("hallucination_rate_retrieved",),
           label="Hallucination rate, retrieved"),
    _claim("citation_density", "Share of the answer's characters that are in citations.",
           source=f"{_SPECIFICATION} 3.3",
           direction="neither"),
    _claim("cited_text_share", "Share of the claims' characters that are in cited claims.",
           source=f"{_SPECIFICATION} 3.3",
           direction="neither"),
    _claim("overall_citation_accuracy",
           "Weighted mean of span accuracy, citation correctness, consistency and absence of hallucination; none "
           "where less than 0.6 of the weights is available.",
           source=f"{_SPECIFICATION} 5.1"),
    _claim("overall_coverage", "Sum of the weights of the available parts of the overall score.",
           source=f"{_SPECIFICATION} 5.1",
           direction="neither"),
    _claim("citation_recall", "Share of the statements that their citations together entail.", source="ALCE, eval.py"),
    _claim("citation_precision", "Share of the citations that their statement needs.", source="ALCE, eval.py"),

    _context("context_precision",
             "Mean share of useful passages up to each useful one; a useful passage overlaps a gold span.",
             "RAGAS, ContextPrecision", levels=("passage",)),
    _context("context_char_recall", "Share of the gold characters that were retrieved.",
             "Chroma, Evaluating Chunking"),
    _context("context_char_precision", "Share of the retrieved characters that are gold.",
             "Chroma, Evaluating Chunking"),
    _context("context_char_iou", "Characters both gold and retrieved, as a share of those that are either.",
             "Chroma, Evaluating Chunking"),

    _performance("Failure rate", "Share of the questions without an answer: errors and timeouts.",
                 "answers", ("answer",)),
    _performance("latency_p50_ms", "Median of the milliseconds to an answer.", "timings", ("timings",), range=COUNT,
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
    """Return what people read for a key: `page/ndcg@10` is "nDCG@10 by page", also if ` of section tariffs` follows."""
    key, of_segment, segment = key.partition(OF_SEGMENT)
    bare = key.removeprefix(PAGE_PREFIX)
    info = find_metric_info(bare)
    label = label_from_key(bare) if info is None else info.label.replace("@k", f"@{bare.partition('@')[2]}")
    return f"{label}{'' if bare == key else ' by page'}{of_segment}{segment}"


def scored_share(scored: int, questions: float) -> str:
    """Return what follows a mean that is not over all questions, such as ` (27 of 60)`; "" if it is."""
    return "" if scored == questions else f" ({scored:,} of {questions:,.0f})"


@cache
def metrics_by_key() -> Mapping[str, MetricInfo]:
    """Return every metric by its key and aliases; installed metrics are left out if one cannot be loaded."""
    try:
        rows = metrics()
    except InputError:
        rows = built_in_metrics()
    return {key: info for info in rows for key in (info.name, *info.aliases)}
