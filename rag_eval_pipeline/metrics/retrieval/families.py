"""The families of retrieval measures: names, parameters and the rows that describe them.

A family becomes a measure when its parameters are known: `ndcg@k` with k = 10 is `ndcg@10`. The functions that compute
scores are in `measures`, which loads numpy and Arrow; reading settings takes only the names.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rag_eval_pipeline.metrics.metric_info import COUNT, SHARE, UNBOUNDED, Direction, Level, MetricInfo, Need, Range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rag_eval_pipeline.metrics.retrieval.rankings import Rankings

LEVELS: tuple[Level, ...] = ("passage", "page", "document")
CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)  # trec_eval's
ELEVEN_LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

# cutoff: a rank; fraction: of the number of relevant documents; numbers: in a fixed order; pairs: grade=gain or
# name=number.
Takes = Literal["nothing", "cutoff", "fraction", "numbers", "pairs"]
Summary = Literal["mean", "sum", "geometric", "none"]
Printed = Literal["decimal", "integer", "text"]
Shown = Literal["both", "queries", "summary"]


class Parameters(NamedTuple):
    """Parameters of a measure: cutoff, numbers in the family's order, grade -> gain where they differ, named ones."""

    k: int = 0
    numbers: tuple[float, ...] = ()
    gains: Mapping[int, float] = {}
    named: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Family:
    """A measure whose parameters are not known yet."""

    metric: MetricInfo  # its row in the registry; a family with a cutoff has a name that ends in `@k`
    # Takes rankings and parameters, returns one score per query, 0.0 for a query that retrieved nothing; that of a
    # built-in family is in `measures.SCORES`.
    score: "Callable[[Rankings, Parameters], NDArray[Any]] | None" = None
    trec: str | None = None  # trec_eval's name; None where trec_eval has no such measure
    takes: Takes = "nothing"
    # Those of trec_eval where none are given; for cutoffs and fractions, one measure each.
    defaults: tuple[float, ...] = ()
    named: Mapping[str, float] = field(default_factory=dict)  # with their defaults
    summary: Summary = "mean"
    printed: Printed = "decimal"
    shown: Shown = "both"  # where trec_eval prints it


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure with all its parameters; `label` is the name that was asked for, ours or trec_eval's."""

    name: str
    trec_name: str | None
    label: str
    family: Family
    parameters: Parameters


_RELEVANT: tuple[Need, ...] = ("ranking", "relevant")
_GRADES: tuple[Need, ...] = ("ranking", "relevant", "grades")
_JUDGED: tuple[Need, ...] = ("ranking", "relevant", "judged_nonrelevant")


def _family(
    name: str,
    meaning: str,
    source: str,
    needs: tuple[Need, ...] = _RELEVANT,
    *,
    direction: Direction = "higher",
    range: Range = SHARE,
    aliases: tuple[str, ...] = (),
    **more: Any,
) -> Family:
    return Family(MetricInfo(name, meaning, source, needs, LEVELS, direction, range, aliases), **more)


def _count(name: str, meaning: str, **more: Any) -> Family:
    shape = {"trec": name, "summary": "sum", "printed": "integer", **more}
    return _family(name, meaning, f"trec_eval m_{name}.c", direction="neither", range=COUNT, **shape)


_DCG = "Jarvelin and Kekalainen 2002; trec_eval"
_RBP = "Moffat and Zobel 2008"

