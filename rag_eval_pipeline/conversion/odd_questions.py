"""Find what is odd about accepted questions: rows that are no questions, words for no answer, questions asked twice.

Each check is a function that marks the questions of a batch. A finding refuses no row, as the text may be meant: its
sentence says how many rows there are, which come first, and what to do about them.
"""

import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html.entities import entitydefs
from itertools import islice
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rag_eval_pipeline.conversion.mapping import literal
from rag_eval_pipeline.conversion.questions import NO_ANSWERS, NO_WORD, NOTHING
from rag_eval_pipeline.errors import counted, excerpt, row_text
from rag_eval_pipeline.formats.dataset import history_in

Marks = npt.NDArray[np.bool_]

SHOWN = 3  # rows in a sentence
SHOWN_VALUES = 5
ANSWER_MIN = 3  # characters of an answer that is looked for in what was said before

_BYTES = "".join(  # how UTF-8's second and later bytes look in Windows-1252 or Latin-1
    dict.fromkeys(bytes([byte]).decode(code, "ignore") for code in ("latin-1", "cp1252") for byte in range(0x80, 0xC0))
)
_TOTALS = (
    "total|totals|sum|subtotal|average|mean|count|gesamt|insgesamt|summe|durchschnitt|somme|moyenne|totale|suma|media|"
    "soma|totaal|razem|celkem|toplam|итого|всего|合计|合計|総計|합계"
)
_TYPES = "text|string|str|varchar|char|unit|units|einheit|unité|unidad"
_WORD = re.compile(r"\w+")
PATTERNS = {
    "question mark": r"[\pL\pN][^\pL\pN]*[?？؟][^\pL\pN]*$",
    "no word": NO_WORD,
    "entity": f"&(?:#[0-9]{{1,7}}|#[xX][0-9a-fA-F]{{1,6}}|{'|'.join(entitydefs)}|apos);",
    "mojibake": f"\ufffd|(?:[ÂÃ]|â€)[{_BYTES}]|(?:[Ä-ß][{_BYTES}]|[à-ï][{_BYTES}]{{2}}){{2}}",
    "total": rf"(?i)^\W*(?:grand |sub-?)?(?:{_TOTALS})\W*\d*\W*$",
    "type": rf"(?i)^\W*(?:{_TYPES})\W*$|^[(\[][\pL \d/%.]{{1,20}}[)\]]$",
    "number": r"^[\s\d.,]*\d\s*%?\s*$",
    "index": r"^\s*[0-9]\s*$",
    "letter": r"^\s*(?:[A-H]|[(\[]?[A-Ha-h][)\].:])\s*$",
    "options": r"(?:^|\W)[(\[]?[BCbc][)\].:]\s",
    "true or false": r"(?i)^\s*(?:true|false)\s*$",
}  # fmt: skip


class Batch(NamedTuple):
    """Some questions, as the checks see them."""

    question: pa.Array
    answer: pa.Array
    answers: pa.Array  # lists of the accepted ones; empty of unanswerable questions
    is_impossible: Marks
    metadata: pa.Array  # JSON objects
    header: pa.Array  # names of the source's columns, folded
    folded_question: pa.Array
    folded_answer: pa.Array

    @classmethod
    def of(cls, questions: pa.RecordBatch, header: pa.Array) -> Self:
        """Return what the checks see of some accepted questions."""
        question, answer, answers = (questions.column(name) for name in ("question", "answer", "answers"))
        impossible = _array(questions.column("is_impossible"))
        stated = (question, answer, answers, impossible, questions.column("metadata"))
        return cls(*stated, header, folded(question), folded(answer))


Severity = Literal["wrong", "doubtful", "note"]
"""wrong: a right system loses by it; doubtful: probably wrong, look at it; note: good to know, no score is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is said of a kind of odd question: `text` and `remedy` may have {rows}, {values}, {number} and {most}."""

    severity: Severity
    field: str  # of the question
    text: str
    remedy: str

    def sentence(self, **values: str) -> str:
        """Return what is wrong and what to do, as one line."""
        return f"{self.field}: {self.text} {self.remedy}".format(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Statement):
    """A kind of odd question that shows in one row; `marks` is True for each question that is odd."""

    marks: Callable[[Batch], Marks]
    texts: Callable[[pa.Array], Marks] | None = None  # where any accepted answer may be odd: which texts are
    shows: Literal["question", "answer"] = "answer"
    share: float = 0.0  # of the answerable questions; less of them are no finding of a plan
    is_certain: bool = True  # in one row; else less than the share are no finding of an audit either

    def shown(self, questions: pa.RecordBatch, row: int) -> str:
        """Return the text that is odd."""
        if self.texts is not None and len(answers := questions.column("answers")[row].values):
            odd = answers.filter(pa.array(self.texts(answers)))
            if len(odd):
                return str(odd[0])
        return str(questions.column(self.shows)[row])


