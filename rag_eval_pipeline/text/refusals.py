"""Detection of refusals by families of phrases, and by where in the answer they occur.

Patterns are for lower-case text with single spaces. Gaps are bounded numbers of words, so that they run in linear time.
A change of any rule or pattern raises `RULES` of the lexical judge and the versions in `systems.config`.
"""

import re
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple

import yaml

from rag_eval_pipeline.text.sentences import pieces

Family = Literal["no_know", "cannot", "context", "absent", "policy", "apology", "ai", "redirect", "other_language"]

STRONG: frozenset[Family] = frozenset({"no_know", "cannot", "context", "absent", "policy", "other_language"})
_PERSONAL: frozenset[Family] = frozenset({"cannot", "no_know", "ai", "policy"})

_HALF = 0.5  # share of an answer in strong sentences that makes it a refusal, wherever they are
_OPENING = 0.12  # strong share that suffices after an opening that refuses
_EARLY = 0.40  # share of the answer before which a refusal counts as early
_EARLY_STRONG = 0.35  # strong share that suffices when the refusal is early
_RECIPE_STRONG = 0.25  # strong share that suffices after an opening that lists what would be needed

# Vocabulary of the patterns.
_ADVERB = (
    r"(?:(?:really|simply|just|currently|honestly|also|still|personally|unfortunately|actually|directly|definitively"
    r"|explicitly|specifically|clearly|therefore|confidently|reliably|accurately|entirely|fully|exactly|seem to"
    r"|appear to|unable|am|be) ){0,3}"
)
_FINDING = (
    r"(?:answer|determine|find|provide|calculate|confirm|verify|tell|say|give|locate|identify|compute|access|assist"
    r"|specify|ascertain|conclude|infer|derive|respond|comment|estimate|offer|retrieve|generate|see any)"
)
_DECIDING = (
    r"(?:answer|determine|say|tell|know|calculate|compute|infer|ascertain|conclude|derive|verify|confirm|estimate"
    r"|identify|specify|provide|give|establish|deduce|pinpoint|state|respond)"
)
_KNOWLEDGE = r"(?:information|data|details?|knowledge|access|records?|context|evidence|answer|idea|clue)"
_GIVEN = r"(?:provided|given|available|supplied|retrieved|above|cited|referenced|attached|relevant|uploaded|shared)"
_SOURCE = (
    r"(?:contexts?|documents?|docs|texts?|passages?|evidence|sources?|excerpts?|snippets?|knowledge base"
    r"|documentation|search results?|extracts?|paragraphs?|transcripts?|pages?|tables?)"
)
_WORK = (
    r"(?:articles?|reports?|handbooks?|manuals?|papers?|filings?|stud(?:y|ies)|guides?|guidelines?|books?|chapters?"
    r"|sections?|stor(?:y|ies)|records?|files?|datasets?|notes|summar(?:y|ies)|information|data|content|details|faq"
    r"|results?|statements?|materials?)"
)
# "The text of the treaty" and "the documents of the council" are things in the world, unless they were handed over.
_WORLDLY = rf"(?! of (?!(?:the |these |those )?(?:{_GIVEN} |{_SOURCE}|{_WORK})))"
_AFTER = (
    rf"(?:,? (?:that (?:is|was|are|were|have been) )?(?:{_GIVEN}|here|in question|at hand|you(?:'ve| have)? \w+"
    r"|(?:that )?(?:i|we) (?:have|was|were|found)(?: access to| given| been given)?|(?:in|from|of) (?:\w+ ){0,3}?"
    rf"{_SOURCE}|of (?:\w+ ){{0,2}}?{_WORK}))?,?"
)
# What the system was given: by its name, or another kind of text when it is said to have been handed over.
_GIVEN_TEXT = rf"(?:{_SOURCE}{_WORLDLY}|{_GIVEN} (?:\w+ )?{_WORK}|{_WORK} (?:that (?:is|was) )?(?:{_GIVEN}|i have))"
_DOES_NOT = r"(?:does not|doesn't|do not|don't|did not|didn't|cannot|can't|never)"
_SAYING = (
    r"(?:mention|specify|state|say|address|discuss|indicate|disclose|explain|describe|reveal|detail|refer|identify"
    r"|name|tell|elaborate|clarify|define|talk|go into|answer|comment)"
)
_STATING = (
    rf"(?:{_SAYING}|contain|provide|include|give|cover|list|offer|have|report|present|show|allow|make|support|help"
    r"|suggest|break (?:down|out))"
)
_STATED = (
    r"(?:mentioned|provided|specified|stated|available|given|found|included|disclosed|described|indicated|discussed"
    r"|addressed|listed|present|detailed|covered|contained|explained|defined|answered|identified|named|recorded|noted"
    r"|reported|documented|shown)"
)
_IN_GIVEN = rf"(?:in|by|within|from|across|based on) (?:\w+ ){{0,4}}?{_GIVEN_TEXT}"
_ABOUT = r"(?:about|on|of|for|regarding|concerning|relating to|related to|pertaining to|as to)"
_TOLD = r"(?:information|mention|details?|data|answers?|reference|context|results?|documents?|passages?|sources?)"


