"""The rules of a row: what makes the mapped columns of a batch questions, and why a row is refused.

Each rule is a function of one row's values. It is applied to all rows of a batch before the next one, which is several
times faster than row by row. A row that breaks a rule goes no further, so it is refused for the first rule it breaks.
A column of a batch in which nothing can be wrong stays one of Arrow, without a Python object for each value.
"""

import decimal
from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_pipeline.conversion.mapping import column_values
from rag_eval_pipeline.conversion.question_spool import context_lists, distinct_items, record_batch
from rag_eval_pipeline.conversion.questions import (
    AMPERSAND_NOTE,
    CONTEXT_FIELDS,
    DIFFICULTIES,
    ESCAPED_AMPERSAND,
    IMPOSSIBLE,
    MAX_TEXT,
    MAX_WHOLE,
    QUERY_TYPES,
    Context,
    NamedContext,
    check_url,
    fact_metadata,
    metadata_of,
    says_no_answer,
    text_of,
    turn_metadata,
    unescaped_url,
)
from rag_eval_pipeline.conversion.sql_checks import TRACE_FILE, TRACE_ITEM, TRACE_ROW
from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.sources.arrow_types import has_json
from rag_eval_pipeline.sources.batches import RowError
from rag_eval_pipeline.storage.json_rows import text_bytes
from rag_eval_pipeline.text.folding import scalar_text

_WORDS = {"query_type": pa.array(sorted(QUERY_TYPES)), "difficulty": pa.array(sorted(DIFFICULTIES))}

Resolve = Callable[[Sequence[NamedContext]], Sequence[Context]]
"""Finds the documents of a question; a `RowError` refuses its row."""


