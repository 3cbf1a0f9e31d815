// ||dL/dh_t|| over time, of six models on one sequence of the copying task, before and after training.
//
//     x: ten symbols, T - 1 blanks, the marker, ten blanks                     [urnn:task-copy]
//     o = W h + b of the last state, of the uRNN of (Re h, Im h)               [urnn:9]
//     L = log(sum exp o) - o_y of the last step, y the tenth symbol            [bp:heads/loss] [bp:heads/gradient]
//     dL/dh_t = all that reaches L through h_t                                 [bp:bptt/g] [urnn:diag]
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const sequence = inNode ? require("./sequence.js") : window.alive.sequence;
  const trained = inNode ? require("./trained.js") : window.alive.trained;

  const DATA = [3, 1, 4, 1, 5, 2, 6, 5, 3, 5]; // the digits of pi but for the 9
  const MARKER = 9;

  function tokens(T) {
    return DATA.concat(new Array(T - 1).fill(0), [MARKER], new Array(DATA.length).fill(0)); // [urnn:task-copy]
  }

  // dL/do of the cross-entropy, and L.
  function loss(o, y) {
    const most = Math.max(...o);
    const powers = o.map((score) => Math.exp(score - most));
    const total = powers.reduce((a, b) => a + b);
    const value = Math.log(total) + most - o[y]; // [bp:heads/loss]
    const d_o = powers.map((power, k) => power / total - (k === y ? 1 : 0)); // [bp:heads/gradient]
    return { value: value, d_o: d_o };
  }

  // The weights with every U times `gain`, and `bias` added to the model's own bias.
  function moved(w, name, settings) {
    const { cell, bias, sign } = trained.MODELS[name];
    const changed = Object.assign({}, w);
    cell.recurrent.forEach(function (U) {
      changed[U] = m.scaled(w[U], settings.gain);
    });
    changed[bias] = w[bias].map((entry) => entry + sign * settings.bias);
    return changed;
  }

  // {loss, norms: state -> ||dL/d(state t)||, t = 1 first}.  settings: T, gain, bias.
  function numbers(stored, name, settings) {
    const { cell, w, first, readout } = trained.model(stored, name);
    const own = moved(w, name, settings);
    const steps = sequence.forward(cell, own, tokens(settings.T), first);
    const h_T = steps[steps.length - 1].h;
    const o = m.sum(m.on(readout.W, h_T), readout.b); // [urnn:9]
    const { value, d_o } = loss(o, DATA[DATA.length - 1]);
    const zeros = h_T.map(() => 0);
    const last = Object.fromEntries(cell.states.map((state) => [state, zeros]));
    last.h = m.back(readout.W, d_o); // [bp:bptt/g]
    const { all } = sequence.backward(cell, own, steps, steps.map(() => zeros), last);
    const norms = {};
    cell.states.forEach(function (state) {
      norms[state] = all.slice(1).map((g) => m.length(g[state])); // [urnn:diag]
    });
    return { loss: value, norms: norms };
  }

  if (inNode) {
    module.exports = { numbers, tokens };
    return;
  }

  // The curves: of every model that of h, and the LSTM's c, the other half of its state.
  const CURVES = Object.keys(trained.MODELS).map((name, k) => [name, "h", trained.MODELS[name].title, k + 1]);
  CURVES.splice(2, 0, ["lstm", "c", "LSTM's c", 0]);

  // The first norm over the last one, in words.
  function reach(norms) {
    const ratio = norms[0] / norms[norms.length - 1];
    return Number.isFinite(ratio) ? window.alive.frame.shown(ratio) : "no number";
  }

  function limits(curves) {
    const seen = curves.flatMap(({ norms }) => norms).filter((norm) => Number.isFinite(norm) && norm > 0);
    const least = Math.max(1e-20, Math.min(...seen));
    const most = Math.min(1e20, Math.max(...seen));
    return [10 ** Math.floor(Math.log10(least) - 0.01), 10 ** Math.ceil(Math.log10(most) + 0.01)];
  }

  window.alive.gradients = { numbers, tokens };
  window.alive.frame.picture("gradients", function (at) {
    const when = at.choice({
      name: "when",
      label: "Weights",
      options: [["before", "before training"], ["after", "after training"]],
      value: "before",
    });
    const scale = at.choice({
      name: "scale",
      label: "Scale",
      options: [["relative", "relative to the last step"], ["plain", "absolute"]],
      value: "relative",
    });
    const T = at.slider({ name: "T", label: "Pause T", min: 1, max: 200, step: 1, value: 30 });
    const gain = at.slider({
      name: "gain", label: "Gain (multiplies every U)", min: 0.5, max: 1.5, step: 0.01, value: 1,
    });
    const bias = at.slider({ name: "bias", label: "Bias offset", min: -3, max: 3, step: 0.05, value: 0 });
    const chart = at.chart("Norm of dL/dh_t");
    const summary = at.table("loss, and the share of the gradient that reaches step 1", [
      "model", "loss at the last step", "norm at t = 1", "norm at the last step", "first over last",
    ]);
    const table = at.table("norms of dL/dh_t at every step t", ["t", ...CURVES.map(([, , title]) => title)]);
    return function () {
      const settings = { T: T.value, gain: gain.value, bias: bias.value };
      const found = {};
      Object.keys(trained.MODELS).forEach(function (name) {
        found[name] = numbers(window.alive.weights[name][when.value], name, settings);
      });
      const plain = CURVES.map(([name, state]) => found[name].norms[state]);
      const curves = CURVES.map(function ([name, state, title, series], k) {
        const h = found[name].norms.h;
        const over = scale.value === "relative" ? h[h.length - 1] : 1;
        return { title: title, series: series, norms: plain[k].map((norm) => norm / over) };
      });
      const [from, to] = limits(curves);
      const label = scale.value === "relative" ? "norm relative to the last h" : "norm";
      chart.begin({ x: { label: "step t", from: 1, to: plain[0].length }, y: { label: label, from, to, log: true } });
      curves.forEach(function ({ title, series, norms }) {
        chart.curve(title, norms.map((norm, k) => [k + 1, norm]), series);
      });
      const kept = Object.keys(found).map((name) => trained.MODELS[name].title + " " + reach(found[name].norms.h));
      chart.end("Norm at the first step divided by that at the last: " + kept.join(", ") + ".");
      summary.fill(Object.keys(found).map(function (name) {
        const { loss: value, norms: { h } } = found[name];
        return [trained.MODELS[name].title, value, h[0], h[h.length - 1], h[0] / h[h.length - 1]];
      }));
      table.fill(plain[0].map((_, k) => [k + 1, ...plain.map((norms) => norms[k])]));
      at.say("Share of the last step's gradient that reaches step 1: " + kept.join(", ") + ".");
    };
  });
})();
