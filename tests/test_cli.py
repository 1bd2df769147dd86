"""`rag-eval` does what the assets do, prints a fault as one line, and its exit code tells kinds of ends apart."""

import json
import re
import shutil
import signal
import sys
import threading

import pytest
from typer.main import get_command

from rag_eval_pipeline import cli
from rag_eval_pipeline.cli.output import EXIT_CODES
from tests.json_server import json_server
from tests.monitoring.made_nights import publish_night, register
from tests.paid_server import set_judge, set_system

RAILWAY, OBSERVATORY = "skarn-railway", "cairnmoor-observatory"
BROKEN_METRIC = """
from rag_eval_pipeline.metrics.custom import MetricInfo, QuestionMetric

INFO = MetricInfo(name="broken", meaning="", source="", needs=("answer",), levels=("question",), category="answers", version="1")
BROKEN = QuestionMetric(INFO, lambda question: question.missing)
"""
ROOT = get_command(cli.app)


def one_line(error):
    return error.startswith("rag-eval: ") and error.count("\n") == 1 and "Traceback" not in error


def test_plan_counts_without_writing(rag_eval, workspace):
    before = sorted(workspace.root.rglob("*"))

    code, out, _ = rag_eval("plan", RAILWAY)

    assert code == 0
    assert out.splitlines()[0] == "40 rows: 40 accepted, 0 dropped by where, 0 quarantined"
    assert sorted(workspace.root.rglob("*")) == before
    _, out, _ = rag_eval("plan", RAILWAY, "--names")

    line = next(line for line in out.splitlines() if line.split("\t")[0].endswith("/history/line-opening"))
    assert line.split("\t") == ["https://archive.skarn-railway.example/history/line-opening", "line-opening.pdf", ""]


def test_plan_names_lists_refused_urls_with_the_reason(rag_eval, workspace):
    source = workspace.sources / "mine"
    source.mkdir()
    (source / "q.csv").write_text("q,a,u\n1?,x,https://x.org/a?b=1\n2?,x,en.wikipedia.org/wiki/Ada\n")
    questions = "questions: {question: q, answer: a, urls: u}\n"
    (source / "benchmark.yaml").write_text(f"name: mine\nversion: 1.0.0\nsource: q.csv\n{questions}")

    _, out, _ = rag_eval("plan", "mine", "--names")

    assert out.splitlines()[:2] == [
        "https://x.org/a?b=1\ta.pdf\tquery_dropped",
        "'en.wikipedia.org/wiki/Ada'\t\tbad_url\tq.csv, row 2: expected an http(s) URL",
    ]


def test_convert_and_evaluate_and_report(rag_eval, workspace):
    assert rag_eval("convert", RAILWAY, OBSERVATORY)[0] == 0
    code, out, _ = rag_eval("evaluate", RAILWAY, "--system", "embedded", "--json")
    evaluated = json.loads(out)[0]
    report = rag_eval("report")[1].strip()

    assert code == 0
    assert evaluated["counts"]["asked"] == 40
    assert report == str(workspace.reports / "index.html")
    assert "embedded" in rag_eval("leaderboard")[1]
    assert "nothing was asked: the system is deterministic" in rag_eval("evaluate", RAILWAY, "--system", "embedded")[2]
    assert rag_eval("validate", evaluated["results"], str(workspace.benchmark(RAILWAY).train_json))[0] == 0
    code, _, unlabelled = rag_eval("calibrate", RAILWAY, "--system", "embedded")
    assert (code, one_line(unlabelled)) == (2, True)
    assert "[no_labels]. Label answers on the question pages of the report" in unlabelled


def test_good_names_are_finished_although_another_is_bad(rag_eval, workspace):
    workspace.benchmark(RAILWAY).stamp.unlink()

    code, out, error = rag_eval("convert", "nowhere", RAILWAY)

    assert code == 2
    assert out.startswith(f"{RAILWAY}: 40 questions")
    assert one_line(error)
    assert "data/sources: expected a benchmark, found 'nowhere'" in error
    assert workspace.benchmark(RAILWAY).stamp.exists()


