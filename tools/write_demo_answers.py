"""Write the recorded answers that `make demo` replays: three systems over eight nights, one of which breaks.

    python tools/write_demo_answers.py WORKSPACE [--answers FOLDER] [--only SYSTEM]

WORKSPACE is a folder in which `harbour-handbook` has been converted. Passages are retrieved by the embedded engine
with other settings for each system. The answers are written from the gold answers and from plausible wrong ones
(`demo_answers.tsv`: id, sentence with `{}` for the answer, wrong answer). Everything is drawn from seeds made of the
system, the night and the question, so that the same corpus gives the same bytes.

From 15 November on, the index of `hybrid-mini` lacks the section on tariffs.
"""

import argparse
import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow.parquet as pq

from rag_eval_pipeline.evaluation.corpus import CorpusFiles
from rag_eval_pipeline.formats.citations import format_citation
from rag_eval_pipeline.systems.base import PageText, RetrievedPassage
from rag_eval_pipeline.systems.bm25 import EmbeddedSettings, EmbeddedSystem, Sentence, split_sentences
from rag_eval_pipeline.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parent.parent
ANSWERS = REPOSITORY / "examples" / "demo" / "answers"
SENTENCES = REPOSITORY / "tools" / "demo_answers.tsv"
BENCHMARK = "harbour-handbook"

NIGHTS = [f"2026-11-{day:02}T02" for day in range(9, 17)]
RERUNS = ["2026-11-15T06", "2026-11-16T06"]
BROKEN_SYSTEM, BROKEN_FROM, LOST_SECTION = "hybrid-mini", "2026-11-15", "tariffs-"

UNSTABLE = 0.015  # share of the questions that are answered otherwise than usual on a night
RESTYLED = 0.01  # share that is answered in other words than usual
SWAPPED = 0.01  # share whose first two passages change places
SHARED = 0.7  # share of the draws for a question that all systems have in common
CANDIDATES = 15  # passages retrieved, of which the first `SHOWN` that are not missed are recorded
SHOWN = 5
TEXT_CHARACTERS = 240  # recorded of a passage
REFUSALS = (
    "The handbook does not say.",
    "I could not find this in the handbook.",
    "The passages I have do not mention this.",
    "There is no information about this in the handbook.",
    "I don't know. The pages that were found do not cover this.",
)
OPENINGS = ("According to the handbook, ", "The handbook states that ")
# Words that a sentence may begin with and that are no names.
LOWERED = re.compile(r"(?:The|An?|At|In|On|By|For|From|Of|With|After|Above|Up|It|They|Such|Whatever|Between|Because)\b")
AMOUNT = re.compile(
    r"£\d[\d,.]*\d|\b\d[\d,.]* ?(?:%|knots|m|t|dB|days|hours|minutes|months|weeks|years|metres|cubic metres)(?!\w)"
)


class System(NamedTuple):
    """One recorded system: its retrieval, and how often it is right."""

    retrieval: EmbeddedSettings
    missed: float  # share of the questions whose documents it does not find
    misranked: float  # share whose first document is ranked third
    skill: float  # share of the questions with the right passage that are answered right
    combining: float  # the same for questions that need two places
    refusing: float  # share of the unanswerable questions that it refuses
    brief: float  # share of the answers that are the phrase alone
    median_ms: float
    usd_per_1000_tokens: float


SYSTEMS = {
    "hybrid": System(
        EmbeddedSettings(k=CANDIDATES, passage_words=45), 0.03, 0.08, 0.95, 0.75, 0.88, 0.78, 1480, 0.0006
    ),
    "hybrid-next": System(
        EmbeddedSettings(k=CANDIDATES, passage_words=40), 0.025, 0.06, 0.975, 0.85, 0.88, 0.78, 1610, 0.0008
    ),
    "hybrid-mini": System(
        EmbeddedSettings(k=CANDIDATES, passage_words=55, rerank=False), 0.04, 0.11, 0.92, 0.62, 0.8, 0.82, 590, 0.00015
    ),
}


class Place(NamedTuple):
    """A gold text in the corpus."""

    document: str
    page: int
    start: int
    end: int


class Question(NamedTuple):
    """A question with what the writer knows about it."""

    id: str
    text: str
    answer: str  # empty if the handbook does not answer it
    places: tuple[Place, ...]
    sentence: str
    wrong: str


