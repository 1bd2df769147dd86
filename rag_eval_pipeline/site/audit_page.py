"""The page of an audit: findings with the questions that they name, and people's decisions on these."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_pipeline.audit.audit_benchmark import PARTS, SEVERITIES
from rag_eval_pipeline.audit.findings import AuditFinding, Severity
from rag_eval_pipeline.conversion.audit_decisions import audit_sha256, read_decisions
from rag_eval_pipeline.conversion.question_spool import iterate_batches, questions_of
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.site.data import ReportData
from rag_eval_pipeline.site.display_text import data_script, replace_control_chars
from rag_eval_pipeline.site.page_writer import SiteFolder, render
from rag_eval_pipeline.site.report_state import code_digest
from rag_eval_pipeline.storage.json_files import read_json
from rag_eval_pipeline.workspace import BenchmarkPaths

SUSPECTS_SHOWN = 200  # of a finding, the surest; `rag-eval audit` lists all
DOCUMENTS_SHOWN = 50

Counts = dict[Severity, int]
"""Questions by the worst severity of the findings that name them; notes are left out."""

Find = Callable[[Sequence[str]], Sequence[AuditFinding]]
"""Audits `questions`, or systems' `answers` to them."""


def write_audit(site: SiteFolder, report: ReportData, benchmark: str, find: Find) -> Counts | None:
    """Write the page of the audit of a benchmark's last conversion, and return how many questions are suspect.

    Questions are audited only if the conversion is another than when the page was written, answers also if there are
    other runs. None if the benchmark is not converted or cannot be audited; then it has no page.
    """
    stamp, name = report.stamps.get(benchmark), f"benchmarks/{benchmark}"
    if stamp is None:
        return None
    paths = report.workspace.benchmark(benchmark)
    headers = [header for pair, own in report.by_pair.items() if pair[0] == benchmark for header in own]
    converted = (stamp.source_digest, stamp.dataset_fingerprint, stamp.corpus_fingerprint)
    runs = sorted(header.evaluation_id for header in headers)
    made_from = {"questions": converted, "answers": (*converted, *runs)}
    parts = [part for part in PARTS if _write_findings(site, paths, part, made_from[part], find)]
    if not parts:
        return None
    try:
        decisions = [one.model_dump(mode="json", exclude_defaults=True) for one in read_decisions(paths)]
    except InputError:
        return None  # convert says what is wrong
    same = [header for header in headers if header.fingerprints.get("dataset") == stamp.dataset_fingerprint]
    newest = max(same, key=lambda header: header.timestamp, default=None)
    drafts = read_json(paths.drafts) if paths.drafts.exists() else []
    if drafts:
        site.write(f"{name}.audit-drafts.js", data_script("audit-drafts", {"drafts": drafts[:SUSPECTS_SHOWN]}))
    page = render(
        "audit.html",
        root="../",
        benchmark=benchmark,
        version=stamp.dataset_version,
        decisions=decisions,
        sha256=audit_sha256(paths) or "",
        run="" if newest is None else newest.evaluation_id,
        parts=[*parts, *(["drafts"] if drafts else [])],
    )
    site.write(f"{name}.audit.html", page)
    found = [
        msgspec.json.decode((site.root / f"{name}.audit-{part}.json").read_bytes(), type=dict[int, Severity])
        for part in parts
    ]
    worst = [min((one[n] for one in found if n in one), key=SEVERITIES.index) for n in set().union(*found)]
    return {severity: worst.count(severity) for severity in SEVERITIES[:2] if severity in worst}


def _write_findings(site: SiteFolder, paths: BenchmarkPaths, part: str, made_from: Sequence[str], find: Find) -> bool:
    """Write findings, unless those of the last report were made from the same; return whether there are some now."""
    name = f"benchmarks/{paths.name}.audit-{part}"
    digests = (code_digest("site"), code_digest("audit"), *made_from)
    key = hashlib.blake2b(repr(digests).encode(), digest_size=16).hexdigest()
    if not site.is_made(name, key):
        try:
            findings = find([part])
            data = _data(paths, findings)
        except (InputError, OSError):
            return False
        worst = {one.question: finding.severity for finding in reversed(findings) for one in finding.suspects}
        site.making(name, key)
        site.write(f"{name}.js", data_script(f"audit-{part}", data))
        site.write(f"{name}.json", msgspec.json.encode(worst))
        site.made()
    return True


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
    ids = pa.array(sorted(named), pa.int64())
    batches = iterate_batches(paths.questions) if named else ()
    found = (one for batch in batches for one in questions_of(batch.filter(pc.is_in(batch.column("id"), ids))))
    return {
        str(one.id): {
            "id": one.source_id or str(one.id),
            "question": one.question,
            "answers": one.answers,
            "unanswerable": one.is_impossible,
        }
        for one in found
    }