def _matches(texts: pa.Array, pattern: str) -> Marks:
    return _array(pc.match_substring_regex(texts, PATTERNS[pattern]))


def _any_answer(batch: Batch, marks: Callable[[pa.Array], Marks]) -> Marks:
    found = np.zeros(len(batch.answers), bool)
    found[pc.list_parent_indices(batch.answers).to_numpy()[marks(batch.answers.flatten())]] = True
    return found


def _array(mask: pa.Array) -> Marks:
    return np.asarray(mask.to_numpy(zero_copy_only=False), np.bool_)


def folded(texts: pa.Array) -> pa.Array:
    """Return texts in lower case, without white space and byte order marks around them."""
    return pc.utf8_lower(pc.utf8_trim(texts, " \t\r\n\xa0\ufeff"))


def means_nothing(texts: pa.Array) -> Marks:
    """Return which texts stand for no answer: `N/A`, `NULL`, a dash."""
    return _array(pc.is_in(folded(texts), pa.array(sorted(NOTHING)))) | _matches(texts, "no word")


def means_something(texts: pa.Array) -> Marks:
    """Return which texts neither stand for nor say that there is no answer."""
    texts = folded(texts)
    return ~(means_nothing(texts) | _array(pc.is_in(pc.utf8_rtrim(texts, "."), pa.array(["", *sorted(NO_ANSWERS)]))))


def _is_total(batch: Batch) -> Marks:
    is_short = _array(pc.less(pc.binary_length(batch.question), 60))
    if is_short.any():
        texts = batch.question.filter(pa.array(is_short))
        is_short[is_short] = _matches(texts, "total") | _matches(texts, "type")
    # The word for a total may stand in another column.
    return is_short | (batch.is_impossible & _matches(batch.question, "number"))


def _is_swapped(batch: Batch) -> Marks:
    asks = _matches(batch.answer, "question mark")
    return asks & ~_matches(batch.question, "question mark") if asks.any() else asks


def _is_letter(batch: Batch) -> Marks:
    letters = _matches(batch.answer, "letter")
    return letters & ~_matches(batch.question, "options") if letters.any() else letters


def _is_unused(batch: Batch) -> Marks:
    return batch.is_impossible & means_something(batch.answer) if batch.is_impossible.any() else batch.is_impossible


def _repeats_header(batch: Batch) -> Marks:
    both = [_array(pc.is_in(texts, batch.header)) for texts in (batch.folded_question, batch.folded_answer)]
    return both[0] & (both[1] | _array(pc.equal(batch.answer, "")))


def _ends_with_answer(batch: Batch) -> Marks:
    """Return which questions have a history that ends with a message of the assistant that has a gold answer."""
    found = _array(pc.match_substring(batch.metadata, '"history": [')) & ~batch.is_impossible
    for row in np.flatnonzero(found).tolist():
        last = history_in(json.loads(batch.metadata[row].as_py()))[-1:]  # another column may be called history
        said = " ".join(_words(one["content"]) for one in last if one["role"] == "assistant")
        found[row] = any(_words(answer) in said for answer in batch.answers[row].as_py() if len(answer) >= ANSWER_MIN)
    return found


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "


