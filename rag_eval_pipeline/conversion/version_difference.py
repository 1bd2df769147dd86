"""What changed from one version of an evaluation dataset to another."""

import json
from collections.abc import Sequence
from pathlib import Path

import pydantic

from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.model import listed
from rag_eval_pipeline.storage.json_files import read_bytes


def version_difference(old: Path, new: Path) -> str | None:
    """Return what changed from one evaluation dataset to another; None if both have the same content.

    The order of keys, fields without value, the schema version and the form of the file are no change; the order of the
    questions is one.
    """
    if read_bytes(old) == read_bytes(new):
        return None
    return _difference(EvaluationDataset.read(old), EvaluationDataset.read(new))


def _difference(old: EvaluationDataset, new: EvaluationDataset) -> str | None:
    changes = _item_changes("query", "queries", old.queries, new.queries)
    changes += _item_changes("document", "documents", old.documents or (), new.documents or ())
    rest = {"schema_version", "queries", "documents"}
    before, after = (json.loads(one.model_dump_json(exclude=rest, exclude_none=True)) for one in (old, new))
    for name in sorted(before.keys() | after.keys()):
        first, second = before.get(name) or None, after.get(name) or None
        if first != second:
            changes.append(f"{name} was {excerpt(first)} and is {excerpt(second)}")
    return "; ".join(changes) or None


def _item_changes(
    kind: str, kinds: str, old: Sequence[pydantic.BaseModel], new: Sequence[pydantic.BaseModel]
) -> list[str]:
    before = {getattr(item, f"{kind}_id"): item for item in old}
    after = {getattr(item, f"{kind}_id"): item for item in new}
    changed = {one: fields for one in after if one in before and (fields := _changed_fields(before[one], after[one]))}
    names = ", ".join(sorted({name for fields in changed.values() for name in fields}))
    found = (
        ([one for one in after if one not in before], "added"),
        ([one for one in before if one not in after], "removed"),
        (list(changed), f"changed in {names}"),
    )
    changes = [f"{len(ids)} {kind if len(ids) == 1 else kinds} {verb}: {listed(ids)}" for ids, verb in found if ids]
    if before.keys() == after.keys() and list(before) != list(after):
        changes.append(f"{kinds} are in another order")
    return changes


def _changed_fields(old: pydantic.BaseModel, new: pydantic.BaseModel) -> list[str]:
    before, after = (json.loads(item.model_dump_json(exclude_none=True)) for item in (old, new))
    return [
        name
        for name in before.keys() | after.keys()
        # As text, because Python finds 1 equal to true.
        if json.dumps(before.get(name), sort_keys=True) != json.dumps(after.get(name), sort_keys=True)
    ]
