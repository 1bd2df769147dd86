"""The first page opens with what regressed and where to look, and claims nothing that was not compared."""

import html
import re
from xml.etree import ElementTree

import pytest

from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.score_tables import QueryScores, read_scores, write_scores
from rag_eval_pipeline.metrics.intervals import Interval
from rag_eval_pipeline.metrics.verdicts import Segment
from rag_eval_pipeline.monitoring.incidents import comparison_headline
from rag_eval_pipeline.monitoring.leaderboard import Trust, ranked
from rag_eval_pipeline.monitoring.regressions import write_comparisons
from rag_eval_pipeline.monitoring.summary_lines import comparisons_headline
from rag_eval_pipeline.monitoring.verdict_records import Comparison, Verdict
from rag_eval_pipeline.site.badges import GROUNDS, badge, badge_state
from rag_eval_pipeline.site.baseline_runs import interval_text, result_text, verdict_note
from rag_eval_pipeline.site.data import read_report_data
from rag_eval_pipeline.site.site import write_site
from rag_eval_pipeline.workspace import Workspace
from tests.monitoring.made_nights import publish_night, register
from tests.verdict_examples import DROP, FIRST, SMALL, UNCLEAR, replace, verdict_of


@pytest.fixture(scope="module")
def regressed(tmp_path_factory):
    """Six nights of a system that breaks on the last, and one night of a system that is not asked at night."""
    workspace = Workspace(tmp_path_factory.mktemp("regressed"))
    register(workspace, ["harbour"], ["asked", "rarely"])
    workspace.system_file("rarely").write_text("kind: embedded\nnightly: false\n")
    for night, skill in enumerate([0.7] * 5 + [0.2]):
        publish_night(workspace, "harbour", "asked", night, questions=60, skill=skill, number=1)
    publish_night(workspace, "harbour", "rarely", 0, questions=60, skill=0.9, number=2)
    write_site(workspace, write_comparisons(workspace))
    return workspace


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_overview_opens_with_the_regression_its_cause_and_the_worst_questions(regressed):
    page = (regressed.reports / "index.html").read_text()
    card = page[page.index('<li class="incident') : page.index("</details>")]

    assert page.index("1 regression") < page.index('<li class="incident regressed">') < page.index('id="matrix"')
    assert page.count('class="incident') == 1  # a pair, though two metrics fell
    assert re.search(r"Exact match \d\d → \d\d −\d\d\.\d points", text_of(card))
    assert "awaits its rerun" in card
    assert "Look at the answers: Exact match" in text_of(card)
    links = re.findall(r'href="(runs/eval_run_20261006_001/question.html)#\d+"', card)
    assert len(links) == 3
    assert (regressed.reports / links[0]).exists()
    assert "No significant change in" not in page


def test_overview_does_not_call_a_night_quiet_whose_verdicts_are_withheld(tmp_path):
    workspace = Workspace(tmp_path)
    register(workspace, ["harbour"], ["asked"])
    ids = [publish_night(workspace, "harbour", "asked", n, questions=120, skill=0.7, number=1) for n in range(6)]
    evaluation = load_evaluation(workspace, ids[-1])
    lost = [
        QueryScores(row.query_id, "failed", "timeout", {}) for row in read_scores(evaluation.scores("answer_scores"))
    ]
    write_scores(evaluation.scores("retrieval_scores"), lost, [], evaluation_id=ids[-1])

    comparisons = write_comparisons(workspace)
    write_site(workspace, comparisons)

    page = text_of((workspace.reports / "index.html").read_text())
    assert "No verdict in 1 of 1 compared pairs" in page
    assert re.search(
        r"asked on harbour : no verdict on 4 of 8 metrics: 120 questions without a score, and none with one\.", page
    )
    assert "No regression in" not in page
    [row] = [one for one in comparisons.rows if one.kind == "baseline"]
    assert comparison_headline(row)[0] == "no verdict"
    assert comparisons_headline(comparisons.rows) == "**1 pair compared: 1 with verdicts withheld**"


