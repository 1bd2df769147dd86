"""Each recognised shape on the smallest files that have it: what questions, answers, contexts and documents become."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_eval_pipeline.conversion.planning import plan
from tests.scaffold.public_shapes import hashed
from tests.sources.conftest import zipped


def jsonl(*objects):
    return "".join(json.dumps(item) + "\n" for item in objects)


def gold(plan):
    """The documents of each question's contexts; a context without one is its text in quotes."""
    return [[context.document or f"'{context.text}'" for context in question.contexts] for question in plan.questions]


def answers(plan):
    return [question.answers for question in plan.questions]


def missing(proposal):
    """The keys that have to be filled in."""
    return [sentence.split(":")[0] for sentence in proposal.missing]


def table(header, *cells):
    """A question with its answer and one more column."""
    rows = "".join('A?,a,"' + cell.replace('"', '""') + '"\n' for cell in cells)
    return {"table.csv": f"question,answer,{header}\n{rows}"}


FLIGHTS = {"doc_id": "t2", "text": "Flights above 500 dollars require approval.", "metadata": {"source": "a.md"}}
HOTELS = {"doc_id": "t3", "text": "Hotels are capped at 180 dollars.", "metadata": {"source": "a.md"}}
QUERIES = [
    {"query_id": "q1", "query_text": "does a flight need approval", "relevant_doc_ids": ["t2"]},
    {"query_id": "q2", "query_text": "what is the hotel limit", "relevant_doc_ids": ["t3", "t2"]},
]
BEIR = {
    "corpus.jsonl": jsonl(
        {"_id": "d1", "title": "T", "text": "one"}, {"_id": "d2", "title": "", "text": "two"}, {"_id": "d3", "title": "X", "text": "3"}
    ),
    "queries.jsonl": jsonl({"_id": "1", "text": "first"}, {"_id": "2", "text": "second"}, {"_id": "3", "text": "third"}),
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\td2\t1\n1\td1\t2\n2\td3\t0\n",
    "qrels/train.tsv": "query-id\tcorpus-id\tscore\n3\td3\t1\n",
}  # fmt: skip
NUMBERED_BEIR = {
    "corpus.jsonl": jsonl(*({"_id": str(n), "title": "", "text": f"text {n}"} for n in range(1, 5))),
    "queries.jsonl": jsonl({"_id": "1", "text": "first"}, {"_id": "2", "text": "second"}),
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\t2\t1\n2\t1\t1\n",
}
TREC = {
    "qrels.txt": "301 0 d1 1\n301 0 d2 0\n302 0 d3 2\n",
    "topics.txt": "<top>\n<num> Number: 301\n<title> Organized Crime\n<desc> Description:\nWho?\n</top>\n"
    "<top>\n<num> Number: 302\n<title> Polio\n</top>\n",
}
HOTPOT = {
    "_id": "5a", "question": "Which?", "answer": "yes", "type": "comparison", "level": "hard",
    "supporting_facts": [["A", 0], ["B", 1]],
    "context": [["A", ["One.", " Two."]], ["B", ["Three.", " Four."]], ["C", ["Five."]]],
}  # fmt: skip
MUSIQUE = {
    "id": "2hop", "question": "A?", "answer": "a", "answerable": True,
    "paragraphs": [
        {"title": "A", "paragraph_text": "x", "is_supporting": True},
        {"title": "B", "paragraph_text": "y", "is_supporting": False},
    ],
}  # fmt: skip
CONTEXTS = [{"filename": "x.pdf"}, {"filename": "y.pdf", "text": "gold"}]
TRAIN_JSON = {"id": 0, "question": "A?", "answer": "a", "is_impossible": False, "contexts": CONTEXTS}
HTML = "<html><body><p>x</p></body></html>"
PAGES = {"docs/a b.html": "<p>x</p>", "docs/c.html": "<p>y</p>", "docs/img/c.png": b"\x89PNG", "README.md": "about"}

