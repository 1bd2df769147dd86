"""The errors that `rag-eval validate` finds in a file, one line each."""

from rag_eval_pipeline.formats.model import errors_in
from rag_eval_pipeline.formats.validation import examine


def validate(path, *, corpus=None):
    return [str(error) for error in errors_in(examine(path, corpus=corpus))]
