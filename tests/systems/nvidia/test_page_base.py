"""The number of a first page is found where the evidence agrees, and nowhere else."""

import pytest

from rag_eval_pipeline.systems.base import PageText
from rag_eval_pipeline.systems.nvidia_ingest import StoredNames
from rag_eval_pipeline.systems.nvidia_replies import Sighting, base_of, find_sightings, make_probes

FIRST = "The Marsh Point light was first lit on 3 May 1887 by Ada Thorne, and its tower is 31 metres tall."
SECOND = "The keeper of the light in 1911 was Jonas Fell, who kept bees and goats on the small island of Corran."
PAGES = {
    "light.pdf": [PageText("light.pdf", 1, 0, FIRST), PageText("light.pdf", 2, 99, SECOND)],
    "twins.pdf": [PageText("twins.pdf", 1, 0, FIRST), PageText("twins.pdf", 2, 99, FIRST)],
}
NAMES = StoredNames(["light.pdf", "twins.pdf"])

EVIDENCE = {
    #                                     stated, actual                    base
    "counted from 1":                     ([(1, 1), (2, 2), (5, 5)],        1),
    "counted from 0":                     ([(0, 1), (1, 2), (4, 5)],        0),
    "one page, called 0":                 ([(0, 1)],                        0),
    "one in five on a page's edge":       ([(2, 2), (3, 3), (4, 4), (5, 5), (6, 5)], 1),
    "0 for want of a number":             ([(0, 1), (0, 2), (0, 5)],        None),
    "numbers of something else":          ([(7, 1), (3, 2)],                None),
    "nothing found":                      ([],                              None),
}  # fmt: skip


@pytest.mark.parametrize(("evidence", "expected"), EVIDENCE.values(), ids=EVIDENCE)
def test_the_base(evidence, expected):
    assert base_of([Sighting(*pair) for pair in evidence]) == expected


def result(text, page, name="light.pdf", kind="text"):
    content = text if kind == "text" else "aGVsbG8="
    return {
        "document_name": name,
        "document_type": kind,
        "content": content,
        "metadata": {"page_number": page, "description": text},
    }


RESULTS = {
    "the text of a page":           (result(SECOND, 1),                              [(1, 2)]),
    "spaces and hyphens differ":    (result(SECOND.replace(" ", "\n").replace("island", "is-land"), 1), [(1, 2)]),
    "a picture's description":      (result(SECOND, 2, kind="table"),                [(2, 2)]),
    "a text across two pages":      (result(f"{FIRST} {SECOND}", 1),                 []),
    "a text of neither page":       (result("No such words anywhere at all, not on any page of this document.", 1), []),
    "too short to know":            (result("Jonas Fell", 1),                        []),
    "an unknown document":          (result(SECOND, 1, name="other.pdf"),            []),
    "a text of both pages":         (result(FIRST, 1, name="twins.pdf"),             []),
    "an unknown page":              (result(SECOND, -1),                             []),
    "no page":                      (result(SECOND, None),                           []),
    "no result":                    ("text",                                         []),
}  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), RESULTS.values(), ids=RESULTS)
def test_a_passage_is_seen_where_its_text_stands_once(found, expected):
    assert [tuple(sighting) for sighting in find_sightings([found], PAGES, NAMES)] == expected


def test_late_pages_of_the_longest_documents_are_searched_for():
    def pages(name, count):
        return [PageText(name, number, 0, f"{name} {number}") for number in range(1, count + 1)]

    by_document = {name: pages(name, count) for name, count in {"a": 1, "b": 4, "c": 2, "d": 2}.items()}

    assert list(make_probes(by_document)) == ["b 2", "b 4", "c 2", "d 2"]


def test_pages_without_text_are_not_searched_for():
    assert list(make_probes({"scan.pdf": [PageText("scan.pdf", 1, 0, " \n")]})) == []
