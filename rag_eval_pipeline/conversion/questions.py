"""Questions, the rows that become them, and the reasons why a row is refused.

Nothing is repaired: white space stays, and a word is not guessed to mean false. A number or a boolean is its text,
except as a question, where it would be a column that was mixed up with another.
"""

import datetime
import decimal
import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from rag_eval_pipeline.sources.batches import RowError
from rag_eval_pipeline.sources.jsonl import json_value
from rag_eval_pipeline.storage.python_literals import python_literal
from rag_eval_pipeline.text.folding import scalar_text
from rag_eval_pipeline.web.urls import is_requestable

QUERY_TYPES = frozenset({"factual", "analytical", "comparative", "temporal"})
DIFFICULTIES = frozenset({"easy", "medium", "hard"})
# Texts that are booleans; case does not matter.
IMPOSSIBLE = {"true": True, "false": False, "1": True, "0": False}

MAX_TEXT = 10_000_000  # characters
MAX_WHOLE = 2**63 - 1  # what a column of questions.parquet holds

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
# Words for a value that is missing, and for an answer that the documents do not have; some are answers, too: None.
_NOTHING = (
    "n/a|na|n.a.|n.a|#n/a|#na|#ref!|#value!|#name?|#null!|#div/0!|null|nil|nan|none|\\n|tbd|todo|undefined|unknown|"
    "missing|empty|not applicable|not available|not found|not specified|not mentioned|not stated|not in kb|"
    "not in the kb|not in the knowledge base|not in knowledge base|not in docs|not in the docs|not in documents|"
    "not in the documents|not in the document|not in the context|not in context|no information|out of scope|"
    "nicht in den dokumenten|nicht im dokument|nicht in den unterlagen|pas dans les documents|"
    "no está en los documentos|"
    "keine angabe|k.a.|k. a.|keine antwort|nicht angegeben|nicht vorhanden|sans réponse|non renseigné|non disponible|"
    "sin respuesta|no disponible|nessuna risposta|non specificato|sem resposta|geen antwoord|brak|brak odpowiedzi|"
    "cevap yok|yok|нет|нет ответа|нет данных|无|沒有|没有答案|なし|該当なし|없음"
)
NOTHING = frozenset(_NOTHING.split("|"))
NO_WORD = r"^\s*[-–—?.…_*/\\]+\s*$"  # a dash or a question mark instead of an answer
ESCAPED_AMPERSAND = "&amp;"
# Keys of a message and names of who speaks, of OpenAI, ShareGPT, MTRAG and LangChain -> roles of OpenAI.
_ROLE_KEYS, _CONTENT_KEYS = ("role", "from", "speaker", "type"), ("content", "value", "text")
_ROLES = {
    "user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant", "agent": "assistant",
    "ai": "assistant", "bot": "assistant", "model": "assistant", "system": "system",
}  # fmt: skip
SPEAKERS = frozenset((*_ROLES, "tool", "function", "developer"))
# Keys of a question and its answer in one object.
_EXCHANGES = (
    *(("user", "assistant"), ("human", "ai"), ("user", "bot"), ("question", "answer"), ("query", "answer")),
    *(("query", "response"), ("input", "output"), ("q", "a")),
)
_SPEAKER = re.compile(rf"^[ \t]*({'|'.join(_ROLES)})[ \t]*:[ \t]*", re.IGNORECASE | re.MULTILINE)
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
    answer: str  # "" only when impossible; of an impossible question it is not used
    answers: tuple[str, ...]  # all accepted answers, `answer` first, without repeats; empty when impossible
    is_impossible: bool  # the corpus has no answer; a correct system abstains
    contexts: tuple[Context, ...]  # in the source's order
    source_id: str | None = None
    query_type: str | None = None  # one of the specification's words; others are kept in `metadata`
    difficulty: str | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)  # JSON values
    source_file: str | None = None  # relative to the benchmark's folder
    source_row: int | None = None  # 1-based
    source_item: str | None = None  # where several questions come from the row: the own id, or #2 for the second


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


def says_no_answer(answer: str) -> bool:
    """Return whether an answer says that the question has none."""
    return answer.strip().rstrip(".").lower() in NO_ANSWERS


def stands_for_nothing(answer: str) -> bool:
    """Return whether an answer stands for one that is missing, such as `N/A` or a dash."""
    return answer.strip().lower() in NOTHING or re.fullmatch(NO_WORD, answer) is not None


def unescaped_url(url: str) -> str:
    """Return a URL with `&` for `&amp;`, which is left in tables made from web pages."""
    return url.replace(ESCAPED_AMPERSAND, "&")


def check_url(url: object, field: str = "urls") -> str:
    """Return an http(s) URL that names one host and that no fetcher can read in two ways, or refuse it (`bad_url`)."""
    if not isinstance(url, str) or not is_requestable(url):
        raise RowError("bad_url", field, "an http(s) URL", url)
    return url