SHAPES = {
    # files                                                                           gold                          documents
    "HotpotQA, pairs":       ({"dev.json": json.dumps([HOTPOT])},                      [["A", "B"]],                 {"A": "One. Two.", "B": "Three. Four.", "C": "Five."}),
    "HotpotQA, absent paragraphs": ({"dev.json": json.dumps([{**HOTPOT, "context": HOTPOT["context"][:1]}, {**HOTPOT, "supporting_facts": [["B", 0], ["D", 1]]}])},
                                                                                       [["A", "B"], ["B"]],          {"A": "One. Two.", "B": "Three. Four.", "C": "Five."}),
    "Evret, CSV":            ({"eval.csv": 'query_id,query_text,relevant_doc_ids\nq1,a flight,"[""t2""]"\nq2,a hotel,"t3, t2"\n',
                               "corpus.jsonl": jsonl(FLIGHTS, HOTELS)},                [["t2"], ["t3", "t2"]],       {"t2": FLIGHTS["text"], "t3": HOTELS["text"]}),
    "Evret, ids or texts":   ({"eval.csv": 'query,relevant_doc_ids,expected_answers\na flight,"[""t2""]",\na hotel,,"[""At 180.""]"\n',
                               "corpus.jsonl": jsonl(FLIGHTS, HOTELS)},                [["t2"], ["'At 180.'"]],      {"t2": FLIGHTS["text"], "t3": HOTELS["text"]}),
    "BEIR":                  (BEIR,                                                    [["d1", "d2"], []],           {"d1": "T\n\none", "d2": "two", "d3": "X\n\n3"}),
    "BEIR, three dictionaries": ({"corpus.json": json.dumps({"d1": {"title": "T", "text": "one"}, "d2": {"title": "", "text": "two"}}),
                               "queries.json": json.dumps({"q1": "Which is first?", "q2": "Which is second?"}),
                               "qrels.json": json.dumps({"q1": {"d1": 2, "d2": 0}, "q2": {"d2": 1}})},
                                                                                       [["d1"], ["d2"]],             {"d1": "T\n\none", "d2": "two"}),
    "BEIR, equal ids":       (NUMBERED_BEIR,                                           [["2"], ["1"]],               {str(n): f"text {n}" for n in range(1, 5)}),
    "TREC, files":           ({**TREC, **{f"docs/{n}.html": "<p>x</p>" for n in ("d1", "d2", "d3")}},
                                                                                       [["docs/d1.html"], ["docs/d3.html"]], ["docs/d1.html", "docs/d2.html", "docs/d3.html"]),
    "train.json":            ({"train.json": json.dumps([TRAIN_JSON]), "corpus/x.pdf": b"%PDF-", "corpus/y.pdf": b"%PDF-"},
                                                                                       [["corpus/x.pdf", "corpus/y.pdf"]], ["corpus/x.pdf", "corpus/y.pdf"]),
    "MuSiQue":               ({"musique.jsonl": jsonl(MUSIQUE)},                       [["A"]],                      {"A": "x", "B": "y"}),
    "gold text":             (table("context", "gold"),                                [[hashed("gold")]],           {hashed("gold"): "gold"}),
    "pairs of title and text": ({"q.jsonl": jsonl({"question": "A?", "answer": "a", "context": [["Dock", "It is 31 m deep."], ["Basin", "Ines dug it."]]})},
                                                                                       [["Dock", "Basin"]],          {"Dock": "It is 31 m deep.", "Basin": "Ines dug it."}),
    "AutoRAG, JSON in a CSV": ({"qa.csv": 'qid,query,retrieval_gt,generation_gt\nq1,A?,"[[""d1""], [""d2""]]","[""a""]"\n', "corpus.csv": "doc_id,contents\nd1,one\nd2,two\n"},
                                                                                       [["d1", "d2"]],               {"d1": "one", "d2": "two"}),
    "AutoRAG, as pandas writes arrays": ({"qa.csv": "qid,query,retrieval_gt,generation_gt\nq1,A?,\"[array(['d1'], dtype=object)\n array(['d2'], dtype=object)]\",['a' 'b']\n", "corpus.csv": "doc_id,contents\nd1,one\nd2,two\n"},
                                                                                       [["d1", "d2"]],               {"d1": "one", "d2": "two"}),
    "texts by id":           ({"q.csv": "question,answer,doc_id\nA?,a,d1\n", "corpus.json": json.dumps({"d1": "It is 31 m deep.", "d2": "Ines Halloran dug it."})},
                                                                                       [["d1"]],                     {"d1": "It is 31 m deep.", "d2": "Ines Halloran dug it."}),
    "passages that are expected": ({"q.jsonl": jsonl({"request": "A?", "expected_response": "a", "expected_retrieved_context": [{"doc_uri": "x.md"}]}), "docs/x.md": "x"},
                                                                                       [["docs/x.md"]],              ["docs/x.md"]),
    "numbered URL columns":  ({"t.csv": "question,answer,link_1,link_10,link_2\nA?,a,https://a.org/1,https://a.org/10,https://a.org/2\n"},
                                                                                       [["a.org/1", "a.org/2", "a.org/10"]], ["a.org/1", "a.org/10", "a.org/2"]),
    "HTML of the row":       ({"nq.jsonl": jsonl({"question": "A?", "answer": "a", "url": "https://a.org/x", "document_html": HTML})},
                                                                                       [["a.org/x"]],                {"a.org/x": HTML}),
    "HTML of rows with one URL": ({"faq.jsonl": jsonl(*({"question": f"{n}?", "answer": "a", "url": "https://a.org/faq", "answer_html": f"<p>{n}</p>"} for n in (1, 2)))},
                                                                                       [["a.org/faq"]] * 2,          {"a.org/faq": "<p>1</p>\n\n<p>2</p>"}),
    "quotes of a row's file": ({"q.jsonl": jsonl({"question": "A?", "answer": "a", "doc": "x.md", "evidence": ["g1", "g2"]}), "docs/x.md": "x"},
                                                                                       [["docs/x.md", "docs/x.md"]], ["docs/x.md"]),
    "path below a folder":   ({**table("file", "sub/x.md"), "corpus/sub/x.md": "x"},   [["corpus/sub/x.md"]],        ["corpus/sub/x.md"]),
    "spaces for underscores": ({**table("document", "a b"), "docs/a_b.md": "x"},       [["docs/a_b.md"]],            ["docs/a_b.md"]),
    "URL of a file there":   ({**table("link", "https://h.org/f/a%20b.pdf?v=1"), "docs/a b.pdf": b"%PDF-"},
                                                                                       [["docs/a b.pdf"]],           ["docs/a b.pdf"]),
    "files of a third of the rows": ({**table("doc_name", "x", "y", "z"), "docs/x.md": "x"},
                                                                                       [["docs/x.md"]],              ["docs/x.md"]),
    "evidence in files of which some are there": ({"q.jsonl": jsonl(*({"question": "A?", "answer": "a", "evidence": [{"doc_name": name, "evidence_text": "t"}]} for name in "xyz")), "docs/x.md": "x"},
                                                                                       [["docs/x.md"]],              ["docs/x.md"]),
    "files of a saved page": ({**table("page", "x.html"), "docs/x.html": HTML, "docs/x_files/ad.html": HTML, "docs/y.html": HTML},
                                                                                       [["docs/x.html"]],            ["docs/x.html", "docs/y.html"]),
    "a file whose name a Mac wrote": ({**table("doc_name", "\u00fc.md"), "docs/u\u0308.md": "x"},
                                                                                       [["docs/u\u0308.md"]],       ["docs/u\u0308.md"]),
    "gold text beside files": ({**table("context", "gold"), "docs/x.md": "x"},         [["'gold'"]],                 ["docs/x.md"]),
    "results of a search":   ({"q.jsonl": jsonl({"question": "A?", "answer": "a", "docs": [{"title": "T", "text": "t", "score": 0.5}]})},
                                                                                       [[]],                         {"T": "t"}),
    "URLs, glued in a list": (table("links", "['https://a.org/x,https://a.org/y']"),   [["a.org/x", "a.org/y"]],     ["a.org/x", "a.org/y"]),
}  # fmt: skip


