"""Where a regression comes from: the stage that broke, what its questions have in common, and the worst of them.

The verdicts say what got worse; nothing here changes them. A cause is a place to look at, found by counting.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pydantic

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.compared_runs import COMPARED, ScoredRun, run_of_evaluation
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, load_evaluation
from rag_eval_pipeline.evaluation.score_tables import PAGE, iter_texts
from rag_eval_pipeline.evaluation.system_state import known_changes
from rag_eval_pipeline.formats.citation_marks import strip_citations
from rag_eval_pipeline.formats.dataset import OWN_METADATA, EvaluationQuery, open_dataset
from rag_eval_pipeline.formats.row_files import RowFile
from rag_eval_pipeline.metrics.distributions import log_factorials
from rag_eval_pipeline.metrics.registry import metric_label
from rag_eval_pipeline.metrics.verdict_rules import FAILURE_RATE
from rag_eval_pipeline.monitoring.night_records import read_nights
from rag_eval_pipeline.monitoring.verdict_records import Verdict, leading, metric_of, segment_text
from rag_eval_pipeline.workspace import Workspace

Stage = Literal["failures", "retrieval", "refusals", "answers", "citations"]

WORSE_BY = 0.25  # of a score's range; a question that fluctuates once in five pinned runs differs by 0.2
MOVED_P = 0.05  # without correction: metrics that are named beside those with a verdict
REFUSED_MORE = 0.05  # share of the answerable questions
GROUP_P, GROUP_SHARE = 0.01, 0.5  # of what the worse questions have in common: how sure, and how many of them


def mean_text(mean: float | None) -> str:
    """Format a share in hundredths, with a decimal where it would seem to be none or all."""
    if mean is None:
        return "–"
    hundredths = round(100 * mean, 9)  # 0.735 and what sums of it make, 0.7349999999999999, are one number
    rounded = f"{hundredths:.0f}"
    return f"{hundredths:.1f}" if rounded in ("0", "100") and mean not in (0, 1) else rounded


class MetricMove(NamedTuple):
    """A metric that got worse: its means, and whether its verdict says so."""

    metric: str
    before: float
    after: float
    is_sure: bool

    @property
    def text(self) -> str:
        """`Hit@1 92 → 80`."""
        unsure = "" if self.is_sure else " (not sure)"
        return f"{metric_label(self.metric)} {mean_text(self.before)} → {mean_text(self.after)}{unsure}"


class QuestionGroup(NamedTuple):
    """A document, or a value of a field of the questions, whose questions got worse; the text is without full stop."""

    field: str
    value: str
    text: str


class WorseQuestion(NamedTuple):
    """A question with its accepted answer, the answer of the newest pinned run and the present one, without citations.

    Args:
        before: Score in that pinned run; `after` is the present one. None if the question failed.
        answer_after: The error if the question failed.
    """

    query_id: str
    source_id: str | None
    question: str
    gold: str | None
    answer_before: str
    answer_after: str
    before: float | None
    after: float | None

    @property
    def name(self) -> str:
        """The id that users know: the source's, else the dataset's."""
        return self.source_id or self.query_id

    @property
    def expected(self) -> str:
        """The accepted answer, or that it is a refusal."""
        return "a refusal: the documents hold no answer" if self.gold is None else self.gold


@dataclass(frozen=True, slots=True)
class Cause:
    """Where to look.

    Args:
        moves: Metrics that got worse together, those of the stage first.
        failed: Questions without an answer now, and in the newest pinned run.
        refused: Answerable questions that were refused now, and in the newest pinned run.
        is_retrieval_known: Whether both runs have scores of retrieval.
        worst: The largest change first: those of the group, and wrong answers before refusals.
    """

    stage: Stage
    moves: tuple[MetricMove, ...]
    questions: int
    failed: tuple[int, int]
    refused: tuple[int, int]
    group: QuestionGroup | None
    worst: tuple[WorseQuestion, ...]
    is_retrieval_known: bool = True
    known_changes: str | None = None
    runs: int = 1  # of the night, with its reruns: the moves are means over them, and the counts those of the first

    @property
    def where(self) -> str:
        """The run that the counts are of, where the night has several."""
        return " in the night's first run" if self.runs > 1 else ""

    @property
    def sentence(self) -> str:
        """`Look at retrieval: Hit@1 92 → 80; 28 of the 32 questions of section pilotage got worse, ...`.

        Then what is known to have changed: `Changed since 14 November: model x-08 → x-11; no other change is known.`
        """
        parts = [_STAGE_TEXT[self.stage].format(cause=self, move=self.moves[0])]
        if self.stage == "answers" and self.is_retrieval_known:
            parts[0] += ", while retrieval shows no significant change"
        where = f"Look at {'; '.join([*parts, *([self.group.text] if self.group else [])])}."
        return f"{where} {self.known_changes}" if self.known_changes else where


_STAGE_TEXT: dict[Stage, str] = {
    "failures": (
        "the errors: {cause.failed[0]} of {cause.questions} questions failed{cause.where}, {cause.failed[1]} before"
    ),
    "retrieval": "retrieval: {move.text}",
    "refusals": (
        "refusals: {cause.refused[0]} answerable questions were refused{cause.where}, {cause.refused[1]} before"
    ),
    "answers": "the answers: {move.text}",
    "citations": "citations: {move.text}",
}


def find_cause(
    workspace: Workspace,
    evaluation_id: str,
    baseline: Sequence[str],
    verdicts: Mapping[str, Verdict],
    *,
    shown: int = 3,
) -> Cause | None:
    """Return where a night's regression comes from; None if no metric regressed, or if its files are gone.

    Args:
        baseline: The evaluations that the night was compared with, oldest first.
        verdicts: The night's, by metric.
        shown: How many of the worst questions to return.
    """
    moves = [move for name, found in verdicts.items() if (move := _move(name, found)) is not None]
    sure = leading([move.metric for move in moves if move.is_sure])
    moves = [move for move in moves if move.metric in sure or not move.is_sure]
    if not baseline or not any(move.is_sure for move in moves):
        return None
    found = _read(workspace, evaluation_id, baseline)
    if found is None:
        return None
    questions, runs, answers = found
    stage = _stage(moves, answers)
    moves.sort(key=lambda move: (_stage_of(move.metric) != stage, not move.is_sure))
    metric = metric_of(moves[0].metric)
    group = _segment(metric, verdicts) or shared_group(questions, _compared_questions(metric, runs))
    return Cause(
        stage=stage,
        moves=tuple(moves),
        questions=len(questions),
        failed=(answers[0].failed, answers[1].failed),
        refused=(answers[0].refused, answers[1].refused),
        group=group,
        worst=tuple(_worst_questions(questions, group, runs, answers, shown=shown)),
        is_retrieval_known=any(
            _stage_of(name) == "retrieval" and found.estimate is not None for name, found in verdicts.items()
        ),
        known_changes=_known_changes(workspace, evaluation_id, baseline),
        runs=max(found.runs for found in verdicts.values()),
    )


def _known_changes(workspace: Workspace, evaluation_id: str, baseline: Sequence[str]) -> str | None:
    """Return what is known to have changed since the last night without a change; None if nothing is known of both."""
    now = load_evaluation(workspace, evaluation_id).record
    nights = read_nights(workspace, now.benchmark, now.system)
    known = nights.nights if nights is not None and nights.baseline == tuple(baseline) else ()
    quiet = [one.evaluation_id for one in known if one.joins_reference and one.opened_at < now.opened_at]
    for name in (*reversed(quiet), *reversed(baseline)):
        try:
            return known_changes(load_evaluation(workspace, name).record, now)
        except InputError:  # its folder was removed
            continue
    return None


def worse_questions(workspace: Workspace, evaluation_id: str, other: str, *, shown: int = 3) -> list[WorseQuestion]:
    """Return the questions with the largest falls from another evaluation; none if files of one are gone."""
    found = _read(workspace, evaluation_id, [other])
    if found is None:
        return []
    questions, runs, answers = found
    return _worst_questions(questions, None, runs, answers, shown=shown)


def _read(
    workspace: Workspace, evaluation_id: str, baseline: Sequence[str]
) -> tuple[Sequence[EvaluationQuery], list[ScoredRun], list["_Answers"]] | None:
    """Return the questions, the runs with the present one first, and the answers now and in the last pinned run."""
    try:
        night, pinned = (load_evaluation(workspace, name) for name in (evaluation_id, baseline[-1]))
        runs = [run_of_evaluation(night), *(run_of_evaluation(load_evaluation(workspace, one)) for one in baseline)]
        path = workspace.eval_json(night.record.dataset_id, night.record.dataset_version)
        queries = open_dataset(path).queries
        places: dict[str, int] = {}
        answerable = set()
        for place, query in enumerate(queries):
            places[query.query_id] = place
            if not query.is_impossible:
                answerable.add(query.query_id)
        order = [places[query_id] for query_id in runs[0].query_ids]
        if isinstance(queries, RowFile) and order == sorted(order):
            questions: Sequence[EvaluationQuery] = queries.take(order)  # parsed when they are asked for
        else:
            questions = [queries[place] for place in order]
        return questions, runs, [_Answers.read(one, answerable) for one in (night, pinned)]
    except (InputError, KeyError, pydantic.ValidationError):
        return None


def _move(name: str, found: Verdict) -> MetricMove | None:
    if found.estimate is None or found.baseline_mean is None or found.current_mean is None:
        return None
    is_worse = found.estimate != 0 and (found.estimate > 0) != found.higher_is_better
    is_moved = found.kind == "regressed" or (
        found.segment is None and found.p_value is not None and found.p_value <= MOVED_P
    )
    if not is_worse or not is_moved:
        return None
    return MetricMove(name, found.baseline_mean, found.current_mean, found.kind == "regressed")


def _segment(metric: str, verdicts: Mapping[str, Verdict]) -> QuestionGroup | None:
    """Return the segment in which a metric got worse further than in the others."""
    for found in verdicts.values():
        if found.metric == metric and found.segment is not None and found.kind == "regressed":
            return QuestionGroup(found.segment.column, found.segment.value, segment_text(found))
    return None


def _stage_of(name: str) -> Stage:
    metric = metric_of(name)
    if metric == FAILURE_RATE:
        return "failures"
    bare = metric.removeprefix(PAGE)
    if bare in COMPARED["retrieval_scores"]:
        return "retrieval"
    return "citations" if bare in COMPARED["citation_scores"] else "answers"


def _stage(moves: Sequence[MetricMove], answers: Sequence["_Answers"]) -> Stage:
    """Return the first stage on a question's way that got worse: a later one suffers from it."""
    moved = {_stage_of(move.metric) for move in moves}
    if "failures" in moved:
        return "failures"
    if "retrieval" in moved:
        return "retrieval"
    now, before = answers
    if now.refused - before.refused > REFUSED_MORE * now.answerable:
        return "refusals"
    return "answers" if "answers" in moved else "citations"