FAMILIES: dict[Family, tuple[str, ...]] = {
    "no_know": (
        rf"\b(?:i|we) {_ADVERB}(?:do not|don't|did not|didn't|cannot|can't) {_ADVERB}"
        rf"(?:know\b|have (?:\w+ ){{0,4}}?{_KNOWLEDGE}\b)",
        r"\b(?:i|we)(?:'m| am|'re| are) (?:\w+ )?(?:not (?:\w+ )?(?:sure|aware|certain|familiar)|unaware|unsure)\b",
        rf"\b(?:i|we)(?: have no| lack| (?:don't|do not) have any|(?:'m| am|'re| are) missing) (?:\w+ ){{0,3}}?"
        rf"{_KNOWLEDGE}\b",
        r"\b(?:i|we) (?:\w+ )?(?:found|find|see|saw) (?:no|nothing)\b",
        r"\b(?:i|we)(?:'m| am|'re| are) not (?:seeing|finding)\b",
        rf"\b(?:i|we) (?:don't|do not) (?:think|believe) (?:\w+ ){{0,4}}?(?:{_GIVEN_TEXT}|information|answer)\b",
        r"\b(?:i|we) (?:have not|haven't|was not|wasn't) (?:been )?(?:given|provided)\b",
        r"\b(?:i|we)(?:'d| would)? need (?:more|additional|further) (?:\w+ )?(?:information|context|details|data)\b",
    ),
    "cannot": (
        rf"\b(?:i|we) {_ADVERB}(?:cannot|can not|can't|could not|couldn't|(?:was|were)(?: not|n't) able to) "
        rf"{_ADVERB}(?:\w+ ){{0,3}}?{_FINDING}\b",
        rf"\bit (?:cannot|can not|can't) (?:\w+ ){{0,3}}?{_FINDING}\b",
        rf"(?:\b(?:i|we)(?:'m| am|'re| are| was| were|) (?:\w+ )?|^)(?:unable|not able) to"
        rf" (?:\w+ ){{0,3}}?{_FINDING}\b",
        r"\b(?:i|we) (?:did not|didn't|do not|don't|have not|haven't) (?:\w+ )?(?:find|found|see|locate|come across)\b",
        rf"\bit(?: is| would be| seems|'s) (?:\w+ )?(?:impossible|not possible|not feasible) to (?:\w+ ){{0,3}}?"
        rf"{_DECIDING}\b",
        r"\b(?:cannot|can not|can't|could not|couldn't) be (?:\w+ )?(?:determined|answered|said|calculated|inferred"
        r"|ascertained|derived|computed|concluded|deduced)(?:\W*$| (?:\w+ ){0,2}?(?:from|based|using|with|given"
        r"|without|in the|who|what|when|where|which|how|why|whether)\b)",
        r"\b(?:cannot|can not|can't|could not|couldn't) be (?:\w+ )?(?:found|located|identified|confirmed|verified"
        rf"|established) (?:{_IN_GIVEN}|with(?:out)? (?:\w+ )?(?:information|context))\b",
        rf"^(?:cannot|can't|could not|couldn't) {_ADVERB}{_FINDING}\b",
        rf"\b(?:i|we)(?:'ve)? (?:[\w']+,? ){{1,12}}?(?:and|but) {_ADVERB}(?:cannot|can't|could not|couldn't) {_ADVERB}"
        rf"{_FINDING}\b",
        r"\bwithout (?:more|additional|further|access to)\b.{1,60}?\b(?:difficult|hard|impossible|not possible)\b",
        r"(?<!no )\b(?:more|additional|further) (?:information|context|details|data) (?:is|are|would be) (?:needed"
        r"|required|necessary)(?: to (?:answer|determine|say|tell)\b|\W*$)",
        r"\bnot (?:something|a question) (?:that )?(?:i|we) (?:can|know)\b",
        r"\banswering (?:\w+ ){0,4}?is (?:not possible|impossible)\b|\bno answer (?:is|was) possible\b",
        r"\b(?:system|search|assistant|model) (?:could not|couldn't|did not|didn't) find\b",
        r"\b(?:search|retrieval|retriever|query) (?:returned|found|gave) (?:nothing\W*$|no (?:\w+ )?(?:results?"
        r"|documents?|passages?|information|matches|answers?)\b)",
        r"\bquestion is (?:\w+ )?(?:unclear|ambiguous|vague|incomplete)\b",
    ),
    "context": (
        rf"\b{_GIVEN_TEXT}{_AFTER} (?:\w+ly |also |itself |themselves |alone |which |therefore |thus "
        rf"|just )?{_DOES_NOT} {_ADVERB}(?:\w+ ){{0,2}}?{_STATING}s?\b",
        rf"\b{_WORK}{_WORLDLY} (?:\w+ )?(?:does not|doesn't|do not|don't) {_ADVERB}{_SAYING}\b",
        rf"\b{_WORK}{_WORLDLY} (?:\w+ )?(?:does not|doesn't|do not|don't) {_ADVERB}(?:contain|provide|include|give"
        r"|offer|have) (?:any|enough|sufficient|specific|information|details|data|an answer)\b",
        # "The passage only discusses the dam and does not mention its cost."
        rf"^(?:\W*\w+ ){{0,6}}?{_GIVEN_TEXT}{_AFTER} (?:[\w']+,? ){{1,16}}?(?:and|but)(?: it| they)? {_DOES_NOT} "
        rf"{_ADVERB}{_STATING}\b",
        rf"\b{_GIVEN_TEXT}{_AFTER} (?:\w+ )?(?:(?:contains?|provides?|gives?|offers?|includes?|makes?) (?:no"
        r"|insufficient|not enough|too little|nothing)|(?:has|have) (?:no|insufficient|not enough|nothing) "
        rf"(?:\w+ ){{0,2}}?(?:{_TOLD}|{_KNOWLEDGE}|entry|entries|{_ABOUT})|lacks?|(?:says?|states?|tells?|reveals?"
        r"|mentions?) (?:\w+ )?nothing|fails? to)\b",
        rf"\b{_WORK}{_WORLDLY}{_AFTER} (?:(?:has|contains?|provides?|gives?|offers?|makes?) (?:no|insufficient"
        rf"|not enough)|lacks?) (?:\w+ )?(?:information|details?|mention|data|answer|specifics)\b",
        rf"\b{_GIVEN_TEXT}{_AFTER} (?:is|are|was|were|seems?|appears?)(?: to be)? (?:\w+ )?(?:silent|insufficient"
        r"|not (?:\w+ )?(?:sufficient|relevant|related|enough|clear|helpful|useful)|irrelevant|unrelated|inadequate"
        r"|unclear|vague|ambiguous|missing)\b",
        rf"\b{_GIVEN_TEXT}{_AFTER} (?:[\w']+,? ){{0,14}}?nothing (?:\w+ )?{_ABOUT}\b",
        rf"^but (?:\w+ )?nothing {_ABOUT}\b",
        rf"\b{_GIVEN_TEXT}{_AFTER} leaves? (?:\w+ ){{1,8}}?(?:unspecified|unclear|open|unanswered)\b",
        rf"\b(?:none|neither|nothing|no)(?: of| in| within| from| among)? (?:\w+ ){{0,3}}?{_GIVEN_TEXT}{_AFTER} "
        rf"(?:\w+ )?(?:{_STATING}(?:s|es)?|specifies|addresses|relates? to|deals? with)\b",
        rf"\b(?:none|neither) of (?:them|these|those) (?:\w+ )?{_STATING}(?:s|es)?\b",
        rf"(?:\bnot|n't) something (?:that )?(?:\w+ ){{0,2}}?{_GIVEN_TEXT} (?:{_STATING})s?\b",
        rf"\b(?:none|neither) of (?:\w+ ){{0,3}}?{_GIVEN_TEXT}{_AFTER} (?:is|are|was|were) (?:\w+ )?(?:helpful|useful"
        r"|relevant|related)\b",
        rf"\b(?:question|query) (?:is|was) (?:\w+ )?(?:not (?:\w+ )?related|unrelated|not relevant|irrelevant) to "
        rf"(?:\w+ ){{0,3}}?{_GIVEN_TEXT}",
        rf"^(?:but )?nothing in (?:\w+ ){{1,3}}?{_WORK}\b",
        rf"^but (?:\w+ ){{0,2}}?{_GIVEN_TEXT}{_AFTER} only\b",
    ),
    "absent": (
        # Not what is said of a part only: "services that are not listed in the plan document are not covered".
        rf"(?<!that are )(?<!that is )(?<!which are )(?<!who are )(?:\bnot|n't|\bnever)"
        rf" (?:\w+ ){{0,2}}?{_STATED}(?:,? (?:or|nor|and) \w+)?(?: anywhere)? {_IN_GIVEN}\b",
        rf"\b(?:is|are|'s|was|were)(?: not|n't) (?:\w+ )?(?:in|within|part of) (?:\w+ ){{0,3}}?{_GIVEN} (?:\w+ )?"
        rf"(?:{_SOURCE}|{_WORK})\b",
        r"(?:\b(?:information|answer|that|this|it|which|detail) (?:is|are)|'s)(?: not|n't) (?:\w+ )?(?:in "
        rf"(?:\w+ ){{0,3}}?{_GIVEN_TEXT}|there\W*$)",
        rf"(?:\b(?:is|are)|'s)(?: not|n't) {_ADVERB}{_STATED}(?: anywhere)? (?:in|by) (?:the|this|these|your|any)"
        rf" (?:\w+ )?{_WORK}\b{_WORLDLY}",
        r"\bthere (?:does not|doesn't|do not|don't) (?:appear|seem) to be (?:\w+ ){0,3}?(?:information|mention"
        r"|reference|data|details?|evidence|answer|anything)\b",
        rf"(?:does not|doesn't|do not|don't) appear (?:\w+ )?{_IN_GIVEN}\b",
        rf"\b(?:missing|absent|omitted|unspecified|unstated|unclear|undisclosed|unknown) {_IN_GIVEN}\b",
        r"\b(?:is|are|was) (?:not answerable|unanswerable)\b|\bquestion (?:does not|doesn't) have an answer\b",
        r"(?<!who )(?<!which )(?<!that )\b(?:is|are|was|were)(?: not|n't) (?:\w+ )?(?:mentioned|specified|stated"
        r"|disclosed|provided|indicated)(?: anywhere| here| at all)?\W*$",
        r"(?<!who )(?<!which )(?<!that )\b(?:is|are)(?: not|n't) (?:\w+ )?(?:named|recorded|documented|identified"
        r"|given)(?: anywhere| here| at all)?\W*$",
        r"\bit(?: is|'s)(?: not (?:\w+ )?(?:mentioned|specified|stated|indicated|disclosed|given)| unclear| not clear"
        r"| unknown| not known) (?:\w+ )?(?:who|whom|whose|what|when|where|why|how|which|whether|if|that)\b",
        rf"\bit(?: is|'s| remains) (?:not (?:\w+ )?clear|unclear|uncertain|not known|unknown) {_IN_GIVEN}\b",
        r"\b(?:information|details?|answers?)\b(?: (?!that |which )\w+){0,8}? (?:(?:is|are|was|were|could|can)"
        r"(?: not|n't)|cannot|not)(?: be)? (?:\w+ )?(?:available|found|(?:provided|given)(?! to\b)|present|included"
        rf"|mentioned|contained|in (?:\w+ ){{0,3}}?{_GIVEN_TEXT})\b",
        rf"^(?:\w+ ){{0,2}}?(?:information|details?|answers?|context) not (?:\w+ )?{_STATED}\b",
        r"(?:\bthere(?:'s| is| are)|(?:^|, )there (?:was|were)) (?:\w+ )?(?:no|not|insufficient)(?: (?:enough|any"
        r"|sufficient))? (?:\w+ ){0,3}?(?:mention|details?|reference|answer(?= to| in| found| available| provided"
        rf"|\W*$)|information(?= {_ABOUT}| in| within| from| to| that| which| available| provided| given| here"
        r"|\W*$))\b",
        r"\bthere (?:isn't|aren't|wasn't) (?:enough|any|sufficient) (?:\w+ ){0,2}?(?:information|mention|data"
        r"|details?|context)\b",
        rf"\bthere(?:'s| is| was| are| were|) (?:no|not any|insufficient|nothing)(?: \w+){{0,9}}? {_IN_GIVEN}\b",
        rf"^\W*(?:based on|according to|from|in|given) (?:\w+ ){{0,4}}?{_GIVEN_TEXT}[^,]{{0,40}}, there(?:'s| is| are)"
        r" no (?:\w+ ){0,2}?(?:(?:indication|evidence) (?:of|as to|about|on|regarding) (?:who|what|when|where|why"
        r"|how|which)|data|records?|statement|discussion)\b",
        rf"^(?:\W*(?:based on|according to|from|in|given) [^,]{{1,60}}, )?(?:no|not enough|insufficient)"
        rf"(?: \w+){{1,9}}? {_IN_GIVEN}\b",
        r"(?:^|\b(?:is|are|due to|gives?|provides?|with|has|have|contains?) )(?:not enough|insufficient) "
        r"(?:\w+ )?(?:information|context|details)(?: to| for| in| about| on| provided| available| given|\W*$)",
        rf"^\W*there(?:'s| is| are) no (?:\w+ )?(?:data|information) (?:{_ABOUT})\b",
        r"\b(?:that|this|the|your) (?:\w+ )?(?:topic|subject|question)(?: is|'s| was)(?: not|n't) (?:\w+ )?covered"
        r"(?: here| anywhere| at all)?\W*$",
        r"\b(?:there(?:'s| is| are| was)|^\W*)(?: not any| no|no) records? of (?:this|that|it|such)\b",
        rf"\bnothing (?:is|was) (?:said|mentioned|stated|written|given) {_ABOUT}\b",
        r"\b(?:we|readers?) (?:is|are)(?: not|n't) (?:told|informed)\b",
        r"\b(?:information|data|details?|answer|figures?|numbers?|dates?|amounts?|names?) (?:is|are) (?:\w+ )?"
        r"(?:missing|unavailable|absent|lacking|not (?:\w+ )?available)\W*$",
        rf"(?<!if )(?<!when )\bno (?:\w+ ){{0,2}}?{_TOLD}(?: \w+){{0,8}}? (?:is|are|has been|have been|can be|could"
        rf" be) (?:\w+ )?{_STATED}\b",
        rf"\bno (?:\w+ ){{0,2}}?{_TOLD}(?: (?:was|were))? (?:provided|available|found|given|retrieved)"
        r"(?: for (?:this|the|your) \w+)?\W*$",
        rf"\bno (?:\w+ ){{1,3}}(?:is|are) (?:\w+ )?(?:named|mentioned|specified|stated|given|identified|indicated)"
        rf"(?:\W*$| {_IN_GIVEN})",
        rf"^\W*no (?:\w+ ){{0,2}}?(?:information|mention|details?|data)(?: (?:available |provided )?{_ABOUT}\b|\W*$)",
        r"^\W*(?:(?:it|that|this) )?(?:does not|doesn't) (?:say|specify|mention|state)(?: (?:that|this|it|so))?\W*$",
        r"^\W*(?:(?:the |final )?answer(?: is|:)? |(?:(?:it|this|that)|(?:(?:the|this|that) )?question)(?: is|'s|) )?"
        r"(?:n ?/ ?a|not applicable|unanswerable(?: question)?|unknown|unclear|undetermined|idk|null|not available"
        r"|not answerable|(?:none|nothing) (?:was )?(?:found|available)|no ?answer(?: found| available)?"
        r"|no (?:(?:relevant|matching) )?(?:information|results?|documents?)(?: found| available)?|no idea"
        r"|empty response|not sure|insufficient (?:information|context|data|evidence)(?: to answer)?"
        r"|data (?:not available|unavailable)"
        r"|not in (?:the \w+|context)|out of (?:the )?(?:scope|context)|cannotanswer|(?:don't|do not) know|i dunno"
        r"|not (?:mentioned|provided|specified|stated|found|given|disclosed|known|clear|covered(?= in | by )"
        r"|enough (?:information|context|data)))"
        rf"(?: (?:in|from|by) (?:\w+ ){{0,4}}?(?:{_SOURCE}|{_WORK}|{_GIVEN}))?\W*$",
    ),
    "policy": (
        r"\b(?:cannot|can't|can not|unable to|not able to|won't|will not) (?:\w+ ){0,2}?(?:help|assist)(?: you)?"
        r"(?: with| in)?\b",
        r"\b(?:outside|beyond) (?:of )?what (?:i|we) (?:can|am|are)\b",
        r"\b(?:outside|beyond)(?: of)? (?:my|our) (?:\w+ ){0,2}?(?:scope|knowledge|expertise|capabilit\w+|abilit\w+"
        r"|remit)\b",
        rf"\b(?:outside|beyond|out)(?: of)? the scope of (?:the|this|these) (?:\w+ )?(?:{_SOURCE}|assistant)\b",
        r"\bi (?:must|have to) (?:\w+ )?(?:decline|refuse)\b|\bi(?:'m| am) not (?:allowed|permitted"
        r"|authori[sz]ed) to\b",
        r"\bi (?:can|am able to) only (?:answer|help|assist|respond)\b",
        r"\b(?:i|we)(?:'ve|'ll| have| will)? (?:\w+ )?(?:escalated?|forward(?:ed)?|pass(?:ed)?(?: on)?"
        r"|transfer(?:red)?) (?:your|this) (?:\w+ )?(?:query|question|request|enquiry|inquiry)\b",
        r"\byour (?:query|question|request|enquiry|inquiry) (?:has been|was|will be) (?:escalated|forwarded|passed on"
        r"|transferred)\b",
    ),
    "apology": (
        r"^\W*(?:(?:i am|i'm|we are|we're) (?:\w+ )?sorry|sorry(?=,| but| about| i | we |\W*$)|(?:my )?apologies"
        r"|i (?:do )?apologi[sz]e|unfortunately|regrettably|i regret|we regret)\b",
    ),
    "ai": (
        r"\b(?:as|i'm|i am) (?:just |only )?an? (?:\w+ )?(?:ai|artificial intelligence|language model|chatbot|llm)\b",
        r"\bmy (?:last|latest|knowledge|training) (?:\w+ )?(?:update|cutoff|cut off|data)\b",
    ),
    "redirect": (
        r"\b(?:you|one)(?:'d| would| will| may| might| can| could| should)?(?: (?:also|need|want|wish|have|like|please"
        r"|to|first)){0,4} (?:consult|refer|check|contact|review|look|visit|reach out|seek)\b",
        r"\b(?:i|we)(?:'d| would)? (?:recommend|suggest|advise)(?: that)?(?: you)? (?:\w+ ){0,2}?"
        r"(?:check|consult|contact|refer|review|look|visit|reach|search|seek)\w*",
        r"\bif you (?:can|could|have|provide|share|give|would like)\b",
        r"\b(?:please|kindly) (?:\w+ )?(?:provide|consult|check|refer|contact|share|clarify|see|visit|rephrase|specify"
        r"|ask|try)\b",
        r"\b(?:can|could|would) you (?:please )?(?:provide|clarify|share|specify|rephrase)\b|\bfeel free to\b",
        r"\bit (?:is|would be) (?:best|advisable|recommended|better) to (?:consult|check|contact|refer|ask|visit"
        r"|seek)\b",
    ),
}


