"""Questions, the rows that become them, and the reasons why a row is refused.

Nothing is repaired: white space stays, and a word is not guessed to mean false. A number or a boolean is its text,
except as a question, where it would be a column that was mixed up with another.
"""

import datetime
import decimal
import functools
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.sources.batches import RowError as DecodeError
from rag_eval_pipeline.sources.jsonl import json_value

QUERY_TYPES = frozenset({"factual", "analytical", "comparative", "temporal"})
DIFFICULTIES = frozenset({"easy", "medium", "hard"})
# Texts that are booleans; case does not matter.
IMPOSSIBLE = {"true": True, "false": False, "1": True, "0": False}

MAX_TEXT = 10_000_000  # characters
MAX_URL = 8_000  # characters; servers refuse longer request lines
MAX_WHOLE = 2**63 - 1  # what a column of questions.parquet holds
EXACT_FLOAT = 2**53  # doubles up to here hold every whole number

_URL_REFUSED = re.compile(r"[\s\x00-\x20\x7f\\<>\"]")
# URLs that are certainly good: a host of ASCII letters, no port, no user name.
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?:/[A-Za-z0-9_.~!$&'()*+,;=:@%/?#-]*)?")
# Answers that say that there is none, folded and without a full stop.
NO_ANSWERS = frozenset(
    spelled
    for text in (
        *("unanswerable", "not answerable", "cannot be answered", "can't be answered", "no answer", "no answer found"),
        *("no answer present", "no answer available", "i don't know", "i do not know"),
        *("invalid question", "insufficient information", "not enough information"),
    )
    for spelled in (text, text.replace("'", "’"))
)
ESCAPED_AMPERSAND = "&amp;"
_METADATA = "a struct, a map or a JSON object"
AMPERSAND_NOTE = "urls: `&amp;` is read as `&`"


class Context(msgspec.Struct, frozen=True):
    """A document, or a text, that supports the answer."""

    document: str | None  # `PlannedDocument.key`; None when the source gives a text without a document
    file_name: str | None  # exact basename in the corpus; None exactly when `document` is
    text: str | None = None
    page: int | None = None  # 1-based, as the source gives it
    start: int | None = None  # of the gold text in the source's own body, in code points; in no product file
    end: int | None = None
    relevance: int | None = None  # grade of the document for the question, as in qrels
    url: str | None = None  # as the question names the document


class Question(msgspec.Struct, frozen=True):
    """An accepted row of a benchmark."""

    id: int  # 0-based row of the `questions` query; does not move when other rows are dropped
    question: str  # as in the source, white space included
    answer: str  # "" only when impossible
    answers: tuple[str, ...]  # all accepted answers, `answer` first, without repeats; empty when impossible
    is_impossible: bool  # the corpus has no answer; a correct system abstains
    contexts: tuple[Context, ...]  # in the source's order
    source_id: str | None = None
    query_type: str | None = None  # one of the specification's words; others are kept in `metadata`
    difficulty: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)  # JSON values
    source_file: str | None = None  # relative to the benchmark's folder
    source_row: int | None = None  # 1-based


class NamedContext(msgspec.Struct, frozen=True):
    """A context as the source names it: at most one of url, file, document."""

    url: str | None = None
    file: str | None = None
    document: str | None = None
    text: str | None = None
    page: int | None = None
    start: int | None = None
    end: int | None = None
    relevance: int | None = None


CONTEXT_FIELDS = NamedContext.__struct_fields__


class ValidRow(msgspec.Struct, frozen=True):
    """A valid row whose documents have not been resolved."""

    question: str
    answer: str
    answers: tuple[str, ...]
    is_impossible: bool
    contexts: tuple[NamedContext, ...]
    source_id: str | None
    query_type: str | None
    difficulty: str | None
    metadata: dict[str, Any]
    notes: tuple[str, ...]  # equal for alike rows, so that they can be counted
    bad_urls: tuple[str, ...]  # excerpts, of contexts that were left out


