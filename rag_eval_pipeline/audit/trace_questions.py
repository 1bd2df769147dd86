"""What users asked, from exported traces: Langfuse, Phoenix, LangSmith, OpenTelemetry spans, or a plain table.

A trace is one question, whatever its steps: that of its outermost span with one. Ids serve to put the spans of a trace
together, and are not kept.

Source: the columns of Langfuse's batch export, of Phoenix's `get_spans_dataframe`, LangSmith's run schema, and the
semantic conventions of OpenInference and OpenTelemetry (`gen_ai.*`), also in the older form of OpenLLMetry.
"""

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rag_eval_pipeline.conversion.mapping import TRACE_COLUMNS, column_values
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.headers import ROLES, WORDS, normalised, role_of, says_truth
from rag_eval_pipeline.sources.relations import read_file

IDS = ("context_span_id", "span_id", "id", "run_id")
PARENTS = ("parent_id", "parent_span_id", "parent_run_id", "parent_observation_id")
TRACES = ("context_trace_id", "trace_id")
STARTS = ("start_time", "start_time_unix_nano", "timestamp")
_INPUTS = "input_value gen_ai_input_messages llm_input_messages gen_ai_prompt inputs"
_OUTPUTS = "output_value gen_ai_output_messages llm_output_messages gen_ai_completion outputs output response answer"
QUESTIONS = (*_INPUTS.split(), *ROLES["question"])
ANSWERS = (*_OUTPUTS.split(), "final_answer", "completion", "generation", "result", "reply")
# In objects, beside these: what holds messages, a message, or the text of one.
INNER = ("value", "generations", "choices", "message", "content", "parts", "text", "data", "kwargs", "args")
USER, ASSISTANT = frozenset({"user", "human"}), frozenset({"assistant", "ai", "gpt", "agent", "model", "bot"})
SPEAKERS = USER | ASSISTANT | {"system", "tool", "function", "developer"}
SCORES = ("avg", "score", "value", "string_value", "label", "result")  # of an object that is feedback

_NUMBERED = re.compile(r"(.+?)\.(\d+)\.(?:message\.)?(role|content)")  # llm.input_messages.0.message.role
_FEEDBACK = re.compile("feedback|thumb|vote|reaction|rating|user_score|(^|_)(dis)?likes?(_|$)")
_DOWN_NAME, _UP_NAME = re.compile("down|dislike|negative"), re.compile("up|like|positive|helpful")
_DOWN = frozenset(
    ["down", "thumbs_down", "thumb_down", "negative", "bad", "dislike", "wrong", "incorrect", "unhelpful", "👎"]
).union(*WORDS["no"].values())


class Trace(NamedTuple):
    """What a user asked once."""

    question: str
    answer: str | None  # of the system in production
    is_disliked: bool


class TraceFile(NamedTuple):
    """The questions of a file, in the order of its traces, how many rows were read, and why others were not."""

    traces: list[Trace]
    rows: int
    notes: list[str]


class _Span(NamedTuple):
    id: str | None
    parent: str | None
    trace: str | None
    start: str
    asked: Trace


def read_traces(path: Path) -> TraceFile:
    """Read a CSV, JSON, JSON lines or parquet file of traces.

    Raises:
        InputError: A file that cannot be read, or `no_question_column`.
    """
    if not path.is_file():
        raise InputError("missing_origin", path, "a file of traces", hint="Check --from.")
    try:
        relation = read_file(path)
    except InputError as error:
        if error.code == "missing_root":  # what an API returns
            error.hint = "Write its list one trace a line, as in: jq -c '.data[]' FILE > traces.jsonl"
        raise
    spans, names = [], dict[str, None]()
    for batch in relation.batches():
        columns, _ = column_values(batch)
        columns = {name: values for name, values in columns.items() if name not in TRACE_COLUMNS}
        for row in zip(*columns.values(), strict=True):
            for record in _records(dict(zip(columns, row, strict=True))):
                fields = _fields(record)
                names |= dict.fromkeys(fields)
                spans.append(_span(fields))
    if not any(name in QUESTIONS or _role(name) == "question" for name in names):
        for rejected in relation.rejected[: not names]:
            raise rejected.fault(path)
        expected = "a column of questions, such as question, input, inputs or attributes.input.value"
        hint = "Export the traces with their inputs, or call the column of the questions `question`."
        raise InputError("no_question_column", path, expected, found=", ".join(names), hint=hint)
    return TraceFile(list(_traces(spans)), len(spans), relation.all_notes)


