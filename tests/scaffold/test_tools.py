"""Files of evaluation tools: their questions, reference answers and gold texts are proposed, a system's outputs never."""

import json
import re

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.init import start_benchmark
from tests.conftest import REPOSITORY
from tests.scaffold.conftest import write
from tests.scaffold.tool_files import (
    DAYS,
    EXAMPLE,
    FILES,
    ITEM,
    LOG,
    MADE,
    MANAGER,
    SAMPLE,
    csv,
    jsonl,
)
from tests.sources.conftest import zipped


def shown(context, documents):
    made = context.text is not None and documents.get(context.document) == context.text
    return (MADE if made else context.document, context.text)


@pytest.mark.parametrize(("files", "answers", "gold", "documents"), FILES.values(), ids=FILES)
def test_file_of_a_tool_needs_no_edits(planned, files, answers, gold, documents):
    found = planned(files)

    bodies = {document.key: document.content for document in found.documents}
    assert found.questions[0].question == DAYS
    assert [question.answers for question in found.questions] == answers
    assert [[shown(c, bodies) for c in question.contexts] for question in found.questions] == gold
    assert len(found.documents) == documents
    assert found.counts.quarantined == 0


PAGE = (REPOSITORY / "docs" / "how-to" / "from-other-tools.md").read_text()
SHOWN = re.findall(r"^\$ rag-eval init (\S+) --from (\S+)\n(.*)$", PAGE, re.MULTILINE)
ON_PAGE = {
    "ragas/": "ragas, CSV, files", "promptfooconfig.yaml": "promptfoo, YAML", "tests.csv": "promptfoo, CSV",
    "goldens/": "DeepEval, CSV, files", "raget.jsonl": "Giskard", "rag_dataset.json": "LlamaIndex", "qa.json": "LlamaIndex, ids",
    "examples.jsonl": "LangSmith, JSONL", "items.json": "Langfuse, API", "staff.eval": "Inspect, .eval",
    "saved/": "saved dataset", "repository/": "shards of splits", "evals.jsonl": "OpenAI evals",
}  # fmt: skip


@pytest.mark.parametrize(("name", "origin", "printed"), SHOWN, ids=[origin for _, origin, _ in SHOWN])
def test_page_shows_what_init_prints(empty, tmp_path, name, origin, printed):
    files = FILES[ON_PAGE[origin]][0]
    folder = write(tmp_path / "here", files)
    paths, proposal = start_benchmark(empty, name, folder if origin.endswith("/") else folder / origin)

    assert f"{paths.spec.relative_to(empty.root)}: {proposal.shape}" == printed
    assert proposal.missing == []


SAID = {
    # files                                                                       what the proposal says
    "traced item":        ({"items.json": json.dumps({"data": [{**ITEM, "sourceTraceId": "t1"}]})}, "items made from traces"),
    "archived item":      (FILES["Langfuse, API"][0],                             "1 of 3 rows are left out by `trim(status, '\"') <> 'ARCHIVED'`"),
    "outputs left out":   (FILES["ragas, results"][0],                            "'response', 'retrieved_contexts'"),
    "assertions left out": (FILES["promptfoo, CSV"][0],                           "Assertions that judge an output without stating the answer"),
    "no answer":          (FILES["DeepEval, JSON"][0],                            "1 of 2 rows state no answer"),
    "made documents":     (FILES["ragas, JSONL"][0],                              "each gold text is made a document"),
    "searched documents": (FILES["ragas, CSV, files"][0],                         "looked for in all documents"),
    "broken run":         ({"staff.json": json.dumps({**LOG, "status": "error", "eval": {"dataset": {"samples": 9}}})},
                                                                                  "staff.json has 3 of 9 samples of its dataset; the status of its run is error."),
    "broken run, .eval":  ({"staff.eval": zipped({"_journal/start.json": "{}", "samples/s1_epoch_1.json": json.dumps(SAMPLE)})},
                                                                                  "staff.eval has no header: its run broke off"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "sentence"), SAID.values(), ids=SAID)
def test_what_is_assumed_of_a_tools_file_is_said(started, files, sentence):
    assert any(sentence in guess for guess in started(files).guesses)


RUN = {
    "id": "r1",
    "run_type": "chain",
    "trace_id": "t1",
    "inputs": {"question": DAYS},
    "outputs": {"answer": "30 days"},
}
TRACES = {
    "LangSmith runs":   {"runs.jsonl": jsonl(RUN)},
    "Langfuse traces":  {"traces.csv": csv(("id", "timestamp", "input", "output", "latency", "totalTokens"),
                                           ("t1", "2026-01-05", DAYS, "30 days", "2.1", "512"))},
}  # fmt: skip


