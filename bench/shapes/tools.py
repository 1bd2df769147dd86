"""Shapes that annotation, evaluation and tracing tools write, and tables that people keep."""
# fmt: off
# isort: skip_file

import html
import json
from xml.sax.saxutils import escape, quoteattr

from shapes.facts import (
    BODIES, FACTS, NAMES, NEXT, TEXTS, Asked, Fact, Files, Gold, Right, Shape, asked, both, dumps, jsonl,
    pdfs, shape, stem, table, whole, within,
)

ADDRESS = {name: f"https://huts.example/{stem(name).lower()}" for name in NAMES}
KEYS = {name: url.removeprefix("https://") for name, url in ADDRESS.items()}
LINKED = dict.fromkeys(KEYS.values())
SENTENCES = {fact.sentence: (fact.sentence,) for fact in FACTS}


def link(fact: Fact) -> tuple[Gold, ...]:
    return (Gold(KEYS[fact.hut]),)


def own_sentence(fact: Fact) -> tuple[Gold, ...]:
    """A text of which nothing says where it stands."""
    return (Gold(fact.sentence),)


@shape("FAQ (HTML, German headers)", "https://github.com/deepset-ai/COVID-QA/tree/master/data/faqs")
def faq_html() -> Shape:
    """Semicolons and German headers; the answer is HTML with entities, the link is relative or missing in some rows."""
    rows: list[list[object]] = [["Frage", "Antwort (HTML)", "Link", "Stand"]]
    right = []
    for n, fact in enumerate(FACTS):
        is_linked = n % 4 != 3
        answer = f"<p>{html.escape(fact.sentence)}&nbsp;<strong>Bitte</strong> beachten &amp; weitersagen.</p>"
        rows.append([fact.question, answer, ADDRESS[fact.hut] if is_linked else "", "17.03.2020"])
        right.append(Asked(fact.question, (answer,), link(fact) if is_linked else ()))
    pages = {gold.document: None for one in right for gold in one.gold if gold.document}
    return Shape({"faq.csv": "\ufeff" + table(rows, ";")}, (Right(tuple(right), pages),))


@shape("Label Studio (JSON)", "https://labelstud.io/guide/task_format")
def label_studio() -> Shape:
    """JSON with the task in `data` and what people wrote in nested results; one annotation was cancelled."""
    rows = []
    for n, fact in enumerate(FACTS):
        is_cancelled = n == 4
        result = {"value": {"text": [fact.answer]}, "id": f"pyQ{n}", "from_name": "answer", "to_name": "question",
            "type": "textarea", "origin": "manual"}
        annotation = {"id": 1001 + n, "completed_by": 1, "result": [] if is_cancelled else [result],
            "ground_truth": False, "was_cancelled": is_cancelled, "created_at": "2021-03-09T22:16:08.728353Z",
            "lead_time": 4.288}
        rows.append({"id": n + 1, "annotations": [annotation], "file_upload": "6be79c-huts.json", "drafts": [],
            "predictions": [], "data": {"question": fact.question, "text": TEXTS[fact.hut]}, "meta": {},
            "created_at": "2021-03-09T21:52:49.513742Z", "project": 83})
    right = tuple(one for n, one in enumerate(asked(whole)) if n != 4)
    edits = {
        "answers": "annotations[1].result[1].value.text",
        "contexts": "[{document: md5(data.text)}]",
        "documents": "SELECT DISTINCT md5(data.text) AS name, data.text AS text FROM source",
    }
    return Shape({"project-83-at-2021-03-10.json": dumps(rows)}, (Right(right, BODIES),), edits)

@shape("Label Studio (JSON_MIN)", "https://labelstud.io/guide/export")
def label_studio_min() -> Shape:
    """JSON_MIN: the marked spans of the text are the answers."""
    rows = []
    for n, fact in enumerate(FACTS):
        start = TEXTS[fact.hut].index(fact.sentence) + fact.sentence.index(fact.answer)
        span = {"start": start, "end": start + len(fact.answer), "text": fact.answer, "labels": ["Answer"]}
        rows.append({"text": TEXTS[fact.hut], "question": fact.question, "id": n + 1, "answer": [span],
            "annotator": 1, "annotation_id": 1001 + n, "created_at": "2021-03-09T22:16:08Z", "lead_time": 4.288})
    edits = {
        "contexts": "[{document: md5(text)}]",
        "documents": "SELECT DISTINCT md5(text) AS name, text FROM source",
    }
    return Shape({"project-84-min.json": dumps(rows)}, (Right(asked(within), BODIES),), edits)

