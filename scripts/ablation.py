"""The papers' ablation studies, one picture each: python -m scripts.ablation neumann-order

S = 1 is the paper's size.  Below it:
    neumann-order, orthogonal-weights, norm-condition    20,000 S updates
    neumann-time                                         n up to 1,000 S^(1/3), as the work grows with n^3
    goru-gates, goru-style                               10,000 S^(1/2) updates; T = 200 S^(2/3); n the largest power
                                                         of two, for rotations in FFT style, up to 128 S^(1/4)
    urnn-gradients                                       20,000 S^(1/2) updates; T = 200 S^(1/2), then 5 T;
                                                         n = 512 S^(1/2) (urnn), 128 S^(1/2) (the others)
All else is the paper's.  NAME.json has every number drawn, and each run's config with its actual sizes.

neumann-time: the paper's figure 6 has the time of a whole epoch on a GPU and compares with an inverse by least squares.
Here one update of U is timed, on the processor at hand; its exact inverse is by LU, as everywhere in ortho_ref, and
least squares (SVD) is timed beside it, so that both comparisons can be made.

What the papers leave open: the task of NC-GRU's figure 7 (here parenthesis, as in 5 and 8); GORU's number of updates
(here its released code's 10,000) and the optimizer of its ablation (here that of its tables, RMSprop 1e-3 with decay
0.9, batch 128); uRNN's number of updates (20,000, its released code's), and the rate of the IRNN, "incredibly low"
(here 1e-5).
"""

import enum
import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import typer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ortho_ref import files
from ortho_ref.backend import Array, library_of, to_device, xp_of
from ortho_ref.cells.cell import State, Weights, parts_of
from ortho_ref.network import Network
from ortho_ref.parametrizations import NeumannCayley, ScaledCayley
from ortho_ref.run_folder import read_metrics
from ortho_ref.runs import TrainingRun
from ortho_ref.task import check_integer
from ortho_ref.training import Record
from scripts.grid.build import make_trainer
from scripts.grid.config import config_of, made_by, remove_run
from scripts.grid.run import train
from scripts.pictures.losses import COLORS, Run, draw_losses, save
from scripts.program import BAD_INPUT, check_device, device_option, fail, limit_threads, run, say
from scripts.timing.rounds import synchronizer, time_interleaved
from tasks.adding import Adding

SIZES = (32, 56, 128, 256, 430, 1000)  # n of neumann-time: 56 is parenthesis; from 128 on, layers of figure 6
SEEDS = 3  # figure 5 is a mean over three
BASELINE: Record = {"color": "black", "linestyle": "--", "linewidth": 1}


class Name(enum.StrEnum):
    """The ablations, as the command line calls them."""

    neumann_order = "neumann-order"
    neumann_time = "neumann-time"
    orthogonal_weights = "orthogonal-weights"
    norm_condition = "norm-condition"
    goru_gates = "goru-gates"
    goru_style = "goru-style"
    urnn_gradients = "urnn-gradients"


