"""The elements of an XML file that repeat are rows of objects, whatever its encoding; nothing in it is expanded."""

from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.sources.format_detection import SAMPLE_BYTES
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.sources.source_spec import SourceSpec
from tests.conversion.conftest import HEAD, write_benchmark

QA = '<doc id="7"><qa n="1"><q>A?</q></qa>{}</doc>'
ROWS = {
    "attributes are columns": ('<posts><row Id="1" Body=""/><row Id="2"/></posts>', {}, [{"Id": "1", "Body": ""}, {"Id": "2", "Body": None}]),
    "an attribute called like a child": ('<x><r id="1"><id>k</id></r></x>', {"root": "x.r"}, [{"@id": "1", "id": "k"}]),
    "text with markup in it": ('<x><r n="1"> See <b>this</b>\n page. </r></x>', {"root": "x.r"}, [{"n": "1", "b": "this", "#text": "See this\n page."}]),
    "CDATA, comments, references and layout": ("<x>\n<r>\n <q><!-- a -->&lt;&#65;<![CDATA[<&]]>\n</q>\n</r><r><q/></r></x>", {}, [{"q": "<A<&"}, {"q": None}]),
    "elements without parts": ("<x><r>1</r><r>2</r></x>", {"root": "x.r"}, [{"#text": "1"}, {"#text": "2"}]),
    "a tag that one row repeats": ("<x><r><t>1</t><t>2</t></r><r><t>3</t></r><r/></x>", {}, [{"t": ["1", "2"]}, {"t": ["3"]}, {"t": None}]),
    "namespaces": ('<a:x xmlns:a="urn:a"><a:r a:k="1"/><a:r a:k="2"/></a:x>', {}, [{"a:k": "1"}, {"a:k": "2"}]),
    "the outermost list, without texts": (QA.format("<qa><q>B?</q></qa><s/><s/>"), {}, [{"n": "1", "q": "A?"}, {"n": None, "q": "B?"}]),
    "the whole document": (QA.format(""), {"root": "$"}, [{"id": "7", "qa": {"n": "1", "q": "A?"}}]),
    "a declared encoding": ('<?xml version="1.0" encoding="Shift_JIS"?><x><r q="駅"/><r q="港"/></x>'.encode("shift_jis"), {}, [{"q": "駅"}, {"q": "港"}]),
    "a stated encoding": ('<?xml version="1.0"?><x><r q="é"/><r q="è"/></x>'.encode("cp1252"), {"encoding": "cp1252"}, [{"q": "é"}, {"q": "è"}]),
    "UTF-16 by its mark": ('<x><r q="駅"/><r q="港"/></x>'.encode("utf-16"), {}, [{"q": "駅"}, {"q": "港"}]),
    "UTF-8 that says UTF-16": ('<?xml version="1.0" encoding="utf-16"?><x><r q="駅"/><r q="港"/></x>', {}, [{"q": "駅"}, {"q": "港"}]),
}  # fmt: skip


def read(folder, content, **stated):
    return read_relation(write_benchmark(folder, HEAD, {"q.xml": content}), SourceSpec(path=("q.xml",), **stated))


@pytest.mark.parametrize(("content", "stated", "expected"), ROWS.values(), ids=ROWS)
def test_xml_elements_are_rows(tmp_path, content, stated, expected):
    assert read(tmp_path, content, **stated).table.to_pylist() == expected