@shape("Argilla (records)", "https://docs.argilla.io/latest/how_to_guides/import_export/")
def argilla() -> Shape:
    """JSON of records on disk: fields, a model's suggestions, and people's responses, which count."""
    rows = [{"id": f"c5f3{n}", "status": "completed", "_server_id": f"a1b2{n}",
        "fields": {"question": fact.question, "context": TEXTS[fact.hut]}, "metadata": {"split": "test"},
        "vectors": {}, "suggestions": {"answer": {"value": fact.wrong[0], "score": 0.4, "agent": "gpt-4"}},
        "responses": {"answer": [{"value": fact.answer, "user_id": "7f0e"}]}} for n, fact in enumerate(FACTS)]
    edits = {
        "answers": "[given.value FOR given IN responses.answer]",
        "contexts": "[{document: md5(fields.context)}]",
        "documents": "SELECT DISTINCT md5(fields.context) AS name, fields.context AS text FROM source",
    }
    return Shape({"my_dataset/records.json": dumps(rows)}, (Right(asked(whole), BODIES),), edits)


@shape("Prodigy (typed answers)", "https://prodi.gy/docs/api-interfaces")
def prodigy() -> Shape:
    """JSONL in which `answer` says whether the task was accepted, and what people typed is the answer."""
    rows = [{"text": fact.question, "meta": {"source": fact.hut}, "_input_hash": -1392 + n, "_task_hash": 7311 + n,
        "_view_id": "blocks", "user_input": fact.answer, "answer": "reject" if n == 5 else "accept",
        "_timestamp": 1643281421, "_annotator_id": "2022-01-27_11-03", "_session_id": "2022-01-27_11-03"} for n,
        fact in enumerate(FACTS)]
    right = tuple(one for n, one in enumerate(asked()) if n != 5)
    edits = {"questions": "SELECT text AS question, user_input AS answer FROM source WHERE source.answer = 'accept'"}
    return Shape({"annotations.jsonl": jsonl(rows)}, (Right(right),), edits)


@shape("Doccano (sequence to sequence)", "https://doccano.github.io/doccano/")
def doccano() -> Shape:
    """JSONL of a sequence-to-sequence project: a text and a list of labels, which are answers."""
    rows = [{"id": n + 1, "text": fact.question, "label": [fact.answer, fact.alias], "Comments": []} for n,
        fact in enumerate(FACTS)]
    edits = {"questions": "{question: text, answers: label}"}
    return Shape({"all.jsonl": jsonl(rows)}, (Right(asked(answers=both)),), edits)


@shape("RAGElo (CSV files)", "https://github.com/zetaalphavector/RAGElo")
def ragelo() -> Shape:
    """CSV files of queries, retrieved documents and agents' answers; nothing is gold."""
    queries: list[list[object]] = [["qid", "query"]]
    documents: list[list[object]] = [["qid", "doc_id", "document_text"]]
    answers: list[list[object]] = [["query_id", "agent", "answer"]]
    for n, fact in enumerate(FACTS):
        queries.append([n, f" {fact.question}"])
        for name in (fact.hut, NEXT[fact.hut]):
            documents.append([n, NAMES.index(name), f" {TEXTS[name]}"])
        answers.append([n, " agent1", f"{fact.sentence} [0]"])
        answers.append([n, " agent2", f"It may be {fact.wrong[0]}, says [1]."])
    files: Files = {"queries.csv": table(queries), "documents.csv": table(documents), "answers.csv": table(answers)}
    return Shape(files, ())


@shape("BenchmarkQED (assertions)", "https://github.com/microsoft/benchmark-qed")
def benchmark_qed() -> Shape:
    """JSON of questions with assertions that an answer has to make; there is no answer."""
    said = {fact.question: f"The response should state that the answer is {fact.answer}." for fact in FACTS}
    rows = [{"question_id": f"5bdc2158-{n}", "question_text": fact.question, "assertions": [
        {"statement": said[fact.question], "source_count": 1, "score": 10,
        "reasoning": "It is asked for.", "rank": 1, "validation": {"is_valid": True,
        "scores": {"grounding": 5, "reasoning": "It is stated."}}}]} for n, fact in enumerate(FACTS)]
    right = Right(tuple(Asked(question, None, facts=(text,)) for question, text in said.items()))
    return Shape({"data_local_questions_assertions.json": dumps(rows)}, (right,))


