"""Which means a results file has: the groups of questions and measures that are averaged, and retrieval's level."""

from collections.abc import Mapping

from rag_eval_pipeline.evaluation.citation_figures import OVERALL, SPAN_COUNTS
from rag_eval_pipeline.evaluation.event_evaluations import PREFIX
from rag_eval_pipeline.evaluation.judging import CORRECTNESS_MEASURES
from rag_eval_pipeline.evaluation.means import Means, Scored, named
from rag_eval_pipeline.evaluation.own_metrics import own_metrics, own_names
from rag_eval_pipeline.evaluation.parts import Parts
from rag_eval_pipeline.evaluation.scores_file import PAGE
from rag_eval_pipeline.evaluation.scoring import ANSWER_MEASURES, CITATION_MEASURES, CONTEXT_MEASURES
from rag_eval_pipeline.evaluation.settings import EvaluationSettings
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.metrics.claims import CLAIM_COUNTS

PAGE_SHARE = 0.9  # of the questions; a headline must not rest on the few whose gold text was located
FEW_DOCUMENTS = 20  # below, ten of them are half of the corpus, and finding a document says little
FURTHER = ("contexts", "citations", "answers")  # groups of which most means stand in no other part
PLACED = frozenset({"exact_match", "f1"})  # those that do: under answer quality


def means_of(parts: Parts, settings: EvaluationSettings) -> Means:
    """Every mean of a results file.

    Args:
        parts: Of the evaluation.
        settings: Its own: measures, own metrics, seed.
    """
    measures = settings.measure_names
    own = own_metrics(settings.own_metrics).values()

    def own_of(kind: str) -> frozenset[str]:
        return frozenset(own_names(own, kind))

    located = [row for query, row in zip(parts.queries, parts.retrieval, strict=True) if query.citations]
    pairs = list(zip(parts.queries, parts.answer_scores, strict=True))
    answerable = [row for query, row in pairs if not query.is_impossible]
    unanswerable = [row for query, row in pairs if query.is_impossible]
    judged = dict.fromkeys(name for row in parts.judged for name in row.scores if name not in CLAIM_COUNTS)
    if all(name.startswith(PREFIX) for name in judged) and any(row.outcome == "failed" for row in parts.judged):
        judged |= dict.fromkeys(CORRECTNESS_MEASURES)  # null, with the number of failures, and not absent
    groups = {
        "documents": Scored(parts.retrieval, named(measures), level="document"),
        "pages": Scored(
            located, {name: PAGE + name for name in measures}, level="page", left_out=len(pairs) - len(located)
        ),
        "contexts": Scored(
            parts.retrieval,
            named([*CONTEXT_MEASURES, *own_names(own, "retrieval_scores")]),
            own=own_of("retrieval_scores"),
        ),
        "citations": Scored(
            parts.citations,
            named(name for name in [*CITATION_MEASURES, *own_names(own, "citation_scores")] if name not in SPAN_COUNTS),
            own=own_of("citation_scores"),
        ),
        "answers": Scored(
            parts.answer_scores,
            named(name for name in [*ANSWER_MEASURES, *own_names(own, "answer_scores")] if name != "abstained"),
            own=own_of("answer_scores"),
        ),
        "answerable": Scored(answerable, named(["exact_match", "f1"]), left_out=len(unanswerable)),
        "unanswerable": Scored(unanswerable, named(["exact_match"]), left_out=len(answerable)),
        "judged": Scored(parts.judged, named([*judged, *own_names(own, "judge_scores")]), own=own_of("judge_scores")),
        "overall": Scored(parts.overall, named(OVERALL)),
    }
    return Means(groups, parts.clusters, seed=settings.random_seed)


def further_metrics(means: Means) -> dict[str, form.Metric]:
    """Means of the scores that no other part of the file has; a built-in one that no question has is left out."""
    found = {name: metric for group in FURTHER for name, metric in means.all_of(group).items()}
    own = {name for group in FURTHER for name in means.own_of(group)}
    return {name: one for name, one in found.items() if name not in PLACED and (one.n_scored or name in own)}


def retrieval_level(
    n_documents: int, by_document: Mapping[str, form.Metric], by_page: Mapping[str, form.Metric]
) -> form.Level:
    """What to look at first: pages in a small corpus, if nearly all questions that have documents have pages too.

    Args:
        n_documents: Documents of the corpus.
        by_document: Retrieval metrics at document level.
        by_page: The same measures at page level.
    """
    documents = sum(metric.n_scored for metric in by_document.values())
    pages = sum(metric.n_scored for metric in by_page.values())
    return "page" if n_documents < FEW_DOCUMENTS and documents and pages >= PAGE_SHARE * documents else "document"
