"""A name means a document of the corpus only if it can be no other document: not a page of another host."""

import pytest

from rag_eval_pipeline.corpus.document_names import DocumentNames, read_name_map
from rag_eval_pipeline.corpus.naming import document_key
from rag_eval_pipeline.errors import InputError

URLS = {
    "Ada_Lovelace.pdf": "https://en.wikipedia.org/wiki/Ada_Lovelace",
    "Introduction.pdf": "https://docs.example/v1/introduction",
    "view.pdf": "https://files.example/view?id=4",
    "app.pdf": "https://app.example/#/install",
    "1706.03762.pdf": "https://papers.example/pdf/1706.03762.pdf",
}
FILES = ["my file.md.pdf", "Caf\N{LATIN SMALL LETTER E WITH ACUTE}.md.pdf", "travel policy.md.pdf"]


@pytest.fixture(scope="module")
def aliases():
    found = {name: file for file in (*URLS, *FILES) for name in (file, file.removesuffix(".pdf"))}
    return found | {document_key(url): file for file, url in URLS.items()}


MAPPED = {"KB-0014": "my file.md.pdf", "Business Travel": "travel policy.md.pdf"}
NAMES = {
    #                                    given                                              means
    "its own page":                     ("https://en.wikipedia.org/wiki/Ada_Lovelace",      "Ada_Lovelace.pdf"),
    "with another scheme, a fragment":  ("http://en.wikipedia.org/wiki/Ada_Lovelace#Life",  "Ada_Lovelace.pdf"),
    "elsewhere on its host":            ("https://www.en.wikipedia.org/w/Ada_Lovelace/?a=1", "Ada_Lovelace.pdf"),
    "the page of another edition":      ("https://simple.wikipedia.org/wiki/Ada_Lovelace",  None),
    "the same without a scheme":        ("simple.wikipedia.org/wiki/Ada_Lovelace",          None),
    "a foreign page of the same name":  ("https://spam.example/blog/introduction",          None),
    "another view of its host":         ("https://files.example/view?id=9",                 None),
    "another route of its host":        ("https://app.example/#/billing",                   None),
    "a copy of the corpus's file":      ("http://store.example/corpus/Ada_Lovelace.pdf",    "Ada_Lovelace.pdf"),
    "a mirror of a file with its name": ("https://mirror.example/1706.03762.pdf",           None),
    "a store of files":                 ("s3://bucket/Ada_Lovelace.pdf",                    "Ada_Lovelace.pdf"),
    "a document without URL":           ("https://intranet.example/docs/my%20file.md",      "my file.md.pdf"),
    "percent signs":                    ("my%20file.md",                                    "my file.md.pdf"),
    "a path in percent signs":          ("docs%2Fmy%20file.md",                             "my file.md.pdf"),
    "decomposed letters":               ("cafe\N{COMBINING ACUTE ACCENT}.md",               FILES[1]),
    "an id":                            ("kb-0014",                                         "my file.md.pdf"),
    "an id with the number of a chunk": ("KB-0014#3",                                       "my file.md.pdf"),
    "a title":                          ("Business travel ",                                "travel policy.md.pdf"),
    "an id that is not mapped":         ("KB-0015",                                         None),
}  # fmt: skip


@pytest.mark.parametrize(("given", "means"), NAMES.values(), ids=NAMES)
def test_document_that_a_name_means(given, means, aliases):
    assert DocumentNames(aliases, urls=URLS, mapped=MAPPED).find(given) == means


FAULTS = {
    "an unknown file": ("id,file\nKB-1,my file.md\nKB-2,other.md\n", "unknown_document", 2, "other.md"),
    "a repeated id":   ("id,file\nKB-1,my file.md\nkb-1,my file.md\n", "duplicate_id", 2, "kb-1"),
    "no header":       ("KB-1,my file.md\nKB-2,my file.md\n", "bad_csv", None, "KB-1,my file.md"),
    "a third column":  ("id,title,file\nKB-1,File,my file.md\n", "bad_csv", None, "id,title,file"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code", "row", "found"), FAULTS.values(), ids=FAULTS)
def test_map_of_names_is_refused_with_its_row(text, code, row, found, aliases, tmp_path):
    path = tmp_path / "map.csv"
    path.write_text(text)

    with pytest.raises(InputError) as caught:
        read_name_map(path, DocumentNames(aliases))

    assert (caught.value.code, caught.value.row, caught.value.found) == (code, row, repr(found))
