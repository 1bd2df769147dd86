"""Write the report: a site of plain files in `data/reports` that opens without a network."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial, reduce
from importlib import resources
from itertools import pairwise
from operator import or_
from pathlib import Path

import msgspec

from rag_eval_pipeline.audit.audit_benchmark import audit_converted
from rag_eval_pipeline.errors import InputError, did_you_mean
from rag_eval_pipeline.evaluation.compared_runs import TASKS
from rag_eval_pipeline.monitoring.history import ResultsHeader
from rag_eval_pipeline.monitoring.regressions import Comparisons
from rag_eval_pipeline.site.answer_files import ANSWER_NIGHTS, write_answers
from rag_eval_pipeline.site.audit_page import Counts, write_audit
from rag_eval_pipeline.site.badges import write_badges
from rag_eval_pipeline.site.baseline_runs import (
    Earlier,
    PairBaseline,
    pair_baseline,
    pair_incident,
    run_banner,
    tile_changes,
)
from rag_eval_pipeline.site.benchmark_page import write_benchmark
from rag_eval_pipeline.site.comparison_page import write_comparison, write_systems
from rag_eval_pipeline.site.data import Pair, ReportData, data_part, read_report_data, recent_alerts
from rag_eval_pipeline.site.display_text import data_script
from rag_eval_pipeline.site.marked_pages import PageImages
from rag_eval_pipeline.site.overview_page import leaderboard_sheet, overview_page
from rag_eval_pipeline.site.page_writer import SiteFolder
from rag_eval_pipeline.site.question_nights import (
    QuestionNight,
    are_all_shown,
    hidden_questions,
    nights_value,
    read_question_night,
)
from rag_eval_pipeline.site.question_table import select_for_images
from rag_eval_pipeline.site.report_state import code_digest, registry_digest
from rag_eval_pipeline.site.run_data import AskedQuestions, DatasetCache, DatasetSources, read_questions, read_run
from rag_eval_pipeline.site.run_page import TILES, metric_meanings, write_run, write_run_page
from rag_eval_pipeline.storage.parquet_files import return_memory
from rag_eval_pipeline.workspace import Workspace

NIGHTS_WITH_QUESTIONS = 3  # of a pair, besides those that verdicts and alerts are about or that are asked for
PICTURES_A_RUN = 30  # runs share the pictures of the same pages
PICTURE_BYTES_A_RUN = 2_500_000

_ASSETS = ("style.css", "questions.css", "page.js", "filter.js", "table.js", "question.js", "labels.js", "audit.js")


def write_site(
    workspace: Workspace,
    comparisons: Comparisons | None = None,
    *,
    asked: Sequence[str] = (),
    listed: Sequence[str] = (),
) -> SiteFolder:
    """Write the site into `data/reports` and remove the pages of what is gone.

    Equal results give equal bytes.

    Args:
        asked: Questions of which the documents' pages are drawn too, from now on.
        listed: Older runs whose questions are listed too, from now on.

    Raises:
        InputError: `no_evaluation` if one of them is not published; `unknown_query`, once all is written, if no
            benchmark that was evaluated has such a question.
    """
    site = SiteFolder(workspace.reports, asked, listed)
    report = read_report_data(workspace, comparisons)
    published = {header.evaluation_id for headers in report.by_pair.values() for header in headers}
    for name in set(listed) - published:
        hint = did_you_mean(name, published)
        raise InputError("no_evaluation", workspace.results, "a published evaluation", found=name, hint=hint)
    for name in _ASSETS:
        site.write(f"assets/{name}", resources.files(__package__).joinpath("assets", name).read_bytes())
    # Before the nights are in memory, as an audit takes as much.
    audited = {
        name: write_audit(site, report, name, partial(audit_converted, workspace, name)) for name in report.benchmarks
    }
    return_memory()
    alerted = {one.alert.evaluation_id for one in recent_alerts(report).shown}
    known: set[str] = set()
    meanings: dict[str, dict[str, tuple[str, str, str]]] = {}
    for benchmark in report.benchmarks:
        meanings |= _write_benchmark(
            site, report, benchmark, audited[benchmark], alerted=alerted, known=known if asked else None
        )
    site.write("meanings.js", data_script("meanings", reduce(or_, (meanings[name] for name in sorted(meanings)), {})))
    data = data_part(report)
    site.write("report.json", msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")
    site.write("leaderboard.sheet.csv", leaderboard_sheet(report))
    write_badges(site, report)
    site.write("index.html", overview_page(site, report, data))
    site.asked = [name for name in site.asked if name in known or name not in asked]
    site.close()
    for name in asked:
        if name not in known:
            expected = "the id of a question of a benchmark that was evaluated"
            raise InputError("unknown_query", "--question", expected, found=name, hint=did_you_mean(name, known))
    return site


def _write_benchmark(
    site: SiteFolder,
    report: ReportData,
    benchmark: str,
    audited: Counts | None,
    *,
    alerted: Collection[str | None],
    known: set[str] | None,
) -> dict[str, dict[str, tuple[str, str, str]]]:
    """Write all pages of a benchmark; its nights are in memory no longer than that.

    Args:
        audited: As for `write_benchmark`.
        alerted: Runs with an alert.
        known: Gets the names of its questions, unless it is None.

    Returns:
        The meanings of the metrics of each run whose questions have pages.
    """
    nights: dict[str, QuestionNight] = {}
    full: set[str] = set()
    hidden: dict[str, frozenset[str]] = {}
    datasets = DatasetCache(report, hidden)

    @lru_cache(2)  # there is no room for all runs
    def questions(name: str) -> AskedQuestions:
        return read_questions(report.workspace.results_file(name), hidden[benchmark])

    pairs = [pair for pair in sorted(report.by_pair) if pair[0] == benchmark]
    baselines = {pair[1]: pair_baseline(report, pair) for pair in pairs}
    for pair in pairs:
        chosen = _runs_with_questions(report, pair, baselines[pair[1]], {*alerted, *site.listed})
        nights |= _read_nights(report, pair, baselines[pair[1]], chosen)
        full |= chosen
    hidden[benchmark] = _hidden_questions(report, benchmark, nights, baselines)
    dataset = _newest_dataset(report, benchmark, nights, datasets)
    if known is not None:
        known.update(name for query in dataset.stored for name in (query.query_id, query.display_id))
    n_files = write_answers(site, report, benchmark, nights, baselines, dataset.queries, full, hidden[benchmark])
    for pair in pairs:
        _write_pair(
            site, report, pair, datasets, nights, baselines[pair[1]], full=full, alerted=alerted,
            hidden=hidden[benchmark],
        )  # fmt: skip
        own = [nights[header.evaluation_id] for header in report.nights[pair]]
        history = {**nights_value(own, hidden[benchmark]), "answers": [benchmark, n_files]}
        site.write(f"nights/{pair[0]}.{pair[1]}.js", data_script("history", history))
    systems = write_systems(site, report, benchmark, nights, questions, full, datasets)
    write_benchmark(site, report, benchmark, audited, systems)

    readable = set()
    meanings = {}
    for name in sorted(full):
        found = questions(name)
        meanings[name] = metric_meanings(found.metrics, found.file)
        if found.rows:
            readable.add(name)
    for row in report.comparisons:
        if row.benchmark == benchmark and row.verdicts:
            write_comparison(site, report, row, nights, questions, readable, datasets)
    return meanings


def _runs_with_questions(
    report: ReportData, pair: Pair, baseline: PairBaseline, named: Collection[str | None]
) -> set[str]:
    """Return the runs whose questions have pages: the newest, the last of the baseline, and those that are named."""
    headers = report.by_pair[pair]
    chosen = {header.evaluation_id for header in headers[-NIGHTS_WITH_QUESTIONS:]}
    chosen |= {report.nights[pair][-1].evaluation_id}
    chosen |= {header.evaluation_id for header in headers if header.evaluation_id in named}
    chosen |= {run.evaluation_id for run in baseline.runs[-1:]}
    return chosen


def _read_nights(
    report: ReportData, pair: Pair, baseline: PairBaseline, full: Collection[str]
) -> dict[str, QuestionNight]:
    headers = report.by_pair[pair]
    answered = {header.evaluation_id for header in headers[-ANSWER_NIGHTS:]} | baseline.ids | set(full)
    # The night before a run is compared with it where there is no baseline.
    answered |= {a.evaluation_id for a, b in pairwise(report.nights[pair]) if b.evaluation_id in full}
    return {
        header.evaluation_id: read_question_night(report, header, with_answers=header.evaluation_id in answered)
        for header in headers
    }


def _hidden_questions(
    report: ReportData,
    benchmark: str,
    nights: Mapping[str, QuestionNight],
    baselines: Mapping[str, PairBaseline],
) -> frozenset[str]:
    """Return the questions of a benchmark that no page shows: the least telling ones of a very large one."""
    of_benchmark = [night for night in nights.values() if night.header.benchmark == benchmark]
    if are_all_shown(of_benchmark):
        return frozenset()
    changed = {}
    for system, baseline in baselines.items():
        newest = report.nights[benchmark, system][-1]
        earlier = _earlier(newest, baseline, nights, None)
        changed[newest.evaluation_id] = earlier.changes(nights[newest.evaluation_id]) if earlier else {}
    rows = [row for row in report.comparisons if row.benchmark == benchmark]
    named = [question.query_id for row in rows for questions in row.moved.values() for question in questions]
    causes = [incident.cause for incident in report.incidents if incident.benchmark == benchmark and incident.cause]
    named += [worst.query_id for cause in causes for worst in cause.worst]
    return hidden_questions(of_benchmark, changed, named)


def _newest_dataset(
    report: ReportData, benchmark: str, nights: Mapping[str, QuestionNight], datasets: DatasetCache
) -> DatasetSources:
    """Return the dataset of the benchmark's newest night; empty if it is gone."""
    newest = max((row for row in report.newest if row.benchmark == benchmark), key=lambda row: row.timestamp)
    return datasets.of(newest, nights[newest.evaluation_id].dataset_id)


