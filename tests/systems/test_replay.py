"""Recorded answers of any form are found by question; a question that was not recorded is an error."""

import contextlib
import gzip
import json
import lzma
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import openpyxl
import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.score_tables import Answers
from rag_eval_pipeline.systems.base import Citation, Query, RagAnswer, RetrievedPassage, Usage
from rag_eval_pipeline.systems.kind_settings import ReplaySettings
from rag_eval_pipeline.systems.replay import open_replay
from tests.formats.result_values import results_value

SLEEP = Query("0", "Do cats sleep?")
BARK = Query("1", "Do dogs bark?")
PASSAGE = RetrievedPassage("cats.pdf", 2, "Cats sleep.", 0.5, 1)

ROW = {
    "query_id": "0",
    "answer": "They do.",
    "contexts": [{"document": "cats", "page": 2, "text": "Cats sleep.", "score": 0.5}],
}
NVIDIA = {
    "id": 0, "question": "Do cats sleep?", "answer": "the truth", "generated_answer": "They do.", "contexts": ["gold"],
    "generated_contexts": ["Cats sleep."], "retrieved_docs": ["cats.pdf_2"], "usage": None,
}  # fmt: skip
RAGAS = {
    "user_input": "Do cats  sleep?", "response": "They do.", "reference": "the truth",
    "retrieved_contexts": [{"page_content": "Cats sleep.", "metadata": {"source": "/x/cats.pdf", "page": 1, "score": 0.5}}],
}  # fmt: skip


CSV_CONTEXTS = '"' + json.dumps(ROW["contexts"]).replace('"', '""') + '"'


@pytest.fixture
def replayed(corpus, tmp_path):
    """`async with replayed(name, content) as system`; content is text or bytes, None if the test wrote the file."""

    @contextlib.asynccontextmanager
    async def replayed(name, content, **settings):
        if content is not None:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        async with open_replay(ReplaySettings.model_validate({"path": name} | settings), corpus) as system:
            yield system

    return replayed


FORMS = {
    "JSON lines": ("a.jsonl", json.dumps(ROW), (PASSAGE,), "lines"),
    "JSON lines behind a byte order mark": ("a", "\ufeff" + json.dumps(ROW) + "\r\n\r\n", (PASSAGE,), "lines"),
    "a list": ("a.json", json.dumps([ROW], indent=2), (PASSAGE,), "list"),
    "NVIDIA's evaluation data": ("a.json", json.dumps([NVIDIA]), (msgspec.structs.replace(PASSAGE, score=None),), "list"),
    "RAGAS' samples by their text": ("a.jsonl", json.dumps(RAGAS), (PASSAGE,), "lines"),
    "CSV": ("a.csv", f"query_id,answer,contexts\n0,They do.,{CSV_CONTEXTS}\n1,12,\n", (PASSAGE,), "table"),
    "SQuAD's predictions": ("a.json", json.dumps({"0": "They do.", "1": ""}), (), "predictions"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "contexts", "form"), FORMS.values(), ids=FORMS)
async def test_forms_give_equal_answers(name, content, contexts, form, replayed):
    async with replayed(name, content) as system:
        answer = await system.answer(SLEEP)

        assert system.configuration()["recorded_as"] == form
    assert (answer.query_id, answer.status, answer.answer, answer.abstained) == ("0", "ok", "They do.", False)
    assert answer.contexts == contexts
    assert answer.usage == Usage(requests=0)


async def test_table_has_its_lists_times_and_truth_values_as_json(replayed, tmp_path):
    """A workbook has the same texts as the CSV of it; a header of six words is no TREC run."""
    header = ["what did he ask us question", "question", "response", "latency_ms", "abstained", "contexts"]
    rows = [header, ["", SLEEP.text, "[1] They do.", 12.5, False, "Cats sleep."], ["", BARK.text, "", "", True, ""]]
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    workbook.save(tmp_path / "a.xlsx")
    text = "\n".join("\t".join(map(str, row)) for row in rows)

    for name, content in (("a.tsv", text), ("a.tsv.xz", lzma.compress(text.encode())), ("a.xlsx", None)):
        async with replayed(name, content) as system:
            answer, abstention = await system.answer(SLEEP), await system.answer(BARK)

        assert (answer.answer, answer.latency_ms, answer.contexts[0].text) == ("[1] They do.", 12.5, "Cats sleep.")
        assert (abstention.status, abstention.abstained) == ("ok", True)


