"""What refusals look like: families of English patterns.

All patterns are for lower-case unified text with single spaces and run in linear time, as gaps are
bounded numbers of words.
"""

import re
from typing import Literal

Family = Literal["no_know", "cannot", "context", "absent", "policy", "apology", "ai", "redirect", "other_language"]

_ADVERBS = (
    r"(?:(?:really|simply|just|currently|honestly|also|still|personally|unfortunately|actually|directly|definitively"
    r"|explicitly|specifically|clearly|therefore|confidently|reliably|accurately|unable|am|be) ){0,3}"
)
_FINDING = (
    r"(?:answer|determine|find|provide|calculate|confirm|verify|tell|say|give|locate|identify|compute|access|assist"
    r"|specify|ascertain|conclude|infer|derive|respond|comment|estimate|offer|retrieve|generate|see any)"
)
_SOURCE = (
    r"(?:contexts?|documents?|texts?|passages?|evidence|sources?|materials?|excerpts?|snippets?|knowledge base"
    r"|documentation|search results?|extracts?|paragraphs?|transcripts?|pages?|tables?)"
)
# What a system was given only when it says so: "the data does not include 2019" may be a fact of the document.
_GIVEN = r"(?:provided|given|available|supplied|retrieved|above|cited|referenced|attached|relevant)"
_GIVEN_ALONE = r"(?:provided|given|available|supplied|retrieved|above)"
_ANY_SOURCE = (
    rf"(?:{_SOURCE}|{_GIVEN} (?:\w+ )?(?:information|data|report|filing|article|content|results?|pages?|files?"
    r"|details)"
    rf"|(?:information|data|content|report|filing|article|details) (?:that (?:is|was) )?(?:i have|{_GIVEN_ALONE}"
    r"|you provided))"
)
_AFTER_SOURCE = (
    rf"(?: (?:that (?:is|was|are|were) )?(?:{_GIVEN_ALONE}|here|in question|you (?:have )?provided|i have"
    r"|at hand))?,? "
)
_STATING = (
    r"(?:contain|mention|provide|specify|include|state|give|say|address|discuss|answer|indicate|cover|disclose|list"
    r"|offer|explain|describe|reveal|have|detail|refer|identify|name|report|tell|elaborate|clarify|define|present)"
)
_KNOWLEDGE = r"(?:information|data|details?|knowledge|access|record|records|context|evidence|answer|idea|clue)"

