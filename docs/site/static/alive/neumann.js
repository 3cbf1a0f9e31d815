// Algorithm 1 on gradients of noise, beside the released code's update: how far each U gets from orthogonal.
// n = 8; A starts as scoRNN's, and Adam moves it.
//
//     Algorithm 1: the series takes P = A_tilde delta of the step that moved A     [ncgru:alg1]
//     released code: the series takes rate times gradient, while Adam moves A      (E-ncgru-12)
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const maps = inNode ? require("./maps.js") : window.alive.maps;
  const optimizers = inNode ? require("./optimizers.js") : window.alive.optimizers;
  const random = inNode ? require("./random.js") : window.alive.random;
  const [N, UPDATES, NEGATIVE_ONES] = [8, 120, 4];
  // A U that far from orthogonal is given up: its numbers overflow soon.
  const LOST = 1e12;

  // scoRNN's A_0 with angles evenly between 0 and pi / 2.
  function start() {
    const A = m.zeros(N, N);
    for (let i = 0; i < N; i += 2) {
      const s = Math.tan((Math.PI * (i + 1)) / (4 * N));
      A[i][i + 1] = -s; // [ncgru:init-A]
      A[i + 1][i] = s; // [ncgru:init-A]
    }
    return A;
  }

  // The gradients by A, exactly skew: entries of about `size`.
  function gradients(size) {
    const draw = random.uniform(11);
    return Array.from({ length: UPDATES }, () => m.scaled(random.skew(draw, N), size));
  }

  // Adam's step for each gradient.
  function deltas(rate, all) {
    const adam = optimizers.of({ name: "adam", learning_rate: rate, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 });
    const zero = new Array(N * N).fill(0);
    return all.map(function (G) {
      const step = adam(zero, G.flat());
      return m.entries(G, (_, i, j) => step[N * i + j]);
    });
  }

  // The updates of one run: `norm` is ||P||_2, `defect` ||U^T U - I||_2, `reset` "", "due" or "forced".
  function run(steps, fed, settings, force) {
    let state = maps.exact(start(), maps.signs(N, NEGATIVE_ONES));
    let lost = false;
    return steps.map(function (delta, k) {
      const { order, resetEvery } = settings;
      const due = resetEvery !== null && (k + 1) % resetEvery === 0;
      if (lost && !due) {
        state = Object.assign({}, state, { A: m.minus(state.A, delta), step: k + 1 }); // [ncgru:alg1/6]
        return { norm: NaN, defect: NaN, reset: "lost" };
      }
      state = maps.neumannCayleyRetract(state, delta, { order, resetEvery, series: fed[k], force }); // [ncgru:alg1]
      const defect = m.defect(state.U);
      lost = !(defect < LOST);
      return { norm: state.norm, defect: defect, reset: state.forced ? "forced" : due ? "due" : "" };
    });
  }

  // settings: rate, order, resetEvery (null for never), size (of the gradients), force.
  function numbers(settings) {
    const all = gradients(settings.size);
    const steps = deltas(settings.rate, all);
    const released = all.map((G) => m.scaled(G, settings.rate));
    return {
      paper: run(steps, steps, settings, settings.force),
      released: run(steps, released, settings, false),
    };
  }

  // One update from the exact inverse, by Adam's first step at a rate: ||P||_2 and the defect of orders 1, 2 and 3.
  function oneUpdate(rate, sign) {
    const state = maps.exact(start(), maps.signs(N, NEGATIVE_ONES));
    const delta = m.scaled(sign, rate);
    const moved = [1, 2, 3].map((order) =>
      maps.neumannCayleyRetract(state, delta, { order: order, resetEvery: null, force: false })); // [ncgru:alg1]
    return { norm: moved[0].norm, defects: moved.map((one) => m.defect(one.U)) };
  }

  // Adam's first step for each unit of the rate.
  function firstStep() {
    return deltas(1, gradients(1))[0];
  }

  if (inNode) {
    module.exports = { start, gradients, numbers, firstStep, oneUpdate };
    return;
  }

  const { shown } = window.alive.frame;
  const RATES = Array.from({ length: 26 }, (_, k) => Math.pow(10, -5 + k / 5));
  const BY_RATE = RATES.map((rate) => oneUpdate(rate, firstStep()));
  const RESETS = [
    ["1", "after every update"],
    ["10", "every 10 updates"],
    ["20", "every 20 (the paper, copying)"],
    ["49", "every 49 (released code)"],
    ["50", "every 50 (the paper)"],
    ["never", "never"],
  ];
  const UPDATE_AXIS = { label: "update", from: 0, to: UPDATES };

  function power(value) {
    return shown(Math.pow(10, value));
  }

  // Which updates the table has: the first ones, every tenth, and the one before it, which is the last before a reset.
  function listed(update) {
    return update <= 5 || update % 10 === 9 || update % 10 === 0;
  }

  function curveOf(rows, name) {
    return rows.map((row, k) => [k + 1, row[name]]);
  }

  function drawDefects(chart, found) {
    chart.begin({ x: UPDATE_AXIS, y: { label: "defect", from: 1e-17, to: 1e5, log: true } });
    chart.curve("Algorithm 1", curveOf(found.paper, "defect"), 1);
    chart.curve("released update", curveOf(found.released, "defect"), 2);
    const last = UPDATES - 1;
    chart.end("After " + UPDATES + " updates: Algorithm 1 " + shown(found.paper[last].defect) + ", released update " +
      shown(found.released[last].defect) + ".");
  }

  function drawNorms(chart, found) {
    chart.begin({ x: UPDATE_AXIS, y: { label: "‖P‖₂", from: 1e-6, to: 1e3, log: true } });
    chart.curve("1: the series need not converge", [[0, 1], [UPDATES, 1]], 0);
    chart.curve("Algorithm 1", curveOf(found.paper, "norm"), 1);
    const forced = curveOf(found.paper, "norm").filter((_, k) => found.paper[k].reset === "forced");
    chart.points(forced.length ? "forced resets" : "", forced, 6, "triangle");
    chart.end(forced.length + " forced resets.");
  }

  function drawByRate(chart, rate) {
    chart.begin({
      x: { label: "rate", from: 1e-5, to: 1, log: true },
      y: { label: "defect, or ‖P‖₂", from: 1e-17, to: 1e5, log: true },
    });
    [1, 2, 3].forEach(function (order) {
      chart.curve("order " + order, RATES.map((x, k) => [x, BY_RATE[k].defects[order - 1]]), order);
    });
    chart.curve("‖P‖₂", RATES.map((x, k) => [x, BY_RATE[k].norm]), 0);
    const own = oneUpdate(rate, firstStep());
    chart.points("at this rate", own.defects.map((defect) => [rate, defect]), 6, "diamond");
    chart.end("At this rate, orders 1, 2 and 3: " + own.defects.map(shown).join(", ") + ".");
  }

  function words(settings, found) {
    const worst = (rows) => Math.max(...rows.map((row) => (Number.isFinite(row.defect) ? row.defect : LOST)));
    const forced = found.paper.filter((row) => row.reset === "forced").length;
    const crossed = found.paper.filter((row) => row.norm >= 1).length;
    const tell = (value) => (value >= LOST ? "more than 1e12" : shown(value));
    const crossing = !crossed
      ? "‖P‖₂ stays below 1. "
      : settings.force
        ? "‖P‖₂ reached 1 in " + crossed + " updates; each was followed by a forced reset. "
        : "‖P‖₂ reached 1 in " + crossed + " updates, and nothing took the series out of use. ";
    return crossing + "Largest defect: Algorithm 1 " + tell(worst(found.paper)) + ", released update " +
      tell(worst(found.released)) + ". Forced resets: " + forced + ".";
  }

  window.alive.neumann = { start, gradients, numbers, firstStep, oneUpdate };
  window.alive.frame.picture("neumann", function (at) {
    const rate = at.slider({
      name: "rate", label: "Adam's rate", min: -5, max: 0, step: 0.1, value: -3, shown: power,
    });
    const size = at.slider({
      name: "size", label: "Size of the gradients", min: -4, max: 1, step: 0.1, value: -1, shown: power,
    });
    const order = at.choice({
      name: "order",
      label: "Order of the series",
      options: [["1", "1"], ["2", "2 (the paper)"], ["3", "3"]],
      value: "2",
    });
    const resets = at.choice({ name: "resets", label: "Exact inverse", options: RESETS, value: "50" });
    const force = at.choice({
      name: "force",
      label: "Where ‖P‖₂ ≥ 1",
      options: [["yes", "reset (ortho_ref)"], ["no", "go on (the paper)"]],
      value: "yes",
    });
    at.play(rate, "Raise the rate", 8);
    const defects = at.chart("Defect ‖UᵀU - I‖₂ over the updates");
    const norms = at.chart("‖P‖₂ over the updates");
    const byRate = at.chart("Defect of one update from the exact inverse");
    const updates = at.table("update by update", [
      "update", "‖P‖₂", "defect, Algorithm 1", "reset", "defect, released update",
    ]);
    const one = at.table("one update, by rate", ["rate", "‖P‖₂", "order 1", "order 2", "order 3"]);
    one.fill(RATES.map((x, k) => [x, BY_RATE[k].norm, ...BY_RATE[k].defects]));
    return function () {
      const settings = {
        rate: Math.pow(10, rate.value),
        size: Math.pow(10, size.value),
        order: Number(order.value),
        resetEvery: resets.value === "never" ? null : Number(resets.value),
        force: force.value === "yes",
      };
      const found = numbers(settings);
      drawDefects(defects, found);
      drawNorms(norms, found);
      drawByRate(byRate, settings.rate);
      const rows = found.paper.map((row, k) => [k + 1, row.norm, row.defect, row.reset, found.released[k].defect]);
      updates.fill(rows.filter((row) => listed(row[0])));
      at.say(words(settings, found));
    };
  });
})();
