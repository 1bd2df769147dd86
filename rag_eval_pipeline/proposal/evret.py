"""Evret: queries with ids of relevant documents or with texts that support an answer, as JSON or as CSV.

Source: Evret: Dataset Format. The JSON datasets of Evaluation Data Formats 2.1 are alike enough to be read so too.
"""

from dataclasses import replace

from rag_eval_pipeline.proposal.columns import Column, DataFile
from rag_eval_pipeline.proposal.draft import Draft, Guess, Piece, context
from rag_eval_pipeline.proposal.flat import assemble
from rag_eval_pipeline.proposal.judged import no_documents
from rag_eval_pipeline.proposal.links import SEPARATORS, Link, free_word, linked_column
from rag_eval_pipeline.proposal.lists import list_forms
from rag_eval_pipeline.proposal.looking import Seen
from rag_eval_pipeline.proposal.targets import files_corpus, targets
from rag_eval_pipeline.proposal.words import normalised

_IDS = ("relevant_doc_ids", "expected_doc_ids", "relevant_docs", "relevant_documents")
_TEXTS = ("expected_answers",)


def evret(seen: Seen) -> Draft | None:
    """Queries with labels under Evret's names; None when no relation has them."""
    for file in seen.data:
        names = {normalised(column.name): column for column in file.columns if column.present}
        ids = next((names[word] for word in _IDS if word in names), None)
        texts = next((names[word] for word in _TEXTS if word in names), None)
        if not {"query_text", "query"}.isdisjoint(names) and (ids is not None or texts is not None):
            return _draft(seen, file, ids, texts)
    return None


def _draft(seen: Seen, file: DataFile, ids: Column | None, texts: Column | None) -> Draft:
    link, missing = (None, None) if ids is None else _by_ids(seen, file, ids)
    if texts is not None:
        link = _with_texts(seen, file, link, texts)
    draft = assemble(seen, file, link)
    return replace(
        draft,
        shape=f"Evret, with {'ids of relevant documents' if ids is not None else 'expected answers'}",
        missing=draft.missing if missing is None else (*draft.missing, missing),
    )


def _by_ids(seen: Seen, file: DataFile, ids: Column) -> tuple[Link, str | None]:
    """Contexts by document, and what is missing when the documents are not here."""
    word = free_word("part", file.columns)
    for target in targets(seen, file):
        link = linked_column(ids, target, word)
        if link is not None:
            return link, None
    form = next(
        form for form in list_forms(ids, separators=SEPARATORS[-1:]) if not form.is_single or "," not in form.sql
    )
    sql = f"list_transform({form.sql}, lambda {word}: {context({'document': word})})"
    guess = Guess("questions", f"contexts: {ids.name!r} ({form.shown}) holds ids of documents.")
    return Link({"contexts": Piece(sql)}, frozenset({ids.name}), guesses=(guess,)), no_documents(ids.name)


def _with_texts(seen: Seen, file: DataFile, link: Link | None, texts: Column) -> Link:
    """The link with supporting texts as gold texts; a row has ids, or texts, or both."""
    form = next(list_forms(texts, separators=()))
    guess = Guess("questions", f"contexts: gold texts from {texts.described}: they support an answer and are none.")
    if link is None:
        # A folder's or a file's documents are searched although no label names them.
        tables = [target for target in targets(seen, file) if target.field == "document"]
        corpus = tables[0].corpus(()) if tables else files_corpus(seen)
        piece = Piece(form.sql, texts.name) if texts.kind == "texts" else Piece(form.sql)
        return Link({"contexts": piece}, frozenset({texts.name}), corpus, (guess,))
    word = free_word("part", file.columns)
    named = link.pieces["contexts"].sql
    quoted = f"list_transform({form.sql}, lambda {word}: {context({'text': word})})"
    sql = f"list_concat(coalesce({named}, []), coalesce({quoted}, []))"
    return Link({"contexts": Piece(sql)}, link.used | {texts.name}, link.corpus, (*link.guesses, guess))
