"""Losses and their gradients."""

import numpy as np

from ortho_ref.conformance.cases.case import Arrays, Case
from ortho_ref.conformance.mistakes.mistake import Base, Family, Predicate, altered, fed, given, scaled

MISTAKES = Family()
M, named = MISTAKES.add, MISTAKES.named

CE, BCE, MSE = "cross_entropy", "binary_cross_entropy", "mean_squared_error"
BOTH = ("loss", "d_outputs")


def loss(*names: str, **config: object) -> Predicate:
    """A case of kind loss, of one of these losses, with such a config."""
    return lambda case: (
        case.kind == "loss"
        and (not names or case.config["loss"] in names)
        and all(case.config[key] == value for key, value in config.items())
    )


def _entries(case: Case) -> float:
    """Over how many entries, of squared errors numbers, the mean is."""
    T, B, q = case.inputs["outputs"].shape
    counted = case.inputs["mask"].sum() if "mask" in case.inputs else T * B
    return float(counted * (case.config["groups"] if case.config["loss"] != MSE else q))


M("loss-summed", "the sum for the mean", loss(), scaled(_entries, *BOTH))
M("loss-gradient-summed", "the gradient of the sum, beside the mean", loss(), scaled(_entries, "d_outputs"))
M(
    "loss-batch-mean",
    "the mean over the batch of the sum over time",
    loss(masked=False),
    scaled(lambda case: float(len(case.inputs["outputs"])), *BOTH),
)


def _bits(case: Case) -> float:
    return float(1 / np.log(2))


M("loss-bits", "bits for nats", loss(CE, BCE), scaled(_bits, *BOTH))
M("loss-bits-alone", "the loss in bits, its gradient in nats", loss(CE, BCE), scaled(_bits, "loss"))


def _share_counted(case: Case) -> float:
    return float(case.inputs["mask"].mean())


M(
    "loss-mask-in-mean",
    "the mean over all entries, masked ones among them",
    loss(masked=True),
    scaled(_share_counted, *BOTH),
)


@named("loss-mask-ignored", "no mask", loss(masked=True), fed)
def _unmasked(case: Case) -> Arrays:
    return {"mask": np.ones_like(case.inputs["mask"])}


@named("loss-gradient-unmasked", "a gradient at masked entries as well", loss(masked=True))
def _gradient_everywhere(case: Case, base: Base) -> Arrays:
    """That of the unmasked mean, at the weight that counted entries have."""
    return {**base(case), "d_outputs": base(given(case, _unmasked(case)))["d_outputs"] / _share_counted(case)}


M(
    "loss-groups-summed",
    "the sum over groups",
    lambda c: loss()(c) and c.config["groups"] > 1,
    scaled(lambda case: float(case.config["groups"]), *BOTH),
)


@named("loss-last-step", "the last step alone", loss(masked=False))
def _last_alone(case: Case, base: Base) -> Arrays:
    found = base(given(case, {name: case.inputs[name][-1:] for name in ("outputs", "y")}))
    return {**found, "d_outputs": np.concatenate([0 * case.inputs["outputs"][:-1], found["d_outputs"]])}


@named(
    "loss-by-probabilities",
    "the gradient by the probabilities, not by the logits",
    loss(CE, groups=1, masked=False),
    altered,
)
def _not_softmax(case: Case, found: Arrays) -> Arrays:
    """-1_y / p."""
    o = case.inputs["outputs"]
    p = np.exp(o - o.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    one_hot = np.eye(o.shape[-1])[case.inputs["y"]]
    return {"d_outputs": -one_hot / p / _entries(case)}


def _weight(case: Case) -> np.ndarray:
    """1 where an entry counts."""
    return np.asarray(case.inputs["mask"][..., None] if "mask" in case.inputs else 1.0)


@named("loss-no-target", "the gradient without - 1_y", loss(CE, groups=1), altered)
def _without_target(case: Case, found: Arrays) -> Arrays:
    one_hot = np.eye(case.inputs["outputs"].shape[-1])[case.inputs["y"]]
    return {"d_outputs": found["d_outputs"] + _weight(case) * one_hot / _entries(case)}


def _probability(case: Case) -> np.ndarray:
    """sigma(o), in the form that does not overflow."""
    small = np.exp(-abs(case.inputs["outputs"]))
    return np.where(case.inputs["outputs"] >= 0, 1, small) / (1 + small)


def _saturated(case: Case) -> bool:
    """Whether a probability is 0 or 1 to float64."""
    return bool(abs(case.inputs["outputs"]).max() > 40)


def _yes(case: Case) -> np.ndarray:
    """y as numbers, of the shape of the outputs."""
    return case.inputs["y"].reshape(case.inputs["outputs"].shape).astype(float)


@named(
    "bce-by-probabilities",
    "the gradient by the probability, not by the logit",
    lambda case: loss(BCE)(case) and not _saturated(case),
    altered,
)
def _not_sigmoid(case: Case, found: Arrays) -> Arrays:
    """(p - y) / (p (1 - p))."""
    p = _probability(case)
    return {"d_outputs": found["d_outputs"] / (p * (1 - p))}


@named("bce-no-target", "the gradient without - y", loss(BCE), altered)
def _without_yes(case: Case, found: Arrays) -> Arrays:
    return {"d_outputs": found["d_outputs"] + _weight(case) * _yes(case) / _entries(case)}


@named("bce-sigmoid-twice", "the sigmoid applied twice", loss(BCE))
def _sigmoid_twice(case: Case, base: Base) -> Arrays:
    """sigma(o) where the logit should be: of a loss that takes logits, behind a layer that has the sigmoid already."""
    p = _probability(case)
    found = base(given(case, {"outputs": p}))
    return {**found, "d_outputs": found["d_outputs"] * p * (1 - p)}


@named(
    "bce-clipped",
    "probabilities clipped at 1e-7, with no gradient beyond",
    lambda case: loss(BCE)(case) and _saturated(case),
    altered,
)
def _clipped(case: Case, found: Arrays) -> Arrays:
    """-y log p - (1 - y) log(1 - p), p within [epsilon, 1 - epsilon], as Keras has it."""
    p, y, epsilon = _probability(case), _yes(case), 1e-7
    within = np.clip(p, epsilon, 1 - epsilon)
    losses = _weight(case) * (-y * np.log(within) - (1 - y) * np.log1p(-within))
    return {"loss": losses.sum() / _entries(case), "d_outputs": np.where(within == p, found["d_outputs"], 0.0)}


M("mse-half", "half the squared error", loss(MSE), scaled(lambda case: 0.5, *BOTH))
M("mse-no-two", "the gradient without the factor 2", loss(MSE), scaled(lambda case: 0.5, "d_outputs"))
M(
    "mse-sum-over-outputs",
    "the sum over the outputs of an entry, the mean over entries",
    loss(MSE),
    scaled(lambda case: case.inputs["outputs"].shape[-1] / case.config["groups"], *BOTH),
)
