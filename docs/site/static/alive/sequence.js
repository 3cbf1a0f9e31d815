// A cell over a sequence, forward and backward, as in ortho_ref/scan.py.
//
//     h_t from (x_t, h_{t-1}), t = 1..T                                          [bp:bptt/forward]
//     g_T = dh_T + d_T;  g_{t-1} = d_{t-1} + (adjoint of step t at g_t)          [bp:bptt/g]
//     a weight's gradient is the sum over t of its parts                         [bp:bptt/sum]
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;

  // What the steps computed, the first step's first.
  function forward(cell, w, xs, first) {
    let state = first;
    return xs.map(function (x) {
      const k = cell.forward(w, x, state); // [bp:bptt/forward]
      state = k;
      return k;
    });
  }

  // d[t - 1] is the loss's own derivative by h_t, last that by the last state on top of it.  all[t] is all of
  // dL/d(state t), all[0] by the first state; lines[t - 1] what the adjoint of step t computed.
  function backward(cell, w, steps, d, last) {
    let g = last;
    const all = [];
    const lines = [];
    for (let t = steps.length; t > 0; t -= 1) {
      g = Object.assign({}, g, { h: m.sum(g.h, d[t - 1]) }); // [bp:bptt/g]
      all[t] = g;
      lines[t - 1] = cell.backward(w, steps[t - 1], g); // [bp:bptt/g]
      g = Object.fromEntries(cell.states.map((name) => [name, lines[t - 1]["d" + name + "_prev"]]));
    }
    all[0] = g;
    return { all: all, lines: lines };
  }

  // The gradient of every weight, by its name.
  function weightGradients(cell, w, steps, lines) {
    const total = {};
    steps.forEach(function (k, t) {
      const parts = cell.weightGradients(w, k, lines[t]);
      Object.keys(parts).forEach(function (name) {
        const plus = Array.isArray(parts[name][0]) ? m.plus : m.sum;
        total[name] = total[name] ? plus(total[name], parts[name]) : parts[name]; // [bp:bptt/sum]
      });
    });
    return total;
  }

  const own = { forward, backward, weightGradients };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive.sequence = own;
  }
})();