class _Language(NamedTuple):
    """The phrases of one language; `refusal_words.yaml` says how they are used."""

    common: re.Pattern[str]
    kinds: tuple[re.Pattern[str], ...]  # `negation`, `given` and `information`
    that: re.Pattern[str]
    turn: re.Pattern[str]
    guidance: re.Pattern[str]
    apology: re.Pattern[str]
    phrases: tuple[re.Pattern[str], ...]

    def refuses(self, clause: str) -> bool:
        """Whether a clause refuses; what follows "that" is a statement, not a refusal."""
        end = self.that.search(clause)
        head = clause if end is None else clause[: end.start()]
        return all(kind.search(head) for kind in self.kinds) or any(row.search(clause) for row in self.phrases)


@cache
def _languages() -> dict[str, _Language]:
    rows = yaml.load(resources.files(__package__).joinpath("refusal_words.yaml").read_bytes(), yaml.CSafeLoader)
    return {
        code: _Language(
            common=re.compile(row["common"]),
            kinds=tuple(re.compile(row[kind]) for kind in ("negation", "given", "information")),
            that=re.compile(row["that"]),
            turn=re.compile(rf"\W*(?:{row['turn']})(?:\b|(?<=[^\x00-\u2e7f]))"),
            guidance=re.compile(row["guidance"]),
            apology=re.compile(rf"\W*(?:{row['apology']})"),
            phrases=tuple(map(re.compile, row["phrases"])),
        )
        for code, row in rows.items()
    }


