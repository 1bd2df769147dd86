"""Shapes of open-domain sets: several documents a question, of which some support the answer, or none at all."""
# fmt: off
# isort: skip_file

import json

from shapes.facts import (
    BODIES, FACTS, IS_HIGH, NAMES, NEXT, TEXTS, Asked, Fact, Gold, Right, Shape, asked, both, dumps, jsonl,
    parquet, shape, stem, table, whole,
)

WIKI = {name: f"https://en.wikipedia.org/wiki/{name.replace(' ', '_')}" for name in NAMES}
KEYS = {name: url.removeprefix("https://") for name, url in WIKI.items()}


def sentences(name: str) -> list[str]:
    return [fact.sentence for fact in FACTS if fact.hut == name]


@shape("StrategyQA (with paragraphs)", "https://github.com/eladsegal/strategyqa")
def strategyqa() -> Shape:
    """JSON with a boolean answer and evidence that mixes lists of names and words; JSON of paragraphs by name."""
    rows, by_evidence, by_facts, facts = [], [], [], {}
    for name in NAMES:
        for word in ("above", "below"):
            question = f"Is {name} {word} Brynhild Pass?"
            answer = IS_HIGH[name] == (word == "above")
            text = sentences(name)[1]
            rows.append({"qid": f"4fd64bb6ce5b78ab{len(rows)}", "term": name, "description": "mountain hut",
                "question": question, "answer": answer, "facts": [text, "Brynhild Pass is at 2000 metres."],
                "decomposition": [f"How high is {name}?", "Is #1 more than 2000 metres?"],
                "evidence": [[[[f"{name}-1"]], ["operation"]], [[[f"{name}-1"], "no_evidence"], ["operation"]]]})
            answers = ("yes" if answer else "no",)
            by_evidence.append(Asked(question, answers, (Gold(name),)))
            stated = ("Brynhild Pass is at 2000 metres.", text)
            facts |= {one: (one,) for one in stated}
            by_facts.append(Asked(question, answers, tuple(map(Gold, stated))))
    content = {f"{name}-1": {"title": name, "section": "", "headers": [], "para_index": 1, "content": TEXTS[name]}
        for name in NAMES}
    files = {"strategyqa_train.json": dumps(rows), "strategyqa_train_paragraphs.json": json.dumps(content)}
    # The stated facts are evidence as well, in a corpus of their own or beside that of the paragraphs.
    bare = (one._replace(gold=tuple(Gold(None, (gold.document,)) for gold in one.gold)) for one in by_facts)
    readings = (Right(tuple(by_evidence), BODIES), Right(tuple(by_facts), facts, True), Right(tuple(bare), BODIES))
    return Shape(files, readings)


@shape("MuSiQue (full)", "https://github.com/StonyBrookNLP/musique")
def musique() -> Shape:
    """JSONL with paragraphs of which some support the answer; a question stands there twice, once without an answer."""
    rows, right = [], []
    for n, fact in enumerate(FACTS):
        for is_answerable in (True, False) if n % 3 == 0 else (True,):
            names = [NEXT[fact.hut], fact.hut if is_answerable else NEXT[NEXT[fact.hut]]]
            listed = [{"idx": m, "title": name, "paragraph_text": TEXTS[name],
                "is_supporting": is_answerable and m == 1} for m, name in enumerate(names)]
            step = {"id": 13548 + n, "question": f"{fact.hut} >> ?", "answer": fact.answer, "paragraph_support_idx": 1}
            rows.append({"id": f"2hop__4601{n}_3548", "paragraphs": listed, "question": fact.question,
                "question_decomposition": [step | {"paragraph_support_idx": 1 if is_answerable else None}],
                "answer": fact.answer, "answer_aliases": [fact.alias], "answerable": is_answerable})
            right.append(Asked(fact.question, both(fact), whole(fact)) if is_answerable else Asked(fact.question, ()))
    files = {"data/musique_full_v1.0_dev.jsonl": jsonl(rows)}
    return Shape(files, (Right(tuple(right), BODIES),))


