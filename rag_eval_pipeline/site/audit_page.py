"""The page of an audit: findings with the questions that they name, and people's decisions on these."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from rag_eval_pipeline.audit.findings import AuditFinding, Severity
from rag_eval_pipeline.conversion.audit_decisions import audit_sha256, read_decisions
from rag_eval_pipeline.conversion.question_spool import iterate_batches
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.site.data import ReportData
from rag_eval_pipeline.site.display_text import data_script, replace_control_chars
from rag_eval_pipeline.site.page_writer import SiteFolder, code_digest, render
from rag_eval_pipeline.workspace import BenchmarkPaths

SUSPECTS_SHOWN = 200  # of a finding, the surest; `rag-eval audit` lists all
DOCUMENTS_SHOWN = 50
SUSPECT: tuple[Severity, ...] = ("wrong", "doubtful")
_COLUMNS = ("id", "question", "answers", "is_impossible", "source_id")

Counts = dict[Severity, int]
"""Questions by the worst severity of the findings that name them; notes are left out."""

Find = Callable[[], Sequence[AuditFinding]]


def write_audit(
    site: SiteFolder, report: ReportData, benchmark: str, *, find: Find, find_in_answers: Find
) -> Counts | None:
    """Write the page of the audit of a benchmark's last conversion, and return how many questions are suspect.

    Args:
        find: Audits the questions; it is called only if the conversion is another than when the page was written.
        find_in_answers: Audits them by systems' answers; it is called only if there are new runs as well.

    Returns:
        None if the benchmark is not converted or cannot be audited; then it has no page.
    """
    stamp, name = report.stamps.get(benchmark), f"benchmarks/{benchmark}"
    if stamp is None:
        return None
    paths = report.workspace.benchmark(benchmark)
    headers = [header for pair, own in report.by_pair.items() if pair[0] == benchmark for header in own]
    converted = (stamp.source_digest, stamp.dataset_fingerprint, stamp.corpus_fingerprint)
    runs = sorted(header.evaluation_id for header in headers)
    made = {
        "audit": _write_findings(site, paths, f"{name}.audit", converted, find),
        "answers_audit": _write_findings(site, paths, f"{name}.answers_audit", (*converted, *runs), find_in_answers),
    }
    if not any(made.values()):
        return None
    decisions: list[Any] = []
    fault = None
    try:
        decisions = [one.model_dump(mode="json", exclude_defaults=True) for one in read_decisions(paths)]
    except InputError as error:
        fault = str(error)
    same = [header for header in headers if header.fingerprints.get("dataset") == stamp.dataset_fingerprint]
    newest = max(same, key=lambda header: header.timestamp, default=None)
    page = render(
        "audit.html",
        root="../",
        benchmark=benchmark,
        version=stamp.dataset_version,
        decisions=decisions,
        sha256=audit_sha256(paths) or "",
        fault=fault,
        run="" if newest is None else newest.evaluation_id,
        parts=[part for part, is_made in made.items() if is_made],
    )
    site.write(f"{name}.audit.html", page)
    return _counts(site, [f"{name}.{part}.json" for part, is_made in made.items() if is_made])


def _write_findings(site: SiteFolder, paths: BenchmarkPaths, name: str, made_from: Sequence[str], find: Find) -> bool:
    """Write findings, unless those of the last report were made from the same; return whether there are some now."""
    parts = (code_digest(), code_digest("audit"), *made_from)
    key = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
    if not site.is_made(name, key):
        try:
            findings = find()
            data = _data(paths, findings)
        except (InputError, OSError):
            return False
        named = {
            severity: sorted({one.question for f in findings if f.severity == severity for one in f.suspects})
            for severity in SUSPECT
        }
        site.making(name, key)
        site.write(f"{name}.js", data_script(name.rpartition(".")[2], data))
        site.write(f"{name}.json", msgspec.json.encode(named))
        site.made()
    return True


def _counts(site: SiteFolder, files: Sequence[str]) -> Counts:
    named = [msgspec.json.decode((site.root / file).read_bytes(), type=dict[Severity, set[int]]) for file in files]
    wrong, doubtful = (set().union(*(one[severity] for one in named)) for severity in SUSPECT)
    counts = dict(zip(SUSPECT, (len(wrong), len(doubtful - wrong)), strict=True))
    return {severity: n for severity, n in counts.items() if n}


def _data(paths: BenchmarkPaths, findings: Sequence[AuditFinding]) -> dict[str, Any]:
    shown = [(one, one.suspects[:SUSPECTS_SHOWN]) for one in findings]
    named = {suspect.question for _, suspects in shown for suspect in suspects}
    return {
        "findings": [
            {
                **{name: getattr(one, name) for name in ("kind", "severity", "text", "remedy", "count")},
                "documents": one.documents[:DOCUMENTS_SHOWN],
                "suspects": [
                    [one.question, one.place, replace_control_chars(one.evidence), one.answers] for one in suspects
                ],
            }
            for one, suspects in shown
        ],
        "questions": _questions(paths, named),
    }


def _questions(paths: BenchmarkPaths, named: Collection[int]) -> dict[str, dict[str, Any]]:
    """Return the questions of the last conversion with these ids, whole: decisions find them by their text."""
    found = {}
    for batch in iterate_batches(paths.questions, _COLUMNS) if named else ():
        columns = {name: batch.column(name) for name in _COLUMNS}
        for place, number in enumerate(columns["id"].to_pylist()):
            if number in named:
                row = {name: values[place].as_py() for name, values in columns.items()}
                found[str(number)] = {
                    "id": row["source_id"] or str(number),
                    "question": row["question"],
                    "answers": row["answers"],
                    "unanswerable": row["is_impossible"],
                }
    return found
