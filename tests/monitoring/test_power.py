"""The commands plan, convert, evaluate and power print how large a drop a benchmark can detect."""

import json

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.monitoring.comparison import VerdictSettings
from rag_eval_pipeline.monitoring.power import power

RAILWAY = "skarn-railway"


@pytest.fixture
def rag_eval(workspace):
    def run(*words):
        done = CliRunner().invoke(app, [*words, "--workspace", str(workspace.root)])
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def test_plan_convert_and_the_first_evaluate_print_what_is_detected(rag_eval):
    # 8 metrics: ten of 40 questions must fall and none rise, which is ten of 200 for 5 points. 8 of the 40 questions
    # name no document and are groups of their own; an unnamed document is no group.
    detects = (
        "40 questions in 20 groups by document detect drops of 25.0 points at best, and 5 points take 200 questions"
    )
    evaluate = ("evaluate", RAILWAY, "--system", "embedded")

    lines = [rag_eval(*words) for words in (("plan", RAILWAY), ("convert", RAILWAY), evaluate, evaluate)]

    assert [detects in line for line in lines] == [True, True, True, False]
    assert "questions when 5 % of the answers differ between two runs." in lines[2]
    few = " questions are too few for a verdict (30 are needed); a drop of 5 points takes 200 questions"
    assert few in rag_eval("plan", "cairnmoor-observatory")


@pytest.mark.parametrize(
    ("sizes", "is_deterministic", "said"),
    [
        (
            [12, 12, 12],
            None,
            "5 pinned runs (unless the system is deterministic): 36 questions in 3 groups by document",
        ),
        ([12, 12, 12], False, "by 5 pinned runs: 36 questions in 3 groups by document, and 4 groups are needed"),
        ([12, 12, 12], True, None),
        ([4] * 4, False, None),
    ],
)
def test_benchmark_of_few_documents_is_warned_about(sizes, is_deterministic, said):
    settings = VerdictSettings()

    warning = power(sizes, settings).warning("b", settings, is_deterministic=is_deterministic)

    assert (warning is None) if said is None else said in warning


def test_power_prints_a_row_a_share_of_answers_that_differ(rag_eval):
    found = json.loads(rag_eval("power", RAILWAY, "--json"))
    lines = rag_eval("power", RAILWAY).splitlines()

    assert lines[0].startswith("40 questions in 20 groups by document; questions are tested, with 8 metrics")
    assert [line.split()[:2] for line in lines[2:]] == [["0", "%"], ["2", "%"], ["5", "%"], ["10", "%"]]
    assert [row["at_best"] for row in found["rows"]] == [0.25] * 4
    usually, needed = ([row[name] for row in found["rows"]] for name in ("usually", "needed"))
    assert (usually, needed) == (sorted(usually), sorted(needed))
    assert needed[0] == 200


@pytest.mark.parametrize(("questions", "documents"), [(900, 3), (900, 7)])
def test_power_of_few_documents_is_less_because_their_noise_is_known_less_well(questions, documents):
    few, many = (power([questions // n] * n, VerdictSettings()).rows[2].drops for n in (documents, 300))

    assert many.usually < few.usually < 1.6 * many.usually


def test_groups_by_document_are_not_named_where_no_document_is_shared():
    apart = power([1] * 48, VerdictSettings())

    assert apart.sentence(VerdictSettings()).startswith("48 questions detect drops of")
    assert next(apart.lines()).startswith("48 questions; questions are tested")
    assert power([], VerdictSettings()).sentence(VerdictSettings()) == "Without questions nothing is detected."
