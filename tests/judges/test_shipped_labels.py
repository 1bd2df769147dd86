"""The shipped labels are of the shipped answers, fit the datasets, and make cards that calibrate nothing."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.evaluation.judging import make_cases
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.judges.calibration import CalibrationRequest, calibrate
from rag_eval_pipeline.judges.labels import name_by_system, read_labels
from rag_eval_pipeline.judges.lexical import LexicalJudge
from rag_eval_pipeline.judges.trust_card import card_markdown, is_calibrated
from rag_eval_pipeline.site.site import write_report
from rag_eval_pipeline.systems.base import RagAnswer
from tests.conftest import BUNDLED, CONVERTED, REPOSITORY, citations_in

LABELS = REPOSITORY / "examples" / "benchmarks" / "labels"
SYSTEMS = ("written", "embedded", "embedded-weak")
BENCHMARKS = ("skarn-railway", "cairnmoor-observatory", "gannet-sound", "tarrow-lights")
SETS = [(benchmark, system) for benchmark in BENCHMARKS for system in SYSTEMS]


def answers_file(benchmark, system):
    return LABELS / f"{benchmark}.{system}.answers.jsonl"


def labels_file(benchmark, system):
    return LABELS / f"{benchmark}.{system}.labels.jsonl"


def answers(benchmark, system):
    return [json.loads(line) for line in answers_file(benchmark, system).read_text().splitlines()]


def record(workspace, *systems):
    """Configures the shipped answers as systems of a workspace."""
    for system in systems:
        path = workspace.root / "data" / "labels" / "{benchmark}.SYSTEM.answers.jsonl"
        shutil.copytree(LABELS, path.parent, dirs_exist_ok=True)
        config = {"kind": "replay", "version": "1", "settings": {"path": str(path).replace("SYSTEM", system)}}
        folder = workspace.root / "data" / "config" / "systems"
        (folder / f"recorded-{system}.config.yaml").write_text(json.dumps(config))


def cases(workspace, benchmark, system):
    """The shipped answers with the datasets' gold answers and the texts that they cite."""
    record(workspace, system)
    pair = load_pair(workspace, benchmark, f"recorded-{system}")
    files = {path.name for path in pair.paths.corpus.iterdir()}
    said = {answer["query_id"]: answer["answer"] for answer in answers(benchmark, system)}
    given = [
        RagAnswer(query.query_id, "ok", said[query.query_id], False, (), citations_in(said[query.query_id], files), 0.0)
        for query in pair.queries
    ]
    return [case for case in make_cases(pair, given) if case is not None]


def test_labels_are_the_projects_own_and_of_the_answers_beside_them(workspace):
    names = {f"{benchmark}.{system}.{kind}.jsonl" for benchmark, system in SETS for kind in ("answers", "labels")}
    assert {path.name for path in LABELS.iterdir()} == names
    counts = Counter()
    for benchmark, system in SETS:
        given = answers(benchmark, system)
        texts = {answer["query_id"]: answer["answer"] for answer in given}
        labels = read_labels(labels_file(benchmark, system))
        counts.update((label.annotator, label.task, label.is_true) for label in labels)
        for task in ("correctness", "refusal"):
            once = [label.query_id for label in labels if (label.task, label.annotator) == (task, "own")]
            assert sorted(once) == sorted(texts)
        assert [label for label in labels if label.claim is not None and label.claim not in texts[label.query_id]] == []
        assert [label for label in labels if label.task == "support" and label.claim is None] == []
        if benchmark in CONVERTED:
            record(workspace, system)
            queries = load_pair(workspace, benchmark, f"recorded-{system}").queries
            asked = [(answer["query_id"], answer["question"]) for answer in given]
            assert asked == [(query.query_id, query.query_text) for query in queries]
        else:  # plain CSV, whose rows need no conversion
            source = (BUNDLED[benchmark] / "questions.csv").read_text(encoding="utf-8-sig")
            assert [answer["question"] for answer in given if answer["question"] not in source] == []
    assert {annotator for annotator, _, _ in counts} == {"own", "own again"}
    for task in ("correctness", "support"):  # a hundred of both kinds, and a second pass of a fifth
        yes, no = counts["own", task, True], counts["own", task, False]
        again = counts["own again", task, True] + counts["own again", task, False]
        assert (yes + no >= 100, min(yes, no) >= (yes + no) / 10, again) == (True, True, round((yes + no) / 5))


