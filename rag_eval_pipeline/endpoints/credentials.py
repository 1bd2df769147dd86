"""Secrets of an endpoint: read from the environment when it is opened, sent as headers, masked wherever they show."""

import base64
import os
import re
from collections.abc import Mapping
from typing import Self
from urllib.parse import quote

from rag_eval_pipeline.endpoints.settings import EndpointSettings
from rag_eval_pipeline.errors import ServiceError

MASK = "***"
# Bodies are masked too, as a server may quote a key back; but a key such as EMPTY or test is a word of answers.
BODY_SECRET_LENGTH = 12  # characters


class Credentials:
    """The headers that carry secrets, and the eye that finds the secrets in a text."""

    def __init__(self, headers: Mapping[str, str], secrets: frozenset[str]) -> None:
        self.headers = dict(headers)
        spellings = {spelling: secret for secret in secrets for spelling in _spellings(secret)}
        # Longest first: of two secrets of which one begins like the other, the rest of the longer would remain.
        self._spellings = sorted(spellings, key=len, reverse=True)
        self._in_bodies = [
            spelling.encode() for spelling in self._spellings if len(spellings[spelling]) >= BODY_SECRET_LENGTH
        ]

    def __repr__(self) -> str:
        return f"Credentials({', '.join(self.headers)})"

    @classmethod
    def read(cls, settings: EndpointSettings) -> Self:
        """The secrets that the settings name, from this process's environment.

        Raises:
            ServiceError: `missing_secret`, `bad_secret`, naming the variable.
        """
        values = {header: _secret(variable, settings) for header, variable in settings.headers_env.items()}
        secrets = frozenset(values.values())
        if settings.api_key_env is not None:
            key = _secret(settings.api_key_env, settings)
            values["Authorization"] = f"Bearer {key}"
            secrets |= {key}
        return cls(values, secrets)

    def masked(self, text: str) -> str:
        """The text without any secret: plain, percent-encoded or base64."""
        for spelling in self._spellings:
            text = text.replace(spelling, MASK)
        return text

    def masked_body(self, body: bytes) -> bytes:
        """A body without the secrets that are long enough to be no words of it."""
        for spelling in self._in_bodies:
            body = body.replace(spelling, MASK.encode())
        return body


def _secret(variable: str, settings: EndpointSettings) -> str:
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ServiceError(
            "missing_secret",
            f"{settings.base_url} needs the environment variable {variable}, which is not set",
            hint="Set it where the pipeline runs; values of secrets do not stand in files.",
        )
    if re.search(r"[\x00-\x1f\x7f]|[^\x00-\x7f]", value):
        raise ServiceError(
            "bad_secret", f"the environment variable {variable} for {settings.base_url} is not one line of ASCII text"
        )
    return value


def _spellings(secret: str) -> set[str]:
    data = secret.encode()
    encoded = {base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(), data.hex()}
    return {secret, quote(secret, safe=""), *encoded}
