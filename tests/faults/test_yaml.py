"""Row 37: YAML is data with limits: no tags, no aliases, and a word is a word.

Each construct by itself: tests/formats/test_yaml_reader.py; unquoted values in our files: tests/formats/test_dataset_files.py.
Here: that every kind of file people write in YAML goes through that reader.
"""

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.conversion.spec import read_spec
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.validation import validate
from rag_eval_pipeline.web.egress import read_egress_config
from tests.conversion.conftest import PLAIN

HOSTILE = {
    "a tag that would build an object": "a: !!python/object/apply:os.system [touch hacked]\n",
    "a tag of YAML's own": "a: !!float nan\n",
    "an alias that is a billion items": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "a merge of another mapping": "a: &a {b: 1}\nc: {<<: *a}\n",
    "a key that stands twice": "a: 1\na: 2\n",
    "nesting without end": "a: " + "[" * 50_000 + "\n",
    "two documents": "a: 1\n---\na: 2\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_benchmark_is_refused_with_the_line(text, benchmark):
    with pytest.raises(InputError) as caught:
        plan(benchmark(PLAIN + text, {"questions.csv": "q,a\nx,y\n"}))

    assert caught.value.code == "bad_yaml"
    assert "benchmark.yaml, line " in caught.value.file


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_the_settings_of_the_network_are_refused_with_the_line(text, tmp_path):
    path = tmp_path / "egress.config.yaml"
    path.write_text(text)

    with pytest.raises(InputError) as caught:
        read_egress_config(path)

    assert "egress.config.yaml, line " in caught.value.file


@pytest.mark.parametrize("name", ["d_v1.0.0.eval.yaml", "d_v1.0.0.gt.yaml", "d.results.yaml"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_dataset_is_found_to_be_bad(text, name, tmp_path):
    (tmp_path / name).write_text(text)

    [line] = validate(tmp_path / name)

    assert "[bad_yaml]" in line
    assert "line " in line


def test_norwegian_octal_sexagesimal_and_short_versions_stay_words(benchmark):
    spec = read_spec(benchmark(PLAIN + "title: 010\nlanguage: no\ndomain: 1:30\nlicense: on\n"))

    assert (spec.title, spec.language, spec.domain, spec.license) == ("010", "no", "1:30", "on")
    with pytest.raises(InputError) as caught:
        read_spec(benchmark(PLAIN.replace("1.0.0", "1.10")))
    assert (caught.value.code, caught.value.found) == ("bad_value", "'1.10'")
