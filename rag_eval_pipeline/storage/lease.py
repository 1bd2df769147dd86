"""Leases in an object store: what a lock is where machines share no file system.

A lease is an object that only its holder may replace. The holder replaces it again and again; whoever wants it and has
seen it unchanged for its whole term takes it over. No machine's clock is compared with another's.
"""

import contextlib
import logging
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.storage.lock import WAIT_SECONDS
from rag_eval_pipeline.storage.store import ConflictError, Store

LEASE_SECONDS = 60.0
LEASE_VARIABLE = "RAG_EVAL_LEASE_SECONDS"
LEASES = "leases"  # folder of the store

logger = logging.getLogger(__name__)


class _Body(msgspec.Struct):
    holder: str
    serial: int  # no two bodies of a holder are equal, so that no two have the same tag
    term: float  # seconds; 0 for a lease that was given back


class Lease:
    """The right to write a part of the store; renewed by a thread each third of its term.

    Args:
        what: In the messages of others: `the conversion of frames`.
    """

    def __init__(self, store: Store, name: str, what: str, *, term: float) -> None:
        self.name = name
        self.is_lost = False
        self._store = store
        self._path = lease_path(name)
        self._holder = f"{what} on {socket.gethostname()}, process {os.getpid()}, {secrets.token_hex(4)}"
        self._term = term
        self._serial = 0
        self._tag: str | None = None
        self._renewed_at = 0.0
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew_always, name=f"lease {name}", daemon=True)

    def acquire(self, wait_seconds: float = WAIT_SECONDS) -> None:
        """Take the lease, when it is free or its term is over.

        Raises:
            ServiceError: `locked`, naming the holder, after the wait.
        """
        for tag in _turns(self._store, self.name, wait_seconds):
            with contextlib.suppress(ConflictError):
                self._put(tag, self._term)
                self._thread.start()
                return

    def confirm(self) -> None:
        """Return only if the lease is held now; one whose term is over and that nobody has taken is renewed.

        Raises:
            ServiceError: `lease_lost`.
        """
        if not self.is_lost and _now() - self._renewed_at > self._term / 2:
            self._renew()
        if self.is_lost:
            raise ServiceError(
                "lease_lost",
                f"{self.name} was taken over by another machine, as this one did not renew its lease for "
                f"{self._term:g} s: nothing more was written",
                hint="What was done elsewhere stands; run this again if something is missing.",
            )

    def release(self) -> None:
        """Give the lease back, so that others need not wait for the end of its term."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if not self.is_lost:
            with contextlib.suppress(ConflictError, ServiceError, OSError):  # its term ends by itself
                self._put(self._tag, 0.0)

    def _put(self, tag: str | None, term: float) -> None:
        body = msgspec.json.encode(_Body(self._holder, self._serial, term))
        sent_at = _now()
        self._tag = self._store.put(self._path, body, replaces=tag)
        self._serial += 1
        self._renewed_at = sent_at

    def _renew(self) -> None:
        with self._turn:
            try:
                self._put(self._tag, self._term)
            except ConflictError:
                self.is_lost = True

    def _renew_always(self) -> None:
        while not self.is_lost and not self._ended.wait(self._term / 3):
            try:
                self._renew()
            except (ServiceError, OSError) as error:
                logger.warning("The lease of %s is not renewed yet: %s", self.name, error)


def lease_term() -> float:
    """Return the term of leases in seconds: RAG_EVAL_LEASE_SECONDS, else 60."""
    return seconds(LEASE_VARIABLE, LEASE_SECONDS)


def seconds(variable: str, default: float) -> float:
    """Return the seconds, more than 0, that an environment variable gives.

    Raises:
        InputError: `bad_seconds`; a lease of 0 s would be everybody's at once.
    """
    text = os.environ.get(variable) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError("bad_seconds", f"${variable}", "a number of seconds above 0", found=text)
    return value


def lease_path(name: str) -> str:
    """Return the path of a lease's object."""
    return f"{LEASES}/{name}.json"


def lease_tag(store: Store, name: str) -> str | None:
    """Return the tag of a lease; it changes with each holder."""
    found = store.get(lease_path(name))
    return None if found is None else found[1]


def wait_until_free(store: Store, name: str, wait_seconds: float = WAIT_SECONDS) -> str | None:
    """Wait until nobody holds a lease, and return its tag."""
    return next(_turns(store, name, wait_seconds))


def _now() -> float:
    """Return seconds since the machine was started; unlike the monotonic clock they go on while it is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _turns(store: Store, name: str, wait_seconds: float) -> Iterator[str | None]:
    """Yield the tag of the lease whenever it may be taken: there is none, it was given back, or its term is over."""
    deadline = _now() + wait_seconds
    seen: Any = None
    seen_at = 0.0
    while True:
        found = store.get(lease_path(name))
        now = _now()
        if found is None:
            yield None
            continue
        body, tag = msgspec.json.decode(found[0], type=_Body), found[1]
        if tag != seen:
            seen, seen_at = tag, now
        if now - seen_at >= body.term:
            if body.term:
                logger.warning(
                    "The lease of %s is taken over from %s: %g s without a sign", name, body.holder, body.term
                )
            yield tag
            continue
        if now >= deadline:
            raise ServiceError(
                "locked", f"{name} has been in use for more than {wait_seconds:g} s by {body.holder}",
                hint="Try again when it has finished.",
            )  # fmt: skip
        time.sleep(min(1.0, body.term / 20))
