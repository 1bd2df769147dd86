"""Small files in the shapes that evaluation tools write, with what each becomes; the texts are the tests' own.

`FILES` has, for each file of a tool: the files, the answers, the gold texts with their documents, and the documents.
"""

import io
import json

import pyarrow as pa
import pyarrow.ipc

from tests.sources.conftest import parquet, zipped

LEAVE, TRAVEL = "Full-time staff have 28 days of leave.", "The line manager approves flights above 500 dollars."
DAYS, MANAGER = "How many days of leave does a full-time employee have?", "Who approves a flight for 600 dollars?"
DOCUMENTS = {"docs/leave.md": f"Leave. {LEAVE} Unused days expire.", "docs/travel.md": f"Travel. {TRAVEL}"}


def jsonl(*objects):
    return "".join(json.dumps(item) + "\n" for item in objects)


def csv(*rows):
    return "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in rows)


def arrow_stream(rows):
    """The bytes of a file of `Dataset.save_to_disk`."""
    table, sink = pa.Table.from_pylist(rows), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def saved_dataset(folder, rows):
    """The files that `Dataset.save_to_disk` of Hugging Face's datasets writes into a folder."""
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_fingerprint": "f", "_split": None}
    return {
        f"{folder}data-00000-of-00001.arrow": arrow_stream(rows),
        f"{folder}dataset_info.json": json.dumps({"features": {}}),
        f"{folder}state.json": json.dumps(state),
    }


RAGAS = [
    {"user_input": DAYS, "reference_contexts": [LEAVE], "reference": "28 days", "synthesizer_name": "single_hop"},
    {"user_input": MANAGER, "reference_contexts": [f"<1-hop>\n\n{TRAVEL}", f"<2-hop>\n\n{LEAVE}"],
     "reference": "The line manager", "synthesizer_name": "multi_hop"},
]  # fmt: skip
RAGAS_CSV = csv(
    ("user_input", "reference_contexts", "reference", "synthesizer_name"),
    *((r["user_input"], str(r["reference_contexts"]), r["reference"], r["synthesizer_name"]) for r in RAGAS),
)
RAGAS_RESULTS = [{**RAGAS[0], "retrieved_contexts": ["Something else."], "response": "30 days"}]
GOLDEN = {
    "input": DAYS, "actual_output": "30 days", "expected_output": "28 days", "retrieval_context": ["Something else."],
    "context": [LEAVE, "Unused days expire."], "name": None, "comments": None, "source_file": "/home/me/docs/leave.md",
    "tools_called": None, "expected_tools": None, "additional_metadata": {"evolutions": ["Reasoning"]},
}  # fmt: skip
GOLDENS = [
    GOLDEN,
    {**GOLDEN, "input": MANAGER, "expected_output": None, "source_file": "travel.md", "context": [TRAVEL]},
]
GOLDENS_CSV = csv(
    ("input", "actual_output", "expected_output", "retrieval_context", "context", "source_file", "additional_metadata"),
    (DAYS, "30 days", "28 days", "Something else.", f"{LEAVE}|Unused days expire.", "docs/leave.md", ""),
    (MANAGER, "", "", "", TRAVEL, "docs/travel.md", ""),
)
RAGET = [
    {"id": "a", "question": DAYS, "reference_answer": "28 days", "conversation_history": [], "metadata":
     {"question_type": "simple", "seed_document_id": "1", "topic": "Leave"},
     "reference_context": f"Document 1: {LEAVE}\n\nDocument 7: Unused days expire."},
    {"id": "b", "question": "What does the canteen cost?", "reference_answer": "The documents do not say.",
     "reference_context": f"Document 2: {TRAVEL}", "conversation_history": [],
     "metadata": {"question_type": "out of scope", "seed_document_id": "2", "topic": "Travel"}},
]  # fmt: skip
BY = {"model_name": "gpt-4", "type": "ai"}
LABELLED = {"examples": [{"query": DAYS, "query_by": BY, "reference_contexts": [LEAVE], "reference_answer": "28 days",
                          "reference_answer_by": BY}]}  # fmt: skip
