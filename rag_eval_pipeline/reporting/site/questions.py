"""Questions of an evaluation as the report needs them: rows of its results file, and a word for how each went."""

from pathlib import Path
from typing import Final, Literal

import msgspec

Outcome = Literal["exact", "partly", "wrong", "rightly", "refused", "invented", "failed", "unscored"]

# Judges have no part in these words: they hold whether the judge is calibrated or not.
OUTCOMES: Final[dict[Outcome, str]] = {
    "exact": "exact",
    "partly": "partly right",
    "wrong": "wrong",
    "rightly": "rightly abstained",
    "refused": "wrongly abstained",
    "invented": "invented an answer",
    "failed": "failed",
    "unscored": "not scored",
}
GOOD: Final[frozenset[Outcome]] = frozenset({"exact", "rightly"})


class CitedPlace(msgspec.Struct, frozen=True):
    """A citation as the results file has it."""

    file_name: str
    start_char: int
    end_char: int
    page_number: int | None = None


class Retrieved(msgspec.Struct, frozen=True):
    """Documents by rank, and those that are relevant."""

    retrieved_docs: tuple[str, ...] = ()
    relevance_scores: tuple[float | None, ...] = ()
    ground_truth_relevant: tuple[str, ...] = ()


class QuestionRow(msgspec.Struct, frozen=True):
    """A question with its answer and scores."""

    query_id: str
    query_text: str
    status: str
    generated_answer: str | None
    abstained: bool
    individual_metrics: dict[str, float | None]
    latency_ms: float | None = None
    retrieval_results: Retrieved = Retrieved()
    citations: tuple[CitedPlace, ...] = ()
    error: str | None = None

    def score(self, name: str) -> float | None:
        """A score of it; None where it has none."""
        return self.individual_metrics.get(name)

    def outcome(self, *, is_impossible: bool | None) -> Outcome:
        """How it went, in a word.

        Args:
            is_impossible: The documents have no answer; None where that is not known any more.
        """
        if self.status != "ok":
            return "failed"
        exact, f1 = self.score("exact_match"), self.score("f1")
        if exact is None or f1 is None:
            return "unscored"
        if self.abstained:
            return "rightly" if exact == 1 else "refused"
        if is_impossible:
            return "invented"
        return "exact" if exact == 1 else "partly" if f1 > 0 else "wrong"


class _NightScores(msgspec.Struct, frozen=True):
    """The few scores that are followed over nights; decoding no others halves the time."""

    f1: float | None = None
    ndcg: float | None = msgspec.field(default=None, name="ndcg@10")
    page_ndcg: float | None = msgspec.field(default=None, name="page/ndcg@10")
    citation_span_accuracy: float | None = None


class NightRow(msgspec.Struct, frozen=True):
    """A question on one night."""

    query_id: str
    query_text: str
    status: str
    individual_metrics: _NightScores


class OwnMetric(msgspec.Struct, frozen=True):
    """What a metric that is not built in says of itself, as the results keep it."""

    meaning: str = ""
    source: str = ""
    direction: Literal["higher", "lower", "neither"] | None = None
    low: float | None = None
    high: float | None = None
    room: str = "other"


class Asked(msgspec.Struct, frozen=True):
    """The questions of a results file, and the metrics of one's own that scored them."""

    query_results: list[QuestionRow] = []
    own_metrics: dict[str, OwnMetric] = {}


class _NightRows(msgspec.Struct, frozen=True):
    query_results: list[NightRow]


def read_questions(path: Path) -> Asked:
    """The questions of a results file.

    Raises:
        msgspec.MsgspecError: They are not as the format has them.
        OSError: There is no such file.
    """
    return msgspec.json.decode(path.read_bytes(), type=Asked)


def read_night(data: bytes) -> list[NightRow]:
    """The same with the few scores that are followed.

    Raises:
        msgspec.MsgspecError: They are not as the format has them.
    """
    return msgspec.json.decode(data, type=_NightRows).query_results


def rank_measure(level: str) -> str:
    """The score of a ranking at the level to look at first."""
    return "page/ndcg@10" if level == "page" else "ndcg@10"