class RowError(Exception):
    """The reason why a row is refused: the facts of its quarantine record."""

    def __init__(self, code: str, field: str | None, expected: str, found: object = None) -> None:
        super().__init__(code)
        self.code, self.field, self.expected = code, field, expected
        self.excerpt = None if found is None else excerpt(found)

    @classmethod
    def from_bad_row(cls, bad: DecodeError, field: str) -> "RowError":
        """Return the error of a value that could not be decoded, in its field."""
        error = cls(bad.code, field, bad.expected)
        error.excerpt = bad.found  # an excerpt already
        return error


def validate_row(values: Mapping[str, Any], *, retrieval_only: bool = False, skip_bad_urls: bool = False) -> ValidRow:
    """Return the question of a mapped row, whose values are named as in `QuestionColumns`.

    With `skip_bad_urls`, contexts with a bad URL are left out, instead of refusing the row.

    Raises:
        RowError: `empty_question`, `empty_answer`, `bad_type`, `bad_boolean`, `bad_url`, `bad_span`, `bad_page`,
            `bad_relevance`, `empty_context`, `bad_context`, `bad_metadata`, `bad_number`, `bad_character`,
            `text_too_long`.
    """
    value = values.get("question")
    if isinstance(value, int | float | decimal.Decimal):
        raise RowError("bad_type", "question", "text (in SQL: CAST(... AS VARCHAR))", value)
    question = text_of(value, "question")
    if question is None or not question.strip():
        raise RowError("empty_question", "question", "a question", question)
    notes: list[str] = []
    is_impossible = _boolean(values.get("is_impossible"))
    if values.get("is_impossible") is None and (refusal := _stated_refusal(values)) is not None:
        is_impossible = True
        notes.append(
            f"answer: {excerpt(refusal)} says that there is none, so is_impossible is true unless it is stated"
        )
    answer, answers = _answers(values, is_impossible, notes, retrieval_only=retrieval_only)
    metadata = metadata_of(values.get("metadata"))
    if "urls" in values:
        contexts, url_field = _url_contexts(values["urls"]), "urls"
    elif "files" in values:
        contexts, url_field = _file_contexts(values["files"]), ""
    else:
        contexts, url_field = _contexts(values.get("contexts")), "contexts.url"
    if any(ESCAPED_AMPERSAND in context.url for context in contexts if isinstance(context.url, str)):
        contexts = [_unescaped(context) for context in contexts]
        notes.append(AMPERSAND_NOTE)
    bad_urls: list[str] = []
    for context in contexts:
        if context.url is not None:
            try:
                check_url(context.url, url_field)
            except RowError as error:
                if not skip_bad_urls:
                    raise
                bad_urls.append(error.excerpt or "")
                contexts = [other for other in contexts if other is not context]
    source_id = values.get("source_id")
    if isinstance(source_id, bool | float):  # 12.0 and 12 would be one id
        raise RowError("bad_type", "source_id", "text or a whole number (in SQL: CAST(... AS VARCHAR))", source_id)
    return ValidRow(
        question,
        answer,
        answers,
        is_impossible,
        tuple(contexts),
        text_of(source_id, "source_id"),
        _word(values.get("query_type"), "query_type", QUERY_TYPES, metadata, notes),
        _word(values.get("difficulty"), "difficulty", DIFFICULTIES, metadata, notes),
        metadata,
        tuple(notes),
        tuple(bad_urls),
    )


def says_no_answer(answer: str) -> bool:
    """Return whether an answer says that the question has none."""
    return answer.strip().rstrip(".").lower() in NO_ANSWERS


def _stated_refusal(values: Mapping[str, Any]) -> str | None:
    """Return the answer if it, or each of several, says that the question has none; else None."""
    answer = values.get("answer")
    stated = values.get("answers") if answer is None else answer
    texts = stated if isinstance(stated, list) else [stated]
    is_refusal = bool(texts) and all(isinstance(text, str) and says_no_answer(text) for text in texts)
    return texts[0] if is_refusal else None


