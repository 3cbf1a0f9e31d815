(function () {
  "use strict";

  const { frame } = window.alive;

  frame.picture("eigenvalues", function (at) {
    const turn = at.slider({ name: "turn", label: "Turn", min: 0, max: 3, step: 0.01, value: 1 });
    at.play(turn, "Play", 30);
    const chart = at.chart("Circle", true);
    const other = at.chart("Other", true);
    const wide = at.chart("Wide");
    const table = at.table("Points", ["x", "y"]);
    return function () {
      [chart, other].forEach(function (one) {
        one.begin({ x: { label: "Re", from: -1.2, to: 1.2 }, y: { label: "Im", from: -1.2, to: 1.2 } });
        one.points("a point", [[Math.cos(turn.value), Math.sin(turn.value)]], 1);
        one.end("One point.");
      });
      wide.begin({ x: { label: "t", from: 0, to: 3 }, y: { label: "norm", from: 1e-12, to: 10, log: true } });
      [1, 2, 3, 4, 5, 6, 0].forEach(function (k) {
        wide.curve("curve " + k, [[0, 1e-10 * 10 ** k], [3, Math.exp(-turn.value * k)]], k);
      });
      wide.end("Curves.");
      table.fill([["x", Math.cos(turn.value)]]);
      at.say("A sentence.");
    };
  });
})();
