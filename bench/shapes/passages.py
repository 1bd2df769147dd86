"""Shapes in which each question comes with the text, paper or table that it is about."""
# fmt: off
# isort: skip_file

import json

from shapes.facts import (
    BODIES, FACTS, HUTS, IS_HIGH, NAMES, NEXT, TEXTS, Asked, Gold, Right, Shape, asked, both, dumps, jsonl,
    paragraphs, sentence, shape, stem, table, whole, within,
)


@shape("BoolQ (JSONL)", "https://github.com/google-research-datasets/boolean-questions")
def boolq() -> Shape:
    """JSONL with a boolean answer; questions in lower case without a question mark."""
    asks = [(name, f"is {name.lower()} {word} 2000 metres", word) for name in NAMES for word in ("above", "below")]
    rows, right = [], []
    for name, question, word in asks:
        answer = IS_HIGH[name] == (word == "above")
        rows.append({"question": question, "title": name, "answer": answer, "passage": TEXTS[name]})
        right.append(Asked(question, ("yes" if answer else "no",), (Gold(name),)))
    return Shape({"dev.jsonl": jsonl(rows)}, (Right(tuple(right), BODIES),))


@shape("DROP (rows)", "https://huggingface.co/datasets/ucinlp/drop")
def drop() -> Shape:
    """JSONL with spans in a struct of parallel lists: in validation the answers of all annotators, often the same."""
    rows = []
    for n, fact in enumerate(FACTS):
        spans = [fact.answer] * (1 + n % 3)
        given = {"spans": spans, "types": ["number" if fact.answer.isdecimal() else "span"] * len(spans)}
        rows.append({"section_id": f"history_{n // 3}", "query_id": f"f37e81fa-{n}", "passage": TEXTS[fact.hut],
            "question": fact.question, "answers_spans": given})
    edits = {
        "answers": "list_distinct(answers_spans.spans)",
        "retrieval_only": "false",
    }
    return Shape({"data/validation.jsonl": jsonl(rows)}, (Right(asked(within), BODIES),), edits)

@shape("QASPER (rows)", "https://huggingface.co/datasets/allenai/qasper")
def qasper() -> Shape:
    """JSONL with one paper a row: its sections and questions are structs of parallel lists, with evidence texts."""
    rows, right, documents = [], [], {}
    for name in NAMES:
        title, abstract = f"A history of {name}", f"We describe {name} and its keepers."
        facts = [fact for fact in FACTS if fact.hut == name]
        answers = []
        for n, fact in enumerate(facts):
            is_asked = not (n == 2 and name == NAMES[3])
            blank = {"unanswerable": False, "extractive_spans": [], "yes_no": None, "free_form_answer": ""}
            first = blank | {"extractive_spans": [fact.answer]} if n != 1 else blank | {"free_form_answer": fact.answer}
            given = [first if is_asked else blank | {"unanswerable": True}]
            evidence = [fact.sentence] if is_asked else []
            given = [{**one, "evidence": evidence, "highlighted_evidence": evidence} for one in given]
            answers.append({"answer": given, "annotation_id": [f"a{n}"], "worker_id": ["w1"]})
            gold = (Gold(name, (fact.sentence,)),)
            right.append(Asked(fact.question, (fact.answer,), gold) if is_asked else Asked(fact.question, ()))
        rows.append({"id": f"1909.0069{NAMES.index(name)}", "title": title, "abstract": abstract,
            "full_text": {"section_name": ["Introduction", "Winter"], "paragraphs": [
            [facts[0].sentence, facts[1].sentence], [facts[2].sentence]]}, "qas": {
            "question": [fact.question for fact in facts], "question_id": [f"{name[:2]}{n}" for n in range(3)],
            "nlp_background": ["two"] * 3, "topic_background": ["familiar"] * 3, "paper_read": ["no"] * 3,
            "search_query": [""] * 3, "question_writer": ["w0"] * 3, "answers": answers},
            "figures_and_tables": {"caption": ["Table 1: Huts."], "file": ["3-Table1-1.png"]}})
        documents[name] = tuple(fact.sentence for fact in facts)
    return Shape({"qasper/validation.jsonl": jsonl(rows)}, (Right(tuple(right), documents),))