FAMILIES: tuple[Family, ...] = (
    _family("map", "Mean of the precision at each relevant document of the ranking.", "trec_eval m_map.c",
            aliases=("average_precision", "ap"), trec="map"),
    _family("map@k", "Mean of the precision at each relevant document of the top k.", "trec_eval m_map_cut.c",
            aliases=("average_precision@k", "ap@k"), trec="map_cut", takes="cutoff", defaults=CUTOFFS),
    _family("gm_map", "Geometric mean of average precision; a query counts at least 0.00001.", "trec_eval m_gm_map.c",
            trec="gm_map", summary="geometric", shown="summary"),
    _count("num_q", "Number of queries in the qrels.", shown="summary"),
    _count("num_ret", "Number of retrieved documents."),
    _count("num_rel", "Number of relevant documents, retrieved or not."),
    _count("num_rel_ret", "Number of relevant documents that were retrieved."),
    _count("num_nonrel_judged_ret", "Number of retrieved documents that were judged as not relevant."),
    _family("unjudged@k", "Share of the top k that was never judged.", "trec_eval 10 m_unjudged.c", _JUDGED,
            direction="neither", trec="unj", takes="cutoff", defaults=(5, 10, 20)),
    _family("relstring", "Grades of the first documents, written as a string.", "trec_eval m_relstring.c",
            direction="neither", range=COUNT, trec="relstring", takes="numbers", defaults=(10,), summary="none",
            printed="text", shown="queries"),
    _family("ndcg", "Discounted gain of the ranking divided by the gain of the best possible order.",
            f"{_DCG} m_ndcg.c", _GRADES, trec="ndcg", takes="pairs"),
    _family("ndcg@k", "Discounted gain of the top k divided by the gain of the best possible order.",
            f"{_DCG} m_ndcg_cut.c", _GRADES, trec="ndcg_cut", takes="cutoff", defaults=CUTOFFS),
    _family("err@k", "Expected reciprocal rank at which a reader is satisfied in the top k; grades up to 4.",
            "Chapelle and others 2009; Evret", _GRADES, takes="cutoff", named={"max_grade": 4}),
    _family("ndcg_rel", "Mean of ndcg at each relevant document.", "trec_eval m_ndcg_rel.c", _GRADES, trec="ndcg_rel",
            takes="pairs"),
    _family("Rndcg", "Mean of ndcg where the ideal gain changes.", "trec_eval m_Rndcg.c", _GRADES, trec="Rndcg",
            takes="pairs"),
    _family("G", "Gain discounted by the lag behind the ideal ranking.", "trec_eval m_G.c", _GRADES, trec="G",
            takes="pairs"),
    _family("binG", "Relevant documents discounted by the non-relevant ones before them.", "trec_eval m_binG.c",
            _GRADES, trec="binG"),
    _family("iprec_at_recall", "Best precision at a level of recall or beyond it.", "trec_eval 10 m_iprec_at_recall.c",
            trec="iprec_at_recall", takes="fraction", defaults=ELEVEN_LEVELS),
    _family("11pt_avg", "Mean of the interpolated precision at eleven levels of recall.", "trec_eval 10 m_11pt_avg.c",
            trec="11pt_avg", takes="numbers", defaults=ELEVEN_LEVELS),
    _family("precision@k", "Share of the top k that is relevant.", "trec_eval m_P.c", aliases=("p@k",), trec="P",
            takes="cutoff", defaults=CUTOFFS),
    _family("relative_precision@k", "Precision of the top k divided by the best possible precision at k.",
            "trec_eval m_rel_P.c", trec="relative_P", takes="cutoff", defaults=CUTOFFS),
    _family("rprec", "Precision at rank R, the number of relevant documents.",
            "Buckley and Voorhees 2005; trec_eval m_Rprec.c", aliases=("r_precision",), trec="Rprec"),
    _family("Rprec_mult", "Precision at a multiple of R, the number of relevant documents.", "trec_eval m_Rprec_mult.c",
            trec="Rprec_mult", takes="fraction", defaults=(0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)),
    _family("bpref", "Share of judged non-relevant documents ranked below the relevant ones.",
            "Buckley and Voorhees 2004; trec_eval m_bpref.c", _JUDGED, trec="bpref"),
    _family("gm_bpref", "Geometric mean of bpref; a query counts at least 0.00001.", "trec_eval m_gm_bpref.c", _JUDGED,
            trec="gm_bpref", summary="geometric", shown="summary"),
    _family("infAP", "Average precision as expected from a sample of judgements.",
            "Yilmaz and Aslam 2006; trec_eval m_infap.c", _JUDGED, trec="infAP"),
    _family("rbp", "Gain that a reader of persistence 0.9 meets in the ranking.", f"{_RBP}; trec_eval 10 m_rbp.c",
            _GRADES, trec="rbp", takes="pairs", named={"p": 0.9}),
    _family("rbp_resid", "Largest amount that unjudged documents could add to rbp.",
            f"{_RBP}; trec_eval 10 m_rbp_resid.c", _JUDGED, direction="lower", trec="rbp_resid", takes="pairs",
            named={"p": 0.9}),
    _family("rbp@k", "Gain that a reader of persistence 0.8 meets in the top k.", f"{_RBP}; Evret", _GRADES,
            takes="cutoff", named={"p": 0.8}),
    _family("recall@k", "Share of the relevant documents in the top k.", "trec_eval m_recall.c", aliases=("r@k",),
            trec="recall", takes="cutoff", defaults=CUTOFFS),
    _family("mrr", "Reciprocal of the rank of the first relevant document in the ranking.", "trec_eval m_recip_rank.c",
            aliases=("rr",), trec="recip_rank"),
    _family("mrr@k", "Reciprocal of the rank of the first relevant document in the top k.",
            "trec_eval m_recip_rank.c; the cutoff as in MS MARCO", aliases=("rr@k",), takes="cutoff"),
    _family("set_P", "Share of the retrieved documents that are relevant.", "trec_eval m_set_P.c", trec="set_P"),
    _family("set_relative_P", "Precision of the set divided by the best possible precision.", "trec_eval m_set_rel_P.c",
            trec="set_relative_P"),
    _family("set_recall", "Share of the relevant documents that were retrieved.", "trec_eval m_set_recall.c",
            trec="set_recall"),
    _family("set_map", "Precision of the set times its recall.", "trec_eval m_set_map.c", trec="set_map"),
    _family("set_F", "Weighted harmonic mean of the set's precision and recall.", "trec_eval m_set_F.c", trec="set_F",
            takes="numbers", defaults=(1.0,)),
    _family("utility", "Value of the set: by default relevant minus non-relevant documents.", "trec_eval m_utility.c",
            range=UNBOUNDED, trec="utility", takes="numbers", defaults=(1.0, -1.0, 0.0, 0.0)),
    _family("hit@k", "Whether a relevant document is in the top k.", "trec_eval m_success.c",
            aliases=("hit_rate@k", "success@k"), trec="success", takes="cutoff", defaults=(1, 5, 10)),
    _family("all_hit@k", "Whether every relevant document is in the top k.",
            "not in trec_eval; for questions over several documents", takes="cutoff"),
)  # fmt: skip
