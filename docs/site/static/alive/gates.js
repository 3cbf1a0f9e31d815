// Two units whose gates open and shut by turns: each Jacobian is harmless, their product grows (E-ncgru-05).
//
//     At h = 0 and r = 1 a tanh GRU has  J = diag(1 - u) + diag(u) U_c            [ncgru:36] [ncgru:40]
//     u in turn (sigma(-a), sigma(a)) and (sigma(a), sigma(-a)); U_c a rotation, or a reflection
//     A rotation of cosine -1 / phi grows fastest: by sqrt(phi) = 1.2720 a step for gates that are 0 and 1.
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const { sigmoid } = inNode ? require("./activations.js") : window.alive.activations;
  const STEPS = 100;
  const FASTEST = Math.sqrt((1 + Math.sqrt(5)) / 2);

  function orthogonal(angle, kind) {
    const [c, s] = [Math.cos(angle), Math.sin(angle)];
    return kind === "rotation" ? [[c, -s], [s, c]] : [[c, s], [s, -c]];
  }

  function jacobian(u, U_c) {
    const kept = m.diagonal(u.map((entry) => 1 - entry));
    return m.plus(kept, m.times(m.diagonal(u), U_c)); // [ncgru:36] [ncgru:40]
  }

  // The two Jacobians that take turns; `alike`: both units have the first one's gate.
  function pair(settings, alike) {
    const u = sigmoid([-settings.a, settings.a]); // [ncgru:1/u]
    const turns = [[u[0], alike ? u[0] : u[1]], [u[1], alike ? u[1] : u[0]]];
    return turns.map((own) => jacobian(own, orthogonal(settings.angle, settings.kind)));
  }

  // The square root of the largest |eigenvalue| of J_2 J_1: what a step multiplies by in the long run.
  function growth([J_1, J_2]) {
    const M = m.times(J_2, J_1);
    const half = (M[0][0] + M[1][1]) / 2;
    const det = M[0][0] * M[1][1] - M[0][1] * M[1][0];
    const under = half * half - det;
    return Math.sqrt(under < 0 ? Math.sqrt(det) : Math.abs(half) + Math.sqrt(under));
  }

  // ||J_t ... J_1||_2 for t = 1, 2, ...
  function norms(both) {
    let product = m.identity(2);
    return Array.from({ length: STEPS }, function (_, k) {
      product = m.times(both[k % 2], product); // [ncgru:8]
      return m.norm(product);
    });
  }

  // settings: angle, kind ("rotation" or "reflection"), a.
  function numbers(settings) {
    const [mixed, alike] = [pair(settings, false), pair(settings, true)];
    return {
      step: m.norm(mixed[0]),
      growth: growth(mixed),
      norms: norms(mixed),
      alike: norms(alike),
    };
  }

  if (inNode) {
    module.exports = { numbers };
    return;
  }

  const { shown } = window.alive.frame;
  const DEGREE = Math.PI / 180;
  const ANGLES = Array.from({ length: 181 }, (_, k) => k);

  function drawProduct(chart, found) {
    chart.begin({
      x: { label: "steps t", from: 0, to: STEPS },
      y: { label: "norm", from: 1e-3, to: 1e15, log: true },
    });
    const over = (value) => Array.from({ length: STEPS }, (_, k) => [k + 1, value(k + 1)]);
    chart.curve("mixed gates", over((t) => found.norms[t - 1]), 1);
    chart.curve("gates alike", over((t) => found.alike[t - 1]), 3);
    chart.curve("product of the steps' own norms", over((t) => Math.pow(found.step, t)), 2);
    chart.curve("1.272 a step", over((t) => Math.pow(FASTEST, t)), 0);
    const last = STEPS - 1;
    chart.end("After " + STEPS + " steps: mixed gates " + shown(found.norms[last]) + ", gates alike " +
      shown(found.alike[last]) + ".");
  }

  function drawGrowth(chart, settings, found) {
    chart.begin({
      x: { label: "angle, degrees", from: 0, to: 180 },
      y: { label: "growth a step", from: 0, to: 1.4 },
    });
    ["rotation", "reflection"].forEach(function (kind, k) {
      const of = (degrees) => growth(pair({ angle: degrees * DEGREE, kind: kind, a: settings.a }, false));
      chart.curve(kind, ANGLES.map((degrees) => [degrees, of(degrees)]), k + 1);
    });
    chart.curve("1.2720, the root of the golden ratio", [[0, FASTEST], [180, FASTEST]], 0);
    chart.points("here", [[settings.angle / DEGREE, found.growth]], 6, "diamond");
    chart.end("At " + shown(settings.angle / DEGREE) + " degrees a " + settings.kind + " grows by " +
      shown(found.growth) + " a step.");
  }

  window.alive.gates = { numbers };
  window.alive.frame.picture("gates", function (at) {
    const angle = at.slider({
      name: "angle",
      label: "Angle of U_c",
      min: 0,
      max: 180,
      step: 0.1,
      value: 128.2,
      shown: (x) => shown(x) + "°",
    });
    const a = at.slider({
      name: "a",
      label: "How far the gates open and shut",
      min: 0,
      max: 20,
      step: 0.1,
      value: 10,
      shown: (x) => "u = " + shown(sigmoid([-x])[0]) + " and " + shown(sigmoid([x])[0]),
    });
    const kind = at.choice({
      name: "kind",
      label: "U_c",
      options: [["rotation", "a rotation"], ["reflection", "a reflection"]],
      value: "rotation",
    });
    at.play(angle, "Turn U_c", 60);
    const product = at.chart("‖Jₜ ... J₁‖₂ over the steps");
    const byAngle = at.chart("Growth per step against the angle of U_c");
    const table = at.table("the product, step by step", ["t", "mixed gates", "gates alike"]);
    const single = at.table("one number each", ["what", "value"]);
    return function () {
      const settings = { angle: angle.value * DEGREE, kind: kind.value, a: a.value };
      const found = numbers(settings);
      drawProduct(product, found);
      drawGrowth(byAngle, settings, found);
      const rows = found.norms.map((norm, k) => [k + 1, norm, found.alike[k]]);
      table.fill(rows.filter(([t]) => t <= 10 || t % 10 === 0));
      single.fill([
        ["norm of one step's Jacobian", found.step],
        ["growth a step, in the long run", found.growth],
      ]);
      at.say("Each step's Jacobian has the norm " + shown(found.step) + ". With mixed gates the product grows by " +
        shown(found.growth) + " a step, to " + shown(found.norms[STEPS - 1]) + " after " + STEPS +
        "; with gates alike it is " + shown(found.alike[STEPS - 1]) + ".");
    };
  });
})();