def test_evaluate_names_what_it_cannot_evaluate_and_evaluates_the_rest(rag_eval, workspace):
    shutil.rmtree(workspace.benchmark(RAILWAY).dataset)

    code, out, error = rag_eval("evaluate", RAILWAY, OBSERVATORY, "nowhere", "--system", "embedded-weak")

    assert code == 2
    assert [line.split(": ")[0] for line in out.splitlines() if line[0] != " "] == [f"{OBSERVATORY} x embedded-weak"]
    assert sorted(re.findall(r"\[(\w+)\]", error)) == ["no_benchmark", "not_converted"]
    assert len(error.splitlines()) == 2


BAD_USE = {
    "no such file": (("validate", "train.json"), "[missing_file]"),
    "no workspace": (("leaderboard", "--workspace", "/proc"), "[no_workspace]"),
    "a path for a name": (("plan", "../frames"), "[bad_name]"),
}


@pytest.mark.parametrize(("arguments", "found"), BAD_USE.values(), ids=BAD_USE)
def test_bad_use_is_one_line_and_exit_2(arguments, found, rag_eval):
    code, out, error = rag_eval(*arguments)

    assert code == 2
    assert out == ""
    assert one_line(error)
    assert found in error


def test_strict_exits_1_when_rows_were_quarantined(rag_eval, workspace):
    source = next(workspace.benchmark(RAILWAY).source.glob("*.jsonl"))
    source.write_bytes(source.read_bytes() + b'{"id": "broken", "question": ""}\n')
    spec = workspace.benchmark(RAILWAY).spec
    spec.write_text(re.sub(r"expect:.*\n", "", spec.read_text()))

    assert rag_eval("plan", RAILWAY)[0] == 0
    code, out, _ = rag_eval("plan", RAILWAY, "--strict")

    assert code == 1
    assert "1 quarantined" in out
    assert ", row 41 (line 41), field" in out
    code, _, error = rag_eval("convert", RAILWAY, "--strict")
    assert code == 1
    assert ", row 41 (line 41), field" in error
    assert one_line(error)


def test_plan_shows_the_columns_of_sources_before_the_mapping_is_right(rag_eval, workspace):
    source = workspace.root / "data" / "sources" / "scratch"
    source.mkdir()
    rows = [{"q": "Who?", "meta": {"pages": [1]}, "empty": None}, {"q": "x" * 200, "meta": None, "mixed": 1}]
    (source / "q.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"mixed": "one"}])))
    (source / "a.pdf").write_text("")
    (source / "benchmark.yaml").write_text("name: scratch\nsource: q.jsonl\ntables: {docs: {files: '*.pdf'}}\n")

    code, out, _ = rag_eval("plan", "scratch", "--schema")
    found = json.loads(rag_eval("plan", "scratch", "--schema", "--json")[1])

    assert code == 0
    assert out.splitlines() == [
        "source: 3 rows",
        "  q            VARCHAR  'Who?'",
        "  meta         STRUCT(pages BIGINT[])  {'pages': [1]}",
        "  empty        VARCHAR  no value",
        "  mixed        JSON  '1'",
        "  source_file  VARCHAR  'q.jsonl'",
        "  source_row   BIGINT  1",
        "docs: 1 row",
        "  file  VARCHAR  'a.pdf'",
        "  name  VARCHAR  'a.pdf'",
    ]
    assert found[1]["columns"][0] == {"name": "file", "type": "VARCHAR", "sample": "'a.pdf'"}


HOSTILE = "\x1b[2J\u202eq"
MAPPINGS = {
    "an error names a column": "{question: q, answer: a}",
    "results have a note on a row": f'{{question: "{HOSTILE}", answer: a}}'.encode("unicode_escape").decode(),
}


@pytest.mark.fault(42)
@pytest.mark.parametrize("mapping", MAPPINGS.values(), ids=MAPPINGS)
def test_texts_of_data_do_not_control_a_terminal(mapping, rag_eval, workspace, monkeypatch):
    source = workspace.root / "data" / "sources" / "scratch"
    source.mkdir()
    (source / "q.csv").write_text(f"{HOSTILE},a\n,{HOSTILE}\nWho?,x\n")
    (source / "benchmark.yaml").write_text(f"name: scratch\nversion: 1.0.0\nsource: q.csv\nquestions: {mapping}\n")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda stream: True, raising=False)

    _, out, error = rag_eval("plan", "scratch")

    assert "\\x1b[2J\\u202eq" in out + error
    assert "\x1b[2J" not in out + error  # what paints words is ours
    assert "\u202e" not in out + error


