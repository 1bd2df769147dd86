"""What every asset does around its one call: errors as one line, progress in the log, counts and tables as metadata."""

import base64
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg

from rag_eval_pipeline.conversion.stamp import Check
from rag_eval_pipeline.conversion.step_checks import CheckFact
from rag_eval_pipeline.corpus.documents import DocumentError
from rag_eval_pipeline.errors import InputError, ServiceError, os_fault

DIGITS = 6
LOG_SECONDS = 5.0  # between two lines of progress
TABLE_ROWS = 200  # the UI draws all rows at once; more of them are read in the report
ENTRY_CHARS = 2000
SENTENCE_CHARS = 300


@contextmanager
def one_line_errors() -> Iterator[None]:
    """A fault of the input ends the step with its one line, without retries: it would fail again.

    A server or browser that could not be used may work the next time, so its failure may be retried.
    """
    try:
        yield
    except InputError as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    except ServiceError as error:
        raise dg.Failure(str(error)) from None
    except OSError as error:
        raise dg.Failure(str(os_fault(error))) from None


def progress_log(context: dg.AssetExecutionContext, what: str) -> Callable[[int, int], None]:
    """Called with done and total; logs the rate and the time that remains, now and then."""
    started = logged = time.monotonic()
    before: int | None = None  # what an earlier session had done says nothing of this one's rate

    def report(done: int, total: int) -> None:
        nonlocal logged, before
        now = time.monotonic()
        before = done - 1 if before is None else before
        if done < total and now - logged < LOG_SECONDS:
            return
        logged = now
        rate = (done - before) / (now - started) if now > started else 0.0
        remaining = f", {(total - done) / rate:.0f} s remain" if rate and done < total else ""
        context.log.info(f"{what}: {done} of {total}, {rate:.1f} a second{remaining}")

    return report


def numbers(values: Mapping[str, int | float | None]) -> dict[str, float]:
    """Metadata that Dagster plots: floats of six digits, as the files have them all; what has no value is left out."""
    return {name: round(float(value), DIGITS) for name, value in values.items() if value is not None}


def table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue | dg.TextMetadataValue:
    """The first `TABLE_ROWS` rows as a table, and in the last one how many are left out; untrusted text stays text."""
    if not rows:
        return dg.MetadataValue.text("none")
    records = [dg.TableRecord({k: _cell(v) for k, v in row.items()}) for row in rows[:TABLE_ROWS]]
    if left := len(rows) - len(records):
        records.append(dg.TableRecord({k: f"and {left} more" if place == 0 else "" for place, k in enumerate(rows[0])}))
    return dg.MetadataValue.table(records)


def _cell(value: object) -> int | float | bool | str:
    if isinstance(value, float):
        return round(value, 3)
    return value if isinstance(value, int | bool) else "-" if value is None else str(value)


def picture(svg: str, title: str) -> dg.MarkdownMetadataValue:
    """An SVG as a data URI, since Dagster strips raw SVG; from 1,000 characters on it is shown after a click."""
    return _image(svg.encode(), "image/svg+xml", title)


def png_or_reason(draw: Callable[[], bytes], title: str) -> dg.MarkdownMetadataValue | dg.TextMetadataValue:
    """A PNG as a data URI; in its place the reason why it could not be drawn, since no product depends on it."""
    try:
        return _image(draw(), "image/png", title)
    except (DocumentError, OSError) as error:
        return dg.MetadataValue.text(f"not drawn: {error}")


def _image(data: bytes, media_type: str, title: str) -> dg.MarkdownMetadataValue:
    return dg.MetadataValue.md(f"![{title}](data:{media_type};base64,{base64.b64encode(data).decode()})")


def check_result(check: Check) -> dg.AssetCheckResult:
    """A check as Dagster records it; one that does not block is a warning."""
    return dg.AssetCheckResult(
        check_name=check.name,
        passed=check.passed,
        severity=_severity(check),
        description=sentence(check),
        metadata=_entries(check),
    )


def check_evaluation(asset: str, check: Check) -> dg.AssetCheckEvaluation:
    """The same outside of a run: a sensor reports it."""
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(asset),
        check_name=check.name,
        passed=check.passed,
        severity=_severity(check),
        description=sentence(check),
        metadata=_entries(check),
    )


def sentence(check: Check) -> str:
    """What came of a check, for people, such as "Does not hold: expected 8, present 7, which: frames x mine".

    The numbers that it was decided on stand in it whether it passed or not.
    """
    parts = [_part(name.replace("_", " "), value) for name, value in check.numbers.items()]
    return f"{'Holds' if check.passed else 'Does not hold'}{': ' if parts else ''}{', '.join(parts)}".rstrip(".") + "."


def _part(name: str, value: object) -> str:
    number = _number(value)
    return f"{name}: {_listed(value)[:SENTENCE_CHARS]}" if number is None else f"{name} {number:g}"


def _severity(check: Check) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN


def _entries(check: Check) -> dict[str, dg.FloatMetadataValue | dg.TextMetadataValue]:
    """Numbers of a check as ones that Dagster plots, anything else as text."""
    return {
        name: dg.MetadataValue.text(_listed(value)[:ENTRY_CHARS])
        if (number := _number(value)) is None
        else dg.MetadataValue.float(number)
        for name, value in check.numbers.items()
    }


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _listed(value: object) -> str:
    """A list as people write one."""
    if not isinstance(value, list | tuple):
        return str(value)
    return "; ".join(str(one) for one in value) or "none"


def check_specs(
    asset: str, checks: Mapping[str, CheckFact], partitions: dg.PartitionsDefinition[str] | None = None
) -> list[dg.AssetCheckSpec]:
    """Specs of an asset's checks."""
    return [
        dg.AssetCheckSpec(
            name, asset=asset, blocking=fact.may_block, description=fact.description, partitions_def=partitions
        )
        for name, fact in checks.items()
    ]
