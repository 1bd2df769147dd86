"""What is true of every format: the dataset comes back, what does not is counted, answers are those of this dataset."""

import json
import os

import pytest

from rag_eval_pipeline.conversion.digests import source_digest
from rag_eval_pipeline.conversion.stamp import current_stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.exporting.exports import FORMATS, export, read_export
from rag_eval_pipeline.exporting.identity import Identity
from rag_eval_pipeline.exporting.report import losses
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.storage.atomic import TEMP_PREFIX

RAILWAY = "skarn-railway"
IDENTITY = Identity("back", "1.0.0")
# What no format has a place for, the dataset's own facts aside.
CARRIED = {"query_id", "query_text", "relevant_documents"}


def dataset_of(workspace, name):
    paths = workspace.benchmark(name)
    stamp = current_stamp(paths, source_digest(paths))
    return EvaluationDataset.read(workspace.eval_json(stamp.dataset_id, stamp.dataset_version))


def facts(dataset):
    return [(query.query_id, query.query_text, query.relevant_documents) for query in dataset.queries]


def identity_of(workspace, name):
    return Identity(dataset_of(workspace, name).dataset_id)  # Evret's files are named by it


def queries_lost(report):
    return {name: number for name, number in report.lost.items() if not name.startswith("dataset.")}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", [RAILWAY, "cairnmoor-observatory"])
def test_questions_and_relevant_documents_come_back_from_a_real_benchmark(name, format, workspace, tmp_path):
    report = export(workspace, name, format, tmp_path / "out")

    back = read_export(format, tmp_path / "out", identity_of(workspace, name))
    dataset = dataset_of(workspace, name)
    assert facts(back) == facts(dataset)
    assert CARRIED.isdisjoint(report.lost)
    assert report.counts["questions"] == len(dataset.queries)
    assert losses(dataset, back).keys() | {"dataset.version", "dataset.name"} >= report.lost.keys()


@pytest.mark.parametrize("format", ["nvidia", "evret", "beir", "trec", "ragas"])
def test_awkward_names_and_texts_come_back(format, awkward, tmp_path):
    export(awkward, "awkward", format, tmp_path / "out")

    back = read_export(format, tmp_path / "out", Identity("awkward"))
    assert facts(back) == facts(dataset_of(awkward, "awkward"))


@pytest.mark.parametrize("format", ["beir", "ragas"])
@pytest.mark.parametrize("name", [RAILWAY, "cairnmoor-observatory"])
def test_formats_with_metadata_lose_nothing_of_a_question(name, format, workspace, tmp_path):
    report = export(workspace, name, format, tmp_path / "out")

    assert queries_lost(report) == {}
    assert read_export(format, tmp_path / "out", IDENTITY).queries == dataset_of(workspace, name).queries


def test_what_is_lost_is_counted_by_field(awkward, tmp_path):
    # Four questions: two query types, of which one is another's word; no citations; three with an answer.
    nvidia = export(awkward, "awkward", "nvidia", tmp_path / "nvidia")
    trec = export(awkward, "awkward", "trec", tmp_path / "trec")

    assert queries_lost(nvidia) == {
        "query_type": 1,
        "metadata.answers": 1,  # of three accepted answers train.json has the first
        "metadata.hops": 4,
        "metadata.query_type_source": 1,
    }
    assert queries_lost(trec) == {
        "query_type": 1,
        "ground_truth_answer": 3,
        "metadata.is_impossible": 4,
        "metadata.answers": 3,
        "metadata.hops": 4,
        "metadata.query_type_source": 1,
    }
    assert {name for name in nvidia.lost if name.startswith("dataset.")} == {
        "dataset.name", "dataset.version", "dataset.created_at", "dataset.metadata.size",
        "dataset.metadata.avg_query_length", "dataset.metadata.source",
    }  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_no_file_says_that_it_is_ours(format, awkward, tmp_path):
    export(awkward, "awkward", format, tmp_path / "out")

    texts = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.suffix != ".pdf"]
    assert texts
    assert all(b"schema_version" not in path.read_bytes() for path in texts)


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_benchmark_gives_the_same_bytes(format, awkward, tmp_path):
    for name in ("one", "two"):
        export(awkward, "awkward", format, tmp_path / name / "out")

    files = [
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "one", tmp_path / "two")
    ]
    assert files[0] == files[1] != {}