# A sentence without any of the first is no hit of a strong family, one without any of the second of no other. Most
# sentences are decided here, which is what makes long answers cheap.
_STRONG_CUE = re.compile(
    r"n't|\b(?:not|no|nothing|never|none|neither|cannot|unable|impossible|insufficient|lacks?|fails?|silent|inadequate"
    r"|irrelevant|unrelated|outside|beyond|decline|refuse|unaware|unsure|unknown|unclear|uncertain|undetermined"
    r"|unspecified|unstated|undisclosed|unavailable|lacking|without|missing|absent|omitted|vague|ambiguous|unanswerable"
    r"|null|need|needed|required|necessary|only|n ?/ ?a|idk|out of|empty response|cannotanswer|noanswer|dunno"
    r"|escalated?|forward(?:ed)?|pass(?:ed)?|transfer(?:red)?)\b"
)
_WEAK_CUE = re.compile(
    r"\b(?:sorry|apolog\w+|unfortunately|regret\w*|ai|artificial|language model|chatbot|llm|my|consult|refer|check"
    r"|contact|review|look|visit|reach|search|seek|recommend|suggest|advise|if you|please|kindly|you|feel free"
    r"|it is|it would)\b"
)
_FIRST_PERSON = re.compile(r"\b(?:i|we|my|our)\b")
_RECIPE = re.compile(
    r"^(?:to (?:calculate|determine|find|compute|answer|get|provide|work out|derive|estimate|know)\b.{0,160}?"
    r"\b(?:we|you|i|one)(?:'d| would| will)? (?:need|require|have to|must|should)\b"
    r"|(?:you|we|one)(?:'d| would| will)? need (?:the following|to (?:know|have)|more|additional|further)\b)"
)
_TURN = re.compile(
    r"^\W*(?:but(?! (?:not|no|none)\b)|however|based on|although|though|nevertheless|nonetheless|that said|yet)\b"
)
_GUIDANCE = re.compile(
    r"\b(?:i|we) (?:can|could|may be able to)\b|\b(?:typically|generally|usually|in general|worth noting"
    r"|important to note|note that|you (?:can|could|may|might|would|should)|if you"
    r"|it is (?:important|worth|possible|likely|recommended)|here(?:'s| is| are) (?:how|some))\b"
)
# What a text is about answers nothing; what it says may.
_TOPIC = re.compile(
    r"^\W*(?:but|however|although|though|nevertheless|nonetheless|that said|yet)?\W*(?:(?:the|these|this|some) )?"
    rf"(?:\w+ ){{0,2}}?(?:it|they|{_SOURCE}|{_WORK}){_AFTER} (?:(?:do|does|only|also|primarily|mainly|instead|just"
    r"|briefly|generally) ){0,3}(?:(?:is|are) about|(?<=only )(?:says?|states?)|mentions?|discuss(?:es)?|describes?"
    r"|covers?|focus(?:es)?|refers?|talks?|lists?|(?:contains?|provides?|includes?|offers?|gives?) (?:\w+ ){0,3}?"
    r"(?:information|details|context|data))\b(?!.*\b(?:suggest|impl|indicat|mean|so )\w*)"
)
_QUOTED = re.compile(r'"[^"\n]{1,300}"')
# Some models put their whole answer between quotes, also as an item of a list.
_WHOLLY_QUOTED = re.compile(r'\s*(?:[-*>+]|\d{1,3}\.)?\s*"([^"]*)"\W*$')
_CLAUSE = re.compile(r", (?=(?:but|however|although|though)\b)|; ")
# "The contract does not mention a fee, so it is free": what follows draws a conclusion if it leaves nothing open.
_CONCLUSION = re.compile(r"(?:^|, )(?=(?:so|therefore|thus|hence|which means)\b)")
_OPEN = re.compile(rf"{_STRONG_CUE.pattern}|\b(?:i|we)\b|{_GUIDANCE.pattern}")
_COMMA = re.compile(r", ?")
_CONCESSION = re.compile(
    r"^\W*(?:although|though|even though|while|whilst|whereas) [^,]+(?:, [^,]+)*?, (?=(?:it|they|there|the|this|these"
    r"|those|its|we|i|one|no|none|nothing|neither|you|he|she|based|that)\b)"
)
_SUBJECT = re.compile(
    rf"^\W*(?:(?:while|although|though|however),? )?(?:(?:the|this|these|both|each"
    rf"|your) )?(?:\w+ ){{0,2}}?{_GIVEN_TEXT}"
)
_PRONOUN = re.compile(
    r"^(\W*(?:(?:however|but|and|although|though)\W+)?)(?:it|they)(?= (?:\w+ )?(?:do|does|don't|doesn't|only)\b)"
)
# An opening so short is the answer itself: "In 1901. The documents do not mention the month."
_TERSE = re.compile(r"^\W*(?:yes\b.*|(?:[\w'%$€£.,]+ ){0,3}[\w'%$€£.,]+)$")
_LEAD_IN = re.compile(
    r"^\W*(?:no|none|nothing|not|i|i'm|let|based on|according|from|final|answer|question|response|note|here|summary"
    r"|context|conclusion|analysis|explanation|reasoning|unclear|hi|hello|hmm|sure|okay|ok|well|thanks?|thank|good|great"
    r"|interesting|dear|apologies|sorry)\b|[:?]\W*$"
)
_RESERVATION = re.compile(r"^(?:although|though)\b")
_SORRY = re.compile(r"^\W*(?:sorry|(?:my )?apologies|unfortunately)\W+(?:but )?")  # "Sorry, no information."
_UNTIL = re.compile(r"\buntil\b")
_INFO = re.compile(r"\binfo\b")
_BLANKS = re.compile(r"[ \t]{2,}")
_HYPHEN = re.compile(r"(?<=[^\W_])[-_](?=[^\W_])")  # gaps are counted in words
_APOSTROPHE = re.compile(r"\b(do|does|did|ca|could|is|are|was|have|has)nt\b")
_SAID = re.compile(r"[^\W_]")


