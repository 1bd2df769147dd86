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
    """Rows as a table; cells of untrusted text stay text."""
    if not rows:
        return dg.MetadataValue.text("none")
    return dg.MetadataValue.table([dg.TableRecord({k: _cell(v) for k, v in row.items()}) for row in rows])


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
        severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
        metadata={name: _entry(value) for name, value in check.numbers.items()},
    )


def _entry(value: object) -> dg.FloatMetadataValue | dg.TextMetadataValue:
    """A number of a check as one that Dagster plots, anything else as text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return dg.MetadataValue.float(float(value))
    return dg.MetadataValue.text("none" if value == [] else str(value)[:2000])


def check_specs(
    asset: str, checks: Mapping[str, CheckFact], partitions: dg.PartitionsDefinition[str]
) -> list[dg.AssetCheckSpec]:
    """Specs of an asset's checks."""
    return [
        dg.AssetCheckSpec(
            name, asset=asset, blocking=fact.may_block, description=fact.description, partitions_def=partitions
        )
        for name, fact in checks.items()
    ]
