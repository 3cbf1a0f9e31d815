// Activations with their bias, Phi(a, b), and their adjoints, as in ortho_ref/activations.py; each of vectors.
//
//     sigmoid(a) = 1 / (1 + exp(-a))                           [bp:sigmoid]
//     tanh(a + b);  relu(a + b)                                [bp:tanh] [bp:relu]
//     modrelu(z, b) = z / |z| max(|z| + b, 0), real            [ncgru:20] [goru:2.7], back [bp:modrelu-real]
//                                              complex         [urnn:8], back [bp:modrelu-complex]
//
// A complex vector of n numbers is a real one of 2 n: the real parts, then the imaginary ones.  The derivative at a
// kink is 0, and modReLU at 0 is 0.
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;

  function sigmoid(a) {
    return a.map(function (entry) {
      const e = Math.exp(-Math.abs(entry));
      return entry >= 0 ? 1 / (1 + e) : e / (1 + e); // [bp:sigmoid]
    });
  }

  // dL/da of y = sigmoid(a), from dL/dy
  function sigmoidPullback(dy, y) {
    return m.each((d, value) => d * value * (1 - value), dy, y); // [bp:sigmoid]
  }

  const tanh = {
    value: function (a, b) {
      return m.each((entry, bias) => Math.tanh(entry + bias), a, b); // [bp:tanh]
    },
    pullback: function (dy, a, b, y) {
      const da = m.each((d, value) => d * (1 - value * value), dy, y); // [bp:tanh]
      return { da: da, db: da };
    },
  };

  const relu = {
    value: function (a, b) {
      return m.each((entry, bias) => Math.max(entry + bias, 0), a, b); // [bp:relu]
    },
    pullback: function (dy, a, b, y) {
      const da = m.each((d, value) => (value > 0 ? d : 0), dy, y); // [bp:relu]
      return { da: da, db: da };
    },
  };

  const modrelu = {
    value: function (z, b) {
      const size = m.each((entry, bias) => Math.max(Math.abs(entry) + bias, 0), z, b); // [ncgru:20] [goru:2.7]
      return m.each((entry, kept) => Math.sign(entry) * kept, z, size); // [ncgru:20] [goru:2.7]
    },
    pullback: function (dy, z, b) {
      const chi = m.each((entry, bias) => (entry !== 0 && Math.abs(entry) + bias > 0 ? 1 : 0), z, b);
      const dz = m.each((c, d) => c * d, chi, dy); // [bp:modrelu-real]
      return { da: dz, db: m.each((d, entry) => Math.sign(entry) * d, dz, z) }; // [bp:modrelu-real]
    },
  };

  const modreluComplex = {
    value: function (z, b) {
      const n = b.length;
      const y = new Array(2 * n).fill(0);
      for (let i = 0; i < n; i += 1) {
        const rho = Math.hypot(z[i], z[n + i]);
        const kept = Math.max(rho + b[i], 0);
        y[i] = rho > 0 ? (z[i] / rho) * kept : 0; // [urnn:8]
        y[n + i] = rho > 0 ? (z[n + i] / rho) * kept : 0; // [urnn:8]
      }
      return y;
    },
    pullback: function (dy, z, b) {
      const n = b.length;
      const dz = new Array(2 * n).fill(0);
      const db = new Array(n).fill(0);
      for (let i = 0; i < n; i += 1) {
        const rho = Math.hypot(z[i], z[n + i]);
        if (rho > 0 && rho + b[i] > 0) {
          const re = z[i] / rho;
          const im = z[n + i] / rho;
          const gamma = re * dy[i] + im * dy[n + i]; // [bp:modrelu-complex]
          const turned = 1 + b[i] / rho;
          dz[i] = re * gamma + turned * (dy[i] - re * gamma); // [bp:modrelu-complex]
          dz[n + i] = im * gamma + turned * (dy[n + i] - im * gamma); // [bp:modrelu-complex]
          db[i] = gamma; // [bp:modrelu-complex]
        }
      }
      return { da: dz, db: db };
    },
  };

  const own = { sigmoid, sigmoidPullback, tanh, relu, modrelu, modreluComplex };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive.activations = own;
  }
})();
