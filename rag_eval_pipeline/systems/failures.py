"""Questions that a server did not answer, as answers that say so."""

from rag_eval_pipeline.endpoints.errors import EndpointError
from rag_eval_pipeline.endpoints.prices import Prices
from rag_eval_pipeline.systems.answer import Query, RagAnswer, Usage, failed_answer


def unanswered(query: Query, error: EndpointError, prices: Prices, *, before_ms: float = 0.0) -> RagAnswer:
    """The terminal record of a request that failed.

    Args:
        query: The question.
        error: What the endpoint says; its requests are paid for, its tokens are unknown.
        prices: Of the server.
        before_ms: What was done before the request, such as retrieval.
    """
    cost = prices.estimate(prompt_tokens=0, completion_tokens=0, requests=error.requests)
    return failed_answer(
        query,
        error.status,
        code=error.code,
        error=error.message,
        latency_ms=before_ms + error.elapsed_ms,
        usage=Usage(estimated_cost_usd=cost, requests=error.requests),
        partial=None if error.partial is None else error.partial.decode("utf-8", "replace"),
    )