def _write_pair(
    site: SiteFolder,
    report: ReportData,
    pair: Pair,
    datasets: DatasetCache,
    nights: Mapping[str, QuestionNight],
    baseline: PairBaseline,
    *,
    full: Collection[str],
    alerted: Collection[str | None],
    hidden: Collection[str],
) -> None:
    headers = report.by_pair[pair]
    newest = report.nights[pair][-1]
    pictured_runs = {newest.evaluation_id, *(run.evaluation_id for run in baseline.runs[-1:]), *alerted}
    pictured = _pictured_questions(report, newest, baseline, nights, datasets, hidden, site.asked)
    before: QuestionNight | None = None
    for place, header in enumerate(headers):
        if place and headers[place - 1].evaluation_id not in report.reruns:
            before = nights[headers[place - 1].evaluation_id]
        night = nights[header.evaluation_id]
        earlier = _earlier(header, baseline, nights, before)
        is_full = header.evaluation_id in full
        drawn = pictured if is_full and header.evaluation_id in pictured_runs else []
        key = _key(report, night, earlier, baseline, is_full=is_full, drawn=drawn, hidden=hidden)
        # Pages that were made with the dataset and the corpus stay while these are missing.
        missing = datasets.of(header, night.dataset_id).missing if is_full else ()
        key_now = "-".join([key, *missing])
        # Without the run's folder there are no passages and claims to make its pages from again.
        is_pruned = not (report.workspace.runs / header.evaluation_id).is_dir()
        enough = key.partition("-")[0] if is_pruned else None
        if site.is_made(header.evaluation_id, key, key_now, enough=enough):
            continue
        site.making(header.evaluation_id, key_now)
        if is_full:
            run = read_run(report.workspace, header, datasets, hidden)
            drawing = None
            if drawn and run.dataset.has_corpus:
                drawing = PageImages(
                    site.root, report.workspace.benchmark(pair[0]).corpus, run.dataset.texts,
                    files_max=PICTURES_A_RUN, bytes_max=PICTURE_BYTES_A_RUN,
                )  # fmt: skip
            write_run(
                site, report, run, night=night, earlier=earlier, baseline=baseline, pictures=drawing, pictured=drawn
            )
            site.made(is_whole=not run.is_damaged)
            del run  # before the next one is read
        else:
            write_run_page(site, report, header, baseline=baseline)
            site.made()


