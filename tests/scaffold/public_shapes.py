"""Fifteen small benchmarks in the shapes of well-known public ones, all about the same invented harbours.

Only the shape is theirs: names of files, columns and nesting. `right` is what a careful person makes of the files, worked
out here and not by `init`.
"""

import bz2
import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

Files = dict[str, str | bytes]


class Gold(NamedTuple):
    """A context: the fields that the shape states."""

    document: str | None = None
    text: str | None = None
    page: int | None = None
    span: tuple[int, int] | None = None


class Asked(NamedTuple):
    """An accepted question."""

    question: str
    answers: tuple[str, ...]
    gold: tuple[Gold, ...] = ()


class Right(NamedTuple):
    """What the files mean."""

    asked: tuple[Asked, ...]
    documents: frozenset[str]  # keys
    bodies: frozenset[str] = frozenset()  # the texts of documents, where the files hold them in cells


class Shape(NamedTuple):
    """Files in the shape of a public benchmark."""

    files: Files
    right: Right


HARBOURS = {
    # name               opened  depth  designer              in German        in Polish
    "Saltmere Dock":    ("1874", "31", "Ines Halloran",      "Salzmeerdock",  "Dok Saltmere"),
    "Møllerup Quay":    ("1902", "12", "Jørgen Møller",      "Møllerup-Kai",  "Nabrzeże Møllerup"),
    "Port of Żarnów":   ("1951", "44", "Łucja Żak",          "Hafen Zarnow",  "Port Żarnów"),
    "Curlew Basin":     ("1838", "9",  "Tobias Wrenfield",   "Curlewbecken",  "Basen Curlew"),
    "Old Oyster Wharf": ("1799", "7",  "Margery Dunnock",    "Austernkai",    "Stare Nabrzeże"),
    "Grey Seal Harbor": ("1923", "18", "Anselm Okafor",      "Robbenhafen",   "Szary Port"),
    "Tern Point Pier":  ("1887", "15", "Delia Marchbanks",   "Seeschwalbenpier", "Molo Rybitwa"),
    "Brackwater Lock":  ("1810", "5",  "Ephraim Stott",      "Brackwasserschleuse", "Śluza Brackwater"),
}  # fmt: skip
FOLLOWING = dict(zip(HARBOURS, [*list(HARBOURS)[1:], next(iter(HARBOURS))], strict=True))


class Fact(NamedTuple):
    """A sentence of a harbour's document, and the question that it answers."""

    harbour: str
    question: str
    answer: str
    alias: str
    sentence: str
    page: int  # from 1


def _facts() -> list[Fact]:
    found = []
    for name, (opened, depth, designer, *_) in HARBOURS.items():
        found += [
            Fact(name, f"When was {name} opened?", opened, f"in {opened}", f"{name} was opened in {opened}.", 1),
            Fact(name, f"How deep is {name}?", f"{depth} metres", f"{depth} m", f"It is {depth} metres deep.", 2),
            Fact(name, f"Who designed {name}?", designer, designer.split()[-1], f"It was designed by {designer}.", 3),
        ]
    return found


FACTS = _facts()
TEXTS = {name: "\n\n".join(fact.sentence for fact in FACTS if fact.harbour == name) for name in HARBOURS}
WIKI = {name: f"https://en.wikipedia.org/wiki/{name.replace(' ', '_')}" for name in HARBOURS}


def jsonl(objects: Iterable[object]) -> str:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in objects)


def table(rows: Sequence[Sequence[object]], delimiter: str = ",") -> str:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


def stem(harbour: str) -> str:
    return harbour.replace(" ", "_").upper()


def pdfs(folder: str, names: Iterable[str]) -> Files:
    """Files that are documents by their names; a plan does not read them."""
    return {f"{folder}/{name}.pdf": b"%PDF-1.7\n" for name in names}


def names_and_sentences(gold: Callable[[Fact], tuple[Gold, ...]], alias: bool = False) -> tuple[Asked, ...]:
    return tuple(
        Asked(fact.question, (fact.answer, fact.alias) if alias else (fact.answer,), gold(fact)) for fact in FACTS
    )


def simpleqa() -> Shape:
    """CSV with a Python dict in a cell, in which the URLs are."""
    rows: list[Sequence[object]] = [("metadata", "problem", "answer")]
    asked = []
    for fact in FACTS:
        urls = [WIKI[fact.harbour], WIKI[FOLLOWING[fact.harbour]]]
        rows.append((str({"topic": "Harbours", "answer_type": "Other", "urls": urls}), fact.question, fact.answer))
        asked.append(Asked(fact.question, (fact.answer,), tuple(Gold(keyed(url)) for url in urls)))
    return Shape({"simple_qa_test_set.csv": table(rows)}, Right(tuple(asked), frozenset(map(keyed, WIKI.values()))))