async def test_row_of_a_table_that_cannot_be_read_is_named(replayed):
    async with replayed("a.csv", "query_id,answer\n0,They do.\n1,No,3\n") as system:
        kept, (warning,) = await system.answer(SLEEP), system.warnings()

    assert kept.answer == "They do."
    assert warning.startswith("a.csv, row 2: expected 2 cells")


async def test_answers_of_an_evaluation_are_replayed_unchanged(replayed, tmp_path):
    answers = [
        RagAnswer(
            query_id="0", status="ok", answer="They do [cats.pdf:1:0-4].", abstained=False,
            contexts=(PASSAGE, RetrievedPassage("big dogs.pdf", None, "Dogs.", None, 2, 3, 7)),
            citations=(Citation("cats.pdf", 0, 4, 1, 8, 24),), latency_ms=12.5, usage=Usage(7, 0.25, 2, 3, 4),
        ),
        RagAnswer(
            query_id="1", status="timeout", answer=None, abstained=False, contexts=(), citations=(), latency_ms=30000.0,
            usage=Usage(requests=0), error="no answer within 30 s", error_code="total_timeout",
        ),
    ]  # fmt: skip
    Answers.write(tmp_path / "responses.parquet", answers)

    async with replayed("responses.parquet", None) as system:
        found = [await system.answer(query) for query in (SLEEP, BARK)]

    assert found == answers


@pytest.mark.parametrize("indent", [1, None], ids=["indented", "compact"])
async def test_results_file_gives_its_answers_and_its_configuration(indent, replayed):
    question = Query("0", "Who?")
    value = results_value(configuration={"model": "m-1", "retrieval_k": 5, "own": 1})

    async with replayed("eval_run_20250830_001.results.json", json.dumps(value, indent=indent)) as system:
        answer, configuration = await system.answer(question), system.configuration()

    assert (answer.answer, answer.latency_ms) == ("She.", 4.0)
    assert answer.contexts == (RetrievedPassage("a.pdf", None, "", 0.5, 1),)
    assert answer.citations == (Citation("a.pdf", 0, 4, None),)
    assert (configuration["model"], configuration["retrieval_k"], "own" in configuration) == ("m-1", 5, False)


RUN = """\
0 Q0 cats.pdf 9 0.5 bm25
0 Q0 big%20dogs.pdf 1 2.5 bm25
0 Q0 z.pdf 3 0.5 bm25
q%20two Q0 cats 1 1 bm25
"""


COMMENTED = "# bm25\n\n" + RUN.replace(" bm25\n", " bm25 k1=1.2\n")


@pytest.mark.parametrize(
    "content", [RUN, gzip.compress(RUN.encode()), COMMENTED], ids=["plain", "packed", "with comment and further fields"]
)
async def test_run_gives_contexts_in_trec_eval_order_and_no_answer(content, replayed):
    async with replayed("bm25.run", content) as system:
        first, second = await system.answer(SLEEP), await system.answer(Query("q two", "?"))

    # By score, then by document id descending; the ranks of the file count for nothing.
    assert [(c.document, c.score, c.rank) for c in first.contexts] == [
        ("big dogs.pdf", 2.5, 1), ("z.pdf", 0.5, 2), ("cats.pdf", 0.5, 3),
    ]  # fmt: skip
    assert (first.status, first.answer, first.abstained, first.citations) == ("ok", None, False, ())
    assert [c.document for c in second.contexts] == ["cats.pdf"]


NULL = "the recorded answer is null; a recording that abstains says abstained: true"
ROWS = {
    #                                  row                                                          status     code                 answer  error
    "an empty answer that abstains":  ({"answer": "", "abstained": True},                           "ok",      None,                "",     None),
    "an abstention without a text":   ({"answer": None, "abstained": True},                         "ok",      None,                "",     None),
    "a retrieval alone":              ({"contexts": [{"document": "cats"}]},                        "ok",      None,                None,   None),
    "a failure with its reason":      ({"status": "refused", "error": "no\n way", "error_code": "x"}, "refused", "x",               None,   "no way"),
    "an answer that is a number":     ({"answer": 51820},                                           "ok",      None,                "51820", None),
    "a failure without a reason":     ({"status": "error"},                                         "error",   "recorded_failure",  None,   "the recording has no answer and does not say why"),
    "NVIDIA's failure":               ({"answer": "the truth", "generated_answer": None},           "error",   "recorded_failure",  None,   "the recording has no answer and does not say why"),
}  # fmt: skip