@shape("open-rag-eval (CSV)", "https://github.com/vectara/open-rag-eval")
def open_rag_eval() -> Shape:
    """CSV with a row for each retrieved passage; the generated answer, on a query's first row, is a system's."""
    rows: list[list[object]] = [["query_id", "query", "passage_id", "passage", "generated_answer"]]
    for n, fact in enumerate(FACTS):
        rows.append([f"query_{n}", fact.question, "[1]", TEXTS[fact.hut], f"{fact.sentence} [1]"])
        rows.append([f"query_{n}", fact.question, "[2]", TEXTS[NEXT[fact.hut]], ""])
    return Shape({"results.csv": table(rows)}, ())


@shape("Alpaca", "https://github.com/tatsu-lab/stanford_alpaca")
def alpaca() -> Shape:
    """JSON of instructions, some of which have an input to ask with."""
    rows, right = [], []
    for n, fact in enumerate(FACTS):
        given = "Answer in one word." if n % 3 == 0 else ""
        rows.append({"instruction": fact.question, "input": given, "output": fact.answer})
        right.append(Asked(f"{fact.question}\n\n{given}".strip(), (fact.answer,)))
    return Shape({"alpaca_data.json": dumps(rows)}, (Right(tuple(right)),))


def turns(fact: Fact, roles: tuple[str, str], is_long: bool) -> list[tuple[str, str]]:
    """The turns of a conversation that ends with the fact's question and answer."""
    user, assistant = roles
    other = next(one for one in FACTS if one.hut == NEXT[fact.hut])
    earlier = [(user, other.question), (assistant, other.answer)] if is_long else []
    return [*earlier, (user, fact.question), (assistant, fact.answer)]


@shape("chat messages (fine-tuning)", "https://github.com/openai/openai-cookbook")
def chat() -> Shape:
    """JSONL for fine-tuning: lists of messages, with a system message and earlier turns."""
    rows = []
    for n, fact in enumerate(FACTS):
        messages = [("system", "You know all huts."), *turns(fact, ("user", "assistant"), n % 4 == 0)]
        rows.append({"messages": [{"role": role, "content": text} for role, text in messages]})
    edits = {
        "questions": "SELECT messages[-2].content AS question, messages[-1].content AS answer FROM source",
    }
    return Shape({"fine_tuning_test.jsonl": jsonl(rows)}, (Right(asked()),), edits)

@shape("chat messages (ShareGPT)", "https://github.com/lm-sys/FastChat")
def sharegpt() -> Shape:
    """JSON with conversations of `from` and `value`."""
    rows = [{"id": f"identity_{n}", "conversations": [{"from": who, "value": text} for who, text in listed]} for n,
        listed in enumerate(turns(fact, ("human", "gpt"), n % 4 == 0) for n, fact in enumerate(FACTS))]
    edits = {
        "questions": "SELECT conversations[-2].value AS question, conversations[-1].value AS answer FROM source",
    }
    return Shape({"dummy_conversation.json": dumps(rows)}, (Right(asked()),), edits)

@shape("Stack Exchange (Posts.xml)", "https://archive.org/details/stackexchange")
def stack_exchange() -> Shape:
    """XML with one element a post: questions name their accepted answer, answers their question; HTML in attributes."""
    lines = []
    for n, fact in enumerate(FACTS):
        number = 10 * n + 1
        lines += [
            f'  <row Id="{number}" PostTypeId="1" AcceptedAnswerId="{number + 1}" Score="5" ViewCount="99" Body='
            f'{quoteattr(f"<p>{fact.question}</p>")} Title={quoteattr(fact.question)} Tags="&lt;huts&gt;" />',
            f'  <row Id="{number + 2}" PostTypeId="2" ParentId="{number}" Score="0" Body='
            f"{quoteattr(f'<p>Perhaps {fact.wrong[0]}?</p>')} />",
            f'  <row Id="{number + 1}" PostTypeId="2" ParentId="{number}" Score="7" Body='
            f"{quoteattr(f'<p>{fact.sentence}</p>')} />",
        ]
    text = '<?xml version="1.0" encoding="utf-8"?>\n<posts>\n' + "\n".join(lines) + "\n</posts>\n"
    # The title is the question, with or without the body.
    accepted = tuple(Asked(f.question, (f"<p>{f.sentence}</p>",), (), (f.question,)) for f in FACTS)
    every = tuple(one._replace(answers=(*(one.answers or ()), f"<p>Perhaps {fact.wrong[0]}?</p>"))
        for one, fact in zip(accepted, FACTS, strict=True))
    return Shape({"huts.stackexchange.com/Posts.xml": text}, (Right(accepted), Right(every)))


