"""Scratch benchmarks: a spec and files, written where a workspace has them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

HEAD = "name: scratch\nversion: 1.0.0\n"
PLAIN = HEAD + "source: questions.csv\nquestions: {question: q, answer: a}\n"


def write_benchmark(root: Path, spec: str, files: Mapping[str, str | bytes]) -> BenchmarkPaths:
    paths = Workspace(root).benchmark("scratch")
    paths.source.mkdir(parents=True, exist_ok=True)
    paths.spec.write_text(spec)
    for name, content in files.items():
        path = paths.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return paths


@pytest.fixture
def benchmark(tmp_path: Path) -> Callable[..., BenchmarkPaths]:
    """`benchmark(spec, {file: content})` is a benchmark called `scratch` in a workspace of its own."""

    def write(spec: str = PLAIN, files: Mapping[str, str | bytes] | None = None) -> BenchmarkPaths:
        return write_benchmark(tmp_path, spec, files or {})

    return write
