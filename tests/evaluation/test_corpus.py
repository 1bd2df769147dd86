"""Cited texts are whole sentences, and passages of unknown documents have no retrieval score."""

import json
from pathlib import Path

import pytest
import yaml

from rag_eval_pipeline import cli
from rag_eval_pipeline.evaluation.corpus import CorpusTexts
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import ask_pair, score_pair
from rag_eval_pipeline.formats.results import EvaluationResults
from rag_eval_pipeline.report.site import write_report
from rag_eval_pipeline.systems.base import PageText

#        0         1         2         3
#        0123456789012345678901234567890123456789
FIRST = "The tower is old. It was built in 1889."
SECOND = "Nobody lives there. Birds do."
TEXTS = CorpusTexts([PageText("b.pdf", 2, 40, SECOND), PageText("b.pdf", 1, 0, FIRST), PageText("c.pdf", 1, 0, " ")])

CASES = {
    "a whole sentence": ("b.pdf", 0, 17, "The tower is old."),
    "a part is widened": ("b.pdf", 22, 30, "It was built in 1889."),
    "one letter of each": ("b.pdf", 16, 19, "The tower is old. It was built in 1889."),
    "the space between touches neither": ("b.pdf", 17, 18, None),
    "over a page break": ("b.pdf", 30, 45, "It was built in 1889. Nobody lives there."),
    "behind the end": ("b.pdf", 69, 90, None),
    "a page without words": ("c.pdf", 0, 5, None),
    "a document that is not there": ("d.pdf", 0, 5, None),
}


@pytest.mark.parametrize(("document", "start", "end", "expected"), CASES.values(), ids=CASES)
def test_cited_text(document, start, end, expected):
    assert TEXTS.cited(document, start, end) == expected


RAILWAY = "skarn-railway"
HAND = {"document": "line-opening.pdf", "text": "x"}


@pytest.fixture
def replaying(workspace):
    """Makes the system `recorded`, which answers every question with the passages that a function gives."""

    def make(contexts_of):
        queries = load_pair(workspace, RAILWAY, "embedded").queries
        rows = [
            {"id": query.query_id, "answer": "x", "contexts": contexts_of(number, query)}
            for number, query in enumerate(queries)
        ]
        folder = workspace.config / "systems"
        (folder / "recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "recorded.config.yaml").write_text(
            yaml.safe_dump({"kind": "replay", "settings": {"path": "recorded.jsonl"}})
        )
        return queries

    return make


@pytest.fixture
def evaluated(workspace, monkeypatch, capsys):
    """Evaluates `recorded` by the command; returns its results and what it printed on standard error."""

    def run():
        monkeypatch.chdir(workspace.root)
        monkeypatch.setattr("sys.argv", ["rag-eval", "evaluate", RAILWAY, "--system", "recorded", "--json"])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        captured = capsys.readouterr()
        assert not exit_.value.code
        return EvaluationResults.read(Path(json.loads(captured.out)[0]["results"])), captured.err

    return run


def own_ids(number, query):
    return [{"document": "kb/Line opening", "text": "a"}, {"document": "kb/VPN Setup", "text": "b"}]


RUNS = {
    #                          passages of a question                        reason                 said
    "ids of its own":         (own_ids,                                      "unknown_documents",
                               "0 of 80 retrieved passages name a document of the corpus. Returned: 'kb/Line opening'; "
                               "the corpus has 'line-opening.pdf'. Check the document names in the recording."),
    "no documents named":     (lambda n, q: [{"text": "a"}],                 "no_documents_named",
                               "0 of 40 retrieved passages name a document of the corpus. They state no document at "
                               "all. Check the document names in the recording."),
    "no passages":            (lambda n, q: [],                              "no_contexts",
                               "None of 40 answers states retrieved passages, so retrieval is not scored "
                               "[no_contexts]."),
    "no passages but unknown": (lambda n, q: [] if n else own_ids(n, q),     "unknown_documents",
                               "0 of 2 retrieved passages name a document of the corpus. Returned: 'kb/Line opening'; "
                               "the corpus has 'line-opening.pdf'. Check the document names in the recording."),
}  # fmt: skip


@pytest.mark.parametrize(("contexts", "reason", "said"), RUNS.values(), ids=RUNS)
def test_evaluate_scores_no_retrieval_when_no_document_is_known(contexts, reason, said, replaying, evaluated):
    replaying(contexts)

    results, err = evaluated()

    hit = results.retrieval_metrics["hit@1"]
    assert (hit.value, hit.confidence_interval, hit.n_scored, hit.reason) == (None, None, 0, reason)
    assert said in err
    assert results.warnings == (said,)


def test_the_report_says_that_no_document_is_known(replaying, evaluated, workspace):
    replaying(own_ids)
    results, _ = evaluated()

    index = write_report(workspace)

    page = (index.parent / "runs" / results.evaluation_id / "index.html").read_text()
    assert "0 of 80 retrieved passages name a document of the corpus." in page


def test_only_questions_without_any_known_document_are_skipped(replaying, workspace):
    """Of three answers with documents, one knows none, one knows its second passage's, and one has no passages."""
    queries = replaying(
        lambda n, q: own_ids(n, q) if n == 0 else [*own_ids(n, q), HAND] if n == 1 else [] if n == 2 else [HAND]
    )
    pair = load_pair(workspace, RAILWAY, "recorded")
    ask_pair(workspace, pair)

    report = score_pair(workspace, pair, "retrieval_scores")

    assert not any(query.is_impossible for query in queries[:3])
    assert [row.outcome for row in report.rows[:3]] == ["skipped", "scored", "scored"]
    assert report.rows[0].reason == "unknown_documents"
    assert report.rows[1].scores["hit@1"] == 0.0  # an unknown document holds its rank
    assert report.rows[2].scores["recall@10"] == 0.0  # a miss: the run names documents elsewhere
    check = report.retrieved.check()
    assert (check.name, check.passed, check.numbers["unknown"]) == ("retrieved_documents_known", False, 4)


def test_known_documents_need_no_warning(replaying, evaluated):
    replaying(lambda n, q: [HAND])

    results, err = evaluated()

    assert results.retrieval_metrics["hit@1"].n_scored == 32
    assert (results.warnings, err) == ((), "")
