// modReLU, real and complex: its value, its derivatives, its two kinks, and the jump at 0 for b > 0.
//
//     real: sgn(z) max(|z| + b, 0)                         [ncgru:20], derivatives [bp:modrelu-real]
//     complex: of (Re z, Im z) the derivative has the singular values 1 and 1 + b / |z| where |z| + b > 0
//                                                          [bp:modrelu-complex] (E-urnn-03)
//     released code: (|z| + b) / (|z| + 1e-5) z where |z| + b > 0          (E-all-01)
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const { modrelu, modreluComplex } = inNode ? require("./activations.js") : window.alive.activations;
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const SMALL = 1e-5;

  function value(z, b) {
    return modrelu.value([z], [b])[0]; // [ncgru:20]
  }

  function released(z, b) {
    return (Math.max(Math.abs(z) + b, 0) / (Math.abs(z) + SMALL)) * z;
  }

  // ||derivative||_2 of the complex one at z > 0, by its adjoint.
  function complexNorm(z, b) {
    const columns = [[1, 0], [0, 1]].map((dy) => modreluComplex.pullback(dy, [z, 0], [b]).da); // [bp:modrelu-complex]
    return m.norm(columns);
  }

  // settings: z, b, and h, half of the width of a difference across 0.
  function numbers(settings) {
    const { z, b, h } = settings;
    const y = modrelu.value([z], [b]); // [ncgru:20]
    const { da, db } = modrelu.pullback([1], [z], [b], y); // [bp:modrelu-real]
    return {
      value: y[0],
      slope: da[0],
      biasSlope: db[0],
      distance: Math.min(Math.abs(z), Math.abs(Math.abs(z) + b)),
      jump: 2 * Math.max(b, 0),
      difference: (value(h, b) - value(-h, b)) / (2 * h),
      complexNorm: complexNorm(Math.abs(z), b),
      released: released(z, b),
    };
  }

  if (inNode) {
    module.exports = { numbers };
    return;
  }

  const { shown } = window.alive.frame;
  const SIZES = Array.from({ length: 121 }, (_, k) => Math.pow(10, -3 + k / 30)).filter((size) => size <= 2);

  // From -2 to 2 with the kinks at |z| = -b as points of their own.
  function grid(b) {
    const even = Array.from({ length: 161 }, (_, k) => k / 80);
    const kinks = b < 0 ? [-b] : [];
    return [...even.filter((z) => z > 0), ...kinks].sort((one, two) => one - two);
  }

  function drawValue(chart, settings) {
    const { z, b, h } = settings;
    chart.begin({ x: { label: "z", from: -2, to: 2 }, y: { label: "Φ(z)", from: -3, to: 3 } });
    const right = [Number.MIN_VALUE, ...grid(b)].map((x) => [x, value(x, b)]);
    const left = right.map(([x, y]) => [-x, -y]).reverse();
    chart.curve("modReLU", [...left, [NaN, NaN], ...right], 1);
    chart.curve("difference across 0", [[-h, value(-h, b)], [h, value(h, b)]], 2);
    const kinks = [[0, 0], ...(b < 0 ? [[b, 0], [-b, 0]] : [])];
    chart.points("kinks, where the derivative is taken as 0", kinks, 6, "diamond");
    chart.points("here", [[z, value(z, b)]], 1, "circle");
    const jump = b > 0 ? "It jumps by " + shown(2 * b) + " at 0." : "It is continuous.";
    chart.end("Φ(" + shown(z) + ") = " + shown(value(z, b)) + ". " + jump);
  }

  function drawNorm(chart, settings) {
    const { z, b } = settings;
    chart.begin({
      x: { label: "|z|", from: 1e-3, to: 2, log: true },
      y: { label: "norm of the derivative", from: 0, to: 5 },
    });
    chart.curve("1", [[1e-3, 1], [2, 1]], 0);
    const alive = SIZES.filter((size) => size + b > 0);
    const dead = SIZES.filter((size) => size + b <= 0);
    const gap = [[NaN, NaN]];
    chart.curve("real", [...dead.map((size) => [size, 0]), ...gap, ...alive.map((size) => [size, 1])], 1);
    const complex = (size) => [size, complexNorm(size, b)];
    chart.curve("complex", [...dead.map(complex), ...gap, ...alive.map(complex)], 2);
    const own = complexNorm(Math.abs(z), b);
    chart.points("here", [[Math.abs(z), own]], 2, "square");
    chart.end("At |z| = " + shown(Math.abs(z)) + " the complex norm is " + shown(own) + ".");
  }

  function words(settings, found) {
    const { z, b } = settings;
    const kind = b > 0
      ? "b > 0: Φ jumps by " + shown(2 * b) + " at 0, and a difference across the jump gives " +
        shown(found.difference) + " where the slope beside it is 1. The complex one stretches by " +
        shown(found.complexNorm) + " at |z| = " + shown(Math.abs(z)) + "."
      : b < 0
        ? "b < 0: Φ is 0 between the kinks at " + shown(b) + " and " + shown(-b) +
          ", and no derivative is above 1."
        : "b = 0: Φ is the identity.";
    return kind + " The nearest kink is " + shown(found.distance) + " from z.";
  }

  window.alive.modrelu = { numbers };
  window.alive.frame.picture("modrelu", function (at) {
    const b = at.slider({ name: "b", label: "Bias b", min: -1, max: 1, step: 0.01, value: 0.5 });
    const z = at.slider({ name: "z", label: "z", min: -2, max: 2, step: 0.01, value: 0.8 });
    const h = at.slider({
      name: "h",
      label: "Half width of a difference across 0",
      min: -6,
      max: 0,
      step: 0.1,
      value: -1,
      shown: (power) => shown(Math.pow(10, power)),
    });
    at.play(b, "Raise b", 25);
    const values = at.chart("modReLU of a real z");
    const norms = at.chart("Norm of the derivative");
    const table = at.table("at z, b and h", ["what", "value"]);
    return function () {
      const settings = { z: z.value, b: b.value, h: Math.pow(10, h.value) };
      const found = numbers(settings);
      drawValue(values, settings);
      drawNorm(norms, settings);
      table.fill([
        ["Φ(z)", found.value],
        ["dΦ/dz", found.slope],
        ["dΦ/db", found.biasSlope],
        ["distance of z from a kink", found.distance],
        ["jump at 0", found.jump],
        ["difference across 0", found.difference],
        ["norm of the complex derivative at |z|", found.complexNorm],
        ["released code's Φ(z)", found.released],
      ]);
      at.say(words(settings, found));
    };
  });
})();
