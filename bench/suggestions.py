"""How alike questions are to `rag-eval suggest`: paraphrases, questions about something else, one benchmark's own.

    python bench/suggestions.py

Prints the lines of docs/how-to/suggest.md about similarity. The paraphrases and the foreign questions, both below, are
about the bundled benchmark skarn-railway; the questions of one benchmark are those of each bundled one, and of the
SQuAD 2 sample in ../shared where that is there.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from rag_eval_pipeline.audit.drafts import ALIKE, find_drafts
from rag_eval_pipeline.audit.trace_questions import Trace
from rag_eval_pipeline.conversion.planning import plan
from rag_eval_pipeline.sources.relations import read_file
from rag_eval_pipeline.workspace import BenchmarkPaths

REPOSITORY = Path(__file__).resolve().parent.parent
RAILWAY = REPOSITORY / "data" / "sources" / "skarn-railway"
BUNDLED = sorted((REPOSITORY / "examples" / "benchmarks" / "sources").iterdir())
BICYCLES = REPOSITORY / "rag_eval_pipeline" / "scaffold" / "bicycle-hire" / "questions.csv"
SQUAD = REPOSITORY.parent / "shared" / "data" / "squad2" / "dev-sample.json"

PARAPHRASES = (
    "when did the Skarn Valley Railway get its concession",
    "what gauge did the chief engineer pick for the track?",
    "Who suggested another route around Lake Isvatn?",
    "labourers' daily pay after the strike of May 1891",
    "How many wagons could a Class A engine take downhill at most?",
    "Why was the first train to Mørkvang fifty minutes late?",
    "architect of the station house at Ulvhamn",
    "In which station's frieze is a tile upside down?",
    "When was the last ship with ore loaded at the quay?",
    "Who made the tiles in the hall at Ulvhamn?",
    "who rescued the Ulvhamn building in the fire of 1917",
    "How long does it take two gantry cranes to load 3,000 tonnes?",
    "weight of the soapstone stove at Mørkvang",
    "Name of the rack locomotive on the smelter branch?",
    "Who was driving railcar 204 when it crashed at Lien?",
    "How much revenue was lost in the year after the mine closed?",
    "When was snow deepest at Mørkvang?",
    "Who is the author of the winter fair song?",
    "Who designed the Tverrå Viaduct's arches?",
    "Who paid for the electrification?",
    "why are the viaduct piers wedge-shaped",
    "How far did the middle arch sink in the load test?",
    "What birds nest on pier four?",
    "When does the second battery train start running?",
    "How long until the smoke was cleared from the bore by the ventilator?",
    "When was the tunnel lining replaced?",
    "What did Elise Brandt earn a year as company doctor?",
    "Which Class C locomotive ran the most kilometres?",
)
FOREIGN = (
    "Are dogs allowed on the train?",
    "Is there a toilet on board?",
    "How do I get a refund for a cancelled ticket?",
    "Can I bring my bicycle?",
    "Does the café take cards?",
    "Where can I park near the station?",
    "Is the line open on Christmas Day?",
    "What does a family ticket cost?",
    "Do you sell model trains in the shop?",
    "Can I book the saloon car for a wedding?",
)


def similarities(questions: Sequence[str], asked: Sequence[str]) -> list[float]:
    """Return the similarity of each question to the nearest of the benchmark, ascending; 1 where it asks the same."""
    found = {
        one.question: one.similarity for one in find_drafts(questions, [Trace(q, None, True) for q in asked]).drafts
    }
    return sorted(found.get(question, 1.0) for question in asked)


def planned(source: Path) -> list[str]:
    """Return the questions of a benchmark's source."""
    paths = BenchmarkPaths(source.name, source, Path("/nowhere"), Path("/nowhere"))
    return [text for batch in plan(paths).spool.read() for text in batch.column("question").to_pylist()]


def apart(questions: Sequence[str]) -> tuple[int, int]:
    """Return how many questions of a benchmark are alike to another one of it, and how many there are."""
    nearest = [
        similarities([*questions[:place], *questions[place + 1 :]], [question])[0]
        for place, question in enumerate(questions)
    ]
    return sum(one >= ALIKE for one in nearest), len(nearest)


def main() -> None:
    """Print the lines."""
    railway = planned(RAILWAY)
    found = similarities(railway, PARAPHRASES)
    print(
        f"{sum(one >= ALIKE for one in found)} of {len(found)} paraphrases are at {ALIKE} or above; lowest {found[0]}"
    )
    found = similarities(railway, FOREIGN)
    print(f"of {len(found)} questions about what the railway does not have, the highest is at {found[-1]}")
    benchmarks = {source.name: planned(source) for source in [RAILWAY, *BUNDLED]}
    benchmarks["bicycle-hire"] = read_file(BICYCLES).table.column("Question").to_pylist()
    if SQUAD.exists():
        articles = json.loads(SQUAD.read_text())["data"]
        paragraphs = (paragraph for article in articles for paragraph in article["paragraphs"])
        benchmarks["SQuAD 2"] = [one["question"] for paragraph in paragraphs for one in paragraph["qas"]]
    for name, questions in benchmarks.items():
        alike, count = apart(questions)
        print(f"{name}: {alike} of {count} questions ({alike / count:.0%}) are alike to another one of it")
    if not SQUAD.exists():
        print(f"SQuAD 2: not measured, because {SQUAD} is missing")


if __name__ == "__main__":
    main()
