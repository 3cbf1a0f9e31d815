"""An orthogonal map from outside: which closed form it is, how orthogonal, whether its gradient is right."""

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

from ortho_ref.conformance import check_map
from ortho_ref.conformance.__main__ import main
from ortho_ref.parametrizations import Householder, ScaledCayley


def eye(Q):
    return np.eye(Q.shape[-1], dtype=Q.dtype)


def H(M):
    return M.conj().swapaxes(-1, -2)


def skew(M):
    return M - H(M)


def cayley(A):
    return np.linalg.solve(eye(A) + A, eye(A) - A)


def cayley_pullback(Q, dU):
    U = cayley(Q)
    V = np.linalg.solve(H(eye(Q) + Q), dU)
    return -V - V @ H(U)


def series(A, coefficients):
    """sum c_j A^j."""
    U, power = np.zeros_like(A), eye(A)
    for c in coefficients:
        U, power = U + c * power, power @ A
    return U


def newton_schulz(X, steps, a, b, c):
    for _ in range(steps):
        gram = X @ H(X)
        X = a * X + (b * gram + c * gram @ gram) @ X
    return X


def frobenius(X):
    return X / np.linalg.norm(X, axis=(-2, -1), keepdims=True)


def polar(X):
    W, _, V = np.linalg.svd(X)
    return W @ V


def positive_qr(X):
    U, R = np.linalg.qr(X)
    d = np.diagonal(R, axis1=-2, axis2=-1)
    return U * (d / abs(d))[..., None, :]


def reflections(V):
    """H_1 ... H_m, written as products of matrices."""
    U = np.eye(len(V))
    for v in V.T:
        U = U @ (np.eye(len(V)) - 2 * np.outer(v, v) / (v @ v))
    return U


def peft(A, terms):
    """PEFT's _cayley_batch, num_cayley_neumann_terms >= 3, by its formula."""
    powers = [2.0] * max(terms - 1, 3)
    return series(A, [1.0, *powers[1:], 1.0])


MUON, CUBIC = (3.4445, -4.7750, 2.0315), (1.5, -0.5, 0.0)
# A map, and what the first line says of it.
FORMS = {
    "scoRNN": (cayley, "Cayley, as in scoRNN: (I + A)^-1 (I - A), A = Q;"),
    "inverse": (lambda Q: cayley(-Q), "inverse Cayley (the transposed of scoRNN's): (I - A)^-1 (I + A), A = Q;"),
    "half": (lambda Q: cayley(-skew(np.tril(Q, -1)) / 2), "half-angle Cayley, as in PyTorch and geotorch: "),
    "half inverse": (lambda Q: cayley(skew(np.triu(Q, 1)) / 2), "A = R - R^H, R = triu(Q, 1);"),
    "skew part": (lambda Q: scipy.linalg.expm(skew(Q) / 2), "exponential: exp(A), A = (Q - Q^H)/2;"),
    "exponential": (scipy.linalg.expm, "exponential: exp(A), A = Q;"),
    "exponential of -Q": (lambda Q: scipy.linalg.expm(-Q), "exponential, inverse (transposed): exp(-A), A = Q;"),
    "exponential, 6 terms": (
        lambda Q: series(Q, [1 / math.factorial(j) for j in range(6)]),
        "the Taylor series of exp(A) with 6 terms",
    ),
    "PEFT": (lambda Q: peft(skew(np.triu(Q, 1)), 5), "series with 4 terms (PEFT's num_cayley_neumann_terms = 5)"),
    "PEFT, 4": (lambda Q: peft(skew(np.triu(Q, 1)), 4), "(PEFT's num_cayley_neumann_terms = 3 or 4)"),
    "Neumann": (lambda Q: series(-Q, [1, 2, 2, 2]), "I + 2 (M + ... + M^3), M = -A"),
    "Cayley times D": (
        lambda Q: cayley(skew(Q) / 2) * np.array([*[1.0] * (len(Q) - 1), -1.0]),
        "times map(0) on the right",
    ),
    "Newton-Schulz, cubic": (
        lambda Q: newton_schulz(frobenius(Q), 7, *CUBIC),
        "cubic, (3/2, -1/2), 7 steps, X_0 = Q / ||Q||_F",
    ),
    "Muon": (lambda Q: newton_schulz(frobenius(Q), 5, *MUON), "Muon's quintic, (3.4445, -4.7750, 2.0315), 5 steps"),
    "QR": (lambda Q: np.linalg.qr(Q)[0], "QR: signs as LAPACK leaves them"),
    "QR, positive": (positive_qr, "QR: signs of R's diagonal made positive"),
    "LQ": (lambda Q: H(np.linalg.qr(H(Q))[0]), "QR: signs as LAPACK leaves them, of Q^H, transposed"),
    "polar": (polar, "polar factor: W V^H"),
    "Householder": (
        lambda Q: Householder(len(Q)).rebuild({"V": np.tril(Q)}, {"U": Q})["U"],
        "Householder product: H_1 ... H_n, v_j column j of tril(Q), the last factor diag",
    ),
    "three reflections": (lambda Q: reflections(Q[:, :3]), "H_1 ... H_3, v_j column j of Q"),
    "free": (lambda Q: Q, "free matrix"),
}