def unescaped_url(url: str) -> str:
    """Return a URL with `&` for `&amp;`, which is left in tables made from web pages."""
    return url.replace(ESCAPED_AMPERSAND, "&")


def check_url(url: object, field: str = "urls") -> str:
    """Return an http(s) URL that names one host and that no fetcher can read in two ways, or refuse it (`bad_url`)."""
    if not isinstance(url, str) or not _is_url(url):
        raise RowError("bad_url", field, "an http(s) URL", url)
    return url


def text_of(value: Any, field: str) -> str | None:
    """Return the text of a value; that of a number or a boolean is what JSON writes for it."""
    if value is None:
        return None
    text = value if type(value) is str else scalar_text(value)
    if text is None:
        hint = "a list of accepted answers is `answers`" if field == "answer" else "in SQL: CAST(... AS VARCHAR)"
        raise RowError("bad_type", field, f"text ({hint})", value)
    if len(text) > MAX_TEXT:
        raise RowError("text_too_long", field, f"at most {MAX_TEXT} characters", text)
    if "\x00" in text:
        raise RowError("bad_character", field, "text without NUL", text)
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


def metadata_of(value: Any) -> dict[str, Any]:
    """Return the metadata of a row as JSON values, given as a struct, a map or a JSON object."""
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = json_value(value)
        except DecodeError as bad:
            if bad.code == "bad_json":
                raise RowError("bad_metadata", "metadata", _METADATA, value) from None
            raise RowError.from_bad_row(bad, "metadata") from None
    if isinstance(value, dict):
        return _json_object(value.items())
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):  # how Arrow gives a MAP
        return _json_object(value)
    raise RowError("bad_metadata", "metadata", _METADATA, value)


@functools.lru_cache(100_000)
def _is_url(url: str) -> bool:
    if len(url) > MAX_URL or _URL_REFUSED.search(url):
        return False
    if _PLAIN_URL.fullmatch(url) and "%00" not in url:
        return True
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        url.encode()
    except ValueError:
        return False
    # Full-width digits would turn into an address after the egress policy has checked them.
    folds = unicodedata.normalize("NFKC", host) != host
    return bool(
        parts.scheme in {"http", "https"}
        and host
        and not folds
        and "@" not in parts.netloc
        and "\x00" not in unquote(url)
    )


def _boolean(value: Any) -> bool:
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    meant = IMPOSSIBLE.get(str(value).lower()) if isinstance(value, str | int) else None
    if meant is None:
        raise RowError("bad_boolean", "is_impossible", "true, false, 1, 0 or NULL", value)
    return meant


def _answers(
    values: Mapping[str, Any], is_impossible: bool, notes: list[str], *, retrieval_only: bool
) -> tuple[str, tuple[str, ...]]:
    """Return the answer and all accepted ones."""
    answer = text_of(values.get("answer"), "answer")
    given = values.get("answers")
    if given is not None and not isinstance(given, list):
        if scalar_text(given) is None:
            raise RowError("bad_type", "answers", "a list of texts", given)
        given = [given]
    aliases = [text_of(item, "answers") for item in given] if given else []
    if is_impossible:
        if aliases:
            notes.append("answers of impossible questions are left out")
        return answer or "", ()
    if answer is None and aliases:
        answer = aliases[0]
    if retrieval_only and not answer and not aliases:
        return "", ()
    if answer is None or not answer.strip():
        raise RowError("empty_answer", "answer", "a non-empty answer, or is_impossible = true", answer)
    accepted = {answer: None}
    for alias in aliases:
        if alias is None or not alias.strip():
            raise RowError("empty_answer", "answers", "texts", given)
        accepted[alias] = None
    return answer, tuple(accepted)


