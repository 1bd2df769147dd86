"""`rag-eval score` prints what trec_eval printed, byte for byte, from every kind of file."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from bench.oracles import TREC, TREC_EVAL
from rag_eval_pipeline.cli.score import score
from rag_eval_pipeline.errors import InputError

ALL = ("-m", "all_trec")


def run(*arguments):
    app = typer.Typer()
    app.command()(score)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize(("file", "options"), [(file, options) for file, (options, _) in TREC.items()], ids=TREC)
def test_score_prints_what_trec_eval_printed(file, options):
    folder = TREC_EVAL

    printed = run("--qrels", folder / "qrels.test", "--run", folder / "results.test", *options)

    assert printed.stdout == (folder / file).read_text()
    assert printed.stderr == ""


def test_score_ignores_comments_blank_lines_and_fields_after_the_tag(tmp_path):
    folder = TREC_EVAL
    lines = (folder / "results.test").read_text().splitlines()
    (tmp_path / "run").write_text("# a run\n" + "".join(f"{line}\tand more\n \n" for line in lines))
    (tmp_path / "qrels").write_text("# judged\n" + (folder / "qrels.test").read_text())

    printed = run("--qrels", tmp_path / "qrels", "--run", tmp_path / "run", "-q", *ALL)

    assert printed.stdout == (folder / "out.test.aq").read_text()


QRELS = {"q1": {"a": 1, "b": 0}, "q2": {"c": 2, "d": 1}, "q3": {"e": 1}, "q4": {"f": 0}}
RUN = {"q2": {"x": 3.0, "c": 2.5, "d": 2.5}, "q1": {"a": 1.0}, "q4": {"f": 1.0}, "q9": {"z": 1.0}}
PRINTED = {
    # q2: d before c, since scores are equal: ranks 2 and 3. q3 is not in the run, q4 has nothing relevant: both count.
    "num_q": "4",
    "num_rel_ret": "3",
    "recip_rank": f"{(1 + 1 / 2) / 4:.4f}",
    "P_1": f"{1 / 4:.4f}",
    "ndcg@1": f"{1 / 4:.4f}",
}
MEASURES = ("-m", "num_q", "-m", "num_rel_ret", "-m", "RR", "-m", "P.1", "-m", "nDCG@1", "-m", "recip_rank")


def write(folder, kind):
    """Write the collection as files of a kind, with the rows of q2 apart; returns qrels and run."""
    qrels = [(query, document, grade) for query, graded in QRELS.items() for document, grade in graded.items()]
    rows = [(query, document, score) for query, scored in RUN.items() for document, score in scored.items()]
    rows = [*rows[1:], rows[0]]
    paths = folder / f"qrels.{kind}", folder / f"run.{kind}"
    if kind.startswith("parquet"):
        query, document, grade = zip(*qrels, strict=True)
        pq.write_table(pa.table({"q_id": query, "doc_id": document, "score": grade}), paths[0])
        query, document, value = zip(*rows, strict=True)
        names = pa.array(document).dictionary_encode() if kind == "parquet of dictionaries" else document
        pq.write_table(pa.table({"query-id": query, "corpus-id": names, "score": value}), paths[1])
        return paths
    texts = [json.dumps(side) for side in (QRELS, RUN)]
    if kind in ("trec", "beir", "trec.gz"):
        texts = [
            "".join(f"{query} 0 {document} {grade}\n" for query, document, grade in qrels),
            "".join(f"{query} Q0 {document} 1 {value} run\n" for query, document, value in rows),
        ]
    if kind == "beir":
        texts[0] = "query-id\tcorpus-id\tscore\r\n" + "".join("\t".join(map(str, line)) + "\r\n" for line in qrels)
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    return paths


@pytest.mark.parametrize("kind", ["trec.gz", "beir", "json", "parquet", "parquet of dictionaries"])
def test_score_reads_every_kind_of_file(tmp_path, kind):
    qrels, rankings = write(tmp_path, kind)

    printed = run("--qrels", qrels, "--run", rankings, *MEASURES)

    values = {name.rstrip(): value for name, _, value in (line.split("\t") for line in printed.stdout.splitlines())}
    assert values == PRINTED | {"mrr": PRINTED["recip_rank"]}
    assert printed.stderr.splitlines() == [
        "rag-eval: 1 of 4 judged queries are not in the run and count 0: q3",
        "rag-eval: 1 of 4 judged queries have no relevant document and count 0: q4",
        "rag-eval: 1 query of the run without judgements, left out",
    ]


def test_score_of_a_run_that_names_other_documents_says_so(tmp_path):
    (tmp_path / "qrels.txt").write_text("q1 0 guide.pdf 1\n")
    (tmp_path / "run.txt").write_text("q1 Q0 guide 1 0.9 mine\n")

    printed = run("--qrels", tmp_path / "qrels.txt", "--run", tmp_path / "run.txt", "-m", "recip_rank")

    assert printed.stdout.split() == ["recip_rank", "all", "0.0000"]
    assert printed.stderr.splitlines() == [
        "rag-eval: no retrieved document is judged for its query: does the run name documents as the qrels do?"
    ]


def test_score_json_has_every_digit_and_what_was_missing(tmp_path):
    qrels, rankings = write(tmp_path, "trec")

    printed = run("--qrels", qrels, "--run", rankings, "-m", "recip_rank", "-m", "relstring", "-q", "--json")

    assert json.loads(printed.stdout) == {
        "run_id": "run",
        "measures": {"recip_rank": 0.375, "relstring": None},
        "queries": 4,
        "missing_queries": ["q3"],
        "queries_without_relevant_documents": ["q4"],
        "unjudged_queries": 1,
        "scores": {
            "q1": {"recip_rank": 1.0, "relstring": "1"},
            "q2": {"recip_rank": 0.5, "relstring": "-12"},
            "q3": {"recip_rank": 0.0, "relstring": ""},
            "q4": {"recip_rank": 0.0, "relstring": "0"},
        },
    }


def test_score_level_changes_what_is_relevant(tmp_path):
    qrels, rankings = write(tmp_path, "json")

    printed = run("--qrels", qrels, "--run", rankings, "-m", "num_rel", "-m", "num_rel_ret", "--level-rel", 2)

    assert [line.split("\t")[2] for line in printed.stdout.splitlines()] == ["1", "1"]


BAD_RUNS = {
    "no file": (None, "missing_file"),
    "too few fields": ("q1 Q0 a 1\n", "bad_fields"),
    "a score that is not a number": ("q1 Q0 a 1 nan t\n", "bad_score"),
    "a document twice": ("q1 Q0 a 1 1 t\nq1 Q0 a 2 1 t\n", "duplicate_document"),
    "a document twice in JSON": ('{"q1": {"a": 1, "a": 2}}', "bad_json"),
    "JSON of another form": ('{"q1": ["a"]}', "bad_json"),
    "half a parquet file": ("PAR1 and no more", "bad_parquet"),
    "parquet with a footer of zeros": ("PAR1" + "\0" * 20 + "\x10\0\0\0PAR1", "bad_parquet"),
    "a document twice for a query that returns": ((["q1", "q2", "q1"], ["a"] * 3, [1.0, 2.0, 3.0]), "duplicate_document"),
    "NaN in parquet": ((["q1"], ["a"], [float("nan")]), "bad_score"),
    "an empty cell": ((["q1", None], ["a", "b"], [1.0, 2.0]), "missing_value"),
    "no such column": ((["q1"], ["a"]), "missing_column"),
    "scores that are words": ((["q1"], ["a"], ["high"]), "bad_number"),
    "ids that are fractions": ((["q1"], [0.5], [1.0]), "bad_id"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "code"), BAD_RUNS.values(), ids=BAD_RUNS)
def test_score_refuses_a_bad_run(tmp_path, content, code):
    qrels, _ = write(tmp_path, "trec")
    if isinstance(content, str):
        (tmp_path / "run").write_text(content)
    elif content:
        pq.write_table(pa.table(dict(zip(("qid", "docid", "score"), content, strict=False))), tmp_path / "run")

    with pytest.raises(InputError) as error:
        run("--qrels", qrels, "--run", tmp_path / "run")

    assert error.value.code == code


def test_score_refuses_a_grade_that_no_column_holds(tmp_path):
    _, rankings = write(tmp_path, "trec")
    (tmp_path / "qrels.json").write_text('{"q1": {"a": 9223372036854775808}}')

    with pytest.raises(InputError) as error:
        run("--qrels", tmp_path / "qrels.json", "--run", rankings)

    assert error.value.code == "bad_json"


def test_score_refuses_qrels_whose_ids_are_no_utf8(tmp_path):
    _, rankings = write(tmp_path, "trec")
    ids = pa.array([b"\xf1"]).view(pa.string())
    pq.write_table(pa.table({"qid": ids, "docid": ["a"], "score": [1]}), tmp_path / "qrels")

    with pytest.raises(InputError) as error:
        run("--qrels", tmp_path / "qrels", "--run", rankings)

    assert error.value.code == "bad_parquet"


def test_score_takes_numbers_as_ids(tmp_path):
    pq.write_table(pa.table({"qid": [1, 1, 2], "docid": [10, 9, 7], "score": [1, 1, 1]}), tmp_path / "run")
    (tmp_path / "qrels").write_text("1 0 10 1\n2 0 7 1\n")

    printed = run("--qrels", tmp_path / "qrels", "--run", tmp_path / "run", "-q", "-m", "recip_rank")

    # Equal scores: the greater text first, and "9" is greater than "10".
    assert [line.split("\t")[2] for line in printed.stdout.splitlines()] == ["0.5000", "1.0000", "0.7500"]
