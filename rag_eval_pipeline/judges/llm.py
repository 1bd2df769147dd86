"""The model judge: one call per answer to an OpenAI-compatible server, its verdicts compared with the lexical judge's.

A question without a verdict has a code and no score: `judge_unparsable`, `judge_truncated` (cut at max_tokens),
`judge_refused`, `judge_model_changed`, `judge_stopped` (too many in a row without a verdict), or `judge_<code of the
endpoint>`.
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import regex

from rag_eval_pipeline.errors import EndpointError, excerpt
from rag_eval_pipeline.judges import prompts, replies
from rag_eval_pipeline.judges.cache import CachedReply, JudgementCache, cache_key
from rag_eval_pipeline.judges.claim_splitting import AnswerClaim, split_claims
from rag_eval_pipeline.judges.judge_settings import LlmSettings
from rag_eval_pipeline.judges.judgement import (
    FACTS,
    RATING_FAILED,
    Case,
    Correctness,
    FactVerdict,
    Judgement,
    JudgeUsage,
)
from rag_eval_pipeline.judges.lexical import LexicalJudge
from rag_eval_pipeline.judges.prompts import Prompt, fact_prompt, injection_signs, judgement_prompt, label_prompt
from rag_eval_pipeline.judges.ratings import RatingProtocol
from rag_eval_pipeline.web.client import Endpoint
from rag_eval_pipeline.web.openai_chat import Chat, ChatReply

CODE = "openai/6"  # raised whenever the same replies may be read differently
UNUSABLE_IN_A_ROW = 10  # requests without a verdict, after which the judge costs money or time for nothing
_UNREADABLE = frozenset({"judge_unparsable", "judge_truncated", "judge_refused"})
_CUT = "it was cut at the limit of tokens; write shorter rationales"
_ALPHANUMERIC = regex.compile(r"[\p{L}\p{N}]")
Parsed = TypeVar("Parsed")


def llm_fingerprint(settings: LlmSettings) -> str:
    """Return what changes whenever the same case may be judged differently; limits, prices and secrets do not count."""
    wording = [
        prompts.VERSIONS, prompts.SYSTEM, prompts.CORRECTNESS, prompts.SUPPORT, prompts.CORRECTNESS_FORM,
        prompts.SUPPORT_FORM, prompts.SUPPORT_VALUES, prompts.UNMARKED_CITATIONS, prompts.REPAIR, prompts.LABELS,
        prompts.LABELS_FORM, prompts.RATING_SYSTEM, prompts.RATING_FORM, prompts.RATING_DIMENSIONS_FORM, prompts.FACTS,
        prompts.FACTS_FORM,
    ]  # fmt: skip
    parts = [
        CODE,
        settings.lexical.fingerprint,
        settings.endpoint.base_url,
        settings.chat.model_dump(exclude={"prices"}),
        [rating.model_dump(mode="json") for rating in settings.ratings],
        settings.evidence_chars,
        settings.claims_per_call,
        settings.claim_labels,
        settings.fallback_scoring,
        settings.same_model,
        wording,
    ]
    return f"{CODE} {settings.chat.model} {hashlib.sha256(msgspec.json.encode(parts, order='sorted')).hexdigest()[:16]}"


class JudgeFailedError(Exception):
    """A question without a verdict."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class _UsageTally:
    requests: int = 0
    cached: int = 0
    tokens: int = 0
    usd: float = 0.0
    model: str | None = None
    system_fingerprint: str | None = None
    is_mixed: bool = False

    def usage(self, duration_ms: float) -> JudgeUsage:
        return JudgeUsage(self.requests, self.cached, self.tokens, round(self.usd, 9), duration_ms)


