"""Systems' answers name the questions whose gold answer is probably wrong, with the page that shows it."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from rag_eval_pipeline.audit.audit_benchmark import audit
from rag_eval_pipeline.clock import NOW_VARIABLE
from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.formats.dataset import open_dataset
from rag_eval_pipeline.systems.config import parse_system
from rag_eval_pipeline.workspace import Workspace

RAILWAY = "skarn-railway"
FIRST = datetime(2026, 11, 9, 2, tzinfo=UTC)
ASKED = 12  # questions, the first ones
REFUSAL = "The documents do not answer this question."

# Source's id -> what each run answers in place of the gold answer.
WRONG = {
    "one": [
        # The page has "They were paid 2.40 crowns a day, and a strike raised this to 2.75."
        {"svr-004": "2.40 crowns a day", "svr-006": REFUSAL, "svr-007": "Carl Rudbeck"}
    ],
    "two": [
        {"svr-004": "They got 2.40 crowns.", "svr-006": REFUSAL, "svr-007": "Carl Rudbeck"} | more
        for more in ({}, {"svr-008": "Fossheim"}, {}, {"svr-008": "Fossheim", "svr-003": "Gudrun Ekeland"})
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def asked(_converted, tmp_path_factory):
    """Two systems, one of which was asked four times, and a model that was asked without documents."""
    root = tmp_path_factory.mktemp("answers") / "workspace"
    shutil.copytree(_converted, root, symlinks=True)
    workspace = Workspace(root)
    stamp = Stamp.read(workspace.benchmark(RAILWAY).stamp)
    queries = open_dataset(workspace.eval_json(stamp.dataset_id, stamp.dataset_version)).queries[:ASKED]

    def ask(system, runs, **settings):
        path = workspace.system_file(system)
        replay = {"path": f"{system}-{{started:%d}}.jsonl"}
        common = {"kind": "replay", "deterministic": False, "limit": ASKED, "settings": replay}
        path.write_text(yaml.safe_dump(common | settings))
        for night, rows in enumerate(runs):
            now = FIRST + timedelta(days=night)
            file = path.with_name(f"{system}-{now:%d}.jsonl")
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(NOW_VARIABLE, now.isoformat())
                evaluate(workspace, load_pair(workspace, RAILWAY, system), which="all")

    def row(query, answer, documents):
        contexts = [{"document": name, "text": "..."} for name in documents]
        return {"question": query.query_text, "answer": answer, "contexts": contexts}

    for system, runs in WRONG.items():
        ask(
            system,
            [
                [
                    row(q, wrong.get(q.display_id, q.ground_truth_answer or REFUSAL), q.relevant_documents)
                    for q in queries
                ]
                for wrong in runs
            ],
        )
    known = {"svr-001": ("9 June 1888", ()), "svr-003": ("Rudbeck", queries[2].relevant_documents)}
    bare = [row(q, *known.get(q.display_id, (REFUSAL, ()))) for q in queries]
    ask("bare", [bare], closed_book=True)
    return workspace


@pytest.fixture
def answered(asked, tmp_path):
    """A copy of that workspace."""
    shutil.copytree(asked.root, tmp_path / "workspace", symlinks=True)
    return Workspace(tmp_path / "workspace")


def found_in(workspace):
    kinds = ("agreed_otherwise", "never_answered", "wavers", "closed_book")
    return {one.kind: one for one in audit(workspace, RAILWAY) if one.kind in kinds}


def test_audit_reads_answers_of_systems(answered):
    found = found_in(answered)
    severities = {kind: (one.severity, [suspect.question for suspect in one.suspects]) for kind, one in found.items()}
    assert severities == {
        "agreed_otherwise": ("doubtful", [3]),
        "never_answered": ("note", [5, 6]),  # 2 of 12: the systems are to blame
        "wavers": ("note", [7]),  # question 2 was lost once and may be the system's loss
        "closed_book": ("note", [0]),  # question 2 came with a passage
    }
    [suspect] = found["agreed_otherwise"].suspects
    assert suspect.place == "questions.jsonl, row 4"
    assert suspect.answers == ("2.40 crowns a day",)
    assert suspect.evidence == (
        "the gold answer is '2.75' or '2.75 crowns' or '2.75 crowns a day'; one, two answer '2.40 crowns a day'; "
        "line-opening.pdf, page 2, states 'They were paid 2.40 crowns a day, and a strike in May 1891 raised this to "
        "2.75.', and the gold answer as well"
    )
    refused, elsewhere = found["never_answered"].suspects
    assert refused.evidence.endswith("one, two refuse")
    assert elsewhere.evidence.endswith("one, two answer 'Carl Rudbeck'")  # not on that page
    assert found["wavers"].suspects[0].evidence == "two: right in 2 of 4 runs"
    assert "1 of 10 answerable questions (10%)" in found["closed_book"].text
    assert found["closed_book"].suspects[0].evidence == (
        "without documents, bare answers '9 June 1888', right in 1 of 1 runs"
    )


def test_one_system_speaks_with_three_runs(answered):
    answered.system_file("one").write_text("kind: replay\nclosed_book: true\nsettings: {path: x}\n")
    found = {kind: [suspect.question for suspect in one.suspects] for kind, one in found_in(answered).items()}
    assert found["agreed_otherwise"] == [3]
    assert found["never_answered"] == [5, 6]


def test_answers_to_another_dataset_show_nothing(answered):
    stamp = answered.benchmark(RAILWAY).stamp
    Stamp.read(stamp).model_copy(update={"dataset_fingerprint": "another"}).write(stamp)
    assert found_in(answered) == {}


@pytest.mark.parametrize("data", [{"kind": "embedded"}, {"kind": "openai", "settings": {"retrieval": {"k": 8}}}])
def test_closed_book_gets_no_documents(data):
    endpoint = {"endpoint": {"base_url": "http://127.0.0.1:1/v1"}, "chat": {"model": "m"}}
    settings = data.get("settings", {})
    with pytest.raises(InputError, match="closed_book of a system that is given no documents"):
        parse_system({**data, "closed_book": True, "settings": settings and endpoint | settings}, "bare.config.yaml")
