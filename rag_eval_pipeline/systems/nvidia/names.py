"""Names of documents on their way to the ingestor and back.

A client writes a quotation mark and control characters in a file's name as `%22` and the like, and the ingestor's
framework does not decode them: the document is stored, listed and cited under the changed name.
Source: WHATWG HTML, multipart form data; python-multipart.
"""

from collections.abc import Iterable, Mapping, Sequence

from rag_eval_pipeline.errors import ServiceError

# ESC is left as it is by the client.
_ESCAPED = {number: f"%{number:02X}" for number in range(0x20) if number != 0x1B} | {ord('"'): "%22"}


def stored_name(file: str) -> str:
    """The name under which an uploaded file is stored."""
    return file.translate(_ESCAPED)


class StoredNames:
    """The files of a corpus by the names that the server knows them by.

    Args:
        files: Basenames.

    Raises:
        ServiceError: `ambiguous_names`, for two files that the server could not tell apart.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._files: dict[str, str] = {}
        for file in files:
            other = self._files.setdefault(stored_name(file), file)
            if other != file:
                message = f"{other!r} and {file!r} would both be stored as {stored_name(file)!r}"
                raise ServiceError("ambiguous_names", message, hint="Rename one of the documents.")
        # A server that decodes the names stores them as they are.
        self._files = {file: file for file in files} | self._files

    def file(self, name: str) -> str:
        """The file behind a stored name; the name itself when the corpus has no such file."""
        return self._files.get(name, name)

    def aliases(self, aliases: Mapping[str, str]) -> dict[str, str]:
        """The names of documents, and the same as they are stored: what answers may call a document."""
        return {stored_name(alias): file for alias, file in aliases.items()} | dict(aliases)

    def files(self, names: Iterable[str]) -> set[str]:
        """The files behind stored names."""
        return {self.file(name) for name in names}