@shape("2WikiMultihopQA", "https://github.com/Alab-NII/2wikimultihop")
def two_wiki() -> Shape:
    """JSON with pairs of a title and its sentences, and pairs of a title and a sentence's number; ids may be null."""
    rows = [{"_id": f"8813f87c0bdd11eba7f7{n:02}", "type": "bridge_comparison", "question": fact.question,
        "context": [[name, sentences(name)] for name in (NEXT[fact.hut], fact.hut)],
        "supporting_facts": [[fact.hut, sentences(fact.hut).index(fact.sentence)]],
        "evidences": [[fact.hut, "described", fact.answer]], "answer": fact.answer,
        "evidences_id": [["Q1", "described", "Q2"]], "answer_id": "Q2" if n % 2 else None} for n,
        fact in enumerate(FACTS)]
    parts = {name: tuple(sentences(name)) for name in NAMES}
    right = asked(lambda fact: (Gold(fact.hut, (fact.sentence, None)),))
    return Shape({"data_ids/dev.json": json.dumps(rows)}, (Right(right, parts),))


@shape("Natural Questions (rows)", "https://huggingface.co/datasets/google-research-datasets/natural_questions")
def natural_questions() -> Shape:
    """JSONL with a page's HTML and tokens a row, and annotations of several people by token and byte."""
    rows, right, documents = [], [], {}
    for n, fact in enumerate(FACTS):
        pieces = [f"<P> {sentence} </P>" for sentence in sentences(fact.hut)]
        page = f"<html><body><h1>{fact.hut}</h1> {' '.join(pieces)}</body></html>"
        question, is_answered = fact.question.lower().rstrip("?"), n % 6 != 5
        words, starts, at = page.split(" "), [], 0
        for word in words:
            starts.append(at)
            at += len(word.encode()) + 1
        tokens = {"token": words, "is_html": [word.startswith("<") for word in words], "start_byte": starts,
            "end_byte": [start + len(word.encode()) for word, start in zip(words, starts, strict=True)]}
        piece = f"<P> {fact.sentence} </P>"
        first = len(page[: page.index(piece)].encode())
        place = len(page[: page.index(piece) + piece.index(fact.answer)].encode())
        long = {"start_token": starts.index(first), "end_token": starts.index(first) + len(piece.split(" ")),
            "start_byte": first, "end_byte": first + len(piece.encode()), "candidate_index": 0}
        short = {"start_token": [5], "end_token": [6], "start_byte": [place], "end_byte": [
            place + len(fact.answer.encode())], "text": [fact.answer]}
        none = {key: [] for key in short}
        rows.append({"id": str(5225754983651766092 + n), "document": {"title": fact.hut, "url": WIKI[fact.hut],
            "html": page, "tokens": tokens}, "question": {"text": question, "tokens": question.split()},
            "long_answer_candidates": {key: [long[key]] for key in ("start_token", "end_token")},
            "annotations": {"id": [f"{n}1", f"{n}2"], "yes_no_answer": [-1, -1],
            "long_answer": [long if is_answered else dict.fromkeys(long, -1)] * 2,
            "short_answers": [short if is_answered else none, none]}})
        documents[KEYS[fact.hut]] = tuple(sentences(fact.hut))
        gold = (Gold(KEYS[fact.hut], (piece, fact.sentence, fact.answer, None)),)
        right.append(Asked(question, (fact.answer,), gold) if is_answered else Asked(question, ()))
    files = {"default/validation.jsonl": jsonl(rows)}
    return Shape(files, (Right(tuple(right), documents),))


@shape("NQ-open", "https://github.com/google-research-datasets/natural-questions/tree/master/nq_open")
def nq_open() -> Shape:
    """JSONL with a question and a list of answers, called `answer`."""
    rows = [{"question": fact.question, "answer": [fact.answer, fact.alias]} for fact in FACTS]
    return Shape({"NQ-open.dev.jsonl": jsonl(rows)}, (Right(asked(answers=both)),))


