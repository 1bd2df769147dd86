"""The short names under which people know metrics, for sentences: `EM`, `nDCG@10`.

Files, settings and tables keep the names of the registry; a metric that has no short name here is written as words.
"""

PAGE_LEVEL = "page/"  # as retrieval by page is marked in names

# By name, or by family where a cutoff follows.
TITLES = {
    "exact_match": "EM",
    "f1": "F1",
    "hit": "Hit",
    "mrr": "MRR",
    "map": "MAP",
    "ndcg": "nDCG",
    "tolerance_jaccard": "Citation overlap",
    "judged_correct": "Judged correct",
    "faithfulness": "Faithfulness",
}


def title_of(name: str) -> str:
    """A metric's short name: `page/ndcg@10` is "nDCG@10 by page", `span_recall` is "span recall"."""
    family, at, depth = name.removeprefix(PAGE_LEVEL).partition("@")
    title = TITLES.get(family, family.replace("_", " ")) + at + depth
    return f"{title} by page" if name.startswith(PAGE_LEVEL) else title
