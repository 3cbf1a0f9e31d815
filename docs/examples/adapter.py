"""The start of an adapter: the GRU with the reset gate inside the recurrent product, tanh, forward alone, in NumPy.

Its cases are partial: a complete adapter also returns d_x, d_h0 and d_weights.NAME for every weight.
python -m ortho_ref.conformance run --adapter adapter.py --only 'cell/gru_reset_before*' --allow-partial
"""

import numpy as np


def run(case):
    """{"h": (T+1, B, n)}; None for another cell or activation, and for tokens."""
    if case.kind != "cell" or case.config["cell"] != "gru_reset_before":
        return None
    if case.config["activation"] != "tanh" or case.inputs["x"].ndim != 3:
        return None
    W, U, b = ({gate: case.inputs[f"weights.{kind}_{gate}"] for gate in "ruc"} for kind in "WUb")
    h = [case.inputs["h0"]]
    for x in case.inputs["x"]:
        r, u = (1 / (1 + np.exp(-(x @ W[gate].T + h[-1] @ U[gate].T + b[gate]))) for gate in "ru")
        c = np.tanh(x @ W["c"].T + (r * h[-1]) @ U["c"].T + b["c"])
        h.append((1 - u) * h[-1] + u * c)
    return {"h": np.stack(h)}