def frames() -> Shape:
    """TSV with an unnamed first column, numbered link columns, and a Python list in a cell that repeats them."""
    links = [f"wikipedia_link_{n}" for n in range(1, 4)]
    rows: list[Sequence[object]] = [
        ("", "Prompt", "Answer", *links, "wikipedia_link_11+", "reasoning_types", "wiki_links")
    ]
    asked = []
    for n, fact in enumerate(FACTS):
        urls = [WIKI[fact.harbour], WIKI[FOLLOWING[fact.harbour]]]
        kinds = "Numerical reasoning | Multiple constraints"
        rows.append((n, fact.question, fact.answer, *urls, "", "", kinds, str(urls)))
        asked.append(Asked(fact.question, (fact.answer,), tuple(Gold(keyed(url)) for url in urls)))
    return Shape({"test.tsv": table(rows, "\t")}, Right(tuple(asked), frozenset(map(keyed, WIKI.values()))))


def kg_rag() -> Shape:
    """CSV with a glob of file names in a cell, two of them in some cells."""
    rows: list[Sequence[object]] = [("Question", "Source Docs", "Question Type", "Source Chunk Type", "Answer")]
    names = [f"{year} {name}" for name in HARBOURS for year in (2022, 2023)]
    asked = []
    for n, fact in enumerate(FACTS):
        other = FOLLOWING[fact.harbour]
        globs = [f"*{fact.harbour}*"] if n % 4 else [f"*2023 {fact.harbour}*", f"*2023 {other}*"]
        rows.append((fact.question, ", ".join(globs), "Single-Doc RAG", "Text", f"{fact.answer}\n\nSOURCE(S): x.pdf"))
        found = [f"2022 {fact.harbour}", f"2023 {fact.harbour}"] if n % 4 else [f"2023 {fact.harbour}", f"2023 {other}"]
        gold = tuple(Gold(f"docs/{name}.pdf") for name in sorted(found))
        asked.append(Asked(fact.question, (f"{fact.answer}\n\nSOURCE(S): x.pdf",), gold))
    files = {"qna_data.csv": "\ufeff" + table(rows), **pdfs("docs", names)}
    return Shape(files, Right(tuple(asked), frozenset(f"docs/{name}.pdf" for name in names)))


def financebench() -> Shape:
    """JSONL with nested evidence, pages that count from 0, document names without a suffix, and a second JSONL."""
    rows = [
        {
            "financebench_id": f"financebench_id_{n:05}", "company": fact.harbour, "doc_name": stem(fact.harbour),
            "question_type": "metrics-generated", "question_reasoning": None, "domain_question_num": None,
            "question": fact.question, "answer": fact.answer, "justification": f"Stated: {fact.sentence}",
            "dataset_subset_label": "OPEN_SOURCE",
            "evidence": [
                {
                    "evidence_text": fact.sentence, "doc_name": stem(fact.harbour),
                    "evidence_page_num": fact.page - 1, "evidence_text_full_page": f"Page\n\n{fact.sentence}\n\nend",
                }
            ],
        }
        for n, fact in enumerate(FACTS)
    ]  # fmt: skip
    about = [
        {"doc_name": stem(name), "company": name, "gics_sector": "Ports", "doc_type": "10k", "doc_period": 2022,
         "doc_link": f"https://files.example/{stem(name)}.pdf"}
        for name in HARBOURS
    ]  # fmt: skip
    files = {
        "data/financebench_document_information.jsonl": jsonl(about),
        "data/financebench_open_source.jsonl": jsonl(rows),
        **pdfs("pdfs", map(stem, HARBOURS)),
    }
    asked = names_and_sentences(lambda fact: (Gold(f"pdfs/{stem(fact.harbour)}.pdf", fact.sentence, fact.page),))
    return Shape(files, Right(asked, frozenset(f"pdfs/{stem(name)}.pdf" for name in HARBOURS)))