@shape("BioASQ (task b)", "http://participants-area.bioasq.org/datasets/")
def bioasq() -> Shape:
    """JSON with four types of question, whose exact answers are a text, a list or a list of lists; snippets by URL."""
    url = {name: f"http://www.ncbi.nlm.nih.gov/pubmed/1500{n}" for n, name in enumerate(NAMES)}
    rows, exact, ideal = [], [], []
    for n, fact in enumerate(FACTS):
        kind = ("factoid", "list", "summary")[n % 3]
        question, answer = fact.question, (fact.answer,)
        row: dict[str, object] = {"ideal_answer": [fact.sentence]}
        if n == 2:
            kind, question = "yesno", f"Is {fact.hut} kept open in winter?"
            row["exact_answer"], answer = "yes", ("yes",)
        elif kind == "summary":
            answer = (fact.sentence,)
        else:
            row["exact_answer"] = [[fact.answer]]
        snippet = {"document": url[fact.hut], "text": fact.sentence, "beginSection": "abstract",
            "endSection": "abstract", "offsetInBeginSection": TEXTS[fact.hut].index(fact.sentence),
            "offsetInEndSection": TEXTS[fact.hut].index(fact.sentence) + len(fact.sentence)}
        rows.append({"id": f"55031181e9bde6963400{n:04}", "type": kind, "body": question,
            "documents": [url[fact.hut]], "snippets": [snippet], "concepts": [
            "http://www.disease-ontology.org/api/metadata/DOID:1"], **row})
        gold = (Gold(url[fact.hut].removeprefix("http://"), (fact.sentence,)),)
        exact.append(Asked(question, answer, gold))
        ideal.append(Asked(question, (fact.sentence,), gold))
    pages = dict.fromkeys(address.removeprefix("http://") for address in url.values())
    files = {"BioASQ-training11b/training11b.json": dumps({"questions": rows})}
    edits = {
        "answers": "ideal_answer",
    }
    return Shape(files, (Right(tuple(exact), pages), Right(tuple(ideal), pages)), edits)

@shape("NarrativeQA (CSV files)", "https://github.com/google-deepmind/narrativeqa")
def narrativeqa() -> Shape:
    """CSV files of questions, of stories behind URLs, and of summaries, joined by `document_id`."""
    ids = {name: f"0025577043f5090cd603c6aea60f26e236195{n}" for n, name in enumerate(NAMES)}
    url = {name: f"http://www.gutenberg.org/ebooks/{100 + n}.txt.utf-8" for n, name in enumerate(NAMES)}
    stories: list[list[object]] = [["document_id", "set", "kind", "story_url", "story_file_size", "wiki_url",
        "wiki_title", "story_word_count", "story_start"]]
    summaries: list[list[object]] = [["document_id", "set", "summary", "summary_tokenized"]]
    pairs: list[list[object]] = [["document_id", "set", "question", "answer1", "answer2", "question_tokenized",
        "answer1_tokenized", "answer2_tokenized"]]
    for name in NAMES:
        wiki = f"https://en.wikipedia.org/wiki/{name.replace(' ', '_')}"
        stories.append([ids[name], "test", "gutenberg", url[name], 523000, wiki, name, 99000, "It was"])
        summaries.append([ids[name], "test", TEXTS[name], TEXTS[name].lower().replace(".", " .")])
    for fact in FACTS:
        plain = [fact.question, fact.answer, fact.alias]
        spaced = [text.lower().replace("?", " ?") for text in plain]
        pairs.append([ids[fact.hut], "test", *plain, *spaced])

    keys = {name: address.removeprefix("http://") for name, address in url.items()}
    about_stories = asked(lambda fact: (Gold(keys[fact.hut]),), both)
    files = {"documents.csv": table(stories), "qaps.csv": table(pairs), "third_party/wikipedia/summaries.csv": table(
        summaries)}
    return Shape(files, (Right(asked(whole, both), BODIES), Right(about_stories, dict.fromkeys(keys.values()))))


