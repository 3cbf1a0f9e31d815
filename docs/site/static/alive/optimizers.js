// Optimizers as in ortho_ref/training/optimizers.py: of(config) is a function that takes a parameter and its gradient,
// both vectors, and returns what is to be subtracted; it keeps its moments.  At update k = 1, 2, ...
//
//     g <- g + weight_decay p                                             [bp:opt/g]
//     SGD: m <- momentum m + g;  delta = rate m                           [bp:opt/momentum] [bp:opt/sgd]
//     RMSprop: v <- decay v + (1 - decay) g^2                             [bp:opt/square]
//         delta = rate g / (sqrt(v) + epsilon), or rate g / sqrt(v + epsilon)         [bp:opt/outside] [bp:opt/inside]
//     Adam: m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2             [bp:opt/m] [bp:opt/v]
//         delta = rate * m / (1 - b1^k) / (sqrt(v / (1 - b2^k)) + epsilon)            [bp:opt/delta]
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;

  function sgd(config) {
    let mean = null;
    return function (g) {
      const momentum = config.momentum || 0;
      mean = mean ? m.each((old, fresh) => momentum * old + fresh, mean, g) : g; // [bp:opt/momentum]
      return mean.map((entry) => config.learning_rate * entry); // [bp:opt/sgd]
    };
  }

  function rmsprop(config) {
    const { learning_rate, decay, initial, epsilon } = config;
    let v = null;
    return function (g) {
      const before = v || g.map(() => initial);
      v = m.each((old, fresh) => decay * old + (1 - decay) * fresh * fresh, before, g); // [bp:opt/square]
      return m.each(function (entry, square) {
        const root = config.epsilon_inside ? Math.sqrt(square + epsilon) : Math.sqrt(square) + epsilon;
        return root > 0 ? (learning_rate * entry) / root : 0; // [bp:opt/outside] [bp:opt/inside]
      }, g, v);
    };
  }

  function adam(config) {
    const { learning_rate, beta1, beta2, epsilon } = config;
    let k = 0;
    let mean = null;
    let v = null;
    return function (g) {
      const zero = g.map(() => 0);
      k += 1;
      mean = m.each((old, fresh) => beta1 * old + (1 - beta1) * fresh, mean || zero, g); // [bp:opt/m]
      v = m.each((old, fresh) => beta2 * old + (1 - beta2) * fresh * fresh, v || zero, g); // [bp:opt/v]
      const rate = learning_rate / (1 - beta1 ** k);
      return m.each((a, b) => (rate * a) / (Math.sqrt(b / (1 - beta2 ** k)) + epsilon), mean, v); // [bp:opt/delta]
    };
  }

  const byName = { sgd, rmsprop, adam };

  function of(config) {
    const delta = byName[config.name](config);
    return function (p, g) {
      return delta(m.each((gradient, entry) => gradient + (config.weight_decay || 0) * entry, g, p)); // [bp:opt/g]
    };
  }

  const own = { of };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive.optimizers = own;
  }
})();
