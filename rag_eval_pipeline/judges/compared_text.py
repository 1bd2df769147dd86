"""Texts as words and numbers, in the form in which the lexical judge compares them."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rag_eval_pipeline.text.folding import fold, unify
from rag_eval_pipeline.text.hedges import Denials
from rag_eval_pipeline.text.numbers import COUNTING_WORDS, Quantity, in_decimals, in_digits, quantities
from rag_eval_pipeline.text.tokens import english_stem, iterate_tokens
from rag_eval_pipeline.text.units_of_measure import MEASURE_WORDS

_STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing down during each even ever for from further had has have having he her here
    hers herself him himself his how however i if in into is it its itself just let me might must my myself of off
    on once one only or other our ours ourselves out over own per shall she should so some such than that the
    their theirs them themselves then there these they this those through thus to too under until up upon us very
    via was we were what when where whether which while who whom whose why will with within would yes you your
    yours yourself not no nor never without cannot none neither don't doesn't didn't isn't aren't wasn't weren't
    won't wouldn't can't couldn't shouldn't hasn't haven't hadn't it's that's there's i'm you're we're they're
    i've we've they've
    """.split()  # noqa: SIM905  # as lines of words
)

_OPPOSITES = tuple(
    tuple(frozenset(map(english_stem, side.split())) for side in row.split("/"))
    for row in (
        "increase rise rose risen grow grew grown gain more higher above up / "
        "decrease fall fell fallen decline drop shrink shrank reduce less fewer lower below down",
        "maximum most largest highest longest / minimum least smallest lowest shortest",
        "before earlier / after later", "first / last", "left / right", "north northern / south southern",
        "east eastern / west western", "win won / lose lost", "buy bought / sell sold", "import / export",
        "true / false", "inside / outside", "allowed permitted / forbidden prohibited",
    )
)  # fmt: skip
"""Words of which a text has one side: an answer that has the other side only says the opposite."""

_PAIR = re.compile(r"(?<![\w.,:/-])([0-9]{1,4}) ?[-:] ?([0-9]{1,4})(?![\w:/-]|[.,][0-9])")  # a score, a ratio, a range

_NUMBERED = re.compile(r"([0-9]+)([a-z]{0,3})")  # the end of a name, as in GPT-4 and GPT-4o
_NO_PART_OF_A_NAME = re.compile(rf"st|nd|rd|th|[kbxv]|{MEASURE_WORDS}")  # letters behind a number
_ELEMENTS = "he|li|be|ne|na|mg|al|si|cl|ar|ca|ti|cr|mn|fe|ni|cu|zn|as|se|br|ag|sn|xe|ba|au|hg|pb|[hbcnofpski]"
_FORMULA = re.compile(rf"(?=\D*[0-9])(?:(?:{_ELEMENTS})[0-9]{{0,2}}){{2,6}}|h2|n2|o[23]|cl2")
_INITIALS_MIN = 3

