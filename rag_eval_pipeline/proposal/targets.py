"""What a cell can lead to: rows of a table of documents, files of the folder, pages of a mirror.

A target says which share of some values it knows, and what a benchmark.yaml has to say for questions to lead there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rag_eval_pipeline.corpus.naming import document_key
from rag_eval_pipeline.proposal.bodies import BodyTable, body_tables, file_table, mirrors
from rag_eval_pipeline.proposal.columns import DataFile
from rag_eval_pipeline.proposal.draft import Guess, Origin, identifier, literal
from rag_eval_pipeline.proposal.looking import Seen

LINKED_SHARE = 0.5  # of the values that must lead to a document; a few dead links are a benchmark's own fault
TRIED_VALUES = 2_000


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents as benchmark.yaml states them: `tables` and `documents`."""

    tables: dict[str, Origin] = field(default_factory=dict)
    documents: str | None = None
    on_missing_document: str | None = None
    guesses: tuple[Guess, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """Something that values can lead to.

    Args:
        field: The field of a context that names it: `document` or `file`.
        named: SQL of that field from SQL of a value.
        share: Share of the values that it knows.
        corpus: Its documents, given the values that lead to it.
        shown: What the values are, for people.
    """

    field: str
    named: Callable[[str], str]
    share: Callable[[Sequence[str]], float]
    corpus: Callable[[Sequence[str]], Corpus]
    shown: str


def find_target(seen: Seen, file: DataFile, values: Iterable[str]) -> Target | None:
    """The target that knows most of the values; None when none knows half."""
    tried = list(dict.fromkeys(values))[:TRIED_VALUES]
    best, best_share = None, 0.0
    for target in targets(seen, file) if tried else ():
        share = target.share(tried)
        if share > best_share:
            best, best_share = target, share
    return best if best_share >= LINKED_SHARE else None


def targets(seen: Seen, file: DataFile) -> Iterator[Target]:
    """Everything that a column of a file can lead to."""
    for table in body_tables(seen, file):
        yield _of_table(table)
    if seen.documents:
        names = {known: path for path in seen.documents for known in (PurePosixPath(path).name, path)}
        yield _of_files(seen, names, "", "names of files")
        for suffix in sorted({PurePosixPath(path).suffix for path in seen.documents}):
            stems = {PurePosixPath(path).stem: path for path in seen.documents if path.endswith(suffix)}
            yield _of_files(seen, stems, suffix, f"names of {suffix} files without the suffix")


def _of_table(table: BodyTable) -> Target:
    shown = table.file.origin.shown
    text = f"documents: the {table.file.rows} rows of {shown}, named by {table.key.name!r}."
    corpus = Corpus({table.name: table.file.origin}, table.documents, None, (Guess("documents", text),))
    return Target(
        "document",
        lambda sql: sql,
        lambda values: table.file.share_known(table.key, values),
        lambda _: corpus,
        f"values of {table.key.name!r} in {shown}",
    )


def _of_files(seen: Seen, names: dict[str, str], suffix: str, shown: str) -> Target:
    return Target(
        "file",
        (lambda sql: f"{sql} || {literal(suffix)}") if suffix else (lambda sql: sql),
        lambda values: sum(value in names for value in values) / len(values),
        lambda values: files_corpus(seen, [names[value] for value in values if value in names]),
        shown,
    )


def files_corpus(seen: Seen, matched: Sequence[str] = ()) -> Corpus:
    """The folder's documents, or those of the folders and kinds that the matched files are of; empty without any."""
    table = file_table(seen, matched)
    if table is None:
        return Corpus()
    text = f"documents: all {len(table.names)} files of {table.glob}, named by a question or not."
    return Corpus({table.name: table.origin}, table.documents, None, (Guess("documents", text),))


def mirror_corpus(seen: Seen, file: DataFile, urls: Sequence[str], urls_sql: str) -> Corpus:
    """The pages of URLs that the folder has; what it lacks is fetched.

    Args:
        seen: What lies beside the file.
        file: That of the questions.
        urls: Of a sample of its rows.
        urls_sql: SQL of one URL or of a list, over `source`.
    """
    wanted = {document_key(url) for url in urls}
    for table in mirrors(seen, file):
        had = {document_key(url) for url in table.file.table.column(table.key.name).to_pylist() if url}
        common = wanted & had
        if not common:
            continue
        key = identifier(table.key.name)
        body = f"{table.body.sql} AS {table.body.kind}"
        documents = (
            f"SELECT {key} AS url, {body} FROM {table.name}\n"
            f"WHERE {_page(key)} IN (\n"
            f"  SELECT {_page('page')}\n"
            f"  FROM (SELECT {urls_sql} AS page FROM source)\n"
            ")"
        )
        complete = len(common) == len(wanted)
        rest = "; the others are fetched, and a context whose page cannot be had is left out."
        text = (
            f"documents: {table.file.origin.shown} has {len(common)} of {len(wanted)} pages that questions name"
            f"{'.' if complete else rest} Without the WHERE, all its pages are documents."
        )
        return Corpus(
            {table.name: table.file.origin},
            documents,
            None if complete else "keep",
            (Guess("documents", text),),
        )
    text = f"documents: none are here; the pages of {len(wanted)} URLs are fetched when it is converted."
    return Corpus(guesses=(Guess("documents", text),))


def _page(url: str) -> str:
    """SQL that is equal for two URLs of one page: no scheme, no fragment, nothing percent-encoded."""
    plain = f"regexp_replace({url}, '^https?://|#.*$', '', 'g')"
    return f"lower(coalesce(try(url_decode({plain})), {plain}))"
