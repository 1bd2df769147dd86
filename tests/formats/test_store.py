"""Datasets and results are found by what their files state, and a published version does not change unnoticed."""

import json

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.fields import newest_versions, split_version
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.formats.store import DatasetStore, compare_results, version_difference
from tests.formats.dataset_values import csv_text
from tests.formats.result_values import metric, results_value

QUERY = {"query_id": "0", "query_text": "Who?", "relevant_documents": ["a.pdf"]}


def dataset(dataset_id="x", version="1.0.0", **fields):
    value = {"dataset_id": dataset_id, "name": "X", "version": version, "queries": [QUERY]}
    return EvaluationDataset.model_validate(value | fields)


@pytest.fixture
def store(tmp_path):
    store = DatasetStore(tmp_path / "evaluation")
    store.datasets.mkdir(parents=True)
    store.ground_truth.mkdir()
    return store


def put(store, name, dataset_id="x", version="1.0.0", **fields):
    one = dataset(dataset_id, version, **fields)
    if name.endswith(".csv"):
        (store.datasets / name).write_bytes(csv_text(one))
    elif name.endswith(".yaml"):
        (store.datasets / name).write_text(one.model_dump_json(exclude_none=True))  # JSON is YAML
    else:
        one.write(store.datasets / name)


def code_of(function, *arguments, **options):
    with pytest.raises(InputError) as error:
        function(*arguments, **options)
    return error.value.code


FOUND = {
    #                                      files in the folder: name -> (id, version)              asked for                    file
    "the newest, not the last as text":  ({"x_v1.9.0.eval.json": ("x", "1.9.0"),
                                           "x_v1.10.0.eval.json": ("x", "1.10.0")},              ("x", None),                 "x_v1.10.0.eval.json"),
    "a version with v":                  ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "x_v2.0.0.eval.json": ("x", "2.0.0")},                ("x", "v1.0.0"),             "x_v1.0.0.eval.json"),
    "the specification's own example":   ({"sample_eval_v1.0.0.eval.json":
                                           ("sample_eval_v1.0.0", "1.0.0")},                     ("sample_eval_v1.0.0", None), "sample_eval_v1.0.0.eval.json"),
    "its id without the version":        ({"sample_eval_v1.0.0.eval.json":
                                           ("sample_eval_v1.0.0", "1.0.0")},                     ("sample_eval", "1.0.0"),    "sample_eval_v1.0.0.eval.json"),
    "an id that carries a version":      ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "x_v2.0.0.eval.json": ("x", "2.0.0")},                ("x_v1.0.0", None),          "x_v1.0.0.eval.json"),
    "an id whose version is not its own": ({"y.eval.json": ("x_v1.0.0", "1.0.1")},               ("x_v1.0.0", None),          "y.eval.json"),
    "not an id that begins like it":     ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "x_y_v2.0.0.eval.json": ("x_y", "2.0.0")},            ("x", None),                 "x_v1.0.0.eval.json"),
    "an exact file name":                ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "x_v1.0.0.eval.yaml": ("x", "1.0.0")},                ("x_v1.0.0.eval.yaml", None), "x_v1.0.0.eval.yaml"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "asked", "expected"), FOUND.values(), ids=FOUND)
def test_store_finds_the_file(files, asked, expected, store):
    for name, (dataset_id, version) in files.items():
        put(store, name, dataset_id, version)

    assert store.dataset_file(*asked).name == expected
    loaded = store.load_dataset(*asked)
    assert (loaded.dataset_id, loaded.version) == files[expected]


NOT_FOUND = {
    "another version": (("x", "3.0.0"), "no_dataset"),
    "another id": (("y", None), "no_dataset"),
    "a path upwards": (("../datasets/x", None), "no_dataset"),
    "a glob": (("*", None), "no_dataset"),
    "a version that is none": (("x", "newest"), "bad_version"),
}