@shape("CMRC 2018 (list form)", "https://github.com/ymcui/cmrc2018")
def cmrc() -> Shape:
    """JSON list in Chinese with own names for SQuAD's fields and answers without offsets."""
    rows, right = [], []
    found = paragraphs("zh")
    for n, one in enumerate(found):
        qas = [{"query_text": question, "query_id": f"TRAIN_{n}_QUERY_{m}", "answers": [answer]} for m,
            (question, answer) in enumerate(one.asked)]
        rows.append({"context_id": f"TRAIN_{n}", "context_text": one.text, "qas": qas, "title": one.title})
        right += [Asked(q, (a,), (Gold(one.title, (None, a)),)) for q, a in one.asked]
    documents = {one.title: (one.text,) for one in found}
    edits = {
        "contexts": "[{document: title}]",
        "documents": "SELECT title AS name, context_text AS text FROM source",
    }
    return Shape({"data/cmrc2018_train.json": dumps(rows)}, (Right(tuple(right), documents),), edits)


def squad(language: str, name: str, *, title: bool, repeats: int, impossible: bool | None, version: str) -> Shape:
    """The form of SQuAD: without titles, with answers of several annotators, or with questions without an answer."""
    data, right = [], []
    found = paragraphs(language)
    for n, one in enumerate(found):
        qas = []
        for m, (question, answer) in enumerate(one.asked):
            is_impossible = bool(impossible) and n == 2 and m == 1
            spans = [] if is_impossible else [{"text": answer, "answer_start": one.text.index(answer)}] * repeats
            qa = {"id": f"{6566495 + n}-{m}-0", "question": question, "answers": spans}
            qas.append(qa if impossible is None else qa | {"is_impossible": is_impossible})
            gold = (Gold(one.title, (None, answer)),)
            right.append(Asked(question, ()) if is_impossible else Asked(question, (answer,), gold))
        paragraph = {"qas": qas, "context": one.text} | ({} if title else {"document_id": 40369 + n})
        data.append({"paragraphs": [paragraph]} | ({"title": one.title} if title else {}))
    documents = {one.title: (one.text,) for one in found}
    content = {"version": version, "data": data} if version else {"data": data}
    return Shape({name: dumps(content)}, (Right(tuple(right), documents),))


@shape("KorQuAD 1.0", "https://korquad.github.io/KorQuad%201.0/")
def korquad() -> Shape:
    return squad("ko", "KorQuAD_v1.0_dev.json", title=True, repeats=1, impossible=None, version="KorQuAD_v1.0_dev")


@shape("GermanQuAD", "https://huggingface.co/datasets/deepset/germanquad")
def germanquad() -> Shape:
    return squad("de", "GermanQuAD_test.json", title=False, repeats=3, impossible=False, version="")


@shape("PersianQA", "https://github.com/sajjjadayobi/PersianQA")
def persianqa() -> Shape:
    return squad("fa", "dataset/pqa_test.json", title=True, repeats=1, impossible=True, version="")


@shape("COVID-QA (rows)", "https://huggingface.co/datasets/deepset/covid_qa_deepset")
def covidqa() -> Shape:
    """JSONL with one question a row, its document's number and whole text, and answers as parallel lists."""
    rows = [{"document_id": 630 + NAMES.index(fact.hut), "context": TEXTS[fact.hut], "question": fact.question,
        "is_impossible": False, "id": 262 + n, "answers": {"text": [fact.answer],
        "answer_start": [TEXTS[fact.hut].index(fact.sentence) + fact.sentence.index(fact.answer)]}} for n,
        fact in enumerate(FACTS)]
    return Shape({"covid_qa_deepset/train.jsonl": jsonl(rows)}, (Right(asked(within), BODIES),))


