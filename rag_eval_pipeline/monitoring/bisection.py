"""Which version of a service made its answers worse: versions are started, asked a few questions, and halved.

The bad version is asked first, until enough questions are known that it fails and that were steady in the reference
runs of the good one. Each other version is asked only these, until an exact sequential test is sure; where they do not
decide, it is asked all questions. Nothing is published.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline import clock
from rag_eval_pipeline.errors import InputError, ServiceError, counted
from rag_eval_pipeline.evaluation.asking import NOT_VOID
from rag_eval_pipeline.evaluation.compared_runs import ScoredRun, run_of_evaluation
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, locked_pair
from rag_eval_pipeline.evaluation.pair import Pair
from rag_eval_pipeline.evaluation.scoring import SCORERS
from rag_eval_pipeline.evaluation.system_state import changed_values, stated
from rag_eval_pipeline.metrics.early_stop import DROP, FALSE_ALARMS, Decision, Look, plan_looks
from rag_eval_pipeline.monitoring.canary import SteadyQuestions, read_steady_questions, require_answers
from rag_eval_pipeline.monitoring.comparison import gather_evidence
from rag_eval_pipeline.storage.atomic_files import ScratchFolder
from rag_eval_pipeline.storage.process import end_tree, end_with_parent, is_answering
from rag_eval_pipeline.systems.base import RagAnswer
from rag_eval_pipeline.workspace import Workspace

BROKEN = 12  # questions that the bad version fails; it is asked until it has failed as many
ROUNDS = 3  # how often a version is asked them at most, or all questions
SURE = FALSE_ALARMS  # probability of each wrong decision, at most
START_SECONDS = 600.0  # until a version answers
END_SECONDS = 10.0  # until the processes of one are killed, and its address is free
DEPTH = 8  # of the processes below the shell that are asked to end

Wrong = NDArray[np.bool_]
# Asks questions, by their places, in batches until the function returns True; returns which of the first are wrong.
Ask = Callable[[Sequence[int], Callable[[Wrong], bool]], Wrong]
Found = Literal["good", "bad", "skipped"]


class Step(NamedTuple):
    """A version, what was found of it and why, the questions asked, and the seconds that it took."""

    version: str
    found: Found
    reason: str
    asked: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Bisection:
    """What a bisection found.

    Args:
        skipped: Versions between both that could not be decided, so that each of them may be the first bad one.
        changes: What is known to differ between both; None if nothing is known.
    """

    last_good: str
    first_bad: str
    skipped: Sequence[str]
    steps: Sequence[Step]
    changes: Sequence[str] | None

    @property
    def sentence(self) -> str:
        """The result with what it took."""
        asked, seconds = sum(step.asked for step in self.steps), sum(step.seconds for step in self.steps)
        took = (
            f"{counted(asked, 'question')} asked of {len({step.version for step in self.steps})} "
            f"versions in {seconds:,.0f} s"
        )
        first = f"{self.first_bad} is the first bad version"
        if self.skipped:
            first = f"the first bad version is {self.first_bad} or one that was skipped: {', '.join(self.skipped)}"
        known = "Nothing is known of what changed between them."
        if self.changes is not None:
            known = f"Known to have changed between them: {', '.join(self.changes) or 'nothing'}."
        return f"{first}; {self.last_good} is the last good one. {known} {took}."


class BrokenQuestions(NamedTuple):
    """Places of the questions that the bad version failed twice, and the limits of the test of other versions."""

    places: Sequence[int]
    looks: Sequence[Look]

    def decide(self, ask: Ask) -> tuple[Decision, int, int]:
        """Ask a version until it is sure whether it has the fault; return that, the wrong answers and all."""
        looks = {look.asked: look for look in self.looks}
        wrong = asked = 0

        def look(found: Wrong) -> Decision:
            return looks[asked + found.size].decide(wrong + int(found.sum()))

        for _ in range(ROUNDS):
            found = ask(self.places, lambda found: look(found) != "undecided")
            decision = look(found)
            wrong, asked = wrong + int(found.sum()), asked + found.size
            if decision != "undecided":
                break
        return decision, wrong, asked


def find_broken(ask: Ask, order: Sequence[int], rate: float, batch: int) -> BrokenQuestions | None:
    """Ask the bad version until a drop is sure and enough questions are wrong, and these once more.

    Args:
        order: Places of the steady questions, in the order of asking.
        rate: Probability that an unchanged system fails one.

    Returns:
        None if no drop is sure, or too few questions fail twice for a decision: the fault is not one of single
        questions, or a small one.
    """
    if not order or rate >= DROP:
        return None
    looks = {look.asked: look for look in plan_looks(len(order), batch, rate)}
    is_sure = False

    def is_enough(wrong: Wrong) -> bool:
        nonlocal is_sure
        stop_at = looks[wrong.size].stop_at
        is_sure = is_sure or (stop_at is not None and wrong.sum() >= stop_at)
        return is_sure and bool(wrong.sum() >= BROKEN)

    first = [order[place] for place in np.flatnonzero(ask(order, is_enough))[:BROKEN]]
    if not is_sure:
        return None
    again = ask(first, lambda wrong: False)
    places = [place for place, is_wrong in zip(first, again, strict=True) if is_wrong]
    drop = len(places) / (len(first) + 1)  # one more right answer is counted than was seen
    if drop <= rate:
        return None
    plan = plan_looks(len(places), batch, rate, rounds=ROUNDS, drop=drop, missed=SURE)
    return None if plan[-1].pass_at is None or plan[-1].stop_at is None else BrokenQuestions(places, plan)


def halve(count: int, decide: Callable[[int], Found]) -> tuple[int, int, list[int]]:
    """Find the first bad of `count` versions in order, the first of which is good and the last one bad.

    A version that is skipped is replaced by the nearest one that was not.

    Returns:
        The last good one, the first bad one, and those between them, which were all skipped.
    """
    good, bad, skipped = 0, count - 1, set[int]()
    while left := [place for place in range(good + 1, bad) if place not in skipped]:
        place = min(left, key=lambda place: abs(2 * place - good - bad))
        found = decide(place)
        if found == "skipped":
            skipped.add(place)
        else:
            good, bad = (place, bad) if found == "good" else (good, place)
    return good, bad, list(range(good + 1, bad))


def bisect(
    workspace: Workspace, pair: Pair, versions: Sequence[str], command: str, folder: Path, note: Callable[[Step], None]
) -> Bisection:
    """Find the first version that is worse than the pair's baseline.

    Args:
        versions: The good one, those between, and the bad one.
        command: Starts or deploys `{version}` in `folder`, in a shell.
        note: Is given each step.

    Raises:
        InputError: `no_baseline`, `not_comparable`; `bad_versions` if the first version is not as the baseline, or the
            last one not worse.
        ServiceError: One of these two does not start, or does not answer; the system's budget is used up.
    """
    search = _Search(workspace, pair, read_steady_questions(workspace, pair), partial(running, command, folder, pair))
    steps: list[Step] = []

    def take(version: str, decide: Callable[[str], tuple[Found, str]], due: Found | None = None) -> Found:
        asked, started = search.asked, time.monotonic()
        try:
            found, reason = decide(version)
        except (InputError, ServiceError) as error:
            if due is not None or error.code in NOT_VOID:
                raise
            found, reason = "skipped", str(error).rstrip(".")
        steps.append(Step(version, found, reason, search.asked - asked, time.monotonic() - started))
        note(steps[-1])
        if due is not None and found != due:
            expected = f"a version that {'is worse than' if due == 'bad' else 'answers as'} the baseline"
            hint = f"Pin the good version's runs: rag-eval pin {pair.paths.name} {pair.system} --ask"
            raise InputError("bad_versions", f"--{due} {version}", expected, found=reason, hint=hint)
        return found

    take(versions[-1], search.learn, "bad")
    take(versions[0], search.test, "good")
    good, bad, skipped = halve(len(versions), lambda place: take(versions[place], search.test))
    old, new = (search.states.get(versions[place], {}) for place in (good, bad))
    changes = changed_values(old, new) if old and new else None
    return Bisection(versions[good], versions[bad], [versions[place] for place in skipped], steps, changes)


@dataclass(slots=True)
class _Search:
    """What is known of the bad version, and the test of the others by it; `states` has what is known of each."""

    workspace: Workspace
    pair: Pair
    steady: SteadyQuestions
    start: Callable[[str], AbstractContextManager[None]]
    asked: int = 0
    states: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: BrokenQuestions | None = None
    bad_run: ScoredRun | None = None

    def learn(self, version: str) -> tuple[Found, str]:
        """Ask the bad version what it fails; all questions if the steady ones do not show that."""
        steady = self.steady
        with self.start(version):
            self.broken = find_broken(partial(self._ask, version), steady.order, steady.rate, steady.in_flight)
            if self.broken is not None:
                fails = counted(len(self.broken.places), "steady question fails", "steady questions fail")
                return "bad", f"{fails} twice"
            self.bad_run = self._run(version)
            is_worse = self._differs([self.bad_run], steady.reference, "regressed")
            return "bad" if is_worse else "skipped", f"{'' if is_worse else 'not '}worse in all questions"

    def test(self, version: str) -> tuple[Found, str]:
        """Decide a version by the questions that the bad one fails, or by all."""
        with self.start(version):
            if self.broken is not None:
                decision, wrong, asked = self.broken.decide(partial(self._ask, version))
                if decision != "undecided":
                    return "bad" if decision == "regression" else "good", f"{wrong} of {asked} answers wrong"
            runs: list[ScoredRun] = []
            for _ in range(ROUNDS):
                runs.append(self._run(version))
                if self._differs(runs, self.steady.reference, "regressed"):
                    return "bad", "worse in all questions than the baseline"
                if self.bad_run is not None and self._differs(runs, [self.bad_run], "improved"):
                    return "good", "better in all questions than the bad version"
        return "skipped", f"all questions asked {counted(len(runs), 'time')} do not decide between good and bad"

    def _ask(self, version: str, places: Sequence[int], is_enough: Callable[[Wrong], bool]) -> Wrong:
        """Ask questions until there are enough; raises `no_answers` if these fail and others fail as well."""
        answers, wrong = self._answers(version, places, is_enough)
        if all(answer.status != "ok" for answer in answers):
            others = [place for place in self.steady.order if place not in places][: self.steady.in_flight]
            require_answers(self.pair, self._answers(version, others)[0] if others else answers)
        return wrong

    def _answers(
        self, version: str, places: Sequence[int], is_enough: Callable[[Wrong], bool] = lambda wrong: False
    ) -> tuple[Sequence[RagAnswer], Wrong]:
        found: tuple[Sequence[RagAnswer], Wrong] = ((), np.zeros(0, bool))

        def keep(answers: Sequence[RagAnswer], wrong: Wrong) -> bool:
            nonlocal found
            found = list(answers), wrong
            return is_enough(wrong)

        with locked_pair(self.workspace, self.pair):
            evaluation = self.steady.ask(places, keep, now=clock.now())
        shutil.rmtree(evaluation.folder)
        self.states[version] = stated(evaluation.record)
        self.asked += len(found[0])
        return found

    def _run(self, version: str) -> ScoredRun:
        """Ask a version all questions and score its answers."""
        # Records of evaluators are published, and take no part in verdicts.
        pair = replace(self.pair, settings=self.pair.settings.model_copy(update={"evaluators": None}))
        answers = {one.query_id: one for one in self._answers(version, range(len(pair.queries)))[0]}
        require_answers(pair, list(answers.values()))
        scratch = ScratchFolder("bisection")
        record = self.steady.pinned.record.model_copy(update={"state": "answered", "settings": pair.settings})
        evaluation = Evaluation(scratch.path, record)
        evaluation.write_answers(answers[query.query_id] for query in pair.queries)
        for score in SCORERS.values():
            score(self.workspace, evaluation, pair, None)
        return run_of_evaluation(evaluation)

    def _differs(self, current: Sequence[ScoredRun], others: Sequence[ScoredRun], kind: str) -> bool:
        runs = self.steady.runs
        rules = replace(runs.settings.rules(), level=SURE, final_level=SURE)
        found = gather_evidence(current, others, rules=rules, judged=runs.judged, clusters=runs.clusters, is_night=True)
        return any(one.kind == kind for one in found.verdicts("not_needed", rules).values())


@contextlib.contextmanager
def running(command: str, folder: Path, pair: Pair, version: str) -> Iterator[None]:
    """Run a command until the system's address answers, and end it with all it has started when the block ends.

    Where the address answers before, and for a system without one, the command must end with exit code 0 first.

    Raises:
        ServiceError: `not_started`.
    """
    settings = pair.system_file.settings
    endpoint = getattr(settings, "endpoint", None) or getattr(settings, "rag", None)
    url = None if endpoint is None else endpoint.base_url
    must_end = url is None or is_answering(url)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command.replace("{version}", shlex.quote(version)),
            shell=True, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True, preexec_fn=partial(end_with_parent, signal.SIGTERM),
        )  # fmt: skip
        try:
            deadline = time.monotonic() + START_SECONDS
            while not ((process.poll() == 0 or not must_end) and (url is None or is_answering(url))):
                if process.poll() or time.monotonic() > deadline:
                    output.seek(0)
                    last = output.read().decode(errors="replace").strip().rpartition("\n")[2] or "it printed nothing"
                    why = f"{url} did not answer in {START_SECONDS:.0f} s"
                    if process.returncode:
                        why = f"the command ended with exit code {process.returncode}"
                    elif process.returncode is None and must_end:
                        why = f"the command did not end in {START_SECONDS:.0f} s, and {url} had answered before it"
                    raise ServiceError("not_started", f"{why}: {last[:200]}")
                time.sleep(0.1)
            yield
        finally:
            end_tree(process, depth=DEPTH, again_after_s=END_SECONDS, kill_after_s=END_SECONDS)
            with contextlib.suppress(ProcessLookupError):  # what its shell has left running
                os.killpg(process.pid, signal.SIGKILL)
            deadline = time.monotonic() + END_SECONDS
            while url is not None and not must_end and is_answering(url) and time.monotonic() < deadline:
                time.sleep(0.1)
