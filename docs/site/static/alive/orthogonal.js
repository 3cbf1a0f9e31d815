// Three more orthogonal maps beside Cayley's, as in ortho_ref/parametrizations.
//
//     exponential:  U = exp(A)                                            [sgornn:2-alt]
//     rotations, tunable style, of rows (0, 1), (2, 3) ... and (1, 2), (3, 4) ... in turn  [goru:rot] [goru:tunable]
//     reflections:  U = H_1 ... H_m,  H_j = I - 2 v_j v_j^T / |v_j|^2      [goru:householder]
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const TERMS = 18;

  // A is halved until Taylor's series of TERMS terms is exact to rounding, and the result squared as often.
  function exponential(A) {
    const I = m.identity(A.length);
    const halvings = Math.max(0, Math.ceil(Math.log2(m.frobenius(A) / 0.5)));
    const part = m.scaled(A, Math.pow(0.5, halvings)); // [bp:expm/halved]
    let U = I;
    for (let k = TERMS; k > 0; k -= 1) {
      U = m.plus(I, m.scaled(m.times(part, U), 1 / k)); // [sgornn:2-alt]
    }
    for (let k = 0; k < halvings; k += 1) {
      U = m.times(U, U); // [bp:expm/squared]
    }
    return U;
  }

  // layers: the angles of each, the first layer's of the pairs (0, 1), (2, 3) ..., the second's of (1, 2) ...
  function rotations(layers, n) {
    const U = m.identity(n);
    layers.forEach(function (angles, layer) {
      angles.forEach(function (theta, k) {
        const i = 2 * k + (layer % 2); // [goru:tunable]
        turn(U, i, i + 1, theta);
      });
    });
    return U;
  }

  // Turns two rows of U, in place.
  function turn(U, i, j, theta) {
    const c = Math.cos(theta);
    const s = Math.sin(theta);
    const upper = U[i];
    const lower = U[j];
    U[i] = upper.map((entry, k) => c * entry - s * lower[k]); // [goru:rot]
    U[j] = upper.map((entry, k) => s * entry + c * lower[k]); // [goru:rot]
  }

  // vectors: v_1 ... v_m, the last of which acts first.
  function reflections(vectors) {
    let U = m.identity(vectors[0].length);
    vectors.forEach(function (v) {
      const Uv = m.on(U, v);
      U = m.minus(U, m.scaled(m.outer(Uv, v), 2 / m.dot(v, v))); // [goru:householder]
    });
    return U;
  }

  const own = { exponential, rotations, reflections };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive.orthogonal = own;
  }
})();