CHECKS = {
    "repeated_header": Check(
        severity="wrong", field="question", shows="question", marks=_repeats_header,
        text="the names of the columns are a question{rows}: a header is repeated, as in files that were joined.",
        remedy="Remove these rows, or drop them: `where: question NOT IN ({values})`.",
    ),
    "total_row": Check(
        severity="wrong", field="question", shows="question", marks=_is_total,
        text="some rows look like totals, units or types, not like questions{rows}: {values}.",
        remedy="Remove these rows, or drop them: `where: question NOT IN ({values})`.",
    ),
    "word_for_nothing": Check(
        severity="wrong", field="answer", texts=means_nothing, marks=lambda batch: _any_answer(batch, means_nothing),
        text="some gold answers mean that there is none{rows}: {values}; a right refusal is scored as wrong.",
        remedy="Set `is_impossible` for questions that the documents do not answer, or drop the rows: "
        "`where: answer NOT IN ({values})`.",
    ),
    "unanswerable_with_answer": Check(
        severity="doubtful", field="is_impossible",
        marks=_is_unused,
        text="unanswerable questions have answers, such as {values}{rows}; these are not used.",
        remedy="If they are right, `is_impossible` is read the wrong way round.",
    ),
    "swapped_columns": Check(
        severity="wrong", field="question", marks=_is_swapped, share=0.5, is_certain=False,
        text="{most}answers end in a question mark and their questions do not{rows}, such as {values}.",
        remedy="The two columns are perhaps swapped in `questions`.",
    ),
    "answer_is_question": Check(
        severity="wrong", field="answer",
        marks=lambda batch: _array(pc.equal(batch.folded_question, batch.folded_answer)),
        text="answers are equal to their questions{rows}, such as {values}.",
        remedy="Check which columns `questions` names.",
    ),
    "letter_as_answer": Check(
        severity="wrong", field="answer", share=0.5,
        marks=_is_letter,
        text="{most}answers are single letters{rows}, such as {values}.",
        remedy="If they stand for options, put the option's text in their place: a system that is not shown the "
        "options cannot answer with a letter.",
    ),
    "index_as_answer": Check(
        severity="wrong", field="answer", marks=lambda batch: _matches(batch.answer, "index"), share=0.9,
        is_certain=False,
        text="{most}answers are the numbers 0 to 9{rows}, such as {values}.",
        remedy="If they count the options, put the option's text in their place.",
    ),
    "true_or_false": Check(
        severity="doubtful", field="answer",
        marks=lambda batch: _matches(batch.answer, "true or false") & (_array(pc.list_value_length(batch.answers)) < 2),
        text="{values} are the only accepted answers{rows}, and a system says yes or no.",
        remedy="In SQL: `CASE WHEN lower(answer) = 'true' THEN ['yes', 'true'] ELSE ['no', 'false'] END AS answers`.",
    ),
    "answer_in_history": Check(
        severity="doubtful", field="history", share=0.05, marks=_ends_with_answer,
        text="the history ends with a message of the assistant that has the gold answer{rows}, such as {values}: the "
        "system is told what it is asked for.",
        remedy="If it answers this very question, leave out the last two messages: `history[:-3] AS history` in SQL.",
    ),
    "html_entities": Check(
        severity="wrong", field="question, answer", texts=lambda texts: _matches(texts, "entity"),
        marks=lambda batch: _in_texts(batch, "entity"),
        text="texts have HTML entities such as `&amp;`{rows}, which are compared as they are written.",
        remedy="Decode them in the source, or in SQL: `replace(answer, '&amp;', '&')`.",
    ),
    "mojibake": Check(
        severity="wrong", field="question, answer", texts=lambda texts: _matches(texts, "mojibake"),
        marks=lambda batch: _in_texts(batch, "mojibake"),
        text="texts were decoded with another encoding than they were written in{rows}, as `Ã¼` for `ü`.",
        remedy="If the file itself shows them so, repair them where it was exported from or in SQL: "
        "`replace(answer, 'Ã¼', 'ü')`; if not, state the `encoding` of `source`.",
    ),
}  # fmt: skip
ASKED_TWICE = {
    "duplicate_other_answer": Statement(
        severity="wrong", field="question",
        text="{number} asked more than once with different answers{rows}, and no system can be right on every row.",
        remedy="If a column says which rows are right, keep these by `where:`; if all answers are accepted, list them "
        "in `answers` of one row; if each is right for one document, say in the question which.",
    ),
    "duplicate": Statement(
        severity="note", field="question",
        text="{number} asked more than once with the same answer{rows}.", remedy="Each row counts.",
    ),
}  # fmt: skip


def asked(number: int) -> str:
    """Return the beginning of a sentence on questions that are asked more than once."""
    return counted(number, "question is", "questions are")


def _in_texts(batch: Batch, pattern: str) -> Marks:
    return _matches(batch.question, pattern) | _any_answer(batch, lambda texts: _matches(texts, pattern))


@dataclass(slots=True)
class Finding:
    """The questions that a check has marked."""

    count: int = 0
    places: list[tuple[str | None, str]] = field(default_factory=list)  # of the first: file and row, or None and id
    values: dict[str, None] = field(default_factory=dict)  # different ones, in order

    def rows(self) -> str:
        """Return how many rows there are and which come first."""
        return f" ({counted(self.count, 'row')}: {shown_rows(self.places, self.count)})"