def test_plan_says_a_fault_once_with_its_count_and_the_first_line(rag_eval, workspace):
    source = workspace.root / "data" / "sources" / "scratch"
    source.mkdir()
    (source / "q.csv").write_text('q,a\n"one\nline",\ntwo,\nfour,4\n,5\nthree,\n')
    (source / "benchmark.yaml").write_text(
        "name: scratch\nversion: 1.0.0\nsource: q.csv\nquestions: {question: q, answer: a}\n"
    )

    _, out, _ = rag_eval("plan", "scratch")

    assert [line for line in out.splitlines() if "quarantined" not in line and "[" in line] == [
        "data/sources/scratch/q.csv, row 1 (line 2), field \"a\": expected a non-empty answer, or is_impossible = true, found '' "
        "[empty_answer]. 3 rows have this fault.",
        "data/sources/scratch/q.csv, row 4 (line 6), field \"q\": expected a question, found '' [empty_question].",
    ]


def test_validate_exits_2_and_names_faults_and_good_files(rag_eval, workspace):
    (workspace.root / "train.json").write_text('[{"id": "x"}]')
    good = str(workspace.benchmark(RAILWAY).train_json)

    code, out, error = rag_eval("validate", "train.json", "absent.gt.json", good)

    assert code == 2
    assert "[bad_format]" in out
    assert "[missing_file]" in error
    assert f"{good}: valid" in out


LOSING = """name: losing
version: 1.0.0
source: rows.jsonl
questions: SELECT question, answer, contexts FROM source
documents: SELECT 'log' AS name, NULL AS file, 'The lamp was lit at dusk.' AS text UNION ALL SELECT 'gone', 'gone.txt', NULL
on_missing_document: {policy}
"""
LOSING_ROWS = [
    {"question": "both", "answer": "1", "contexts": [{"document": "log", "text": "at dusk"}, {"document": "gone"}]},
    {"question": "gone", "answer": "2", "contexts": [{"document": "gone"}]},
    {"question": "never", "answer": "3", "contexts": [{"document": "log", "text": "at dawn"}]},
]
UNKNOWN = {"question": "unknown", "answer": "4", "contexts": [{"document": "nobody"}, {"document": "log"}]}


