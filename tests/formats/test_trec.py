"""TREC files are read as trec_eval reads them, strictly, and what is written is read again."""

import gzip
import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.trec import (
    Qrel,
    RunLine,
    Topic,
    checked_qrels,
    checked_topics,
    decode_id,
    encode_id,
    iterate_qrels,
    iterate_run,
    iterate_topics,
    read_qrels,
    read_run,
    write_qrels,
    write_run,
    write_topics,
)
from rag_eval_pipeline.metrics.retrieval.scoring import rank_by_score, score_rankings

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1)
# Pieces that meet each other's escapes: white space, its escapes, escapes of escapes, escapes of something else.
PIECES = st.sampled_from(
    ["a", " ", "\t", "\n", "\r", "\0", "\x85", "\xa0", "\u2028", "%", "%20", "%25", "%2520", "%C2", "%C2%A0", "%A0",
     "%09", "20", "25", "%41", "%c2%a0", '"', "#", "'", ".pdf", "é"]
)  # fmt: skip
NAMES = st.one_of(TEXT, st.lists(PIECES, min_size=1, max_size=8).map("".join))
FINITE = st.floats(allow_nan=False)
QUERY_NAMES = NAMES.filter(lambda name: not name.startswith("#"))  # such a line is a comment
FAST = st.lists(st.tuples(QUERY_NAMES, NAMES), max_size=6, unique=True)

ENCODED = {
    #                                        name                       id
    "a plain name":                         ("Report_2023.pdf",         "Report_2023.pdf"),
    "a space":                              ("a b.pdf",                 "a%20b.pdf"),
    "what a space would become":            ("a%20b.pdf",               "a%2520b.pdf"),
    "what that would become":               ("a%2520b.pdf",             "a%252520b.pdf"),
    "an escape of something else":          ("caf%C3%A9%27.pdf",        "caf%C3%A9%27.pdf"),
    "a bare per cent sign":                 ("100%.pdf",                "100%.pdf"),
    "an escaped per cent sign":             ("100%25.pdf",              "100%25.pdf"),
    "a no-break space":                     ("a\xa0b",                  "a%C2%A0b"),
    "tab and line break":                   ("a\tb\nc",                 "a%09b%0Ac"),
    "quotes, hash, letters of anywhere":    ('"#\'é漢.pdf',             '"#\'é漢.pdf'),
}  # fmt: skip


@pytest.mark.parametrize(("name", "identifier"), ENCODED.values(), ids=ENCODED)
def test_ids_change_only_where_white_space_would_split_them(name, identifier):
    assert encode_id(name) == identifier
    assert decode_id(identifier) == name


@given(NAMES)
@example("%25\xa0%2520 %")
def test_every_name_comes_back_from_an_id_without_white_space(name):
    identifier = encode_id(name)

    assert decode_id(identifier) == name
    assert len(identifier.split()) == 1
    assert "\0" not in identifier


@pytest.mark.parametrize("suffix", ["", ".gz"])
@given(pairs=FAST, grade=st.integers(-3, 9))
def test_qrels_are_read_as_they_were_written(pairs, grade, suffix, tmp_path_factory):
    path = tmp_path_factory.mktemp("trec") / f"qrels.txt{suffix}"
    qrels = [Qrel(encode_id(query), encode_id(document), grade) for query, document in pairs]

    assert write_qrels(path, qrels) == len(qrels)
    assert list(iterate_qrels(path)) == qrels
    assert [(decode_id(q.query_id), decode_id(q.document_id)) for q in iterate_qrels(path)] == pairs


@given(pairs=FAST, scores=st.lists(FINITE, min_size=6, max_size=6))
def test_runs_are_read_as_they_were_written_to_the_last_digit(pairs, scores, tmp_path_factory):
    path = tmp_path_factory.mktemp("trec") / "run.txt"
    pairs = [(encode_id(query), encode_id(document)) for query, document in pairs]
    run = [RunLine(*pair, rank, score, "tag") for rank, (pair, score) in enumerate(zip(pairs, scores, strict=False))]

    assert write_run(path, run) == len(run)
    assert list(iterate_run(path)) == run


