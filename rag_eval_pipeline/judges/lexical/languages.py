"""What the judge knows of each language besides its words: how it stems, writes numbers, and says yes, no and not.

Only English is calibrated; the other lists are smoke-tested.
"""

from typing import NamedTuple

from rag_eval_pipeline.judges.lexical.settings import LanguageCode


class Language(NamedTuple):
    """One language.

    Args:
        stemmer: Name of its Snowball stemmer; None for none.
        decimal_comma: Whether 1,5 is one and a half.
        names_by_case: Whether a capital letter inside a sentence marks a name; in German it marks any noun.
        yes: Folded words that an agreeing answer begins with.
        no: The same for a disagreeing one.
        negations: Folded words that negate.
        negating: Parts of a text that negate, in scripts without spaces.
        months: Names of the twelve, each with its short forms, folded.
    """

    stemmer: str | None
    decimal_comma: bool
    names_by_case: bool
    yes: frozenset[str]
    no: frozenset[str]
    negations: frozenset[str]
    negating: tuple[str, ...] = ()
    months: tuple[tuple[str, ...], ...] = ()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _months(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(names.split("|")) for names in text.split())


LANGUAGES: dict[LanguageCode, Language] = {
    "en": Language(
        "english", False, True, _words("yes yeah yep"), _words("no nope"),
        _words("not no never without cannot none neither nor nobody nothing nowhere hardly lacks lacking"),
        months=_months(
            "january|jan february|feb march|mar april|apr may june|jun july|jul august|aug september|sept|sep "
            "october|oct november|nov december|dec"
        ),
    ),
    "de": Language(
        "german", True, False, _words("ja"), _words("nein"),
        _words("nicht kein keine keinen keinem keiner keines nie niemals ohne weder nichts niemand"),
        months=_months(
            "januar|jan februar|feb marz|mar april|apr mai juni|jun juli|jul august|aug september|sept|sep "
            "oktober|okt november|nov dezember|dez"
        ),
    ),
    "fr": Language(
        "french", True, True, _words("oui"), _words("non"),
        _words("ne pas n jamais sans aucun aucune ni rien personne non"),
        months=_months(
            "janvier fevrier|fevr mars avril mai juin juillet aout septembre|sept octobre|oct novembre|nov decembre|dec"
        ),
    ),
    "es": Language(
        "spanish", True, True, _words("si"), _words("no"),
        _words("no nunca sin jamas ningun ninguna ninguno ni tampoco nada nadie"),
        months=_months(
            "enero febrero marzo abril mayo junio julio agosto septiembre|setiembre octubre noviembre diciembre"
        ),
    ),
    "it": Language(
        "italian", True, True, _words("si"), _words("no"),
        _words("non no mai senza nessun nessuna nessuno ne niente nulla"),
        months=_months(
            "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"
        ),
    ),
    "pt": Language(
        "portuguese", True, True, _words("sim"), _words("nao"),
        _words("nao nunca sem jamais nenhum nenhuma nem nada ninguem"),
        months=_months(
            "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro"
        ),
    ),
    "nl": Language(
        "dutch", True, True, _words("ja"), _words("nee"),
        _words("niet geen nooit zonder noch niets niemand"),
        months=_months(
            "januari|jan februari|feb maart|mrt april|apr mei juni|jun juli|jul augustus|aug september|sep "
            "oktober|okt november|nov december|dec"
        ),
    ),
    "ru": Language(
        "russian", True, True, _words("да"), _words("нет"),
        _words("не нет никогда без ни ничего никто нельзя"),
        months=_months(
            "января|январь|январе февраля|февраль|феврале марта|март|марте апреля|апрель|апреле мая|маи|мае "
            "июня|июнь|июне июля|июль|июле августа|август|августе сентября|сентябрь|сентябре "
            "октября|октябрь|октябре ноября|ноябрь|ноябре декабря|декабрь|декабре"
        ),
    ),
    "pl": Language(
        "polish", True, True, _words("tak"), _words("nie"),
        _words("nie nigdy bez ani nic nikt zaden zadna zadne"),
        months=_months(
            "stycznia|styczen lutego|luty marca|marzec kwietnia|kwiecien maja|maj czerwca|czerwiec lipca|lipiec "
            "sierpnia|sierpien wrzesnia|wrzesien pazdziernika|pazdziernik listopada|listopad grudnia|grudzien"
        ),
    ),
    "tr": Language(
        "turkish", True, True, _words("evet"), _words("hayir hayır"),
        _words("degil yok asla hicbir olmadan"),
        months=_months("ocak subat mart nisan mayis|mayıs haziran temmuz agustos eylul ekim kasim|kasım aralik|aralık"),
    ),
    "zh": Language(None, False, True, _words("是"), _words("不 否"), _words("不 没 沒 未 非 无 無")),
    "ja": Language(
        None, False, True, _words("はい"), _words("いいえ"), frozenset(),
        negating=("ない", "なかった", "なく", "ません", "ずに"),
    ),
    "ko": Language(
        None, False, True, _words("네 예"), _words("아니요 아니오"), _words("안 못"),
        negating=("않", "없", "아니", "못했", "못하"),
    ),
    "ar": Language(
        "arabic", False, True, _words("نعم"), _words("لا"), _words("لا لم لن ليس ليست غير بدون دون"),
    ),
    "hi": Language("hindi", False, True, _words("हाँ हां"), _words("नहीं"), _words("नहीं न मत बिना")),
}  # fmt: skip
