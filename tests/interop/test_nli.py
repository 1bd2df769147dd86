"""The NLI judge with a model of one layer, made here, whose probabilities are worked out by hand.

A word adds its row of `ROWS` to the logits of entailment, neutral and contradiction, and others add nothing. "red" alone
gives the logits ln 3, 0, 0, whose softmax is 3/5, 1/5, 1/5; "red red" gives ln 9, 0, 0 and 9/11, 1/11, 1/11.
"""

import json
import math
import re
import shutil

import numpy as np
import onnx
import pytest
import tokenizers
from onnx import TensorProto, helper, numpy_helper
from tokenizers import models, pre_tokenizers, processors

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.judges.calibration import CalibrationRequest, calibrate
from rag_eval_pipeline.judges.judge_settings import JudgeSettings, NliSettings
from rag_eval_pipeline.judges.judgement import Case, CitedText
from rag_eval_pipeline.judges.labels import Label
from rag_eval_pipeline.judges.nli import NliJudge, nli_fingerprint, open_nli_judge
from rag_eval_pipeline.judges.open_judge import judge_fingerprint, open_judge

LABELS = ("entailment", "neutral", "contradiction")
ROWS = {"red": (math.log(3), 0, 0), "blue": (0, 0, math.log(3)), "grey": (0, math.log(3), 0)}
VOCABULARY = ["[UNK]", "[CLS]", "[SEP]", *ROWS]
CLAIM = "It was painted so."


def write_model(
    folder, *, rows=ROWS, axes=("batch", "length"), inputs=("input_ids", "attention_mask", "token_type_ids")
):
    folder.mkdir(parents=True, exist_ok=True)
    width = len(next(iter(rows.values())))
    table = np.array([rows.get(word, (0.0,) * width) for word in VOCABULARY], dtype=np.float32)
    nodes = [
        helper.make_node("Gather", ["table", inputs[0]], ["embedded"]),
        helper.make_node("Cast", [inputs[1]], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["embedded", "column"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "middle"], ["logits"], keepdims=0),
    ]
    weights = {"table": table, "last": np.array([2]), "middle": np.array([1])}
    graph = helper.make_graph(
        nodes, "sum", [helper.make_tensor_value_info(name, TensorProto.INT64, axes) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [axes[0], width])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    tokenizer = tokenizers.Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "tiny-nli")


def judge_in(folder, **settings) -> NliJudge:
    return open_nli_judge(NliSettings(model=str(folder), labels=settings.pop("labels", LABELS), **settings))


def about(*contexts, cited=(), claim=CLAIM):
    answer = claim + "".join(f" [{number}]" for number in range(len(cited)))
    places = [answer.index(f"[{number}]") for number in range(len(cited))]
    citations = tuple(CitedText("a.pdf", text, at, at + 3) for text, at in zip(cited, places, strict=True))
    return Case("1", "How was it painted?", ("red",), False, answer, citations, contexts)


SUPPORTS = {
    #                                         contexts                  outcome         score
    "one text entails it":                  (["the door was red"],     "supported",    3 / 5),
    "the more, the surer":                  (["red and red"],          "supported",    9 / 11),
    "one text contradicts it":              (["the door was blue"],    "conflicting",  1 / 5),
    "the text is about something else":     (["grey stones"],          "not_found",    1 / 5),
    "no word that the model knows":         (["a door"],               "not_found",    1 / 3),
    "one of several texts entails it":      (["blue", "red", "grey"],  "supported",    3 / 5),
}  # fmt: skip


@pytest.mark.parametrize(("contexts", "outcome", "score"), SUPPORTS.values(), ids=SUPPORTS)
async def test_support_is_the_best_texts_probability_of_entailment(folder, contexts, outcome, score):
    [claim] = (await judge_in(folder).judge(about(*contexts))).claims

    assert (claim.by_contexts.outcome, claim.by_contexts.score) == (outcome, pytest.approx(score, abs=1e-6))
    assert claim.by_citations is None


async def test_cited_texts_are_compared_together_and_alone(folder):
    judgement = await judge_in(folder, threshold=0.7).judge(about(cited=("red", "a red door", None)))

    [claim] = judgement.claims
    assert (claim.by_citations.outcome, claim.by_citations.score) == ("supported", pytest.approx(9 / 11, abs=1e-6))
    alone = [support and (support.outcome, support.score) for support in judgement.citation_support]
    assert alone == [("not_found", pytest.approx(3 / 5, abs=1e-6))] * 2 + [None]
    assert claim.by_contexts is None
    assert (judgement.correctness.verdict, judgement.model) == ("incorrect", "tiny-nli")


async def test_refusal_and_empty_answer_have_no_claims_to_compare(folder):
    judge = judge_in(folder)

    for answer in ("The documents do not say.", ""):
        assert (await judge.judge(Case("1", "Who?", ("Ada",), False, answer, (), ("red",)))).claims == ()


@pytest.mark.parametrize("place", [0, 20, 39])
async def test_long_text_is_read_to_its_end_in_windows(folder, place):
    words = ["stone"] * 40
    words[place] = "red"

    [claim] = (await judge_in(folder, window_tokens=16, overlap_tokens=4).judge(about(" ".join(words)))).claims

    assert claim.by_contexts.outcome == "supported"
    assert claim.by_contexts.score == pytest.approx(3 / 5, abs=1e-6)


