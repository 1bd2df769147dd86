"""Templates to pages: whatever comes from data is escaped, and made inert before."""

from functools import cache
from typing import Any

from markupsafe import Markup

from rag_eval_pipeline.reporting.site import numbers
from rag_eval_pipeline.reporting.site.drawing import legend_mark
from rag_eval_pipeline.reporting.site.inert import inert
from rag_eval_pipeline.reporting.site.meanings import metric_label

# `self` is the folder's files where the browser gives a file an origin, `file:` where it does not. Nothing else loads:
# no inline script or style, no frame, no form, no address on a network.
POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file:; base-uri 'none'; "
    "form-action 'none'"
)


def render(template: str, *, root: str = "", **values: Any) -> bytes:
    """A page.

    Args:
        template: File in `templates`.
        root: The way from the page to the site's folder: nothing, `../`, `../../`.
        values: What the template names; strings are escaped.
    """
    return str(_environment().get_template(template).render(root=root, **values)).encode()


@cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("rag_eval_pipeline.reporting.site", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_inert,
    )
    environment.globals.update(policy=POLICY, legend_mark=legend_mark)
    environment.filters.update(
        number=numbers.number,
        ms=numbers.milliseconds,
        dollars=numbers.dollars,
        count=numbers.count,
        points=numbers.points,
        percent=numbers.percent,
        p_value=numbers.p_value,
        day=lambda moment: f"{moment:%Y-%m-%d}",
        minute=lambda moment: f"{moment:%Y-%m-%d %H:%M} UTC",
        metric=metric_label,
        inert=inert,
        words=lambda text: str(text).replace("_", " "),
    )
    return environment


def _inert(value: Any) -> Any:
    return inert(value) if isinstance(value, str) and not isinstance(value, Markup) else value
