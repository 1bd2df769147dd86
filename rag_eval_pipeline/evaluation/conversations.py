"""Questions as a system is asked them: with the benchmark's messages before them, or with its own earlier answers."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.formats.dataset import EvaluationQuery
from rag_eval_pipeline.systems.base import Query, RagAnswer, failed_answer
from rag_eval_pipeline.systems.config import SystemFile

EARLIER_TURN_FAILED = "earlier_turn_failed"


class Message(NamedTuple):
    """A message before a question; `is_own` if it is the system's answer to an earlier turn."""

    role: str
    content: str
    is_own: bool = False


def conversations(queries: Iterable[EvaluationQuery]) -> list[list[EvaluationQuery]]:
    """Return the questions of each conversation by turn; a question that belongs to none is alone."""
    found: dict[tuple[bool, str], list[EvaluationQuery]] = {}
    for query in queries:
        name = query.conversation
        found.setdefault((name is None, query.query_id if name is None else name), []).append(query)
    return [sorted(turns, key=lambda query: (query.turn, len(query.history))) for turns in found.values()]


def own_history(
    query: EvaluationQuery, earlier: Sequence[EvaluationQuery], given: Mapping[str, str | None]
) -> list[Message]:
    """Return the messages before a question, with the system's answers to the earlier turns for those of the benchmark.

    The messages of the user are matched with the earlier turns in order, the last with the last; by their texts unless
    there are as many. The answer to a message that is no question of the benchmark stays as the benchmark has it.

    Args:
        earlier: The turns before it, in order.
        given: Id of a question -> the answer; None stands for no answer.
    """
    messages = query.history
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    own: dict[int, str] = {}
    left = list(earlier)
    for place in reversed(users):
        last = len(left) - 1
        text = messages[place]["content"].strip()
        alike = (turn for turn in range(last, -1, -1) if left[turn].query_text.strip() == text)
        at = last if len(users) == len(earlier) else next(alike, None)
        if at is not None:
            if (answer := given.get(left[at].query_id)) is not None:
                own[place] = answer
            del left[at:]
    found: list[Message] = []
    is_replaced = False
    for place, message in enumerate(messages):
        if message["role"] == "user":
            is_replaced = place in own
        if message["role"] != "assistant" or not is_replaced:
            found.append(Message(message["role"], message["content"]))
        if place in own:
            found.append(Message("assistant", own[place], is_own=True))
    return found


def with_own_answers(
    queries: Iterable[EvaluationQuery], missing: Collection[str], given: Mapping[str, str | None]
) -> Iterator[Iterator[Query | RagAnswer]]:
    """Yield the turns to ask of each conversation; each is made when it is asked for, from the answers given by then.

    A turn after one without an answer is a failed answer itself, as nobody knows how the conversation would have gone.

    Args:
        missing: Ids of the questions to ask.
        given: Id of a question -> the answer, None for a failure; of all that were asked before a turn is made.
    """
    for turns in conversations(queries):
        if any(query.query_id in missing for query in turns):
            yield _turns(turns, missing, given)


def _turns(
    turns: Sequence[EvaluationQuery], missing: Collection[str], given: Mapping[str, str | None]
) -> Iterator[Query | RagAnswer]:
    for place, query in enumerate(turns):
        if query.query_id not in missing:
            continue
        earlier = turns[:place]
        failed = next((one for one in earlier if given[one.query_id] is None), None)
        if failed is None:
            messages = own_history(query, earlier, given)
            history = tuple({"role": one.role, "content": one.content} for one in messages)
            yield Query(query.query_id, query.query_text, history)
        else:
            error = f"not asked: question {failed.display_id}, an earlier turn of the conversation, has no answer"
            of = Query(query.query_id, query.query_text)
            yield failed_answer(of, "error", code=EARLIER_TURN_FAILED, error=error, latency_ms=None)


def later_turns(queries: Iterable[EvaluationQuery], missing: Collection[str]) -> set[str]:
    """Return the ids of these questions and of all turns after them: answers that follow a new one are not valid."""
    found = set(missing)
    for turns in conversations(queries):
        first = next((place for place, query in enumerate(turns) if query.query_id in found), len(turns))
        found.update(query.query_id for query in turns[first:])
    return found


def whole_conversations(queries: Sequence[EvaluationQuery], limit: int | None) -> int | None:
    """Return the least number of first questions, at least `limit`, that leaves no conversation without its end."""
    if limit is None:
        return None
    last = {query.conversation: place for place, query in enumerate(queries, 1) if query.conversation is not None}
    place = 0
    while place < min(limit, len(queries)):
        limit = max(limit, last.get(queries[place].conversation or "", 0))
        place += 1
    return limit


def turns_to_ask(
    queries: Sequence[EvaluationQuery],
    chosen: Sequence[EvaluationQuery],
    given: Mapping[str, str | None],
    history: Literal["gold", "own"],
) -> Iterable[Iterable[Query | RagAnswer]]:
    """Return questions as the system is asked them: by conversation, or each with the benchmark's messages before it.

    Args:
        queries: All of the benchmark that are asked.
        given: Id of a question -> the answer, None for a failure; of all that were asked before a turn is made.
    """
    if history == "own":
        return with_own_answers(queries, {query.query_id for query in chosen}, given)
    return ([Query(query.query_id, query.query_text, query.history)] for query in chosen)


def unsent_history(system: str, file: SystemFile, missing: Sequence[EvaluationQuery]) -> list[str]:
    """Return a warning if questions of conversations are asked, or looked up, without the messages before them."""
    follow_ups = sum(bool(query.history) for query in missing)
    if not follow_ups:
        return []
    if file.takes_history:
        if getattr(file.settings, "retrieval", None) is None:
            return []
        return [
            f"{system} finds the passages of {follow_ups} follow-up questions by the question alone (there is no query "
            "rewriting); its model is sent the messages before them."
        ]
    remedy = ""
    if file.kind in ("http", "python"):
        place = "body" if file.kind == "http" else "input"
        remedy = f" Put {{messages}} or {{history}} into {place} of its settings."
    return [
        f"{system} takes no history: "
        f"{counted(follow_ups, 'follow-up question is', 'follow-up questions are')} asked without the messages before "
        f"them.{remedy}"
    ]
