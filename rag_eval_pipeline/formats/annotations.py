"""`ground_truth/annotations/<annotator>/`: what several annotators made, read into one ground truth a dataset.

A folder's name is its annotator's id. Every annotation read is either imported or named in a finding with its reason,
and the two add up. Links are never followed. The same question annotated twice by one annotator: equal annotations
count once, of different ones neither is taken, because nobody but the annotator knows which one holds.
Source: Evaluation Data Formats 3.2.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.annotation_files import AnnotationFile, read_annotation_file
from rag_eval_pipeline.formats.annotation_records import AnswerQualityAnnotation, CitationAnnotation, kind_of
from rag_eval_pipeline.formats.ground_truth import GroundTruth
from rag_eval_pipeline.formats.model_files import JSON, YAML

# Becomes a folder, and a part of messages and file names.
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
ENDINGS = JSON + YAML
TASK_ENDING = ".task.json"  # what an annotator is asked; lies in the annotator's folder and is no annotation


@dataclass(frozen=True, slots=True)
class AnnotationImport:
    """What a folder of annotations came to.

    Args:
        truths: One a dataset version, sorted by id and version; annotations by annotator, file, and place in the file.
        findings: Every annotation, file or folder that was not taken, and why.
        files: Files read.
        read: Annotations in them.
        imported: Annotations in `truths`.
        refused: Annotations that findings name.
    """

    truths: tuple[GroundTruth, ...]
    findings: tuple[InputError, ...]
    files: int
    read: int
    imported: int
    refused: int

    @property
    def is_conserved(self) -> bool:
        """Nothing was lost between reading and merging."""
        return self.read == self.imported + self.refused


class _File(NamedTuple):
    """A file that could be read."""

    annotator_id: str
    path: Path
    content: AnnotationFile


class _Source(NamedTuple):
    """A good annotation and where it stands."""

    annotation: CitationAnnotation | AnswerQualityAnnotation
    path: Path

    @property
    def shown(self) -> str:
        return f"{self.path}, annotation {self.annotation.annotation_id!r}"

    @property
    def slot(self) -> tuple[str, ...]:
        """Equal for annotations of which an annotator makes one: a question's citations, an answer's judgement."""
        a = self.annotation
        judged = (a.answer_text,) if isinstance(a, AnswerQualityAnnotation) else ()
        return (a.annotator_id, a.query_id, str(kind_of(a)), *judged)


def import_annotations(
    folder: Path, *, dataset_id: str | None = None, version: str | None = None, end_inclusive: bool = False
) -> AnnotationImport:
    """The annotations of all annotators.

    Args:
        folder: `ground_truth/annotations`; where there is none, nothing is imported.
        dataset_id: Of files that name no dataset, neither inside nor by `<dataset_id>_v<version>.gt.json`.
        version: Likewise.
        end_inclusive: All files count the last character in.
    """
    findings: list[InputError] = []
    refused: list[InputError] = []
    files: defaultdict[tuple[str, str], list[_File]] = defaultdict(list)
    for annotator, path in _paths(folder, findings):
        try:
            content = read_annotation_file(
                path, dataset_id=dataset_id, version=version, annotator_id=annotator, end_inclusive=end_inclusive
            )
        except InputError as error:
            findings.append(error)
        else:
            files[content.dataset_id, content.version].append(_File(annotator, path, content))
    merged = [_merged(files[key], findings, refused) for key in sorted(files)]
    truths = tuple(truth for truth in merged if truth.annotations)
    contents = [file.content for group in files.values() for file in group]
    return AnnotationImport(
        truths=truths,
        findings=(*findings, *refused),
        files=len(contents),
        read=sum(len(content.annotations) + len(content.faults) for content in contents),
        imported=sum(len(truth.annotations) for truth in truths),
        refused=len(refused),
    )


def _paths(folder: Path, findings: list[InputError]) -> Iterator[tuple[str, Path]]:
    """Annotators and their files in order; what is neither becomes a finding, hidden files aside."""
    for entry in _entries(folder):
        if entry.is_symlink() or not entry.is_dir(follow_symlinks=False):
            findings.append(_unexpected(folder / entry.name, "a folder of an annotator, no link and no file"))
        elif not PLAIN_NAME.fullmatch(entry.name):
            expected = "an annotator's folder of letters, digits, dots, hyphens and underscores"
            findings.append(_unexpected(folder / entry.name, expected))
        else:
            yield from _files_of(folder / entry.name, findings)


def _files_of(folder: Path, findings: list[InputError]) -> Iterator[tuple[str, Path]]:
    for entry in _entries(folder):
        path = folder / entry.name
        if entry.is_symlink() or not entry.is_file(follow_symlinks=False):
            findings.append(_unexpected(path, "a file, no link and no folder"))
        elif not entry.name.endswith(ENDINGS):
            findings.append(_unexpected(path, f"a file ending in {', '.join(ENDINGS)}"))
        elif not entry.name.endswith(TASK_ENDING):
            yield folder.name, path


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)


def _unexpected(path: Path, expected: str) -> InputError:
    return InputError("unexpected_entry", path, expected, hint="Nothing in it was read; move or rename it.")


def _merged(files: Sequence[_File], findings: list[InputError], refused: list[InputError]) -> GroundTruth:
    """One dataset's annotations; what cannot be taken goes to the lists."""
    sources: list[_Source] = []
    for file in files:
        refused += file.content.faults
        for annotation in file.content.annotations:
            source = _Source(annotation, file.path)
            if annotation.annotator_id == file.annotator_id:
                sources.append(source)
            else:
                refused.append(_stranger(source, file.annotator_id))
    extractors = {file.content.extractor for file in files if file.content.extractor is not None}
    first = files[0].content
    return GroundTruth(
        dataset_id=first.dataset_id,
        version=first.version,
        text_sha256=_texts(files, findings) or None,
        extractor=extractors.pop() if len(extractors) == 1 else None,
        annotations=tuple(source.annotation for source in _settled(sources, refused)),
    )