class Study(NamedTuple):
    """Which ablation, where its files go, its scale S, its seed, and where it computes."""

    name: Name
    out: Path
    scale: float
    seed: int
    device: str = "cpu"

    def scaled(self, paper: int, power: float = 0.5, least: int = 1) -> int:
        """The paper's number times S^power."""
        return max(least, round(paper * self.scale**power))

    def configs(self, variants: Mapping[str, Record]) -> dict[str, Record]:
        """The config of each variant's run, from its options; the runs of an earlier ablation are removed."""
        configs = {}
        for variant, options in variants.items():
            N = options["iterations"]
            own = {"seed": self.seed, "log_every": max(1, N // 100), "eval_every": -(-N // 10), "device": self.device}
            own |= options
            configs[variant] = config_of(**own) | {"ablation": self.name.value}
        for variant in configs:
            remove_run(self.out, f"{self.name}/{variant}", "ablation")
        return configs

    def train(self, variant: str, config: Record, trainer: TrainingRun, updates: int) -> Run:
        """Train until so many updates are done; what overflows ends there, with the reason as "diverged" in config."""
        folder = self.out / self.name / variant
        try:
            resume = trainer.iteration > 0
            records = train(trainer, folder, config, variant, resume, should_stop=lambda: trainer.iteration >= updates)
        except FloatingPointError as error:
            say(f"{variant}: {error}")
            return Run(variant, config | {"diverged": str(error)}, read_metrics(folder))
        return Run(variant, config, records)

    def runs(self, variants: Mapping[str, Record]) -> dict[str, Run]:
        """A whole run of each variant."""
        configs = self.configs(variants)
        return {v: self.train(v, config, make_trainer(config), config["iterations"]) for v, config in configs.items()}


def numbers_of(runs: Mapping[str, Run]) -> Record:
    """JSON of runs: config; by update loss, held-out loss, defect and condition."""
    keys = ("iteration", "loss", "evaluation_loss", "weights")
    return {
        name: {"config": one.config, "curve": [{key: r[key] for key in keys if key in r} for r in one.records]}
        for name, one in runs.items()
    }


def points(run: Run, key: str) -> list[tuple[int, float]]:
    """(update, value) where a run's lines have the key; "defect" and "condition" are the weights' largest."""
    of_weights = [(r["iteration"], [own[key] for own in r["weights"].values() if key in own]) for r in run.records]
    found = [(i, max(values)) for i, values in of_weights if values]
    return found or [(r["iteration"], r[key]) for r in run.records if key in r]


def draw_figure_of_weights(axis: Axes, run: Run, key: str, color: str) -> None:
    """A run's defects or conditions, those that are not 0."""
    axis.semilogy(*zip(*[(i, value) for i, value in points(run, key) if value > 0], strict=True), color=color, lw=0.8)
    axis.set_ylabel({"defect": "$\\|U^T U - I\\|_2$", "condition": "$\\|\\tilde A\\, \\delta A\\|_2$"}[key])


def panels(rows: int, columns: int) -> tuple[Figure, Any]:
    """A figure and the array of its axes."""
    return plt.subplots(rows, columns, figsize=(6 * columns, 4 * rows), squeeze=False, constrained_layout=True)


def parenthesis(study: Study, variants: Mapping[str, Record]) -> tuple[Record, Figure]:
    """NC-GRU on parenthesis: held-out loss, mean and standard deviation over SEEDS; the defects of the first seed."""
    common = {"task": "parenthesis", "iterations": study.scaled(20_000, 1)}
    seeds = range(study.seed, study.seed + SEEDS)
    of = {v: {f"{v}-seed{k}": common | options | {"seed": k} for k in seeds} for v, options in variants.items()}
    runs = study.runs({name: options for own in of.values() for name, options in own.items()})
    figure, axes = panels(1, 2)
    held_out_loss = {}
    for color, (variant, names) in zip(COLORS, of.items(), strict=False):
        draw_figure_of_weights(axes[0, 1], runs[next(iter(names))], "defect", color)
        curves = [points(runs[name], "evaluation_loss") for name in names]
        shared = np.array([*zip(*curves, strict=False)]).reshape(-1, SEEDS, 2)  # what diverged has fewer
        updates, losses = shared[:, 0, 0], shared[..., 1]
        mean, deviation = losses.mean(axis=1), losses.std(axis=1)
        held_out_loss[variant] = {"mean": [*mean], "standard_deviation": [*deviation]}
        label = f"{variant}: {mean[-1]:.4f} ± {deviation[-1]:.4f}" if len(shared) else f"{variant}: diverged"
        axes[0, 0].plot(updates, mean, color=color, marker="o", ms=3, label=label)
        axes[0, 0].fill_between(updates, mean - deviation, mean + deviation, color=color, alpha=0.15, lw=0)
    axes[0, 0].axhline(next(iter(runs.values())).config["baseline"], **BASELINE, label="baseline")
    axes[0, 0].set(xlabel="update", ylabel=f"held-out loss, mean of {SEEDS} seeds")
    axes[0, 0].legend(frameon=False, title="at the end")
    axes[0, 1].set(xlabel="update (exact inverse every 50)")
    return {"held_out_loss": held_out_loss, "runs": numbers_of(runs)}, figure


def neumann_order(study: Study) -> tuple[Record, Figure]:
    """NC-GRU(U_c) by series of order 1, 2, 3 and by exact inverses."""
    orders = {"order-1": "1", "order-2": "2", "order-3": "3", "exact": "exact"}
    return parenthesis(study, {label: {"order": order} for label, order in orders.items()})


def orthogonal_weights(study: Study) -> tuple[Record, Figure]:
    """NC-GRU(U_c), (U_r, U_c), (U_r, U_u, U_c)."""
    weights = {"U_c": "c", "U_r-U_c": "rc", "U_r-U_u-U_c": "ruc"}
    return parenthesis(study, {label: {"orthogonal": which} for label, which in weights.items()})


def norm_condition(study: Study) -> tuple[Record, Figure]:
    """NC-GRU(U_c), order 2: ||A_tilde delta_A||_2 and the defect at every update, in a long run at every tenth."""
    N = study.scaled(20_000, 1)
    runs = study.runs({"order-2": {"task": "parenthesis", "iterations": N, "log_every": max(1, N // 2000)}})
    figure, axes = panels(1, 2)
    for axis, key in zip(axes[0], ("condition", "defect"), strict=True):
        draw_figure_of_weights(axis, runs["order-2"], key, COLORS[1])
        axis.set_xlabel("update (exact inverse every 50)")
    axes[0, 0].axhline(1, **BASELINE, label="1: below it the series converges")
    axes[0, 0].legend(frameon=False, loc="center right")
    worst = {
        key: max((value for _, value in points(runs["order-2"], key)), default=None) for key in ("condition", "defect")
    }
    return {"worst": worst, "runs": numbers_of(runs)}, figure


def least_squares_update(params: Record, buffers: Record, delta: Record) -> tuple[Record, Record]:
    """`ScaledCayley.retract` with (I + A)^{-1} by least squares, the paper's "inverse"."""
    A = params["A"] - delta["A"]
    library = library_of(A)
    I = library.xp.eye(len(A), dtype=A.dtype)
    # NumPy's computes in float64; cupyx.scipy.linalg has none
    lstsq = library.linalg.lstsq if library.device == "cpu" else partial(library.xp.linalg.lstsq, rcond=None)
    A_tilde = lstsq(I + A, I)[0]
    return {"A": A}, {**buffers, "U": (2 * A_tilde - I) * buffers["D"], "A_tilde": A_tilde}


def updates_of_U(
    n: int, rng: np.random.Generator, device: str = "cpu"
) -> dict[str, Callable[[], tuple[Record, Record]]]:
    """The contenders of neumann-time, float32: all make the same update of A, too small for a forced reset."""
    exact = ScaledCayley(n // 2)
    params, buffers = NeumannCayley(n // 2).init(rng, n, np.float32)
    X = np.triu(rng.standard_normal((n, n)).astype(np.float32), 1) / (100 * n)
    params, buffers, delta = to_device((params, buffers, X - X.T), device)
    retracts: dict[str, Callable[..., tuple[Record, Record]]] = {
        **{f"order {q}": NeumannCayley(n // 2, q, reset_every=None).retract for q in (1, 2, 3)},
        "exact, LU": exact.retract,
        "exact, least squares": least_squares_update,
    }
    return {name: partial(retract, params, buffers, {"A": delta}) for name, retract in retracts.items()}


def neumann_time(study: Study) -> tuple[Record, Figure]:
    """Median time of an update of U, and of its ratio to that by LU, against n."""
    sizes = [n for n in SIZES if n <= max(SIZES[0], study.scaled(SIZES[-1], 1 / 3))]
    median: dict[str, list[float]] = {}
    ratio: dict[str, list[float]] = {}
    for n in sizes:
        updates = updates_of_U(n, np.random.default_rng(study.seed), study.device)
        times = time_interleaved(updates, rounds=7, seconds=0.1, synchronize=synchronizer(study.device))
        for name, own in times.items():
            median.setdefault(name, []).append(statistics.median(own))
            by_round = [t / lu for t, lu in zip(own, times["exact, LU"], strict=True)]
            ratio.setdefault(name, []).append(statistics.median(by_round))
        say(f"n = {n}: " + ", ".join(f"{name} {values[-1]:.3g} ms" for name, values in median.items()))
    figure, axes = panels(1, 2)
    for axis, drawn, label in zip(axes[0], (median, ratio), ("milliseconds", "time / time by LU"), strict=True):
        for color, (name, values) in zip(COLORS, drawn.items(), strict=False):
            axis.loglog(sizes, values, marker="o", ms=4, color=color, label=name)
        axis.minorticks_off()
        axis.set(xlabel="n", ylabel=label, xticks=sizes, xticklabels=sizes)
    axes[0, 0].set_title(
        f"one update of U on {'one core' if study.device == 'cpu' else study.device}, float32", fontsize="medium"
    )
    axes[0, 0].legend(frameon=False)
    axes[0, 1].axhline(1, **BASELINE)
    return {"sizes": sizes, "milliseconds": median, "ratio_to_lu": ratio}, figure


def goru(study: Study, variants: Mapping[str, Record]) -> tuple[Record, Figure]:
    """GORU with each variant's model options, on copying and denoise."""
    common = {
        "model": "goru",
        "hidden": 2 ** (study.scaled(128, 1 / 4, least=4).bit_length() - 1),
        "length": study.scaled(200, 2 / 3),
        "batch": 128,
        "iterations": study.scaled(10_000),
        "optimizer": "rmsprop-tensorflow",
    }
    of = {t: {f"{t}-{v}": common | {"task": t, **own} for v, own in variants.items()} for t in ("copying", "denoise")}
    runs = study.runs(of["copying"] | of["denoise"])
    figure, axes = panels(1, 2)
    for axis, (task, names) in zip(axes[0], of.items(), strict=True):
        draw_losses(axis, [runs[name]._replace(label=variant) for name, variant in zip(names, variants, strict=True)])
        axis.set(xlabel="update", title=f"{task}, T = {common['length']}, n = {common['hidden']}")
        axis.set_ylim(0, 2 * runs[next(iter(names))].config["baseline"])  # it begins far above
    return {"runs": numbers_of(runs)}, figure


def goru_gates(study: Study) -> tuple[Record, Figure]:
    """GORU; its activation replaced; without a gate."""
    changes: Record = {
        "relu": {"activation": "relu"},
        "tanh": {"activation": "tanh"},
        "no-reset-gate": {"reset_gate": False},
        "no-update-gate": {"update_gate": False},
    }
    return goru(study, {"goru": {}} | {label: {"model_options": options} for label, options in changes.items()})


def goru_style(study: Study) -> tuple[Record, Figure]:
    """GORU with U from rotations in FFT style, and from Householder reflections."""
    return goru(study, {style: {"model_options": {"style": style}} for style in ("fft", "householder")})


class Watched:
    """A cell, noting its states and the norms of the whole derivative of the loss by them, one sequence's at a time.

    Of an LSTM those of h.  gradient_norms: means over the batch, for a loss that is the mean of its sequences' own.
    """

    def __init__(self, cell: Any) -> None:
        self.cell = cell
        self.history: list[Array] = []
        self.gradient_norms: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cell, name)

    def step_forward(self, weights: Weights, x: Array, h_prev: State) -> tuple[State, Any]:
        """The cell's."""
        h, cache = self.cell.step_forward(weights, x, h_prev)
        self.history.append(parts_of(self.cell, h)[0])
        return h, cache

    def step_backward(self, weights: Weights, dh: State, cache: Any) -> tuple[Array | None, State, Weights]:
        """The cell's; `scan` hands it all of dL/dh_t."""
        own = parts_of(self.cell, dh)[0]
        self.gradient_norms.insert(0, len(own) * mean_norm(own))
        dx, dh_prev, dweights = self.cell.step_backward(weights, dh, cache)
        return dx, dh_prev, dweights


def mean_norm(h: Array) -> float:
    """The mean over the batch of |h|, for complex h the norm of (Re h, Im h)."""
    return float(xp_of(h).linalg.norm(h, axis=1).mean())


def watched(network: Network) -> tuple[Network, Watched]:
    """A network of one layer, step by step, and its cell, watched."""
    (layer,) = network.layers
    cell: Any = Watched(layer.cell)
    return replace(network, layers=(replace(layer, cell=cell, engine="scan"),)), cell


def held_out(length: int, sequences: int = 20, device: str = "cpu") -> tuple[Array, Array]:
    """The first sequences of the adding task's held-out set, float64."""
    x, y, *_ = next(Adding(length).evaluation())
    x, y = to_device((x[:, :sequences].astype(np.float64), y[:sequences].astype(np.float64)), device)
    return x, y


def gradient_norms(trainer: TrainingRun, length: int) -> list[float]:
    """||dL/dh_t|| for t = 1..T, with the trainer's weights."""
    network, cell = watched(trainer.network)
    network.loss_and_gradients(trainer.params, trainer.buffers, *held_out(length, device=trainer.device))
    return cell.gradient_norms


def hidden_norms(trainer: TrainingRun, length: int) -> Record:
    """||h_t|| and ||h_t - h_T|| for t = 1..T, with the trainer's weights."""
    network, cell = watched(trainer.network)
    network.forward(trainer.params, trainer.buffers, held_out(length, device=trainer.device)[0])
    last = cell.history[-1]
    return {"norm": [mean_norm(h) for h in cell.history], "distance": [mean_norm(h - last) for h in cell.history]}


def urnn_gradients(study: Study) -> tuple[Record, Figure]:
    """||dL/dh_t|| before training and after 100 updates; ||h_t|| and ||h_t - h_T|| of trained models; float64."""
    T, N, n = study.scaled(200, least=2), study.scaled(20_000, least=2), study.scaled(128)
    early, length = min(100, N // 2), 5 * T
    # in float32 a vanishing gradient is soon 0
    common: Record = {"task": "adding", "length": T, "iterations": N, "batch": 50, "dtype": "float64"}
    common |= {"optimizer": "rmsprop-theano", "eval_every": N}
    own: dict[str, Record] = {
        "urnn": {"hidden": study.scaled(512)},
        "lstm": {"hidden": n, "clip": "value:1"},
        "rnn": {"hidden": n, "clip": "value:1"},
        "irnn": {"hidden": n, "clip": "value:1", "lr": 1e-5},
    }
    configs = study.configs({model: common | {"model": model} | options for model, options in own.items()})
    runs, measured = {}, {}
    for model, config in configs.items():
        trainer = make_trainer(config)
        measured[model] = {"start": gradient_norms(trainer, T)}
        runs[model] = study.train(model, config, trainer, early)
        if trainer.iteration == early:
            measured[model]["early"] = gradient_norms(trainer, T)
            runs[model] = study.train(model, config, trainer, N)
        if trainer.iteration == N:
            measured[model] |= hidden_norms(trainer, length)
    figure, axes = panels(2, 2)
    titles = {
        "start": "$\\|\\partial L / \\partial h_t\\|$ before training",
        "early": f"$\\|\\partial L / \\partial h_t\\|$ after {early} updates",
        "norm": f"$\\|h_t\\|$, trained at T = {T}, run to {length}",
        "distance": f"$\\|h_t - h_{{{length}}}\\|$, trained at T = {T}",
    }
    for axis, (key, title) in zip(axes.flat, titles.items(), strict=True):
        for color, (model, norms) in zip(COLORS, measured.items(), strict=False):
            values = norms.get(key, [])
            label = f"{model}, n = {configs[model]['hidden']}"
            axis.plot(range(1, len(values) + 1), values, color=color, label=label)
        axis.set_yscale("log", nonpositive="mask")
        axis.set(xlabel="t", title=title)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(measured), frameon=False)
    return {"T": T, "early": early, "length": length, "measured": measured, "runs": numbers_of(runs)}, figure


class Ablation(NamedTuple):
    """paper: whose figure; shows: what that shows, in words; measure: the numbers and the picture."""

    paper: str
    shows: str
    measure: Callable[[Study], tuple[Record, Figure]]


ABLATIONS = {
    Name.neumann_order: Ablation(
        "NC-GRU, figure 5: Neumann series or inverse, parenthesis",
        "order 2 is marginally better than orders 1 and 3, and significantly better than the inverse by least squares",
        neumann_order,
    ),
    Name.neumann_time: Ablation(
        "NC-GRU, figure 6: time of Neumann series and inverse",
        "seconds per epoch of character PTB on a V100 GPU, layers of 128-256-128, 430-1000-430, 1024-2048-1024: series "
        "of orders 1, 2, 3 against the inverse by least squares; here one update of U on one core, against LU too",
        neumann_time,
    ),
    Name.orthogonal_weights: Ablation(
        "NC-GRU, figure 7: which hidden weights are orthogonal",
        "U_c alone, or U_r and U_c, do best; with all three weights orthogonal it does not perform as well",
        orthogonal_weights,
    ),
    Name.norm_condition: Ablation(
        "NC-GRU, figure 8: the condition of the Neumann series",
        "the norm changes during training and stays well below 1",
        norm_condition,
    ),
    Name.goru_gates: Ablation(
        "GORU, figure 7: activation and gates",
        "copying: without reset gate as quick; without update gate stuck at the baseline; relu and tanh solve it, but "
        "later; denoise: every activation solves it, and both gates are needed (the text describes the removals with "
        "the gates' names swapped, so that its labels are in doubt)",
        goru_gates,
    ),
    Name.goru_style: Ablation(
        "GORU, figure 8: rotations or Householder reflections", "both solve both tasks", goru_style
    ),
    Name.urnn_gradients: Ablation(
        "uRNN, figure 4: gradients and hidden states, adding",
        "before training uRNN's gradients keep their norm, the others' vanish exponentially; after 100 updates all "
        "vanish, uRNN's least; trained, uRNN's hidden norm grows steadily, LSTM's fast and then no more: its states "
        "hardly change after t = 500",
        urnn_gradients,
    ),
}


def main(
    name: Annotated[Name, typer.Argument(help="The ablation.")],
    scale: Annotated[
        float, typer.Option(help="S: 1 is the paper's size (minutes to many hours); the default: a minute or two.")
    ] = 0.02,
    out: Annotated[
        Path, typer.Option(help="Folder for NAME.json, NAME.png, and runs in NAME/; an earlier ablation is replaced.")
    ] = Path("runs/ablation"),
    seed: Annotated[int, typer.Option(help="Of weights and data; where there are several seeds, the first.")] = 0,
    device: Annotated[str, device_option()] = "cpu",
) -> None:
    """Repeat one of the papers' ablation studies, at the paper's size or smaller, and draw it."""
    limit_threads(1)
    paper, shows, measure = ABLATIONS[name]
    try:
        if not 0 < scale <= 1:
            raise ValueError(f"scale is {scale}; allowed: above 0, at most 1")
        check_integer("seed", seed, least=0)
        check_device(device)
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(f"out is {out}: {error.strerror}") from error
        numbers, figure = measure(Study(name, out, scale, seed, device))
        figure.suptitle(f"{paper} (S = {scale:g})")
        head: Record = {
            "ablation": name,
            "paper": paper,
            "shows": shows,
            "scale": scale,
            "seed": seed,
            "device": device,
        }
        head |= {"made_by": made_by()}
        text = json.dumps(head | numbers, indent=1, allow_nan=False)
        files.write(out / f"{name}.json", f"{text}\n".encode())
        save(figure, out / f"{name}.png")
    except BAD_INPUT as error:
        fail(error)
    say(f"the paper: {shows}")
    say(f"picture: {out / f'{name}.png'}")


if __name__ == "__main__":
    run(main, keeps_memory=True)
