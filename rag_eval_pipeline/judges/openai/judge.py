"""A judge that asks a language model: one call an answer, its verdicts looked over by a judge that reads no prose."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import regex

from rag_eval_pipeline.endpoints.chat import Chat
from rag_eval_pipeline.endpoints.client import Endpoint
from rag_eval_pipeline.judges.cache import JudgementCache
from rag_eval_pipeline.judges.judgement import Case, Directions, Judge, Judgement
from rag_eval_pipeline.judges.lexical.judge import LexicalJudge
from rag_eval_pipeline.judges.openai.asking import UNREADABLE, Account, Asker, JudgeFailed, Question
from rag_eval_pipeline.judges.openai.claims import CitedClaim, ClaimFinder, GoldClaims, GoldFinder, lexical_claims
from rag_eval_pipeline.judges.openai.fingerprint import openai_fingerprint
from rag_eval_pipeline.judges.openai.injection import injection_signs
from rag_eval_pipeline.judges.openai.label_prompts import label_prompt
from rag_eval_pipeline.judges.openai.labels import Label, read_labels, wanted_labels, with_labels, without_labels
from rag_eval_pipeline.judges.openai.prompts import judgement_prompt
from rag_eval_pipeline.judges.openai.rating_prompts import applies, rating_prompts
from rag_eval_pipeline.judges.openai.ratings import RatingProtocol
from rag_eval_pipeline.judges.openai.repeats import majority
from rag_eval_pipeline.judges.openai.replies import (
    RatingReply,
    Unparsable,
    judgement_schema,
    labels_schema,
    parse_reply,
    rating_schema,
)
from rag_eval_pipeline.judges.openai.second_opinion import judges_disagree
from rag_eval_pipeline.judges.openai.settings import OpenAiJudgeSettings
from rag_eval_pipeline.judges.openai.verdicts import (
    JudgedPart,
    assembled,
    empty_answer,
    fallback,
    has_gold,
    read_judgement,
)

_WORDY = regex.compile(r"[\p{L}\p{N}]")


class Means(NamedTuple):
    """What a judge works with beside its model.

    Args:
        find_claims: Splits answers into claims and says which citations stand with each.
        second: A deterministic judge whose verdicts are compared; its fingerprint stands for the claims' rules too.
        find_gold: Finds the gold answer that labels are about, and its claims.
    """

    find_claims: ClaimFinder
    second: Judge
    find_gold: GoldFinder

    @classmethod
    def of(cls, settings: OpenAiJudgeSettings) -> "Means":
        """The lexical judge and its claims."""
        lexical = LexicalJudge(settings.lexical)

        def find_gold(case: Case) -> GoldClaims | None:
            found = lexical.gold_claims(case)
            return None if found is None else GoldClaims(*found)

        return cls(lexical_claims, lexical, find_gold)


class OpenAiJudge:
    """Judges with one model; see `open_openai_judge`."""

    def __init__(self, asker: Asker, settings: OpenAiJudgeSettings, means: Means) -> None:
        self._asker = asker
        self._settings = settings
        self._means = means
        self._fingerprint = openai_fingerprint(settings, means.second.fingerprint)

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same case may be judged otherwise."""
        return self._fingerprint

    async def judge(self, case: Case) -> Judgement:
        """The judgement of one answer; a failure is a status, not an exception."""
        repeats = [await self.judge_again(case, repeat) for repeat in range(self._settings.repeats)]
        return majority(repeats)

    async def judge_again(self, case: Case, repeat: int) -> Judgement:
        """One of several judgings of the same answer; each number is asked and kept apart."""
        started = time.perf_counter()
        account = Account()
        claims = tuple(self._means.find_claims(case))
        try:
            judgement = await self._judged(case, claims, repeat, account)
        except JudgeFailed as error:
            judgement = self._failed(case, claims, error)
        if judgement.status == "completed" and not set(judgement.flags) & {"fallback_score"}:
            ratings, failed = await self._ratings(case, repeat, account)
            flags = (*judgement.flags, *failed, *await self._second_opinion(case, judgement))
            judgement = msgspec.structs.replace(judgement, ratings=ratings, flags=flags)
            judgement = await self._labelled(case, judgement, claims, repeat, account)
        flags = (*judgement.flags, *self._suspicions(case), *(["models_mixed"] if account.is_mixed else []))
        return msgspec.structs.replace(
            judgement,
            flags=tuple(sorted(set(flags))),
            usage=account.usage((time.perf_counter() - started) * 1000),
            model=account.model,
        )

    @property
    def compared_ratings(self) -> tuple[str, ...]:
        """Names of the ratings that show two texts in turn."""
        return tuple(rating.name for rating in self._settings.ratings if rating.compares is not None)

    async def rating_directions(self, case: Case, name: str) -> Directions:
        """Scores of a rating's prompts apart, and what asking them took."""
        protocol = next(rating for rating in self._settings.ratings if rating.name == name)
        account = Account()
        scores = None
        if applies(protocol, case):
            with suppress(JudgeFailed):
                scores = await self._rated(protocol, case, 0, account)
        return Directions(scores, account.usage(0.0))

    async def _judged(self, case: Case, claims: tuple[CitedClaim, ...], repeat: int, account: Account) -> Judgement:
        if not _WORDY.search(case.answer):
            return empty_answer(case)
        asks = has_gold(case)
        size = self._settings.claims_per_call
        parts: list[JudgedPart] = []
        for start in range(0, max(len(claims), int(asks)), size):
            asked = judgement_prompt(
                case, claims[start : start + size], asks_correctness=asks and start == 0,
                evidence_chars=self._settings.evidence_chars, salt=f"{repeat}",
            )  # fmt: skip
            question = Question(asked.prompt, judgement_schema(asked.asks_correctness), repeat)
            parts.append(await self._asker.ask(question, partial(read_judgement, asked=asked, case=case), account))
            if parts[0].is_refusal:
                break  # a refusal has no claims
        return assembled(case, parts)

    async def _labelled(
        self, case: Case, judgement: Judgement, claims: tuple[CitedClaim, ...], repeat: int, account: Account
    ) -> Judgement:
        """The judgement with labels where they are asked for; flagged and without any where they cannot be read."""
        if not self._settings.claim_labels:
            return without_labels(judgement)
        gold = self._means.find_gold(case)
        # A refusal has no claims, however many its text would have.
        texts = [claim.text for claim in claims[: len(judgement.claims)]]
        items = wanted_labels(case, judgement, texts, gold)
        size = self._settings.claims_per_call
        labels: list[Label] = []
        try:
            for start in range(0, len(items), size):
                asked = label_prompt(
                    case, None if gold is None else gold.text, items[start : start + size],
                    evidence_chars=self._settings.evidence_chars, salt=f"{repeat}",
                )  # fmt: skip
                question = Question(asked.prompt, labels_schema(), repeat)
                labels += await self._asker.ask(question, partial(read_labels, asked=asked), account)
        except JudgeFailed:
            flags = (*judgement.flags, "labels_failed")
            return msgspec.structs.replace(without_labels(judgement), flags=flags)
        return with_labels(case, judgement, labels, gold)

    async def _ratings(self, case: Case, repeat: int, account: Account) -> tuple[dict[str, float], list[str]]:
        """Scores by protocol, and a flag for each that could not be read; what does not apply is in neither."""
        ratings, failed = {}, []
        for protocol in self._settings.ratings:
            if not applies(protocol, case):
                continue
            try:
                scores = await self._rated(protocol, case, repeat, account)
            except JudgeFailed as error:
                if self._settings.fallback_scoring is None or error.code not in UNREADABLE:
                    failed.append(f"rating_failed:{protocol.name}")
                    continue
                scores = (self._settings.fallback_scoring,)
                failed.append("fallback_score")
            ratings[protocol.name] = sum(scores) / len(scores)
        return ratings, failed

    async def _rated(self, protocol: RatingProtocol, case: Case, repeat: int, account: Account) -> tuple[float, ...]:
        prompts = rating_prompts(protocol, case, evidence_chars=self._settings.evidence_chars, salt=f"{repeat}")
        scores = []
        for prompt in prompts:

            def read(text: str, nonce: str = prompt.nonce) -> float:
                reply = parse_reply(text, RatingReply, nonce)
                if reply.rating not in protocol.scale:
                    raise Unparsable(f"the rating was {reply.rating}, expected one of {sorted(protocol.scale)}")
                return protocol.scale[reply.rating]

            question = Question(prompt, rating_schema(sorted(protocol.scale)), repeat)
            scores.append(await self._asker.ask(question, read, account))
        return tuple(scores)

    async def _second_opinion(self, case: Case, judgement: Judgement) -> list[str]:
        second = await self._means.second.judge(case)
        return ["judges_disagree"] if judges_disagree(case, judgement, second) else []

    def _failed(self, case: Case, claims: tuple[CitedClaim, ...], error: JudgeFailed) -> Judgement:
        if self._settings.fallback_scoring is not None and error.code in UNREADABLE:
            return fallback(case, claims, self._settings.fallback_scoring)
        return Judgement(case.query_id, "failed", error=error.message, error_code=error.code)

    def _suspicions(self, case: Case) -> list[str]:
        texts = [case.question, case.answer, *case.contexts, *(cited.text or "" for cited in case.citations)]
        names = [cited.document for cited in case.citations]
        return ["injection_suspect"] if injection_signs([*texts, *names]) else []


@asynccontextmanager
async def open_openai_judge(
    settings: OpenAiJudgeSettings, cache_folder: Path, *, means: Means | None = None
) -> AsyncIterator[OpenAiJudge]:
    """The judge, ready to judge; nothing is asked yet.

    Args:
        settings: Of the judge.
        cache_folder: Where replies are kept; made when missing.
        means: By default the lexical judge.

    Raises:
        ServiceError: `missing_secret`, `bad_secret`, `bad_ca_file`, `cache_unusable`.
    """
    with JudgementCache(cache_folder) as cache:
        async with Endpoint(settings.endpoint) as endpoint:
            chat = Chat(endpoint, settings.chat)
            yield OpenAiJudge(Asker(chat, cache, settings), settings, means or Means.of(settings))
