"""The steps' checks: what each says, and whether a failed one may keep a benchmark from being evaluated.

Dagster wants them before anything has run, so they stand apart from the steps, whose modules are heavy to load.
"""

from typing import NamedTuple


class CheckFact(NamedTuple):
    """What is known of a check before it ran."""

    may_block: bool
    description: str


CHECKS: dict[str, dict[str, CheckFact]] = {
    "questions": {
        "rows_conserved": CheckFact(True, "Rows read = accepted + dropped by `where` + quarantined."),
        "counts_as_expected": CheckFact(True, "The counts that `expect` states came out."),
        "every_document_known": CheckFact(True, "Every document that a question names has a row. Blocks under `fail`."),
    },
    "corpus": {
        "every_document_on_disk": CheckFact(True, "Every document could be had. Blocks under `fail`."),
        "documents_as_on_the_web": CheckFact(
            True, "No page has changed or gone since its document was accepted. Blocks under `on_drift: fail`."
        ),
        "page_words_in_pdf": CheckFact(
            False, "At least 90 % of the words that a person can see on each HTML page are in its PDF."
        ),
    },
    "corpus_text": {
        "every_pdf_has_text": CheckFact(False, "No PDF is without extractable text."),
    },
    "train_json": {
        "questions_left": CheckFact(True, "Some are, and no fewer than `expect` states, after documents were fetched."),
        "rows_conserved": CheckFact(True, "Rows read = questions written + dropped by `where` + quarantined."),
        "every_gold_document_on_disk": CheckFact(
            True, "Every context of every accepted question names a document of the manifest that is on disk."
        ),
        "no_context_lost": CheckFact(True, "No context was taken out with its document. Blocks under `fail`."),
    },
    "evaluation_dataset": {
        "dataset_validates": CheckFact(True, "The `.eval.json` is valid."),
        "gold_texts_located": CheckFact(False, "At least 97 % of the gold texts were found in the PDFs."),
    },
    "ground_truth": {
        "ground_truth_validates": CheckFact(True, "The `.gt.json` is valid."),
        "annotations_conserved": CheckFact(False, "Annotations read = imported; none was refused."),
        "annotators_agree": CheckFact(False, "Character Jaccard of what annotators cite is above 0.85."),
        "every_cited_document_exists": CheckFact(False, "Annotated files are in the corpus."),
        "texts_are_those_annotated": CheckFact(False, "Annotations were made of the corpus's present text."),
        "spans_are_in_bounds": CheckFact(False, "Annotated spans end within their document."),
        "texts_stand_at_their_spans": CheckFact(False, "The document has the annotated text where the span says."),
        "annotation_ids_are_unique": CheckFact(False, "No annotation id stands twice."),
        "spans_are_disjoint": CheckFact(False, "An annotator's spans of a question do not overlap."),
        "scores_are_in_range": CheckFact(False, "Quality scores lie in [0, 1]."),
        "overall_scores_are_means": CheckFact(False, "An overall score is the mean of its five scores."),
    },
}
