"""A judge is compared with labels: kappa by hand, what calibrates a judge, and the contents of the card."""

import json
import math
import re
from datetime import UTC, datetime
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.evaluation.budget import spent_today
from rag_eval_pipeline.evaluation.judging import BudgetedJudge
from rag_eval_pipeline.formats.model import SCHEMA_VERSION
from rag_eval_pipeline.judges.agreement import Confusion, bias_of, kappa_of
from rag_eval_pipeline.judges.calibration import CalibrationRequest, calibrate
from rag_eval_pipeline.judges.judge_settings import JudgeSettings
from rag_eval_pipeline.judges.judgement import Case, CitedText, Claim, Correctness, Judgement, Support
from rag_eval_pipeline.judges.labels import Label, majority_labels, read_labels
from rag_eval_pipeline.judges.lexical import LexicalJudge
from rag_eval_pipeline.judges.trust_card import card_markdown, is_calibrated, read_trust_cards, write_trust_card
from rag_eval_pipeline.workspace import Workspace

HUMAN = CalibrationRequest("frames", "scripted", "human")


# --- kappa ---


def ends(limits):
    return limits.low, limits.high


def test_kappa_worked_out():
    # 20 both yes, 5 and 10 apart, 15 both no; n = 50.
    # agreed = 35/50 = 0.7; chance = (25*30 + 25*20) / 50^2 = 0.5; kappa = (0.7 - 0.5) / (1 - 0.5) = 0.4
    # Fleiss, Cohen and Everitt: rows .5 .5, columns .6 .4, 1 - kappa = .6
    #   .4 (1 - 1.1 * .6)^2 + .3 (1 - .9 * .6)^2 = .04624 + .06348 = .10972
    #   .6^2 (.1 (.6 + .5)^2 + .2 (.4 + .5)^2) = .36 * .283 = .10188
    #   (.4 - .5 * .6)^2 = .01
    # variance = (.10972 + .10188 - .01) / (50 * .5^2) = .016128
    kappa = kappa_of(Confusion(20, 5, 10, 15))

    assert kappa.value == pytest.approx(0.4, abs=1e-12)
    half = 1.959963984540054 * math.sqrt(0.016128)
    assert ends(kappa.analytic) == pytest.approx((0.4 - half, 0.4 + half), abs=1e-12)
    assert ends(kappa.bootstrap) == pytest.approx(ends(kappa.analytic), abs=0.03)
    widest = min(kappa.analytic.low, kappa.bootstrap.low), max(kappa.analytic.high, kappa.bootstrap.high)
    assert ends(kappa.interval) == widest


def test_kappa_of_equal_verdicts_is_not_certain():
    # Of 100 equal verdicts up to 3.69 may be unlike: -ln(0.025). Half of each kind:
    # agreed = 0.9631, chance = 0.5: kappa = 0.9262
    kappa = kappa_of(Confusion(50, 0, 0, 50))

    assert (kappa.analytic, kappa.bootstrap) == (None, None)
    assert ends(kappa.interval) == pytest.approx((1 - 2 * -math.log(0.025) / 100, 1.0), abs=1e-12)


KAPPAS = {
    #                            labels and judge    kappa   reason
    "opposite verdicts":        ((0, 50, 50, 0),     -1.0,   None),
    "the judge always says yes": ((90, 0, 10, 0),    0.0,    None),
    "nothing":                  ((0, 0, 0, 0),       None,   "nothing_to_compare"),
    "all yes":                  ((9, 0, 0, 0),       None,   "no_variation"),
}  # fmt: skip


@pytest.mark.parametrize(("table", "value", "reason"), KAPPAS.values(), ids=KAPPAS)
def test_kappa_at_its_limits(table, value, reason):
    kappa = kappa_of(Confusion(*table))

    assert (kappa.value, kappa.reason, kappa.interval is None) == (value, reason, value is None)


TABLES = st.builds(Confusion, *[st.integers(0, 300)] * 4)


