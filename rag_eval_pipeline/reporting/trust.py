"""Whether a judge's figures may be relied on: looked up when they are shown, never stored with them."""

from collections.abc import Sequence

from rag_eval_pipeline.judges.calibration_card import TrustCard, is_calibrated, read_trust_cards
from rag_eval_pipeline.judges.calibration_labels import Task
from rag_eval_pipeline.reporting.results_headers import ResultsHeader
from rag_eval_pipeline.workspace import Workspace

NOT_CALIBRATED = "not calibrated: nobody has compared this judge with people on this benchmark"
# Which labels vouch for a figure; figures that are not here need no judge.
TASKS: dict[str, Task] = {"judged_correct": "correctness", "faithfulness": "support"}


class Trust:
    """The trust cards of a workspace."""

    def __init__(self, cards: Sequence[TrustCard]) -> None:
        self._cards = cards

    @classmethod
    def of(cls, workspace: Workspace) -> "Trust":
        """Those that lie there."""
        return cls(read_trust_cards(workspace.trust_cards))

    def doubt(self, row: ResultsHeader, column: str) -> str | None:
        """Why a figure is only to be compared with itself; None for one that needs no judge, or a calibrated one."""
        task = TASKS.get(column)
        if task is None:
            return None
        known = is_calibrated(
            self._cards, benchmark=row.benchmark, fingerprint=row.fingerprints.get("judge"), task=task
        )
        return None if known else NOT_CALIBRATED
