"""Draft a map from the ids and titles that a system returns to the files of the corpus.

A row rests on a title that is a document's first heading or name, or on a passage's text that one document has. It is
a draft for a person to check: no system is given it before its file names it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rag_eval_pipeline.corpus.naming import folded
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles
from rag_eval_pipeline.storage.csv_tables import csv_bytes
from rag_eval_pipeline.systems.base import PageText

TEXT_WORDS = 12  # of a passage's beginning, by which its document is found
LINES = 10  # of a first page, among which its heading is
COLUMNS = ("name", "file")


class MappedName(NamedTuple):
    """A row of a map, and what it rests on."""

    name: str
    file: str
    evidence: str


def draft_name_map(passages: Iterable[Mapping[str, Any]], reply: Any, files: CorpusFiles) -> list[MappedName]:
    """Return a row for each unknown name that means one document; of titles also those of all other documents.

    Args:
        passages: As `system probe` shows them.
        reply: The JSON of the reply, for the titles beside the ids.
    """
    unknown = [one for one in passages if one["document"] and not one["is_known"]]
    if not unknown:
        return []
    lines = {page.document: _first_lines(page) for page in files.pages if page.page == 1}
    titles = _unambiguous((title, file) for file, first in lines.items() for title in (*first, _stem(file)))
    # The lines that several documents begin with are those of a menu or a letterhead.
    own = {file: [line for line in first if titles.get(_words(line)) == file] for file, first in lines.items()}
    headings = {found[0]: file for file, found in own.items() if found}
    texts: dict[str, str] = {}
    for page in files.pages:
        texts[page.document] = f"{texts.get(page.document, '')} {_words(page.text)}"
    rows: dict[str, MappedName] = {}
    for passage in unknown:
        name = passage["document"].partition("#")[0].strip() or passage["document"]
        if (file := titles.get(_words(name))) is not None:
            rows |= {_words(one): MappedName(one, other, "its first heading") for one, other in headings.items()}
            rows[_words(name)] = MappedName(name, file, "its first heading or name")
        elif beside := {titles[key] for text in _beside(reply, passage["document"]) if (key := _words(text)) in titles}:
            if len(beside) == 1:
                rows[folded(name)] = MappedName(name, beside.pop(), "the title beside it is its first heading or name")
        elif len(begin := _words(passage["text"]).split()[:TEXT_WORDS]) == TEXT_WORDS:
            having = [file for file, text in texts.items() if " ".join(begin) in text]
            if len(having) == 1:
                rows[folded(name)] = MappedName(name, having[0], "it has the passage's text")
    return list(rows.values())


def name_map_csv(rows: Sequence[MappedName]) -> bytes:
    """Return the rows as the CSV file that `contexts.names` takes."""
    return csv_bytes(COLUMNS, ({"name": row.name, "file": row.file} for row in rows))


def _first_lines(page: PageText) -> list[str]:
    return [line.strip() for line in page.text.splitlines() if line.strip()][:LINES]


def _stem(file: str) -> str:
    return re.sub(r"(\.\w{2,5}){1,2}$", "", file)


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", folded(text)))


def _unambiguous(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for title, file in pairs:
        found.setdefault(_words(title), set()).add(file)
    return {title: files.pop() for title, files in found.items() if title and len(files) == 1}


def _beside(value: Any, name: str) -> Iterator[str]:
    """Yield the texts of each object in a reply that has a name among its values."""
    if isinstance(value, dict) and name in map(str, value.values()):
        yield from (text for text in value.values() if isinstance(text, str) and text != name)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _beside(inner, name)
