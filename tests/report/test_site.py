"""The pages of real evaluations: all there is is shown, equal inputs give equal bytes, damage costs its own page."""

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
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.evaluation.results import results_path
from rag_eval_pipeline.report.render import STATE, SiteFolder
from rag_eval_pipeline.report.site import write_report, write_site
from rag_eval_pipeline.report.text import milliseconds
from rag_eval_pipeline.reporting.history import FILE, history_folder, read_history
from rag_eval_pipeline.reporting.regressions import write_comparisons

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"


def newest(workspace, benchmark=RAILWAY, system="embedded"):
    return read_history(workspace).by_pair[benchmark, system][-1].evaluation_id


def value_of(path):
    """What a data file hands to its page."""
    text = path.read_text()
    return json.loads(text[text.index(",") + 1 : text.rindex(")")])


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


def test_site_of_equal_results_is_equal_and_is_not_written_again(evaluated):
    first = digests(evaluated)

    assert write_site(evaluated).written == 0
    assert digests(evaluated) == first
    shutil.rmtree(evaluated.reports)
    write_site(evaluated)
    assert digests(evaluated) == first


def test_site_has_a_page_for_everything_without_dead_links_or_inline_code(evaluated):
    index = write_report(evaluated)
    root = index.parent

    assert index == evaluated.reports / "index.html"
    assert sorted(p.stem for p in root.glob("benchmarks/*.html")) == [OBSERVATORY, RAILWAY]
    assert len(list(root.glob("runs/*/index.html"))) == len(list(root.glob("runs/*/question.html"))) == 4
    assert (root / f"comparisons/{RAILWAY}.embedded-weak.against.embedded.html").exists()
    assert list(root.glob("pages/*.png"))
    for page in root.rglob("*.html"):
        html = page.read_text()
        for target in re.findall(r'(?:href|src|data-src|data-history)="([^"#]+)', html):
            assert (page.parent / unquote(target)).resolve().is_file(), (page, target)
        assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
        assert re.findall(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|<style", html) == []


def test_site_question_has_answer_claims_citations_passages_pictures_and_cost(evaluated):
    write_site(evaluated)

    found = details(evaluated, newest(evaluated))
    assert len(found) == 40
    shown = next(one for one in found.values() if one.get("pictures") and one.get("claims") and one.get("difference"))
    results = json.loads(results_path(evaluated, newest(evaluated)).read_text())
    row = next(row for row in results["query_results"] if row["query_id"] == shown["id"])
    assert "".join(text for text, _, _ in shown["answer"]) == row["generated_answer"]
    assert shown["gold"]
    assert [one["rank"] for one in shown["passages"]] == sorted(one["rank"] for one in shown["passages"])
    assert len(shown["citations"]) == len(row["citations"])
    assert dict(shown["scores"]) == row["individual_metrics"]
    assert "Latency" in dict(shown["costs"])
    document, page, src, width, height, gold, cited = shown["pictures"][0]
    assert (evaluated.reports / src).read_bytes().startswith(b"\x89PNG")
    for x, y, w, h in [*gold, *cited]:
        assert 0 <= x < x + w <= width
        assert 0 <= y < y + h <= height


def test_site_run_shows_latencies_with_their_limits(evaluated):
    write_site(evaluated)
    name = newest(evaluated)

    limits = json.loads(results_path(evaluated, name).read_text())["performance_metrics"]["latency_intervals"]
    low, high = limits["p50"]
    assert limits["p99"] is None  # of 40 questions
    page = (evaluated.reports / f"runs/{name}/index.html").read_text()
    assert f"({milliseconds(low)} to {milliseconds(high)})" in page
    header = next(h for h in read_history(evaluated).by_pair[RAILWAY, "embedded"] if h.evaluation_id == name)
    assert header.metric("latency_p50_ms").confidence_interval == (low, high)


def test_site_question_has_its_nights_in_order(evaluated):
    write_site(evaluated)

    history = value_of(evaluated.reports / f"nights/{RAILWAY}.embedded.js")
    runs = [header.evaluation_id for header in read_history(evaluated).by_pair[RAILWAY, "embedded"]]
    assert [night for night, _ in history["nights"]] == runs
    results = json.loads(results_path(evaluated, runs[0]).read_text())["query_results"]
    f1 = [None if (value := row["individual_metrics"]["f1"]) is None else round(value, 3) for row in results]
    assert [nights[0] for nights in history["values"][0]] == f1


def test_site_question_whose_text_changed_has_no_score_of_the_night_before(evaluated):
    runs = [header.evaluation_id for header in read_history(evaluated).by_pair[RAILWAY, "embedded"]]
    edit(results_path(evaluated, runs[0]), lambda r: r["query_results"][3].update(query_text="Another question?"))

    write_site(evaluated)

    history = value_of(evaluated.reports / f"nights/{RAILWAY}.embedded.js")
    assert history["values"][0][3][0] is None
    assert history["values"][0][3][1] is not None
    table = value_of(evaluated.reports / f"runs/{runs[1]}/data/questions.js")
    names = [column["name"] for column in table["columns"]]
    changes = table["values"][names.index("change")]
    assert changes[3] is None
    assert changes[4] == 0


def test_site_is_written_again_only_where_results_changed(evaluated):
    write_site(evaluated)
    before = digests(evaluated)
    run = newest(evaluated, OBSERVATORY)
    (history_folder(evaluated) / FILE).unlink()  # or the change would be named as damage on other pages
    edit(results_path(evaluated, run), lambda r: r["query_results"][0].update(generated_answer="Another answer."))

    write_site(evaluated)

    changed = {name for name, digest in digests(evaluated).items() if before.get(name) != digest} - {STATE}
    assert changed == {f"runs/{run}/data/questions.js", f"runs/{run}/questions.csv"}


def test_site_leaves_out_systems_that_are_gone(evaluated):
    write_site(evaluated)
    evaluated.system_file("embedded-weak").unlink()

    write_site(evaluated)

    assert len(list(evaluated.reports.glob("runs/*"))) == 3
    assert not (evaluated.reports / f"comparisons/{RAILWAY}.embedded-weak.against.embedded.html").exists()
    assert "embedded-weak" not in (evaluated.reports / "index.html").read_text()


def test_site_shows_an_uncalibrated_judge_in_doubt_and_decides_nothing_by_it(evaluated):
    root = write_report(evaluated).parent

    html = (root / f"runs/{newest(evaluated)}/index.html").read_text()
    assert 'class="doubted" title="not calibrated' in html
    report = json.loads((root / "report.json").read_text())
    judged = report["summary"]["pairs"][0]["metrics"]["judged_correct"]
    assert judged["doubt"].startswith("not calibrated")
    texts = " ".join(one["text"] for one in report["recommendations"])
    assert "rag-eval calibrate" in texts
    assert "judged" not in texts.replace("The judge's figures decide nothing", "")


def test_report_json_has_the_four_parts_of_the_specification(evaluated):
    report = json.loads((write_report(evaluated).parent / "report.json").read_text())

    assert list(report) == ["summary", "visualizations", "analysis", "recommendations"]
    assert [(one["benchmark"], one["system"]) for one in report["summary"]["pairs"]] == [
        (OBSERVATORY, "embedded"), (RAILWAY, "embedded"), (RAILWAY, "embedded-weak"),
    ]  # fmt: skip
    f1 = next(one for one in report["visualizations"] if one["title"] == f"f1 of embedded on {RAILWAY}")
    assert len(f1["values"]) == len(f1["nights"]) == 2
    # 8 unanswerable questions, all of which the weak system answers
    found = {(one["kind"], one["benchmark"], one["system"]): one for one in report["analysis"]["issues"]}
    assert "8 of 8 questions" in found["invented", RAILWAY, "embedded-weak"]["finding"]


def test_site_sheet_has_no_formulas_from_answers(evaluated):
    run = newest(evaluated)
    edit(results_path(evaluated, run), lambda r: r["query_results"][0].update(generated_answer="=HYPERLINK(1)"))

    write_site(evaluated)

    text = (evaluated.reports / f"runs/{run}/questions.csv").read_text("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["answer"] == "'=HYPERLINK(1)"
    assert len(rows) == 40
    assert float(rows[0]["f1"]) >= 0


def removed_run(workspace, run):
    shutil.rmtree(workspace.runs / run)


def damaged_responses(workspace, run):
    (workspace.runs / run / "responses.parquet").write_bytes(b"PAR1")


def damaged_judgements(workspace, run):
    (workspace.runs / run / "judgements.jsonl").write_text("{")


def edited_dataset(workspace, run):
    for path in workspace.evaluation_datasets.glob(f"{RAILWAY}*"):
        path.write_text(path.read_text() + " ")


def no_pages(workspace, run):
    workspace.benchmark(RAILWAY).pages.write_bytes(b"")


def no_corpus(workspace, run):
    for path in workspace.benchmark(RAILWAY).corpus.glob("*.pdf"):
        path.unlink()


def no_questions(workspace, run):
    edit(results_path(workspace, run), lambda r: r.update(query_results=[{"query_id": 7}]))


DAMAGE = [removed_run, damaged_responses, damaged_judgements, edited_dataset, no_pages, no_corpus, no_questions]


@pytest.mark.parametrize("damage", DAMAGE)
def test_site_names_damage_and_shows_the_rest(damage, evaluated):
    run = newest(evaluated)
    damage(evaluated, run)
    (evaluated.reports / STATE).unlink()  # else what was made before the damage is kept

    root = write_report(evaluated).parent

    assert (root / f"runs/{run}/index.html").exists()
    assert len(list(root.glob("runs/*/index.html"))) == 4
    if damage not in (no_corpus, no_questions):
        assert "not shown" in (root / f"runs/{run}/index.html").read_text()


def test_site_keeps_the_pages_of_a_run_whose_folder_was_pruned(evaluated):
    before = digests(evaluated)
    run = newest(evaluated)
    shutil.rmtree(evaluated.runs / run)

    write_site(evaluated)

    after = digests(evaluated)
    assert {name: after.get(name) for name in before if run in name} == {n: d for n, d in before.items() if run in n}


def test_site_of_an_empty_workspace(workspace):
    assert "0 evaluations of 0 benchmarks" in write_report(workspace).read_text()


def test_site_has_one_sentence_for_first_evaluations(workspace):
    for system in ("embedded", "embedded-weak"):
        evaluate(workspace, load_pair(workspace, "cairnmoor-observatory", system))
    write_comparisons(workspace)

    page = write_report(workspace).read_text()

    assert "For 2 pairs this is the first evaluation" in page
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


def test_site_folder_does_not_write_equal_bytes_again(tmp_path):
    assert written(tmp_path, {"a.html": b"a", "b/c.js": b"c"}) == 2
    assert written(tmp_path, {"a.html": b"a", "b/c.js": b"C"}) == 1


def test_site_folder_removes_only_what_it_wrote(tmp_path):
    (tmp_path / "runs/x").mkdir(parents=True)
    (tmp_path / "leaderboard.json").write_text("{}")
    written(tmp_path, {"index.html": b"i", "runs/x/index.html": b"x"})

    written(tmp_path, {"index.html": b"i"})

    assert sorted(p.name for p in tmp_path.iterdir()) == [STATE, "index.html", "leaderboard.json"]


def test_site_folder_keeps_a_run_made_from_the_same(tmp_path):
    runs = {"r1": ("key", {"runs/r1.html": b"1"})}
    written(tmp_path, {}, runs)
    (tmp_path / "runs/r1.html").write_bytes(b"as it was")

    assert written(tmp_path, {}, runs) == 0
    assert (tmp_path / "runs/r1.html").read_bytes() == b"as it was"
    assert written(tmp_path, {}, {"r1": ("other key", {"runs/r1.html": b"2"})}) == 1


def test_site_folder_makes_a_run_again_whose_file_was_removed(tmp_path):
    runs = {"r1": ("key", {"runs/r1.html": b"1"})}
    written(tmp_path, {}, runs)
    (tmp_path / "runs/r1.html").unlink()

    assert written(tmp_path, {}, runs) == 1


def test_site_folder_removes_nothing_outside(tmp_path):
    outside = tmp_path / "precious"
    outside.write_text("x")
    root = tmp_path / "reports"
    root.mkdir()
    (root / STATE).write_text(json.dumps({"files": ["../precious", str(outside)], "runs": {}}))

    written(root, {"a": b"a"})

    assert outside.exists()


def test_site_folder_with_a_damaged_state_writes_the_same(tmp_path):
    written(tmp_path, {"a": b"a"})
    (tmp_path / STATE).write_text("{")

    assert written(tmp_path, {"a": b"a"}) == 0


UNREADABLE = Path("/proc/self/mem")  # opens, and cannot be read: EIO at its beginning
RAILWAY = "skarn-railway"


FILES = {
    "scores": lambda workspace, name: workspace.runs / name / "answer_scores.parquet",
    "answers": lambda workspace, name: workspace.runs / name / "responses.parquet",
    "the evaluation's record": lambda workspace, name: workspace.runs / name / "evaluation.json",
    "results": results_path,
    "the dataset": lambda workspace, name: next(
        path for path in workspace.evaluation_datasets.rglob("*.json") if RAILWAY in str(path)
    ),
}


@pytest.fixture
def report(monkeypatch, capsys):
    """`rag-eval report` as a shell sees it: exit code and what it says on stderr."""

    def run(workspace):
        monkeypatch.setattr("sys.argv", ["rag-eval", "report", "--workspace", str(workspace.root)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, capsys.readouterr().err

    return run


def site_files(workspace):
    files = {path.relative_to(workspace.reports): path for path in workspace.reports.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items()}


@pytest.mark.skipif(not UNREADABLE.exists(), reason="Only Linux has a file that opens and cannot be read.")
@pytest.mark.parametrize("place", FILES.values(), ids=FILES)
def test_report_ends_at_a_read_error_and_keeps_nothing_of_it(place, evaluated, report):
    newest = next(one for one in read_history(evaluated).newest() if one.benchmark == RAILWAY)
    path = place(evaluated, newest.evaluation_id)
    assert report(evaluated) == (0, "")
    before = site_files(evaluated)
    kept = path.rename(path.with_name("kept"))
    path.symlink_to(UNREADABLE)
    (evaluated.reports / ".site.json").unlink()  # so that all pages are made anew

    code, said = report(evaluated)

    assert code == 2
    assert "[os_error]" in said
    path.unlink()
    kept.rename(path)
    assert report(evaluated) == (0, "")
    assert site_files(evaluated) == before


def test_report_shows_gold_answers_again_when_a_missing_dataset_is_back(evaluated, report):
    report(evaluated)
    before = site_files(evaluated)
    path = FILES["the dataset"](evaluated, "")
    kept = path.rename(path.with_name("kept"))
    newest = next(one for one in read_history(evaluated).newest() if one.benchmark == RAILWAY)
    page = evaluated.reports / "runs" / newest.evaluation_id / "index.html"
    results = results_path(evaluated, newest.evaluation_id)
    results.write_bytes(results.read_bytes().rstrip() + b"\n\n")  # so that its pages are made anew

    assert report(evaluated)[0] == 0
    assert "The dataset has changed since this run" in page.read_text()
    kept.rename(path)
    report(evaluated)

    assert "The dataset has changed since this run" not in page.read_text()
    assert set(site_files(evaluated)) == set(before)
