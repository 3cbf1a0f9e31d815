// How large A has to be for a rotation by an angle near pi, n = 2: with D = I, with D = -I, and for the exponential.
//
//     A = (I - U D) (I + U D)^-1                [ncgru:2-inv]
//     a rotation by w:  |A_12| = tan(w / 2) with D = I,  cot(w / 2) with D = -I  (E-ncgru-07)
//     of A_12 = a the Cayley U turns by 2 atan(a): by 2 / (1 + a^2) for each unit of a
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const maps = inNode ? require("./maps.js") : window.alive.maps;

  // A for U and D; not finite where U D has the eigenvalue -1.
  function parameter(U, D) {
    const I = m.identity(U.length);
    const UD = maps.columnsTimes(U, D);
    return m.times(m.minus(I, UD), m.inverse(m.plus(I, UD))); // [ncgru:2-inv]
  }

  // settings: short, how far the angle is from pi.
  function numbers(settings) {
    const angle = Math.PI - settings.short;
    // cos and sin of pi - short, without the rounding of pi
    const c = -Math.cos(settings.short);
    const s = Math.sin(settings.short);
    const U = [[c, -s], [s, c]];
    const [plain, negative] = [[1, 1], [-1, -1]].map((D) => Math.abs(parameter(U, D)[0][1]));
    return [
      { name: "Cayley, D = I", entry: plain, turned: 2 / (1 + plain * plain) },
      { name: "Cayley, D = -I", entry: negative, turned: 2 / (1 + negative * negative) },
      { name: "exponential", entry: angle, turned: 1 },
    ];
  }

  if (inNode) {
    module.exports = { parameter, numbers };
    return;
  }

  const { shown } = window.alive.frame;
  const GRID = Array.from({ length: 81 }, (_, k) => Math.pow(10, -4 + k / 20)).filter((short) => short < Math.PI / 2);

  window.alive.halfTurn = { parameter, numbers };
  window.alive.frame.picture("half-turn", function (at) {
    const short = at.slider({
      name: "short",
      label: "Angle, short of π by",
      min: -4,
      max: 0.1,
      step: 0.05,
      value: -1,
      shown: (power) => shown(Math.pow(10, power)),
    });
    at.play(short, "Turn", 15);
    const chart = at.chart("Entry of A that is needed");
    const columns = ["map", "|A₁₂|", "turned by a unit of A₁₂"];
    const table = at.table("a rotation that short of π", columns);
    return function () {
      const settings = { short: Math.pow(10, short.value) };
      const found = numbers(settings);
      const curves = GRID.map((own) => numbers({ short: own }));
      chart.begin({
        x: { label: "π less the angle", from: 1e-4, to: 2, log: true },
        y: { label: "|A₁₂|", from: 1e-5, to: 1e5, log: true },
      });
      found.forEach(function (own, i) {
        chart.curve(own.name, GRID.map((x, k) => [x, curves[k][i].entry]), i + 1);
        chart.points("", [[settings.short, own.entry]], i + 1, ["circle", "square", "diamond"][i]);
      });
      const said = found.map((own) => own.name + " " + shown(own.entry)).join("; ");
      chart.end("At " + shown(settings.short) + " short of π the entry is: " + said + ".");
      table.fill(found.map((own) => [own.name, own.entry, own.turned]));
      const [plain, negative] = found;
      at.say("For a rotation that is " + shown(settings.short) + " short of π, D = I needs an entry of " +
        shown(plain.entry) + ", and a step of 1 in it turns U by " + shown(plain.turned) + " only; D = -I needs " +
        shown(negative.entry) + ".");
    };
  });
})();
