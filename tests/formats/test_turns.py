"""Turns of one conversation are one unit of the verdicts."""

from rag_eval_pipeline.formats.dataset import EvaluationQuery, question_clusters


def test_turns_of_a_conversation_are_one_cluster():
    def query(name, **metadata):
        return EvaluationQuery(query_id=name, query_text="?", relevant_documents=(f"{name}.txt",), metadata=metadata)

    found = question_clusters([query("a", conversation="c1", turn=1), query("b", conversation="c1"), query("d")])

    assert found == {"a": "conversation c1", "b": "conversation c1", "d": "d.txt"}
