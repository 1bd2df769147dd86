"""Each benchmark.yaml in examples/benchmarks/public does with rows in its set's columns what it says."""

import io
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.scaffold.conftest import write
from tests.scaffold.public_shapes import (
    FACTS,
    FOLLOWING,
    HARBOURS,
    SHAPES,
    TEXTS,
    WIKI,
    Asked,
    Gold,
    Right,
    Shape,
    jsonl,
    keyed,
    stem,
    table,
)
from tests.scaffold.test_public_shapes import meaning

PUBLIC = REPOSITORY / "examples" / "benchmarks" / "public"
FIVE = FACTS[:5]
TWO = [name for name in HARBOURS if any(fact.harbour == name for fact in FIVE)]


def squad2() -> Shape:
    def asks(fact):
        start = TEXTS[fact.harbour].split("\n\n")[fact.page - 1].index(fact.answer)
        given = [] if fact.page == 3 else [{"text": fact.answer, "answer_start": start}]
        plausible = {"plausible_answers": [{"text": "no", "answer_start": 0}]} if fact.page == 3 else {}
        return {"id": f"{fact.harbour} {fact.page}", "question": fact.question, "answers": given, **plausible,
                "is_impossible": fact.page == 3}  # fmt: skip

    articles = []
    for name in TWO:
        parts = zip(TEXTS[name].split("\n\n"), [fact for fact in FACTS if fact.harbour == name], strict=True)
        paragraphs = [{"context": text, "qas": [asks(fact)] if fact in FIVE else []} for text, fact in parts]
        articles.append({"title": name, "paragraphs": paragraphs})
    asked = []
    for fact in FIVE:
        start = TEXTS[fact.harbour].index(fact.sentence) + fact.sentence.index(fact.answer)
        gold = (Gold(fact.harbour, fact.answer, None, (start, start + len(fact.answer))),)
        asked.append(Asked(fact.question, ()) if fact.page == 3 else Asked(fact.question, (fact.answer,), gold))
    files = {"dev-v2.0.json": json.dumps({"version": "v2.0", "data": articles})}
    return Shape(files, Right(tuple(asked), frozenset(TWO), frozenset(TEXTS[name] for name in TWO)))


def hotpotqa() -> Shape:
    rows, asked = [], []
    for fact in FIVE:
        titles = [FOLLOWING[fact.harbour], fact.harbour]
        rows.append(
            {
                "id": "5a", "question": fact.question, "answer": fact.answer, "type": "bridge", "level": "hard",
                "supporting_facts": {"title": [fact.harbour], "sent_id": [0]},
                "context": {"title": titles, "sentences": [[f"{name} is", " a harbour."] for name in titles]},
            }
        )  # fmt: skip
        asked.append(Asked(fact.question, (fact.answer,), (Gold(fact.harbour, f"{fact.harbour} is a harbour."),)))
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), content)
    names = {*TWO, *(FOLLOWING[name] for name in TWO)}
    bodies = frozenset(f"{name} is a harbour." for name in names)
    return Shape({"validation.parquet": content.getvalue()}, Right(tuple(asked), frozenset(names), bodies))


def fetaqa() -> Shape:
    rows = [
        {
            "feta_id": 2206 + n, "table_source_json": "totto/1.json", "page_wikipedia_url": WIKI[fact.harbour],
            "table_page_title": fact.harbour, "table_section_title": "Facts", "table_array": [["Depth"], ["31"]],
            "highlighted_cell_ids": [[1, 0]], "question": fact.question, "answer": fact.sentence, "source": "mturk-approved",
        }
        for n, fact in enumerate(FIVE)
    ]  # fmt: skip
    asked = tuple(Asked(fact.question, (fact.sentence,), (Gold(keyed(WIKI[fact.harbour])),)) for fact in FIVE)
    return Shape({"fetaQA-v1_test.jsonl": jsonl(rows)}, Right(asked, frozenset(keyed(WIKI[name]) for name in TWO)))


def truthfulqa() -> Shape:
    rows = [("Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source")]
    rows += [
        ("Adversarial", "Ports", fact.question, fact.answer, f"{fact.answer}; {fact.alias}", "no; never",
         f"{WIKI[fact.harbour]}; a talk")
        for fact in FIVE
    ]  # fmt: skip
    golds = ((Gold(keyed(WIKI[fact.harbour])),) for fact in FIVE)
    asked = tuple(Asked(f.question, (f.answer, f.alias), gold) for f, gold in zip(FIVE, golds, strict=True))
    return Shape({"TruthfulQA.csv": table(rows)}, Right(asked, frozenset(keyed(WIKI[name]) for name in TWO)))


