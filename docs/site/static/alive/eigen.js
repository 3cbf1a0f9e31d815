// The eigenvalues of a real orthogonal matrix, e^{i angle}.
//
// U is normal, so that its symmetric part S and its skew part K have eigenvectors together: of an angle S has the
// eigenvalue cos(angle), and for a unit vector q of that eigenspace |K q| = |sin(angle)|, as K^T K = I - S^2.  So
// Jacobi's rotations of S, which is real and symmetric, give both, and no angle is lost near 0 or pi, where the cosine
// alone would have half of its digits.
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  // An angle this near to 0 or pi belongs to an eigenvalue 1 or -1, and not to a pair.
  const REAL = 1e-12;

  // The eigenvectors of a symmetric matrix, as rows.
  function eigenvectors(symmetric) {
    const S = symmetric.map((row) => row.slice());
    const vectors = m.identity(S.length);
    for (let left = true, sweep = 0; left && sweep < 60; sweep += 1) {
      left = false;
      for (let p = 0; p < S.length; p += 1) {
        for (let q = p + 1; q < S.length; q += 1) {
          if (Math.abs(S[p][q]) > 1e-17) {
            annihilate(S, vectors, p, q);
            left = true;
          }
        }
      }
    }
    return vectors;
  }

  // Turns rows and columns p, q of S until S_pq is 0, and the vectors with them.
  function annihilate(S, vectors, p, q) {
    const zeta = (S[q][q] - S[p][p]) / (2 * S[p][q]);
    const t = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.hypot(1, zeta));
    const c = 1 / Math.hypot(1, t);
    turn(S, p, q, c, c * t);
    turn(vectors, p, q, c, c * t);
    S.forEach(function (row) {
      const before = row[p];
      row[p] = c * before - c * t * row[q];
      row[q] = c * t * before + c * row[q];
    });
    S[p][q] = 0;
    S[q][p] = 0;
  }

  function turn(rows, p, q, c, s) {
    const before = rows[p];
    rows[p] = before.map((entry, k) => c * entry - s * rows[q][k]);
    rows[q] = before.map((entry, k) => s * entry + c * rows[q][k]);
  }

  // The angles of all eigenvalues, by their size: of a pair the negative one first; of -1 it is pi.
  function angles(U) {
    const S = m.scaled(m.plus(U, m.transposed(U)), 0.5);
    const K = m.scaled(m.minus(U, m.transposed(U)), 0.5);
    const sizes = eigenvectors(S).map(function (q) {
      return Math.atan2(m.length(m.on(K, q)), m.dot(q, m.on(S, q)));
    });
    sizes.sort((a, b) => a - b);
    let ofPair = 0;
    return sizes.map(function (size) {
      if (size < REAL || Math.PI - size < REAL) {
        return size < REAL ? 0 : Math.PI;
      }
      ofPair += 1;
      return ofPair % 2 ? -size : size;
    });
  }

  const own = { angles };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive.eigen = own;
  }
})();