@pytest.mark.parametrize("format", FORMATS)
def test_files_are_real_and_names_are_as_they_are(format, awkward, tmp_path):
    report = export(awkward, "awkward", format, tmp_path / "out")

    entries = [path for path in (tmp_path / "out").rglob("*") if not path.is_dir()]
    assert not any(path.is_symlink() or path.stat().st_nlink > 1 for path in entries)
    assert report.files == len(entries)
    assert os.listdir(tmp_path / "out")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(TEMP_PREFIX)]


def test_the_report_says_it_all_as_json_and_in_one_line(awkward, tmp_path):
    report = export(awkward, "awkward", "trec", tmp_path / "out")

    assert json.loads(json.dumps(report.record()))["lost"] == report.lost
    assert report.line().startswith(f"{tmp_path / 'out'}: trec, 3 files, 4 questions, 4 judgements; not carried: ")
    assert "\n" not in report.line()


def change_dataset(workspace):
    path = next(workspace.evaluation_datasets.glob("awkward_v*"))
    path.write_text(path.read_text().replace("Nothing?", "Something?"))


def change_train_json(workspace):
    path = workspace.benchmark("awkward").train_json
    path.write_text(path.read_text().replace('"id": 3', '"id": 4'))


def change_document(workspace):
    (workspace.benchmark("awkward").corpus / "a b.pdf").write_bytes(b"%PDF-1.4 of another night")


REFUSED = {
    #                                      change                                                                 code
    "never converted":                    (lambda w: w.benchmark("awkward").stamp.unlink(),                     "not_converted"),
    "the source was edited":              (lambda w: (w.benchmark("awkward").source / "new").touch(),           "stale_conversion"),
    "the dataset was edited":             (change_dataset,                                                      "changed_dataset"),
    "train.json is of other questions":   (change_train_json,                                                   "changed_dataset"),
    "a document was edited":              (change_document,                                                     "changed_document"),
    "a document is gone":                 (lambda w: (w.benchmark("awkward").corpus / "a b.pdf").unlink(),      "missing_document"),
    "the benchmark is gone":              (lambda w: w.benchmark("awkward").spec.unlink(),                      "no_benchmark"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "code"), REFUSED.values(), ids=REFUSED)
def test_only_what_a_conversion_stamped_is_exported_and_nothing_is_left_behind(change, code, awkward, tmp_path):
    change(awkward)

    with pytest.raises(InputError) as error:
        export(awkward, "awkward", "nvidia", tmp_path / "exports" / "out")

    assert error.value.code == code
    assert list((tmp_path / "exports").glob("*")) == []


def test_an_unknown_format_is_told_the_known_ones(awkward, tmp_path):
    with pytest.raises(InputError) as error:
        export(awkward, "awkward", "csv", tmp_path / "out")

    assert error.value.code == "unknown_format"
    assert "nvidia, evret, beir, trec, ragas" in str(error.value)


@pytest.mark.parametrize("format", ["evret", "beir"])
def test_a_format_without_answers_refuses_an_evaluation(format, awkward, tmp_path, answer_by_hand):
    evaluation = answer_by_hand(awkward, "awkward", [])

    with pytest.raises(InputError) as error:
        export(awkward, "awkward", format, tmp_path / "out", evaluation=evaluation)

    assert error.value.code == "no_answers_in_format"


def beir_files(folder):
    (folder / "qrels").mkdir()
    (folder / "corpus.jsonl").touch()
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": ""}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n")


def nvidia_files(folder):
    row = {"id": 1, "question": "?", "answer": "a", "is_impossible": False, "contexts": []}
    (folder / "train.json").write_text(json.dumps([row, row]))


def ragas_files(folder):
    (folder / "metadata.jsonl").touch()
    (folder / "dataset.jsonl").write_text('{"query_id": "1", "user_input": "\\ud800", "reference_context_ids": []}\n')


BAD_FOLDERS = {
    #                                    files          format    code
    "a question without text":          (beir_files,    "beir",   "bad_format"),
    "an id that stands twice":          (nvidia_files,  "nvidia", "duplicate_id"),
    "half a character":                 (ragas_files,   "ragas",  "bad_format"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "format", "code"), BAD_FOLDERS.values(), ids=BAD_FOLDERS)
def test_others_folders_with_bad_questions_are_refused_in_one_line(files, format, code, tmp_path):
    files(tmp_path)

    with pytest.raises(InputError) as error:
        read_export(format, tmp_path, IDENTITY)

    assert error.value.code == code
    assert "\n" not in str(error.value)
