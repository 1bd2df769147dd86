"""An event: one answered question with everything that an evaluator may look at."""

from typing import Literal, Self

import msgspec

from rag_eval_pipeline.judges.judgement import Case, CitedText, Judgement

Need = Literal["question", "answer", "gold", "contexts", "citations", "evidence"]


class Event(msgspec.Struct, frozen=True):
    """One answered question.

    Args:
        event_id: Unique; what evaluations name as their target.
        question: As it was asked.
        answer: As given, citations included; None when none arrived.
        accepted: Gold answers, any of which is right.
        is_impossible: The documents do not answer the question: a refusal is right.
        contexts: Retrieved texts, best first.
        citations: In the answer's order.
        judgement: What a judge has said of it already.
    """

    event_id: str
    question: str
    answer: str | None
    accepted: tuple[str, ...] = ()
    is_impossible: bool = False
    contexts: tuple[str, ...] = ()
    citations: tuple[CitedText, ...] = ()
    judgement: Judgement | None = None

    @classmethod
    def of(cls, case: Case, *, event_id: str | None = None, judgement: Judgement | None = None) -> Self:
        """The event of a judged answer.

        Args:
            case: The answer and what it is judged by.
            event_id: By default the question's id.
            judgement: Of this case.
        """
        return cls(
            event_id=case.query_id if event_id is None else event_id,
            question=case.question,
            answer=case.answer,
            accepted=case.accepted,
            is_impossible=case.is_impossible,
            contexts=case.contexts,
            citations=case.citations,
            judgement=judgement,
        )

    @property
    def case(self) -> Case:
        """The event as a judge takes it; one without an answer as an empty one."""
        return Case(
            query_id=self.event_id,
            question=self.question,
            accepted=self.accepted,
            is_impossible=self.is_impossible,
            answer=self.answer or "",
            citations=self.citations,
            contexts=self.contexts,
        )

    @property
    def evidence(self) -> tuple[str, ...]:
        """The texts that are cited, then those that were retrieved."""
        return (*(citation.text for citation in self.citations if citation.text is not None), *self.contexts)

    def has(self, need: Need) -> bool:
        """Whether there is what an evaluator needs; blank texts are nothing."""
        texts: dict[Need, tuple[str, ...]] = {
            "question": (self.question,),
            "answer": (self.answer or "",),
            "gold": self.accepted,
            "contexts": self.contexts,
            "citations": tuple(citation.text or "" for citation in self.citations),
            "evidence": self.evidence,
        }
        return (need == "gold" and self.is_impossible) or any(text.strip() for text in texts[need])
