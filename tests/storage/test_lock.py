"""One conversion at a time, evaluations together, and a busy lock names its holder."""

import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.storage.lock import locked


def test_busy_lock_names_its_holder(tmp_path):
    path = tmp_path / "frames" / ".lock"

    with (
        locked(path, holder="convert frames, process 412", exclusive=True),
        pytest.raises(ServiceError, match="frames is in use by convert frames, process 412") as error,
        locked(path, holder="evaluate", exclusive=False, wait_seconds=0),
    ):
        pass

    assert error.value.code == "locked"


def test_shared_holders_do_not_wait_for_each_other(tmp_path):
    path = tmp_path / ".lock"

    with (
        locked(path, holder="a", exclusive=False, wait_seconds=0),
        locked(path, holder="b", exclusive=False, wait_seconds=0),
        pytest.raises(ServiceError),
        locked(path, holder="c", exclusive=True, wait_seconds=0),
    ):
        pass


def test_lock_is_free_and_without_a_holder_after_its_block_failed(tmp_path):
    path = tmp_path / "frames" / ".lock"
    with pytest.raises(RuntimeError), locked(path, holder="convert frames, process 412", exclusive=True):
        raise RuntimeError

    with (
        locked(path, holder="evaluate", exclusive=False, wait_seconds=0),
        pytest.raises(ServiceError, match="frames is in use by an evaluation"),
        locked(path, holder="convert frames, process 413", exclusive=True, wait_seconds=0),
    ):
        pass
    with locked(path, holder="convert frames, process 414", exclusive=True, wait_seconds=0):
        pass
