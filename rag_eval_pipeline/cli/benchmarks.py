"""Commands on benchmarks and their files: init, plan, convert, validate, export, render."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rag_eval_pipeline.cli.output import (
    BAD_INPUT,
    STRICT,
    UNAVAILABLE,
    AsJson,
    BenchmarkName,
    Names,
    Root,
    Strict,
    emit,
    find_workspace,
    find_workspace_if_any,
    for_each,
    print_error,
    print_next,
    print_notes,
    progress_bars,
)
from rag_eval_pipeline.errors import InputError, counted
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

if TYPE_CHECKING:
    from rag_eval_pipeline.audit.findings import AuditFinding
    from rag_eval_pipeline.conversion.stamp import Recheck
    from rag_eval_pipeline.corpus.documents import CorpusDocument
    from rag_eval_pipeline.web.egress import EgressPolicy


PHASES = {
    "questions": "reading questions",
    "corpus": "printing documents",
    "corpus_text": "extracting their text",
    "train_json": "writing train.json",
    "evaluation_dataset": "locating gold texts",
    "ground_truth": "writing the ground truth",
}
AUDITED_MAX = 50_000  # questions
NEW_SYSTEM = "rag-eval system init NAME --url URL"


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new benchmark: a folder of data/sources.")],
    origin: Annotated[
        str, typer.Option("--from", metavar="FILE|FOLDER|URL", help="Data to start from; files are copied.")
    ],
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Start a benchmark from your files: write a benchmark.yaml and list what was guessed.

    Example: rag-eval init frames --from downloads/frames
    """
    from dataclasses import asdict

    from rag_eval_pipeline.scaffold.init import start_benchmark

    root = find_workspace(workspace)

    def fetch(url: str, path: Path) -> None:
        from rag_eval_pipeline.sources.download import download
        from rag_eval_pipeline.web.egress import EgressPolicy, read_egress_config

        # Into the benchmark's own cache, so that its first conversion need not ask again.
        policy = EgressPolicy(read_egress_config(root.egress_config))
        shutil.copyfile(download(url, root.benchmark(name).downloads, policy), path)

    paths, proposal = start_benchmark(root, name, origin, download=fetch)
    emit(
        {"benchmark": name, "spec": str(paths.spec), **asdict(proposal)},
        as_json,
        [
            f"{paths.spec}: {proposal.shape}",
            *(f"guess: {guess}" for guess in proposal.guesses),
            *(f"to fill in: {sentence}" for sentence in proposal.missing),
        ],
    )
    print_next(as_json, f"rag-eval plan {name}")


