"""The Dagster code location: everything in `defs`, and the workspace it works on."""

import dagster as dg

from rag_eval_pipeline.defs import aggregation, automation, conversion, evaluation
from rag_eval_pipeline.defs.owners import owned
from rag_eval_pipeline.defs.resources import WorkspaceResource

defs = dg.Definitions(
    assets=owned([*conversion.ASSETS, *evaluation.ASSETS, *aggregation.ASSETS]),
    jobs=automation.JOBS,
    sensors=automation.SENSORS,
    schedules=automation.SCHEDULES,
    resources={"workspace": WorkspaceResource()},
    # A process a step costs 5 to 10 times the run here; work inside an asset is concurrent, and several runs go at
    # once.
    executor=dg.in_process_executor,
)