def beir() -> Shape:
    corpus = [{"_id": stem(name), "title": name, "text": TEXTS[name], "metadata": {}} for name in HARBOURS]
    queries = [{"_id": str(n), "text": fact.question, "metadata": {}} for n, fact in enumerate(FIVE)]
    judged = [(str(n), stem(fact.harbour), "1") for n, fact in enumerate(FIVE[:4])]
    judged += [(str(n), stem(FOLLOWING[fact.harbour]), "0") for n, fact in enumerate(FIVE)]
    files = {
        "corpus.jsonl": jsonl(corpus), "queries.jsonl": jsonl(queries),
        "qrels/test.tsv": table([("query-id", "corpus-id", "score"), *judged], "\t"),
    }  # fmt: skip
    asked = (
        *(Asked(fact.question, (), (Gold(stem(fact.harbour)),)) for fact in FIVE[:4]),
        Asked(FIVE[4].question, ()),
    )
    bodies = frozenset(f"{name}\n\n{TEXTS[name]}" for name in HARBOURS)
    return Shape(files, Right(asked, frozenset(map(stem, HARBOURS)), bodies))


def chunking_evaluation() -> Shape:
    rows, asked = [("question", "references", "corpus_id")], []
    for fact in FIVE:
        start = TEXTS[fact.harbour].index(fact.sentence)
        span = (start, start + len(fact.sentence))
        reference = {"content": fact.sentence, "start_index": span[0], "end_index": span[1]}
        rows.append((fact.question, json.dumps([reference]), stem(fact.harbour)))
        asked.append(Asked(fact.question, (), (Gold(f"corpora/{stem(fact.harbour)}.md", fact.sentence, None, span),)))
    files = {"questions_df.csv": table(rows), **{f"corpora/{stem(name)}.md": TEXTS[name] for name in HARBOURS}}
    return Shape(files, Right(tuple(asked), frozenset(f"corpora/{stem(name)}.md" for name in HARBOURS)))


def qasper() -> Shape:
    def asks(fact):
        found = {"free_form_answer": fact.answer, "evidence": [fact.sentence, "FLOAT SELECTED: Table 1"]}
        found = {"free_form_answer": "", "evidence": []} if fact.page == 3 else found
        answer = {"unanswerable": fact.page == 3, "extractive_spans": [], "yes_no": None, "highlighted_evidence": []}
        return {"question": fact.question, "question_id": fact.alias, "answers": [{"answer": {**answer, **found}}]}

    papers = {
        stem(name): {
            "title": name, "abstract": "About it.",
            "full_text": [{"section_name": "Facts", "paragraphs": TEXTS[name].split("\n\n")}],
            "qas": [asks(fact) for fact in FIVE if fact.harbour == name],
        }
        for name in TWO
    }  # fmt: skip
    asked = tuple(
        Asked(fact.question, ())
        if fact.page == 3
        else Asked(fact.question, (fact.answer,), (Gold(stem(fact.harbour), fact.sentence),))
        for fact in FIVE
    )
    bodies = frozenset(f"{name}\n\nAbout it.\n\nFacts\n\n{TEXTS[name]}" for name in TWO)
    return Shape({"qasper-dev-v0.3.json": json.dumps(papers)}, Right(asked, frozenset(map(stem, TWO)), bodies))


def mkqa() -> Shape:
    shape = SHAPES["mkqa"]()
    return shape._replace(right=shape.right._replace(asked=shape.right.asked[::3]))


def tydiqa() -> Shape:
    shape = SHAPES["tydiqa"]()
    asked = tuple(
        each._replace(gold=tuple(gold._replace(document=keyed(WIKI[gold.document])) for gold in each.gold))
        for each in shape.right.asked
    )
    return shape._replace(right=shape.right._replace(asked=asked, documents=frozenset(map(keyed, WIKI.values()))))


SAMPLES = {
    "aragog": SHAPES["aragog"],
    "azure-search-demo": SHAPES["azure-search"],
    "beir": beir,
    "chunking-evaluation": chunking_evaluation,
    "crag": SHAPES["crag"],
    "fetaqa": fetaqa,
    "financebench": SHAPES["financebench"],
    "frames": SHAPES["frames"],
    "hotpotqa": hotpotqa,
    "kg-rag-sec-10-q": SHAPES["kg-rag"],
    "longmemeval": SHAPES["longmemeval"],
    "mkqa": mkqa,
    "msmarco-passages": SHAPES["msmarco-passages"],
    "multihop-rag": SHAPES["multihop-rag"],
    "qasper": qasper,
    "rgb": SHAPES["rgb"],
    "simpleqa": SHAPES["simpleqa"],
    "squad2": squad2,
    "triviaqa": SHAPES["triviaqa"],
    "truthfulqa": truthfulqa,
    "tydiqa": tydiqa,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_published_spec_maps_rows_in_its_columns(tmp_path, name):
    shape = SAMPLES[name]()
    source = write(tmp_path / "source", shape.files)
    source.joinpath("benchmark.yaml").write_bytes(PUBLIC.joinpath(name, "benchmark.yaml").read_bytes())

    found = plan(replace(Workspace(tmp_path).benchmark(name), source=source))

    assert meaning(found, shape.right) == shape.right
    assert found.counts.quarantined == 0


def test_every_published_spec_is_tested_and_says_where_its_files_come_from():
    specs = {path.parent.name: path.read_text() for path in PUBLIC.glob("*/benchmark.yaml")}

    assert set(specs) == set(SAMPLES)
    assert {path.name for path in PUBLIC.iterdir()} == {*SAMPLES, "README.md"}
    for text in specs.values():
        assert [line for line in ("# Get: ", "# Licence: ", "# Columns seen: ") if f"\n{line}" not in text] == []
