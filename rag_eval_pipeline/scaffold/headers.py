"""What the names of columns mean: header_words.yaml has the words by role and language."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import yaml

from rag_eval_pipeline.scaffold.columns import Column

# Role -> language -> words; `names` are whole names.
WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    role: {language: tuple(str(words).split()) for language, words in languages.items()}
    for role, languages in yaml.load(
        Path(__file__).with_name("header_words.yaml").read_bytes(), yaml.CSafeLoader
    ).items()
}
ROLES = {role: languages.get("names", ()) for role, languages in WORDS.items()}
QUESTION_MARKS = ("?", "？", "؟")
ROLE_SUFFIXES = {"question": "_question", "answer": "_answer", "source_id": "_id"}

_REMARK = re.compile(r"(?<=\S)\s*[(\[【〔「<][^)\]】〕」>]*[)\]】〕」>]")  # after a name: Antwort (Soll)
_ACCENTS = re.compile("[\u0300-\u036f]")
_NUMBER = re.compile(r"[+-]?\d[\d.,]*")
_PLURAL = "(?:s|es|e|n|en)?"


def normalised(name: str) -> str:
    """Return a name as lower-case words joined by `_`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", unicodedata.normalize("NFKC", name))
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")


def folded(name: str) -> str:
    """Return a normalised name without accents."""
    letters = _ACCENTS.sub("", unicodedata.normalize("NFD", normalised(name))).replace("ł", "l")
    return unicodedata.normalize("NFC", letters)


def bare(name: str) -> str:
    """Return a folded name without remarks in brackets, such as units."""
    return folded(_REMARK.sub("", unicodedata.normalize("NFKC", name)))


def leaf(name: str) -> str:
    """Return the last part of a nested name, such as `Value` of `Answer.Value`; a point may also abbreviate."""
    return re.split(r"(?<=\w)\.(?=\w)", name)[-1]


def _pattern(words: Iterable[str], *, inside: bool = False) -> re.Pattern[str]:
    """Return what finds words at the end of a name's parts, or anywhere in them.

    Phrases and words of fewer than four letters are whole parts, except in scripts without spaces.
    """
    found = []
    for word in sorted({folded(word) for word in words}):
        is_latin = word.isascii()
        is_whole = is_latin and (len(word) < 4 or "_" in word)
        end = "" if inside and not is_whole else f"{_PLURAL if is_latin else ''}(?=_|$)"
        found.append(f"{'(?:^|_)' if is_whole else ''}{re.escape(word)}{end}")
    return re.compile("|".join(found))


_SIGNS = ("place", "truth", "wrong", "yes", "no")
_IN_ORDER = {
    role: _pattern(word for language, words in languages.items() if language != "names" for word in words)
    for role, languages in WORDS.items()
    if languages.keys() - {"names"} and role not in _SIGNS
}
_TRUTH = _pattern((word for words in WORDS["truth"].values() for word in words), inside=True)
_WRONG_PARTS = frozenset(WORDS["wrong"]["en"])
_WRONG = _pattern((w for language, words in WORDS["wrong"].items() if language != "en" for w in words), inside=True)
_PLACES = frozenset(WORDS["place"]["en"])


def role_of(name: str) -> str | None:
    """Return the role that the words in a name mean; None without any. Of a nested name the last part counts."""
    said = bare(leaf(name))
    return next((role for role, pattern in _IN_ORDER.items() if pattern.search(said)), None)


def is_whole(name: str, role: str) -> bool:
    """Return whether a name, but for a remark in brackets, is nothing but a word for a role."""
    return _IN_ORDER[role].fullmatch(bare(leaf(name))) is not None


def says_truth(name: str) -> bool:
    """Return whether a name, or a remark in it, says that the column has the truth."""
    return _TRUTH.search(folded(name)) is not None


def is_gold(column: Column) -> bool:
    """Return whether no word of the name means something other than the truth; what is expected is the truth."""
    name = folded(column.name)
    if bare(leaf(column.name)).startswith("expected_"):
        return True
    return _WRONG_PARTS.isdisjoint(name.split("_")) and _WRONG.search(name) is None


def is_numeric(column: Column) -> bool:
    """Return whether there are values, and all are numbers or texts of such."""
    shown = [str(value).strip() for value in column.present]
    return bool(shown) and all(map(_NUMBER.fullmatch, shown))


def names_documents(column: Column) -> bool:
    """Return whether a column's name says that it may name documents."""
    if is_whole(column.name, "page") and is_numeric(column):
        return False
    is_place = not _PLACES.isdisjoint(normalised(column.name).split("_"))
    return is_place or role_of(column.name) in {"link", "document", "passage", "page"}


def named_columns(columns: Sequence[Column], role: str, fits: Callable[[Column], bool]) -> list[Column]:
    """Return the columns that fit a role, the likeliest first.

    First are those whose whole name is one of the role's, in the order of these; then those whose name ends like them,
    those in which the last part of a nested name is one, and those with a word for the role in any language. Signs of
    the truth come before other answers.
    """
    named = [(bare(column.name), column) for column in columns]
    leaves = [(bare(leaf(column.name)), column) for column in columns if leaf(column.name) != column.name]
    suffix = ROLE_SUFFIXES.get(role)
    found = [
        *(column for word in ROLES[role] for name, column in named if name == word),
        *(column for name, column in named if suffix is not None and name.endswith(suffix)),
        *(column for word in ROLES[role] for name, column in leaves if name == word),
        *(column for column in columns if role_of(column.name) == role),
    ]
    fitting = [column for place, column in enumerate(found) if column not in found[:place] and fits(column)]
    return sorted(fitting, key=lambda column: not says_truth(column.name)) if role == "answer" else fitting
