"""Products of layers of planar rotations: EURNN in tunable and in FFT style, and VPRNN.

One rotation on coordinates (i, j), in place
    y_i = cos(t) x_i - sin(t) e^{ip} x_j
    y_j = sin(t) x_i + cos(t) e^{ip} x_j            p = 0 for a real U                      [goru:rot]
    dt = Re(dy_j^* y_i - dy_i^* y_j);  dx: the rotation by -t of dy                         [bp:rotation]
    of the phased x' = e^{ip} x_j:  dp = Im(dx' x'^*),  dx_j = e^{-ip} dx'                  [bp:phase/phi]
U = the layers applied to the columns of I, in order; complex: then diag(e^{iw})            [goru:rot/diagonal]
    dw = Im(dU * U^*) summed over columns                                                   [bp:phase/omega]

The layers and their pairs
    tunable, L layers A, B, A, B ...: A pairs (0, 1), (2, 3) ...; B pairs (1, 2), (3, 4) ... [goru:tunable]
    FFT, layer i = 0 .. log2(n) - 1: pairs (q, q + s), s = n / 2^(i+1), bit s of q clear     [goru:fft]
        angle of the pair: column (q mod 2s) 2^i + floor(q / 2s) of row i
    volume preserving, layer j = k, k-1 .. 1: y = x[permutation j], then pairs (i, i + n/2)  [sgornn:2]
        dx[permutation] = dy                                                                 [bp:perm]

The phase multiplies the lower input, as in EURNN's code; the EUNN paper has it on the first row.  Going back, the
inputs of a layer are its outputs rotated by -t, so that nothing but U is kept.  Real rotations have determinant +1; the
FFT style does not reach every rotation (E-goru-04), the tunable style with L = n layers does.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ortho_ref.backend import Array, complex_dtype, xp_of
from ortho_ref.boundary import check_number, check_switch, is_integer
from ortho_ref.initial import uniform
from ortho_ref.parametrizations.parametrization import (
    Buffers,
    Parametrization,
    Params,
    check_draw,
    check_parameter,
)


class Layer(NamedTuple):
    """One layer. Both functions return views, so that what is written to them stays."""

    pairs: Callable[[Array], tuple[Array, Array]]  # M (n, columns) -> its upper rows and its lower rows, shapes alike
    # (parameters or gradients, "theta" or "phi") -> the layer's own, shaped as the pairs without columns
    angles: Callable[[Params, str], Array]
    permutation: Array | None = None  # (n,): row i is taken from row permutation[i] first; None: no permutation


def rotate(upper: Array, lower: Array, theta: Array) -> None:
    """Rotate pairs of rows (..., columns) in place, by an angle theta (...) for each pair."""
    xp = xp_of(upper, lower, theta)
    c, s = xp.cos(theta)[..., None], xp.sin(theta)[..., None]
    turned = c * upper - s * lower  # [goru:rot]
    lower[...] = s * upper + c * lower  # [goru:rot]
    upper[...] = turned


def phase(angle: Array) -> Array:
    """e^{i angle} (..., 1), to multiply rows by."""
    xp = xp_of(angle)
    return (xp.cos(angle) + 1j * xp.sin(angle))[..., None]


@dataclass(frozen=True)
class Rotations(Parametrization):
    """What the styles share. Parameters: angles, and for a complex U phases and the final diagonal omega (n,).

    Attributes
    ----------
    limit : float
        Angles are drawn from +- this.
    """

    @abstractmethod
    def _shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        """Parameter -> shape.  ValueError if n does not suit the style."""

    @abstractmethod
    def _layers(self, n: int, buffers: Buffers) -> Iterator[Layer]:
        """The layers in the order in which they act."""

    limit: ClassVar[float] = math.pi

    def init(self, rng: np.random.Generator, n: int, *, dtype: DTypeLike = np.float32) -> tuple[Params, Buffers]:
        """Every angle uniform on +-pi (VPRNN: +-0.05).  ValueError if n does not suit the style."""
        rng, dtype = check_draw(rng, n, dtype)
        shapes = self._shapes(n)
        children = rng.spawn(1 + len(shapes))
        params = {
            name: uniform(self.limit)(child, shape, dtype)
            for (name, shape), child in zip(shapes.items(), children[1:], strict=True)
        }
        buffers = {"U": np.empty((n, n), dtype), **self._constants(children[0], n)}
        return params, self.rebuild(params, buffers)

    def _constants(self, rng: np.random.Generator, n: int) -> Buffers:
        return {}

    def rebuild(self, params: Params, buffers: Buffers) -> Buffers:
        """U from the angles.  ValueError for wrong shapes and for angles that are not finite."""
        n = buffers["U"].shape[0]
        for name, shape in self._shapes(n).items():
            check_parameter(name, params[name], shape)
        own = next(iter(params.values()))
        U = xp_of(own).eye(n, dtype=complex_dtype(own.dtype) if self.complex else own.dtype)
        for layer in self._layers(n, buffers):
            if layer.permutation is not None:
                U = U[layer.permutation]  # [sgornn:2]
            upper, lower = layer.pairs(U)
            if self.complex:
                lower *= phase(layer.angles(params, "phi"))  # [goru:rot]
            rotate(upper, lower, layer.angles(params, "theta"))  # [goru:rot]
        if self.complex:
            U = phase(params["omega"]) * U  # [goru:rot/diagonal]
        return {**buffers, "U": U}

    def pullback(self, params: Params, buffers: Buffers, dU: Array) -> Params:
        """dL/dU -> the gradient of every angle; the layers are walked backwards, their inputs recomputed."""
        xp = xp_of(dU, *params.values())
        gradients = {name: xp.zeros_like(value) for name, value in params.items()}
        y, dy = xp.array(buffers["U"], order="C"), xp.array(dU, order="C")
        if self.complex:
            gradients["omega"][...] = (dy * y.conj()).imag.sum(axis=1)  # [bp:phase/omega]
            y, dy = phase(-params["omega"]) * y, phase(-params["omega"]) * dy  # [bp:phase/omega]
        for layer in reversed(list(self._layers(len(y), buffers))):
            (y_i, y_j), (dy_i, dy_j) = layer.pairs(y), layer.pairs(dy)
            theta = layer.angles(params, "theta")
            layer.angles(gradients, "theta")[...] = (dy_j.conj() * y_i - dy_i.conj() * y_j).real.sum(
                axis=-1
            )  # [bp:rotation]
            rotate(y_i, y_j, -theta)  # [bp:rotation]
            rotate(dy_i, dy_j, -theta)  # [bp:rotation]
            if self.complex:
                phi = layer.angles(params, "phi")
                layer.angles(gradients, "phi")[...] = (dy_j * y_j.conj()).imag.sum(axis=-1)  # [bp:phase/phi]
                y_j *= phase(-phi)  # [bp:phase/phi]
                dy_j *= phase(-phi)  # [bp:phase/phi]
            if layer.permutation is not None:
                y, dy = _put(y, layer.permutation), _put(dy, layer.permutation)  # [bp:perm]
        return gradients

    def planar(self, n: int, buffers: Buffers) -> tuple[Array, Array, Array, Array]:
        """U as rotations of two real rows each, on the host, in the order in which they act.

        Returns
        -------
        upper, lower : Array (K,)
            The rows; of a complex vector row 2 i has Re x_i and row 2 i + 1 has Im x_i.
        angle : Array (K,)
            Where in all parameters, one behind the other, the angle is.
        rows : Array (n,), complex (2 n,)
            Where each row of U x is at the end; a permutation moves none.
        """
        where, start, steps = {}, 0, []
        for name, shape in self._shapes(n).items():
            where[name] = start + np.arange(math.prod(shape)).reshape(shape)
            start += where[name].size
        rows = np.arange(n)[:, None]
        for layer in self._layers(n, buffers):
            rows = rows if layer.permutation is None else rows[layer.permutation]  # [sgornn:2]
            upper, lower = layer.pairs(rows)
            turn = layer.angles(where, "theta")
            if self.complex:
                steps.append((2 * lower, 2 * lower + 1, layer.angles(where, "phi")))  # [goru:rot]
                steps += [(2 * upper + part, 2 * lower + part, turn) for part in (0, 1)]  # [goru:rot]
            else:
                steps.append((upper, lower, turn))  # [goru:rot]
        if self.complex:
            steps.append((2 * rows, 2 * rows + 1, where["omega"]))  # [goru:rot/diagonal]
            rows = 2 * rows + np.arange(2)
        upper, lower, angle = (np.concatenate([step[part].ravel() for step in steps]) for part in range(3))
        return upper, lower, angle, rows.ravel()

    def count(self, n: int) -> int:
        """The number of angles, phases and diagonal entries."""
        return sum(math.prod(shape) for shape in self._shapes(n).values())


def _put(rows: Array, permutation: Array) -> Array:
    put = xp_of(rows).empty_like(rows)
    put[permutation] = rows  # [bp:perm]
    return put


@dataclass(frozen=True)
class TunableRotations(Rotations):
    """EURNN, tunable style. n even. Parameters theta_A (L/2, n/2), theta_B (L/2, n/2 - 1).

    Parameters
    ----------
    capacity : int
        L, the number of layers, even, at most n; 2 unless given.
    complex : bool
        With phases phi_A, phi_B and the diagonal omega (n,).

    Raises
    ------
    ValueError
        The capacity is not an even number >= 2.

    References
    ----------
    [goru:tunable], docs/equations.md.
    """

    capacity: int = 2
    complex: bool = False

    def __post_init__(self) -> None:
        check_switch("complex", self.complex)
        even = "an even number from 2 to n"
        check_number("capacity", self.capacity, lambda L: is_integer(L) and L >= 2 and L % 2 == 0, even)

    def _shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        if n % 2:
            raise ValueError(f"n is {n}; allowed for rotations in tunable style: an even number")
        if self.capacity > n:
            raise ValueError(f"capacity is {self.capacity}; allowed: an even number from 2 to n = {n}")
        half = self.capacity // 2
        kinds = ("theta", "phi") if self.complex else ("theta",)
        shapes: dict[str, tuple[int, ...]] = {}
        for kind in kinds:
            shapes |= {f"{kind}_A": (half, n // 2), f"{kind}_B": (half, n // 2 - 1)}
        return shapes | ({"omega": (n,)} if self.complex else {})

    def _layers(self, n: int, buffers: Buffers) -> Iterator[Layer]:
        for k in range(self.capacity // 2):
            for style, first in (("A", 0), ("B", 1)):
                yield self._layer(style, first, n - first, k)

    @staticmethod
    def _layer(style: str, first: int, stop: int, k: int) -> Layer:
        def pairs(M: Array) -> tuple[Array, Array]:
            return M[first:stop:2], M[first + 1 : stop : 2]  # [goru:tunable]

        def angles(own: Params, kind: str) -> Array:
            return own[f"{kind}_{style}"][k]

        return Layer(pairs, angles)


@dataclass(frozen=True)
class FFTRotations(Rotations):
    """EURNN, FFT style. n a power of two. Parameter theta (log2(n), n/2).

    Parameters
    ----------
    complex : bool
        With phases phi (log2(n), n/2) and the diagonal omega (n,).

    References
    ----------
    [goru:fft], docs/equations.md.
    """

    complex: bool = False

    def __post_init__(self) -> None:
        check_switch("complex", self.complex)

    def _shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        if n < 2 or n & (n - 1):
            raise ValueError(f"n is {n}; allowed for rotations in FFT style: a power of two, at least 2")
        shape = (n.bit_length() - 1, n // 2)
        return {"theta": shape} | ({"phi": shape, "omega": (n,)} if self.complex else {})

    def _layers(self, n: int, buffers: Buffers) -> Iterator[Layer]:
        for i in range(n.bit_length() - 1):
            yield self._layer(i, n >> (i + 1))

    @staticmethod
    def _layer(i: int, s: int) -> Layer:
        def pairs(M: Array) -> tuple[Array, Array]:
            blocks = M.reshape(-1, 2, s, M.shape[1])
            return blocks[:, 0], blocks[:, 1]  # [goru:fft]

        def angles(own: Params, kind: str) -> Array:
            return own[kind][i].reshape(s, -1).T  # block k, offset r: column r 2^i + k  [goru:fft]

        return Layer(pairs, angles)


@dataclass(frozen=True)
class VolumePreserving(Rotations):
    """VPRNN's product of permutations and paired rotations. n even. Parameter Theta (n/2, k).

    The permutations (k, n) are drawn with the first angles and never trained.

    Parameters
    ----------
    sublayers : int or None
        k; None for 2 ceil(log2 n).

    Raises
    ------
    ValueError
        sublayers is neither an integer >= 1 nor None.

    References
    ----------
    [sgornn:2], docs/equations.md. The printed Theta has the input size for n (E-sgornn-05).
    """

    sublayers: int | None = None

    limit: ClassVar[float] = 0.05

    def __post_init__(self) -> None:
        if self.sublayers is not None:
            check_number("sublayers", self.sublayers, lambda k: is_integer(k) and k >= 1, "an integer >= 1, or None")

    def _shapes(self, n: int) -> dict[str, tuple[int, ...]]:
        if n % 2:
            raise ValueError(f"n is {n}; allowed for volume-preserving rotations: an even number")
        return {"Theta": (n // 2, self.sublayers or 2 * (n - 1).bit_length())}

    def _constants(self, rng: np.random.Generator, n: int) -> Buffers:
        k = self._shapes(n)["Theta"][1]
        return {"permutations": np.stack([rng.permutation(n) for _ in range(k)])}

    def _layers(self, n: int, buffers: Buffers) -> Iterator[Layer]:
        shape = (self._shapes(n)["Theta"][1], n)
        if buffers["permutations"].shape != shape:
            raise ValueError(f"permutations have the shape {buffers['permutations'].shape}; expected {shape}")
        for j in reversed(range(shape[0])):
            yield self._layer(n // 2, j, buffers["permutations"][j])

    @staticmethod
    def _layer(half: int, j: int, permutation: Array) -> Layer:
        def pairs(M: Array) -> tuple[Array, Array]:
            return M[:half], M[half:]  # [sgornn:2]

        def angles(own: Params, kind: str) -> Array:
            return own["Theta"][:, j]

        return Layer(pairs, angles, permutation)