def single(f):
    """Of one matrix at a time."""
    return lambda Q: f(Q) if Q.ndim == 2 else None


@pytest.mark.parametrize("name", FORMS)
def test_every_closed_form_is_recognised(name):
    """Of one matrix at a time, as most of them are written."""
    f, words = FORMS[name]
    with np.errstate(all="ignore"):
        report = check_map(single(f))
    assert words in report.found.fitting[0].words + ";"
    assert report.found.error < 1e-12
    assert words.rstrip(";") in " ".join(str(report).split())


NEARLY = {
    "1e-8 off": lambda Q: cayley(Q) + 1e-8,
    "an epsilon": lambda Q: np.linalg.solve((1 + 1e-6) * eye(Q) + Q, eye(Q) - Q),
    "one wrong step": lambda Q: newton_schulz(newton_schulz(frobenius(Q), 4, *MUON), 1, *CUBIC),
    "another coefficient": lambda Q: newton_schulz(frobenius(Q), 5, 3.4445, -4.7750, 2.0314),
    "another angle": lambda Q: cayley(0.3 * Q),
    "Pade (2, 2)": lambda Q: np.linalg.solve(series(-Q, [1, 0.5, 1 / 12]), series(Q, [1, 0.5, 1 / 12])),
}


@pytest.mark.parametrize("name", NEARLY)
def test_what_is_nearly_one_is_none(name):
    """None of them is called by a name that it has not; the nearest is named with how far it is."""
    report = check_map(single(NEARLY[name]))
    assert not report.found.fitting
    assert "none of the closed forms" in str(report)
    if name == "1e-8 off":
        assert report.found.nearest is not None
        assert 1e-9 < report.found.away < 1e-6
        assert "Cayley, as in scoRNN" in str(report)
        assert "more than rounding explains" in str(report)


def test_a_right_map_passes_with_everything_that_is_said_of_it():
    """Single, batched, blocks, complex, both precisions, signs."""
    report = check_map(cayley, cayley_pullback, complex=True)
    assert report.ok
    assert report.domain.needs_skew
    assert report.seen.first_order == "a small skew Q gives I - 2 Q"
    assert report.seen.at_zero == "map(0) = I"
    assert report.seen.batch == "as each alone, the gradient too"
    assert report.seen.blocks == "block-diagonal U, each block as alone"
    assert {own.signs for own in report.seen.determinants.values()} == {(1.0,)}
    assert report.gradient.status == "right"
    assert report.gradient.differences < 1e-9
    assert report.gradient.closed < 1e-13
    assert report.complex.defect < 1e-13
    assert report.complex.gradient.status == "right"
    assert max(len(line) for line in str(report).splitlines()) <= 100
    assert len(str(report).splitlines()) < 50


@pytest.mark.parametrize(
    ("f", "reads", "first"),
    [
        (lambda Q: cayley(skew(Q)), "the skew part of Q alone", "a small skew Q gives I - 4 Q"),
        (
            lambda Q: cayley(-skew(np.tril(Q, -1))),
            "the strictly lower triangle of Q alone",
            "a small skew Q gives I + 2 Q",
        ),
        (
            lambda Q: cayley(skew(np.triu(Q, 1))),
            "the strictly upper triangle of Q alone",
            "a small skew Q gives I - 2 Q",
        ),
        (polar, "all of Q", None),
    ],
)
def test_what_of_Q_is_read(f, reads, first):
    """And which way round it turns."""
    seen = check_map(f).seen
    assert seen.reads == reads
    assert seen.first_order == first or first is None


