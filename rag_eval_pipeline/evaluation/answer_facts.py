"""What results state of the answers of one evaluation: latency, memory, tokens, costs, and what readers must know."""

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import numpy as np

from rag_eval_pipeline.errors import InputError, counted, shortened
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles, RetrievedDocuments
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation
from rag_eval_pipeline.evaluation.judging import JudgementCounts
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.formats import results as form
from rag_eval_pipeline.metrics.performance import latency_intervals, latency_stats, resource_usage
from rag_eval_pipeline.systems.base import Citation, RagAnswer
from rag_eval_pipeline.text.refusals import knows_language
from rag_eval_pipeline.web.server_settings import EndpointSettings
from rag_eval_pipeline.workspace import Workspace

FIRST_KEPT = 5  # results of questions, for a preview


class AnswerFacts:
    """What results state of the answers of a run, gathered answer by answer."""

    def __init__(self, pair: Pair) -> None:
        self.questions = 0
        self.answered = 0
        self.latencies = array("d")  # measured ones, of answered questions
        self.sources: set[str | None] = set()  # the evaluations that measured them; None for this one
        # By column: objects that stay would keep the memory of the rows that were made between them.
        self._usage = tuple(array("d") for _ in range(5))
        self.passages = RetrievedDocuments(pair.files, pair.system_file.kind)
        self.notes = AnswerNotes(pair.files)
        self.first: list[form.QueryResult] = []
        self._is_free = pair.system_file.traits.is_free
        self._is_recorded = pair.system_file.kind == "replay"

    def add(self, answer: RagAnswer, result: form.QueryResult | None = None) -> None:
        """Note one answer, with its result if the first ones are to be kept."""
        self.questions += 1
        if answer.status == "ok":
            self.answered += 1
            if answer.latency_ms is not None:
                self.latencies.append(answer.latency_ms)
        self.sources.add(answer.reused_from)
        usage = _usage(answer, is_free=self._is_free, is_recorded=self._is_recorded)
        for column, used in zip(self._usage, usage, strict=True):
            column.append(used)
        self.passages.add(answer)
        self.notes.add(answer, is_wrong=result is not None and result.individual_metrics.get("exact_match") == 0)
        if result is not None and len(self.first) < FIRST_KEPT:
            self.first.append(result)

    @property
    def api_usage(self) -> dict[form.ApiUsageName, float | None]:
        """Sums of what the answers used; None where no answer reports it."""
        known = (np.asarray(column)[~np.isnan(column)] for column in self._usage)
        tokens, requests, costs, prompts, completions = known
        return {
            "total_tokens": int(tokens.sum()) if tokens.size else None,
            "prompt_tokens": int(prompts.sum()) if prompts.size else None,
            "completion_tokens": int(completions.sum()) if completions.size else None,
            "total_requests": int(requests.sum()),
            "estimated_cost_usd": math.fsum(costs) if costs.size else None,
            "answers_without_tokens": self.questions - tokens.size,
        }


def performance(
    workspace: Workspace, evaluation: Evaluation, pair: Pair, facts: AnswerFacts, judgements: JudgementCounts
) -> form.PerformanceMetrics:
    """Measure time, memory and tokens; reused answers keep the values of the evaluation that measured them."""
    # If some were measured now, all count as measured now.
    source = next(iter(facts.sources)) if len(facts.sources) == 1 else None
    try:
        measured = load_evaluation(workspace, source) if source else evaluation
    except InputError:
        measured = evaluation  # that run was removed: its latencies are in the answers, its samples are lost
    samples = json.loads(measured.resources.read_bytes()) if measured.resources.exists() else {}
    latency = latency_stats(facts.latencies)
    names: tuple[Literal["memory_mb", "cpu_percent"], ...] = ("memory_mb", "cpu_percent")
    return form.PerformanceMetrics(
        latency_stats={name: getattr(latency, name) for name in ("mean", "p50", "p95", "p99", "min", "max")},
        latency_reason=latency.reason,
        latency_intervals=latency_intervals(facts.latencies, seed=evaluation.record.settings.random_seed),
        resource_usage={name: form.ResourceUsage(**resource_usage(samples.get(name, []))) for name in names},
        resource_usage_of="evaluation" if system_endpoints(pair) else "evaluation_and_system",
        api_usage=facts.api_usage,
        judge_usage=judgements.usage,
        in_flight=evaluation.record.in_flight,
        reused_from=source,
    )


def _usage(answer: RagAnswer, *, is_free: bool, is_recorded: bool) -> tuple[float, ...]:
    """Return tokens, requests (retries included), cost, and the tokens by kind; NaN where they are not known.

    Tokens and cost are unknown if a paid system was asked, or a recording states them, and they are not above 0.
    """
    usage = answer.usage
    is_known = not is_recorded and (is_free or usage.requests == 0)
    is_counted, is_priced = is_known or usage.total_tokens > 0, is_known or usage.estimated_cost_usd > 0
    tokens = (usage.total_tokens, usage.prompt_tokens, usage.completion_tokens) if is_counted else (math.nan,) * 3
    return (tokens[0], usage.requests, usage.estimated_cost_usd if is_priced else math.nan, *tokens[1:])