def test_overview_marks_systems_that_are_not_asked_at_night(regressed):
    page = (regressed.reports / "index.html").read_text()

    assert re.search(r"rarely <span class=\"chip\" title=[^>]+>not nightly", page)
    assert "alerts are sent by the aggregation in Dagster" in page  # a regression, and no alert
    assert "overdue" not in page  # five days without a night are what `nightly: false` asks for


def test_report_data_knows_overdue_pairs(regressed, tmp_path):
    assert read_report_data(regressed).overdue == frozenset()
    regressed.system_file("rarely").write_text("kind: embedded\nnightly: true\n")

    assert read_report_data(regressed).overdue == {("harbour", "rarely")}
    regressed.system_file("rarely").write_text("kind: embedded\nnightly: true\nbenchmarks: [other-*]\n")
    assert read_report_data(regressed).overdue == frozenset()
    regressed.system_file("rarely").write_text("kind: [")
    assert read_report_data(regressed).overdue == {("harbour", "rarely")}  # as it was, until somebody says otherwise
    regressed.system_file("rarely").write_text("kind: embedded\nnightly: false\n")


def test_ranked_rows_are_by_benchmark_the_best_first_and_mark_the_best_value(regressed):
    rows = ranked(read_report_data(regressed).newest, Trust(()))

    assert [one.row.system for one in rows] == ["rarely", "asked"]
    assert {"exact_match", "f1"} <= rows[0].best
    assert not {"exact_match", "f1"} & rows[1].best


def test_benchmark_page_has_charts_and_folds_what_is_no_headline(regressed):
    page = (regressed.reports / "benchmarks/harbour.html").read_text()

    assert "Over 6 nights" in page
    assert page.index("Exact match over 6 nights") < page.index("more metrics over nights")
    assert page.index("<summary>All metrics</summary>") < page.index("Citation overlap, pooled")


SVG = "{http://www.w3.org/2000/svg}"


def test_badge_has_state_and_main_metric_of_a_pair(regressed):
    badges = {path.stem: ElementTree.parse(path).getroot() for path in regressed.reports.glob("badges/harbour/*.svg")}

    titles = {name: svg.find(f"{SVG}title").text for name, svg in badges.items()}
    assert re.fullmatch(r"asked on harbour: Exact match 0\.\d{3}, regressed, awaits its rerun", titles["asked"])
    assert re.fullmatch(r"rarely on harbour: Exact match 0\.\d{3}, not compared", titles["rarely"])


STATES = {
    "withheld": (["withheld", "withheld"], "no verdict"),
    "some withheld": (["withheld", "inconclusive"], "no verdict"),
    "too few questions": (["no_verdict"], "no verdict"),
    "compared": (["inconclusive", "equivalent"], "no significant change"),
    "improved": (["improved", "withheld"], "improved"),
}


@pytest.mark.parametrize(("kinds", "state"), STATES.values(), ids=STATES)
def test_badge_state_claims_no_comparison_that_was_withheld(kinds, state):
    verdicts = {str(n): verdict_of(kind) for n, kind in enumerate(kinds)}

    assert badge_state(Comparison(kind="baseline", benchmark="b", old="baseline", new="s", verdicts=verdicts)) == state


REGRESSED = {
    "pending": "regressed, awaits its rerun", "provisional": "regressed, provisional",
    "no_rerun": "regressed, single runs", "confirmed": "regressed", "not_needed": "regressed",
}  # fmt: skip


@pytest.mark.parametrize(("standing", "state"), REGRESSED.items())
def test_badge_state_promises_a_rerun_only_where_one_comes(standing, state):
    verdicts = {"f1": verdict_of("regressed").model_copy(update={"confirmation": standing})}

    found = badge_state(Comparison(kind="baseline", benchmark="b", old="baseline", new="s", verdicts=verdicts))

    assert (found, found in GROUNDS) == (state, True)


