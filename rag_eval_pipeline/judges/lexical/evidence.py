"""A text prepared to be asked what it holds: sentences, words, numbers; made once and kept while it is asked for."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from rag_eval_pipeline.judges.lexical.words import Vocabulary, Word, content
from rag_eval_pipeline.text.normalise import mask_citations, unify
from rag_eval_pipeline.text.numbers import NumberIndex, quantities
from rag_eval_pipeline.text.sentences import sentence_ends

KEPT_CHARACTERS = 4_000_000  # of texts, at some 20 bytes each when prepared: documents repeat over a run
_LONGEST_SENTENCE = 60  # words; tables and lists without full stops are cut there, or one window would hold them all
_PARAGRAPH = re.compile(r"\n[ \t]*+\n\s*+")
_BROKEN_WORD = re.compile(r"(?<=[^\W\d_])-[ \t]*+\n[ \t]*+(?=[^\W\d_])")
_SAID = re.compile(r"[^\W_]")


class Sentence(NamedTuple):
    """What is asked of a single sentence.

    Args:
        denied: Stems of what it says is not so; None when it negates nothing.
        poles: Groups of antonyms that it has words of.
    """

    denied: frozenset[str] | None
    poles: frozenset[int]


class Evidence:
    """One text.

    Args:
        text: As extracted; lines may break anywhere.
        vocabulary: How its words are compared.
    """

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self.sentences: list[Sentence] = []
        self.places: dict[str, list[int]] = {}  # stem -> the sentences that hold it, in order
        self.all_stems: set[str] = set()  # function words included
        # Marks of notes and citations are numbers that the text does not state.
        unified = unify(mask_citations(text))
        joined = _BROKEN_WORD.sub("", unified)
        for paragraph in _PARAGRAPH.split(joined):
            flat = paragraph.replace("\n", " ")
            start = 0
            for end in (*sentence_ends(flat), len(flat)):
                self._add(flat[start:end], vocabulary)
                start = end
        self.figures = NumberIndex(quantities(joined, decimal_comma=vocabulary.decimal_comma))

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not self.sentences

    def _add(self, text: str, vocabulary: Vocabulary) -> None:
        found = vocabulary.words(text)
        for start in range(0, len(found), _LONGEST_SENTENCE):
            self._add_sentence(found[start : start + _LONGEST_SENTENCE], text, vocabulary)

    def _add_sentence(self, words: list[Word], text: str, vocabulary: Vocabulary) -> None:
        number = len(self.sentences)
        places = self.places
        self.all_stems.update([word.stem for word in words])
        for stem in content(words):
            held = places.get(stem)
            if held is None:
                places[stem] = [number]
            else:
                held.append(number)
        poles = frozenset([word.pole for word in words if word.pole])
        self.sentences.append(Sentence(vocabulary.denied(words, text), poles))


class EvidenceStore:
    """Prepared texts, the ones asked for last first to stay.

    Args:
        vocabulary: How words are compared.
        characters: Of all texts that are kept together.
    """

    def __init__(self, vocabulary: Vocabulary, *, characters: int = KEPT_CHARACTERS) -> None:
        self._vocabulary = vocabulary
        self._limit = characters
        self._kept: OrderedDict[str, Evidence] = OrderedDict()
        self._characters = 0
        self._lock = Lock()

    def prepared(self, texts: Sequence[str]) -> list[Evidence]:
        """The texts that say anything, prepared, in order."""
        found = [self._one(text) for text in texts if _SAID.search(text)]
        return [evidence for evidence in found if not evidence.is_empty]

    def __len__(self) -> int:
        return len(self._kept)

    def _one(self, text: str) -> Evidence:
        with self._lock:
            evidence = self._kept.get(text)
            if evidence is not None:
                self._kept.move_to_end(text)
                return evidence
        evidence = Evidence(text, self._vocabulary)
        with self._lock:
            if text not in self._kept:
                self._kept[text] = evidence
                self._characters += len(text)
            while self._characters > self._limit and len(self._kept) > 1:
                dropped, _ = self._kept.popitem(last=False)
                self._characters -= len(dropped)
        return evidence
