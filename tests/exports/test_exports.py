"""Every format: the dataset can be read back, losses are counted, and only what a conversion wrote is exported."""

import json
from operator import attrgetter

import pytest

from rag_eval_pipeline.conversion.stamp import current_stamp, source_digest
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_folders import load_evaluation
from rag_eval_pipeline.evaluation.score_tables import QueryScores, read_responses, write_scores
from rag_eval_pipeline.exports import ExportOptions, export
from rag_eval_pipeline.exports.export import FORMATS
from rag_eval_pipeline.formats.dataset import EvaluationDataset
from rag_eval_pipeline.systems.base import RagAnswer

OK = RagAnswer("0", "ok", "here", False, (), (), 1.0)
HAVE_METADATA = {"beir", "ragas", "inspect", "promptfoo"}  # formats that lose nothing of a question


def dataset_of(workspace, name):
    paths = workspace.benchmark(name)
    stamp = current_stamp(paths, source_digest(paths))
    return EvaluationDataset.read(workspace.eval_json(stamp.dataset_id, stamp.dataset_version))


def lost_of_queries(report):
    return {name: number for name, number in report.lost.items() if not name.startswith("dataset.")}


@pytest.mark.parametrize("name", ["cairnmoor-observatory", "awkward"])
def test_export_can_be_read_back_and_counts_what_differs(name, request, tmp_path):
    workspace = request.getfixturevalue("awkward" if name == "awkward" else "workspace")
    dataset = dataset_of(workspace, name)
    facts = attrgetter("query_id", "query_text", "relevant_documents")
    for format, found in FORMATS.items():
        report = export(workspace, name, format, tmp_path / format)

        back = found.read(tmp_path / format)
        assert list(map(facts, back)) == list(map(facts, dataset.queries)), format
        assert report.counts["questions"] == len(dataset.queries), format
        assert {"query_id", "query_text", "relevant_documents"}.isdisjoint(report.lost), format
        assert (back == dataset.queries) == (lost_of_queries(report) == {}), format
        assert lost_of_queries(report) == {} or format not in HAVE_METADATA, format


@pytest.mark.parametrize(
    ("format", "options", "known"),
    [("ragas", {"documents": True}, "evret"), ("evret", {"level": "page"}, "beir, trec")],
    ids=["documents", "level"],
)
def test_export_refuses_an_option_of_other_formats(format, options, known, workspace, tmp_path):
    with pytest.raises(InputError) as caught:
        export(workspace, "cairnmoor-observatory", format, tmp_path / "out", options=ExportOptions(**options))

    assert (caught.value.code, f"has it: {known}" in str(caught.value)) == ("no_option_of_format", True)


def test_questions_that_the_files_do_not_give_back_are_counted(awkward, monkeypatch, tmp_path):
    ragas = FORMATS["ragas"]
    monkeypatch.setitem(FORMATS, "ragas", ragas._replace(read=lambda folder: list(ragas.read(folder))[1:]))

    assert lost_of_queries(export(awkward, "awkward", "ragas", tmp_path / "ragas")) == {"queries": 1}


def test_lost_values_are_counted_by_field(awkward, tmp_path):
    # Four questions: two query types, one of them not a word of the specification; no citations; three with an answer.
    nvidia = export(awkward, "awkward", "nvidia", tmp_path / "nvidia")
    trec = export(awkward, "awkward", "trec", tmp_path / "trec")

    kept_by_nvidia = {"ground_truth_answer": 3, "metadata.is_impossible": 4}
    assert lost_of_queries(nvidia) == {
        "query_type": 1,
        "metadata.answers": 1,  # of three accepted answers train.json has the first
        "metadata.hops": 4,
        "metadata.query_type_source": 1,
        "metadata.relevance": 1,
    }
    lost_of_both = {
        name: n for name, n in lost_of_queries(nvidia).items() if name != "metadata.relevance"
    }  # in the qrels
    assert lost_of_queries(trec) == lost_of_both | kept_by_nvidia | {"metadata.answers": 3}
    assert {name for name in nvidia.lost if name.startswith("dataset.")} == {
        "dataset.name", "dataset.version", "dataset.created_at", "dataset.metadata.size",
        "dataset.metadata.avg_query_length", "dataset.metadata.source",
    }  # fmt: skip
    assert json.loads(json.dumps(trec.record()))["lost"] == trec.lost
    assert trec.line().startswith(f"{tmp_path / 'trec'}: trec, 3 files, 4 questions, 4 judgements; ")


def test_export_is_deterministic_real_files_without_a_mark_of_ours(awkward, tmp_path):
    for format in FORMATS:
        found = []
        for root in (tmp_path / format / "one", tmp_path / format / "two"):
            report = export(awkward, "awkward", format, root / "out")
            files = [path for path in root.rglob("*") if not path.is_dir()]
            found.append({path.relative_to(root): path.read_bytes() for path in files})
            assert report.files == len(files) > 0, format
            assert not any(path.is_symlink() or path.stat().st_nlink > 1 for path in files), format

        assert found[0] == found[1], format
        marked = (path for path, content in found[0].items() if b"schema_version" in content and path.suffix != ".pdf")
        assert not any(marked), format


def change_train_json(workspace):
    path = workspace.benchmark("awkward").train_json
    path.write_text(path.read_text().replace('"id": 3', '"id": 4'))


