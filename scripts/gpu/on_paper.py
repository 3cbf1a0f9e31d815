"""What the persistent kernels of NC-GRU cost on paper, on an H100 (SXM): python -m scripts.gpu.on_paper

Nothing here is measured.  A step of a block takes, for each product, the longest of reading its weights and its vectors
from shared memory (or L2) and multiplying, and what no bandwidth hides: barriers, exp, a sum of parts.
"""

from typing import NamedTuple

from ortho_ref.fused.persistent.plan import FOUR, Limits, Plan, padded, plan
from scripts.program import give, run
from scripts.timing.steps import SIZES, Size

#: Assumed, from NVIDIA's data sheet: SMs, cycles a second (67 TFLOP/s, 128 FMAs each), bytes a second of HBM.
SMS, CLOCK, HBM = 132, 1.98e9, 3.35e12
#: Assumed, from its architecture: bytes that a multiprocessor reads a cycle from shared memory, at most from L2; FMAs.
SHARED, L2, FMAS = 128, 64, 128
#: Assumed, from others' measurements: bytes a second that L2 gives all of them; seconds of a barrier of the grid; those
#: of a product's part of a step that nothing hides: two barriers of the block, exp, a division, the sum of parts.
L2_OF_ALL, GRID_BARRIER, LATENCY = 5.5e12, 1.5e-6, 0.15e-6
LIMITS = Limits(SMS, 232_448)
_REAL = 4


class Way(NamedTuple):
    """A pass of NC-GRU.

    slots: vectors of a row kept at once.  products: (slots summed, gates) of each.  grid_barriers: a step, where units
    are spread.  streamed: numbers of a unit that a step reads and writes in HBM.  exchanged: vectors that other blocks
    read.
    """

    slots: int
    products: tuple[tuple[int, int], ...]
    grid_barriers: int
    streamed: int
    exchanged: int


FORWARD, BACKWARD = Way(1, ((1, 2), (1, 1)), 2, 7, 2), Way(2, ((2, 1), (1, 1)), 2, 9, 3)


class Step(NamedTuple):
    """Seconds of a step: of shared memory, L2, arithmetic, HBM, latency, and all together."""

    shared: float
    L2: float
    arithmetic: float
    HBM: float
    latency: float
    expected: float


def planned(size: Size, way: Way) -> Plan:
    """How NC-GRU in float32 is laid over an H100."""
    return plan(size.batch, size.hidden, _REAL, way.slots, way.products, LIMITS)


def flops(size: Size, way: Way) -> int:
    """Of the products of one step of all sequences; a multiplication and an addition are two."""
    return 2 * size.batch * size.hidden**2 * sum(summed * gates for summed, gates in way.products)


def streamed(size: Size, way: Way) -> int:
    """Bytes that one step of all sequences reads from HBM and writes to it."""
    return way.streamed * size.batch * size.hidden * _REAL


def step(size: Size, way: Way) -> Step:
    """Of one time step of all sequences, by the block that has most to do; of as many passes as there are."""
    own, n = planned(size, way), size.hidden
    shared = l2 = arithmetic = together = 0.0
    of_L2 = min(L2 * CLOCK, L2_OF_ALL / own.blocks)
    for summed, gates in way.products:
        depth, outputs, tiles = summed * padded(n), gates * own.units, own.rows // own.tile
        weights, vectors = depth * outputs * tiles * _REAL, outputs / 32 * depth / FOUR * own.rows
        each = ((weights / SHARED if own.own else 0) + vectors) / CLOCK, 0 if own.own else weights / of_L2
        multiplied = depth * outputs * own.rows / FMAS / CLOCK
        shared, l2, arithmetic = shared + each[0], l2 + each[1], arithmetic + multiplied
        together += max(*each, multiplied)
    if own.spread:
        gathered = way.exchanged * own.rows * n * _REAL / of_L2
        l2, together = l2 + gathered, together + gathered
    latency = LATENCY * len(way.products) + (GRID_BARRIER * way.grid_barriers if own.spread else 0)
    of_HBM = streamed(size, way) / HBM
    at_once = own.rows if own.spread else own.rows * own.blocks
    passes = -(-size.batch // at_once)
    shared, l2, arithmetic, latency = (passes * seconds for seconds in (shared, l2, arithmetic, latency))
    return Step(shared, l2, arithmetic, of_HBM, latency, max(passes * together + latency, of_HBM))


def rows() -> list[str]:
    """The table that docs/gpu.md has."""
    lines = [
        "| size | B, T, n | way | form, blocks | MFLOP | KB | shared | L2 | FMA | HBM | latency | us a step | "
        "ms, all steps | measured |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, size in SIZES.items():
        for which, way in (("forward", FORWARD), ("backward", BACKWARD)):
            own, took = planned(size, way), step(size, way)
            form = "spread" if own.spread else "own" if own.own else "L2"
            of_step = " | ".join(f"{1e6 * value:.2f}" for value in took)
            work = f"{1e-6 * flops(size, way):.2f} | {1e-3 * streamed(size, way):.0f}"
            lines.append(
                f"| {name} | {size.batch}, {size.length}, {size.hidden} | {which} | {form}, {own.blocks} | {work} | "
                f"{of_step} | {1e3 * size.length * took.expected:.2f} | |"
            )
    return lines


def main() -> None:
    """Print the table."""
    give("\n".join(rows()))


if __name__ == "__main__":
    run(main)