PROMPTFOO_CSV = csv(
    ("question", "topic", "__expected", "__expected2", "__description"),
    (DAYS, "leave", "contains: 28 days", "llm-rubric: is polite", ""),
    (MANAGER, "travel", "similar(0.8): The line manager", "icontains: manager", ""),
    ("Which colours has the badge?", "site", 'contains-any: "red, dark", blue', "", ""),
    ("What is the network called?", "site", "Hotel: upstairs", "", ""),
    ("When did the canteen open?", "site", "icontains: 9 June", "icontains: 1988", ""),
    ("Is there a pool?", "site", "llm-rubric: does not guess", "not-contains: yes", ""),
    ("What does the director earn?", "pay", "is-refusal", "", ""),
)
PROMPTFOO_ANSWERS = [
    ("28 days",), ("The line manager",), ("red, dark", "blue"), ("Hotel: upstairs",), ("9 June, 1988",), (),
]  # fmt: skip
PROMPTFOO_YAML = f"""\
description: Staff handbook
prompts: ["{{{{question}}}}", file://prompt.txt]
providers:
  - id: openai:gpt-4o
    config: {{temperature: 0}}
tests:
  - vars: {{question: {DAYS}, context: file://docs/leave.md}}
    assert:
      - {{type: contains, value: 28 days}}
      - {{type: llm-rubric, value: is polite}}
  - description: flights
    vars: {{question: {MANAGER}, context: file://docs/travel.md}}
    assert:
      - type: contains-any
        value: [the line manager, "manager, line"]
  - vars: {{question: How many rooms are there?, context: file://docs/leave.md}}
    assert: [{{type: equals, value: 28}}]
  - vars: {{question: Is there a pool?, context: file://docs/leave.md}}
    assert: [{{type: javascript, value: output.length < 100}}]
"""
KEYED = {
    "queries": {"q1": DAYS, "q2": MANAGER}, "corpus": {"n1": LEAVE, "n2": TRAVEL, "n3": "Nothing."},
    "relevant_docs": {"q1": ["n1"], "q2": ["n2"]}, "mode": "text",
}  # fmt: skip
PLAIN = [{"question": DAYS, "answer": "28 days", "passage_id": "p1"}]
PASSAGES = [{"id": "p1", "text": LEAVE}, {"id": "p2", "text": TRAVEL}]
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": DAYS}]
EXAMPLE = {"id": "e1", "inputs": {"question": DAYS}, "outputs": {"answer": "28 days"}, "source_run_id": None,
           "metadata": {"dataset_split": ["base"], "source": "leave.md"}}  # fmt: skip
ITEM = {
    "id": "i1", "status": "ACTIVE", "input": DAYS, "expectedOutput": "28 days", "metadata": {"source": "leave.md"},
    "sourceTraceId": None, "sourceObservationId": None, "datasetId": "d1", "datasetName": "staff",
    "createdAt": "2026-01-05T10:00:00.000Z", "updatedAt": "2026-01-05T10:00:00.000Z",
}  # fmt: skip
ITEMS = [
    ITEM,
    {
        **ITEM,
        "id": "i2",
        "input": {"question": MANAGER},
        "expectedOutput": {"role": "assistant", "content": "The line manager"},
    },
    {**ITEM, "id": "i3", "status": "ARCHIVED"},
]
ITEMS_CSV = csv(ITEM.keys(), [json.dumps(v) if v is not None else '""' for v in ITEM.values()])
SAMPLE = {
    "id": "s1", "epoch": 1, "input": DAYS, "target": "28 days", "metadata": {"source": "leave.md"}, "store": {},
    "messages": [{"role": "user", "content": DAYS}, {"role": "assistant", "content": "30 days"}],
    "output": {"model": "mockllm/model", "choices": [], "completion": "30 days"}, "scores": {"match": {"value": "I"}},
    "events": [{"event": "sample_init"}], "model_usage": {}, "uuid": "u1",
}  # fmt: skip
SAMPLES = [
    SAMPLE, {**SAMPLE, "epoch": 2, "uuid": "u2"},
    {**SAMPLE, "id": "s2", "input": [*CHAT[:1], {"role": "user", "content": MANAGER}], "uuid": "u3",
     "target": ["The line manager", "a manager"], "metadata": {"source": "travel.md"}},
]  # fmt: skip
LOG = {"version": 2, "status": "success", "eval": {"task": "staff"}, "plan": {"steps": []}, "samples": SAMPLES}