@pytest.mark.parametrize(("asked", "code"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_store_lists_what_exists_when_nothing_is_found(asked, code, store):
    put(store, "x_v1.0.0.eval.json")

    with pytest.raises(InputError) as error:
        store.load_dataset(*asked)

    assert error.value.code == code
    assert code != "no_dataset" or "There is 'x 1.0.0'" in str(error.value)


def test_store_refuses_two_files_of_one_version(store):
    names = ["copy.eval.json", "x_v1.0.0.eval.json", "x_v1.0.0.eval.yaml"]
    for name in names:
        put(store, name)
    put(store, "b_1.eval.json", "b", "1.0.0+a")
    put(store, "b_2.eval.json", "b", "1.0.0+b")  # builds are equally new

    with pytest.raises(InputError) as error:
        store.load_dataset("x")
    assert error.value.code == "ambiguous_dataset"
    assert all(name in str(error.value) for name in names)
    assert code_of(store.load_dataset, "b") == "ambiguous_dataset"
    assert store.load_dataset("b", "1.0.0+b").version == "1.0.0+b"


def test_store_names_a_broken_file_only_when_it_is_asked_for(store):
    put(store, "x_v1.0.0.eval.json")
    (store.datasets / "x_v2.0.0.eval.json").write_text('{"dataset_id": "x"')
    (store.datasets / "y.eval.json").write_text(json.dumps({"dataset_id": "y", "queries": [{"query_id": 1}]}))

    assert store.load_dataset("x").version == "1.0.0"
    with pytest.raises(InputError) as error:
        store.load_dataset("x", "2.0.0")
    assert (error.value.code, error.value.file) == ("bad_format", str(store.datasets / "x_v2.0.0.eval.json"))
    with pytest.raises(InputError) as error:  # a loaded dataset is validated
        store.load_dataset("y")
    assert (error.value.code, error.value.field) == ("bad_format", "queries[0].query_id")


def test_store_lists_available_datasets_and_broken_files(store):
    put(store, "x_v1.10.0.eval.json", version="1.10.0", description="Tenth")
    put(store, "x_v1.9.0.eval.csv", version="1.9.0", queries=[QUERY, QUERY | {"query_id": "1"}])
    put(store, "a_v0.1.0.eval.json.gz", "a", "0.1.0")
    put(store, "b.eval.yaml", "b", "0.1.0")
    for name, text in {
        "older_v3.0.0.eval.json": '{"dataset_id": "older", "queries": []}', "broken.eval.json": "{",
        "no-id.eval.json": '{"queries": []}', "version.eval.json": '{"dataset_id": "v", "version": "1", "queries": []}',
        ".tmp-1.eval.json": "{", "notes.txt": "",
    }.items():  # fmt: skip
        (store.datasets / name).write_text(text)

    available = store.get_available_datasets()

    assert [(one.dataset_id, one.version, one.size) for one in available.datasets] == [
        ("a", "0.1.0", 1), ("b", "0.1.0", 1), ("older", "3.0.0", 0), ("x", "1.9.0", 2), ("x", "1.10.0", 1),
    ]  # fmt: skip
    tenth = available.datasets[-1]
    assert (tenth.name, tenth.description, tenth.path) == ("X", "Tenth", store.datasets / "x_v1.10.0.eval.json")
    assert [(found.severity, found.file.rpartition("/")[2], found.code) for found in available.findings] == [
        ("error", "broken.eval.json", "bad_format"),
        ("error", "no-id.eval.json", "bad_format"),
        ("error", "version.eval.json", "bad_version"),
    ]


CITED = {"file_name": "a.pdf", "start_char": 0, "end_char": 4, "text": "Who?"}
ANNOTATION = {"annotation_id": "a1", "query_id": "0", "annotator_id": "p", "citations": [CITED]}
TRUTHS = {
    #                        file                 content                                                               version
    "a container":         ("x_v2.0.0.gt.yaml",  {"dataset_id": "x", "version": "2.0.0", "annotations": [ANNOTATION]}, "2.0.0"),
    "without any version": ("x.gt.json",         ANNOTATION,                                                           "0.0.0"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "version"), TRUTHS.values(), ids=TRUTHS)
def test_store_finds_ground_truth(name, content, version, store):
    (store.ground_truth / name).write_text(json.dumps(content))

    truth = store.load_ground_truth("x")

    assert (truth.dataset_id, truth.version, truth.annotations[0].annotation_id) == ("x", version, "a1")
    assert code_of(store.load_ground_truth, "y") == "no_ground_truth"


def test_store_writes_equal_content_once_under_the_specifications_name(store):
    path = store.save_dataset(dataset())
    before = path.stat().st_ino

    assert path == store.datasets / "x_v1.0.0.eval.json"
    assert store.save_dataset(dataset()) == path
    assert path.stat().st_ino == before
    assert store.save_dataset(dataset("y_v2.0.0", "2.0.0")).name == "y_v2.0.0.eval.json"
    assert DatasetStore(store.root / "nowhere").get_available_datasets().datasets == ()


def test_store_refuses_other_content_under_a_published_version(store):
    path = store.save_dataset(dataset())
    other = dataset(name="Y", queries=[QUERY | {"query_text": "When?"}, QUERY | {"query_id": "new"}])

    with pytest.raises(InputError) as error:
        store.save_dataset(other)

    assert error.value.code == "version_conflict"
    assert "1 query added: 'new'; 1 query changed in query_text: '0'; name was 'X' and is 'Y'" in str(error.value)
    assert store.load_dataset("x") == dataset()
    assert store.save_dataset(other, overwrite=True) == path
    assert store.load_dataset("x") == other

    path.write_text("{")
    assert code_of(store.save_dataset, dataset()) == "bad_format"
    store.save_dataset(dataset(), overwrite=True)
    assert store.load_dataset("x") == dataset()


def test_store_saves_into_the_file_that_holds_the_version(store):
    put(store, "x_1.0.0.eval.yaml")

    assert store.save_dataset(dataset()).name == "x_1.0.0.eval.yaml"
    assert code_of(store.save_dataset, dataset(name="Y")) == "version_conflict"
    assert code_of(store.save_dataset, dataset(name="Y"), overwrite=True) == "unknown_form"  # YAML is not written
    assert [file.name for file in store.datasets.iterdir()] == ["x_1.0.0.eval.yaml"]


@pytest.mark.fault(23)
@pytest.mark.parametrize("dataset_id", ["../x", ".x", "x*", "x" * 129])
def test_id_that_can_be_no_file_name_is_not_saved(dataset_id, store):
    assert code_of(store.save_dataset, dataset(dataset_id)) == "bad_identifier"
    assert code_of(store.save_evaluation_results, results(dataset_id)) == "bad_identifier"
    assert not list(store.datasets.iterdir())


def query(number, **fields):
    return QUERY | {"query_id": str(number)} | fields


QUERIES = [query(number) for number in range(9)]
OLD = {"dataset_id": "d", "name": "D", "version": "1.0.0", "queries": QUERIES}
DIFFERENCES = {
    #                                        old    new                                                        difference
    "a stated schema version":              ({},    {"schema_version": "1.0"},                                 None),
    "another order of keys":                ({"metadata": {"size": 9, "domain": "x"}}, {"metadata": {"domain": "x", "size": 9}}, None),
    "one question more, one less":          ({},    {"queries": [*QUERIES[1:], query("x")]},                   "1 query added: 'x'; 1 query removed: '0'"),
    "seven questions less":                 ({},    {"queries": QUERIES[:2]},                                  "7 queries removed: '2', '3', '4', '5', '6', ... (7 in all)"),
    "one and true":                         ({"queries": [query(0, metadata={"x": 1})]},
                                             {"queries": [query(0, metadata={"x": True})]},                    "1 query changed in metadata: '0'"),
    "another order":                        ({},    {"queries": QUERIES[::-1]},                                "queries are in another order"),
    "another name":                         ({},    {"name": "E"},                                             "name was 'D' and is 'E'"),
    "documents":                            ({},    {"documents": [{"document_id": "a.pdf", "content": ""}]},  "1 document added: 'a.pdf'"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "difference"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_version_difference(old, new, difference, tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(OLD | old))
    (tmp_path / "new.json").write_text(json.dumps(OLD | new, indent=7))

    assert version_difference(tmp_path / "old.json", tmp_path / "new.json") == difference


@pytest.mark.fault(23)
def test_versions_sort_as_semantic_versioning_says():
    assert newest_versions(["1.9.0", "1.10.0", "1.10.0-rc.1", "1.2.0"]) == ["1.10.0"]
    assert newest_versions(["1.0.0", "1.0.0-rc.1", "no version"]) == ["1.0.0"]
    assert newest_versions(["1.0.0+a", "0.1.0", "1.0.0+b"]) == ["1.0.0+a", "1.0.0+b"]


def test_version_is_split_off_an_id():
    assert split_version("personal_rag_eval_v1.0.0-rc.1") == ("personal_rag_eval", "1.0.0-rc.1")
    assert split_version("a_v1.0") == ("a_v1.0", None)


def results(evaluation_id="eval_run_20250830_001", **change):
    return EvaluationResults.model_validate_json(json.dumps(results_value(evaluation_id, **change)))


def test_results_are_saved_once_and_loaded(store):
    path = store.save_evaluation_results(results())
    before = path.stat().st_ino
    store.save_evaluation_results(results())

    assert path == store.results / "eval_run_20250830_001.results.json"
    assert path.stat().st_ino == before
    assert store.load_evaluation_results("eval_run_20250830_001") == results()
    assert '"p_value": null' in path.read_text()  # readers look for the keys

    with pytest.raises(InputError) as error:
        store.save_evaluation_results(results(system_version="2", benchmark="y"))
    assert error.value.code == "results_conflict"
    assert "benchmark, system_version" in str(error.value)

    store.save_evaluation_results(results(system_version="2"), overwrite=True)
    assert store.load_evaluation_results("eval_run_20250830_001").system_version == "2"
    results().write(store.results / "eval_run_20250830_001.results.json.gz")
    assert EvaluationResults.read(store.results / "eval_run_20250830_001.results.json.gz") == results()
    assert code_of(store.load_evaluation_results, "eval_run_20250830_001") == "ambiguous_results"


@pytest.mark.parametrize("evaluation_id", ["../eval", "*"])
def test_results_that_do_not_exist(evaluation_id, store):
    store.save_evaluation_results(results())

    with pytest.raises(InputError) as error:
        store.load_evaluation_results(evaluation_id)
    assert error.value.code == "no_results"
    assert "eval_run_20250830_001" in str(error.value)


def test_results_are_listed_by_time_with_unreadable_files(store):
    store.save_evaluation_results(results("e3", timestamp="2025-09-01T00:00:00Z"))
    store.save_evaluation_results(results("e2", timestamp="2025-09-01T01:00:00+02:00"))
    path = store.save_evaluation_results(results("e1"))
    (store.results / "broken.results.json").write_text("{")
    (store.results / "local.results.json").write_text(json.dumps(results_value(timestamp="2025-08-30T13:00:00")))

    listed = store.list_evaluation_results()

    assert [one.header.evaluation_id for one in listed.results] == ["e1", "e2", "e3"]
    assert listed.results[0].path == path
    assert [(found.code, found.file.rpartition("/")[2]) for found in listed.findings] == [
        ("bad_format", "broken.results.json"),
        ("bad_format", "local.results.json"),
    ]


def test_results_comparison_holds_values_and_differences_to_the_first(store):
    store.save_evaluation_results(results("old"))
    better = {"hit@1": metric(0.75), "mrr": metric(None), "ndcg@5": metric(0.25)}
    prints = {"dataset": "d", "corpus": "other", "system": "s2", "metrics": "m"}
    store.save_evaluation_results(results("new", retrieval_metrics=better, fingerprints=prints))

    found = store.compare(["old", "new"])

    assert found.evaluations == ("old", "new")
    assert found.metrics["hit@1"] == {"old": 1.0, "new": 0.75}
    assert found.metric_deltas["hit@1"] == {"new": -0.25}
    assert found.metrics["mrr"] == {"old": 0.5, "new": None}
    assert found.metric_deltas["mrr"] == {"new": None}  # not measured is no change
    assert found.metric_deltas["ndcg@5"] == {"new": None}
    assert found.metrics["page_retrieval_metrics.hit@1"] == {"old": None, "new": None}
    assert found.metrics["answer_quality_metrics.f1"] == {"old": 0.5, "new": 0.5}
    assert found.metrics["answer_quality_metrics.abstention.over_refusal_rate"] == {"old": 0.0, "new": 0.0}
    assert found.performance["latency_stats.p50"] == {"old": 4.0, "new": 4.0}
    assert found.performance_deltas["resource_usage.memory_mb.peak"] == {"new": 0.0}
    assert found.differing == ("corpus", "system")
    assert compare_results([]).metrics == {}
