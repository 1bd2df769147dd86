"""Detect texts that talk to the judge instead of to their readers.

These patterns flag, they do not decide, and they cannot find everything. What protects a verdict is the form of the
question and of the reply, and the lexical judge, which reads no instructions.
"""

import unicodedata
from collections.abc import Iterable

import regex

# Characters that nobody sees. Web pages have single ones between words, Arabic pages marks of direction, Persian and
# Hindi words joiners: they are a sign within a Latin word, in numbers, or where they turn the order round.
_UNSEEN = regex.compile(r"[\u00ad\u200b-\u200f\u2060-\u2064\ufeff\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
_HIDDEN = regex.compile(
    r"(?<=[\p{Latin}\p{Cyrillic}\p{Greek}\d])[\u200b-\u200d\u2060-\u2064\ufeff]+(?=[\p{Latin}\p{Cyrillic}\p{Greek}\d])"
    r"|[\u200b-\u200f\u2060-\u2064\ufeff]{4,}|[\u202d\u202e]|[\U000e0000-\U000e007f]{2,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}"
)

_JUDGE = r"(?:judge|grader|evaluator|examiner|assessor|reviewer|scorer|rater|assistant|language model|llm|ai)"
_VERDICT = r"(?:correct|incorrect|supported|not[_ ]found|grounded|faithful|accurate|relevant|perfect|true)"
_RATE = r"(?:mark|rate|grade|score|judge|label|rule|consider|treat|accept|count)"
# Every pattern sees text in NFKC, case folded, without hidden characters.
_SIGNS: dict[str, tuple[str, ...]] = {
    "role_markup": (
        r"<\|[^|>\n]{1,40}\|>",
        r"</?s>|<</?sys>>|\[/?inst\]|<(?:start|end)_of_turn>",
        r"</?(?:system|assistant|user|human|tool|instructions?)(?:\s[^<>]{0,80})?>",
        r"(?m)^\s*(?:#{1,4}\s*|\*\*)?(?:system|assistant|developer|human)(?:\s+(?:message|prompt))?(?:\*\*)?\s*:",
        r'"role"\s*:\s*"(?:system|assistant|user|developer|tool)"',
    ),
    "closed_delimiter": (
        r"(?m)^\s*(?:end|data)\s+[0-9a-f]{6,}\b",
        r"</(?:data|evidence|contexts?|documents?|answers?|claims?|sources?|passages?|text)>",
        r"-{2,}\s*(?:end|begin)\s+(?:of\s+)?(?:the\s+)?(?:data|evidence|contexts?|documents?|answers?|prompt|input)",
        r"[\"']\s*\}\s*\]?\s*\}\s*(?:\n|$)\s*(?:end|system|now|the)\b",
    ),
    "dictated_verdict": (
        r'["\'](?:verdict|score|rating|correctness|by_citations|by_contexts|nonce|grade|rationale)["\']\s*:',
        r"\b(?:score|rating|grade|mark)\b[\"'*]*\s*(?:is|=|:|->)\s*[\"'*]*(?:1(?:[.,]0+)?(?![\d.,]*\d)|100\s*%|10\b|[542]\b)",
        r"\b(?:score|rating|grade|mark)\s+(?:of\s+)?(?:1[.,]0+(?![\d.,]*\d)|100\s*%|(10|5|4|2)\s*/\s*\1\b)",
        rf"\b(?:verdict|correctness|judgement|judgment|evaluation|label)\s*(?:is|=|:|->)\s*[\"'*]*{_VERDICT}\b",
        rf"\b{_RATE}\s+(?:this|the|that|my|it|all|every|each)\b[^.\n]{{0,60}}\bas\s+(?:fully\s+)?{_VERDICT}\b",
        rf"\b{_RATE}\s+(?:this|that|it|my \w+|(?:the|all|every|each) (?:answer|response|reply|claim)s?)\s+{_VERDICT}\b",
        r"\b(?:give|award|assign|return|output|reply|respond|answer|print|write)\b[^.\n]{0,40}"
        rf"\b(?:full marks|(?:the )?(?:highest|maximum|top|best|perfect) "
        rf"(?:score|rating|grade|mark)s?|verdict|[\"']?{_VERDICT}[\"']|json)",
    ),
    "instruction": (
        r"\b(?:ignore|disregard|forget|override|bypass|skip|drop)\b[^.\n]{0,40}"
        r"\b(?:instructions?|prompts?|rules?|guidelines?|rubric|criteria|directions?|"
        r"(?:previous|prior|above|earlier|other) (?:text|messages?|context|evidence|data))\b",
        r"\b(?:new|updated|revised|real|actual|hidden|system)\s+(?:instructions?|prompt|task|rules?)\s*(?:\:|are|is|follow)",
        rf"\byou are (?:now |no longer )?(?:an? |the )?(?:[\w-]+ ){{0,2}}{_JUDGE}\b",
        rf"\b(?:dear|hey|hello|attention|note to|message (?:to|for)|instructions? (?:to|for))\s+"
        rf"(?:the\s+)?(?:[\w-]+\s+)?{_JUDGE}s?\b(?!\s+of)",
        r"\bas (?:the|an?) (?:[\w-]+ )?(?:grader|evaluator|judge),? (?:you|your)\b",
        rf"\b{_JUDGE}\s+(?:must|should|shall|will|has to|is (?:required|instructed|told) to)\b",
        r"\b(?:reveal|repeat|print|show)\b[^.\n]{0,30}\b(?:system prompt|nonce|instructions)\b",
        r"\bignorier(?:e|en)\b[^.\n]{0,40}\b(?:anweisung|regel|vorgabe)",
        r"\bignore[zr]?\b[^.\n]{0,40}\b(?:instructions|consignes|r[eè]gles)\b",
        r"\bignor(?:a|e|ar|en)\b[^.\n]{0,40}\b(?:instrucciones|istruzioni|instru[cç][oõ]es|reglas)",
        r"игнориру\w*[^.\n]{0,40}(?:инструкц|указан|правил)",
        r"(?:忽略|无视|無視|忽視)[^。\n]{0,20}(?:指令|指示|说明|規則|规则|提示|命令)",
        r"(?:指示|命令|プロンプト)[^。\n]{0,12}(?:無視|忘れ)",
        r"(?:지시|명령|프롬프트)[^.\n]{0,12}(?:무시|잊)",
        r"تجاهل[^.\n]{0,40}(?:التعليمات|الأوامر)",
    ),
}  # fmt: skip
_PATTERNS = {sign: tuple(regex.compile(pattern) for pattern in patterns) for sign, patterns in _SIGNS.items()}


def injection_signs(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the signs of injection that the texts show, sorted.

    Returns:
        Among `closed_delimiter`, `dictated_verdict`, `hidden_text`, `instruction`, `role_markup`.
    """
    found: set[str] = set()
    for text in texts:
        if _HIDDEN.search(text):
            found.add("hidden_text")
        plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
        found |= {sign for sign, patterns in _PATTERNS.items() if any(pattern.search(plain) for pattern in patterns)}
    return tuple(sorted(found))
