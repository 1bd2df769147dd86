"""The target of an export appears completely or not at all, and other files are never lost."""

import os

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.exports.folder import check_target, copy_checked, files_below, publishing_folder
from rag_eval_pipeline.workspace import Workspace

HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"  # sha256sum of `hello`


@pytest.fixture
def workspace_folder(tmp_path):
    for part in ("corpus", "data"):
        (tmp_path / "workspace" / part).mkdir(parents=True)
    return Workspace(tmp_path / "workspace")


def write(target, *names, overwrite=False, text="new"):
    with publishing_folder(target, overwrite=overwrite) as folder:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)


def test_folder_is_published_alone_with_the_umask(tmp_path):
    target = tmp_path / "a" / "out"
    target.mkdir(parents=True)
    write(target, "x", "corpus/y")

    assert files_below(target) == {"x", "corpus/y"}
    assert list(target.parent.iterdir()) == [target]
    mask = os.umask(0)
    os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o777 & ~mask


@pytest.mark.fault(66)
def test_folder_of_a_failed_export_is_unchanged(tmp_path):
    write(tmp_path / "out", "x", text="old")

    def fail():
        with publishing_folder(tmp_path / "out", overwrite=True) as folder:
            (folder / "x").write_text("new")
            raise InputError("bad", "x", "a good end")

    with pytest.raises(InputError):
        fail()

    assert (tmp_path / "out" / "x").read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_folder_overwrite_replaces_and_adds_files(tmp_path):
    write(tmp_path / "out", "x", "corpus/y", text="old")
    write(tmp_path / "out", "x", "corpus/y", "corpus/z", overwrite=True)

    assert {name: (tmp_path / "out" / name).read_text() for name in files_below(tmp_path / "out")} == {
        "x": "new", "corpus/y": "new", "corpus/z": "new",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


@pytest.mark.parametrize("foreign", ["notes.txt", "corpus/left over.pdf", "link"])
def test_folder_overwrite_refuses_other_files(foreign, tmp_path):
    write(tmp_path / "out", "x", "corpus/y", text="old")
    if foreign == "link":
        (tmp_path / "out" / foreign).symlink_to("corpus")
    else:
        (tmp_path / "out" / foreign).write_text("mine")

    with pytest.raises(InputError) as error:
        write(tmp_path / "out", "x", "corpus/y", overwrite=True)

    assert error.value.code == "foreign_file"
    assert foreign in str(error.value)
    assert (tmp_path / "out" / "x").read_text() == "old"
    assert os.path.lexists(tmp_path / "out" / foreign)


def test_folder_keeps_a_file_that_appears_during_the_export(tmp_path):
    target = tmp_path / "out"

    def race():
        with publishing_folder(target, overwrite=False) as folder:
            (folder / "x").write_text("new")
            target.mkdir()
            (target / "x").write_text("somebody's")

    with pytest.raises(InputError) as error:
        race()

    assert error.value.code == "target_not_empty"
    assert (target / "x").read_text() == "somebody's"


def linked(workspace):
    (workspace.root.parent / "link").symlink_to(workspace.root)
    return workspace.root.parent / "link"


def filled(workspace, name):
    path = workspace.root.parent / "filled"
    path.mkdir()
    (path / name).touch()
    return path


TARGETS = {
    #                                target                                             code
    "a link":                      (linked,                                            "target_is_link"),
    "the corpus of a benchmark":   (lambda w: w.root / "corpus" / "new",               "target_in_workspace"),
    "the same by another way":     (lambda w: w.root / "x" / ".." / "data" / "new",    "target_in_workspace"),
    "a file":                      (lambda w: filled(w, "x") / "x",                    "target_is_file"),
    "a folder with a hidden file": (lambda w: filled(w, ".x"),                         "target_not_empty"),
}  # fmt: skip


@pytest.mark.parametrize(("target", "code"), TARGETS.values(), ids=TARGETS)
def test_folder_refuses_a_target(target, code, workspace_folder):
    with pytest.raises(InputError) as error:
        check_target(workspace_folder, target(workspace_folder), overwrite=False)

    assert error.value.code == code


def test_folder_copies_documents_with_the_manifests_bytes_only(tmp_path):
    (tmp_path / "a").write_text("hello")
    copy_checked(tmp_path / "a", tmp_path / "b", HELLO)
    (tmp_path / "b").write_text("annotated")
    assert (tmp_path / "a").read_text() == "hello"

    (tmp_path / "a").write_text("hullo")
    with pytest.raises(InputError) as error:
        copy_checked(tmp_path / "a", tmp_path / "c", HELLO)
    assert error.value.code == "changed_document"
