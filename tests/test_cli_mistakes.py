"""The mistakes that people make first: each is answered with what was meant, or where to look and what to do."""

import re
import runpy
import shutil
from pathlib import Path

import pytest
import yaml

from rag_eval_pipeline import cli
from rag_eval_pipeline.errors import InputError
from tests.json_server import json_server

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"
HTTP = {"endpoint": {"base_url": "http://127.0.0.1:9"}, "path": "/ask", "body": {"q": "{question}"}, "answer": "text"}
COMPLETE = "name: mine\nversion: 1.0.0\nsource: q.csv\nquestions: {question: q, answer: a}\n"
JUDGE = {
    "kind": "openai",
    "settings": {"endpoint": HTTP["endpoint"], "chat": {"model": "m", "prices": {"input": 1}}},
}
EVALUATE = ("evaluate", OBSERVATORY, "--system")
CONVERT = "Convert it: rag-eval convert mine"


@pytest.fixture(autouse=True)
def mine(workspace):
    """A benchmark of one's own with a spec to get wrong."""
    source = workspace.sources / "mine"
    source.mkdir()
    (source / "q.csv").write_text("q,a\nWhere?,Here\n")

    def write(spec):
        (source / "benchmark.yaml").write_text(spec)

    write(COMPLETE)
    return write


def spec(old, new):
    return lambda workspace: (workspace.sources / "mine" / "benchmark.yaml").write_text(COMPLETE.replace(old, new))


def system(**file):
    return lambda workspace: workspace.system_file("mine").write_text(yaml.safe_dump(file))


def setting(name, text):
    return lambda workspace: (workspace.config / f"{name}.config.yaml").write_text(text)


def http(**settings):
    return system(kind="http", settings=HTTP | settings)


def nothing(workspace):
    pass