@shape("MS MARCO v2.1 (by columns)", "https://github.com/microsoft/MSMARCO-Question-Answering")
def ms_marco() -> Shape:
    """JSON by columns: each column is an object from the row's number to its value."""
    columns: dict[str, dict[str, object]] = {}
    right = []
    url = {name: f"http://huts.example/{stem(name)}" for name in NAMES}
    for n, fact in enumerate(FACTS):
        is_answered = n % 6 != 5
        row = {"answers": [fact.answer] if is_answered else ["No Answer Present."],
            "passages": [{"is_selected": int(is_answered and m == 1), "url": url[name], "passage_text": TEXTS[name]}
            for m, name in enumerate((NEXT[fact.hut], fact.hut))], "query": fact.question, "query_id": 19699 + n,
            "query_type": "NUMERIC", "wellFormedAnswers": [fact.sentence] if n % 4 == 0 else "[]"}
        for name, value in row.items():
            columns.setdefault(name, {})[str(n)] = value
        right.append(Asked(fact.question, (fact.answer,), whole(fact)) if is_answered else Asked(fact.question, ()))
    return Shape({"dev_v2.1.json": json.dumps(columns)}, (Right(tuple(right), BODIES),))


@shape("TriviaQA (rc, web)", "https://nlp.cs.washington.edu/triviaqa/")
def triviaqa() -> Shape:
    """Nested JSON in capitals: Wikipedia pages and web results by file name, and the files in two folders."""
    rows, right = [], []
    wiki = {name: f"{name.replace(' ', '_')}.txt" for name in NAMES}
    web = {name: f"{n}/{n}_77.txt" for n, name in enumerate(NAMES)}
    for n, fact in enumerate(FACTS):
        pages = [{"DocSource": "TagMe", "Filename": wiki[fact.hut], "Title": fact.hut}] if n % 3 else []
        results = [{"Description": f"All about {fact.hut}", "DisplayUrl": "huts.example/a", "Filename": web[fact.hut],
            "Rank": 0, "Title": fact.hut, "Url": "http://huts.example/a"}]
        rows.append({"Answer": {"Aliases": [fact.alias, fact.answer], "NormalizedAliases": [fact.alias.lower()],
            "NormalizedValue": fact.answer.lower(), "Type": "FreeForm", "Value": fact.answer}, "EntityPages": pages,
            "Question": fact.question, "QuestionId": f"tc_{n}", "QuestionSource": "http://www.triviacountry.example/",
            "SearchResults": results})
        files = [f"evidence/wikipedia/{page['Filename']}" for page in pages] + [f"evidence/web/{web[fact.hut]}"]
        right.append(Asked(fact.question, both(fact), tuple(map(Gold, files))))
    content = {"Data": rows, "Domain": "Web", "Split": "dev", "VerifiedEval": False, "Version": 1.0}
    texts = {f"evidence/wikipedia/{wiki[name]}": TEXTS[name] for name in NAMES}
    texts |= {f"evidence/web/{web[name]}": f"On the web: {TEXTS[name]}" for name in NAMES}
    reading = Right(tuple(right), dict.fromkeys(texts))
    edits = {
        "contexts": "[{file: 'evidence/wikipedia/' || p.Filename} FOR p IN EntityPages] || "
            "[{file: 'evidence/web/' || p.Filename} FOR p IN SearchResults]",
    }
    return Shape({"qa/web-dev.json": json.dumps(content), **texts}, (reading,), edits)

@shape("PopQA (TSV)", "https://huggingface.co/datasets/akariasai/PopQA")
def popqa() -> Shape:
    """TSV with JSON lists in cells; the answer is in `obj`, too, and popularity and ids are beside it."""
    names = (
        "id subj prop obj subj_id prop_id obj_id s_aliases o_aliases s_uri o_uri s_wiki_title o_wiki_title s_pop o_pop"
    )
    rows: list[list[object]] = [[*names.split(), "question", "possible_answers"]]
    for n, fact in enumerate(FACTS):
        uri = "http://www.wikidata.org/entity/Q"
        rows.append([4222362 + n, fact.hut, "property", fact.answer, 1850297 + n, 22, 2834605 + n,
            json.dumps([f"The {fact.hut}"]), json.dumps([fact.alias]), f"{uri}{n}", f"{uri}9{n}", fact.hut,
            fact.answer, 142, 25692, fact.question, json.dumps([fact.answer, fact.alias])])
    edits = {"answers": "possible_answers::JSON::VARCHAR[]", "urls": ""}
    return Shape({"data/popQA.tsv": table(rows, "\t")}, (Right(asked(answers=both)),), edits)


