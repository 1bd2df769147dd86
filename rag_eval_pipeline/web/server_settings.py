"""Settings of a server: address, limits, credentials, prices and daily budget; part of a system's or a judge's file.

Secrets are named by environment variables, sent as headers, and masked in every text and body.
"""

import base64
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import quote, urlsplit

import pydantic
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.formats.model import JsonObject, Model

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a header's name (RFC 9110, 5.6.2)
# Headers that say how bytes travel and which of them are asked for: the client sets them itself for every request.
RESERVED_HEADERS = frozenset(
    {
        *("accept-encoding", "connection", "content-length", "content-type", "expect", "host", "keep-alive", "range"),
        *("if-modified-since", "if-none-match", "if-range", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
HOST_PORT = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):[0-9]{1,5}")
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MASK = "***"
# Bodies are masked too, because a server may quote a key; but a key such as EMPTY or test is a word of answers.
BODY_SECRET_LENGTH = 12  # characters


def is_free_header(name: str) -> bool:
    """Return whether a text is a header's name, and none of those that the client sets itself."""
    return HEADER_NAME.fullmatch(name) is not None and name.lower() not in RESERVED_HEADERS


def _misplaced(expected: str) -> PydanticCustomError:
    """Return an error whose type tells readers not to quote the input, because it may be a secret."""
    return PydanticCustomError("misplaced_secret", "{expected}", {"expected": expected})


def _host_port(value: str) -> str:
    if not HOST_PORT.fullmatch(value):
        raise _misplaced("host:port; user and password go into proxy_credentials")
    return value


ProxyAddress = Annotated[str, pydantic.AfterValidator(_host_port)]


class EndpointSettings(Model):
    """A server and how it is called."""

    # A secret written in place of a variable's name must not appear in an error.
    model_config = pydantic.ConfigDict(hide_input_in_errors=True)

    operational: ClassVar[frozenset[str]] = frozenset(
        {
            "api_key_env", "headers_env", "in_flight", "requests_per_minute", "attempt_seconds", "total_seconds",
            "max_retries", "backoff_seconds", "body_mb_max", "ca_file", "proxy", "proxy_credentials",
        }
    )  # fmt: skip

    base_url: str = pydantic.Field(description="http or https URL before the paths, such as http://host:8081/v1.")
    api_key_env: str | None = pydantic.Field(
        None, description="Name of the environment variable with the bearer token; null sends none."
    )
    headers_env: dict[str, str] = pydantic.Field(
        default_factory=dict,
        description="Headers, each with the name of the environment variable that holds its value, such as"
        " `api-key: AZURE_KEY`.",
    )
    in_flight: int = pydantic.Field(64, ge=1, le=1024, description="Maximum concurrent requests.")
    requests_per_minute: float | None = pydantic.Field(
        None, gt=0, description="Rate limit; requests are spaced evenly. null: no limit."
    )
    attempt_seconds: float = pydantic.Field(
        60.0, gt=0, description="Time limit for one attempt, from connecting to the last byte."
    )
    total_seconds: float = pydantic.Field(
        180.0,
        gt=0,
        description="Time limit for all attempts of a request with the pauses between them, without the "
        "time in the queue.",
    )
    max_retries: int = pydantic.Field(3, ge=0, le=10, description="Retries after a busy or broken server.")
    backoff_seconds: float = pydantic.Field(
        0.5,
        ge=0,
        le=60,
        description="Longest random pause before the first retry; doubled for each further one.",
    )
    body_mb_max: float = pydantic.Field(8.0, gt=0, le=1024, description="Maximum size of a reply in MB.")
    ca_file: str | None = pydantic.Field(
        None, description="PEM file of a private certificate authority, trusted in addition to the public ones."
    )
    proxy: ProxyAddress | None = pydantic.Field(
        None, description="Corporate proxy as `host:port`, through which the server is reached."
    )
    proxy_credentials: str | None = pydantic.Field(
        None, description="Environment variable with the proxy's `user:password`."
    )

    @pydantic.field_validator("base_url")
    @classmethod
    def _plain_url(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            is_url = parts.port != 0 and parts.scheme in {"http", "https"} and parts.hostname
        except ValueError:
            is_url = False
        if not is_url or re.search(r"[\s\x00-\x1f]", value):
            raise ValueError("an http or https URL such as http://host:8081/v1")
        if "@" in parts.netloc or "?" in value or "#" in value:
            raise _misplaced("a URL without user, query and fragment; secrets go into api_key_env or headers_env")
        return value.rstrip("/")

    @pydantic.field_validator("api_key_env", "proxy_credentials")
    @classmethod
    def _variable(cls, value: str | None) -> str | None:
        if value is not None and not VARIABLE_NAME.fullmatch(value):
            raise _misplaced("the name of an environment variable; the secret itself does not belong in a file")
        return value

    @pydantic.field_validator("headers_env")
    @classmethod
    def _headers(cls, value: dict[str, str]) -> dict[str, str]:
        for header, variable in value.items():
            if not is_free_header(header):
                raise ValueError("headers that a request may carry beside its own")
            if not VARIABLE_NAME.fullmatch(variable):
                raise _misplaced("names of environment variables; the secrets themselves do not belong in a file")
        return value


class Credentials:
    """Headers that carry secrets, and the masking of those secrets."""

    def __init__(self, headers: Mapping[str, str], secrets: frozenset[str], proxy_url: str | None = None) -> None:
        self.headers = dict(headers)
        self.proxy_url = proxy_url  # with its user and password
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
        """Read the secrets that the settings name from the environment."""
        values = {header: _secret(variable, settings) for header, variable in settings.headers_env.items()}
        secrets = frozenset(values.values())
        if settings.api_key_env is not None:
            key = _secret(settings.api_key_env, settings)
            values["Authorization"] = f"Bearer {key}"
            secrets |= {key}
        proxy_url = settings.proxy and f"http://{settings.proxy}"
        if proxy_url and settings.proxy_credentials is not None:
            login = _secret(settings.proxy_credentials, settings)
            proxy_url = f"http://{quote(login, safe=':')}@{settings.proxy}"
            secrets |= {login, login.partition(":")[2]} - {""}
        return cls(values, secrets, proxy_url)

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


class Prices(Model):
    """Prices in US dollars; zero for a server of your own."""

    usd_per_million_prompt_tokens: float = pydantic.Field(0.0, ge=0, description="Price of a million prompt tokens.")
    usd_per_million_completion_tokens: float = pydantic.Field(
        0.0, ge=0, description="Price of a million completion tokens."
    )
    usd_per_request: float = pydantic.Field(0.0, ge=0, description="Price of one HTTP request.")

    def estimate(self, *, prompt_tokens: int, completion_tokens: int, requests: int) -> float:
        """Return the cost in US dollars."""
        tokens = (
            prompt_tokens * self.usd_per_million_prompt_tokens
            + completion_tokens * self.usd_per_million_completion_tokens
        )
        return tokens / 1_000_000 + requests * self.usd_per_request


class Budget(Model):
    """Limits for one UTC day over all benchmarks; a run that reaches one stops and is resumed later."""

    requests: int | None = pydantic.Field(None, ge=1, description="HTTP requests.")
    tokens: int | None = pydantic.Field(None, ge=1, description="Prompt and completion tokens.")
    usd: float | None = pydantic.Field(None, gt=0, description="Estimated cost, US dollars.")


# Fields of a request that are made of the question and of other settings.
OWN_FIELDS = frozenset({"messages", "model", "temperature", "top_p", "seed", "max_tokens", "stream", "stream_options"})


class ChatSettings(Model):
    """One model of an OpenAI-compatible server; null is not sent, so the server's default holds."""

    operational: ClassVar[frozenset[str]] = frozenset({"prices"})

    model: str = pydantic.Field(min_length=1, description="Name of the model, as the server knows it.")
    temperature: float | None = pydantic.Field(0.0, ge=0, le=2, description="Sampling temperature; 0 is greedy.")
    max_tokens: int | None = pydantic.Field(1024, ge=1, description="Maximum tokens of a reply.")
    seed: int | None = pydantic.Field(42, description="Seed of the server's sampling, if it accepts one.")
    top_p: float | None = pydantic.Field(
        None, gt=0, le=1, description="Nucleus sampling: share of the probability mass."
    )
    prices: Prices = pydantic.Field(Prices(), description="Prices for the estimated cost, if the server states none.")
    extra_body: JsonObject = pydantic.Field(default_factory=dict, description="Further fields of every request.")

    @pydantic.field_validator("extra_body")
    @classmethod
    def _is_further(cls, value: dict[str, Any]) -> dict[str, Any]:
        if OWN_FIELDS & value.keys():
            raise ValueError(f"fields other than {', '.join(sorted(OWN_FIELDS))}, which have settings of their own")
        return value