async def test_lexical_judge_agrees_with_the_railways_labels(workspace):
    answered, labels = [], []
    for system in SYSTEMS:
        given = read_labels(labels_file("skarn-railway", system))
        new_cases, new_labels = name_by_system(system, cases(workspace, "skarn-railway", system), given)
        answered += new_cases
        labels += new_labels

    card = await calibrate(LexicalJudge(), answered, labels, CalibrationRequest("skarn-railway", "lexical", "own"))

    correctness = next(trust for trust in card.tasks if trust.task == "correctness")
    assert correctness.n_compared == 120
    # Measured: 0.933 (0.865 to 0.998), of the written answers alone 0.832. Below 0.8 the judge has become another one.
    assert correctness.kappa.value > 0.8
    # Only people's labels are missing.
    assert correctness.shortcomings == ("The labels are not people's.",)
    assert not is_calibrated([card], benchmark="skarn-railway", fingerprint=card.judge_fingerprint, task="correctness")
    assert "labels of this project's own: they calibrate nothing" in card_markdown(card)


def given(system, labels):
    return ("--system", f"recorded-{system}", "--labels", str(labels))


def test_calibrate_makes_one_card_of_several_systems(workspace):
    name = "cairnmoor-observatory"
    record(workspace, "written", "embedded")
    for system in ("written", "embedded"):
        evaluate(workspace, load_pair(workspace, name, f"recorded-{system}"))
    sets = [given(system, labels_file(name, system)) for system in ("written", "embedded")]

    arguments = ["calibrate", name, *sets[0], *sets[1], "--labels-by", "own", "--workspace", str(workspace.root)]
    both = CliRunner().invoke(app, arguments)

    assert both.exit_code == 0, both.output
    assert "correctness: not calibrated\n" in both.stdout
    assert "over 32 of 32 labelled." in both.stdout
    assert "  The labels are not people's." in both.stdout
    (path,) = workspace.trust_cards.glob("*.trust.json")
    card = json.loads(path.read_text())
    assert card["systems"] == ["recorded-written", "recorded-embedded"]
    assert f"{path.with_suffix('.md')}" in both.stdout
    assert re.search(r"Left out: \d+ claims, which this judge cannot judge\.", both.stdout)

    shifted = workspace.root / "shifted.csv"
    known = read_labels(labels_file(name, "written"))
    shifted.write_text("query_id,label\n" + "".join(f"{int(one.query_id) + 1},correct\n" for one in known))
    refused = CliRunner().invoke(app, ["calibrate", name, *given("written", shifted), *arguments[-2:]])
    assert refused.exception.code == "ambiguous_ids"


def test_people_s_labels_correct_the_judged_rate_everywhere_it_is_shown(workspace):
    name, system = "cairnmoor-observatory", "recorded-embedded"
    record(workspace, "written", "embedded")
    for other in ("written", "embedded"):
        evaluate(workspace, load_pair(workspace, name, f"recorded-{other}"))
    labels = [given(other, labels_file(name, other)) for other in ("written", "embedded")]

    def run(*arguments):
        return CliRunner().invoke(app, [*arguments, "--workspace", str(workspace.root)]).stdout

    assert "corrected" not in run("leaderboard", "--json")
    run("calibrate", name, *labels[0], *labels[1])

    # Sixteen labels of each are too few for either alone.
    (found,) = (row for row in json.loads(run("leaderboard", "--json")) if row["system"] == system)
    corrected = found["metrics"]["judged_correct"]["corrected"]
    assert (corrected["n_labels"], corrected["labels_of"]) == (32, ["recorded-written", system])
    value, (low, high) = corrected["value"], corrected["confidence_interval"]
    text = f"corrected {value:.3f} ({low:.3f} to {high:.3f})"
    assert f", {text}. By 32 labels of recorded-written, {system}" in run("evaluate", name, "--system", system)
    newest = max(workspace.results.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    results = EvaluationResults.read(newest)
    assert results.judge_metrics["judged_correct"].corrected.text == text
    report = write_report(workspace)
    for page in ("index.html", f"benchmarks/{name}.html", f"runs/{results.evaluation_id}/index.html"):
        assert text in (report.parent / page).read_text()


WRONG = {
    "labels of one system for two": (("--system", "a", "--system", "b", "--labels", "F"), "one file for each"),
    "one system twice":             (("--system", "a", "--system", "a", "--labels", "F", "--labels", "F"), "none of them twice"),
    "labels by nobody known":       (("--system", "a", "--labels", "F", "--labels-by", "me"), "one of human, own"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "expected"), WRONG.values(), ids=WRONG)
def test_calibrate_refuses_bad_use(arguments, expected, tmp_path: Path):
    (tmp_path / "data" / "sources").mkdir(parents=True)
    labels = labels_file("skarn-railway", "written")

    done = CliRunner().invoke(
        app, ["calibrate", "x", *(str(labels) if a == "F" else a for a in arguments), "--workspace", str(tmp_path)]
    )

    assert (done.exception.code, expected in str(done.exception)) == ("bad_option", True)
