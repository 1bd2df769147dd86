"""The one error of an endpoint: what happened, how much was sent for it, and what had arrived."""

from typing import Literal

Failure = Literal["error", "timeout", "truncated", "refused"]
_TIMEOUTS = frozenset({"connect_timeout", "attempt_timeout", "total_timeout"})


class EndpointError(Exception):
    """A request that failed for good, retries included; secrets are masked in all of it.

    Args:
        code: One cause, one code: `connection_refused`, `connection_reset`, `connection_broken`, `dns`, `tls`,
            `connect_timeout`, `attempt_timeout`, `total_timeout`, `http_<status>`, `rate_limited`, `bad_response`,
            `body_too_large`, and of a chat `stream_truncated`, `error_reply`, `content_filter`.
        message: What was asked and what came, in one line.
        status: Of the answer that there is not; by default `timeout` for the codes of timeouts, else `error`.
        requests: HTTP requests that were sent.
        partial: What had arrived of an answer that was cut: of a chat its text, else the bytes.
        elapsed_ms: From the first sending.
        http_status: Of the last reply; None when there was none.
        body: Of the last reply, when its HTTP status was the failure.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: Failure | None = None,
        requests: int = 0,
        partial: bytes | None = None,
        elapsed_ms: float = 0.0,
        http_status: int | None = None,
        body: bytes | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = " ".join(message.split())
        self.status: Failure = status or ("timeout" if code in _TIMEOUTS else "error")
        self.requests = requests
        self.partial = partial
        self.elapsed_ms = elapsed_ms
        self.http_status = http_status
        self.body = body

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"
