"""Licences by the first lines of their files, as SPDX writes them."""

import re
from pathlib import Path, PurePosixPath

HEAD_BYTES = 2_000
_FILE = re.compile(r"(licen[cs]e|copying)([._-].*)?", re.IGNORECASE)
_STATED = re.compile(r"SPDX-License-Identifier:\s*([A-Za-z0-9.+-]+)")
_VERSION = re.compile(r"\b([0-9]\.[0-9])\b")

_KNOWN = (
    (re.compile(r"\bMIT License\b|\bThe MIT License\b", re.I), "MIT"),
    (re.compile(r"\bApache License\b.{0,40}?\bVersion 2\.0\b", re.I), "Apache-2.0"),
    (re.compile(r"\bBSD 2-Clause\b", re.I), "BSD-2-Clause"),
    (re.compile(r"\bBSD 3-Clause\b", re.I), "BSD-3-Clause"),
    (re.compile(r"\bISC License\b", re.I), "ISC"),
    (re.compile(r"\bMozilla Public License,? Version 2\.0\b", re.I), "MPL-2.0"),
    (re.compile(r"\bThe Unlicense\b|\bThis is free and unencumbered software\b", re.I), "Unlicense"),
    (re.compile(r"\bCC0 1\.0\b", re.I), "CC0-1.0"),
    (re.compile(r"\bOpen Data Commons Attribution\b|\bODC-By\b", re.I), "ODC-By-1.0"),
)
_CREATIVE_COMMONS = re.compile(
    r"\bCC[ -]BY(?P<short>(?:-NC|-SA|-ND)*)\b"
    r"|\bAttribution(?P<long>(?:[- ](?:NonCommercial|ShareAlike|NoDerivatives))*)\b",
    re.IGNORECASE,
)
_PARTS = {"noncommercial": "NC", "sharealike": "SA", "noderivatives": "ND"}


def licence_of(folder: Path, files: list[str]) -> str | None:
    """SPDX identifier of the licence file in a folder; None without one, or when its first lines are not known."""
    for name in sorted(files):
        if "/" not in name and _FILE.fullmatch(PurePosixPath(name).name):
            found = spdx_identifier((folder / name).read_bytes()[:HEAD_BYTES].decode("utf-8", "replace"))
            if found is not None:
                return found
    return None


def spdx_identifier(text: str) -> str | None:
    """The identifier that the beginning of a licence stands for; None when it is not known."""
    stated = _STATED.search(text)
    if stated is not None:
        return stated[1]
    head = " ".join(" ".join(line for line in text.splitlines() if line.strip()).split()[:40])
    found = next((identifier for pattern, identifier in _KNOWN if pattern.search(head)), None)
    return found or _creative_commons(head)


def _creative_commons(head: str) -> str | None:
    match, version = _CREATIVE_COMMONS.search(head), _VERSION.search(head)
    if match is None or version is None:
        return None
    words = re.split(r"[- ]+", (match["short"] or match["long"] or "").strip("- "))
    parts = [_PARTS.get(word.lower(), word.upper()) for word in words if word]
    return "-".join(["CC", "BY", *parts, version[1]])
