"""Every mistake by name: wrong versions that people ship, and that they plausibly would.

They serve twice: the kit has to see every one (scripts/kill_table.py), and a failing implementation is told which one
it equals (`diagnosis`).  Those of losses, tasks and refusals stand here.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ortho_ref.conformance import mistakes_cells, mistakes_updates
from ortho_ref.conformance.case import Arrays, Case
from ortho_ref.conformance.mistake import Base, Mistake, altered, fed, scaled

CE, MSE = "cross_entropy", "mean_squared_error"


def loss(*names: str, **config: object) -> Callable[[Case], bool]:
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
    return float(counted * (case.config["groups"] if case.config["loss"] == CE else q))


def _bits(case: Case) -> float:
    return float(1 / np.log(2))


def _share_counted(case: Case) -> float:
    return float(case.inputs["mask"].mean())


def _unmasked(case: Case) -> Arrays:
    return {"mask": np.ones_like(case.inputs["mask"])}


def _gradient_everywhere(case: Case, base: Base) -> Arrays:
    """The gradient of the unmasked mean, at the weight that counted entries have."""
    whole = base(replace(case, inputs={**case.inputs, **_unmasked(case)}))
    return {**base(case), "d_outputs": whole["d_outputs"] / _share_counted(case)}


def _last_step(case: Case) -> Arrays:
    return {name: case.inputs[name][-1:] for name in ("outputs", "y", "mask") if name in case.inputs}


def _last_alone(case: Case, base: Base) -> Arrays:
    """The loss of the last step alone."""
    found = base(replace(case, inputs=_last_step(case)))
    d_outputs = np.zeros_like(case.inputs["outputs"])
    d_outputs[-1:] = found["d_outputs"]
    return {**found, "d_outputs": d_outputs}


def _not_softmax(case: Case, found: Arrays) -> Arrays:
    """The gradient by the probabilities, -1_y / p, not by the logits."""
    o = case.inputs["outputs"]
    p = np.exp(o - o.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    one_hot = np.eye(o.shape[-1])[case.inputs["y"]]
    return {"d_outputs": -one_hot / p / _entries(case)}


def _without_target(case: Case, found: Arrays) -> Arrays:
    """softmax(o), without - 1_y."""
    one_hot = np.eye(case.inputs["outputs"].shape[-1])[case.inputs["y"]]
    weight = case.inputs["mask"][..., None] if "mask" in case.inputs else 1.0
    return {"d_outputs": found["d_outputs"] + weight * one_hot / _entries(case)}


def task(name: str, **config: object) -> Callable[[Case], bool]:
    """A case of this task, with such a config."""
    return lambda case: (
        case.kind == "task"
        and case.config["task"] == name
        and all(case.config[key] == value for key, value in config.items())
    )


def _moved(by: int, output: str) -> Callable[[Case, Base], Arrays]:
    """An output some steps later; what is moved in is blank."""

    def change(case: Case, found: Arrays) -> Arrays:
        moved = np.roll(found[output], by, axis=0)
        moved[slice(0, by) if by > 0 else slice(by, None)] = 0
        return {output: moved}

    return altered(change)


def _marker_moved(by: int) -> Callable[[Case, Base], Arrays]:
    def change(case: Case, found: Arrays) -> Arrays:
        x, marker = found["x"].copy(), found["x"].max()
        at = found["x"] == marker
        x[at] = 0
        x[np.roll(at, by, axis=0)] = marker
        return {"x": x}

    return altered(change)


def _counts(floor: bool, cap: bool) -> Callable[[Case, Base], Arrays]:
    """Open parentheses without the floor at 0, or without the cap."""

    def change(case: Case, found: Arrays) -> Arrays:
        types = found["y"].shape[-1]
        most = found["y"].max()
        tokens, count, y = case.inputs["tokens"], np.zeros(found["y"].shape[1:], np.int64), []
        for row in tokens:
            count = count + (row[:, None] == np.arange(types)) - (row[:, None] == np.arange(types) + types)
            count = np.maximum(count, 0) if floor else count
            count = np.minimum(count, most) if cap else count
            y.append(count)
        return {"y": np.array(y)}

    return altered(change)


def _invalid(*flaws: str) -> Callable[[Case], bool]:
    """An invalid case whose name ends in one of these, or any."""
    return lambda case: case.kind == "invalid" and (not flaws or case.id.endswith(flaws))


def _accepted(case: Case, base: Base) -> Arrays:
    return {"U": np.zeros(1)}


def _refused(case: Case, base: Base) -> Arrays:
    raise ValueError("refused")


M = Mistake
MISTAKES: tuple[Mistake, ...] = (
    *mistakes_cells.MISTAKES,
    *mistakes_updates.MISTAKES,
    # Losses
    M("loss-summed", "the sum for the mean", loss(), scaled(_entries, "loss", "d_outputs")),
    M("loss-gradient-summed", "the gradient of the sum, beside the mean", loss(), scaled(_entries, "d_outputs")),
    M(
        "loss-batch-mean",
        "the mean over the batch of the sum over time",
        loss(masked=False),
        scaled(lambda case: float(len(case.inputs["outputs"])), "loss", "d_outputs"),
    ),
    M("loss-bits", "bits for nats", loss(CE), scaled(_bits, "loss", "d_outputs")),
    M("loss-bits-alone", "the loss in bits, its gradient in nats", loss(CE), scaled(_bits, "loss")),
    M(
        "loss-mask-in-mean",
        "the mean over all entries, masked ones among them",
        loss(masked=True),
        scaled(_share_counted, "loss", "d_outputs"),
    ),
    M("loss-mask-ignored", "no mask", loss(masked=True), fed(_unmasked)),
    M("loss-gradient-unmasked", "a gradient at masked entries as well", loss(masked=True), _gradient_everywhere),
    M(
        "loss-groups-summed",
        "the sum over groups",
        lambda c: loss()(c) and c.config["groups"] > 1,
        scaled(lambda case: float(case.config["groups"]), "loss", "d_outputs"),
    ),
    M("loss-last-step", "the last step alone", loss(masked=False), _last_alone),
    M(
        "loss-by-probabilities",
        "the gradient by the probabilities, not by the logits",
        loss(CE, groups=1, masked=False),
        altered(_not_softmax),
    ),
    M("loss-no-target", "the gradient without - 1_y", loss(CE, groups=1), altered(_without_target)),
    M("mse-half", "half the squared error", loss(MSE), scaled(lambda case: 0.5, "loss", "d_outputs")),
    M("mse-no-two", "the gradient without the factor 2", loss(MSE), scaled(lambda case: 0.5, "d_outputs")),
    M(
        "mse-sum-over-outputs",
        "the sum over the outputs of an entry, the mean over entries",
        loss(MSE),
        scaled(lambda case: case.inputs["outputs"].shape[-1] / case.config["groups"], "loss", "d_outputs"),
    ),
    # Tasks
    M(
        "copying-layout-A",
        "layout A, the recall one step after the marker",
        task("copying", layout="B"),
        _marker_moved(-1),
    ),
    M("copying-layout-B", "layout B, the recall on the marker", task("copying", layout="A"), _marker_moved(1)),
    M("copying-x-late", "the input one step late", task("copying"), _moved(1, "x")),
    M("copying-recall-late", "the recall one step late", task("copying"), _moved(1, "y")),
    M("copying-recall-early", "the recall one step early", task("copying"), _moved(-1, "y")),
    M(
        "copying-marker-target",
        "the marker a target as well",
        task("copying"),
        altered(lambda case, found: {"y": np.where(found["x"] == 9, 9, found["y"])}),
    ),
    M(
        "adding-value-first",
        "the value before the marker (released code)",
        task("adding"),
        altered(lambda case, found: {"x": found["x"][..., ::-1]}),
    ),
    M("adding-mean", "the mean of the two values", task("adding"), altered(lambda case, found: {"y": found["y"] / 2})),
    M(
        "denoise-marker-zero",
        "the marker read as noise",
        task("denoise", form="paper"),
        altered(lambda case, found: {"x": np.where(found["x"] == 10, 0, found["x"])}),
    ),
    M("denoise-recall-late", "the recall one step late", task("denoise"), _moved(1, "y")),
    M("parenthesis-before-token", "the counts before the token", task("parenthesis"), _moved(1, "y")),
    M("parenthesis-no-floor", "counts below 0", task("parenthesis"), _counts(floor=False, cap=True)),
    M("parenthesis-no-cap", "counts without a cap", task("parenthesis"), _counts(floor=True, cap=False)),
    # Refusals
    M("accepts-all", "nothing refused", _invalid(), _accepted),
    M("accepts-not-skew", "a matrix taken that is not skew", _invalid("not-skew"), _accepted),
    M("accepts-nan", "NaN taken", _invalid("nan"), _accepted),
    M("accepts-shapes", "wrong shapes taken", _invalid("shape"), _accepted),
    M("refuses-all", "everything refused", _invalid(), _refused),
)
