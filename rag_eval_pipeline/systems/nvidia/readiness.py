"""Whether the servers are ready, and what the RAG server says of its own settings."""

from collections.abc import Mapping
from typing import Any

from rag_eval_pipeline.endpoints.client import Endpoint, EndpointError
from rag_eval_pipeline.errors import ServiceError

GROUPS = ("databases", "object_storage", "nim", "processing", "task_management")
DOWN = frozenset({"error", "unhealthy", "timeout"})  # `skipped` and `unknown` are servers that are not used
NOT_OFFERED = frozenset({404, 405, 501})


async def check_ready(endpoint: Endpoint, what: str, *, check_dependencies: bool) -> None:
    """Asks a server whether it, and what is behind it, can be used.

    Args:
        endpoint: Where.
        what: Its name in messages.
        check_dependencies: Ask for what is behind it, too.

    Raises:
        ServiceError: `server_unready`, with the reason in one line.
    """
    params = {"check_dependencies": "true"} if check_dependencies else {}
    where = f"The {what} at {endpoint.settings.base_url} is not ready"
    try:
        body = (await endpoint.request("GET", "v1/health", params=params)).json()
    except EndpointError as error:
        raise ServiceError("server_unready", f"{where}: {error}") from error
    groups = [body.get(group) for group in GROUPS] if isinstance(body, dict) else []
    for service in (service for group in groups if isinstance(group, list) for service in group):
        if isinstance(service, dict) and service.get("status") in DOWN:
            reason = " ".join(str(service.get("error") or service["status"]).split())
            raise ServiceError(
                "server_unready",
                endpoint.masked(f"{where}: {service.get('service')} is down, {reason}"),
                hint="Set `check_dependencies: false` if it is not needed.",
            )


async def read_configuration(endpoint: Endpoint) -> Mapping[str, Any] | None:
    """What `/v1/configuration` says; None of a server that is too old to have it.

    Raises:
        ServiceError: `server_unready`.
    """
    try:
        reply = await endpoint.request("GET", "v1/configuration")
        body = reply.json()
        if not isinstance(body, dict):
            raise reply.bad("a JSON object")
    except EndpointError as error:
        if error.http_status in NOT_OFFERED:
            return None
        message = f"The RAG server at {endpoint.settings.base_url} does not tell its configuration: {error}"
        raise ServiceError("server_unready", message) from error
    return body