def test_a_truncated_series_passes_where_its_defect_is_small_enough():
    """The same map, by what is asked of it; no word of it is 'wrong'."""

    def f(Q):
        return peft(skew(np.triu(Q, 1)), 5)

    strict, loose = check_map(f), check_map(f, tolerance=1e-3, range=(0.001, 0.1))
    assert not strict.ok
    assert "within it up to" in str(strict)
    assert "gradient wrong" not in str(strict)
    assert loose.ok
    curve = next(curve for curve in strict.curves if (curve.dtype, curve.n) == ("float64", 8))
    by_place = dict(zip(curve.at, curve.defects, strict=True))
    assert by_place[0.1] < 1e-3 < 0.1 < by_place[1.0]


def test_where_the_scale_of_Q_does_not_matter_the_condition_number_does():
    report = check_map(single(polar))
    assert report.seen.scale_free
    assert report.over == "condition number of Q"
    assert report.range == (1.0, 100.0)
    assert report.ok


WRONG_GRADIENTS = {
    "0.5 times what it should be": lambda G: G / 2,
    "-1 times what it should be": lambda G: -G,
    "it is transposed": lambda G: G.swapaxes(-1, -2),
    "it is 0 throughout": lambda G: 0 * G,
    "": lambda G: G + 1e-4 * np.triu(np.ones_like(G)),
    "it is not finite": lambda G: G * np.nan,
}


@pytest.mark.parametrize("words", WRONG_GRADIENTS)
def test_a_wrong_gradient_is_seen_and_described(words):
    report = check_map(cayley, lambda Q, dU: WRONG_GRADIENTS[words](cayley_pullback(Q, dU)))
    assert not report.ok
    assert report.gradient.status == "wrong"
    assert words in report.gradient.remark


@pytest.mark.parametrize(
    ("factor", "convention"),
    [(1, "by the entries above the diagonal, Q_ij = -Q_ji"), (2, "along skew Q, and itself skew")],
)
def test_gradients_of_a_skew_Q_by_either_convention_are_right(factor, convention):
    report = check_map(cayley, lambda Q, dU: skew(cayley_pullback(Q, dU)) / factor)
    assert (report.gradient.status, report.gradient.convention) == ("right", convention)


def real_pullback(Q, dU):
    V = np.linalg.solve((eye(Q) + Q).swapaxes(-1, -2), dU)
    return -V - V @ cayley(Q).swapaxes(-1, -2)


def test_what_does_not_conjugate_is_no_failure_unless_complex_matrices_are_asked_for():
    """NumPy takes complex Q silently.  Q - Q^T is real where Q is skew-Hermitian: any Q is taken."""
    report = check_map(cayley, real_pullback)
    assert report.complex.gradient.status == "wrong"
    assert report.ok
    assert not check_map(cayley, real_pullback, complex=True).ok
    report = check_map(lambda Q: scipy.linalg.expm(Q - Q.swapaxes(-1, -2)), complex=True)
    assert report.complex.defect > 1
    assert [line[:17] for line in report.problems] == ["complex Q: defect"]
    assert check_map(lambda Q: cayley(Q - Q.swapaxes(-1, -2).conj()), complex=True).ok


def test_a_map_of_batches_alone_that_refuses_complex_matrices():
    """It is asked for batches after the refusal, too."""

    def batches(Q):
        if Q.ndim != 3 or np.iscomplexobj(Q):
            raise ValueError("a batch of real matrices")
        return cayley(Q)

    report = check_map(batches)
    assert report.ok, str(report)
    assert report.complex.refused


def test_refusing_all_complex_matrices_but_some_is_said():
    """Of a map of any real Q: which it takes, what it says to others, and that this is not what was asked for."""

    def choosy(Q):
        if Q.dtype.kind == "c" and abs(Q + H(Q)).max() > 1e-6:
            raise ValueError("Q is not skew-Hermitian")
        return cayley(skew(Q))

    report = check_map(choosy, complex=True)
    assert report.complex.defect < 1e-13
    assert "complex    a skew-Hermitian Q (any other is refused: raised ValueError: Q is not" in str(report)
    (problem,) = report.problems
    assert problem.startswith(
        "complex Q: a skew-Hermitian one alone, any other is refused: raised ValueError: Q is not"
    )
    assert check_map(choosy).ok
    assert json.loads(report.as_json())["complex"]["skew_alone"]


def test_rows_that_no_tile_holds():
    """A Cayley map whose last n mod 16 rows stay those of I is none."""

    def tiled(Q):
        U, n = cayley(skew(Q)), len(Q)
        rest = n % 16 if n > 16 else 0
        return np.concatenate([U[: n - rest], np.eye(n, dtype=Q.dtype)[n - rest :]])

    report = check_map(tiled)
    assert not report.ok
    assert "(n = 37)" in str(report)


