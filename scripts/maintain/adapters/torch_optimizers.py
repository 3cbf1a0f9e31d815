"""PyTorch's optim.SGD, Adam and RMSprop.  RMSprop has neither an initial v but 0 nor epsilon inside the root."""

from typing import Any

import numpy as np
import torch


def run(case: Any) -> dict[str, np.ndarray] | None:
    """The parameter after each update."""
    if case.kind != "optimizer":
        return None
    options = dict(case.config["optimizer"])
    name = options.pop("name")
    common = {"lr": options["learning_rate"], "weight_decay": options["weight_decay"]}
    if name == "rmsprop" and (options["initial"] != 0 or options["epsilon_inside"]):
        return None
    parameter, gradients = (torch.from_numpy(case.inputs[k]) for k in ("parameter0", "gradient"))
    if case.config["complex"]:
        parameter, gradients = torch.view_as_complex(parameter), torch.view_as_complex(gradients)
    parameter = parameter.clone().requires_grad_()
    optimizer: torch.optim.Optimizer
    if name == "sgd":
        optimizer = torch.optim.SGD([parameter], momentum=options["momentum"], **common)
    elif name == "adam":
        betas = (options["beta1"], options["beta2"])
        optimizer = torch.optim.Adam([parameter], betas=betas, eps=options["epsilon"], **common)
    else:
        optimizer = torch.optim.RMSprop([parameter], alpha=options["decay"], eps=options["epsilon"], **common)
    steps = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        steps.append(parameter.detach().clone())
    stacked = torch.stack(steps)
    return {"parameter": (torch.view_as_real(stacked) if case.config["complex"] else stacked).numpy()}
