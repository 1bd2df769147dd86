"""What a dataset is called when its files do not say: most formats have no place for it."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pydantic

from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset, EvaluationQuery
from rag_eval_pipeline.formats.model import bad_format


class Identity(NamedTuple):
    """Id, version and name that the reader of a folder gives."""

    dataset_id: str
    version: str = "0.0.0"
    name: str | None = None

    def dataset(self, path: Path, queries: Iterable[EvaluationQuery]) -> EvaluationDataset:
        """A dataset of this identity.

        Args:
            path: The file that the queries are made from, for messages.
            queries: Made while they are taken, so that what is wrong with one is said of that file.

        Raises:
            InputError: `bad_format` for an empty question, `duplicate_id`, `bad_version`.
        """
        name = self.name or self.dataset_id
        try:
            return EvaluationDataset(
                dataset_id=self.dataset_id, name=name, version=self.version, queries=tuple(queries)
            )
        except pydantic.ValidationError as error:
            raise bad_format(path, error) from error