def change_document(workspace):
    (workspace.benchmark("awkward").corpus / "a b.pdf").write_bytes(b"%PDF-1.4 of another night")


REFUSED = {
    #                           change                                                                 code
    "not converted":           (lambda w: w.benchmark("awkward").stamp.unlink(),                     "not_converted"),
    "source edited":           (lambda w: (w.benchmark("awkward").source / "new").touch(),           "stale_conversion"),
    "train.json edited":       (change_train_json,                                                   "changed_dataset"),
    "pages edited":            (lambda w: w.benchmark("awkward").pages.write_bytes(b"PAR1"),         "changed_dataset"),
    "document edited":         (change_document,                                                     "changed_document"),
    "document deleted":        (lambda w: (w.benchmark("awkward").corpus / "a b.pdf").unlink(),      "missing_document"),
    "benchmark deleted":       (lambda w: w.benchmark("awkward").spec.unlink(),                      "no_benchmark"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "code"), REFUSED.values(), ids=REFUSED)
def test_changed_benchmark_is_refused_and_leaves_nothing(change, code, awkward, tmp_path):
    change(awkward)

    with pytest.raises(InputError) as error:
        export(awkward, "awkward", "nvidia", tmp_path / "exports" / "out")

    assert error.value.code == code
    assert list((tmp_path / "exports").glob("*")) == []


@pytest.fixture
def evaluation(awkward, answer_by_hand):
    return load_evaluation(awkward, answer_by_hand(awkward, "awkward", [OK]))


def test_formats_without_answers_refuse_an_evaluation(awkward, tmp_path, evaluation):
    for format in ("evret", "beir"):
        with pytest.raises(InputError, match="no_answers_in_format"):
            export(awkward, "awkward", format, tmp_path / "out", evaluation="embedded")
    with pytest.raises(
        InputError, match=r"unknown_format\]. Known formats: nvidia, evret, beir, trec, ragas, inspect, promptfoo"
    ):
        export(awkward, "awkward", "csv", tmp_path / "out")


def test_evaluation_is_found_by_its_id_and_by_its_system(awkward, tmp_path, evaluation):
    by_id = export(awkward, "awkward", "ragas", tmp_path / "id", evaluation=evaluation.record.evaluation_id)
    by_system = export(awkward, "awkward", "ragas", tmp_path / "system", evaluation="embedded")

    assert by_id.evaluation_id == by_system.evaluation_id == evaluation.record.evaluation_id
    assert by_id.counts == {"questions": 4, "answers": 1}
    assert "3 of 4 questions got no answer; their answers are absent, not empty" in by_id.notes


def test_unknown_evaluation_lists_the_systems(awkward, tmp_path, evaluation):
    for name in ("eval_run_20200101_001", "../runs", ""):
        with pytest.raises(InputError, match=r"no_evaluation.*Systems evaluated on it: embedded\."):
            export(awkward, "awkward", "ragas", tmp_path / "out", evaluation=name)


def stale(record, name):
    return {"fingerprints": record.fingerprints.model_copy(update={name: "0" * 64})}


def test_answers_to_another_dataset_are_refused(awkward, tmp_path, evaluation):
    record = evaluation.record
    for change, code in (
        ({"state": "open"}, "not_answered"),
        ({"benchmark": "other"}, "other_benchmark"),
        (stale(record, "dataset"), "stale_evaluation"),
        (stale(record, "corpus"), "stale_evaluation"),
    ):
        evaluation.save(
            **{"state": record.state, "benchmark": record.benchmark, "fingerprints": record.fingerprints} | change
        )
        with pytest.raises(InputError, match=code):
            export(awkward, "awkward", "ragas", tmp_path / "out", evaluation=record.evaluation_id)


def test_answers_belong_to_the_questions_that_were_asked(awkward, tmp_path, evaluation):
    answers = read_responses(evaluation.responses)
    evaluation.write_answers(answers[::-1])
    with pytest.raises(InputError, match="foreign_answers"):
        export(awkward, "awkward", "ragas", tmp_path / "out", evaluation="embedded")

    evaluation.write_answers(answers[:2])
    evaluation.save(limit=2)
    report = export(awkward, "awkward", "ragas", tmp_path / "out", evaluation="embedded")
    assert report.counts == {"questions": 2, "answers": 1}
    assert "1 of 2 questions got no answer; their answers are absent, not empty" in report.notes


def test_only_scores_of_the_same_evaluation_are_exported(awkward, tmp_path, evaluation):
    evaluation.scores("retrieval_scores").write_bytes(b"torn")
    rows = [QueryScores("0", "scored", None, {"nv_accuracy": 1.0})]
    for scored_id, expected in ((evaluation.record.evaluation_id, 1.0), ("eval_run_20200101_001", None)):
        write_scores(evaluation.scores("answer_scores"), rows, ["nv_accuracy"], evaluation_id=scored_id)
        options = ExportOptions(overwrite=True)
        export(awkward, "awkward", "nvidia", tmp_path / "out", evaluation="embedded", options=options)

        results = json.loads((tmp_path / "out/results/out/rag_out_evaluation_results.json").read_text())
        assert results["nv_accuracy"] == [expected, None, None, None]
