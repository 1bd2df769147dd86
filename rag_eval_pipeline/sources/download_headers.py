"""Headers that a source's server wants to see: checked, completed from the environment, and never shown.

A secret stands in the environment and is named in benchmark.yaml by `${NAME}`. Its value goes to the server and into no
message, log or file.
"""

import re
from collections.abc import Mapping

from rag_eval_pipeline.errors import InputError

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2, token
_VALUE = re.compile(r"[\x20-\x7e\t]*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# They say how bytes travel or which of them are asked for; that is settled between the client and the server.
_OWN = {
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "keep-alive",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}


def header_values(headers: Mapping[str, str], environ: Mapping[str, str], *, shown: str) -> dict[str, str]:
    """The headers as they are sent, by lower-case name.

    Args:
        headers: As stated; `${NAME}` in a value stands for an environment variable.
        environ: The environment.
        shown: What messages name as their place: the URL.

    Raises:
        InputError: `bad_header`; `missing_variable` for one that is unset or empty. No message holds a value.
    """
    values: dict[str, str] = {}
    for name, stated in headers.items():
        lower = name.lower()
        if not _NAME.fullmatch(name):
            raise InputError("bad_header", shown, "the name of a header", found=name)
        if lower in _OWN or lower.startswith("proxy-"):
            raise InputError("bad_header", shown, "a header that a source may set", field=name)
        if lower in values:
            raise InputError("bad_header", shown, "each header once", field=name)
        value = _completed(name, stated, environ, shown).strip()
        if not _VALUE.fullmatch(value):
            raise InputError("bad_header", shown, "a value of printable ASCII on one line", field=name)
        values[lower] = value
    return values


def _completed(name: str, stated: str, environ: Mapping[str, str], shown: str) -> str:
    if "${" in _VARIABLE.sub("", stated):
        raise InputError("bad_header", shown, "variables as ${NAME}", field=name)
    for variable in _VARIABLE.findall(stated):
        if not environ.get(variable, "").strip():
            raise InputError(
                "missing_variable",
                shown,
                f"the environment variable {variable}",
                field=name,
                hint="Set it where the command or the server is started.",
            )
    return _VARIABLE.sub(lambda match: environ[match[1]].strip(), stated)
