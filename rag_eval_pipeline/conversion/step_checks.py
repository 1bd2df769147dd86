"""Names of the steps' checks, and whether a failed one may keep a benchmark from being evaluated.

Dagster wants them before anything has run, so they stand apart from the steps, whose modules are heavy to load.
"""

CHECKS: dict[str, dict[str, bool]] = {
    "questions": {"rows_conserved": True, "counts_as_expected": True, "every_document_known": True},
    "corpus": {"every_document_on_disk": True},
    "corpus_text": {"every_pdf_has_text": False},
    "train_json": {"rows_conserved": True, "every_gold_document_on_disk": True, "no_context_lost": True},
    "evaluation_dataset": {"dataset_validates": True, "gold_texts_located": False},
    "ground_truth": {"ground_truth_validates": True},
}
