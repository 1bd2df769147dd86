"""ALCE's own loop over the citations of an answer, as its published code walks it; what scores are compared with."""


def walked(answer, entailing):
    """ALCE's loop over one answer, for an entailment that is one of sets of passages."""

    def entails(passages, statement):
        return any(needed <= set(passages) for needed in entailing[statement])

    supported = precise = cited = 0
    for number, passages in enumerate(answer):
        joint = bool(passages) and entails(passages, number)
        cited += len(passages)
        supported += joint
        if joint and len(passages) > 1:
            for passage in passages:
                if entails([passage], number):
                    precise += 1
                else:
                    others = list(passages)
                    others.remove(passage)
                    precise += not entails(others, number)
        else:
            precise += joint
    return supported / len(answer), precise / cited if cited else 0
