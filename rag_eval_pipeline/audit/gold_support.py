"""Whether gold answers stand where their documents and gold texts are.

Nothing says which benchmarks take their answers from the documents word for word, so the benchmark itself decides: only
where nine of ten answers stand in their texts is one that does not a suspect. Sentences in words of their own are
compared by how many of their words the documents have, and again only where the others have nearly all.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rag_eval_pipeline.audit.audited_texts import AuditedCorpus, AuditedQuestions, content_words, digits, quoted
from rag_eval_pipeline.audit.findings import AuditFinding, Suspect
from rag_eval_pipeline.corpus.text.alignment import contains
from rag_eval_pipeline.metrics.answers import normalise_answer

QUESTIONS_MIN = 8  # answers from which it is known what is usual
USUAL_SHARE = 0.9  # of answers that stand in their texts
RARE_SHARE = 0.1  # of answers that are longer than their texts; where more are, it is meant
SHORT_WORDS = 12  # of an answer that is a name, a number or a phrase
WORDS_SHARE_MAX = 0.7  # of an answer's words in its documents; with less it is a suspect
DISTINCT_LENGTH = 8  # characters; a shorter word is in other documents by chance
SEARCHES = 2_000  # answers that are looked for in all documents
YES_NO = frozenset(
    "yes no true false none ja nein oui non si sí no sim não nee да нет tak nie evet hayır 是 否 はい いいえ".split()  # noqa: SIM905  # as words
)

_KINDS = {
    "gold_text_gone": (
        "wrong", "Gold texts are not in their documents, so that a right citation is scored as wrong.",
        "See whether the document has changed or another one is meant; correct the text or the document in the source.",
    ),
    "answer_in_other_document": (
        "wrong", "Gold answers do not stand in the documents that are named for them, but in another one.",
        "Name the document that has the answer, or drop the question.",
    ),
    "answer_not_in_gold_text": (
        "doubtful", "Gold answers do not stand in their gold texts, as those of the other questions do.",
        "Read both; correct the answer or the gold text.",
    ),
    "answer_not_in_document": (
        "doubtful", "Gold answers, or words of them, are not in their documents, as those of the other questions are.",
        "Correct the answer or name the document that has it; set `is_impossible` if there is none.",
    ),
    "number_not_in_document": (
        "doubtful", "Numbers of gold answers are not in their documents, as those of the other questions are.",
        "Compare the number with the document.",
    ),
    "answer_cut": (
        "doubtful", "Gold answers begin or end within a word of their text.",
        "Complete the word; a column may be too narrow.",
    ),
    "answer_longer_than_text": (
        "doubtful", "Gold answers are longer than all that supports them.",
        "See whether the columns of answers and gold texts are mixed up.",
    ),
    "unanswerable_in_corpus": (
        "doubtful", "Questions are marked as unanswerable, but the answer that their row states stands in the corpus.",
        "If the answer is right, `is_impossible` is false; else leave it.",
    ),
}  # fmt: skip


class _Texts(NamedTuple):
    """What supports the answer of a question: its gold texts together, or the documents that it names."""

    gold: str  # "" without gold texts
    documents: list[str]  # those that have text


class _Answer(NamedTuple):
    """How much of the best accepted answer stands in its texts."""

    number: int
    texts: _Texts
    is_short: bool
    in_gold: bool | None  # None without gold texts
    in_document: bool
    cut: str | None  # the word of the text that the answer has a part of
    missing: Sequence[str]  # content words, of the answer with fewest, that are nowhere in its texts
    share: float  # of its content words that are
    numbers: Sequence[str]  # in digits, that are nowhere in its texts


def support_findings(questions: AuditedQuestions, corpus: AuditedCorpus) -> Iterator[AuditFinding]:
    """Yield what is wrong with answers and gold texts in the light of the documents."""
    found: dict[str, list[Suspect]] = defaultdict(list)
    numbers = {id: number for number, id in enumerate(questions.ids)}
    for span in corpus.gold_spans:
        if span.method is None and span.question_id in numbers:
            text = f"the gold text {quoted(span.text)} is not in {span.file_name}"
            found["gold_text_gone"].append(questions.suspect(numbers[span.question_id], text))
    answers = [_examine(questions, corpus, number) for number in questions.answerable()]
    for kind, suspect in _unsupported(questions, corpus, [answer for answer in answers if answer is not None]):
        found[kind].append(suspect)
    for number in np.flatnonzero(questions.is_impossible).tolist():
        stated = questions.stated[number]
        if _is_distinct(stated) and (document := corpus.find(stated)) is not None:
            found["unanswerable_in_corpus"].append(
                questions.suspect(number, f"{quoted(stated)} stands in {document}", [stated])
            )
    for kind, (severity, text, remedy) in _KINDS.items():
        if found[kind]:
            yield AuditFinding(kind, severity, text, remedy, tuple(found[kind]))  # type: ignore[arg-type]


def _examine(questions: AuditedQuestions, corpus: AuditedCorpus, number: int) -> _Answer | None:
    """Return None for a yes, a no, and what has no words or no text to compare them with."""
    accepted = [text for text in questions.answers[number] if set(normalise_answer(text).split()) - YES_NO]
    documents = [name for name in questions.documents[number] if name in corpus.pages]
    gold = " ".join(text for _, text in questions.gold[number])
    if not accepted or not documents:
        return None
    is_short = min(len(text.split()) for text in accepted) <= SHORT_WORDS
    texts = _Texts(gold, documents)
    in_gold = False
    if gold:
        spelling = f" {normalise_answer(gold)} "
        whole = any(f" {normalise_answer(text)} " in spelling for text in accepted)
        in_gold = whole or any(contains(gold, text) for text in accepted)
    else:
        whole = any(f" {normalise_answer(text)} " in corpus.spelling(name) for text in accepted for name in documents)
    if whole and not any(map(digits, accepted)):
        return _Answer(number, texts, is_short, in_gold if gold else None, True, None, (), 1.0, ())
    asked = set(content_words(questions.questions[number]))
    known = set(content_words(gold)) if gold else set().union(*(corpus.words(name) for name in documents))
    known_numbers = set(digits(gold)) if gold else set().union(*(corpus.numbers(name) for name in documents))
    best: tuple[float, list[str], list[str], str] = (-1.0, [], [], "")
    for text in accepted:
        words = list(dict.fromkeys(word for word in content_words(text) if word not in asked)) or content_words(text)
        missing = [word for word in words if word not in known]
        lost = [
            one for one in digits(text) if one not in known_numbers and one not in digits(questions.questions[number])
        ]
        share = 1 - len(missing) / len(words) if words else 1.0
        best = max(best, (share - len(lost), missing, lost, text), key=lambda one: one[0])
    _, missing, lost, text = best
    # The search for a long text is slow, and one with words that are not there is not found.
    is_sought = is_short or not missing
    in_document = in_gold or (is_sought and any(corpus.has(name, one) for one in accepted for name in documents))
    cut = _cut_word(text, known) if len(missing) == 1 else None
    share = best[0] + len(lost)
    return _Answer(number, texts, is_short, in_gold if gold else None, in_document, cut, missing, share, lost)


def _cut_word(answer: str, known: set[str]) -> str | None:
    """Return the word that the first or last word of an answer is a part of."""
    words = content_words(answer)
    for edge, is_part in ((words[-1], str.startswith), (words[0], str.endswith)):
        if len(edge) > 2 and edge.isalpha() and edge not in known:
            return next((word for word in known if len(word) > len(edge) and is_part(word, edge)), None)
    return None


def _unsupported(
    questions: AuditedQuestions, corpus: AuditedCorpus, answers: Sequence[_Answer]
) -> Iterator[tuple[str, Suspect]]:
    """Yield answers that do not stand where those of the benchmark usually do."""
    counts: Counter[tuple[str, bool]] = Counter()
    for answer in answers:
        counts["gold", answer.is_short] += answer.in_gold is not None
        counts["in gold", answer.is_short] += bool(answer.in_gold)
        counts["document", answer.is_short] += 1
        counts["in document", answer.is_short] += answer.in_document
    usual = {
        (level, is_short): counts[level, is_short] >= QUESTIONS_MIN
        and counts[f"in {level}", is_short] >= USUAL_SHARE * counts[level, is_short]
        for level in ("gold", "document")
        for is_short in (True, False)
    }
    shares = np.array([answer.share for answer in answers] or [0.0])
    has_words = len(answers) >= QUESTIONS_MIN and np.quantile(shares, 0.2) >= WORDS_SHARE_MAX + 0.05
    least = min(WORDS_SHARE_MAX, float(np.quantile(shares, 0.1)) - 0.1)
    with_numbers = [answer for answer in answers if any(map(digits, questions.answers[answer.number]))]
    kept = sum(not answer.numbers for answer in with_numbers)
    has_numbers = len(with_numbers) >= QUESTIONS_MIN and kept >= USUAL_SHARE * len(with_numbers)
    is_longer = {a.number: len(min(questions.answers[a.number], key=len)) > len(a.texts.gold) > 0 for a in answers}
    searches = 0
    for answer in answers:
        number, (gold, documents) = answer.number, answer.texts
        shown = quoted(questions.answers[number][0])
        by_gold = bool(gold) and usual["gold", answer.is_short]
        is_usual = by_gold or usual["document", answer.is_short]
        is_there = answer.in_gold if by_gold else answer.in_document
        is_reworded = answer.share == 1.0 and not answer.numbers
        if gold and is_longer[number] and not answer.in_gold and sum(is_longer.values()) <= RARE_SHARE * len(answers):
            yield "answer_longer_than_text", questions.suspect(number, f"{shown} is longer than {quoted(gold)}")
        elif is_usual and answer.cut is not None:
            yield "answer_cut", questions.suspect(number, f"{shown}, where the text has '{answer.cut}'")
        elif (is_usual and not is_there and not is_reworded) or (has_words and answer.share < least):
            searches += 1
            names = ", ".join(documents[:3]) + (", ..." if len(documents) > 3 else "")
            if answer.in_document:
                yield "answer_not_in_gold_text", questions.suspect(number, f"{shown} is not in {quoted(gold)}")
            elif searches <= SEARCHES and (other := _elsewhere(questions.answers[number], corpus)):
                yield "answer_in_other_document", questions.suspect(number, f"{shown} is in {other}, not in {names}")
            else:
                evidence = f"{shown} is not in {names}"
                if answer.share > 0 and answer.missing:
                    evidence += f": nothing of {', '.join(answer.missing[:5])}"
                yield "answer_not_in_document", questions.suspect(number, evidence)
        elif has_numbers and answer.numbers:
            evidence = f"{', '.join(answer.numbers[:3])} of {shown} is not in {', '.join(documents[:3])}"
            yield "number_not_in_document", questions.suspect(number, evidence)


def _elsewhere(accepted: Sequence[str], corpus: AuditedCorpus) -> str | None:
    """Return a document that has an answer which no text has by chance."""
    return next((name for text in accepted if _is_distinct(text) and (name := corpus.find(text)) is not None), None)


def _is_distinct(text: str) -> bool:
    return len(normalise_answer(text)) >= DISTINCT_LENGTH


def document_findings(questions: AuditedQuestions, corpus: AuditedCorpus) -> Iterator[AuditFinding]:
    """Yield what is odd about which documents the questions name."""
    named = Counter(name for names in questions.documents for name in names)
    unnamed = tuple(name for name in corpus.pages if name not in named)
    if unnamed and named:
        yield AuditFinding(
            "document_not_named", "note", "No question names these documents; they are distractors.",
            "Leave them if that is meant; else see whether the names in the questions are right.", documents=unnamed,
        )  # fmt: skip
    everything = [n for n, names in enumerate(questions.documents) if len(names) == len(corpus.pages) > 3]
    if everything:
        suspects = [questions.suspect(n, f"names all {len(corpus.pages)} documents") for n in everything]
        yield AuditFinding(
            "all_documents_named", "doubtful", "Questions name every document of the corpus: any retrieval is right.",
            "Name the documents that hold the answer.", tuple(suspects),
        )  # fmt: skip