class _CachedChat:
    """Asks one model of one server, the cache first; a reply that cannot be read is asked for once more."""

    def __init__(self, chat: Chat, cache: JudgementCache, settings: LlmSettings) -> None:
        self._chat = chat
        self._cache = cache
        self._settings = settings
        self._server = f"{settings.endpoint.base_url} {settings.chat.model}"
        self._newest = cache.newest_model(self._server)  # model, as the server reports it
        self._model: str | None = None
        self._turns = asyncio.Semaphore(settings.endpoint.in_flight)
        self._unusable = 0  # in a row: replies that could not be read, and requests without a reply

    async def ask(
        self, prompt: Prompt, schema: Mapping[str, Any], repeat: int, parse: Callable[[str], Parsed], tally: _UsageTally
    ) -> Parsed:
        """Return the verdict that `parse` makes of a reply; raises `JudgeFailedError`.

        Args:
            repeat: Number of the judging; each has an entry in the cache.
        """
        async with self._turns:
            return await self._ask(prompt, schema, repeat, parse, tally)

    async def _ask(
        self, prompt: Prompt, schema: Mapping[str, Any], repeat: int, parse: Callable[[str], Parsed], tally: _UsageTally
    ) -> Parsed:
        sampling = self._settings.chat.model_dump(exclude={"prices"})
        key = cache_key(self._settings.endpoint.base_url, sampling, (prompt, schema, repeat))
        found = self._cache.find(key, self._bucket(self._newest))
        if found is not None and self._is_of_this_model(found.model):
            with contextlib.suppress(replies.Unparsable):  # an older release read it differently
                verdict = parse(found.reply)
                self._note_model(found.model, tally)
                tally.cached += 1
                return verdict
        if self._unusable >= UNUSABLE_IN_A_ROW:
            raise JudgeFailedError("judge_stopped", f"not asked: {self._unusable} requests in a row brought no verdict")
        failed = JudgeFailedError("judge_unparsable", "no reply")
        sent = prompt
        for _ in range(2):  # the question, and one repair
            reply = await self._complete(sent, schema, tally)
            if reply.refusal is not None:
                raise JudgeFailedError("judge_refused", f"the model refused: {excerpt(reply.refusal)}")
            try:
                if reply.finish_reason == "length":
                    raise replies.Unparsable(_CUT)
                verdict = parse(reply.text)
            except replies.Unparsable as error:
                self._cache.keep_unusable(key, error.fault, reply.text)
                failed = _unreadable(error.fault, reply)
                sent = prompt.repaired(error.fault)
                continue
            self._unusable = 0
            self._cache.keep(key, self._bucket(reply.model), CachedReply(reply.text, reply.model))
            if reply.model is not None and reply.model != self._newest:
                self._cache.note_model(self._server, reply.model)
                self._newest = self._newest or reply.model
            self._require_same_model(reply.model)
            self._note_model(reply.model, tally)
            return verdict
        self._unusable += 1
        raise failed

    def _bucket(self, model: str | None) -> str:
        """Return where the replies of a model are kept: a server that changes its model, or has several, loses none."""
        return f"{self._server} {model}" if self._settings.same_model else self._server

    async def _complete(self, prompt: Prompt, schema: Mapping[str, Any], tally: _UsageTally) -> ChatReply:
        try:
            reply = await self._chat.complete(prompt.messages, schema=schema)
        except EndpointError as error:
            tally.requests += error.requests
            tally.usd += self._settings.chat.prices.estimate(
                prompt_tokens=0, completion_tokens=0, requests=error.requests
            )
            if error.status == "refused":
                raise JudgeFailedError("judge_refused", error.message) from error
            self._unusable += 1
            raise JudgeFailedError(f"judge_{error.code}", error.message) from error
        tally.requests += reply.requests
        tally.tokens += reply.usage.total_tokens
        tally.usd += reply.usage.cost or 0.0
        for one in reply.objects:
            if isinstance(one, dict) and isinstance(text := one.get("system_fingerprint"), str):
                tally.system_fingerprint = text
        return reply

    def _is_of_this_model(self, model: str | None) -> bool:
        return not self._settings.same_model or None in (model, self._model) or model == self._model

    def _require_same_model(self, model: str | None) -> None:
        """Refuse a reply of another model; it is cached, and the next evaluation takes the newest model's replies."""
        if model is not None and not self._is_of_this_model(model):
            raise JudgeFailedError(
                "judge_model_changed", f"the server now answers as {excerpt(model)}, earlier as {excerpt(self._model)}"
            )

    def _note_model(self, model: str | None, tally: _UsageTally) -> None:
        self._model = self._model or model
        tally.is_mixed |= None not in (model, self._model) and model != self._model
        tally.model = tally.model or model


