"""An audit names the questions that are wrong, and none of a benchmark that is right."""

import json
from collections import Counter
from itertools import chain

import pytest

from rag_eval_pipeline.audit.audit_benchmark import audit, find_faults, summary
from rag_eval_pipeline.audit.audited_texts import AuditedCorpus, AuditedQuestions
from rag_eval_pipeline.conversion.datasets import locate_gold
from rag_eval_pipeline.conversion.question_spool import batch_of
from rag_eval_pipeline.conversion.questions import Context, Question
from rag_eval_pipeline.corpus.text.pages import Page
from rag_eval_pipeline.workspace import Workspace
from tests.conftest import BUNDLED

LIGHTS = {
    "Ravna": "Ravna light was lit in 1861. Ida Holm kept it alone. Its tower is of grey granite and 31 metres high.",
    "Skarv": "Skarv light was lit in 1874. Olaf Brun kept it alone. Its tower is of cast iron and 17 metres high.",
    "Tind": "Tind light was lit in 1902. Marit Lie kept it alone. Its tower is of red brick and 24 metres high.",
    "Ulvo": "Ulvo light was lit in 1855. Peder Dahl kept it alone. Its tower is of white timber and 9 metres high.",
}
ASKED = {"When was {} lit?": (5, 6), "Who kept {} alone?": (6, 8), "What is the tower of {} made of?": (14, 16)}


def lights() -> list[Question]:
    """Three questions about each light, with the answers of the texts above."""
    rows = [(name, text, asked, words) for name, text in LIGHTS.items() for asked, words in ASKED.items()]
    made = []
    for number, (name, text, asked, (start, end)) in enumerate(rows):
        answer = " ".join(text.split()[start:end]).strip(".")
        gold = None if "made" in asked else f"{text.split('. ')['kept' in asked]}."
        contexts = (Context(name, f"{name}.pdf", gold),)
        made.append(Question(number, asked.format(name), answer, (answer,), False, contexts))
    return made


def found_in(questions, *, language="en"):
    pages = [Page(f"{name}.pdf", 1, 0, text) for name, text in LIGHTS.items()]
    corpus = AuditedCorpus(pages, locate_gold(questions, [], pages))
    faults = find_faults(AuditedQuestions([batch_of(questions)]), corpus, None, language)
    return {one.kind: one for one in faults}


def changed(number, **values):
    """The questions, one of which has other values; an answer is the only accepted one."""
    questions = lights()
    values |= {"answers": (values["answer"],) if values["answer"] else ()} if "answer" in values else {}
    old = {name: getattr(questions[number], name) for name in Question.__struct_fields__}
    questions[number] = Question(**old | values)
    return questions


def about(name, text=None):
    return (Context(name, f"{name}.pdf", text),)


# What is changed of question number ...; the finding; what its evidence has to contain.
PLANTED = {
    "the answer of another light":  (changed(1, answer="Peder Dahl"), "answer_in_other_document", "is in Ulvo.pdf, not in Ravna.pdf"),
    "another number":               (changed(1, answer="Ida Holmgren"), "answer_not_in_document", "nothing of holmgren"),
    "an answer that is not in its gold text": (changed(0, answer="31 metres"), "answer_not_in_gold_text", "'31 metres' is not in 'Ravna light"),
    "another document":             (changed(4, contexts=about("Tind")), "answer_in_other_document", "is in Skarv.pdf, not in Tind.pdf"),
    "a gold text that has gone":    (changed(0, contexts=about("Ravna", "Ravna light burned for the first time in 1861, on oil.")),
                                     "gold_text_gone", "is not in Ravna.pdf"),
    "half a word":                  (changed(2, answer="grey grani"), "answer_cut", "the text has 'granit"),
    "an answer longer than its text": (changed(0, answer=LIGHTS["Ravna"] * 2), "answer_longer_than_text", "is longer than"),
    "a letter":                     (changed(5, answer="B"), "letter_as_answer", "answer 'B'"),
    "a word for nothing":           (changed(5, answer="N/A"), "word_for_nothing", "answer 'N/A'"),
    "an entity":                    (changed(5, answer="cast &amp; iron"), "html_entities", "'cast &amp; iron'"),
    "another encoding":             (changed(5, answer="fer coulÃ©"), "mojibake", "coulÃ©"),
    "the same question, another answer": (changed(5, question="When was Skarv lit?", answer="1862"), "duplicate_other_answer", "'1874'"),
    "nearly the same question":     (changed(5, question="Who kept Skarv alonne?", answer="1862"), "near_duplicate_other_answer", "'Olaf Brun'"),
    "the same question, other documents": (changed(5, question="Who kept Skarv alone", answer="Olaf Brun", contexts=about("Tind")),
                                     "duplicate_other_documents", "'Olaf Brun'"),
    "unanswerable with an answer":  (changed(4, is_impossible=True, answers=(), contexts=()), "unanswerable_in_corpus", "occurs in Skarv.pdf"),
    "the answer in the question":   (changed(4, question="Did Olaf Brun keep Skarv alone?"), "answer_in_question", "has 'olaf brun'"),
    "all documents":                (changed(4, contexts=tuple(chain(*map(about, LIGHTS)))), "all_documents_named", "all 4 documents"),
    "another script":               (changed(4, question="Кто был смотрителем маяка Скарв?"), "other_language", "not in the script of en"),
}  # fmt: skip


