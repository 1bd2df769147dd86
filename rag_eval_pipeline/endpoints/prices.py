"""What a server's work costs, as its operator states it."""

import pydantic

from rag_eval_pipeline.formats.model import Model


class Prices(Model):
    """Prices in US dollars; all zero for a server of one's own."""

    usd_per_million_prompt_tokens: float = pydantic.Field(0.0, ge=0, description="A million tokens that are read.")
    usd_per_million_completion_tokens: float = pydantic.Field(
        0.0, ge=0, description="A million tokens that are written."
    )
    usd_per_request: float = pydantic.Field(0.0, ge=0, description="One HTTP request, whatever comes of it.")

    def estimate(self, *, prompt_tokens: int, completion_tokens: int, requests: int) -> float:
        """US dollars of what was used."""
        tokens = (
            prompt_tokens * self.usd_per_million_prompt_tokens
            + completion_tokens * self.usd_per_million_completion_tokens
        )
        return tokens / 1_000_000 + requests * self.usd_per_request
