"""A user's program, for mypy --strict: layers, networks, optimizers, tasks, converters and the kit."""

PROGRAM = """
from pathlib import Path
import numpy as np
import ortho_ref
from ortho_ref import conformance, converters, models
from ortho_ref.training import checkpoint
from ortho_ref.network import Network
from ortho_ref.training.optimizers import SGD, Adam, ByName
from ortho_ref.training.task import Task

layer = models.nc_gru(10, 56, orthogonal="rc", negative_ones=40)
network = Network((layer,), output_size=9, dropout=0.1)
params, buffers = network.init(np.random.default_rng(0), dtype=np.float64)
optimizer = ByName({"*.A": SGD(1e-3), "*": Adam(1e-3)})
x, y = np.zeros((5, 2, 10)), np.zeros((5, 2), int)
loss, gradients, result = network.loss_and_gradients(params, buffers, x, y)
deltas = {name: optimizer.delta(name, params[name], gradient) for name, gradient in gradients.items()}
params, buffers = network.retract(params, buffers, deltas)
for place in ("mine.safetensors", Path("mine.safetensors")):
    checkpoint.save(place, {"params": params, "buffers": buffers})
state = converters.by_name("pytorch").to_framework("lstm", {})

def run(case: conformance.Case) -> dict[str, np.ndarray] | None:
    return None

report = conformance.check(run, "cell/lstm")
print(ortho_ref.models.names(), ortho_ref.cite(layer), report, state)

def baseline(task: Task) -> float:
    return task.baseline
"""
