"""What users asked, from exported traces: Langfuse, Phoenix, LangSmith, OpenTelemetry spans, or a plain table.

A trace is one question, whatever its steps: that of the span which no other span with a question encloses. Only
questions, answers and feedback are read; ids serve to put the spans of a trace together, and are not kept.

Source: the columns of Langfuse's batch export, of Phoenix's `get_spans_dataframe`, LangSmith's run schema, and the
semantic conventions of OpenInference and OpenTelemetry (`gen_ai.*`), also in the older form of OpenLLMetry.
"""

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.conversion.mapping import TRACE_COLUMNS, column_values
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.headers import ROLES, WORDS, normalised, role_of, says_truth
from rag_eval_pipeline.sources.relations import Relation, read_file

ROOTS = ("runs", "data")
IDS = ("context_span_id", "span_id", "id", "run_id")
PARENTS = ("parent_id", "parent_span_id", "parent_run_id", "parent_observation_id")
TRACES = ("context_trace_id", "trace_id")
STARTS = ("start_time", "start_time_unix_nano", "timestamp")
QUESTIONS = (
    "input_value",
    "gen_ai_input_messages",
    "llm_input_messages",
    "gen_ai_prompt",
    "inputs",
    *ROLES["question"],
)
ANSWERS = (
    "output_value", "gen_ai_output_messages", "llm_output_messages", "gen_ai_completion", "outputs", "output",
    "response", "answer", "final_answer", "completion", "generation", "result", "reply",
)  # fmt: skip
# In objects, beside these: what holds messages, a message, or the text of one.
INNER = ("value", "generations", "choices", "message", "content", "parts", "text", "data", "kwargs", "args")
USER, ASSISTANT = frozenset({"user", "human"}), frozenset({"assistant", "ai", "gpt", "agent", "model", "bot"})
OTHERS = frozenset({"system", "tool", "function", "developer"})

_NUMBERED = re.compile(r"(.+?)\.(\d+)\.(?:message\.)?(role|content)")  # llm.input_messages.0.message.role
_FEEDBACK = re.compile("feedback|thumb|vote|reaction|rating|user_score|(^|_)(dis)?likes?(_|$)")
_DOWN_NAME, _UP_NAME = re.compile("down|dislike|negative"), re.compile("up|like|positive|helpful")
_DOWN = frozenset(
    (
        "down",
        "thumbs_down",
        "thumb_down",
        "negative",
        "bad",
        "dislike",
        "disliked",
        "wrong",
        "incorrect",
        "unhelpful",
        "👎",
    )
).union(*WORDS["no"].values())
_SCORES = ("avg", "score", "value", "label")  # of an object that is feedback


class Trace(NamedTuple):
    """What a user asked once."""

    question: str
    answer: str | None  # of the system in production
    is_disliked: bool


@dataclass(frozen=True, slots=True)
class TraceFile:
    """The questions of a file, in the order of its traces."""

    traces: list[Trace]
    rows: int  # that were read
    without_question: int  # rows that are no step of a trace with a question


class _Span(NamedTuple):
    id: str | None
    parent: str | None
    trace: str | None
    start: str
    question: str | None
    answer: str | None
    is_disliked: bool


def read_traces(path: Path) -> TraceFile:
    """Read a CSV, JSON, JSON lines or parquet file of traces.

    Raises:
        InputError: A file that cannot be read, or `no_question_column`.
    """
    if not path.is_file():
        raise InputError("missing_origin", path, "a file of traces", hint="Check --from.")
    spans, names = [], dict[str, None]()
    for batch in _read(path).batches():
        columns, _ = column_values(batch)
        columns = {name: values for name, values in columns.items() if name not in TRACE_COLUMNS}
        for row in zip(*columns.values(), strict=True):
            for record in _records(dict(zip(columns, row, strict=True))):
                fields = _fields(record)
                names.update(dict.fromkeys(fields))
                spans.append(_span(fields))
    if not any(_question_field(name) for name in names):
        expected = "a column of questions, such as question, input, inputs or attributes.input.value"
        hint = "Export the traces with their inputs, or call the column of the questions `question`."
        raise InputError("no_question_column", path, expected, found=", ".join(names), hint=hint)
    return _traces(spans)


def _read(path: Path) -> Relation:
    """Read a file; of a JSON object with `runs` or `data`, as APIs return it, the rows are in that list."""
    try:
        return read_file(path)
    except InputError as error:
        for root in ROOTS if error.code == "missing_root" else ():
            with contextlib.suppress(InputError):
                return read_file(path, root=root)
        raise


