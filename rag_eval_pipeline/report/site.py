"""Write the report: a site of plain files in `data/reports` that opens without a network."""

import hashlib
from importlib import resources
from pathlib import Path

import msgspec

from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.report.benchmark_page import write_benchmark
from rag_eval_pipeline.report.comparison_page import write_comparison
from rag_eval_pipeline.report.data import Pair, ReportData, data_part, read_report_data
from rag_eval_pipeline.report.metrics import registry_digest
from rag_eval_pipeline.report.overview_page import leaderboard_sheet, overview_page
from rag_eval_pipeline.report.page_images import PageImages
from rag_eval_pipeline.report.render import SiteFolder, code_digest
from rag_eval_pipeline.report.run_page import metric_meanings, write_run, write_run_page
from rag_eval_pipeline.report.runs import (
    DatasetCache,
    QuestionNight,
    nights_value,
    read_question_night,
    read_questions,
    read_run,
)
from rag_eval_pipeline.report.text import data_script
from rag_eval_pipeline.reporting.comparison import TASKS
from rag_eval_pipeline.reporting.history import ResultsHeader
from rag_eval_pipeline.reporting.regressions import Comparisons
from rag_eval_pipeline.workspace import Workspace

NIGHTS_WITH_QUESTIONS = 3  # of a pair; older runs have their metrics, and each question's scores
PICTURES_A_BENCHMARK = 60
PICTURE_BYTES_A_BENCHMARK = 4_000_000

_ASSETS = ("style.css", "page.js", "table.js", "question.js")


def write_site(workspace: Workspace, comparisons: Comparisons | None = None) -> SiteFolder:
    """Write the site into `data/reports` and remove the pages of what is gone.

    Equal results give equal bytes.

    Args:
        comparisons: Of the workspace as it is now; made when left out.
    """
    site = SiteFolder(workspace.reports)
    report = read_report_data(workspace, comparisons)
    for name in _ASSETS:
        site.write(f"assets/{name}", resources.files(__package__).joinpath("assets", name).read_bytes())
    nights: dict[str, QuestionNight] = {}
    datasets = DatasetCache(report)
    for benchmark in report.benchmarks:
        pictures: dict[str | None, PageImages] = {}
        for pair in sorted(report.by_pair):
            if pair[0] == benchmark:
                nights |= _write_pair(site, report, pair, datasets, pictures)
        write_benchmark(site, report, benchmark)
    shown = [h.evaluation_id for runs in report.by_pair.values() for h in runs[-NIGHTS_WITH_QUESTIONS:]]
    files = {name: read_questions(results_path(workspace, name)) for name in shown}
    questions = {name: file.query_results for name, file in files.items() if file.query_results}
    for row in report.comparisons:
        if row.verdicts:
            write_comparison(site, report, row, nights, questions)
    site.write("meanings.js", data_script("meanings", metric_meanings(files.values())))
    data = data_part(report)
    site.write("report.json", msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")
    site.write("leaderboard.sheet.csv", leaderboard_sheet(report))
    site.write("index.html", overview_page(site, report, data))
    site.close()
    return site


def _write_pair(
    site: SiteFolder,
    report: ReportData,
    pair: Pair,
    datasets: DatasetCache,
    pictures: dict[str | None, PageImages],
) -> dict[str, QuestionNight]:
    """Write the runs of a pair and its questions over nights; return its nights by evaluation."""
    workspace = report.workspace
    headers = report.by_pair[pair]
    nights = [read_question_night(workspace, header) for header in headers]
    before: QuestionNight | None = None
    last = report.nights[pair][-1].evaluation_id
    for place, header in enumerate(headers):
        if place and headers[place - 1].evaluation_id not in report.reruns:
            before = nights[place - 1]
        is_full, is_newest = place >= len(headers) - NIGHTS_WITH_QUESTIONS, header.evaluation_id == last
        key = _key(report, header, nights[place], before, is_full=is_full, is_newest=is_newest)
        if site.is_made(header.evaluation_id, key):
            continue
        site.making(header.evaluation_id, key)
        if is_full:
            run = read_run(workspace, header, datasets)
            drawing = None
            if is_newest and run.dataset.has_corpus:
                corpus = header.fingerprints.get("corpus")
                drawing = pictures.setdefault(
                    corpus,
                    PageImages(
                        site.root, workspace.benchmark(pair[0]).corpus, run.dataset.texts,
                        files_max=PICTURES_A_BENCHMARK, bytes_max=PICTURE_BYTES_A_BENCHMARK,
                    ),
                )  # fmt: skip
            write_run(site, report, run, night=nights[place], before=before, pictures=drawing)
            site.made(is_whole=not run.lost)
        else:
            write_run_page(site, report, header)
            site.made()
    own = [night for night in nights if night.header.evaluation_id not in report.reruns]
    site.write(f"nights/{pair[0]}.{pair[1]}.js", data_script("history", nights_value(own)))
    return {night.header.evaluation_id: night for night in nights}


def _key(
    report: ReportData,
    header: ResultsHeader,
    night: QuestionNight,
    before: QuestionNight | None,
    *,
    is_full: bool,
    is_newest: bool,
) -> str:
    """Return a digest of everything that a run's pages are made from."""
    stamp = report.stamps.get(header.benchmark)
    parts = [
        code_digest(), registry_digest(), night.digest, before.digest if before else "", is_full, is_newest,
        [report.trust.doubt(header, name) for name in TASKS], report.systems.index(header.system),
        report.reruns.get(header.evaluation_id),
        (stamp.dataset_fingerprint, stamp.corpus_fingerprint) if stamp and is_full else None,
    ]  # fmt: skip
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def write_report(workspace: Workspace, comparisons: Comparisons | None = None) -> Path:
    """Write the site and return the path of its first page; arguments as for `write_site`."""
    write_site(workspace, comparisons)
    return workspace.reports / "index.html"
