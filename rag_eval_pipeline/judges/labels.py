"""People's labels of answers and claims, as JSON Lines, CSV or an Excel sheet, one label per row.

```text
{"query_id": "12", "task": "correctness", "label": "correct", "annotator": "ada"}
{"query_id": "12", "task": "support", "label": "not_supported", "claim": "It was built in 1874."}
```
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import krippendorff
import msgspec
import numpy as np
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.model import Model, bad_format
from rag_eval_pipeline.judges.judgement import Case
from rag_eval_pipeline.judges.trust_card import Task
from rag_eval_pipeline.storage.atomic_files import atomic_write
from rag_eval_pipeline.storage.json_files import checked_json, read_bytes
from rag_eval_pipeline.storage.lock import locked
from rag_eval_pipeline.workspace import Workspace

LABELS: dict[Task, tuple[frozenset[str], frozenset[str]]] = {
    "correctness": (frozenset({"correct"}), frozenset({"incorrect"})),
    "support": (frozenset({"supported"}), frozenset({"not_supported", "not_found", "conflicting"})),
    "refusal": (frozenset({"refused"}), frozenset({"answered"})),
}
"""Labels of each task that mean yes, and those that mean no."""


class Label(Model):
    """A person's verdict on an answer or on one of its claims."""

    query_id: str = pydantic.Field(min_length=1, description="The question's id.")
    task: Task = pydantic.Field(description="What was asked: correctness, support or refusal; by default the label's.")
    label: str = pydantic.Field(
        description="correct or incorrect; supported or not_supported (not_found, conflicting); refused or answered. "
        "Refusing an impossible question is correct."
    )
    claim: str | None = pydantic.Field(None, min_length=1, description="Of support: the claim, as the answer has it.")
    evidence: str | None = pydantic.Field(None, min_length=1, description="Of support: the text compared with.")
    annotator: str | None = pydantic.Field(None, min_length=1, description="Who labelled it.")
    note: str | None = pydantic.Field(None, description="For people; not evaluated.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _task_of_the_label(cls, value: Any) -> Any:
        if isinstance(value, dict) and "task" not in value:
            label = value.get("label")
            tasks = [task for task, sides in LABELS.items() if any(label == known for side in sides for known in side)]
            return {**value, **({"task": tasks[0]} if tasks else {})}
        return value

    @pydantic.model_validator(mode="after")
    def _one_of_the_task(self) -> Self:
        known = sorted(frozenset().union(*LABELS[self.task]))
        if self.label not in known:
            raise ValueError(f"a label of {self.task}: {', '.join(known)}")
        if self.task != "support" and (self.claim is not None or self.evidence is not None):
            raise ValueError("claim and evidence only for support")
        if self.evidence is not None and self.claim is None:
            raise ValueError("evidence only with its claim")
        return self

    @property
    def is_true(self) -> bool:
        """Whether it is the yes of its task."""
        return self.label in LABELS[self.task][0]

    @property
    def item(self) -> "Item":
        """What was labelled."""
        return Item(self.query_id, self.task, self.claim, self.evidence)


class Item(NamedTuple):
    """What was labelled: an answer, one of its claims, or a claim against one text."""

    query_id: str
    task: Task
    claim: str | None
    evidence: str | None


class Truth(NamedTuple):
    """The majority label of each item, in the labels' order.

    Args:
        ties: Items of each task labelled yes as often as no, which are left out.
        alpha: Krippendorff's; None if no two annotators labelled the same item, or if all labels are equal.
    """

    values: dict[Item, bool]
    ties: Counter[Task]
    annotators: tuple[str, ...]
    alpha: dict[Task, float | None]


def read_labels(path: Path) -> list[Label]:
    """Read the labels of a `.jsonl`, `.csv` or `.xlsx` file.

    Raises:
        InputError: `missing_file`, `unknown_form`, `bad_format` with the row, `duplicate_label`, `no_labels`, or the
            code of what is wrong with the file.
    """
    if path.suffix not in (".jsonl", ".csv", ".xlsx"):
        raise InputError("unknown_form", path, "a name ending in .jsonl, .csv or .xlsx")
    labels = [_parse_label(value, path, row) for row, value in _read_rows(path)]
    if not labels:
        raise InputError("no_labels", path, "one label or more")
    known: dict[tuple[Item, str], int] = {}
    for row, label in enumerate(labels, start=1):
        if label.annotator is not None:
            first = known.setdefault((label.item, label.annotator), row)
            if first != row:
                raise InputError(
                    "duplicate_label", path, f"one label by {label.annotator!r}", row=row, found=label.query_id,
                    hint=f"Row {first} is another of the same.",
                )  # fmt: skip
    return labels


def labels_path(workspace: Workspace, evaluation_id: str) -> Path:
    """Return the file of the labels that are given on the report's pages to the answers of an evaluation."""
    return workspace.labels / f"{evaluation_id}.labels.jsonl"


def save_label(path: Path, label: Label, *, is_sure: bool = True) -> None:
    """Write a label into its file, instead of an earlier one of the same by the same person.

    Args:
        is_sure: If not, the earlier one is only removed.
    """
    with locked(path.with_suffix(".lock"), holder="labels", exclusive=True):
        known = read_labels(path) if path.exists() else []
        kept = [one for one in known if (one.item, one.annotator) != (label.item, label.annotator)]
        lines = [one.model_dump_json(exclude_none=True) for one in (*kept, *([label] if is_sure else []))]
        if lines:
            atomic_write(path, "".join(f"{line}\n" for line in lines).encode())
        else:
            path.unlink(missing_ok=True)


def majority_labels(labels: Sequence[Label]) -> Truth:
    """Return the majority label of each item."""
    given: defaultdict[Item, list[bool]] = defaultdict(list)
    for label in labels:
        given[label.item].append(label.is_true)
    values, ties = {}, Counter[Task]()
    for item, votes in given.items():
        if 2 * sum(votes) == len(votes):
            ties[item.task] += 1
        else:
            values[item] = 2 * sum(votes) > len(votes)
    tasks = dict.fromkeys(item.task for item in given)
    return Truth(
        values,
        ties,
        tuple(sorted({label.annotator for label in labels if label.annotator is not None})),
        {task: _alpha([votes for item, votes in given.items() if item.task == task]) for task in tasks},
    )


def name_by_system(system: str, cases: Iterable[Case], labels: Iterable[Label]) -> tuple[list[Case], list[Label]]:
    """Return cases and labels under the name of their system: question 12 of `ours` becomes `ours/12`."""
    return (
        [msgspec.structs.replace(case, query_id=f"{system}/{case.query_id}") for case in cases],
        [label.model_copy(update={"query_id": f"{system}/{label.query_id}"}) for label in labels],
    )


def _alpha(votes: Iterable[Sequence[bool]]) -> float | None:
    counts = np.array([[given.count(False), given.count(True)] for given in votes if len(given) > 1])
    if not counts.size or not counts.any(axis=0).all():
        return None
    return float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal"))


def _read_rows(path: Path) -> Iterator[tuple[int, bytes | dict[str, Any]]]:
    """Yield each label's row from 1, with its JSON or its cells; tables are read as `init` reads them."""
    data = read_bytes(path)
    if path.suffix == ".jsonl":
        for row, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
            if line.strip():
                yield row, checked_json(line, f"{path}, line {row}")
        return
    from rag_eval_pipeline.sources.relations import SOURCE_FILE, SOURCE_ROW, read_file  # only where labels are a table

    relation = read_file(path)
    for one in relation.rejected[:1]:
        raise one.fault(path)
    for record in relation.table.drop_columns([SOURCE_FILE]).to_pylist():
        yield record.pop(SOURCE_ROW), {name: cell for name, cell in record.items() if cell}


def _parse_label(value: bytes | dict[str, Any], path: Path, row: int) -> Label:
    try:
        return Label.model_validate_json(value) if isinstance(value, bytes) else Label.model_validate(value)
    except pydantic.ValidationError as error:
        fault = bad_format(path, error, Label)
        found = error.errors()[0]["input"]
        raise InputError(
            fault.code, path, fault.expected, row=row, field=fault.field, found=found, hint=fault.hint
        ) from None
