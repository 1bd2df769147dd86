"""Phrases of refusal in languages other than English: one list each, smoke-tested and not calibrated.

Words such as "unfortunately" are left out: they open bad news as often as a refusal.
"""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words may come between the parts, as word order varies.
_BETWEEN = r"(?: \S+){0,4}? "
OTHER_LANGUAGES: dict[str, re.Pattern[str]] = {
    "de": re.compile(
        rf"\b(?:wei(?:ß|ss)(?:{_BETWEEN}| )nicht|(?:kann|können"
        rf"|konnte){_BETWEEN}?nicht (?:\S+ ){{0,3}}?(?:beantwort\w+|finden|gefunden|sagen|bestimm\w+"
        rf"|ermittel\w+|angeben|beurteilen)|(?:enthält|enthalten|liefert|gibt)(?:{_BETWEEN}| )?(?:keine"
        rf"|nicht genügend)|keine(?:{_BETWEEN}| )(?:angaben|informationen?|hinweise?)"
        r"|keine angaben|tut mir(?: \w+)? leid|nicht (?:\S+ )?(?:erwähnt|angegeben|genannt|enthalten)"
        r"|nicht beantwort\w+)\b"
    ),
    "fr": re.compile(
        r"\b(?:(?:je )?ne (?:sais|peux|peut) (?:\S+ )?pas|ne (?:mentionn\w+|contien\w+|précis\w+|fourni\w+"
        r"|donn\w+|permet\w*) (?:\S+ )?(?:pas|aucune?)"
        r"|aucune information|aucune mention|désolée?|n'est pas (?:\S+ )?(?:mentionnée?|précisée?"
        r"|indiquée?))\b"
    ),
    "es": re.compile(
        r"\b(?:no lo sé|no sé|no puedo|no se puede (?:\S+ )?(?:determinar|responder)|no (?:se )?(?:menciona\w*"
        r"|proporciona[n]?\b|especifica\w*|contiene\w*|indica[n]?\b)"
        r"|no hay (?:suficiente )?información|no tengo (?:\S+ )?información|lo siento)\b"
    ),
    "it": re.compile(
        r"\b(?:non lo so|non so|non posso|non (?:è|viene) (?:menzionat\w|specificat\w|indicat\w)"
        r"|non (?:menzion\w+|contien\w+|fornisc\w+|specifica(?:no)?\b)"
        r"|nessuna informazione|non ci sono informazioni|mi dispiace)\b"
    ),
    "pt": re.compile(
        r"\b(?:não sei|não posso|não (?:é|foi) (?:mencionad\w|especificad\w|informad\w)|não (?:mencion\w+"
        r"|cont(?:é|ê)m|fornec\w+|especific\w+)"
        r"|não há informaç(?:ões|ão)|não tenho informaç(?:ões|ão)|desculpe)\b"
    ),
    "nl": re.compile(
        r"\b(?:weet(?: \S+){0,3}? niet|geen (?:\S+ )?informatie|niet (?:\S+ )?(?:vermeld|genoemd|gegeven)"
        r"|kan(?: \S+){0,5}? niet (?:\S+ ){0,2}?"
        r"(?:beantwoorden|vinden|bepalen)|het spijt me|sorry)\b"
    ),
    "ru": re.compile(
        r"(?:не знаю|нет информации|не указан\w*|не упомина\w*|не содержит\w*|не могу"
        r"|невозможно (?:\S+ )?(?:определить|ответить)"
        r"|недостаточно информации|извините)"
    ),
    "pl": re.compile(
        r"\b(?:nie wiem|nie mogę|brak (?:\S+ )?informacji|nie ma informacji|nie zawiera\w*|nie wspomin\w*"
        r"|nie (?:jest|zostało|podano)(?: \w+)? ?(?:podan\w*|wspomnian\w*|określon\w*)?"
        r"|nie podano|przykro mi|przepraszam)\b"
    ),
    "tr": re.compile(
        r"(?:bilmiyorum|bilgi (?:yok|bulunm\w+|içermi\w+)|belirtilmem\w+|bahsedilm[ie]\w+|cevaplayam\w+"
        r"|yanıtlayam\w+|üzgünüm)"
    ),
    "zh": re.compile(
        r"无法(?:回答|确定|得知|提供|找到)|無法(?:回答|確定|得知|提供)|不知道|未(?:明确)?提[及到]"
        r"|没有(?:明确)?(?:提供|提到|提及|说明)|沒有(?:提供|提到|提及)|信息不足|抱歉|对不起|不清楚"
    ),
    "ja": re.compile(
        r"わかりません|分かりません|記載(?:が|は)(?:ありません|ない)|できません|言及されていません|情報(?:が"
        r"|は)(?:ありません|不足|ない)|申し訳|不明です"
    ),
    "ko": re.compile(
        r"모르겠|알 수 없|정보가? (?:없|부족)|언급되(?:지 않|어 있지 않)|명시되(?:지 않|어 있지 않)|나와 있지 않"
        r"|답변(?:할|드릴) 수 없|죄송"
    ),
    "ar": re.compile(
        r"لا أعرف|لا اعرف|لا أعلم|لا توجد معلومات|لا تتوفر معلومات|لم (?:يذكر|يرد|تذكر)|لا (?:يذكر|يحتوي|يتضمن"
        r"|يمكنني)|عذرا"
    ),
    "hi": re.compile(
        r"जानकारी (?:\S+ )?नहीं|उल्लेख (?:\S+ )?नहीं|पता नहीं|नहीं (?:बता|कह) सकत|क्षमा करें|माफ़ करें|मुझे खेद"
    ),
}  # fmt: skip

# A Latin-script answer without any of its words holds no pattern of that language.
OTHER_CUES: dict[str, frozenset[str]] = {
    "de": _words("weiß weiss kann können konnte enthält enthalten liefert gibt keine leid nicht"),
    "fr": _words("ne aucune désolé désolée n"),
    "es": _words("no siento"),
    "it": _words("non nessuna dispiace"),
    "pt": _words("não desculpe"),
    "nl": _words("weet geen niet kan spijt"),
    "tr": _words("bilmiyorum bilgi belirtilmemiş bahsedilmemiş cevaplayamam cevaplayamıyorum yanıtlayamam üzgünüm"),
    "pl": _words("nie brak przykro przepraszam"),
}