@given(TABLES)
def test_kappa_is_within_its_interval_and_symmetric(table):
    kappa = kappa_of(table, resamples=200)
    turned = Confusion(*reversed(table))

    if kappa.value is None:
        assert kappa_of(turned, resamples=10).value is None
        return
    a, b, c, d = table
    n, chance = sum(table), Fraction((a + b) * (a + c) + (c + d) * (b + d), sum(table) ** 2)
    assert kappa.value == pytest.approx(float((Fraction(a + d, n) - chance) / (1 - chance)), abs=1e-9)
    assert kappa_of(turned, resamples=10).value == pytest.approx(kappa.value, abs=1e-9)
    assert -1 <= kappa.interval.low <= kappa.interval.high <= 1
    # A percentile interval of a handful may lie beside the value; the analytic one never does.
    if kappa.analytic is not None:
        assert kappa.analytic.low <= kappa.value <= kappa.analytic.high


def test_bias_worked_out():
    # The judge says yes 10 times too often and 5 times too seldom, of 50: (10 - 5) / 50 = 0.1
    # Agresti and Min: n = 52, 10.5 and 5.5: 5/52 +- 1.96 sqrt(16 - 25/52) / 52
    bias = bias_of(Confusion(20, 5, 10, 15))
    half = 1.959963984540054 * math.sqrt(16 - 25 / 52) / 52

    assert bias.value == 0.1
    assert ends(bias.interval) == pytest.approx((5 / 52 - half, 5 / 52 + half), abs=1e-12)
    assert bias_of(Confusion(0, 0, 0, 0)) is None


# --- labels ---

LINES = [
    {"query_id": "1", "task": "correctness", "label": "correct", "annotator": "ada"},
    {"query_id": "1", "task": "support", "label": "conflicting", "claim": "It is red.", "evidence": "It is blue."},
    {"query_id": "2", "task": "refusal", "label": "refused", "note": "clear"},
]


def write_lines(path, lines):
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    return path


TABLE = """query_id,task,label,claim,evidence,annotator,note
1,correctness,correct,,,ada,
1,support,conflicting,It is red.,It is blue.,,
2,refusal,refused,,,,clear
"""
TABLES = {
    "commas":                   TABLE.encode(),
    "semicolons, by Excel":     TABLE.replace(",", ";").replace("\n", "\r\n").encode("utf-8-sig"),
    "cp1252 and its sep= line": f"sep=;\r\n{TABLE.replace(',', ';')}".encode("cp1252"),
    "no column of tasks":       re.sub("task,|correctness,|support,|refusal,", "", TABLE).encode(),
}  # fmt: skip


@pytest.mark.parametrize("data", TABLES.values(), ids=TABLES)
def test_labels_are_read_from_lines_and_from_a_table(data, tmp_path):
    table = tmp_path / "labels.csv"
    table.write_bytes(data)

    assert read_labels(write_lines(tmp_path / "labels.jsonl", LINES)) == read_labels(table)
    assert [label.is_true for label in read_labels(table)] == [True, False, True]