@pytest.mark.parametrize("files", TRACES.values(), ids=TRACES)
def test_outputs_of_traces_are_not_taken_for_the_truth(started, files):
    proposal = started(files)

    assert [sentence.split(":")[0] for sentence in proposal.missing if "what a system answered" in sentence] == [
        "answer"
    ]
    assert "answer: FILL_IN" in proposal.text


ASSERTED = {
    # assertions                                                                       answers
    "lists alone":         ([{"type": "contains-any", "value": ["a, b", "c"]}],        ("a, b", "c")),
    "list of references":  ([{"type": "similar", "value": ["a", "b"]}],                ("a", "b")),
    "text and list":       ([{"type": "equals", "value": "a"}, {"type": "similar", "value": ["b"]}], ("a", "b")),
    "variable":            ([{"type": "contains", "value": "the {{ truth }}"}],        ("the truth itself",)),
    "kept in a file":      ([{"type": "equals", "value": "file://a.txt"}, {"type": "icontains", "value": "b"}], ("b",)),
    "unknown variable":    ([{"type": "equals", "value": "{{other}}"}, {"type": "icontains", "value": "b"}], ("b",)),
}  # fmt: skip


def test_assertions_become_answers(planned):
    tests = [
        {"vars": {"question": f"{name}?", "truth": "truth itself"}, "assert": a} for name, (a, _) in ASSERTED.items()
    ]

    found = planned({"tests.json": json.dumps(tests)})

    assert {q.question: q.answers for q in found.questions} == {
        f"{name}?": answers for name, (_, answers) in ASSERTED.items()
    }


RESULT = {
    "promptIdx": 0, "provider": {"id": "openai:gpt-4o"}, "response": {"output": "30 days"}, "success": False,
    "testCase": {"vars": {"question": DAYS}, "assert": [{"type": "equals", "value": "28 days"}]}, "vars": {"question": DAYS},
}  # fmt: skip
RESULTS = [RESULT, {**RESULT, "promptIdx": 1, "response": {"output": "29 days"}}]
RUBRIC = [{"type": "llm-rubric", "value": "{{expected_answer}}"}]
ANSWERED = {
    # file                                                                                       answers
    "promptfoo's results, each test once":
        ({"results.json": json.dumps({"evalId": "e", "results": {"version": 3, "results": RESULTS}, "config": {}})},
                                                                                                 [("28 days",)]),
    "a variable where no assertion states one":
        ({"tests.json": json.dumps([{"vars": {"question": "A?", "expected_answer": "a"}, "assert": RUBRIC}])},
                                                                                                 [("a",)]),
    "assertions whose values are all lists":
        ({"tests.json": json.dumps([{"vars": {"question": "A?"}, "assert": ASSERTED["lists alone"][0]}])},
                                                                                                 [("a, b", "c")]),
    "variables with the names of SQL":
        ({"tests.csv": csv(("question", "asserted", "cell", "_checks1", "__expected"), (MANAGER, "x", "y", "z", "equals: a"))},
                                                                                                 [("a",)]),
    "traces with a reference":
        ({"log.csv": csv(("question", "ground_truth", "response", "latency", "total_tokens"), ("A?", "a", "b", "2.1", "512"))},
                                                                                                 [("a",)]),
}  # fmt: skip


@pytest.mark.parametrize(("files", "answers"), ANSWERED.values(), ids=ANSWERED)
def test_answers_of_a_tools_file(planned, files, answers):
    assert [question.answers for question in planned(files).questions] == answers


def test_test_set_comes_before_its_results(started):
    files = {**FILES["ragas, results"][0], **FILES["ragas, JSONL"][0]}

    assert "\nsource: testset.jsonl\n" in started(files).text


def test_output_that_is_taken_for_the_truth_is_doubted(started):
    [guess] = [g for g in started({"log.csv": "question,response\nA?,a\n"}).guesses if g.startswith("answer")]

    assert "a system's own answers are no truth" in guess


def test_epochs_beyond_the_sampled_rows_are_left_out(planned, monkeypatch):
    monkeypatch.setattr("rag_eval_pipeline.scaffold.profile.SAMPLE_ROWS", 1)
    log = {"samples": [{"id": "s", "epoch": number, "input": "A?", "target": "a"} for number in (1, 2)]}

    assert len(planned({"log.json": json.dumps(log)}).questions) == 1


def test_promptfoo_configuration_without_tests_says_where_to_look(started):
    with pytest.raises(InputError, match="Run `init` on the file with the tests"):
        started({"promptfooconfig.yaml": "prompts: [a]\ntests: file://tests.csv\n"})


def test_question_that_is_not_recognised_has_to_be_filled_in(started):
    two = {**EXAMPLE, "inputs": {"first": "a", "second": "b"}}

    assert [sentence.split(":")[0] for sentence in started({"e.jsonl": jsonl(two)}).missing] == ["question"]
