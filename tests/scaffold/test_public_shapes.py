"""What `init` proposes for files in the shapes of well-known public benchmarks is right, or within three lines of it."""

import pytest

from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.scaffold.init import start_benchmark
from tests.scaffold.conftest import write
from tests.scaffold.public_shapes import SHAPES, Asked, Gold, Right

MAX_EDITS = 3


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
def test_proposal_is_right_within_three_lines(empty, tmp_path, name):
    shape = SHAPES[name]()
    paths, proposal = start_benchmark(empty, "scratch", write(tmp_path / "origin", shape.files))

    text = proposal.text
    for proposed, edited in shape.edits:
        assert text.count(proposed) == 1
        text = text.replace(proposed, edited)
    paths.spec.write_text(text)
    found = plan(paths)

    assert len(shape.edits) <= MAX_EDITS
    assert not shape.edits or not proposal.missing
    assert meaning(found, shape.right) == shape.right
    assert found.counts.quarantined == 0
