"""A value that a JSON Schema accepts: what a model says that was told the form and has one text to give."""

from typing import Any


def fill(schema: dict[str, Any], text: str) -> Any:
    """The simplest value of a schema: the text where a text is wanted, else nothing, zero or the first of a choice.

    Understood are `type`, `properties`, `items`, `minItems`, `minimum`, `enum`, `const`, `anyOf` and `$defs`.
    """
    return _fill(schema, text, schema.get("$defs", {}))


def _fill(schema: dict[str, Any], text: str, defined: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return _fill(defined[schema["$ref"].rpartition("/")[2]], text, defined)
    for key in ("enum", "anyOf"):
        if key in schema:
            first = schema[key][0]
            return first if key == "enum" else _fill(first, text, defined)
    if "const" in schema:
        return schema["const"]
    match schema.get("type", "object"):
        case "string":
            return text
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "array":
            return [_fill(schema.get("items", {}), text, defined) for _ in range(schema.get("minItems", 0))]
        case "object":
            return {name: _fill(part, text, defined) for name, part in schema.get("properties", {}).items()}
        case _:
            return None