def crag() -> Shape:
    """bz2 JSONL with the HTML of retrieved pages in each row; nothing says which of them holds the answer."""

    def page(name: str) -> dict[str, str]:
        body = f"<html><head><title>{name}</title></head><body><p>{TEXTS[name]}</p></body></html>"
        return {
            "page_name": name, "page_url": WIKI[name], "page_snippet": f"About {name}",
            "page_result": body, "page_last_modified": "",
        }  # fmt: skip

    rows = [
        {
            "interaction_id": f"{n:08x}-aa", "query_time": "03/19/2024, 23:49:30 PT", "domain": "open",
            "question_type": "false_premise" if n % 8 == 7 else "simple", "static_or_dynamic": "static",
            "query": fact.question, "answer": "invalid question" if n % 8 == 7 else fact.answer,
            "alt_ans": [] if n % 3 or n % 8 == 7 else [fact.alias], "split": 0, "popularity": "",
            "search_results": [page(FOLLOWING[fact.harbour]), page(fact.harbour)],
        }
        for n, fact in enumerate(FACTS)
    ]  # fmt: skip
    asked = tuple(
        Asked(
            fact.question,
            () if n % 8 == 7 else (fact.answer,) if n % 3 else (fact.answer, fact.alias),
        )
        for n, fact in enumerate(FACTS)
    )
    files: Files = {"crag_task_1_and_2_dev_v4.jsonl.bz2": bz2.compress(jsonl(rows).encode())}
    bodies = frozenset(page(name)["page_result"] for name in HARBOURS)
    return Shape(files, Right(asked, frozenset(map(keyed, WIKI.values())), bodies))


def mkqa() -> Shape:
    """gz JSONL with a question and its answers in three languages."""
    asked, rows = [], []
    for n, (name, (opened, _, _, german, polish)) in enumerate(HARBOURS.items()):
        en, de, pl = f"when was {name} opened", f"wann wurde {german} eröffnet", f"kiedy otwarto {polish}"
        questions = {"en": en, "de": de, "pl": pl}
        given = {"type": "date", "entity": "", "text": opened, "aliases": [f"AD {opened}"] if n % 2 else []}
        given |= {"type": "unanswerable", "text": None, "aliases": []} if n == 3 else {}
        answers = dict.fromkeys(questions, [given])
        rows.append({"example_id": -7449157003522518870 + n, "queries": questions, "query": en, "answers": answers})
        right = () if n == 3 else (opened, f"AD {opened}") if n % 2 else (opened,)
        asked += [Asked(question, right) for question in questions.values()]
    return Shape({"mkqa.jsonl.gz": gzip.compress(jsonl(rows).encode(), mtime=0)}, Right(tuple(asked), frozenset()))


def tydiqa() -> Shape:
    """gz JSONL with UTF-8 byte offsets of the answer in the document of the row; -1 where there is no answer."""
    rows, asked = [], []
    for n, fact in enumerate(FACTS):
        text = TEXTS[fact.harbour]
        start = text.index(fact.sentence) + fact.sentence.index(fact.answer)
        end = start + len(fact.answer)
        is_answered = n % 6 != 5
        first, last = (len(text[:place].encode()) if is_answered else -1 for place in (start, end))
        rows.append(
            {
                "annotations": [
                    {
                        "annotation_id": 11725509819744756779 + n,
                        "minimal_answer": {"plaintext_start_byte": first, "plaintext_end_byte": last},
                        "passage_answer": {"candidate_index": 0 if is_answered else -1}, "yes_no_answer": "NONE",
                    }
                ],
                "document_plaintext": text, "document_title": fact.harbour, "document_url": WIKI[fact.harbour],
                "example_id": -5555555555555555555 + n, "language": "english", "question_text": fact.question,
                "passage_answer_candidates": [
                    {"plaintext_start_byte": 0, "plaintext_end_byte": len(text.encode())}
                ],
            }
        )  # fmt: skip
        gold = (Gold(fact.harbour, fact.answer, None, (start, end)),)
        asked.append(Asked(fact.question, (fact.answer,), gold) if is_answered else Asked(fact.question, ()))
    files: Files = {"tydiqa-v1.0-dev.jsonl.gz": gzip.compress(jsonl(rows).encode(), mtime=0)}
    return Shape(files, Right(tuple(asked), frozenset(HARBOURS), frozenset(TEXTS.values())))


def msmarco_passages() -> Shape:
    """TSV files without a header: a collection, queries, and qrels."""
    collection = [(str(7000 + n), fact.sentence) for n, fact in enumerate(FACTS)]
    queries = [(str(100 + n), fact.question.lower().rstrip("?")) for n, fact in enumerate(FACTS)]
    qrels = [(str(100 + n), "0", str(7000 + n), "1") for n in range(len(FACTS) - 2)]
    files: Files = {
        "collection.tsv": table(collection, "\t"), "queries.dev.small.tsv": table(queries, "\t"),
        "qrels.dev.small.tsv": table(qrels, "\t"),
    }  # fmt: skip
    asked = tuple(Asked(queries[n][1], (), (Gold(str(7000 + n)),)) for n in range(len(FACTS) - 2))
    return Shape(files, Right(asked, frozenset(key for key, _ in collection), frozenset(f.sentence for f in FACTS)))


