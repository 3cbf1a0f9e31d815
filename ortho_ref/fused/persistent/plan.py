"""How a recurrence is laid over a device's multiprocessors: one function of its sizes and the device's limits.

    "own"       a block has all n units of some rows of the batch; its weights lie in shared memory
    "L2"        the same where they do not fit there, as long as L2 gives them in the time of the other's barriers
    "spread"    a block has some units of all rows, and barriers of the grid, one or two a step, stand in between

No more blocks than multiprocessors, so that all of them are on the device at once; rows that are left are done after.
"""

from dataclasses import dataclass, replace

FORMS = ("own", "L2", "spread")
#: Numbers that a product reads from shared memory at once; the sums are padded to a multiple.
FOUR = 4
#: Rows that a thread makes one output of at once, where a block has more than one.
TILE = 4
#: Numbers of a sum that a thread makes, where there are threads for it.
_SUMMED = 16
_WARP, _MOST_THREADS = 32, 512
#: Bytes of weights that a block reads from L2 in the time that a step takes where units are spread, for a batch of 32
#: rows or fewer; so many times more for more rows, since a spread block has all of them.  Of an H200 (docs/gpu.md).
THROUGH_L2, _ROWS_OF_IT = 280_000, 32


@dataclass(frozen=True)
class Limits:
    """Of a device: multiprocessors, which are blocks that are there at once, and a block's bytes of shared memory."""

    blocks: int
    shared: int


@dataclass(frozen=True)
class Plan:
    """What is launched, and the sizes that a kernel is told."""

    blocks: int
    threads: int
    shared: int  # bytes
    rows: int  # of the batch, at a time, in a block
    units: int  # a block's; n unless they are spread
    tile: int  # rows of which a thread makes one output at once; rows is a multiple
    partial: int  # numbers of shared memory for the parts of sums
    own: bool  # whether a block's weights lie in shared memory
    spread: bool  # whether units are spread over the blocks


def padded(n: int) -> int:
    """n as a multiple of `FOUR`."""
    return -(-n // FOUR) * FOUR


def plan(
    batch: int,
    n: int,
    itemsize: int,
    slots: int,
    products: tuple[tuple[int, int], ...],
    limits: Limits,
    together: int = 1,
    form: str | None = None,
) -> Plan:
    """The plan of a recurrence, with as many rows to a block as are wanted, or as fit.

    slots: vectors (n,) of a row that products read and that are kept at once.  products: of each in a step, the slots
    that it sums over and the gates that it makes.  together: so many units, side by side, stay in a block.  form: of
    `FORMS`, else the first that fits.  ValueError for an n that no form takes, or not the one that is asked for.
    """
    each_unit = sum(summed * gates for summed, gates in products) * padded(n) * itemsize
    gates_at_once = max(gates for _, gates in products)

    def block(rows: int, units: int, own: bool) -> Plan | None:
        """A block of so many rows, or None where it is too large."""
        tile = 1 if rows == 1 else TILE
        tiles = -(-rows // tile)
        rows, outputs = tiles * tile, gates_at_once * units
        work = max(-(-summed * padded(n) // _SUMMED) * gates * units * tiles for summed, gates in products)
        threads = min(_MOST_THREADS, -(-max(work, rows * units) // _WARP) * _WARP)
        partial = max(threads * tile, rows * outputs)
        shared = (rows * slots * padded(n) + partial) * itemsize + (each_unit * units if own else 0)
        if rows * units > threads or shared > limits.shared:
            return None
        return Plan(0, threads, shared, rows, units, tile, partial, own, False)

    def most_rows(wanted: int, units: int, own: bool) -> Plan | None:
        """The block with as many rows as are wanted, or as fit."""
        counts = [1] if wanted == 1 else [*range(-(-wanted // TILE) * TILE, 0, -TILE), 1]
        return next((found for rows in counts if (found := block(rows, units, own))), None)

    wanted = -(-batch // limits.blocks)
    through_l2 = THROUGH_L2 * max(1.0, batch / _ROWS_OF_IT)
    for own, chosen in (
        (True, form in (None, "own")),
        (False, form == "L2" or (not form and each_unit * n <= through_l2)),
    ):
        if chosen and (found := most_rows(wanted, n, own)):
            return replace(found, blocks=min(limits.blocks, -(-batch // found.rows)))
    units = -(-n // (together * limits.blocks)) * together
    spread = [found for own in (True, False) if (found := most_rows(batch, units, own))]
    if not spread or form not in (None, "spread"):
        raise ValueError(
            f"engine is 'persistent' with n = {n}: {form or 'a row of the batch'} does not fit the {limits.shared:,} "
            f"bytes of shared memory and the {_MOST_THREADS} threads of each of {limits.blocks} blocks; allowed for "
            "it: 'fused', 'scan'"
        )
    fewest = min(spread, key=lambda found: -(-batch // found.rows))  # of as many passes the one with its own weights
    return replace(fewest, blocks=-(-n // units), spread=True)
