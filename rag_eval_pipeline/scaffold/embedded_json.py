"""Documents and links inside the rows: gold texts, pages of HTML, parallel lists, and citations in answers.

They are proposed only where neither a column names documents that are there, nor files that could be the corpus lie
beside the questions.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rag_eval_pipeline.conversion.mapping import literal
from rag_eval_pipeline.scaffold.columns import Column, is_html
from rag_eval_pipeline.scaffold.headers import is_gold, normalised
from rag_eval_pipeline.scaffold.links import (
    LINKED_SHARE,
    Corpus,
    Link,
    document_tables,
    files_corpus,
    find_target,
    free_word,
    grouped_documents,
    table_corpus,
)
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.roles import Roles, list_forms
from rag_eval_pipeline.scaffold.row_links import holds_urls
from rag_eval_pipeline.scaffold.structs import find_pages, pages_corpus
from rag_eval_pipeline.scaffold.writer import ColumnExpr, Guess, context

# In brackets: a file, and perhaps a page of it, as assistants and the gold answers of their test sets cite.
MARK = r"\[([^\[\]#]+\.(?:pdf|html?|txt|md|docx?))(?:#page=[0-9]+)?\]"
DISTRACTORS = frozenset("negative negatives distractor distractors positive_wrong hard_negatives".split())
DOCUMENT_NAMES = "document_title page_title doc_title title article document_name doc_name page_name".split()
FLAT_SHARE = 0.9  # of the rows in which the ids of gold documents are among those of all
TURN_FIELDS = (("role", "content"), ("speaker", "text"), ("from", "value"))  # of a conversation


def with_corpus(profile: FolderProfile, file: DataFile, link: Link) -> Link:
    """Return a link of bare gold texts with the folder's documents, or else with documents made from the texts."""
    assert link.texts is not None
    tables = document_tables(profile, file)
    corpus = table_corpus(tables[0]) if tables else files_corpus(profile)
    if corpus.documents is not None:
        text = "contexts: the gold texts name no document, so they are looked for in all documents."
        return replace(link, corpus=corpus, guesses=(*link.guesses, Guess("questions", text)))
    word = free_word("part", file.columns)
    name = f"'text-' || left(md5({word}), 12)"
    expr = f"list_transform({link.texts}, lambda {word}: {context({'document': name, 'text': word})})"
    others = [
        c for c in file.columns if c.kind in {"text", "texts", "text lists"} and normalised(c.name) in DISTRACTORS
    ]
    lists = [link.texts, *(next(list_forms(column)).sql for column in others if column.present)]
    texts = lists[0] if len(lists) == 1 else f"list_concat({', '.join(f'coalesce({sql}, [])' for sql in lists)})"
    documents = f"""\
SELECT 'text-' || left(md5(body), 12) AS name, body AS text, min(source_row) AS source_row
FROM (SELECT source_row, unnest({texts}) AS body FROM source)
WHERE trim(body) <> ''
GROUP BY body"""
    text = (
        "documents: there are none in the folder, so each gold text is made a document, which makes retrieval easy. If "
        "you have the real documents, add them as `tables`, and change this query. If your system names its passages "
        "by ids, use these ids as names here and in `contexts`; by hashes, retrieval is scored only for a system that "
        "indexes the PDFs of this corpus."
    )
    if len(lists) > 1:
        text += f" Distractors: {', '.join(column.name for column in others)}."
    used = link.used | {column.name for column in others}
    guesses = (Guess("documents", text),)
    return Link({"contexts": ColumnExpr(expr)}, used, Corpus(documents=documents, guesses=guesses), link.guesses)


def row_page(file: DataFile, taken: Iterable[str]) -> Link | None:
    """Return the link from each row to the page of HTML that it holds; None if no column holds HTML."""
    columns = [column for column in file.columns if column.name not in set(taken) and is_gold(column)]
    pages = [column for column in columns if column.kind == "text" and is_html(column.present)]
    body = max(pages, key=lambda column: sum(map(len, column.present)), default=None)
    if body is None:
        return None
    urls = (column for column in columns if column.kind == "text" and holds_urls(column))
    titles = [column for word in DOCUMENT_NAMES for column in columns if normalised(column.name) == word]
    url, title = next(urls, None), next((column for column in titles if column.kind == "text"), None)
    key = url or title
    place = "url" if url is not None else "document"
    sql = key.sql if key is not None else f"'page-' || left(md5({body.sql}), 12)"
    documents = grouped_documents(
        f"SELECT source_row, {sql} AS title, {body.sql} AS paragraph FROM source",
        name="url" if url is not None else "name",
        body="html",
    )
    named = f"named by {key.name!r}" if key is not None else "named by a hash of their content"
    bodies = Counter(one for one, _ in {*zip(key.values, body.values, strict=True)}) if key is not None else Counter()
    shared = {one: count for one, count in bodies.items() if one and count > 1}
    joined = f" Different bodies with one name are joined: {sum(shared.values())} for {len(shared)} of the names."
    guesses = (
        Guess("questions", f"contexts: the page of the same row ({body.name!r}), {named}."),
        Guess("documents", f"documents: the HTML in {body.name!r}, {named}.{joined if shared else ''}"),
    )
    used = frozenset({body.name, *([key.name] if key is not None else [])})
    expr = f"CASE WHEN {body.sql} IS NULL THEN [] ELSE [{context({place: sql})}] END"
    corpus = Corpus(documents=documents, guesses=guesses[1:])
    return Link({"contexts": ColumnExpr(expr)}, used, corpus, guesses[:1], {place: sql})


