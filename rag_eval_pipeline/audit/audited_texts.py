"""The questions and documents of a benchmark as an audit reads them."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rag_eval_pipeline.audit.findings import Suspect
from rag_eval_pipeline.conversion.datasets import GoldSpan
from rag_eval_pipeline.conversion.odd_questions import shown_rows
from rag_eval_pipeline.corpus.text.alignment import TextIndex
from rag_eval_pipeline.corpus.text.pages import Page, pages_by_document
from rag_eval_pipeline.errors import row_text
from rag_eval_pipeline.metrics.answers import normalise_answer
from rag_eval_pipeline.text.folding import fold, unify
from rag_eval_pipeline.text.numbers import NumberIndex, quantities
from rag_eval_pipeline.text.tokens import STOP_WORDS, english_stem, has_unspaced, tokenize

_HYPHENS = re.compile("[-\u00ad\u0002\ufffe]\\s*\n\\s*")
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ARTICLES = frozenset(("a", "an", "the", "der", "die", "das", "le", "la", "les", "el", "los", "las", "il", "lo"))
_INDEXES = 64  # documents whose text is kept ready for searches
_SEARCHED = 10_000_000_000  # characters
_SHOWN = 90  # characters of a text in a sentence


def quoted(text: str) -> str:
    """Return a text on one line in quotes, cut to some ninety characters."""
    line = " ".join(text.split())
    return f"'{line if len(line) <= _SHOWN else line[: _SHOWN - 1] + '…'}'"


def content_words(text: str) -> list[str]:
    """Return the stems of a text's words in order, without function words; numbers are words."""
    return [english_stem(word) for word in tokenize(fold(unify(text))) if word not in STOP_WORDS]


def question_words(text: str) -> list[str]:
    """Return the words of a question without articles, for comparisons of questions with each other."""
    return [word for word in tokenize(fold(text)) if word not in _ARTICLES]


def spelled(text: str) -> str:
    """Return a text without case, punctuation and articles, between blanks if its words have blanks between them."""
    plain = normalise_answer(text)
    return plain if has_unspaced(plain) else f" {plain} "


def digits(text: str) -> list[str]:
    """Return the numbers of a text that are written in digits, without marks of thousands."""
    return [number.replace(",", "") for number in _NUMBER.findall(unify(text))]


class AuditedQuestions:
    """The questions of a benchmark in columns; `number` is a question's position in all of them."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self.batches = [batch for batch in batches if len(batch)]
        self._starts = [0, *accumulate(map(len, self.batches))][:-1]  # of each batch
        self.ids = self._column("id")
        self.questions = self._column("question")
        self.answers = self._column("answers")  # the accepted ones; none of unanswerable questions
        self.stated = self._column("answer")  # also of unanswerable questions, if the source has one
        self.is_impossible: npt.NDArray[np.bool_] = np.array(self._column("is_impossible"), np.bool_)
        # File names, without repeats; and gold texts.
        self.documents: list[tuple[str, ...]] = []
        self.gold: list[list[str]] = []
        known: dict[tuple[str, ...], tuple[str, ...]] = {}
        for row in chain.from_iterable(batch.column("contexts").to_pylist() for batch in self.batches):
            names = tuple(dict.fromkeys(one["file_name"] for one in row if one["file_name"]))
            self.documents.append(known.setdefault(names, names))
            self.gold.append([one["text"] for one in row if one["text"]])
        self.batches = [batch.drop_columns("contexts") for batch in self.batches]

    def __len__(self) -> int:
        return len(self.ids)

    def _column(self, name: str) -> list:  # type: ignore[type-arg]  # of as many types as columns
        return [value for batch in self.batches for value in batch.column(name).to_pylist()]

    def answerable(self) -> Iterator[int]:
        """Yield the questions that have an accepted answer."""
        return (number for number, answers in enumerate(self.answers) if answers)

    def place(self, number: int) -> str:
        """Return the file and row of a question; its id if these are not known."""
        batch = bisect_right(self._starts, number) - 1
        places = (self.batches[batch].column(name) for name in ("source_file", "source_row", "source_item"))
        file, row, item = (column[number - self._starts[batch]].as_py() for column in places)
        place = (None, str(self.ids[number])) if row is None else (file, row_text(row, item=item))
        return shown_rows([place], 1)

    def suspect(self, number: int, evidence: str, answers: Sequence[str] = ()) -> Suspect:
        """Return a question as a finding names it."""
        return Suspect(self.ids[number], self.place(number), evidence, tuple(answers))


class AuditedCorpus:
    """The text of the documents, and the places of the gold texts in them; what is made of a text is kept."""

    def __init__(self, pages: Iterable[Page], gold_spans: Iterable[GoldSpan] = ()) -> None:
        by_document = pages_by_document(pages)
        self.pages: Mapping[str, Sequence[str]] = {n: [page.text for page in own] for n, own in by_document.items()}
        self.unlocated = tuple(span for span in gold_spans if span.method is None)  # gold texts
        self.spelling = cache(self._spelling)
        self.words = cache(self._words)
        self.numbers = cache(self._numbers)
        self.quantities = cache(lambda name: NumberIndex(quantities(self.text(name))))
        self.index = lru_cache(_INDEXES)(lambda name: TextIndex(self.pages[name]))

    def text(self, name: str) -> str:
        """Return the text of a document, with words whole that a line end divides."""
        return _HYPHENS.sub("", "\n".join(self.pages[name]))

    def _spelling(self, name: str) -> str:
        return f" {normalise_answer(self.text(name))} "

    def _words(self, name: str) -> frozenset[str]:
        return frozenset(content_words(self.text(name)))

    def _numbers(self, name: str) -> frozenset[str]:
        return frozenset(digits(self.text(name)))

    def has(self, name: str, text: str) -> bool:
        """Whether a document has a text, but for case, punctuation, hyphens and the like."""
        if not _DIGIT.search(text) and spelled(text) in self.spelling(name):
            return True
        return bool(self.index(name).locate(text))

    @cached_property
    def _all(self) -> tuple[str, list[int]]:
        texts = list(map(self.spelling, self.pages))
        return "".join(texts), list(accumulate(map(len, texts), initial=0))

    @property
    def searches(self) -> int:
        """How many texts may be looked for in all documents, so that it takes seconds."""
        return _SEARCHED // (1 + len(self._all[0]))

    def find(self, text: str) -> str | None:
        """Return the first document that has a text, but for case and punctuation."""
        spellings, starts = self._all
        at = spellings.find(spelled(text))
        return None if at < 0 else list(self.pages)[bisect_right(starts, at) - 1]
