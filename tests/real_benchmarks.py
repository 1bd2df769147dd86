"""Scratch workspaces with other people's benchmarks: their data from ../shared, our specs from tests/specs."""

import shutil
from pathlib import Path

from tests.conftest import SHARED

SPECS = Path(__file__).resolve().parent / "specs"

# Folder of ../shared/data with the files of a benchmark, and which of them it needs.
DATA = {
    "squad2": ("squad2", ["dev-sample.json"]),
    "kg-rag-sec10q": ("kg-rag-sec10q", ["qna_data.csv", "docs"]),
    "hotpotqa": ("hotpotqa", ["hotpot_sample.parquet"]),
    "hotpotqa-json": ("hotpotqa", ["hotpot_sample.json"]),
    "fetaqa": ("wiki-urls", ["fetaqa_sample.jsonl", "mirror.csv", "pages"]),
    "truthfulqa": ("wiki-urls", ["truthfulqa_sample.csv", "mirror.csv", "pages"]),
    "frames": ("wiki-urls", ["frames_sample.csv", "mirror.csv", "pages"]),
    "chunking-eval": ("chunking-eval", ["questions_df.csv", "corpora"]),
    "autorag": ("autorag-parquet", ["qa.parquet", "corpus.parquet"]),
}
NAMES = tuple(DATA)


def build(workspace_root: Path, name: str) -> Path:
    """Copies a benchmark's data and spec into `<root>/data/sources/<name>/`, which it returns."""
    folder, files = DATA[name]
    target = workspace_root / "data" / "sources" / name
    target.mkdir(parents=True)
    for file in files:
        origin = SHARED / "data" / folder / file
        if origin.is_dir():
            shutil.copytree(origin, target / file)
        else:
            shutil.copyfile(origin, target / file)
    shutil.copyfile(SPECS / name / "benchmark.yaml", target / "benchmark.yaml")
    return target