@cache
def _compiled(family: Family) -> tuple[re.Pattern[str], ...]:
    """Compile on first use: all of them take 0.15 s, which most commands never need."""
    return tuple(map(re.compile, FAMILIES[family]))


_ENGLISH = re.compile(r"\b(?:what|who\w*|when|where|which|how|why|the|of|is|was|did|does)\b")


def knows_language(text: str) -> bool:
    """Whether a question has a common word of a language whose refusals are known."""
    lowered = text.lower()
    return any(pattern.search(lowered) for pattern in common_words().values())


def common_words() -> dict[str, re.Pattern[str]]:
    """Return a pattern for the common words of each known language, in lower case, by ISO 639-1 code."""
    return {"en": _ENGLISH} | {code: language.common for code, language in _languages().items()}


class Refusal(NamedTuple):
    """Whether an answer as a whole refuses, and the families of its phrases, in order."""

    is_refusal: bool
    families: tuple[str, ...]  # `empty` for an answer without a letter or digit


class _Unit(NamedTuple):
    text: str
    families: tuple[Family, ...]
    is_strong: bool
    is_personal: bool
    is_turn: bool
    is_guidance: bool


def find_refusal(text: str) -> Refusal:
    """Decide whether an answer, as `normalise.plain` gives it, refuses."""
    if not _SAID.search(text):
        return Refusal(True, ("empty",))
    units = _units(text)
    families = tuple(dict.fromkeys(family for unit in units for family in unit.families))
    return Refusal(_decide(units), families)


