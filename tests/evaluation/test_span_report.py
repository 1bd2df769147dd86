"""`rag-eval spans` reads citations and texts strictly, scores what has a prediction, and reports what has none."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from rag_eval_pipeline.cli.score import spans
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.span_report import CitedQuestion, ReadOptions, read_gold, read_predicted, read_texts
from rag_eval_pipeline.metrics.spans import Citation, Span


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


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
    write(tmp_path / "gold.jsonl", GOLD)
    write(tmp_path / "cited.jsonl", PREDICTED)
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
    found = json.loads(run(files, "--json", "-q").stdout)

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
    for name, summary in found["measures"].items():
        values = [scores[name] for scores in found["scores"].values()]
        assert summary["value"] == sum(values) / len(values)


def test_spans_table_lists_questions_before_means_and_what_has_no_score(files):
    result = run(files, "-q")

    assert "1 question without a prediction and without a score: lost (missing)" in result.stderr
    assert "none (nothing_to_cite)" in result.stderr
    assert "not in the gold file: other" in result.stderr
    assert result.stdout.splitlines()[0].split() == ["exact_jaccard", "exact", "1.0000"]
    lines = {line.split()[0]: line.split() for line in result.stdout.splitlines()}
    assert (lines["exact_jaccard"][1], lines["exact_jaccard"][-3:]) == ("0.7500", ["2", "1", "1"])
    assert "0.6667," in lines["over"]


def test_spans_tolerance_and_inclusive_ends(files):
    write(files / "cited.jsonl", [{"query_id": "exact", "citations": [place(5, 99)]}])

    found = json.loads(run(files, "--json", "--tolerance", 4, "--end-inclusive", "predicted").stdout)

    # [5, 100), whose start moves by 4 to 1.
    assert [found["measures"][f"{name}_jaccard"]["value"] for name in ("exact", "tolerance")] == [0.95, 0.99]


def test_spans_scores_words_with_texts_and_names_documents_without(files):
    (files / "texts.json").write_text(json.dumps({"a.pdf": "word " * 40}))
    found = json.loads(run(files, "--json", "--documents", files / "texts.json").stdout)
    # half: 20 of 20 predicted words, 20 of 20 gold ones, since [200, 300) is behind the end of the text.
    assert found["measures"]["token_f1"]["value"] == 1.0
    assert found["documents"] == {"without_text": [], "spans_out_of_bounds": 0}

    (files / "texts.json").write_text(json.dumps({"a.pdf": "short"}))
    write(files / "cited.jsonl", [{"query_id": "exact", "citations": [place(0, 100), place(0, 1, "b.pdf")]}])

    result = run(files, "--documents", files / "texts.json")

    # Left out: exact, of which a text is missing. The other three have no prediction.
    line = next(line for line in result.stdout.splitlines() if line.startswith("token_f1"))
    assert line.split()[-3:] == ["0", "3", "1"]
    assert "1 cited document without text: b.pdf" in result.stderr
    assert "1 predicted span ends after their document's text" in result.stderr


def test_spans_without_predictions_has_no_number(files):
    (files / "cited.jsonl").write_text("")

    found = json.loads(run(files, "--json").stdout)

    assert found["measures"]["span_f1"] | {"value": None, "reason": "all_failed"} == found["measures"]["span_f1"]
    assert found["span_accuracy"]["mean_exact_jaccard"] is None
    assert "over gold spans: mean_exact_jaccard -" in run(files).stdout


PLACE = {"file_name": "a.pdf", "page_number": 2, "start_char": 10, "end_char": 20}
CITED = (Citation("a.pdf", 2, Span(10, 20)),)
DATASET = {
    "schema_version": "1.0", "dataset_id": "d", "name": "D", "version": "1.0.0",
    "queries": [
        {"query_id": "0", "query_text": "?", "relevant_documents": ["a.pdf"], "citations": [PLACE]},
        {"query_id": "1", "query_text": "?", "relevant_documents": [], "metadata": {"is_impossible": True}},
        {"query_id": "2", "query_text": "?", "relevant_documents": ["a.pdf"]},
    ],
}  # fmt: skip


def annotation(query_id, annotator, citations):
    return {
        "annotation_id": f"{annotator}-{query_id}", "query_id": query_id, "annotator_id": annotator,
        "citations": [{**place, "text": "t"} for place in citations],
    }  # fmt: skip


def test_gold_of_a_dataset_has_the_reason_why_there_is_none(tmp_path):
    path = tmp_path / "d_v1.0.0.eval.json"
    path.write_text(json.dumps(DATASET))

    assert list(read_gold(path, ReadOptions()).values()) == [
        CitedQuestion("0", CITED), CitedQuestion("1", None, "impossible"), CitedQuestion("2", None, "no_gold_spans"),
    ]  # fmt: skip


def test_gold_of_annotations_is_the_source_or_the_named_annotator(tmp_path):
    path = tmp_path / "d_v1.0.0.gt.json"
    annotations = [annotation("0", "source", [PLACE]), annotation("0", "ada", []), annotation("1", "ada", [PLACE])]
    path.write_text(json.dumps(annotations))

    assert read_gold(path, ReadOptions()) == {"0": CitedQuestion("0", CITED)}
    ada = {"0": CitedQuestion("0", ()), "1": CitedQuestion("1", CITED)}
    assert read_gold(path, ReadOptions(annotator="ada")) == ada

    path.write_text(json.dumps([annotation("0", "ada", [PLACE]), annotation("0", "bell", [PLACE])]))
    for options, code in ((ReadOptions(), "several_annotators"), (ReadOptions(annotator="cleo"), "unknown_annotator")):
        with pytest.raises(InputError, match=code):
            read_gold(path, options)


ROWS = {
    "places": ({"citations": [PLACE]}, CITED),
    "the specification's other name": ({"citation_spans": [PLACE]}, CITED),
    "no page": ({"citations": [{**PLACE, "page_number": None}]}, (CITED[0]._replace(page=None),)),
    "further keys": ({"model": "m", "citations": [{**PLACE, "confidence_score": 1}]}, CITED),
    "citations in the text": ({"answer": "In 1887 [a.pdf:2:10-20]."}, CITED),
    "an answer without citations": ({"answer": "In 1887."}, ()),
    "nothing cited": ({"citations": []}, ()),
    "a name without its ending": ({"citations": [{**PLACE, "file_name": "a"}]}, CITED),
    "the file's path": ({"citations": [{**PLACE, "file_name": "/srv/in/A.pdf"}]}, CITED),
}


def test_rows_hold_citations_or_an_answer(tmp_path):
    rows = [{"query_id": name, **row} for name, (row, _) in ROWS.items()]
    path = write(tmp_path / "cited.jsonl", [*rows, {"query_id": 7, "citations": []}])

    expected = {name: CitedQuestion(name, cited) for name, (_, cited) in ROWS.items()} | {"7": CitedQuestion("7", ())}
    assert read_predicted(path, ReadOptions({"a.pdf"})) == expected


def test_rows_are_read_from_an_array_and_from_gzip(tmp_path):
    row = {"query_id": "0", "citations": [{**PLACE, "start_char": 20}]}
    (tmp_path / "c.json").write_text(json.dumps([row], indent=2))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode()))

    for name in ("c.json", "c.jsonl.gz"):
        (question,) = read_predicted(tmp_path / name, ReadOptions(end_inclusive=True)).values()
        assert question.citations == (Citation("a.pdf", 2, Span(20, 21)),)


SOUND = {"query_id": "0", "citations": [PLACE]}
BAD = {
    "no id": ({"citations": []}, "bad_row", None),
    "neither citations nor answer": ({"query_id": "1"}, "bad_row", "citations"),
    "no file": ({"query_id": "1", "citations": [{"start_char": 1, "end_char": 2}]}, "bad_row", "citations[0]"),
    "an offset as text": ({"query_id": "1", "citations": [{**PLACE, "start_char": "1"}]}, "bad_row", "citations[0].start_char"),
    "page zero": ({"query_id": "1", "citations": [{**PLACE, "page_number": 0}]}, "bad_row", "citations[0].page_number"),
    "an empty span": ({"query_id": "1", "citations": [PLACE, {**PLACE, "end_char": 10}]}, "empty_span", "citations[1].end_char"),
    "a question twice": (SOUND, "duplicate_query", None),
}  # fmt: skip


@pytest.mark.parametrize(("row", "code", "field"), BAD.values(), ids=BAD)
def test_bad_row_is_named_with_its_field(tmp_path, row, code, field):
    path = write(tmp_path / "cited.jsonl", [SOUND, row])

    with pytest.raises(InputError) as error:
        read_predicted(path, ReadOptions())

    found = error.value
    assert (found.code, found.file, found.row, found.field) == (code, str(path), 2, field)


def test_line_that_is_no_json_is_named_after_blank_ones(tmp_path):
    (tmp_path / "cited.jsonl").write_text(json.dumps(SOUND) + "\n\n{broken\n")

    with pytest.raises(InputError, match=r"results\.json") as error:
        read_predicted(tmp_path / "cited.jsonl", ReadOptions())

    assert (error.value.code, error.value.row) == ("bad_json", 3)


def test_files_of_the_other_side_are_refused(tmp_path):
    for read, name in ((read_gold, "e.results.json"), (read_predicted, "d.eval.json"), (read_predicted, "d.gt.json")):
        with pytest.raises(InputError, match="wrong_kind"):
            read(tmp_path / name, ReadOptions())


TEXTS = {"a.pdf": "One.\fTwo.", "b.pdf": "Three."}


def test_texts_are_read_from_pages_json_and_a_dataset(tmp_path):
    rows = [("a.pdf", 2, "Two."), ("b.pdf", 1, "Three."), ("a.pdf", 1, "One.")]
    columns = dict(zip(("file_name", "page", "text"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table({**columns, "start": [5, 0, 0]}), tmp_path / "pages.parquet")
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS))
    documents = [{"document_id": name, "content": text} for name, text in TEXTS.items()]
    (tmp_path / "d.eval.json").write_text(json.dumps({**DATASET, "queries": [], "documents": documents}))

    for name in ("pages.parquet", "texts.json", "d.eval.json"):
        assert read_texts(tmp_path / name) == TEXTS


BAD_TEXTS = {
    "a text that is none": ("t.json", '{"a.pdf": 5}', "bad_row"),
    "no parquet": ("t.parquet", "PAR", "bad_parquet"),
    "a dataset without documents": ("d.eval.json", json.dumps({**DATASET, "queries": []}), "no_documents"),
}


@pytest.mark.parametrize(("name", "text", "code"), BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_file_without_texts_is_refused(tmp_path, name, text, code):
    with pytest.raises(InputError, match="missing_file"):
        read_texts(tmp_path / name)
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=code):
        read_texts(tmp_path / name)
