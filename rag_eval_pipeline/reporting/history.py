"""Published evaluations, without their questions: what leaderboard, comparison and report choose from.

The registry decides what is shown: results of benchmarks and systems that are gone stay on disk and out of the report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_eval_pipeline.reporting.history_index import HistoryIndex
from rag_eval_pipeline.reporting.nightly import find_reruns
from rag_eval_pipeline.reporting.results_headers import Headers, MetricHeader, ResultsHeader, read_header
from rag_eval_pipeline.workspace import Workspace

__all__ = ["History", "MetricHeader", "ResultsHeader", "read_header", "read_history"]


@dataclass(frozen=True, slots=True)
class History:
    """Published evaluations of the present benchmarks and systems.

    Args:
        by_pair: (benchmark, system) -> evaluations, oldest first.
        nights: The same without reruns, which look at a night again and are none themselves.
        reruns: A rerun's evaluation id -> the night's.
        damaged: A line for each results file that could not be read, or is not what was published.
    """

    by_pair: Mapping[tuple[str, str], Sequence[ResultsHeader]]
    nights: Mapping[tuple[str, str], Sequence[ResultsHeader]]
    reruns: Mapping[str, str]
    damaged: list[str]

    def newest(self) -> list[ResultsHeader]:
        """The last night of each pair, by benchmark and system: what leaderboard, verdicts and report call now."""
        return [self.nights[pair][-1] for pair in sorted(self.nights)]


def read_history(workspace: Workspace, *, anew: bool = False) -> History:
    """The published results of registered benchmarks and systems.

    Args:
        workspace: Where.
        anew: Read every file, whatever is known of it.
    """
    benchmarks, systems = set(workspace.benchmarks()), set(workspace.systems())
    by_pair: dict[tuple[str, str], list[bytes]] = {}
    nights: dict[tuple[str, str], list[bytes]] = {}
    reruns = find_reruns(workspace)
    with HistoryIndex.opened(workspace, anew=anew) as index:
        for row in index.rows():  # one that is not what was published is named, and shown all the same
            if row.benchmark in benchmarks and row.system in systems:
                pair = row.benchmark, row.system
                by_pair.setdefault(pair, []).append(row.header)
                # A rerun whose night's results are gone is all that is left of the night.
                if row.evaluation_id not in reruns or pair not in nights:
                    nights.setdefault(pair, []).append(row.header)
        damaged = index.damaged()
    return History(_headers(by_pair), _headers(nights), reruns, damaged)


def _headers(packed: Mapping[tuple[str, str], Sequence[bytes]]) -> dict[tuple[str, str], Headers]:
    return {pair: Headers(rows) for pair, rows in packed.items()}
