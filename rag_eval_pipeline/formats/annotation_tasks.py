"""`<dataset>_v<version>.<purpose>.task.json`: what an annotator is asked, with the texts and nothing found so far.

A task shows questions and documents, never anybody's annotations or the expected answer. The annotator writes a
`.gt.json` beside it; for a second opinion of one's own, the task goes to a folder of its own (`annotator_001-again`),
and agreement between the two folders is the annotator's consistency.
Source: Citation Accuracy Evaluation 4.1, blind re-annotation of 10 % of samples.
"""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.annotations import PLAIN_NAME, TASK_ENDING
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.model import SCHEMA_VERSION, FileModel, Model, SchemaVersion
from rag_eval_pipeline.formats.values import Name, Text, Texts

Purpose = Literal["citations", "citations-blind", "quality", "quality-blind"]

BLIND_SHARE = 0.10  # Citation Accuracy Evaluation 4.1
SEED = 42  # Evaluation Data Formats, evaluation_parameters.random_seed


class TaskQuery(Model):
    """One question to annotate."""

    annotation_id: Name = pydantic.Field(description="To be used for the annotation.")
    query_id: Name = pydantic.Field(description="As in the dataset.")
    query_text: Name = pydantic.Field(description="The question.")
    documents: tuple[Name, ...] = pydantic.Field((), description="File names to look in; keys of `texts`.")
    answer_text: Text | None = pydantic.Field(None, description="The answer to judge.")


class AnnotationTask(FileModel):
    """What one annotator is asked."""

    schema_version: SchemaVersion = pydantic.Field(SCHEMA_VERSION, description="Version of this file's form.")
    dataset_id: Name = pydantic.Field(description="As in the dataset.")
    version: Name = pydantic.Field(description="As in the dataset.")
    purpose: Purpose = pydantic.Field(description="What to annotate; blind: others have, or oneself has, before.")
    annotator_id: Name = pydantic.Field(description="Who is asked; the folder's name.")
    queries: tuple[TaskQuery, ...] = pydantic.Field(description="In the dataset's order.")
    text_sha256: Texts = pydantic.Field(default_factory=dict, description="To be copied into the `.gt.json`.")
    texts: Texts = pydantic.Field(
        default_factory=dict, description="Documents by file name; offsets are code points in them, end exclusive."
    )


def blind_sample(query_ids: Iterable[str], *, share: float = BLIND_SHARE, seed: int = SEED) -> list[str]:
    """The questions to annotate once more: those whose hash with the seed is smallest, in the order given.

    The choice depends on ids and seed alone; a dataset that grows keeps most of its sample.

    Args:
        query_ids: Of the dataset; a repeated one counts once.
        share: In (0, 1]; the number is rounded up, so that at least one question is chosen when there is any.
        seed: Another seed, another sample.

    Raises:
        ValueError: A share outside (0, 1].
    """
    if not 0 < share <= 1:
        raise ValueError(f"expected a share in (0, 1], found {share}")
    ids = list(dict.fromkeys(query_ids))
    count = math.ceil(Fraction(str(share)) * len(ids))  # 0.1 * 70 is 7.000000000000001 in floats
    chosen = set(sorted(ids, key=lambda query_id: _digest(f"{seed}\0{query_id}"))[:count])
    return [query_id for query_id in ids if query_id in chosen]


def citation_task(
    dataset: EvaluationDataset,
    annotator_id: str,
    texts: Mapping[str, str],
    *,
    query_ids: Collection[str] | None = None,
    blind: bool = False,
) -> AnnotationTask:
    """A task to mark the spans that answer each question.

    Args:
        dataset: Whose questions.
        annotator_id: Who is asked.
        texts: The documents' texts by file name; a question shows those of its relevant documents.
        query_ids: The questions; all of the dataset unless given.
        blind: Says so in the task.

    Raises:
        InputError: `unknown_query`, `missing_text`: a relevant document without a text.
    """
    queries = []
    for query in _chosen(dataset, query_ids):
        missing = next((name for name in query.relevant_documents if name not in texts), None)
        if missing is not None:
            raise InputError("missing_text", dataset.dataset_id, f"the text of {missing!r}", field=query.query_id)
        queries.append(
            TaskQuery(
                annotation_id=f"{annotator_id}_{query.query_id}",
                query_id=query.query_id,
                query_text=query.query_text,
                documents=query.relevant_documents,
            )
        )
    shown = {name: texts[name] for query in queries for name in query.documents}
    return AnnotationTask(
        dataset_id=dataset.dataset_id,
        version=dataset.version,
        purpose="citations-blind" if blind else "citations",
        annotator_id=annotator_id,
        queries=tuple(queries),
        text_sha256={name: _digest(text) for name, text in shown.items()},
        texts=shown,
    )


def quality_task(
    dataset: EvaluationDataset, annotator_id: str, answers: Mapping[str, str], *, blind: bool = False
) -> AnnotationTask:
    """A task to judge answers.

    Args:
        dataset: Whose questions.
        annotator_id: Who is asked.
        answers: A system's answers by query id.
        blind: Says so in the task.

    Raises:
        InputError: `unknown_query`.
    """
    queries = (
        TaskQuery(
            annotation_id=f"{annotator_id}_{query.query_id}",
            query_id=query.query_id,
            query_text=query.query_text,
            answer_text=answers[query.query_id],
        )
        for query in _chosen(dataset, answers)
    )
    return AnnotationTask(
        dataset_id=dataset.dataset_id,
        version=dataset.version,
        purpose="quality-blind" if blind else "quality",
        annotator_id=annotator_id,
        queries=tuple(queries),
    )


def write_task(folder: Path, task: AnnotationTask) -> Path:
    """Publishes a task in its annotator's folder.

    Args:
        folder: `ground_truth/annotations`.
        task: The task.

    Returns:
        The file; an equal task gives equal bytes.

    Raises:
        InputError: `bad_name`: an annotator or dataset that cannot be part of a file name.
    """
    for field, name in (
        ("annotator_id", task.annotator_id),
        ("dataset_id", task.dataset_id),
        ("version", task.version.replace("+", "-")),
    ):
        if not PLAIN_NAME.fullmatch(name):
            raise InputError("bad_name", "the task", f"a name matching {PLAIN_NAME.pattern}", field=field, found=name)
    path = folder / task.annotator_id / f"{task.dataset_id}_v{task.version}.{task.purpose}{TASK_ENDING}"
    task.write(path)
    return path


def write_blind_tasks(
    folder: Path,
    dataset: EvaluationDataset,
    annotator_ids: Iterable[str],
    texts: Mapping[str, str],
    *,
    share: float = BLIND_SHARE,
    seed: int = SEED,
) -> list[Path]:
    """Publishes the same blind sample of citation tasks for several annotators; arguments as above."""
    sample = blind_sample((query.query_id for query in dataset.queries), share=share, seed=seed)
    tasks = [citation_task(dataset, annotator, texts, query_ids=sample, blind=True) for annotator in annotator_ids]
    return [write_task(folder, task) for task in tasks]


def _chosen(dataset: EvaluationDataset, query_ids: Collection[str] | None) -> Sequence[EvaluationQuery]:
    if query_ids is None:
        return dataset.queries
    known = {query.query_id for query in dataset.queries}
    unknown = next((query_id for query_id in query_ids if query_id not in known), None)
    if unknown is not None:
        raise InputError("unknown_query", dataset.dataset_id, "a query id of the dataset", found=unknown)
    wanted = set(query_ids)
    return [query for query in dataset.queries if query.query_id in wanted]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
