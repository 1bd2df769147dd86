"""What `plan` and `convert` say at the end: contexts found and lost, questions without documents, gold located."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rag_eval_pipeline.conversion.records import LOST, Counts

if TYPE_CHECKING:
    import pyarrow as pa


def plan_sentences(counts: Counts) -> Iterator[str]:
    """What is known before any document is fetched."""
    yield _contexts(counts.contexts, counts.contexts_lost)
    yield _without_document(counts.without_document)
    if counts.gold_texts:
        yield f"{counts.gold_texts} gold texts have a document; convert says how many are found in it."


def conversion_sentences(counts: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """What a whole conversion came to.

    Args:
        counts: Of each step, by its name.
    """
    planned, written, dataset = counts["questions"], counts["train_json"], counts["evaluation_dataset"]
    lost = {
        name.removeprefix(LOST): planned.get(name, 0) + written.get(name, 0)
        for name in sorted({*planned, *written})
        if name.startswith(LOST)
    }
    yield _contexts(written["contexts"], lost)
    yield _without_document(written["without_document"])
    if dataset["gold_texts"]:
        located, gold_texts = dataset["gold_texts_located"], dataset["gold_texts"]
        yield f"{located} of {gold_texts} gold texts that have a document are located in it."


def without_document(questions: "pa.RecordBatch", name: str) -> int:
    """How many answerable questions have no context with a document.

    Args:
        questions: As in `questions.parquet`.
        name: Field of a context that names its document.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    contexts = questions.column("contexts")
    named = pc.list_parent_indices(contexts).filter(contexts.flatten().field(name).is_valid())
    has_document = pc.is_in(pa.array(range(questions.num_rows)), pc.cast(named, pa.int64()))
    others = pc.or_(has_document, questions.column("is_impossible")).true_count
    return int(questions.num_rows - others)


def _contexts(found: int, lost: Mapping[str, int]) -> str:
    causes = f" ({', '.join(f'{cause} {number}' for cause, number in lost.items())})" if lost else ""
    return f"{found} context{'' if found == 1 else 's'} found, {sum(lost.values())} lost{causes}."


def _without_document(questions: int) -> str:
    if questions == 1:
        return "1 answerable question is left without a document."
    return f"{questions} answerable questions are left without a document."
