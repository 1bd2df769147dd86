"""A refusal is told from an answer that negates, apologises, or doubts before it answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_pipeline.judges.lexical.normalisation import plain
from rag_eval_pipeline.judges.lexical.refusals import find_refusal, is_refusing

REFUSALS = {
    "does not know":                "I don't know.",
    "has no access":                "I do not have access to that information.",
    "an apology first":             "I'm sorry, but I cannot answer this question based on the provided context.",
    "the context is silent":        "The provided context does not contain information about the launch date.",
    "the documents do not answer":  "The documents do not answer this question.",
    "no information":               "There is no information about the CEO's age in the text.",
    "not available":                "N/A",
    "unknown":                      "Unknown.",
    "not specified":                "The job title is not specified in the given sources.",
    "with a redirection":           "Unfortunately, the documents don't mention it. You may want to check the website.",
    "impossible":                   "It is not possible to determine the answer from the text.",
    "unable":                       "Based on the information provided, I am unable to determine the net revenue.",
    "not enough":                   "Not enough information to answer.",
    "policy":                       "I cannot help with that request.",
    "a model":                      "As an AI language model, I don't have real-time data. Please consult an adviser.",
    "only courtesy":                "Sorry about that. If you can share the report, ask again.",
    "nothing is mentioned":         "His birthplace is not mentioned.",
    "a recipe":                     "To calculate the margin, you would need the revenue and the costs. I do not have access to that data. "
                                    "Once you have the two, subtract one from the other, divide by the first and compare.",
    "the tables say nothing":       "The tables say nothing about the depth at the box.",
    "not recorded":                 "Her salary is not recorded anywhere in these documents.",
    "not named, and facts":         "I'm sorry, but the glassworks is not named. The third casting, made in 1877, was the one that was used.",
    "empty":                        "",
    "nothing but marks":            " ... [a.pdf:1:2-3]",
    "German":                       "Ich weiß es leider nicht.",
    "German, verb first":           "Das weiß ich nicht.",
    "German documents":             "Die Dokumente enthalten keine Angaben dazu.",
    "French":                       "Le contexte ne mentionne pas la date.",
    "French, does not know":        "Je ne sais pas.",
    "Spanish":                      "El documento no menciona el precio.",
    "Spanish, does not know":       "No lo sé.",
    "Italian":                      "Il testo non menziona la data.",
    "Portuguese":                   "Não há informações sobre isso.",
    "Dutch":                        "Er is geen informatie over.",
    "Russian":                      "В документе нет информации об этом.",
    "Polish":                       "Nie wiem.",
    "Turkish":                      "Bilmiyorum.",
    "Chinese":                      "无法回答这个问题。",
    "Japanese":                     "その情報は記載がありません。",
    "Korean":                       "문서에 정보가 없습니다.",
    "Arabic":                       "لا توجد معلومات عن ذلك.",
    "Hindi":                        "इस बारे में जानकारी उपलब्ध नहीं है।",
}  # fmt: skip

ANSWERS = {
    "a plain negation":             "The price is not refundable.",
    "nothing was changed":          "No changes were made.",
    "not available somewhere":      "The tower is not available in winter.",
    "a title":                      '"I don\'t know" is the title of her first song.',
    "others were unable":           "Scientists were unable to determine the cause of the outage before 1990.",
    "a disclaimer, then an answer": "The context does not mention the year. However, the tower opened in 1887.",
    "a clause, then an answer":     "I cannot find the exact day, but the tower opened in 1887 under Ada Thorne.",
    "no evidence in the world":     "There is no evidence that the lamp was lit before 1887.",
    "advice":                       "You should consult the manual before starting the engine.",
    "sad news":                     "Unfortunately, the ship sank in 1912.",
    "no":                           "No.",
    "nothing happened":             "Nothing was recorded in 1887.",
    "a table of nothing":           "He left nothing on the table.",
    "a drug":                       "The drug was not found to be effective.",
    "a price limit":                "Members cannot be charged more than $50.",
    "keepers who did not know":     "The keepers did not know that the lamp had failed.",
    "a late caveat":                "The tower opened in 1887 under Ada Thorne, who had kept the light at Skarn for eleven years. "
                                    "It stood until the storm of 1901 and was built again by her son in granite. "
                                    "The price is not mentioned.",
    "German negation":              "Das Schiff sank nicht.",
    "French negation":              "Le prix n'est pas remboursable.",
    "Spanish negation":             "No hay tren los domingos.",
}  # fmt: skip


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
def test_refusals(answer):
    assert find_refusal(plain(answer)).is_refusal


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_answers(answer):
    assert not find_refusal(plain(answer)).is_refusal


def test_a_sentence_that_goes_on_to_answer_is_a_claim():
    assert is_refusing("I don't have details of the survey.")
    assert not is_refusing("I don't have details of the survey, but the headings were 11 cm out of line.")
    assert is_refusing("I don't have details of the survey, but I cannot find the year either.")


@pytest.mark.parametrize(
    ("answer", "family"),
    [
        ("I don't know.", "no_know"),
        ("I cannot determine it.", "cannot"),
        ("The passages do not say.", "context"),
        ("There is no mention of it.", "absent"),
        ("That is beyond my capabilities.", "policy"),
        ("Désolé.", "other_language"),
        ("", "empty"),
    ],
)
def test_the_reason_is_a_family(answer, family):
    assert find_refusal(plain(answer)).families == (family,)


@given(
    answer=st.sampled_from([text for text in (*REFUSALS.values(), *ANSWERS.values()) if "[" not in text and text]),
    mark=st.sampled_from(["[a.pdf:5:12-30]", "[1]", "【4†source】", "[file.pdf#page=4]"]),
    emphasis=st.sampled_from(["**", "__", "***"]),
    bullet=st.sampled_from(["", "- ", "> ", "1. "]),
)
def test_citations_and_markdown_change_nothing(answer, mark, emphasis, bullet):
    first, space, rest = answer.partition(" ")
    dressed = f"{bullet}{emphasis}{first}{emphasis}{space}{rest} {mark}"

    assert find_refusal(plain(dressed)) == find_refusal(plain(answer))


@given(st.text())
def test_any_text_is_decided(text):
    find_refusal(plain(text))
