"""Who was asked what and how often: what a test of "nothing asked twice" looks at."""

import hashlib
from collections import Counter
from typing import Any

_SHOWN_CHARACTERS = 160  # of a long prompt; with its hash behind it


class Counts:
    """Requests by interface and question."""

    def __init__(self) -> None:
        self._open = 0
        self.reset()

    def reset(self) -> None:
        """Forgets everything but what is under way."""
        self._attempts: dict[str, Counter[str]] = {}
        self._answered: dict[str, Counter[str]] = {}
        self._paths: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._number = 0
        self._open_max = 0

    def path(self, place: str) -> int:
        """Counts a request; returns how many there have been at this method and path."""
        self._paths[place] += 1
        return self._paths[place]

    def attempt(self, interface: str, question: str) -> tuple[int, int]:
        """Counts an attempt; returns its number for this question, and among all questions."""
        asked = self._attempts.setdefault(interface, Counter())
        key = _shown(question)
        asked[key] += 1
        self._number += 1
        return asked[key], self._number

    def fault(self, name: str) -> None:
        """Counts a fault."""
        self._faults[name] += 1

    def answered(self, interface: str, question: str) -> None:
        """Counts a whole, right answer."""
        self._answered.setdefault(interface, Counter())[_shown(question)] += 1

    def opened(self, by: int) -> None:
        """Counts requests that are being answered."""
        self._open += by
        self._open_max = max(self._open_max, self._open)

    def summary(self) -> dict[str, Any]:
        """Numbers only, for many questions."""
        return {
            "requests": self._paths.total(),
            "attempts": sum(asked.total() for asked in self._attempts.values()),
            "questions": sum(map(len, self._attempts.values())),
            "answered": sum(map(len, self._answered.values())),
            "answered_twice": sum(count > 1 for asked in self._answered.values() for count in asked.values()),
            "in_flight": self._open,
            "in_flight_max": self._open_max,
            "paths": dict(self._paths),
            "faults": dict(self._faults),
        }

    def whole(self) -> dict[str, Any]:
        """The summary, and each question's count by interface."""
        return {
            **self.summary(),
            "attempts_by_question": {name: dict(asked) for name, asked in self._attempts.items()},
            "answered_by_question": {name: dict(asked) for name, asked in self._answered.items()},
        }


def _shown(question: str) -> str:
    if len(question) <= _SHOWN_CHARACTERS:
        return question
    return f"{question[:_SHOWN_CHARACTERS]}… {hashlib.sha256(question.encode(errors='surrogatepass')).hexdigest()[:12]}"
