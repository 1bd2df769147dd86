"""The scripts that run inside a page: part of what decides a PDF's bytes."""

import hashlib
from pathlib import Path

_FOLDER = Path(__file__).parent / "scripts"

PREPARE = (_FOLDER / "prepare.js").read_text(encoding="utf-8")
SETTLE = (_FOLDER / "settle.js").read_text(encoding="utf-8")
MEASURE = (_FOLDER / "measure.js").read_text(encoding="utf-8")
SEEN = (_FOLDER / "seen.js").read_text(encoding="utf-8")
REPAIR = (_FOLDER / "repair.js").read_text(encoding="utf-8")


def scripts_digest() -> str:
    """Changes with every change of a script."""
    return hashlib.sha256("\0".join((PREPARE, SETTLE, MEASURE, SEEN, REPAIR)).encode()).hexdigest()
