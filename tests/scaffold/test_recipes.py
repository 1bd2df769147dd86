"""Each recipe reads its own example: what is recognised, and what questions, answers and documents it gives."""

import io
import json
import re
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.init import start_benchmark
from rag_eval_pipeline.scaffold.recipe import read_recipes
from tests.scaffold.conftest import write
from tests.scaffold.public_shapes import table

RECIPES = read_recipes()


def content(name, value):
    """The bytes of an example's file: text as it is, rows as the suffix says."""
    if isinstance(value, str):
        return value.encode()
    suffix = PurePosixPath(name).suffix
    if suffix == ".parquet":
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(value), sink)
        return sink.getvalue()
    if suffix in {".csv", ".tsv"}:
        header = list(dict.fromkeys(key for row in value for key in row))
        cells = [["" if row.get(key) is None else row[key] for key in header] for row in value]
        return table([header, *cells], "\t" if suffix == ".tsv" else ",").encode()
    if suffix in {".jsonl", ".ndjson"}:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in value).encode()
    return json.dumps(value, ensure_ascii=False).encode()


def stated(question, expected, documents):
    """What a question became, with the fields that the example states."""
    found = {"question": question.question, "answers": list(question.answers), "is_impossible": question.is_impossible}
    contexts = [
        {name: value for name in ("document", "text", "page", "start", "end", "relevance") if (value := getattr(c, name)) is not None}
        for c in question.contexts
    ]  # fmt: skip
    for context in contexts:
        if documents.get(context.get("document")) == context.get("text") and "document" in context:
            context["made"] = True
    wanted = expected.get("contexts", [])
    shown = [{name: value for name, value in c.items() if name in w} for c, w in zip(contexts, wanted, strict=False)]
    found["contexts"] = shown + contexts[len(wanted) :]
    found |= {
        name: question.metadata[name] for name in ("conversation", "turn", "history", "facts") if name in expected
    }
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_reads_its_example(empty, tmp_path, name):
    recipe = RECIPES[name]
    assert recipe.example is not None
    files = {file: content(file, value) for file, value in recipe.example.files.items()}

    paths, proposal = start_benchmark(empty, "scratch", write(tmp_path / "origin", files))

    assert proposal.shape == recipe.title
    assert [sentence.partition(":")[0] for sentence in proposal.missing] == list(recipe.example.missing)
    if recipe.example.missing:
        return
    found = plan(paths)
    bodies = {document.key: document.content for document in found.documents}
    wanted = [
        {"answers": [], "contexts": [], "is_impossible": not expected.get("answers") and not recipe.retrieval_only}
        | expected
        for expected in recipe.example.questions
    ]
    assert [stated(q, w, bodies) for q, w in zip(found.questions, wanted, strict=True)] == wanted
    assert found.counts.quarantined == 0
    for document, text in recipe.example.documents.items():
        assert bodies[document] == text


LEFT_OUT = {  # of the example: what is no part of the questions; all that the SQL reads in part is one
    "benchmark-qed": [],
    "eli5": [],
    "mtrag": [],
    "topiocqa": [],
    "pubmedqa": ["LONG_ANSWER", "LABELS", "MESHES"],
    "ragas-results-0.1": ["answer", "contexts"],
}


@pytest.mark.parametrize(("name", "left_out"), LEFT_OUT.items(), ids=LEFT_OUT)
def test_columns_that_are_read_in_part_are_not_said_to_be_left_out(empty, tmp_path, name, left_out):
    files = {file: content(file, rows) for file, rows in RECIPES[name].example.files.items()}

    _, proposal = start_benchmark(empty, "scratch", write(tmp_path / "origin", files))

    notes = [guess for guess in proposal.guesses if "no part of the questions" in guess]
    assert re.findall("'(.+?)'", "".join(notes)) == left_out


def test_column_called_source_names_the_documents_of_a_recipe(empty, tmp_path):
    rows = [
        {"instruction": f"How deep is {name}?", "output": f"{n} metres", "source": f"{name}.md"}
        for n, name in enumerate("ab")
    ]
    files = {"alpaca.json": content("alpaca.json", rows), "docs/a.md": b"0 metres", "docs/b.md": b"1 metre"}

    paths, proposal = start_benchmark(empty, "scratch", write(tmp_path / "origin", files))

    assert proposal.shape == RECIPES["alpaca"].title
    assert [[c.document for c in question.contexts] for question in plan(paths).questions] == [
        ["docs/a.md"],
        ["docs/b.md"],
    ]