def aragog() -> Shape:
    """Columnar JSON: two lists of equal length, and the papers beside it."""
    content = {"questions": [f.question for f in FACTS], "ground_truths": [f.answer for f in FACTS]}
    files = {
        "eval_questions/benchmark.json": json.dumps(content, indent=2),
        **pdfs("papers_for_questions", map(stem, HARBOURS)),
    }
    documents = frozenset(f"papers_for_questions/{stem(name)}.pdf" for name in HARBOURS)
    return Shape(files, Right(names_and_sentences(lambda _: ()), documents))


def msmarco_answers() -> Shape:
    """JSONL with parallel lists: passages, their URLs, and which of them was selected."""
    rows, asked = [], []
    for n, fact in enumerate(FACTS):
        passages = [TEXTS[FOLLOWING[fact.harbour]], TEXTS[fact.harbour]]
        urls = [f"http://ports.example/{stem(FOLLOWING[fact.harbour])}", f"http://ports.example/{stem(fact.harbour)}"]
        is_answered = n % 6 != 5
        rows.append(
            {
                "answers": [fact.answer] if is_answered else ["No Answer Present."],
                "passages": {"is_selected": [0, int(is_answered)], "passage_text": passages, "url": urls},
                "query": fact.question, "query_id": 19699 + n, "query_type": "NUMERIC", "wellFormedAnswers": [],
            }
        )  # fmt: skip
        gold = (Gold(keyed(urls[1]), passages[1]),)
        asked.append(Asked(fact.question, (fact.answer,), gold) if is_answered else Asked(fact.question, ()))
    documents = frozenset(keyed(f"http://ports.example/{stem(name)}") for name in HARBOURS)
    return Shape({"dev_v2.1.jsonl": jsonl(rows)}, Right(tuple(asked), documents, frozenset(TEXTS.values())))


def azure() -> Shape:
    """JSONL whose answers cite file and page in brackets."""
    rows, asked = [], []
    for n, fact in enumerate(FACTS):
        cited = [(stem(fact.harbour), fact.page)]
        cited += [] if n % 5 else [(stem(FOLLOWING[fact.harbour]), fact.page)]
        marks = " ".join(f"[{name}.pdf#page={page}]" for name, page in cited)
        rows.append({"question": fact.question, "truth": f"{fact.answer}. {marks}"})
        gold = tuple(Gold(f"data/{name}.pdf", None, page) for name, page in cited)
        asked.append(Asked(fact.question, (f"{fact.answer}.",), gold))
    files = {"evals/ground_truth.jsonl": jsonl(rows), **pdfs("data", map(stem, HARBOURS))}
    return Shape(files, Right(tuple(asked), frozenset(f"data/{stem(name)}.pdf" for name in HARBOURS)))


def triviaqa() -> Shape:
    """Nested JSON in capitals, with the answer and its aliases in an object and files of evidence beside it."""
    rows, asked = [], []
    for n, fact in enumerate(FACTS):
        pages = [{"DocSource": "TagMe", "Filename": f"{fact.harbour.replace(' ', '_')}.txt", "Title": fact.harbour}]
        if n % 5 == 0:
            other = FOLLOWING[fact.harbour]
            pages.append({"DocSource": "Search", "Filename": f"{other.replace(' ', '_')}.txt", "Title": other})
        rows.append(
            {
                "Answer": {
                    "Aliases": [fact.alias, fact.answer], "MatchedWikiEntityName": fact.answer,
                    "NormalizedAliases": [fact.alias.lower()], "NormalizedValue": fact.answer.lower(),
                    "Type": "WikipediaEntity", "Value": fact.answer,
                },
                "EntityPages": pages, "Question": fact.question, "QuestionId": f"tc_{n}",
                "QuestionSource": "http://www.triviacountry.example/",
            }
        )  # fmt: skip
        gold = tuple(Gold(f"evidence/wikipedia/{page['Filename']}") for page in pages)
        asked.append(Asked(fact.question, (fact.answer, fact.alias), gold))
    content = {"Data": rows, "Domain": "Wikipedia", "VerifiedEval": False, "Version": 1.0}
    names = {name: f"evidence/wikipedia/{name.replace(' ', '_')}.txt" for name in HARBOURS}
    files: Files = {"qa/wikipedia-dev.json": json.dumps(content), **{path: TEXTS[name] for name, path in names.items()}}
    return Shape(files, Right(tuple(asked), frozenset(names.values())))


