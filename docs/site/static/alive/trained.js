// The six models of the page on gradients: which cell each is, and its weights from weights.js, before training or
// after it.
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const phis = inNode ? require("./activations.js") : window.alive.activations;
  const cells = inNode ? require("./cells.js") : window.alive.cells;

  // Each with the bias that the page moves and its sign: what is added to it makes the cell keep more of its state.
  const MODELS = {
    rnn: { title: "tanh RNN", cell: cells.elman(phis.tanh), bias: "b", sign: 1 },
    lstm: { title: "LSTM", cell: cells.lstm, bias: "b_f", sign: 1 },
    gru: { title: "GRU", cell: cells.gruResetBefore(phis.tanh), bias: "b_u", sign: -1 },
    "nc-gru": { title: "NC-GRU", cell: cells.gruResetBefore(phis.modrelu), bias: "b_u", sign: -1 },
    scornn: { title: "scoRNN", cell: cells.elman(phis.modrelu), bias: "b", sign: 1 },
    urnn: { title: "uRNN", cell: cells.elman(phis.modreluComplex), bias: "b", sign: 1 },
  };

  // Nested arrays of the numbers that stand in base64.
  function unpacked({ shape, data }) {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    let parts = Array.from({ length: bytes.length / 4 }, (_, k) => view.getFloat32(4 * k, true));
    shape.slice(1).reverse().forEach(function (length) {
      parts = Array.from({ length: parts.length / length }, (_, k) => parts.slice(k * length, (k + 1) * length));
    });
    return parts;
  }

  function part(value, which) {
    return Array.isArray(value[0]) ? value.map((one) => part(one, which)) : value[which];
  }

  // A complex cell's weights as the real cell takes them.
  const REAL = {
    W: (value) => cells.realW(part(value, 0), part(value, 1)),
    U: (value) => cells.realU(part(value, 0), part(value, 1)),
    h0: (value) => part(value, 0).concat(part(value, 1)), // [urnn:7]
  };

  // {cell, w, first, readout: {W, b}}: the first state is zeros where it is not trained.
  function model(stored, name) {
    const { cell } = MODELS[name];
    const complex = stored.W && stored.W.shape.length === 3;
    const w = {};
    Object.keys(stored).forEach(function (key) {
      const value = unpacked(stored[key]);
      w[key] = complex && REAL[key] ? REAL[key](value) : value;
    });
    const zeros = w[cell.recurrent[0]].map(() => 0);
    const first = Object.fromEntries(cell.states.map((state) => [state, zeros]));
    return {
      cell: cell,
      w: w,
      first: w.h0 ? { h: w.h0 } : first,
      readout: { W: w["readout.W"], b: w["readout.b"] },
    };
  }

  const own = { MODELS, model };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive.trained = own;
  }
})();