@given(texts=st.dictionaries(NAMES, st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1)))
def test_topics_are_read_as_they_were_written(texts, tmp_path_factory):
    path = tmp_path_factory.mktemp("trec") / "topics.tsv"
    topics = [Topic(encode_id(query), f"x{text}") for query, text in texts.items()]

    assert write_topics(path, topics) == len(topics)
    assert list(iterate_topics(path)) == topics


def test_equal_content_gives_equal_compressed_bytes(tmp_path):
    for name in ("one.gz", "two.gz"):
        write_qrels(tmp_path / name, [Qrel("1", "a", 1)])

    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.gz").read_bytes()) == b"1 0 a 1\n"


# What trec_eval 10 reads, and the value that it has there.
READ_RUN_LINES = {
    "fields after the tag":      (b"1 Q0 a 1 0.5 tag more and more",  RunLine("1", "a", 1, 0.5, "tag")),
    "a rank that is a word":     (b"1 Q0 a first 0.5 t",              RunLine("1", "a", None, 0.5, "t")),
    "a rank beyond 64 bits":     (b"1 Q0 a 99999999999999999999 2 t", RunLine("1", "a", None, 2.0, "t")),
    "tabs, blanks and CR":       (b"\t1 \tQ0\x0b a  1\t.5 t \r",      RunLine("1", "a", 1, 0.5, "t")),
    "beyond the largest float":  (b"1 Q0 a 1 1e999 t",                RunLine("1", "a", 1, math.inf, "t")),
    "minus infinity, written out": (b"1 Q0 a 1 -Infinity t",          RunLine("1", "a", 1, -math.inf, "t")),
    "a hexadecimal number":      (b"1 Q0 a 1 0x1.8p1 t",              RunLine("1", "a", 1, 3.0, "t")),
    "a query that begins with #": (b"1# Q0 #a 1 1 #",                 RunLine("1#", "#a", 1, 1.0, "#")),
}  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), READ_RUN_LINES.values(), ids=READ_RUN_LINES)
def test_a_line_of_a_run_that_trec_eval_reads_is_read_with_its_value(line, expected, tmp_path):
    path = tmp_path / "run.txt"
    path.write_bytes(b"# a comment\n\n \t\r\n  # another\n" + line + b"\n#\n \n")
    assert list(iterate_run(path)) == [expected]


