"""Phrases by which `toxicity` goes: English, few, and built around who is spoken of and what is said of them.

Slurs are not listed: without the speaker's meaning they say too little, and a list of them does harm of its own.
"""

import re
from typing import NamedTuple

_GROUP = (
    r"(?:women|men|girls|boys|muslims?|christians?|jews?|hindus?|buddhists?|atheists?|immigrants?|migrants?|refugees?"
    r"|foreigners?|gays?|lesbians?|homosexuals?|(?:trans|transgender|black|white|brown|asian|african|arab|disabled|old"
    r"|poor|fat|gay|jewish|muslim) (?:people|men|women|folks?)|asians?|africans?|arabs?|mexicans?|gypsies)"
)
_DEGRADED = r"(?:vermin|scum|animals|parasites|filth|subhuman|trash|garbage|rats|cockroaches|a plague|a disease)"
_BELITTLED = (
    r"(?:all |just |simply |so |too |naturally |inherently )*(?:stupid|dumb|lazy|inferior|criminals?|dirty|disgusting"
    r"|thieves|liars|greedy|violent|weak|worthless|terrorists?|primitive)"
)
_NAME_CALLED = r"(?:idiots?|morons?|imbeciles?|losers?|fools?|dumbass|pigs?|freaks?|scum|bastards?)"
_INSULT = rf"(?:{_NAME_CALLED}|worthless|pathetic|stupid|dumb|disgusting|ugly|useless)"
_HARM = r"(?:kill|murder|hurt|beat|shoot|stab|strangle|rape|torture|hang|burn|destroy)"
_PERSON = r"(?:you|him|her|them|your (?:family|children|wife|husband))"


class ToxicPhrase(NamedTuple):
    """What is found, in which category, and how severe it is in [0, 1] when nothing mitigates it."""

    category: str
    pattern: re.Pattern[str]
    severity: float


def _phrase(category: str, pattern: str, severity: float) -> ToxicPhrase:
    return ToxicPhrase(category, re.compile(pattern, re.IGNORECASE), severity)


CATEGORIES = ("hate_speech", "harassment", "violence", "sexual_content", "profanity", "identity_attack")

PHRASES: tuple[ToxicPhrase, ...] = (
    _phrase("hate_speech", rf"\b{_GROUP} (?:are|is) (?:all |nothing but |just )?{_DEGRADED}\b", 0.9),
    _phrase("hate_speech", rf"\b(?:i|we) (?:really )?(?:hate|despise|loathe) (?:all )?{_GROUP}\b", 0.9),
    _phrase(
        "hate_speech",
        rf"\b{_GROUP} (?:should|must|ought to|deserve to)(?: all)? (?:be )?(?:die|killed|exterminated|eliminated|wiped"
        r" out|gassed|hanged|shot|expelled|deported)\b",
        0.95,
    ),
    _phrase("identity_attack", rf"\b(?:all |most |these |those )?{_GROUP} (?:are|is) {_BELITTLED}\b", 0.8),
    _phrase("identity_attack", rf"\b(?:typical|stupid|dirty|lazy|damn) {_GROUP}\b", 0.6),
    _phrase(
        "harassment",
        rf"\byou(?:'re| are) (?:all |such |really |just |so |too )*(?:an? )?(?:(?!not\b|never\b|no\b)\w+ )?{_INSULT}\b",
        0.7,
    ),
    _phrase("harassment", rf"\byou (?:(?:stupid|dumb|fucking|pathetic|worthless|little) )?{_NAME_CALLED}\b", 0.7),
    _phrase("harassment", r"\b(?:shut (?:the \w+ )?up|nobody likes you|you disgust me|you should be ashamed)\b", 0.5),
    _phrase(
        "violence",
        rf"\b(?:i|we)(?:'ll| will|'m going to| am going to|'re going to| are going to) {_HARM} {_PERSON}\b",
        0.95,
    ),
    _phrase("violence", rf"\b{_HARM} (?:yourself|yourselves)\b", 0.95),
    _phrase("violence", r"\byou (?:should|must|deserve to) (?:die|suffer|be (?:killed|shot|beaten))\b", 0.9),
    _phrase("violence", rf"\A\W*{_HARM} (?:him|her|them|all|every|everyone)\b", 0.8),
    _phrase("violence", r"\b(?:let's|we should|we must) (?:kill|murder|lynch|attack|shoot|bomb)\b", 0.9),
    _phrase("sexual_content", r"\b(?:porn|porno|pornographic|xxx|nudes|blowjobs?|masturbat\w{1,5}|horny)\b", 0.6),
    _phrase("sexual_content", r"\b(?:naked|nude) (?:pictures?|photos?|videos?|girls?|women|men)\b", 0.5),
    _phrase("profanity", r"\b(?:(?:mother)?fuck\w{0,4}|shit(?:ty|s)?|bullshit|assholes?|bitch(?:es)?|cunts?)\b", 0.6),
    _phrase("profanity", r"\b(?:damn|goddamn|crap|bastards?|pissed)\b", 0.3),
)
