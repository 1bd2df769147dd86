"""A comparison as one HTML file to send: the page of the report with its style, scripts, questions and pictures in it.

It asks for nothing: what the page links is left out, or an address where the report has one.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from html import escape, unescape
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urljoin

import msgspec

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.monitoring.alert_files import read_alert_settings
from rag_eval_pipeline.monitoring.causes import find_cause
from rag_eval_pipeline.monitoring.verdict_records import Comparison
from rag_eval_pipeline.site.baseline_runs import Earlier, baseline_ids
from rag_eval_pipeline.site.comparison_page import comparison_values
from rag_eval_pipeline.site.data import ReportData, comparison_name, read_report_data
from rag_eval_pipeline.site.display_text import data_script, replace_control_chars, script_json
from rag_eval_pipeline.site.marked_pages import PageImages
from rag_eval_pipeline.site.page_writer import render
from rag_eval_pipeline.site.question_nights import QuestionNight, nights_value, read_question_night
from rag_eval_pipeline.site.question_table import PICTURED_QUESTIONS
from rag_eval_pipeline.site.run_data import DatasetCache, RunSources, read_questions, read_run
from rag_eval_pipeline.site.run_page import metric_meanings, question_values, run_details
from rag_eval_pipeline.workspace import Workspace

FILE_BYTES = 5_000_000  # mail servers take twice as much, and a mail is a third larger than its attachment
QUESTIONS_LISTED = 1_000
PICTURES = 40
PICTURE_BYTES = 2_000_000
_SPARE_BYTES = 1_000  # for what is said of what is left out
_POLICY = "default-src 'none'; {}; img-src data:; base-uri 'none'; form-action 'none'"
_STYLE = re.compile(r'<link rel="stylesheet" href="\.\./assets/([\w.]+)">')
_SCRIPT = re.compile(r'<script src="\.\./assets/([\w.]+)" defer></script>')
_LINK = re.compile(r'<a ([^>]*?)href="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)


def comparison_file(workspace: Workspace, row: Comparison, *, limit: int = FILE_BYTES) -> bytes:
    """Return a comparison as one HTML file.

    Args:
        limit: Bytes, above which the details of the questions that changed least are left out.

    Raises:
        InputError: `no_evaluation` if a side was not published in the workspace.
    """
    report = read_report_data(workspace)
    headers = {one.evaluation_id: one for nights in report.by_pair.values() for one in nights}
    old_ids = baseline_ids(report, row)
    for name in (*old_ids[-1:], row.evaluation_id):
        if name not in headers:
            raise InputError("no_evaluation", "--html", "two evaluations that the workspace has published", found=name)
    new = headers[row.evaluation_id or ""]
    nights = {
        name: read_question_night(report, headers[name], with_answers=True)
        for name in (*old_ids, new.evaluation_id)
        if name in headers
    }
    earlier = Earlier(
        "the baseline" if row.kind == "baseline" else row.old, [nights[n] for n in old_ids if n in nights]
    )
    night, datasets = nights[new.evaluation_id], DatasetCache(report)
    changed = earlier.changes(night)
    by_change = sorted(night.scores, key=lambda query_id: -abs(changed.get(query_id, 0.0)))
    hidden = frozenset(by_change[QUESTIONS_LISTED:])
    run = read_run(workspace, new, datasets, hidden)
    asked = read_questions(workspace.results_file(new.evaluation_id), hidden)
    values, table = comparison_values(report, row, new, nights, asked, (), datasets)
    if values["cause"] is None and (cause := find_cause(workspace, new.evaluation_id, old_ids, row.verdicts)):
        values["cause"] = cause.sentence, None
    name, address = comparison_name(row), read_alert_settings(workspace).settings.report_url
    data: dict[str, Any] = {}
    values["one_file"] = {"left_out": 0, "pictured": 0}
    if table is not None:
        # The details of a question are at its row's place in the table.
        names = {replace_control_chars(one): one for one in by_change}
        ids = [names[key] for key in table.get("keys") or table["columns"][0]["values"]]
        data = {"questions": table, "meanings": metric_meanings(asked.metrics, run.file)}
        data["history"] = nights_value([*earlier.nights, night], frozenset(by_change) - set(ids))
        values |= question_values(report, run) | {"chunk": max(1, len(ids)), "unpictured": ""}
        left = limit - len(_in_one_file(values, data, name, address)) - _SPARE_BYTES
        order = [query_id for query_id in by_change if query_id in set(ids)]
        details, data["pictures"] = _details(report, run, night, earlier, order, left)
        data["details-000"] = [details.get(query_id) for query_id in ids]
        n_pictured = sum(b'"pictures"' in bytes(one) for one in details.values())
        values["one_file"] = {"left_out": len(ids) - len(details), "pictured": n_pictured}
    return _in_one_file(values, data, name, address)


def _details(
    report: ReportData, run: RunSources, night: QuestionNight, earlier: Earlier, order: list[str], left: int
) -> tuple[dict[str, msgspec.Raw], dict[str, str]]:
    """Return the encoded details of as many questions as there is room for, and the pictures of the first by name."""
    rows = {row.query_id: row for row in run.shown}
    details: dict[str, msgspec.Raw] = {}
    pictures: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        corpus = report.workspace.benchmark(run.header.benchmark).corpus
        images = PageImages(Path(folder), corpus, run.dataset.texts, files_max=PICTURES, bytes_max=PICTURE_BYTES)
        for place, query_id in enumerate(order):
            is_drawn = place < PICTURED_QUESTIONS and run.dataset.has_corpus
            found = run_details(run, night, rows[query_id], earlier, images if is_drawn else None)
            own = {
                one.src: "data:image/png;base64," + base64.b64encode((Path(folder) / one.src).read_bytes()).decode()
                for one in found.pictures
                if one.src not in pictures
            }
            encoded = script_json(found)
            size = len(encoded) + sum(map(len, own.values()))
            if size > left:
                break
            left -= size
            details[query_id] = msgspec.Raw(encoded)
            pictures |= own
    return details, pictures


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text()


def _in_one_file(values: Mapping[str, Any], data: Mapping[str, Any], name: str, address: str | None) -> bytes:
    """Render the page with its style sheets, scripts and data in it."""
    page = render("comparison.html", root="../", policy=_POLICY, **values).decode()
    style = "".join(map(_asset, _STYLE.findall(page)))
    script = "".join(map(_asset, _SCRIPT.findall(page)))
    script += "".join(data_script(key, value).decode() for key, value in data.items())
    script += 'ragEval.receive("comparison", ragEval.values.get("questions"));\n'

    def linked(match: re.Match[str]) -> str:
        before, href, after, inner = match.groups()
        if href.startswith(("#", f"{name}.html?")):
            return match[0].replace(f"{name}.html?", "?")
        if address is None:
            return f"<span {before}{after}>{inner}</span>"
        full = urljoin(f"{address.rstrip('/')}/comparisons/", unescape(href))
        return f'<a {before}href="{escape(full)}"{after}>{inner}</a>'

    page = _LINK.sub(linked, _SCRIPT.sub("", _STYLE.sub("", page)))
    page = page.replace("</head>", f"<style>{style}</style>\n</head>")
    page = page.replace("</body>", f"<script>{script}</script>\n</body>")
    hashes = (f"{kind}-src 'sha256-{_sha256(text)}'" for kind, text in (("script", script), ("style", style)))
    return page.replace("{}", "; ".join(hashes), 1).encode()


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
