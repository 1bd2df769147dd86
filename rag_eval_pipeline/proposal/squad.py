"""SQuAD: nested articles, paragraphs and questions, or a row a question as data sets are published elsewhere.

An article's paragraphs, joined by an empty line, are one document; answers are counted from the start of it.
`plausible_answers` of unanswerable questions are never read.
"""

from rag_eval_pipeline.proposal.columns import Column, DataFile, Field
from rag_eval_pipeline.proposal.draft import Draft, Guess, identifier, struct
from rag_eval_pipeline.proposal.links import free_word
from rag_eval_pipeline.proposal.looking import Seen
from rag_eval_pipeline.proposal.words import ROLES, normalised

_DOCUMENT_GUESS = Guess(
    "documents",
    "documents: one an article, its paragraphs joined by empty lines. For one a paragraph, take its text as document.",
)
_ANSWER_GUESS = Guess(
    "questions",
    "answer: the first annotator's; the others are accepted too. contexts: where the answer stands in the document.",
)


def nested_squad(seen: Seen) -> Draft | None:
    """Articles with `paragraphs`, their `context` and `qas`; None when no relation has them."""
    for file in seen.data:
        paragraphs = file.column("paragraphs")
        qas = _field(paragraphs.fields, "qas") if paragraphs is not None else None
        if paragraphs is None or qas is None or paragraphs.field_kind("context") != "text":
            continue
        names = {item.name for item in qas.fields}
        if {"question", "answers"} <= names and _field(qas.fields, "answers") is not None:
            return _nested(file, names, has_title=file.column("title") is not None)
    return None


def _nested(file: DataFile, names: set[str], *, has_title: bool) -> Draft:
    title = "title" if has_title else "'article-' || source_row"
    is_impossible = "coalesce(qa.is_impossible, false)" if "is_impossible" in names else "len(qa.answers) = 0"
    identity = "CAST(qa.id AS VARCHAR) AS source_id, " if "id" in names else ""
    questions = f"""\
SELECT {identity}qa.question, {is_impossible} AS is_impossible,
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
    unanswerable = "is_impossible: as the file says" if "is_impossible" in names else "is_impossible: without answers"
    return Draft(
        shape=f"SQuAD ({'2: with' if 'is_impossible' in names else '1: without'} unanswerable questions), nested",
        source=file.origin,
        questions=questions,
        documents=documents,
        guesses=(Guess("questions", f"{unanswerable}."), _ANSWER_GUESS, _DOCUMENT_GUESS),
    )


def flat_squad(seen: Seen) -> Draft | None:
    """Rows of question, context and `answers` with texts and starts in that context; None when no relation has them."""
    for file in seen.data:
        answers = next((c for c in file.columns if c.kind == "struct" and c.field_kind("text") == "texts"), None)
        question, body = _text(file, "question"), _text(file, "context")
        if answers is None or question is None or body is None:
            continue
        if any(field.name == "answer_start" for field in answers.fields):
            return _flat(file, question, body, answers)
    return None


def _flat(file: DataFile, question: Column, body: Column, answers: Column) -> Draft:
    title = _text(file, "title")
    identity = next((c for c in file.columns if c.is_unique and normalised(c.name) in ROLES["source_id"]), None)
    article = identifier(title.name) if title is not None else f"'passage-' || left(md5({identifier(body.name)}), 12)"
    used = {column.name for column in (question, body, answers, title, identity) if column is not None}
    own = f"CAST({identifier(identity.name)} AS VARCHAR) AS source_id, " if identity is not None else ""
    given = identifier(answers.name)
    rest = [c for c in file.columns if c.name not in used and c.kind in {"text", "integer", "boolean"}]
    metadata = f",\n         {struct({c.name: identifier(c.name) for c in rest})} AS metadata" if rest else ""
    kept = ", metadata" if rest else ""
    # The questions are joined with the places of their paragraphs, and SQL gives such rows no order: source_row does.
    questions = f"""\
SELECT {"source_id, " if own else ""}question, given.text[1] AS answer, given.text AS answers,
       len(given.text) = 0 AS is_impossible{kept},
       CASE WHEN len(given.text) = 0 THEN [] ELSE [{{
         document: asked.article,
         text: given.text[1],
         start: paragraph_start + given.answer_start[1],
         "end": paragraph_start + given.answer_start[1] + length(given.text[1])
       }}] END AS contexts,
       source_file, source_row
FROM (
  SELECT {own}{identifier(question.name)} AS question, {article} AS article, {identifier(body.name)} AS paragraph,
         {given} AS given{metadata}, source_file, source_row
  FROM source
) AS asked
JOIN (
  SELECT article, paragraph, CAST(coalesce(sum(length(paragraph) + 2) OVER (
           PARTITION BY article ORDER BY first_row ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS BIGINT)
           AS paragraph_start
  FROM (SELECT {article} AS article, {identifier(body.name)} AS paragraph, min(source_row) AS first_row
        FROM source GROUP BY ALL)
) AS placed ON asked.article = placed.article AND asked.paragraph = placed.paragraph"""
    documents = f"""\
SELECT article AS name, string_agg(paragraph, chr(10) || chr(10) ORDER BY first_row) AS text
FROM (SELECT {article} AS article, {identifier(body.name)} AS paragraph, min(source_row) AS first_row
      FROM source GROUP BY ALL)
GROUP BY article
ORDER BY min(first_row)"""
    return Draft(
        shape="SQuAD, a row a question",
        source=file.origin,
        questions=questions,
        documents=documents,
        guesses=(
            Guess("questions", f"is_impossible: where {answers.name!r} is empty."),
            _ANSWER_GUESS,
            _DOCUMENT_GUESS
            if title is not None
            else Guess("documents", "documents: one a paragraph; no title is here."),
        ),
        unused=tuple(c.described for c in file.columns if c.name not in used and c not in rest),
    )


def _text(file: DataFile, word: str) -> Column | None:
    return next((c for c in file.columns if normalised(c.name) == word and c.kind == "text"), None)


def _field(fields: tuple[Field, ...], name: str) -> Field | None:
    """A field that is a list of structs."""
    return next((field for field in fields if field.name == name and field.kind == "structs"), None)
