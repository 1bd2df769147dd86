"""`rag-eval score` prints what trec_eval printed, byte for byte, from every kind of file."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from rag_eval_pipeline.cli.scoring import score
from rag_eval_pipeline.errors import InputError

OFFICIAL = ()
ALL = ("-m", "all_trec")
PARAMETERS = (
    "-q", "-m", "success.2,5,20", "-m", "ndcg_cut.10,20,23", "-m", "ndcg.1=3,2=9,4=4.5", "-m", "11pt_avg..25,.5,.75",
    "-m", "utility.2,-1,0,0", "-m", "Rprec_mult.0.2,0.35,5.0", "-m", "recall.20,2000", "-m", "P.5,7,3",
    "-m", "iprec_at_recall.0.1,.2,.25,.75,.50",
)  # fmt: skip


def run(*arguments):
    app = typer.Typer()
    app.command()(score)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize(
    ("file", "options"),
    [("out.test", OFFICIAL), ("out.test.a", ALL), ("out.test.aq", ("-q", *ALL)), ("out.test.meas_params", PARAMETERS)],
    ids=["official", "all_trec", "each query", "parameters"],
)
def test_score_prints_what_trec_eval_printed(oracles, file, options):
    folder = oracles / "trec_eval"

    printed = run("--qrels", folder / "qrels.test", "--run", folder / "results.test", *options)

    assert printed.stdout == (folder / file).read_text()
    assert printed.stderr == ""


def test_score_ignores_comments_blank_lines_and_fields_after_the_tag(oracles, tmp_path):
    folder = oracles / "trec_eval"
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


def trec(path, lines):
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def table(path, columns):
    pq.write_table(pa.table(columns), path)


def write(folder, kind):
    """The collection as files of a kind; the rows of q2 do not stand together."""
    qrels = [(query, document, grade) for query, graded in QRELS.items() for document, grade in graded.items()]
    rows = [(query, document, score) for query, scored in RUN.items() for document, score in scored.items()]
    rows = [*rows[1:], rows[0]]
    if kind.startswith("json"):
        paths = folder / f"qrels.{kind}", folder / f"run.{kind}"
        for path, value in zip(paths, (QRELS, RUN), strict=True):
            text = json.dumps(value).encode()
            path.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    elif kind.startswith("parquet"):
        paths = folder / "qrels.parquet", folder / "run.parquet"
        query, document, grade = zip(*qrels, strict=True)
        table(paths[0], {"q_id": query, "doc_id": document, "score": grade})
        query, document, value = zip(*rows, strict=True)
        names = pa.array(document).dictionary_encode() if kind == "parquet of dictionaries" else document
        table(paths[1], {"query-id": query, "corpus-id": names, "score": value})
    else:
        paths = folder / f"qrels.{kind}", folder / f"run.{kind}"
        trec(paths[0], (f"{query} 0 {document} {grade}" for query, document, grade in qrels))
        trec(paths[1], (f"{query} Q0 {document} 1 {value} run" for query, document, value in rows))
    return paths


@pytest.mark.parametrize(
    "kind", ["trec", "trec.gz", "json", "json.gz", "parquet", "parquet of dictionaries"]
)  # fmt: skip
def test_score_reads_every_kind_of_file(tmp_path, kind):
    qrels, rankings = write(tmp_path, kind)

    printed = run("--qrels", qrels, "--run", rankings, *MEASURES)

    values = {name.rstrip(): value for name, _, value in (line.split("\t") for line in printed.stdout.splitlines())}
    assert values == PRINTED | {"mrr": PRINTED["recip_rank"]}
    assert printed.stderr.splitlines() == [
        "rag-eval: 1 of 4 judged queries are not in the run and count 0: q3",
        "rag-eval: 1 of 4 judged queries have no relevant document and count 0: q4",
        "rag-eval: 1 queries of the run are not judged and are left out",
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


def text(name, content):
    return lambda folder: (folder / name).write_text(content) and folder / name


def columns(values):
    def make(folder):
        table(folder / "run.parquet", values)
        return folder / "run.parquet"

    return make


BAD_RUNS = {
    "no file": (lambda folder: folder / "none", "missing_file"),
    "too few fields": (text("run", "q1 Q0 a 1\n"), "bad_fields"),
    "a score that is not a number": (text("run", "q1 Q0 a 1 nan t\n"), "bad_score"),
    "a document twice": (text("run", "q1 Q0 a 1 1 t\nq1 Q0 a 2 1 t\n"), "duplicate_document"),
    "a document twice in JSON": (text("run", '{"q1": {"a": 1, "a": 2}}'), "bad_json"),
    "NaN in JSON": (text("run", '{"q1": {"a": NaN}}'), "bad_json"),
    "JSON of another form": (text("run", '{"q1": ["a"]}'), "bad_json"),
    "half a parquet file": (text("run", "PAR1 and no more"), "bad_parquet"),
    "a document twice in parquet": (
        columns({"qid": ["q1", "q1"], "docid": ["a", "a"], "score": [1.0, 2.0]}),
        "duplicate_document",
    ),
    "a document twice for a query that returns": (
        columns({"qid": ["q1", "q2", "q1"], "docid": ["a", "a", "a"], "score": [1.0, 2.0, 3.0]}),
        "duplicate_document",
    ),
    "NaN in parquet": (columns({"qid": ["q1"], "docid": ["a"], "score": [float("nan")]}), "bad_score"),
    "an empty cell": (columns({"qid": ["q1", None], "docid": ["a", "b"], "score": [1.0, 2.0]}), "missing_value"),
    "no such column": (columns({"qid": ["q1"], "name": ["a"], "score": [1.0]}), "missing_column"),
    "scores that are words": (columns({"qid": ["q1"], "docid": ["a"], "score": ["high"]}), "bad_number"),
    "ids that are fractions": (columns({"qid": ["q1"], "docid": [0.5], "score": [1.0]}), "bad_id"),
}


@pytest.mark.parametrize(("make", "code"), BAD_RUNS.values(), ids=BAD_RUNS)
def test_score_refuses_a_bad_run(tmp_path, make, code):
    qrels, _ = write(tmp_path, "trec")

    with pytest.raises(InputError) as error:
        run("--qrels", qrels, "--run", make(tmp_path))

    assert error.value.code == code


def test_score_takes_numbers_as_ids(tmp_path):
    table(tmp_path / "run", {"qid": [1, 1, 2], "docid": [10, 9, 7], "score": [1, 1, 1]})
    trec(tmp_path / "qrels", ["1 0 10 1", "2 0 7 1"])

    printed = run("--qrels", tmp_path / "qrels", "--run", tmp_path / "run", "-q", "-m", "recip_rank")

    # Equal scores: the greater text first, and "9" is greater than "10".
    assert [line.split("\t")[1:] for line in printed.stdout.splitlines()] == [
        ["1", "0.5000"],
        ["2", "1.0000"],
        ["all", "0.7500"],
    ]
