"""The pages of real evaluations: complete, equal for equal inputs, and damage costs only its own page."""

import csv
import hashlib
import io
import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest

from rag_eval_pipeline.cli import main
from rag_eval_pipeline.monitoring.history import FILE, read_history
from rag_eval_pipeline.monitoring.regressions import write_comparisons
from rag_eval_pipeline.site.display_text import milliseconds_range
from rag_eval_pipeline.site.page_writer import STATE, SiteFolder
from rag_eval_pipeline.site.report_state import RECORD
from rag_eval_pipeline.site.site import write_report, write_site
from rag_eval_pipeline.workspace import Workspace
from tests.site.conftest import value_of

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"


def newest(workspace, benchmark=RAILWAY, system="embedded"):
    return read_history(workspace).by_pair[benchmark, system][-1].evaluation_id


def details(workspace, run):
    files = sorted((workspace.reports / "runs" / run / "data").glob("details-*.js"))
    return {one["id"]: one for path in files for one in value_of(path)}


def digests(workspace):
    files = sorted(p for p in workspace.reports.rglob("*") if p.is_file())
    return {str(p.relative_to(workspace.reports)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def edit(path, change):
    results = json.loads(path.read_text())
    change(results)
    path.write_text(json.dumps(results))


def test_site_of_equal_results_is_equal_and_is_not_written_again(reported):
    first = digests(reported)

    assert write_site(reported).written == 0
    assert digests(reported) == first
    shutil.rmtree(reported.reports)
    write_site(reported, write_comparisons(reported))
    assert digests(reported) == first


def test_site_draws_a_question_that_was_asked_for_from_then_on(reported):
    run = newest(reported)
    asked = next(query_id for query_id, one in details(reported, run).items() if "pictures" not in one)

    for ids in ([asked], ()):
        write_site(reported, asked=ids)
        assert details(reported, run)[asked]["pictures"]


@pytest.mark.fault(42)
def test_site_has_a_page_for_everything_without_dead_links_or_inline_code(site):
    root = site.reports

    pages = [name + part for name in (OBSERVATORY, RAILWAY) for part in ("", ".audit")]
    assert sorted(p.stem for p in root.glob("benchmarks/*.html")) == sorted(pages)
    assert len(list(root.glob("runs/*/index.html"))) == len(list(root.glob("runs/*/question.html"))) == 5
    assert (root / f"comparisons/{RAILWAY}.embedded-weak.against.embedded.html").exists()
    assert list(root.glob("pages/*.png"))
    for page in root.rglob("*.html"):
        html = page.read_text()
        for target in re.findall(r'(?:href|src|data-src|data-history|data-meanings)="([^"#?]+)', html):
            assert (page.parent / unquote(target)).resolve().is_file(), (page, target)
        assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
        assert re.findall(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|<style", html) == []


def test_site_question_has_answer_claims_citations_passages_pictures_and_cost(site):
    found = details(site, newest(site))
    assert len(found) == 40
    shown = next(one for one in found.values() if one.get("pictures") and one.get("claims") and one.get("difference"))
    results = json.loads(site.results_file(newest(site)).read_text())
    row = next(row for row in results["query_results"] if row["query_id"] == shown["id"])
    assert "".join(text for text, *_ in shown["answer"]) == row["generated_answer"]
    assert shown["gold"]
    assert [one["rank"] for one in shown["passages"]] == sorted(one["rank"] for one in shown["passages"])
    assert len(shown["citations"]) == len(row["citations"])
    assert dict(shown["scores"]) == row["individual_metrics"]
    label, meaning, heading = value_of(site.reports / "meanings.js")["ndcg@10"]
    assert (label, "top 10" in meaning, meaning[-17:], heading) == ("nDCG@10", True, "Higher is better.", "Retrieval")
    assert "Latency" in dict(shown["costs"])
    document, page, src, width, height, gold, cited, nearest, retrieved = shown["pictures"][0]
    assert not nearest  # the benchmark states the place
    assert not retrieved  # the system cites
    assert (site.reports / src).read_bytes().startswith(b"\x89PNG")
    for x, y, w, h in [*gold, *cited]:
        assert 0 <= x < x + w <= width
        assert 0 <= y < y + h <= height


def test_site_run_shows_latencies_with_their_limits_and_doubts_an_uncalibrated_judge(site):
    name = newest(site)

    limits = json.loads(site.results_file(name).read_text())["performance_metrics"]["latency_intervals"]
    low, high = limits["p50"]
    assert limits["p99"] is None  # of 40 questions
    page = (site.reports / f"runs/{name}/index.html").read_text()
    assert f"({milliseconds_range((low, high), ' to ')})" in page
    assert 'class="doubted" title="not calibrated' in page


def test_site_draws_the_pages_of_the_newest_run_and_of_the_one_it_is_compared_with(site):
    first, second = (header.evaluation_id for header in read_history(site).by_pair[RAILWAY, "embedded"])

    drawn = {run: {name for name, one in details(site, run).items() if one.get("pictures")} for run in (first, second)}

    assert drawn[first] == drawn[second]
    assert len(drawn[second]) > 10
    earlier = next(iter(details(site, second).values()))["earlier"]
    assert (earlier["run"], earlier["is_same"]) == (first, True)  # the system gives the same answers again


def test_site_has_each_question_for_all_systems_with_the_nights_of_each_answer(site):
    first, second = (header.evaluation_id for header in read_history(site).by_pair[RAILWAY, "embedded"])
    file = value_of(site.reports / f"nights/{RAILWAY}.answers-000.js")

    assert {name: one["run"] for name, one in file["systems"].items()} == {
        "embedded": second, "embedded-weak": newest(site, system="embedded-weak"),
    }  # fmt: skip
    assert [night[0] for night in file["systems"]["embedded"]["nights"]] == [first, second]
    of = file["questions"]["0"]["systems"]["embedded"]
    assert [nights for _, _, nights in of["answers"]] == [[0, 1]]
    results = json.loads(site.results_file(second).read_text())["query_results"][0]
    assert of["scores"][0] == round(results["individual_metrics"]["f1"], 3)


def test_site_question_has_its_nights_in_order(site):
    history = value_of(site.reports / f"nights/{RAILWAY}.embedded.js")
    runs = [header.evaluation_id for header in read_history(site).by_pair[RAILWAY, "embedded"]]
    assert [night for night, _ in history["nights"]] == runs
    results = json.loads(site.results_file(runs[0]).read_text())["query_results"]
    f1 = [None if (value := row["individual_metrics"]["f1"]) is None else round(value, 3) for row in results]
    assert [nights[0] for nights in history["values"][0]] == f1


def test_site_question_whose_text_changed_has_no_score_of_the_night_before(reported):
    runs = [header.evaluation_id for header in read_history(reported).by_pair[RAILWAY, "embedded"]]
    edit(reported.results_file(runs[0]), lambda r: r["query_results"][3].update(query_text="Another question?"))

    write_site(reported)

    history = value_of(reported.reports / f"nights/{RAILWAY}.embedded.js")
    assert history["values"][0][3][0] is None
    assert history["values"][0][3][1] is not None
    table = value_of(reported.reports / f"runs/{runs[1]}/data/questions.js")
    [changes] = [column["values"] for column in table["columns"] if column["name"] == "change"]
    assert (changes[3], changes[4]) == (None, 0)


@pytest.mark.fault(41)
def test_site_is_written_again_only_where_results_changed_and_its_sheet_has_no_formulas(reported):
    before = digests(reported)
    run = newest(reported, OBSERVATORY)
    (reported.history / FILE).unlink()  # or the change would be named as damage on other pages
    edit(reported.results_file(run), lambda r: r["query_results"][0].update(generated_answer="=HYPERLINK(1)"))

    write_site(reported)

    changed = {name for name, digest in digests(reported).items() if before.get(name) != digest} - {STATE}
    comparison = f"comparisons/{OBSERVATORY}.embedded-weak.against.embedded.js"
    answers = {f"nights/{OBSERVATORY}.answers-000.js", f"comparisons/{OBSERVATORY}.systems.embedded.js"}
    assert changed == {f"runs/{run}/data/questions.js", f"runs/{run}/questions.csv", comparison, *answers}
    rows = list(csv.DictReader(io.StringIO((reported.reports / f"runs/{run}/questions.csv").read_text("utf-8-sig"))))
    assert (len(rows), rows[0]["answer"]) == (16, "'=HYPERLINK(1)")
    asked = json.loads(next(reported.evaluation_datasets.glob(f"{OBSERVATORY}*")).read_text())["queries"][0]
    assert rows[0]["source_id"] == asked["metadata"].get("source_id", asked["query_id"])
    assert asked["ground_truth_answer"] in rows[0]["gold_answer"]
    assert float(rows[0]["f1"]) >= 0


def test_site_leaves_out_systems_that_are_gone(reported):
    reported.system_file("embedded-weak").unlink()

    write_site(reported)

    assert len(list(reported.reports.glob("runs/*"))) == 3
    assert not (reported.reports / f"comparisons/{RAILWAY}.embedded-weak.against.embedded.html").exists()
    assert "embedded-weak" not in (reported.reports / "index.html").read_text()


def test_report_json_has_the_four_parts_of_the_specification(site):
    report = json.loads((site.reports / "report.json").read_text())

    assert list(report) == ["summary", "visualizations", "analysis", "recommendations"]
    pairs = [(one["benchmark"], one["system"]) for one in report["summary"]["pairs"]]
    assert pairs == [(name, system) for name in (OBSERVATORY, RAILWAY) for system in ("embedded", "embedded-weak")]
    f1 = next(one for one in report["visualizations"] if one["title"] == f"f1 of embedded on {RAILWAY}")
    assert len(f1["values"]) == len(f1["nights"]) == 2
    # 8 unanswerable questions, all of which the weak system answers
    found = {(one["kind"], one["benchmark"], one["system"]): one for one in report["analysis"]["issues"]}
    assert "8 of 8 questions" in found["invented", RAILWAY, "embedded-weak"]["finding"]
    # A judge that is not calibrated decides nothing.
    assert report["summary"]["pairs"][0]["metrics"]["judged_correct"]["doubt"].startswith("not calibrated")
    texts = " ".join(one["text"] for one in report["recommendations"])
    assert "rag-eval calibrate" in texts
    assert "The judge's metrics (Judged correct) decide nothing on" in texts
    assert "judged" not in texts


@pytest.mark.fault(68)
def test_site_names_damage_and_shows_the_rest(reported):
    older, run = (header.evaluation_id for header in read_history(reported).by_pair[RAILWAY, "embedded"])
    weak, small = newest(reported, system="embedded-weak"), newest(reported, OBSERVATORY)
    shutil.rmtree(reported.runs / older)
    (reported.runs / run / "responses.parquet").write_bytes(b"PAR1")
    (reported.runs / weak / "judgements.jsonl").write_text("{")
    edit(reported.results_file(small), lambda results: results.update(query_results=[{"query_id": 7}]))
    for path in reported.evaluation_datasets.glob(f"{RAILWAY}*"):
        path.write_text(path.read_text() + " ")
    reported.benchmark(RAILWAY).pages.write_bytes(b"")
    for path in reported.benchmark(OBSERVATORY).corpus.glob("*.pdf"):
        path.unlink()
    (reported.reports / STATE).unlink()  # else what was made before the damage is kept

    root = write_report(reported).parent

    pages = {name: (root / f"runs/{name}/index.html").read_text() for name in (older, run, weak, small)}
    assert len(list(root.glob("runs/*/index.html"))) == 5
    for name in (older, run, weak):
        assert "The run&#39;s folder is gone or damaged" in pages[name]
        assert "The dataset has changed since this run" in pages[name]
        assert "The corpus has changed since this run" in pages[name]
    assert "The questions of this run cannot be read" in pages[small]


def test_site_keeps_the_pages_of_a_run_whose_folder_was_pruned(reported):
    before = digests(reported)
    run = newest(reported)
    shutil.rmtree(reported.runs / run)

    write_site(reported)

    after = digests(reported)
    assert {name: after.get(name) for name in before if run in name} == {n: d for n, d in before.items() if run in n}


def test_site_of_an_empty_workspace(tmp_path):
    assert "0 benchmarks, 0 systems, 0 nights" in write_report(Workspace(tmp_path)).read_text()


def test_site_has_one_sentence_for_first_evaluations(evaluated):
    for (benchmark, _), [header] in read_history(evaluated).by_pair.items():
        if benchmark == RAILWAY:  # the smaller one is enough
            evaluated.results_file(header.evaluation_id).unlink()
            shutil.rmtree(evaluated.runs / header.evaluation_id)
    write_comparisons(evaluated)

    page = write_report(evaluated).read_text()

    assert "Nothing has been compared yet" in page
    assert page.count("this night is the baseline; the next one is compared with it") == 1
    assert "is baseline" not in page


def written(root, files, runs=None):
    site = SiteFolder(root)
    for name, data in files.items():
        site.write(name, data)
    for run, (key, names) in (runs or {}).items():
        if not site.is_made(run, key):
            site.making(run, key)
            for name, data in names.items():
                site.write(name, data)
            site.made()
    site.close()
    return site.written


def test_site_folder_writes_what_changed_and_removes_only_what_it_wrote(tmp_path):
    root, outside = tmp_path / "reports", tmp_path / "precious"
    (root / "runs/x").mkdir(parents=True)
    for path in (root / "leaderboard.json", outside):
        path.write_text("{}")

    assert written(root, {"index.html": b"i", "runs/x/index.html": b"x"}) == 2
    assert written(root, {"index.html": b"I"}) == 1
    assert sorted(p.name for p in root.iterdir()) == [STATE, "index.html", "leaderboard.json"]
    for state in (json.dumps({"files": ["../precious", str(outside)], "runs": {}}), "{"):  # edited, damaged
        (root / STATE).write_text(state)
        assert written(root, {"index.html": b"I"}) == 0
    assert outside.exists()


def test_site_folder_makes_a_run_again_that_was_made_from_something_else_or_lost_a_file(tmp_path):
    page = tmp_path / "runs/r1.html"
    runs = {"r1": ("key", {"runs/r1.html": b"1"})}
    written(tmp_path, {}, runs)
    page.write_bytes(b"as it was")

    assert (written(tmp_path, {}, runs), page.read_bytes()) == (0, b"as it was")
    assert written(tmp_path, {}, {"r1": ("other key", {"runs/r1.html": b"2"})}) == 1
    page.unlink()
    assert written(tmp_path, {}, {"r1": ("other key", {"runs/r1.html": b"2"})}) == 1


UNREADABLE = Path("/proc/self/mem")  # opens, and cannot be read: EIO at its beginning


def dataset(workspace):
    return next(path for path in workspace.evaluation_datasets.rglob("*.json") if OBSERVATORY in str(path))


@pytest.fixture
def small(reported):
    """A workspace with the runs of one benchmark, the smaller one, whose report is made in half a second."""
    for name, pair in read_history(reported).by_pair.items():
        for run in pair if RAILWAY in name else ():
            reported.results_file(run.evaluation_id).unlink()
            shutil.rmtree(reported.runs / run.evaluation_id)
    return reported


@pytest.fixture
def report(monkeypatch, capsys):
    """`rag-eval report` as a shell sees it: exit code and standard error."""

    def run(workspace):
        monkeypatch.setattr("sys.argv", ["rag-eval", "report", "--workspace", str(workspace.root)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, capsys.readouterr().err

    return run


@pytest.mark.skipif(not UNREADABLE.exists(), reason="Only Linux has a file that opens and cannot be read.")
def test_report_ends_at_a_read_error_and_keeps_nothing_of_it(small, report):
    folder = small.runs / newest(small, OBSERVATORY)
    files = [folder / name for name in ("answer_scores.parquet", "responses.parquet", "evaluation.json")]
    files += [small.results_file(newest(small, OBSERVATORY)), dataset(small)]
    assert report(small)[0] == 0
    before = digests(small)

    for path in files:
        kept = path.rename(path.with_name("kept"))
        path.symlink_to(UNREADABLE)
        (small.reports / STATE).unlink(missing_ok=True)  # so that all pages are made anew
        code, error = report(small)
        assert (code, "[os_error]" in error) == (2, True), path
        path.unlink()
        kept.rename(path)

    assert report(small)[0] == 0
    after = digests(small)
    assert after.pop(RECORD) != before.pop(RECORD)  # it has the times of the files that were moved
    assert after == before


def test_report_shows_gold_answers_again_when_a_missing_dataset_is_back(small, report):
    write_site(small)
    before = digests(small)
    path = dataset(small)
    kept = path.rename(path.with_name("kept"))
    page = small.reports / "runs" / newest(small, OBSERVATORY) / "index.html"
    results = small.results_file(newest(small, OBSERVATORY))
    results.write_bytes(results.read_bytes().rstrip() + b"\n\n")  # so that its pages are made anew

    assert report(small)[0] == 0
    assert "The dataset has changed since this run" in page.read_text()
    assert write_site(small).written == 0
    kept.rename(path)
    report(small)

    assert "The dataset has changed since this run" not in page.read_text()
    assert before.keys() <= digests(small).keys()
