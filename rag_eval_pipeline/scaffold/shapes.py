"""Shapes of published benchmarks, and rows of any columns: each is a function from a folder's profile to a draft."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier
from rag_eval_pipeline.formats.beir import QRELS_DOCUMENT, QRELS_QUERY
from rag_eval_pipeline.scaffold.columns import Column, Field
from rag_eval_pipeline.scaffold.links import (
    LINKED_SHARE,
    TRIED_VALUES,
    Link,
    column_link,
    files_corpus,
    find_target,
    free_word,
    grouped_documents,
    no_documents,
    targets,
)
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.roles import ROLES, Roles, find_roles, list_forms, normalised
from rag_eval_pipeline.scaffold.rows import draft_linked
from rag_eval_pipeline.scaffold.selection import split_of, splits_in_order
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Draft, Guess, context, struct

MAX_QRELS_COLUMNS = 5

_QRELS_GRADE = ("score", "relevance", "label", "rel", "grade")
_TOPIC_TEXT = ("text", "query", "question", "title", "query_text")
_EVRET_IDS = ("relevant_doc_ids", "expected_doc_ids", "relevant_docs", "relevant_documents")
_SQUAD_GUESSES = (
    Guess(
        "questions",
        "answer: the first annotator's; the others are accepted too. contexts: the position of the answer in the "
        "document.",
    ),
    Guess(
        "documents",
        "documents: one per article, its paragraphs joined by empty lines. For one per paragraph, use its text as the "
        "document.",
    ),
)


def nested_squad(profile: FolderProfile) -> Draft | None:
    """Draft SQuAD as it is published: articles with `paragraphs`, each with its `context` and `qas`."""
    for file in splits_in_order(profile.data):
        paragraphs = file.column("paragraphs")
        qas = _struct_list(paragraphs.fields, "qas") if paragraphs is not None else None
        if paragraphs is None or qas is None or paragraphs.field_kind("context") != "text":
            continue
        names = {item.name for item in qas.fields}
        if "question" in names and _struct_list(qas.fields, "answers") is not None:
            return _draft_nested_squad(file, names)
    return None


def _draft_nested_squad(file: DataFile, names: set[str]) -> Draft:
    title = "title" if file.column("title") is not None else "'article-' || source_row"
    is_impossible = "coalesce(qa.is_impossible, false)" if "is_impossible" in names else "len(qa.answers) = 0"
    source_id = "CAST(qa.id AS VARCHAR) AS source_id, " if "id" in names else ""
    questions = f"""\
SELECT {source_id}qa.question, {is_impossible} AS is_impossible,
       qa.answers[1].text AS answer,
       list_transform(qa.answers, lambda given: given.text) AS answers,
       CASE WHEN {is_impossible} THEN [] ELSE [{{
         document: article,
         text: qa.answers[1].text,
         start: paragraph_start + qa.answers[1].answer_start,
         "end": paragraph_start + qa.answers[1].answer_start + length(qa.answers[1].text)
       }}] END AS contexts
FROM (
  SELECT article, unnest(paragraphs[number].qas) AS qa,
         coalesce(list_sum(list_transform(paragraphs[1:number - 1], lambda before: length(before.context) + 2)), 0)
           AS paragraph_start
  FROM (SELECT {title} AS article, paragraphs, unnest(range(1, len(paragraphs) + 1)) AS number FROM source)
)"""
    word = free_word("part", file.columns)
    documents = f"""\
SELECT {title} AS name,
       array_to_string(list_transform(paragraphs, lambda {word}: {word}.context), chr(10) || chr(10)) AS text
