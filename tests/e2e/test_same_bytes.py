"""Unchanged inputs write the same bytes: bundled benchmarks converted again, and in another folder."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from rag_eval_pipeline.workspace import Workspace
from tests.conftest import BUNDLED, REPOSITORY, MadeOnce
from tests.e2e.reading import product_bytes, rag_eval

pytestmark = pytest.mark.browser

NAMES = sorted(BUNDLED)
ELSEWHERE = "skarn-railway"  # printed pages and gold texts


@dataclass(frozen=True)
class Conversions:
    """How a conversion came about -> benchmark -> product -> its digest; and the workspace of the first."""

    products: dict[str, dict[str, dict[str, str]]]
    root: Path


def _converted(root: Path, names: Sequence[str]) -> dict[str, dict[str, str]]:
    done = rag_eval("convert", *names, "--json", "--workspace", root)
    assert done.returncode == 0, done.stderr
    (root / "converted.json").write_text(done.stdout)
    return {name: product_bytes(Workspace(root), name) for name in names}


@pytest.fixture(scope="session")
def conversions(bundled: Path, made_once: MadeOnce) -> Conversions:
    def make(base: Path) -> None:
        again, other = base / "again", base / "other"
        shutil.copytree(bundled, again, symlinks=True)
        shutil.copytree(REPOSITORY / "data" / "config", other / "data" / "config")
        for name, source in BUNDLED.items():
            shutil.copytree(source, Workspace(other).benchmark(name).source)
        products = {"first": {name: product_bytes(Workspace(bundled), name) for name in NAMES}}
        products["again"] = _converted(again, NAMES)
        products["elsewhere"] = _converted(other, [ELSEWHERE])
        (base / "products.json").write_text(json.dumps(products))

    base = made_once("same-bytes", make)
    return Conversions(json.loads((base / "products.json").read_text()), base / "again")


def test_bundled_benchmarks_lose_no_row_no_document_and_no_gold_text(conversions):
    converted = json.loads((conversions.root / "converted.json").read_text())

    counts = {one["benchmark"]: one["counts"]["train_json"] | one["counts"]["evaluation_dataset"] for one in converted}
    names = ("accepted", "impossible", "quarantined", "contexts_lost", "gold_texts", "gold_texts_located")
    assert {benchmark: tuple(found[name] for name in names) for benchmark, found in counts.items()} == {
        "tarrow-lights": (16, 2, 0, 0, 0, 0),
        "skarn-railway": (40, 8, 0, 0, 38, 38),
        "cairnmoor-observatory": (16, 4, 0, 0, 16, 16),
        "gannet-sound": (18, 3, 0, 0, 0, 0),
    }


@pytest.mark.parametrize(("how", "name"), [("again", name) for name in NAMES] + [("elsewhere", ELSEWHERE)])
def test_conversion_writes_the_same_bytes(how, name, conversions):
    first = conversions.products["first"][name]

    assert len(first) > 8
    assert conversions.products[how][name] == first
