"""A judge that becomes too slow within an evaluation loses no verdict, makes no score, and is asked the rest later."""

import threading

import pytest
import yaml

from rag_eval_pipeline.evaluation.evaluation_folders import published_evaluations
from rag_eval_pipeline.evaluation.judging import read_judgements
from tests.judges.judge_server import honest, judge_server

OBSERVATORY, ASKED = "cairnmoor-observatory", 16


@pytest.mark.fault(46)
def test_judge_that_slows_down_is_said_and_asked_again_only_what_it_did_not_judge(rag_eval, workspace):
    is_over = threading.Event()

    def answer(body):
        if len(server.bodies) > ASKED // 2:
            is_over.wait()  # longer than the limit of an attempt
        return honest(body)

    def verdicts():
        newest = published_evaluations(workspace, OBSERVATORY, "embedded")[-1]
        found = {one.query_id: one for one in read_judgements(newest)}
        return found, newest.record.evaluation_id

    def wait_for(seconds):
        endpoint = {"base_url": server.url, "attempt_seconds": seconds, "max_retries": 0, "in_flight": 8}
        judge = {"kind": "openai", "settings": {"endpoint": endpoint, "chat": {"model": "judge"}}}
        path = workspace.defaults_config
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"judge": judge}))

    with judge_server(answer) as server:
        wait_for(3)
        code, _, err = rag_eval("evaluate", OBSERVATORY, "--system", "embedded")
        before, evaluation_id = verdicts()
        is_over.set()
        wait_for(60)
        rag_eval("rescore", OBSERVATORY, "embedded", evaluation_id)
        after, _ = verdicts()

    lost = [name for name, one in before.items() if one.status != "completed"]
    assert code == 0
    assert 0 < len(lost) < ASKED
    assert f"the judge could not judge {len(lost)} of {ASKED} answers: {len(lost)} judge_attempt_timeout" in err
    assert f"To judge them again without asking the system: rag-eval rescore {OBSERVATORY} embedded" in err
    assert {(before[name].correctness, before[name].claims, before[name].ratings == {}) for name in lost} == {
        (None, (), True)
    }
    assert {one.status for one in after.values()} == {"completed"}
    kept = [name for name in before if name not in lost]
    assert [(after[name].correctness, after[name].claims) for name in kept] == [
        (before[name].correctness, before[name].claims) for name in kept
    ]