BAD_LABELS = {
    "no label of the task":   ([{**LINES[0], "label": "supported"}],     "bad_format",      1),
    "a number":               ([LINES[2], {**LINES[0], "label": 1}],     "bad_format",      3),
    "a claim of correctness": ([{**LINES[0], "claim": "x"}],             "bad_format",      1),
    "one person twice":       ([LINES[0], {**LINES[0], "label": "incorrect"}], "duplicate_label", 2),
    "an unknown label":       ([{"query_id": "1", "label": "good"}],     "bad_format",      1),
    "nothing":                ([],                                       "no_labels",       None),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "code", "row"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_labels_are_refused(lines, code, row, tmp_path):
    with pytest.raises(InputError) as error:
        read_labels(write_lines(tmp_path / "labels.jsonl", lines))

    assert (error.value.code, error.value.row) == (code, row)


def test_labels_under_other_names_are_refused_with_the_names_that_are_known(tmp_path):
    (tmp_path / "labels.csv").write_text("question,correct\nHow old is it?,yes\n")

    with pytest.raises(InputError, match=r"query_id, task, label.* more errors: correct, query_id, task, label"):
        read_labels(tmp_path / "labels.csv")


@pytest.mark.parametrize(
    ("name", "code"), [("cut.jsonl", "bad_json"), ("labels.txt", "unknown_form"), ("none.csv", "missing_file")]
)
def test_files_of_labels_are_refused(name, code, tmp_path):
    (tmp_path / "cut.jsonl").write_text(json.dumps(LINES[0])[:-1])

    with pytest.raises(InputError) as error:
        read_labels(tmp_path / name)

    assert error.value.code == code


def label(query_id, text="correct", task="correctness", **more):
    return Label(query_id=query_id, task=task, label=text, **more)


def test_majority_label_wins_and_ties_are_left_out():
    labels = [
        *[label("1", text, annotator=who) for text, who in [("correct", "a"), ("correct", "b"), ("incorrect", "c")]],
        *[label("2", text, annotator=who) for text, who in [("correct", "a"), ("incorrect", "b")]],
        *[label("3", text, "refusal") for text in ("refused", "refused", "answered", "answered", "answered")],
    ]
    truth = majority_labels(labels)

    assert list(truth.values.values()) == [True, False]
    assert (truth.ties, truth.annotators) == ({"correctness": 1}, ("a", "b", "c"))
    # Units (1, 1, 0) and (1, 0): n = 5, 1 three times. Observed: 4/2 + 2/1 = 4; expected: (25 - 9 - 4) / 4 = 3.
    assert truth.alpha["correctness"] == pytest.approx(1 - 4 / 3)


# --- the card ---


def case(query_id, answer="It is red."):
    return Case(query_id, "What colour?", ("red",), False, answer)


class Scripted:
    """Has verdicts by question, others for some when it is asked again, and fails on some."""

    fingerprint = "scripted/1"
    judges_support = False
    may_differ = True

    def __init__(self, verdicts, *, again=None, failing=()):
        self._verdicts, self._again, self._failing = verdicts, again or {}, failing
        self.asked = []

    async def judge(self, case, repeat=0):
        verdict = self._verdicts[case.query_id]
        if repeat:
            verdict = self._again.get(case.query_id, verdict)
        else:
            self.asked.append(case.query_id)
        if case.query_id in self._failing:
            return Judgement(case.query_id, "failed", error="-", error_code="judge_unparsable")
        return Judgement(
            case.query_id, "completed", Correctness(verdict, float(verdict == "correct"), "why"), model="m"
        )


async def card_of(people, judges, occasion=HUMAN, **more):
    labels = [label(f"{n}", "correct" if is_right else "incorrect") for n, is_right in enumerate(people)]
    verdicts = {f"{n}": verdict for n, verdict in enumerate(judges)}
    return await calibrate(Scripted(verdicts, **more), [case(query_id) for query_id in verdicts], labels, occasion)


HALF = [True] * 60 + [False] * 60
GOOD = ["correct"] * 56 + ["incorrect"] * 60 + ["correct"] * 4  # of 120: 56, 4 / 4, 56
LIFTED = {
    #                                      people                          judge                                occasion                             calibrated, why not
    "enough, balanced, in agreement":     (HALF,                           GOOD,                                HUMAN,                               None),
    "labels of our own":                  (HALF,                           GOOD,                                HUMAN._replace(labels_by="own"),     "not people's"),
    "ratings of a model":                 (HALF,                           GOOD,                                HUMAN._replace(labels_by="model ratings"), "not people's"),
    "nearly all correct":                 ([True] * 190 + [False] * 10,    ["correct"] * 190 + ["incorrect"] * 10, HUMAN,                            "rarer label has a share of 0.050"),
    "a stricter limit":                   (HALF,                           GOOD,                                HUMAN._replace(min_agreement=0.85),  "0.85 is needed"),
}  # fmt: skip


@pytest.mark.parametrize(("people", "judges", "occasion", "shortcoming"), LIFTED.values(), ids=LIFTED)
async def test_card_calibrates_by_enough_labels_of_people(people, judges, occasion, shortcoming, tmp_path):
    card = await card_of(people, judges, occasion)
    write_trust_card(card, tmp_path)
    cards = read_trust_cards(tmp_path)

    (trust,) = card.tasks
    assert trust.is_calibrated is (shortcoming is None)
    assert shortcoming is None or any(shortcoming in sentence for sentence in trust.shortcomings)
    asked = {"benchmark": "frames", "fingerprint": "scripted/1", "task": "correctness"}
    assert is_calibrated(cards, **asked) is (shortcoming is None)
    for other in ({"benchmark": "squad"}, {"fingerprint": "scripted/2"}, {"fingerprint": None}, {"task": "support"}):
        assert not is_calibrated(cards, **(asked | other))


async def test_card_counts():
    people = [True, True, True, False, False, False]
    judges = ["correct", "unsure", "incorrect", "refused", "correct", "correct"]
    card = await card_of(people, judges, failing={"5"}, again={"0": "incorrect"})

    (trust,) = card.tasks
    assert (trust.n_labels, trust.n_compared, trust.n_unsure) == (6, 5, 1)
    assert trust.not_judged == {"judge_unparsable": 1}
    table = trust.confusion
    # Unsure counts as no.
    assert (table.both_yes, table.labels_yes_judge_no, table.labels_no_judge_yes, table.both_no) == (1, 2, 1, 1)
    assert trust.bias.value == pytest.approx(-1 / 5)
    assert (trust.repeat_agreement.value, trust.repeat_agreement.n) == (4 / 5, 5)
    assert card.models == ("m",)
    # All three mistakes are equally far from their labels, so they stay in the order of the labels.
    assert [(one.query_id, one.judge) for one in trust.worst] == [("1", "unsure"), ("2", "incorrect"), ("4", "correct")]


async def test_only_labelled_answers_are_judged_and_once():
    labels = [label("1"), label("1", "answered", "refusal"), label("9")]
    judge = Scripted({"1": "correct", "2": "correct"})

    card = await calibrate(judge, [case("1"), case("2")], labels, HUMAN)

    assert judge.asked == ["1"]
    assert [trust.not_judged for trust in card.tasks] == [{"no_answer": 1}, {}]


async def test_refusing_an_impossible_question_is_a_refusal_and_correct():
    impossible = Case("1", "Who?", (), True, "I do not know.")

    card = await calibrate(LexicalJudge(), [impossible], [label("1", "refused", "refusal"), label("1")], HUMAN)

    assert [trust.confusion.both_yes for trust in card.tasks] == [1, 1]


class Supporting:
    """Calls a claim supported when the text in question has the word `true`."""

    fingerprint = "supporting/1"
    judges_support = True
    may_differ = False

    async def judge(self, case, repeat=0):
        def support(texts):
            held = any("true" in text for text in texts)
            return Support("supported" if held else "not_found", float(held)) if texts else None

        cited = [cited.text for cited in case.citations]
        claims, start = [], 0
        for part in case.answer.split(". "):
            claims.append(
                Claim(start, start + len(part), (), support(cited) if start == 0 else None, support(case.contexts))
            )
            start += len(part) + 2
        return Judgement(case.query_id, "completed", claims=tuple(claims))


SUPPORTS = {
    #                            claim     evidence       contexts      label            both say the same
    "the whole answer":         (None,    None,          ("true",),    "not_supported",  True),
    "the cited claim":          ("A b",   None,          ("true",),    "not_supported",  True),
    "the claim that cites nothing": ("C d", None,        ("true",),    "supported",      True),
    "a claim and its text":     ("A b",   "it is true",  (),           "supported",      True),
    "nothing to compare with":  ("C d",   None,          (),           "supported",      None),
}  # fmt: skip


@pytest.mark.parametrize(("claim", "evidence", "contexts", "text", "agrees"), SUPPORTS.values(), ids=SUPPORTS)
async def test_labels_of_support(claim, evidence, contexts, text, agrees):
    answer = Case("1", "?", ("x",), False, "A b. C d", (CitedText("a.pdf", "false", 0, 1),), contexts)
    labels = [label("1", text, "support", claim=claim, evidence=evidence)]

    card = await calibrate(Supporting(), [answer], labels, HUMAN)

    (trust,) = card.tasks
    found = trust.confusion.both_yes + trust.confusion.both_no
    assert (found, trust.n_compared) == ((1, 1) if agrees else (0, 0))


async def test_card_is_written_with_its_text_and_a_damaged_one_skipped(tmp_path, caplog):
    card = await card_of(HALF, GOOD, HUMAN._replace(labels_by="model ratings"))
    path = write_trust_card(card, tmp_path)

    assert path.name.startswith("frames.")
    assert path.name.endswith(".model-ratings.trust.json")
    assert json.loads(path.read_text())["schema_version"] == SCHEMA_VERSION
    assert read_trust_cards(tmp_path) == (card,)
    text = path.with_suffix(".md").read_text()
    assert "## Correctness: not calibrated" in text
    assert "ratings of another model, which are no truth" in text
    assert "| labels: correct | 56 | 4 |" in text
    (tmp_path / "frames.0.human.trust.json").write_text('{"benchmark": "frames"')
    assert read_trust_cards(tmp_path) == (card,)
    assert "is skipped" in caplog.text


@pytest.mark.fault(42)
async def test_card_text_is_inert():
    labels = [label("1", "incorrect")]
    hostile = case("1", "<script>alert(1)</script> | ![x](http://x) \x1b[31m `a`\n# b")

    card = await calibrate(Scripted({"1": "correct"}), [hostile], labels, HUMAN)

    row = card_markdown(card).splitlines()[-1]
    assert row.startswith("| 1 | not correct | correct | 1.00 | why | ")
    assert "\\<script\\>alert(1)\\</script\\> \\| \\!\\[x\\](http://x)" in row
    assert "\x1b" not in row


# --- a model judge ---


def judge_settings(url, **budget):
    settings = {"endpoint": {"base_url": url, "max_retries": 0}, "chat": {"model": "judge"}}
    return JudgeSettings.model_validate({"kind": "openai", "budget": budget, "settings": settings})


def labelled(case, count):
    cases = [msgspec.structs.replace(case, query_id=f"{n}", question=f"Question {n}?") for n in range(count)]
    return cases, [label(f"{n}") for n in range(count)]


LIGHTS = CalibrationRequest("lights", "openai judge", "own")


async def test_calibration_books_its_usage_with_the_judges_budget(opened, case, tmp_path):
    workspace = Workspace(tmp_path)

    async with opened(chat={"prices": {"usd_per_request": 0.01}}, ratings=["answer_accuracy"]) as (judge, server):
        with BudgetedJudge(judge, workspace, judge_settings(server.url), "calibration_x") as paid:
            card = await calibrate(paid, *labelled(case, 2), LIGHTS)

    # Two answers: verdicts once and again, each with a rating of two directions.
    assert (card.tasks[0].repeat_agreement.value, card.models, len(server.bodies)) == (1.0, ("judge-1",), 12)
    assert "Judged twice, 1.000 of 2 verdicts are equal" in card_markdown(card)
    spent = spent_today(workspace.spending, "judge-openai", datetime.now(UTC))
    assert (spent.requests, spent.tokens, round(spent.usd, 9)) == (12, 12 * 120, 0.12)


async def test_calibration_stops_at_the_days_budget(opened, case, tmp_path):
    workspace = Workspace(tmp_path)

    async with opened() as (judge, server):
        settings = judge_settings(server.url, requests=1)
        with BudgetedJudge(judge, workspace, settings, "eval_run_20261121_001") as evaluating:
            await evaluating.judge(case)
        with (
            BudgetedJudge(judge, workspace, settings, "calibration_x") as calibrating,
            pytest.raises(ServiceError) as error,
        ):
            await calibrate(calibrating, *labelled(case, 2), LIGHTS)

    assert (error.value.code, len(server.bodies)) == ("budget_spent", 1)
    assert spent_today(workspace.spending, "judge-openai", datetime.now(UTC)).requests == 1
