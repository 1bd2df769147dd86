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
WORKSPACE_VARIABLE = "RAG_EVAL_WORKSPACE"
PROJECT = Path(__file__).resolve().parents[1]


def default_root() -> str:
    """Return the folder named by RAG_EVAL_WORKSPACE, else the nearest workspace upwards, else the project's folder."""
    return os.environ.get(WORKSPACE_VARIABLE) or str(nearest_root(Path.cwd()) or PROJECT)


def nearest_root(folder: Path) -> Path | None:
    """Return the folder or the nearest one above it that holds data/sources; None if there is none."""
    return next((one for one in (folder, *folder.parents) if (one / "data" / "sources").is_dir()), None)


def check_name(kind: str, name: str) -> str:
    """Return the name if it can be a folder, a partition key and a part of a file name.

    Raises:
        InputError: `bad_name`.
    """
    if NAME.fullmatch(name):
        return name
    raise InputError(
        "bad_name",
        kind,
        f"a name matching ^{NAME.pattern}$",
        found=name,
        hint="Use lower-case letters, digits, - and _.",
    )


@dataclass(frozen=True, slots=True)
class BenchmarkPaths:
    """The files of one benchmark, before and after conversion."""

    name: str
    source: Path  # data/sources/<name>/
    corpus: Path  # corpus/<name>/
    dataset: Path  # data/datasets/<name>/, an evaluation root as NVIDIA's evaluate_rag.py takes it

    @property
    def spec(self) -> Path:
        """benchmark.yaml."""
        return self.source / "benchmark.yaml"

    @property
    def questions(self) -> Path:
        """Accepted questions, one row each, with the columns that `train.json` does not have."""
        return self.dataset / "questions.parquet"

    @property
    def planned(self) -> Path:
        """Documents that the questions name, with their file names and bodies, before any is fetched."""
        return self.dataset / "planned.parquet"

    @property
    def documents(self) -> Path:
        """The manifest: one row per file of the corpus or missing document."""
        return self.dataset / "documents.parquet"

    @property
    def documents_json(self) -> Path:
        """The manifest for people, with the length of each document's text."""
        return self.dataset / "documents.json"

    @property
    def web(self) -> Path:
        """State of the web pages that documents were fetched from: validators and digests."""
        return self.dataset / "web.json"

    @property
    def pages(self) -> Path:
        """Text of each page with its place in the document's text."""
        return self.dataset / "pages.parquet"

    @property
    def gold_documents(self) -> Path:
        """Documents that were found for gold texts that name none; absent where all do."""
        return self.steps / "gold_documents.parquet"

    @property
    def gold_spans(self) -> Path:
        """Gold texts and their positions in the corpus."""
        return self.dataset / "gold_spans.parquet"

    @property
    def train_json(self) -> Path:
        """train.json."""
        return self.dataset / "train.json"

    @property
    def quarantine(self) -> Path:
        """Rejected rows, one record each."""
        return self.dataset / "quarantine.jsonl"

    @property
    def stamp(self) -> Path:
        """conversion.json: present only after a successful conversion."""
        return self.dataset / "conversion.json"

    @property
    def steps(self) -> Path:
        """The inputs and counts of each conversion step, one file per step."""
        return self.dataset / ".steps"

    @property
    def corpus_journal(self) -> Path:
        """Rows of a corpus that is being built; removed when its manifest is written."""
        return self.steps / "corpus.journal"

    @property
    def shards(self) -> Path:
        """Parts of a large corpus that is being built; removed when they are merged."""
        return self.steps / "shards"

    @property
    def cache(self) -> Path:
        """Unpacked archives, one folder per archive, named by its SHA-256."""
        return self.dataset / ".cache"

    @property
    def downloads(self) -> Path:
        """Downloads, one file per body, named by its SHA-256, and their addresses."""
        return self.cache / "downloads"

    @property
    def lock(self) -> Path:
        """The lock file: conversions exclusive, evaluations shared."""
        return self.dataset / ".lock"

    @property
    def corpus_link(self) -> Path:
        """The `corpus` link inside the evaluation root."""
        return self.dataset / "corpus"


@dataclass(frozen=True, slots=True)
class Workspace:
    """One project folder with `data/` and `corpus/`.

    Args:
        root: The folder that holds `data/sources`; absolute, so that no function depends on the current folder.
    """

    root: Path

    @property
    def sources(self) -> Path:
        """One folder per benchmark."""
        return self.root / "data" / "sources"

    @property
    def config(self) -> Path:
        """Settings files, `*.config.yaml`."""
        return self.root / "data" / "config"

    @property
    def egress_config(self) -> Path:
        """Allowed private hosts and limits."""
        return self.config / "egress.config.yaml"

    @property
    def defaults_config(self) -> Path:
        """Settings of every evaluation."""
        return self.config / "evaluation_defaults.config.yaml"

    @property
    def evaluation_datasets(self) -> Path:
        """`<id>_v<version>.eval.json` files."""
        return self.root / "data" / "evaluation" / "datasets"

    @property
    def ground_truth(self) -> Path:
        """`<id>_v<version>.gt.json` files."""
        return self.root / "data" / "evaluation" / "ground_truth"

    @property
    def annotations(self) -> Path:
        """Human annotations, one folder per annotator."""
        return self.ground_truth / "annotations"

    @property
    def results(self) -> Path:
        """`<evaluation_id>.results.json` files."""
        return self.root / "data" / "evaluation" / "results"

    @property
    def runs(self) -> Path:
        """One folder per evaluation: journal and scores."""
        return self.root / "data" / "evaluation" / "runs"

    @property
    def spending(self) -> Path:
        """Requests, tokens and cost of systems and judges, one folder per day."""
        return self.root / "data" / "evaluation" / "spending"

    @property
    def evaluations(self) -> Path:
        """`<evaluation_id>.evaluations.json` files: the evaluators' records of each answer."""
        return self.root / "data" / "evaluation" / "evaluations"

    @property
    def judge_cache(self) -> Path:
        """Replies of model judges, keyed by the content of the request."""
        return self.root / "data" / "evaluation" / "judge_cache"

    @property
    def workers(self) -> Path:
        """One file for each worker that takes runs from a queue: its browser and fonts."""
        return self.root / "data" / "evaluation" / "workers"

    @property
    def trust_cards(self) -> Path:
        """Agreement of judges with human labels, one card per benchmark, judge and task."""
        return self.root / "data" / "evaluation" / "trust_cards"

    @property
    def baselines(self) -> Path:
        """The pinned evaluations that each pair is compared with."""
        return self.root / "data" / "evaluation" / "baselines"

    @property
    def reports(self) -> Path:
        """The HTML report and its data."""
        return self.root / "data" / "reports"

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
        return sorted(n for f in files if NAME.fullmatch(n := f.name.removesuffix(SYSTEM_SUFFIX)))

    def eval_json(self, dataset_id: str, version: str) -> Path:
        """`<id>_v<version>.eval.json`."""
        return self.evaluation_datasets / f"{dataset_id}_v{version}.eval.json"

    def gt_json(self, dataset_id: str, version: str) -> Path:
        """`<id>_v<version>.gt.json`."""
        return self.ground_truth / f"{dataset_id}_v{version}.gt.json"