@pytest.mark.parametrize(("files", "contexts", "documents"), SHAPES.values(), ids=SHAPES)
def test_shape_gives_contexts_and_documents(planned, files, contexts, documents):
    found = planned(files)

    assert gold(found) == contexts
    if isinstance(documents, dict):
        assert {document.key: document.content for document in found.documents} == documents
    else:
        assert sorted(document.key for document in found.documents) == documents


FILES = {
    "name":               ("a b.html",          ["docs/a b.html"]),
    "lines":              ("a b.html\nc.html",  ["docs/a b.html", "docs/c.html"]),
    "percent-encoded":    ("a%20b.html",        ["docs/a b.html"]),
    "with a fragment":    ("a b.html#part-2",   ["docs/a b.html"]),
    "path elsewhere":     ("/kb/v2/a b.html",   ["docs/a b.html"]),
    "path of Windows":    ("C:\\kb\\a b.html",  ["docs/a b.html"]),
    "link of Markdown":   ("[A b](../kb/a%20b.html)", ["docs/a b.html"]),
    "links of Notion":    ("C (../x/c.html), A b (../x/a%20b.html)", ["docs/c.html", "docs/a b.html"]),
    "in another case":    ("A B.HTML",          ["docs/a b.html"]),
    "with a page":        ("a b.html, p. 2",    ["docs/a b.html"]),
    "URL of a file":      ("file:///kb/a%20b.html?v=2#p", ["docs/a b.html"]),
}  # fmt: skip


@pytest.mark.parametrize(("cell", "expected"), FILES.values(), ids=FILES)
@pytest.mark.parametrize("column", ["Source Docs", "name"])
def test_files_are_found_by_any_kind_of_cell_and_column(planned, column, cell, expected):
    found = planned({**table(column, cell), **PAGES})

    assert gold(found) == [expected]
    assert {document.path.name for document in found.documents} == {"a b.html", "c.html"}


def test_files_in_folders_of_several_depths_and_kinds_are_all_documents(planned):
    files = {"a/x.md": "1", "b/c/y.txt": "2", "z.pdf": b"%PDF-"}
    found = planned({"questions.csv": "question,answer,file\nA?,a,x.md\nB?,b,y.txt\nC?,c,z.pdf\n", **files})

    assert gold(found) == [["a/x.md"], ["b/c/y.txt"], ["z.pdf"]]
    assert len(found.documents) == 3


def test_parquet_ids_lead_to_the_rows_of_another_table(planned, tmp_path):
    (tmp_path / "origin").mkdir()
    questions = {"qid": ["q1"], "query": ["Who?"], "generation_gt": [["a", "b"]], "retrieval_gt": [[["p2"], ["p1"]]]}
    corpus = {"doc_id": ["p1", "p2", "p3"], "contents": ["x", "y", "z"]}
    pq.write_table(pa.table(questions), tmp_path / "origin" / "qa.parquet")
    pq.write_table(pa.table(corpus), tmp_path / "origin" / "corpus.parquet")

    found = planned({})

    assert (gold(found), answers(found)) == ([["p2", "p1"]], [("a", "b")])
    assert len(found.documents) == 3


