"""Which document a name means: ids, file names, paths, stems and titles of one corpus.

A dataset says `doc_001`, a citation `project_tool.pdf`, a document `docs/project_tool.pdf`: the registry knows that
they are one. A name means the document whose id it is, else whose file name, else whose path, else whose stem, else
whose title. Case and every character count; only a known extension at the very end may be left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from rag_eval_pipeline.formats.evaluation_dataset import SourceDocument

# What ingestors take, and text forms; `Smith_v._Jones` has none of them and stays whole.
EXTENSIONS = frozenset({
    "pdf", "docx", "pptx", "jpg", "jpeg", "png", "tiff", "tif", "bmp", "txt", "html", "htm", "mp3", "wav", "mp4",
    "md", "markdown", "json", "csv", "xml", "rtf", "doc",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class RegisteredDocument:
    """A document and the names it goes by.

    Args:
        document_id: As the dataset says it.
        basename: Of its file; the id where there is no file.
        path: Of its file, with `/`; None without one.
        title: For people, or None.
    """

    document_id: str
    basename: str
    path: str | None = None
    title: str | None = None

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every name, the surest first, each once."""
        names = [self.document_id, self.basename, self.path, without_extension(self.document_id)]
        names += [without_extension(self.basename), self.title]
        return tuple(dict.fromkeys(name for name in names if name))


class DocumentRegistry:
    """The documents of a corpus, found by any of their names.

    Args:
        documents: In any order; the ids are unique.
    """

    def __init__(self, documents: Iterable[RegisteredDocument]) -> None:
        self.documents = tuple(documents)
        # From the surest kind of name to the least sure.
        self._kinds: tuple[dict[str, list[RegisteredDocument]], ...] = ({}, {}, {}, {}, {})
        ids, basenames, paths, stems, titles = self._kinds
        for document in self.documents:
            ids.setdefault(document.document_id, []).append(document)
            basenames.setdefault(document.basename, []).append(document)
            if document.path is not None:
                paths.setdefault(document.path, []).append(document)
            for stem in {without_extension(document.document_id), without_extension(document.basename)}:
                stems.setdefault(stem, []).append(document)
            if document.title:
                titles.setdefault(document.title, []).append(document)

    @classmethod
    def of_documents(cls, documents: Iterable[SourceDocument]) -> Self:
        """The registry of a dataset's inline documents."""
        return cls(
            RegisteredDocument(
                document_id=document.document_id,
                basename=PurePosixPath(document.file_path).name if document.file_path else document.document_id,
                path=document.file_path,
                title=document.title,
            )
            for document in documents
        )

    @classmethod
    def of_folder(cls, corpus: Path) -> Self:
        """The registry of the files in a folder and its sub-folders; the id of each is its exact file name."""
        found = (file for file in corpus.rglob("*") if file.is_file() and not file.is_symlink())
        files = sorted(file for file in found if not file.name.startswith("."))
        return cls(
            RegisteredDocument(document_id=file.name, basename=file.name, path=file.relative_to(corpus).as_posix())
            for file in files
        )

    def candidates(self, name: str) -> tuple[RegisteredDocument, ...]:
        """The documents that a name can mean; more than one where it is ambiguous, none where it is unknown."""
        stem = without_extension(name)
        for kind, wanted in zip(self._kinds, (name, name, name, stem, name), strict=True):
            if found := kind.get(wanted):
                return tuple(found)
        return ()

    def resolve(self, name: str) -> RegisteredDocument | None:
        """The document that a name means; None where it is unknown or ambiguous."""
        found = self.candidates(name)
        return found[0] if len(found) == 1 else None


def without_extension(name: str) -> str:
    """The name without a known extension at its end: `report` of `report.pdf`, `a.pdf` of `a.pdf.txt`."""
    stem, dot, extension = name.rpartition(".")
    return stem if dot and stem and extension.lower() in EXTENSIONS else name
