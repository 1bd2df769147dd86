"""`rag-eval spans` scores a file of predictions, says what has no score, and makes its means from its table."""

import json

import pytest
import typer
from typer.testing import CliRunner

from rag_eval_pipeline.cli.scoring import spans
from rag_eval_pipeline.errors import InputError


def place(start, end, file_name="a.pdf"):
    return {"file_name": file_name, "start_char": start, "end_char": end}


GOLD = [
    {"query_id": "exact", "citations": [place(0, 100)]},
    {"query_id": "half", "citations": [place(0, 100), place(200, 300)]},
    {"query_id": "lost", "citations": [place(0, 100)]},
    {"query_id": "none", "citations": []},
]
PREDICTED = [
    {"query_id": "half", "answer": "It did [a:1:0-100]."},
    {"query_id": "exact", "citations": [place(0, 100)]},
    {"query_id": "none", "citations": []},
    {"query_id": "other", "citations": [place(0, 5)]},
]


@pytest.fixture
def files(tmp_path):
    for name, rows in (("gold", GOLD), ("cited", PREDICTED)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(files, *options):
    app = typer.Typer()
    app.command()(spans)
    arguments = ["--gold", str(files / "gold.jsonl"), "--predicted", str(files / "cited.jsonl"), *map(str, options)]
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, InputError):
        raise result.exception
    return result


def test_spans_means_are_over_questions_and_totals_over_gold_spans(files):
    found = json.loads(run(files, "--json").stdout)

    # Questions: 1 and 1/2. Gold spans: 1, 1, 0 of three.
    jaccard = found["measures"]["exact_jaccard"]
    assert (jaccard["value"], jaccard["n_scored"], jaccard["n_failed"], jaccard["n_skipped"]) == (0.75, 2, 1, 1)
    assert jaccard["coverage"] == 2 / 3
    assert found["span_accuracy"] == {
        "mean_exact_jaccard": 2 / 3, "mean_tolerance_jaccard": 2 / 3, "perfect_matches": 2, "good_matches": 2,
        "true_spans": 3, "predicted_spans": 2,
    }  # fmt: skip
    assert found["questions"] == {
        "scored": 2, "failed": {"lost": "missing"}, "skipped": {"none": "nothing_to_cite"}, "unknown": ["other"],
    }  # fmt: skip


def test_spans_means_are_those_of_the_questions(files):
    found = json.loads(run(files, "--json", "-q").stdout)

    for name, summary in found["measures"].items():
        values = [scores[name] for scores in found["scores"].values()]
        assert summary["value"] == sum(values) / len(values)


def test_spans_says_what_has_no_score(files):
    result = run(files)

    assert "1 questions have no prediction and no score: lost (missing)" in result.stderr
    assert "none (nothing_to_cite)" in result.stderr
    assert "not in the gold file: other" in result.stderr
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert lines["exact_jaccard"].split()[1] == "0.7500"
    assert lines["exact_jaccard"].split()[-3:] == ["2", "1", "1"]
    assert "mean_exact_jaccard 0.6667" in lines["over"]


def test_spans_prints_each_question_before_the_means(files):
    lines = run(files, "-q").stdout.splitlines()

    assert lines[0].split() == ["exact_jaccard", "exact", "1.0000"]


def test_spans_tolerance_is_an_option(files):
    (files / "cited.jsonl").write_text(json.dumps({"query_id": "exact", "citations": [place(5, 100)]}) + "\n")

    strict = json.loads(run(files, "--json", "--tolerance", 0).stdout)
    lenient = json.loads(run(files, "--json", "--tolerance", 5).stdout)

    assert strict["measures"]["tolerance_jaccard"]["value"] == 0.95
    assert lenient["measures"]["tolerance_jaccard"]["value"] == 1.0


def test_spans_end_inclusive_is_an_option_of_one_file(files):
    (files / "cited.jsonl").write_text(json.dumps({"query_id": "exact", "citations": [place(0, 99)]}) + "\n")

    found = json.loads(run(files, "--json", "--end-inclusive", "predicted").stdout)

    assert found["measures"]["exact_jaccard"]["value"] == 1.0


def test_spans_scores_words_with_texts(files):
    (files / "texts.json").write_text(json.dumps({"a.pdf": "word " * 40}))

    result = run(files, "--json", "--documents", files / "texts.json")

    found = json.loads(result.stdout)
    # half: 20 of 20 predicted words, 20 of 20 gold ones, since [200, 300) is behind the end of the text.
    assert found["measures"]["token_f1"]["value"] == 1.0
    assert found["documents"] == {"without_text": [], "spans_out_of_bounds": 0}


def test_spans_says_which_documents_have_no_text(files):
    (files / "texts.json").write_text(json.dumps({"a.pdf": "short"}))
    (files / "cited.jsonl").write_text(
        json.dumps({"query_id": "exact", "citations": [place(0, 100), place(0, 1, "b.pdf")]}) + "\n"
    )

    result = run(files, "--documents", files / "texts.json")

    # Left out: exact, of which a text is missing. The other three have no prediction.
    line = next(line for line in result.stdout.splitlines() if line.startswith("token_f1"))
    assert line.split()[-3:] == ["0", "3", "1"]
    assert "1 cited documents have no text: b.pdf" in result.stderr
    assert "1 predicted spans end after their document's text" in result.stderr
    assert "token_f1" in result.stdout


def test_spans_without_predictions_has_no_number(files):
    (files / "cited.jsonl").write_text("")

    found = json.loads(run(files, "--json").stdout)

    assert found["measures"]["span_f1"] | {"value": None, "reason": "all_failed"} == found["measures"]["span_f1"]
    assert found["span_accuracy"]["mean_exact_jaccard"] is None
    assert "over gold spans: mean_exact_jaccard -" in run(files).stdout


def test_a_fault_is_an_error_of_the_house(files):
    (files / "cited.jsonl").write_text('{"query_id": "exact"}\n')

    with pytest.raises(InputError, match=r"cited\.jsonl, row 1"):
        run(files)
