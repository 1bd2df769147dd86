"""Files become one relation: typed by all their rows, with the place of each."""

import pyarrow as pa

from rag_eval_pipeline.sources.decoded import Piece
from rag_eval_pipeline.sources.relations import relation


def read(columns):
    """A reader of one file with some columns."""
    batch = pa.RecordBatch.from_pydict(columns)
    return lambda name, kinds: iter([Piece(batch, range(1, batch.num_rows + 1))])


def test_the_sources_own_columns_of_our_names_get_an_underscore():
    own = {"source_row": ["x"], "Source_File": ["y"], "source_row_": ["z"]}

    made = relation(["f"], read(own), "f", origin=True)

    assert made.table.to_pylist() == [
        {"source_row__": "x", "Source_File_": "y", "source_row_": "z", "source_file": "f", "source_row": 1}
    ]


def test_its_file_goes_with_it():
    made = relation(["f"], read({"q": ["x"]}), "f", origin=True)
    folder = made.folder.path
    assert folder.is_dir()

    del made

    assert not folder.exists()