def multihop_rag() -> Shape:
    """JSON list with nested evidence by URL, and the articles in a second JSON list."""
    corpus = [
        {
            "title": f"All about {name}", "author": None, "source": "The Ferryman", "published_at": "2023-11-01T00:00:00+00:00",
            "category": "harbours", "url": f"https://ferryman.example/{n}/{stem(name)}", "body": TEXTS[name],
        }
        for n, name in enumerate(HARBOURS)
    ]  # fmt: skip
    by_name = dict(zip(HARBOURS, corpus, strict=True))
    corpus.append(
        {**corpus[0], "title": "Unnamed", "url": "https://ferryman.example/9", "body": "No question is about it."}
    )
    rows, asked = [], []
    for n, fact in enumerate(FACTS):
        found = [by_name[fact.harbour]] if n % 6 != 5 else []
        evidence = [{**{k: v for k, v in d.items() if k != "body"}, "fact": fact.sentence} for d in found]
        answer = fact.answer if found else "Insufficient information."
        kind = "inference_query" if found else "null_query"
        rows.append({"query": fact.question, "answer": answer, "question_type": kind, "evidence_list": evidence})
        gold = tuple(Gold(keyed(str(d["url"])), fact.sentence) for d in found)
        asked.append(Asked(fact.question, (answer,) if found else (), gold))
    files: Files = {"MultiHopRAG.json": json.dumps(rows, indent=1), "corpus.json": json.dumps(corpus, indent=1)}
    documents = frozenset(keyed(str(d["url"])) for d in corpus)
    bodies = frozenset(f"{d['title']}\n\n{d['body']}" for d in corpus)
    return Shape(files, Right(tuple(asked), documents, bodies))


def rgb() -> Shape:
    """JSONL that is called .json, with lists of supporting, distracting and false texts instead of documents."""
    rows, asked, bodies = [], [], set()
    for n, fact in enumerate(FACTS):
        positive = [f"{fact.harbour}: {fact.sentence}"]
        negative = [f"{FOLLOWING[fact.harbour]} has a museum, part {n}."]
        rows.append(
            {"id": n, "query": fact.question, "answer": [fact.answer], "positive": positive, "negative": negative}
        )
        bodies |= {*positive, *negative}
        asked.append(Asked(fact.question, (fact.answer,), tuple(Gold(hashed(text), text) for text in positive)))
    documents = frozenset(map(hashed, bodies))
    return Shape({"en_refine.json": jsonl(rows)}, Right(tuple(asked), documents, frozenset(bodies)))


def longmemeval() -> Shape:
    """JSON list in which sessions, their ids and their dates are parallel lists, and a list of ids names the gold ones."""
    rows, asked, documents = [], [], set()
    for n, fact in enumerate(FACTS):
        ids = [f"s{n}_other", f"answer_{n}"]
        turns = [
            [{"role": "user", "content": f"Tell me about {FOLLOWING[fact.harbour]}."}],
            [
                {"role": "user", "content": f"Did you know? {fact.sentence}", "has_answer": True},
                {"role": "assistant", "content": "No."},
            ],
        ]
        rows.append(
            {
                "question_id": f"gpt4_{n:04x}", "question_type": "single-session-user", "question": fact.question,
                "answer": fact.answer, "question_date": "2023/05/30 (Tue) 23:40", "haystack_session_ids": ids,
                "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:57"], "haystack_sessions": turns,
                "answer_session_ids": [ids[1]],
            }
        )  # fmt: skip
        documents |= set(ids)
        asked.append(Asked(fact.question, (fact.answer,), (Gold(ids[1]),)))
    return Shape({"longmemeval_s.json": json.dumps(rows)}, Right(tuple(asked), frozenset(documents)))


def hashed(text: str) -> str:
    """The name of a document that is made from a text."""
    return f"text-{hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:12]}"


def keyed(url: str) -> str:
    """The document that a URL names, as `corpus.naming.document_key` writes these: no scheme, nothing encoded."""
    return url.removeprefix("https://").removeprefix("http://")


SHAPES: dict[str, Callable[[], Shape]] = {
    "simpleqa": simpleqa,
    "frames": frames,
    "kg-rag": kg_rag,
    "financebench": financebench,
    "crag": crag,
    "mkqa": mkqa,
    "tydiqa": tydiqa,
    "msmarco-passages": msmarco_passages,
    "aragog": aragog,
    "msmarco-answers": msmarco_answers,
    "azure-search": azure,
    "triviaqa": triviaqa,
    "multihop-rag": multihop_rag,
    "rgb": rgb,
    "longmemeval": longmemeval,
}