def plan(
    name: BenchmarkName,
    names: Annotated[
        bool, typer.Option("--names", help="Print a line per document: URL, file name, flags; and refused URLs.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the columns of source and tables: type in SQL, a sample value.")
    ] = False,
    workspace: Root = None,
    as_json: AsJson = False,
    strict: Strict = False,
) -> None:
    """Count the questions and documents of a benchmark, without fetching, rendering or writing anything.

    Example: rag-eval plan skarn-railway
    """
    from dataclasses import asdict

    import msgspec

    from rag_eval_pipeline.audit.audit_benchmark import audit_plan
    from rag_eval_pipeline.conversion.planning import plan as make_plan
    from rag_eval_pipeline.conversion.quarantine import quarantine_notes
    from rag_eval_pipeline.conversion.summaries import plan_sentences
    from rag_eval_pipeline.monitoring.power import ASSUMED, USUAL
    from rag_eval_pipeline.monitoring.power import power as detectable
    from rag_eval_pipeline.monitoring.verdict_settings import read_verdict_settings

    root = find_workspace(workspace)
    if schema:
        _print_schemas(root.existing_benchmark(name), as_json)
        return
    planned = make_plan(root.existing_benchmark(name))
    files = [(document, file) for document in planned.documents for file in document.names]
    if names:
        rows: list[dict[str, Any]] = [
            {"url": f.url or d.key, "file_name": f.name, "flags": list(f.flags)} for d, f in files
        ]
        rows += [
            {"url": url, "file_name": None, "flags": ["bad_url"], "reason": f"{place}: expected an http(s) URL"}
            for url, place in planned.refused_urls.items()
        ]
        emit(rows, as_json, ("\t".join(_name_fields(row)) for row in rows))
    else:
        value = {"benchmark": name, **asdict(planned.counts), "files": len(files), "notes": planned.notes}
        refused = [record for record in planned.quarantine if not record.is_dropped]
        value["quarantine"] = [msgspec.to_builtins(record) for record in refused]
        settings = read_verdict_settings(root)
        power = detectable(planned.group_sizes, settings, ASSUMED if as_json else [USUAL], shared=planned.shared)
        value["power"] = power.record()
        value["sentences"] = [*plan_sentences(planned.counts), power.sentence(settings)]
        lines = [*quarantine_notes(name, planned.quarantine), *planned.notes, *value["sentences"]]
        counts = planned.counts
        by = "by where" if not counts.audit_dropped else f"({counts.audit_dropped} of them by audit.yaml)"
        rows_line = f"{counted(counts.rows, 'row')}: {counts.accepted} accepted, {counts.dropped} dropped {by}, "
        found = (
            f"{counts.impossible} unanswerable, {counted(counts.contexts, 'context')}, "
            f"{counted(counts.documents, 'document')}"
        )
        first = [f"{rows_line}{counts.quarantined} quarantined", f"{found} in {counted(len(files), 'file')}"]
        value["warning"] = power.warning(name)
        audited = value["audit"] = _audit_line(name, planned.counts.accepted, lambda: audit_plan(planned))
        emit(value, as_json, [*first, *lines, *filter(None, [audited])])
        print_notes(filter(None, [value["warning"]]))
    if strict and planned.counts.quarantined:
        raise typer.Exit(STRICT)
    print_next(as_json or names, f"rag-eval convert {name}")


def _audit_line(name: str, questions: int, audit: "Callable[[], list[AuditFinding]]") -> str:
    """Return how many questions an audit doubts; of a large benchmark, only a person who waits for it asks for one."""
    from rag_eval_pipeline.audit.audit_benchmark import summary

    return "" if questions > AUDITED_MAX else summary(name, audit())


def _name_fields(row: Mapping[str, Any]) -> list[str]:
    """Return the fields of a line of `plan --names`; only a URL that is refused has a reason, and no file name."""
    return [row["url"], row["file_name"] or "", ",".join(row["flags"]), *([row["reason"]] if "reason" in row else [])]


def _print_schemas(paths: BenchmarkPaths, as_json: bool) -> None:
    from dataclasses import asdict

    from rag_eval_pipeline.conversion.column_samples import read_schemas

    found = list(read_schemas(paths))
    lines = []
    for relation in found:
        lines += [f"{relation.name}: {counted(relation.rows, 'row')}", *relation.notes]
        width = max((len(column.name) for column in relation.columns), default=0)
        for column in relation.columns:
            lines.append(f"  {column.name:{width}}  {column.type}  {column.sample or 'no value'}")
    emit([asdict(relation) for relation in found], as_json, lines)


