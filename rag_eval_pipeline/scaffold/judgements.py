"""Judgements of columns of any names, and TREC: questions, judgements and documents in relations of their own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier
from rag_eval_pipeline.formats.beir import QRELS_DOCUMENT, QRELS_QUERY
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.headers import normalised
from rag_eval_pipeline.scaffold.links import (
    LINKED_SHARE,
    TRIED_VALUES,
    find_target,
    no_documents,
)
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.selection import split_of
from rag_eval_pipeline.scaffold.writer import Draft, Guess, context

MAX_QRELS_COLUMNS = 5

_QRELS_GRADE = ("score", "relevance", "label", "rel", "grade")
_TOPIC_TEXT = ("text", "query", "question", "title", "query_text")


class _Qrels(NamedTuple):
    """A relation of judgements and its columns; lower splits come first."""

    split: int
    file: DataFile
    query: Column
    document: Column
    grade: Column | None


class _Topics(NamedTuple):
    file: DataFile
    key: Column
    text: Column


def qrels(profile: FolderProfile) -> Draft | None:
    """Draft BEIR or TREC: questions, judgements and documents in separate relations."""
    found = sorted(_find_qrels(profile), key=lambda item: item.split)
    for judgements in found:
        topics = _find_topics(profile, judgements)
        if topics is not None:
            others = [other.file.origin.shown for other in found if other is not judgements]
            return _draft_qrels(profile, judgements, topics, others)
    return None


def _find_qrels(profile: FolderProfile) -> list[_Qrels]:
    """Return relations of few columns with ids of questions and documents; tables of questions have unique ids."""
    found = []
    for file in profile.data:
        names = {normalised(column.name): column for column in file.columns}
        query, document, grade = (
            next((names[word] for word in words if word in names), None)
            for words in (QRELS_QUERY, QRELS_DOCUMENT, _QRELS_GRADE)
        )
        if query is None or document is None or len(file.columns) > MAX_QRELS_COLUMNS:
            continue
        if grade is not None or not query.is_unique:
            found.append(_Qrels(split_of(file.origin), file, query, document, grade))
    return found


def _find_topics(profile: FolderProfile, judgements: _Qrels) -> _Topics | None:
    """Return the questions whose ids the judgements name.

    Documents are often numbered as questions are, so names decide before the share of known ids and the size.
    """
    asked = list(dict.fromkeys(str(value) for value in judgements.query.present))[:TRIED_VALUES]
    found = []
    for place, file in enumerate(profile.data):
        names = {normalised(column.name): column for column in file.columns if column.kind == "text"}
        text = next((names[word] for word in _TOPIC_TEXT if word in names), None)
        if file is judgements.file or text is None:
            continue
        is_named = any(word in file.origin.shown.lower() for word in ("quer", "topic", "question"))
        for key in file.columns:
            share = file.share_known(key, asked) if key.is_unique and key is not text else 0.0
            if share >= LINKED_SHARE:
                found.append(((not is_named, -share, file.rows, place), _Topics(file, key, text)))
    return min(found, key=lambda item: item[0])[1] if found else None


def _draft_qrels(profile: FolderProfile, judgements: _Qrels, topics: _Topics, others: Sequence[str]) -> Draft:
    file, key, text = topics
    judged = list(dict.fromkeys(str(value) for value in judgements.document.present))
    others_data = tuple(f for f in profile.data if f is not judgements.file)
    target = find_target(replace(profile, data=others_data), file, judged)
    document = judgements.document.as_text
    fields = {target.field: target.named(document)} if target is not None else {"document": document}
    is_relevant, order = "", document
    if judgements.grade is not None:
        grade = f"CAST({identifier(judgements.grade.name)} AS INTEGER)"
        fields["relevance"] = grade
        is_relevant, order = f" AND {grade} > 0", f"{grade} DESC, {document}"
    # Inside the subquery an unqualified name is a column of the judgements, whatever the questions have.
    asked = f"source.{identifier(key.name)}"
    asked = asked if key.kind == "text" else f"CAST({asked} AS VARCHAR)"
    query = judgements.query.as_text
    questions = f"""\
SELECT {key.as_text} AS source_id, {text.sql} AS question,
       (SELECT list({context(fields)}
                    ORDER BY {order})
        FROM qrels WHERE {query} = {asked}{is_relevant}) AS contexts
FROM source
WHERE {key.as_text} IN (SELECT {query} FROM qrels)"""
    shown = f"source: {file.origin.shown}, whose {key.name!r} the judgements name; the question is {text.name!r}."
    qrels_text = f"qrels: {judgements.file.origin.shown}."
    qrels_text += f" Other judgements: {', '.join(others)}." if others else ""
    corpus = target.corpus(judged) if target is not None else None
    return Draft(
        shape="TREC qrels and topics" if judgements.file.origin.format == "trec_qrels" else "BEIR",
        source=file.origin,
        questions=questions,
        tables={"qrels": judgements.file.origin, **(corpus.tables if corpus else {})},
        documents=corpus.documents if corpus else None,
        retrieval_only=True,
        guesses=(
            Guess("source", shown),
            Guess("tables", qrels_text),
            Guess(
                "retrieval_only", "retrieval_only: there are judgements and no answers, so only retrieval is scored."
            ),
            Guess("questions", "questions: those with a judgement. contexts: documents judged above 0, with grades."),
            *(corpus.guesses if corpus else ()),
        ),
        missing=() if corpus else (no_documents(judgements.document.name),),
        unused=tuple(column.described for column in file.columns if column not in (key, text)),
    )
