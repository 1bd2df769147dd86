"""Formats of retrieval benchmarks: Evret's two files, BEIR folders, and TREC's topics, qrels and runs.

In TREC files, ids that contain white space are encoded (`formats.trec.encode_id`), and each run of tabs and line breaks
in a topic is one space. `names.jsonl` lists what differs: `{document | query, trec}`, `{query, text}`, and `{query,
relevant_documents}` where the judgements use another name of a document than the dataset. TREC's tools ignore it.

Source: Evret, Dataset Format.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rag_eval_pipeline.corpus.text.pages import document_text
from rag_eval_pipeline.exports.source import Answers, ExportSource, Written, page_id
from rag_eval_pipeline.formats.beir import BeirDocument, beir_queries, beir_query, read_beir, write_beir
from rag_eval_pipeline.formats.dataset import EvaluationDataset, EvaluationQuery, SourceDocument, read_evret_dataset
from rag_eval_pipeline.formats.evret import ANSWER_LABELS, DOCUMENT_LABELS, IDS, TEXTS
from rag_eval_pipeline.formats.trec import (
    BREAKING,
    Qrel,
    RunLine,
    Topic,
    decode_id,
    encode_id,
    iterate_qrels,
    iterate_topics,
    read_json_lines,
    write_qrels,
    write_run,
    write_topics,
)
from rag_eval_pipeline.storage.atomic_files import atomic_write, publishing
from rag_eval_pipeline.storage.csv_tables import csv_bytes, json_cell

CSV_DOCUMENTS = ("relevant_doc_ids", "expected_doc_ids")
Ranking = dict[str, float | None]


class _Name(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    document: str | None = None
    query: str | None = None
    trec: str | None = None
    text: str | None = None
    relevant_documents: list[str] | None = None


def write_evret(source: ExportSource, folder: Path) -> Written:
    """Write `<id>.json` and `<id>.csv`; only the JSON can hold the texts of documents.

    No cell is changed for spreadsheets, because Evret compares ids exactly.
    """
    source.refuse_answers("evret")
    dataset = whole = source.dataset
    counts = {"questions": len(dataset.queries)}
    if source.options.documents:
        texts = {name: document_text(pages) for name, pages in source.pages().items()}
        documents = tuple(SourceDocument(document_id=name, content=text) for name, text in texts.items())
        whole = dataset.model_copy(update={"documents": documents})
        counts["documents"] = len(documents)
    atomic_write(folder / f"{dataset.dataset_id}.json", _evret_json(whole))
    atomic_write(folder / f"{dataset.dataset_id}.csv", _evret_csv(dataset))
    return Written(counts)


def _evret_json(dataset: EvaluationDataset) -> bytes:
    value: dict[str, Any] = {"queries": [_evret_query(query) for query in dataset.queries]}
    if dataset.documents is not None:
        value["documents"] = [
            {"doc_id": document.document_id, "text": document.content}
            | ({"metadata": document.metadata} if document.metadata else {})
            for document in dataset.documents
        ]
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _evret_csv(dataset: EvaluationDataset) -> bytes:
    """Return the dataset as Evret's CSV; labels are JSON lists.

    Documents are in two columns: Evret 0.0.3 reads only the newer one, earlier releases only the older one.
    """
    rows = []
    for query in dataset.queries:
        documents = {name: list(query.relevant_documents) for name in CSV_DOCUMENTS if query.relevant_documents}
        answers = {name: query.expected_answers for name in ANSWER_LABELS[:1] if query.expected_answers}
        labels = {name: json_cell(values) for name, values in (documents | answers).items()}
        rows.append({IDS[0]: query.query_id, TEXTS[0]: query.query_text, **labels})
    has_answers = any(query.expected_answers for query in dataset.queries)
    return csv_bytes([IDS[0], TEXTS[0], *CSV_DOCUMENTS, *(ANSWER_LABELS[:1] if has_answers else ())], rows)


def _evret_query(query: EvaluationQuery) -> dict[str, Any]:
    fields: dict[str, Any] = {IDS[0]: query.query_id, TEXTS[0]: query.query_text}
    if query.relevant_documents:
        fields[DOCUMENT_LABELS[0]] = list(query.relevant_documents)
    if query.expected_answers:
        fields[ANSWER_LABELS[0]] = query.expected_answers
    return fields


def read_evret(folder: Path) -> tuple[EvaluationQuery, ...]:
    """Return the questions of `<id>.json`."""
    return read_evret_dataset(next(folder.glob("*.json"))).dataset.queries


def write_beir_folder(source: ExportSource, folder: Path) -> Written:
    """Write `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`.

    The text of a document is its pages joined by form feeds, which citations are offsets into. At page level each page
    is a document. A document with two names occurs once, under its first.
    """
    source.refuse_answers("beir")
    queries = source.dataset.queries
    judged = {query.query_id: source.judged(query) for query in queries}
    corpus = list(_beir_documents(source))
    write_beir(
        folder,
        (beir_query(query, judged=_relevant(judged[query.query_id])) for query in queries),
        corpus,
        (Qrel(query_id, document, grade) for query_id, grades in judged.items() for document, grade in grades.items()),
    )
    counts = {"questions": len(queries), "documents": len(corpus), "judgements": sum(map(len, judged.values()))}
    unjudged = sum(not _relevant(grades) for grades in judged.values())
    note = f"{unjudged} of {len(queries)} questions have no relevant document; BEIR's own loader skips them"
    return Written(counts, notes=(note,) if unjudged else ())


def _relevant(grades: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(document for document, grade in grades.items() if grade >= 1)


def read_beir_folder(folder: Path) -> tuple[EvaluationQuery, ...]:
    """Return the questions of a BEIR folder."""
    return beir_queries(read_beir(folder))


def write_trec(source: ExportSource, folder: Path) -> Written:
    """Write `topics.tsv`, `qrels.txt`, `names.jsonl` and, with an evaluation, `run.txt`.

    The run ranks as our own scores do: each document or page at its best passage. trec_eval sorts by score alone, so a
    question whose scores are not strictly decreasing (ties, or no scores) gets n, n-1, ... 1 instead.
    """
    queries = source.dataset.queries
    judged = {query.query_id: source.judged(query) for query in queries}
    topics = (Topic(encode_id(query.query_id), BREAKING.sub(" ", query.query_text)) for query in queries)
    qrels = (Qrel(encode_id(query), encode_id(d), grade) for query, of in judged.items() for d, grade in of.items())
    write_topics(folder / "topics.tsv", topics)
    rankings: dict[str, Ranking] = {}
    written = Written({"questions": len(queries), "judgements": write_qrels(folder / "qrels.txt", qrels)})
    if source.answers is not None:
        answered = ((query, source.answers.of(query)) for query in queries)
        rankings = {query.query_id: source.retrieved(a.contexts) for query, a in answered if a is not None}
        written = _write_run(folder / "run.txt", rankings, source.answers, written.counts)
    with publishing(folder / "names.jsonl") as file:
        for name in _changed_names(source, judged, rankings):
            file.write(msgspec.json.encode(name) + b"\n")
    return written


def read_trec(folder: Path) -> tuple[EvaluationQuery, ...]:
    """Return the questions and relevant documents of such a folder; grades are stated where one is not 1."""
    names = list(read_json_lines(folder / "names.jsonl", _Name))
    texts = {name.query: name.text for name in names if name.text is not None}
    relevant = {name.query: name.relevant_documents for name in names if name.relevant_documents is not None}
    topics = {decode_id(topic.query_id): topic.text for topic in iterate_topics(folder / "topics.tsv")}
    judged: dict[str, dict[str, int]] = {query: {} for query in topics}
    for qrel in iterate_qrels(folder / "qrels.txt"):
        judged[decode_id(qrel.query_id)][decode_id(qrel.document_id)] = qrel.grade
    return tuple(
        EvaluationQuery(
            query_id=query,
            query_text=texts.get(query) or text,
            relevant_documents=tuple(relevant.get(query, judged[query])),
            metadata={"relevance": judged[query]} if set(judged[query].values()) - {1} else {},
        )
        for query, text in topics.items()
    )


def _beir_documents(source: ExportSource) -> Iterator[BeirDocument]:
    pages = source.pages()
    for document in source.documents:
        if source.names.canonical(document.file_name) != document.file_name:
            continue  # each document once
        own = pages[document.file_name]
        if source.options.level == "document":
            yield BeirDocument(document.file_name, document_text(own))
        else:
            yield from (BeirDocument(page_id(document.file_name, page.page), page.text) for page in own)


def _write_run(path: Path, rankings: dict[str, Ranking], answers: Answers, counts: dict[str, int]) -> Written:
    lost: Counter[str] = Counter()
    replaced = 0
    run: list[RunLine] = []
    for query, ranking in rankings.items():
        scores = list(ranking.values())
        if not _is_decreasing(scores):
            replaced += 1
            lost["answer.contexts.score"] += sum(score is not None for score in scores)
            scores = [float(len(scores) - place) for place in range(len(scores))]
        for rank, (document, score) in enumerate(zip(ranking, scores, strict=True), start=1):
            run.append(RunLine(encode_id(query), encode_id(document), rank, score or 0.0, answers.system))
    lost["answer.without_retrieval"] = sum(not ranking for ranking in rankings.values())
    lost["answer.status"] = answers.failed
    lost["answer.text"] = sum(answer.answer is not None for answer in answers.given.values())
    note = f"{replaced} of {len(rankings)} rankings have scores made from ranks: theirs are not strictly decreasing"
    counts = counts | {"retrieved": write_run(path, run)}
    return Written(counts, dict(lost), answers.notes + ((note,) if replaced else ()))


def _is_decreasing(scores: list[float | None]) -> bool:
    """Return whether trec_eval, which keeps 32 bits of a score, will sort by these scores into the given order."""
    return None not in scores and all(a > b for a, b in pairwise(np.array(scores, dtype=np.float32)))


def _changed_names(
    source: ExportSource, judged: dict[str, dict[str, int]], rankings: dict[str, Ranking]
) -> Iterator[_Name]:
    documents = dict.fromkeys(d for names in judged.values() for d in names)
    documents |= dict.fromkeys(d for names in rankings.values() for d in names)
    yield from (_Name(document=d, trec=encode_id(d)) for d in documents if encode_id(d) != d)
    for query in source.dataset.queries:
        if (identifier := encode_id(query.query_id)) != query.query_id:
            yield _Name(query=query.query_id, trec=identifier)
        if BREAKING.search(query.query_text):
            yield _Name(query=query.query_id, text=query.query_text)
        if query.relevant_documents != tuple(judged[query.query_id]):
            yield _Name(query=query.query_id, relevant_documents=list(query.relevant_documents))
