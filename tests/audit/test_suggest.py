"""Questions from production become drafts: from the files of each tool, once each, and never as part of a benchmark."""

import json
import re

import pytest

from rag_eval_pipeline.audit.drafts import find_drafts
from rag_eval_pipeline.audit.trace_questions import Trace, read_traces
from rag_eval_pipeline.errors import InputError
from tests.conftest import REPOSITORY

RAILWAY = "skarn-railway"
DOGS, LEAD = "Are dogs allowed?", "On a lead."
MESSAGES = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi"},
    {"role": "user", "content": DOGS},
]
SAID = [{"role": "assistant", "content": LEAD}]
GEN_AI = [{"role": "user", "parts": [{"type": "text", "content": DOGS}]}]
LANGCHAIN = [[{"lc": 1, "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": DOGS}}]]
GENERATED = [[{"text": LEAD, "message": {"id": ["AIMessage"], "kwargs": {"content": LEAD}}}]]


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def otlp(*spans):
    """Spans of one trace: name, parent and attributes of each."""
    return lines({"resourceSpans": [{"scopeSpans": [{"spans": [
        {"traceId": "t1", "spanId": f"s{number}", "parentSpanId": parent, "startTimeUnixNano": f"17{number}",
         "attributes": [{"key": key, "value": {"stringValue": value} if isinstance(value, str) else {"intValue": value}}
                        for key, value in attributes.items()]}
        for number, (parent, attributes) in enumerate(spans)
    ]}]}]})  # fmt: skip


