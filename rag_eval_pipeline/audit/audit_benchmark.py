"""Audit a benchmark: what is wrong with its questions, answers and documents, and what systems' answers show of it.

Every check takes time in proportion to the questions and to the text of the documents; none compares each question with
each other.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from rag_eval_pipeline.audit.audited_texts import AuditedCorpus, AuditedQuestions
from rag_eval_pipeline.audit.findings import AuditFinding, undecided
from rag_eval_pipeline.audit.gold_support import document_findings, support_findings
from rag_eval_pipeline.audit.near_duplicates import duplicate_findings
from rag_eval_pipeline.audit.row_findings import row_findings, split_findings, wording_findings
from rag_eval_pipeline.conversion.audit_decisions import converted_decisions
from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.datasets import read_gold_spans
from rag_eval_pipeline.conversion.gold_documents import remaining_questions
from rag_eval_pipeline.conversion.mapping import TRACE_COLUMNS
from rag_eval_pipeline.conversion.planning import Plan, plan
from rag_eval_pipeline.conversion.stamp import Conversion, current_stamp, is_converted, source_digest
from rag_eval_pipeline.corpus.text.pages import read_pages
from rag_eval_pipeline.sources.relations import Relation, read_relation
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

SEVERITIES = ("wrong", "doubtful", "note")
PARTS = ("questions", "answers")


def audit(workspace: Workspace, name: str) -> list[AuditFinding]:
    """Return the findings of a benchmark, the worst and most frequent first.

    Without a conversion of the present source, what needs the documents' text is left out: see `has_documents`. What
    audit.yaml keeps is not named.

    Raises:
        InputError: A benchmark.yaml or a file that cannot be read.
    """
    paths = workspace.existing_benchmark(name)
    return audit_converted(workspace, name) if has_documents(paths) else audit_plan(plan(paths))


def audit_converted(workspace: Workspace, name: str, parts: Sequence[str] = PARTS) -> list[AuditFinding]:
    """Return the findings of a converted benchmark, or only those in the questions, or in systems' answers.

    Raises:
        InputError: `not_converted`, or `stale_conversion` if the source has changed since.
    """
    from rag_eval_pipeline.audit.answers_of_systems import findings_from_answers

    paths = workspace.benchmark(name)
    spec, digest = read_spec(paths), source_digest(paths)
    current_stamp(paths, digest)
    questions = AuditedQuestions(remaining_questions(Conversion(workspace, paths, spec, digest)))
    findings: list[AuditFinding] = []
    if "questions" in parts:
        corpus = AuditedCorpus(read_pages(paths.pages), read_gold_spans(paths.gold_spans))
        source = read_relation(paths, spec.source, source_columns=True)
        findings += find_faults(questions, corpus, source, spec.language)
    if "answers" in parts:
        findings += findings_from_answers(workspace, name, questions)
    return in_order(undecided(findings, converted_decisions(paths).kept))


def has_documents(paths: BenchmarkPaths) -> bool:
    """Whether the benchmark is converted, so that its documents have text."""
    return is_converted(paths, source_digest(paths))


def audit_plan(planned: Plan) -> list[AuditFinding]:
    """Return the findings that need no document's text."""
    questions = AuditedQuestions(planned.spool.batches(planned.names, planned.own_urls))
    findings = find_faults(questions, None, planned.source, planned.spec.language)
    return in_order(undecided(findings, planned.kept))


def find_faults(
    questions: AuditedQuestions, corpus: AuditedCorpus | None, source: Relation | None, language: str | None
) -> Iterator[AuditFinding]:
    """Yield the findings of all checks that need no system's answers."""
    columns = set() if source is None else set(source.schema.names) - {*TRACE_COLUMNS}
    yield from chain(
        row_findings(questions, columns),
        wording_findings(questions, language),
        split_findings(questions, source),
        duplicate_findings(questions),
    )
    if corpus is not None:
        yield from support_findings(questions, corpus)
        yield from document_findings(questions, corpus)


def in_order(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """Sort by severity, then by the number of questions or documents."""
    return sorted(findings, key=lambda one: (SEVERITIES.index(one.severity), -one.count, one.kind))


def summary(name: str, findings: Iterable[AuditFinding]) -> str:
    """Return the numbers of wrong and doubtful questions as a line, with the command that lists them; "" for none."""
    worst: dict[int, str] = {}
    for finding in in_order(findings):
        for suspect in finding.suspects:
            worst.setdefault(suspect.question, finding.severity)
    counts = {severity: sum(one == severity for one in worst.values()) for severity in SEVERITIES[:2]}
    shown = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
    return f"audit: {shown}; rag-eval audit {name}" if shown else ""
