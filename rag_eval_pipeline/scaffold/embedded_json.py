"""Documents and links inside the rows: gold texts, pages of HTML, and citations in answers.

They are proposed only where neither a column names documents that are there, nor files that could be the corpus lie
beside the questions.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from rag_eval_pipeline.conversion.mapping import literal
from rag_eval_pipeline.scaffold.columns import is_html
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
