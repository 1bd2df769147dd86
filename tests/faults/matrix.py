"""The table of faults: 72 bad inputs and failures, what must happen, and which tests show it.

A test names the rows that it shows: `@pytest.mark.fault(14, 15)`, or `pytestmark = pytest.mark.fault(14)` for a module.
`make reference` writes docs/reference/faults.md from the rows below and those marks.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent

ROWS = {
    "Requests": {
        1: ("A URL of this machine or a private network: loopback, 10/8, 169.254.169.254, 100.64/10, 0.0.0.0, also written as a decimal, hexadecimal, octal or short number.",
            "`egress_blocked`, and not one connection. An allowed host is the only exception."),
        2: ("The same in IPv6: ::1, v4-mapped, v4-compatible, NAT64, 6to4, Teredo, site-local, unique local, with a scope.",
            "`egress_blocked`, and not one connection."),
        3: ("A name that resolves to a public address first and to a private one later; to both at once; a CNAME to an internal name.",
            "A name is resolved once, every address must be public, and that address is dialled."),
        4: ("A redirect to an internal address, to another scheme, to itself, or more than five in a row.",
            "Each hop is checked as the first URL was: `egress_blocked`, `scheme`, `too_many_redirects`."),
        5: ("Credentials and cookies on a redirect to another host, scheme or port.",
            "They are sent to their own origin only."),
        6: ("URLs that two readers understand differently: `user:pw@host`, a backslash, a blank, Unicode digits, line breaks, %00.",
            "The document is refused as `bad_url` before anything is requested."),
        7: ("A document's URL with another scheme: file, data, blob, ftp, javascript, chrome.",
            "`scheme`; only http and https reach the client and the browser."),
        8: ("A page whose pictures, styles, fonts, frames, workers, sockets, beacons, forms or popups ask for an internal address.",
            "The requests are refused; the page is printed without them."),
        9: ("A page that leads to an internal address by meta refresh, script, form or popup.",
            "`blocked_navigation`; an error page is never printed as the document."),
        10: ("WebRTC, QUIC and DNS prefetch.", "No datagram leaves the browser."),
        11: ("HTTP_PROXY, HTTPS_PROXY and ALL_PROXY in the environment.", "They are ignored; a company's proxy is set in egress.config.yaml, and for a system or judge in its own file."),
        12: ("The browser's own requests: updates, autofill, safe browsing.", "They are refused, and do not count as errors of the page."),
        13: ("A RAG server or judge on this machine or in a private network.",
             "The operator's settings allow it by exact host and port; a URL in data to the same host stays blocked, even in a public page."),
    },
    "Documents": {
        14: ("A compressed body that decodes to far more than was sent (gzip, br, zstd).",
             "The limit holds for decoded bytes: `body_too_large` in bounded memory. Encodings that were not asked for are refused."),
        15: ("A body without end, shorter than its Content-Length, or cut.", "A limit, or `connection_broken`; a part is never taken for the whole."),
        16: ("A server that sends a byte now and then, or nothing at all.", "`fetch_timeout` at a wall-clock limit of the whole document."),
        17: ("A login or error page served with status 200 as .pdf or .csv; an unknown, wrong or missing charset; bytes that are not UTF-8.",
             "`content_mismatch`, `login_wall` or `soft_404`; the text is decoded by its bytes, and a repaired charset is flagged."),
        18: ("404 and 410 against 429 and 5xx.", "The former are final. The latter are retried, after Retry-After, up to a limit."),
    },
    "Names and paths": {
        19: ("A URL whose last part is `..`, `.`, empty or has NUL or `/`, also in the fragment.",
             "One path component inside of the corpus. An empty one, `.` and `..` fall back to the part before or the host, raw `/` and NUL are escaped."),
        20: ("Two URLs of one file name: by query, parameters, host, letter case, NFC and NFD.",
             "The one in the manifest, else the first in source order, keeps the name; each other one gets `~` and 8 digits of its URL's hash. `naming: strict` makes it `stem_collision`. Nothing is overwritten, in whatever order the URLs come."),
        21: ("A name of more than 255 bytes with all its suffixes.", "Cut at a character or escape, with 16 digits of the URL's hash; temporary names do not contain it."),
        22: ("CON, NUL, aux, a leading `-` or `.`, a backslash.", "Kept as they are, like any other name, and never passed to a shell. No flag says that another system could not store them."),
        23: ("`../`, `/`, `*[`, quotes or line breaks in a file of a context, a dataset's id or version, an evaluation's id, a benchmark's name, a partition key.",
             "Refused by name, or found as that very file; versions are semantic versions."),
        24: ("Archives with absolute names, `..`, links, devices or repeated members.", "The archive is refused as `unsafe_archive` and nothing is written."),
        25: ("Archive bombs by ratio, by number of members, by overlapping members.", "`archive_bomb` or `too_large` at the limits, and nothing is left."),
        26: ("A link planted in the corpus or the data.", "Not followed: refused by name or replaced. The `corpus` link of a dataset is the only one, and its target is checked."),
    },
    "Tables and JSON": {
        27: ("CSV: short and long rows, repeated or missing columns, a byte order mark, NUL, a quote that is never closed.",
             "A bad row is quarantined with its line. A file whose rows cannot be told apart is refused."),
        28: ("Cells of more than 131,072 characters, and beyond the limit.", "Read up to the limit; beyond it the row is quarantined as `cell_too_long`."),
        29: ("Cells such as NA, None, 007, 1e5, true.", "They stay the text that they are."),
        30: ("UTF-16, Latin-1, cp1252, mixed encodings, invalid bytes, lone surrogates.",
             "A byte order mark counts, else the stated encoding, else UTF-8, strictly; a row that does not decode is quarantined and never repaired."),
        31: ("JSON Lines: a cut last line, U+2028 in a text, CRLF, blank lines, `}{`, an array.", "A bad line is quarantined with its number; only a line feed ends a line."),
        32: ("NaN, Infinity, 1e999, repeated keys, numbers of 5,000 digits, 100,000 levels.", "The row or the file is refused; what we write has none of them."),
        33: ("Ids such as \"12\", 12.0, true, null, repeated or missing ones.", "The source's id is kept beside ours, which is the row; a bad one costs its row, repetitions are noted."),
        34: ("A question or answer that is empty, blank, 1 MB long or not text; `is_impossible` as a text.",
             "The row is quarantined; a flag has a list of spellings and no others."),
        35: ("Parquet: cut, altered, empty, without the columns, nested, with extension types.",
             "Read or refused by name and never a crash; page checksums are verified, and no extension type is registered."),
        36: ("Parquet that decodes to far more than its footer says.", "Read in batches within limits of size and memory, in a process of its own."),
        37: ("YAML: tags, alias bombs, `no`, `010`, `1:30`, `1.10`.", "Tags and bombs are refused with the line; scalars have the type of their field."),
        38: ("PDFs: encrypted, cut, HTML, compressed many times over, 100,000 pages, scripts and attachments, without text.",
             "`pdf_encrypted`, `pdf_damaged`, `pdf_bomb` or a flag; read in a child with limits, and the next file is read."),
        39: ("Spans: start not before end, negative, beyond the text, not integers, without file or page.",
             "The question is quarantined or the dataset refused with the place; spans are half-open."),
        40: ("Stored files of an older or newer form, with unknown or missing fields.", "Older forms are read and left unchanged; newer ones are refused with a message."),
    },
    "Outputs": {
        41: ("Cells that a spreadsheet takes for a formula: `=`, `+`, `-`, `@`, tab, CR, after blanks or a line break.",
             "Quoted in the report's CSV, numbers untouched; files for programs stay exact."),
        42: ("`<script>`, `</script>`, `javascript:`, SVG, right-to-left marks and ANSI escapes in questions and answers.",
             "Inert text in the report, under a content security policy, without any request; no control character in a terminal."),
        43: ("Markdown, HTML and links in what Dagster's UI shows.", "Foreign text is shown as text or JSON, cut to a limit; never as Markdown, and no URL is made from data."),
        44: ("An API key in a URL, a header, an error, a log, a run's configuration, a result.", "It is in no file, message or log, even if every call fails."),
    },
    "Servers and judges": {
        45: ("429 with any Retry-After, 500, 502, 503.", "Bounded retries with jitter, within a total limit, held back for all callers; then a failed answer."),
        46: ("Connections that are refused, reset, half-open, slow, or whose certificate is bad.", "The same, with a code for each."),
        47: ("Replies that are not JSON, cut, of a wrong shape, empty, HTML or 100 MB.", "A failed answer that quotes what was found; the size is limited."),
        48: ("Streams that are cut or end without [DONE], events of several lines, cut or invalid UTF-8, an error after the first tokens.",
             "`stream_truncated`, `error_reply` or `bad_response`; the part is kept as a part and never scored as an answer. For a server without a protocol (`kind: http`), the end of the connection ends the answer."),
        49: ("A call that was paid for is sent again.", "Under the same request id, a bounded number of times, each counted; a stream that began is not repeated."),
        50: ("Texts that give the judge orders, forge a verdict, end the data section or hide in other scripts.",
             "The verdict does not change, or the answer is flagged."),
        51: ("A judge's `nan`, `inf`, `85`, `8/10`, `0,8`, `1_0`, Arabic digits, two numbers, a refusal, nothing.",
             "One attempt at repair, then `judge_unparsable`: no score, and the reply is kept. Never a default, unless the settings ask for a flagged one."),
        52: ("The judge's model changes silently.", "A failure within a run; model and prompt are part of the fingerprint, and other fingerprints are not compared."),
        53: ("A failure reaches the cache.", "Only verdicts are kept."),
    },
    "Processes and disks": {
        54: ("The process is killed at any write, fsync or rename.", "Each file is the old or the new one; the next run ends like an undisturbed one and removes temporary files."),
        55: ("A full disk, an I/O error or no more descriptors at any call.", "The old file stays, the message names the file, and the exit code is not 0."),
        56: ("A step's process is killed.", "The step is retried, the run ends well, and nothing is asked twice."),
        57: ("A run's process is killed.", "The run fails soon and is retried; its step does not continue."),
        58: ("The whole machine stops.", "After the next start no run stays STARTED."),
        59: ("Two runs of one pair at once.", "One writes; the other waits or fails and names the run that holds the lock. Files are never mixed."),
        60: ("A partition is deleted or renamed while it runs.", "The run finishes or fails by name, and its results are kept."),
        61: ("A browser or renderer that crashes, endless scripts, endless or 10,000-page prints, downloads, dialogs, logins, bad certificates.",
             "Only that document is lost, by name; the browser is started again and no process is left."),
        62: ("A night that was missed while the daemon was down.", "At most the last one is caught up, once."),
        63: ("Summer time, a clock that jumps ahead or is set back, a night dated later than now.",
             "Schedules are in UTC, ids never repeat, durations come from a monotonic clock. A night dated ahead is named; it confirms nothing and keeps no later night from its verdict or from being the newest. Sensors and schedules go on at the next start. After a jump ahead a rerun may begin early."),
        64: ("SQLite's `database is locked`, many writers at once, a full disk below Dagster's storage.", "No event is lost, or the message says so; results are never in that storage alone."),
        65: ("Pruning reaches a baseline, the newest or a referenced evaluation, or the clock is behind.", "They are kept; if the clock is behind, nothing is removed."),
        66: ("A crash while pruning or exporting.", "Listed files are renamed into a trash folder; the next run removes them."),
        67: ("A night without some of its pairs.", "The missing ones are named and are not 0; a change that they could overturn gets no verdict."),
        68: ("A stored result with a flipped bit, a torn end, or nothing in it.", "`corrupt_result` by name and never skipped silently; it can be restored from the answers."),
        69: ("An evaluation resumed with another dataset, configuration or judge.", "Fingerprints differ, so a new evaluation is opened; answers are never mixed."),
        70: ("SIGTERM, Ctrl-C, or a run that is terminated in the UI.", "Finished work is kept, the run is canceled and can be resumed, and its children are gone."),
        71: ("Temporary files, zombie browsers and descriptors after many documents.", "None are left."),
        72: ("A hostile pickle in the folder of an IO manager.", "No asset has an IO manager, so none is read or written."),
    },
}  # fmt: skip


def marked_tests() -> dict[int, list[str]]:
    """Return the tests of each row that some test names, as `file::test` below tests/."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text()
        if "mark.fault" not in source:
            continue
        file = path.relative_to(TESTS).as_posix()
        for name, rows in _rows_of_tests(ast.parse(source).body, set()):
            for row in rows:
                found.setdefault(row, []).append(f"{file}::{name}")
    return found


