"""The paths and names of all files of a workspace.

Nothing here reads or writes a file, and a workspace need not exist.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rag_eval_pipeline.errors import InputError, unknown_name_hint

# Names become partition keys, file names and URL parts: no `/`, `|` (Dagster's separator of dimensions), `,` or `...`
# (its ranges).
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
SYSTEM_SUFFIX = ".config.yaml"
RESERVED_SYSTEM = "baseline"  # the other side of a comparison with pinned evaluations
WORKSPACE_VARIABLE = "RAG_EVAL_WORKSPACE"
PROJECT = Path(__file__).resolve().parents[1]


def default_root() -> str:
    """Return the folder named by RAG_EVAL_WORKSPACE, else the nearest workspace upwards.

    Without one it is a checkout of this project, else the current folder, which is no workspace.
    """
    found = nearest_root(Path.cwd()) or (PROJECT if is_workspace(PROJECT) else Path.cwd())
    return os.environ.get(WORKSPACE_VARIABLE) or str(found)


def is_workspace(folder: Path) -> bool:
    """Return whether a folder holds data/sources."""
    return (folder / "data" / "sources").is_dir()


def nearest_root(folder: Path) -> Path | None:
    """Return the folder or the nearest one above it that holds data/sources; None if there is none."""
    return next(filter(is_workspace, (folder, *folder.parents)), None)


def check_name(kind: str, name: str) -> str:
    """Return the name if it can be a folder, a partition key and a part of a file name.

    Raises:
        InputError: `bad_name`.
    """
    if kind == "system" and name == RESERVED_SYSTEM:
        raise InputError("bad_name", kind, "a name other than the reserved name of pinned evaluations", found=name)
    if NAME.fullmatch(name):
        return name
    raise InputError(
        "bad_name",
        kind,
        f"a name matching ^{NAME.pattern}$",
        found=name,
        hint="Use lower-case letters, digits, - and _.",
    )


class _Below:
    """A path below a folder of its owner, which is another path of it."""

    def __init__(self, folder: str, *parts: str) -> None:
        self._folder, self._parts = folder, parts

    def __get__(self, owner: object, kind: type) -> Path:
        return Path(getattr(owner, self._folder), *self._parts)


@dataclass(frozen=True, slots=True)
class BenchmarkPaths:
    """The files of one benchmark, before and after conversion."""

    name: str
    source: Path  # data/sources/<name>/
    corpus: Path  # corpus/<name>/
    dataset: Path  # data/datasets/<name>/, an evaluation root as NVIDIA's evaluate_rag.py takes it

    spec = _Below("source", "benchmark.yaml")
    audit = _Below("source", "audit.yaml")  # people's decisions on suspect questions
    questions = _Below("dataset", "questions.parquet")  # accepted ones, with the columns that train.json does not have
    # Documents that the questions name, with their file names and bodies, before any is fetched.
    planned = _Below("dataset", "planned.parquet")
    documents = _Below("dataset", "documents.parquet")  # the manifest: a row per file of the corpus or missing document
    documents_json = _Below("dataset", "documents.json")  # the manifest for people, with the length of each text
    web = _Below("dataset", "web.json")  # validators and digests of the web pages that documents were fetched from
    pages = _Below("dataset", "pages.parquet")  # text of each page with its place in the document's text
    # Documents that were found for gold texts that name none; absent where all do.
    gold_documents = _Below("steps", "gold_documents.parquet")
    gold_spans = _Below("dataset", "gold_spans.parquet")  # gold texts and their positions in the corpus
    train_json = _Below("dataset", "train.json")
    quarantine = _Below("dataset", "quarantine.jsonl")  # rejected rows, one record each
    stamp = _Below("dataset", "conversion.json")  # present only after a successful conversion
    steps = _Below("dataset", ".steps")  # the inputs and counts of each conversion step, one file per step
    corpus_journal = _Below("steps", "corpus.journal")  # rows of a corpus that is being built, until it has a manifest
    drafts = _Below("dataset", "drafts.json")  # questions from production for people to take; no product reads it
    shards = _Below("steps", "shards")  # parts of a large corpus that is being built; removed when they are merged
    cache = _Below("dataset", ".cache")  # unpacked archives, one folder per archive, named by its SHA-256
    downloads = _Below("cache", "downloads")  # one file per body, named by its SHA-256, and addresses
    lock = _Below("dataset", ".lock")  # the lock file: conversions exclusive, evaluations shared
    corpus_link = _Below("dataset", "corpus")  # the `corpus` link inside the evaluation root


@dataclass(frozen=True, slots=True)
class Workspace:
    """One project folder with `data/` and `corpus/`.

    Args:
        root: The folder that holds `data/sources`; absolute, so that no function depends on the current folder.
    """

    root: Path

    sources = _Below("root", "data", "sources")  # one folder per benchmark
    recipes = _Below("root", "data", "recipes")  # formats that `init` knows beside the product's, `*.yaml`
    config = _Below("root", "data", "config")  # settings files, `*.config.yaml`
    egress_config = _Below("config", "egress.config.yaml")  # allowed private hosts and limits
    defaults_config = _Below("config", "evaluation_defaults.config.yaml")  # settings of every evaluation
    evaluation_datasets = _Below("root", "data", "evaluation", "datasets")  # `<id>_v<version>.eval.json` files
    ground_truth = _Below("root", "data", "evaluation", "ground_truth")  # `<id>_v<version>.gt.json` files
    annotations = _Below("ground_truth", "annotations")  # human annotations, one folder per annotator
    results = _Below("root", "data", "evaluation", "results")  # `<evaluation_id>.results.json` files
    runs = _Below("root", "data", "evaluation", "runs")  # one folder per evaluation: journal and scores
    spending = _Below("root", "data", "evaluation", "spending")  # of systems and judges, one folder per day
    evaluations = _Below("root", "data", "evaluation", "evaluations")  # the evaluators' records of each answer
    judge_cache = _Below("root", "data", "evaluation", "judge_cache")  # replies, keyed by the content of the request
    workers = _Below("root", "data", "evaluation", "workers")  # browser and fonts of each that takes runs from a queue
    # Agreement of judges with human labels, one card per benchmark, judge and task.
    trust_cards = _Below("root", "data", "evaluation", "trust_cards")
    labels = _Below("root", "data", "evaluation", "labels")  # people's labels from the report's pages, one file per run
    baselines = _Below("root", "data", "evaluation", "baselines")  # the pinned evaluations of each pair
    nights = _Below("root", "data", "evaluation", "nights")  # what was compared with each baseline, night by night
    history = _Below("root", "data", "evaluation", "history")  # headers of all results, and tables of scores
    identity = _Below("root", "data", "evaluation", "workspace_id")  # by which a Dagster instance knows this workspace
    reports = _Below("root", "data", "reports")  # the HTML report and its data

    def benchmark(self, name: str) -> BenchmarkPaths:
        """Return the paths of a benchmark, which need not exist.

        Raises:
            InputError: `bad_name`.
        """
        check_name("benchmark", name)
        return BenchmarkPaths(
            name=name,
            source=self.sources / name,
            corpus=self.root / "corpus" / name,
            dataset=self.root / "data" / "datasets" / name,
        )

    def existing_benchmark(self, name: str) -> BenchmarkPaths:
        """Return the paths of a benchmark.

        Raises:
            InputError: `bad_name`, or `no_benchmark` with the known ones.
        """
        paths = self.benchmark(name)
        if paths.spec.is_file():
            return paths
        if paths.source.is_dir():
            hint = "Create it (docs/reference/benchmarks.md), or start with: rag-eval init NAME --from FILE|FOLDER|URL"
            raise InputError("no_benchmark", f"data/sources/{name}/benchmark.yaml", "this file", hint=hint)
        known = self.benchmarks()
        hint = unknown_name_hint(name, known, "benchmarks") if known else "Start one: rag-eval init NAME --from FILE"
        raise InputError("no_benchmark", "data/sources", "a benchmark", found=name, hint=hint)

    def existing_system_file(self, name: str) -> Path:
        """Return the settings file of a system under test.

        Raises:
            InputError: `bad_name`, or `no_system` with the known ones.
        """
        path = self.system_file(name)
        if path.is_file():
            return path
        known = self.systems()
        hint = unknown_name_hint(name, known, "systems")
        if not known:
            hint = "Start one: rag-eval system init NAME --url URL"
        raise InputError("no_system", "data/config/systems", "a system", found=name, hint=hint)

    def system_file(self, name: str) -> Path:
        """Return the settings file of a system under test, which need not exist.

        Raises:
            InputError: `bad_name`.
        """
        check_name("system", name)
        return self.config / "systems" / f"{name}{SYSTEM_SUFFIX}"

    def system_state(self, system: str, benchmark: str) -> Path:
        """Return the folder for the state of a system's server, for one benchmark.

        Raises:
            InputError: `bad_name`.
        """
        check_name("system", system)
        return self.root / "data" / "evaluation" / "systems" / system / check_name("benchmark", benchmark)

    def benchmarks(self) -> list[str]:
        """Return the sorted names of folders that have a valid name and a benchmark.yaml."""
        folders = self.sources.iterdir() if self.sources.is_dir() else []
        return sorted(f.name for f in folders if NAME.fullmatch(f.name) and (f / "benchmark.yaml").is_file())

    def systems(self) -> list[str]:
        """Return the sorted names of the systems under test."""
        files = (self.config / "systems").glob(f"*{SYSTEM_SUFFIX}")
        names = (file.name.removesuffix(SYSTEM_SUFFIX) for file in files)
        return sorted(name for name in names if NAME.fullmatch(name) and name != RESERVED_SYSTEM)

    def results_file(self, evaluation_id: str) -> Path:
        """`<evaluation_id>.results.json`."""
        return self.results / f"{evaluation_id}.results.json"

    def eval_json(self, dataset_id: str, version: str) -> Path:
        """`<id>_v<version>.eval.json`."""
        return self.evaluation_datasets / f"{dataset_id}_v{version}.eval.json"

    def gt_json(self, dataset_id: str, version: str) -> Path:
        """`<id>_v<version>.gt.json`."""
        return self.ground_truth / f"{dataset_id}_v{version}.gt.json"