def system_endpoints(pair: Pair) -> list[EndpointSettings]:
    """Return the servers of a system, the one that answers questions first."""
    return [one for _, one in pair.system_file.settings if isinstance(one, EndpointSettings)]


EQUAL_SHARE = 0.9  # of the answers; from here on most questions were not answered, whatever the text says
EQUAL_LEAST = 10  # answers; fewer may all be right
WRONG_SHARE, WRONG_LENGTH = 0.05, 15  # of the answers, and characters: "No." may be wrong of many questions
FREQUENT = 20  # texts that are counted: every one that a twentieth of the answers has is among them
TEXT_SHOWN = 80  # characters
MODELS_SHOWN = 5
LANGUAGE_SHARE = 0.2  # of the questions; with fewer in a known language, the language is another
LANGUAGE_LEAST = 5  # questions


class AnswerNotes:
    """Counts over the answers of one evaluation, gathered answer by answer."""

    def __init__(self, files: CorpusFiles) -> None:
        self.citations = 0
        self.invalid: Counter[str] = Counter()
        """Citations of places that do not exist, by reason: `document_not_found`, `page_not_found`,
        `span_out_of_bounds`."""
        self.models: Counter[str] = Counter()
        """Answers by the model that their replies name."""
        self._files = files
        self._example: Citation | None = None
        self._changed_at: str | None = None  # the first question that another model answered than the one before
        self._model: str | None = None
        self._texts, self._wrong = array("q"), array("q")  # hashes: the texts would take the memory of all answers
        self._frequent: dict[str, int] = {}  # Misra and Gries's counts

    def add(self, answer: RagAnswer, *, is_wrong: bool = False) -> None:
        """Note one answer, and whether it equals no gold answer."""
        if answer.model is not None:
            self.models[answer.model] += 1
            if self._changed_at is None and self._model not in (None, answer.model):
                self._changed_at = answer.query_id
            self._model = answer.model
        for citation in answer.citations:
            self.citations += 1
            if (reason := self._files.fault_of(citation)) is not None:
                self.invalid[reason] += 1
                self._example = self._example or citation
        if answer.answer is not None:
            text = " ".join(answer.answer.split())
            self._texts.append(hash(text))
            if is_wrong and not answer.abstained and len(text) >= WRONG_LENGTH:
                self._wrong.append(hash(text))
            if text in self._frequent or len(self._frequent) < FREQUENT:
                self._frequent[text] = self._frequent.get(text, 0) + 1
            else:
                self._frequent = {known: count - 1 for known, count in self._frequent.items() if count > 1}

    def _equal_answers(self) -> Iterator[str]:
        """Yield a line if nearly all answers are one text, or many wrong ones are."""
        total, declines = len(self._texts), "If the system declines with it, name it in the setting `abstention`;"
        for hashes, share, what, advice in (
            (self._texts, EQUAL_SHARE, "", "check where the answer is read from: rag-eval system probe"),
            (
                self._wrong,
                WRONG_SHARE,
                ", and wrong",
                "look whether it is an error that the system states as an answer",
            ),
        ):
            given = np.frombuffer(hashes, np.int64)
            counts = {text: int((given == hash(text)).sum()) for text in self._frequent}
            most = max(counts, key=counts.__getitem__, default="")
            if counts and counts[most] >= max(EQUAL_LEAST, share * total):
                equal = f"{counts[most]:,} of {total:,} answers are the same text{what}"
                yield f"{equal}: {shortened(most, TEXT_SHOWN)!r}. {declines} else {advice}."
                return

    def warnings(self) -> Iterator[str]:
        """Yield a line for each of these that is as it should not be."""
        yield from self._equal_answers()
        if (one := self._example) is not None:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.invalid.most_common())
            page = "" if one.page_number is None else f", page {one.page_number}"
            yield (
                f"{self.invalid.total():,} of {self.citations:,} citations name a place that does not exist: {reasons}."
                f" The first: {one.file_name!r}{page}, characters {one.start_char} to {one.end_char}."
            )
        if self._changed_at is not None:
            named = ", ".join(
                f"{name} ({counted(count, 'answer')})" for name, count in self.models.most_common(MODELS_SHOWN)
            )
            yield (
                f"The replies name {len(self.models)} models: {named}; it changed at question {self._changed_at}. The "
                "scores do not belong to a single model."
            )


def language_warnings(pair: Pair) -> Iterator[str]:
    """Yield a line if abstentions cannot be recognised, because questions and answers are in an unknown language."""
    if getattr(pair.system_file.settings, "abstention", ()) is not None:
        return
    asked = [(query.is_impossible, knows_language(query.query_text)) for query in pair.queries]
    impossible, known = sum(one for one, _ in asked), sum(one for _, one in asked)
    if impossible and len(asked) >= LANGUAGE_LEAST and known < LANGUAGE_SHARE * len(asked):
        yield (
            f"{counted(impossible, 'question has', 'questions have')} no answer in the documents, "
            f"and the questions are in a language whose "
            "refusals are not known: unless the system reports that it abstains, it seems to have answered them. Name "
            f"its phrases in the setting `abstention` of {pair.system}'s file."
        )
