"""Credentials of an endpoint: read from the environment, sent as headers, masked in every text and body."""

import base64
import os
import re
from collections.abc import Mapping
from typing import Self
from urllib.parse import quote

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.web.settings import EndpointSettings

MASK = "***"
# Bodies are masked too, because a server may quote a key; but a key such as EMPTY or test is a word of answers.
BODY_SECRET_LENGTH = 12  # characters


class Credentials:
    """Headers that carry secrets, and the masking of those secrets."""

    def __init__(self, headers: Mapping[str, str], secrets: frozenset[str]) -> None:
        self.headers = dict(headers)
        spellings = {spelling: secret for secret in secrets for spelling in _spellings(secret)}
        # Longest first: if one secret is the beginning of another, the rest of the longer one would remain.
        self._spellings = sorted(spellings, key=len, reverse=True)
        self._in_bodies = [
            spelling.encode() for spelling in self._spellings if len(spellings[spelling]) >= BODY_SECRET_LENGTH
        ]

    def __repr__(self) -> str:
        return f"Credentials({', '.join(self.headers)})"

    @classmethod
    def read(cls, settings: EndpointSettings) -> Self:
        """Read the secrets that the settings name from the environment.

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
        """Return the text without any secret, be it plain, percent-encoded, base64 or hexadecimal."""
        for spelling in self._spellings:
            text = text.replace(spelling, MASK)
        return text

    def masked_body(self, body: bytes) -> bytes:
        """Return the body without the secrets that are too long to be ordinary words."""
        for spelling in self._in_bodies:
            body = body.replace(spelling, MASK.encode())
        return body


def _secret(variable: str, settings: EndpointSettings) -> str:
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ServiceError(
            "missing_secret",
            f"{settings.base_url} needs the environment variable {variable}, which is not set",
            hint="Set it where the pipeline runs; values of secrets do not belong in files.",
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