@pytest.mark.parametrize(("questions", "kind", "evidence"), PLANTED.values(), ids=PLANTED)
def test_planted_fault_is_found_and_shown(questions, kind, evidence):
    found = found_in(questions)

    assert kind in found
    assert any(evidence in suspect.evidence for suspect in found[kind].suspects)


def test_right_questions_have_no_findings():
    assert found_in(lights()) == {}


def test_documents_that_no_question_names_are_listed():
    found = found_in([question for question in lights() if "Tind" not in question.question])

    assert {kind: one.documents for kind, one in found.items()} == {"document_not_named": ("Tind.pdf",)}


def test_what_is_certain_is_proposed_as_an_answer():
    assert found_in(changed(5, answer="cast &amp; iron"))["html_entities"].suspects[0].answers == ("cast & iron",)
    assert found_in(changed(5, answer="fer coulÃ©"))["mojibake"].suspects[0].answers == ("fer coulé",)


def test_answers_in_words_of_their_own_are_no_suspects():
    free = [
        Question(q.id, q.question, text, (text,), False, q.contexts)
        for q, text in zip(lights(), ["It began to shine long before anybody now alive was born."] * 12, strict=True)
    ]

    assert {kind for kind in found_in(free) if kind.startswith("answer")} == set()


def test_answer_of_a_question_without_documents_is_looked_for_in_all():
    answers = ["Nils Aas" if q.id == 4 else q.answer for q in lights()]
    asked = zip(lights(), answers, strict=True)
    questions = [Question(q.id, q.question, answer, (answer,), False, ()) for q, answer in asked]

    [suspect] = found_in(questions)["answer_not_in_document"].suspects
    assert (suspect.question, suspect.evidence) == (4, "'Nils Aas' is in no document")


def test_changed_number_in_sentences_of_their_own_is_a_suspect():
    told = [f"Built of granite, {name} has stood {number} metres tall." for name, number in
            zip(list(LIGHTS) * 3, [31, 17, 24, 9] * 3, strict=True)]  # fmt: skip
    told[3] = told[3].replace("9 metres", "95 metres")
    questions = [
        Question(n, f"How high is light {n}?", text, (text,), False, about(list(LIGHTS)[n % 4]))
        for n, text in enumerate(told)
    ]

    [suspect] = found_in(questions)["number_not_in_document"].suspects
    assert suspect.evidence == "95 of 'Built of granite, Ulvo has stood 95 metres tall.' is not in Ulvo.pdf"


def test_language_is_that_of_most_questions():
    asked = ["Wer hat das Licht gebaut?", "Wann wurde das Licht gelöscht?", "Wie hoch ist der Turm?"] * 4
    questions = [
        Question(q.id, text, q.answer, q.answers, False, q.contexts) for q, text in zip(lights(), asked, strict=True)
    ]

    assert found_in(questions, language="en")["other_language"].severity == "doubtful"
    assert "other_language" not in found_in(questions, language="de")


def write_benchmark(root, csv, spec="questions: {question: q, answer: a}\n"):
    folder = root / "data" / "sources" / "scratch"
    folder.mkdir(parents=True)
    (folder / "benchmark.yaml").write_text(f"name: scratch\nversion: 1.0.0\nsource: q.csv\n{spec}")
    (folder / "q.csv").write_text(csv)
    return Workspace(root)


SPLIT = "q,a,split\nWho?,Ada,train\nWhen?,1861,test\nWhere?,Oslo,train\n"
SWAPPED = [f"How high is tower number {n}?,{n + 10} metres" for n in range(30)] + ["12 metres,How wide is the harbour?"]


def test_audit_before_a_conversion_has_what_needs_no_documents(tmp_path):
    findings = audit(write_benchmark(tmp_path / "split", SPLIT), "scratch")
    assert [(one.kind, one.count, one.severity) for one in findings] == [("training_rows", 2, "note")]

    swapped = audit(write_benchmark(tmp_path / "swapped", "\n".join(["q,a", *SWAPPED])), "scratch")
    assert [(one.kind, [s.place for s in one.suspects]) for one in swapped] == [("swapped_columns", ["q.csv, row 31"])]
    assert summary("scratch", swapped) == "audit: 1 wrong; rag-eval audit scratch"


def test_bundled_benchmarks_have_no_wrong_question(bundled):
    findings = {name: audit(Workspace(bundled), name) for name in BUNDLED}

    assert Counter(one.severity for found in findings.values() for one in found)["wrong"] == 0


def test_command_lists_findings_and_writes_json(tmp_path, rag_eval):
    workspace = write_benchmark(tmp_path, "q,a\nWho?,Ada\nwho?,Grace\n")
    at = ("--workspace", str(workspace.root))

    code, out, error = rag_eval("audit", "scratch", *at)
    assert (code, out.splitlines()[0]) == (0, "wrong     duplicate_other_answer  2 questions")
    assert "q.csv, row 1: 'Who?': 'Ada'; q.csv, row 2: 'Grace'" in out
    assert "not converted" in error

    code, out, _ = rag_eval("audit", "scratch", *at, "--json", "--strict")
    [finding] = json.loads(out)["findings"]
    assert (code, finding["kind"], finding["count"]) == (1, "duplicate_other_answer", 2)
    assert "audit: 2 wrong; rag-eval audit scratch" in rag_eval("plan", "scratch", *at)[1]