def _earlier(
    header: ResultsHeader, baseline: PairBaseline, nights: Mapping[str, QuestionNight], before: QuestionNight | None
) -> Earlier | None:
    """Return what a run's questions are compared with."""
    if baseline.precedes(header):
        label = "the earlier nights" if baseline.provisional else "the baseline"
        return Earlier(label, [nights[run.evaluation_id] for run in baseline.runs])
    return Earlier("the night before", [before]) if before else None


def _pictured_questions(
    report: ReportData,
    newest: ResultsHeader,
    baseline: PairBaseline,
    nights: Mapping[str, QuestionNight],
    datasets: DatasetCache,
    hidden: Collection[str],
    asked: Collection[str],
) -> list[str]:
    """Return the questions of a pair whose pages are drawn: the same ones in all of its pictured runs."""
    pair = newest.benchmark, newest.system
    night, earlier_nights = nights[newest.evaluation_id], report.nights[pair][-2:-1]
    before = nights[earlier_nights[0].evaluation_id] if earlier_nights else None
    queries = datasets.of(newest, night.dataset_id).queries
    outcomes = {
        query_id: night.outcome(query_id, queries.get(query_id)) for query_id in night.given if query_id not in hidden
    }
    incident = pair_incident(report, pair)
    named = [query_id for query_id, query in queries.items() if query_id in asked or query.display_id in asked]
    named += [worst.query_id for worst in incident.cause.worst] if incident and incident.cause else []
    return select_for_images(night, outcomes, _earlier(newest, baseline, nights, before), named)


