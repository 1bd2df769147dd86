"""A few questions that show how a system's replies are parsed; nothing is written."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import msgspec

from rag_eval_pipeline import clock
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import corpus_of, run_queries
from rag_eval_pipeline.evaluation.conversations import turns_to_ask
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles, retrieved_documents
from rag_eval_pipeline.evaluation.pair import Pair, find_system_file, load_pair
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.systems.config import open_system
from rag_eval_pipeline.systems.json_paths import CHAT_COMPLETION, GENERATE_EVENT, mark_read, observed, unread_keys
from rag_eval_pipeline.workspace import Workspace

PUBLISHED_FIELDS = {"openai": CHAT_COMPLETION, "nvidia": GENERATE_EVENT}  # by kind: not listed as left unread


def probe(workspace: Workspace, system: str, benchmark: str | None, *, questions: int) -> dict[str, Any]:
    """Ask a system a benchmark's first questions, and return what was parsed from its replies; nothing is written.

    Where its own answers are the history of a conversation, these are all turns of the first conversations.

    Args:
        benchmark: None for the first converted one that the system takes.

    Raises:
        InputError: `no_converted_benchmark`, and the faults of the system's file.
        ServiceError: Those of a server that cannot be used.
    """
    pair = load_pair(workspace, benchmark or _first_converted(workspace, system), system)
    return asyncio.run(_probe(workspace, pair, questions))


async def _probe(workspace: Workspace, pair: Pair, questions: int) -> dict[str, Any]:
    replies: list[Any] = []

    def observe(value: Any) -> Any:
        replies.append(observed(value))
        if file.kind in PUBLISHED_FIELDS:
            mark_read(replies[-1], PUBLISHED_FIELDS[file.kind])
        return replies[-1]

    file, settings = pair.system_file, pair.system_file.settings
    if "ingestor" in type(settings).model_fields:
        settings = settings.model_copy(update={"ingestor": None})  # the collection is asked as it is
    corpus = replace(corpus_of(workspace, pair, started=clock.now()), observe=observe)
    answers: list[RagAnswer] = []
    given: dict[str, str | None] = {}
    rows: list[dict[str, Any]] = []
    async with open_system(file.kind, settings, corpus) as opened:
        turns = turns_to_ask(pair.queries, pair.queries, given, pair.settings.history)
        for query in islice(chain.from_iterable(turns), questions):
            await run_queries(
                opened,
                [[query]],
                answers.append,
                in_flight=1,
                timeout_s=None if file.traits.has_own_limits else pair.settings.timeout_seconds,
            )
            unread = dict.fromkeys(key for reply in replies for key in unread_keys(reply))
            given[query.query_id] = answers[-1].answer
            text = next(one.query_text for one in pair.queries if one.query_id == query.query_id)
            rows.append(reply_row(text, answers[-1], pair.files, list(unread)))
            replies.clear()
        warnings = [*opened.warnings(), *retrieved_documents(answers, pair.files, kind=file.kind).warnings()]
    return {
        "benchmark": pair.paths.name,
        "system": pair.system,
        "kind": file.kind,
        "answered": sum(answer.status == "ok" for answer in answers),
        "questions": rows,
        "warnings": warnings,
    }


def names_documents(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether more than half of the passages of some `reply_row`s are of known documents, or there are none."""
    known = [passage["is_known"] for row in rows for passage in row["passages"]]
    return not known or 2 * sum(known) > len(known)


def reply_row(
    question: str, answer: RagAnswer, files: CorpusFiles | frozenset[str], unread: list[str]
) -> dict[str, Any]:
    """Return what was parsed from one reply; `files` has the names of the corpus."""
    row: dict[str, Any] = msgspec.to_builtins(answer)
    shown = ("query_id", "status", "answer", "abstained", "error", "error_code", "model", "latency_ms", "usage")
    return {
        "question": question,
        **{name: row[name] for name in shown},
        "passages": [{**passage, "is_known": passage["document"] in files} for passage in row["contexts"]],
        "citations": [{**citation, "is_known": citation["file_name"] in files} for citation in row["citations"]],
        "keys_left_unread": unread,
    }


def _first_converted(workspace: Workspace, system: str) -> str:
    file = find_system_file(workspace, system)
    for name in workspace.benchmarks():
        if file.takes(name) and workspace.benchmark(name).stamp.exists():
            return name
    raise InputError(
        "no_converted_benchmark", workspace.system_file(system), "a system that takes a converted benchmark",
        hint="Convert one, or name it: --benchmark NAME.",
    )  # fmt: skip
