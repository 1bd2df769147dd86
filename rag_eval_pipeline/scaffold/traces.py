"""Exported traces: they look like questions with answers, but an output is what a system answered, never the truth."""

from dataclasses import replace

from rag_eval_pipeline.scaffold.headers import ROLES, normalised
from rag_eval_pipeline.scaffold.profile import DataFile, FolderProfile
from rag_eval_pipeline.scaffold.rows import FILL_IN_COLUMN, rows, skeleton
from rag_eval_pipeline.scaffold.writer import Draft

# Columns of exported traces and runs: where two of them are, an output is what a system answered.
TRACE = frozenset(
    "run_type parent_run_id parent_id trace_id session_id span_kind span_id start_time end_time latency total_tokens "
    "prompt_tokens completion_tokens total_cost observation_count feedback_stats first_token_time dotted_order".split()
)
OUTPUTS = frozenset("output outputs response completion".split())
REFERENCES = frozenset((*ROLES["answer"], *ROLES["answers"], "reference_outputs", "expectations")) - OUTPUTS


def traces(profile: FolderProfile) -> Draft | None:
    """Draft a folder with traces: its other files, or else one in which the user names the truth; None without any."""
    found = [file for file in profile.data if _is_traces(file)]
    if not found:
        return None
    draft = rows(replace(profile, data=tuple(file for file in profile.data if file not in found)))
    if draft is not None:
        return draft
    draft = skeleton(found[0])
    remark = (
        "answer: the file holds traces, whose outputs are what a system answered, not what it should have answered. "
        "Export a dataset with reference answers instead, or name the column with the truth. To find questions for a "
        "benchmark that you have: rag-eval suggest."
    )
    assert not isinstance(draft.questions, str), "a skeleton has an expression for each column"
    missing = (*(text for text in draft.missing if not text.startswith("answer:")), remark)
    questions = {**draft.questions, "answer": FILL_IN_COLUMN}
    return replace(draft, shape="exported traces", questions=questions, missing=missing)


def _is_traces(file: DataFile) -> bool:
    """Return whether a file's output is what a system answered, and nothing beside it is an expected one."""
    names = {normalised(column.name) for column in file.columns}
    return len(TRACE & names) >= 2 and not OUTPUTS.isdisjoint(names) and REFERENCES.isdisjoint(names)
