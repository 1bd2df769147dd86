"""Gold texts are located in the printed documents, and where a text stands several times, at the source's own place."""

import json

import pytest

from rag_eval_pipeline.formats.dataset import EvaluationDataset
from tests.e2e.reading import pdf_text, squeezed
from tests.real_benchmarks import DATA

pytestmark = pytest.mark.browser

NEIGHBOURS = 60  # characters before and after: with them, every answer stands once in the three articles


def queries(converted, name):
    [path] = converted.workspace.evaluation_datasets.glob(f"{name}_v*.eval.json")
    return EvaluationDataset.read(path).queries


def texts(converted, name):
    """Document text as the offsets count it: line ends are one character."""
    corpus = converted.workspace.benchmark(name).corpus
    cited = {citation.file_name for query in queries(converted, name) for citation in query.citations}
    return {file: pdf_text(corpus / file).replace("\r\n", "\n") for file in cited}


@pytest.fixture(scope="module")
def squad(converted, shared):
    """Each answerable question of SQuAD: its paragraph, where its answer stands there, and what was located."""
    articles = json.loads((shared / "data" / DATA["squad2"][0] / "dev-sample.json").read_text())["data"]
    located = {query.metadata["source_id"]: query.citations for query in queries(converted, "squad2")}
    return [
        (paragraph["context"], qa["answers"][0]["answer_start"], qa["answers"][0]["text"], located[qa["id"]])
        for article in articles
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
        if not qa["is_impossible"]
    ]


def test_answers_of_squad_are_located(squad):
    located = sum(bool(citations) for *_, citations in squad)

    assert len(squad) == 430
    assert located >= 0.97 * 430


def test_answers_are_located_where_the_source_has_them(converted, squad):
    documents = texts(converted, "squad2")
    elsewhere = []
    for paragraph, start, answer, citations in squad:
        end = start + len(answer)
        for citation in citations:
            document = documents[citation.file_name]
            before, after = document[: citation.start_char], document[citation.end_char :]
            if not (
                squeezed(before).endswith(squeezed(paragraph[max(0, start - NEIGHBOURS) : start]))
                and squeezed(after).startswith(squeezed(paragraph[end : end + NEIGHBOURS]))
            ):
                elsewhere.append((answer, paragraph[start - 1 : end + 3]))

    assert elsewhere == []  # also where the source points into a word: the "Japan" of "Japanese"


def test_offsets_of_pages_and_documents_name_the_same_characters(converted):
    for name in ("squad2", "hotpotqa"):
        documents = texts(converted, name)
        for query in queries(converted, name):
            for citation in query.citations:
                sheet = documents[citation.file_name].split("\f")[citation.page_number - 1]
                whole = documents[citation.file_name][citation.start_char : citation.end_char]
                assert whole.startswith(sheet[citation.page_start : citation.page_end])
                assert citation.page_end > citation.page_start