FAMILIES: dict[Family, tuple[re.Pattern[str], ...]] = {
    "no_know": (
        re.compile(
            rf"\b(?:i|we) {_ADVERBS}(?:do not|don't|did not|didn't|cannot|can't) {_ADVERBS}(?:know\b"
            rf"|have (?:\w+ ){{0,4}}?{_KNOWLEDGE}\b)"
        ),
        re.compile(
            r"\b(?:i|we)(?:'m| am|'re| are) (?:\w+ )?(?:not (?:\w+ )?(?:sure|aware|certain|familiar)|unaware"
            r"|unsure)\b"
        ),
        re.compile(rf"\b(?:i|we) (?:have no|lack|(?:don't|do not) have any) (?:\w+ ){{0,3}}?{_KNOWLEDGE}\b"),
    ),
    "cannot": (
        re.compile(
            rf"\b(?:i|we|it) {_ADVERBS}(?:cannot|can not|can't|could not|couldn't|was not able to|were not able to) "
            rf"{_ADVERBS}(?:\w+ ){{0,3}}?{_FINDING}\b"
        ),
        re.compile(
            r"(?:\b(?:i|we)(?:'m| am|'re| are| was| were|) (?:\w+ )?|^)(?:unable"
            rf"|not able) to (?:\w+ ){{0,3}}?{_FINDING}\b"
        ),
        re.compile(
            r"\bit (?:is|was|would be|'s) (?:\w+ )?(?:impossible|not possible"
            rf"|not feasible) to (?:\w+ ){{0,3}}?{_FINDING}\b"
            rf"|\bit's (?:impossible|not possible) to (?:\w+ ){{0,3}}?{_FINDING}\b"
        ),
        re.compile(
            r"\b(?:cannot|can not|can't|could not) be (?:\w+ )?(?:determined|answered|calculated|found|inferred"
            r"|ascertained"
            r"|established|confirmed|verified|derived|computed|concluded)(?:\W*$| (?:\w+ ){0,2}?(?:from|based"
            r"|using|with|given|without|in the)\b)"
        ),
        re.compile(r"^(?:cannot|can't) (?:answer|determine|say|tell)\b"),
    ),
    "context": (
        re.compile(
            rf"\b{_ANY_SOURCE}{_AFTER_SOURCE}(?:\w+ )?(?:does not|doesn't|do not|don't|did not"
            rf"|didn't) (?:\w+ ){{0,2}}?{_STATING}\b"
        ),
        re.compile(
            rf"\b{_ANY_SOURCE}{_AFTER_SOURCE}(?:\w+ )?(?:(?:has|have|contains?|provides?|gives?|offers?|includes?"
            r"|makes?) "
            r"(?:no|insufficient|not enough|too little)|lacks?|fails? to|(?:is|are) (?:silent|insufficient"
            r"|not sufficient|inadequate))\b"
        ),
        re.compile(
            rf"\b{_ANY_SOURCE}{_AFTER_SOURCE}(?:\w+ )?(?:says?|states?|gives?|tells?|reveals?|mentions?|contains?"
            r"|offers?) (?:\w+ )?nothing\b"
        ),
    ),
    "absent": (
        re.compile(
            rf"\b(?:not|n't|never) (?:\w+ ){{0,2}}?(?:mentioned|provided|specified|stated|available|given|found"
            r"|included"
            r"|disclosed|described|indicated|discussed|addressed|listed|present|detailed|covered|contained"
            r"|explained|defined"
            r"|answered|identified|named|recorded|noted|reported|documented|shown) (?:anywhere )?(?:in|by|within|from) "
            rf"(?:\w+ ){{0,4}}?{_ANY_SOURCE}\b"
        ),
        re.compile(
            r"\b(?:is|are|was|were)(?: not|n't) (?:\w+ )?(?:mentioned|specified|stated|disclosed|provided"
            r"|indicated|named|recorded|documented|identified|given)\W*$"
        ),
        re.compile(
            r"\bthere(?:'s| is| was| are| were) (?:\w+ )?(?:no|not|insufficient)(?: (?:enough|any|sufficient))? "
            r"(?:\w+ ){0,3}?(?:information|mention|details?|reference|answer)\b"
        ),
        re.compile(
            r"\bthere (?:isn't|aren't|wasn't) (?:enough|any|sufficient) (?:\w+ ){0,2}?(?:information|mention|data"
            r"|details?)\b"
        ),
        re.compile(
            rf"\bthere(?:'s| is| was| are| were) (?:no|not any|insufficient) (?:\w+ ){{0,2}}?(?:evidence"
            r"|indication|data|record)s?"
            rf" (?:\w+ ){{0,6}}?(?:in|from|within) (?:\w+ ){{0,3}}?{_ANY_SOURCE}\b"
        ),
        re.compile(
            r"(?:^|\b(?:is|are|was|were|due to|gives?|provides?|with|has|have|contains?) )(?:not enough|insufficient"
            r"|no(?: (?:relevant|specific|sufficient|further|additional))?) (?:\w+ )?(?:information|context"
            r"|details)\b"
        ),
        re.compile(
            r"\bno (?:\w+ ){0,2}?(?:information|mention|details?|data) (?:\w+ ){0,6}?(?:provided|available|found"
            r"|given|made)\b"
        ),
        re.compile(
            r"^\W*(?:n ?/ ?a|not applicable|unanswerable|unknown|not available|not answerable|no answer(?: found"
            r"| available)?"
            r"|no (?:relevant )?information(?: found| available)?|idk|insufficient (?:information|context|data)"
            r"|not (?:mentioned|provided|specified|stated|found|given|disclosed))\W*$"
        ),
    ),
    "policy": (
        re.compile(
            r"\b(?:cannot|can't|can not|unable to|not able to|won't|will not) (?:\w+ ){0,2}?(?:help"
            r"|assist)(?: you)?(?: with| in)?\b"
        ),
        re.compile(
            r"\b(?:outside|beyond)(?: of)? (?:my|our) (?:\w+ ){0,2}?(?:scope|knowledge|expertise|capabilit\w+"
            r"|abilit\w+|remit)\b"
        ),
        re.compile(
            r"\b(?:outside|beyond)(?: of)? the scope of (?:the|this|these) (?:\w+ )?(?:contexts?|documents?"
            r"|sources?|assistant)\b"
        ),
        re.compile(
            r"\bi (?:must|have to) (?:\w+ )?(?:decline|refuse)\b|\bi(?:'m| am) not (?:allowed|permitted"
            r"|authori[sz]ed) to\b"
        ),
    ),
    "apology": (
        re.compile(
            r"^\W*(?:(?:i am|i'm|we are|we're) (?:\w+ )?sorry|sorry|(?:my )?apologies|i (?:do )?apologi[sz]e"
            r"|unfortunately|regrettably|i regret|we regret)\b"
        ),
    ),
    "ai": (
        re.compile(
            r"\b(?:as|i'm|i am) (?:just |only )?an? (?:\w+ )?(?:ai|artificial intelligence|language model|chatbot"
            r"|llm)\b"
        ),
        re.compile(r"\bmy (?:last|latest|knowledge|training) (?:\w+ )?(?:update|cutoff|cut off|data)\b"),
    ),
    "redirect": (
        re.compile(
            r"\b(?:you|one)(?:'d| would| will| may| might| can| could| should)?(?: (?:also|need|want|wish|have"
            r"|like|please|to|first)){0,4} "
            r"(?:consult|refer|check|contact|review|look|visit|reach out|seek)\b"
        ),
        re.compile(
            r"\b(?:i|we)(?:'d| would)? (?:recommend|suggest|advise)(?: that)?(?: you)? (?:\w+ ){0,2}?"
            r"(?:check|consult|contact|refer|review|look|visit|reach|search|seek)\w*"
        ),
        re.compile(r"\bif you (?:can|could|have|provide|share|give|would like)\b"),
        re.compile(
            r"\b(?:please|kindly) (?:\w+ )?(?:provide|consult|check|refer|contact|share|clarify|see|visit"
            r"|rephrase|specify|ask|try)\b"
        ),
        re.compile(
            r"\b(?:can|could|would) you (?:please )?(?:provide|clarify|share|specify|rephrase)\b|\bfeel free to\b"
        ),
        re.compile(
            r"\bit (?:is|would be) (?:best|advisable|recommended|better) to (?:consult|check|contact|refer|ask"
            r"|visit|seek)\b"
        ),
    ),
}  # fmt: skip