def convert(
    names: Names,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the content of a published dataset version.")
    ] = False,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Fetch the documents' web pages again and report changes.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Fetch them again, and replace documents whose pages have changed.")
    ] = False,
    workspace: Root = None,
    as_json: AsJson = False,
    strict: Strict = False,
) -> None:
    """Convert benchmarks: corpus PDFs, train.json, .eval.json, .gt.json.

    Example: rag-eval convert skarn-railway
    """
    from rag_eval_pipeline.audit.audit_benchmark import audit
    from rag_eval_pipeline.conversion.convert import convert as run
    from rag_eval_pipeline.conversion.summaries import conversion_sentences
    from rag_eval_pipeline.monitoring.power import ASSUMED, USUAL, power_of
    from rag_eval_pipeline.monitoring.verdict_settings import read_verdict_settings

    root = find_workspace(workspace)
    quarantined = 0
    pages: Recheck = "accept" if accept else "report" if recheck else "no"

    def one(name: str) -> dict[str, Any]:
        nonlocal quarantined
        with progress_bars(f"{name}:") as begin:
            reports = run(
                root, name, progress=lambda step: begin(PHASES[step]), done=lambda step: print_notes(step.notes),
                replace=replace, recheck=pages,
            )  # fmt: skip
        counts = {report.record.step: report.record.counts for report in reports}
        quarantined += counts["train_json"]["quarantined"]
        power, settings = power_of(root, name, ASSUMED if as_json else [USUAL]), read_verdict_settings(root)
        return {
            "benchmark": name,
            "counts": counts,
            "train_json": str(root.benchmark(name).train_json),
            "power": power.record(),
            "sentences": [*conversion_sentences(counts), power.sentence(settings)],
            "audit": _audit_line(name, counts["train_json"]["accepted"], lambda: audit(root, name)),
            "warning": power.warning(name),
        }

    def line(done: dict[str, Any]) -> str:
        rows, files = done["counts"]["train_json"], done["counts"]["corpus"]
        return (
            f"{done['benchmark']}: {counted(rows['accepted'], 'question')}, {rows['dropped']} dropped, "
            f"{rows['quarantined']} quarantined, {counted(files['files'], 'file')} "
            f"({files['new_or_changed']} new or changed), "
            f"{done['train_json']}"
            + "".join(f"\n  {sentence}" for sentence in filter(None, [*done["sentences"], done["audit"]]))
        )

    for done in for_each(names, one, line, as_json):
        print_notes(filter(None, [done["warning"]]))
    if strict and quarantined:
        raise typer.Exit(STRICT)
    if not as_json:
        print_next(as_json, _evaluate_command(root, names))


def _evaluate_command(workspace: Workspace, benchmarks: list[str]) -> str:
    from rag_eval_pipeline.evaluation.expected_pairs import read_registry

    takes_all = (
        name for name, file in read_registry(workspace).system_files.items() if all(map(file.takes, benchmarks))
    )
    system = next(takes_all, None)
    return f"rag-eval evaluate {' '.join(benchmarks)} --system {system}" if system else NEW_SYSTEM


def validate(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="train.json, *.benchmark.json; *.eval.*, *.gt.* and *.results.* as JSON, YAML, CSV or gzip; Evret's "
            "JSON and CSV; settings files and benchmark.yaml in their place in a workspace."
        ),
    ],
    corpus: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder that must contain the named documents.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if there are warnings.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check files against their specification and print their version; exits 2 if a file is invalid.

    Example: rag-eval validate data/datasets/skarn-railway/train.json
    """
    from rag_eval_pipeline.formats.model import Finding
    from rag_eval_pipeline.formats.validation import SPECIFIED, examine, schema_version_of
    from rag_eval_pipeline.monitoring.settings_files import check_settings

    findings: dict[str, list[Finding]] = {}
    faults = []
    for path in paths:
        try:
            if path.name.endswith((".yaml", ".yml")) and not path.name.endswith(SPECIFIED):
                check_settings(path)
                findings[str(path)] = []
            else:
                findings[str(path)] = examine(path, corpus=corpus)
        except InputError as error:  # the other files are looked at all the same
            faults.append(error)
    lines = []
    for name, found in findings.items():
        lines += [f"{finding.severity}: {finding}" for finding in found if finding.severity != "info"]
        if not any(finding.severity == "error" for finding in found):
            version = schema_version_of(Path(name))
            lines.append(f"{name}: valid" + (f" ({version})" if version else ""))
    facts = {name: [{"severity": one.severity, **vars(one.error)} for one in found] for name, found in findings.items()}
    emit(facts, as_json, lines)
    for fault in faults:
        print_error(fault)
    severities = {finding.severity for found in findings.values() for finding in found}
    if faults or "error" in severities:
        raise typer.Exit(BAD_INPUT)
    if strict and "warning" in severities:
        raise typer.Exit(STRICT)


def export(
    name: BenchmarkName,
    target: Annotated[Path, typer.Argument(metavar="DIR", help="Target folder; it must be missing or empty.")],
    format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            autocompletion=lambda: ["nvidia", "evret", "beir", "trec", "ragas", "inspect", "promptfoo"],
            help="Target format: nvidia, evret, beir, trec, ragas, inspect, promptfoo.",
        ),
    ],
    evaluation: Annotated[
        str | None,
        typer.Option(
            metavar="ID|SYSTEM", help="Also export answers: an evaluation id, or a system for its newest evaluation."
        ),
    ] = None,
    documents: Annotated[bool, typer.Option(help="evret: include the documents' texts.")] = False,
    level: Annotated[Literal["document", "page"], typer.Option(help="beir, trec: level of judgements.")] = "document",
    answerable_only: Annotated[
        bool, typer.Option("--answerable-only", help="Leave out the questions that the corpus does not answer.")
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace a target that contains only files of this export.")] = False,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Write a converted benchmark in another tool's format.

    Example: rag-eval export skarn-railway out/skarn --format nvidia
    """
    from rag_eval_pipeline.exports import ExportOptions
    from rag_eval_pipeline.exports import export as run

    options = ExportOptions(documents=documents, level=level, answerable_only=answerable_only, overwrite=overwrite)
    report = run(find_workspace(workspace), name, format, target, evaluation=evaluation, options=options)
    print_notes(report.notes)
    emit(report.record(), as_json, [report.line()])


