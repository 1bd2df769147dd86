"""The files of nights are taken by `rag-eval validate`, as their writers write them and with what they break."""

import json

import jsonschema
import pytest
from typer.testing import CliRunner

from rag_eval_pipeline.cli import app
from rag_eval_pipeline.evaluation.baseline_files import nights_folder
from rag_eval_pipeline.formats.file_kinds import kind_of_file
from rag_eval_pipeline.formats.schemas import json_schema, schema_folder, write_schemas
from rag_eval_pipeline.formats.validation import examine
from rag_eval_pipeline.reporting.alerts import alerts_folder, read_alerts, tell_run_failure
from rag_eval_pipeline.reporting.baselines import pin
from rag_eval_pipeline.reporting.benchmark_files import write_benchmark_files
from rag_eval_pipeline.reporting.comparison import write_comparisons
from rag_eval_pipeline.reporting.file_kinds import KINDS, SCHEMAS
from rag_eval_pipeline.reporting.history_table import update_history
from rag_eval_pipeline.reporting.seals import history_folder
from rag_eval_pipeline.reporting.weekly import write_week
from rag_eval_pipeline.workspace import Workspace
from tests.reporting.site.making_nights import FIRST, publish_night, register

NIGHTS = 9


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Two systems over nine nights with everything that is written about them."""
    workspace = Workspace(tmp_path_factory.mktemp("nights"))
    register(workspace, ["b"], ["s", "t"])
    (workspace.config / "verdicts.config.yaml").write_text("units: questions\n")  # no dataset says what they share
    for night in range(NIGHTS):
        for number, system in enumerate(("s", "t"), start=1):
            publish_night(workspace, "b", system, night, questions=40, skill=0.6, number=number)
    ids = [f"eval_run_2026100{day}_001" for day in range(1, 6)]
    pin(workspace, "b", "s", ids, now=FIRST.replace(day=5, hour=12))
    update_history(workspace)
    write_comparisons(workspace)
    write_benchmark_files(workspace)
    write_week(workspace, "2026-10-05", now=FIRST.replace(day=9))
    tell_run_failure(workspace, job="evaluate", partition="b|s", error="it broke", started=FIRST, now=FIRST)
    return workspace


def files(workspace):
    data = workspace.root / "data"
    return [
        *workspace.results.glob("*.json"), *workspace.runs.glob("eval*/evaluation.json"),
        *workspace.baselines.glob("*/*.json"), *nights_folder(workspace).glob("*/*/*.json"),
        *(history_folder(workspace) / "seals").glob("*.json"), *alerts_folder(workspace).glob("*.alert.json"),
        *(data / "benchmarks").glob("*/*.json"), workspace.reports / "regressions.json",
    ]  # fmt: skip


def test_everything_that_is_written_about_nights_is_valid(nights):
    found = {path: examine(path, kinds=KINDS) for path in files(nights)}

    assert {path.name: [str(one) for one in lines] for path, lines in found.items() if lines} == {}
    folders = {path.relative_to(nights.root).parts[1:3] for path in found}
    assert len(folders) == 9  # results, runs, baselines, nights, history; alerts, regressions; performance, quality


def test_the_committed_schemas_of_nights_are_the_generated_ones(tmp_path):
    written = {path.name: path.read_text() for path in write_schemas(tmp_path, SCHEMAS)}

    assert sorted(written) == [
        f"{name}.schema.json" for name in ("alert", "baseline", "evaluation_record", "nights", "seal")
    ]
    committed = {name: (schema_folder() / name).read_text() for name in written}
    assert committed == written, "write_schemas(schema_folder(), SCHEMAS) writes them"


def test_files_of_nights_are_what_their_schemas_say(nights):
    checked = set()
    for path in files(nights):
        kind = kind_of_file(path, KINDS)
        if kind is None:
            continue
        schema = json_schema(kind.schema)
        jsonschema.Draft202012Validator.check_schema(schema)
        value = json.loads(path.read_text())
        jsonschema.validate(value, schema, jsonschema.Draft202012Validator)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value | {"unheard_of": 1}, schema, jsonschema.Draft202012Validator)
        checked.add(kind.schema)
    assert checked == set(SCHEMAS)


def test_a_finding_says_where_the_schema_speaks_of_it(nights, tmp_path):
    source = next(path for path in files(nights) if "baselines" in path.parts)
    path = tmp_path / source.relative_to(nights.root)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(json.loads(source.read_text()) | {"evaluations": []}))

    [found] = examine(path, kinds=KINDS)

    assert found.schema == "baseline.schema.json#/properties/evaluations"


def test_the_command_names_each_version(nights):
    baseline = nights.baselines / "b" / "s.json"
    alert = next(alerts_folder(nights).glob("*.alert.json"))

    done = CliRunner().invoke(app, ["validate", str(baseline), str(alert)])

    assert (done.exit_code, done.stdout.splitlines()) == (
        0, [f"{baseline}: valid (baseline 1.0)", f"{alert}: valid (alert 1.1)"],
    )  # fmt: skip


def changed(value, **fields):
    return value | fields


BROKEN = {
    #                                    which                  change                                                       code
    "a record of another folder":       ("runs",      lambda v: changed(v, evaluation_id="eval_run_20200101_001"),            "misnamed_file"),
    "published and never answered":     ("runs",      lambda v: changed(v, answered_at=None),                                 "bad_date"),
    "a record of a later form":         ("runs",      lambda v: changed(v, schema_version="2.0"),                             "newer_schema"),
    "a run pinned twice":               ("baselines", lambda v: changed(v, evaluations=v["evaluations"][:1] * 5),             "duplicate_id"),
    "a baseline without runs":          ("baselines", lambda v: changed(v, evaluations=[]),                                   "bad_format"),
    "a baseline of three":              ("baselines", lambda v: changed(v, evaluations=v["evaluations"][:3]),                 "counts"),
    "nights in disorder":               ("nights",    lambda v: changed(v, nights=v["nights"][::-1]),                         "bad_date"),
    "a night twice":                    ("nights",    lambda v: changed(v, nights=v["nights"] + v["nights"][-1:]),            "duplicate_id"),
    "an alert under another's name":    ("alerts",    lambda v: changed(v, alert_id="x"),                                     "misnamed_file"),
    "a failed run without its error":   ("alerts",    lambda v: {key: item for key, item in v.items() if key != "error"},     "alert_kind"),
    "a late night without a pair":      ("alerts",    lambda v: changed(v, kind="late", error=None),                          "alert_kind"),
    "a regression of nothing":          ("alerts",    lambda v: changed(v, kind="regressed", error=None),                     "alert_kind"),
    "a seal without its digest":        ("seals",     lambda v: changed(v, states=[v["states"][0] | {"sha256": "abc"}]),      "bad_digest"),
    "a seal of nothing":                ("seals",     lambda v: changed(v, states=[]),                                        "bad_format"),
}  # fmt: skip


@pytest.mark.parametrize(("folder", "change", "code"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_a_rule_is_named(folder, change, code, nights, tmp_path):
    source = next(path for path in files(nights) if folder in path.parts)
    path = tmp_path / source.relative_to(nights.root)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(change(json.loads(source.read_text()))))

    assert {found.code for found in examine(path, kinds=KINDS)} == {code}


def test_an_alert_of_the_form_before_late_nights_is_read(nights):
    path = next(alerts_folder(nights).glob("*.alert.json"))
    value = json.loads(path.read_text())
    del value["late"]
    path.write_text(json.dumps(value | {"schema_version": "1.0"}))

    [alert] = read_alerts(nights)

    assert (alert.schema_version, alert.late, alert.error) == ("1.1", (), "it broke")
