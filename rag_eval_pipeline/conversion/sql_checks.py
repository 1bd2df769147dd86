"""Row order, origin of rows and columns of a query, read from DuckDB's syntax tree.

A query that only filters, computes and unnests keeps the order of its source; one that groups, joins or takes distinct
rows must return `source_file, source_row` to be put back in order.
"""

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Node = dict[str, Any]

DOCUMENT_COLUMNS = ("url", "name", "file", "html", "markdown", "text")
KEEP = "__keep"  # the column with the value of `where` for a row: true, false or NULL
TRACE_FILE = "__source_file"
TRACE_ROW = "__source_row"
TRACE_ITEM = "__source_item"  # as in `QuarantineRecord.item`
MACRO_NAMES = ("python_list", "python_dict", "url_split", "url_stem", "byte_slice", "char_offset")
_TRACES = {TRACE_FILE: "source_file", TRACE_ROW: "source_row"}
_SOURCE = "source"
_TEXT_PLACES = {  # of macros and aggregates, whose parameters have no types
    "split_part": {0, 1}, "string_agg": {0, 1}, "group_concat": {0, 1}, "listagg": {0, 1},
    **{name: {0} for name in MACRO_NAMES},
}  # fmt: skip
_LIST_FUNCTIONS = frozenset({"array_to_string", "array_to_string_comma_default"})
CLOCK_WORDS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})


def order_hazard(node: Node, common: dict[str, Node] | None = None) -> str | None:
    """Return the part of a query that loses the order of its source (`GROUP BY`, `JOIN`, ...); None if it is kept."""
    if node["type"] == "SET_OPERATION_NODE":
        if node["setop_type"] != "UNION" or not node["setop_all"]:
            return "UNION" if node["setop_type"] == "UNION" else str(node["setop_type"])
        children = node.get("children") or [node["left"], node["right"]]
        return next((hazard for child in children if (hazard := order_hazard(child, common))), None)
    if node["type"] != "SELECT_NODE":
        return "a recursive query"
    common = {**(common or {}), **_common_tables(node)}
    if _is_distinct(node):
        return "DISTINCT"
    if _groups(node):
        return "GROUP BY"
    return _from_hazard(node["from_table"], common)


def traced(tree: Node) -> Node | None:
    """Return the tree with the source's file and row as further columns; None if rows are merged or made."""
    tree = copy.deepcopy(tree)
    return tree if _trace(tree["statements"][0]["node"], {}) else None


def has_own_order(tree: Node) -> bool:
    """Return whether the outermost SELECT has an ORDER BY."""
    return any(modifier["type"] == "ORDER_MODIFIER" for modifier in tree["statements"][0]["node"].get("modifiers", ()))


def columns_used(node: Any) -> list[str]:
    """Return the last parts of the column names in an expression, sorted."""
    if isinstance(node, list):
        return sorted({name for item in node for name in columns_used(item)})
    if not isinstance(node, dict):
        return []
    own = {node["column_names"][-1]} if node.get("class") == "COLUMN_REF" else set()
    return sorted(own | {name for item in node.values() for name in columns_used(item)})


def has_functions(node: Any) -> bool:
    """Return whether a query calls a function; operators are functions, comparisons are not."""
    if isinstance(node, list):
        return any(map(has_functions, node))
    return isinstance(node, dict) and (bool(node.get("function_name")) or any(map(has_functions, node.values())))


def volatile_parts(node: Any, functions: Collection[str], columns: Collection[str]) -> list[str]:
    """Return the parts of a query whose result may change by itself: sampling, random numbers, the clock.

    `functions` are not the same for the same arguments; `columns` may be named like `current_date`.
    """
    if isinstance(node, list):
        return [part for item in node for part in volatile_parts(item, functions, columns)]
    if not isinstance(node, dict):
        return []
    found = ["TABLESAMPLE"] if node.get("sample") else []
    name = str(node.get("function_name") or "").lower()
    if name in functions or (name == "age" and len(node.get("arguments") or ()) == 1):
        found.append(f"{name}()")
    if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
        [reference] = node["column_names"]
        if reference.lower() in CLOCK_WORDS and reference.lower() not in columns:
            found.append(reference)
    return found + [part for item in node.values() for part in volatile_parts(item, functions, columns)]


def text_places(functions: Iterable[tuple[str, Sequence[str]]]) -> dict[str, set[int]]:
    """Return the arguments of each function that are text in all its overloads, given by name and types."""
    types: dict[str, dict[int, set[str]]] = {}
    for name, parameters in functions:
        for place, kind in enumerate(parameters):
            types.setdefault(name, {}).setdefault(place, set()).add(kind)
    return {
        **{name: {place for place, kinds in places.items() if kinds == {"VARCHAR"}} for name, places in types.items()},
        **_TEXT_PLACES,
    }


class JsonCalls(NamedTuple):
    """Expressions, with any arguments, that become parts of a tree."""

    text: Node  # a call of the function that gives a JSON value's text
    texts: Node  # the same for a list of JSON values
    case: Node  # CASE WHEN typeof(x) = 'JSON' THEN x ELSE x END


