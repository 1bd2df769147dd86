"""Runs whose process is gone without a word: power, memory, a kill.

Dagster takes them for running until `max_runtime_seconds`, six hours in which their systems are asked nothing and no
report is made. Told to have failed, they are tried again, and go on where their journals end.
"""

import dagster as dg

LAUNCHER = "DefaultRunLauncher"


def fail_lost_runs(reason: str) -> int:
    """Tells Dagster that the runs of the server before this one have ended; returns their number.

    Right only where runs are processes below the one code server of an instance, as with Dagster's default launcher,
    and before that server starts.

    Args:
        reason: What stands in each run's log.
    """
    with dg.DagsterInstance.get() as instance:
        if type(instance.run_launcher).__name__ != LAUNCHER:
            return 0
        # Not those that are being started: that they never did is found by run monitoring in minutes.
        statuses = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
        lost = instance.get_runs(filters=dg.RunsFilter(statuses=statuses))
        for run in lost:
            instance.report_run_failed(run, reason)
    return len(lost)