def _records(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of a row: those of a line of OTLP, or else the row."""
    if "resourceSpans" not in row:
        yield row
    for resource in row.get("resourceSpans") or ():
        for scope in resource.get("scopeSpans") or ():
            yield from scope.get("spans") or ()


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a span by normalised names; attributes are values like others."""
    attributes, context = _parsed(record.get("attributes")), _parsed(record.get("context"))
    found = {name.removeprefix("attributes."): value for name, value in record.items()}
    if isinstance(attributes, list):  # of OTLP: [{key: ..., value: {stringValue: ...}}]
        pairs = [one for one in attributes if isinstance(one, dict) and isinstance(one.get("value"), dict)]
        attributes = {str(one.get("key")): next(filter(None, one["value"].values()), 0) for one in pairs}
    found |= attributes if isinstance(attributes, dict) else {}
    found |= {f"context.{name}": one for name, one in context.items()} if isinstance(context, dict) else {}
    messages: defaultdict[str, dict[int, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for match in filter(None, map(_NUMBERED.fullmatch, found)):
        messages[match[1]][int(match[2])][match[3]] = found[match[0]]
    found |= {name: [turns[number] for number in sorted(turns)] for name, turns in messages.items()}
    return {_normalised(name): one for name, one in found.items() if one is not None}


def _parsed(value: Any) -> Any:
    """Return the value of a text that is JSON's for an object, a list or a text; others as they are."""
    if isinstance(value, str) and value.strip()[:1] in ("{", "[", '"'):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


_normalised = cache(normalised)
_role = cache(lambda name: None if says_truth(name) else role_of(name))


def _span(fields: Mapping[str, Any]) -> _Span:
    def text(names: Sequence[str]) -> str | None:
        return next((str(fields[name]) for name in names if fields.get(name) not in (None, "")), None)

    def said(names: Sequence[str], role: str, speakers: frozenset[str]) -> str | None:
        known = [*(name for name in names if name in fields), *(name for name in fields if _role(name) == role)]
        return next(filter(None, (_said(fields[name], names, speakers) for name in known)), None)

    is_disliked = any(_is_down(name, one) for name, one in fields.items() if name not in (*QUESTIONS, *ANSWERS))
    asked = Trace(said(QUESTIONS, "question", USER) or "", said(ANSWERS, "answer", ASSISTANT), is_disliked)
    return _Span(text(IDS), text(PARENTS), text(TRACES), text(STARTS) or "", asked)


def _said(value: Any, names: Sequence[str], speakers: frozenset[str]) -> str | None:
    """Return the last text of some speakers in messages, or the text in an object or cell; None without one."""
    value = _parsed(value)
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
    is_message = speaker in SPEAKERS if isinstance(speaker, str) else False
    if is_message and speaker not in speakers:
        return None
    known = INNER if is_message else ("messages", *names, *INNER, *(members if len(members) == 1 else ()))
    return next(filter(None, (_said(members[name], names, speakers) for name in known if name in members)), None)


def _is_down(name: str, value: Any) -> bool:
    """Return whether a value is a thumbs down: a score of 0 or less, a word such as `bad`, or a count of dislikes."""
    value = _parsed(value)
    if isinstance(value, list):
        return any(_is_down(name, one) for one in value)
    if isinstance(value, dict):
        fields = {_normalised(str(key)): one for key, one in value.items()}
        name = _normalised(str(fields.get("name") or fields.get("key") or name))
        if fields.get("string_value"):  # a category of Langfuse, whose value is its number
            fields["value"] = None
        return any(_is_down(name if key in SCORES else key, one) for key, one in fields.items())
    if value is None or not _FEEDBACK.search(name):
        return False
    try:
        number = float(value)
    except (TypeError, ValueError):
        return not _DOWN.isdisjoint((normalised(str(value)), str(value).strip()))
    if _DOWN_NAME.search(name):
        return number > 0
    return number <= 0 and (value is False or not _UP_NAME.search(name))


def _traces(spans: Sequence[_Span]) -> Iterator[Trace]:
    """Yield a question for each trace that has one; feedback on any of its spans is feedback on it."""
    known: dict[str | None, _Span] = {span.id: span for span in spans if span.id is not None}
    parents = {span.parent for span in spans} - {None}
    groups: defaultdict[object, list[tuple[int, str, Trace]]] = defaultdict(list)
    for number, span in enumerate(spans):
        line = [span]  # to the outermost
        while (parent := known.get(line[-1].parent)) is not None and parent not in line:
            line.append(parent)
        trace = span.trace or (line[-1].id if line[-1].id in parents else number)
        groups[trace].append((len(line), span.start, span.asked))
    for group in groups.values():
        outermost = min((one for one in group if one[2].question), key=lambda one: one[:2], default=None)
        if outermost is not None:
            yield outermost[2]._replace(is_disliked=any(asked.is_disliked for *_, asked in group))
