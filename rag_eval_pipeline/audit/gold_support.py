"""Whether gold answers stand where their documents and gold texts are.

Nothing says which benchmarks take their answers from the documents word for word, so the benchmark itself decides: only
where all but a few answers stand in their texts is one that does not a suspect. Sentences in words of their own are
compared by how many of their words the documents have, and again only where the others have nearly all.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rag_eval_pipeline.audit.audited_texts import (
    AuditedCorpus,
    AuditedQuestions,
    content_words,
    digits,
    quoted,
    spelled,
)
from rag_eval_pipeline.audit.findings import AuditFinding, Severity, Suspect
from rag_eval_pipeline.conversion.odd_questions import means_something
from rag_eval_pipeline.corpus.text.alignment import contains
from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.metrics.answers import normalise_answer
from rag_eval_pipeline.text.numbers import quantities

QUESTIONS_MIN = 8  # answers from which it is known what is usual
RARE_SHARE = 0.07  # of answers unlike the others; where more are, it is meant
SHORT_WORDS = 12  # of an answer that is a name, a number or a phrase
WORDS_SHARE_MAX = 0.7  # of an answer's words in its documents; with less it is a suspect
MISSING_MIN = 3  # of its words that are not
WORDS_MARGIN = 0.1  # of that share, below nearly all other answers
DISTINCT_LENGTH = 8  # characters; a shorter word is in other documents by chance
YES_NO = frozenset(
    "yes no true false none ja nein oui non si sí no sim não nee да нет tak nie evet hayır 是 否 はい いいえ".split()  # noqa: SIM905  # as words
)

_KINDS: dict[str, tuple[Severity, str, str]] = {
    "gold_text_gone": (
        "wrong", "Gold texts are not in their documents, so that a right citation is scored as wrong.",
        "See whether the document has changed or another one is meant; correct the text or the document in the source.",
    ),
    "answer_in_other_document": (
        "wrong", "Gold answers do not occur in the documents named for them, but in another one.",
        "Name the document that has the answer, or drop the question.",
    ),
    "answer_not_in_gold_text": (
        "doubtful", "Gold answers do not occur in their gold texts, although other questions' answers do.",
        "Read both; correct the answer or the gold text.",
    ),
    "answer_not_in_document": (
        "doubtful", "Gold answers, or words of them, are not in their documents, although other "
        "questions' answers are.",
        "Correct the answer or name the document that has it; set `is_impossible` if there is none.",
    ),
    "number_not_in_document": (
        "doubtful", "Numbers of gold answers are not in their documents, although other questions' numbers are.",
        "Compare the number with the document.",
    ),
    "answer_cut": (
        "doubtful", "Gold answers begin or end within a word of their text.",
        "Complete the word; a column may be too narrow.",
    ),
    "answer_longer_than_text": (
        "doubtful", "Gold answers are longer than all of their supporting text.",
        "See whether the columns of answers and gold texts are mixed up.",
    ),
    "unanswerable_in_corpus": (
        "doubtful", "Questions are marked as unanswerable, but the answer in their row occurs in the corpus.",
        "If the answer is right, `is_impossible` is false; else leave it.",
    ),
}  # fmt: skip


class _Answer(NamedTuple):
    """How much of the best accepted answer stands in its texts: the gold texts together, else the documents named."""

    number: int
    documents: list[str]  # those that have text
    gold: str  # "" without gold texts
    is_short: bool
    in_gold: bool
    in_document: bool
    cut: str | None = None  # the word of the text that the answer has a part of
    missing: Sequence[str] = ()  # content words that are nowhere in the texts
    share: float = 1.0  # of its content words that are
    numbers: Sequence[str] = ()  # in digits, that are nowhere in the texts

    @property
    def is_reworded(self) -> bool:
        """Whether all that it says is there in another order or with other words between."""
        return not self.missing and not self.numbers


def support_findings(questions: AuditedQuestions, corpus: AuditedCorpus) -> Iterator[AuditFinding]:
    """Yield what is wrong with answers and gold texts in the light of the documents."""
    found: dict[str, list[Suspect]] = defaultdict(list)
    numbers = {id: number for number, id in enumerate(questions.ids)}
    for span in corpus.unlocated:
        if span.question_id in numbers:
            text = f"the gold text {quoted(span.text)} is not in {span.file_name}"
            found["gold_text_gone"].append(questions.suspect(numbers[span.question_id], text))
    # By document, so that each text is made ready for searches once.
    order = sorted(questions.answerable(), key=lambda number: questions.documents[number][:1])
    answers = sorted(filter(None, (_examine(questions, corpus, number) for number in order)))
    for kind, suspect in chain(
        _unsupported(questions, corpus, answers),
        _nowhere(questions, corpus),
    ):
        found[kind].append(suspect)
    says_something = means_something(pa.array(questions.stated, pa.string())) & questions.is_impossible
    for number in np.flatnonzero(says_something).tolist():
        stated = questions.stated[number]
        if is_distinct(stated) and (document := corpus.find(stated)) is not None:
            suspect = questions.suspect(number, f"{quoted(stated)} occurs in {document}", [stated])
            found["unanswerable_in_corpus"].append(suspect)
    for kind, (severity, text, remedy) in _KINDS.items():
        if found[kind]:
            yield AuditFinding(kind, severity, text, remedy, tuple(found[kind]))


def _worded(answers: Sequence[str]) -> list[str]:
    """Return the answers that are more than a yes or no."""
    return [text for text in answers if set(normalise_answer(text).split()) - YES_NO]


def _examine(questions: AuditedQuestions, corpus: AuditedCorpus, number: int) -> _Answer | None:
    """Return None for a yes, a no, and what has no text to compare it with."""
    accepted = _worded(questions.answers[number])
    documents = [name for name in questions.documents[number] if name in corpus.pages]
    if not accepted or not documents:
        return None
    gold = " ".join(questions.gold[number])
    spellings = [f" {normalise_answer(gold)} "] if gold else list(map(corpus.spelling, documents))
    first = (number, documents, gold, min(len(text.split()) for text in accepted) <= SHORT_WORDS)
    numbers: Set[str] = frozenset(digits(gold)) if gold else _union(map(corpus.numbers, documents))
    is_whole = any(spelled(text) in spelling for text in accepted for spelling in spellings)
    if is_whole and all(numbers >= {*digits(text)} for text in accepted):
        return _Answer(*first, in_gold=bool(gold), in_document=True)
    words: Set[str] = frozenset(content_words(gold)) if gold else _union(map(corpus.words, documents))
    asked = {*content_words(questions.questions[number])}
    known = numbers | {*digits(questions.questions[number])}
    parts = []
    for text in accepted:
        plain = [
            word for word in dict.fromkeys(content_words(text)) if not word.isdecimal()
        ]  # numbers are by themselves
        own = [word for word in plain if word not in asked] or plain
        missing = [word for word in own if word not in words]
        lost = [one for one in dict.fromkeys(digits(text)) if one not in known]
        if lost and not _has_quantities(corpus, documents, text, lost):
            lost = []
        parts.append((1 - len(missing) / len(own) if own else 1.0, missing, lost, text))
    share, missing, lost, text = max(parts, key=lambda part: (part[0] - len(part[2]), len(part[3])))
    in_gold = bool(gold) and (is_whole or any(contains(gold, one) for one in accepted))
    # The search for a long text is slow, and one with words that are not there is not found.
    is_sought = first[-1] or not missing
    in_document = in_gold or (is_sought and any(corpus.has(name, one) for one in accepted for name in documents))
    cut = _cut_word(text, words) if len(missing) == 1 else None
    return _Answer(*first, in_gold, in_document, cut, missing, share, lost)


def _union(parts: Iterable[frozenset[str]]) -> Set[str]:
    first, *others = parts
    return first.union(*others) if others else first


def _has_quantities(corpus: AuditedCorpus, documents: Sequence[str], text: str, lost: Sequence[str]) -> bool:
    """Whether one of these numbers of an answer is not in the documents in another unit or rounded, either."""
    wanted = [one for one in quantities(text) if any(number in digits(one.text) for number in lost)]
    return any(all(corpus.quantities(name).match(one, 0.0) == "no" for name in documents) for one in wanted)


def _stated_numbers(text: str, numbers: Sequence[str]) -> list[str]:
    """Return the numbers that an answer has not calculated or estimated: no percentages, and no 100 or 2000."""
    stated = {number for one in quantities(text) if one.unit != "%" for number in digits(one.text)}
    return [number for number in numbers if number in stated and len(number.rstrip("0")) > 1]


def _cut_word(answer: str, known: Set[str]) -> str | None:
    """Return the word that the first or last word of an answer is a part of."""
    words = content_words(answer)
    for edge, is_part in ((words[-1], str.startswith), (words[0], str.endswith)):
        if len(edge) > 2 and edge.isalpha() and edge not in known:
            return next((word for word in known if len(word) > len(edge) and is_part(word, edge)), None)
    return None


def _is_usual(holds: Sequence[bool]) -> bool:
    """Whether something holds for so many that the others are suspects."""
    return len(holds) >= QUESTIONS_MIN and holds.count(False) <= max(1, RARE_SHARE * len(holds))


def _unsupported(
    questions: AuditedQuestions, corpus: AuditedCorpus, answers: Sequence[_Answer]
) -> Iterator[tuple[str, Suspect]]:
    """Yield answers that do not stand where those of the benchmark usually do."""
    by_length = [[answer for answer in answers if answer.is_short is is_short] for is_short in (False, True)]
    in_gold = [_is_usual([answer.in_gold for answer in group if answer.gold]) for group in by_length]
    in_document = [_is_usual([answer.in_document for answer in group]) for group in by_length]
    unknown = {
        answer.number: _stated_numbers(questions.answers[answer.number][0], answer.numbers) for answer in answers
    }
    numbers = _is_usual([not unknown[n] for n in unknown if any(map(digits, questions.answers[n]))])
    is_longer = {a.number: len(min(questions.answers[a.number], key=len)) > len(a.gold) > 0 for a in answers}
    length = _is_usual([not is_longer[answer.number] for answer in answers if answer.gold])
    shares = np.array([answer.share for answer in answers] or [0.0])
    least = min(WORDS_SHARE_MAX, float(np.quantile(shares, RARE_SHARE)) - WORDS_MARGIN)
    if len(answers) < QUESTIONS_MIN or np.quantile(shares, 0.2) < WORDS_SHARE_MAX + WORDS_MARGIN:
        least = 0.0
    searches = 0
    for answer in answers:
        number, documents = answer.number, answer.documents
        accepted = questions.answers[number]
        shown, names = quoted(accepted[0]), ", ".join(documents[:3]) + (", ..." if len(documents) > 3 else "")
        by_gold = bool(answer.gold) and in_gold[answer.is_short]
        is_usual = by_gold or in_document[answer.is_short]
        is_there = answer.in_gold if by_gold else answer.in_document
        if length and is_longer[number] and not answer.in_gold:
            yield "answer_longer_than_text", questions.suspect(number, f"{shown} is longer than {quoted(answer.gold)}")
        elif is_usual and answer.cut is not None:
            yield "answer_cut", questions.suspect(number, f"{shown}, where the text has '{answer.cut}'")
        elif (is_usual and not is_there and not answer.is_reworded) or (
            answer.share < least and len(answer.missing) >= MISSING_MIN
        ):
            searches += 1
            if answer.in_document:
                if not any(spelled(text) in spelled(questions.questions[number]) for text in accepted):
                    evidence = f"{shown} is not in {quoted(answer.gold)}"
                    yield "answer_not_in_gold_text", questions.suspect(number, evidence)
            elif searches <= corpus.searches and (other := _elsewhere(accepted, corpus)) is not None:
                yield "answer_in_other_document", questions.suspect(number, f"{shown} is in {other}, not in {names}")
            else:
                missing = [*answer.missing, *answer.numbers][:5]
                evidence = f"{shown} is not in {names}" + (f": nothing of {', '.join(missing)}" if missing else "")
                yield "answer_not_in_document", questions.suspect(number, evidence)
        elif numbers and unknown[number]:
            evidence = f"{', '.join(unknown[number][:3])} of {shown} is not in {names}"
            yield "number_not_in_document", questions.suspect(number, evidence)


def _nowhere(questions: AuditedQuestions, corpus: AuditedCorpus) -> Iterator[tuple[str, Suspect]]:
    """Yield short answers of questions that name no document, if all but a few are in the corpus."""
    sought = {
        number: answers
        for number in questions.answerable()
        if not questions.documents[number]
        and (answers := _worded(questions.answers[number]))
        and min(len(text.split()) for text in answers) <= SHORT_WORDS
    }
    if len(sought) > corpus.searches:
        return
    is_there = {n: any(corpus.find(text) is not None for text in answers) for n, answers in sought.items()}
    if _is_usual(list(is_there.values())):
        for number in (number for number, is_found in is_there.items() if not is_found):
            yield "answer_not_in_document", questions.suspect(number, f"{quoted(sought[number][0])} is in no document")


def _elsewhere(accepted: Sequence[str], corpus: AuditedCorpus) -> str | None:
    """Return a document that has an answer which no text has by chance."""
    return next((name for text in accepted if is_distinct(text) and (name := corpus.find(text)) is not None), None)


def is_distinct(text: str) -> bool:
    """Whether a text is so long that no document has it by chance."""
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
        suspects = [questions.suspect(n, f"names all {counted(len(corpus.pages), 'document')}") for n in everything]
        yield AuditFinding(
            "all_documents_named", "doubtful", "Questions name every document of the corpus: any retrieval is right.",
            "Name the documents that hold the answer.", tuple(suspects),
        )  # fmt: skip
