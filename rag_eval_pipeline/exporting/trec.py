"""TREC's files of a benchmark: `topics.tsv`, `qrels.txt` and, with an evaluation, `run.txt`; `names.jsonl` beside them.

Ids that white space would split are encoded (`formats.trec.encode_id`), and in a topic's text each run of tabs and line
breaks is one space. `names.jsonl` lists what differs so: `{document | query, trec}`, `{query, text}`, and `{query,
relevant_documents}` where the judgements name a document otherwise than the dataset. TREC's tools do not look at it.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.exporting.answers import Answers
from rag_eval_pipeline.exporting.identity import Identity
from rag_eval_pipeline.exporting.report import Written
from rag_eval_pipeline.exporting.source import ExportSource
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.trec import (
    Qrel,
    RunLine,
    Topic,
    decode_id,
    encode_id,
    iterate_qrels,
    iterate_topics,
    write_qrels,
    write_run,
    write_topics,
)
from rag_eval_pipeline.formats.trec_lines import lines
from rag_eval_pipeline.formats.trec_topics import BREAKING
from rag_eval_pipeline.storage.atomic import publishing


class _Name(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line of `names.jsonl`."""

    document: str | None = None
    query: str | None = None
    trec: str | None = None
    text: str | None = None
    relevant_documents: list[str] | None = None


def write_trec(source: ExportSource, folder: Path) -> Written:
    """Writes the files.

    `run.txt` ranks as our own scores do: each document, or page, at its best passage. trec_eval orders by score alone,
    so a question whose scores do not fall strictly (ties, or none given) gets n, n-1, ... 1 in their place.

    Not carried: answers, query type, difficulty, citations, impossibility, metadata, the dataset's name and version;
    of a system's answers everything but the ranking. A question that was answered without retrieving anything, or
    failed, has no line, and trec_eval cannot tell which.
    """
    queries = source.dataset.queries
    judged = {query.query_id: source.judged(query) for query in queries}
    write_topics(
        folder / "topics.tsv", (Topic(encode_id(q.query_id), BREAKING.sub(" ", q.query_text)) for q in queries)
    )
    qrels = write_qrels(
        folder / "qrels.txt",
        (Qrel(encode_id(query), encode_id(d), 1) for query, documents in judged.items() for d in documents),
    )
    rankings: dict[str, dict[str, float | None]] = {}
    written = Written({"questions": len(queries), "judgements": qrels})
    if source.answers is not None:
        answered = ((query, source.answers.of(query)) for query in queries)
        rankings = {query.query_id: source.retrieved(a.contexts) for query, a in answered if a is not None}
        written = _write_run(folder / "run.txt", rankings, source.answers, written.counts)
    with publishing(folder / "names.jsonl") as file:
        for name in _names(source, judged, rankings):
            file.write(msgspec.json.encode(name) + b"\n")
    return written


def read_trec(folder: Path, identity: Identity) -> EvaluationDataset:
    """The questions of such a folder and their relevant documents.

    Args:
        folder: Of an export, or with others' `topics.tsv` and `qrels.txt`; ids are decoded only where `names.jsonl` is
            there.
        identity: Id, version and name of the dataset.

    Raises:
        InputError: `unknown_query` when a judgement names no topic, or a fault of a file.
    """
    names_path = folder / "names.jsonl"
    ours = names_path.exists()
    names = _read_names(names_path) if ours else []
    texts = {name.query: name.text for name in names if name.text is not None}
    relevant = {name.query: name.relevant_documents for name in names if name.relevant_documents is not None}
    decoded = decode_id if ours else str
    topics = {decoded(topic.query_id): topic.text for topic in iterate_topics(folder / "topics.tsv")}
    judged: dict[str, list[str]] = {query: [] for query in topics}
    for qrel in iterate_qrels(folder / "qrels.txt"):
        query = decoded(qrel.query_id)
        if query not in judged:
            raise InputError("unknown_query", folder / "qrels.txt", "query ids of topics.tsv", found=query)
        if qrel.grade >= 1:
            judged[query].append(decoded(qrel.document_id))
    return identity.dataset(
        folder / "topics.tsv",
        (
            EvaluationQuery(
                query_id=query,
                query_text=texts.get(query) or text,
                relevant_documents=tuple(relevant[query] if query in relevant else judged[query]),
            )
            for query, text in topics.items()
        ),
    )


def _write_run(
    path: Path, rankings: dict[str, dict[str, float | None]], answers: Answers, counts: dict[str, int]
) -> Written:
    lost: Counter[str] = Counter()

    def run() -> Iterator[RunLine]:
        for query, ranking in rankings.items():
            scores = list(ranking.values())
            if not _falls(scores):
                lost["answer.contexts.score"] += sum(score is not None for score in scores)
                scores = [float(len(scores) - place) for place in range(len(scores))]
            for rank, (document, score) in enumerate(zip(ranking, scores, strict=True), start=1):
                yield RunLine(encode_id(query), encode_id(document), rank, score or 0.0, answers.system)

    retrieved = write_run(path, run())
    lost["answer.without_retrieval"] = sum(not ranking for ranking in rankings.values())
    lost["answer.status"] = answers.failed
    lost["answer.text"] = sum(answer.answer is not None for answer in answers.given.values())
    notes = list(answers.notes())
    if replaced := sum(not _falls(list(ranking.values())) for ranking in rankings.values()):
        notes.append(
            f"{replaced} of {len(rankings)} rankings have scores made from ranks: their own do not fall strictly"
        )
    return Written(counts | {"retrieved": retrieved}, {n: c for n, c in lost.items() if c}, tuple(notes))


def _falls(scores: list[float | None]) -> bool:
    """Whether trec_eval, which keeps 32 bits of a score, will order by these as they stand."""
    import numpy as np

    if None in scores:
        return False
    kept = np.array(scores, dtype=np.float32)
    return all(one > other for one, other in pairwise(kept))


def _names(
    source: ExportSource, judged: dict[str, tuple[str, ...]], rankings: dict[str, dict[str, float | None]]
) -> Iterator[_Name]:
    documents = dict.fromkeys(d for names in (*judged.values(), *rankings.values()) for d in names)
    yield from (_Name(document=d, trec=encode_id(d)) for d in documents if encode_id(d) != d)
    for query in source.dataset.queries:
        if (identifier := encode_id(query.query_id)) != query.query_id:
            yield _Name(query=query.query_id, trec=identifier)
        if BREAKING.search(query.query_text):
            yield _Name(query=query.query_id, text=query.query_text)
        if query.relevant_documents != judged[query.query_id]:
            yield _Name(query=query.query_id, relevant_documents=list(query.relevant_documents))


def _read_names(path: Path) -> list[_Name]:
    names = []
    for row, line in lines(path):
        try:
            names.append(msgspec.json.decode(line, type=_Name))
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            raise InputError("bad_format", path, "a line as the export writes it", row=row, found=str(error)) from error
    return names
