"""Words that turn a sentence round: pairs of groups, of which a text that has one and not the other contradicts.

`rose` in the claim and `fell` in its evidence differ in one word of twenty, so no share of words sees it.
"""

from rag_eval_pipeline.judges.lexical.settings import LanguageCode

_PAIRS: dict[LanguageCode, tuple[tuple[str, str], ...]] = {
    "en": (
        (
            "increase increases increased increasing rise rises rose risen rising grow grows grew grown growing growth "
            "climb climbed surge surged soared gained expanded expansion upward",
            "decrease decreases decreased decreasing decline declines declined declining fall falls fell fallen "
            "falling drop drops dropped "
            "reduce reduced reduction shrank shrink plunged slumped contracted contraction downward",
        ),
        ("higher greater more larger bigger exceeded above", "lower less fewer smaller below"),
        ("most largest highest biggest greatest maximum", "least smallest lowest fewest minimum"),
        ("before earlier prior preceding precedes", "after later following follows"),
        ("earliest first oldest", "latest last newest youngest"),
        ("older elder", "younger"),
        ("longest longer", "shortest shorter"),
        ("fastest faster", "slowest slower"),
        ("stronger strongest strengthened", "weaker weakest weakened"),
        ("won win wins winner victory", "lost lose loses loser defeat"),
        ("profit profits profitable gain gains", "loss losses unprofitable"),
        ("approved approve approves accepted accept accepts", "rejected reject rejects denied refused"),
        ("allowed allow allows permitted permit permits", "prohibited prohibit prohibits forbidden forbid banned ban"),
        ("bought buy buys acquired purchased", "sold sell sells divested"),
        ("opened open opens", "closed close closes shut"),
        ("started start starts began begin begins", "ended end ends finished stopped"),
        ("included include includes including", "excluded exclude excludes excluding"),
        ("success succeeded successful", "failure failed unsuccessful"),
        ("true", "false"), ("positive", "negative"), ("male", "female"),
        ("import imports imported", "export exports exported"),
        ("northern north", "southern south"), ("eastern east", "western west"),
        ("northeast northeastern", "southwest southwestern"), ("northwest northwestern", "southeast southeastern"),
        ("outperformed outperform outperforms", "underperformed underperform underperforms"),
        ("internal", "external"), ("mandatory required compulsory", "optional voluntary"),
    ),
    "de": (
        ("stieg steigt stiegen steigen gestiegen wuchs wachst gewachsen erhoht erhohte zunahme anstieg",
         "sank sinkt sanken sinken gesunken fiel fallt fielen gefallen verringert verringerte abnahme ruckgang"),
        ("hoher mehr grosser", "niedriger weniger kleiner geringer"),
        ("hochste grosste meiste", "niedrigste kleinste wenigste"),
        ("vor vorher", "nach nachher"), ("gewann gewonnen", "verlor verloren"), ("gewinn", "verlust"),
        ("erlaubt", "verboten"),
    ),
    "fr": (
        ("augmente augmentation hausse progresse croissance", "diminue diminution baisse recule recul"),
        ("plus superieur superieure", "moins inferieur inferieure"), ("avant", "apres"), ("gagne", "perdu perd"),
        ("benefice profit", "perte pertes"), ("autorise permis", "interdit"),
    ),
    "es": (
        ("aumento aumentaron subio crecio crecimiento incremento", "disminuyo bajo cayo descenso reduccion redujo"),
        ("mas mayor superior", "menos menor inferior"), ("antes", "despues"), ("gano", "perdio"),
        ("ganancia beneficio", "perdida perdidas"),
    ),
    "it": (
        ("aumentato aumento crescita cresciuto salito", "diminuito diminuzione calo calato sceso"),
        ("maggiore piu superiore", "minore meno inferiore"), ("prima", "dopo"), ("vinto", "perso"),
    ),
    "pt": (
        ("aumentou aumento cresceu crescimento subiu", "diminuiu reducao caiu queda reduziu"),
        ("maior mais superior", "menor menos inferior"), ("antes", "depois"), ("ganhou", "perdeu"),
    ),
    "nl": (
        ("steeg stijgt gestegen stijging groeide groei", "daalde daalt gedaald daling kromp"),
        ("hoger meer groter", "lager minder kleiner"), ("voor", "na"), ("won gewonnen", "verloor verloren"),
    ),
}  # fmt: skip


def poles(language: LanguageCode) -> dict[str, int]:
    """The group of each folded word: n for one side of pair n, -n for the other; empty for an unknown language."""
    found: dict[str, int] = {}
    for number, (one, other) in enumerate(_PAIRS.get(language, ()), start=1):
        found |= dict.fromkeys(one.split(), number) | dict.fromkeys(other.split(), -number)
    return found