REFUSED = {
    "entities": ('<!DOCTYPE x [<!ENTITY a "aa">]><x><r q="&a;"/><r/></x>', {}, "bad_xml", "without a document type"),
    "a file from elsewhere": ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', {}, "bad_xml", "without a document type"),
    "an unknown entity": ("<x>\n<r>&nbsp;</r></x>", {}, "bad_xml", "undefined entity: line 2, column 3"),
    "a cut file": ('<x>\n<r i="1"/>\n<r', {}, "bad_xml", "unclosed token: line 3, column 0"),
    "thousands of levels": ("<x>\n" + "<a>" * 20_000, {}, "bad_xml", "at most 200 nested elements, found 'more on line 2"),
    "an encoding that is none": ('<?xml version="1.0" encoding="base64"?><x/>', {}, "bad_encoding", "base64 text"),
    "bytes of another encoding": ("<x>é</x>".encode("latin-1"), {}, "bad_encoding", "state `encoding`"),
    "two lists": ('<x><q i="1"/><q/><d i="1"/><d/></x>', {}, "missing_root", "found 'x.q, x.d' [missing_root]. State `root: x.q`"),
    "no list": (QA.format(""), {}, "missing_root", "State `root: $`"),
    "another root": ('<x><r i="1"/><r/></x>', {"root": "x.s"}, "missing_root", "elements of `root: x.s`, found 'x.r'"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "stated", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_xml_is_refused_with_the_place(tmp_path, content, stated, code, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, content, **stated)
    assert caught.value.code == code
    assert message in str(caught.value)


def test_xml_documents_of_a_folder_have_one_shape_and_a_broken_one_is_a_rejected_row(tmp_path):
    files = {"a/1.xml": QA.format(""), "a/2.xml": "<doc>\n<qa>", "b/1.xml": QA.format("<qa><q>B?</q></qa>")}
    paths = write_benchmark(tmp_path, HEAD, files)
    found = read_relation(paths, SourceSpec(path=("*/*.xml",), root="doc"))

    first = {"n": "1", "q": "A?"}
    expected = [{"id": "7", "qa": [first]}, {"id": "7", "qa": [first, {"n": None, "q": "B?"}]}]
    assert found.table.to_pylist() == expected
    assert [(row.file, row.code, row.found) for row in found.rejected] == [
        ("a/2.xml", "bad_xml", "'no element found: line 2, column 4'")
    ]


def test_xml_of_any_size_keeps_lines_and_lists(tmp_path):
    rows = [f'<row Id="{n}">\n<t>{"x" * 100}</t><t/>\n</row>\n' for n in range(SAMPLE_BYTES // 100)]
    content = "\ufeff<posts>\n" + "".join(rows) + '<row Id="last"><t>y</t></row></posts>'
    found = read(tmp_path, content)

    assert found.table.num_rows == len(rows) + 1
    assert found.table.slice(len(rows)).to_pylist() == [{"Id": "last", "t": ["y"]}]
    assert [found.line("q.xml", row) for row in (1, 2, len(rows) + 1)] == [2, 5, 2 + 3 * len(rows)]
    with pytest.raises(InputError, match=rf"'no element found: line {2 + 3 * len(rows)}, column"):
        read(tmp_path, content.removesuffix("</posts>"))


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1)
PLAIN = TEXT.filter(lambda text: text == text.strip(" "))
RECORDS = st.lists(st.fixed_dictionaries({"id": TEXT, "q": PLAIN, "a": st.lists(PLAIN, min_size=1)}), min_size=2)


@given(RECORDS, st.sampled_from(["utf-8", "utf-16", "ascii", "cp1252", "gb18030"]))
def test_xml_rows_come_back(tmp_path_factory, records, encoding):
    def element(record):
        answers = "".join(f"<a>{escape(answer)}</a>" for answer in record["a"])
        return f"<row id={quoteattr(record['id'])}><set>{answers}</set><q>\n{escape(record['q'])} </q></row>"

    text = f'<?xml version="1.0" encoding="{encoding}"?><rows>{"".join(map(element, records))}</rows>'
    found = read(tmp_path_factory.mktemp("xml"), text.encode(encoding, "xmlcharrefreplace"))

    is_list = any(len(record["a"]) > 1 for record in records)
    assert found.table.to_pylist() == [
        {"id": record["id"], "set": {"a": record["a"] if is_list else record["a"][0]}, "q": record["q"]}
        for record in records
    ]