def main() -> None:
    """Write the files of all systems, or of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path, help="a workspace in which harbour-handbook has been converted")
    parser.add_argument("--answers", type=Path, default=ANSWERS, help="folder to write to")
    parser.add_argument("--only", choices=sorted(SYSTEMS), help="write the answers of one system")
    options = parser.parse_args()
    for name in [options.only] if options.only else SYSTEMS:
        write_answers(options.workspace, name, options.answers)


def write_answers(workspace: Path, name: str, folder: Path, nights: Sequence[str] = ()) -> None:
    """Write one file for each night of a system; all nights by default."""
    paths = Workspace(workspace).benchmark(BENCHMARK)
    pages = CorpusFiles.read(paths).pages()
    questions = read_questions(paths.questions, paths.gold_spans)
    passages = _retrieved(pages, questions, SYSTEMS[name])
    if name == BROKEN_SYSTEM:
        kept = [page for page in pages if not page.document.startswith(LOST_SECTION)]
        passages_broken = _retrieved(kept, questions, SYSTEMS[name])
    (folder / name).mkdir(parents=True, exist_ok=True)
    for night in nights or sorted([*NIGHTS, *(RERUNS if name == BROKEN_SYSTEM else ())]):
        found = passages_broken if name == BROKEN_SYSTEM and night >= BROKEN_FROM else passages
        rows = [answer_row(name, night, question, found[question.id]) for question in questions]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        path = folder / name / f"{night}.jsonl.gz"
        path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def _retrieved(
    pages: Sequence[PageText], questions: Sequence[Question], system: System
) -> dict[str, list[RetrievedPassage]]:
    engine = EmbeddedSystem(pages, system.retrieval)
    return {question.id: engine.retrieve(question.text) for question in questions}


def read_questions(questions: Path, gold_spans: Path) -> list[Question]:
    """Return the questions of the converted benchmark with their places and the written sentences."""
    written = dict(
        (key, (sentence, wrong))
        for key, sentence, wrong in (line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines())
    )
    places: dict[int, list[Place]] = {}
    for row in pq.read_table(gold_spans).to_pylist():
        found = Place(row["file_name"], row["page"], row["start"], row["end"])
        places.setdefault(row["question_id"], []).append(found)
    return [
        Question(
            row["source_id"],
            row["question"],
            row["answer"],
            tuple(places.get(row["id"], ())),
            *written.get(row["source_id"], ("", "")),
        )
        for row in pq.read_table(questions).to_pylist()
    ]


def answer_row(name: str, night: str, question: Question, passages: list[RetrievedPassage]) -> dict[str, Any]:
    """Return the recorded answer of a system to one question on one night."""
    system = SYSTEMS[name]
    # All numbers are drawn at once: what happens to one question or night changes no other.
    every, usual = random.Random(question.id), random.Random(f"{name} {question.id}")
    tonight = random.Random(f"{name} {night} {question.id}")
    # A question that is hard for one system is mostly hard for the others.
    luck, style, rank = ((every if usual.random() < SHARED else usual).random() for _ in range(3))
    choice, precision = usual.random(), usual.random()
    is_unstable, is_restyled, is_swapped = (tonight.random() < share for share in (UNSTABLE, RESTYLED, SWAPPED))
    pace = tonight.lognormvariate(0, 0.3)
    passages = _ranked(question, passages, rank, system)
    if is_swapped and len(passages) > 1:
        passages = _with_scores_of([passages[1], passages[0], *passages[2:]], passages)
    if is_restyled:
        style = (style + 0.5) % 1
    chance = system.refusing if not question.answer else system.combining if len(question.places) > 1 else system.skill
    is_right = (luck < chance) != is_unstable
    is_found = all(any(_overlaps(place, passage) for passage in passages) for place in question.places)
    wrong = (question.wrong, _cite(passages[0]))
    if not is_found:
        wrong = _borrowed(question, passages, choice) or wrong
    if is_right and question.answer and is_found:
        text = _worded(question, question.answer, _citations(question, passages, precision), style, system.brief)
    elif (is_right and not question.answer) or choice < (0.15 if is_found else 0.5):
        text = _refusal(choice)
    else:
        text = _worded(question, *wrong, style, system.brief)
    words = sum(len(passage.text.split()) for passage in passages) + len(question.text.split())
    prompt, completion = 180 + round(1.35 * words), 6 + round(1.6 * len(text.split()))
    return {
        "id": question.id,
        "question": question.text,
        "answer": text,
        "contexts": [
            {"document": one.document, "page": one.page, "text": _short(one.text), "score": round(one.score or 0, 2)}
            for one in passages
        ],
        "latency_ms": round(system.median_ms * pace * (0.9 + completion / 300)),
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "cost_usd": round((prompt + 4 * completion) / 1000 * system.usd_per_1000_tokens, 6),
        },
    }


def _short(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS else text[: text.rindex(" ", 0, TEXT_CHARACTERS)] + " …"


def _ranked(
    question: Question, passages: Sequence[RetrievedPassage], rank: float, system: System
) -> list[RetrievedPassage]:
    """Return the recorded passages: for some questions without their documents, for some with these ranked third."""
    found = list(passages)
    first, wanted = found[0].document, {place.document for place in question.places}
    others = [one for one in found if one.document != first]
    if rank < system.missed:
        found = [one for one in found if one.document not in wanted]
    elif rank < system.missed + system.misranked and len(others) > 1:
        found = [*others[:2], *(one for one in found if one not in others[:2])]
    return _with_scores_of(found[:SHOWN], passages)


def _with_scores_of(passages: Sequence[RetrievedPassage], order: Sequence[RetrievedPassage]) -> list[RetrievedPassage]:
    return [msgspec.structs.replace(one, score=other.score) for one, other in zip(passages, order, strict=False)]


def _overlaps(place: Place, passage: RetrievedPassage) -> bool:
    start, end = passage.start or 0, passage.end or 0
    return passage.document == place.document and start < place.end and place.start < end


def _cite(place: Place | RetrievedPassage | Sentence, *, trimmed: int = 0) -> str:
    return format_citation(place.document, place.page or 1, [(place.start or 0, (place.end or 1) - trimmed)])


def _citations(question: Question, passages: Sequence[RetrievedPassage], precision: float) -> str:
    """Cite the gold texts; some answers miss the end of the span, and some cite the whole passage."""
    if precision < 0.12:
        found = [next(one for one in passages if _overlaps(place, one)) for place in question.places]
        return "".join(dict.fromkeys(map(_cite, found)))
    return "".join(_cite(place, trimmed=round(60 * max(0, precision - 0.8))) for place in question.places)


def _refusal(choice: float) -> str:
    return REFUSALS[int(choice * 1000) % len(REFUSALS)]


def _worded(question: Question, answer: str, citations: str, style: float, brief: float) -> str:
    """Return an answer as a phrase or as a sentence, with its citations."""
    if style < brief:
        return f"{answer[0].upper()}{answer[1:]} {citations}"
    sentence = question.sentence.replace("{}", answer)
    if style > 1 - (1 - brief) / 3 and LOWERED.match(sentence):
        opening = OPENINGS[int(style * 1000) % len(OPENINGS)]
        sentence = f"{opening}{sentence[0].lower()}{sentence[1:]}"
    sentence = sentence.removesuffix(".")
    return f"{sentence[0].upper()}{sentence[1:]} {citations}."


def _borrowed(question: Question, passages: Sequence[RetrievedPassage], choice: float) -> tuple[str, str] | None:
    """Return an amount of the gold answer's kind from the wrong passages, and its citation."""
    wanted = AMOUNT.search(question.answer)
    if wanted is None:
        return None
    unit = _unit(wanted[0])
    found = [
        (amount[0], _cite(sentence))
        for passage in passages
        for sentence in _sentences(passage)
        for amount in AMOUNT.finditer(" ".join(sentence.text.split()))
        if _unit(amount[0]) == unit and amount[0] not in question.answer
    ]
    return found[int(choice * 1000) % len(found)] if found else None


def _unit(amount: str) -> str:
    return "£" if amount.startswith("£") else amount.lstrip("0123456789,. ")


def _sentences(passage: RetrievedPassage) -> Iterator[Sentence]:
    return split_sentences(PageText(passage.document, passage.page or 1, passage.start or 0, passage.text))


if __name__ == "__main__":
    main()