async def test_verdicts_do_not_depend_on_batches(folder):
    case = about("red", "a blue door", "grey stone and red brick", "red red", cited=("blue", "the red one"))

    found = [await judge_in(folder, batch_size=size).judge(case) for size in (1, 2, 8)]

    assert found[0].claims == found[1].claims == found[2].claims


async def test_claim_that_fills_the_window_has_no_verdict(folder):
    long = " ".join(["so"] * 20) + "."

    judgement = await judge_in(folder, window_tokens=16, overlap_tokens=4).judge(about("red", claim=long))

    assert (judgement.status, judgement.error_code, judgement.correctness) == ("failed", "claim_too_long", None)
    assert judgement.error == "a claim fills the 16 tokens of the model"


async def test_model_without_token_types_and_with_two_labels(tmp_path):
    two = {"red": (0, math.log(3)), "blue": (math.log(3), 0)}
    folder = write_model(tmp_path / "two", rows=two, inputs=("input_ids", "attention_mask"))

    judged = [
        (await judge_in(folder, labels=("not_entailment", "entailment")).judge(about(text))).claims[0].by_contexts
        for text in ("red", "blue")
    ]

    assert [(one.outcome, one.score) for one in judged] == [("supported", 0.75), ("not_found", 0.25)]


FAULTS = {
    "no model": (lambda f: (f / "model.onnx").unlink(), "missing_model", "a file model.onnx"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "missing_model", "a file tokenizer.json"),
    "no ONNX": (lambda f: (f / "model.onnx").write_bytes(b"version https://git-lfs"), "bad_model", "that onnxruntime loads"),
    "no tokenizer's JSON": (lambda f: (f / "tokenizer.json").write_text("{}"), "bad_model", "a tokenizer of the tokenizers"),
    "two outputs": (lambda f: write_model(f, rows={"red": (1, 0)}), "bad_model", "3 outputs, as many as `labels` names, found [1, 2]"),
    "fixed axes": (lambda f: write_model(f, axes=(1, 128)), "bad_model", "expected dynamic axes: any number of inputs of any length, found [1, 128]"),
    "another model's inputs": (lambda f: write_model(f, inputs=("pixel_values", "attention_mask")), "bad_model", "found 'pixel_values, attention_mask'"),
    "no finite output": (lambda f: write_model(f, rows={"[SEP]": (math.nan, 0, 0)}), "bad_model", "finite outputs"),
    "labels in another order": (
        lambda f: (f / "config.json").write_text(json.dumps({"id2label": dict(enumerate(map(str.upper, reversed(LABELS))))})),
        "label_order", "Write `labels: [contradiction, neutral, entailment]`",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "code", "message"), FAULTS.values(), ids=FAULTS)
def test_bad_model_is_one_line(folder, damage, code, message):
    damage(folder)

    with pytest.raises(InputError, match=re.escape(message)) as error:
        judge_in(folder)

    assert error.value.code == code
    assert "\n" not in str(error.value)


def test_config_that_does_not_name_the_labels_is_not_compared(folder):
    (folder / "config.json").write_text('{"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}}')

    assert judge_in(folder).fingerprint.startswith("nli/2 tiny-nli ")


def test_fingerprint_is_of_the_files_and_settings_and_not_of_the_place(folder, tmp_path):
    def fingerprint(folder, **changed):
        return nli_fingerprint(NliSettings.model_validate({"model": str(folder), "labels": LABELS, **changed}))

    first = fingerprint(folder)
    assert fingerprint(shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)) == first
    assert fingerprint(folder, threshold=0.6) != first
    assert fingerprint(folder, labels=("contradiction", "neutral", "entailment")) != first
    assert fingerprint(folder, lexical={"language": "de"}) != first
    (folder / "model.onnx_data").write_bytes(b"weights")
    with_data = fingerprint(folder)
    write_model(folder, rows={"red": (1, 2, 3)})
    assert len({first, with_data, fingerprint(folder)}) == 3


async def test_judge_of_an_evaluations_settings_is_gated_by_its_trust_card(folder):
    settings = JudgeSettings.model_validate({"kind": "nli", "settings": {"model": str(folder), "labels": LABELS}})
    cases = [Case(str(n), "?", (), False, CLAIM, (), ("red" if n < 50 else "blue",)) for n in range(100)]
    labels = [
        Label(query_id=str(n), task="support", label="supported" if n < 50 else "not_supported") for n in range(100)
    ]

    assert (settings.title, settings.judges_support, settings.calls_per_answer) == ("nli tiny-nli", True, 0)
    assert JudgeSettings.model_validate_json(settings.model_dump_json()) == settings
    async with open_judge(settings, folder / "cache") as judge:
        cards = [
            await calibrate(judge, cases, labels[:n], CalibrationRequest("b", settings.title, "human"))
            for n in (100, 99)
        ]

    assert judge.fingerprint == judge_fingerprint(settings) == cards[0].judge_fingerprint
    assert not (folder / "cache").exists()
    assert [card.tasks[0].is_calibrated for card in cards] == [True, False]
