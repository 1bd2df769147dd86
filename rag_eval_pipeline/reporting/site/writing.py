"""The whole site: every page of a report, in the order in which one reads them; what did not change is left alone."""

import hashlib
from importlib.resources import files
from pathlib import Path

import msgspec

from rag_eval_pipeline.reporting.comparison import Comparisons
from rag_eval_pipeline.reporting.history import ResultsHeader
from rag_eval_pipeline.reporting.site.benchmark_pages import write_benchmark
from rag_eval_pipeline.reporting.site.comparison_pages import write_comparison
from rag_eval_pipeline.reporting.site.data_part import data_part
from rag_eval_pipeline.reporting.site.folder import SiteFolder, code_digest
from rag_eval_pipeline.reporting.site.glossary import glossary_page, meanings_value, met_figures
from rag_eval_pipeline.reporting.site.inert import data_script
from rag_eval_pipeline.reporting.site.meanings import registry_digest
from rag_eval_pipeline.reporting.site.morning import Morning, Pair, read_morning
from rag_eval_pipeline.reporting.site.overview import leaderboard_sheet, overview_page
from rag_eval_pipeline.reporting.site.page_pictures import PagePictures
from rag_eval_pipeline.reporting.site.question_nights import QuestionNight, nights_value, read_question_night
from rag_eval_pipeline.reporting.site.questions import Asked, read_questions
from rag_eval_pipeline.reporting.site.run_pages import write_run, write_run_page
from rag_eval_pipeline.reporting.site.run_sources import DatasetShelf, read_run
from rag_eval_pipeline.reporting.trust import TASKS
from rag_eval_pipeline.workspace import Workspace

NIGHTS_WITH_QUESTIONS = 3  # a pair; of older runs the report keeps the figures, and each question's scores
PICTURES_A_BENCHMARK = 60
PICTURE_BYTES_A_BENCHMARK = 4_000_000

_ASSETS = ("style.css", "colours.js", "page.js", "table.js", "question.js")


def write_site(workspace: Workspace, comparisons: Comparisons | None = None) -> SiteFolder:
    """Writes the site into `data/reports` and takes away the pages of what is gone.

    Equal results give equal bytes; nothing in a page says when it was written.

    Args:
        workspace: Where.
        comparisons: Of the workspace as it is now; made when left out.
    """
    site = SiteFolder(workspace.reports)
    morning = read_morning(workspace, comparisons)
    for name in _ASSETS:
        site.write(f"assets/{name}", files(__package__).joinpath("assets", name).read_bytes())
    nights: dict[str, QuestionNight] = {}
    shelf = DatasetShelf(morning)
    for benchmark in morning.benchmarks:
        pictures: dict[str | None, PagePictures] = {}
        for pair in sorted(morning.by_pair):
            if pair[0] == benchmark:
                nights |= _write_pair(site, morning, pair, shelf, pictures)
        write_benchmark(site, morning, benchmark)
    asked = {one: _asked(workspace, one) for one in _with_questions(morning)}
    questions = {one: found.query_results for one, found in asked.items() if found.query_results}
    for row in morning.comparisons:
        if row.verdicts:
            write_comparison(site, morning, row, nights, questions)
    figures = met_figures(morning, asked.values())
    site.write("meanings.js", data_script("meanings", meanings_value(figures)))
    site.write("glossary.html", glossary_page(figures))
    data = data_part(morning)
    site.write("report.json", msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")
    site.write("leaderboard.sheet.csv", leaderboard_sheet(morning))
    site.write("index.html", overview_page(morning, data))
    site.close()
    return site


def _write_pair(
    site: SiteFolder,
    morning: Morning,
    pair: Pair,
    shelf: DatasetShelf,
    pictures: dict[str | None, PagePictures],
) -> dict[str, QuestionNight]:
    """Writes the runs of a pair, and its questions over nights; returns the nights that comparisons look at."""
    workspace = morning.workspace
    headers = morning.by_pair[pair]
    nights = [read_question_night(workspace, header) for header in headers]
    before: QuestionNight | None = None
    last = morning.nights[pair][-1].evaluation_id
    for place, header in enumerate(headers):
        if place and headers[place - 1].evaluation_id not in morning.reruns:
            before = nights[place - 1]
        is_full, is_newest = place >= len(headers) - NIGHTS_WITH_QUESTIONS, header.evaluation_id == last
        key = _key(morning, header, nights[place], before, is_full=is_full, is_newest=is_newest)
        if site.is_made(header.evaluation_id, key):
            continue
        site.making(header.evaluation_id, key)
        if is_full:
            run = read_run(workspace, header, shelf)
            drawing = None
            if is_newest and run.dataset.has_corpus:
                corpus = header.fingerprints.get("corpus")
                drawing = pictures.setdefault(
                    corpus,
                    PagePictures(
                        site.root, workspace.benchmark(pair[0]).corpus, run.dataset.texts,
                        files_max=PICTURES_A_BENCHMARK, bytes_max=PICTURE_BYTES_A_BENCHMARK,
                    ),
                )  # fmt: skip
            write_run(site, morning, run, night=nights[place], before=before, pictures=drawing)
            site.made(is_whole=not run.lost)
        else:
            write_run_page(site, morning, header)
            site.made()
    site.write(
        f"nights/{pair[0]}.{pair[1]}.js",
        data_script(
            "history", nights_value([night for night in nights if night.header.evaluation_id not in morning.reruns])
        ),
    )
    return {night.header.evaluation_id: night for night in nights}


def _with_questions(morning: Morning) -> list[str]:
    """Evaluations whose questions have pages."""
    return [h.evaluation_id for own in morning.by_pair.values() for h in own[-NIGHTS_WITH_QUESTIONS:]]


def _asked(workspace: Workspace, evaluation_id: str) -> Asked:
    from rag_eval_pipeline.evaluation.publishing import results_path

    try:
        return read_questions(results_path(workspace, evaluation_id))
    except (msgspec.MsgspecError, FileNotFoundError):
        return Asked()


def _key(
    morning: Morning,
    header: ResultsHeader,
    night: QuestionNight,
    before: QuestionNight | None,
    *,
    is_full: bool,
    is_newest: bool,
) -> str:
    """What a run's pages are made from; equal keys stand for equal pages."""
    stamp = morning.stamps.get(header.benchmark)
    parts = [
        code_digest(), registry_digest(), night.digest, before.digest if before else "", is_full, is_newest,
        [morning.trust.doubt(header, name) for name in TASKS], morning.systems.index(header.system),
        morning.reruns.get(header.evaluation_id),
        (stamp.dataset_fingerprint, stamp.corpus_fingerprint) if stamp and is_full else None,
    ]  # fmt: skip
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def index_path(workspace: Workspace) -> Path:
    """The first page."""
    return workspace.reports / "index.html"