class QuestionChecks:
    """What the checks find in the questions of a benchmark, batch by batch; texts are not kept."""

    def __init__(self, header: Iterable[str]) -> None:
        self._header = folded(pa.array(list(header), pa.string()))
        self._found = {name: Finding() for name in CHECKS}
        self._unlinked = Finding()  # answerable, and without a document
        self._rows = self._answerable = 0
        self._source_ids, self._texts = array("q"), array("q")  # hashes: a million ids as text are 100 MB

    def add(self, questions: pa.RecordBatch) -> None:
        """Check some questions."""
        batch = Batch.of(questions, self._header)
        impossible = batch.is_impossible
        for name, check in CHECKS.items():
            _add(self._found[name], questions, check.marks(batch), check.shown)
        has_context = _array(pc.greater(pc.list_value_length(questions.column("contexts")), 0))
        _add(self._unlinked, questions, ~has_context & ~impossible)
        self._rows += len(impossible)
        self._answerable += int((~impossible).sum())
        self._texts.extend(map(hash, batch.folded_question.to_pylist()))
        ids = questions.column("source_id")
        if ids.null_count < len(ids):
            self._source_ids.extend(map(hash, ids.drop_null().to_pylist()))

    def notes(self, questions: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[str]:
        """Yield a sentence for each kind of finding; `questions` returns all of them once more."""
        for name, check in CHECKS.items():
            found = self._found[name]
            if found.count and found.count > check.share * self._answerable:
                values = ", ".join([*map(literal, islice(found.values, SHOWN_VALUES)), "..."][: len(found.values)])
                most = "most " if check.share else ""
                yield check.sentence(rows=found.rows(), values=values, most=most)
        yield from self._asked_twice(questions)
        if suspects := _repeated(self._source_ids):
            every = (source_id for batch in questions() for source_id in batch.column("source_id").to_pylist())
            counts = Counter(source_id for source_id in every if hash(source_id) in suspects)
            repeated = [source_id for source_id, count in counts.items() if count > 1]
            if repeated:
                first = excerpt(repeated[0])
                yield (
                    f"source_id: {counted(len(repeated), 'id is', 'ids are')} used by several "
                    f"questions, the first is {first}."
                )
        number = self._unlinked.count
        if 0 < number < self._rows:  # no error, but perhaps a mapping that finds nothing
            first = shown_rows(self._unlinked.places[:1], 1)
            if number == 1:
                yield f"1 answerable question names no document: {first}."
            else:
                yield (
                    f"{counted(number, 'answerable question names', 'answerable questions name')} "
                    f"no document; the first is {first}."
                )

    def _asked_twice(self, questions: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[str]:
        suspects = _repeated(self._texts)
        asked_for: dict[str, list[tuple[tuple[str | None, str], frozenset[str]]]] = {}
        for batch in questions() if suspects else ():
            texts = folded(batch.column("question")).to_pylist()
            for place, text in enumerate(texts):
                if hash(text) in suspects:
                    answers = frozenset(str(given).casefold() for given in batch.column("answers")[place].as_py())
                    asked_for.setdefault(text, []).append((_place(batch, place), answers))
        found = {kind: Finding() for kind in ASKED_TWICE}
        for rows in asked_for.values():
            if len(rows) > 1:
                given = [answers for _, answers in rows]
                is_same = bool(frozenset.intersection(*given)) or len(set(given)) == 1
                finding = found["duplicate" if is_same else "duplicate_other_answer"]
                finding.count += len(rows)
                finding.places += [place for place, _ in rows]
                finding.values[str(len(finding.values))] = None
        for kind, finding in found.items():
            if finding.count:
                yield ASKED_TWICE[kind].sentence(number=asked(len(finding.values)), rows=finding.rows())


def _add(
    finding: Finding,
    questions: pa.RecordBatch,
    marks: Marks,
    shown: Callable[[pa.RecordBatch, int], str] | None = None,
) -> None:
    rows = np.flatnonzero(marks).tolist()
    finding.count += len(rows)
    for row in rows[: SHOWN - len(finding.places)]:
        finding.places.append(_place(questions, row))
    if shown is None:
        return
    for row in rows if len(finding.values) <= SHOWN_VALUES else ():
        finding.values.setdefault(shown(questions, row)[:50])
        if len(finding.values) > SHOWN_VALUES:
            break


def _place(questions: pa.RecordBatch, row: int) -> tuple[str | None, str]:
    names = ("id", "source_file", "source_row", "source_item")
    number, file, source_row, item = (questions.column(name)[row].as_py() for name in names)
    return (None, str(number)) if source_row is None else (file, row_text(source_row, item=item))


def shown_rows(places: Sequence[tuple[str | None, str]], count: int) -> str:
    """Return the first of some rows with their file, or the ids of questions whose row is not known."""
    [(file, _), *_] = places
    shown = [row for other, row in places[:SHOWN] if other == file]
    more = count - len(shown)
    many = "s" if len(shown) > 1 or more else ""
    return f"{'id' if file is None else f'{file}, row'}{many} {', '.join(shown)}" + (
        f" and {more} more" if more else ""
    )


def _repeated(hashes: "array[int]") -> set[int]:
    values = np.frombuffer(hashes, np.int64).copy()
    values.sort()
    return {int(value) for value in values[1:][values[1:] == values[:-1]]}