MISTAKES = {
    #                     done before                        typed                                     said
    "benchmark":          (nothing, ("plan", "skarn-railwy"),                  "a benchmark, found 'skarn-railwy' [no_benchmark]. Did you mean skarn-railway?"),
    "benchmark convert":  (nothing, ("convert", "skarn-railwy"),               "Did you mean skarn-railway?"),
    "benchmark evaluate": (nothing, ("evaluate", "skarn-railwy", "--system", "embedded"), "Did you mean skarn-railway?"),
    "benchmark history":  (nothing, ("history", "skarn-railwy"),               "Did you mean skarn-railway?"),
    "benchmark power":    (nothing, ("power", "skarn-railwy"),                 "Did you mean skarn-railway?"),
    "benchmark unlike":   (nothing, ("plan", "nowhere"),                       "Known benchmarks: cairnmoor-observatory, "),
    "system":             (nothing, (*EVALUATE, "embeded"),                    "a system, found 'embeded' [no_system]. Did you mean embedded"),
    "system unlike":      (nothing, (*EVALUATE, "nobody"),                     "Known systems: embedded, embedded-weak."),
    "system left out":    (nothing, ("evaluate", RAILWAY),                     "expected a system, found 'embedded, embedded-weak' [missing_system]. Choose one of these."),
    "system left out of pin": (nothing, ("pin", RAILWAY),                      "SYSTEM: expected a system, found 'embedded, embedded-weak' [missing_system]"),
    "system left out of calibrate": (nothing, ("calibrate", RAILWAY),          "[missing_system]. Choose one of these."),
    "one evaluation":     (nothing, ("compare", "eval_run_20200101_001"),      "two evaluations, or a benchmark and a system, found 'eval_run_20200101_001'"),
    "system pin":         (nothing, ("pin", RAILWAY, "embeded"),               "Did you mean embedded"),
    "benchmark compare":  (nothing, ("compare", "skarn-railwy", "embedded"),   "[no_benchmark]. Did you mean skarn-railway?"),
    "compare swapped":    (nothing, ("compare", "embedded", RAILWAY),          "a benchmark, found 'embedded' [no_benchmark]. Known benchmarks: "),
    "evaluation id":      (nothing, ("compare", "eval_run_20200101_001", "eval_run_20200101_002"), "[no_evaluation]. There is none: rag-eval evaluate BENCHMARK"),
    "excluded benchmark": (system(kind="embedded", benchmarks=["handbook*"]), (*EVALUATE, "mine"), "[excluded_benchmark]. Add cairnmoor-observatory to benchmarks."),
    "not converted":      (nothing, ("evaluate", "mine", "--system", "embedded"), f"[not_converted]. {CONVERT}"),
    "not converted power": (nothing, ("power", "mine"),                        f"[not_converted]. {CONVERT}"),
    "key":                (spec("source", "sorce"), ("plan", "mine"),          "mine/benchmark.yaml, line 3: expected a known key, found 'sorce' [unknown_key]. Did you mean source?"),
    "key further in":     (spec("{question", "{quetion"), ("plan", "mine"),    "line 4: expected a known key, found 'quetion' [unknown_key]. Did you mean question?"),
    "key of source":      (spec("q.csv", "{path: q.csv, formt: csv}"), ("plan", "mine"), "found 'formt' [unknown_key]. Did you mean format?"),
    "format of source":   (spec("q.csv", "{path: q.csv, format: jsnl}"), ("plan", "mine"), "Did you mean jsonl"),
    "column":             (spec("answer: a", "answer: answr"), ("plan", "mine"), "found 'answr' [unknown_column]. Known: q, a."),
    "column in SQL":      (spec("{question: q, answer: a}", "SELECT qq AS question, a AS answer FROM source"), ("plan", "mine"), '"qq" not found'),
    "kind of system":     (system(kind="htpp"), (*EVALUATE, "mine"),           "found 'htpp' [bad_format]. Did you mean http?"),
    "key of system":      (system(kind="embedded", setings={}), (*EVALUATE, "mine"), 'field "setings": expected a known key [bad_format]. Did you mean settings?'),
    "key of its settings": (http(pth="/x"), (*EVALUATE, "mine"),               'field "settings.pth": expected a known key [bad_format]. Did you mean path?'),
    "key of its endpoint": (http(endpoint={"base_ulr": "http://x"}), (*EVALUATE, "mine"), "Did you mean base_url?"),
    "key of a config":    (setting("verdicts", "min_efect: 0.02"), ("report",), "Did you mean min_effect?"),
    "key of egress":      (setting("egress", "alowed_hosts: []"), ("convert", "mine"), "Did you mean allowed_hosts"),
    "key of evaluation":  (system(kind="embedded", evaluation={"mesures": []}), (*EVALUATE, "mine"), "Did you mean measures?"),
    "price of a judge":   (system(kind="embedded", evaluation={"judge": JUDGE}), (*EVALUATE, "mine"), "Known keys: usd_per_million_prompt_tokens, "),
    "name of a system":   (nothing, (*EVALUATE, "baseline"),                   "a name other than the reserved name of pinned evaluations, found 'baseline' [bad_name]"),
    "host of up":         (nothing, ("up", "--host", "::1"),                   "a name or an IPv4 address, found '::1' [no_ipv6]"),
    "metric":             (nothing, ("score", "--qrels", "x", "--run", "y", "-m", "ndgc@5"), "[unknown_measure]. Did you mean ndcg@5?"),
    "metric to sort by":  (nothing, ("leaderboard", "--sort", "exact_macth"),   "[unknown_metric]. Did you mean exact_match?"),
    "question":           (nothing, ("report", "--question", "q1"),            "the id of a question of a benchmark that was evaluated, found 'q1' [unknown_query]"),
    "format":             (nothing, ("export", RAILWAY, "out", "--format", "biere"), "Known formats: nvidia, evret, beir"),
    "check":              (nothing, ("doctor", "--only", "brwser"),            "Did you mean browser?"),
}  # fmt: skip


def test_mistake_is_answered_in_one_line_with_what_was_meant(rag_eval, workspace, mine, tmp_path):
    config = shutil.copytree(workspace.config, tmp_path / "config")
    for what, (prepare, typed, said) in MISTAKES.items():
        prepare(workspace)

        code, out, error = rag_eval(*typed)

        assert (code, out, error.count("\n")) == (2, "", 1), what
        assert said in error, what
        assert "Materialize" not in error, what
        mine(COMPLETE)
        shutil.rmtree(workspace.config)
        shutil.copytree(config, workspace.config)


def test_mistyped_command_and_option_are_answered_with_what_was_meant(rag_eval):
    for typed, said in (
        (("evalute",), "Did you mean 'evaluate'"),
        (("plan", RAILWAY, "--jsn"), "(Possible options: --json)"),
    ):
        code, out, error = rag_eval(*typed)

        assert (code, out) == (2, "")
        assert said in error


