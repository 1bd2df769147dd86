"""A message to an incoming webhook, whose address is a secret: what goes wrong is told without it."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import httpx

TIMEOUT_SECONDS = 10.0  # the night is over; whoever does not answer is asked again by the next aggregation


def post(variable: str, message: Mapping[str, Any]) -> str | None:
    """Sends a message.

    Args:
        variable: Name of the environment variable that holds the address.
        message: JSON.

    Returns:
        Why it was not taken, in a line that names the variable and not the address; None when it was.
    """
    address = os.environ.get(variable, "").strip()
    if not address:
        return f"expected the address of a webhook in ${variable}, found nothing [missing_secret]"
    if not address.startswith(("https://", "http://")):
        return f"expected an http(s) address in ${variable} [bad_webhook]"
    for name in ("httpx", "httpcore"):  # they log whole addresses
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        response = httpx.post(address, json=dict(message), timeout=TIMEOUT_SECONDS, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:  # its text may hold the address
        return f"the webhook of ${variable} could not be reached: {type(error).__name__} [webhook_unreachable]"
    if not response.is_success:
        return f"the webhook of ${variable} answered {response.status_code} [webhook_refused]"
    return None