@shape("WebQuestions (Lisp)", "https://nlp.stanford.edu/software/sempre/")
def web_questions() -> Shape:
    """JSON with the answers in a Lisp expression and the URL of an entity."""
    rows = []
    for fact in FACTS:
        values = f'(list (description "{fact.answer}") (description "{fact.alias}"))'
        address = f"http://www.freebase.com/view/en/{stem(fact.hut).lower()}"
        rows.append({"url": address, "targetValue": values, "utterance": fact.question})
    pages = {name: f"www.freebase.com/view/en/{stem(name).lower()}" for name in NAMES}
    linked = asked(lambda fact: (Gold(pages[fact.hut]),), both)
    readings = (Right(asked(answers=both)), Right(linked, dict.fromkeys(pages.values())))
    edits = {
        "questions": "SELECT utterance AS question, "
            """regexp_extract_all(targetValue, '"([^"]*)"', 1) AS answers FROM source""",
        "retrieval_only": "",
    }
    return Shape({"webquestions.examples.test.json": dumps(rows)}, readings, edits)


@shape("ELI5 (rows)", "https://huggingface.co/datasets/rexarski/eli5_category")
def eli5() -> Shape:
    """JSONL with the question as a title and scored answers as parallel lists."""
    rows = [{"q_id": f"5lcm1{n}", "title": fact.question, "selftext": "", "category": "Other",
        "subreddit": "explainlikeimfive", "answers": {"a_id": [f"dbuo4{n}", f"dbuo5{n}"],
        "text": [fact.sentence, f"Somebody told me: {fact.answer}"], "score": [21, 3], "text_urls": [[], []]},
        "title_urls": ["url"], "selftext_urls": ["url"]} for n, fact in enumerate(FACTS)]
    best = asked(answers=lambda fact: (fact.sentence,))
    every = asked(answers=lambda fact: (fact.sentence, f"Somebody told me: {fact.answer}"))
    edits = {
        "questions": "SELECT q_id AS source_id, title AS question, answers.text AS answers FROM source",
    }
    return Shape({"validation1.jsonl": jsonl(rows)}, (Right(every), Right(best)), edits)

@shape("ASQA (JSON by split)", "https://github.com/google-research/language/tree/master/language/asqa")
def asqa() -> Shape:
    """JSON object by split and id; several long answers, and readings of the question with short ones."""
    content: dict[str, dict[str, object]] = {"train": {}, "dev": {}}
    parts: dict[str, list[Fact]] = {"train": FACTS[:6], "dev": FACTS[6:]}

    def long(fact: Fact) -> tuple[str, ...]:
        return fact.sentence, f"Guides agree: {fact.sentence}"

    for split, facts in parts.items():
        for n, fact in enumerate(facts):
            knowledge = [{"content": TEXTS[fact.hut], "wikipage": fact.hut}]
            content[split][f"-56504521{n}{split[0]}"] = {"ambiguous_question": fact.question,
                "qa_pairs": [{"context": TEXTS[fact.hut] if n % 2 else "No context provided",
                "question": f"So: {fact.question}", "short_answers": [fact.answer, fact.alias],
                "wikipage": fact.hut if n % 2 else None}], "wikipages": [{"title": fact.hut, "url": WIKI[fact.hut]}],
                "annotations": [{"knowledge": knowledge, "long_answer": text} for text in long(fact)]}
    readings = []
    for rows in ((0, 12), (6, 12)):
        linked = asked(lambda fact: (Gold(KEYS[fact.hut]),), long)[slice(*rows)]
        pages = {KEYS[fact.hut]: None for fact in FACTS[slice(*rows)]}
        texts = {fact.hut: BODIES[fact.hut] for fact in FACTS[slice(*rows)]}
        known = asked(whole, long)[slice(*rows)]
        bare = asked(answers=long)[slice(*rows)]
        readings += [Right(linked, pages), Right(known, texts, is_bare=True), Right(bare)]
    edits = {
        "source": "{path: ASQA.json, root: dev.*}",
        "questions": "SELECT ambiguous_question AS question, [a.long_answer FOR a IN annotations] AS answers, "
            "[w.url FOR w IN wikipages] AS urls FROM source",
        "retrieval_only": "",
    }
    return Shape({"ASQA.json": json.dumps(content)}, tuple(readings), edits)