def json_as_text(node: Any, places: Mapping[str, Collection[int]], calls: JsonCalls) -> Any:
    """Return the tree with calls around values that are used as text, so that a JSON text loses its quotes there.

    DuckDB uses a JSON value as it is written, quotes included. `places` are the arguments of functions that are text.
    """
    if isinstance(node, list):
        return [json_as_text(item, places, calls) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: json_as_text(value, places, calls) for key, value in node.items()}
    if node.get("class") == "CAST":
        kind = node["type_expr"]
        if _is_text_type(kind):
            node["child"] = _called(calls.text, node["child"])
        elif str(kind.get("type_name")).upper() == "LIST" and all(map(_is_text_type, kind["children"])):
            node["child"] = _called(calls.texts, node["child"])
    elif node.get("class") == "FUNCTION":
        name, arguments = str(node["function_name"]).lower(), node["arguments"]
        chosen = places.get(name, ())
        if name in {"||", "concat"} and any(_is_text_constant(item["expression"]) for item in arguments):
            chosen = range(len(arguments))
        for place, item in enumerate(arguments):
            if place in chosen and not _is_text_constant(item["expression"]):
                item["expression"] = _called(calls.text, item["expression"])
        if name in _LIST_FUNCTIONS and arguments:
            arguments[0]["expression"] = _called(calls.texts, arguments[0]["expression"])
    elif node.get("class") == "COMPARISON":
        if _is_text_constant(node["left"]) != _is_text_constant(node["right"]):
            side = "right" if _is_text_constant(node["left"]) else "left"
            return _if_json(node[side], {**node, side: _called(calls.text, node[side])}, node, calls)
    elif node.get("type") in {"COMPARE_IN", "COMPARE_NOT_IN"}:
        first, *others = node["children"]
        if all(map(_is_text_constant, others)):
            return _if_json(first, {**node, "children": [_called(calls.text, first), *others]}, node, calls)
    return node


def _called(call: Node, value: Node) -> Node:
    call = copy.deepcopy(call)
    call["arguments"][0]["expression"] = {**value, "alias": ""}
    return {**call, "alias": value.get("alias", "")}


def _if_json(value: Node, then: Node, otherwise: Node, calls: JsonCalls) -> Node:
    case = copy.deepcopy(calls.case)
    [check] = case["case_checks"]
    check["when_expr"]["left"]["arguments"][0]["expression"] = value
    check["then_expr"], case["else_expr"] = {**then, "alias": ""}, {**otherwise, "alias": ""}
    return {**case, "alias": otherwise.get("alias", "")}


def _is_text_type(kind: Node) -> bool:
    return str(kind.get("type_name")).upper() in {"VARCHAR", "TEXT", "STRING", "CHAR", "BPCHAR", "NVARCHAR"}


def _is_text_constant(node: Node) -> bool:
    return node.get("class") == "CONSTANT" and (node.get("literal") or {}).get("kind") == "STRING"


def _from_hazard(table: Node, common: dict[str, Node]) -> str | None:
    if table["type"] == "JOIN":
        return _from_hazard(table["left"], common) if _unnests(table["right"]) else "JOIN"
    if table["type"] == "SUBQUERY":
        return order_hazard(table["subquery"]["node"], common)
    if table["type"] == "BASE_TABLE" and table["table_name"] in common:
        name = table["table_name"]
        return order_hazard(common[name], {key: node for key, node in common.items() if key != name})
    return None


def _unnests(table: Node) -> bool:
    """Return whether the right side of a join depends on the left row only: a table function, a SELECT without FROM."""
    if table["type"] == "TABLE_FUNCTION":
        return True
    if table["type"] != "SUBQUERY":
        return False
    node = table["subquery"]["node"]
    return bool(
        node["type"] == "SELECT_NODE"
        and not _groups(node)
        and not node["modifiers"]
        and node["from_table"]["type"] in {"EMPTY", "TABLE_FUNCTION"}
    )


def _trace(node: Node, common: dict[str, Node]) -> bool:
    """Add the two columns to a SELECT and to what it selects from, down to `source`."""
    if node["type"] != "SELECT_NODE" or _groups(node) or _is_distinct(node):
        return False
    common = {**common, **_common_tables(node)}
    found = _origin(node["from_table"], common)
    if found is None:
        return False
    qualifier, names = found
    present = {item.get("alias") for item in node["select_list"]}
    for alias, name in names.items():
        if alias not in present:
            path = [qualifier, name] if qualifier else [name]
            place = {"query_location": 0, "query_location_length": 0}
            column = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": alias, **place, "column_names": path}
            node["select_list"].append(column)
    return True


def _origin(table: Node, common: dict[str, Node]) -> tuple[str, dict[str, str]] | None:
    """Return the qualifier of the source in a FROM clause, and its column for each trace; None if it is not there."""
    while table["type"] == "JOIN":
        table = table["left"]
    alias = table.get("alias") or ""
    if table["type"] == "SUBQUERY":
        return (alias, {name: name for name in _TRACES}) if _trace(table["subquery"]["node"], common) else None
    if table["type"] != "BASE_TABLE":
        return None
    name = table["table_name"]
    if name in common:
        rest = {key: node for key, node in common.items() if key != name}
        return (alias or name, {trace: trace for trace in _TRACES}) if _trace(common[name], rest) else None
    return (alias or name, dict(_TRACES)) if name.lower() == _SOURCE else None


def _is_distinct(node: Node) -> bool:
    return any(modifier["type"] == "DISTINCT_MODIFIER" for modifier in node["modifiers"])


def _groups(node: Node) -> bool:
    return bool(node["group_expressions"] or node["group_sets"] or node["aggregate_handling"] != "STANDARD_HANDLING")


def _common_tables(node: Node) -> dict[str, Node]:
    return {item["key"]: item["value"]["query_node"] for item in node.get("cte_map", {}).get("map", ())}
