"""What the judge knows of each language besides its words: how it stems, writes numbers, and says yes, no and not.

Only English is calibrated; the other lists are smoke-tested.
"""

from typing import NamedTuple

from rag_eval_pipeline.judges.lexical.settings import LanguageCode
from rag_eval_pipeline.text.normalise import fold


class Language(NamedTuple):
    """One language.

    Args:
        stemmer: Name of its Snowball stemmer; None for none.
        names_by_case: Whether a capital letter inside a sentence marks a name; in German it marks any noun.
        yes: Folded words that an agreeing answer begins with.
        no: The same for a disagreeing one.
        negations: Folded words that negate.
        negating: Parts of a text that negate, in scripts without spaces.
    """

    stemmer: str | None
    names_by_case: bool
    yes: frozenset[str]
    no: frozenset[str]
    negations: frozenset[str]
    negating: tuple[str, ...] = ()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LANGUAGES: dict[LanguageCode, Language] = {
    "en": Language(
        "english", True, _words("yes yeah yep"), _words("no nope"),
        _words("not no never without cannot none neither nor nobody nothing nowhere hardly lacks lacking"),
    ),
    "de": Language(
        "german", False, _words("ja"), _words("nein"),
        _words("nicht kein keine keinen keinem keiner keines nie niemals ohne weder nichts niemand"),
    ),
    "fr": Language(
        "french", True, _words("oui"), _words("non"),
        _words("ne pas n jamais sans aucun aucune ni rien personne non"),
    ),
    "es": Language(
        "spanish", True, _words("si"), _words("no"),
        _words("no nunca sin jamas ningun ninguna ninguno ni tampoco nada nadie"),
    ),
    "it": Language(
        "italian", True, _words("si"), _words("no"),
        _words("non no mai senza nessun nessuna nessuno ne niente nulla"),
    ),
    "pt": Language(
        "portuguese", True, _words("sim"), _words("nao"),
        _words("nao nunca sem jamais nenhum nenhuma nem nada ninguem"),
    ),
    "nl": Language(
        "dutch", True, _words("ja"), _words("nee"),
        _words("niet geen nooit zonder noch niets niemand"),
    ),
    "ru": Language(
        "russian", True, _words("да"), _words("нет"),
        _words("не нет никогда без ни ничего никто нельзя"),
    ),
    "pl": Language(
        "polish", True, _words("tak"), _words("nie"),
        _words("nie nigdy bez ani nic nikt zaden zadna zadne"),
    ),
    "tr": Language(
        "turkish", True, _words("evet"), _words("hayir hayır"),
        _words("degil yok asla hicbir olmadan"),
    ),
    "zh": Language(None, True, _words("是"), _words("不 否"), _words("不 没 沒 未 非 无 無")),
    "ja": Language(
        None, True, _words("はい"), _words("いいえ"), frozenset(),
        negating=("ない", "なかった", "なく", "ません", "ずに"),
    ),
    "ko": Language(
        None, True, _words("네 예"), _words("아니요 아니오"), _words("안 못"),
        negating=("않", "없", "아니", "못했", "못하"),
    ),
    "ar": Language(
        "arabic", True, _words("نعم"), _words("لا"), _words("لا لم لن ليس ليست غير بدون دون"),
    ),
    "hi": Language("hindi", True, _words("हाँ हां"), _words("नहीं"), _words("नहीं न मत बिना")),
}  # fmt: skip

YES: dict[LanguageCode, tuple[str, ...]] = {
    code: tuple(sorted(fold(word) for word in language.yes)) for code, language in LANGUAGES.items()
}
"""Folded words that an agreeing answer begins with."""
NO: dict[LanguageCode, tuple[str, ...]] = {
    code: tuple(sorted(fold(word) for word in language.no)) for code, language in LANGUAGES.items()
}
"""The same for a disagreeing one."""
