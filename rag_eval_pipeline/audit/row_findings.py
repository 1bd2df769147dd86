"""What shows in the rows themselves: swapped columns, words for nothing, damaged texts, languages, splits."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import unescape
from itertools import islice
from math import log

import numpy as np
import pyarrow as pa
import regex

from rag_eval_pipeline.audit.audited_texts import AuditedQuestions, quoted
from rag_eval_pipeline.audit.findings import AuditFinding
from rag_eval_pipeline.conversion.mapping import TRACE_COLUMNS, literal
from rag_eval_pipeline.conversion.odd_questions import CHECKS, SHOWN_VALUES, Batch, Check, folded
from rag_eval_pipeline.metrics.answers import normalise_answer
from rag_eval_pipeline.sources.relations import Relation
from rag_eval_pipeline.text.refusals import common_words

SWAPPED_ODDS = 3.0  # natural logarithm of the odds that a text is in the other column; both texts have to have them
COLUMNS_MIN = 20  # rows from which it is known how questions and answers look
LANGUAGE_SAMPLE = 1_000  # questions
USUAL_SHARE = 0.8  # of questions that end in a question mark, where that is the habit
_MARKS = frozenset("?？؟")
_SPLIT_COLUMN = re.compile(r"(?:data_?)?(?:split|subset|partition|set)", re.IGNORECASE)
_SPLIT_KEY = re.compile(rf'"{_SPLIT_COLUMN.pattern}":', re.IGNORECASE)
_SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test", "dev": "dev",
           "validation": "dev", "valid": "dev", "val": "dev", "eval": "test"}  # fmt: skip
_CHOICE = regex.compile(r"(?i)\b(?:or|oder|ou|o|of|czy|veya|или|либо)\b|还是|或|または|それとも")
_SCRIPTS = {
    "Cyrillic": (regex.compile(r"\p{Cyrillic}"), "ru uk bg sr mk be"),
    "Han": (regex.compile(r"\p{Han}"), "zh"),
    "Kana": (regex.compile(r"[\p{Hiragana}\p{Katakana}\p{Han}]"), "ja"),
    "Hangul": (regex.compile(r"\p{Hangul}"), "ko"),
    "Arabic": (regex.compile(r"\p{Arabic}"), "ar fa ur"),
    "Hebrew": (regex.compile(r"\p{Hebrew}"), "he"),
    "Greek": (regex.compile(r"\p{Greek}"), "el"),
    "Devanagari": (regex.compile(r"\p{Devanagari}"), "hi mr ne"),
    "Thai": (regex.compile(r"\p{Thai}"), "th"),
}
_LETTER = regex.compile(r"\p{L}")


def row_findings(questions: AuditedQuestions, header: Iterable[str]) -> Iterator[AuditFinding]:
    """Yield what the checks of rows find, each in all rows."""
    names = folded(pa.array(list(header), pa.string()))
    marked: dict[str, list[tuple[int, str]]] = defaultdict(list)
    first = 0
    for batch in questions.batches:
        seen = Batch.of(batch, names)
        for kind, check in CHECKS.items():
            for row in np.flatnonzero(check.marks(seen)).tolist():
                marked[kind].append((first + row, check.shown(batch, row)))
        first += len(batch)
    answerable = sum(1 for _ in questions.answerable())
    for kind, check in CHECKS.items():
        found = marked[kind]
        if kind == "swapped_columns" and len(found) <= check.share * answerable:
            asks = sum(text.rstrip()[-1:] in _MARKS for text in questions.questions)
            single = {number for number, _ in found} if asks >= USUAL_SHARE * len(questions) else set()
            found = [(number, questions.stated[number]) for number in sorted(single | set(_swapped(questions)))]
        elif not check.is_certain and len(found) <= check.share * answerable:
            continue
        if found:
            yield _finding(questions, kind, check, found, is_most=len(found) > answerable / 2)


def _finding(
    questions: AuditedQuestions, kind: str, check: Check, found: Sequence[tuple[int, str]], *, is_most: bool
) -> AuditFinding:
    values = dict.fromkeys(text[:50] for _, text in found)
    listed = ", ".join([*map(literal, islice(values, SHOWN_VALUES)), "..."][: len(values)])
    words = {"rows": "", "values": listed, "most": "most " if is_most else ""}
    text, remedy = check.text.format(**words), check.remedy.format(**words)
    suspects = tuple(
        questions.suspect(number, f"{check.shows} {quoted(shown)}", _mended(kind, questions.answers[number]))
        for number, shown in found
    )
    return AuditFinding(kind, check.severity, text[0].upper() + text[1:], remedy, suspects)


def _mended(kind: str, answers: Sequence[str]) -> list[str]:
    """Return the answers as they were meant, if that is certain."""
    if kind == "html_entities":
        mended = [unescape(answer) for answer in answers]
    elif kind == "mojibake":
        mended = [_decoded(answer) for answer in answers]
    elif kind == "word_for_nothing":
        empty = CHECKS[kind].texts
        assert empty is not None
        mended = [
            a for a, is_nothing in zip(answers, empty(pa.array(answers, pa.string())), strict=True) if not is_nothing
        ]
    else:
        return []
    return mended if mended != list(answers) else []


def _decoded(text: str) -> str:
    for encoding in ("cp1252", "latin-1"):
        try:
            return text.encode(encoding).decode()
        except UnicodeError:
            continue
    return text


def _swapped(questions: AuditedQuestions) -> Iterator[int]:
    """Yield rows whose question looks like the other rows' answers, and whose answer like their questions."""
    numbers = list(questions.answerable())
    if len(numbers) < COLUMNS_MIN:
        return
    texts = [(questions.questions[n], questions.answers[n][0]) for n in numbers]
    counts = [Counter(trait for pair in texts for trait in _traits(pair[side])) for side in (0, 1)]

    def odds(text: str) -> float:
        """Return how much more a text looks like a question than like an answer."""
        return sum(log((counts[0][trait] + 0.5) / (counts[1][trait] + 0.5)) for trait in _traits(text))

    for number, (question, answer) in zip(numbers, texts, strict=True):
        if odds(question) < -SWAPPED_ODDS and odds(answer) > SWAPPED_ODDS:
            yield number


