// Small dense real matrices: an array of rows, each an array of numbers.  A vector is an array of numbers.
// Functions are pure: nothing given is changed.
(function () {
  "use strict";

  function zeros(rows, columns) {
    return Array.from({ length: rows }, function () {
      return new Array(columns).fill(0);
    });
  }

  function diagonal(v) {
    const M = zeros(v.length, v.length);
    v.forEach(function (entry, i) {
      M[i][i] = entry;
    });
    return M;
  }

  function identity(n) {
    return diagonal(new Array(n).fill(1));
  }

  // An entry f(i, j) for each of M.
  function entries(M, f) {
    return M.map(function (row, i) {
      return row.map(function (entry, j) {
        return f(entry, i, j);
      });
    });
  }

  function transposed(M) {
    return M[0].map(function (_, j) {
      return M.map(function (row) {
        return row[j];
      });
    });
  }

  function plus(A, B) {
    return entries(A, function (a, i, j) {
      return a + B[i][j];
    });
  }

  function minus(A, B) {
    return entries(A, function (a, i, j) {
      return a - B[i][j];
    });
  }

  function scaled(M, factor) {
    return entries(M, function (entry) {
      return factor * entry;
    });
  }

  // A vector of f(a, b, ...) of the entries of up to four vectors, one by one.
  function each(f, a, b, c, d) {
    return a.map(function (entry, i) {
      return f(entry, b && b[i], c && c[i], d && d[i]);
    });
  }

  // v + w + ...
  function sum(...vectors) {
    return vectors.reduce(function (total, v) {
      return total.map(function (entry, i) {
        return entry + v[i];
      });
    });
  }

  function dot(v, w) {
    let total = 0;
    for (let i = 0; i < v.length; i += 1) {
      total += v[i] * w[i];
    }
    return total;
  }

  // M v
  function on(M, v) {
    return M.map(function (row) {
      return dot(row, v);
    });
  }

  // M^T v
  function back(M, v) {
    const sums = new Array(M[0].length).fill(0);
    for (let i = 0; i < M.length; i += 1) {
      for (let j = 0; j < sums.length; j += 1) {
        sums[j] += M[i][j] * v[i];
      }
    }
    return sums;
  }

  // v w^T
  function outer(v, w) {
    return v.map(function (a) {
      return w.map(function (b) {
        return a * b;
      });
    });
  }

  // A B
  function times(A, B) {
    const columns = transposed(B);
    return A.map(function (row) {
      return on(columns, row);
    });
  }

  // M^-1 by Gauss and Jordan, the largest pivot of a column first; not finite where M is singular.
  function inverse(M) {
    const n = M.length;
    const rows = M.map(function (row, i) {
      return row.concat(identity(n)[i]);
    });
    for (let k = 0; k < n; k += 1) {
      let best = k;
      for (let i = k + 1; i < n; i += 1) {
        best = Math.abs(rows[i][k]) > Math.abs(rows[best][k]) ? i : best;
      }
      const pivot = rows[best];
      rows[best] = rows[k];
      rows[k] = pivot.map(function (entry) {
        return entry / pivot[k];
      });
      for (let i = 0; i < n; i += 1) {
        const factor = rows[i][k];
        for (let j = 0; i !== k && j < 2 * n; j += 1) {
          rows[i][j] -= factor * rows[k][j];
        }
      }
    }
    return rows.map(function (row) {
      return row.slice(n);
    });
  }

  // The singular values of M, largest first, by Jacobi's rotations of pairs of its columns until all are orthogonal.
  function singularValues(M) {
    const columns = transposed(M).map(function (column) {
      return column.slice();
    });
    for (let turned = true, sweep = 0; turned && sweep < 60; sweep += 1) {
      turned = false;
      for (let p = 0; p < columns.length; p += 1) {
        for (let q = p + 1; q < columns.length; q += 1) {
          turned = orthogonal(columns[p], columns[q]) || turned;
        }
      }
    }
    const values = columns.map(length);
    return values.sort(function (a, b) {
      return b - a;
    });
  }

  // Rotates two columns in their plane until they are orthogonal; whether they were not.
  function orthogonal(p, q) {
    const pp = dot(p, p);
    const qq = dot(q, q);
    const pq = dot(p, q);
    if (Math.abs(pq) <= 1e-15 * Math.sqrt(pp * qq)) {
      return false;
    }
    const zeta = (qq - pp) / (2 * pq);
    const t = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.hypot(1, zeta));
    const cosine = 1 / Math.hypot(1, t);
    for (let i = 0; i < p.length; i += 1) {
      const before = p[i];
      p[i] = cosine * (before - t * q[i]);
      q[i] = cosine * (t * before + q[i]);
    }
    return true;
  }

  // ||v||_2
  function length(v) {
    return Math.hypot.apply(null, v);
  }

  // ||M||_2
  function norm(M) {
    return singularValues(M)[0];
  }

  // ||M||_F
  function frobenius(M) {
    return length(M.map(length));
  }

  // ||U^T U - I||_2
  function defect(U) {
    return norm(minus(times(transposed(U), U), identity(U[0].length)));
  }

  const own = {
    zeros, diagonal, identity, entries, transposed, plus, minus, scaled, each, sum, dot, on, back, outer, times,
    inverse, singularValues, length, norm, frobenius, defect,
  };
  if (typeof module === "object") {
    module.exports = own;
  } else {
    window.alive = window.alive || {};
    window.alive.matrices = own;
  }
})();