def test_host_that_is_not_allowed_is_named_once_with_the_file_to_change(rag_eval, workspace, mine):
    mine(COMPLETE.replace("answer: a", "answer: a, urls: u"))
    pages = [f"http://127.0.0.1:8124/{page}.html" for page in "abc"]
    (workspace.sources / "mine" / "q.csv").write_text("q,a,u\n" + "".join(f"{url},Here,{url}\n" for url in pages))

    code, _, error = rag_eval("convert", "mine")

    assert code == 2
    assert error.count("8124") == error.splitlines()[0].count("8124") > 0
    assert 'add "127.0.0.1:8124" to allowed_hosts in data/config/egress.config.yaml [egress_blocked]' in error
    assert "2 more documents likewise." in error
    assert "3 rows have this fault" in error


def test_document_path_that_finds_other_names_is_answered_with_both(rag_eval, workspace):
    with json_server(lambda path, body: {"text": "yes", "found": [{"title": "kb/Tides", "text": "t"}]}) as server:
        contexts = {"path": "found[]", "document": "title", "text": "text"}
        http(endpoint={"base_url": server.url}, contexts=contexts)(workspace)

        code, out, error = rag_eval(*EVALUATE, "mine")

    assert code == 0
    assert "hit@1" not in out
    assert re.search(r"0 of 16 retrieved passages name a document of the corpus, .* Returned: 'kb/Tides'", error)
    assert "contexts.document" in error


def test_retrieval_without_gold_documents_says_why_it_is_not_scored(rag_eval, workspace):
    with json_server(lambda path, body: {"text": "Here", "found": [{"title": "a.md", "text": "t"}]}) as server:
        http(endpoint={"base_url": server.url}, contexts={"path": "found[]", "document": "title"})(workspace)
        rag_eval("convert", "mine")

        _, out, error = rag_eval("evaluate", "mine", "--system", "mine")

    assert "Exact match 1.000, " in out
    assert "Retrieval is not scored, because no question has a gold document [no_relevant_documents]." in out
    assert "The corpus has no documents: `documents` in benchmark.yaml adds some." in error


def test_system_with_own_ids_is_told_of_a_map_before_it_is_evaluated(rag_eval, workspace):
    source = {"doc_id": "KB-7", "title": "Line opening", "text": "The line opened."}

    def answer(path, body):
        refuses = "frieze in the hall of Ulvhamn" in str(body)  # one of the 8 unanswerable questions of 40
        return {"answer": "I don't know." if refuses else "The line opened in 1888.", "sources": [source]}

    with json_server(answer) as server:
        code, out, error = rag_eval("system", "init", "own", "--url", server.url, "--benchmark", RAILWAY)
        probed = rag_eval("system", "probe", "own", "--benchmark", RAILWAY)[2]
        evaluated = rag_eval("evaluate", RAILWAY)[1]  # the others are built in

    names = workspace.system_file("own").with_name("own.names.csv")
    assert (code, names.read_text()) == (0, "name,file\nKB-7,line-opening.pdf\n")
    assert "KB-7 -> line-opening.pdf (the title beside it is its first heading or name)" in out
    assert error.startswith("Next: let passages name documents of the corpus, or add contexts.names in ")
    assert probed.endswith(error)
    sentences = "an answer in sentences equals no gold answer; read F1 and the judge."
    assert f"  Exact match is 0.025, from right refusals alone: {sentences}\n" in evaluated
    assert re.search(r"  F1 0\.\d+, .*Latency p50 [\d,]+ ms \(64 in flight\)\n", evaluated)
    assert "contexts.names" in error


def test_mean_over_some_of_the_questions_says_over_how_many(rag_eval, workspace):
    code, out, _ = rag_eval("evaluate", RAILWAY, "--system", "embedded")

    assert code == 0
    assert re.search(r"Hit@1 by page [01]\.\d{3} \(32 of 40\),", out)
    assert re.search(r"Exact match [01]\.\d{3},", out)


def test_store_for_the_workspace_is_refused_by_the_command_line_and_by_the_code_location(rag_eval, monkeypatch):
    assert rag_eval("list")[0] == 0
    monkeypatch.setenv("RAG_EVAL_STORE", "s3://bucket/prefix")

    code, out, err = rag_eval("list")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(
        "rag-eval: $RAG_EVAL_STORE: expected a variable that is not set [removed_variable]. Unset it:"
    )
    assert "such as NFS, EFS or Filestore" in err
    with pytest.raises(InputError, match=r"RAG_EVAL_STORE.*\[removed_variable\]"):
        runpy.run_path(str(Path(cli.__file__).parents[1] / "definitions.py"))
