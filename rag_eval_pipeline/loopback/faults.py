"""Which request fails, and how: by a rate with a seed, by a script, or by a mark in the question itself.

What happens follows from the seed, the question and the number of the attempt alone, never from the order in which
questions arrive, so that two runs with one seed see the same faults whatever they ask at once.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import Model, bad_format

ANSWERED = "ok"
# Instead of an answer: the client sees no answer, or one it cannot use.
BREAKING = {
    "reset": "the connection is reset before anything is said",
    "close": "the connection is closed before anything is said",
    "half_open": "the connection stays open and nothing is ever said",
    "drip": "a promising head, then a blank every tenth of a second for ever",
    "html": "200 with a page of HTML",
    "not_json": "200 with text that is no JSON",
    "truncated_json": "200 with the first half of a JSON object",
    "empty": "200 with an empty body",
    "huge": "200 with 100 MB, streamed",
}
# A wrong answer in the server's own form.
SPOILING = {
    "cut": "a stream that ends in good order before its answer does",
    "broken_off": "a stream whose connection is closed in the middle",
    "error_text": "200 with the server's error text in place of an answer",
    "error_event": "an error after some of the answer",
    "no_generator": "a stream of one chunk without choices",
}
# A right answer that only a careful client reads rightly.
DISGUISING = {
    "split_utf8": "characters and lines are split between packets",
    "multi_line": "events whose data stands on several lines",
    "raw_lines": "lines of JSON without `data:`",
    "keep_alives": "comments, blank lines and `data:` without a space between the events",
}
RETRIED = ("http_429", "http_500", "http_502", "http_503", "reset")  # what a client may ask again after

_NAME = re.compile(r"http_[45]\d\d|" + "|".join([ANSWERED, *BREAKING, *SPOILING, *DISGUISING]))
_MARK = re.compile(r"\s*\[\[fault (?P<name>\w+)(?: after=(?P<after>[^\]\s]+))?(?: times=(?P<times>\d+))?\]\]")


def _known(name: str) -> str:
    if not _NAME.fullmatch(name):
        names = ", ".join([ANSWERED, "http_<status>", *BREAKING, *SPOILING, *DISGUISING])
        raise ValueError(f"a fault's name: {names}")
    return name


FaultName = Annotated[str, pydantic.AfterValidator(_known)]


class Fault(NamedTuple):
    """What is to go wrong with one request.

    Args:
        name: One of the names above, or `http_<status>`.
        after: The Retry-After header of a status: seconds, `date`, or anything else as it stands; None sends none.
    """

    name: str
    after: str | None = None


class FaultScript(Model):
    """What goes wrong: the file, or the text, that `--faults` is given."""

    rate: float = pydantic.Field(0.0, ge=0, le=1, description="Share of the attempts that fail.")
    kinds: tuple[FaultName, ...] = pydantic.Field(
        RETRIED, min_length=1, description="Faults that the rate draws from; by default those that clients retry."
    )
    attempts: int = pydantic.Field(
        2, ge=1, description="Attempts of one question that may fail; all later ones are answered."
    )
    after: str | None = pydantic.Field("0", description="Retry-After of the statuses that the rate draws.")
    questions: dict[str, tuple[FaultName, ...]] = pydantic.Field(
        default={}, description="Part of a question -> what becomes of its attempts in order, then answered."
    )
    requests: dict[int, FaultName] = pydantic.Field(
        default={},
        description="Number of a question's attempt, counted from 1 over all questions -> what becomes of it.",
    )
    paths: dict[str, tuple[FaultName, ...]] = pydantic.Field(
        default={}, description="`POST /ingestor/v1/documents` -> what becomes of its requests in order, then answered."
    )


def parse_faults(text: str) -> FaultScript:
    """The script behind `--faults`: a rate, or a script as JSON.

    Raises:
        InputError: `bad_faults`, or `bad_format` naming the part of the script.
    """
    try:
        value: Any = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InputError("bad_faults", "--faults", "a rate such as 0.1, or a script in JSON", found=text) from error
    try:
        return FaultScript.model_validate(value if isinstance(value, dict) else {"rate": value})
    except pydantic.ValidationError as error:
        raise bad_format("--faults", error) from error


class MarkedQuestion(NamedTuple):
    """A question without its mark, and what the mark says of its attempts."""

    text: str
    fault: Fault | None
    times: int | None


def read_mark(question: str) -> MarkedQuestion:
    """Splits off `[[fault http_503 after=1 times=2]]`; without `times` every attempt fails.

    Raises:
        ValueError: There is no such fault.
    """
    mark = _MARK.search(question)
    if mark is None:
        return MarkedQuestion(question, None, None)
    text = question[: mark.start()] + question[mark.end() :]
    fault = Fault(_known(mark["name"]), mark["after"])
    return MarkedQuestion(text, fault, int(mark["times"]) if mark["times"] else None)


class FaultPlan:
    """Decides for each attempt; holds no state, so that equal attempts have equal ends.

    Args:
        script: What goes wrong.
        seed: Of the rate.
    """

    def __init__(self, script: FaultScript, seed: int) -> None:
        self._script = script
        self._seed = seed

    def of_question(self, question: MarkedQuestion, *, attempt: int, number: int) -> Fault | None:
        """What becomes of an attempt at a question; None when it is answered.

        Args:
            question: With its mark read.
            attempt: At this question, from 1.
            number: Of the attempt among all attempts at any question, from 1.
        """
        if question.fault is not None:
            is_due = question.times is None or attempt <= question.times
            return _unless_answered(question.fault) if is_due else None
        if number in self._script.requests:
            return _unless_answered(Fault(self._script.requests[number]))
        for part, faults in self._script.questions.items():
            if part in question.text:
                return _unless_answered(Fault(faults[attempt - 1])) if attempt <= len(faults) else None
        if attempt > self._script.attempts or not self._script.rate:
            return None
        drawn = hashlib.blake2b(f"{self._seed}\0{question.text}\0{attempt}".encode(errors="surrogatepass")).digest()
        if int.from_bytes(drawn[:8]) >= self._script.rate * 2**64:
            return None
        kind = self._script.kinds[int.from_bytes(drawn[8:16]) % len(self._script.kinds)]
        return _unless_answered(Fault(kind, self._script.after if kind == "http_429" else None))

    def of_path(self, place: str, *, attempt: int) -> Fault | None:
        """What becomes of a request that is no question: `place` is its method and path."""
        faults: Mapping[str, tuple[str, ...]] = self._script.paths
        wanted = faults.get(place, ())
        return _unless_answered(Fault(wanted[attempt - 1])) if attempt <= len(wanted) else None


def _unless_answered(fault: Fault) -> Fault | None:
    return None if fault.name == ANSWERED else fault