@shape("MedQuAD (XML)", "https://github.com/abachaa/MedQuAD")
def medquad() -> Shape:
    """XML files of one page each with its URL, and pairs of a question and an answer, some of them without a text."""
    files: Files = {}
    for n, name in enumerate(NAMES):
        facts = [fact for fact in FACTS if fact.hut == name]
        pairs = "".join(
            f'\t\t<QAPair pid="{m}">\n\t\t\t<Question qid="000000{n}-{m}" qtype="information">'
            f"{escape(fact.question)}</Question>\n\t\t\t<Answer>{escape(fact.sentence)}</Answer>\n\t\t</QAPair>\n"
            for m, fact in enumerate(facts, 1)
        )
        empty = (
            f'\t\t<QAPair pid="4">\n\t\t\t<Question qid="000000{n}-4" qtype="outlook">Will {escape(name)} last?'
            "</Question>\n\t\t\t<Answer></Answer>\n\t\t</QAPair>\n"
        )
        files[f"1_CancerGov_QA/000000{n}_1.xml"] = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Document id="000000{n}_1" source="CancerGov" '
            f'url="{ADDRESS[name]}">\n\t<Focus>{escape(name)}</Focus>\n\t<FocusAnnotations>\n\t\t<Category>Disease'
            f"</Category>\n\t</FocusAnnotations>\n\t<QAPairs>\n{pairs}{empty}\t</QAPairs>\n</Document>\n"
        )
    right = asked(link, lambda fact: (fact.sentence,))
    return Shape(files, (Right(right, LINKED),))


@shape("Giskard RAGET",
    "https://docs.giskard.ai/en/stable/open_source/testset_generation/testset_generation/index.html")
def giskard() -> Shape:
    """JSONL with numbered documents in one text of gold context, an empty history and a struct of metadata."""
    rows, parts = [], {}
    for n, fact in enumerate(FACTS):
        context = f"Document {n}: {fact.sentence}"
        parts[fact.sentence] = (fact.sentence,)
        rows.append({"id": f"1f1d6dca-{n}", "question": fact.question, "reference_answer": fact.sentence,
            "reference_context": context, "conversation_history": [], "metadata": {"question_type": "simple",
            "seed_document_id": n, "topic": "Huts"}})
    right = asked(own_sentence, lambda fact: (fact.sentence,))
    return Shape({"my_testset.jsonl": jsonl(rows)}, (Right(right, parts, is_bare=True),))


@shape("DeepEval goldens (CSV)", "https://deepeval.com/docs/evaluation-datasets")
def deepeval_csv() -> Shape:
    """CSV of goldens: contexts joined by `|`, empty columns for what a run will fill, and the source's file name."""
    rows: list[list[object]] = [["input", "actual_output", "expected_output", "retrieval_context", "context", "name",
        "comments", "source_file"]]
    for fact in FACTS:
        context = f"{fact.sentence}|It has 40 beds."
        rows.append([fact.question, "", fact.answer, "", context, "", "", f"docs/{stem(fact.hut)}.pdf"])
    paths = [f"docs/{stem(name)}.pdf" for name in NAMES]

    def gold(fact: Fact) -> tuple[Gold, ...]:
        return Gold(f"docs/{stem(fact.hut)}.pdf", (fact.sentence,)), Gold(f"docs/{stem(fact.hut)}.pdf",
            ("It has 40 beds.",))

    files: Files = {"goldens.csv": table(rows), **pdfs(paths)}
    return Shape(files, (Right(asked(gold), dict.fromkeys(paths)),))


