"""Settings of earlier versions and what replaces each: a file or variable that still has one is refused with that."""

import os
from collections.abc import Sequence

from rag_eval_pipeline.errors import InputError

REMOVED: dict[str, str] = {
    "evaluators.parallel_execution": "Delete it: evaluators ask no server; they run one after the other.",
    "evaluators.timeout_ms": "Delete it: evaluators ask no server; the judge's endpoint has `attempt_seconds`.",
    "evaluators.retry_config": "Delete it: evaluators ask no server; the judge's endpoint has `max_retries`.",
    "compression": "Delete it: how a file is compressed is detected from its content.",
    "settings.generate": "Rename it to `extra_body`: its fields are sent as they are, under the server's names.",
    "units": "Delete it: documents are the units of the test, with all questions that share them.",
    "robots": "Delete it: robots.txt is no longer read; `host_requests` and `host_delay_s` limit the load on a host.",
    "RAG_EVAL_STORE": "Unset it: several machines share the workspace as a folder, such as NFS, EFS or Filestore "
    "(docs/how-to/many-machines.md). Copy the bucket's data/ and corpus/ there, and name it in RAG_EVAL_WORKSPACE.",
    "RAG_EVAL_LEASE_SECONDS": "Unset it: locks in the workspace's folder end with the process that holds them.",
    "RAG_EVAL_STORE_PUT_SECONDS": "Unset it: answers are written into the workspace's folder as they come.",
}
"""From the setting's name, with as many of the keys around it as tell it from others, to a sentence for its hint."""


def removed_hint(location: Sequence[int | str]) -> str | None:
    """Return what replaces the setting at a place of a file; None if there never was one."""
    name = ".".join(part for part in location if isinstance(part, str))
    return next((hint for old, hint in REMOVED.items() if f".{name}".endswith(f".{old}")), None)


def refuse_removed_variables() -> None:
    """Check that no environment variable of an earlier version is set.

    Raises:
        InputError: `removed_variable`.
    """
    for name, hint in REMOVED.items():
        if name.startswith("RAG_EVAL_") and os.environ.get(name):
            raise InputError("removed_variable", f"${name}", "a variable that is not set", hint=hint)
