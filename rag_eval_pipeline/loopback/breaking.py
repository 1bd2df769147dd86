"""The faults that put something else in the place of an answer, whichever interface was asked."""

import asyncio
import email.utils

from rag_eval_pipeline.loopback.faults import Fault
from rag_eval_pipeline.loopback.wire import Connection

HUGE_BYTES = 100_000_000
_BLOCK = b" " * 65_536
DRIP_SECONDS = 0.1
HTML = b"<!doctype html><html><head><title>502</title></head><body><h1>Bad Gateway</h1></body></html>"


def status_of(fault: Fault) -> int | None:
    """The status of `http_<status>`; None for the other faults."""
    return int(fault.name.removeprefix("http_")) if fault.name.startswith("http_") else None


def retry_after(fault: Fault) -> dict[str, str]:
    """The headers that a status comes with."""
    if fault.after is None:
        return {}
    return {"retry-after": email.utils.formatdate(usegmt=True) if fault.after == "date" else fault.after}


async def break_answer(connection: Connection, fault: Fault) -> None:
    """Does to a connection what a fault of `BREAKING` says."""
    match fault.name:
        case "reset":
            connection.reset()
        case "close":
            connection.hang_up()
        case "half_open":
            await connection.silence()
        case "drip":
            connection.begin()
            while True:
                await connection.write(b" ")
                await asyncio.sleep(DRIP_SECONDS)
        case "html":
            await connection.send(200, HTML, "text/html; charset=utf-8")
        case "not_json":
            await connection.send(200, b"upstream said: OK", "application/json")
        case "truncated_json":
            await connection.send(200, b'{"choices": [{"index": 0, "message": {"role": "assis', "application/json")
        case "empty":
            await connection.send(200, b"", "application/json")
        case "huge":
            connection.begin(200, "application/json")
            for _ in range(HUGE_BYTES // len(_BLOCK)):
                await connection.write(_BLOCK)
            connection.finish()


def in_disguise(events: list[bytes], disguise: str | None) -> list[bytes]:
    r"""Events as packets: plain as `data: ...\n\n`, or as a fault of `DISGUISING` says.

    Args:
        events: The JSON of each event.
        disguise: Name of the fault; None for the plain form.
    """
    match disguise:
        case "split_utf8":
            whole = b"".join(b"data: %s\n\n" % event for event in events)
            return [whole[at : at + 7] for at in range(0, len(whole), 7)]  # 7: no multiple of any character's length
        case "multi_line":  # a line break is white space between the members of a JSON object
            return [b"data: " + event.replace(b'","', b'",\ndata: "') + b"\n\n" for event in events]
        case "raw_lines":
            return [event + b"\n" for event in events]
        case "keep_alives":
            return [b": keep-alive\n\n\n\ndata:%s\n\n" % event for event in events]
        case _:
            return [b"data: %s\n\n" % event for event in events]
