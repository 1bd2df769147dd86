"""What a terminal shows of comparisons between systems."""

from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.reporting.regressions import read_comparisons, verdict_lines


def test_where_nobody_can_tell_the_line_is_about_what_moved_most(workspace):
    (workspace.config / "verdicts.config.yaml").write_text("units: documents\n")
    for system in ("embedded", "embedded-weak"):
        evaluate(workspace, load_pair(workspace, "skarn-railway", system))
    [row] = [one for one in read_comparisons(workspace).rows if one.kind == "systems"]
    moves = {name: abs(found.evidence.estimate) for name, found in row.verdicts.items()}

    [line] = verdict_lines(workspace)

    assert max(moves.values()) == moves["exact_match"] > 0.25  # 11 questions of 40
    assert line.startswith("skarn-railway: embedded-weak against embedded: Exact match: Inconclusive: −27.5 points (")