@pytest.mark.parametrize(
    ("policy", "rows", "planned", "converted"),
    [
        (
            "keep",
            [*LOSING_ROWS, UNKNOWN],
            [
                "5 contexts found, 1 lost (unknown_document 1).",
                "0 answerable questions are left without a document.",
                "2 gold texts have a document; convert says how many are found in it.",
            ],
            [
                "  3 contexts found, 3 lost (file_missing 2, unknown_document 1).",
                "  1 answerable question is left without a document.",
                "  1 of 2 gold texts that have a document are located in it.",
            ],
        ),
        (
            "quarantine",
            LOSING_ROWS,
            [
                "4 contexts found, 0 lost.",
                "0 answerable questions are left without a document.",
                "2 gold texts have a document; convert says how many are found in it.",
            ],
            [
                "  1 context found, 3 lost (file_missing 2, question_quarantined 1).",
                "  0 answerable questions are left without a document.",
                "  0 of 1 gold texts that have a document are located in it.",
            ],
        ),
    ],
    ids=["keep", "quarantine"],
)
def test_plan_and_convert_end_with_what_was_lost(policy, rows, planned, converted, rag_eval, workspace):
    source = workspace.benchmark("losing").source
    source.mkdir()
    (source / "benchmark.yaml").write_text(LOSING.format(policy=policy))
    (source / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert "\n".join(planned) in rag_eval("plan", "losing")[1]
    _, out, error = rag_eval("convert", "losing")
    assert "\n".join(converted) in out
    assert re.search(r"^rag-eval: .*\[file_missing\]", error, re.MULTILINE), error


def test_benchmark_is_started_converted_and_exported(rag_eval, workspace, tmp_path):
    source = tmp_path / "quiz.jsonl"
    source.write_text('{"question": "one", "answer": "1"}\n{"question": 5, "answer": "2"}\nbroken\n')

    code, _, error = rag_eval("init", "quiz", "--from", str(source))
    assert (code, error) == (0, "Next: rag-eval plan quiz\n")
    assert rag_eval("convert", "quiz")[1].startswith("quiz: 1 question, 0 dropped, 2 quarantined")

    corrected = workspace.benchmark("quiz").source / "quiz.jsonl"
    corrected.write_text("".join(json.dumps({"question": q, "answer": "1"}) + "\n" for q in ("one", "five", "three")))
    code, _, error = rag_eval("convert", "quiz")
    assert (code, "version_conflict" in error) == (2, True)
    assert rag_eval("convert", "quiz", "--replace")[1].startswith("quiz: 3 questions, 0 dropped, 0 quarantined")

    code, out, _ = rag_eval("export", "quiz", str(tmp_path / "beir"), "--format", "beir")
    assert code == 0
    queries = [json.loads(line) for line in (tmp_path / "beir" / "queries.jsonl").read_text().splitlines()]
    assert [query["text"] for query in queries] == ["one", "five", "three"]
    assert source.read_text().endswith("broken\n")


def test_each_exit_code_occurs(rag_eval, workspace, monkeypatch):
    register(workspace, ["harbour"], ["asked"])
    nights = [publish_night(workspace, "harbour", "asked", n, questions=120, skill=n / 2, number=1) for n in (1, 0)]
    (workspace.sources / "harbour" / "q.csv").write_text("q,a\n,Ada\nWho?,Bo\n")
    spec = "name: harbour\nversion: 1.0.0\nsource: q.csv\nquestions: {question: q, answer: a}\n"
    (workspace.sources / "harbour" / "benchmark.yaml").write_text(spec)
    workspace.system_file("gone").write_text(
        "kind: http\nsettings: {endpoint: {base_url: 'http://127.0.0.1:9', max_retries: 0}, body: {q: '{question}'}, answer: a}\n"
    )

    def fail(error):
        def plan(*arguments, **options):
            raise error

        monkeypatch.setattr("rag_eval_pipeline.conversion.planning.plan", plan)
        return rag_eval("plan", RAILWAY)

    found = {
        0: rag_eval("list"),
        1: rag_eval("plan", "harbour", "--strict"),
        2: rag_eval("plan", "nowhere"),
        3: rag_eval("compare", *nights),
        4: rag_eval("system", "probe", "gone", "--benchmark", RAILWAY),
        70: fail(RuntimeError("a bug")),
        130: fail(KeyboardInterrupt()),
    }

    assert {code: done[0] for code, done in found.items()} == {code: code for code in EXIT_CODES}
    assert "internal error [internal]" in found[70][2]


def test_every_command_has_help_and_an_example():
    for name in ROOT.commands:
        assert f"Example: rag-eval {name}" in ROOT.get_command(None, name).help


def test_place_that_cannot_be_written_is_one_line(rag_eval, workspace, monkeypatch, tmp_path):
    shutil.rmtree(workspace.reports, ignore_errors=True)
    workspace.reports.write_text("a file where a folder should be")

    code, _, error = rag_eval("report")

    assert code == 2
    assert one_line(error)
    assert "[os_error]" in error
    monkeypatch.setenv("RAG_EVAL_WORKSPACE", str(tmp_path / "nowhere"))
    code, _, error = rag_eval("report")
    assert (code, "[no_workspace]" in error) == (2, True)
    assert not (tmp_path / "nowhere").exists()


def test_evaluate_names_answers_that_the_judge_could_not_judge_and_strict_counts_them(rag_eval, workspace, server):
    set_judge(workspace, server)

    code, out, err = rag_eval("evaluate", OBSERVATORY, "--system", "embedded", "--strict", "--json")

    [found] = json.loads(out)
    evaluation_id = found["evaluation_id"]
    note = "the judge could not judge 16 of 16 answers: 16 judge_http_400."
    again = ("rescore", OBSERVATORY, "embedded", evaluation_id)
    assert code == 1
    assert err.startswith(f"rag-eval: {OBSERVATORY} x embedded: {note} To judge them again")
    assert err.endswith(f": rag-eval {' '.join(again)}\n")
    assert found["headline"]["judged_correct"] is None
    assert found["judge"] == {"judged": 0, "failed": 16, "reasons": {"judge_http_400": 16}}
    code, out, err = rag_eval(*again)
    assert (code, err) == (0, f"rag-eval: {out.strip()}: {note}\nNext: rag-eval report --open\n")


def test_failed_questions_are_said_with_their_reason_and_beside_the_means_that_lack_them(rag_eval, workspace, server):
    server.refused = {3, 5}
    set_system(workspace, server)

    code, out, _ = rag_eval("evaluate", OBSERVATORY, "--system", "paid", "--strict")

    assert code == 1
    assert re.search(r"16 questions, 2 failed \(.*\)\n  Failed: 2 \w+ \(.*400.*\)\.\n", out)
    assert re.search(r" F1 \d\.\d{3} \(14 of 16\)", out)


def test_questions_that_time_out_are_said_with_the_settings_that_help(rag_eval, workspace):
    settings = {"endpoint": {"attempt_seconds": 3, "max_retries": 0}, "path": "/", "body": {"q": "{question}"}}
    asked, is_over = [], threading.Event()

    def answer(path, body):
        asked.append(body)
        if len(asked) > 1:
            is_over.wait()
        return {"answer": "Yes."}

    with json_server(answer) as server:
        settings["endpoint"]["base_url"] = server.url
        file = {"kind": "http", "settings": {**settings, "answer": "answer"}}
        workspace.system_file("slow").write_text(json.dumps(file))
        _, _, err = rag_eval("evaluate", OBSERVATORY, "--system", "slow")
        is_over.set()

    assert "questions timed out with 64 in flight: lower `in_flight` or raise `attempt_seconds`" in err
    file = workspace.system_file("slow").relative_to(workspace.root)  # the one to edit
    assert f"`total_seconds` in {file}, and ask these again" in err
    assert f"rag-eval evaluate {OBSERVATORY} --system slow --failed-only" in err


def test_fault_of_a_metric_is_said_once(rag_eval, workspace, monkeypatch, tmp_path, caplog):
    (tmp_path / "a_broken_metric.py").write_text(BROKEN_METRIC)
    monkeypatch.syspath_prepend(tmp_path)
    with workspace.defaults_config.open("a") as file:
        file.write("custom_metrics: [a_broken_metric:BROKEN]\n")

    _, _, err = rag_eval("evaluate", OBSERVATORY, "--system", "embedded")

    assert err.count("metric broken, question 0: ") == 1
    assert "metric broken" not in caplog.text


def test_evaluate_after_a_change_of_metrics_asks_nobody_and_says_so(rag_eval, workspace, server):
    set_system(workspace, server)
    command = ("evaluate", OBSERVATORY, "--system", "paid", "--json")
    first = json.loads(rag_eval(*command)[1])[0]
    defaults = workspace.defaults_config
    defaults.write_text(defaults.read_text().replace("tolerance_chars: 10", "tolerance_chars: 3"))

    _, out, err = rag_eval(*command)
    again = json.loads(out)[0]

    assert server.asked.total() == 16
    assert (again["rescored_from"], again["counts"]["asked"]) == (first["evaluation_id"], 0)
    assert f"nothing was asked: the answers of {first['evaluation_id']} were scored again" in err
    assert (json.loads(rag_eval(*command)[1])[0]["counts"]["asked"], server.asked.total()) == (16, 32)


def test_interrupted_evaluation_says_how_to_go_on(rag_eval, workspace, server):
    set_system(workspace, server)
    server.before[6] = lambda: signal.raise_signal(signal.SIGINT)  # as Ctrl-C does
    command = ("evaluate", OBSERVATORY, "--system", "paid")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

    try:
        code, _, err = rag_eval(*command)
    finally:
        signal.signal(signal.SIGINT, before)

    assert code == 130
    assert f"interrupted; the answers are kept, go on with: rag-eval {' '.join(command)}\n" in err
    assert json.loads(rag_eval(*command, "--json")[1])[0]["counts"]["asked"] < 16
