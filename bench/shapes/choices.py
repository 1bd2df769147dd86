"""Shapes of multiple-choice sets: the key into the options is no answer, the option is."""

from shapes.facts import FACTS, Asked, Fact, Gold, Right, Shape, asked, dumps, jsonl, parquet, shape, table

# fmt: off
LETTERS = "ABCD"


def options(n: int, fact: Fact) -> tuple[list[str], int]:
    """Four options and the index of the right one."""
    index = n * 7 % 4
    return [*fact.wrong[:index], fact.answer, *fact.wrong[index:]], index


def chosen(gold: tuple[tuple[Gold, ...], ...] = ((),) * len(FACTS)) -> tuple[Asked, ...]:
    rows = zip(FACTS, gold, strict=True)
    return tuple(Asked(f.question, (f.answer,), g, tuple(options(n, f)[0])) for n, (f, g) in enumerate(rows))


@shape("ARC (rows, parquet)", "https://huggingface.co/datasets/allenai/ai2_arc")
def arc() -> Shape:
    """Parquet with a struct of parallel lists; some labels are digits."""
    rows: list[dict[str, object]] = []
    for n, fact in enumerate(FACTS):
        texts, index = options(n, fact)
        labels = list("1234" if n % 5 == 4 else LETTERS)
        rows.append({"id": f"Mercury_{n}", "question": fact.question, "choices": {"text": texts, "label": labels},
            "answerKey": labels[index]})
    return Shape({"ARC-Challenge/test-00000-of-00001.parquet": parquet(rows)}, (Right(chosen()),))


@shape("OpenBookQA (rows, additional)", "https://huggingface.co/datasets/allenai/openbookqa")
def openbookqa() -> Shape:
    """JSONL of the `additional` configuration: the fact of the open book stands beside the question's stem."""
    rows = []
    for n, fact in enumerate(FACTS):
        texts, index = options(n, fact)
        rows.append({"id": f"8-{n}", "question_stem": fact.question, "choices": {"text": texts,
            "label": list(LETTERS)}, "answerKey": LETTERS[index], "fact1": fact.sentence, "humanScore": 1.0,
            "clarity": 1.8, "turkIdAnonymized": f"b356d338{n}"})
    facts = {fact.sentence: (fact.sentence,) for fact in FACTS}
    evidence = Right(chosen(tuple((Gold(fact.sentence),) for fact in FACTS)), facts, is_bare=True)
    return Shape({"additional/test.jsonl": jsonl(rows)}, (evidence, Right(chosen())))


@shape("MMLU (rows)", "https://huggingface.co/datasets/cais/mmlu")
def mmlu_rows() -> Shape:
    """JSONL with a list of options and the index of the right one."""
    rows = []
    for n, fact in enumerate(FACTS):
        texts, index = options(n, fact)
        rows.append({"question": fact.question, "subject": "prehistory", "choices": texts, "answer": index})
    return Shape({"all/test.jsonl": jsonl(rows)}, (Right(chosen()),))


@shape("MMLU (CSV without header)", "https://github.com/hendrycks/test")
def mmlu_csv() -> Shape:
    """CSV files without a header, one a subject: question, four options, letter."""
    rows = [(fact.question, *options(n, fact)[0], LETTERS[options(n, fact)[1]]) for n, fact in enumerate(FACTS)]
    files = {"data/test/geography_test.csv": table(rows[:6]), "data/test/history_test.csv": table(rows[6:])}
    edits = {
        "source": "{path: [data/test/geography_test.csv, data/test/history_test.csv], columns: [q, A, B, C, D, key]}",
        "questions": "SELECT q AS question, [A, B, C, D][ascii(key) - 64] AS answer FROM source"}
    return Shape(files, (Right(chosen()),), edits)


@shape("MedQA (US, four options)", "https://github.com/jind11/MedQA")
def medqa() -> Shape:
    """JSONL with a struct of options by letter, the answer's text, its letter, and phrases of the question."""
    rows = []
    for n, fact in enumerate(FACTS):
        texts, index = options(n, fact)
        rows.append({"question": fact.question, "answer": fact.answer, "options": dict(
            zip(LETTERS, texts, strict=True)), "meta_info": "step1", "answer_idx": LETTERS[index],
            "metamap_phrases": fact.question.rstrip("?").split()})
    return Shape({"questions/US/4_options/phrases_no_exclude_test.jsonl": jsonl(rows)}, (Right(chosen()),))


@shape("CommonsenseQA (JSONL)", "https://www.tau-nlp.sites.tau.ac.il/commonsenseqa")
def commonsenseqa() -> Shape:
    """JSONL with the stem and a list of labelled options inside an object `question`."""
    rows = []
    for n, fact in enumerate(FACTS):
        texts, index = options(n, fact)
        listed = [{"label": label, "text": text} for label, text in zip(LETTERS, texts, strict=True)]
        question = {"question_concept": "hut", "choices": listed, "stem": fact.question}
        rows.append({"answerKey": LETTERS[index], "id": f"1afa02df{n}", "question": question})
    return Shape({"dev_rand_split.jsonl": jsonl(rows)}, (Right(chosen()),))


@shape("TruthfulQA (multiple choice)", "https://github.com/sylinrl/TruthfulQA")
def truthfulqa() -> Shape:
    """JSON whose options are the keys of an object, 1 for a true one and 0 for a false one."""
    rows = []
    for n, fact in enumerate(FACTS):
        order = options(n, fact)[0]
        one = {text: int(text == fact.answer) for text in order}
        rows.append({"question": fact.question, "mc1_targets": one, "mc2_targets": {fact.alias: 1, **one}})
    best, every = chosen(), asked(answers=lambda fact: (fact.answer, fact.alias))
    edits = {
        "questions": "SELECT question, list_filter(json_keys(to_json(mc2_targets)), "
            "lambda key: to_json(mc2_targets)->>key = '1') AS answers FROM source",
    }
    return Shape({"data/mc_task.json": dumps(rows)}, (Right(best), Right(every)), edits)
