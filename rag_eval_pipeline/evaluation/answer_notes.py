"""What readers of an evaluation must know of its answers: equal ones, invalid citations, models that changed."""

from array import array
from collections import Counter
from collections.abc import Iterator

import numpy as np

from rag_eval_pipeline.errors import shortened
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.systems.base import Citation, RagAnswer
from rag_eval_pipeline.text.refusals import knows_language

EQUAL_SHARE = 0.9  # of the answers; from here on most questions were not answered, whatever the text says
EQUAL_LEAST = 10  # answers; fewer may all be right
TEXT_SHOWN = 80  # characters
MODELS_SHOWN = 5
LANGUAGE_SHARE = 0.2  # of the questions; with fewer in a known language, the language is another
LANGUAGE_LEAST = 5  # questions


class AnswerNotes:
    """Counts over the answers of one evaluation, gathered answer by answer."""

    def __init__(self, files: CorpusFiles) -> None:
        self.citations = 0
        self.invalid: Counter[str] = Counter()
        """Citations of places that do not exist, by reason: `document_not_found`, `page_not_found`,
        `span_out_of_bounds`."""
        self.models: Counter[str] = Counter()
        """Answers by the model that their replies name."""
        self._files = files
        self._example: Citation | None = None
        self._changed_at: str | None = None  # the first question that another model answered than the one before
        self._model: str | None = None
        self._texts = array("q")  # hashes: the texts would take the memory of all answers
        self._frequent, self._lead = "", 0  # Boyer and Moore's majority

    def add(self, answer: RagAnswer) -> None:
        """Note one answer."""
        if answer.model is not None:
            self.models[answer.model] += 1
            if self._changed_at is None and self._model not in (None, answer.model):
                self._changed_at = answer.query_id
            self._model = answer.model
        for citation in answer.citations:
            self.citations += 1
            if (reason := self._files.fault_of(citation)) is not None:
                self.invalid[reason] += 1
                self._example = self._example or citation
        if answer.answer is not None:
            text = " ".join(answer.answer.split())
            self._texts.append(hash(text))
            if self._lead == 0:
                self._frequent = text
            self._lead += 1 if text == self._frequent else -1

    def warnings(self) -> Iterator[str]:
        """Yield a line for each of these that is as it should not be."""
        equal = int((np.frombuffer(self._texts, np.int64) == hash(self._frequent)).sum()) if self._texts else 0
        if equal >= max(EQUAL_LEAST, EQUAL_SHARE * len(self._texts)):
            text = shortened(self._frequent, TEXT_SHOWN)
            yield (
                f"{equal:,} of {len(self._texts):,} answers are the same text: {text!r}. If the system declines with "
                "it, name it in the setting `abstention`; else check where the answer is read from: rag-eval system "
                "probe."
            )
        if (one := self._example) is not None:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.invalid.most_common())
            page = "" if one.page_number is None else f", page {one.page_number}"
            yield (
                f"{self.invalid.total():,} of {self.citations:,} citations name a place that does not exist: {reasons}."
                f" The first: {one.file_name!r}{page}, characters {one.start_char} to {one.end_char}."
            )
        if self._changed_at is not None:
            named = ", ".join(f"{name} ({count:,} answers)" for name, count in self.models.most_common(MODELS_SHOWN))
            yield (
                f"The replies name {len(self.models)} models: {named}; it changed at question {self._changed_at}. The "
                "scores do not belong to a single model."
            )


def language_warnings(pair: Pair) -> Iterator[str]:
    """Yield a line if abstentions cannot be recognised, because questions and answers are in an unknown language."""
    if getattr(pair.system_file.settings, "abstention", ()) is not None:
        return
    asked = [(query.is_impossible, knows_language(query.query_text)) for query in pair.queries]
    impossible, known = sum(one for one, _ in asked), sum(one for _, one in asked)
    if impossible and len(asked) >= LANGUAGE_LEAST and known < LANGUAGE_SHARE * len(asked):
        yield (
            f"{impossible:,} questions have no answer in the documents, and the questions are in a language whose "
            "refusals are not known: unless the system reports that it abstains, it seems to have answered them. Name "
            f"its phrases in the setting `abstention` of {pair.system}'s file."
        )
