"""The NLI judge: support of claims by a natural language inference model in ONNX, on this machine, without a server.

A claim is supported if one cited or retrieved text entails it; correctness and refusals are the lexical judge's.
Source: Laban et al. 2022, SummaC, the zero-shot variant, with windows of passages in place of sentences.
"""

import hashlib
import json
import mmap
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rag_eval_pipeline.errors import InputError, ServiceError
from rag_eval_pipeline.judges.claim_splitting import AnswerClaim, split_claims
from rag_eval_pipeline.judges.judge_settings import LABEL_SETS, NliSettings
from rag_eval_pipeline.judges.judgement import Case, Claim, FactVerdict, Judgement, Support
from rag_eval_pipeline.judges.lexical import LexicalJudge
from rag_eval_pipeline.storage.atomic_files import sha256_of

CODE = "nli/2"  # raised whenever the same model may judge differently
_LIBRARIES = ("onnxruntime", "tokenizers")
_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
_DIGITS = 6  # of a score; the last bits of a float depend on the processor

Pair = tuple[str, str]  # a text and a claim
_setting = "judge.settings"


def nli_fingerprint(settings: NliSettings) -> str:
    """Return what changes whenever the same case may be judged differently; the folder's place does not count.

    Raises:
        InputError: `missing_model`, `label_order`.
        ServiceError: `missing_extra`.
    """
    parts = [
        CODE,
        {name: _installed(name) for name in _LIBRARIES},
        {
            name: _digest(settings.folder / name, *_changed(settings.folder / name))
            for name in _model_files(settings.folder)
        },
        settings.model_dump(mode="json", exclude={"model", "lexical"}),
        settings.lexical.fingerprint,
    ]
    _check_label_order(settings.folder, settings.labels)
    return f"{CODE} {settings.name} {hashlib.sha256(msgspec.json.encode(parts, order='sorted')).hexdigest()[:16]}"


class NliJudge:
    """Judges support by a model in a folder; opened by `open_nli_judge`."""

    judges_support = True
    may_differ = False

    def __init__(self, settings: NliSettings, model: "NliModel", fingerprint: str) -> None:
        self.settings = settings
        self.fingerprint = fingerprint
        self._model = model
        self._lexical = LexicalJudge(settings.lexical)

    async def judge(self, case: Case, repeat: int = 0) -> Judgement:
        """Judge one answer; it has no verdict if a claim leaves no room for a text in the model's window."""
        judgement = self._lexical.judge_case(case)
        claims = split_claims(case.answer, case.citations) if judgement.claims else []
        evidence = [_evidence(case, claim) for claim in claims]
        pairs = dict.fromkeys(
            (text, claim.text)
            for claim, found in zip(claims, evidence, strict=True)
            for text in (*found.together, *found.alone.values(), *found.contexts)
        )
        pairs |= dict.fromkeys((case.answer, fact.text) for fact in case.facts if judgement.claims)
        try:
            verdicts = dict(zip(pairs, self._model.classify(list(pairs)), strict=True))
        except ClaimTooLongError as error:
            return Judgement(case.query_id, "failed", error=str(error), error_code="claim_too_long")
        cited: dict[int, Support] = {}
        judged = []
        for claim, found in zip(claims, evidence, strict=True):

            def best(texts: Sequence[str], claim: AnswerClaim = claim) -> Support | None:
                return self._support([verdicts[text, claim.text] for text in texts])

            for number, text in found.alone.items():
                support = best([text])
                if support is not None and (number not in cited or support.score > cited[number].score):
                    cited[number] = support
            by_citations = best([*found.together, *found.alone.values()])
            judged.append(Claim(claim.start, claim.end, claim.citations, by_citations, best(found.contexts)))
        return msgspec.structs.replace(
            judgement,
            claims=tuple(judged),
            citation_support=tuple(cited.get(number) for number in range(len(case.citations))),
            model=self.settings.name,
            facts=tuple(self._fact(verdicts.get((case.answer, fact.text))) for fact in case.facts),
        )

    def _fact(self, verdict: "Probabilities | None") -> FactVerdict:
        """Return whether the answer entails a gold fact; one without claims states none."""
        found = None if verdict is None else self._support([verdict])
        is_stated = found is not None and found.outcome == "supported"
        return FactVerdict("support" if is_stated else "not_support", found.reason if found else "no claims")

    def _support(self, verdicts: Sequence["Probabilities"]) -> Support | None:
        """Return the support by the text that entails most; None without a text."""
        if not verdicts:
            return None
        entailment = max(verdict.entailment for verdict in verdicts)
        contradiction = max(verdict.contradiction for verdict in verdicts)
        if entailment >= self.settings.threshold:
            return Support("supported", entailment, f"entailment {entailment:.2f}")
        if contradiction >= self.settings.threshold:
            return Support("conflicting", entailment, f"contradiction {contradiction:.2f}")
        return Support("not_found", entailment, f"entailment {entailment:.2f}")


