"""audit.yaml: people's decisions on suspect questions, which a plan applies and a conversion records."""

import json

import pytest

from rag_eval_pipeline.audit.audit_benchmark import audit
from rag_eval_pipeline.conversion.audit_decisions import audit_sha256, converted_decisions
from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.stamp import current_stamp, source_digest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.workspace import Workspace
from tests.conversion.conftest import HEAD, PLAIN
from tests.corpus.making import simple_pdf

ROWS = "q,a\nWho sails?,Ines\nWho rows?,Udo\nWho rows?,Ada\nWho steers?,n/a\nWho swims?,\n"
AUDIT = """decisions:
  - {id: 0, question: "Who sails?", decision: drop, reason: asked twice, by: ada, on: 2026-11-27}
  - {id: 2, question: "Who rows?", decision: fix, answers: [Mia, Mia M.], finding: near_duplicate}
  - {id: 3, question: "Who steers?", decision: fix, unanswerable: true}
  - {id: 1, question: "Who rows?", decision: keep, finding: near_duplicate}
  - {id: 4, question: "Who swims?", decision: fix, answers: Bo}
  - {id: 9, question: "Who dives?", decision: drop}
  - {id: 9, question: "Who rows?", decision: drop}
  - {id: 0, question: "Who sails?", decision: fix, answers: [Bo]}
"""


def test_decisions_change_questions_everywhere_and_none_is_lost(benchmark, tmp_path):
    paths = benchmark(PLAIN, {"questions.csv": ROWS, "audit.yaml": AUDIT})

    found = plan(paths)
    convert(Workspace(tmp_path), "scratch")

    expected = [(1, "Udo", ("Udo",), False), (2, "Mia", ("Mia", "Mia M."), False), (3, "", (), True)]
    assert [(one.id, one.answer, one.answers, one.is_impossible) for one in found.questions] == expected
    assert [(one.stage, one.question_id, one.field) for one in found.quarantine] == [
        ("audit", 0, "audit"), ("validation", 4, "a"),
    ]  # fmt: skip
    assert "(asked twice)" in found.quarantine[0].message("scratch")
    counts = found.counts
    assert (counts.rows, counts.accepted, counts.dropped, counts.quarantined) == (5, 3, 1, 1)
    notes = [note for note in found.notes if note.startswith("audit.yaml")]
    assert [note.partition(": ")[2] for note in notes] == [
        "1 dropped, 2 with new answers.",
        "fix of 4 is not used: its row is refused.",
        "fix of 0, 'Who sails?', is not used: another decision is about the same question.",
        "drop of 9, 'Who dives?', is not used: no question has this text.",
        "drop of 9, 'Who rows?', is not used: 2 questions have this text, and none this id.",
    ]
    train = json.loads(paths.train_json.read_text())
    assert [(row["id"], row["answer"], row["is_impossible"]) for row in train] == [
        (number, answer, impossible) for number, answer, _, impossible in expected
    ]
    dataset = EvaluationDataset.read(Workspace(tmp_path).eval_json("scratch", "1.0.0"))
    assert [query.accepted_answers for query in dataset.queries] == [["Udo"], ["Mia", "Mia M."], []]
    assert converted_decisions(paths).kept == {1: {"near_duplicate"}}
    stamp = current_stamp(paths, source_digest(paths))
    assert (stamp.counts["questions.audit_dropped"], stamp.counts["questions.audit_fixed"]) == (1, 2)
    assert stamp.audit_sha256 == audit_sha256(paths) is not None


ADDED = """decisions:
  - {id: trace-1, question: "Who dives?", decision: add, answers: Bo, documents: [a.pdf], finding: suggested}
  - {id: trace-2, question: "Who rests?", decision: add, unanswerable: true}
  - {id: trace-3, question: "Who waits?", decision: add, finding: suggested}
  - {id: trace-4, question: "Who left?", decision: drop, finding: suggested}
  - {id: trace-5, question: "Who hides?", decision: add, answers: Ada, documents: [b.pdf]}
"""