def test_comments_of_qrels_are_passed_over_and_a_whole_grade_may_have_a_point(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_bytes(b"# judged by hand\n# twice\n1 0 a 1.0\n#2 0 a 1\n1 0 b +2.\n# end")
    assert list(iterate_qrels(path)) == [Qrel("1", "a", 1), Qrel("1", "b", 2)]


QRELS = {
    #                             line                              code
    "three fields":              (b"1 0 a\n",                       "bad_fields"),
    "five fields":               (b"1 0 a b 1\n",                   "bad_fields"),
    "an empty line":             (b"\n",                            "bad_fields"),
    "a grade that is a word":    (b"1 0 a yes\n",                   "bad_number"),
    "a grade with a fraction":   (b"1 0 a 1.5\n",                   "bad_number"),
    "a comment after a blank":   (b" # 1\n",                        "bad_fields"),
    "a grade with a low line":   (b"1 0 a 1_0\n",                   "bad_number"),
    "Arabic digits":             ("1 0 a ١\n".encode(),             "bad_number"),
    "a grade beyond 64 bits":    (b"1 0 a 99999999999999999999\n",  "bad_number"),
    "bytes that are no UTF-8":   (b"1 0 \xff 1\n",                  "bad_encoding"),
    "the first line once more":  (b"0 0 first 0\n",                 "duplicate_document"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "code"), QRELS.values(), ids=QRELS)
def test_a_bad_line_of_qrels_is_named_by_its_number(line, code, tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_bytes(b"0 0 first 1\n" + line)

    with pytest.raises(InputError) as error:
        list(iterate_qrels(path))

    assert (error.value.code, error.value.row, error.value.file) == (code, 2, str(path))
    assert "\n" not in str(error.value)


RUNS = {
    "no tag":                    (b"1 Q0 a 1 0.5\n",                "bad_fields"),
    "not a number":              (b"1 Q0 a 1 NaN t\n",              "bad_score"),
    "minus not a number":        (b"1 Q0 a 1 -nan t\n",             "bad_score"),
    "a decimal comma":           (b"1 Q0 a 1 0,5 t\n",              "bad_number"),
    "a word":                    (b"1 Q0 a 1 high t\n",             "bad_number"),
    "half a hexadecimal number": (b"1 Q0 a 1 0x t\n",               "bad_number"),
    "a low line":                (b"1 Q0 a 1 1_0 t\n",              "bad_number"),
    "the first line once more":  (b"0 Q0 first 9 0.1 t\n",          "duplicate_document"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "code"), RUNS.values(), ids=RUNS)
def test_a_bad_line_of_a_run_is_named_by_its_number(line, code, tmp_path):
    path = tmp_path / "run.txt"
    path.write_bytes(b"0 Q0 first 1 1.0 t\n" + line)

    with pytest.raises(InputError) as error:
        list(iterate_run(path))

    assert (error.value.code, error.value.row) == (code, 2)


TOPICS = {
    #                               file                                                             code               row
    "no tab":                      ("1\ttext\n2 text\n",                                            "bad_fields",      2),
    "no text":                     ("1\ttext\n2\t \n",                                              "bad_fields",      2),
    "two tabs":                    ("1\ttext\n2\ta\tb\n",                                           "bad_fields",      2),
    "an id twice":                 ("1\ttext\n1\tother\n",                                          "duplicate_query", 2),
    "a topic without a number":    ("<top>\n<title> a\n</top>\n",                                   "bad_topic",       1),
    "a topic without a title":     ("<top>\n<num> 1\n</top>\n",                                     "bad_topic",       1),
    "a topic that does not end":   ("<top>\n<num> 1\n<title> a\n",                                  "bad_topic",       1),
    "a topic inside another":      ("<top>\n<num> 1\n<top>\n<num> 2\n<title> b\n</top>\n",          "bad_topic",       1),
    "text between topics":         ("<top>\n<num> 1\n<title> a\n</top>\nx\n",                       "bad_topic",       5),
    "a number twice":              ("<top><num>1<title>a</top>\n<top><num>1<title>b</top>\n",       "duplicate_query", 2),
}  # fmt: skip


@pytest.mark.parametrize(("text", "code", "row"), TOPICS.values(), ids=TOPICS)
def test_bad_topics_are_named_by_their_line(text, code, row, tmp_path):
    path = tmp_path / "topics"
    path.write_text(text)

    with pytest.raises(InputError) as error:
        list(iterate_topics(path))

    assert (error.value.code, error.value.row) == (code, row)
    assert str(error.value) in [str(one) for one in checked_topics(path) if isinstance(one, InputError)]


def test_topics_of_the_tracks_lose_their_labels_and_keep_their_parts(tmp_path):
    path = tmp_path / "topics.301-302"
    path.write_text(
        "\n<top>\n\n<num> Number: 301 \n<title> International Organized Crime \n\n<desc> Description: \n"
        "Identify organizations that participate\nin crime.\n\n<narr> Narrative: \nA relevant document must\nname one.\n"
        "\n</top>\n\n<TOP>\n<head> Tipster\n<num>302</num>\n<title> Topic: Poliomyelitis </title>\n</TOP>\n"
    )

    assert list(iterate_topics(path)) == [
        Topic(
            "301", "International Organized Crime", "Identify organizations that participate in crime.",
            "A relevant document must name one.",
        ),
        Topic("302", "Poliomyelitis"),
    ]  # fmt: skip


def test_every_fault_of_a_file_is_a_finding_and_not_only_the_first(tmp_path):
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("1 0 a 1\n1 0 a 1\n2 0 b x\n2 0 c 1\n")

    found = list(checked_qrels(qrels))

    assert [(one.row, one.field) for one in found if isinstance(one, InputError)] == [(2, "document id"), (3, "grade")]
    assert [one for one in found if not isinstance(one, InputError)] == [Qrel("1", "a", 1), Qrel("2", "c", 1)]


def test_a_repeat_is_found_when_the_lines_of_a_query_do_not_stand_together(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("1 0 a 1\n2 0 a 1\n1 0 b 1\n2 0 b 1\n1 0 c 1\n2 0 a 0\n1 0 a 0\n")

    assert [one.row for one in checked_qrels(path) if isinstance(one, InputError)] == [6, 7]


WHOLE_FILES = {
    "no file":                      (None,                                       "missing_file"),
    "a gzip file that was cut":     (gzip.compress(b"1 0 a 1\n")[:-9],           "bad_gzip"),
    "gzip by its first bytes only": (b"\x1f\x8bxyz",                             "bad_gzip"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "code"), WHOLE_FILES.values(), ids=WHOLE_FILES)
def test_a_file_that_cannot_be_read_is_one_line(content, code, tmp_path):
    path = tmp_path / "qrels.txt.gz"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InputError) as error:
        list(iterate_qrels(path))

    assert error.value.code == code


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "qrels.txt.gz"
    path.write_bytes(gzip.compress(b"x" * (17 * 1024 * 1024), 1))

    with pytest.raises(InputError) as error:
        list(iterate_qrels(path))

    assert error.value.code == "long_line"


def test_other_peoples_line_ends_and_byte_order_marks_are_no_content(tmp_path):
    path = tmp_path / "topics.tsv"
    path.write_bytes(b"\xef\xbb\xbf1\tone\r\n2\ttwo")

    assert list(iterate_topics(path)) == [Topic("1", "one"), Topic("2", "two")]


@pytest.mark.parametrize("identifier", ["", "a b", "a\tb", "a\xa0b", "a\0b"])
def test_an_id_that_would_split_is_not_written(identifier, tmp_path):
    path = tmp_path / "qrels.txt"

    with pytest.raises(InputError) as error:
        write_qrels(path, [Qrel("1", "good", 1), Qrel("1", identifier, 1)])

    assert error.value.code == "bad_id"
    assert not path.exists()


def test_a_query_whose_lines_would_be_comments_is_not_written(tmp_path):
    for write, record in ((write_qrels, Qrel("#1", "a", 1)), (write_run, RunLine("#1", "a", 1, 0.5, "t"))):
        with pytest.raises(InputError) as error:
            write(tmp_path / "file.txt", [record])
        assert (error.value.code, error.value.field) == ("bad_id", "query id")


def test_not_a_number_and_broken_lines_are_not_written(tmp_path):
    with pytest.raises(InputError) as score:
        write_run(tmp_path / "run.txt", [RunLine("1", "a", 1, float("nan"), "t")])
    with pytest.raises(InputError) as text:
        write_topics(tmp_path / "topics.tsv", [Topic("1", "two\nlines")])

    assert (score.value.code, text.value.code) == ("bad_score", "bad_topic")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_ranx_files_hold_what_their_json_holds(suffix, shared):
    folder = shared / "oracles" / "ranx"

    assert read_qrels(folder / f"qrels.trec{suffix}") == json.loads((folder / "qrels.json").read_text())
    run = {query: dict(scored) for query, scored in read_run(folder / f"run.trec{suffix}").items()}
    assert run == json.loads((folder / "run.json").read_text())


def test_trec_evals_own_files_are_read_whole_and_score_as_it_printed(shared):
    folder = shared / "oracles" / "trec_eval"
    if not folder.is_dir():
        pytest.skip("no trec_eval files: nothing to compare with")

    qrels, run = read_qrels(folder / "qrels.test"), read_run(folder / "results.test")

    assert (sum(map(len, qrels.values())), sum(map(len, run.values()))) == (3681, 1500)  # wc -l
    scores = score_rankings([(rank_by_score(run[query]), grades) for query, grades in qrels.items()], ["map"])
    printed = [line.split() for line in (folder / "out.test.aq").read_text().splitlines()]
    expected = {query: text for measure, query, text in printed if measure == "map" and query != "all"}
    assert {query: f"{score['map']:.4f}" for query, score in zip(qrels, scores, strict=True)} == expected
