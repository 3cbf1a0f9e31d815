// Where the eigenvalues of U are, for four parametrizations, while their parameter walks along a line from t = 0.
// n = 6; A = t K with a skew K of norm 1, so that t is ||A||_2.
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const maps = inNode ? require("./maps.js") : window.alive.maps;
  const orthogonal = inNode ? require("./orthogonal.js") : window.alive.orthogonal;
  const random = inNode ? require("./random.js") : window.alive.random;
  const eigen = inNode ? require("./eigen.js") : window.alive.eigen;
  const N = 6;

  // What a direction of the walk has: K; an angle for each rotation, layer by layer; V_0 and V_1, v_j beginning at j.
  function direction(seed, reflections) {
    const draw = random.uniform(seed + 12);
    const skew = random.skew(draw, N);
    const layers = m.zeros(N, N / 2).map((row, k) => row.slice(k % 2).map(draw));
    const below = () => m.entries(random.matrix(draw, N, N), (entry, j, i) => (i < j ? 0 : entry));
    const starts = below();
    const moves = below();
    return {
      K: m.scaled(skew, 1 / m.norm(skew)),
      layers: layers,
      starts: starts.slice(0, reflections),
      moves: moves.slice(0, reflections),
    };
  }

  // The parameters at t.  settings: t, direction (a seed), negativeOnes, reflections.
  function parameters(settings) {
    const { K, layers, starts, moves } = direction(settings.direction, settings.reflections);
    return {
      A: m.scaled(K, settings.t),
      D: maps.signs(N, settings.negativeOnes),
      layers: m.scaled(layers, settings.t),
      vectors: m.plus(starts, m.scaled(moves, settings.t)),
    };
  }

  // For each map the angles of the eigenvalues of its U, and how many are -1: det U is -1 where that count is odd.
  function numbers(settings) {
    const { A, D, layers, vectors } = parameters(settings);
    const all = {
      cayley: maps.exact(A, D).U,
      exponential: orthogonal.exponential(A),
      rotations: orthogonal.rotations(layers, N),
      reflections: orthogonal.reflections(vectors),
    };
    return Object.keys(all).map(function (name) {
      const angles = eigen.angles(all[name]);
      const minusOnes = angles.filter((angle) => angle === Math.PI).length;
      return { name: name, U: all[name], angles: angles, minusOnes: minusOnes, det: minusOnes % 2 ? -1 : 1 };
    });
  }

  if (inNode) {
    module.exports = { parameters, numbers };
    return;
  }

  const TITLES = {
    cayley: "Cayley with D",
    exponential: "Exponential",
    rotations: "Rotations",
    reflections: "Reflections",
  };
  const SHAPES = { cayley: "circle", exponential: "square", rotations: "diamond", reflections: "triangle" };
  const AXES = { x: { label: "Re", from: -1.25, to: 1.25 }, y: { label: "Im", from: -1.25, to: 1.25 } };
  const CIRCLE = Array.from({ length: 129 }, (_, k) => onCircle((2 * Math.PI * k) / 128));

  function onCircle(angle) {
    return [Math.cos(angle), Math.sin(angle)];
  }

  function drawOne(chart, own, series) {
    chart.begin(AXES);
    chart.curve("", CIRCLE, 0);
    chart.points("", own.angles.map(onCircle), series, SHAPES[own.name]);
    [[0, 1.02], [Math.PI, -1.22]].forEach(function ([angle, left]) {
      const there = own.angles.filter((found) => found === angle).length;
      if (there > 1) {
        chart.words(left, 0.06, "×" + there);
      }
    });
    const list = own.angles.map(window.alive.frame.shown).join(", ");
    chart.end("Eigenvalues on the unit circle at the angles " + list + "; det U = " + own.det + ".");
  }

  // One sentence: what D, or the count of reflections, forces.
  function words(settings, found) {
    const [cayley, , , reflections] = found;
    const { t, negativeOnes: k } = settings;
    const widest = Math.max(...found[1].angles.map(Math.abs));
    const start = t === 0 ? "At t = 0 the Cayley U is D itself. " : "";
    const forced = k % 2
      ? "D has an odd number of -1: det U = -1, and one eigenvalue of the Cayley U stays at -1 for every A. "
      : k
        ? "D has an even number of -1: det U = 1, and A can move every eigenvalue off -1. "
        : "D = I: no finite A moves an eigenvalue of the Cayley U to -1. ";
    return start + forced + "At -1 now: " + cayley.minusOnes + ". The exponential's widest angle is " +
      window.alive.frame.shown(widest) + "; " + settings.reflections + " reflections: det U = " + reflections.det +
      ", and at least " + (N - settings.reflections) + " eigenvalues at 1.";
  }

  window.alive.eigenvalues = { parameters, numbers };
  window.alive.frame.picture("eigenvalues", function (at) {
    const t = at.slider({ name: "t", label: "Walk t, which is ‖A‖", min: 0, max: 10, step: 0.02, value: 1 });
    const k = at.slider({ name: "negative-ones", label: "-1's of D", min: 0, max: N, step: 1, value: 2 });
    const count = at.slider({ name: "reflections", label: "Reflections", min: 1, max: N - 1, step: 1, value: 3 });
    const seed = at.slider({ name: "direction", label: "Direction of the path", min: 1, max: 20, step: 1, value: 1 });
    at.play(t, "Walk", 30);
    const charts = {};
    Object.keys(TITLES).forEach(function (name) {
      charts[name] = at.chart(TITLES[name], true);
    });
    const angles = Array.from({ length: N }, (_, i) => "angle " + (i + 1));
    const table = at.table("angles of the eigenvalues, in radians", ["map", "det U", "at -1", ...angles]);
    return function () {
      const settings = {
        t: t.value,
        direction: seed.value,
        negativeOnes: k.value,
        reflections: count.value,
      };
      const found = numbers(settings);
      found.forEach(function (own, i) {
        drawOne(charts[own.name], own, i + 1);
      });
      table.fill(found.map((own) => [TITLES[own.name], own.det, own.minusOnes, ...own.angles]));
      at.say(words(settings, found));
    };
  });
})();
