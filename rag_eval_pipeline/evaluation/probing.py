"""Asks a system a few questions to show how its replies are parsed; nothing is written, scored or booked."""

import asyncio
import dataclasses
from itertools import islice
from typing import Any

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import run_queries
from rag_eval_pipeline.evaluation.corpus import CorpusFiles, retrieved_documents, system_corpus
from rag_eval_pipeline.evaluation.pair import Pair, find_system_file, load_pair
from rag_eval_pipeline.systems.base import Query, RagAnswer
from rag_eval_pipeline.systems.json_paths import CHAT_COMPLETION, mark_read, observed, unread_keys
from rag_eval_pipeline.workspace import Workspace


def probe(workspace: Workspace, system: str, benchmark: str | None, *, questions: int) -> dict[str, Any]:
    """Ask a system a benchmark's first questions and return what was parsed from its replies.

    Args:
        workspace: Where.
        system: Name of its file.
        benchmark: A converted benchmark; None for the first that the system takes.
        questions: How many to ask, one after the other.

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
        if file.kind == "openai":
            mark_read(replies[-1], CHAT_COMPLETION)
        return replies[-1]

    file, settings = pair.system_file, pair.system_file.settings
    if "ingestor" in type(settings).model_fields:
        settings = settings.model_copy(update={"ingestor": None})  # the collection is asked as it is
    corpus = system_corpus(workspace, pair.paths, pair.system, fingerprint=pair.fingerprints.corpus)
    corpus = dataclasses.replace(corpus, observe=observe)
    files = CorpusFiles.read(pair.paths)
    answers: list[RagAnswer] = []
    rows: list[dict[str, Any]] = []
    async with file.traits.open(settings, corpus) as opened:
        for query in islice(pair.queries, questions):
            await run_queries(
                opened,
                [Query(query.query_id, query.query_text)],
                answers.append,
                in_flight=1,
                timeout_s=None if file.traits.has_own_limits else pair.settings.timeout_seconds,
            )
            unread = dict.fromkeys(key for reply in replies for key in unread_keys(reply))
            rows.append(_row(query.query_text, answers[-1], files, list(unread)))
            replies.clear()
        warnings = [*opened.warnings(), *retrieved_documents(answers, files, kind=file.kind).warnings()]
    return {
        "benchmark": pair.paths.name,
        "system": pair.system,
        "kind": file.kind,
        "answered": sum(answer.status == "ok" for answer in answers),
        "questions": rows,
        "warnings": warnings,
    }


def _row(question: str, answer: RagAnswer, files: CorpusFiles, unread: list[str]) -> dict[str, Any]:
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