@shape("PubMedQA (by id)", "https://github.com/pubmedqa/pubmedqa")
def pubmedqa() -> Shape:
    """JSON object keyed by id, with a verdict, a long answer and an abstract in labelled pieces."""
    rows, short, long, documents = {}, [], [], {}
    for n, name in enumerate(NAMES):
        facts = [fact for fact in FACTS if fact.hut == name]
        for m, word in enumerate(("above", "below")):
            question = f"Is {name} {word} 2000 metres?"
            verdict = "yes" if IS_HIGH[name] == (word == "above") else "no"
            conclusion = f"{name} lies at {HUTS[name][1]} metres, so the answer is {verdict}."
            pieces = [f"{fact.sentence} (Part {m + 1}.)" for fact in facts]
            key = f"2164537{n}{m}"
            rows[key] = {"QUESTION": question, "CONTEXTS": pieces, "LABELS": ["BACKGROUND", "METHODS", "RESULTS"],
                "MESHES": ["Mountaineering"], "YEAR": "2011", "reasoning_required_pred": verdict,
                "reasoning_free_pred": verdict, "final_decision": verdict, "LONG_ANSWER": conclusion}
            documents[key] = tuple(pieces)
            short.append(Asked(question, (verdict,), (Gold(key, (None, *pieces)),)))
            long.append(short[-1]._replace(answers=(conclusion,)))
    apart = {piece: (piece,) for pieces in documents.values() for piece in pieces}
    pieces_of = [tuple(map(Gold, pieces)) for pieces in documents.values()]
    readings = [Right(tuple(one), documents) for one in (short, long)]
    readings += [Right(tuple(a._replace(gold=gold) for a, gold in zip(one, pieces_of, strict=True)), apart,
        is_bare=True) for one in (short, long)]
    return Shape({"data/ori_pqal.json": json.dumps(rows)}, tuple(readings))


@shape("TAT-QA", "https://github.com/NExTplusplus/TAT-QA")
def tatqa() -> Shape:
    """JSON with a table and its paragraphs a row; answers are texts, numbers and lists, with a scale beside them."""
    rows, right, apart, documents, single = [], [], [], {}, {}
    for name in NAMES:
        built, altitude, keeper = HUTS[name]
        texts = [f"{name} was built in {built}.", f"In winter {name} is kept open by {keeper}."]
        asks: list[tuple[str, object, int]] = [(f"When was {name} built?", [built], 0),
            (f"Who keeps {name} open?", [keeper], 1), (f"How many metres is {name} above 1000 metres?",
            int(altitude) - 1000, 0)]
        questions = [{"uid": f"{stem(name)}-{n}", "order": n + 1, "question": question, "answer": answer,
            "derivation": "", "answer_type": "span" if n < 2 else "arithmetic",
            "answer_from": "text" if n < 2 else "table", "rel_paragraphs": [str(place + 1)] if n < 2 else [],
            "req_comparison": False, "scale": ""} for n, (question, answer, place) in enumerate(asks)]
        cells = [["", "Altitude", "Beds"], [name, altitude, "40"]]
        rows.append({"table": {"uid": f"t-{stem(name)}", "table": cells}, "paragraphs": [
            {"uid": f"p{n}", "order": n + 1, "text": text} for n, text in enumerate(texts)], "questions": questions})
        documents[name] = tuple(texts)
        single |= {text: (text,) for text in texts}
        for n, (question, answer, place) in enumerate(asks):
            answers = (str(answer[0] if isinstance(answer, list) else answer),)
            right.append(Asked(question, answers, (Gold(name, (None, texts[place]) if n < 2 else (None,)),)))
            apart.append(Asked(question, answers, (Gold(texts[place]),) if n < 2 else ()))
    files = {"dataset_raw/tatqa_dataset_dev.json": dumps(rows)}
    edits = {
        "contexts": '[{document: "table".uid}]',
        "documents": 'SELECT "table".uid AS name, '
            'array_to_string([p.text for p in paragraphs], chr(9)) AS text FROM source',
    }
    return Shape(files, (Right(tuple(right), documents), Right(tuple(apart), single)), edits)

