"""Where every file lives: paths and names, one object handed to everything.

Nothing here reads a file's content or creates a folder; a `Workspace` of a folder that does not exist is a value like
any other.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from rag_eval_pipeline.errors import InputError

# Names become partition keys, file names and URL parts: no `/`, `|` (Dagster's separator of dimensions), `,` or `...`
# (its ranges).
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
SYSTEM_SUFFIX = ".config.yaml"
WORKSPACE_VARIABLE = "RAG_EVAL_WORKSPACE"
PROJECT = Path(__file__).resolve().parents[1]


def default_root() -> str:
    """The folder named by RAG_EVAL_WORKSPACE, else the project's own."""
    return os.environ.get(WORKSPACE_VARIABLE) or str(PROJECT)


def check_name(kind: str, name: str) -> str:
    """The name itself, when it can be a folder, a partition key and a part of a file name.

    Raises:
        InputError: `bad_name`.
    """
    if NAME.fullmatch(name):
        return name
    raise InputError(
        "bad_name", kind, f"a name matching ^{NAME.pattern}$", found=name, hint="Rename the folder or file."
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
        """Accepted questions, one row each, with everything that `train.json` may not carry."""
        return self.dataset / "questions.parquet"

    @property
    def planned(self) -> Path:
        """Documents that the questions name, with their file names and bodies, before any is fetched."""
        return self.dataset / "planned.parquet"

    @property
    def documents(self) -> Path:
        """The manifest: one row a file in the corpus, or a document that could not be had."""
        return self.dataset / "documents.parquet"

    @property
    def documents_json(self) -> Path:
        """The manifest for people, with the length of each document's text."""
        return self.dataset / "documents.json"

    @property
    def web(self) -> Path:
        """What is known of the pages on the web that documents were fetched from."""
        return self.dataset / "web.json"

    @property
    def pages(self) -> Path:
        """Text of each page with its place in the document's text."""
        return self.dataset / "pages.parquet"

    @property
    def gold_spans(self) -> Path:
        """Gold texts and where the corpus has them."""
        return self.dataset / "gold_spans.parquet"

    @property
    def train_json(self) -> Path:
        """train.json."""
        return self.dataset / "train.json"

    @property
    def quarantine(self) -> Path:
        """Rows that were not accepted, a record each."""
        return self.dataset / "quarantine.jsonl"

    @property
    def stamp(self) -> Path:
        """conversion.json: present and current only when a conversion ended well."""
        return self.dataset / "conversion.json"

    @property
    def steps(self) -> Path:
        """What each conversion step used and found, a small file a step."""
        return self.dataset / ".steps"

    @property
    def corpus_journal(self) -> Path:
        """Rows of a corpus that is being built; gone when its manifest is written."""
        return self.steps / "corpus.journal"

    @property
    def document_times(self) -> Path:
        """How long each document took; not among the records (`*.json`), which a new conversion discards."""
        return self.steps / "documents.times.jsonl"

    @property
    def cache(self) -> Path:
        """What was unpacked, a folder an archive by its sha256."""
        return self.dataset / ".cache"

    @property
    def downloads(self) -> Path:
        """What was downloaded, a file a body by its sha256, and which address it is from."""
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
    """One project folder: `data/`, `corpus/` and what is made from them.

    Args:
        root: The folder that holds `data/sources`; absolute, so that no function depends on the current folder.
    """

    root: Path

    @property
    def sources(self) -> Path:
        """The registry: one folder, one benchmark."""
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
        """People's annotations, a folder an annotator."""
        return self.ground_truth / "annotations"

    @property
    def results(self) -> Path:
        """`<evaluation_id>.results.json` files."""
        return self.root / "data" / "evaluation" / "results"

    @property
    def runs(self) -> Path:
        """One folder an evaluation: journal and scores."""
        return self.root / "data" / "evaluation" / "runs"

    @property
    def spending(self) -> Path:
        """What systems and judges have used, a folder a day."""
        return self.root / "data" / "evaluation" / "spending"

    @property
    def evaluations(self) -> Path:
        """`<evaluation_id>.evaluations.json` files: what evaluators say of each answer."""
        return self.root / "data" / "evaluation" / "evaluations"

    @property
    def judge_cache(self) -> Path:
        """Replies of judges that cost something, by the content of what was asked."""
        return self.root / "data" / "evaluation" / "judge_cache"

    @property
    def trust_cards(self) -> Path:
        """How far judges agree with people, a card a benchmark, judge and task."""
        return self.root / "data" / "evaluation" / "trust_cards"

    @property
    def baselines(self) -> Path:
        """Which evaluations a pair is compared with."""
        return self.root / "data" / "evaluation" / "baselines"

    @property
    def reports(self) -> Path:
        """The HTML report and what belongs to it."""
        return self.root / "data" / "reports"

    def benchmark(self, name: str) -> BenchmarkPaths:
        """Paths of one benchmark, which need not exist.

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

    def system_file(self, name: str) -> Path:
        """The settings file of one system under test, which need not exist.

        Raises:
            InputError: `bad_name`.
        """
        check_name("system", name)
        return self.config / "systems" / f"{name}{SYSTEM_SUFFIX}"

    def system_state(self, system: str, benchmark: str) -> Path:
        """Where a system keeps what it knows of its server, for one benchmark.

        Raises:
            InputError: `bad_name`.
        """
        check_name("system", system)
        return self.root / "data" / "evaluation" / "systems" / system / check_name("benchmark", benchmark)

    def benchmarks(self) -> list[str]:
        """Names of the folders with a lawful name and a benchmark.yaml, sorted."""
        folders = self.sources.iterdir() if self.sources.is_dir() else []
        return sorted(f.name for f in folders if NAME.fullmatch(f.name) and (f / "benchmark.yaml").is_file())

    def systems(self) -> list[str]:
        """Names of the systems under test, sorted."""
        files = (self.config / "systems").glob(f"*{SYSTEM_SUFFIX}")
        return sorted(n for f in files if NAME.fullmatch(n := f.name.removesuffix(SYSTEM_SUFFIX)))

    def eval_json(self, dataset_id: str, version: str) -> Path:
        """`<id>_v<version>.eval.json`."""
        return self.evaluation_datasets / f"{dataset_id}_v{version}.eval.json"

    def gt_json(self, dataset_id: str, version: str) -> Path:
        """`<id>_v<version>.gt.json`."""
        return self.ground_truth / f"{dataset_id}_v{version}.gt.json"