class BatchValidation:
    """The questions among the rows of a batch, whose columns are named as in `QuestionColumns`.

    With `skip_bad_urls`, contexts with a bad URL are left out, instead of refusing the row.

    A row is refused with `empty_question`, `empty_answer`, `bad_type`, `bad_boolean`, `bad_url`, `bad_span`,
    `bad_page`, `bad_relevance`, `empty_context`, `bad_context`, `bad_metadata`, `bad_number`, `bad_character`,
    `text_too_long`, `bad_turn`, `bad_history`, `bad_fact`, or with what `resolve` raises.
    """

    def __init__(
        self, batch: pa.RecordBatch, ids: pa.Array, resolve: Resolve, *, retrieval_only: bool, skip_bad_urls: bool
    ) -> None:
        self.errors: dict[int, RowError] = {}  # by position of the row in the batch
        self._row = 0
        self._notes: list[tuple[int, str]] = []
        self._bad_urls: list[tuple[int, str]] = []
        self._is_retrieval, self._skip_bad_urls = retrieval_only, skip_bad_urls
        self._resolve = resolve
        plain = {name: values for name in batch.schema.names if (values := self._plain(batch, name)) is not None}
        given, undecoded = column_values(batch.drop_columns(list(plain)))
        self.errors.update(undecoded)
        nothing = [None] * batch.num_rows

        def of(name: str) -> list[Any]:
            return given.get(name, nothing)

        def made(rule: Callable[..., Any], name: str, *others: Sequence[Any]) -> Any:
            return self._each(rule, given[name], *others) if name in given else plain.get(name, nothing)

        questions = made(_question, "question")
        impossible = self._each(self._impossible, of("is_impossible"), of("answer"), of("answers"))
        facts = self._each(fact_metadata, given["facts"]) if "facts" in given else nothing
        self._has_answers = not given.keys().isdisjoint(("answer", "answers"))
        answers = self._each(self._answers, of("answer"), of("answers"), impossible, facts)
        metadata = self._each(metadata_of, given["metadata"]) if "metadata" in given else [{} for _ in nothing]
        if not given.keys().isdisjoint(("conversation", "turn", "history")):
            asked = batch.column("question").to_pylist()
            told = self._each(turn_metadata, of("conversation"), of("turn"), of("history"), asked)
            metadata = [{**(own or {}), **(turn or {})} for own, turn in zip(metadata, told, strict=True)]
        if "facts" in given:
            metadata = [{**(own or {}), **(stated or {})} for own, stated in zip(metadata, facts, strict=True)]
        contexts: list[Any] = [()] * batch.num_rows
        if "urls" in given:
            contexts = self._each(self._url_contexts, given["urls"])
        elif "files" in given:
            contexts = self._each(_file_contexts, given["files"])
        elif "contexts" in given:
            contexts = self._each(lambda value: self._checked(_contexts(value), "contexts.url"), given["contexts"])
        source_ids = made(_source_id, "source_id")
        query_types = made(partial(self._word, "query_type", QUERY_TYPES), "query_type", metadata)
        difficulties = made(partial(self._word, "difficulty", DIFFICULTIES), "difficulty", metadata)
        resolved = plain["urls"] if "urls" in plain else self._each(resolve, contexts)
        columns: dict[str, Any] = {
            "question": questions,
            "answer": [pair and pair[0] for pair in answers],
            "answers": [pair and pair[1] for pair in answers],
            "is_impossible": impossible,
            "contexts": resolved,
            "source_id": source_ids,
            "query_type": query_types,
            "difficulty": difficulties,
            "metadata": metadata,
            "id": ids,
            "source_file": batch.column(TRACE_FILE),
            "source_row": batch.column(TRACE_ROW),
            "source_item": batch.column(TRACE_ITEM),
        }
        if self.errors:
            is_good = np.ones(batch.num_rows, bool)
            is_good[list(self.errors)] = False
            for name, values in columns.items():
                is_arrow = isinstance(values, pa.Array)
                columns[name] = values.filter(pa.array(is_good)) if is_arrow else list(compress(values, is_good))
        self.questions = record_batch(columns)

    @property
    def notes(self) -> list[str]:
        """Remarks on accepted rows, row by row; equal for alike rows, so that they can be counted."""
        return self._of_accepted(self._notes)

    @property
    def bad_urls(self) -> list[str]:
        """Excerpts of the URLs of contexts that were left out of accepted rows."""
        return self._of_accepted(self._bad_urls)

    def _of_accepted(self, remarks: list[tuple[int, str]]) -> list[str]:
        return [text for row, text in sorted(remarks, key=lambda remark: remark[0]) if row not in self.errors]

    def _each(self, rule: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        """Return what a rule makes of each row's values; None for refused rows."""
        made: list[Any] = []
        errors = self.errors
        for row, values in enumerate(zip(*columns, strict=True)):
            if row in errors:
                made.append(None)
                continue
            self._row = row
            try:
                made.append(rule(*values))
            except RowError as error:
                errors[row] = error
                made.append(None)
        return made

    def _note(self, text: str) -> None:
        self._notes.append((self._row, text))

    def _impossible(self, stated: Any, answer: Any, answers: Any) -> bool:
        if stated is not None:
            return _boolean(stated)
        given = answers if answer is None else answer
        texts = given if isinstance(given, list) else [given]
        for text in texts:
            if not isinstance(text, str) or not says_no_answer(text):
                return False
        if not texts:
            return False
        self._note(f"answer: {excerpt(texts[0])} says that there is no answer, so is_impossible is true unless stated")
        return True

    def _answers(self, answer: Any, given: Any, is_impossible: bool, facts: Any) -> tuple[str, tuple[str, ...]]:
        """Return the answer and all accepted ones; where no row has any, facts are enough."""
        answer = text_of(answer, "answer")
        if given is not None and not isinstance(given, list):
            if scalar_text(given) is None:
                raise RowError("bad_type", "answers", "a list of texts", given)
            given = [given]
        aliases = [text_of(item, "answers") for item in given] if given else []
        if is_impossible:
            if aliases:
                self._note("answers of impossible questions are left out")
            return answer or "", ()
        if answer is None and aliases:
            answer = aliases[0]
        if not answer and not aliases and (self._is_retrieval or (facts and not self._has_answers)):
            return "", ()
        if not answer and not aliases and facts is not None and not self._has_answers:
            raise RowError("empty_answer", "facts", "a fact, or is_impossible = true")
        if answer is None or not answer.strip():
            raise RowError("empty_answer", "answer", "a non-empty answer, or is_impossible = true", answer)
        accepted = {answer: None}
        for alias in aliases:
            if alias is None or not alias.strip():
                raise RowError("empty_answer", "answers", "texts", given)
            accepted[alias] = None
        return answer, tuple(accepted)

    def _plain(self, batch: pa.RecordBatch, name: str) -> pa.Array | None:
        """Return what the rules make of a column in which nothing can be wrong; None of any other."""
        column, field = batch.column(name), batch.schema.field(name)
        if has_json(field):
            return None
        if name == "urls" and pa.types.is_list(field.type) and field.type.value_type == pa.string():
            return self._plain_urls(column)
        if field.type != pa.string():
            return None
        if name in {"question", "source_id"}:
            is_short = (pc.max(pc.binary_length(column)).as_py() or 0) <= MAX_TEXT
            has_letters = not column.null_count and pc.all(pc.match_substring_regex(column, r"[\pL\pN]")).as_py()
            is_plain = is_short and has_letters and b"\x00" not in text_bytes(column)
        else:
            is_plain = name in _WORDS and pc.all(pc.is_in(column, _WORDS[name])).as_py()
        return column if is_plain else None

    def _plain_urls(self, lists: pa.Array) -> pa.Array | None:
        """Return the contexts of lists of URLs, each distinct one looked at once; None if any is not good as it is."""
        urls = lists.flatten().dictionary_encode()
        if len(distinct_items(lists, urls)[0]) < len(urls):
            return None  # a URL twice in a row
        distinct = [NamedContext(url) for url in urls.dictionary.to_pylist()]
        try:
            if urls.null_count or any(_with_good_url(context, "urls") is not context for context in distinct):
                return None
            return context_lists(lists.value_lengths().fill_null(0), self._resolve(distinct), urls.indices)
        except RowError:
            return None

    def _url_contexts(self, value: Any) -> list[NamedContext]:
        """Return one context for each URL; the empty cell of a CSV has none."""
        if value is None or value == "":
            return []
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list):
            raise RowError("bad_type", "urls", "a list of URLs, or one", value)
        return self._checked([NamedContext("" if url is None else url) for url in value], "urls")

    def _checked(self, contexts: list[NamedContext], field: str) -> list[NamedContext]:
        """Return contexts with good URLs."""
        good, is_escaped = [], False
        for context in contexts:
            try:
                checked = _with_good_url(context, field)
            except RowError as error:
                if not self._skip_bad_urls:
                    raise
                self._bad_urls.append((self._row, error.found or ""))
                continue
            is_escaped = is_escaped or checked is not context
            good.append(checked)
        if is_escaped:
            self._note(AMPERSAND_NOTE)
        return good

    def _word(self, field: str, known: frozenset[str], value: Any, metadata: dict[str, Any]) -> str | None:
        """Return a word of the specification; any other is kept in metadata as `<field>_source`."""
        word = text_of(value, field)
        if not word or word in known:
            return word or None
        metadata[f"{field}_source"] = word
        self._note(f"{field}: {excerpt(word)} is kept as metadata.{field}_source")
        return None


def _question(value: Any) -> str:
    if isinstance(value, (int, float, decimal.Decimal)):
        raise RowError("bad_type", "question", "text (in SQL: CAST(... AS VARCHAR))", value)
    question = text_of(value, "question")
    if question is None or not question.strip():
        raise RowError("empty_question", "question", "a question", question)
    return question


def _source_id(value: Any) -> str | None:
    if isinstance(value, (bool, float)):  # 12.0 and 12 would be one id
        raise RowError("bad_type", "source_id", "text or a whole number (in SQL: CAST(... AS VARCHAR))", value)
    return text_of(value, "source_id")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    meant = IMPOSSIBLE.get(str(value).lower()) if isinstance(value, str | int) else None
    if meant is None:
        raise RowError("bad_boolean", "is_impossible", "true, false, 1, 0 or NULL", value)
    return meant


def _with_good_url(context: NamedContext, field: str) -> NamedContext:
    """Return a context whose URL is good: itself, or one with `&` for `&amp;`."""
    url = context.url
    if isinstance(url, str) and ESCAPED_AMPERSAND in url:
        url = unescaped_url(url)
        context = msgspec.structs.replace(context, url=url)
    if url is not None:
        check_url(url, field)
    return context


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
