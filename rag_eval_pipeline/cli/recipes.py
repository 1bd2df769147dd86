"""The command on the formats that `init` knows."""

from typing import Annotated

import typer

from rag_eval_pipeline.cli.output import AsJson, Root, emit, find_workspace_if_any


def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print this recipe's file.")] = None,
    workspace: Root = None,
    as_json: AsJson = False,
) -> None:
    """List the formats that `init` knows, or print the file of one.

    Recipes of your own are YAML files in data/recipes of the workspace; they come first.

    Example: rag-eval recipes squad-rows
    """
    from rag_eval_pipeline.scaffold.recipe import read_recipes, recipe_path

    root = find_workspace_if_any(workspace)
    own = None if root is None else root.recipes
    if name is not None:
        text = recipe_path(name, own).read_text("utf-8")
        emit({"name": name, "text": text}, as_json, [text.rstrip("\n")])
        return
    found = read_recipes(own)
    width = max(map(len, found))
    mine = set() if own is None else {path.stem for path in own.glob("*.yaml")}
    rows = [
        {"name": name, "title": one.title, "source": one.source, "is_own": name in mine} for name, one in found.items()
    ]
    lines = (f"{name:{width}}  {one.title}{'  (yours)' if name in mine else ''}" for name, one in found.items())
    emit(rows, as_json, lines)