def _records(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of a row: those of a line of OTLP, or else the row."""
    if "resourceSpans" in row:
        for resource in row["resourceSpans"] or ():
            for scope in resource.get("scopeSpans") or ():
                yield from scope.get("spans") or ()
    else:
        yield row


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a span by normalised names; attributes are values like others."""
    found = {name: value for name, value in record.items() if name not in ("attributes", "context")}
    attributes = record.get("attributes") or {}
    if isinstance(attributes, list):  # of OTLP: [{key: ..., value: {stringValue: ...}}]
        attributes = {
            one["key"]: next((value for value in (one.get("value") or {}).values() if value is not None), None)
            for one in attributes
        }
    found |= _parsed(attributes, {}) | {f"context.{name}": one for name, one in (record.get("context") or {}).items()}
    messages: defaultdict[str, dict[int, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for name, value in found.items():
        if match := _NUMBERED.fullmatch(name.removeprefix("attributes.")):
            messages[match[1]][int(match[2])][match[3]] = value
    found |= {name: [turns[number] for number in sorted(turns)] for name, turns in messages.items()}
    return {normalised(name.removeprefix("attributes.")): value for name, value in found.items() if value is not None}


def _parsed(value: Any, default: Any) -> Any:
    """Return the value of a JSON text that begins like an object, a list or a quoted text; others as they are."""
    if isinstance(value, str) and value.strip()[:1] in ("{", "[", '"'):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return default if value is None else value


def _question_field(name: str) -> bool:
    return name in QUESTIONS or role_of(name) == "question"


def _span(fields: Mapping[str, Any]) -> _Span:
    def text(names: Iterable[str]) -> str | None:
        return next((str(fields[name]) for name in names if fields.get(name) not in (None, "")), None)

    def said(names: Sequence[str], role: str, speakers: frozenset[str]) -> str | None:
        known = [name for name in names if name in fields]
        known += [name for name in fields if role_of(name) == role and not says_truth(name)]
        texts = (_said(fields[name], names, speakers) for name in known)
        return next(filter(None, texts), None)

    return _Span(
        text(IDS),
        text(PARENTS),
        text(TRACES),
        text(STARTS) or "",
        said(QUESTIONS, "question", USER),
        said(ANSWERS, "answer", ASSISTANT),
        any(_is_down(name, value) for name, value in fields.items() if name not in {*QUESTIONS, *ANSWERS}),
    )


def _said(value: Any, names: Sequence[str], speakers: frozenset[str]) -> str | None:
    """Return the last text of some speakers in messages, or the text in an object or cell; None without one."""
    value = _parsed(value, None)
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, list):
        return next(filter(None, (_said(item, names, speakers) for item in reversed(value))), None)
    if not isinstance(value, dict):
        return None
    members = {str(name).rpartition(".")[2]: one for name, one in value.items() if one is not None}
    speaker = members.get("role") or members.get("from") or members.get("type")
    if isinstance(kind := members.get("id"), list) and kind:  # of LangChain: [..., "HumanMessage"]
        speaker = str(kind[-1]).lower().removesuffix("message")
    is_message = isinstance(speaker, str) and speaker in USER | ASSISTANT | OTHERS
    if is_message and speaker not in speakers:
        return None
    known = INNER if is_message else ("messages", *names, *INNER)
    if len(members) == 1 and not members.keys() & {*known}:
        known = tuple(members)
    return next(filter(None, (_said(members[name], names, speakers) for name in known if name in members)), None)


def _is_down(name: str, value: Any) -> bool:
    """Return whether a value is a thumbs down: a score of 0 or less, a word such as `bad`, or a count of dislikes."""
    value = _parsed(value, None)
    is_feedback = _FEEDBACK.search(name) is not None
    if isinstance(value, list):
        names = ((one.get("name") or one.get("key") or name) if isinstance(one, dict) else name for one in value)
        return any(_is_down(normalised(str(own)), one) for own, one in zip(names, value, strict=True))
    if isinstance(value, dict):
        scores = [value[key] for key in _SCORES if value.get(key) is not None] if is_feedback else []
        if scores:
            return any(_is_down(name, one) for one in scores)
        inner = [(normalised(str(key)), one) for key, one in value.items()]
        return any(_is_down(f"{name}_{key}" if key in ("result", "values") else key, one) for key, one in inner)
    if not is_feedback or value is None:
        return False
    try:
        number = float(value)
    except (TypeError, ValueError):
        return normalised(str(value)) in _DOWN or str(value).strip() in _DOWN
    if _DOWN_NAME.search(name):
        return number > 0
    return number <= 0 and not (_UP_NAME.search(name) and value is not False)


def _traces(spans: Sequence[_Span]) -> TraceFile:
    """Return a question for each trace; feedback on any of its spans is feedback on it."""
    known = {span.id: span for span in spans if span.id is not None}

    def is_step(span: _Span) -> bool:
        seen = {span.id}
        while span.parent in known and span.parent not in seen:
            span = known[span.parent]
            if span.question:
                return True
            seen.add(span.id)
        return False

    parents = {span.parent for span in spans} - {None}
    groups: defaultdict[object, list[_Span]] = defaultdict(list)
    for number, span in enumerate(spans):
        root, seen = span, {span.id}
        while root.trace is None and root.parent in known and root.parent not in seen:
            root = known[root.parent]
            seen.add(root.id)
        groups[root.trace or (root.id if root.id in parents else number)].append(span)
    traces, without = [], 0
    for group in groups.values():
        asked = [span for span in group if span.question and not is_step(span)]
        if not asked:
            without += len(group)
            continue
        first = min(asked, key=lambda span: span.start)
        traces.append(Trace(first.question or "", first.answer, any(span.is_disliked for span in group)))
    return TraceFile(traces, len(spans), without)
