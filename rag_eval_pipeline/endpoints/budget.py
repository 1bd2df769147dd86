"""What a server may cost in a day."""

import pydantic

from rag_eval_pipeline.formats.model import Model


class Budget(Model):
    """What may be used in one UTC day, over all benchmarks; a run that reaches it stops and is resumed later."""

    requests: int | None = pydantic.Field(None, ge=1, description="HTTP requests.")
    tokens: int | None = pydantic.Field(None, ge=1, description="Tokens, read and written.")
    usd: float | None = pydantic.Field(None, gt=0, description="Estimated cost, US dollars.")