def test_mtrag_keeps_every_conversation_and_turn(empty, tmp_path):
    """As many as the benchmark states: 110 conversations, 842 tasks, each with all messages before it."""
    tasks = []
    for conversation, turns in enumerate([8] * 72 + [7] * 38):
        said = [{"speaker": who, "text": f"{who} {n}"} for n in range(1, turns + 1) for who in ("user", "agent")]
        tasks += [
            {"conversation_id": f"c{conversation}", "task_id": f"c{conversation}::{turn}", "turn": turn,
             "input": said[: 2 * turn - 1], "targets": [said[2 * turn - 1]], "Answerability": ["ANSWERABLE"],
             "contexts": [{"document_id": "d1", "text": "A passage."}]}
            for turn in range(1, turns + 1)
        ]  # fmt: skip
    origin = write(tmp_path / "origin", {"reference.jsonl": content("reference.jsonl", tasks)})

    found = [question.metadata for question in plan(start_benchmark(empty, "mtrag", origin)[0]).questions]

    assert (len(found), len({one["conversation"] for one in found})) == (842, 110)
    assert sum("history" in one for one in found) == 732
    assert all(len(one.get("history", ())) == 2 * (one["turn"] - 1) for one in found)


TICKETS = "subject,solution,state,article\nHow deep?,<b>31 m</b>,solved,a.md\nWho?,,open,a.md\nWhen?,1874,solved,b.md\n"
OWN = """\
title: tickets
source: https://intranet.example/tickets
recognise:
  source: {columns: {subject: text, solution: text, state: text}, patterns: {state: open|solved}}
questions:
  question: subject
  answer: "regexp_replace(solution, '<[^>]*>', '', 'g')"
where: {state: state = 'solved'}
"""


def with_own(empty, text, name="tickets"):
    empty.recipes.mkdir()
    (empty.recipes / f"{name}.yaml").write_text(text)
    return empty


def test_own_recipe_comes_first(empty, tmp_path):
    files = {"t.csv": TICKETS, "docs/a.md": "31 m", "docs/b.md": "1874"}
    paths, proposal = start_benchmark(with_own(empty, OWN), "scratch", write(tmp_path / "origin", files))

    found = plan(paths)
    assert proposal.shape == "tickets"
    assert any("recipe 'tickets' (https://intranet.example/tickets)" in guess for guess in proposal.guesses)
    assert [(q.question, q.answers, [c.document for c in q.contexts]) for q in found.questions] == [
        ("How deep?", ("31 m",), ["docs/a.md"]), ("When?", ("1874",), ["docs/b.md"]),
    ]  # fmt: skip
    assert found.counts.dropped == 1


def test_own_recipe_replaces_one_of_the_same_name(empty):
    assert read_recipes(with_own(empty, OWN, "squad-rows").recipes)["squad-rows"].title == "tickets"


def test_recipe_whose_sql_does_not_run_is_named_and_left_out(empty, tmp_path):
    origin = write(tmp_path / "origin", {"t.csv": TICKETS})
    _, proposal = start_benchmark(with_own(empty, OWN.replace("solution,", "solutions,")), "scratch", origin)

    assert proposal.shape != "tickets"
    assert any(
        "The recipe 'tickets' fits by its columns" in guess and "solutions" in guess for guess in proposal.guesses
    )


def test_two_readings_that_both_fit_are_left_to_a_person(empty, tmp_path):
    row = {"question": "Which is deep?", "opa": "cup", "opb": "dock", "opc": "sea", "opd": "pond", "cop": 1}
    origin = write(tmp_path / "origin", {"q.jsonl": content("q.jsonl", [row, {**row, "question": "A?", "cop": 3}])})
    _, proposal = start_benchmark(empty, "scratch", origin)

    assert [sentence.partition(":")[0] for sentence in proposal.missing] == ["answer"]
    assert any("'medmcqa' and 'medmcqa-rows' both fit" in guess for guess in proposal.guesses)


BROKEN = {
    # own file                                           what the error names
    "no questions":  (OWN.replace("questions:", "query:"), "query"),
    "no source":     (OWN.replace("  source: {col", "  rows: {col"), "a relation `source`"),
    "bad pattern":   (OWN.replace("open|solved", "(open"), "regular expressions"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "named"), BROKEN.values(), ids=BROKEN)
def test_broken_own_recipe_says_which_file_and_what(empty, tmp_path, text, named):
    with pytest.raises(InputError, match=named) as caught:
        start_benchmark(with_own(empty, text), "scratch", write(tmp_path / "origin", {"t.csv": TICKETS}))

    assert "data/recipes/tickets.yaml" in str(caught.value)


def test_command_lists_recipes_and_prints_one(empty, monkeypatch):
    monkeypatch.chdir(with_own(empty, OWN).root)
    listed = CliRunner().invoke(app, ["recipes"])

    assert re.search(r"^tickets +tickets  \(yours\)$", listed.output, re.MULTILINE)
    assert len(listed.output.splitlines()) == len(RECIPES) + 1
    assert CliRunner().invoke(app, ["recipes", "tickets"]).output == OWN