@shape("FinQA", "https://github.com/czyssrs/FinQA")
def finqa() -> Shape:
    """JSON with a page's lines before and after its table, and the question in an object; some answers are empty."""
    rows, right, documents = [], [], {}
    for n, fact in enumerate(FACTS):
        facts = [one for one in FACTS if one.hut == fact.hut]
        page = f"{stem(fact.hut)[:3]}/2009/page_{n}.pdf"
        number = str(1000 + n)
        question = f"What is the number on page {n} about {fact.hut}?"
        before = [f"Page {n} of the report on {fact.hut} .", *(one.sentence for one in facts)]
        after = [f"The number on this page is {number} ."]
        cells = [["hut", "beds"], [fact.hut, "40"]]
        qa = {"question": question, "answer": number if n % 6 else "", "explanation": "", "ann_table_rows": [],
            "ann_text_rows": [len(before)], "steps": [{"op": "add1-1", "arg1": number, "arg2": "0", "res": number}],
            "program": f"add({number}, const_0)", "gold_inds": {f"text_{len(before)}": after[0]},
            "exe_ans": float(number), "program_re": f"add({number}, const_0)"}
        rows.append({"pre_text": before, "post_text": after, "filename": page, "table_ori": cells, "table": cells,
            "qa": qa, "id": f"{page}-1"})
        documents[page] = (*before, *after)
        right.append((question, number, page, after[0], n % 6 != 0))
    gold = {q: (Gold(page, (None, text)),) for q, _, page, text, _ in right}
    stated = tuple(Asked(q, (a,), gold[q]) for q, a, *_, is_stated in right if is_stated)
    # The value of the program stands in for an empty answer, or the row is left out.
    filled = tuple(Asked(q, (a if is_stated else f"{a}.0",), gold[q]) for q, a, *_, is_stated in right)
    readings = tuple(Right(one, documents) for one in (stated, filled))
    edits = {
        "contexts": "[{document: id}]",
        "documents": "SELECT id AS name, array_to_string(pre_text || post_text, ' ') AS text FROM source",
        "where": "answer <> ''",
    }
    return Shape({"dataset/test.json": dumps(rows)}, readings, edits)

@shape("FinanceBench (merged rows)", "https://huggingface.co/datasets/PatronusAI/financebench")
def financebench() -> Shape:
    """JSONL in which each row also has its document's link; pages count from 0 and no document is beside it."""
    link = {name: f"https://files.example/{stem(name)}.pdf" for name in NAMES}
    rows = [{"financebench_id": f"financebench_id_{n:05}", "company": fact.hut, "doc_name": stem(fact.hut),
        "question_type": "novel-generated", "question_reasoning": None, "domain_question_num": None,
        "question": fact.question, "answer": fact.answer, "justification": None,
        "dataset_subset_label": "OPEN_SOURCE", "evidence": [{"evidence_text": fact.sentence,
        "doc_name": stem(fact.hut), "evidence_page_num": fact.page - 1,
        "evidence_text_full_page": f"Page\n\n{fact.sentence}\n\nend"}], "gics_sector": "Lodging", "doc_type": "10k",
        "doc_period": 2022, "doc_link": link[fact.hut]} for n, fact in enumerate(FACTS)]
    pages = {name: address.removeprefix("https://") for name, address in link.items()}
    right = asked(lambda fact: (Gold(pages[fact.hut], (fact.sentence,), fact.page),))
    files = {"financebench_merged.jsonl": jsonl(rows)}
    return Shape(files, (Right(right, dict.fromkeys(pages.values())),))