async def test_empty_answer_abstains_in_squad_predictions_and_is_an_error_in_other_forms(replayed):
    """SQuAD 2's predictions are `{id: answer}`, and "" is how they abstain; settings say it for other forms."""
    found = []
    for name, content, settings in [
        ("predictions.json", '{"0": "", "1": "x"}', {}),
        ("rows.jsonl", '{"query_id": "0", "answer": ""}', {}),
        ("rows.jsonl", '{"query_id": "0", "answer": ""}', {"empty_answer": "abstained"}),
        ("predictions.json", '{"0": "", "1": "x"}', {"empty_answer": "error"}),
    ]:
        async with replayed(name, content, **settings) as system:
            answer = await system.answer(SLEEP)
            found.append((answer.status, answer.error_code, answer.answer, answer.abstained))

    abstained, failed = ("ok", None, "", True), ("error", "empty_answer", None, False)
    assert found == [abstained, failed, abstained, failed]


@pytest.mark.parametrize(("row", "status", "code", "text", "error"), ROWS.values(), ids=ROWS)
async def test_row_gives_status_and_answer(row, status, code, text, error, replayed):
    async with replayed("a.jsonl", json.dumps({"query_id": "0"} | row)) as system:
        answer = await system.answer(SLEEP)

    assert (answer.status, answer.error_code, answer.answer, answer.error) == (status, code, text, error)
    assert answer.abstained == (text == "")


FAULTY_ROWS = {
    #                               content of row 2                                             code                what the message names
    "a null answer":               ('{"query_id": "0", "answer": null}',                         "recorded_failure", "answer is null"),
    "a negative latency":          ('{"query_id": "0", "answer": "a", "latency_ms": -1}',        "bad_recording",    "a.jsonl, row 2"),
    "a context that is none":      ('{"query_id": "0", "answer": "a", "contexts": [{}]}',        "bad_recording",    "an empty object"),
    "usage that is none":          ('{"query_id": "0", "answer": "a", "usage": {"requests": -1}}', "bad_recording",  "row 2"),
}  # fmt: skip


@pytest.mark.parametrize(("row", "code", "named"), FAULTY_ROWS.values(), ids=FAULTY_ROWS)
async def test_row_that_cannot_be_read_is_one_failed_answer(row, code, named, replayed, tmp_path):
    async with replayed("a.jsonl", '{"query_id": "1", "answer": 12}\n' + row) as system:
        lost, kept = await system.answer(SLEEP), await system.answer(BARK)

    assert (lost.status, lost.error_code, lost.answer) == ("error", code, None)
    assert named in lost.error
    assert str(tmp_path) not in lost.error
    assert (kept.status, kept.answer) == ("ok", "12")


@pytest.mark.parametrize("line", [b'{"query_id": ', b'{"answer": "a"}', b'{"query_id": "\xe9"}', b'["a"]'])
async def test_row_without_a_question_is_left_out_with_a_warning(line, replayed):
    async with replayed("a.jsonl", b'{"query_id": "1", "answer": "a"}\n' + line) as system:
        kept, (warning,) = await system.answer(BARK), system.warnings()

    assert kept.answer == "a"
    assert warning.startswith("a.jsonl, row 2")


async def test_predictions_may_be_numbers_and_null_is_a_failure(replayed):
    async with replayed("p.json", '{"0": 12, "1": null}') as system:
        number, null = await system.answer(SLEEP), await system.answer(BARK)

    assert (number.answer, null.error) == ("12", NULL)


async def test_questions_are_found_by_id_and_by_text(replayed):
    rows = [
        {"query_id": "1", "question": SLEEP.text, "answer": "They do."},  # its id is that of another question by now
        {"query_id": "2", "question": "Same?", "answer": "a2"},
        {"query_id": "3", "question": "Same?", "answer": "a3"},
    ]
    asked = [SLEEP, BARK, *(Query(name, "Same?") for name in ("2", "3", "7"))]

    async with replayed("a.jsonl", "\n".join(map(json.dumps, rows))) as system:
        answers = [await system.answer(query) for query in asked]

    assert [answer.answer for answer in answers] == ["They do.", None, "a2", "a3", None]
    assert (answers[1].status, answers[1].error_code, "'1'" in answers[1].error) == ("error", "not_recorded", True)


NAMES = {
    "a name with its page": ("cats.pdf_2", ("cats.pdf", 2)),
    "a document whose name ends like a page": ("report_3", ("report_3.pdf", None)),
    "that document's page": ("report_3.pdf_7", ("report_3.pdf", 7)),
    "no page": ("big dogs", ("big dogs.pdf", None)),
}


@pytest.mark.parametrize(("name", "place"), NAMES.values(), ids=NAMES)
async def test_retrieved_page_names_of_nvidia(name, place, replayed):
    row = NVIDIA | {"retrieved_docs": [name]}

    async with replayed("a.json", json.dumps([row])) as system:
        (context,) = (await system.answer(SLEEP)).contexts

    assert (context.document, context.page, context.text) == (*place, "Cats sleep.")