def _traits(text: str) -> tuple[str, str, str]:
    first, _, rest = text[:200].lower().partition(" ")
    return f"begins {first}", f"ends {text.rstrip()[-1:] in _MARKS}", f"length {min(rest.count(' '), 24) // 4}"


def wording_findings(questions: AuditedQuestions, language: str | None) -> Iterator[AuditFinding]:
    """Yield questions that have their answer in them, and questions in another language than stated."""
    told = []
    for number in questions.answerable():
        lowered = questions.questions[number].lower()
        answers = [normalise_answer(text) for text in questions.answers[number] if text.lower().strip() in lowered]
        question = f" {normalise_answer(lowered)} " if answers else ""
        inside = next((answer for answer in answers if len(answer) > 2 and f" {answer} " in question), None)
        if inside is not None and question.strip() != inside and not _CHOICE.search(questions.questions[number]):
            told.append(questions.suspect(number, f"{quoted(questions.questions[number])} has {quoted(inside)}"))
    if told:
        yield AuditFinding(
            "answer_in_question", "note", "Questions contain their answer, so that repeating the question is right.",
            "Ask for it in other words, unless it is one of several choices.", tuple(told),
        )  # fmt: skip
    if language is not None:
        yield from _language_findings(questions, language.lower()[:2])


def _language_findings(questions: AuditedQuestions, language: str) -> Iterator[AuditFinding]:
    script = next((name for name, (_, codes) in _SCRIPTS.items() if language in codes.split()), None)
    others = [number for number, text in enumerate(questions.questions) if not _is_in_script(text, script)]
    evidence = f"not in the script of {language}"
    known = common_words()
    if not others and language in known:
        sample = range(0, len(questions), max(1, len(questions) // LANGUAGE_SAMPLE))
        lowered = [questions.questions[number].lower() for number in sample]
        counts = Counter({code: sum(map(bool, map(words.search, lowered))) for code, words in known.items()})
        winner, most = counts.most_common(1)[0]
        if most > 2 * counts[language] and most > len(lowered) / 2:
            has = known[winner].search
            others = [n for n, text in enumerate(questions.questions) if has(text.lower())]
            evidence = f"has common words of {winner}"
    if others:
        suspects = [questions.suspect(n, f"{quoted(questions.questions[n])} {evidence}") for n in others]
        yield AuditFinding(
            "other_language", "doubtful" if len(others) > len(questions) / 2 else "note",
            f"Questions are in another language than `language: {language}`, by which refusals and answers are judged.",
            "State the language that they are in, or make a benchmark for each language.", tuple(suspects),
        )  # fmt: skip


def _is_in_script(text: str, script: str | None) -> bool:
    """Whether most letters of a text are of a script, or of Latin script for None."""
    if text.isascii() and script is None:
        return True
    letters = len(_LETTER.findall(text))
    if script is not None:
        return letters == 0 or 4 * len(_SCRIPTS[script][0].findall(text)) >= letters
    return all(2 * len(pattern.findall(text)) <= letters for pattern, _ in _SCRIPTS.values())


def split_findings(questions: AuditedQuestions, source: Relation | None) -> Iterator[AuditFinding]:
    """Yield the rows for training, if there are others for tests: by a column such as `split`, or by file."""
    split: list[str | None] = [None] * len(questions)
    by_row = {} if source is None else _splits_of_rows(source)
    of_file = cache(_split_of_file)
    number = 0
    for batch in questions.batches:
        columns = (batch.column(name).to_pylist() for name in ("source_file", "source_row", "metadata"))
        for file, row, metadata in zip(*columns, strict=True):
            values = json.loads(metadata) if _SPLIT_KEY.search(metadata) else {}
            stated = (_split(value) for key, value in values.items() if _SPLIT_COLUMN.fullmatch(key))
            split[number] = next(filter(None, (by_row.get((file, row)), *stated, of_file(file))), None)
            number += 1
    training = [number for number, name in enumerate(split) if name == "train"]
    if training and len(set(filter(None, split))) > 1:
        suspects = [questions.suspect(number, f"is a row of '{split[number]}'") for number in training]
        yield AuditFinding(
            "training_rows", "note", "Rows for training and rows for tests are in one benchmark.",
            "Keep those for tests by `where:`, if a system may have been trained on the others.", tuple(suspects),
        )  # fmt: skip


def _splits_of_rows(source: Relation) -> dict[tuple[str, int], str]:
    names = [name for name in source.schema.names if _SPLIT_COLUMN.fullmatch(name)]
    found = {}
    for batch in source.batches() if names else ():
        columns = (batch.column(name).to_pylist() for name in (*TRACE_COLUMNS[:2], names[0]))
        for file, row, value in zip(*columns, strict=True):
            if (name := _split(value)) is not None:
                found[file, row] = name
    return found


def _split_of_file(name: str | None) -> str | None:
    return next(filter(None, map(_split, re.split(r"[^a-z]+", (name or "").lower()))), None)


def _split(value: object) -> str | None:
    return _SPLITS.get(value.strip().lower()) if isinstance(value, str) else None
