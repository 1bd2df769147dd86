"""`quality`: five dimensions of an answer by stated lexical measures, each in [0, 1], and their mean.

- `relevance`: mean of the intent match and the topic alignment of `relevance`.
- `completeness`: its information completeness.
- `coherence`: share of neighbouring sentences that hang together, by a shared content word or by a word that points
  back; a repeated sentence hangs on nothing. One sentence is 1.
- `clarity`: mean over sentences of min(1, 30 / words): what is longer is read twice.
- `accuracy`: the judge's correctness against the gold answers; else the share of checked claims that are borne out;
  else, without a judge, the share of the best covered gold answer's words. Left out where nothing says what is right.

None of them understands the answer. The confidence is the share of dimensions that had what they are meant for.
"""

from itertools import pairwise

from rag_eval_pipeline.judges.evaluators.evaluator import Evaluator, Fields
from rag_eval_pipeline.judges.evaluators.event import Event
from rag_eval_pipeline.judges.evaluators.relevance import measure_relevance
from rag_eval_pipeline.judges.evaluators.shared_judge import SharedJudge, is_verified
from rag_eval_pipeline.judges.evaluators.wording import (
    LanguageOptions,
    Wording,
    best_covered,
    stems,
    vocabulary_of,
    wording,
    words,
)
from rag_eval_pipeline.judges.judgement import Judgement
from rag_eval_pipeline.judges.lexical.settings import LanguageCode
from rag_eval_pipeline.metrics.evaluation_scores import SHARE

CLEAR_WORDS = 30  # words; plain-language guides draw the line between 20 and 30
_POINTING_BACK = frozenset(
    """
    he she it they this that these those his her its their him them such there however therefore thus also moreover
    furthermore then consequently instead meanwhile finally additionally afterwards nevertheless similarly
    """.split()  # noqa: SIM905  # forty quoted words would be forty lines
)


def quality(judge: SharedJudge) -> Evaluator:
    """The evaluator over a judge, which may know nothing."""

    async def evaluate(event: Event, options: LanguageOptions) -> Fields:
        said = wording(event, options.language)
        relevance = measure_relevance(event, said, options.language)
        accuracy = _accuracy(event, said, await judge.of(event), options.language)
        dimensions = {
            "relevance": (relevance.query_intent_match + relevance.topic_alignment) / 2,
            "coherence": coherence(said.sentences, options.language),
            "clarity": clarity(said.sentences),
            "completeness": relevance.information_completeness,
        }
        if accuracy is not None:
            dimensions["accuracy"] = accuracy
        low = min(sorted(dimensions), key=dimensions.__getitem__)
        grounded = 2 + relevance.confidence + event.has("gold") + (accuracy is not None)
        return {
            "score": sum(dimensions.values()) / len(dimensions),
            "explanation": f"lowest: {low} {dimensions[low]:.2f}",
            "confidence": grounded / 5,
            "dimensions": dimensions,
            "metadata": None if accuracy is not None else {"left_out": {"accuracy": "nothing_to_check_against"}},
        }

    return Evaluator(
        name="quality",
        evaluate=evaluate,
        version="1.0.0",
        scale=SHARE,
        needs=frozenset({"question", "answer"}),
        options=LanguageOptions,
        in_thread=False,
    )


def coherence(sentences: tuple[str, ...], language: LanguageCode) -> float:
    """Share of neighbouring sentences that hang together, in [0, 1]; 1.0 for fewer than two."""
    if len(sentences) < 2:
        return 1.0
    vocabulary = vocabulary_of(language)
    linked = 0
    seen = {sentences[0].casefold()}
    for before, after in pairwise(sentences):
        is_repeated = after.casefold() in seen
        seen.add(after.casefold())
        points_back = language == "en" and any(word.folded in _POINTING_BACK for word in vocabulary.words(after)[:3])
        shares = not stems(before, language).keys().isdisjoint(stems(after, language))
        linked += not is_repeated and (points_back or shares)
    return linked / (len(sentences) - 1)


def clarity(sentences: tuple[str, ...]) -> float:
    """Mean of min(1, 30 / words) over sentences, in [0, 1]; 1.0 for none."""
    counts = [len(words(sentence)) for sentence in sentences]
    return sum(min(1.0, CLEAR_WORDS / max(count, 1)) for count in counts) / len(counts) if counts else 1.0


def _accuracy(event: Event, said: Wording, judgement: Judgement | None, language: LanguageCode) -> float | None:
    if judgement is not None and judgement.correctness is not None:
        return judgement.correctness.score
    checked = [found for claim in (judgement.claims if judgement else ()) if (found := is_verified(claim)) is not None]
    if checked:
        return sum(checked) / len(checked)
    if event.is_impossible:
        return float(said.is_refusal)
    return best_covered(event.accepted, said.stems, language)