BRIEF = 3  # words of a gold answer that is little but its number
_DENIED = 0.5  # of the weight of the words in common: those that one of the two denies
_ABBREVIATION = re.compile(r"\b(?:[A-Za-z]\.){2,}")
_THOUSANDS = {False: re.compile(r"(?<=[0-9])[,'](?=[0-9]{3})"), True: re.compile(r"(?<=[0-9])[.' ](?=[0-9]{3})")}
_ELISION = re.compile(r"(?:[ldjmtsnc]|qu|dell|all|dall|nell|sull|un|quest)'(?=\w{2})")
# C, C++ and C#, A and A+ are different words.
_SIGNED = re.compile(r"(?<!\w)([A-Za-z]{1,2})(\+\+|[+#]|-(?=[\s.,;)]|$))(?!\w)")
_SIGN_NAMES = {"++": "plusplus", "+": "plus", "#": "sharp", "-": "minus"}
_POSSESSIVE = re.compile(r"'s$|'$")
_ANYBODY = re.compile(r"\b(any|every|some|no)(?:one|[ -]one)\b(?! of\b)", re.IGNORECASE)
# British spellings as American ones. What is no word of either is spelled alike on both sides.
_BRITISH = (
    (re.compile(r"(?<=[a-z]{3})our(?=(?:s|ed|ing|ful|less|able|ably|ites?|ers?|ists?|ly|hoods?)?$)"), "or"),
    (re.compile(r"(?<=[a-z]{3})is(?=(?:e|es|ed|ing|er|ers|ation|ations|ational)$)"), "iz"),
    (re.compile(r"(?<=[a-z])ys(?=(?:e|es|ed|ing|er|ers)$)"), "yz"),
    (
        re.compile(r"^(cent|(?:kilo|centi|milli|nano)?met|lit|theat|fib|calib|spect|lust|meag|somb|sab)re(?=s?$)"),
        r"\1er",
    ),
    (re.compile(r"(?<=log)ue(?=s?$)"), ""),
    (re.compile(r"^(def|off|lic|pret)ence(?=s?$)"), r"\1ense"),
    (re.compile(r"^grey"), "gray"),
)
_AMERICAN = {
    "aluminium": "aluminum", "programme": "program", "programmes": "programs", "tyre": "tire", "tyres": "tires",
    "plough": "plow", "ploughs": "plows", "sulphur": "sulfur", "mould": "mold", "moulds": "molds", "kerb": "curb",
    "kerbs": "curbs", "jewellery": "jewelry", "judgement": "judgment", "judgements": "judgments", "ageing": "aging",
    "sceptical": "skeptical", "practise": "practice", "practised": "practiced", "pyjamas": "pajamas",
    "moustache": "mustache", "manoeuvre": "maneuver", "manoeuvres": "maneuvers", "cheque": "check", "cheques": "checks",
    "storey": "story", "storeys": "stories", "draught": "draft", "artefact": "artifact", "artefacts": "artifacts",
    "paediatric": "pediatric", "anaemia": "anemia", "leukaemia": "leukemia", "haemoglobin": "hemoglobin",
    "oestrogen": "estrogen", "anaesthetic": "anesthetic", "anaesthesia": "anesthesia", "archaeology": "archeology",
    "diarrhoea": "diarrhea", "foetus": "fetus", "orthopaedic": "orthopedic", "fulfil": "fulfill", "enrol": "enroll",
    "skilful": "skillful", "cosy": "cozy", "odour": "odor", "odours": "odors",
}  # fmt: skip


class Word(NamedTuple):
    """A token without case and accents, its stem, and its weight: whole, so that sums do not depend on their order."""

    folded: str
    stem: str
    weight: int
    is_stop: bool


class ComparedText(NamedTuple):
    """A text to be compared; `weights` are those of its content words by stem, `words` what is written for a stem."""

    stems: list[str]
    words: dict[str, str]
    spelling: list[str]
    weights: dict[str, int]
    affirmed: frozenset[str]
    denied: frozenset[str]
    folded: str
    quantities: list[Quantity]


def read_text(text: str, *, decimal_comma: bool) -> ComparedText:
    """Return a plain text as it is compared."""
    unified = _ANYBODY.sub(r"\1body", in_decimals(unify(text), decimal_comma=decimal_comma))
    signed = without_points(in_digits(unified))
    written = _SIGNED.sub(lambda match: match[1] + _SIGN_NAMES[match[2]], signed)
    written = _THOUSANDS[decimal_comma].sub("", written).replace("%", " percent ")
    denials = Denials(written.lower())
    words = [
        (read_word(token[0]), denials.cover(token.start())) for token in iterate_tokens(written, keep_apostrophes=True)
    ]
    # Of function words alone ("The Who") all count.
    content = {word.stem: word.weight for word, _ in words if not word.is_stop}
    return ComparedText(
        stems=[word.stem for word, _ in words],
        words={word.stem: word.folded for word, _ in reversed(words)},
        spelling=[word.folded for word, _ in words],
        weights=content or {word.stem: word.weight for word, _ in words},
        affirmed=frozenset(word.stem for word, is_denied in words if not is_denied),
        denied=frozenset(word.stem for word, is_denied in words if is_denied),
        folded=fold(unified),
        quantities=quantities(unified, decimal_comma=decimal_comma),
    )


def without_points(text: str) -> str:
    """Return the text with `US` for `U.S.`."""
    return _ABBREVIATION.sub(lambda match: match[0].replace(".", ""), text)


@lru_cache(maxsize=100_000)
def read_word(token: str) -> Word:
    """Return a token as it is compared."""
    if token[0].isdigit():
        return Word(token, token, 20 + min(len(token), 10), is_stop=False)
    folded = _ELISION.sub("", _POSSESSIVE.sub("", fold(token)), count=1)
    # WHO and US are names if they are written so.
    is_stop = folded in _STOP_WORDS and not (len(folded) > 1 and token.isupper())
    if folded in ("percent", "pct"):
        stem = "%"
    elif COUNTING_WORDS.get(folded, 0) > 1:
        stem = str(COUNTING_WORDS[folded])
    else:
        stem = english_stem(_american(folded))
    return Word(folded, stem, 20 + min(len(folded), 10), is_stop)


def _american(word: str) -> str:
    for pattern, spelling in _BRITISH:
        word = pattern.sub(spelling, word)
    return _AMERICAN.get(word, word)