def test_taken_questions_are_asked_once_they_have_a_gold_answer(benchmark, tmp_path):
    spec = PLAIN + "tables: {docs: {files: '*.pdf'}}\ndocuments: SELECT name, file FROM docs\n"
    files = {"questions.csv": "q,a\nWho sails?,Ines\n", "a.pdf": simple_pdf("Bo dives."), "audit.yaml": ADDED}

    found = plan(benchmark(spec, files))
    convert(Workspace(tmp_path), "scratch")

    assert [(one.id, one.source_id, one.answers, len(one.contexts)) for one in found.questions] == [
        (0, None, ("Ines",), 0), (1, "trace-1", ("Bo",), 1), (2, "trace-2", (), 0),
    ]  # fmt: skip
    assert [(one.file, one.row, one.code) for one in found.quarantine] == [("audit.yaml", 3, "unknown_document")]
    assert found.counts.conserved
    assert (found.counts.rows, found.counts.accepted, found.counts.quarantined) == (4, 3, 1)
    assert [note for note in found.notes if note.startswith("audit.yaml")] == [
        "audit.yaml: 0 dropped, 0 with new answers, 3 added.",
        "audit.yaml: 1 taken, without a gold answer yet: not asked.",
    ]
    dataset = EvaluationDataset.read(Workspace(tmp_path).eval_json("scratch", "1.0.0"))
    assert [query.accepted_answers for query in dataset.queries] == [["Ines"], ["Bo"], []]
    assert audit(Workspace(tmp_path), "scratch") == []


MOVED = {  # decision on question b, source, number of the question that is dropped
    "a row before it": ("id: 1", "q,a\nnew,1\na,1\nb,2\n", 2),
    "its own id": ("id: x2", "q,a,i\nb,1,x1\nb,2,x2\n", 1),
    "its row's number, where it has an id": ("id: 0", "q,a,i\nb,1,1\nb,2,0\n", 1),
    "one of a row that where drops": ("id: 5", "q,a\nb,no\nb,2\n", 1),
}


@pytest.mark.parametrize(("question", "rows", "dropped"), MOVED.values(), ids=MOVED)
def test_decision_is_found_by_the_question_s_text_and_among_equal_ones_by_its_id(question, rows, dropped, benchmark):
    spec = HEAD + "source: questions.csv\nwhere: answer <> 'no'\nquestions: {question: q, answer: a%s}\n"
    audit = f"decisions: [{{{question}, question: b, decision: drop}}]\n"

    found = plan(benchmark(spec % (", source_id: i" * (",i" in rows)), {"questions.csv": rows, "audit.yaml": audit}))

    assert [record.question_id for record in found.quarantine if record.stage == "audit"] == [dropped]


WRONG = {
    "a field that there is not": ("{id: 1, question: b, decision: drop, why: x}", "line 2.*unknown_key.*reason|why"),
    "a decision that there is not": (
        "{id: 1, question: b, decision: remove}",
        r"line 2.*'drop', 'fix', 'keep' or 'add'",
    ),
    "a fix without answers": ("{id: 1, question: b, decision: fix}", "line 2.*either `answers` or `unanswerable"),
    "a blank answer": ("{id: 1, question: b, decision: fix, answers: [' ']}", "line 2.*answers with text"),
    "a keep without its finding": ("{id: 1, question: b, decision: keep}", "line 2.*the kind of `finding`"),
    "no day": ("{id: 1, question: b, decision: drop, on: today}", "line 2.*`on`|date"),
}


@pytest.mark.parametrize(("decision", "message"), WRONG.values(), ids=WRONG)
def test_wrong_decision_is_named_with_its_line(decision, message, benchmark):
    files = {"questions.csv": "q,a\nb,1\n", "audit.yaml": f"decisions:\n- {decision}\n"}

    with pytest.raises(InputError, match=f"data/sources/scratch/audit.yaml, {message}"):
        plan(benchmark(PLAIN, files))


def test_audit_of_a_published_version_needs_a_new_one_unless_it_keeps_all(benchmark, tmp_path):
    spec = PLAIN + "expect: {questions: 2}\n"
    convert(Workspace(tmp_path), benchmark(spec, {"questions.csv": "q,a\nb,1\nc,2\n"}).name)
    keep, drop = (f"decisions: [{{id: 0, question: b, decision: {one}, finding: x}}]\n" for one in ("keep", "drop"))
    paths = benchmark(spec, {"audit.yaml": keep})
    convert(Workspace(tmp_path), "scratch")
    assert current_stamp(paths, source_digest(paths)).audit_sha256 == audit_sha256(paths)

    benchmark(spec, {"audit.yaml": drop})
    with pytest.raises(InputError, match=r"version_conflict.*audit.yaml has changed.*`expect`.*Raise `version`"):
        convert(Workspace(tmp_path), "scratch")
    benchmark(spec.replace("1.0.0", "1.0.1"), {})
    with pytest.raises(InputError, match=r"check_failed|'questions': \{'expected': 2, 'found': 1"):
        convert(Workspace(tmp_path), "scratch")


def test_audit_is_no_document_of_a_glob(benchmark):
    spec = HEAD + "source: {files: '**/*.yaml'}\nquestions: SELECT name AS question, 'a' AS answer FROM source\n"

    found = plan(benchmark(spec, {"a.yaml": "a", "audit.yaml": "decisions: []\n"}))

    assert [question.question for question in found.questions] == ["a.yaml"]
