"""A mapped row as a question, or the reason why it is none.

Nothing is repaired: white space stays, a word is not guessed to mean false. A number or a boolean is its text, except
as a question, where it would be a column that was mixed up with another. What a row may lack is stated here once; every
refusal names the field, what was expected and what was found.
"""

import decimal
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from rag_eval_pipeline.conversion.mapped import MappedRow
from rag_eval_pipeline.conversion.row_fault import RowFault
from rag_eval_pipeline.conversion.row_metadata import metadata_of
from rag_eval_pipeline.errors import excerpt

QUERY_TYPES = frozenset({"factual", "analytical", "comparative", "temporal"})
DIFFICULTIES = frozenset({"easy", "medium", "hard"})
IMPOSSIBLE = {
    "true": True,
    "false": False,
    "1": True,
    "0": False,
}  # text that stands for a boolean; case does not matter

MAX_TEXT = 10_000_000  # characters
MAX_URL = 8_000  # characters; servers refuse longer request lines

EXACT_FLOAT = 2**53  # doubles up to here hold every whole number
_URL_REFUSED = re.compile(r"[\s\x00-\x20\x7f\\<>\"]")


class NamedContext(NamedTuple):
    """A context as the source names it: at most one of url, file, document."""

    url: str | None = None
    file: str | None = None
    document: str | None = None
    text: str | None = None
    page: int | None = None
    start: int | None = None
    end: int | None = None
    relevance: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A valid question whose documents have not been looked up.

    Args:
        notes: What a person should know of the row, worded alike for alike rows so that they can be counted.
        bad_urls: What stands where a URL is expected, of contexts that were left out for it.
    """

    question: str
    answer: str
    answers: tuple[str, ...]
    is_impossible: bool
    contexts: tuple[NamedContext, ...]
    source_id: str | None = None
    query_type: str | None = None
    difficulty: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bad_urls: tuple[str, ...] = ()


def validate(row: MappedRow, *, retrieval_only: bool = False, keep_without: bool = False) -> Draft:
    """The question of a row.

    Args:
        row: As the mapping gave it.
        retrieval_only: The benchmark has no answers: one may be missing, and then none is accepted.
        keep_without: A context whose URL is none is left out, and the question stays.

    Raises:
        RowFault: `empty_question`, `empty_answer`, `bad_type`, `bad_boolean`, `bad_url`, `bad_span`, `bad_page`,
            `bad_relevance`, `empty_context`, `bad_context`, `bad_metadata`, `bad_number`, `bad_character`,
            `text_too_long`.
    """
    values = row.values
    if row.fault is not None:
        raise row.fault
    if isinstance(values.get("question"), int | float | decimal.Decimal):
        raise RowFault("bad_type", "question", "text (in SQL: CAST(... AS VARCHAR))", values["question"])
    question = text_of(values.get("question"), "question")
    if question is None or not question.strip():
        raise RowFault("empty_question", "question", "a question", question)
    notes: list[str] = []
    is_impossible = _boolean(values.get("is_impossible"))
    answer, answers = _answers(values, is_impossible, notes, retrieval_only=retrieval_only)
    metadata = metadata_of(values.get("metadata"))
    made = _url_contexts(values["urls"]) if "urls" in values else _contexts(values.get("contexts"))
    contexts, bad_urls = [], []
    for context in made:
        try:
            if context.url is not None:
                check_url(context.url, "urls" if "urls" in values else "contexts.url")
        except RowFault as fault:
            if not keep_without:
                raise
            bad_urls.append(fault.excerpt or "")
        else:
            contexts.append(context)
    return Draft(
        question=question,
        answer=answer,
        answers=answers,
        is_impossible=is_impossible,
        contexts=tuple(contexts),
        source_id=_identifier(values.get("source_id")),
        query_type=_word(values.get("query_type"), "query_type", QUERY_TYPES, metadata, notes),
        difficulty=_word(values.get("difficulty"), "difficulty", DIFFICULTIES, metadata, notes),
        metadata=metadata,
        notes=tuple(notes),
        bad_urls=tuple(bad_urls),
    )


def check_url(url: object, field: str = "urls") -> str:
    """An http(s) URL that names one host and nothing that a fetcher could read in two ways.

    Raises:
        RowFault: `bad_url`.
    """
    expected = "an http(s) URL"
    if not isinstance(url, str) or len(url) > MAX_URL or _URL_REFUSED.search(url):
        raise RowFault("bad_url", field, expected, url)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise RowFault("bad_url", field, expected, url) from None
    folds = (
        unicodedata.normalize("NFKC", host) != host
    )  # full-width digits turn into an address behind the policy's back
    if parts.scheme not in {"http", "https"} or not host or folds or "@" in parts.netloc or "\x00" in unquote(url):
        raise RowFault("bad_url", field, expected, url)
    try:
        url.encode()
    except UnicodeEncodeError:
        raise RowFault("bad_url", field, expected, url) from None
    return url


def text_of(value: Any, field: str) -> str | None:
    """Return the text of a value; that of a number or a boolean is what JSON writes for it.

    Raises:
        RowFault: `bad_type`, `bad_character`, `text_too_long`.
    """
    if value is None:
        return None
    text = scalar_text(value)
    if text is None:
        hint = "a list of accepted answers is `answers`" if field == "answer" else "in SQL: CAST(... AS VARCHAR)"
        raise RowFault("bad_type", field, f"text ({hint})", value)
    if len(text) > MAX_TEXT:
        raise RowFault("text_too_long", field, f"at most {MAX_TEXT} characters", text)
    if "\x00" in text:
        raise RowFault("bad_character", field, "text without NUL", text)
    return text


def scalar_text(value: Any) -> str | None:
    """Return a text as it is, a number or a boolean as JSON writes it; None for anything else, NaN included."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | decimal.Decimal):
        return str(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return None
    # A column of 12 and 0.5 is one of doubles, in which 12 still means 12.
    return str(int(value)) if value.is_integer() and abs(value) < EXACT_FLOAT else repr(value)


def _boolean(value: Any) -> bool:
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    meant = IMPOSSIBLE.get(str(value).lower()) if isinstance(value, str | int) else None
    if meant is None:
        raise RowFault("bad_boolean", "is_impossible", "true, false, 1, 0 or NULL", value)
    return meant


def _answers(
    values: Mapping[str, Any], is_impossible: bool, notes: list[str], *, retrieval_only: bool
) -> tuple[str, tuple[str, ...]]:
    """The answer and all accepted ones."""
    answer = text_of(values.get("answer"), "answer")
    given = values.get("answers")
    if scalar_text(given) is not None:
        given = [given]
    if given is not None and not isinstance(given, list):
        raise RowFault("bad_type", "answers", "a list of texts", given)
    aliases = [text_of(item, "answers") for item in given or ()]
    if is_impossible:
        if aliases:
            notes.append("answers of impossible questions are left out")
        return answer or "", ()
    if answer is None and aliases:
        answer = aliases[0]
    if retrieval_only and not answer and not aliases:
        return "", ()
    if answer is None or not answer.strip():
        raise RowFault("empty_answer", "answer", "an answer, or is_impossible", answer)
    accepted = []
    for alias in aliases:
        if alias is None or not alias.strip():
            raise RowFault("empty_answer", "answers", "texts", given)
        accepted.append(alias)
    return answer, tuple(dict.fromkeys([answer, *accepted]))


def _url_contexts(value: Any) -> tuple[NamedContext, ...]:
    """One context a URL; the empty cell of a CSV has none."""
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise RowFault("bad_type", "urls", "a list of URLs, or one", value)
    return tuple(NamedContext(url="" if url is None else url) for url in value)


def _contexts(value: Any) -> tuple[NamedContext, ...]:
    if value is None or value == "":
        return ()
    if scalar_text(value) is not None or isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        raise RowFault("bad_type", "contexts", "a list of structs or texts, or one text", value)
    return tuple(_context(item) for item in value)


def _context(item: Any) -> NamedContext:
    if scalar_text(item) is not None:
        item = {"text": item}
    if not isinstance(item, dict):
        raise RowFault("empty_context", "contexts", "a struct or a text", item)
    if unknown := [name for name in item if name not in NamedContext._fields]:
        raise RowFault("bad_context", "contexts", f"the fields {', '.join(NamedContext._fields)}", unknown)
    named = [name for name in ("url", "file", "document") if item.get(name) is not None]
    text = text_of(item.get("text"), "contexts.text")
    if len(named) > 1:
        raise RowFault("bad_context", "contexts", "one of url, file, document", item)
    if (not named and text is None) or (text is not None and not text.strip()):
        raise RowFault("empty_context", "contexts", "a document, a text, or both", item)
    names = {name: text_of(item.get(name), f"contexts.{name}") for name in ("file", "document")}
    for name, given in names.items():
        if given == "":
            raise RowFault("empty_context", f"contexts.{name}", "a name", item)
    page = _whole(item.get("page"), "contexts.page", "bad_page", 1)
    start = _whole(item.get("start"), "contexts.start", "bad_span", 0)
    end = _whole(item.get("end"), "contexts.end", "bad_span", 0)
    if (start is None) != (end is None) or (start is not None and end is not None and start >= end):
        raise RowFault("bad_span", "contexts", "start < end, or neither", {"start": start, "end": end})
    relevance = _whole(item.get("relevance"), "contexts.relevance", "bad_relevance", 0)
    return NamedContext(item.get("url"), names["file"], names["document"], text, page, start, end, relevance)


def _identifier(value: Any) -> str | None:
    if isinstance(value, bool | float):  # 12.0 and 12 would be one id
        raise RowFault("bad_type", "source_id", "text or a whole number (in SQL: CAST(... AS VARCHAR))", value)
    return text_of(value, "source_id")


def _whole(value: Any, field: str, code: str, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, decimal.Decimal) and value == value.to_integral_value():
        value = int(value)  # DuckDB sums integers to a wider type, which Arrow hands over as a decimal
    if type(value) is not int or value < least:
        raise RowFault(code, field, f"a whole number from {least}", value)
    return value


def _word(value: Any, field: str, known: frozenset[str], metadata: dict[str, Any], notes: list[str]) -> str | None:
    """A word of the specification; any other is kept in metadata as `<field>_source`."""
    word = text_of(value, field)
    if word is None or word == "" or word in known:
        return word or None
    metadata[f"{field}_source"] = word
    notes.append(word_note(field, word))
    return None


def word_note(field: str, word: str) -> str:
    """What is said of a word that is not the specification's."""
    return f"{field}: {excerpt(word)} is kept as metadata.{field}_source"