@shape("GraphRAG-Bench", "https://huggingface.co/datasets/GraphRAG-Bench/GraphRAG-Bench")
def graphrag_bench() -> Shape:
    """JSON list of questions with evidence texts and the name of a document, and a JSON list of the documents."""
    rows = [{"id": f"Novel-73586dd{n}", "source": f"Novel-{NAMES.index(fact.hut)}", "question": fact.question,
        "answer": fact.answer, "question_type": "Fact Retrieval", "evidence": [fact.sentence],
        "evidence_relations": f"{fact.hut} -> {fact.answer}"} for n, fact in enumerate(FACTS)]
    corpus = [{"corpus_name": f"Novel-{n}", "context": TEXTS[name]} for n, name in enumerate(NAMES)]
    files = {"Datasets/Questions/novel_questions.json": dumps(rows), "Datasets/Corpus/novel.json": dumps(corpus)}
    return Shape(files, (Right(asked(sentence), BODIES),))


@shape("LegalBench-RAG", "https://github.com/ZeroEntropy-cc/legalbenchrag")
def legalbench_rag() -> Shape:
    """JSON with snippets by file path and span, and the files; there are no answers but the snippets."""
    path = {name: f"corpus/privacy_qa/{name}.txt" for name in NAMES}
    tests = []
    for fact in FACTS:
        start = TEXTS[fact.hut].index(fact.sentence)
        snippet = {"file_path": f"privacy_qa/{fact.hut}.txt", "span": [start, start + len(fact.sentence)],
            "answer": fact.sentence}
        tests.append({"query": f"Consider {fact.hut}; {fact.question}", "snippets": [snippet], "tags": ["privacy_qa"]})
    readings = [Right(tuple(Asked(f"Consider {f.hut}; {f.question}", answers, (Gold(path[f.hut], (f.sentence,)),))
        for f, answers in zip(FACTS, given, strict=True)), dict.fromkeys(path.values()))
        for given in ([None] * len(FACTS), [(fact.sentence,) for fact in FACTS])]
    files = {"benchmarks/privacy_qa.json": dumps({"tests": tests})}
    return Shape({**files, **{path[name]: TEXTS[name] for name in NAMES}}, tuple(readings))


@shape("MTRAG (last turn)", "https://github.com/IBM/mt-rag-benchmark")
def mtrag() -> Shape:
    """JSONL of conversations: the last turn is the question; NaN for what is missing, and a system's answers."""
    rows, right = [], []
    for n, fact in enumerate(FACTS):
        other = next(one for one in FACTS if one.hut == NEXT[fact.hut])
        is_answerable = n % 6 != 5
        turns = [("user", other.question), ("agent", other.answer), ("user", fact.question)][2 if n % 3 == 0 else 0 :]
        answer = fact.answer if is_answerable else "I'm sorry, but I don't have the answer to your question."
        contexts = [{"document_id": f"8220862{fact.hut[:2]}", "text": TEXTS[fact.hut], "title": fact.hut,
            "score": 27.7}]
        kind = "ANSWERABLE" if is_answerable else "UNANSWERABLE"
        rows.append({"conversation_id": f"dd6b6ffd{n}", "task_id": f"dd6b6ffd{n}<::>{len(turns)}", "task_type": "rag",
            "turn": str((len(turns) + 1) // 2), "dataset": "MT-RAG Authors (Internal)",
            "contexts": contexts if is_answerable else [], "input": [{"speaker": who, "text": text,
            "metadata": {"author_type": "human", "created_at": 1724708469}} for who, text in turns],
            "targets": [{"speaker": "agent", "text": answer, "metadata": {"author_type": "human"}}],
            "Question Type": ["Factoid"], "answerability": [kind], "Multi-Turn": ["Follow-up"],
            "Validity": float("nan"), "predictions": [{"text": f"Perhaps {fact.wrong[0]}.", "class": kind}]})
        right.append(Asked(fact.question, (answer,), (Gold(fact.hut),)) if is_answerable else Asked(fact.question, ()))
    files = {"scripts/evaluation/responses-10.jsonl": jsonl(rows)}
    return Shape(files, (Right(tuple(right), BODIES),))