def _url_contexts(value: Any) -> list[NamedContext]:
    """Return one context for each URL; the empty cell of a CSV has none."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise RowError("bad_type", "urls", "a list of URLs, or one", value)
    return [NamedContext("" if url is None else url) for url in value]


def _unescaped(context: NamedContext) -> NamedContext:
    url = context.url
    return msgspec.structs.replace(context, url=unescaped_url(url)) if isinstance(url, str) else context


def _file_contexts(value: Any) -> list[NamedContext]:
    """Return one context for each file name; the empty cell of a CSV has none."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise RowError("bad_type", "files", "a list of file names, or one", value)
    return [NamedContext(file=name) for name in value]


def _contexts(value: Any) -> list[NamedContext]:
    if value is None or value == "":
        return []
    if isinstance(value, dict) or scalar_text(value) is not None:
        value = [value]
    if not isinstance(value, list):
        raise RowError("bad_type", "contexts", "a list of structs or texts, or one text", value)
    return [_context(item) for item in value]


def _context(item: Any) -> NamedContext:
    if isinstance(item, dict):
        unknown = [name for name in item if name not in CONTEXT_FIELDS]
        if unknown:
            raise RowError("bad_context", "contexts", f"the fields {', '.join(CONTEXT_FIELDS)}", unknown)
    elif scalar_text(item) is not None:
        item = {"text": item}
    else:
        raise RowError("empty_context", "contexts", "a struct or a text", item)
    url, text = item.get("url"), text_of(item.get("text"), "contexts.text")
    file, document = text_of(item.get("file"), "contexts.file"), text_of(item.get("document"), "contexts.document")
    named = 3 - (url, file, document).count(None)
    if named > 1:
        raise RowError("bad_context", "contexts", "one of url, file, document", item)
    if (not named and text is None) or (text is not None and not text.strip()):
        raise RowError("empty_context", "contexts", "a document, a text, or both", item)
    if "" in (file, document):
        raise RowError("empty_context", f"contexts.{'file' if file == '' else 'document'}", "a name", item)
    page = _whole(item.get("page"), "contexts.page", "bad_page", 1)
    start = _whole(item.get("start"), "contexts.start", "bad_span", 0)
    end = _whole(item.get("end"), "contexts.end", "bad_span", 0)
    if (start is None) != (end is None) or (start is not None and end is not None and start >= end):
        raise RowError("bad_span", "contexts", "start < end, or neither", {"start": start, "end": end})
    relevance = _whole(item.get("relevance"), "contexts.relevance", "bad_relevance", 0)
    return NamedContext(url, file, document, text, page, start, end, relevance)


def _whole(value: Any, field: str, code: str, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, decimal.Decimal) and value == value.to_integral_value():
        value = int(value)  # DuckDB sums integers to a wider type, which Arrow hands over as a decimal
    if type(value) is not int or value < least:
        raise RowError(code, field, f"a whole number from {least}", value)
    if value > MAX_WHOLE:
        raise RowError(code, field, f"a whole number of at most {MAX_WHOLE}", value)
    return value


def _word(value: Any, field: str, known: frozenset[str], metadata: dict[str, Any], notes: list[str]) -> str | None:
    """Return a word of the specification; any other is kept in metadata as `<field>_source`."""
    word = text_of(value, field)
    if not word or word in known:
        return word or None
    metadata[f"{field}_source"] = word
    notes.append(word_note(field, word))
    return None


def word_note(field: str, word: str) -> str:
    """Return the note on a word that is not one of the specification's."""
    return f"{field}: {excerpt(word)} is kept as metadata.{field}_source"


def _json_object(members: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in members:
        if str(key) in value:
            raise RowError("duplicate_key", "metadata", "each key once", str(key))
        value[str(key)] = _json_value(item)
    return value


def _json_value(value: Any) -> Any:
    """Return a value as JSON can hold it: dates as ISO 8601, decimals as numbers."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, decimal.Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise RowError("bad_number", "metadata", "finite numbers", value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):
            return _json_object(value)
        return [_json_value(item) for item in value]
    if isinstance(value, dict):
        return _json_object(value.items())
    raise RowError("bad_metadata", "metadata", "JSON values", value)
