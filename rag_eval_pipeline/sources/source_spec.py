"""The part of benchmark.yaml that states a source: its files, archives and URLs, and how they are read."""

import codecs
import io
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from rag_eval_pipeline.storage.yaml_files import resolve_scalars
from rag_eval_pipeline.workspace import BenchmarkPaths

Text = Annotated[str, Field(min_length=1)]
Format = Literal["csv", "tsv", "jsonl", "json", "yaml", "xlsx", "xml", "parquet", "arrow", "trec_qrels", "trec_topics"]


class SpecPart(BaseModel):
    """A part of benchmark.yaml; immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def check_relative(path: str) -> str:
    """Return the path if it can only lead into the benchmark's folder."""
    parts = PurePosixPath(path).parts
    if not path or "\x00" in path or path.startswith("/") or ".." in parts:
        raise PydanticCustomError(
            "path_outside",
            "a path inside the benchmark's folder, relative and without `..`",
            {"hint": "Copy the file into the folder."},
        )
    return path


def listed(value: Any) -> Any:
    """Return a single text as a list."""
    return [value] if isinstance(value, str) else value


RelativePath = Annotated[str, Field(min_length=1)]


class SourceSpec(SpecPart):
    """A source: data files, or the list of a folder's files."""

    path: Annotated[tuple[RelativePath, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="A data file, a list of them, or a glob (sorted by name), relative to the benchmark's folder.",
    )
    url: Annotated[tuple[Text, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="URL (http, https, s3, gs, az) of a data file or archive, or a list; downloaded once, within the "
        "egress policy.",
    )
    headers: dict[Text, str] = Field(
        default={}, description="Sent with `url`; `${NAME}` in a value is the environment variable, for tokens."
    )
    files: RelativePath | None = Field(
        default=None,
        description="A glob: each file is a row with `file` (its path) and `name` (basename); with `path` or `url` the "
        "files of that archive.",
    )
    member: RelativePath | None = Field(
        default=None, description="A name or glob: the data files inside an archive that has several files."
    )
    format: Format | None = Field(default=None, description="By default detected from the content.")
    encoding: str | None = Field(
        default=None,
        description="Name of a Python codec, such as cp1252; by default UTF-8, or what a byte order mark states.",
    )
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = Field(
        default=None, description="Separator of CSV cells; by default the one that gives rows of equal width."
    )
    quote: Annotated[str, Field(pattern=r"^(.|none|backslash)$")] | None = Field(
        default=None,
        description="The quote character of CSV cells, by default the double quote; `none`: quotes are text; "
        "`backslash`: a double quote inside a cell is escaped with a backslash.",
    )
    columns: tuple[Text, ...] = Field(
        default=(),
        description="Names of CSV columns, for a file without a header or (`header: replace`) instead of it.",
    )
    header: Literal["replace"] | None = Field(
        default=None, description="replace: the first row of a CSV is skipped, and `columns` are the names."
    )
    sheet: Annotated[tuple[Text, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="Excel only: the sheet to read, or a list; by default the first visible one that has cells.",
    )
    header_row: Annotated[int | None, BeforeValidator(resolve_scalars)] = Field(
        default=None,
        ge=1,
        description="Excel only: the row with the column names; by default the first with more than half as many cells "
        "as the fullest row.",
    )
    allow_nan: Annotated[bool, BeforeValidator(resolve_scalars)] = Field(
        default=False, description="JSON only: NaN and infinities, which JSON does not have, are read as null."
    )
    root: str | None = Field(
        default=None,
        description="JSON and YAML: keys, dot-separated, that lead to the rows (`data`). `$` makes the value one row; "
        "`queries.*` makes each member of an object a row of `source_key` and `value`. XML: the tags from "
        "the root to the rows (`posts.row`); by default the outermost elements that repeat.",
    )

    @field_validator("path")
    @classmethod
    def _paths_inside(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(check_relative(path) for path in value)

    @field_validator("files", "member")
    @classmethod
    def _files_inside(cls, value: str | None) -> str | None:
        return value if value is None else check_relative(value)

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            name = codecs.lookup(value).name
            io.TextIOWrapper(io.BytesIO(), encoding=name)  # refuses codecs of bytes to bytes, such as base64
        except LookupError:
            raise PydanticCustomError("bad_value", "the name of a text encoding, such as cp1252") from None
        return name

    @model_validator(mode="after")
    def _one_origin(self) -> "SourceSpec":
        origins = (bool(self.path), bool(self.url), self.files is not None and not self.path and not self.url)
        if origins.count(True) != 1:
            raise PydanticCustomError("bad_value", "exactly one of path, url, files")
        if self.files is not None and self.member is not None:
            raise PydanticCustomError("bad_value", "either `member`, which is read, or `files`, which are listed")
        if self.header is not None and not self.columns:
            raise PydanticCustomError("bad_value", "`columns`, which `header: replace` puts in the header's place")
        if self.headers and not self.url:
            raise PydanticCustomError("bad_value", "`headers` only with `url`")
        return self


def shown_path(paths: BenchmarkPaths, relative: str) -> str:
    """Return the name of a benchmark's file in messages: its path from the workspace's root, or its URL."""
    return relative if "://" in relative else f"data/sources/{paths.name}/{relative}"


STORAGE_VARIABLES = {  # what states the credentials
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_CONNECTION_STRING (AccountName, and AccountKey or SharedAccessSignature)",
}
