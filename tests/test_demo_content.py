"""The bundled benchmarks are what they claim: counts, answers in their documents, gold text that can be found.

The sources are read with csv, json and pyarrow alone, so that a fault of the converter cannot hide one of the data.
"""

import ast
import csv
import json
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
import yaml

SOURCES = Path(__file__).parents[1] / "data" / "sources"
LIGHTS, RAILWAY, OBSERVATORY, SOUND = "tarrow-lights", "skarn-railway", "cairnmoor-observatory", "gannet-sound"
BENCHMARKS = (LIGHTS, RAILWAY, OBSERVATORY, SOUND)
RESERVED_HOSTS = ("example.org", "example.com", ".example")

MAX_FILE_BYTES = 60_000  # a demo that is cloned with the code
MAX_TOTAL_BYTES = 600_000
MAX_PICTURE_BYTES = 15_000
WORDS = range(380, 901)  # of a page: one to four sheets

_SILENT = {"style", "script", "title"}
_INLINE = {"em", "b", "a", "small"}


class _Page(HTMLParser):
    """Visible text, pictures and element names of a page; what `details` folds away counts as visible."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.pictures: list[dict[str, str | None]] = []
        self.elements: Counter[str] = Counter()
        self._silent = 0

    def handle_starttag(self, tag, attrs):
        self.elements[tag] += 1
        self._silent += tag in _SILENT
        self.parts.append("" if tag in _INLINE else " ")
        if tag == "img":
            self.pictures.append(dict(attrs))

    def handle_endtag(self, tag):
        self._silent -= tag in _SILENT
        self.parts.append("" if tag in _INLINE else " ")

    def handle_data(self, data):
        if not self._silent:
            self.parts.append(data)


def plain(text):
    """Text with every run of white space as one space."""
    return " ".join(text.split())


def read_page(path):
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


def visible(path):
    return plain("".join(read_page(path).parts))


def read_csv(path, encoding="utf-8"):
    with path.open(encoding=encoding, newline="") as file:
        return list(csv.DictReader(file, strict=True))


def lights():
    """Rows of the CSV benchmark as (id, question, answer, documents, status)."""
    folder = SOURCES / LIGHTS
    for row in read_csv(folder / "questions.csv", "utf-8-sig"):
        files = row["Source Docs"].split()
        yield row["Ref"], row["Question "], row["Answer"], [folder / "docs" / file for file in files], row["Status "]


def railway():
    return [
        json.loads(line)
        for line in (SOURCES / RAILWAY / "questions.jsonl").read_text(encoding="utf-8").split("\n")
        if line
    ]


def railway_pages():
    pages = json.loads((SOURCES / RAILWAY / "pages.json").read_text(encoding="utf-8"))
    return {page["url"]: SOURCES / RAILWAY / page["file"] for page in pages}


def observatory():
    return pq.read_table(SOURCES / OBSERVATORY / "questions.parquet").to_pylist()


def sound():
    return read_csv(SOURCES / SOUND / "questions.csv")


def mirror():
    return {row["url"]: SOURCES / SOUND / row["file"] for row in read_csv(SOURCES / SOUND / "mirror.csv")}


def spec(name):
    return yaml.safe_load((SOURCES / name / "benchmark.yaml").read_text(encoding="utf-8"))


def pages():
    return sorted(SOURCES.rglob("*.html"))


def test_the_four_benchmarks_are_bundled():
    assert set(BENCHMARKS) <= {folder.name for folder in SOURCES.iterdir()}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_spec_is_named_like_its_folder_and_licensed(name):
    benchmark = spec(name)

    assert benchmark["name"] == name
    assert benchmark["license"] == "Apache-2.0"
    assert (SOURCES / name / benchmark["source"]["path"]).is_file()


def test_questions_are_as_many_as_the_specs_expect():
    accepted = {
        LIGHTS: sum(status != "retired" for *_, status in lights()),
        RAILWAY: len(railway()),
        OBSERVATORY: len(observatory()),
        SOUND: len(sound()),
    }

    assert accepted == {LIGHTS: 16, RAILWAY: 40, OBSERVATORY: 16, SOUND: 18}
    assert accepted == {name: spec(name)["expect"]["questions"] for name in BENCHMARKS}
    assert [ref for ref, *_, status in lights() if status == "retired"] == ["TL-15"]


def test_unanswerable_questions_are_as_many_as_planned():
    assert sum(answer == "" for _, _, answer, *_ in lights()) == 2
    assert sum(row["is_impossible"] for row in railway()) == 8
    assert sum(row["is_impossible"] for row in observatory()) == 4
    assert sum(row["answer"] == "" for row in sound()) == 3


def test_questions_that_need_two_documents_are_as_many_as_planned():
    assert sum(len(files) == 2 for *_, files, _ in lights()) == 2
    assert sum(len({evidence["url"] for evidence in row["evidence"]}) == 2 for row in railway()) == 6
    assert sum(len(set(row["supporting_facts"]["title"])) == 2 for row in observatory()) == 4
    assert sum(len(ast.literal_eval(row["wiki_links"])) == 2 for row in sound()) == 3


@pytest.mark.parametrize(
    "ids",
    [
        [ref for ref, *_ in lights()],
        [row["id"] for row in railway()],
        [row["id"] for row in observatory()],
        [row["number"] for row in sound()],
    ],
    ids=BENCHMARKS,
)
def test_ids_are_unique(ids):
    assert len(set(ids)) == len(ids)


def test_no_question_is_asked_twice():
    asked = [question for _, question, *_ in lights()] + [
        row["question"] for row in [*railway(), *observatory(), *sound()]
    ]

    assert [question for question, count in Counter(asked).items() if count > 1] == []


def test_the_csv_has_the_corners_it_is_there_for():
    path = SOURCES / LIGHTS / "questions.csv"
    content = path.read_bytes()

    assert content.startswith(b"\xef\xbb\xbf")
    assert content.count(b"\r\n") == 1 + 17
    assert {"Question ", "Source Docs", "Status "} <= set(read_csv(path, "utf-8-sig")[0])
    assert any("\n" in question for _, question, *_ in lights())


def test_answers_of_the_csv_stand_in_a_supporting_document():
    unanswerable_or_retired = [ref for ref, _, answer, _, status in lights() if not answer or status == "retired"]
    found = [
        ref
        for ref, _, answer, files, _ in lights()
        if answer and any(answer.lower() in visible(file).lower() for file in files)
    ]

    assert sorted(found + unanswerable_or_retired) == [ref for ref, *_ in lights()]


def test_gold_sentences_of_the_jsonl_stand_in_their_pages():
    texts = {url: visible(path) for url, path in railway_pages().items()}
    missing = [
        (row["id"], evidence["text"])
        for row in railway()
        for evidence in row["evidence"]
        if texts[evidence["url"]].count(evidence["text"]) != 1
    ]

    assert missing == []


def test_answers_of_the_jsonl_stand_in_their_gold_sentences():
    extractive = [row for row in railway() if not row["is_impossible"] and row["type"] != "comparative"]
    missing = [
        row["id"] for row in extractive if not any(row["answer"] in evidence["text"] for evidence in row["evidence"])
    ]

    assert missing == []


def test_the_jsonl_keeps_to_the_words_of_the_specification():
    for row in railway():
        assert row["type"] in {"factual", "analytical", "comparative", "temporal"}
        assert row["difficulty"] in {"easy", "medium", "hard"}
        assert bool(row["answer"]) == bool(row["evidence"]) == (not row["is_impossible"])


def test_a_title_of_the_parquet_has_one_body():
    bodies = {}
    for row in observatory():
        for title, sentences in zip(row["context"]["title"], row["context"]["sentences"], strict=True):
            assert bodies.setdefault(title, sentences) == sentences

    assert len(bodies) == 7


def test_facts_of_the_parquet_point_at_sentences_and_hold_the_answer():
    for row in observatory():
        context = dict(zip(row["context"]["title"], row["context"]["sentences"], strict=True))
        facts = zip(row["supporting_facts"]["title"], row["supporting_facts"]["sent_id"], strict=True)
        gold = [context[title][number] for title, number in facts]

        assert bool(gold) == bool(row["answer"]) == (not row["is_impossible"])
        assert not gold or row["type"] == "comparative" or any(row["answer"] in sentence for sentence in gold), row[
            "id"
        ]


def test_answers_of_the_url_list_stand_in_a_linked_page():
    documents = mirror()
    missing = [
        row["number"]
        for row in sound()
        if row["answer"]
        and not any(row["answer"] in visible(documents[url]) for url in ast.literal_eval(row["wiki_links"]))
    ]

    assert missing == []


def test_the_url_list_has_the_corners_it_is_there_for():
    linked = {url for row in sound() for url in ast.literal_eval(row["wiki_links"])}
    parts = [urlsplit(url) for url in linked]

    assert linked == set(mirror())
    for corner in ("%20", "%E2%80%93", "%C3%A9", "'", "(", ")", "?id=5", "?id=6"):
        assert any(corner in url for url in linked), corner
    assert {part.fragment for part in parts if part.path.endswith("/Harbour")} == {"Pilotage", "Moorings"}
    assert {part.path for part in parts if part.path.endswith("/Overview")} == {"/guide/Overview", "/almanac/Overview"}
    assert any(part.path.endswith("/") for part in parts)


def test_urls_are_of_reserved_hosts():
    hosts = {urlsplit(url).hostname for url in [*mirror(), *railway_pages()]}

    assert [host for host in hosts if not host.endswith(RESERVED_HOSTS)] == []


def test_every_document_exists_and_every_page_is_a_document():
    named = (
        {file for *_, files, _ in lights() for file in files} | set(railway_pages().values()) | set(mirror().values())
    )

    assert [str(path) for path in named if not path.is_file()] == []
    assert set(pages()) == named


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_page_has_its_pictures_and_its_length(path):
    page = read_page(path)

    assert len("".join(page.parts).split()) in WORDS
    for picture in page.pictures:
        source = path.parent / picture["src"]
        assert source.is_file()
        assert source.stat().st_size < MAX_PICTURE_BYTES
        assert picture["alt"]


@pytest.mark.parametrize("name", [LIGHTS, RAILWAY, SOUND])
def test_pages_have_the_structure_that_printing_must_keep(name):
    read = [read_page(path) for path in pages() if name in path.parts]
    elements = sum((page.elements for page in read), Counter())
    pictures = [picture for page in read for picture in page.pictures]

    assert elements["table"] >= 5
    assert elements["details"] >= 1
    assert any(picture.get("loading") == "lazy" for picture in pictures)
    assert {Path(picture["src"]).suffix for picture in pictures} == {".png", ".svg"}


def test_every_picture_is_used():
    used = {path.parent / picture["src"] for path in pages() for picture in read_page(path).pictures}

    assert {path for name in BENCHMARKS for path in (SOURCES / name).rglob("img/*")} == used


def test_the_demo_is_small():
    sizes = {path: path.stat().st_size for name in BENCHMARKS for path in (SOURCES / name).rglob("*") if path.is_file()}

    assert [str(path) for path, size in sizes.items() if size > MAX_FILE_BYTES] == []
    assert sum(sizes.values()) < MAX_TOTAL_BYTES
