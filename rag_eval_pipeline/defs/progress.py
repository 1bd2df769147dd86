"""Which runs are not finished, as sensors ask."""

import dagster as dg

AGGREGATE = "aggregate"  # the job that makes the leaderboard and what follows it
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def is_aggregating(instance: dg.DagsterInstance) -> bool:
    """Whether a leaderboard is on its way.

    It evaluates the leaderboard's checks itself; what a sensor reports of them meanwhile would belong to the old one,
    and the UI would show the check of the new one as not evaluated.
    """
    return instance.get_runs_count(dg.RunsFilter(job_name=AGGREGATE, statuses=UNFINISHED)) > 0
