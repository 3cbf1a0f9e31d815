"""The cases of kind `linear`."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ortho_ref.conformance.linear.recurrence import Input, Recurrence
from ortho_ref.conformance.linear.table import RECURRENCES
from scripts.maintain.vectors.spec import Ranges, Spec, ranged

SIZES = {"T": 5, "B": 2, "H": 2, "K": 3, "V": 2, "N": 2, "D": 3}
_TINY = {"B": 1, "H": 1, "K": 2, "V": 2, "D": 2}
# what a step from the empty state does not see: the outputs that are 0 there
_STILL = {
    **dict.fromkeys(("gated_delta_rule", "delta_product", "kda"), ("d_g",)),
    "rwkv7": ("d_w", "d_a", "d_kappa"),
    "lru": ("d_nu_log", "d_theta_log"),
    "slstm": ("d_x_f", "d_R_i", "d_R_f", "d_R_z", "d_R_o"),
}


class Plan(NamedTuple):
    """How the case linear/RECURRENCE/NAME is drawn.

    sizes, ranges, options: what differs from `SIZES`, from the inputs' ranges and from the usual options.
    initial: whether an initial state is given.  marks: step and sequence of the resets.
    without: an input that the options leave out.
    """

    name: str
    recurrence: str
    why: str
    sizes: Mapping[str, int] = {}
    ranges: Mapping[str, tuple[float, float]] = {}
    options: Mapping[str, Any] = {}
    initial: bool = True
    marks: Collection[tuple[int, int]] = ()
    without: str = ""

    def spec(self) -> Spec:
        """What the case is made from."""
        r, sizes, id = RECURRENCES[self.recurrence], {**SIZES, **self.sizes}, f"linear/{self.recurrence}/{self.name}"
        config = config_of(r, sizes, **self.options) | {"initial_state": self.initial, "resets": bool(self.marks)}
        arrays = arrays_of(r, sizes, self.ranges, self.initial, self.marks)
        arrays.pop(self.without, None)
        zeros = _STILL.get(r.name, ()) if sizes["T"] == 1 and not self.initial else ()
        return Spec(id, "linear", config, arrays, self.why, zeros)


def config_of(r: Recurrence, sizes: Mapping[str, int], **options: Any) -> dict[str, Any]:
    """A recurrence's config, with the usual value of every option that is not given."""
    own = {**r.options, **options}
    if "scale" in own and own["scale"] is None:
        own["scale"] = sizes["K"] ** -0.5
    return {"recurrence": r.name, **own}


def arrays_of(
    r: Recurrence,
    sizes: Mapping[str, int],
    ranges: Mapping[str, tuple[float, float]],
    initial: bool = True,
    marks: Collection[tuple[int, int]] = (),
) -> Ranges:
    """Shape and range of every array, do and ds_T among them, as `drawing` takes them; ranges: in place of its own."""
    first = {f"{name}0": own for name, own in r.states.items() if initial}
    last = {f"d{name}_T": Input(own.axes) for name, own in r.states.items()}
    found: dict[str, Any] = {}
    for name, (axes, low, high) in {**r.inputs, **first, "do": Input(r.output), **last}.items():
        low, high = ranges.get(name, (low, high))
        shape = [sizes[letter] for letter in axes] + [2] * (name in r.complex)
        found[name] = ranged(shape, low, high)
    if marks:
        found["resets"] = ranged([sizes["T"], sizes["B"]], 0.0, 1.0, marks=[list(mark) for mark in marks])
    return found


def _common(r: Recurrence) -> list[Plan]:
    marks = ((0, 0), (3, 1), (4, 0), (4, 1), (8, 0))
    return [
        Plan("plain", r.name, "a few steps from a given state"),
        Plan("no-initial-state", r.name, "the state at the start is the empty one", initial=False),
        Plan("one-step", r.name, "T = 1", {"T": 1}),
        Plan("one-step-alone", r.name, "T = 1 from the empty state", {"T": 1}, initial=False),
        Plan("one-sequence", r.name, "B = 1, five heads or units", {"B": 1, "H": 5, "D": 5}),
        Plan("resets", r.name, "resets at the first step, side by side, at the last", {"T": 9}, marks=marks),
        *(
            Plan(f"length-{T}", r.name, "about a chunk's border; little is forgotten", {**_TINY, "T": T}, r.slow)
            for T in (64, 65, 129)
        ),
        Plan("resets-129", r.name, "resets at a chunk's border and beside it", {**_TINY, "T": 129}, r.slow,
             marks=((63, 0), (64, 0), (100, 0))),
        Plan("strong-decay", r.name, "1/decay overflows within a chunk", {**_TINY, "T": 70}, r.strong, initial=False),
    ]  # fmt: skip


def _delta(name: str) -> list[Plan]:
    still = {"g": (0.0, 0.0)}
    return [
        Plan("reflections", name, "beta = 2, no decay: Householder reflections", {}, {**still, "beta": (2.0, 2.0)}),
        Plan("projections", name, "beta = 1, no decay: what a key held is replaced", {}, {**still, "beta": (1.0, 1.0)}),
        Plan("beta-to-2", name, "negative eigenvalues", {}, {"beta": (0.5, 2.0)}),
        Plan("unnormalised", name, "keys and queries as they are", {}, {"k": (-0.5, 0.5)}, {"normalise": False}),
    ]


_OWN = [
    *(plan for name in ("gated_delta_rule", "delta_product", "kda") for plan in _delta(name)),
    Plan("writes-1", "delta_product", "one write: the gated delta rule", {"N": 1}),
    Plan("writes-4", "delta_product", "more writes than a key has channels", {"N": 4}),
    Plan("mixed-decay", "kda", "channels that keep beside others", {**_TINY, "T": 70}, {"g": (-40.0, 0.0)}),
    Plan("projections", "rwkv7", "a = 1, no decay", {}, {"a": (1.0, 1.0), "w": (0.0, 0.0)}),
    Plan("unnormalised", "rwkv7", "removal keys as they are", {}, {"kappa": (-0.5, 0.5)}, {"normalise": False}),
    Plan("gamma-computed", "lru", "gamma made of lambda", options={"gamma": "computed"}, without="gamma_log"),
    Plan("gamma-computed-slow", "lru", "the same, near the unit circle", {"T": 65}, {"nu_log": (-6.0, -4.0)},
         {"gamma": "computed"}, without="gamma_log"),
    Plan("identity", "mingru", "the content as it is", options={"activation": "identity"}),
    Plan("saturated", "mingru", "gates at both ends", {"T": 20}, {"a": (-40.0, 40.0)}),
    *(
        plan
        for name, i, f in (("mlstm", "i", "f"), ("slstm", "x_i", "x_f"))
        for plan in (
            Plan("forget-exp", name, "an exponential forget gate", {}, {f: (-2.0, 0.5)}, {"forget": "exp"}),
            Plan("large-gates", name, "input gates from exp(-60) to exp(60)", {"T": 10}, {i: (-60.0, 60.0)}),
        )
    ),
    Plan("floor", "mlstm", "small keys: the denominator is exp(-m)", {}, {"k": (-0.1, 0.1), "n0": (-0.1, 0.1)}),
    Plan("eps", "mlstm", "1e-6 in the denominator, as in public code", options={"eps": 1e-6}),
]  # fmt: skip


def linear_cases() -> Iterator[Spec]:
    """Kind linear."""
    for r in RECURRENCES.values():
        for plan in (*_common(r), *(own for own in _OWN if own.recurrence == r.name)):
            yield plan.spec()