class _Answers(NamedTuple):
    evaluation: Evaluation
    abstained: Collection[str]
    failed: int
    refused: int
    answerable: int

    @classmethod
    def read(cls, evaluation: Evaluation, answerable: Collection[str]) -> "_Answers":
        abstained, failed, refused, n_answerable = set(), 0, 0, 0
        for answer in iter_texts(evaluation.responses):
            failed += answer.status != "ok"
            if answer.abstained:
                abstained.add(answer.query_id)
            if answer.query_id in answerable:
                n_answerable += 1
                refused += answer.abstained
        return cls(evaluation, abstained, failed, refused, n_answerable)

    def texts(self, query_ids: Collection[str]) -> dict[str, str]:
        """Return the answers to some questions, without their citations."""
        found = dict.fromkeys(query_ids, "no answer")
        for answer in iter_texts(self.evaluation.responses) if query_ids else ():
            if answer.query_id not in found:
                continue
            if answer.answer is None:
                found[answer.query_id] = answer.error or "no answer"
            else:
                found[answer.query_id] = " ".join(strip_citations(answer.answer).split()) or "no answer"
        return found


def _scores(metric: str, run: ScoredRun) -> Sequence[float | None]:
    return run.columns[metric].scores if metric in run.columns else (None,) * len(run.query_ids)