def open_nli_judge(settings: NliSettings) -> NliJudge:
    """Load the model and try it once.

    Raises:
        InputError: `missing_model`, `label_order`, `bad_model`.
        ServiceError: `missing_extra`.
    """
    fingerprint = nli_fingerprint(settings)
    return NliJudge(settings, NliModel(settings), fingerprint)


# --- evidence


class _Evidence(NamedTuple):
    """Texts that a claim is compared with; `alone` has those of citations by their index in the case."""

    together: tuple[str, ...]
    alone: dict[int, str]
    contexts: tuple[str, ...]


def _evidence(case: Case, claim: AnswerClaim) -> _Evidence:
    cited = {number: text for number in claim.citations if (text := (case.citations[number].text or "").strip())}
    distinct = list(dict.fromkeys(cited.values()))
    together = ("\n".join(distinct),) if len(distinct) > 1 else ()
    contexts = dict.fromkeys(text.strip() for text in case.contexts if text.strip())
    return _Evidence(together, cited, tuple(contexts))


# --- the model


class Probabilities(NamedTuple):
    """What the model says of a claim and a text: the highest of the text's windows, each in [0, 1]."""

    entailment: float
    contradiction: float


class ClaimTooLongError(Exception):
    """A claim that leaves no room for a text in the model's window."""


