"""What `init` proposes for files in the shapes of well-known public benchmarks is right as it is."""

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.scaffold.init import start_benchmark
from tests.scaffold.conftest import write
from tests.scaffold.public_shapes import SHAPES, Asked, Gold, Right


def meaning(plan, right):
    """What a plan made of the files; bodies only where the files hold them in cells."""
    asked = tuple(
        Asked(
            question.question,
            question.answers,
            tuple(
                Gold(c.document, c.text, c.page, None if c.start is None else (c.start, c.end))
                for c in question.contexts
            ),
        )
        for question in plan.questions
    )
    bodies = frozenset(document.content for document in plan.documents if right.bodies)
    return Right(asked, frozenset(document.key for document in plan.documents), bodies)


@pytest.mark.parametrize("name", SHAPES)
def test_proposal_is_right(empty, tmp_path, name):
    shape = SHAPES[name]()

    paths, _ = start_benchmark(empty, "scratch", write(tmp_path / "origin", shape.files))

    found = plan(paths)
    assert meaning(found, shape.right) == shape.right
    assert found.counts.quarantined == 0
