// The scaled Cayley transform and the Neumann-Cayley update of ortho_ref/parametrizations/cayley.py and neumann.py.
// A state is {A, A_tilde, U, D}; of Neumann-Cayley also the count `step`, and P, norm and forced of the last update.
//
//     U = (I + A)^-1 (I - A) D = (2 (I + A)^-1 - I) D        [ncgru:2]
//     A <- A - delta, U afresh                               [ncgru:3] [ncgru:4]
//     V = A_tilde^T dU (D + U^T),  dA = V^T - V              [ncgru:6] [ncgru:5]
//     A_tilde <- (I + P + ... + P^q) A_tilde                 [ncgru:alg1/7] [ncgru:16] [ncgru:17] [ncgru:18]
//     U <- A_tilde (I - A) D                                 [ncgru:alg1/8]
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;

  // D's diagonal: -1 on the last k of its n entries.
  function signs(n, negativeOnes) {
    return Array.from({ length: n }, function (_, i) {
      return i < n - negativeOnes ? 1 : -1;
    });
  }

  // M D
  function columnsTimes(M, D) {
    return m.entries(M, function (entry, i, j) {
      return entry * D[j];
    });
  }

  // The exact map at A.
  function exact(A, D) {
    const I = m.identity(A.length);
    const A_tilde = m.inverse(m.plus(I, A)); // [ncgru:alg1/2]
    const U = columnsTimes(m.minus(m.scaled(A_tilde, 2), I), D); // [ncgru:2] [ncgru:4]
    return { A: A, A_tilde: A_tilde, U: U, D: D };
  }

  // U of an A_tilde that is carried along, about (I + A)^-1.
  function carried(A, A_tilde, D) {
    const U = columnsTimes(m.times(A_tilde, m.minus(m.identity(A.length), A)), D); // [ncgru:alg1/8]
    return { A: A, A_tilde: A_tilde, U: U, D: D };
  }

  // dL/dA from dL/dU: exactly skew.
  function cayleyPullback(state, dU) {
    const both = m.plus(m.diagonal(state.D), m.transposed(state.U));
    const V = m.times(m.times(m.transposed(state.A_tilde), dU), both); // [ncgru:6] [ncgru:alg1/4]
    return m.minus(m.transposed(V), V); // [ncgru:5] [ncgru:alg1/5]
  }

  // (I + P + ... + P^order) A_tilde, in Horner's form.
  function neumannInverse(A_tilde, P, order) {
    let F = A_tilde;
    for (let k = 0; k < order; k += 1) {
      F = m.plus(A_tilde, m.times(P, F)); // [ncgru:alg1/7] [ncgru:16] [ncgru:17] [ncgru:18]
    }
    return F;
  }

  function scaledCayleyRetract(state, delta) {
    return exact(m.minus(state.A, delta), state.D); // [ncgru:3] [ncgru:4]
  }

  // One update.  options: order; resetEvery, or null for never; series, the step that goes into the series, which is
  // delta and in released code another one (E-ncgru-12); force, whether ||P|| >= 1 forces a reset, as it does unless
  // that is false.
  function neumannCayleyRetract(state, delta, options) {
    const step = (state.step || 0) + 1;
    const A = m.minus(state.A, delta); // [ncgru:alg1/6]
    const P = m.times(state.A_tilde, options.series || delta);
    const norm = m.norm(P);
    const forced = options.force !== false && norm >= 1; // [ncgru:neumann-cond]
    const due = options.resetEvery !== null && step % options.resetEvery === 0; // [ncgru:reset]
    const moved =
      forced || due
        ? exact(A, state.D) // [ncgru:reset]
        : carried(A, neumannInverse(state.A_tilde, P, options.order), state.D); // [ncgru:alg1/7] [ncgru:alg1/8]
    return Object.assign(moved, { step: step, P: P, norm: norm, forced: forced });
  }

  const own = {
    signs, columnsTimes, exact, carried, cayleyPullback, neumannInverse, scaledCayleyRetract, neumannCayleyRetract,
  };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive.maps = own;
  }
})();