FROM source"""
    version, flag = ("2: with", "as the file says") if "is_impossible" in names else ("1: without", "without answers")
    return Draft(
        shape=f"SQuAD ({version} unanswerable questions), nested",
        source=file.origin,
        questions=questions,
        documents=documents,
        guesses=(Guess("questions", f"is_impossible: {flag}."), *_SQUAD_GUESSES),
    )


def flat_squad(profile: FolderProfile) -> Draft | None:
    """Draft SQuAD with one question per row: question, context, and `answers` with texts and starts in the context."""
    for file in splits_in_order(profile.data):
        answers = next((c for c in file.columns if c.kind == "struct" and c.field_kind("text") == "texts"), None)
        question, body = _text_column(file, "question"), _text_column(file, "context")
        if answers is not None and question is not None and body is not None and answers.field_kind("answer_start"):
            return _draft_flat_squad(file, question, body, answers)
    return None


def _draft_flat_squad(file: DataFile, question: Column, body: Column, answers: Column) -> Draft:
    title = _text_column(file, "title")
    key = next((c for c in file.columns if c.is_unique and normalised(c.name) in ROLES["source_id"]), None)
    paragraph = identifier(body.name)
    article = identifier(title.name) if title is not None else f"'passage-' || left(md5({paragraph}), 12)"
    used = {column.name for column in (question, body, answers, title, key) if column is not None}
    source_id = f"CAST({identifier(key.name)} AS VARCHAR) AS source_id, " if key is not None else ""
    rest = [c for c in file.columns if c.name not in used and c.kind in {"text", "integer", "boolean"}]
    metadata = f",\n         {struct({c.name: identifier(c.name) for c in rest})} AS metadata" if rest else ""
    # Questions are joined with the offsets of their paragraphs, which loses the rows' order: source_row restores it.
    questions = f"""\
SELECT {"source_id, " if source_id else ""}question, given.text[1] AS answer, given.text AS answers,
       len(given.text) = 0 AS is_impossible{", metadata" if rest else ""},
       CASE WHEN len(given.text) = 0 THEN [] ELSE [{{
         document: asked.article,
         text: given.text[1],
         start: paragraph_start + given.answer_start[1],
         "end": paragraph_start + given.answer_start[1] + length(given.text[1])
       }}] END AS contexts,
       source_file, source_row
