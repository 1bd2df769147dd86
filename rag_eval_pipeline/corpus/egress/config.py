"""`data/config/egress.config.yaml`: what may be reached beyond the public internet, and how much of it."""

import re
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.yaml_reader import read_typed_yaml

_HOST_PORT = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):[0-9]{1,5}")


class HostPort(NamedTuple):
    """A host as it is written in a URL, lower case and without brackets, and a port."""

    host: str
    port: int


class EgressConfig(BaseModel):
    """`data/config/egress.config.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="Private hosts that documents may come from, each as exact `host:port`; none by default.",
    )
    allowed_ports: tuple[int, ...] = Field(
        default=(80, 443, 8080, 8443), description="Ports of public hosts that may be asked; others are refused."
    )
    max_redirects: int = Field(default=5, ge=0, le=20, description="Redirects that a document may take to its body.")
    max_body_bytes: int = Field(
        default=100_000_000, gt=0, description="Decoded size of a body; a larger one is `body_too_large`."
    )
    fetch_limit_s: float = Field(
        default=30.0, gt=0, description="Wall-clock seconds for one attempt at a document, redirects and body included."
    )
    page_load_limit_s: float = Field(
        default=15.0,
        gt=0,
        description="Seconds for a page to load; one that takes longer is printed as far as it came.",
    )
    attempts: int = Field(default=3, ge=1, le=10, description="Times that a busy or broken server is asked.")
    allow_no_sandbox: bool = Field(
        default=False,
        description="Whether pages from URLs may be rendered where the browser's sandbox cannot be used.",
    )

    @field_validator("allowed_hosts")
    @classmethod
    def _exact(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            if not _HOST_PORT.fullmatch(entry):
                raise ValueError(f"{entry!r} is not an exact host:port")
        return value

    @property
    def allowed(self) -> frozenset[HostPort]:
        """The private hosts, as they are compared."""
        return frozenset(host_port(*entry.rsplit(":", 1)) for entry in self.allowed_hosts)


def read_egress_config(path: Path) -> EgressConfig:
    """The settings; the defaults where there is no file.

    Raises:
        InputError: `bad_yaml`, `bad_config`.
    """
    if not path.is_file():
        return EgressConfig()
    data = read_typed_yaml(path, str(path)).value
    try:
        return EgressConfig.model_validate({} if data is None else data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or None
        raise InputError("bad_config", path, first["msg"], field=field, found=first["input"]) from error


def host_port(host: str, port: str | int) -> HostPort:
    """A host and a port as they are compared."""
    return HostPort(host.strip("[]").rstrip(".").lower(), int(port))
