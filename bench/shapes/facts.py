"""The facts that all shapes are made of, and the form in which a shape states what its files mean.

All texts are invented. Only the shape is a public one's: names of files and columns, types, nesting, typical dirt.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

Files = dict[str, str | bytes]
Documents = Mapping[str, tuple[str, ...] | None]


class Gold(NamedTuple):
    """A document that supports an answer."""

    document: str | None  # key in `Right.documents`; None for a text without a document
    texts: tuple[str | None, ...] = (None,)  # acceptable gold texts; None: the document as a whole
    page: int | None = None  # from 1


class Asked(NamedTuple):
    """A question; its options may be asked with it."""

    question: str
    answers: tuple[str, ...] | None  # all that are accepted; () if a correct system abstains, None if none is stated
    gold: tuple[Gold, ...] = ()
    options: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()  # what a right answer states, where there is no answer


class Right(NamedTuple):
    """A right reading of the files."""

    asked: tuple[Asked, ...]
    # The corpus: None for a file or a URL, whose name is the key, or the parts of a text that stands in a cell.
    documents: Documents = {}
    is_bare: bool = False  # the texts may also be gold texts without a document


class Shape(NamedTuple):
    """Files, and the readings of them that are right.

    Without a reading the files hold no benchmark: the only right proposal is one that says so.
    """

    files: Files
    right: tuple[Right, ...]
    # Changes of benchmark.yaml that a person would make: its keys, or fields of `questions` with their SQL.
    edits: Mapping[str, str] = {}


HUTS = {
    # name              built   altitude  keeper
    "Kestrel Hut":      ("1891", "2410", "Oda Ferrant"),
    "Ångvik Shelter":   ("1926", "1187", "Per Lindqvåg"),
    "Larch Pass House": ("1908", "2065", "Mirta Solé"),
    "Stonecrop Refuge": ("1954", "2730", "Jonas Achterberg"),
}  # fmt: skip
NAMES = list(HUTS)
NEXT = dict(zip(NAMES, NAMES[1:] + NAMES[:1], strict=True))


class Fact(NamedTuple):
    """A sentence of a hut's document, and the question that it answers."""

    hut: str
    question: str
    answer: str
    alias: str
    sentence: str
    wrong: tuple[str, ...]  # answers for the other huts
    page: int  # from 1


def _facts() -> list[Fact]:
    found = []
    for name, (built, altitude, keeper) in HUTS.items():
        others = [HUTS[other] for other in NAMES if other != name]
        years, heights, keepers = zip(*others, strict=True)
        metres = tuple(f"{height} metres" for height in heights)
        found += [
            Fact(name, f"When was {name} built?", built, f"in {built}", f"{name} was built in {built}.", years, 1),
            Fact(
                name, f"At what altitude is {name}?", f"{altitude} metres", f"{altitude} m",
                f"It lies {altitude} metres above the sea.", metres, 2,
            ),
            Fact(
                name, f"Who keeps {name} open in winter?", keeper, keeper.split()[-1],
                f"In winter it is kept open by {keeper}.", keepers, 3,
            ),
        ]  # fmt: skip
    return found


FACTS = _facts()
TEXTS = {name: " ".join(fact.sentence for fact in FACTS if fact.hut == name) for name in HUTS}
BODIES: Documents = {name: (text,) for name, text in TEXTS.items()}
# A question that is answered by yes or no: `is {hut} above 2000 metres`.
IS_HIGH = {name: int(altitude) > 2000 for name, (_, altitude, _) in HUTS.items()}

SHAPES: dict[str, Callable[[], Shape]] = {}


def shape(name: str, source: str) -> Callable[[Callable[[], Shape]], Callable[[], Shape]]:
    """Register a shape under a name; `source` is the public repository, page or dataset card that it was taken from."""

    def register(make: Callable[[], Shape]) -> Callable[[], Shape]:
        assert name not in SHAPES, name
        assert source.startswith("http"), name
        SHAPES[name] = make
        return make

    return register


LANGUAGES = {
    "de": ("Wann wurde die {} erbaut?", "Wie hoch liegt die {}?", "Die {} wurde {} erbaut und liegt auf {} Metern."),
    "ko": ("{}은 언제 지어졌는가?", "{}의 높이는 얼마인가?", "{}은 {}년에 지어졌고 해발 {}미터에 있다."),
    "zh": ("{}建于哪一年?", "{}海拔多少米?", "{}建于{}年,位于海拔{}米处。"),
    "fa": ("{} در چه سالی ساخته شد؟", "ارتفاع {} چند متر است؟", "{} در سال {} ساخته شد و در ارتفاع {} متری است."),
}
LOCAL_NAMES = {
    "de": ("Falkenhütte", "Lärchenklause", "Mauerpfefferhütte"),
    "ko": ("황조롱이산장", "낙엽송산장", "돌나물산장"),
    "zh": ("红隼山屋", "落叶松山屋", "景天山屋"),
    "fa": ("پناهگاه دلیجه", "خانه کاج", "پناهگاه سنگ"),
}


class Paragraph(NamedTuple):
    """A paragraph in another language, and questions with their answers."""

    title: str
    text: str
    asked: tuple[tuple[str, str], ...]


def paragraphs(language: str) -> list[Paragraph]:
    when, height, text = LANGUAGES[language]
    rows = zip(LOCAL_NAMES[language], HUTS.values(), strict=False)
    return [
        Paragraph(name, text.format(name, built, metres), ((when.format(name), built), (height.format(name), metres)))
        for name, (built, metres, _) in rows
    ]


def jsonl(objects: Iterable[object]) -> str:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in objects)


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def table(rows: Sequence[Sequence[object]], delimiter: str = ",") -> str:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


def parquet(rows: list[dict[str, object]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def pdfs(paths: Iterable[str]) -> Files:
    """Files that are documents by their names; a plan does not read them."""
    return dict.fromkeys(paths, b"%PDF-1.7\n")


def stem(hut: str) -> str:
    return hut.upper().replace(" ", "_")


def asked(
    gold: Callable[[Fact], tuple[Gold, ...]] = lambda _: (),
    answers: Callable[[Fact], tuple[str, ...] | None] = lambda fact: (fact.answer,),
) -> tuple[Asked, ...]:
    """Every fact's question."""
    return tuple(Asked(fact.question, answers(fact), gold(fact)) for fact in FACTS)


def within(fact: Fact) -> tuple[Gold, ...]:
    """The hut's text, in which the answer may be marked."""
    return (Gold(fact.hut, (None, fact.answer)),)


def whole(fact: Fact) -> tuple[Gold, ...]:
    return (Gold(fact.hut),)


def sentence(fact: Fact) -> tuple[Gold, ...]:
    """The sentence in the hut's text."""
    return (Gold(fact.hut, (fact.sentence,)),)


def both(fact: Fact) -> tuple[str, ...]:
    return fact.answer, fact.alias
