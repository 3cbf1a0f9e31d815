"""Optimizers, schedules and clipping against PyTorch's in float64, below 1e-12."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from gradients.problem import relative_error, standard_normal  # noqa: E402
from ortho_ref.training.optimizers import OPTIMIZERS, SGD, Adam, RMSprop, clip_by_global_norm, clip_by_value  # noqa: E402
from ortho_ref.training.schedules import LinearToZero, Step  # noqa: E402

UPDATES = 30

# Our options and PyTorch's for the same optimizer.
CASES = {
    "SGD": (SGD, {}, torch.optim.SGD, {}),
    "SGD weight decay": (SGD, {"weight_decay": 0.2}, torch.optim.SGD, {"weight_decay": 0.2}),
    "momentum": (OPTIMIZERS["momentum"], {}, torch.optim.SGD, {"momentum": 0.9}),
    "momentum weight decay": (
        SGD,
        {"momentum": 0.7, "weight_decay": 0.2},
        torch.optim.SGD,
        {"momentum": 0.7, "weight_decay": 0.2},
    ),
    "RMSprop": (OPTIMIZERS["rmsprop"], {}, torch.optim.RMSprop, {}),
    "RMSprop options": (
        RMSprop,
        {"decay": 0.8, "epsilon": 1e-2, "weight_decay": 0.2},
        torch.optim.RMSprop,
        {"alpha": 0.8, "eps": 1e-2, "weight_decay": 0.2},
    ),
    "Adam": (OPTIMIZERS["adam"], {}, torch.optim.Adam, {}),
    "Adam options": (
        Adam,
        {"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-2, "weight_decay": 0.2},
        torch.optim.Adam,
        {"betas": (0.8, 0.99), "eps": 1e-2, "weight_decay": 0.2},
    ),
}
RATE = 0.05
# PyTorch's LinearLR multiplies its way down, which ends in 0 after `updates` of them as ours does.
SCHEDULES = {
    "constant": (RATE, lambda optimizer: torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)),
    "linear": (
        LinearToZero(RATE, 20),
        lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=20),
    ),
    "step": (Step(RATE, 7, 0.3), lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 7, gamma=0.3)),
    "function": (
        lambda k: RATE / (1 + k),
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 / (1 + k)),
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_updates(case, schedule, dtype):
    """Thirty updates of a parameter, and the rate of each; PyTorch too keeps the parts of complex numbers apart."""
    make, options, their_make, their_options = CASES[case]
    rate, make_scheduler = SCHEDULES[schedule]
    rng = np.random.default_rng(0)
    p = standard_normal(rng, (4, 3), dtype == np.complex128)
    theirs = torch.tensor(p, requires_grad=True)
    optimizer, their_optimizer = make(rate, **options), their_make([theirs], lr=RATE, **their_options)
    scheduler = make_scheduler(their_optimizer)
    for k in range(UPDATES):
        g = standard_normal(rng, (4, 3), dtype == np.complex128) * 10.0 ** rng.integers(-3, 2)
        assert abs(optimizer.rates(k)["*"] - scheduler.get_last_lr()[0]) < 1e-15
        theirs.grad = torch.tensor(g)
        their_optimizer.step()
        scheduler.step()
        p = p - optimizer.delta("p", p, g)
        assert relative_error(p, theirs.detach().numpy()) < 1e-12, k


def gradients_and_tensors(dtype):
    """The same gradients for both; PyTorch's hang on parameters."""
    rng = np.random.default_rng(0)
    is_complex = dtype == np.complex128
    gradients = {"W": standard_normal(rng, (4, 3), is_complex), "b": standard_normal(rng, (5,), is_complex)}
    tensors = [torch.zeros(g.shape, dtype=torch.tensor(g).dtype, requires_grad=True) for g in gradients.values()]
    for tensor, g in zip(tensors, gradients.values(), strict=True):
        tensor.grad = torch.tensor(g)
    return gradients, tensors


@pytest.mark.parametrize("limit", [1e-3, 0.5, 10.0])
def test_clip_by_value(limit):
    """clip_grad_value_, which takes real gradients only: no arithmetic, so to the bit."""
    gradients, tensors = gradients_and_tensors(np.float64)
    torch.nn.utils.clip_grad_value_(tensors, limit)
    for ours, tensor in zip(clip_by_value(gradients, limit).values(), tensors, strict=True):
        np.testing.assert_array_equal(ours, tensor.grad.numpy())


@pytest.mark.parametrize("limit", [1e-3, 2.0, 100.0])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_clip_by_global_norm(limit, dtype):
    """clip_grad_norm_, which divides by norm + 1e-6 where we divide by norm: its result is taken times their ratio."""
    gradients, tensors = gradients_and_tensors(dtype)
    their_norm = float(torch.nn.utils.clip_grad_norm_(tensors, limit))
    clipped, norm = clip_by_global_norm(gradients, limit)
    assert abs(norm - their_norm) < 1e-14 * norm
    ratio = (norm + 1e-6) / norm if norm > limit else 1.0
    for ours, tensor in zip(clipped.values(), tensors, strict=True):
        assert relative_error(ours, tensor.grad.numpy() * ratio) < 1e-12
    assert (norm > limit) == (limit < 100)
