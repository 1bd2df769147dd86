"""English prose of the bundled benchmarks, what happens to its copies, and what printing does to it."""

import random
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import NamedTuple

from rag_eval_pipeline.corpus.text.alignment import Located
from tests.conftest import BUNDLED

PARAGRAPH_LENGTH_MIN = 150  # characters; what is shorter is a caption or a line of a list


class Article(NamedTuple):
    name: str
    paragraphs: list[str]


def articles(folder: Path, *, paragraphs_min: int = 4) -> list[Article]:
    """The articles below a folder of HTML pages, without those that have hardly any prose."""
    found = [Article(path.stem, paragraphs(path.read_bytes())) for path in sorted(folder.rglob("*.html"))]
    return [article for article in found if len(article.paragraphs) >= paragraphs_min]


def bundled_articles() -> list[Article]:
    return [article for name in sorted(BUNDLED) for article in articles(BUNDLED[name])]


def paragraphs(page: bytes) -> list[str]:
    """The longer paragraphs of an HTML page, each once, without the marks of its notes."""
    text = page.decode("utf-8", "ignore")
    bodies = re.findall(r"<p\b[^>]*>(.*?)</p>", text, re.S | re.I)
    plain = (re.sub(r"<sup\b.*?</sup>|<style\b.*?</style>|<[^>]*>", "", body, flags=re.S) for body in bodies)
    squeezed = (" ".join(unescape(text).split()) for text in plain)
    return list(dict.fromkeys(text for text in squeezed if len(text) >= PARAGRAPH_LENGTH_MIN))


Perturb = Callable[[str, random.Random], str]


def cut(text: str, rng: random.Random) -> str:
    start = rng.randrange(len(text) // 3)
    return re.sub(r"^\d[\d.,]*|[\d.,]*\d$", "", text[start : start + max(60, len(text) // 2)])  # a part is no number


def plain_quotes(text: str, rng: random.Random) -> str:
    return unicodedata.normalize("NFKD", text.translate(str.maketrans("’‘“”—–", "''\"\"--")))


def hyphenated(text: str, rng: random.Random) -> str:
    return re.sub(r"(\w{4})(\w{3,}) ", lambda m: f"{m[1]}-\n{m[2]} " if rng.random() < 0.2 else m[0], text)


NUMBERS = re.compile(r"([-–—−]?[.,]?\d[\d.,\s–—'-]*)")  # which are other numbers after any slip


def slips(text: str, rng: random.Random) -> str:
    return with_slips(text, 0.02, rng, lambda char: rng.choice("abcdefgh"))


def more_slips(text: str, rng: random.Random) -> str:
    return with_slips(text, 0.05, rng, lambda char: rng.choice(["", "x", char + "e"]))


def with_slips(text: str, share: float, rng: random.Random, slip: Callable[[str], str]) -> str:
    parts = NUMBERS.split(text)
    parts[::2] = ("".join(char if rng.random() > share else slip(char) for char in part) for part in parts[::2])
    return "".join(parts)


PERTURBATIONS: dict[str, Perturb] = {
    "as in the source": lambda text, rng: text,
    "cut out of it": cut,
    "other line breaks": lambda text, rng: "\n".join(re.findall(r".{1,60}(?:\s|$)", text)),
    "plain quotes and dashes": plain_quotes,
    "hyphenated line breaks": hyphenated,
    "ligatures": lambda text, rng: text.replace("fi", "ﬁ").replace("fl", "ﬂ"),
    "citation marks": lambda text, rng: re.sub(r"\. ", lambda _: f".[{rng.randrange(99)}] ", text),
    "lower case": lambda text, rng: text.lower(),
    "2 % of characters wrong": slips,
    "5 % of characters wrong": more_slips,
    "10 % of words left out": lambda text, rng: " ".join(word for word in text.split() if rng.random() > 0.1),
}


def marked(text: str, rng: random.Random) -> str:
    """With the marks of notes behind some sentences."""
    return re.sub(r"(?<=[.]) ", lambda _: f"[{rng.randrange(1, 99)}] " if rng.random() < 0.5 else " ", text)


def caption(rng: random.Random, words: Sequence[str], rows: int) -> str:
    """A table with its caption, of an article's own words."""
    cells = (f"{rng.choice(words)} {rng.randrange(9999)} {rng.choice(words)}" for _ in range(rows))
    return "\n".join([f"Table {rng.randrange(1, 20)}: {' '.join(rng.choices(words, k=6))}", *cells])


def printed(article: Article, rng: random.Random, *, lines_a_page: int = 14) -> list[str]:
    """Pages as a PDF gives them: broken lines, marks of notes, and above the text of each page a table of its own."""
    text = "\n".join("\n".join(textwrap.wrap(marked(text, rng), 84)) for text in article.paragraphs)
    lines = [article.name, *text.splitlines()]
    words = " ".join(article.paragraphs).split()
    pages = ["\n".join(lines[at : at + lines_a_page]) for at in range(0, len(lines), lines_a_page)]
    return [pages[0], *(f"{caption(rng, words, rng.randrange(3, 20))}\n{page}" for page in pages[1:])]


def foreign(article: Article, others: Sequence[Article]) -> Iterator[str]:
    """Paragraphs of other articles of which an article has nothing; encyclopedias repeat themselves."""
    own = " ".join(article.paragraphs)
    texts = (text for other in others if other is not article for text in other.paragraphs)
    return (text for text in texts if not any(text[at : at + 40] in own for at in range(0, len(text) - 40, 20)))


def shared(found: Sequence[Located], expected: Sequence[Located]) -> float:
    """Intersection over union of the characters of two results."""
    left, right = ({n for at in places for n in range(at.start, at.end)} for places in (found, expected))
    return len(left & right) / len(left | right)
