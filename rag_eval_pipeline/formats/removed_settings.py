"""Settings of earlier versions and what replaces each: a file that still has one is refused with that sentence."""

from collections.abc import Sequence

REMOVED: dict[str, str] = {
    "compression": "Delete it: how a file is compressed is detected from its content.",
    "settings.generate": "Rename it to `extra_body`: its fields are sent as they are, under the server's names.",
    "robots": "Delete it: robots.txt is no longer read; `host_requests` and `host_delay_s` limit the load on a host.",
}
"""From the setting's name, with as many of the keys around it as tell it from others, to a sentence for its hint."""


def removed_hint(location: Sequence[int | str]) -> str | None:
    """Return what replaces the setting at a place of a file; None if there never was one."""
    name = ".".join(part for part in location if isinstance(part, str))
    return next((hint for old, hint in REMOVED.items() if f".{name}".endswith(f".{old}")), None)
