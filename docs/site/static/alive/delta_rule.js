// ||dL/dh_t|| of a delta rule with a state of one column, h_t = S_t: what a step keeps of a gradient, by beta.
//
//     J_t = alpha (I - beta k_t k_t^T),  h_t = J_t h_{t-1} + what is written   (Gated DeltaNet, docs/linear.md)
//     dL/dh_{t-1} = J_t^T dL/dh_t, of a loss of the last step alone             [bp:bptt/g]
//     ||dL/dh_t|| over t                                                        [urnn:diag]
//     of all gradients: the largest and smallest singular value of J_T ... J_{t+1}  [ncgru:7]
//     beta = 2, |k| = 1: J_t / alpha is a reflection                            [goru:householder]
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const random = inNode ? require("./random.js") : window.alive.random;

  const CHANNELS = 8;

  function unit(v) {
    const size = m.length(v);
    return v.map((entry) => entry / size);
  }

  // Entries that are sums of twelve uniform ones: directions that favour no axis to be seen.
  function direction(draw) {
    return unit(new Array(CHANNELS).fill(0).map(() => m.sum(...Array.from({ length: 12 }, () => [draw()]))[0]));
  }

  // The keys of steps 1 to T, of the length that is set, and the gradient by the last state, of length 1.
  function drawn(settings) {
    const { T, keys, size } = settings;
    const last = direction(random.uniform(2));
    const draw = random.uniform(1);
    const first = direction(draw);
    const own = {
      random: () => direction(draw),
      same: () => first,
      turns: (t) => m.identity(CHANNELS)[t % CHANNELS],
    }[keys];
    const all = Array.from({ length: T }, (_, t) => own(t).map((entry) => size * entry));
    return { keys: all, last: last };
  }

  // alpha (I - beta k k^T) v
  function step(v, k, { alpha, beta }) {
    const along = beta * m.dot(k, v);
    return v.map((entry, i) => alpha * (entry - along * k[i])); // [goru:householder]
  }

  // Rows of t = T to 0: the norm of dL/dh_t, and the largest and smallest that any gradient of length 1 can have.
  function numbers(settings) {
    const { keys, last } = drawn(settings);
    let g = last;
    let columns = m.identity(CHANNELS);
    const row = () => {
      const values = m.singularValues(columns);
      return { norm: m.length(g), most: values[0], least: values[CHANNELS - 1] }; // [urnn:diag]
    };
    const rows = [row()];
    keys.slice().reverse().forEach(function (k) {
      g = step(g, k, settings); // [bp:bptt/g]
      columns = columns.map((column) => step(column, k, settings)); // [ncgru:7]
      rows.push(row());
    });
    return rows.reverse();
  }

  // What a step keeps of a gradient's length on average, if k points anywhere: the root of the mean of its square.
  function mean({ alpha, beta, size }) {
    const along = 1 - beta * size * size;
    return alpha * Math.sqrt(1 - (1 - along * along) / CHANNELS);
  }

  if (inNode) {
    module.exports = { drawn, numbers, mean };
    return;
  }

  const { shown } = window.alive.frame;
  window.alive.deltaRule = { drawn, numbers, mean };

  function words(settings, found, along) {
    const kept = "Of the last step's gradient " + shown(found[0].norm) + " is left at h_0. ";
    const turned = Math.abs(along) > 1 + 1e-9
      ? "Along k the step multiplies by " + shown(along) + ", which is more than 1: gradients may grow."
      : along < -1e-9
        ? "Along k the step turns the sign and keeps " + shown(-along) + "."
        : "Along k the step keeps " + shown(Math.abs(along)) + ".";
    return kept + turned + " Across k it keeps " + shown(settings.alpha) + ".";
  }

  window.alive.frame.picture("delta-rule", function (at) {
    const keys = at.choice({
      name: "keys",
      label: "Keys",
      options: [["random", "random directions"], ["same", "the same at every step"], ["turns", "eight axes in turn"]],
      value: "random",
    });
    const beta = at.slider({ name: "beta", label: "β, the share replaced", min: 0, max: 2, step: 0.01, value: 1 });
    const alpha = at.slider({ name: "alpha", label: "α, the decay", min: 0.8, max: 1, step: 0.005, value: 1 });
    const size = at.slider({ name: "size", label: "Length of the keys", min: 0.5, max: 1.2, step: 0.01, value: 1 });
    const T = at.slider({ name: "T", label: "Steps T", min: 8, max: 200, step: 1, value: 64 });
    at.play(beta, "Raise β", 25);
    const chart = at.chart("Norm of dL/dh_t");
    const table = at.table("norm of dL/dh_t, and of what any gradient of length 1 can keep", [
      "t", "norm", "largest", "smallest", "expected for keys in any direction",
    ]);
    return function () {
      const settings = {
        T: T.value, keys: keys.value, beta: beta.value, alpha: alpha.value, size: size.value,
      };
      const found = numbers(settings);
      const along = settings.alpha * (1 - settings.beta * settings.size * settings.size);
      const expected = found.map((_, t) => Math.pow(mean(settings), settings.T - t));
      const seen = found.flatMap(({ norm, most }, t) => [norm, most, expected[t]]).filter((value) => value > 1e-30);
      const limits = {
        from: Math.pow(10, Math.floor(Math.log10(Math.max(1e-12, Math.min(...seen))) - 0.01)),
        to: Math.pow(10, Math.ceil(Math.log10(Math.max(...seen)) + 0.01)),
      };
      chart.begin({
        x: { label: "step t", from: 0, to: settings.T },
        y: { label: "norm of dL/dh_t", log: true, ...limits },
      });
      const line = (value) => found.map((one, t) => [t, value(one, t)]);
      chart.curve("expected, for keys in any direction", line((_, t) => expected[t]), 0);
      chart.curve("most that a gradient keeps", line(({ most }) => most), 2);
      chart.curve("least", line(({ least }) => least), 3);
      chart.curve("this gradient", line(({ norm }) => norm), 1);
      const said = words(settings, found, along);
      chart.end(said);
      table.fill(found.map(({ norm, most, least }, t) => [t, norm, most, least, expected[t]]));
      at.say(said);
    };
  });
})();
