"""The files of nights that `rag-eval validate` takes: evaluations' records, baselines, nights, alerts and seals.

They are recognised by the folders that they lie in, because their names are ids and names of systems.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rag_eval_pipeline.evaluation.baseline_files import Baseline
from rag_eval_pipeline.evaluation.runs import EvaluationRecord
from rag_eval_pipeline.formats.file_kinds import FileKind
from rag_eval_pipeline.formats.findings import Finding, finding
from rag_eval_pipeline.formats.schemas import model_schema
from rag_eval_pipeline.metrics.baselines import BASELINE_RUNS
from rag_eval_pipeline.reporting.alerts import SUFFIX, Alert
from rag_eval_pipeline.reporting.nights import Nights
from rag_eval_pipeline.reporting.seals import Seal

SHA256_DIGITS = 64


def _in(folder: str, depth: int) -> Callable[[Path], bool]:
    """Whether a JSON file lies so many folders below one of this name."""
    return lambda path: path.suffix == ".json" and folder in path.absolute().parts[-depth - 1 : -depth]


def check_record(record: EvaluationRecord, path: Path) -> Iterator[Finding]:
    """The record lies in the folder of its evaluation, and its times are in order."""
    if path.absolute().parent.name != record.evaluation_id:
        expected = "the folder's name"
        yield finding("error", "misnamed_file", path, expected, field="evaluation_id", found=record.evaluation_id)
    if record.state != "open" and record.answered_at is None:
        yield finding("error", "bad_date", path, "when the last answer arrived", field="answered_at")


def check_baseline(baseline: Baseline, path: Path) -> Iterator[Finding]:
    """No run stands twice; fewer than five are worth a word unless the system is deterministic."""
    names = baseline.evaluations
    if len(set(names)) < len(names):
        yield finding("error", "duplicate_id", path, "each evaluation once", field="evaluations", found=list(names))
    if len(names) not in (1, BASELINE_RUNS):
        expected = f"{BASELINE_RUNS} evaluations, or one of a deterministic system"
        yield finding("warning", "counts", path, expected, field="evaluations", found=len(names))


def check_nights(nights: Nights, path: Path) -> Iterator[Finding]:
    """Nights are in order, and no evaluation is two of them."""
    seen: set[str] = set()
    for number, night in enumerate(nights.nights):
        place = f"nights[{number}]"
        for name in filter(None, (night.evaluation_id, night.rerun)):
            if name in seen:
                yield finding("error", "duplicate_id", path, "each evaluation once", field=place, found=name)
            seen.add(name)
        if number and night.opened_at < nights.nights[number - 1].opened_at:
            found = night.opened_at.isoformat()
            yield finding("error", "bad_date", path, "nights in order", field=f"{place}.opened_at", found=found)


def check_alert(alert: Alert, path: Path) -> Iterator[Finding]:
    """An alert tells what its kind says."""
    if path.name != f"{alert.alert_id}{SUFFIX}":
        expected = "the file's name without its ending"
        yield finding("error", "misnamed_file", path, expected, field="alert_id", found=alert.alert_id)
    if (alert.kind == "run_failed") == (alert.error is None):
        yield finding("error", "alert_kind", path, "an error in alerts of runs, and in no other", field="error")
    if (alert.kind == "late") == (not alert.late):
        yield finding("error", "alert_kind", path, "pairs in alerts of late nights, and in no other", field="late")
    worst = {change.kind for change in alert.changes}
    kind = "regressed" if "regressed" in worst else "improved"
    if bool(worst) != (alert.kind in ("regressed", "improved")) or worst and alert.kind != kind:
        yield finding("error", "alert_kind", path, "the worst of its changes", field="kind", found=alert.kind)


def check_seal(seal: Seal, path: Path) -> Iterator[Finding]:
    """States are in order, each with a digest."""
    times = [state.timestamp for state in seal.states]
    if times != sorted(times):
        yield finding("error", "bad_date", path, "states in order", field="states")
    for number, state in enumerate(seal.states):
        if len(state.sha256) != SHA256_DIGITS:
            place = f"states[{number}].sha256"
            yield finding("error", "bad_digest", path, "64 digits", field=place, found=state.sha256)


def _is_record(path: Path) -> bool:
    return path.name == "evaluation.json"


def _ends(ending: str, path: Path) -> bool:
    return path.name.endswith(ending)


KINDS: tuple[FileKind, ...] = (
    FileKind("runs/<evaluation_id>/evaluation.json", _is_record, EvaluationRecord, check_record, "evaluation_record"),
    FileKind("baselines/<benchmark>/<system>.json", _in("baselines", 2), Baseline, check_baseline, "baseline"),
    FileKind("nights/<benchmark>/<system>/*.json", _in("nights", 3), Nights, check_nights, "nights"),
    FileKind("alerts/*.alert.json", partial(_ends, SUFFIX), Alert, check_alert, "alert"),
    FileKind("history/seals/*.json", _in("seals", 1), Seal, check_seal, "seal"),
)

SCHEMAS = {kind.schema: partial(model_schema, kind.model, kind.name) for kind in KINDS}
"""Name -> what makes the schema; `write_schemas(schema_folder(), SCHEMAS)` writes those that are committed."""
