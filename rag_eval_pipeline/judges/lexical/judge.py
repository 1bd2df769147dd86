"""The lexical judge: a case in, a judgement out; deterministic, offline, and strict.

It knows numbers and words; it does not know paraphrase, arithmetic or logic. It cannot see a wrong relation between the
right words, and what it does not find may be true.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from importlib.metadata import version
from typing import NamedTuple

from rag_eval_pipeline.judges.judgement import (
    LANGUAGE_NOT_SUPPORTED,
    Case,
    CitationLabels,
    Claim,
    Correctness,
    Judgement,
    Support,
    better_support,
)
from rag_eval_pipeline.judges.lexical.claims import AnswerClaim, split_claims
from rag_eval_pipeline.judges.lexical.correctness import judge_correctness
from rag_eval_pipeline.judges.lexical.entailment import Means, chosen_gold, entailment
from rag_eval_pipeline.judges.lexical.evidence import KEPT_CHARACTERS, EvidenceStore
from rag_eval_pipeline.judges.lexical.settings import LexicalSettings
from rag_eval_pipeline.judges.lexical.support import ClaimWords, read_claim, support, supports
from rag_eval_pipeline.judges.lexical.words import vocabulary
from rag_eval_pipeline.text.normalise import plain
from rag_eval_pipeline.text.refusals import Refusal, find_refusal

RULES = "lexical/3"  # raised whenever a rule, a word list or a pattern changes
_SAID = re.compile(r"[^\W_]")
_LIBRARIES = ("rapidfuzz", "regex", "snowballstemmer")


class _Read(NamedTuple):
    words: ClaimWords
    by_contexts: Support | None


class LexicalJudge:
    """Judges answers by words and numbers.

    Args:
        settings: Language and thresholds; the defaults when not given.
        kept_characters: Of prepared evidence, kept between cases; changes speed and memory, never a judgement.
    """

    def __init__(self, settings: LexicalSettings | None = None, *, kept_characters: int = KEPT_CHARACTERS) -> None:
        self.settings = settings = settings or LexicalSettings()
        self._vocabulary = vocabulary(settings.language, decimal_comma=settings.has_decimal_comma)
        self._evidence = EvidenceStore(self._vocabulary, characters=kept_characters)
        self._means = Means(self._vocabulary, settings, self._evidence)
        self._fingerprint = _fingerprint(settings)

    @property
    def fingerprint(self) -> str:
        """Of the rules' version, all settings, and the versions of what they are computed with."""
        return self._fingerprint

    async def judge(self, case: Case) -> Judgement:
        """The judgement of one answer."""
        return self.judge_case(case)

    def judge_case(self, case: Case) -> Judgement:
        """The judgement of one answer; it always comes, for any text."""
        marks = [(citation.marker_start, citation.marker_end) for citation in case.citations]
        bare = plain(case.answer, marks)
        refusal = find_refusal(bare)
        claims = [] if refusal.is_refusal else split_claims(case.answer, case.citations)
        contexts = self._evidence.prepared(case.contexts) if claims else []
        by_citation: list[Support | None] = [None] * len(case.citations)
        read: dict[str, _Read] = {}  # a system that has lost its way says one thing a thousand times
        judged = []
        for claim in claims:
            if claim.text not in read:
                words = read_claim(claim.text, self._vocabulary)
                read[claim.text] = _Read(words, support(words, contexts, self.settings) if contexts else None)
            judged.append(self._claim(claim, read[claim.text], case, by_citation))
        correctness = self._correctness(case, bare, refusal)
        is_unknown = correctness is None and any(_SAID.search(gold) for gold in case.accepted)
        return Judgement(
            query_id=case.query_id,
            status="completed",
            correctness=correctness,
            flags=(LANGUAGE_NOT_SUPPORTED,) if is_unknown and self.settings.language != "en" else (),
            claims=tuple(judged),
            citation_support=tuple(by_citation),
            entailment=entailment(case, bare, [read[claim.text].words for claim in claims], self._means),
        )

    def gold_claims(self, case: Case) -> tuple[str, list[str]] | None:
        """The gold answer that an answer is compared with, and its claims; None where it has none."""
        marks = [(citation.marker_start, citation.marker_end) for citation in case.citations]
        return chosen_gold(case, plain(case.answer, marks), self._means)

    def _correctness(self, case: Case, bare: str, refusal: Refusal) -> Correctness | None:
        if case.is_impossible:
            verdict = "correct" if refusal.is_refusal else "incorrect"
            return Correctness(verdict, float(refusal.is_refusal), "impossible")  # type: ignore[arg-type]  # of two literals
        return judge_correctness(
            bare,
            refusal,
            question=case.question,
            accepted=case.accepted,
            vocabulary=self._vocabulary,
            settings=self.settings,
        )

    def _claim(self, claim: AnswerClaim, read: _Read, case: Case, by_citation: list[Support | None]) -> Claim:
        texts = [case.citations[number].text for number in claim.citations]
        found: dict[str, Support] = {}  # several marks may point at the same text
        for number, text in zip(claim.citations, texts, strict=True):
            if text is None:
                continue
            if text not in found:
                found[text] = support(read.words, self._evidence.prepared([text]), self.settings)
            by_citation[number] = better_support(by_citation[number], found[text])
        together = None
        if found:
            every = self._evidence.prepared(list(found))
            together = next(iter(found.values())) if len(found) == 1 else support(read.words, every, self.settings)
        is_marked = not any(case.citations[number].is_beside for number in claim.citations)
        return Claim(
            start=claim.start,
            end=claim.end,
            citations=claim.citations,
            by_citations=together,
            by_contexts=read.by_contexts,
            labels=self._labels(read.words, texts, found, together) if is_marked else None,
        )

    def _labels(
        self, words: ClaimWords, texts: Sequence[str | None], found: dict[str, Support], together: Support | None
    ) -> CitationLabels:
        alone = [text is not None and found[text].outcome == "supported" for text in texts]
        holds = together is not None and together.outcome == "supported"

        def without(place: int) -> bool | None:
            if alone[place] or not holds or len(texts) == 1:
                return None
            others = {text: None for other, text in enumerate(texts) if other != place and text is not None}
            evidence = self._evidence.prepared(list(others))
            return bool(evidence) and supports(words, evidence, self.settings)

        return CitationLabels(tuple(alone), tuple(without(place) for place in range(len(texts))))


def _fingerprint(settings: LexicalSettings) -> str:
    made_of = {
        "rules": RULES,
        "settings": settings.model_dump(mode="json"),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "unicode": unicodedata.unidata_version,
    }
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    return f"{RULES}-{digest[:16]}"