def wanted_numbers(gold: Sequence[Quantity], asked: Sequence[Quantity], *, is_brief: bool) -> list[Quantity]:
    """Return the numbers an answer must have: not the question's years nor the 0 of `0 h 17`, and `one` only alone."""
    years = {quantity.value for quantity in asked if quantity.is_year}
    years |= {float(quantity.date.year) for quantity in asked if quantity.date and quantity.date.year}
    wanted = []
    for quantity in gold:
        is_nothing = quantity.value == 0 and quantity.unit != "code" and quantity.date is None and len(gold) > 1
        if (quantity.is_year and quantity.value in years) or (quantity.is_weak and not is_brief) or is_nothing:
            continue
        date = quantity.date
        if date is not None and date.year in years and date.day is not None:
            quantity = quantity._replace(date=date._replace(year=None))
        wanted.append(quantity)
    return wanted


def opposite(gold: ComparedText, given: ComparedText) -> str | None:
    """Return why a text says the opposite of a gold one in its words; None if it does not."""
    common = [stem for stem in gold.weights if stem in given.affirmed or stem in given.denied]
    alike = (gold.affirmed & given.affirmed) | (gold.denied & given.denied)
    denied = [stem for stem in common if stem not in alike]
    if denied and sum(gold.weights[stem] for stem in denied) >= _DENIED * sum(gold.weights[stem] for stem in common):
        return f"one of the two denies {', '.join(gold.words[stem] for stem in denied[:5])}"
    for match in _PAIR.finditer(gold.folded):
        first, second = (rf"(?<![\d.,]){part}(?![\d]|[.,]\d)" for part in match.groups())
        turned = re.search(rf"{second} ?(?:[-:]|to) ?{first}", given.folded)
        if turned and match[1] != match[2] and not re.search(rf"{first}.{{1,40}}?{second}", given.folded, re.DOTALL):
            return f"{turned[0]} is {match[0]} the other way round"
    wanted, said = frozenset(gold.stems), frozenset(given.stems)
    for one, other in (pair for left, right in _OPPOSITES for pair in ((left, right), (right, left))):
        if wanted & one and not wanted & other and said & other and not said & one:
            return f"{given.words[min(said & other)]} is the opposite of {gold.words[min(wanted & one)]}"
    return None


def other_name(gold: ComparedText, given: ComparedText) -> str | None:
    """Return which name a text has in place of a gold one with a number, such as GPT-4o for GPT-4; None without one."""
    pairs = set(pairwise(given.stems))
    for place, (name, number) in enumerate(pairwise(gold.stems)):
        wanted = _NUMBERED.fullmatch(number)
        if wanted is None or name not in gold.weights or not name.isalpha() or (name, number) in pairs:
            continue
        following = "".join(gold.stems[place + 2 : place + 3])
        for found in (_NUMBERED.fullmatch(other) for one, other in sorted(pairs) if one == name):
            if found is None or found[1] != wanted[1]:
                continue
            letters = found[2] or wanted[2]
            is_plural = letters == "s" and len(found[1]) > 1  # Boeing 747s
            if not is_plural and letters != following and not _NO_PART_OF_A_NAME.fullmatch(letters):
                return f"{gold.words[name]} {found[0]} is not {gold.words[name]} {number}"
    for stem in gold.stems:
        if stem.isalpha() or stem[0].isdigit() or stem in given.stems:
            continue
        for other in given.stems:
            shorter, longer = sorted((stem, other), key=len)
            if longer.startswith(shorter) and longer[len(shorter) :].isalpha() and not shorter.isalpha():
                return f"{other} is not {stem}"
    return None


def other_notation(gold: ComparedText, given: ComparedText) -> str | None:
    """Return which formula or initials a text has for the words of the other, CO2 or WHO; None without any.

    Words do not say what a formula stands for, and initials may stand for others.
    """
    for short, long in ((gold, given), (given, gold)):
        if gold.quantities or not long.weights:
            continue
        formula = next((stem for stem in short.weights if _FORMULA.fullmatch(stem)), None)
        if formula is not None and not any(map(_FORMULA.fullmatch, long.weights)) and len(gold.weights) <= BRIEF:
            return f"{formula} is a formula"
        content = [word[0] for stem, word in zip(long.stems, long.spelling, strict=True) if stem in long.weights]
        initials = "".join(content)
        for stem in short.weights:
            is_whole = len(short.weights) == 1 if short is gold else stem == initials
            if is_whole and len(stem) >= _INITIALS_MIN and stem.isalpha() and stem in initials:
                return f"{stem} may be initials"
    return None