def thin(X):
    """The polar factor of a Q of any shape."""
    W, _, V = np.linalg.svd(X, full_matrices=False)
    return W @ V


def filled(Q):
    """Cayley of Q filled up by zeros, cut off; of a wide Q transposed, as PyTorch has it."""
    if Q.shape[0] < Q.shape[1]:
        return H(filled(H(Q)))
    n, m = Q.shape
    square = np.concatenate([Q, np.zeros((n, n - m), Q.dtype)], axis=1)
    return cayley(-skew(np.tril(square, -1)) / 2)[:, :m]


def ratio(X):
    """Muon's factor."""
    return math.sqrt(max(1, X.shape[0] / X.shape[1]))


# A map, its tall and its wide Q: what is before I, and whether it is the same closed form.
RECTANGULAR = {
    "polar": (thin, ("1", True), ("1", True)),
    "polar times Muon's factor": (lambda Q: thin(Q) * ratio(Q), ("sqrt(rows/columns)", True), ("1", True)),
    "QR": (lambda Q: FORMS["LQ" if len(Q) < Q.shape[1] else "QR"][0](Q), ("1", True), ("1", True)),
    "Cayley": (filled, ("1", True), ("1", True)),
}


@pytest.mark.parametrize("name", RECTANGULAR)
def test_tall_and_wide_matrices(name):
    """U^H U = I and U U^H = I, with the factor that is known; judged over the whole range."""
    f, *expected = RECTANGULAR[name]
    report = check_map(single(f))
    assert [(own.factor, own.same) for own in report.rectangular] == expected
    assert report.ok, f"\n{report}"
    assert {"64 x 16", "37 x 19", "16 x 64", "19 x 37"} <= {curve.size for curve in report.curves}
    if "Muon" in name:
        assert "tall       U^H U = rows/columns I; the same closed form; gradient none given" in str(report)
        assert "wide       U U^H = I; the same closed form; gradient none given" in str(report)


def test_wrong_tall_and_wide_matrices():
    """Another factor, and columns that are not orthogonal in one of both; what takes square Q alone loses nothing."""
    report = check_map(single(lambda Q: thin(Q) * (1 if Q.shape[0] <= Q.shape[1] else 1.5)))
    assert [own.factor for own in report.rectangular] == ["1.5", "1"]
    assert not report.ok
    assert "(64 x 16)" in report.problems[0] or "(37 x 19)" in report.problems[0]
    report = check_map(single(lambda Q: thin(Q) + (0.1 if Q.shape == (19, 37) else 0)))
    assert "(19 x 37)" in report.problems[0]
    report = check_map(single(lambda Q: thin(Q) * (np.nan if Q.shape[0] > Q.shape[1] else 1)))
    assert "float64: defect not finite" in report.problems[0]
    report = check_map(single(polar))
    assert report.ok
    assert "refused: raised" in report.rectangular[0].words
    assert check_map(cayley).rectangular == []


def test_the_gradient_of_tall_matrices():
    """Q / ||Q||_F for wide ones, whose gradient is known: a wrong one of tall ones alone is seen."""

    def f(Q):
        return filled(Q) if Q.shape[0] == Q.shape[1] else Q / np.linalg.norm(Q)

    def pullback(Q, dU):
        if Q.shape[0] == Q.shape[1]:
            return None
        size = np.linalg.norm(Q)
        return (dU - Q * (Q * dU).sum() / size**2) / size * (2 if Q.shape[0] > Q.shape[1] else 1)

    report = check_map(single(f), lambda Q, dU: pullback(Q, dU) if Q.ndim == 2 else None)
    assert [own.gradient.status for own in report.rectangular] == ["wrong", "right"]
    assert any(problem.startswith("tall Q: gradient wrong: ") for problem in report.problems)


@pytest.mark.parametrize("size", [1e-12, 1e6])
def test_very_small_and_very_large_matrices(size):
    """An epsilon beside ||Q||, and numbers that overflow in float32 once they are squared."""

    def off(Q):
        large = np.abs(Q).max() > 1e4 if size > 1 else np.abs(Q).max() < 1e-9
        return cayley(skew(Q)) * (1.01 if large else 1)

    assert not check_map(off, range=(1e-12, 1e6)).ok
    assert check_map(off).ok == (size > 1)


