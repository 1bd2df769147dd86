"""HotpotQA and its kin: each question brings ten titled paragraphs, of which some support the answer.

Paragraphs are parallel lists (title, sentences) or, as first published, pairs of title and sentences.
"""

from typing import NamedTuple

from rag_eval_pipeline.proposal.columns import Column, DataFile
from rag_eval_pipeline.proposal.draft import Draft, Guess, Piece, identifier, struct
from rag_eval_pipeline.proposal.links import free_word
from rag_eval_pipeline.proposal.looking import Seen
from rag_eval_pipeline.proposal.passages import grouped_documents
from rag_eval_pipeline.proposal.roles import find_roles


class Paragraphs(NamedTuple):
    """SQL of three lists: titles, paragraphs in the same order, titles of those that support the answer."""

    titles: str
    paragraphs: str
    supporting: str


def hotpot(seen: Seen) -> Draft | None:
    """Questions with `context` and `supporting_facts`; None when no relation has both."""
    for file in seen.data:
        context, facts = file.column("context"), file.column("supporting_facts")
        if context is None or facts is None:
            continue
        word = free_word("part", file.columns)
        found = _parallel(context, facts, word) or _pairs(context, facts, word)
        roles = find_roles(file, (context.name, facts.name))
        if found is not None and "question" in roles.pieces:
            return _draft(file, found, roles.pieces, roles.metadata, roles.guesses)
    return None


def _parallel(context: Column, facts: Column, word: str) -> Paragraphs | None:
    sentences = next((f.name for f in context.fields if f.kind == "text lists"), None)
    if context.kind != "struct" or sentences is None or "texts" not in {context.field_kind("title")}:
        return None
    if facts.kind != "struct" or facts.field_kind("title") != "texts":
        return None
    name = identifier(sentences)
    first = [value[sentences] for value in context.present[:100]]
    glue = _glue([inner for value in first for inner in value or () if inner])
    joined = f"array_to_string({word}, {glue})"
    return Paragraphs(
        '"context".title',
        f'list_transform("context".{name}, lambda {word}: {joined})',
        '"supporting_facts".title',
    )


def _pairs(context: Column, facts: Column, word: str) -> Paragraphs | None:
    """Pairs of a title and its sentences, which have no common type, so that each stands as JSON text."""
    if context.kind != "text lists" or facts.kind != "text lists":
        return None
    pairs = [pair for value in context.present for pair in value if pair is not None]
    if not all(len(pair) == 2 and pair[0][:1] == '"' and pair[1][:1] == "[" for pair in pairs):
        return None
    import json

    glue = _glue([json.loads(pair[1]) for pair in pairs[:1000]])
    sentences = f"""from_json({word}[2], '["VARCHAR"]')"""
    return Paragraphs(
        f"""list_transform("context", lambda {word}: json_extract_string({word}[1], '$'))""",
        f'list_transform("context", lambda {word}: array_to_string({sentences}, {glue}))',
        f"""list_transform("supporting_facts", lambda {word}: json_extract_string({word}[1], '$'))""",
    )


def _glue(paragraphs: list[list[str]]) -> str:
    """What stands between sentences: nothing where they bring their blanks, else a blank."""
    borders = [(a, b) for sentences in paragraphs for a, b in zip(sentences, sentences[1:], strict=False) if a and b]
    blank = sum(a[-1].isspace() or b[0].isspace() for a, b in borders)
    return "''" if 2 * blank >= len(borders) and borders else "' '"


def _draft(
    file: DataFile, found: Paragraphs, pieces: dict[str, Piece], metadata: tuple[str, ...], guesses: tuple[Guess, ...]
) -> Draft:
    columns = [f"{piece.sql} AS {ours}" for ours, piece in pieces.items()]
    if metadata:
        columns.append(f"{struct({name: identifier(name) for name in metadata})} AS metadata")
    kept = ",\n         ".join(columns)
    ours = ", ".join([*pieces, *(["metadata"] if metadata else [])])
    questions = f"""\
SELECT {ours},
       list_transform(
         list_filter(list_zip(titles, paragraphs), lambda pair: list_contains(supporting, pair[1])),
         lambda pair: {{document: pair[1], text: pair[2]}}
       ) AS contexts
FROM (
  SELECT {kept},
         {found.titles} AS titles,
         {found.paragraphs} AS paragraphs,
         {found.supporting} AS supporting
  FROM source
)"""
    documents = grouped_documents(
        f"SELECT source_row, unnest({found.titles}) AS title,\n           unnest({found.paragraphs}) AS paragraph\n"
        "    FROM source"
    )
    return Draft(
        shape="HotpotQA",
        source=file.origin,
        questions=questions,
        documents=documents,
        guesses=(
            *guesses,
            Guess("questions", "contexts: the whole paragraphs of the titles in 'supporting_facts'."),
            Guess(
                "documents",
                "documents: one a title, with all different paragraphs that questions bring under it; those that "
                "support no answer are what a system has to tell apart.",
            ),
        ),
    )