STRONG: tuple[Family, ...] = ("no_know", "cannot", "context", "absent", "policy", "other_language")
FIRST_PERSON = re.compile(r"\b(?:i|we|my|our)\b")

# A sentence without any of the first is no hit of a strong family, one without any of the second of no other: most
# sentences are told apart here.
STRONG_CUE = re.compile(
    r"n't|\b(?:not|no|nothing|never|cannot|unable|impossible|insufficient|lacks?|fails?|silent|inadequate|outside"
    r"|beyond|decline|refuse|unaware|unsure|unknown|unanswerable|n ?/ ?a|idk)\b"
)
WEAK_CUE = re.compile(
    r"\b(?:sorry|apolog\w+|unfortunately|regret\w*|ai|artificial|language model|chatbot|llm|my|consult|refer|check"
    r"|contact|review|look|visit|reach|search|seek|recommend|suggest|advise|if you|please|kindly|you|feel free"
    r"|it is|it would)\b"
)

RECIPE = re.compile(
    r"^(?:to (?:calculate|determine|find|compute|answer|get|provide|work out|derive|estimate"
    r"|know)\b.{0,160}?\b(?:we|you|i|one)"
    r"(?:'d| would| will)? (?:need|require|have to|must|should)\b"
    r"|(?:you|we|one)(?:'d| would| will)? need (?:the following|to (?:know|have)|more|additional|further)\b)"
)
TURN = re.compile(r"^\W*(?:but|however|based on|although|though)\b")
GUIDANCE = re.compile(
    r"\b(?:i|we) (?:can|could|may be able to)\b|\b(?:typically|generally|usually|in general|worth noting"
    r"|important to note"
    r"|note that|you (?:can|could|may|might|would|should)|if you|it is (?:important|worth|possible|likely"
    r"|recommended)"
    r"|here(?:'s| is| are) (?:how|some))\b"
)