def test_the_reference_itself():
    """It refuses what is not skew, and complex matrices; of its gradient the convention is told."""

    def rebuilt(Q):
        method = ScaledCayley(0)
        return method, method.rebuild({"A": Q}, {"D": np.ones(len(Q), Q.dtype)})

    def pullback(Q, dU):
        method, buffers = rebuilt(Q)
        return method.pullback({"A": Q}, buffers, dU)["A"]

    report = check_map(single(lambda Q: rebuilt(Q)[1]["U"]), pullback)
    assert report.ok
    assert report.domain.why.startswith("any other is refused: raised ValueError: A is not skew")
    assert report.gradient.convention == "by the entries above the diagonal, Q_ij = -Q_ji"
    assert report.complex.refused


def test_batches_and_blocks_that_have_to_do_with_each_other():
    """One norm for the whole of a block-diagonal Q; a batch that is normalised as one; batches alone."""
    report = check_map(single(lambda Q: newton_schulz(frobenius(Q), 5, *MUON)))
    assert report.seen.blocks.startswith("block-diagonal U, whose blocks are not")
    shared = check_map(lambda Q: newton_schulz(Q / np.linalg.norm(Q), 5, *MUON))
    assert shared.seen.batch == "each U is another than that of its Q alone"
    assert any(problem.startswith("batches: ") for problem in shared.problems)
    report = check_map(lambda Q: cayley(Q) if Q.ndim == 3 else None)
    assert report.batched
    assert report.found.fitting
    assert report.ok


def test_a_map_that_keeps_state():
    rng = np.random.default_rng(0)
    report = check_map(lambda Q: cayley(Q) * np.where(rng.random() < 0.5, 1.0, -1.0))
    assert not report.ok
    assert "it keeps state, or is random" in str(report)


def bfloat16(X):
    """Rounded to 8 significant bits."""
    significand, exponent = np.frexp(X)
    return np.ldexp(np.rint(np.ldexp(significand, 8)), exponent - 8)


def test_what_is_computed_in_less_than_was_given_is_told():
    report = check_map(single(lambda Q: cayley(skew(Q.astype(np.float32)))))
    assert report.precision.name == "float32"
    assert report.found.fitting
    assert "the values are float32's" in str(report)

    def muon(Q):
        X = bfloat16(frobenius(Q))
        for _ in range(5):
            gram = bfloat16(X @ X.T)
            X = bfloat16(MUON[0] * X + bfloat16(bfloat16(MUON[1] * gram + MUON[2] * bfloat16(gram @ gram)) @ X))
        return X

    report = check_map(single(muon), tolerance=0.8)
    assert report.precision.name == "bfloat16"
    assert "Muon's quintic, (3.4445, -4.7750, 2.0315), 5 steps" in report.found.fitting[0].variant
    assert report.ok


def test_a_map_that_gives_no_numbers():
    """It is rounded to nothing, and has no gradient: one of 0 is not right."""
    report = check_map(lambda Q: Q * np.nan, lambda Q, dU: 0 * dU)
    assert not report.ok
    assert report.precision.name == "float64"
    assert report.gradient.status == "wrong"
    assert "the values are" not in str(report)


def test_the_picture_is_svg_with_its_labels():
    """Well-formed, both axes named, a line for each curve, colours for a dark page; a name cannot break it.

    Of nothing there is none; a report fits its schema either way.
    """
    report, own = check_map(cayley, cayley_pullback, name="<a & 'b'>"), "{http://www.w3.org/2000/svg}"
    root = ElementTree.fromstring(report.svg())
    texts = [text.text for text in root.iter(f"{own}text")]
    assert root.tag == f"{own}svg"
    assert {"‖Q‖₂", "defect", "float64, n = 2", "float32, n = 97", "tolerance 1e-10"} <= set(texts)
    assert len(list(root.iter(f"{own}polyline"))) == 20  # ten curves, and what each is
    assert "prefers-color-scheme: dark" in "".join(style.text for style in root.iter(f"{own}style"))
    assert any(text.startswith("<a & 'b'>: Cayley") for text in texts)
    nothing = check_map(lambda Q: 1 / 0)
    with pytest.raises(ValueError, match="nothing to draw: map gives no U: raised ZeroDivisionError"):
        nothing.svg()
    for each in (report, nothing):
        document = json.loads(each.as_json())
        assert document["ok"] == each.ok


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((cayley,), {"tolerance": 0.0}, "tolerance is 0.0; allowed: above 0"),
        ((cayley,), {"tolerance": float("nan")}, "tolerance is nan"),
        ((cayley,), {"tolerance": "1e-3"}, "tolerance is '1e-3'; allowed: above 0"),
        ((cayley,), {"range": (1.0, 0.5)}, r"range is \(1.0, 0.5\); allowed: LOW:HIGH"),
        ((cayley,), {"range": (0.0, 0.5)}, r"range is \(0.0, 0.5\); allowed: LOW:HIGH"),
        ((cayley,), {"range": (1,)}, r"range is \(1,\); allowed: LOW:HIGH"),
        ((cayley,), {"range": 1}, "range is 1; allowed: LOW:HIGH"),
        ((3,), {}, "map is 3; allowed: a function of Q"),
        ((cayley, 3), {}, "pullback is 3; allowed: a function of Q and dU, or None"),
    ],
)
def test_bad_arguments(arguments, options, message):
    with pytest.raises(ValueError if options else TypeError, match=message):
        check_map(*arguments, **options)


