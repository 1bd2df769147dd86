"""Each question of a benchmark for all systems: the newest scores and the answers over nights, in files by question.

A question's page loads the one file that has its question. The files are shared by all runs of a benchmark.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.site.baseline_runs import PairBaseline
from rag_eval_pipeline.site.data import ReportData
from rag_eval_pipeline.site.display_text import data_script, replace_control_chars, shortened, without_places
from rag_eval_pipeline.site.page_writer import SiteFolder
from rag_eval_pipeline.site.question_nights import QuestionNight

ANSWER_NIGHTS = 14  # of a pair, besides its baseline's
QUESTIONS_A_FILE = 100
TEXT_LENGTH = 600  # code points; the whole answer is on the page of its run


def file_of(query_id: str, n_files: int) -> int:
    """Return the number of the file that has a question; `question.js` counts alike."""
    value = 0
    for byte in query_id.encode("utf-8", "surrogatepass"):
        value = (value * 31 + byte) % 2**32
    return value % n_files


def distinct_ids(query_ids: Collection[str]) -> dict[str, str]:
    """Return the id under which a page finds each question, without control characters.

    Questions whose ids differ only in these are left out: a page must not show the answers to another question.
    """
    shown = {query_id: replace_control_chars(query_id) for query_id in query_ids}
    counts = Counter(shown.values())
    return {query_id: shown_id for query_id, shown_id in shown.items() if counts[shown_id] == 1}


def write_answers(
    site: SiteFolder,
    report: ReportData,
    benchmark: str,
    nights: Mapping[str, QuestionNight],
    baselines: Mapping[str, PairBaseline],
    queries: Mapping[str, EvaluationQuery],
    full: Collection[str],
    hidden: Collection[str],
) -> int:
    """Write the files of a benchmark and return how many there are.

    Args:
        nights: By evaluation; those without answers are left out.
        queries: Of the newest dataset; empty if it is gone.
        full: Runs whose questions have pages.
        hidden: Questions that no page shows.
    """
    newest = {system: nights[report.nights[benchmark, system][-1].evaluation_id] for system in baselines}
    latest = max(newest.values(), key=lambda night: night.header.timestamp)
    query_ids = [query_id for query_id in latest.scores if query_id not in hidden]
    n_files = max(1, -(-len(query_ids) // QUESTIONS_A_FILE))
    shown = {
        system: [
            nights[header.evaluation_id]
            for header in report.by_pair[benchmark, system]
            if header.evaluation_id in nights and nights[header.evaluation_id].given
        ]
        for system in baselines
    }
    systems = {
        system: {
            "run": newest[system].header.evaluation_id,
            "nights": [_night(report, night, baselines[system], full) for night in own],
        }
        for system, own in shown.items()
    }
    files: list[dict[str, Any]] = [{} for _ in range(n_files)]
    for query_id, shown_id in distinct_ids(query_ids).items():
        scores = latest.scores[query_id]
        query = queries.get(query_id)
        answers = {
            system: found
            for system, own in shown.items()
            if (found := _of_system(query_id, scores.text, own, newest[system], query))
        }
        files[file_of(shown_id, n_files)][shown_id] = {"text": scores.text, "systems": answers}
    for number, questions in enumerate(files):
        name = f"answers-{number:03d}"
        value = {"systems": systems, "questions": questions}
        site.write(f"nights/{benchmark}.{name}.js", data_script(name, value))
    return n_files


def _night(report: ReportData, night: QuestionNight, baseline: PairBaseline, full: Collection[str]) -> list[Any]:
    """Return run, date, what else is to be said of a night, and whether its questions have pages."""
    name = night.header.evaluation_id
    pinned = bool(baseline.ids) and not baseline.provisional and name in baseline.ids
    note = "rerun" if name in report.reruns else "baseline" if pinned else ""
    return [name, f"{night.header.timestamp:%Y-%m-%d}", note, name in full]


def _of_system(
    query_id: str, text: int, nights: Sequence[QuestionNight], newest: QuestionNight, query: EvaluationQuery | None
) -> dict[str, Any] | None:
    """Return one system's distinct answers to a question, newest first, with their nights; and its newest scores."""
    answers: dict[tuple[str | None, str], list[int]] = {}
    for place, night in reversed(list(enumerate(nights))):
        scores, given = night.scores.get(query_id), night.given.get(query_id)
        if scores is None or given is None or scores.text != text:
            continue
        answers.setdefault((given.answer, night.outcome(query_id, query)), []).append(place)
    now = newest.scores.get(query_id)
    if not answers or now is None or now.text != text:
        return None
    return {
        "answers": [
            [None if answer is None else shortened(without_places(answer), TEXT_LENGTH), outcome, places[::-1]]
            for (answer, outcome), places in answers.items()
        ],
        "scores": [None if value is None else round(value, 3) for value in (now.f1, now.rank, now.citations)],
    }