@shape("LangSmith (CSV)", "https://docs.smith.langchain.com/evaluation/faq/manage-datasets")
def langsmith() -> Shape:
    """CSV with inputs and outputs as JSON objects in cells."""
    rows: list[list[object]] = [["id", "inputs", "outputs", "metadata", "split", "created_at"]]
    for n, fact in enumerate(FACTS):
        given = json.dumps({"question": fact.question}, ensure_ascii=False)
        wanted = json.dumps({"answer": fact.answer}, ensure_ascii=False)
        rows.append([f"0f6c-{n}", given, wanted, '{"dataset_split": ["base"]}', "base", "2024-05-01T10:00:00Z"])
    edits = {"question": "inputs::JSON->>'question'", "answer": "outputs::JSON->>'answer'"}
    return Shape({"huts_examples.csv": table(rows)}, (Right(asked()),), edits)


@shape("Langfuse (CSV)", "https://langfuse.com/docs/datasets/overview")
def langfuse_csv() -> Shape:
    """CSV with JSON in cells, the texts among them in quotes, and archived items."""
    rows: list[list[object]] = [["id", "datasetId", "status", "input", "expectedOutput", "metadata", "sourceTraceId",
        "sourceObservationId", "createdAt"]]
    for n, fact in enumerate(FACTS):
        given, wanted = (json.dumps(text, ensure_ascii=False) for text in (fact.question, fact.answer))
        about = json.dumps({"source_url": ADDRESS[fact.hut]})
        status = "ARCHIVED" if n == 7 else "ACTIVE"
        rows.append([f"clx{n}", "cds1", status, given, wanted, about, "", "", "2024-05-01T10:00:00.000Z"])
    active = [tuple(one for n, one in enumerate(asked(gold)) if n != 7) for gold in (link, lambda _: ())]
    edits = {"question": "input::JSON->>'$'", "answer": "\"expectedOutput\"::JSON->>'$'", "where": "status = 'ACTIVE'"}
    return Shape({"dataset-items.csv": table(rows)}, (Right(active[0], LINKED), Right(active[1])), edits)


@shape("promptfoo (YAML)", "https://www.promptfoo.dev/docs/configuration/guide/")
def promptfoo() -> Shape:
    """YAML of tests with variables and assertions, of which some state accepted answers and some are for a judge."""
    lines = ["description: Huts", "prompts: ['{{question}}']", "providers: ['openai:gpt-4o-mini']", "tests:"]
    right = []
    for n, fact in enumerate(FACTS):
        lines += ["  - vars:", f"      question: {json.dumps(fact.question, ensure_ascii=False)}", "    assert:"]
        wanted = both(fact) if n % 3 == 0 else (fact.answer,)
        value = json.dumps(wanted if n % 3 == 0 else fact.answer, ensure_ascii=False)
        lines += [f"      - type: {('contains-any', 'icontains', 'equals')[n % 3]}", f"        value: {value}"]
        lines += ["      - type: llm-rubric", "        value: is polite"] if n % 4 == 0 else []
        right.append(Asked(fact.question, wanted))
    return Shape({"promptfooconfig.yaml": "\n".join(lines) + "\n"}, (Right(tuple(right)),))


@shape("Braintrust", "https://www.braintrust.dev/docs/guides/datasets")
def braintrust() -> Shape:
    """JSONL of dataset records: the input is a text, the expected output an object with sources."""
    rows = [{"id": f"9d8c{n}", "_xact_id": "1000192656880881099", "created": "2024-05-01T10:00:00Z",
        "project_id": "p1", "dataset_id": "d1", "input": fact.question, "expected": {"answer": fact.answer,
        "sources": [ADDRESS[fact.hut]]}, "metadata": {"topic": "huts"}, "tags": None, "span_id": f"s{n}",
        "root_span_id": f"s{n}", "is_root": True, "origin": None} for n, fact in enumerate(FACTS)]
    return Shape({"huts.jsonl": jsonl(rows)}, (Right(asked(link), LINKED), Right(asked())))


@shape("OpenAI evals", "https://github.com/openai/evals")
def openai_evals() -> Shape:
    """JSONL of samples: messages as input, and an ideal answer that is a text in some rows and a list in others."""
    rows, right = [], []
    for n, fact in enumerate(FACTS):
        messages = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": fact.question}]
        rows.append({"input": messages, "ideal": [fact.answer, fact.alias] if n % 2 else fact.answer})
        right.append(Asked(fact.question, both(fact) if n % 2 else (fact.answer,)))
    return Shape({"evals/registry/data/huts/samples.jsonl": jsonl(rows)}, (Right(tuple(right)),))