def page() -> str:
    """Return docs/reference/faults.md."""
    tests = marked_tests()
    lines = [HEAD]
    for area, rows in ROWS.items():
        lines += [f"\n## {area}\n", "| | fault | what must happen | shown by |", "|---|---|---|---|"]
        for number, (fault, must) in rows.items():
            shown = "<br>".join(f"`{one}`" for one in tests.get(number, ()))
            lines.append(f"| {number} | {fault} | {must} | {shown} |".replace("  ", " "))
    return "\n".join(lines) + "\n"


HEAD = """\
# What may go wrong, and what happens then

Bad inputs and failures that the pipeline must survive, and the tests that show that it does. Messages and codes are
explained in [error codes](errors.md). Tests are named below `tests/`; the long ones run in `make test-long`.

<!-- `make reference` writes this page from tests/faults/matrix.py and the marks of the tests. -->"""


def _rows_of_tests(body: list[ast.stmt], outer: set[int]) -> Iterator[tuple[str, list[int]]]:
    """Yield each test of a module or class with its rows; those of `pytestmark` hold for all of them."""
    for node in body:
        if isinstance(node, ast.Assign) and any(getattr(one, "id", "") == "pytestmark" for one in node.targets):
            outer = outer | _rows(node.value)
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            rows = outer.union(*map(_rows, node.decorator_list))
            if isinstance(node, ast.ClassDef):
                yield from _rows_of_tests(node.body, rows)
            elif node.name.startswith("test_"):
                yield node.name, sorted(rows)


def _rows(expression: ast.expr) -> set[int]:
    """Return the numbers in each `pytest.mark.fault(...)` of an expression."""
    return {
        number.value
        for call in ast.walk(expression)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.fault"
        for number in call.args
    }
