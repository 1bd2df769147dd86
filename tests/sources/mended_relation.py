"""A source with its mends as one relation, and a benchmark's plan with them."""

import json

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.sources.mended_rows import source_mends
from rag_eval_pipeline.sources.mends import MENDED
from rag_eval_pipeline.sources.origins import Origins
from rag_eval_pipeline.sources.reading import read_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.storage.digests import sha256_of


def mended_rows(paths, *names):
    spec = SourceSpec(path=names)
    mends = source_mends(paths, spec, Origins(paths))
    made = read_relation(paths, spec, origin=True, mends=mends)
    return made, made.table.drop_columns(["source_file"]).to_pylist(), mends.notes if mends else []


def plan_with_mends(paths):
    """`plan`, and notes on mends."""
    found = plan(paths)
    return found, [note for note in found.notes if MENDED in note]


def mend(paths, *lines, file="questions.csv"):
    """Writes `mended.jsonl`: `(row, values)`, more keys, or text as it is."""
    written = []
    for line in lines:
        if isinstance(line, str):
            written.append(line)
            continue
        row, values, more = (*line, {})[:3]
        name = more.get("file", file)
        path = paths.source / name
        sha256 = sha256_of(path) if path.is_file() else "0" * 64
        written.append(json.dumps({"file": name, "sha256": sha256, "row": row, "values": values, **more}))
    (paths.source / MENDED).write_text("\n".join(written) + "\n")
