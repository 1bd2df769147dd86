"""Each recipe reads its own example: what is recognised, and what questions, answers and documents it gives."""

import io
import json
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.scaffold.init import start_benchmark
from rag_eval_pipeline.scaffold.recipe import read_recipes
from tests.scaffold.conftest import write
from tests.scaffold.public_shapes import table

RECIPES = read_recipes()


def content(name, value):
    """The bytes of an example's file: text as it is, rows as the suffix says."""
    if isinstance(value, str):
        return value.encode()
    suffix = PurePosixPath(name).suffix
    if suffix == ".parquet":
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(value), sink)
        return sink.getvalue()
    if suffix in {".csv", ".tsv"}:
        header = list(dict.fromkeys(key for row in value for key in row))
        cells = [["" if row.get(key) is None else row[key] for key in header] for row in value]
        return table([header, *cells], "\t" if suffix == ".tsv" else ",").encode()
    if suffix in {".jsonl", ".ndjson"}:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in value).encode()
    return json.dumps(value, ensure_ascii=False).encode()


def stated(question, expected, documents):
    """What a question became, with the fields that the example states."""
    found = {"question": question.question, "answers": list(question.answers), "is_impossible": question.is_impossible}
    contexts = [
        {name: value for name in ("document", "text", "page", "start", "end", "relevance") if (value := getattr(c, name)) is not None}
        for c in question.contexts
    ]  # fmt: skip
    for context in contexts:
        if documents.get(context.get("document")) == context.get("text") and "document" in context:
            context["made"] = True
    wanted = expected.get("contexts", [])
    shown = [{name: value for name, value in c.items() if name in w} for c, w in zip(contexts, wanted, strict=False)]
    found["contexts"] = shown + contexts[len(wanted) :]
    return {name: found[name] for name in ("question", "answers", "is_impossible", "contexts")}


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_reads_its_example(empty, tmp_path, name):
    recipe = RECIPES[name]
    assert recipe.example is not None
    files = {file: content(file, value) for file, value in recipe.example.files.items()}

    paths, proposal = start_benchmark(empty, "scratch", write(tmp_path / "origin", files))

    assert proposal.shape == recipe.title
    assert [sentence.partition(":")[0] for sentence in proposal.missing] == list(recipe.example.missing)
    if recipe.example.missing:
        return
    found = plan(paths)
    bodies = {document.key: document.content for document in found.documents}
    wanted = [
        {"answers": [], "contexts": [], "is_impossible": not expected.get("answers") and not recipe.retrieval_only}
        | expected
        for expected in recipe.example.questions
    ]
    assert [stated(q, w, bodies) for q, w in zip(found.questions, wanted, strict=True)] == wanted
    assert found.counts.quarantined == 0
    for document, text in recipe.example.documents.items():
        assert bodies[document] == text
