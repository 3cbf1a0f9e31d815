"""Losses and their gradients."""

from collections.abc import Callable

import numpy as np

from ortho_ref.activations import sigmoid
from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.applies import both, loss, neither
from ortho_ref.conformance.mistakes.changes import sigmoid_slope
from ortho_ref.conformance.mistakes.mistake import Base, given, table
from ortho_ref.conformance.mistakes.ways import altered, fed, scaled, squashed

CE, BCE, MSE = "cross_entropy", "binary_cross_entropy", "mean_squared_error"
BOTH = ("loss", "d_outputs")


def _entries(case: Case) -> float:
    """Over how many entries, of squared errors numbers, the mean is."""
    T, B, q = case.inputs["outputs"].shape
    counted = case.inputs["mask"].sum() if "mask" in case.inputs else T * B
    return float(counted * (case.config["groups"] if case.config["loss"] != MSE else q))


def _share_counted(case: Case) -> float:
    return float(case.inputs["mask"].mean())


def _unmasked(case: Case) -> Arrays:
    return {"mask": np.ones_like(case.inputs["mask"])}


def _gradient_everywhere(case: Case, base: Base) -> Arrays:
    """That of the unmasked mean, at the weight that counted entries have."""
    return {**base(case), "d_outputs": base(given(case, _unmasked(case)))["d_outputs"] / _share_counted(case)}


def _last_alone(case: Case, base: Base) -> Arrays:
    found = base(given(case, {name: case.inputs[name][-1:] for name in ("outputs", "y")}))
    return {**found, "d_outputs": np.concatenate([0 * case.inputs["outputs"][:-1], found["d_outputs"]])}


def _one_hot(case: Case) -> np.ndarray:
    return np.eye(case.inputs["outputs"].shape[-1])[case.inputs["y"]]


def _not_softmax(case: Case, found: Arrays) -> Arrays:
    """-1_y / p."""
    o = case.inputs["outputs"]
    p = np.exp(o - o.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return {"d_outputs": -_one_hot(case) / p / _entries(case)}


def _weight(case: Case) -> np.ndarray:
    """1 where an entry counts."""
    return np.asarray(case.inputs["mask"][..., None] if "mask" in case.inputs else 1.0)


def _yes(case: Case) -> np.ndarray:
    """y as numbers, of the shape of the outputs."""
    return case.inputs["y"].reshape(case.inputs["outputs"].shape).astype(float)


def _without(target: Callable[[Case], np.ndarray]) -> Callable[[Case, Arrays], Arrays]:
    """The gradient without the target in it."""
    return lambda case, found: {"d_outputs": found["d_outputs"] + _weight(case) * target(case) / _entries(case)}


def _saturated(case: Case) -> bool:
    """Whether a probability is 0 or 1 to float64."""
    return bool(abs(case.inputs["outputs"]).max() > 40)


def _not_sigmoid(case: Case, found: Arrays) -> Arrays:
    """(p - y) / (p (1 - p))."""
    return {"d_outputs": found["d_outputs"] / sigmoid_slope(case.inputs["outputs"])}


def _clipped(case: Case, found: Arrays) -> Arrays:
    """-y log p - (1 - y) log(1 - p), p within [epsilon, 1 - epsilon], as Keras has it."""
    p, y, epsilon = sigmoid(case.inputs["outputs"]), _yes(case), 1e-7
    within = np.clip(p, epsilon, 1 - epsilon)
    losses = _weight(case) * (-y * np.log(within) - (1 - y) * np.log1p(-within))
    return {"loss": losses.sum() / _entries(case), "d_outputs": np.where(within == p, found["d_outputs"], 0.0)}


_BITS = float(1 / np.log(2))

MISTAKES = table(
    ("loss-summed", "the sum for the mean", loss(), scaled(_entries, *BOTH)),
    ("loss-gradient-summed", "the gradient of the sum, beside the mean", loss(), scaled(_entries, "d_outputs")),
    ("loss-batch-mean", "the mean over the batch of the sum over time",
     loss(masked=False), scaled(lambda case: float(len(case.inputs["outputs"])), *BOTH)),
    ("loss-bits", "bits for nats", loss(CE, BCE), scaled(_BITS, *BOTH)),
    ("loss-bits-alone", "the loss in bits, its gradient in nats", loss(CE, BCE), scaled(_BITS, "loss")),
    ("loss-mask-in-mean", "the mean over all entries, masked ones among them",
     loss(masked=True), scaled(_share_counted, *BOTH)),
    ("loss-mask-ignored", "no mask", loss(masked=True), fed(_unmasked)),
    ("loss-gradient-unmasked", "a gradient at masked entries as well", loss(masked=True), _gradient_everywhere),
    ("loss-groups-summed", "the sum over groups",
     both(loss(), lambda case: case.config["groups"] > 1), scaled(lambda case: float(case.config["groups"]), *BOTH)),
    ("loss-last-step", "the last step alone", loss(masked=False), _last_alone),
    ("loss-by-probabilities", "the gradient by the probabilities, not by the logits",
     loss(CE, groups=1, masked=False), altered(_not_softmax)),
    ("loss-no-target", "the gradient without - 1_y", loss(CE, groups=1), altered(_without(_one_hot))),
    ("bce-by-probabilities", "the gradient by the probability, not by the logit",
     both(loss(BCE), neither(_saturated)), altered(_not_sigmoid)),
    ("bce-no-target", "the gradient without - y", loss(BCE), altered(_without(_yes))),
    ("bce-sigmoid-twice", "the sigmoid applied twice",  # a layer has it, and the loss takes logits
     loss(BCE), squashed("outputs")),
    ("bce-clipped", "probabilities clipped at 1e-7, with no gradient beyond",
     both(loss(BCE), _saturated), altered(_clipped)),
    ("mse-half", "half the squared error", loss(MSE), scaled(0.5, *BOTH)),
    ("mse-no-two", "the gradient without the factor 2", loss(MSE), scaled(0.5, "d_outputs")),
    ("mse-sum-over-outputs", "the sum over the outputs of an entry, the mean over entries",
     loss(MSE), scaled(lambda case: case.inputs["outputs"].shape[-1] / case.config["groups"], *BOTH)),
)  # fmt: skip
