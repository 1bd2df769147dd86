"""One question to the model: from the cache or the server, read as a verdict, asked once more when it cannot be read.

What fails has a code and no verdict: `judge_unparsable`, `judge_truncated` (cut at max_tokens), `judge_refused`,
`judge_model_changed`, or `judge_<code of the endpoint>`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from rag_eval_pipeline.endpoints.chat import Chat, ChatReply
from rag_eval_pipeline.endpoints.errors import EndpointError
from rag_eval_pipeline.errors import excerpt
from rag_eval_pipeline.judges.cache import CachedReply, JudgementCache, cache_key
from rag_eval_pipeline.judges.judgement import JudgeUsage
from rag_eval_pipeline.judges.openai.prompts import Prompt
from rag_eval_pipeline.judges.openai.replies import Unparsable, declines
from rag_eval_pipeline.judges.openai.settings import OpenAiJudgeSettings

Verdict = TypeVar("Verdict")

UNREADABLE = frozenset({"judge_unparsable", "judge_truncated", "judge_refused"})
CUT = "it was cut at the limit of tokens; write shorter rationales"


class JudgeFailed(Exception):
    """A question without a verdict: code and one line."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = " ".join(message.split())


@dataclass(slots=True)
class Account:
    """What judging one answer has taken so far, and which models said something."""

    requests: int = 0
    cached: int = 0
    tokens: int = 0
    usd: float = 0.0
    model: str | None = None
    is_mixed: bool = False

    def usage(self, duration_ms: float) -> JudgeUsage:
        """As a judgement carries it."""
        return JudgeUsage(self.requests, self.cached, self.tokens, round(self.usd, 9), duration_ms)


class Question(NamedTuple):
    """What is asked.

    Args:
        prompt: Messages and nonce.
        schema: JSON Schema of the reply.
        repeat: Number of the judging; each has its own place in the cache.
    """

    prompt: Prompt
    schema: Mapping[str, Any]
    repeat: int


class Asker:
    """Asks one model of one server.

    Args:
        chat: Of an open endpoint.
        cache: Of earlier replies.
        settings: Of the judge.
    """

    def __init__(self, chat: Chat, cache: JudgementCache, settings: OpenAiJudgeSettings) -> None:
        self._chat = chat
        self._cache = cache
        self._settings = settings
        self._server = f"{settings.endpoint.base_url} {settings.chat.model}"
        self._model: str | None = None

    async def ask(self, question: Question, read: Callable[[str], Verdict], account: Account) -> Verdict:
        """The verdict.

        Args:
            question: What is asked.
            read: A reply's text as a verdict; raises `Unparsable`.
            account: Is added to, whatever comes of it.

        Raises:
            JudgeFailed: There is none.
        """
        asked_with = self._settings.chat.model_dump(exclude={"prices"})
        key = cache_key(self._settings.endpoint.base_url, asked_with, question)
        found = self._cache.find(key)
        if found is not None and self._is_of_this_model(found.model):
            try:
                verdict = read(found.reply)
            except Unparsable:  # kept by an older release that read it otherwise
                self._cache.forget(key)
            else:
                self._note(found.model, account)
                account.cached += 1
                return verdict
        return await self._ask_server(key, question, read, account)

    async def _ask_server(
        self, key: str, question: Question, read: Callable[[str], Verdict], account: Account
    ) -> Verdict:
        prompt = question.prompt
        failed = JudgeFailed("judge_unparsable", "no reply")
        for _ in range(2):  # the question, and one repair
            reply = await self._complete(prompt, question.schema, account)
            if reply.refusal is not None:
                raise JudgeFailed("judge_refused", f"the model refused: {excerpt(reply.refusal)}")
            try:
                if reply.finish_reason == "length":
                    raise Unparsable(CUT)
                verdict = read(reply.text)
            except Unparsable as error:
                self._cache.keep_unusable(key, error.fault, reply.text)
                failed = _failed(error.fault, reply)
                prompt = question.prompt.repaired(error.fault)
                continue
            self._cache.keep(key, self._server, CachedReply(reply.text, reply.model))
            self._require_same_model(reply.model)
            self._note(reply.model, account)
            return verdict
        raise failed

    async def _complete(self, prompt: Prompt, schema: Mapping[str, Any], account: Account) -> ChatReply:
        try:
            reply = await self._chat.complete(prompt.messages, schema=schema)
        except EndpointError as error:
            account.requests += error.requests
            account.usd += self._settings.chat.prices.estimate(
                prompt_tokens=0, completion_tokens=0, requests=error.requests
            )
            code = "judge_refused" if error.status == "refused" else f"judge_{error.code}"
            raise JudgeFailed(code, error.message) from error
        account.requests += reply.requests
        account.tokens += reply.usage.total_tokens
        account.usd += reply.usage.cost or 0.0
        return reply

    def _is_of_this_model(self, model: str | None) -> bool:
        return not self._settings.same_model or None in (model, self._model) or model == self._model

    def _require_same_model(self, model: str | None) -> None:
        """The verdicts of one run are one model's, or they cannot be compared.

        What the server said as another model is forgotten, so that the next run asks the new one about everything.
        """
        if self._is_of_this_model(model):
            return
        assert model is not None
        self._cache.forget_others(self._server, model)
        raise JudgeFailed(
            "judge_model_changed", f"the server now answers as {excerpt(model)}, earlier as {excerpt(self._model)}"
        )

    def _note(self, model: str | None, account: Account) -> None:
        self._model = self._model or model
        account.is_mixed |= None not in (model, self._model) and model != self._model
        account.model = account.model or model


def _failed(fault: str, reply: ChatReply) -> JudgeFailed:
    if fault == CUT:
        code = "judge_truncated"
    elif declines(reply.text):
        code = "judge_refused"
    else:
        code = "judge_unparsable"
    return JudgeFailed(code, f"the reply to a repeated question could not be used: {fault}; {excerpt(reply.text)}")
