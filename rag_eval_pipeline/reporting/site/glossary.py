"""What the report's words and figures mean: a page for people, and the same for the pages of questions."""

from collections.abc import Iterable

from rag_eval_pipeline.metrics.evidence import FAILURE_RATE
from rag_eval_pipeline.reporting.leaderboard import COLUMNS
from rag_eval_pipeline.reporting.site.inert import inert
from rag_eval_pipeline.reporting.site.known_figures import HEADINGS, Figure
from rag_eval_pipeline.reporting.site.meanings import PAGE, figure_of, own_figure
from rag_eval_pipeline.reporting.site.morning import Morning
from rag_eval_pipeline.reporting.site.questions import OUTCOMES, Asked
from rag_eval_pipeline.reporting.site.rendering import render

# A verdict's word -> what it says.
VERDICTS = {
    "regressed": "Worse by more than chance explains, by a paired test over the questions, corrected for the number of "
    "metrics, and seen again in a rerun unless the sentence says otherwise.",
    "improved": "Better, by the same test.",
    "equivalent": "Whatever change there is, it is smaller than the margin.",
    "inconclusive": "Neither a change nor its absence can be told, or a rule that the sentence names withholds it.",
    "withheld": "Too few questions were answered; what is missing could be what changed.",
    "no_verdict": "Fewer than 30 questions have a score.",
    "provisional": "No baseline is pinned yet; the night is compared with the few before it, and alerts nobody.",
}
_OUTCOMES = {
    "exact": "The answer equals a gold answer, as SQuAD compares them.",
    "partly": "It shares words with a gold answer.",
    "wrong": "It shares none.",
    "rightly": "The documents have no answer, and the system says so.",
    "refused": "The documents have an answer, and the system gives none.",
    "invented": "The documents have no answer, and the system gives one.",
    "failed": "An error or a timeout; it has no score and is counted.",
    "unscored": "Nothing to compare with.",
}


def met_figures(morning: Morning, asked: Iterable[Asked]) -> list[Figure]:
    """Every measure that the report names, each once, by rooms.

    Args:
        morning: The report's.
        asked: Of the runs whose questions are shown.
    """
    names = dict.fromkeys((*COLUMNS, FAILURE_RATE))
    for row in morning.newest:
        names |= dict.fromkeys((*row.retrieval_metrics, *row.judge_metrics))
    for comparison in morning.comparisons:
        names |= dict.fromkeys(comparison.verdicts)
    own: dict[str, Figure] = {}
    for one in asked:
        names |= dict.fromkeys(name for row in one.query_results for name in row.individual_metrics)
        own |= {name: own_figure(name, row) for name, row in one.own_metrics.items()}
    rooms = list(HEADINGS)
    return sorted((own.get(name) or figure_of(name) for name in names), key=lambda one: rooms.index(one.room))


def meanings_value(figures: Iterable[Figure]) -> dict[str, tuple[str, str, str]]:
    """Measure -> label, what it is and which way is better, heading of its room."""
    return {inert(one.name): (inert(one.label), _line(one), _heading(one)) for one in figures}


def glossary_page(figures: Iterable[Figure]) -> bytes:
    """`glossary.html`; a measure of both levels stands once."""
    rooms: dict[str, dict[str, Figure]] = {}
    for one in figures:
        bare = one.name.removeprefix(PAGE)
        rooms.setdefault(one.room, {})[bare] = one._replace(name=bare)
    return render(
        "glossary.html",
        rooms=[(heading, list(rooms[room].values())) for room, heading in HEADINGS.items() if room in rooms],
        verdicts=VERDICTS,
        outcomes=[(name, label, _OUTCOMES[name]) for name, label in OUTCOMES.items()],
    )


def _line(figure: Figure) -> str:
    return inert(
        " ".join(part for part in (figure.meaning, f"{figure.way.capitalize()}." if figure.way else "") if part)
    )


def _heading(figure: Figure) -> str:
    return "Retrieval, by page" if figure.name.startswith(PAGE) else HEADINGS[figure.room]
