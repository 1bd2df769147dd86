"""Each recognised shape, on the smallest files that have it: what a question, its answers and its documents become."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FLIGHTS = {"doc_id": "t2", "text": "Flights above 500 dollars require approval.", "metadata": {"source": "a.md"}}
HOTELS = {"doc_id": "t3", "text": "Hotels are capped at 180 dollars.", "metadata": {"source": "a.md"}}


def jsonl(*objects):
    return "".join(json.dumps(item) + "\n" for item in objects)


def gold(plan):
    return [[context.document for context in question.contexts] for question in plan.questions]


def answers(plan):
    return [question.answers for question in plan.questions]


class TestSquad:
    ARTICLE = {
        "title": "Normans",
        "paragraphs": [
            {"context": "They lived.", "qas": []},
            {
                "context": "They ate bread.",
                "qas": [{"id": "a", "question": "What?", "answers": [{"text": "bread", "answer_start": 9}]}],
            },
        ],
    }

    def test_version_1_has_no_unanswerable_questions_and_offsets_count_from_the_articles_start(self, planned):
        found = planned({"train-v1.1.json": json.dumps({"version": "1.1", "data": [self.ARTICLE]})})

        [question] = found.questions
        # "They lived." has 11 characters, the empty line 2, and "bread" starts at 9 of its paragraph: 11 + 2 + 9.
        assert (question.answer, question.is_impossible, question.source_id) == ("bread", False, "a")
        assert [(c.document, c.text, c.start, c.end) for c in question.contexts] == [("Normans", "bread", 22, 27)]

    def test_a_row_a_question_comes_to_the_same(self, planned):
        rows = [
            {
                "id": "z",
                "context": "They lived.",
                "question": "Who?",
                "answers": {"text": ["They"], "answer_start": [0]},
            },
            {
                "id": "a",
                "context": "They ate bread.",
                "question": "What?",
                "answers": {"text": ["bread"], "answer_start": [9]},
            },
            {"id": "b", "context": "They ate bread.", "question": "Why?", "answers": {"text": [], "answer_start": []}},
        ]
        found = planned({"validation.jsonl": jsonl(*({"title": "Normans", **row} for row in rows))})

        assert [q.source_id for q in found.questions] == ["z", "a", "b"]
        assert [q.is_impossible for q in found.questions] == [False, False, True]
        assert [(c.text, c.start, c.end) for c in found.questions[1].contexts] == [("bread", 22, 27)]
        assert [d.content for d in found.documents] == ["They lived.\n\nThey ate bread."]


class TestHotpot:
    def test_pairs_of_title_and_sentences_are_read_as_parallel_lists_are(self, planned):
        row = {
            "_id": "5a",
            "question": "Which?",
            "answer": "yes",
            "type": "comparison",
            "level": "hard",
            "supporting_facts": [["A", 0], ["B", 1]],
            "context": [["A", ["One.", " Two."]], ["B", ["Three.", " Four."]], ["C", ["Five."]]],
        }
        found = planned({"dev.json": json.dumps([row])})

        assert gold(found) == [["A", "B"]]
        assert {d.key: d.content for d in found.documents} == {"A": "One. Two.", "B": "Three. Four.", "C": "Five."}
        assert found.questions[0].difficulty == "hard"


class TestEvret:
    QUERIES = [
        {"query_id": "q1", "query_text": "does a flight need approval", "relevant_doc_ids": ["t2"]},
        {"query_id": "q2", "query_text": "what is the hotel limit", "relevant_doc_ids": ["t3", "t2"]},
    ]

    def test_ids_lead_to_the_documents_of_the_same_file(self, planned):
        found = planned({"eval.json": json.dumps({"queries": self.QUERIES, "documents": [FLIGHTS, HOTELS]})})

        assert found.spec.retrieval_only
        assert gold(found) == [["t2"], ["t3", "t2"]]
        assert [d.content for d in found.documents] == [FLIGHTS["text"], HOTELS["text"]]

    def test_expected_answers_are_gold_texts_and_no_answers(self, planned):
        query = {"id": "q1", "query": "does a flight need approval", "expected_answers": [FLIGHTS["text"]]}
        found = planned({"eval.json": json.dumps({"queries": [query], "documents": [FLIGHTS, HOTELS]})})

        assert answers(found) == [()]
        assert [c.text for c in found.questions[0].contexts] == [FLIGHTS["text"]]
        assert len(found.documents) == 2

    def test_cells_of_csv_are_json_lists_or_values_with_commas(self, planned):
        table = 'query_id,query_text,relevant_doc_ids\nq1,a flight,"[""t2""]"\nq2,a hotel,"t3, t2"\n'
        found = planned({"eval.csv": table, "corpus.jsonl": jsonl(FLIGHTS, HOTELS)})

        assert gold(found) == [["t2"], ["t3", "t2"]]

    def test_a_row_may_have_ids_or_texts(self, planned):
        table = 'query,relevant_doc_ids,expected_answers\na flight,"[""t2""]",\na hotel,,"[""Capped at 180.""]"\n'
        found = planned({"eval.csv": table, "corpus.jsonl": jsonl(FLIGHTS, HOTELS)})

        named = [[(c.document, c.text) for c in q.contexts] for q in found.questions]
        assert named == [[("t2", None)], [(None, "Capped at 180.")]]

    def test_ids_without_documents_are_said_to_be_missing(self, started):
        proposal = started({"eval.json": json.dumps({"queries": self.QUERIES})})

        assert [sentence.split(":")[0] for sentence in proposal.missing] == ["documents"]
        assert "This does not convert yet." in proposal.text


class TestJudgements:
    BEIR = {
        "corpus.jsonl": jsonl(
            {"_id": "d1", "title": "T", "text": "one"}, {"_id": "d2", "title": "", "text": "two"}, {"_id": "d3", "title": "X", "text": "3"}
        ),
        "queries.jsonl": jsonl({"_id": "1", "text": "first"}, {"_id": "2", "text": "second"}, {"_id": "3", "text": "third"}),
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\td2\t1\n1\td1\t2\n2\td3\t0\n",
        "qrels/train.tsv": "query-id\tcorpus-id\tscore\n3\td3\t1\n",
    }  # fmt: skip

    def test_beir_takes_the_test_split_and_what_is_judged_above_zero(self, planned):
        found = planned(self.BEIR)

        assert [q.question for q in found.questions] == ["first", "second"]
        assert gold(found) == [["d1", "d2"], []]
        assert {d.key: d.content for d in found.documents} == {"d1": "T\n\none", "d2": "two", "d3": "X\n\n3"}

    def test_beir_ids_that_number_questions_and_documents_alike_are_told_apart(self, planned):
        found = planned(
            {
                "corpus.jsonl": jsonl(*({"_id": str(n), "title": "", "text": f"text {n}"} for n in range(1, 5))),
                "queries.jsonl": jsonl({"_id": "1", "text": "first"}, {"_id": "2", "text": "second"}),
                "qrels/test.tsv": "query-id\tcorpus-id\tscore\n1\t2\t1\n2\t1\t1\n",
            }
        )

        assert [(q.question, [c.document for c in q.contexts]) for q in found.questions] == [
            ("first", ["2"]),
            ("second", ["1"]),
        ]

    def test_beir_says_which_other_splits_there_are(self, started):
        assert any("qrels/train.tsv" in guess for guess in started(self.BEIR).guesses)

    TREC = {
        "qrels.txt": "301 0 d1 1\n301 0 d2 0\n302 0 d3 2\n",
        "topics.txt": "<top>\n<num> Number: 301\n<title> Organized Crime\n<desc> Description:\nWho?\n</top>\n"
        "<top>\n<num> Number: 302\n<title> Polio\n</top>\n",
    }

    def test_trec_topics_and_qrels_find_their_documents_in_a_table(self, planned):
        documents = jsonl(*({"docno": name, "text": name} for name in ("d1", "d2", "d3")))
        found = planned({**self.TREC, "docs.jsonl": documents})

        assert [q.question for q in found.questions] == ["Organized Crime", "Polio"]
        assert gold(found) == [["d1"], ["d3"]]

    def test_trec_documents_may_be_files_named_by_their_ids(self, planned):
        found = planned({**self.TREC, **{f"docs/{name}.html": "<p>x</p>" for name in ("d1", "d2", "d3")}})

        assert gold(found) == [["docs/d1.html"], ["docs/d3.html"]]
        assert len(found.documents) == 3

    def test_trec_without_documents_says_that_it_does_not_convert(self, started):
        assert [sentence.split(":")[0] for sentence in started(self.TREC).missing] == ["documents"]


class TestRows:
    ANSWERS = {
        #                                              header and rows                                          answers
        "plain":                                      ("question,answer\nWhat?,one\n",                          [("one",)]),
        "names in capitals with blanks":              ("Question ,Answer\nWhat?,one\n",                         [("one",)]),
        "the truth, not what a system said":          ("question,answer,ground_truth\nWhat?,said,true\n",       [("true",)]),
        "aliases with semicolons":                    ("query,answer,aliases\nWhat?,one,1; I\n",                [("one", "1", "I")]),
        "aliases as Python wrote a list":             ("query,answer,aliases\nWhat?,one,\"['1', 'I']\"\n",      [("one", "1", "I")]),
        "aliases as JSON":                            ('query,answer,aliases\nWhat?,one,"[""1"", ""I""]"\n',    [("one", "1", "I")]),
        "a wrong answer is none":                     ("question,incorrect_answer,answer\nWhat?,no,yes\n",      [("yes",)]),
        "no name fits, but it asks":                  ("asked,answer\nWhat is it?,one\n",                       [("one",)]),
    }  # fmt: skip

    @pytest.mark.parametrize(("table", "expected"), ANSWERS.values(), ids=ANSWERS)
    def test_answers(self, planned, table, expected):
        assert answers(planned({"table.csv": table})) == expected

    IMPOSSIBLE = {
        "a flag":                     ("question,answer,is_impossible\nA?,a,false\nB?,,true\n", [False, True]),
        "a flag in other words":      ("question,answer,unanswerable\nA?,a,no\nB?,,yes\n",      [False, True]),
        "the opposite of a flag":     ("question,answer,Answerable?\nA?,a,yes\nB?,,no\n",       [False, True]),
        "no flag and no answer":      ("question,answer\nA?,a\nB?,\n",                          [False, True]),
        "all have answers":           ("question,answer\nA?,a\nB?,b\n",                         [False, False]),
    }  # fmt: skip

    @pytest.mark.parametrize(("table", "expected"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
    def test_unanswerable_questions(self, planned, table, expected):
        assert [question.is_impossible for question in planned({"table.csv": table}).questions] == expected

    def test_a_missing_answer_is_a_guess_that_says_how_to_undo_it(self, started):
        [guess] = [
            g for g in started({"q.csv": "question,answer\nA?,a\nB?,\n"}).guesses if g.startswith("is_impossible")
        ]

        assert "1 of 2 rows" in guess
        assert "remove this column" in guess

    URLS = {
        "one a cell":                       ("https://a.org/x",                          ["a.org/x"]),
        "as Python wrote a list":           ("['https://a.org/x', 'https://a.org/y']",   ["a.org/x", "a.org/y"]),
        "glued in a list":                  ("['https://a.org/x,https://a.org/y']",      ["a.org/x", "a.org/y"]),
        "glued by semicolons":              ("https://a.org/x; https://a.org/y",         ["a.org/x", "a.org/y"]),
        "as JSON":                          ('["https://a.org/x"]',                      ["a.org/x"]),
    }  # fmt: skip

    @pytest.mark.parametrize(("cell", "expected"), URLS.values(), ids=URLS)
    def test_urls(self, planned, cell, expected):
        quoted = cell.replace('"', '""')
        found = planned({"table.csv": f'question,answer,links\nA?,a,"{quoted}"\n'})

        assert gold(found) == [expected]

    def test_numbered_columns_of_urls_are_one_list_in_their_numbers_order(self, planned):
        table = "question,answer,link_1,link_10,link_2\nA?,a,https://a.org/1,https://a.org/10,https://a.org/2\n"

        assert gold(planned({"table.csv": table})) == [["a.org/1", "a.org/2", "a.org/10"]]

    def test_plain_columns_are_written_in_the_short_form(self, started):
        proposal = started({"table.csv": "Question,Answer,URL\nA?,a,https://a.org/1\n"})

        assert "questions:\n  question: Question\n  answer: Answer\n  urls: URL\n" in proposal.text

    def test_ids_of_another_table_lead_to_its_rows(self, planned, tmp_path):
        (tmp_path / "origin").mkdir()
        questions = {
            "qid": ["q1"],
            "query": ["Who?"],
            "generation_gt": [["a", "b"]],
            "retrieval_gt": [[["p2"], ["p1"]]],
        }
        pq.write_table(pa.table(questions), tmp_path / "origin" / "qa.parquet")
        pq.write_table(
            pa.table({"doc_id": ["p1", "p2", "p3"], "contents": list("xyz")}), tmp_path / "origin/corpus.parquet"
        )
        found = planned({})

        assert (gold(found), answers(found)) == ([["p2", "p1"]], [("a", "b")])
        assert len(found.documents) == 3

    def test_a_questions_own_number_is_no_link_to_a_table_with_such_numbers(self, planned):
        found = planned(
            {
                "questions.jsonl": jsonl({"id": 1, "question": "A?", "answer": "a"}),
                "corpus.jsonl": jsonl({"id": 1, "text": "x"}, {"id": 2, "text": "y"}),
            }
        )

        assert gold(found) == [[]]
        assert found.questions[0].source_id == "1"

    FILES = {
        "by name":                    ("a b.html",          ["docs/a b.html"]),
        "without suffix":             ("a b",               ["docs/a b.html"]),
        "in lines":                   ("a b.html\nc.html",  ["docs/a b.html", "docs/c.html"]),
        "by a glob":                  ("*b*",               ["docs/a b.html"]),
        "by globs with semicolons":   ("a*; c*",            ["docs/a b.html", "docs/c.html"]),
    }  # fmt: skip

    @pytest.mark.parametrize(("cell", "expected"), FILES.values(), ids=FILES)
    @pytest.mark.parametrize("column", ["Source Docs", "name", "file"])
    def test_files(self, planned, column, cell, expected):
        files = {
            "docs/a b.html": "<p>x</p>",
            "docs/c.html": "<p>y</p>",
            "docs/img/c.png": b"\x89PNG",
            "README.md": "about",
        }
        found = planned({"table.csv": f'question,answer,{column}\nA?,a,"{cell}"\n', **files})

        assert gold(found) == [expected]
        assert len(found.documents) == 2

    def test_files_in_several_folders_of_several_kinds_are_one_corpus(self, planned):
        files = {"a/x.md": "x", "b/c/y.txt": "y", "z.pdf": b"%PDF-1.4", "LICENSE.txt": "MIT License"}
        found = planned({"table.csv": "question,answer,doc\nA?,a,x.md\nB?,b,y.txt\nC?,c,z.pdf\n", **files})

        assert gold(found) == [["a/x.md"], ["b/c/y.txt"], ["z.pdf"]]
        assert len(found.documents) == 3

    def test_structs_name_their_documents_among_the_files(self, planned):
        contexts = [{"filename": "x.pdf"}, {"filename": "y.pdf", "text": "gold"}]
        row = {"id": 0, "question": "A?", "answer": "a", "is_impossible": False, "contexts": contexts}
        found = planned({"train.json": json.dumps([row]), "corpus/x.pdf": b"%PDF-", "corpus/y.pdf": b"%PDF-"})

        assert [(c.document, c.text) for c in found.questions[0].contexts] == [
            ("corpus/x.pdf", None),
            ("corpus/y.pdf", "gold"),
        ]

    def test_structs_that_say_which_support_the_answer_leave_the_others_to_the_corpus(self, planned):
        paragraphs = [
            {"title": "A", "paragraph_text": "x", "is_supporting": True},
            {"title": "B", "paragraph_text": "y", "is_supporting": False},
        ]
        row = {"id": "2hop", "question": "A?", "answer": "a", "answerable": True, "paragraphs": paragraphs}
        found = planned({"musique.jsonl": jsonl(row)})

        assert gold(found) == [["A"]]
        assert [d.key for d in found.documents] == ["A", "B"]

    def test_gold_texts_are_told_from_what_a_system_retrieved(self, planned):
        row = {
            "user_input": "A?",
            "response": "said",
            "reference": "true",
            "retrieved_contexts": ["found"],
            "reference_contexts": ["g1", "g2"],
        }
        found = planned({"ragas.jsonl": jsonl(row)})

        assert answers(found) == [("true",)]
        assert [c.text for c in found.questions[0].contexts] == ["g1", "g2"]

    def test_one_gold_text_a_row_needs_no_list(self, planned):
        found = planned({"t.csv": "question,answer,context\nA?,a,gold\n"})

        assert [c.text for c in found.questions[0].contexts] == ["gold"]

    def test_a_text_beside_a_url_is_the_gold_text_of_its_page(self, planned):
        found = planned({"t.csv": "question,answer,url,passage\nA?,a,https://a.org/1,gold\nB?,b,,\n"})

        assert [[(c.document, c.text) for c in q.contexts] for q in found.questions] == [[("a.org/1", "gold")], []]

    def test_numbers_become_texts(self, planned):
        assert answers(planned({"q.jsonl": jsonl({"question": "A?", "answer": 3})})) == [("3",)]

    def test_questions_with_documents_and_without_answers_measure_retrieval(self, planned):
        found = planned({"q.csv": "question,url\nA?,https://a.org/1\n"})

        assert found.spec.retrieval_only
        assert found.counts.accepted == 1


class TestUnknown:
    def test_a_skeleton_lists_every_column_and_says_that_it_does_not_convert(self, started):
        proposal = started({"table.csv": "foo,bar\n1,2\n"})

        assert [sentence.split(":")[0] for sentence in proposal.missing] == ["question", "answer"]
        assert "This does not convert yet." in proposal.text
        assert "'foo' (text, such as '1')" in proposal.text
        assert "'bar' (text, such as '2')" in proposal.text

    def test_a_skeleton_converts_once_it_is_filled_in(self, started, empty):
        from rag_eval_pipeline.conversion.planning import plan

        text = started({"table.csv": "foo,bar\n1,2\n"}).text
        filled = text.replace("question: FILL_IN", "question: foo", 1).replace("answer: FILL_IN", "answer: bar", 1)
        empty.benchmark("scratch").spec.write_text(filled)

        assert answers(plan(empty.benchmark("scratch"))) == [("2",)]

    def test_questions_alone_lack_an_answer(self, started):
        assert [sentence.split(":")[0] for sentence in started({"q.csv": "question\nA?\n"}).missing] == ["answer"]
