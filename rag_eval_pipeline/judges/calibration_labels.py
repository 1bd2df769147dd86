"""Labels that a judge is compared with: JSON Lines or CSV, one label a line.

```text
{"query_id": "12", "task": "correctness", "label": "correct", "annotator": "ada"}
{"query_id": "12", "task": "support", "label": "not_supported", "claim": "It was built in 1874."}
```

A label of `support` is about the claim that it names, else about all claims of the answer; by the evidence that it
names, else by what the claim cites, else by what was retrieved. Several people may label the same thing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Self

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.csv_table import read_csv_table
from rag_eval_pipeline.formats.json_text import checked_json
from rag_eval_pipeline.formats.krippendorff import Alpha, Unit, krippendorff_alpha
from rag_eval_pipeline.formats.model import Model, bad_format, read_bytes

Task = Literal["correctness", "support", "refusal"]
LABELS: dict[Task, tuple[frozenset[str], frozenset[str]]] = {
    "correctness": (frozenset({"correct"}), frozenset({"incorrect"})),
    "support": (frozenset({"supported"}), frozenset({"not_supported", "not_found", "conflicting"})),
    "refusal": (frozenset({"refused"}), frozenset({"answered"})),
}
"""What a label of each task may be: the first words are true of it, the second are not."""


class Label(Model):
    """What somebody says of an answer or of one of its claims."""

    query_id: str = pydantic.Field(min_length=1, description="Whose answer it is.")
    task: Task = pydantic.Field(description="What was asked: correctness, support or refusal.")
    label: str = pydantic.Field(
        description="correct or incorrect; supported or not_supported (not_found, conflicting); refused or answered. "
        "Refusing an impossible question is correct."
    )
    claim: str | None = pydantic.Field(None, min_length=1, description="Of support: the claim, as the answer has it.")
    evidence: str | None = pydantic.Field(None, min_length=1, description="Of support: the text that was looked at.")
    annotator: str | None = pydantic.Field(None, min_length=1, description="Who labelled it.")
    note: str | None = pydantic.Field(None, description="For people; read by nobody else.")

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
        """Whether the task's first word holds."""
        return self.label in LABELS[self.task][0]


class Item(NamedTuple):
    """One thing that was labelled."""

    query_id: str
    task: Task
    claim: str | None
    evidence: str | None


class Truth(NamedTuple):
    """What the labels say.

    Args:
        values: The label that most give to each thing, in the labels' order.
        ties: Things that as many call one as the other; they are left out.
        annotators: Who labelled, sorted; those without a name are nobody.
        alpha: How far annotators agree with each other, by task; no value unless two labelled the same.
    """

    values: dict[Item, bool]
    ties: dict[Task, int]
    annotators: tuple[str, ...]
    alpha: dict[Task, Alpha]


def read_labels(path: Path) -> list[Label]:
    """The labels of a `.jsonl` or `.csv` file.

    Raises:
        InputError: `missing_file`, `unknown_form`, `bad_json`, `bad_csv`, `bad_format` with the row, `duplicate_label`,
            `no_labels`.
    """
    if path.suffix not in (".jsonl", ".csv"):
        raise InputError("unknown_form", path, "a name ending in .jsonl or .csv")
    labels = _read_csv(path) if path.suffix == ".csv" else _read_lines(path)
    if not labels:
        raise InputError("no_labels", path, "one label or more")
    known: dict[tuple[Item, str], int] = {}
    for row, label in enumerate(labels, start=1):
        if label.annotator is not None:
            first = known.setdefault((item_of(label), label.annotator), row)
            if first != row:
                raise InputError(
                    "duplicate_label", path, f"one label by {label.annotator!r}", row=row, found=label.query_id,
                    hint=f"Row {first} is another of the same.",
                )  # fmt: skip
    return labels


def item_of(label: Label) -> Item:
    """What a label is about."""
    return Item(label.query_id, label.task, label.claim, label.evidence)


def truth_of(labels: Sequence[Label]) -> Truth:
    """One value for each thing that was labelled."""
    given: defaultdict[Item, list[bool]] = defaultdict(list)
    for label in labels:
        given[item_of(label)].append(label.is_true)
    values, ties = {}, Counter[Task]()
    for item, own in given.items():
        if 2 * sum(own) == len(own):
            ties[item.task] += 1
        else:
            values[item] = 2 * sum(own) > len(own)
    tasks = dict.fromkeys(item.task for item in given)
    return Truth(
        values,
        dict(ties),
        tuple(sorted({label.annotator for label in labels if label.annotator is not None})),
        {task: _alpha(own for item, own in given.items() if item.task == task) for task in tasks},
    )


def _alpha(units: Iterable[list[bool]]) -> Alpha:
    return krippendorff_alpha([Unit(tuple(float(value) for value in own)) for own in units], "nominal")


def _read_lines(path: Path) -> list[Label]:
    labels = []
    for row, line in enumerate(read_bytes(path).removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            labels.append(_label(checked_json(line, f"{path}, line {row}"), path, row))
    return labels


def _read_csv(path: Path) -> list[Label]:
    table = read_csv_table(path)
    return [_label({key: cell for key, cell in row.cells.items() if cell}, path, row.number) for row in table.rows]


def _label(value: bytes | dict[str, str], path: Path, row: int) -> Label:
    try:
        return Label.model_validate_json(value) if isinstance(value, bytes) else Label.model_validate(value)
    except pydantic.ValidationError as error:
        fault = bad_format(path, error)
        raise InputError(
            fault.code,
            path,
            fault.expected,
            row=row,
            field=fault.field,
            found=error.errors()[0]["input"],
            hint=fault.hint,
        ) from None
