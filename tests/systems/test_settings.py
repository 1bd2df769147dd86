"""A system's file is checked as it is read, and says what is wrong in one line."""

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.systems.config import read_system_file
from tests.conftest import REPOSITORY

BAD = {
    "an unknown kind": ("kind: telepathy", "bad_format", "kind"),
    "an unknown key": ("kind: embedded\nk: 3", "bad_format", "k"),
    "an unknown setting": ("kind: embedded\nsettings: {top_k: 3}", "bad_format", "settings.top_k"),
    "a setting out of range": ("kind: embedded\nsettings: {k: 0}", "bad_format", "settings.k"),
    "no YAML": ("kind: [embedded", "bad_yaml", None),
    "a list": ("- kind", "bad_yaml", None),
    "an empty file": ("", "bad_format", "kind"),
}


@pytest.mark.parametrize(("text", "code", "field"), BAD.values(), ids=BAD)
def test_bad_files(text, code, field, tmp_path):
    path = tmp_path / "s.config.yaml"
    path.write_text(text)

    with pytest.raises(InputError) as error:
        read_system_file(path)

    assert (error.value.code, error.value.field) == (code, field)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "data/config/systems").iterdir()), ids=lambda path: path.name)
def test_bundled_systems(path):
    assert read_system_file(path).is_nightly


def test_a_system_takes_the_benchmarks_that_its_globs_name(tmp_path):
    path = tmp_path / "s.config.yaml"
    path.write_text("kind: embedded\nbenchmarks: ['frames*', squad]")
    file = read_system_file(path)

    assert [file.takes(name) for name in ("frames", "frames-2", "squad", "squad2")] == [True, True, True, False]
