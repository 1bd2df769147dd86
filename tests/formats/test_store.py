"""Datasets are found by what they say of themselves, and a published version does not change unnoticed."""

import json
import shutil

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.formats.store import DatasetStore
from tests.formats.dataset_values import csv_text

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


FOUND = {
    #                                      files in the folder: name -> (id, version)              asked for                    file
    "the newest, not the last as text":  ({"x_v1.9.0.eval.json": ("x", "1.9.0"),
                                           "x_v1.10.0.eval.json": ("x", "1.10.0")},              ("x", None),                 "x_v1.10.0.eval.json"),
    "a release, not its candidate":      ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "x_v1.0.0-rc.1.eval.json": ("x", "1.0.0-rc.1")},      ("x", None),                 "x_v1.0.0.eval.json"),
    "a version":                         ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "x_v2.0.0.eval.json": ("x", "2.0.0")},                ("x", "1.0.0"),              "x_v1.0.0.eval.json"),
    "a version with v":                  ({"x_v1.0.0.eval.json": ("x", "1.0.0")},                ("x", "v1.0.0"),             "x_v1.0.0.eval.json"),
    "the specification's own example":   ({"sample_eval_v1.0.0.eval.json":
                                           ("sample_eval_v1.0.0", "1.0.0")},                     ("sample_eval_v1.0.0", None), "sample_eval_v1.0.0.eval.json"),
    "its id without the version":        ({"sample_eval_v1.0.0.eval.json":
                                           ("sample_eval_v1.0.0", "1.0.0")},                     ("sample_eval", "1.0.0"),    "sample_eval_v1.0.0.eval.json"),
    "id and version, both with it":      ({"s_v1.0.0.eval.json": ("s_v1.0.0", "1.0.0")},         ("s_v1.0.0", "v1.0.0"),      "s_v1.0.0.eval.json"),
    "an id that carries a version":      ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "x_v2.0.0.eval.json": ("x", "2.0.0")},                ("x_v1.0.0", None),          "x_v1.0.0.eval.json"),
    "an id whose version is not its own": ({"y.eval.json": ("x_v1.0.0", "1.0.1")},               ("x_v1.0.0", None),          "y.eval.json"),
    "a name without v":                  ({"x_1.0.0.eval.json": ("x", "1.0.0")},                 ("x", "1.0.0"),              "x_1.0.0.eval.json"),
    "a name that says nothing":          ({"copy.eval.json": ("x", "1.0.0")},                    ("x", None),                 "copy.eval.json"),
    "not an id that begins like it":     ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "x_y_v2.0.0.eval.json": ("x_y", "2.0.0")},            ("x", None),                 "x_v1.0.0.eval.json"),
    "an exact file name":                ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "x_v1.0.0.eval.yaml": ("x", "1.0.0")},                ("x_v1.0.0.eval.yaml", None), "x_v1.0.0.eval.yaml"),
    "of two the one called as asked":    ({"x_v1.0.0.eval.json": ("x", "1.0.0"),
                                           "copy.eval.json": ("x", "1.0.0")},                    ("x_v1.0.0", None),          "x_v1.0.0.eval.json"),
    "the newest, whatever it is called": ({"x.eval.json": ("x", "1.0.0"),
                                           "x_v2.0.0.eval.csv": ("x", "2.0.0")},                 ("x", None),                 "x_v2.0.0.eval.csv"),
    "packed":                            ({"x_v1.0.0.eval.json.gz": ("x", "1.0.0")},             ("x", None),                 "x_v1.0.0.eval.json.gz"),
    "a glob as id":                      ({"a.eval.json": ("[x]*", "1.0.0"),
                                           "x_v2.0.0.eval.json": ("x", "2.0.0")},                ("[x]*", None),              "a.eval.json"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "asked", "expected"), FOUND.values(), ids=FOUND)
def test_which_file_is_meant(files, asked, expected, store):
    for name, (dataset_id, version) in files.items():
        put(store, name, dataset_id, version)

    assert store.dataset_file(*asked).name == expected
    loaded = store.load_dataset(*asked)
    assert (loaded.dataset_id, loaded.version) == files[expected]