def is_refusing(sentence: str) -> bool:
    """Decide whether one unified sentence refuses and so claims nothing; one that goes on to answer does not."""
    lowered = sentence.lower()
    if _STRONG_CUE.search(lowered) is None and not _spoken(lowered):
        return False
    units = _units(sentence)
    first_strong = next((place for place, unit in enumerate(units) if unit.is_strong), None)
    return first_strong is not None and not _answers(units[first_strong + 1 :])


def _units(text: str) -> list[_Unit]:
    """Return the sentences, cut where a clause turns against the one before it."""
    whole = _WHOLLY_QUOTED.match(text)
    bare = _BLANKS.sub(" ", _QUOTED.sub('"x"', text) if whole is None else whole[1])
    languages = _spoken(bare.lower())
    units: list[_Unit] = []
    is_about_sources = False
    for piece in pieces(bare):
        sentence = _INFO.sub("information", _HYPHEN.sub(" ", bare[piece.start : piece.end].lower()))
        sentence = _APOSTROPHE.sub(r"\1n't", sentence)
        for place, clause in enumerate(_clauses(sentence, languages)):
            conceded = _CONCESSION.match(clause)
            parts = (clause,) if conceded is None else (conceded[0], clause[conceded.end() :])
            for number, part in enumerate(parts):
                # "The passage is about the siege. It does not say how it ended."
                meant = _PRONOUN.sub(r"\1the context", part) if is_about_sources else part
                unit = _unit(meant, languages, is_turn=number > 0)
                # "It was lit in 1887, though I don't know by whom."
                if place > 0 and not units[-1].families and _RESERVATION.search(part):
                    unit = unit._replace(families=(), is_strong=False, is_personal=False)
                units.append(unit)
                is_about_sources = _SUBJECT.match(meant) is not None
    return units


