"""The words by which columns, fields and files are recognised; of several that fit, the one that stands first wins."""

import re
import unicodedata


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def normalised(name: str) -> str:
    """A name in words: lower case, joined by `_`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", unicodedata.normalize("NFKC", name))
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")


# In tables of evaluation tools `answer` and `response` may be what a system said, so the words for truth stand first.
ROLES = {
    "question": words(
        "question query user_input query_text question_text input_question user_query user_question prompt input "
        "question_stem problem utterance"
    ),
    "answer": words(
        "ground_truth ground_truth_answer true_answer gold_answer golden_answer best_answer correct_answer "
        "reference_answer expected_answer expected_output expected_response expected ideal_answer ideal reference "
        "answer answer_text short_answer final_answer gold gold_truth target answer_value solution output response "
        "generation_gt completion label"
    ),
    "answers": words(
        "answers aliases answer_aliases accepted_answers acceptable_answers possible_answers correct_answers "
        "alternative_answers alternate_answers also_accepted gold_answers ground_truths reference_answers "
        "expected_answers generation_gt references answer_alias synonyms targets"
    ),
    "is_impossible": words("is_impossible impossible unanswerable is_unanswerable not_answerable no_answer"),
    "answerable": words("answerable is_answerable has_answer"),
    "source_id": words(
        "id qid query_id question_id uid uuid guid example_id sample_id item_id source_id ref source_key key number no "
        "nr"
    ),
    "query_type": words("query_type question_type type qtype category kind"),
    "difficulty": words("difficulty level difficulty_level hardness complexity"),
}

# A name with one of these is never gold.
NOT_GOLD = frozenset(
    words(
        "adversarial bad distractor distractors generated hard incorrect model negative negatives neg plausible "
        "predicted prediction retrieved wrong"
    )
)

# A name with one of these may say which document a question is about.
DOCUMENTS = frozenset(
    words(
        "article articles chunk chunks context contexts corpus doc docid docids docs document documents evidence file "
        "files filename gold page pages passage passages pid relevant retrieval source sources support supporting"
    )
)

GOLD_TEXTS = words(
    "reference_contexts gold_contexts ground_truth_context ground_truth_contexts gold_passage gold_passages evidence "
    "evidences evidence_text context contexts passage passages supporting_text supporting_texts support paragraph "
    "snippet snippets quote quotes gold_context reference_context source_text excerpt"
)

# Fields of a context, by the names that structs have for them.
CONTEXT_FIELDS = {
    "url": words("url link source_url page_url doc_url"),
    "file": words("file filename file_name doc_name document_name file_path path"),
    "document": words("document doc_id document_id docid passage_id doc title page_title"),
    "text": words(
        "text content contents quote passage paragraph_text evidence_text evidence sentence snippet context paragraph "
        "span excerpt passage_text highlight"
    ),
    "page": words("page page_number page_no page_num"),
    "start": words("start start_index start_char char_start begin offset_start start_offset start_position"),
    "end": words("end end_index end_char char_end stop offset_end end_offset end_position"),
}
GOLD_FLAGS = words("is_supporting is_support is_gold gold is_relevant relevant is_evidence supporting")

BODIES = words("text contents content body passage_text passage document_text document html article page_content chunk")
TITLES = words("title heading headline")

PICTURES = frozenset(words("image images img picture thumbnail logo license licence"))
LINKS = frozenset(words("url urls link links source sources"))

# Files that tell of the others.
ABOUT = frozenset(words("authors changelog citation contributing copying licence license notice readme source"))