class NliModel:
    """A classifier of pairs of texts; the same pairs in the same order give the same probabilities."""

    def __init__(self, settings: NliSettings) -> None:
        import onnxruntime
        import tokenizers

        self._settings = settings
        folder = settings.folder
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the library raises nothing narrower
            raise _bad_model(folder / "tokenizer.json", "a tokenizer of the tokenizers library", error) from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(settings.window_tokens, stride=settings.overlap_tokens, strategy="only_first")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = settings.threads
        options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # its warnings are about optimisations
        self._file = folder / "model.onnx"
        try:
            self._session = onnxruntime.InferenceSession(str(self._file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # as above
            raise _bad_model(self._file, "a model that onnxruntime loads", error) from error
        self._inputs = self._known_inputs()
        self._check_output()

    def classify(self, pairs: Sequence[Pair]) -> list[Probabilities]:
        """Return the probabilities of each pair; of a long text, the highest of its windows.

        Raises:
            ClaimTooLongError: For a claim that leaves no room for a text.
        """
        windows = [self._windows(text, claim) for text, claim in pairs]
        # Inputs of equal length need no padding, which would move the last bits, and of some models the positions.
        of_length: defaultdict[int, list[tuple[int, Any]]] = defaultdict(list)
        for number, parts in enumerate(windows):
            for part in parts:
                of_length[len(part.ids)].append((number, part))
        best = np.zeros((len(pairs), len(self._settings.labels)))
        for _, members in sorted(of_length.items()):
            for start in range(0, len(members), self._settings.batch_size):
                batch = members[start : start + self._settings.batch_size]
                scores = _softmax(self._logits([part for _, part in batch]))
                for (number, _), row in zip(batch, scores, strict=True):
                    best[number] = np.maximum(best[number], row)
        return [self._named(row) for row in best]

    def _windows(self, text: str, claim: str) -> list[Any]:
        try:
            first = self._tokenizer.encode(text, claim)
        except Exception as error:  # only a claim as long as the window cannot be truncated
            raise ClaimTooLongError(f"a claim fills the {self._settings.window_tokens} tokens of the model") from error
        return [first, *first.overflowing]

    def _logits(self, windows: Sequence[Any]) -> NDArray[np.float64]:
        """(windows, labels) of windows of equal length."""
        values = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        feed = {
            name: np.array([getattr(window, values[name]) for window in windows], dtype=np.int64)
            for name in self._inputs
        }
        return np.asarray(self._session.run(None, feed)[0], dtype=np.float64)

    def _named(self, row: NDArray[np.float64]) -> Probabilities:
        of = dict(zip(self._settings.labels, (round(float(value), _DIGITS) for value in row), strict=True))
        return Probabilities(of["entailment"], of.get("contradiction", 0.0))

    def _known_inputs(self) -> list[str]:
        inputs = {one.name: one.shape for one in self._session.get_inputs()}
        if not {"input_ids", "attention_mask"} <= inputs.keys() <= _INPUTS:
            raise InputError(
                "bad_model", self._file, "the inputs input_ids, attention_mask and perhaps token_type_ids",
                found=", ".join(inputs), hint="Export a text classifier, such as with optimum's `text-classification`.",
            )  # fmt: skip
        for name, shape in inputs.items():
            if len(shape) != 2 or any(isinstance(size, int) for size in shape):
                raise InputError(
                    "bad_model", self._file, "dynamic axes: any number of inputs of any length", field=name,
                    found=shape, hint="Export it again with dynamic axes for batch and sequence.",
                )  # fmt: skip
        return list(inputs)

    def _check_output(self) -> None:
        wanted = len(self._settings.labels)
        try:
            logits = self._logits(self._windows("The bell is red.", "The bell is red."))
        except Exception as error:
            raise _bad_model(self._file, "a model that classifies two short sentences", error) from error
        if logits.shape != (1, wanted):
            raise InputError(
                "bad_model", self._file, f"{wanted} outputs, as many as `labels` names", found=list(logits.shape),
                hint="`id2label` in the model's config.json has their order.",
            )  # fmt: skip
        if not np.isfinite(logits).all():
            raise InputError("bad_model", self._file, "finite outputs", found=logits[0].tolist())


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _bad_model(file: Path, expected: str, error: Exception) -> InputError:
    return InputError("bad_model", file, expected, found=" ".join(str(error).split()))


# --- files


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        raise ServiceError(
            "missing_extra", f"kind nli needs the package {name}", hint="pip install 'rag-eval-pipeline[nli]'"
        ) from None


def _model_files(folder: Path) -> list[str]:
    """Return the names of what decides a verdict: a large model names the files in which its weights are."""
    for name in ("model.onnx", "tokenizer.json"):
        if not (folder / name).is_file():
            raise InputError(
                "missing_model", folder, f"a file {name}", field=f"{_setting}.model",
                hint="Name a folder with model.onnx and tokenizer.json.",
            )  # fmt: skip
    model = folder / "model.onnx"
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return sorted(
        name
        for name in names
        if name == "tokenizer.json" or name.startswith(model.name) or _is_named(name, model, *_changed(model))
    )


@lru_cache(maxsize=256)
def _is_named(name: str, model: Path, size: int, changed_ns: int) -> bool:
    """Whether a model has the name of a file; ONNX states it as it is, in UTF-8."""
    if not size:
        return False
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(name.encode()) >= 0


def _changed(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


@lru_cache(maxsize=64)
def _digest(path: Path, size: int, changed_ns: int) -> str:
    return sha256_of(path)


def _check_label_order(folder: Path, labels: Sequence[str]) -> None:
    """Refuse an order that the model's own config.json contradicts; names that it does not explain are not compared."""
    try:
        stated = json.loads((folder / "config.json").read_bytes())["id2label"]
        names = [str(stated[str(number)]).casefold() for number in range(len(stated))]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if set(names) <= {*set().union(*LABEL_SETS)} and names != list(labels):
        raise InputError(
            "label_order", folder / "config.json", f"the labels {', '.join(labels)} of the judge's settings",
            field="id2label", found=", ".join(names), hint=f"Write `labels: [{', '.join(names)}]`.",
        )  # fmt: skip
