"""Words of a text as the judge compares them: folded, stemmed, weighed, and marked when they negate or turn round."""

import re
from functools import cache
from importlib import import_module
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple

from rag_eval_pipeline.judges.lexical.antonyms import poles
from rag_eval_pipeline.judges.lexical.languages import LANGUAGES
from rag_eval_pipeline.judges.lexical.settings import LanguageCode
from rag_eval_pipeline.judges.lexical.stop_words import STOP_WORDS
from rag_eval_pipeline.text.normalise import fold
from rag_eval_pipeline.text.numbers import COUNTING_WORDS, in_digits
from rag_eval_pipeline.text.tokens import tokenize

_KNOWN_WORDS = 200_000  # kept at once: some 60 MB; the next one starts afresh
_REACH = 3  # content words after a negation that it turns round; what stands farther off is said of something else
_LONGEST_STEMMED = 40  # letters; longer ones are no words, and a stemmer's time grows with them

_ABBREVIATION = re.compile(r"\b(?:[A-Za-z]\.){2,}")
_THOUSANDS = {False: re.compile(r"(?<=[0-9])[,'](?=[0-9]{3})"), True: re.compile(r"(?<=[0-9])[.' ](?=[0-9]{3})")}
_PERCENT = frozenset({"percent", "pct", "prozent", "procent", "процент", "процентов"})
_ELISION = re.compile(r"(?:[ldjmtsnc]|qu|dell|all|dall|nell|sull|un|quest)'(?=\w{2})")
_POSSESSIVE = re.compile(r"'s$|'$")


class Word(NamedTuple):
    """What is known of a token.

    Args:
        folded: Without case and accents.
        stem: What is compared.
        weight: 21 to 30: longer words say a little more. Whole, so that sums do not depend on their order.
        is_stop: A function word.
        negates: Turns a sentence into its opposite.
        pole: Its group of antonyms; 0 for none.
    """

    folded: str
    stem: str
    weight: int
    is_stop: bool
    negates: bool
    pole: int

    @property
    def is_number(self) -> bool:
        """Written in digits."""
        return self.folded[:1].isdigit()


class Vocabulary:
    """The words of a language, each looked up once.

    Args:
        language: Whose stop words, stems and negations.
        decimal_comma: Whether a comma separates decimals.
    """

    def __init__(self, language: LanguageCode, *, decimal_comma: bool) -> None:
        self.language = language
        self.decimal_comma = decimal_comma
        self.traits = LANGUAGES[language]
        self._negations = _folded(self.traits.negations)
        self._stop_words = _folded(STOP_WORDS[language])
        self._numbers = {fold(word): str(value) for word, value in COUNTING_WORDS.items() if value > 1}
        self._poles = poles(language)
        self._stemmer = _stemmer(self.traits.stemmer) if self.traits.stemmer else None
        self._stemming = Lock()  # a Snowball stemmer keeps the word that it works on
        self._known: dict[str, Word] = {}

    def words(self, text: str) -> list[Word]:
        """The words of a unified text, in order."""
        known = self._known
        return [known.get(token) or self.word(token) for token in tokens(text, decimal_comma=self.decimal_comma)]

    def word(self, token: str) -> Word:
        """What is known of one token."""
        found = self._known.get(token)
        if found is None:
            if len(self._known) >= _KNOWN_WORDS:
                self._known.clear()
            found = self._known[token] = self._look_up(token)
        return found

    def stem(self, folded: str) -> str:
        """What a folded word is compared by."""
        if self._stemmer is None or len(folded) > _LONGEST_STEMMED:
            return folded
        if self.language == "en" and not folded.isascii():
            return folded
        with self._stemming:
            stem: str = self._stemmer.stemWord(folded)
        return stem

    def denied(self, words: list[Word], text: str) -> frozenset[str] | None:
        """Stems of what a sentence negates: the words next to a negation; None when it negates nothing.

        A part of the text that negates, in scripts without spaces, negates all of it.
        """
        found: set[str] = set()
        negates = False
        for place, word in enumerate(words):
            if word.negates:
                following = words[place + 1 :]
                if word.folded == "no" and following and following[0].is_number:  # No. 81 is a number
                    continue
                negates = True
                found.update(_nearest(following) or _nearest(words[:place][::-1]))
        if any(mark in text for mark in self.traits.negating):
            return frozenset(word.stem for word in words)
        return frozenset(found) if negates else None

    def _look_up(self, token: str) -> Word:
        if token[0].isdigit():
            return Word(token, token, 20 + min(len(token), 10), is_stop=False, negates=False, pole=0)
        folded = fold(token)
        negates = folded in self._negations or folded.endswith("n't")
        folded = _ELISION.sub("", _POSSESSIVE.sub("", folded), count=1)
        # WHO and US are names where they are written so.
        is_stop = folded in self._stop_words and not (len(folded) > 1 and token.isupper())
        plain = "%" if folded in _PERCENT else self._numbers.get(folded)
        return Word(
            folded=folded,
            stem=plain or self.stem(folded),
            weight=20 + min(len(folded), 10),
            is_stop=is_stop,
            negates=negates,
            pole=self._poles.get(folded, 0),
        )


@cache
def vocabulary(language: LanguageCode, *, decimal_comma: bool) -> Vocabulary:
    """The process's vocabulary of a language."""
    return Vocabulary(language, decimal_comma=decimal_comma)


def tokens(text: str, *, decimal_comma: bool = False) -> list[str]:
    """Split a unified text into words; numbers lose their separators of thousands, abbreviations their dots."""
    written = _ABBREVIATION.sub(lambda match: match[0].replace(".", ""), in_digits(text))
    return tokenize(_THOUSANDS[decimal_comma].sub("", written).replace("%", " percent "), keep_apostrophes=True)


def content(words: list[Word]) -> dict[str, int]:
    """Weight of each stem that is no function word, in order; of all when nothing else is left (`The Who`)."""
    return {word.stem: word.weight for word in words if not word.is_stop} or {word.stem: word.weight for word in words}


def _nearest(words: list[Word]) -> list[str]:
    """Stems of the first words that say something."""
    return [word.stem for word in islice((word for word in words if not word.is_stop and not word.negates), _REACH)]


def _folded(words: frozenset[str]) -> frozenset[str]:
    return frozenset(fold(word) for word in words)


def _stemmer(name: str) -> Any:
    # The module itself: the package's own door hands out a C extension where one is installed, of another version.
    module = import_module(f"snowballstemmer.{name}_stemmer")
    return getattr(module, f"{name.capitalize()}Stemmer")()