IN_LEAVE = [("docs/leave.md", None)]
MADE = "made of the gold text"
FILES = {
    # files                                                answers                          gold: document, text                         documents
    "ragas, JSONL":        ({"testset.jsonl": jsonl(*RAGAS)}, [("28 days",), ("The line manager",)], [[(MADE, LEAVE)], [(MADE, TRAVEL), (MADE, LEAVE)]], 2),
    "ragas, CSV, files":   ({"testset.csv": RAGAS_CSV, **DOCUMENTS}, [("28 days",), ("The line manager",)], [[(None, LEAVE)], [(None, TRAVEL), (None, LEAVE)]], 2),
    "ragas, results":      ({"results.jsonl": jsonl(*RAGAS_RESULTS)}, [("28 days",)],       [[(MADE, LEAVE)]],                           1),
    "DeepEval, JSON":      ({"goldens.json": json.dumps(GOLDENS)}, [("28 days",)],          [[("leave.md", LEAVE), ("leave.md", "Unused days expire.")]], 2),
    "DeepEval, CSV, files": ({"goldens.csv": GOLDENS_CSV, **DOCUMENTS}, [("28 days",)],     [[("docs/leave.md", LEAVE), ("docs/leave.md", "Unused days expire.")]], 2),
    "Giskard":             ({"raget.jsonl": jsonl(*RAGET)}, [("28 days",), ()],             [[(MADE, LEAVE), (MADE, "Unused days expire.")], []], 2),
    "LlamaIndex":          ({"rag_dataset.json": json.dumps(LABELLED)}, [("28 days",)],     [[(MADE, LEAVE)]],                           1),
    "promptfoo, CSV":      ({"tests.csv": PROMPTFOO_CSV}, PROMPTFOO_ANSWERS,                [[]] * 6,                                    0),
    "LangSmith, JSONL":    ({"examples.jsonl": jsonl(EXAMPLE), **DOCUMENTS}, [("28 days",)], [IN_LEAVE],                                 2),
    "LangSmith, CSV":      ({"examples.csv": csv(("inputs", "outputs"), (json.dumps({"q": DAYS}), json.dumps({"text": "28 days"})))},
                                                           [("28 days",)],                  [[]],                                        0),
    "Langfuse, API":       ({"items.json": json.dumps({"data": ITEMS, "meta": {"page": 1}}), **DOCUMENTS},
                                                           [("28 days",), ("The line manager",)], [IN_LEAVE, IN_LEAVE],                  2),
    "Langfuse, CSV":       ({"items.csv": ITEMS_CSV, **DOCUMENTS}, [("28 days",)],          [IN_LEAVE],                                  2),
    "OpenAI evals":        ({"evals.jsonl": jsonl({"input": CHAT, "ideal": "28 days"})}, [("28 days",)], [[]],                           0),
    "LlamaIndex, ids":     ({"qa.json": json.dumps(KEYED)}, [(), ()],                 [[("n1", None)], [("n2", None)]],            3),
    "promptfoo, YAML":     ({"promptfooconfig.yaml": PROMPTFOO_YAML, **DOCUMENTS}, [("28 days",), ("the line manager", "manager, line"), ("28",)],
                                                           [IN_LEAVE, [("docs/travel.md", None)], IN_LEAVE],                             2),
    "Inspect, .eval":      ({"staff.eval": zipped({"samples/s1_epoch_1.json": json.dumps(SAMPLE), "samples/s1_epoch_2.json": json.dumps(SAMPLES[1]),
                             "header.json": "{}", "summaries.json": "[]"}), **DOCUMENTS},  [("28 days",)], [IN_LEAVE],                    2),
    "saved dataset":       (saved_dataset("", PLAIN),      [("28 days",)],                  [[]],                                        0),
    "saved splits":        ({**saved_dataset("ds/train/", [{**PLAIN[0], "answer": "no"}]), **saved_dataset("ds/test/", PLAIN),
                             "ds/dataset_dict.json": json.dumps({"splits": ["train", "test"]})}, [("28 days",)], [[]],                   0),
    "shards of splits":    ({"data/test-00000-of-00002.parquet": parquet(PLAIN), "data/test-00001-of-00002.parquet": parquet(PLAIN),
                             "data/train-00000-of-00001.parquet": parquet(PLAIN), "passages.parquet": parquet(PASSAGES)},
                                                           [("28 days",), ("28 days",)],    [[("p1", None)], [("p1", None)]],            2),
}  # fmt: skip
