"""docs/scale.md is what its scripts make of the measured costs, and the simulated queue is right where the answer is known."""

import json
import sys

import pytest
import yaml

from rag_eval_pipeline.conversion.planning import MAX_QUESTIONS
from rag_eval_pipeline.conversion.shards import ConversionSettings
from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def scripts():
    """The two scripts, as when they are run from their folder."""
    sys.path.insert(0, str(REPOSITORY / "bench"))
    import scale_figures
    import scale_simulation

    yield scale_figures, scale_simulation
    sys.path.remove(str(REPOSITORY / "bench"))


def test_tables_of_the_page_are_the_arithmetic_of_the_kept_costs(scripts):
    figures, _ = scripts

    assert figures.tables(json.loads(figures.COSTS.read_text())) in figures.PAGE.read_text(), (
        "run python bench/scale_figures.py --tables"
    )


def test_tables_count_with_the_limits_of_the_code(scripts):
    figures, _ = scripts
    settings = yaml.safe_load((REPOSITORY / "dagster.yaml").read_text())

    assert settings["run_monitoring"]["max_runtime_seconds"] == figures.RUN_LIMIT_S
    assert figures.BENCHMARK_QUESTIONS == MAX_QUESTIONS
    assert ConversionSettings().shard_documents == figures.SHARD_DOCUMENTS


def night(simulation, pairs, **settings):
    free = {"interval_s": 0.001, "request_s": 0.0, "launch_s": 0.0, "death_rate": 0.0, "max_concurrent_runs": 10**6}
    return simulation.simulate(pairs, simulation.Setting(**free | settings), seed=1)


def test_simulated_night_without_limits_and_deaths_is_the_ideal_within_one_run(scripts):
    _, simulation = scripts
    pairs = simulation.draw_pairs(400, 400, seed=3)
    longest = max(pair.start_s + pair.work_s for pair in pairs)
    ideal = simulation.ideal_s(pairs, workers=7)

    assert ideal <= night(simulation, pairs, workers=7).makespan_s <= ideal + longest


def test_simulated_system_is_asked_by_one_run_at_a_time(scripts):
    _, simulation = scripts
    pairs = [simulation.Pair(0, 1.0, 9.0)] * 5

    assert night(simulation, pairs, workers=5).makespan_s == pytest.approx(50.0, abs=0.01)


def test_simulated_run_that_died_twice_is_lost_and_held_its_worker_until_it_was_noticed(scripts):
    _, simulation = scripts
    pairs = [simulation.Pair(0, 1.0, 9.0)]
    lost = night(simulation, pairs, workers=1, death_rate=1.0, detection_s=30.0, repair_s=5.0)

    assert (lost.retried, lost.lost) == (1, 1)
    assert 60.0 <= lost.makespan_s <= 80.0