def render(
    sources: Annotated[
        list[str], typer.Argument(metavar="URL|FILE...", help="Web pages, and local HTML, text, Markdown or PDF files.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the PDFs; nothing in it is removed.")],
    manifest: Annotated[
        Path | None,
        typer.Option(
            help="Parquet file with the names, hashes and flags of earlier runs: documents in it are not fetched again "
            "and keep their names."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Render everything again and overwrite files with the same names.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="A private host that documents may come from; repeatable."),
    ] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """Render pages and files to PDFs, named by the URL-stem rule, without any benchmark.

    Uses the egress settings of the workspace, if there is one.
    Exits 2 if a file could not be rendered, 4 if a web page could not;
    all others are rendered first.

    Example: rag-eval render notes.md --out pdfs
    """
    from dataclasses import asdict

    from rag_eval_pipeline.conversion.summaries import missing_note
    from rag_eval_pipeline.corpus.standalone import is_url, render_documents

    policy = _egress_policy(workspace, allow or [])
    code = 0
    found = [source for source in sources if is_url(source) or Path(source).is_file()]
    hint = "A URL begins with http:// or https://."
    for source in [source for source in sources if source not in found]:
        code = print_error(InputError("missing_file", source, "a file that can be read", hint=hint))
    with progress_bars() as begin:
        rows = render_documents(
            found, out, policy, manifest=manifest, overwrite=overwrite, progress=begin("printing documents")
        )
    missing = [row for row in rows if row.origin == "missing"]
    emit([asdict(row) for row in rows], as_json, (_document_line(row) for row in rows if row.origin != "missing"))
    for row in missing:
        print_notes([missing_note(row)])
        code = max(code, BAD_INPUT if row.url is None else UNAVAILABLE)
    if code:
        raise typer.Exit(code)


def _egress_policy(workspace: Path | None, allow: list[str]) -> "EgressPolicy":
    from pydantic import ValidationError

    from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy, read_egress_config

    root = find_workspace_if_any(workspace)
    config = EgressConfig() if root is None else read_egress_config(root.egress_config)
    try:
        given = EgressConfig.model_validate({"allowed_hosts": allow})
    except ValidationError:
        raise InputError("bad_host", "--allow", "an exact host:port", found=", ".join(allow)) from None
    hosts = (*config.allowed_hosts, *given.allowed_hosts)
    return EgressPolicy(config.model_copy(update={"allowed_hosts": hosts}))


def _document_line(row: "CorpusDocument") -> str:
    pages = counted(row.pages, "page")
    unchanged = () if row.seconds else ("unchanged",)
    return ", ".join([f"{row.file_name}: {pages}", *unchanged, *row.flags])
