"""A corpus folder holds documents and nothing else; links are neither followed nor kept."""

import hashlib
import os

import pytest

from rag_eval_pipeline.corpus.builder import CorpusFolder
from rag_eval_pipeline.errors import InputError


def test_folder_publishes_documents_under_all_their_names_readable_as_the_umask_allows(tmp_path):
    old = os.umask(0o022)
    try:
        with CorpusFolder(tmp_path / "c") as folder:
            folder.publish_all([(["a.pdf", "a#x.pdf"], b"one"), (["b.pdf"], b"two")])
            digests = {name: folder.digest(name) for name in ("a.pdf", "a#x.pdf", "b.pdf")}
    finally:
        os.umask(old)

    assert digests == {name: hashlib.sha256((tmp_path / "c" / name).read_bytes()).hexdigest() for name in digests}
    assert (tmp_path / "c" / "a#x.pdf").read_bytes() == b"one"
    assert (tmp_path / "c" / "a.pdf").stat().st_ino == (tmp_path / "c" / "a#x.pdf").stat().st_ino
    assert (tmp_path / "c" / "a.pdf").stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["c"]


@pytest.mark.fault(21, 22)
@pytest.mark.parametrize("name", ["x" * 251 + ".pdf", "é" * 125 + ".pdf", "-rf.pdf", ".a.pdf", "a\\b.pdf", "CON.pdf"])
def test_folder_publishes_and_keeps_long_and_odd_names(tmp_path, name):
    with CorpusFolder(tmp_path / "c") as folder:
        folder.publish_all([([name], b"one")])
        removed = folder.remove_all_but([name])
        digest = folder.digest(name)

    assert (removed, os.listdir(tmp_path / "c")) == ([], [name])
    assert digest == hashlib.sha256(b"one").hexdigest()


def test_folder_removes_what_no_document_owns(tmp_path):
    outside = tmp_path / "outside.pdf"
    outside.write_bytes(b"mine")
    with CorpusFolder(tmp_path / "c") as folder:
        folder.publish_all([(["a.pdf"], b"one")])
        (tmp_path / "c" / ".hidden").write_bytes(b"")
        (tmp_path / "c" / "link.pdf").symlink_to(outside)
        removed = folder.remove_all_but(["a.pdf"])

    assert removed == [".hidden", "link.pdf"]
    assert os.listdir(tmp_path / "c") == ["a.pdf"]
    assert outside.read_bytes() == b"mine"


@pytest.mark.fault(26)
def test_folder_replaces_a_link_in_the_place_of_a_document(tmp_path):
    outside = tmp_path / "outside.pdf"
    outside.write_bytes(b"mine")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "a.pdf").symlink_to(outside)
    with CorpusFolder(tmp_path / "c") as folder:
        assert folder.digest("a.pdf") is None
        folder.publish_all([(["a.pdf"], b"one")])

    assert outside.read_bytes() == b"mine"
    assert not (tmp_path / "c" / "a.pdf").is_symlink()


@pytest.mark.fault(26)
def test_folder_that_is_a_link_or_has_a_folder_is_refused(tmp_path):
    (tmp_path / "elsewhere" / "notes").mkdir(parents=True)
    (tmp_path / "c").symlink_to(tmp_path / "elsewhere")

    for path, code in ((tmp_path / "c", "corpus_is_link"), (tmp_path / "elsewhere", "foreign_folder")):
        with pytest.raises(InputError) as refused, CorpusFolder(path):
            pass
        assert refused.value.code == code


@pytest.mark.fault(19)
@pytest.mark.parametrize("name", ["../a.pdf", "/etc/x", "", ".", "..", "a\0b"])
def test_folder_refuses_a_name_that_is_no_component(tmp_path, name):
    with CorpusFolder(tmp_path / "c") as folder, pytest.raises(ValueError, match="component"):
        folder.publish_all([([name], b"one")])