NOT_FOUND = {
    "another version": (("x", "3.0.0"), "no_dataset"),
    "another id": (("y", None), "no_dataset"),
    "a path upwards": (("../datasets/x", None), "no_dataset"),
    "an absolute path": (("/etc/passwd", None), "no_dataset"),
    "a glob": (("*", None), "no_dataset"),
    "a glob of versions": (("x_*", None), "no_dataset"),
    "nothing": (("", None), "no_dataset"),
    "a NUL": (("x\0", None), "no_dataset"),
    "a version that is none": (("x", "newest"), "bad_version"),
    "a path as version": (("x", "../1.0.0"), "bad_version"),
}


@pytest.mark.parametrize(("asked", "code"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_what_is_not_there_is_an_error_that_says_what_is(asked, code, store):
    put(store, "x_v1.0.0.eval.json")

    with pytest.raises(InputError) as error:
        store.load_dataset(*asked)

    assert error.value.code == code
    assert code != "no_dataset" or "There is 'x 1.0.0'" in str(error.value)


AMBIGUOUS = {
    "two forms": ["x_v1.0.0.eval.json", "x_v1.0.0.eval.yaml"],
    "two names": ["x_v1.0.0.eval.json", "x_1.0.0.eval.json"],
    "a copy": ["x_v1.0.0.eval.json", "copy.eval.json"],
}


@pytest.mark.parametrize("names", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_two_files_of_one_version_are_an_error_that_lists_them(names, store):
    for name in names:
        put(store, name)

    with pytest.raises(InputError) as error:
        store.load_dataset("x")

    assert error.value.code == "ambiguous_dataset"
    assert all(name in str(error.value) for name in names)


def test_versions_that_differ_in_their_build_are_equally_new(store):
    put(store, "x_v1.0.0+a.eval.json", version="1.0.0+a")
    put(store, "x_v1.0.0+b.eval.json", version="1.0.0+b")

    with pytest.raises(InputError) as error:
        store.load_dataset("x")

    assert error.value.code == "ambiguous_dataset"
    assert store.load_dataset("x", "1.0.0+b").version == "1.0.0+b"


def test_a_broken_file_hides_no_other_and_is_named_when_it_is_the_one(store):
    put(store, "x_v1.0.0.eval.json")
    (store.datasets / "x_v2.0.0.eval.json").write_text('{"dataset_id": "x"')

    assert store.load_dataset("x").version == "1.0.0"
    with pytest.raises(InputError) as error:
        store.load_dataset("x", "2.0.0")
    assert (error.value.code, error.value.file) == ("bad_format", str(store.datasets / "x_v2.0.0.eval.json"))


def test_a_loaded_dataset_is_validated(store):
    (store.datasets / "x.eval.json").write_text(json.dumps({"dataset_id": "x", "queries": [{"query_id": 1}]}))

    with pytest.raises(InputError) as error:
        store.load_dataset("x")

    assert (error.value.code, error.value.field) == ("bad_format", "queries[0].query_id")


def test_available_datasets_by_id_and_version_and_broken_files_apart(store):
    put(store, "x_v1.10.0.eval.json", version="1.10.0", description="Tenth")
    put(store, "x_v1.9.0.eval.csv", version="1.9.0", queries=[QUERY, QUERY | {"query_id": "1"}])
    put(store, "a_v0.1.0.eval.json.gz", "a", "0.1.0")
    put(store, "b.eval.yaml", "b", "0.1.0")
    (store.datasets / "older_v3.0.0.eval.json").write_text('{"dataset_id": "older", "queries": []}')
    (store.datasets / "broken.eval.json").write_text("{")
    (store.datasets / "no-id.eval.json").write_text('{"queries": []}')
    (store.datasets / "version.eval.json").write_text('{"dataset_id": "v", "version": "1", "queries": []}')
    (store.datasets / ".tmp-1.eval.json").write_text("{")
    (store.datasets / "notes.txt").write_text("")

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


def test_a_store_without_a_folder_is_empty(tmp_path):
    store = DatasetStore(tmp_path / "nowhere")

    assert store.get_available_datasets().datasets == ()
    assert store.list_evaluation_results().results == ()
    assert not store.root.exists()


ANNOTATION = {
    "annotation_id": "a1", "query_id": "0", "annotator_id": "p",
    "citations": [{"file_name": "a.pdf", "start_char": 0, "end_char": 4, "text": "Who?"}],
}  # fmt: skip
TRUTHS = {
    #                        file                 content                                                               version
    "a container":         ("x_v2.0.0.gt.json",  {"dataset_id": "x", "version": "2.0.0", "annotations": [ANNOTATION]}, "2.0.0"),
    "a bare list":         ("x_v2.0.0.gt.json",  [ANNOTATION],                                                         "2.0.0"),
    "one annotation":      ("x_v2.0.0.gt.json",  ANNOTATION,                                                           "2.0.0"),
    "in YAML":             ("x_v2.0.0.gt.yaml",  {"dataset_id": "x", "version": "2.0.0", "annotations": [ANNOTATION]}, "2.0.0"),
    "without any version": ("x.gt.json",         ANNOTATION,                                                           "0.0.0"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "version"), TRUTHS.values(), ids=TRUTHS)
def test_ground_truth_is_found_as_datasets_are(name, content, version, store):
    (store.ground_truth / name).write_text(json.dumps(content))

    truth = store.load_ground_truth("x")

    assert (truth.dataset_id, truth.version, truth.annotations[0].annotation_id) == ("x", version, "a1")
    with pytest.raises(InputError) as error:
        store.load_ground_truth("y")
    assert error.value.code == "no_ground_truth"


def test_saving_gives_the_specifications_name_and_the_same_content_is_written_once(store):
    path = store.save_dataset(dataset())
    before = path.stat().st_mtime_ns

    assert path == store.datasets / "x_v1.0.0.eval.json"
    assert store.save_dataset(dataset()) == path
    assert path.stat().st_mtime_ns == before
    assert store.save_dataset(dataset("y_v2.0.0", "2.0.0")).name == "y_v2.0.0.eval.json"


def test_other_content_under_a_published_version_is_refused_naming_the_difference(store):
    path = store.save_dataset(dataset())
    other = dataset(name="Y", queries=[QUERY | {"query_text": "When?"}, QUERY | {"query_id": "new"}])

    with pytest.raises(InputError) as error:
        store.save_dataset(other)

    assert error.value.code == "version_conflict"
    assert "1 query added: 'new'; 1 query changed in query_text: '0'; name was 'X' and is 'Y'" in str(error.value)
    assert store.load_dataset("x") == dataset()
    assert store.save_dataset(other, overwrite=True) == path
    assert store.load_dataset("x") == other


def test_a_version_that_another_file_holds_is_that_file(store):
    put(store, "x_1.0.0.eval.yaml")

    assert store.save_dataset(dataset()).name == "x_1.0.0.eval.yaml"
    with pytest.raises(InputError) as error:
        store.save_dataset(dataset(name="Y"))
    assert error.value.code == "version_conflict"
    with pytest.raises(InputError) as error:
        store.save_dataset(dataset(name="Y"), overwrite=True)
    assert error.value.code == "unknown_form"  # YAML is read and not written

    assert [file.name for file in store.datasets.iterdir()] == ["x_1.0.0.eval.yaml"]


def test_a_broken_file_is_only_overwritten_when_asked(store):
    (store.datasets / "x_v1.0.0.eval.json").write_text("{")

    with pytest.raises(InputError) as error:
        store.save_dataset(dataset())

    assert error.value.code == "bad_format"
    store.save_dataset(dataset(), overwrite=True)
    assert store.load_dataset("x") == dataset()


@pytest.mark.parametrize("dataset_id", ["../x", "a/b", ".x", "x\n", "x*", "é", "x" * 129])
def test_an_id_that_can_be_no_file_name_is_not_saved(dataset_id, store):
    with pytest.raises(InputError) as error:
        store.save_dataset(dataset(dataset_id))

    assert error.value.code == "bad_identifier"
    assert not list(store.datasets.iterdir())


def test_a_dataset_moves_between_stores_as_a_file(store, tmp_path):
    other = DatasetStore(tmp_path / "other")
    other.datasets.mkdir(parents=True)
    shutil.copy(store.save_dataset(dataset()), other.datasets)

    assert other.load_dataset("x") == dataset()
