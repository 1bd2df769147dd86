"""Drift through a whole conversion: reported by a check, accepted by a command, and no reason to evaluate again."""

import json

import pytest

from rag_eval_pipeline.conversion.convert import convert
from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.workspace import Workspace
from tests.corpus.making import simple_pdf
from tests.web.site import serve

SPEC = """
name: scratch
version: 1.0.0
source: q.jsonl
questions: {question: q, answer: a, urls: url}
"""
PDF = {"Content-Type": "application/pdf"}


@pytest.fixture
def site():
    yield from serve()


@pytest.fixture
def nights(benchmark, tmp_path, site):
    """Converts, over and over, a benchmark of one question about one paper on a site of its own."""
    site.answers["/paper"] = (200, PDF | {"ETag": '"1"'}, simple_pdf("gannets dive"))
    row = {"q": "Who dives?", "a": "gannets", "url": site.url("/paper")}
    config = tmp_path / "data" / "config" / "egress.config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(f"allowed_hosts: ['{site.host}']\nattempts: 1\n")

    class Nights:
        paths = benchmark(SPEC, {"q.jsonl": json.dumps(row)})
        web = site

        def policy(self, on_drift):
            self.paths.spec.write_text(SPEC + f"on_drift: {on_drift}\n")

        def convert(self, recheck="no", **options):
            reports = convert(Workspace(tmp_path), "scratch", recheck=recheck, **options)
            [report] = [report for report in reports if report.record.step == "corpus"]
            return report

        def changes(self):
            site.answers["/paper"] = (200, PDF | {"ETag": '"2"'}, simple_pdf("terns dive"))

        @property
        def file(self):
            return (tmp_path / "corpus" / "scratch" / "paper.pdf").read_bytes()

    return Nights()


def drift_check(report):
    [check] = [check for check in report.record.checks if check.name == "documents_as_on_the_web"]
    return check


def test_changed_page_is_a_failed_check_with_both_hashes_and_keeps_the_fingerprints(nights):
    assert drift_check(nights.convert()).passed
    before, stamp = Stamp.read(nights.paths.stamp), nights.paths.stamp.read_bytes()
    nights.web.answers["/paper"] = (304, {}, b"")
    assert drift_check(nights.convert("look")).passed
    assert nights.paths.stamp.read_bytes() == stamp
    nights.changes()

    report = nights.convert("look")

    assert nights.file == simple_pdf("gannets dive")
    check = drift_check(report)
    assert (check.passed, check.blocking, check.numbers["drifted"]) == (False, False, 1)
    assert report.record.counts["drifted"] == 1
    assert json.loads(nights.paths.web.read_text())["documents"]
    [note] = report.notes
    assert nights.web.url("/paper") in note
    after = Stamp.read(nights.paths.stamp)
    assert (after.corpus_fingerprint, after.dataset_fingerprint) == (
        before.corpus_fingerprint,
        before.dataset_fingerprint,
    )
    assert not drift_check(nights.convert()).passed  # until it is accepted


@pytest.mark.parametrize(("on_drift", "recheck"), [("keep", "accept"), ("update", "report")])
def test_changed_page_is_accepted_by_command_or_policy(nights, on_drift, recheck):
    nights.policy(on_drift)
    nights.convert()
    nights.changes()

    report = nights.convert(recheck, replace=True)

    assert nights.file == simple_pdf("terns dive")
    assert drift_check(report).passed
    assert drift_check(nights.convert()).passed


def test_fail_keeps_a_drifted_benchmark_from_being_evaluated(nights):
    nights.policy("fail")
    nights.convert()
    nights.changes()

    with pytest.raises(InputError, match="documents_as_on_the_web"):
        nights.convert("look")
    with pytest.raises(InputError, match="documents_as_on_the_web"):
        nights.convert()