def _clauses(sentence: str, languages: list[_Language]) -> list[str]:
    """Cut a sentence where a clause turns against the one before it."""
    clauses = [part for clause in _CLAUSE.split(sentence) for part in _before_conclusion(clause)]
    for language in languages:
        cut = []
        for clause in clauses:
            start = 0
            for comma in _COMMA.finditer(clause):
                if language.turn.match(clause, comma.end()):
                    cut.append(clause[start : comma.start()])
                    start = comma.end()
            cut.append(clause[start:])
        clauses = cut
    return clauses


def _before_conclusion(clause: str) -> tuple[str, ...]:
    """Cut a clause before the conclusion that it ends in."""
    conclusions = list(_CONCLUSION.finditer(clause))
    if not conclusions:
        return (clause,)
    end = max((found.start() for found in _OPEN.finditer(clause)), default=-1)
    place = next((found for found in conclusions if found.start() > end and found.end() > found.start()), None)
    return (clause,) if place is None else (clause[: place.start()], clause[place.end() :])


def _unit(clause: str, languages: list[_Language], *, is_turn: bool) -> _Unit:
    cued = {True: _STRONG_CUE.search(clause) is not None, False: _WEAK_CUE.search(clause) is not None}
    said = {clause, _SORRY.sub("", clause)}
    families = [
        name
        for name in FAMILIES
        if cued[name in STRONG] and any(found.search(text) for found in _compiled(name) for text in said)
    ]
    if _UNTIL.search(clause) and "absent" in families:  # "no prices were given until 1990" is a fact of its time
        families.remove("absent")
    if any(language.refuses(clause) for language in languages):
        families.append("other_language")
    if any(language.apology.match(clause) for language in languages) and "apology" not in families:
        families.append("apology")
    is_strong = not STRONG.isdisjoint(families)
    is_turn = is_turn or _TURN.search(clause) is not None
    is_turn = is_turn or (_CONCLUSION.match(clause) is not None and _OPEN.search(clause) is None)
    is_turn = is_turn or any(one.turn.match(clause) for one in languages)
    is_guidance = _GUIDANCE.search(clause) is not None or any(one.guidance.search(clause) for one in languages)
    is_personal = is_strong and _FIRST_PERSON.search(clause) is not None
    return _Unit(clause, tuple(families), is_strong, is_personal, is_turn, is_guidance)