def test_badge_is_valid_for_any_text():
    svg = ElementTree.fromstring(badge('<b> & "quotes"', "]]> 'x'", GROUNDS["regressed"]))

    assert svg.get("aria-label") == "<b> & \"quotes\": ]]> 'x'"
    assert [text.text for text in svg.iter(f"{SVG}text")] == ['<b> & "quotes"', "]]> 'x'"]


def luminance(colour):
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("ground", sorted(set(GROUNDS.values())))
def test_badge_text_can_be_read(ground):
    assert 1.05 / (luminance(ground) + 0.05) >= 4.5


def test_run_page_has_the_cause_before_the_numbers_and_tiles_with_a_verdict_first(regressed):
    page = (regressed.reports / "runs/eval_run_20261006_001/index.html").read_text()
    tiles = re.findall(r'<div class="tile ?([a-z ]*)"><dt>([^<]+)', page)

    assert (
        page.index('<p class="cause">Look at')
        < page.index('<th scope="row">Exact match</th>')
        < page.index("p is corrected for")
    )
    assert [way for way, _ in tiles] == sorted((way for way, _ in tiles), key=["worse", "better", "", " idle"].index)
    assert tiles[-2:] == [(" idle", "Failure rate"), (" idle", "Latency p50")]


TARIFFS = Segment(
    column="section", value="tariffs", n_others=193, others_estimate=0.004, others_interval=Interval(-0.03, 0.03)
)  # fmt: skip
NOTES = {
    "confirmed": (Verdict.of(DROP, confirmation="confirmed"), "confirmed by a rerun"),
    "of a segment": (
        Verdict.of(replace(FIRST, segment=TARIFFS), confirmation="no_rerun"), "single runs; the other 193: +0.4 points",
    ),
    "equivalent": (Verdict.of(SMALL), ""),
    "inconclusive": (Verdict.of(UNCLEAR), "detects drops of 2.0 at best"),
    "too few questions": (
        Verdict.of(replace(UNCLEAR, n=16, smallest_drop=None)), "16 questions, 30 are needed; no drops detectable",
    ),
    "0 before and now": (
        Verdict.of(replace(UNCLEAR, metric="exact_match", baseline_mean=0.0, current_mean=0.0)),
        "cannot fall below 0: an answer in sentences equals no gold answer; read F1 and the judge",
    ),
}  # fmt: skip


ALIKE = {"adjusted_interval": Interval(-0.06, -0.06), "is_certain": False}


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (DROP, "adjusted interval −10.4 to −2.3"),
        (replace(DROP, **ALIKE), "95 % −8.9 to −3.1"),  # all units moved alike
        (replace(DROP, **ALIKE | {"is_certain": True}), ""),
        (replace(DROP, adjusted_interval=Interval(-0.05, -0.0001)), "adjusted interval −5.0 to −0.0"),
        (replace(DROP, adjusted_interval=None), ""),
    ],
)
def test_interval_of_a_change_on_a_page_is_never_one_without_width(evidence, text):
    assert interval_text(Verdict.of(evidence)) == text


@pytest.mark.parametrize(("found", "note"), NOTES.values(), ids=NOTES)
def test_verdict_note(found, note):
    assert verdict_note(found) == note


def test_result_is_the_means_with_their_change_or_why_there_is_none():
    few, drop = NOTES["too few questions"][0], NOTES["confirmed"][0]
    assert result_text("f1", few) == "F1: 16 questions, 30 are needed; no drops detectable"
    assert result_text("f1", drop) == "F1 75 → 69 (−6.0 points, p = 3e-9, confirmed by a rerun)"


def test_page_of_two_systems_names_them_and_calls_one_better(regressed):
    page = text_of((regressed.reports / "comparisons/harbour.rarely.against.asked.html").read_text())

    assert re.search(r"On harbour\. rarely: \S+ ; asked: \S+ \.", page)
    assert "Metric Verdict asked → rarely Change Adjusted interval Questions Test Effect Note" in page
    assert re.search(
        r"Exact match better \S+ → \S+ \+\d\d\.\d points \S+ to \S+ \d+ lower, \d+ higher p [=<] \S+", page
    )
    assert "improved" not in page