ANSWERS = {
    "plain":                     ("question,answer\nWhat?,one\n",                          ("one",)),
    "truth beside an output":    ("question,answer,ground_truth\nWhat?,said,right\n",      ("right",)),
    "aliases, semicolons":       ("query,answer,aliases\nWhat?,one,1; I\n",                ("one", "1", "I")),
    "aliases, Python list":      ("query,answer,aliases\nWhat?,one,\"['1', 'I']\"\n",      ("one", "1", "I")),
    "wrong answers beside it":   ("question,incorrect_answer,answer\nWhat?,no,yes\n",      ("yes",)),
    "numbered":                  ("question,answer1,answer2\nWhat?,one,1\n",                 ("one", "1")),
    "question by its values":    ("asked,answer\nWhat is it?,one\n",                       ("one",)),
    "Python lists, one empty":   ("question,answers\nWhat?,\"['one', '1']\"\nWhy?,[]\n",   ("one", "1")),
    "an array of numpy":         ("question,answer\nWhat?,\"['one' '1']\"\n",              ("one", "1")),
    "JSON lists":                ('question,answer\nWhat?,"[""one"", ""1""]"\n',             ("one", "1")),
    "columns below one key":     ("data.user_input,data.reference\nWhat?,one\n",           ("one",)),
    "true and false":            ("question,answer\nIs it?,TRUE\n",                        ("yes", "true")),
    "German, with remarks":      ("Frage;Antwort (Bot);Antwort (Soll)\nWas?;two;one\n",    ("one",)),
    "Japanese":                  ("質問,回答\n何,一\n",                                    ("一",)),
    "a model's answer beside it": ("question,llm_answer,reference answer (checked)\nWhat?,two,one\n", ("one",)),
    "wrong rows beside right ones": ("query,answer,expected_score\nWhat?,two,0\nWhat?,one,1\n", ("one",)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_answers_are_found_by_column_name(planned, text, expected):
    assert answers(planned({"table.csv": text})) == [expected]


IMPOSSIBLE = {
    "flag in other words":   ("question,answer,unanswerable\nA?,a,no\nB?,,yes\n",      [False, True]),
    "negated flag":          ("question,answer,Answerable?\nA?,a,yes\nB?,,no\n",       [False, True]),
    "said in the answer":    ("question,answer\nA?,a\nB?,No Answer Present.\n",         [False, True]),
    "said by each of several": (
        '{"question": "A?", "answers": ["No answer", "one"]}\n{"question": "B?", "answers": ["Can’t be answered."]}\n'
        '{"question": "C?", "answers": ["two"]}\n',
        [False, True, False],
    ),
    "empty answer":          ("question,answer\nA?,a\nB?,\n",                          [False, True]),
    "refusal is expected":   ("question,answer,expected_refusal\nA?,a,false\nB?,no idea,true\n", [False, True]),
    "empty answer, or one that says so": ("question,answer\nA?,a\nB?,unanswerable\nC?,\n", [False, True, True]),
    "no document, and a word for no answer": (
        "question,answer,url\nA?,N/A,https://a.org/1\nB?,n/a,\nC?,-,\nD?,a,https://a.org/1\n", [False, True, True, False],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_unanswerable_questions_are_recognised(planned, text, expected):
    name = "table.jsonl" if text.startswith("{") else "table.csv"

    assert [question.is_impossible for question in planned({name: text}).questions] == expected


COUNTED = {
    "files": (
        {**table("doc_name", "x", "y", "z"), "docs/x.md": "x"},
        "2 of the 3 names in the questions have no file: questions with one are quarantined.",
    ),
    "a name without its suffix": (
        {"q.csv": "question,answer,file\nA?,a,x.md\nB?,b,y\nC?,c,z.md\n", "docs/x.md": "x", "docs/y.md": "y"},
        "1 of the 3 names in the questions have no file: questions with one are quarantined.",
    ),
    "pages": (
        {"faq.csv": "question,answer,link,html\n1?,a,https://a.org/b,<p>1</p>\n2?,a,https://a.org/b,<p>2</p>\n"},
        "Different bodies with one name are joined: 2 for 1 of the names.",
    ),
}


@pytest.mark.parametrize(("files", "sentence"), COUNTED.values(), ids=COUNTED)
def test_documents_that_are_absent_or_joined_are_counted(started, files, sentence):
    assert any(sentence in guess for guess in started(files).guesses)


PDFS = {"docs/x.pdf": b"%PDF-", "docs/y.pdf": b"%PDF-"}
GOLD_PAGES = {
    # rows, documents, page and text of each context
    "counted from 1":      ("file,Seite\nA?,a,x.pdf,3\nB?,b,y.pdf,\n", PDFS,                 [(3, None), (None, None)]),
    "counted from 0":      ("file,page\nA?,a,x.pdf,0\nB?,b,y.pdf,2\n", PDFS,                 [(1, None), (3, None)]),
    "with the gold text":  ("file,page,evidence\nA?,a,x.pdf,3,t\nB?,b,y,4,\n", PDFS,         [(3, "t"), (4, None)]),
    "behind the name":     ("source\nA?,a,\"x.pdf, p. 3\"\nB?,b,y.pdf (S. 4-5)\nC?,c,y.pdf\n", PDFS, [(3, None), (4, None), (None, None)]),
    "not whole numbers":   ("file,page\nA?,a,x.pdf,3-4\nB?,b,y.pdf,2\n", PDFS,               [(None, None)] * 2),
    "of no PDF":           ("file,page\nA?,a,x.md,3\n", {"docs/x.md": "x"},                  [(None, None)]),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "documents", "expected"), GOLD_PAGES.values(), ids=GOLD_PAGES)
def test_page_beside_the_name_of_a_pdf_is_the_gold_page(planned, rows, documents, expected):
    found = planned({"q.csv": f"question,answer,{rows}", **documents})

    assert [(c.page, c.text) for question in found.questions for c in question.contexts] == expected


def test_row_without_an_answer_that_names_a_document_is_not_called_unanswerable(planned):
    found = planned({"q.csv": "question,answer,url\nA?,a,https://a.org/1\nB?,,https://a.org/2\n"})

    assert [(record.code, record.row) for record in found.quarantine] == [("empty_answer", 2)]


def test_answer_that_is_a_list_of_lists_in_some_rows_is_read(planned):
    rows = [{"question": "A?", "exact_answer": [["a"], ["b", "c"]]}, {"question": "B?", "exact_answer": "no"}]

    assert answers(planned({"q.jsonl": jsonl(*rows)})) == [("a", "b", "c"), ("no",)]


def test_passages_beside_a_systems_answers_are_no_gold_texts(planned, empty):
    row = {"query": "How deep?", "response": "9 m", "expected_answer": "31 m", "context": "It may be 9 m."}
    found = planned({"q.jsonl": jsonl(row)})

    assert (answers(found), gold(found), found.documents) == ([("31 m",)], [[]], [])
    assert "'context' is taken for what a system retrieved" in empty.benchmark("scratch").spec.read_text()


def test_splits_in_one_file_are_named(started):
    proposal = started({"q.csv": "question,answer,split\nA?,a,train\nB?,b,test\nC?,c,train\n"})

    assert any("'train' (2 rows), 'test' (1 row)" in guess for guess in proposal.guesses)


def test_instruction_is_asked_with_its_input(planned):
    rows = [
        {"instruction": "Name it.", "input": "", "output": "a"},
        {"instruction": "Sum.", "input": "1, 2", "output": "3"},
    ]
    found = planned({"q.jsonl": jsonl(*rows)})

    assert [(q.question, q.answer) for q in found.questions] == [("Name it.", "a"), ("Sum.\n\n1, 2", "3")]


DOCS = {
    "docs/dock.md": "# Dry dock\nIt is 31 metres deep. Ada Lund built it.",
    "docs/quay.html": "<title>Quay - Harbour wiki</title>Old.",
}


def test_answers_are_found_by_what_the_documents_say_and_are_no_metadata(planned):
    rows = "Nr.;Frage;Soll;Thema;Datei\n1;Wie tief?;31 metres;deep;dock.md\n;;;;\n2;Wer?;Ada Lund;deep;dock.md\n"
    found = planned({"q.csv": rows, **DOCS})

    assert [(q.source_id, q.answers, q.metadata) for q in found.questions] == [
        ("1", ("31 metres",), {"Thema": "deep"}),
        ("2", ("Ada Lund",), {"Thema": "deep"}),
    ]
    assert gold(found) == [["docs/dock.md"], ["docs/dock.md"]]


def test_titles_of_documents_are_offered_as_names(started):
    proposal = started({"q.csv": "question,answer,where\nHow deep?,31 metres,Dry Dock\nHow old?,very,Quay\n", **DOCS})

    assert any("2 of the 2 values of 'where' are titles" in guess for guess in proposal.guesses)
    assert "#    WHEN 'Dry Dock' THEN 'docs/dock.md'" in proposal.text


def test_guess_states_its_evidence(started):
    [guess] = [
        one for one in started({"q.csv": "question,answer\nA?,a\nB?,\n"}).guesses if one.startswith("is_impossible")
    ]

    assert "1 of 2 rows" in guess
    assert "remove this column" in guess


SQUAD_1 = {"version": "1.1", "data": [{"title": "Normans", "paragraphs": [
    {"context": "They lived.", "qas": []},
    {"context": "They ate bread.", "qas": [{"id": "a", "question": "What?", "answers": [{"text": "bread", "answer_start": 9}]}]},
]}]}  # fmt: skip
SQUAD_ROWS = [
    {"id": "z", "context": "They lived.", "question": "Who?", "answers": {"text": ["They"], "answer_start": [0]}},
    {"id": "a", "context": "They ate bread.", "question": "What?", "answers": {"text": ["bread"], "answer_start": [9]}},
    {"id": "b", "context": "They ate bread.", "question": "Why?", "answers": {"text": [], "answer_start": []}},
]


def test_squad_1_offsets_count_from_the_start_of_the_article(planned):
    [question] = planned({"train-v1.1.json": json.dumps(SQUAD_1)}).questions

    # "They lived." has 11 characters, the empty line 2, and "bread" starts at 9 of its paragraph: 11 + 2 + 9.
    assert (question.answer, question.is_impossible, question.source_id) == ("bread", False, "a")
    assert [(c.document, c.text, c.start, c.end) for c in question.contexts] == [("Normans", "bread", 22, 27)]


def test_squad_rows_convert_like_nested_articles(planned):
    found = planned({"validation.jsonl": jsonl(*({"title": "Normans", **row} for row in SQUAD_ROWS))})

    assert [(q.source_id, q.is_impossible) for q in found.questions] == [("z", False), ("a", False), ("b", True)]
    assert [(c.text, c.start, c.end) for c in found.questions[1].contexts] == [("bread", 22, 27)]
    assert [document.content for document in found.documents] == ["They lived.\n\nThey ate bread."]


def test_text_beside_a_url_is_the_gold_text_of_its_page(planned):
    found = planned({"t.csv": "question,answer,url,passage\nA?,a,https://a.org/1,gold\nB?,b,,\n"})

    assert [[(c.document, c.text) for c in q.contexts] for q in found.questions] == [[("a.org/1", "gold")], []]


def test_documents_made_of_quotations_have_no_pages_and_the_proposal_says_so(started, empty):
    evidence = [{"doc_name": "REPORT", "evidence_text": "It is a.", "evidence_page_num": 59}]
    proposal = started({"q.jsonl": jsonl({"question": "A?", "answer": "a", "evidence": evidence})})

    found = plan(empty.benchmark("scratch"))

    assert [(c.document, c.text, c.page) for c in found.questions[0].contexts] == [("REPORT", "It is a.", None)]
    [said] = [guess for guess in proposal.guesses if guess.startswith("documents:")]
    assert "made from the texts in 'evidence'" in said
    assert "They hold only what is quoted, which makes retrieval easy." in said


def test_questions_inside_documents_become_rows(planned):
    asks = [{"qid": 1, "question": "A?", "answers": ["a"]}, {"qid": 2, "question": "B?", "answers": []}]
    papers = [{"title": "T", "full_text": [{"section_name": "S", "paragraphs": ["It is a.", "No b."]}], "qas": asks}]
    found = planned({"papers.json": json.dumps(papers)})

    assert [(q.question, q.answers, q.is_impossible) for q in found.questions] == [
        ("A?", ("a",), False),
        ("B?", (), True),
    ]
    assert gold(found) == [["T"], ["T"]]
    assert {document.key: document.content for document in found.documents} == {"T": "It is a.\n\nNo b."}


def test_questions_inside_rows_may_name_their_documents(planned):
    turns = [{"question": f"{name}?", "answer": "a", "document": f"{name}.md"} for name in "xy"]
    found = planned({"q.json": json.dumps([{"id": "c1", "turns": turns}]), "docs/x.md": "x", "docs/y.md": "y"})

    assert gold(found) == [["docs/x.md"], ["docs/y.md"]]


ASKED = [{"question": "Who dug it?", "answer": "Ines"}, {"question": "When?", "answer": "1874"}]
GRADED = [{"document_id": "x.md", "query_relevance_label": 4}, {"document_id": "y.md", "query_relevance_label": 0}]


@pytest.mark.parametrize("cell", [GRADED, json.dumps(GRADED)], ids=["objects", "JSON in a cell"])
def test_grades_of_a_rows_documents_are_kept(planned, cell):
    rows = jsonl({"query": "A?", "ground_truth": "a", "retrieval_ground_truth": cell})

    found = planned({"q.jsonl": rows, "docs/x.md": "x", "docs/y.md": "y"})

    assert [(one.document, one.relevance) for one in found.questions[0].contexts] == [
        ("docs/x.md", 4),
        ("docs/y.md", 0),
    ]


TWO = [
    {"id": "e1", "input": {"question": "A?"}, "output": {"answer": "a"}},
    {"id": "e2", "input": {"question": "B?"}, "output": {"answer": "b"}},
]
WRAPPED = {  # questions inside what a tool's interface returns
    "Phoenix":               {"data": {"dataset_id": "d", "examples": TWO}},
    "Haystack, run result":  {"run_name": "r", "inputs": {"question": ["A?", "B?"], "ground_truth_answer": ["a", "b"], "predicted_answer": ["x", "y"]}, "results": {"sas": {"score": 0.5, "individual_scores": [0.4, 0.6]}}},
    "Haystack, report":      {"questions": ["A?", "B?"], "ground_truth_answers": ["a", "b"], "ground_truth_documents": [["It is a."], ["It is b."]], "predicted_answers": ["x", "y"]},
    "Azure, results":        {"rows": [{"inputs.query": f"{q}?", "inputs.ground_truth": q.lower(), "inputs.response": "x", "inputs.context": "Retrieved for it, and no truth."} for q in "AB"], "metrics": {"similarity": 3.0}},
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRAPPED.items(), ids=WRAPPED)
def test_questions_are_found_inside_what_a_tool_returns(planned, name, value):
    found = planned({"data.json": json.dumps(value)})

    assert [(one.question, one.answers) for one in found.questions] == [("A?", ("a",)), ("B?", ("b",))]
    assert [document.content for document in found.documents] == (["It is a.", "It is b."] if "report" in name else [])


INNER = {  # of questions inside a row, and what was said before the second
    "turns":     ("turns", "q.json, row 1", [{"role": "user", "content": "Who dug it?"}, {"role": "assistant", "content": "Ines"}]),
    "questions": ("questions", None, None),
}  # fmt: skip


@pytest.mark.parametrize(("name", "conversation", "history"), INNER.values(), ids=INNER)
def test_turns_inside_a_row_follow_on_each_other(planned, name, conversation, history):
    found = planned({"q.json": json.dumps([{"id": "c1", name: ASKED}, {"id": "c2", name: ASKED[:1]}])}).questions

    assert [one.metadata.get("conversation") for one in found] == [conversation, conversation, None]
    assert [one.metadata.get("history") for one in found] == [None, history, None]


@pytest.mark.parametrize("files", [{"q.csv": "question,url\nA?,https://a.org/1\n"}, BEIR], ids=["URLs", "BEIR"])
def test_questions_without_answers_measure_retrieval(planned, files):
    assert planned(files).spec.retrieval_only


MESSAGES = [{"role": "user", "content": "How deep is it?"}, {"role": "assistant", "content": "31 m"}]
SAID = {  # what was said before a question, as teams write it
    "messages": MESSAGES,
    "messages in a cell": json.dumps(MESSAGES),
    "messages in Python's notation": str(MESSAGES),
    "pairs": [["How deep is it?", "31 m"]],
    "objects of both": [{"human": "How deep is it?", "ai": "31 m"}],
    "a transcript": "User: How deep is it?\nAssistant: 31 m",
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_what_was_said_before_a_question_is_its_history_and_no_gold_text(planned, said):
    first = {"question": "Who dug it?", "answer": "Ines", "document": "b.md", "chat_history": type(said)()}
    second = {"question": "And how wide?", "answer": "9 m", "document": "a.md", "chat_history": said}

    found = planned({"q.jsonl": jsonl(first, second), "a.md": "31 m deep", "b.md": "Ines"})

    assert gold(found) == [["b.md"], ["a.md"]]
    assert [question.metadata.get("history", []) for question in found.questions] == [[], MESSAGES]


def test_history_in_no_known_form_is_no_gold_text_and_is_named(empty, started):
    said = [{"role": "tool", "content": "31 m"}]
    row = {"question": "How wide?", "answer": "9 m", "document": "a.md", "history": said}

    proposal = started({"q.jsonl": jsonl(row, row | {"question": "How high?"}), "a.md": "31 m deep"})

    assert gold(plan(empty.benchmark("scratch"))) == [["a.md"], ["a.md"]]
    assert any(guess.startswith("history: 'history' has no messages") for guess in proposal.guesses)


def test_history_of_a_place_is_a_label_and_not_said_to_lack_messages(started):
    proposal = started({"q.csv": "question,answer,history\nA?,a,opened in 1874\nB?,b,Rebuilt: 1901\n"})

    assert not any(guess.startswith("history:") for guess in proposal.guesses)


SETS = {  # of questions in two files, and whether they are one benchmark
    "one for each department": ("hr/q.csv", "it/q.csv", "Who?", True),
    "of one split":            ("hr_test.csv", "it_test.csv", "Who?", True),
    "one with a note":         ("hr/q.csv", "it/q_note.csv", "Who?", True),
    "two versions":            ("q_v1.csv", "q_v2.csv", "How?", False),
    "two splits":              ("test.csv", "train.csv", "Who?", False),
    "answers of a system":     ("questions.csv", "answers.csv", "Who?", False),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other", "asked", "are_one"), SETS.values(), ids=SETS)
def test_files_with_different_questions_are_one_benchmark(empty, started, one, other, asked, are_one):
    proposal = started(
        {
            one: "question,answer\nHow?,so\n",
            other: f"question,answer{',note' if 'note' in other else ''}\n{asked},Ada{',x' if 'note' in other else ''}\n",
        }
    )

    found = plan(empty.benchmark("scratch")).questions
    assert [question.question for question in found] == ["How?", asked][: 1 + are_one]
    assert any("files with alike columns" in guess for guess in proposal.guesses) == are_one


def test_answers_by_question_are_read(planned):
    found = planned({"faq.json": json.dumps({"How deep is it?": "31 m", "Who dug it?": "Ines"})})

    assert [(one.question, one.answer) for one in found.questions] == [
        ("How deep is it?", "31 m"),
        ("Who dug it?", "Ines"),
    ]


IDS = {  # of two documents, as the questions spell them
    "doubles, as pandas makes them of ids where some are missing": ("1.0", "2.0"),
    "white space around them": (" 1", "2\u00a0"),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_ids_of_documents_are_known_however_a_table_spells_them(planned, ids):
    questions = f"question,answer,doc_id\nA?,a,{ids[0]}\nB?,b,{ids[1]}\n"

    found = planned({"qa.csv": questions, "corpus.csv": "doc_id,text\n1,A text.\n2,B text.\n"})

    assert gold(found) == [["1"], ["2"]]


def test_ids_of_documents_that_are_doubles_are_known(planned, tmp_path):
    rows = pa.table({"question": ["A?", "B?"], "answer": ["a", None], "doc_id": [1.0, None]})
    pq.write_table(rows, tmp_path / "qa.parquet")
    files = {"qa.parquet": (tmp_path / "qa.parquet").read_bytes(), "corpus.csv": "doc_id,text\n1,A text.\n2,B text.\n"}

    assert gold(planned(files)) == [["1"], []]


def test_files_are_found_by_ends_of_their_paths(planned):
    files = {"kb/a.md": "A", "kb/one/p.md": "P 1", "kb/two/p.md": "P 2"}
    rows = "A?,a,a.md\nP?,1,one/p.md\nQ?,2,two/p.md\nA again?,a,kb/a.md\n"

    assert gold(planned({"q.csv": f"question,answer,file\n{rows}", **files})) == [
        ["kb/a.md"], ["kb/one/p.md"], ["kb/two/p.md"], ["kb/a.md"],
    ]  # fmt: skip


def test_csv_without_a_header_keeps_its_first_question(planned):
    found = planned({"q.csv": "How deep is it?,31 m\nWho dug it?,Ines\n"})

    assert [(question.question, question.answers) for question in found.questions] == [
        ("How deep is it?", ("31 m",)),
        ("Who dug it?", ("Ines",)),
    ]


def test_history_is_kept_beside_the_conversation_that_a_column_names(planned):
    row = {"question": "How wide?", "answer": "9 m", "chat_id": "x", "turn": 2, "history": MESSAGES}

    found = planned({"q.jsonl": jsonl(row, row | {"question": "How high?", "turn": 3})})

    assert [question.metadata for question in found.questions] == [
        {"conversation": "x", "turn": turn, "history": MESSAGES} for turn in (2, 3)
    ]


def test_documents_in_a_zip_beside_the_questions_are_named(started):
    archive = zipped({"kb/a.md": b"A", "kb/b.pdf": b"%PDF-", "__MACOSX/kb/._a.md": b""})

    proposal = started({"q.csv": "question,answer,document\nA?,a,a.md\n", "kb.zip": archive})

    assert [guess for guess in proposal.guesses if guess.startswith("kb.zip has 2 files")]


def test_gold_texts_may_have_roles(planned):
    text = [{"role": "gold", "text": "It is 31 m deep."}]

    found = planned({"q.jsonl": jsonl(*({"question": f"{n}?", "answer": "a", "contexts": text} for n in "AB"))})

    assert [[c.text for c in question.contexts] for question in found.questions] == [["It is 31 m deep."]] * 2


NULLS = {  # names of documents in a file in which an unanswerable question has none
    "a text or a list": ("a.md", ["b.md"], {"a.md": "A", "b.md": "B"}),
    "a number": (10, 11, {"docs.json": json.dumps([{"id": 10, "text": "A text."}, {"id": 11, "text": "B text."}])}),
}


@pytest.mark.parametrize(("one", "other", "files"), NULLS.values(), ids=NULLS)
def test_unanswerable_question_with_null_instead_of_a_document_is_read(planned, one, other, files):
    rows = [
        {"question": "A?", "answer": "a", "document": one},
        {"question": "Who?", "answer": None, "document": None},
        {"question": "B?", "answer": "b", "document": other},
    ]

    found = planned({"q.jsonl": jsonl(*rows), **files})

    assert [len(names) for names in gold(found)] == [1, 0, 1]
    assert [question.is_impossible for question in found.questions] == [False, True, False]


def test_columns_of_conversations_and_turns_are_found_together(planned):
    rows = "chat_id,turn,question,answer\nx,1,A?,a\nx,2,B?,b\ny,1,C?,c\n"
    said = [{"role": "user", "content": "A?"}, {"role": "assistant", "content": "a"}]

    metadata = [question.metadata for question in planned({"table.csv": rows}).questions]

    assert [(one["conversation"], one.get("history", [])) for one in metadata] == [("x", []), ("x", said), ("y", [])]


def test_column_of_facts_stands_in_for_answers(planned):
    rows = [{"question": "A?", "key_facts": ["It is red", "It is 4"]}, {"question": "B?", "key_facts": ["It is old"]}]

    found = planned({"table.jsonl": "".join(json.dumps(row) + "\n" for row in rows)})

    stated = [[fact["text"] for fact in question.metadata["facts"]] for question in found.questions]
    assert stated == [row["key_facts"] for row in rows]
    assert not found.spec.retrieval_only


def test_plain_columns_need_no_sql(started):
    proposal = started({"table.csv": "Question,Answer,URL\nA?,a,https://a.org/1\n"})

    assert "questions:\n  question: Question\n  answer: Answer\n  urls: URL\n" in proposal.text


MISSING = {
    "unknown columns":      ({"table.csv": "foo,bar\n1,2\n"},                   ["question", "answer"]),
    "questions alone":      ({"q.csv": "question\nA?\n"},                       ["answer"]),
    "TREC, no documents":   (TREC,                                              ["documents"]),
    "names, no documents":  ({"q.jsonl": jsonl({"question": "A?", "answer": "a", "evidence": [{"doc_name": "x", "page": 1}]})}, ["documents"]),
    "answers not understood": ({"q.jsonl": jsonl({"question": "A?", "url": "https://a.org/1", "answers": [{"spans": [1]}]})}, ["answer"]),
    "a system's answers":   ({"q.csv": "question,response,model\nA?,said,m\n"},  ["answer"]),
    "Evret, no documents":  ({"eval.json": json.dumps({"queries": QUERIES})},   ["documents"]),
}  # fmt: skip


@pytest.mark.parametrize(("files", "expected"), MISSING.values(), ids=MISSING)
def test_proposal_says_what_has_to_be_filled_in(started, files, expected):
    proposal = started(files)

    assert missing(proposal) == expected
    assert "This benchmark does not convert yet." in proposal.text


def test_skeleton_lists_every_column_and_converts_when_filled_in(started, empty):
    text = started({"table.csv": "foo,bar\n1,2\n"}).text
    assert "'foo' (text, such as '1')" in text
    assert "'bar' (text, such as '2')" in text

    filled = text.replace("question: FILL_IN", "question: foo", 1).replace("answer: FILL_IN", "answer: bar", 1)
    empty.benchmark("scratch").spec.write_text(filled)

    assert answers(plan(empty.benchmark("scratch"))) == [("2",)]


@pytest.mark.parametrize("header", ["Question", "Größe"])
def test_windows_csv_is_read_as_cp1252_and_the_guess_shows_words(started, header):
    table = f"{header},Answer\nWhat does the Café charge?,“£5”\n"

    proposal = started({"q.csv": table.encode("cp1252")})

    assert "source: {path: q.csv, encoding: cp1252}\n" in proposal.text
    [encoding] = [guess for guess in proposal.guesses if guess.startswith("encoding: ")]
    assert "is not UTF-8 and was read as cp1252 (Windows), which gives" in encoding
    assert "'Café'" in encoding


ENCODED = {
    "cp1250": ("pytanie,odpowiedź", "Gdzie?,Łódź"),
    "cp1251": ("вопрос,ответ", "Где?,Москва"),
    "cp932": ("質問,回答", "どこ？,横浜"),
    "gb18030": ("问题,答案", "在哪里？,上海"),
    "cp949": ("질문,답변", "어디?,부산"),
    "big5": ("問題,答案", "在哪裡？,臺北"),
}


@pytest.mark.parametrize(("encoding", "header", "row"), [(e, *lines) for e, lines in ENCODED.items()], ids=ENCODED)
def test_names_of_columns_tell_the_encoding(planned, encoding, header, row):
    found = planned({"q.csv": f"{header}\n{row}\n".encode(encoding)})

    assert [f"{one.question},{one.answer}" for one in found.questions] == [row]


@pytest.mark.parametrize(
    "line",
    ["Какой город столица?,Москва\n".encode("cp1251"), "Où est Zürich?,là\n".encode() + b"What?,\xff\n"],
    ids=["another script", "UTF-8 with a damaged row"],
)
def test_rows_in_an_unknown_encoding_are_counted(started, line):
    proposal = started({"q.csv": b"question,answer\n" + line})

    assert "source: q.csv\n" in proposal.text
    assert "encoding: rows of q.csv that are not UTF-8 and were not read: 1." in " ".join(proposal.guesses)