class LlmJudge:
    """The judge by one model; opened by `open_llm_judge`."""

    judges_support = True
    may_differ = True

    def __init__(self, chat: Chat, cache: JudgementCache, settings: LlmSettings) -> None:
        self._chat = _CachedChat(chat, cache, settings)
        self._settings = settings
        self._lexical = LexicalJudge(settings.lexical)
        self.fingerprint = llm_fingerprint(settings)

    async def judge(self, case: Case, repeat: int = 0) -> Judgement:
        """Judge one answer; each `repeat` is asked and cached separately."""
        started = time.perf_counter()
        tally = _UsageTally()
        claims = split_claims(case.answer, case.citations)
        try:
            judgement = await self._verdicts(case, claims, repeat, tally)
        except JudgeFailedError as error:
            judgement = self._failed(case, claims, error)
        if judgement.status == "completed" and "fallback_score" not in judgement.flags:
            scores, failed = await self._ratings(case, repeat, tally)
            flags = (*judgement.flags, *failed)
            if _disagree(case, judgement.correctness, self._lexical.judge_case(case).correctness):
                flags = (*flags, "judges_disagree")
            judgement = msgspec.structs.replace(judgement, ratings=scores, flags=flags)
            judgement = await self._labelled(case, judgement, claims, repeat, tally)
            judgement = await self._with_facts(case, judgement, repeat, tally)
        flags = judgement.flags
        cited = [text for cited in case.citations for text in (cited.document, cited.text or "")]
        if injection_signs([case.question, case.answer, *case.contexts, *cited]):
            flags = (*flags, "injection_suspect")
        if tally.is_mixed:
            flags = (*flags, "models_mixed")
        return msgspec.structs.replace(
            judgement,
            flags=tuple(sorted(set(flags))),
            usage=tally.usage((time.perf_counter() - started) * 1000),
            model=tally.model,
            system_fingerprint=tally.system_fingerprint,
        )

    async def _verdicts(self, case: Case, claims: list[AnswerClaim], repeat: int, tally: _UsageTally) -> Judgement:
        if not _ALPHANUMERIC.search(case.answer):
            return replies.judge_empty_answer(case)
        size = self._settings.claims_per_call
        parts: list[replies.JudgedPart] = []
        for start in range(0, max(len(claims), int(case.has_gold)), size):
            asked = judgement_prompt(
                case, claims[start : start + size], asks_correctness=case.has_gold and start == 0,
                evidence_chars=self._settings.evidence_chars, salt=f"{repeat}",
            )  # fmt: skip
            schema = replies.judgement_schema(asked.asks_correctness)
            parse = partial(replies.parse_judgement, asked=asked, case=case)
            parts.append(await self._chat.ask(asked.prompt, schema, repeat, parse, tally))
            if parts[0].is_refusal:
                break  # a refusal has no claims
        return replies.assemble_judgement(case, parts)

    async def _labelled(
        self, case: Case, judgement: Judgement, claims: list[AnswerClaim], repeat: int, tally: _UsageTally
    ) -> Judgement:
        """Return the judgement with labels if they are asked for; flagged and without any if they cannot be read."""
        if not self._settings.claim_labels:
            return replies.drop_labels(judgement)
        items = replies.wanted_labels(case, judgement, claims)
        size = self._settings.claims_per_call
        labels: list[bool] = []
        try:
            for start in range(0, len(items), size):
                part = items[start : start + size]
                prompt = label_prompt(case, part, evidence_chars=self._settings.evidence_chars, salt=f"{repeat}")
                parse = partial(replies.parse_labels, n_items=len(part), nonce=prompt.nonce)
                labels += await self._chat.ask(prompt, replies.LABELS_SCHEMA, repeat, parse, tally)
        except JudgeFailedError:
            return msgspec.structs.replace(replies.drop_labels(judgement), flags=(*judgement.flags, "labels_failed"))
        return replies.add_labels(case, judgement, labels)

    async def _with_facts(self, case: Case, judgement: Judgement, repeat: int, tally: _UsageTally) -> Judgement:
        """Return the judgement with verdicts on the gold facts; flagged and without any if they cannot be read."""
        if not _ALPHANUMERIC.search(case.answer):
            return msgspec.structs.replace(judgement, facts=(FactVerdict("not_support", "empty"),) * len(case.facts))
        size = self._settings.claims_per_call
        found: list[FactVerdict] = []
        try:
            for start in range(0, len(case.facts), size):
                part = case.facts[start : start + size]
                prompt = fact_prompt(case, part, evidence_chars=self._settings.evidence_chars, salt=f"{repeat}")
                parse = partial(replies.parse_facts, n_items=len(part), nonce=prompt.nonce)
                found += await self._chat.ask(prompt, replies.FACTS_SCHEMA, repeat, parse, tally)
        except JudgeFailedError:
            return msgspec.structs.replace(judgement, flags=(*judgement.flags, f"{RATING_FAILED}:{FACTS}"))
        return msgspec.structs.replace(judgement, facts=tuple(found))

    async def _ratings(self, case: Case, repeat: int, tally: _UsageTally) -> tuple[dict[str, float], list[str]]:
        """Return scores by name, and a flag for each rating that could not be read."""
        scores: dict[str, float] = {}
        flags = []
        for protocol in self._settings.ratings:
            if not protocol.applies(case):
                continue
            try:
                scores |= await self._rating(protocol, case, repeat, tally)
            except JudgeFailedError as error:
                if self._settings.fallback_scoring is None or error.code not in _UNREADABLE:
                    flags.append(f"{RATING_FAILED}:{protocol.name}")
                    continue
                scores[protocol.name] = self._settings.fallback_scoring
                flags.append("fallback_score")
        return scores, flags

    async def _rating(self, protocol: RatingProtocol, case: Case, repeat: int, tally: _UsageTally) -> dict[str, float]:
        found: list[dict[str, float]] = []
        for prompt in prompts.rating_prompts(
            protocol, case, evidence_chars=self._settings.evidence_chars, salt=f"{repeat}"
        ):
            parse = partial(replies.parse_rating, protocol=protocol, nonce=prompt.nonce)
            found.append(await self._chat.ask(prompt, replies.rating_schema(protocol), repeat, parse, tally))
        return {name: sum(scores[name] for scores in found) / len(found) for name in found[0]}

    def _failed(self, case: Case, claims: list[AnswerClaim], error: JudgeFailedError) -> Judgement:
        if self._settings.fallback_scoring is not None and error.code in _UNREADABLE:
            return replies.fallback_judgement(case, claims, self._settings.fallback_scoring)
        return Judgement(case.query_id, "failed", error=" ".join(str(error).split()), error_code=error.code)


@contextlib.asynccontextmanager
async def open_llm_judge(settings: LlmSettings, cache_folder: Path) -> AsyncIterator[LlmJudge]:
    """Open the judge; nothing is asked yet.

    Raises:
        ServiceError: `missing_secret`, `bad_secret`, `bad_ca_file`, `cache_unusable`.
    """
    cache = JudgementCache(cache_folder)
    async with Endpoint(settings.endpoint) as endpoint:
        yield LlmJudge(Chat(endpoint, settings.chat), cache, settings)


def _unreadable(fault: str, reply: ChatReply) -> JudgeFailedError:
    code = "judge_refused" if replies.declines(reply.text) else "judge_unparsable"
    code = "judge_truncated" if fault == _CUT else code
    return JudgeFailedError(code, f"the reply to a repeated question could not be used: {fault}; {excerpt(reply.text)}")


def _disagree(case: Case, model: Correctness | None, lexical: Correctness | None) -> bool:
    """Return whether one of the two must be wrong; no text can influence the lexical judge."""
    if model is None or lexical is None or "unsure" in (model.verdict, lexical.verdict):
        return False
    right = {"correct", "refused"} if case.is_impossible else {"correct"}
    return (model.verdict in right) != (lexical.verdict in right)
