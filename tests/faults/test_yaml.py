"""Row 37: YAML is data with limits: no tags, no aliases, and a word is a word.

Each hostile construct: tests/storage/test_json_files.py; unquoted values in datasets: tests/formats/test_dataset.py. Here: every
kind of file that people write in YAML goes through that reader.
"""

import pytest

from rag_eval_pipeline.conversion.benchmark_spec import read_spec
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.web.egress import read_egress_config
from tests.conversion.conftest import PLAIN
from tests.validation import validate

HOSTILE = "a: &a [x, x]\nb: &b [*a, *a]\nc: !!python/object/apply:os.system [touch hacked]\n"


@pytest.mark.fault(37)
def test_benchmark_is_refused_with_the_line(benchmark):
    with pytest.raises(InputError) as caught:
        plan(benchmark(PLAIN + HOSTILE, {"questions.csv": "q,a\nx,y\n"}))

    assert caught.value.code == "bad_yaml"
    assert "benchmark.yaml, line " in caught.value.file


@pytest.mark.fault(37)
def test_settings_of_the_network_are_refused_with_the_line(tmp_path):
    (tmp_path / "egress.config.yaml").write_text(HOSTILE)

    with pytest.raises(InputError, match=r"egress.config.yaml, line "):
        read_egress_config(tmp_path / "egress.config.yaml")


@pytest.mark.fault(37)
@pytest.mark.parametrize("name", ["d_v1.0.0.eval.yaml", "d_v1.0.0.gt.yaml", "d.results.yaml"])
def test_dataset_is_found_to_be_bad(name, tmp_path):
    (tmp_path / name).write_text(HOSTILE)

    [line] = validate(tmp_path / name)

    assert "[bad_yaml]" in line
    assert "line " in line


@pytest.mark.fault(37)
def test_norwegian_octal_sexagesimal_and_short_versions_stay_words(benchmark):
    spec = read_spec(benchmark(PLAIN + "title: 010\nlanguage: no\ndomain: 1:30\nlicense: on\n"))

    assert (spec.title, spec.language, spec.domain, spec.license) == ("010", "no", "1:30", "on")
    with pytest.raises(InputError) as caught:
        read_spec(benchmark(PLAIN.replace("1.0.0", "1.10")))
    assert (caught.value.code, caught.value.found) == ("bad_value", "'1.10'")
