"""JSON and YAML files as plain values, for files that are read record by record: one bad record costs no good one.

Recognised by the name's ending. JSON is checked for what readers pass over in silence; YAML's unquoted scalars stay
`Plain`, and the types of `values` read them as what their field asks for.
"""

import json
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.json_text import read_json_text
from rag_eval_pipeline.formats.model_files import JSON, YAML, read_yaml_value


def read_plain(path: Path) -> Any:
    """The one value of a file.

    Raises:
        InputError: `unknown_form` (by the name), `missing_file`, `unreadable_file`, `bad_gzip`, `too_large`,
            `bad_encoding`, `bad_json`, `bad_yaml`.
    """
    if path.name.endswith(YAML):
        return read_yaml_value(path)
    if not path.name.endswith(JSON):
        raise InputError("unknown_form", path, f"a name ending in {', '.join(JSON + YAML)}")
    text = read_json_text(path)
    value = json.loads(text)
    if b"\\u" in text:  # only an escape can make a lone surrogate, which no file can be written with
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            found = error.object[error.start]
            raise InputError("bad_json", path, "text without lone surrogates", found=found) from None
    return value
