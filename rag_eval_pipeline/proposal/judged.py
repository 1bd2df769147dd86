"""Judgements kept apart from questions and documents: BEIR folders, TREC qrels with topics."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rag_eval_pipeline.proposal.columns import Column, DataFile
from rag_eval_pipeline.proposal.draft import Draft, Guess, context, identifier
from rag_eval_pipeline.proposal.looking import Seen
from rag_eval_pipeline.proposal.targets import LINKED_SHARE, TRIED_VALUES, find_target
from rag_eval_pipeline.proposal.words import normalised, words

SPLITS = ("test", "dev", "validation", "val", "train")  # the one that a benchmark is scored on first

MAX_QRELS_COLUMNS = 5

_QUERY = words("query_id qid topic topic_id")
_DOCUMENT = words("corpus_id document_id doc_id docid docno passage_id pid")
_QUESTION = words("text query question title query_text")
_RELEVANCE = words("score relevance label rel grade")
_WITHOUT_ANSWERS = "retrieval_only: there are judgements and no answers, so only retrieval is measured."


class Qrels(NamedTuple):
    """A relation of judgements and its columns."""

    file: DataFile
    query: Column
    document: Column
    relevance: Column | None


class Questions(NamedTuple):
    """A relation of questions: its ids and its texts."""

    file: DataFile
    key: Column
    text: Column


def judged(seen: Seen) -> Draft | None:
    """BEIR, or TREC qrels with topics: questions, judgements and documents in relations of their own."""
    found = sorted((_split(qrels), place, qrels) for place, qrels in enumerate(_qrels(seen)))
    for _, _, qrels in found:
        questions = _questions(seen, qrels)
        if questions is not None:
            others = [other.file.origin.shown for _, _, other in found if other is not qrels]
            return _draft(seen, qrels, questions, others)
    return None


def _qrels(seen: Seen) -> list[Qrels]:
    """Relations of few columns with a question's id and a document's; a table of questions has one row an id."""
    found = []
    for file in seen.data:
        names = {normalised(column.name): column for column in file.columns}
        query, document, relevance = (
            next((names[word] for word in known if word in names), None) for known in (_QUERY, _DOCUMENT, _RELEVANCE)
        )
        if query is None or document is None or len(file.columns) > MAX_QRELS_COLUMNS:
            continue
        if relevance is not None or not query.is_unique:
            found.append(Qrels(file, query, document, relevance))
    return found


def _split(qrels: Qrels) -> int:
    parts = re.split(r"[\W_]+", (qrels.file.origin.path or qrels.file.origin.shown).lower())
    return next((place for place, split in enumerate(SPLITS) if split in parts), len(SPLITS))


def _questions(seen: Seen, qrels: Qrels) -> Questions | None:
    """The relation with the questions: the one whose ids the judgements name, and its text.

    Documents are numbered as questions are, so ids alone do not tell the two apart: names, then sizes, do.
    """
    asked = list(dict.fromkeys(str(value) for value in qrels.query.present))[:TRIED_VALUES]
    found = []
    for place, file in enumerate(seen.data):
        if file is qrels.file:
            continue
        names = {normalised(column.name): column for column in file.columns if column.kind == "text"}
        text = next((names[word] for word in _QUESTION if word in names), None)
        is_named = any(word in file.origin.shown.lower() for word in ("quer", "topic", "question"))
        for key in file.columns if text is not None else ():
            share = file.share_known(key, asked) if key.is_unique and key is not text else 0.0
            if share >= LINKED_SHARE and text is not None:
                found.append(((not is_named, -share, file.rows, place), Questions(file, key, text)))
    return min(found, key=lambda item: item[0])[1] if found else None


def _draft(seen: Seen, qrels: Qrels, questions: Questions, others: Sequence[str]) -> Draft:
    file, key, text = questions
    judged_documents = [str(value) for value in qrels.document.present]
    target = find_target(replace(seen, data=tuple(f for f in seen.data if f is not qrels.file)), file, judged_documents)
    document = qrels.document.as_text
    fields = {target.field if target else "document": target.named(document) if target else document}
    is_relevant, order = "", document
    if qrels.relevance is not None:
        grade = f"CAST({identifier(qrels.relevance.name)} AS INTEGER)"
        fields["relevance"] = grade
        is_relevant, order = f" AND {grade} > 0", f"{grade} DESC, {document}"
    # Inside the subquery a plain name is the judgements' column, whatever the questions have.
    asked = f"source.{identifier(key.name)}"
    asked = asked if key.kind == "text" else f"CAST({asked} AS VARCHAR)"
    sql = f"""\
SELECT {key.as_text} AS source_id, {identifier(text.name)} AS question,
       (SELECT list({context(fields)}
                    ORDER BY {order})
        FROM qrels WHERE {qrels.query.as_text} = {asked}{is_relevant}) AS contexts
FROM source
WHERE {key.as_text} IN (SELECT {qrels.query.as_text} FROM qrels)"""
    guesses = [
        Guess(
            "source",
            f"source: {file.origin.shown}, whose {key.name!r} the judgements name; its {text.name!r} is asked.",
        ),
        Guess(
            "tables",
            f"qrels: {qrels.file.origin.shown}." + (f" Other judgements: {', '.join(others)}." if others else ""),
        ),
        Guess("retrieval_only", _WITHOUT_ANSWERS),
        Guess("questions", "questions: those with a judgement. contexts: documents judged above 0, with their grade."),
    ]
    tables = {"qrels": qrels.file.origin}
    missing: tuple[str, ...] = ()
    if target is not None:
        corpus = target.corpus(list(dict.fromkeys(judged_documents)))
        tables.update(corpus.tables)
        guesses += corpus.guesses
        documents = corpus.documents
    else:
        documents = None
        missing = (no_documents(qrels.document.name),)
    shape = "TREC qrels and topics" if qrels.file.origin.format == "trec_qrels" else "BEIR"
    used = {key.name, text.name}
    return Draft(
        shape=shape,
        source=file.origin,
        questions=sql,
        tables=tables,
        documents=documents,
        retrieval_only=True,
        guesses=tuple(guesses),
        missing=missing,
        unused=tuple(column.described for column in file.columns if column.name not in used),
    )


def no_documents(column: str) -> str:
    """What a person has to add when the documents that a column names are not here."""
    return (
        f"documents: the documents that {column!r} names were not found. Add them as a table of ids and texts "
        "(`tables`, and `documents: SELECT id AS name, text FROM ...`) or as files."
    )