@shape("ALCE (ASQA)", "https://github.com/princeton-nlp/ALCE")
def alce() -> Shape:
    """JSON with retrieved passages, none of them judged, beside the question and a long answer."""
    rows = [{"qa_pairs": [{"context": "No context provided", "question": fact.question,
        "short_answers": [fact.answer], "wikipage": None}], "wikipages": [{"title": fact.hut, "url": WIKI[fact.hut]}],
        "annotations": [{"knowledge": [], "long_answer": fact.sentence}], "sample_id": f"70166{n}",
        "question": fact.question, "docs": [{"title": name, "id": str(11069473 + NAMES.index(name)),
        "text": TEXTS[name], "score": 0.74} for name in (NEXT[fact.hut], fact.hut)], "answer": fact.sentence} for n,
        fact in enumerate(FACTS)]

    def long(fact: Fact) -> tuple[str, ...]:
        return (fact.sentence,)

    linked = asked(lambda fact: (Gold(KEYS[fact.hut]),), long)
    readings = (Right(asked(answers=long), BODIES), Right(asked(answers=long)),
        Right(linked, dict.fromkeys(KEYS.values())))
    return Shape({"data/asqa_eval_gtr_top100.json": dumps(rows)}, readings)


@shape("ExpertQA", "https://github.com/chaitanyamalaviya/ExpertQA")
def expertqa() -> Shape:
    """JSONL with an object from the model's name to its answer, which an expert revised; URLs of evidence beside it."""
    rows = []
    for n, fact in enumerate(FACTS):
        claim = {"claim_string": fact.sentence, "evidence": [f"[1] {WIKI[fact.hut]}\n\n{TEXTS[fact.hut]}"],
            "support": "Complete", "reason_missing_support": None, "informativeness": "Very relevant",
            "worthiness": "Yes", "correctness": "Definitely correct", "reliability": "Reliable",
            "revised_claim": fact.sentence, "revised_evidence": WIKI[fact.hut]}
        answer = {"answer_string": f"Perhaps: {fact.sentence} [1]", "attribution": [f"[1] {WIKI[fact.hut]}"],
            "claims": [claim], "revised_answer_string": fact.sentence, "usefulness": "Useful",
            "annotation_time": 331.0, "annotator_id": "A2"}
        about = {"question_type": "Directed question that has a single unambiguous answer", "field": "Huts"}
        model = ("gpt4", "bing_chat", "rr_gs_gpt4")[n % 3]
        rows.append({"question": fact.question, "annotator_id": f"A{n}", "answers": {model: answer}, "metadata": about})

    def revised(fact: Fact) -> tuple[str, ...]:
        return (fact.sentence,)

    linked = asked(lambda fact: (Gold(KEYS[fact.hut]),), revised)
    readings = (Right(asked(answers=revised)), Right(linked, dict.fromkeys(KEYS.values())))
    edits = {
        "answer": "coalesce(answers.gpt4.revised_answer_string, answers.bing_chat.revised_answer_string, "
            "answers.rr_gs_gpt4.revised_answer_string)",
    }
    return Shape({"data/r2_compiled_anon.jsonl": jsonl(rows)}, readings, edits)

@shape("RAGTruth", "https://github.com/ParticleMedia/RAGTruth")
def ragtruth() -> Shape:
    """JSONL of sources, some of them questions with passages, and JSONL of models' answers, of which none is gold."""
    sources, answers = [], []
    for n, fact in enumerate(FACTS):
        passages = f"passage 1:{TEXTS[fact.hut]}\n\npassage 2:{TEXTS[NEXT[fact.hut]]}\n\n"
        is_asked = n % 3 != 2
        sources.append({"source_id": str(14312 + n), "task_type": "QA" if is_asked else "Summary",
            "source": "MARCO" if is_asked else "CNN/DM", "source_info": {"question": fact.question,
            "passages": passages} if is_asked else TEXTS[fact.hut],
            "prompt": f"Briefly answer the following question:\n{fact.question}\n{passages}output:"})
        for model, text in (("gpt-4-0613", fact.sentence), ("llama-2-7b-chat", f"It is {fact.wrong[0]}.")):
            is_wrong = text != fact.sentence
            label = {"start": 6, "end": len(text) - 1, "text": fact.wrong[0], "label_type": "Evident Conflict"}
            answers.append({"id": str(len(answers)), "source_id": str(14312 + n), "model": model, "temperature": 0.7,
                "labels": [label] if is_wrong else [], "split": "test", "quality": "good", "response": text})
    return Shape({"dataset/response.jsonl": jsonl(answers), "dataset/source_info.jsonl": jsonl(sources)}, ())


