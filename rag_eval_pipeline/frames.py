"""A workspace's results as pandas frames, for notebooks; `rag_eval_pipeline.open` returns it.

Missing values are None or NaN; a column `reason` or `reasons` says why there is no score.
"""

import warnings
from pathlib import Path
from typing import Any, Self

import msgspec
import pandas as pd

from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation
from rag_eval_pipeline.evaluation.evaluation_settings import ANSWER_COLUMNS
from rag_eval_pipeline.evaluation.score_tables import iter_responses, read_scores
from rag_eval_pipeline.formats.dataset import OWN_METADATA, EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.results import load_evaluation_results
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.monitoring.comparison import compare_named
from rag_eval_pipeline.monitoring.history import history_rows
from rag_eval_pipeline.monitoring.history_tables import read_metrics, update_history
from rag_eval_pipeline.workspace import Workspace

SCORE_FILES = ("retrieval", "citation", "answer", "judge")  # each has its reasons


class WorkspaceFrames:
    """The benchmarks and results of a workspace; each method returns a frame with the columns that it lists."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def __repr__(self) -> str:
        return f"rag_eval_pipeline.open({str(self.workspace.root)!r})"

    @classmethod
    def open(cls, folder: Path | str) -> Self:
        """Open the workspace in a folder, or the one whose data folder it is.

        Raises:
            InputError: `no_workspace`.
        """
        given = Path(folder).resolve()
        for root in (given, given.parent):
            if (root / "data" / "sources").is_dir():
                return cls(Workspace(root))
        raise InputError("no_workspace", given, "a folder that holds data/sources", hint="Make one: rag-eval new DIR")

    def results(self, benchmark: str | None = None, system: str | None = None) -> pd.DataFrame:
        """Return the metrics of all published evaluations, one row each, oldest first within a pair.

        Columns: `evaluation_id`, `timestamp` (UTC), `benchmark`, `system`, `metric`, `value`, `low` and `high` (95 %
        interval), `n_scored`, `coverage` (share of the questions that were scored), `reason` (why there is no value),
        `role` (`baseline`, or `rerun of ...`).

        An evaluation whose files are damaged is left out with a warning that names the file.

        Raises:
            InputError: `no_benchmark` or `no_system` if there are no results of a name, and nothing has it.
        """
        update_history(self.workspace)
        rows, damaged = history_rows(self.workspace, benchmark, system)
        for line in damaged:
            warnings.warn(line, stacklevel=2)
        if not rows and benchmark is not None:
            self.workspace.existing_benchmark(benchmark)
        if not rows and system is not None:
            self.workspace.existing_system_file(system)
        roles = {row["evaluation_id"]: row["role"] for row in rows}
        frame: pd.DataFrame = read_metrics(self.workspace, roles).to_pandas()
        return frame.assign(role=frame["evaluation_id"].map(roles).astype(object))

    def questions(self, benchmark: str) -> pd.DataFrame:
        """Return the questions of a converted benchmark, one row each, in its order.

        Columns: `query_id`, `source_id` (your own id), `question`, `answer` (None if the documents have none),
        `answers` (all accepted ones), `is_impossible`, `query_type`, `difficulty`, `documents` (relevant ones),
        `metadata` (your own columns).
        """
        paths = self.workspace.benchmark(benchmark)
        if not paths.stamp.exists():
            hint = f"Convert it first: rag-eval convert {benchmark}"
            raise InputError("not_converted", benchmark, "a converted benchmark", hint=hint)
        stamp = Stamp.read(paths.stamp)
        dataset = EvaluationDataset.read(self.workspace.eval_json(stamp.dataset_id, stamp.dataset_version))
        return pd.DataFrame([_question(query) for query in dataset.queries], columns=list(_QUESTION_COLUMNS))

    def answers(self, evaluation: str) -> pd.DataFrame:
        """Return the answers of a published evaluation, one row per question, with a column for each metric.

        Columns: `query_id`, `source_id`, `question`, `gold_answer`, `is_impossible`, `status`, `answer`, `abstained`,
        `error`, `latency_ms`, `documents` (retrieved, best first), `relevant_documents`, `passages` (with page, text
        and score; None if the evaluation's folder is gone), `reasons` (group of metrics -> why it was not scored),
        and the metrics by their names.
        """
        results = load_evaluation_results(self.workspace.results, evaluation)
        dataset = self.workspace.eval_json(results.dataset_id, results.dataset_version)
        queries = EvaluationDataset.read(dataset).queries if dataset.exists() else ()
        gold = {query.query_id: _question(query) for query in queries}
        passages, reasons = self._details(evaluation)
        rows = []
        for row in results.query_results:
            known = gold.get(row.query_id, {})
            values = (
                row.query_id,
                known.get("source_id"),
                row.query_text,
                known.get("answer"),
                known.get("is_impossible"),
                row.status,
                row.generated_answer,
                row.abstained,
                row.error,
                row.latency_ms,
                list(row.retrieval_results.retrieved_docs),
                list(row.retrieval_results.ground_truth_relevant),
                passages.get(row.query_id),
                reasons.get(row.query_id, {}),
            )
            rows.append(dict(zip(ANSWER_COLUMNS, values, strict=True)) | row.individual_metrics)
        return pd.DataFrame(rows)

    def compare(self, old: str, new: str) -> pd.DataFrame:
        """Compare two evaluations of a benchmark as `rag-eval compare` does, one row per metric.

        Columns: `metric`, `label`, `verdict` (`regressed`, `improved`, `equivalent`, ...), `old`, `new` (means over the
        questions scored on both sides), `difference`, `low` and `high` (interval of the difference at the corrected
        level, which never contradicts the verdict), `p` (after Holm's correction), `n` (questions), `fell`, `rose`,
        `sentence`, `questions` (those that moved most).
        """
        found = compare_named(self.workspace, old, new).model_dump()
        rows = []
        for name, one in found["verdicts"].items():
            low, high = one["adjusted_interval"] or (None, None)
            rows.append(
                {
                    "metric": name,
                    "label": metric_label(name),
                    "verdict": one["kind"],
                    "old": one["baseline_mean"],
                    "new": one["current_mean"],
                    "difference": one["estimate"],
                    "low": low,
                    "high": high,
                    "p": one["p_corrected"],
                    "n": one["n"],
                    "fell": one["fell"],
                    "rose": one["rose"],
                    "sentence": one["sentence"],
                    "questions": list(one["questions"]),
                }
            )
        return pd.DataFrame(rows)

    def _details(self, evaluation: str) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
        """Return passages and reasons by question, from the evaluation's folder; empty if it was pruned."""
        if not (self.workspace.runs / evaluation / "evaluation.json").exists():
            return {}, {}
        run = load_evaluation(self.workspace, evaluation)
        passages = {one.query_id: list(msgspec.to_builtins(one.contexts)) for one in iter_responses(run.responses)}
        return passages, _reasons(run)


def _reasons(run: Evaluation) -> dict[str, dict[str, str]]:
    reasons: dict[str, dict[str, str]] = {}
    for name in SCORE_FILES:
        path = run.scores(f"{name}_scores")
        for row in read_scores(path) if path.exists() else ():
            if row.reason is not None:
                reasons.setdefault(row.query_id, {})[name] = row.reason
    return reasons


_QUESTION_COLUMNS = (
    "query_id", "source_id", "question", "answer", "answers", "is_impossible", "query_type", "difficulty", "documents",
    "metadata",
)  # fmt: skip


def _question(query: EvaluationQuery) -> dict[str, Any]:
    values = (
        query.query_id,
        query.metadata.get("source_id"),
        query.query_text,
        query.ground_truth_answer,
        query.accepted_answers,
        query.is_impossible,
        query.query_type,
        query.difficulty,
        list(query.relevant_documents),
        {name: value for name, value in query.metadata.items() if name not in OWN_METADATA},
    )
    return dict(zip(_QUESTION_COLUMNS, values, strict=True))