async def test_ranks_order_the_contexts_if_all_state_one(replayed):
    contexts = [{"document": "cats", "rank": 2}, {"document": "report_3", "rank": 1}]

    async with replayed("a.jsonl", json.dumps(ROW | {"contexts": contexts})) as system:
        assert [c.document for c in (await system.answer(SLEEP)).contexts] == ["report_3.pdf", "cats.pdf"]


async def test_changed_recording_changes_the_fingerprint(replayed):
    found = []
    for answer in ("a", "b", "b"):
        async with replayed("a.jsonl", json.dumps(ROW | {"answer": answer})) as system:
            found.append(system.server_configuration()["sha256"])

    assert found[0] != found[1] == found[2]


async def test_file_of_a_night_is_that_of_the_evaluation_s_start(replayed, corpus, tmp_path):
    by_night = {"path": "{benchmark}/{system}/{started:%Y-%m-%dT%H}.jsonl"}
    folder = tmp_path / "coast" / "recorded"
    folder.mkdir(parents=True)
    for name, answer in (("2026-11-15T02", "They do."), ("2026-11-15T06", "No.")):
        (folder / f"{name}.jsonl").write_text(json.dumps(ROW | {"answer": answer}))
    found = []
    for hour in (2, 6):
        started = replace(corpus, started=datetime(2026, 11, 15, hour, 45, tzinfo=UTC))
        async with open_replay(ReplaySettings.model_validate(by_night), started) as system:
            assert system.server_configuration() is None  # another file is no other system
            found.append(((await system.answer(SLEEP)).answer, system.configuration()["recording"]))

    assert found == [("They do.", "2026-11-15T02.jsonl"), ("No.", "2026-11-15T06.jsonl")]
    with pytest.raises(InputError) as error:
        async with open_replay(
            ReplaySettings.model_validate(by_night), replace(corpus, started=datetime(2026, 11, 17, 2, tzinfo=UTC))
        ):
            pass
    assert error.value.code == "missing_file"
    expected = "recorded answers of the evaluation that began 2026-11-17 02:00 UTC"
    for part in (expected, "recorded/2026-11-17T02.jsonl", "has 2026-11-15T02.jsonl, 2026-11-15T06.jsonl."):
        assert part in str(error.value)


QUESTIONS = [Query(str(n), f"Question {n}?") for n in range(20)]
SOURCE_IDS = {
    "counted from 1": [str(n + 1) for n in range(20)],
    "with leading zeros": [f"{n + 1:03d}" for n in range(20)],
    "texts": [f"HR {n}" for n in range(20)],
    "none": [str(n) for n in range(20)],
}


@pytest.mark.parametrize("source_ids", SOURCE_IDS.values(), ids=SOURCE_IDS)
@pytest.mark.parametrize("named", ["query_id", "source_id"])
async def test_recording_by_the_ids_of_dataset_or_source(named, source_ids, corpus, tmp_path):
    by = source_ids if named == "source_id" else [query.query_id for query in QUESTIONS]
    rows = [{named: int(one) if one.isdecimal() else one, "answer": f"a{n}"} for n, one in enumerate(by)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    known = dict(zip([query.query_id for query in QUESTIONS], source_ids, strict=True))

    async with open_replay(ReplaySettings(path="a.jsonl"), replace(corpus, source_ids=lambda: known)) as system:
        answers = [(await system.answer(query)).answer for query in QUESTIONS]

    assert answers == [f"a{n}" for n in range(20)]


TWO_WAYS = {
    # ids of rows, ids that the source gives questions 0, 1, ...
    "other questions": (range(5, 15), range(1, 21)),
    "the same questions in another order": (range(20), range(19, -1, -1)),
}


@pytest.mark.parametrize(("recorded", "source_ids"), TWO_WAYS.values(), ids=TWO_WAYS)
async def test_recording_whose_ids_fit_two_ways_needs_the_setting(recorded, source_ids, corpus, tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"id": n, "answer": f"a{n}"}) for n in recorded))
    corpus = replace(corpus, source_ids=lambda: {str(n): str(one) for n, one in enumerate(source_ids)})

    with pytest.raises(InputError) as error:
        async with open_replay(ReplaySettings(path="a.jsonl"), corpus):
            pass
    found = []
    for ids in ("query_id", "source_id"):
        async with open_replay(ReplaySettings(path="a.jsonl", ids=ids), corpus) as system:
            found.append(((await system.answer(QUESTIONS[9])).answer, system.server_configuration().get("ids")))

    assert error.value.code == "ambiguous_ids"
    assert f"{len(recorded)} ids of both" in str(error.value)
    assert found == [("a9", None), ("a10", "source_id")]


