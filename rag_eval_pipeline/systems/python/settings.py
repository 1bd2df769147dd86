"""Settings of a system that is called in this process."""

import re
from typing import Self

import pydantic

from rag_eval_pipeline.formats.model import JsonObject, Model
from rag_eval_pipeline.systems.reading import AbstentionPatterns, EmptyAnswers, OffsetBase, PageBase

# A module and an attribute path, such as `my_rag.chains:engine.query`.
_CALLABLE = r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*$"
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class PythonSettings(Model):
    """What is imported and how it is called.

    A callable with a parameter of the name `query` gets the question by that name, as a text that also has the
    attributes `query_id` and `text`; any other gets the question's text as its first argument.
    """

    callable: str = pydantic.Field(
        pattern=_CALLABLE, description="What answers, `package.module:name`; the name may be a path, `engine.query`."
    )
    path: tuple[str, ...] = pydantic.Field(
        (), description="Folders, relative to this file, that modules are first looked for in while the system is used."
    )
    factory: bool = pydantic.Field(
        False, description="What `callable` names is called once, with `arguments`, and what it returns answers."
    )
    method: str | None = pydantic.Field(
        None,
        pattern=r"^[^\W\d]\w*$",
        description="Method that answers, such as `invoke`; by default the object itself.",
    )
    arguments: JsonObject = pydantic.Field(
        default_factory=dict,
        description="Keyword arguments: of the factory, else of every call. They are published; secrets do not belong.",
    )
    page_base: PageBase = None
    offset_base: OffsetBase = "document"
    abstention: AbstentionPatterns = None
    empty_answer: EmptyAnswers = "error"
    version_of: tuple[str, ...] = pydantic.Field(
        (), description="Installed packages whose versions are published and tell one state of the system from another."
    )
    configuration: dict[str, str | int | float | bool | None] = pydantic.Field(
        default_factory=dict, description="What is published of it, such as model, embedding_model and retrieval_k."
    )

    @pydantic.field_validator("version_of")
    @classmethod
    def _package_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _PACKAGE.fullmatch(name):
                raise ValueError(f"names of packages, which {name!r} is not")
        return value

    @pydantic.model_validator(mode="after")
    def _arguments_have_names(self) -> Self:
        if bad := next((name for name in self.arguments if not name.isidentifier()), None):
            raise ValueError(f"arguments whose names are identifiers, which {bad!r} is not")
        return self
