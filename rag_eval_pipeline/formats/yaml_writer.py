"""YAML text that reads back as it was: a text that could be taken for a number, a boolean or nothing is quoted."""

import re
from typing import Any

import yaml

from rag_eval_pipeline.formats.yaml_reader import Plain, plain_value

_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9_./()-]*( [A-Za-z0-9_./()-]+)*")
_LINE = 2**31 - 1  # characters: no text is broken into lines, because a diff then shows what changed


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    bare = _WORDS.fullmatch(text) is not None and plain_value(Plain(text)) == text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if bare else '"')


_Dumper.add_representer(str, _represent_text)


def yaml_text(value: Any) -> bytes:
    """A JSON value as YAML in UTF-8, keys in their order."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=False, width=_LINE
    )
    return text.encode()
