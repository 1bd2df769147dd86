"""Labelled answers that a model judge judges again with every evaluation, which shows whether it has changed.

They are chosen when the judge is calibrated, from every combination of label and verdict, and are kept beside its trust
card. `judge_changes` tests the verdicts of one evaluation against those of earlier ones.
"""

import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from rag_eval_pipeline.judges.calibration import SECOND_JUDGING, case_of_item, judge_all, verdict_on
from rag_eval_pipeline.judges.judgement import Case, Judge
from rag_eval_pipeline.judges.labels import Item, Label, majority_labels
from rag_eval_pipeline.judges.trust_card import SUFFIX, cards_of_people, read_trust_cards
from rag_eval_pipeline.storage.atomic_files import atomic_write

ANSWERS_MAX = 30
NIGHTLY_JUDGINGS = 1_000_000  # their entries in the cache are not those of a calibration
NOT_JUDGED = "-"

Content = TypeVar("Content")

logger = logging.getLogger(__name__)


class Judging(msgspec.Struct, frozen=True):
    """One judging of the kept answers: `judge_recheck.json` of an evaluation.

    Args:
        answers: The digest of the answers.
        verdicts: 1 (yes), 0 or - (none) for each label.
        models: As the judge's server reports them.
        reason: Why nothing was judged.
    """

    answers: str
    verdicts: str = ""
    models: tuple[str, ...] = ()
    reason: str | None = None


class KeptLabel(msgspec.Struct, frozen=True):
    """A label of a kept answer, and how many labels of its kind it stands for."""

    answer: int
    item: Item
    label: bool
    weight: float


class KeptAnswers(msgspec.Struct, frozen=True):
    """`<benchmark>.<judge>.human.recheck.json`: what is judged again, and the judgings of the calibration."""

    cases: tuple[Case, ...]
    labels: tuple[KeptLabel, ...]
    judgings: tuple[Judging, ...] = ()

    @property
    def digest(self) -> str:
        """Of answers and labels."""
        return hashlib.sha256(msgspec.json.encode((self.cases, self.labels))).hexdigest()[:16]

    def write(self, card: Path) -> None:
        """Write the answers beside the trust card of their calibration."""
        atomic_write(_kept_path(card), msgspec.json.encode(self) + b"\n")


def _kept_path(card: Path) -> Path:
    return card.with_name(card.name.removesuffix(SUFFIX) + ".recheck.json")


def find_kept(folder: Path, *, benchmark: str, fingerprint: str | None) -> KeptAnswers | None:
    """Return the answers kept with the trust card of people's labels; None if there are none, or damaged ones."""
    for card in cards_of_people(read_trust_cards(folder), benchmark=benchmark, fingerprint=fingerprint):
        path = _kept_path(folder / card.file_name)
        if any(task.is_calibrated for task in card.tasks) and path.exists():
            return _read(path, KeptAnswers)
    return None


def read_judging(path: Path) -> Judging | None:
    """Return an evaluation's judging of the kept answers; None without one, or if it is damaged."""
    return _read(path, Judging) if path.exists() else None


def _read(path: Path, of: type[Content]) -> Content | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=of)
    except ValueError as error:
        logger.warning("The judge is not checked, as %s cannot be read: %s", path, error)
        return None


async def keep_answers(
    judge: Judge, cases: Sequence[Case], labels: Sequence[Label], *, judgings: int
) -> KeptAnswers | None:
    """Choose labelled answers and judge them that often; None if the judge has no verdict on any.

    After `calibrate` the first judging and the second come from the cache.
    """
    truth = majority_labels(labels).values
    known = {case.query_id: case for case in cases}
    asked = {
        item: case_of_item(item, known[item.query_id])
        for item in truth
        if item.query_id in known and item.task != "refusal"
    }
    judged = await judge_all(asked.values(), judge, 0)
    verdicts = {
        item: verdict_on(item, case, judged[case], judges_support=judge.judges_support).is_true
        for item, case in asked.items()
    }
    kept = choose_answers([(asked[item], item, truth[item], yes) for item, yes in verdicts.items() if yes is not None])
    if not kept.labels:
        return None
    repeats = [0, *range(SECOND_JUDGING, SECOND_JUDGING + judgings - 1)]
    return msgspec.structs.replace(kept, judgings=tuple([await judge_again(kept, judge, repeat) for repeat in repeats]))


def choose_answers(found: Sequence[tuple[Case, Item, bool, bool]]) -> KeptAnswers:
    """Take one of each kind in turn: rare kinds, such as wrong verdicts, show a change of the judge best."""
    kinds = [(item.task, label, verdict) for _, item, label, verdict in found]
    order = sorted(range(len(found)), key=lambda n: hashlib.sha256(msgspec.json.encode(found[n][1])).digest())
    ranks: defaultdict[object, int] = defaultdict(int)
    turns = []
    for number in order:
        turns.append((ranks[kinds[number]], kinds[number], number))
        ranks[kinds[number]] += 1
    cases = tuple(dict.fromkeys(found[number][0] for *_, number in sorted(turns)))[:ANSWERS_MAX]
    places = {case: place for place, case in enumerate(cases)}
    kept = [number for number, (case, *_) in enumerate(found) if case in places]
    all_of, kept_of = Counter(kinds), Counter(kinds[number] for number in kept)
    labels = tuple(
        KeptLabel(places[case], item, label, all_of[kinds[number]] / kept_of[kinds[number]])
        for number in kept
        for case, item, label, _ in [found[number]]
    )
    return KeptAnswers(cases, labels)


async def judge_again(kept: KeptAnswers, judge: Judge, repeat: int) -> Judging:
    """Judge the kept answers; each `repeat` has entries of its own in the cache, so that a killed run is resumed."""
    judged = await judge_all(kept.cases, judge, repeat)
    found = [
        verdict_on(one.item, case, judged[case], judges_support=judge.judges_support).is_true
        for one in kept.labels
        for case in [kept.cases[one.answer]]
    ]
    models = {judgement.model for judgement in judged.values() if judgement.model is not None}
    verdicts = "".join(NOT_JUDGED if one is None else str(int(one)) for one in found)
    codes = Counter(judgement.error_code for judgement in judged.values() if judgement.error_code is not None)
    reason = codes.most_common(1)[0][0] if codes and not verdicts.strip(NOT_JUDGED) else None
    return Judging(kept.digest, verdicts, tuple(sorted(models)), reason)


def repeat_of(evaluation_id: str) -> int:
    """Return the number of an evaluation's judging; its requests differ from those of all others."""
    return NIGHTLY_JUDGINGS + int.from_bytes(hashlib.sha256(evaluation_id.encode()).digest()[:4])
