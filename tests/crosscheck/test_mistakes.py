"""Mistakes of the conformance kit against PyTorch's own modules; and the second route is told nothing."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make crosscheck` installs it")

from ortho_ref.conformance.cases.case import in_precision  # noqa: E402
from ortho_ref.conformance.cases.case_files import vectors  # noqa: E402
from ortho_ref.conformance.mistakes import MISTAKES  # noqa: E402
from ortho_ref.conformance.mistakes.mistake import made  # noqa: E402
from ortho_ref.conformance.report import FAILED  # noqa: E402
from ortho_ref.conformance.running.runner import check  # noqa: E402
from scripts.maintain.oracle.second_route import second_route  # noqa: E402

NAMED = {mistake.name: mistake for mistake in MISTAKES}
VECTORS = {vector.id: vector for vector in vectors()}


def given_by(id, *names):
    """What an implementation with these mistakes gives for this case."""
    return made(tuple(NAMED[name] for name in names), VECTORS[id])


def same(given, expected, tolerance=1e-11):
    """What is expected, to `tolerance` of its largest entry."""
    for name, array in expected.items():
        assert np.abs(given[name] - array).max() <= tolerance * np.abs(array).max(), name


def by_module(module, case, gates, signs):
    """h, d_x, d_h0 and the weights' gradients of torch.nn.GRU or LSTM; their second bias is 0."""
    i = {name: torch.tensor(array, requires_grad=array.dtype.kind == "f") for name, array in case.inputs.items()}
    w = [torch.cat([s * i[f"weights.{kind}_{g}"] for g, s in zip(gates, signs, strict=True)]) for kind in "WUb"]
    start = tuple(i[name][None] for name in ("h0", "c0") if name in i)
    call = {"weight_ih_l0": w[0], "weight_hh_l0": w[1], "bias_ih_l0": w[2], "bias_hh_l0": 0 * w[2].detach()}
    h, last = torch.func.functional_call(module, call, (i["x"], start if len(start) == 2 else start[0]))
    loss = (i["dh"] * h).sum() + (i["dh_T"] * h[-1]).sum()
    loss = loss + (i["dc_T"] * last[1][0]).sum() if "dc_T" in i else loss
    loss.backward()
    names = ["x", "h0", *(f"weights.{kind}_{g}" for kind in "WUb" for g in gates)]
    return {"h": np.concatenate([case.inputs["h0"][None], h.detach().numpy()])} | {
        f"d_{name}": i[name].grad.numpy() for name in names
    }


GRU, LSTM = "cell/gru_reset_before/tanh", "cell/lstm"


@pytest.mark.parametrize(
    ("id", "gates", "signs", "names"),
    [
        # torch.nn.GRU with z = 1 - u, and with our weights as they are
        (GRU, "ruc", (1, -1, 1), ["reset-after"]),
        (GRU, "ruc", (1, 1, 1), ["u-keeps", "reset-after"]),
        # with weights packed in another order; what stands in the place of z has its sign
        (GRU, "urc", (1, -1, 1), ["r-u-swapped", "reset-after"]),
        (GRU, "ucr", (1, -1, 1), ["order-ucr", "reset-after"]),
        (GRU, "cru", (1, -1, 1), ["order-cru", "reset-after"]),
        (LSTM, "ifgo", (1, 1, 1, 1), []),
        *((LSTM, gates, (1, 1, 1, 1), [f"order-{gates}"]) for gates in ("ifog", "iofg", "igfo", "igof")),
    ],
)
def test_mistakes_that_are_pytorch_s_layers(id, gates, signs, names):
    case = VECTORS[id].case
    kind = torch.nn.GRU if id == GRU else torch.nn.LSTM
    module = kind(case.inputs["x"].shape[-1], case.inputs["h0"].shape[-1], dtype=torch.float64)
    same(given_by(case.id, *names), by_module(module, case, gates, signs))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_second_route_is_told_nothing(dtype):
    """Every kind but initial values, which are drawn.  It computes in float64."""

    def run(case):
        inputs = {name: in_precision(array, "float64") for name, array in case.inputs.items()}
        return None if case.kind == "initial" else second_route(case.kind, case.config, inputs)[1]

    report = check(run, dtype=dtype)
    assert report.ok
    assert not [r for r in report.results if r.mistakes or r.diagnosis or r.status == FAILED]