@shape("FEVER", "https://fever.ai/dataset/fever.html")
def fever() -> Shape:
    """JSONL of claims with a verdict and evidence of numbers, names and null; JSONL of pages in numbered sentences."""
    rows, right, strict = [], [], []
    title = {name: f"{name.replace(' ', '_')}_-LRB-hut-RRB-" for name in NAMES}
    for n, fact in enumerate(FACTS):
        label = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")[n % 3]
        claim = (fact.sentence, f"{fact.hut} was built in 1700.", f"{fact.hut} has a cat.")[n % 3]
        numbers = [[[92206 + n, 104971 + n, title[fact.hut], 0]]] if n % 3 < 2 else [[[107201, None, None, None]]]
        verifiable = "VERIFIABLE" if n % 3 < 2 else "NOT VERIFIABLE"
        rows.append({"id": 75397 + n, "verifiable": verifiable, "label": label, "claim": claim, "evidence": numbers})
        gold = (Gold(fact.hut, (sentences(fact.hut)[0], None)),) if n % 3 < 2 else ()
        right.append(Asked(claim, (label,), gold))
        strict.append(Asked(claim, (label,) if gold else (), gold))
    pages = [{"id": title[name], "text": TEXTS[name], "lines": "\n".join(f"{n}\t{text}\t{name}" for n,
        text in enumerate(sentences(name)))} for name in NAMES]
    files = {"shared_task_dev.jsonl": jsonl(rows), "wiki-pages/wiki-001.jsonl": jsonl(pages)}
    edits = {
        "tables": "{pages: wiki-pages/wiki-001.jsonl}",
        "questions": "SELECT claim AS question, label AS answer, "
            "[{document: e[3]} FOR e IN flatten(evidence) IF e[3] <> 'null'] AS contexts FROM source",
        "documents": "SELECT id AS name, text FROM pages",
    }
    return Shape(files, (Right(tuple(right), BODIES), Right(tuple(strict), BODIES)), edits)

@shape("AutoRAG (parquet)", "https://marker-inc-korea.github.io/AutoRAG/data_creation/data_format.html")
def autorag() -> Shape:
    """Two parquet files: gold ids in a list of lists, and passages with a struct of metadata."""
    corpus: list[dict[str, object]] = [{"doc_id": f"2a6ef6f0-{n}", "contents": TEXTS[name],
        "path": f"/data/{stem(name)}.pdf", "start_end_idx": [0, len(TEXTS[name])],
        "metadata": {"last_modified_datetime": "2024-05-01", "prev_id": None, "next_id": f"2a6ef6f0-{n + 1}"}} for n,
        name in enumerate(NAMES)]
    rows: list[dict[str, object]] = [{"qid": f"83e1f9a5-{n}", "retrieval_gt": [[f"2a6ef6f0-{NAMES.index(fact.hut)}"]],
        "generation_gt": [fact.answer, fact.alias], "query": fact.question} for n, fact in enumerate(FACTS)]
    files = {"corpus.parquet": parquet(corpus), "qa.parquet": parquet(rows)}
    return Shape(files, (Right(asked(whole, both), BODIES),))


@shape("Evret (CSV)", "https://github.com/kaivid-labs/evret")
def evret() -> Shape:
    """CSV with a JSON list of gold texts in a cell and no answers."""
    rows: list[list[object]] = [["query_id", "query_text", "relevant_docs"]]
    rows += [[f"q{n}", fact.question, json.dumps([fact.sentence])] for n, fact in enumerate(FACTS)]
    documents = {fact.sentence: (fact.sentence,) for fact in FACTS}
    right = asked(lambda fact: (Gold(fact.sentence),), lambda _: None)
    edits = {
        "contexts": "[{text: t} FOR t IN relevant_docs::JSON::VARCHAR[]]",
    }
    return Shape({"eval_data.csv": table(rows)}, (Right(right, documents, is_bare=True),), edits)
