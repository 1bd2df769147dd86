"""Thoughts and special tokens of a model are no words of its answer; a text that is about them is left as it is."""

import pytest

from rag_eval_pipeline.text.model_output import final_text, json_keys

HARMONY = "<|channel|>analysis<|message|>How deep? [2]<|end|><|start|>assistant<|channel|>final<|message|>31 metres"
TEXTS = {
    #                                  as the model wrote it                                             answer
    "a thought":                       ("<think>\nWide? [2]\n</think>\n\n31 metres",                      "31 metres"),
    "a thought opened by the prompt":  ("Passage [2] is about width.\n</think>\n\n31 metres",            "31 metres"),
    "no thought in its tags":          ("<think></think>31 metres",                                       "31 metres"),
    "Mistral's tags":                  ("[THINK]Wide?[/THINK]31 metres",                                  "31 metres"),
    "a thought without an end":        ("<think>Is it 31",                                                None),
    "harmony":                         (HARMONY + "<|return|>",                                           "31 metres"),
    "harmony without its tokens":      ("analysisHow deep? [2]assistantfinal31 metres",                   "31 metres"),
    "harmony, analysis alone":         ("<|channel|>analysis<|message|>How deep?",                        None),
    "an end of sequence":              ("31 metres</s>",                                                  "31 metres"),
    "an end of turn":                  ("31 metres<|im_end|>\n",                                          "31 metres"),
    "the next turn":                   ("31 metres<|im_end|>\n<|im_start|>user\nHow wide?",               "31 metres"),
    "a header":                        ("<|start_header_id|>assistant<|end_header_id|>\n\n31 metres<|eot_id|>", "31 metres"),
    "DeepSeek's end":                  ("31 metres<｜end▁of▁sentence｜>",                                  "31 metres"),
    "nothing but tokens":              ("<|im_start|>assistant\n<|im_end|>",                              ""),
    "no more than an answer":          ("  31 metres\n",                                                  "  31 metres\n"),
    "tags as its subject":             ("It writes <think> first, and </think> last.",                    "It writes <think> first, and </think> last."),
    "a tag in code":                   ("Split at `</think>` once.",                                      "Split at `</think>` once."),
    "struck text":                     ("It costs <s>10</s>",                                             "It costs <s>10</s>"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), TEXTS.values(), ids=TEXTS)
def test_final_text(text, answer):
    assert final_text(text) == answer


KEYS = {
    "an object":           ('{"answer": "31", "sure": true}',       ["answer", "sure"]),
    "an object in a fence": ('```json\n{"answer": "31"}\n```\n',    ["answer"]),
    "a list":              ("[31]",                                 None),
    "braces":              ("{31}",                                 None),
}  # fmt: skip


@pytest.mark.parametrize(("text", "keys"), KEYS.values(), ids=KEYS)
def test_keys_of_a_text_that_is_a_json_object(text, keys):
    assert json_keys(text) == keys