def text_of(value: Any, field: str) -> str | None:
    """Return the text of a value; that of a number or a boolean is what JSON writes for it."""
    if value is None:
        return None
    text = value if type(value) is str else scalar_text(value)
    if text is None:
        hint = "in SQL: CAST(... AS VARCHAR)"
        if isinstance(value, dict):
            hint = f"in SQL, the field that has it, as in {field}.{next(iter(value), 'text')}"
        elif isinstance(value, list):  # a cast would make one text of it, with brackets and quotes
            hint = (
                "a list of accepted answers is `answers`"
                if field == "answer"
                else f"of lists in a list: flatten({field})"
            )
        raise RowError("bad_type", field, f"text ({hint})", value)
    if len(text) > MAX_TEXT:
        raise RowError("text_too_long", field, f"at most {MAX_TEXT} characters", text)
    if "\x00" in text:
        raise RowError("bad_character", field, "text without NUL", text)
    return text


def turn_metadata(conversation: Any, turn: Any, history: Any, question: Any) -> dict[str, Any]:
    """Return what the metadata of a question says of its conversation; nothing of a question without one.

    A question that is the user's last message in its history is left out of it, and so is what was answered to it.
    """
    found: dict[str, Any] = {}
    if (name := text_of(conversation, "conversation")) is not None and name:
        found["conversation"] = name
    if turn not in (None, ""):
        number = text_of(turn, "turn") or ""
        if not re.fullmatch(r"[0-9]{1,9}(\.0)?", number):
            raise RowError("bad_turn", "turn", "the number of a turn", turn)
        found["turn"] = int(number.removesuffix(".0"))
    messages = messages_of(history)
    asked = max((place for place, one in enumerate(messages) if one["role"] == "user"), default=None)
    if asked is not None and messages[asked]["content"].strip() == str(question).strip():
        del messages[asked:]
    return found | ({"history": messages} if messages else {})


def fact_metadata(value: Any) -> dict[str, Any]:
    """Return what the metadata of a question says of its facts; nothing of a question without any.

    A fact is a text, or a struct as AutoNuggetizer (`text`, `importance`) or BenchmarkQED (`statement`) writes it.
    """
    facts = []
    for item in _listed(value, "facts", "bad_fact", "a list of facts"):
        stated = item if isinstance(item, dict) else {"text": item}
        given = next((stated[key] for key in ("text", "statement") if stated.get(key) is not None), None)
        text, importance = text_of(given, "facts"), stated.get("importance") or "vital"
        if text is None or not text.strip() or importance not in ("vital", "okay"):
            raise RowError("bad_fact", "facts", "facts with a text and an importance of vital or okay", item)
        facts.append({"text": text, "importance": importance})
    return {"facts": facts} if facts else {}


def _listed(value: Any, field: str, code: str, expected: str) -> list[Any]:
    """Return a list that is given as such, as JSON or in Python's notation (pandas); empty for no value."""
    if isinstance(value, str) and value:
        try:
            value = json_value(value)
        except RowError:
            try:
                value = python_literal(value)
            except ValueError:
                raise RowError(code, field, f"{expected}, as JSON", value) from None
    if value and not isinstance(value, list):
        raise RowError(code, field, expected, value)
    return value or []


def messages_of(value: Any) -> list[dict[str, str]]:
    """Return what was said before a question as messages of OpenAI.

    Messages may have the keys of OpenAI, ShareGPT, MTRAG or LangChain. An item may also be a question with its answer,
    as a list of two texts or an object, and a text may have lines that begin with who speaks: `User: How deep is it?`.

    Raises:
        RowError: `bad_history`.
    """
    if isinstance(value, str) and (said := _SPEAKER.split(value.strip()))[0] == "" and len(said) > 1:
        value = [{"role": who, "content": text.strip()} for who, text in zip(said[1::2], said[2::2], strict=True)]
    found = []
    for item in _listed(value, "history", "bad_history", "a list of messages"):
        for said, content in _said(item):
            role = _ROLES.get(said.casefold()) if isinstance(said, str) else None
            if role is None or not isinstance(content, str):
                expected = f"messages with a text as content and a role of {', '.join(_ROLES)}"
                raise RowError("bad_history", "history", expected, item)
            found.append({"role": role, "content": content})
    return found


def _said(item: Any) -> list[tuple[Any, Any]]:
    """Return who said what in an item of a history."""
    if isinstance(item, list) and len(item) == 2:
        return [("user", item[0]), ("assistant", item[1])]
    message = item if isinstance(item, dict) else {}
    for asked, answered in _EXCHANGES:
        if isinstance(message.get(asked), str) and isinstance(message.get(answered), str):
            return [("user", message[asked]), ("assistant", message[answered])]
    said = next((message[key] for key in _ROLE_KEYS if message.get(key) is not None), None)
    inner = message["data"] if isinstance(message.get("data"), dict) else message
    return [(said, next((inner[key] for key in _CONTENT_KEYS if inner.get(key) is not None), None))]


def metadata_of(value: Any) -> dict[str, Any]:
    """Return the metadata of a row as JSON values, given as a struct, a map or a JSON object."""
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = json_value(value)
        except RowError as bad:
            if bad.code == "bad_json":
                raise RowError("bad_metadata", "metadata", _METADATA, value) from None
            bad.field = "metadata"
            raise
    if isinstance(value, dict):
        return _json_object(value.items())
    if isinstance(value, list) and all(isinstance(item, tuple) for item in value):  # how Arrow gives a MAP
        return _json_object(value)
    raise RowError("bad_metadata", "metadata", _METADATA, value)


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