@pytest.mark.parametrize("named", [{}, {"question": "Q"}], ids=["by id", "by text"])
async def test_recording_whose_ids_count_from_one_is_not_read_as_if_from_zero(named, corpus, tmp_path):
    rows = [{"id": n, "answer": f"a{n}"} | {name: QUESTIONS[n - 1].text for name in named} for n in range(1, 21)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = replace(corpus, source_ids=lambda: {query.query_id: query.query_id for query in QUESTIONS})

    if named:
        async with open_replay(ReplaySettings(path="a.jsonl"), corpus) as system:
            assert [(await system.answer(query)).answer for query in QUESTIONS] == [f"a{n}" for n in range(1, 21)]
    else:
        with pytest.raises(
            InputError, match="19 are ids of questions, and 20 would be if they counted from 1"
        ) as error:
            async with open_replay(ReplaySettings(path="a.jsonl"), corpus):
                pass
        assert error.value.code == "ambiguous_ids"


BAD = {
    #                                name        content                                                         code                  row   field
    "no file":                      ("a.jsonl",  None,                                                           "missing_file",       None, None),
    "a table of something else":    ("a.csv",    "name,age\nAda,3\n",                                           "unknown_form",       None, None),
    "a header alone":               ("a.csv",    "query_id,answer\n",                                           "no_recordings",      None, None),
    "prose":                        ("a.txt",    "These are the answers.",                                       "unknown_form",       None, None),
    "an empty list":                ("a.json",   "[]",                                                           "no_recordings",      None, None),
    "lists in lists in lists":      ("a.jsonl",  '{"query_id": ' + "[" * 5000,                                  "bad_json",           None, None),
    "lines that are all cut":       ("a.jsonl",  '{"query_id": \n{"query_id": "0", "answ',                       "bad_json",           1,    None),
    "a line of another encoding":   ("a.jsonl",  b'{"query_id": "0", "answer": "\xe9"}\n{}',                     "bad_encoding",       1,    None),
    "neither id nor question":      ("a.jsonl",  '{"answer": "a"}\n',                                            "bad_recording",      1,    None),
    "an id that is a list":         ("a.jsonl",  '{"query_id": [0], "answer": "a"}',                             "bad_recording",      1,    "query_id"),
    "a question that is a number":  ("a.jsonl",  '{"question": 3, "answer": "a"}',                               "bad_recording",      1,    "question"),
    "an unknown status":            ("a.jsonl",  '{"query_id": 0, "status": "fine"}',                            "bad_recording",      1,    "status"),
    "a negative latency":           ("a.jsonl",  '{"query_id": 0, "answer": "a", "latency_ms": -1}',             "bad_recording",      1,    "latency_ms"),
    "no answer and no contexts":    ("a.jsonl",  '{"query_id": 0, "k": "v"}',                                    "bad_recording",      1,    None),
    "a context that is none":       ("a.jsonl",  '{"query_id": 0, "answer": "a", "contexts": [3]}',              "bad_recording",      1,    None),
    "a result that is none":        ("r.json",   '{"query_results": [{"query_text": "0"}]}',                     "bad_format",         1,    "query_id"),
    "an id twice":                  ("a.jsonl",  '{"id": 0, "answer": "a"}\n\n{"id": "0", "answer": "b"}',       "duplicate_question", 3,    "query_id"),
    "a question twice":             ("a.jsonl",  '{"question": "a b", "answer": "a"}\n{"question": "a  b", "answer": "b"}', "duplicate_question", 2, "question"),
    "a run with a document twice":  ("a.run",    "0 Q0 a 1 2 t\n0 Q0 a 2 1 t",                                   "duplicate_document", 2,    "document id"),
    "parquet that is cut":          ("a.parquet", b"PAR1\x00\x00",                                               "bad_parquet",        None, None),
    "a gzip that is cut":           ("a.gz",     gzip.compress(b"x" * 99)[:20],                                  "bad_gzip",           None, None),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "code", "row", "field"), BAD.values(), ids=BAD)
async def test_malformed_recording_is_refused_with_file_row_and_field(
    name, content, code, row, field, replayed, tmp_path
):
    with pytest.raises(InputError) as error:
        async with replayed(name, content):
            pass

    assert (error.value.code, error.value.row, error.value.field) == (code, row, field)
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)
    assert code != "duplicate_question" or "row 1 has it too" in str(error.value)