def _stranger(source: _Source, annotator_id: str) -> InputError:
    return InputError(
        "annotator_mismatch", source.shown, f"the folder's annotator {annotator_id!r}", field="annotator_id",
        found=source.annotation.annotator_id, hint="Move the file to its annotator's folder, or correct the id.",
    )  # fmt: skip


def _settled(sources: Iterable[_Source], refused: list[InputError]) -> list[_Source]:
    """Without repetitions; each refusal names the other annotation."""
    slots: defaultdict[tuple[str, ...], list[_Source]] = defaultdict(list)
    for source in sources:
        slots[source.slot].append(source)
    kept = []
    for same in slots.values():
        first, *others = same
        if all(other.annotation == first.annotation for other in others):
            kept.append(first)
            refused += [_repeated(other, first, "the first is imported") for other in others]
        else:
            refused.append(_repeated(first, others[0], "neither is imported"))
            refused += [_repeated(other, first, "neither is imported") for other in others]
    return kept


def _repeated(source: _Source, other: _Source, outcome: str) -> InputError:
    return InputError(
        "duplicate_annotation", source.shown,
        f"one {kind_of(source.annotation)} annotation of query {source.annotation.query_id!r} by this annotator",
        found=other.shown, hint=f"Of the two {outcome}; remove one.",
    )  # fmt: skip


def _texts(files: Iterable[_File], findings: list[InputError]) -> dict[str, str]:
    """The texts that the offsets count in; a document of which two files saw different texts is a finding."""
    seen: dict[str, tuple[str, Path]] = {}
    for file in files:
        for name, digest in (file.content.text_sha256 or {}).items():
            known, path = seen.setdefault(name, (digest, file.path))
            if known != digest:
                findings.append(
                    InputError(
                        "different_text",
                        file.path,
                        f"the text of {name!r} that {path} has",
                        field="text_sha256",
                        found=digest,
                        hint="One of the two was annotated in another extraction: check its spans.",
                    )  # fmt: skip
                )
    return {name: digest for name, (digest, _) in seen.items()}