def _counted(metric: str, run: ScoredRun) -> Sequence[float | None]:
    """Return the scores of a metric with 0 for questions that failed; None where it does not apply."""
    scores = _scores(metric, run)
    asked = run.columns[metric].asked if metric in run.columns else map(bool, run.columns[FAILURE_RATE].scores)
    return [0.0 if score is None and is_asked else score for score, is_asked in zip(scores, asked, strict=True)]


def _compared_questions(metric: str, runs: Sequence[ScoredRun]) -> dict[int, bool]:
    """Return, by the places of the questions with a score now and before, whether it is well below the pinned runs'."""
    now, before = _counted(metric, runs[0]), [_scores(metric, run) for run in runs[1:]]
    sign = -1 if metric == FAILURE_RATE else 1
    found = {}
    for place, score in enumerate(now):
        known = [one for scores in before if (one := scores[place]) is not None]
        if score is not None and known:
            found[place] = sign * (score - sum(known) / len(known)) < -WORSE_BY
    return found


def question_groups(questions: Iterable[EvaluationQuery]) -> dict[tuple[str, str], list[int]]:
    """Return the places of the questions of each document, and of each value of a field."""
    members: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, question in enumerate(questions):
        for name in dict.fromkeys(_shared_values(question)):
            members[name].append(place)
    return members


