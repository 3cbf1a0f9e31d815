"""What can be seen of any map without knowing which it is: what of Q it reads, signs, determinants, batches, blocks."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from ortho_ref.backend import Array
from ortho_ref.conformance.maps.adapter import Map, Precision, Refusal
from ortho_ref.conformance.maps.inputs import any_matrix, defect, skew_matrix, standard

SIZES = (2, 3, 4, 5, 8, 16, 19, 32, 37, 64, 97)
_AGAIN = 8  # times that it has to give the same


class Domain(NamedTuple):
    """What a map can be given."""

    needs_skew: bool  # U is orthogonal, or there is any, for skew Q alone
    why: str  # how that was seen, in words; "" of a map of any matrix
    make: Callable[..., Array]  # (rng, n, ||Q||_2, complex) -> a Q for it
    refuses: bool = False  # it refuses any other Q, and does not make of it what is not orthogonal


class Determinant(Struct, frozen=True, forbid_unknown_fields=True):
    """Of U for one n."""

    signs: tuple[float, ...] = ()  # those that occurred: 1, -1, or 0 for a singular U
    least: float = 0.0
    largest: float = 0.0  # |det U|, the least and the largest of all draws
    refused: str = ""  # why there is none; "" where there is


class Seen(Struct, frozen=True, forbid_unknown_fields=True):
    """What was seen."""

    reads: str  # what of Q has a part in U
    scale_free: bool  # the scale of Q has none
    at_zero: str  # map(0), in words; "" where it is not defined
    first_order: str  # what a small skew Q gives, in words; "" where that is no multiple of Q
    symmetries: tuple[str, ...]  # what transposing Q, and changing its sign, does to U
    determinants: dict[str, Determinant]  # n -> what is known of det U
    batch: str  # of Q (3, n, n)
    blocks: str  # of a block-diagonal Q
    keeps_state: bool  # the same Q gave another U the second time
    single: float | None  # how far U of a Q in float32 is from that in float64; None where there is none


def domain_of(map: Map, of_complex: bool = False) -> Domain:
    """What a map can be given, found by asking; the map learns whether it takes batches alone.

    Refusal where it takes neither a matrix, nor a batch of one, nor a skew one.
    """
    rng = np.random.default_rng(1)
    plain, skew = any_matrix(rng, 4, 0.5, of_complex), skew_matrix(rng, 4, 0.5, of_complex)
    try:
        map(plain)
    except Refusal as refused:
        if map.or_none(skew) is None:
            before, map.batched = map.batched, True  # from now on, where it takes a batch of one
            if map.or_none(plain) is None and map.or_none(skew) is None:
                map.batched = before
                raise refused from None
        if map.or_none(plain) is None:
            return Domain(True, f"any other is refused: {refused}", skew_matrix, refuses=True)
    wide, narrow = _defect(map, 0.1 * plain), _defect(map, 0.1 * skew)
    if wide > 10 * narrow + 1e-6:
        return Domain(True, f"the defect is {wide:.1g} for any other of norm 0.05", skew_matrix)
    return Domain(False, "", any_matrix)


def _defect(map: Map, Q: Array) -> float:
    U = map.or_none(Q)
    return float("inf") if U is None else defect(U)


def observe(map: Map, domain: Domain, precision: Precision) -> Seen:
    """Everything that is seen of a map of real matrices."""
    alike = _Alike(map, 1e-6 if precision.name == "float64" else 20 * precision.eps)
    rng = np.random.default_rng(2)
    Q = domain.make(rng, 5, 0.7)
    scale_free = alike(Q, 2 * Q)
    zero, U = _value(map, np.zeros((5, 5))), _value(map, Q)
    return Seen(
        "" if domain.needs_skew else _reads(alike, Q, standard(rng, (5, 5))),
        scale_free,
        "" if scale_free or zero is None else _at_zero(zero, alike.tolerance),
        "" if scale_free or zero is None else _first_order(map, zero, precision),
        _symmetries(alike, Q, scale_free),
        {str(n): _determinant(map, domain, n) for n in SIZES},
        _batch(map, alike, domain),
        _blocks(map, alike, domain),
        any(not _same(U, _value(map, Q), 0.0) for _ in range(_AGAIN)),
        _single(map, Q),
    )


def _single(map: Map, Q: Array) -> float | None:
    U, V = _value(map, Q), _value(map, Q.astype(np.float32))
    return None if U is None or V is None else float(abs(V - U).max())


class _Alike:
    """Whether two inputs give the same output, as far as the precision tells."""

    def __init__(self, map: Map, tolerance: float) -> None:
        self.map, self.tolerance = map, tolerance

    def __call__(self, Q: Array, other: Array) -> bool:
        return self.equal(_value(self.map, Q), _value(self.map, other))

    def equal(self, U: Array | None, V: Array | None) -> bool:
        """Of outputs, of which there may be none."""
        return U is not None and V is not None and _same(U, V, self.tolerance)


def _value(map: Map, Q: Array) -> Array | None:
    """U in float64, if there is a finite one."""
    U = map.or_none(Q)
    return None if U is None or not np.isfinite(U).all() else U.astype(np.float64)


def _same(U: Array | None, V: Array | None, tolerance: float) -> bool:
    if U is None or V is None:
        return U is V
    U, V = U.astype(np.float64), V.astype(np.float64)
    return bool(abs(U - V).max() <= tolerance * max(1.0, float(abs(U).max())))


def _reads(alike: _Alike, Q: Array, other: Array) -> str:
    """What of Q has a part in U, by what may be changed without U changing."""
    if alike(Q, Q + other + other.T):
        return "the skew part of Q alone"
    for triangle, words in ((np.tril, "lower"), (np.triu, "upper")):
        if alike(Q, triangle(Q) + other - triangle(other)):
            strictly = alike(Q, Q + np.diag(np.diag(other)))
            return f"the {'strictly ' if strictly else ''}{words} triangle of Q alone"
    if alike(Q, Q + np.diag(np.diag(other))):
        return "all of Q but its diagonal"
    return "all of Q"


def _at_zero(zero: Array, tolerance: float) -> str:
    n = len(zero)
    if _same(zero, np.eye(n), tolerance):
        return "map(0) = I"
    if _same(zero, np.zeros((n, n)), tolerance):
        return "map(0) = 0"
    diagonal = np.diag(zero)
    if _same(zero, np.diag(np.sign(diagonal)), tolerance):
        signs = ", ".join(f"{sign:+.0f}" for sign in diagonal)
        return f"map(0) = diag({signs}) for n = {n}"
    return f"map(0) is a matrix with defect {defect(zero):.1g}, not I"


def _first_order(map: Map, zero: Array, precision: Precision) -> str:
    """The sign and the factor: how a small skew Q turns."""
    n, h = len(zero), float(precision.eps ** (1 / 3))
    E = skew_matrix(np.random.default_rng(3), n, 1.0)
    before, after = _value(map, -h * E), _value(map, h * E)
    if before is None or after is None or defect(zero) > 0.1:
        return ""
    slope = zero.T @ (after - before) / (2 * h)
    factor = float((slope * E).sum() / (E * E).sum())
    if abs(slope - factor * E).max() > max(1e-3, 10 * h) or abs(factor) < 1e-3:
        return ""
    short = f"{abs(factor):.3g}"
    own = f"I {'+' if factor > 0 else '-'} {'' if short == '1' else short + ' '}Q"
    return f"a small skew Q gives {own if _same(zero, np.eye(n), 1e-6) else f'map(0) ({own})'}"


def _symmetries(alike: _Alike, Q: Array, scale_free: bool) -> tuple[str, ...]:
    U, V, W = (_value(alike.map, own) for own in (Q, Q.T.copy(), -Q))
    if U is None:
        return ()
    holds = {
        "Q^T gives U^T": alike.equal(V, U.T),
        "-Q gives U^T": alike.equal(W, U.T) and not alike.equal(V, W),
        "-Q gives -U": scale_free and alike.equal(W, -U),
    }
    return tuple(words for words, seen in holds.items() if seen)


def _determinant(map: Map, domain: Domain, n: int) -> Determinant:
    rng, signs, sizes = np.random.default_rng(n), set(), []
    for _ in range(6 if n <= 16 else 2):
        try:
            U = map(domain.make(rng, n, 0.5))
        except Refusal as refused:
            return Determinant(refused=str(refused))
        if not np.isfinite(U).all():
            return Determinant(refused="not finite")
        sign, logarithm = np.linalg.slogdet(U.astype(np.float64))
        signs.add(float(sign))
        sizes.append(float(np.exp(logarithm)))
    return Determinant(tuple(sorted(signs)), min(sizes), max(sizes))


def _batch(map: Map, alike: _Alike, domain: Domain) -> str:
    """Several matrices at once, in every way that they may have to do with each other."""
    rng = np.random.default_rng(4)
    Q = np.stack([domain.make(rng, 4, size) for size in (0.2, 0.7, 1.5)])
    try:
        U = map(Q)
        each = [map(own) for own in Q]
        dU = standard(rng, Q.shape)
        together = map.pullback(Q, dU)
        alone = None if together is None else [map.pullback(*pair) for pair in zip(Q, dU, strict=True)]
    except Refusal as refused:
        return f"refused: {refused}"
    if not all(alike.equal(a, b) for a, b in zip(U, each, strict=True)):
        return "each U is another than that of its Q alone"
    if together is not None and alone is not None:
        equal = all(b is not None and alike.equal(a, b) for a, b in zip(together, alone, strict=True))
        return "as each alone, the gradient too" if equal else "as each alone, but the gradient of each is another"
    return "as each alone"


def _blocks(map: Map, alike: _Alike, domain: Domain) -> str:
    """A Q of two blocks."""
    rng = np.random.default_rng(5)
    first, second = domain.make(rng, 3, 0.3), domain.make(rng, 4, 1.2)
    Q = np.zeros((7, 7))
    Q[:3, :3], Q[3:, 3:] = first, second
    U = _value(map, Q)
    if U is None:
        return "refused, or not finite"
    if abs(U[:3, 3:]).max() > alike.tolerance or abs(U[3:, :3]).max() > alike.tolerance:
        return "U is not block-diagonal"
    one, other = _value(map, first), _value(map, second)
    if alike.equal(U[:3, :3], one) and alike.equal(U[3:, 3:], other):
        return "block-diagonal U, each block as alone"
    return "block-diagonal U, whose blocks are not those of each alone"