ONCE = [(DOGS, LEAD, False)]
DOWN = [(DOGS, LEAD, True)]
FILES = {
    "Langfuse, CSV of traces": ("traces.csv", 'id,timestamp,userId,input,output,observationCount,user-feedback,accuracy\n'
        't1,2026-11-01,u1,"{""question"":""Are dogs allowed?""}","""On a lead.""",3,[0],[1]\n'
        't2,2026-11-01,u1,"{""messages"":[{""role"":""user"",""content"":""Where?""}]}",Here,3,,[0]\n', [*DOWN, ("Where?", "Here", False)]),
    "Langfuse, observations": ("o.jsonl", lines(
        {"id": "a", "traceId": "t", "parentObservationId": None, "input": {"args": [], "kwargs": {"query": DOGS}}, "output": LEAD},
        {"id": "b", "traceId": "t", "parentObservationId": "a", "input": [{"role": "user", "content": "Context: ..."}], "output": "x"}), ONCE),
    "Langfuse, one trace": ("t.json", json.dumps([{"id": "t", "input": MESSAGES, "output": SAID[0], "scores": [{"name": "thumbs", "value": -1}]}]), DOWN),
    "Langfuse, categories": ("t.jsonl", lines(*({"id": name, "input": DOGS, "output": LEAD, "scores": [{"name": "thumb", "value": number, "stringValue": name}]}
        for name, number in (("thumbs_down", 1), ("thumbs_up", 0), ("False", 0)))), [*DOWN, *ONCE, *DOWN]),
    "Phoenix, data frame": ("spans.csv", "context.span_id,context.trace_id,parent_id,span_kind,attributes.input.value,attributes.output.value\n"
        's2,t1,s1,RETRIEVER,dogs,[]\ns1,t1,,CHAIN,Are dogs allowed?,On a lead.\n', ONCE),
    "Phoenix, REST": ("spans.json", json.dumps([{"context": {"trace_id": "t", "span_id": "s"}, "parent_id": None,
        "attributes": {"llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "Be kind.",
                       "llm.input_messages.1.message.role": "user", "llm.input_messages.1.message.content": DOGS, "output.value": LEAD},
        "annotations": [{"name": "user feedback", "result": {"label": "thumbs-down", "score": None}}]}]), DOWN),
    "LangSmith, JSON lines": ("runs.jsonl", lines(
        {"id": "b", "trace_id": "a", "parent_run_id": "a", "run_type": "llm", "inputs": {"messages": LANGCHAIN}, "outputs": {"generations": GENERATED}},
        {"id": "a", "trace_id": "a", "parent_run_id": None, "run_type": "chain", "inputs": {"input": DOGS}, "outputs": {"output": LEAD},
         "feedback_stats": {"user_score": {"n": 1, "avg": 0.0}, "correctness": {"n": 1, "avg": 0}}}), DOWN),
    "LangSmith, only the model's run": ("runs.json", json.dumps([{"id": "b", "parent_run_id": "a", "inputs": {"messages": LANGCHAIN},
        "outputs": {"generations": GENERATED}, "feedback_stats": {"thumbs_up": 0, "correctness": {"n": 1, "avg": 0}}}]), ONCE),
    "OTLP, gen_ai": ("otlp.jsonl", otlp(("", {"http.route": "/ask"}), ("s0", {"gen_ai.input.messages": json.dumps(GEN_AI),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": LEAD}]}])}),
        ("s0", {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Check it.", "n": 3})), ONCE),
    "OTLP, OpenInference": ("otlp.jsonl", otlp(("", {"input.value": DOGS, "output.value": LEAD, "user.feedback": 0})), DOWN),
    "a table in German": ("t.csv", "Frage;Antwort;Context;Feedback\nAre dogs allowed?;On a lead.;[1] Dogs;gut\n;;;\nAre dogs allowed?;On a lead.;;👎\n", [*ONCE, *DOWN]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "traces"), FILES.values(), ids=FILES)
def test_file_of_each_tool_gives_what_users_asked_and_no_steps(tmp_path, name, content, traces):
    (tmp_path / name).write_text(content)

    assert read_traces(tmp_path / name).traces == traces


@pytest.mark.parametrize(
    ("content", "code"),
    [("a,b\n1,2\n", "no_question_column"), (None, "missing_origin"), ('{"data": [{"input": "x"}]}', "missing_root")],
)
def test_file_without_questions_is_refused(tmp_path, content, code):
    if content is not None:
        (tmp_path / "t.csv").write_text(content)

    with pytest.raises(InputError) as caught:
        read_traces(tmp_path / "t.csv")

    assert caught.value.code == code


UNREAD = {
    "a line that was cut":        (b'{"question": "Where?"}\n{"quest', 0, "1 row could not be read: it is t.csv, row 2: expected JSON: "),
    "rows with too many cells":   (b"question,answer\nWhere?,Here\n1,2,3\n1,2,3\n", 0, "2 rows could not be read; the first is t.csv, row 2: expected 2 cells [row_width]."),
    "no row that can be decoded": (b"question\ncaf\xe9?\n", 2, 't.csv, row 1, field "question": expected UTF-8 or the stated encoding'),
}  # fmt: skip


@pytest.mark.parametrize(("content", "code", "said"), UNREAD.values(), ids=UNREAD)
def test_rows_that_cannot_be_read_are_counted_and_the_first_is_named(rag_eval, workspace, content, code, said):
    (workspace.root / "t.csv").write_bytes(content)

    ended, _, error = rag_eval("suggest", RAILWAY, "--from", "t.csv")

    assert (ended, error.removeprefix("rag-eval: ")[: len(said)]) == (code, said)


def test_drafts_are_new_questions_and_disliked_ones_each_once_with_their_counts():
    gauge = "Which track gauge did the chief engineer choose?"
    asked = [
        ("are dogs allowed on the trian", None, False), ("Are dogs allowed on the train?", "No", False),
        ("Are dogs allowed on the train?", "Yes", True), ("what gauge did the engineer choose for the track", "4 ft", True),
        ("track gauge chosen by chief engineer?", "5 ft", False), ("which track gauge did the chief enginer choose", "x", True),
        ("???", None, True),
    ]  # fmt: skip

    found = find_drafts([gauge], [Trace(*one) for one in asked])

    assert [(one.question, one.asked, one.thumbs_down, one.system_answer, one.nearest) for one in found.drafts] == [
        ("Are dogs allowed on the train?", 3, 1, "Yes", None),
        ("what gauge did the engineer choose for the track", 1, 1, "4 ft", gauge),
    ]
    assert [one.similarity < 0.5 for one in found.drafts] == [True, False]
    assert found[1:] == (4, 1, 1, 1)  # distinct, known, of these disliked, unlike


def test_page_shows_what_suggest_prints_and_the_same_traces_give_the_same_file(rag_eval, workspace):
    page = (REPOSITORY / "docs" / "how-to" / "suggest.md").read_text()
    [(traces, command, printed)] = re.findall(r"```json\n(.*?) +```.*?\$ rag-eval (.*?)\n(.*?) +```", page, re.DOTALL)
    (workspace.root / "traces.jsonl").write_text(traces.replace("\n    ", "\n").lstrip())
    paths, before = workspace.benchmark(RAILWAY), workspace.benchmark(RAILWAY).questions.read_bytes()

    code, out, error = rag_eval(*command.split())

    assert (code, out) == (0, re.sub("^    ", "", printed, flags=re.MULTILINE))
    assert "rag-eval report" in error
    first = paths.drafts.read_bytes()
    rag_eval(*command.split())
    assert paths.drafts.read_bytes() == first
    assert (paths.questions.read_bytes(), paths.audit.exists()) == (before, False)


def test_suggest_says_that_there_is_no_new_question(rag_eval, workspace):
    question = json.loads((workspace.benchmark(RAILWAY).source / "questions.jsonl").read_text().splitlines()[0])
    (workspace.root / "t.jsonl").write_text(
        lines({"question": question["question"], "feedback": "up"}, {"question": ""})
    )

    code, out, _ = rag_eval("suggest", RAILWAY, "--from", "t.jsonl")

    assert code == 0
    assert out.splitlines() == [
        f"read 1 trace (2 rows), 1 distinct question: 0 unlike any of {RAILWAY}, 0 with thumbs down",
        f"asked by {RAILWAY} already: 1, 0 with thumbs down",
        f"drafts: 0, in data/datasets/{RAILWAY}/drafts.json",
    ]