def _spoken(text: str) -> list[_Language]:
    """Return the languages a lower-case text may refuse in: those with a negation of theirs in it."""
    return [language for language in _languages().values() if language.kinds[0].search(text)]


def _answers(units: list[_Unit]) -> bool:
    """Return whether an answer follows: `but`, then neither a refusal nor advice nor what the text is about."""
    return any(
        unit.is_turn and not unit.families and not unit.is_guidance and not _TOPIC.search(unit.text) for unit in units
    )


def _decide(units: list[_Unit]) -> bool:
    found = {family for unit in units for family in unit.families}
    first_strong = next((place for place, unit in enumerate(units) if unit.is_strong), None)
    if first_strong is None:
        return "apology" in found and "redirect" in found
    opening = units[0]
    is_terse_answer = not opening.families and _TERSE.match(opening.text) and not _LEAD_IN.search(opening.text)
    if _answers(units[first_strong + 1 :]) or is_terse_answer:
        return False
    # Saying what the documents are about is no part of an answer.
    units = [unit for unit in units if unit.families or not _TOPIC.search(unit.text)]
    first_strong = next(place for place, unit in enumerate(units) if unit.is_strong)
    total = sum(len(unit.text) for unit in units)
    strong = sum(len(unit.text) for unit in units if unit.is_strong) / total
    before = sum(len(unit.text) for unit in units[:first_strong]) / total
    opening = units[0]
    opens_as_recipe = _RECIPE.search(opening.text) is not None
    is_personal = any(unit.is_personal for unit in units)
    refuses_at_first = opening.is_strong or "apology" in opening.families
    return (
        strong >= _HALF
        or all(unit.families for unit in units)
        or (refuses_at_first and (strong >= _OPENING or not found.isdisjoint({"redirect", "ai", "apology"})))
        or (opens_as_recipe and ((is_personal and not found.isdisjoint(_PERSONAL)) or strong >= _RECIPE_STRONG))
        or (before < _EARLY and (not found.isdisjoint({"redirect", "ai"}) or strong >= _EARLY_STRONG))
        or (is_personal and "redirect" in found and any(_RECIPE.search(unit.text) for unit in units))
    )