def pages_link(profile: FolderProfile, file: DataFile) -> Link | None:
    """Return documents that the rows hold without saying which of them supports the answer; None without any."""
    if document_tables(profile, file) or profile.documents:
        return None
    found = find_pages(file)
    if found is None:
        return None
    text = (
        f"contexts: {found.column.name!r} holds pages and does not say which of them support the answer, so retrieval "
        "cannot be scored."
    )
    guesses = (Guess("questions", text),)
    return Link(used=frozenset({found.column.name}), corpus=pages_corpus(file, found), guesses=guesses)


def cited_link(profile: FolderProfile, file: DataFile, roles: Roles) -> Link | None:
    """Return the link to the files that the gold answers cite in brackets; None if fewer than half of them do."""
    name = roles.columns.get("answer")
    answer = next((column for column in (*file.columns, *file.nested) if column.name == name), None)
    if answer is None or answer.kind != "text":
        return None
    cited = [re.findall(MARK, text, re.IGNORECASE) for text in answer.present]
    if sum(map(bool, cited)) < LINKED_SHARE * len(cited) or not cited:
        return None
    word = free_word("part", file.columns)
    file_name = f"regexp_extract({word}, '^\\[([^#\\]]+)', 1)"
    values = list(dict.fromkeys(name for names in cited for name in names))
    target = find_target(profile, file, values)
    place = {"document": file_name} if target is None else {target.field: target.named(file_name)}
    fields = {**place, "page": f"TRY_CAST(regexp_extract({word}, '#page=([0-9]+)', 1) AS INTEGER)"}
    pattern = literal(f"(?i){MARK}")
    contexts = f"list_transform(regexp_extract_all({answer.sql}, {pattern}), lambda {word}: {context(fields)})"
    plain = f"trim(regexp_replace({answer.sql}, {literal(f'(?i)[[:space:]]*{MARK}')}, '', 'g'))"
    text = (
        f"contexts: the files and pages that {answer.name!r} cites in brackets, such as {values[0]!r}; the marks are "
        "removed from the answer."
    )
    corpus = Corpus() if target is None else target.corpus(values)
    exprs = {"answer": ColumnExpr(plain), "contexts": ColumnExpr(contexts)}
    return Link(exprs, frozenset(), corpus, (Guess("questions", text),))


def listed_link(file: DataFile) -> Link | None:
    """Return the link from a list of ids to the documents that two parallel lists of the same row hold; else None."""
    texts = [column for column in (*file.columns, *file.nested) if column.kind == "texts" and column.present]
    for gold in filter(is_gold, texts):
        for ids in texts:
            if ids is gold or not _is_among(gold, ids):
                continue
            bodies = [c for c in file.columns if c not in (gold, ids) and _texts_sql(c, "x") and _is_parallel(c, ids)]
            body = max(bodies, key=lambda column: len(str(column.present[:50])), default=None)
            if body is not None:
                return _listed(file, gold, ids, body)
    return None


def _listed(file: DataFile, gold: Column, ids: Column, body: Column) -> Link:
    word = free_word("part", file.columns)
    text_sql = _texts_sql(body, word)
    paragraphs = body.sql if text_sql == word else f"list_transform({body.sql}, lambda {word}: {text_sql})"
    documents = grouped_documents(f"""\
SELECT source_row, unnest({ids.sql}) AS title,
           unnest({paragraphs}) AS paragraph
    FROM source""")
    text = f"contexts: the documents whose ids are in {gold.name!r}, of those in {ids.name!r}."
    made = f"documents: made from {body.name!r}, named by the ids in {ids.name!r}, which is a list of equal length."
    expr = f"list_transform({gold.sql}, lambda {word}: {context({'document': word})})"
    corpus = Corpus(documents=documents, guesses=(Guess("documents", made),))
    used = frozenset({gold.name, ids.name, body.name})
    return Link({"contexts": ColumnExpr(expr)}, used, corpus, (Guess("questions", text),))


def _pairs(first: Column, second: Column) -> list[tuple[Sequence[Any], Sequence[Any]]]:
    return [(a, b) for a, b in zip(first.values, second.values, strict=True) if a and b]


def _is_among(gold: Column, ids: Column) -> bool:
    """Return whether one list is a part of the other in nearly every row, and not all of it in every row."""
    pairs = _pairs(gold, ids)
    inside = sum(set(some) <= set(every) for some, every in pairs)
    is_part = any(len(every) > len(some) for some, every in pairs)
    return bool(pairs) and is_part and inside >= FLAT_SHARE * sum(1 for value in gold.values if value)


def _is_parallel(column: Column, ids: Column) -> bool:
    pairs = _pairs(column, ids)
    return bool(pairs) and all(len(a) == len(b) for a, b in pairs)


def _texts_sql(column: Column, word: str) -> str | None:
    if column.kind == "texts":
        return word
    if column.kind == "text lists":
        return f"array_to_string({word}, ' ')"
    names = {field.name for field in column.fields}
    turn = next((pair for pair in TURN_FIELDS if set(pair) <= names), None)
    if column.kind != "struct lists" or turn is None:
        return None
    line = f"concat_ws(': ', turn.{turn[0]}, turn.{turn[1]})"
    return f"array_to_string(list_transform({word}, lambda turn: {line}), chr(10))"