BAD = {
    "def map(Q): raise ValueError('no, thanks')": "gives no U: raised ValueError: no, thanks (mine.py:1 in map)",
    "def map(Q): return [1]": "gives no U: gave a U that is a list; expected a NumPy array",
    "def map(Q): return Q[:, :1]": "gives no U: gave a U of shape (4, 1); expected that of Q, (4, 4)",
    "def map(Q): return Q + 1j": "gives no U: gave a complex U for a real Q",
    "def map(Q):\n    Q[:] = 0\n    return Q": "gives no U: modified its inputs: Q",
    "import os\ndef map(Q): os._exit(0)": "gives no U: ended with exit code 0 without an answer",
}


@pytest.fixture
def call(tmp_path, capsys):
    """Exit code, stdout and stderr of `map` with a file of this source."""

    def of(source, *options):
        path = tmp_path / "mine.py"
        path.write_text(source)
        try:
            code = main(["map", "--adapter", str(path), *options])
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return of


@pytest.mark.parametrize("source", BAD)
def test_a_bad_adapter_gets_one_clear_line(call, source):
    code, out, _ = call(source)
    assert code == 1
    failed = [line for line in out.splitlines() if line.startswith("failed:")]
    assert failed == [f"failed: {BAD[source]}"]


SOURCE = """
import numpy as np
def map(Q):
    I = np.eye(Q.shape[-1], dtype=Q.dtype)
    return np.linalg.solve(I + Q, I - Q)
"""


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("x = 1", (), "mine.py, which has no function map(Q)"),
        ("def map(Q): return Q\npullback = 3", ("--in-process",), "mine.py: pullback is 3; allowed: a function"),
        ("def map(Q", (), "which cannot be loaded: raised SyntaxError"),
        (SOURCE, ("--range", "x"), "range is 'x'; allowed: LOW:HIGH, as 0.001:1"),
        (SOURCE, ("--svg", "/nowhere/x.svg"), "--svg is /nowhere/x.svg, whose folder does not exist"),
        (SOURCE, ("--svg", "both.txt", "--report", "both.txt"), "--report and --svg are both both.txt"),
        (SOURCE, ("--in-process", "--timeout", "3"), "--in-process has no limit; leave out"),
        (SOURCE, ("--timeout", "0"), "timeout is 0"),
    ],
)
def test_bad_command_lines(call, source, options, message):
    code, out, err = call(source, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_the_command_line(call, tmp_path):
    """In a process of its own and in this one the same page; report and picture are written."""
    svg, out = tmp_path / "map.svg", tmp_path / "map.json"
    code, page, _ = call(SOURCE, "--svg", str(svg), "--report", str(out))
    assert code == 0
    assert "Cayley, as in scoRNN: (I + A)^-1 (I - A), A = Q; to 1" in page
    assert "passed: orthogonal for ||Q||_2 from 1e-12 to 1, to 1e-10" in page
    assert json.loads(out.read_text())["ok"] is True
    ElementTree.parse(svg)
    assert call(SOURCE, "--in-process") == (0, page, "")
    code, page, _ = call(SOURCE, "--range", "0.001:100", "--tolerance", "1e-18")
    assert code == 1
    assert "above 1e-18" in page


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk: Linux")
def test_a_report_that_cannot_be_written(call):
    """What was found is printed, as there is nothing else; then one line, exit code 2."""
    page = call(SOURCE)[1]
    code, out, err = call(SOURCE, "--report", "/dev/full")
    assert (code, out) == (2, page)
    assert err.startswith("error: --report is /dev/full, which cannot be written: ")