def shared_group(questions: Sequence[EvaluationQuery], compared: Mapping[int, bool]) -> QuestionGroup | None:
    """Return the document or value that most of the worse questions share and most others do not; None without one.

    Args:
        compared: Place in `questions` -> whether it got worse. The metric does not apply to the others, as retrieval
            to unanswerable ones, and they say nothing.
    """
    worse, total = {place for place, is_worse in compared.items() if is_worse}, len(compared)
    members = {
        name: [place for place in places if place in compared] for name, places in question_groups(questions).items()
    }
    inside = Counter({name: len(worse.intersection(places)) for name, places in members.items()})
    p_values = {
        name: chance_of_sharing(count, total, len(members[name]), len(worse))
        for name, count in inside.items()
        if count >= GROUP_SHARE * len(worse) and count > 1
    }
    # Of equal ones the larger group: a section rather than one of its documents.
    best = min(p_values, key=lambda name: (p_values[name], -len(members[name]), name), default=None)
    if best is None or p_values[best] * len(members) > GROUP_P:
        return None
    name, size, outside = " ".join(best), len(members[best]), len(worse) - inside[best]
    if not outside:
        return QuestionGroup(*best, f"all {len(worse)} questions that got worse are of {name}, which has {size}")
    others = f"{outside} of the {total - size} others"
    return QuestionGroup(*best, f"{inside[best]} of the {size} questions of {name} got worse, {others}")


def chance_of_sharing(count: int, total: int, size: int, drawn: int) -> float:
    """Return the probability that of `drawn` of `total` questions at least `count` are in a group of a size."""
    inside = np.arange(max(count, drawn + size - total), min(size, drawn) + 1)
    logs = log_factorials(total)

    def choices(n: int, chosen: Any) -> Any:
        return logs[n] - logs[chosen] - logs[n - chosen]

    found = choices(size, inside) + choices(total - size, drawn - inside) - choices(total, drawn)
    return float(np.exp(found).sum())


def _shared_values(question: EvaluationQuery) -> Iterator[tuple[str, str]]:
    yield from (("document", name) for name in question.relevant_documents)
    fields = {"type": question.query_type, "difficulty": question.difficulty, **question.metadata}
    for field, value in fields.items():
        if field not in OWN_METADATA and isinstance(value, str) and value:
            yield field, value


def _worst_questions(
    questions: Sequence[EvaluationQuery],
    group: QuestionGroup | None,
    runs: Sequence[ScoredRun],
    answers: Sequence[_Answers],
    *,
    shown: int,
) -> list[WorseQuestion]:
    now, then = answers
    for measure in ("exact_match", "f1"):  # long answers may never match exactly, and still get worse
        current, pinned = (_scores(measure, run) for run in (runs[0], runs[-1]))
        counted = zip(_counted(measure, runs[-1]), _counted(measure, runs[0]), strict=True)
        falls = {
            place: 0.0 if before is None or after is None else before - after
            for place, (before, after) in enumerate(counted)
        }
        if any(fall > 0 for fall in falls.values()):
            break

    def badness(place: int) -> tuple[bool, float, bool, int]:
        question = questions[place]
        is_inside = group is not None and (group.field, group.value) in _shared_values(question)
        return not is_inside, -falls[place], question.query_id in now.abstained, place

    places = sorted((place for place in falls if falls[place] > 0), key=badness)[:shown]
    worst = [questions[place] for place in places]
    query_ids = [question.query_id for question in worst]
    before_texts, after_texts = then.texts(query_ids), now.texts(query_ids)
    return [
        WorseQuestion(
            query_id=question.query_id,
            source_id=source_id if isinstance(source_id := question.metadata.get("source_id"), str) else None,
            question=question.query_text,
            gold=question.ground_truth_answer,
            answer_before=before_texts[question.query_id],
            answer_after=after_texts[question.query_id],
            before=pinned[place],
            after=current[place],
        )
        for place, question in zip(places, worst, strict=True)
    ]