FROM (
  SELECT {source_id}{identifier(question.name)} AS question, {article} AS article, {paragraph} AS paragraph,
         {identifier(answers.name)} AS given{metadata}, source_file, source_row
  FROM source
) AS asked
JOIN (
  SELECT article, paragraph, CAST(coalesce(sum(length(paragraph) + 2) OVER (
           PARTITION BY article ORDER BY first_row ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS BIGINT)
           AS paragraph_start
  FROM (SELECT {article} AS article, {paragraph} AS paragraph, min(source_row) AS first_row
        FROM source GROUP BY ALL)
) AS placed ON asked.article = placed.article AND asked.paragraph = placed.paragraph"""
    documents = f"""\
SELECT article AS name, string_agg(paragraph, chr(10) || chr(10) ORDER BY first_row) AS text
FROM (SELECT {article} AS article, {paragraph} AS paragraph, min(source_row) AS first_row
      FROM source GROUP BY ALL)
GROUP BY article
ORDER BY min(first_row)"""
    by_paragraph = Guess("documents", "documents: one per paragraph, because there is no title.")
    return Draft(
        shape="SQuAD, one question per row",
        source=file.origin,
        questions=questions,
        documents=documents,
        guesses=(
            Guess("questions", f"is_impossible: where {answers.name!r} is empty."),
            _SQUAD_GUESSES[0],
            by_paragraph if title is None else _SQUAD_GUESSES[1],
        ),
        unused=tuple(c.described for c in file.columns if c.name not in used and c not in rest),
    )


def hotpot(profile: FolderProfile) -> Draft | None:
    """Draft HotpotQA: ten titled paragraphs in `context`, of which `supporting_facts` names those that matter."""
    for file in splits_in_order(profile.data):
        titled, facts = file.column("context"), file.column("supporting_facts")
        if titled is None or facts is None:
            continue
        word = free_word("part", file.columns)
        found = _parallel_lists(titled, facts, word) or _title_pairs(titled, facts, word)
        roles = find_roles(file, (titled.name, facts.name))
        if found is not None and "question" in roles.exprs:
            return _draft_hotpot(file, found, roles)
    return None


class _Paragraphs(NamedTuple):
    """The SQL of three lists: titles, their paragraphs, and the titles that support the answer."""

    titles: str
    paragraphs: str
    supporting: str
    absent: int  # supporting titles in the sample that have no paragraph in their row


def _parallel_lists(titled: Column, facts: Column, word: str) -> _Paragraphs | None:
    sentences = next((f.name for f in titled.fields if f.kind == "text lists"), None)
    if sentences is None or not all(c.kind == "struct" and c.field_kind("title") == "texts" for c in (titled, facts)):
        return None
    first = [value[sentences] for value in titled.present[:100]]
    separator = _sentence_separator([inner for value in first for inner in value or () if inner])
    joined = f"array_to_string({word}, {separator})"
    return _Paragraphs(
        '"context".title',
        f'list_transform("context".{identifier(sentences)}, lambda {word}: {joined})',
        '"supporting_facts".title',
        _absent(*([(value or {}).get("title") or () for value in c.values] for c in (titled, facts))),
    )


def _title_pairs(titled: Column, facts: Column, word: str) -> _Paragraphs | None:
    """Read pairs of a title and its sentences: they have no common type, so both arrive as JSON text."""
    if titled.kind != "text lists" or facts.kind != "text lists":
        return None
    pairs = [pair for value in titled.present for pair in value if pair is not None]
    if not all(len(pair) == 2 and pair[0][:1] == '"' and pair[1][:1] == "[" for pair in pairs):
        return None
    separator = _sentence_separator([json.loads(pair[1]) for pair in pairs[:1000]])
    sentences = f"""from_json({word}[2], '["VARCHAR"]')"""
    return _Paragraphs(
        f"""list_transform("context", lambda {word}: json_extract_string({word}[1], '$'))""",
        f'list_transform("context", lambda {word}: array_to_string({sentences}, {separator}))',
        f"""list_transform("supporting_facts", lambda {word}: json_extract_string({word}[1], '$'))""",
        _absent(*([[pair[0] for pair in value or () if pair] for value in c.values] for c in (titled, facts))),
    )


def _absent(titles: Iterable[Sequence[str]], supporting: Iterable[Sequence[str]]) -> int:
    """Count the supporting titles, row by row, that are not among the titles of the row's paragraphs."""
    return sum(len({*wanted} - {*given}) for given, wanted in zip(titles, supporting, strict=True))


def _sentence_separator(paragraphs: list[list[str]]) -> str:
    """Return the SQL of what joins sentences: nothing if most have spaces at their ends, otherwise a space."""
    borders = [(a, b) for sentences in paragraphs for a, b in zip(sentences, sentences[1:], strict=False) if a and b]
    spaces = sum(a[-1].isspace() or b[0].isspace() for a, b in borders)
    return "''" if 2 * spaces >= len(borders) and borders else "' '"


def _draft_hotpot(file: DataFile, found: _Paragraphs, roles: Roles) -> Draft:
    columns = [f"{expr.sql} AS {ours}" for ours, expr in roles.exprs.items()]
    if roles.metadata:
        columns.append(f"{struct(roles.metadata)} AS metadata")
    kept = ",\n         ".join(columns)
    questions = f"""\
SELECT {", ".join([*roles.exprs, *(["metadata"] if roles.metadata else [])])},
       list_concat(
         list_transform(
           list_filter(list_zip(titles, paragraphs), lambda pair: list_contains(supporting, pair[1])),
           lambda pair: {{document: pair[1], text: pair[2]}}
         ),
         list_transform(
           list_sort(list_distinct(list_filter(supporting, lambda title: NOT list_contains(titles, title)))),
           lambda title: {{document: title, text: CAST(NULL AS VARCHAR)}}
         )
       ) AS contexts
FROM (
  SELECT {kept},
         {found.titles} AS titles,
         {found.paragraphs} AS paragraphs,
         {found.supporting} AS supporting
  FROM source
)"""
    documents = grouped_documents(f"""\
SELECT source_row, unnest({found.titles}) AS title,
           unnest({found.paragraphs}) AS paragraph
    FROM source""")
    absent = ""
    if found.absent:
        absent = (
            f" {found.absent} of these titles have no paragraph in 'context' of their row: their document is that of "
            "another row, without gold text; without one, the context is lost and counted."
        )
    guesses = (
        Guess("questions", f"contexts: the whole paragraphs of the titles in 'supporting_facts'.{absent}"),
        Guess(
            "documents",
            "documents: one per title, with all different paragraphs that questions give for it; those that support "
            "no answer are distractors.",
        ),
    )
    return Draft(
        "HotpotQA",
        file.origin,
        questions,
        documents=documents,
        on_missing_document="keep" if found.absent else None,
        guesses=(*roles.guesses, *guesses),
    )


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
SELECT {key.as_text} AS source_id, {identifier(text.name)} AS question,
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


def evret(profile: FolderProfile) -> Draft | None:
    """Draft Evret: queries with ids of relevant documents, or with texts that support an answer; JSON or CSV.

    Source: Evret, Dataset Format. The JSON datasets of Evaluation Data Formats 2.1 are close enough to be read as well.
    """
    for file in profile.data:
        names = {normalised(column.name): column for column in file.columns if column.present}
        ids = next((names[word] for word in _EVRET_IDS if word in names), None)
        texts = names.get("expected_answers")
        if {"query_text", "query"}.isdisjoint(names) or (ids is None and texts is None):
            continue
        link, missing = _evret_ids(profile, file, ids) if ids is not None else (None, ())
        link = _evret_texts(profile, file, link, texts) if texts is not None else link
        draft = draft_linked(profile, file, link)
        shape = f"Evret, with {'ids of relevant documents' if ids is not None else 'expected answers'}"
        return replace(draft, shape=shape, missing=(*draft.missing, *missing))
    return None


def _evret_ids(profile: FolderProfile, file: DataFile, ids: Column) -> tuple[Link, tuple[str, ...]]:
    """Return contexts by document, and what is missing if the documents are not in the folder."""
    word = free_word("part", file.columns)
    for target in targets(profile, file):
        link = column_link(ids, target, word)
        if link is not None:
            return link, ()
    form = next(form for form in list_forms(ids, separators=",") if form.item is None or "," not in form.sql)
    sql = f"list_transform({form.sql}, lambda {word}: {context({'document': word})})"
    guess = Guess("questions", f"contexts: {ids.name!r} ({form.shown}) holds ids of documents.")
    link = Link({"contexts": ColumnExpr(sql)}, frozenset({ids.name}), guesses=(guess,))
    return link, (no_documents(ids.name),)


def _evret_texts(profile: FolderProfile, file: DataFile, link: Link | None, texts: Column) -> Link:
    """Return the link with gold texts; a row has ids, texts, or both."""
    form = next(list_forms(texts))
    text = f"contexts: gold texts from {texts.described}: they support an answer and are not answers themselves."
    guess = Guess("questions", text)
    if link is None:
        # Documents in a table or in the folder are searched although no label names them.
        tables = [target for target in targets(profile, file) if target.field == "document"]
        corpus = tables[0].corpus(()) if tables else files_corpus(profile)
        expr = ColumnExpr(form.sql, texts.name if texts.kind == "texts" else None)
        return Link({"contexts": expr}, frozenset({texts.name}), corpus, (guess,))
    word = free_word("part", file.columns)
    quoted = f"list_transform({form.sql}, lambda {word}: {context({'text': word})})"
    sql = f"list_concat(coalesce({link.exprs['contexts'].sql}, []), coalesce({quoted}, []))"
    return Link({"contexts": ColumnExpr(sql)}, link.used | {texts.name}, link.corpus, (*link.guesses, guess))


def _text_column(file: DataFile, word: str) -> Column | None:
    return next((c for c in file.columns if normalised(c.name) == word and c.kind == "text"), None)


def _struct_list(fields: tuple[Field, ...], name: str) -> Field | None:
    return next((field for field in fields if field.name == name and field.kind == "structs"), None)
