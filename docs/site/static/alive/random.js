// Numbers that look random and are the same on every machine: Park and Miller's minimal standard generator.
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const MODULUS = 2147483647;

  // A function that draws: uniform between -1 and 1.  A seed is a whole number of at least 1.
  function uniform(seed) {
    let state = (seed * 7919) % MODULUS;
    return function () {
      state = (state * 48271) % MODULUS;
      return (2 * state) / MODULUS - 1;
    };
  }

  function matrix(draw, rows, columns) {
    return m.entries(m.zeros(rows, columns), draw);
  }

  // Exactly skew.
  function skew(draw, n) {
    const M = matrix(draw, n, n);
    return m.minus(M, m.transposed(M));
  }

  const own = { uniform, matrix, skew };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive.random = own;
  }
})();