def _key(
    report: ReportData,
    night: QuestionNight,
    earlier: Earlier | None,
    baseline: PairBaseline,
    *,
    is_full: bool,
    drawn: Sequence[str],
    hidden: Collection[str],
) -> str:
    """Return a digest of what a run's pages show of the run, a hyphen, and one of what they compare it with."""
    header = night.header
    stamp = report.stamps.get(header.benchmark)
    own = [
        code_digest("site"), registry_digest(), night.digest, is_full,
        [(report.trust.doubt(header, name), report.trust.corrected(header, name)) for name in TASKS],
        report.systems.index(header.system), sorted(report.labelled(header.evaluation_id)),
        report.reruns.get(header.evaluation_id),
        (stamp.dataset_fingerprint, stamp.corpus_fingerprint) if stamp and is_full else None,
    ]  # fmt: skip
    before = [(one.digest, one.rule.is_judge_trusted) for one in earlier.nights] if earlier else ()
    compared = [
        (earlier.label, before) if earlier else (), drawn, sorted(hidden),
        run_banner(report, header, baseline), tile_changes(report, header, baseline, TILES),
    ]  # fmt: skip
    return "-".join(hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest() for parts in (own, compared))


def write_report(
    workspace: Workspace,
    comparisons: Comparisons | None = None,
    *,
    asked: Sequence[str] = (),
    listed: Sequence[str] = (),
) -> Path:
    """Write the site and return the path of its first page; arguments as for `write_site`."""
    write_site(workspace, comparisons, asked=asked, listed=listed)
    return workspace.reports / "index.html"
