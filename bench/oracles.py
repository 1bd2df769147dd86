"""Our numbers beside those that the official scorers printed: how many were compared, and how many differ.

    python -P bench/oracles.py [FOLDER]

The outputs of trec_eval and pytrec_eval are in the repository. FOLDER holds those of the others with their inputs,
`../shared/oracles` unless given, with real benchmarks beside it in `data`; tests/oracles/README.md says where they come
from. Files as trec_eval prints them are compared as text, the others as numbers, to the last bit of what stands in the
file. Prints a table for the README, and every difference.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.testing import CliRunner

from rag_eval_pipeline.cli.score import score as score_command
from rag_eval_pipeline.metrics.answers import AnswerScore, official_scores
from rag_eval_pipeline.metrics.intervals import mean
from rag_eval_pipeline.metrics.performance import latency_stats
from rag_eval_pipeline.metrics.retrieval.engine import score
from rag_eval_pipeline.metrics.retrieval.names import parse_measure
from rag_eval_pipeline.metrics.retrieval.rankings import qrels_from_dict, run_from_dict

ROOT = Path(__file__).resolve().parent.parent
TREC_EVAL = ROOT / "tests" / "oracles" / "trec_eval"
RECORDED = ROOT / "tests" / "metrics" / "retrieval" / "pytrec_eval.json"
PARAMETERS = (
    "-q", "-m", "success.2,5,20", "-m", "ndcg_cut.10,20,23", "-m", "ndcg.1=3,2=9,4=4.5", "-m", "11pt_avg..25,.5,.75",
    "-m", "utility.2,-1,0,0", "-m", "Rprec_mult.0.2,0.35,5.0", "-m", "recall.20,2000", "-m", "P.5,7,3",
    "-m", "iprec_at_recall.0.1,.2,.25,.75,.50",
)  # fmt: skip
TREC = {
    "out.test": ((), "trec_eval"),
    "out.test.a": (("-m", "all_trec"), "trec_eval -m all_trec"),
    "out.test.aq": (("-q", "-m", "all_trec"), "trec_eval -q -m all_trec"),
    "out.test.meas_params": (PARAMETERS, "trec_eval -q, cutoffs and gains"),
}


class Compared(NamedTuple):
    """One file of an official scorer: its values by name, and ours."""

    file: str
    scorer: str
    theirs: Mapping[str, Any]
    ours: Mapping[str, Any]

    @property
    def differing(self) -> list[str]:
        """Names of the values that differ or that one side does not have."""
        names = self.theirs.keys() | self.ours.keys()
        return sorted(name for name in names if self.theirs.get(name) != self.ours.get(name))


def printed_lines(text: str) -> dict[str, str]:
    """Measure and query -> what is printed behind them."""
    rows = (line.split("\t") for line in text.splitlines())
    return {f"{name.strip()} {query}": value for name, query, value in rows}


def trec_eval() -> Iterator[Compared]:
    folder = TREC_EVAL
    app = typer.Typer()
    app.command()(score_command)
    files = ["--qrels", str(folder / "qrels.test"), "--run", str(folder / "results.test")]
    for name, (options, scorer) in TREC.items():
        output = CliRunner().invoke(app, [*files, *options]).stdout
        yield Compared(f"trec_eval/{name}", scorer, printed_lines((folder / name).read_text()), printed_lines(output))


def pytrec_eval() -> Iterator[Compared]:
    table = json.loads(RECORDED.read_text())
    run = run_from_dict(table["run"])
    for level, expected in table["expected"].items():
        measures = [parse_measure(name) for name in next(iter(expected.values()))]
        qrels = qrels_from_dict({query: table["qrels"][query] for query in expected})
        found = score(run, qrels, measures, level=int(level))
        ours = {
            f"{measure.trec_name} {query}": float(value).hex()
            for measure, values in zip(measures, found.values, strict=True)
            for query, value in zip(found.queries, values.tolist(), strict=True)
        }
        theirs = {f"{name} {query}": value for query, row in expected.items() for name, value in row.items()}
        yield Compared(RECORDED.name, f"pytrec_eval 0.5.11, relevant from {level}", theirs, ours)


def squad_questions(path: Path) -> list[dict[str, Any]]:
    articles = json.loads(path.read_text())["data"]
    return [question for article in articles for part in article["paragraphs"] for question in part["qas"]]


def squad_scored(
    questions: list[dict[str, Any]], predictions: Mapping[str, str], score: Any = official_scores
) -> dict[str, tuple[bool, AnswerScore]]:
    return {
        one["id"]: (
            bool(one["answers"]),
            score(predictions[one["id"]], [answer["text"] for answer in one["answers"]]),
        )
        for one in questions
        if one["id"] in predictions
    }


def running_sum(values: Iterable[float]) -> float:
    return reduce(add, values, 0.0)  # not sum(): since Python 3.12 it compensates for rounding, which changes digits


def squad_totals(scored: Mapping[str, tuple[bool, AnswerScore]]) -> dict[str, float]:
    """Aggregate scores as evaluate-v2.0.py does: means in percent and counts, under the names that it prints."""
    parts = {
        "": [score for _, score in scored.values()],
        "HasAns_": [score for has_answer, score in scored.values() if has_answer],
        "NoAns_": [score for has_answer, score in scored.values() if not has_answer],
    }
    totals: dict[str, float] = {}
    for prefix, scores in parts.items():
        if scores:
            for name, column in zip(("exact", "f1"), zip(*scores, strict=True), strict=True):
                totals[f"{prefix}{name}"] = 100.0 * running_sum(column) / len(scores)
            totals[f"{prefix}total"] = len(scores)
    return totals


def best_threshold(
    scored: Mapping[str, tuple[bool, AnswerScore]],
    predictions: Mapping[str, str],
    probabilities: Mapping[str, float],
    measure: str,
) -> tuple[float, float]:
    """Return the best mean in percent, and the no-answer probability above which answers count as abstentions.

    Source: evaluate-v2.0.py, find_best_thresh.
    """
    best = total = float(sum(not has_answer for has_answer, _ in scored.values()))
    threshold = 0.0
    for one in sorted(probabilities, key=probabilities.__getitem__):
        has_answer, score = scored[one]
        total += getattr(score, measure) if has_answer else -float(bool(predictions[one]))
        if total > best:
            best, threshold = total, probabilities[one]
    return 100.0 * best / len(probabilities), threshold


def squad(oracles: Path) -> Iterator[Compared]:
    folder = oracles / "squad_em_f1"
    questions, expected = squad_questions(folder / "xquad.en.json"), json.loads((folder / "expected.json").read_text())
    for system, theirs in expected.items():
        predictions = json.loads((folder / f"{system}.predictions.json").read_text())
        ours = squad_totals(squad_scored(questions, predictions))
        yield Compared(f"squad_em_f1/expected.json, {system}", "SQuAD evaluate-v2.0.py", theirs, ours)

    folder = oracles / "squad2_noanswer"
    questions = squad_questions(oracles.parent / "data" / "squad2" / "dev-sample.json")
    predictions, probabilities, expected = (
        json.loads((folder / name).read_text())
        for name in ("dev.predictions.json", "dev.na_prob.json", "expected.json")
    )
    scored = squad_scored(questions, predictions)
    for case, theirs in expected["dev"].items():
        ours = squad_totals(scored)
        if case == "with_na_prob":
            for measure, key in (("exact_match", "best_exact"), ("f1", "best_f1")):
                ours[key], ours[f"{key}_thresh"] = best_threshold(scored, predictions, probabilities, measure)
        yield Compared(f"squad2_noanswer/expected.json, {case}", "SQuAD evaluate-v2.0.py", theirs, ours)


def published_run(folder: Path) -> Iterator[Compared]:
    """Means and extremes of a published run; its summary is rounded to two digits, its extremes are not."""
    rows = [json.loads(line) for line in (folder / "eval_results.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    latency = latency_stats([row["latency"] for row in rows])
    ours: dict[str, Any] = {
        "latency mean": round(latency.mean or 0.0, 2), "latency max": latency.max, "latency min": latency.min,
    }  # fmt: skip
    for rating in ("gpt_groundedness", "gpt_relevance"):
        passed = [float(row[rating] >= 4) for row in rows]
        ours |= {
            f"{rating} pass_count": sum(passed),
            f"{rating} pass_rate": round(mean(passed), 2),
            f"{rating} mean_rating": round(mean([row[rating] for row in rows]), 2),
        }
    theirs = {f"{part} {key}": value for part, values in summary.items() for key, value in values.items()}
    named = {name: value for name, value in theirs.items() if not name.startswith("answer_length")}
    yield Compared("ai-rag-chat-evaluator/summary.json", "ai-rag-chat-evaluator", named, ours)


def main() -> None:
    oracles = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "oracles"
    compared = [*trec_eval(), *pytrec_eval()]
    if oracles.is_dir():
        compared += squad(oracles)
        compared += published_run(oracles / "ai-rag-chat-evaluator")
    print("| official output | scorer | values | differ |\n|---|---|---|---|")
    for one in compared:
        print(f"| {one.file} | {one.scorer} | {len(one.theirs)} | {len(one.differing)} |")
    if not oracles.is_dir():
        print(f"\nNot compared, because {oracles} is not there: SQuAD and others, see tests/oracles/README.md.")
    for one in compared:
        for name in one.differing:
            print(f"{one.file}: {name}: theirs {one.theirs.get(name)!r}, ours {one.ours.get(name)!r}")


if __name__ == "__main__":
    main()
