// Four cells for the pages that move, a step forward and a step back; the conformance kit holds them to
// ortho_ref/cells (tests/alive/test_kit.py).  States are columns: a vector is one sequence's.
//
// cell.forward(w, x, state) returns what each of its lines computes, by name, the new state among it; cell.backward(w,
// k, g) takes that, k, and g, all of dL/d(state), and returns what the lines of the adjoint compute;
// cell.weightGradients(k, d) the gradient of every weight.  A state is {h: vector}, for the LSTM {h, c}; x is a vector,
// or a token: the column of W that it names.
//
// The complex cell is the real one in the numbers' real and imaginary parts: U is (Re U, -Im U; Im U, Re U) there, W is
// (Re W; Im W), and Phi takes a number's two parts together.
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const m = inNode ? require("./matrices.js") : window.alive.matrices;
  const phis = inNode ? require("./activations.js") : window.alive.activations;
  const { each, sum, on, back, outer } = m;
  const { sigmoid, sigmoidPullback } = phis;

  // W x
  function input(W, x) {
    return typeof x === "number" ? W.map((row) => row[x]) : on(W, x); // [bp:bptt/tokens] [bp:bptt/W]
  }

  // dW = da x^T
  function inputGradient(W, x, da) {
    const one = typeof x === "number" ? W[0].map((_, j) => (j === x ? 1 : 0)) : x; // [bp:bptt/tokens]
    return outer(da, one); // [bp:bptt/W]
  }

  // dx = sum over the gates of W^T da; nothing for a token
  function inputBack(x, pairs) {
    return typeof x === "number" ? null : sum(...pairs.map(([W, da]) => back(W, da))); // [bp:bptt/W]
  }

  // Of one product W x + U v + b: the gradients of its weights, their names ending as `gate` says.
  function productGradients(w, gate, x, v, da, db, dp) {
    return {
      ["W" + gate]: inputGradient(w["W" + gate], x, da), // [bp:bptt/W]
      ["U" + gate]: outer(dp || da, v),
      ["b" + gate]: db, // [bp:bptt/W]
    };
  }

  // h = Phi(W x + U h + b): tanh RNN; with modReLU and an orthogonal U scoRNN; complex and with a unitary U the uRNN.
  function elman(phi) {
    return {
      states: ["h"],
      recurrent: ["U"],
      forward: function (w, x, { h: h_prev }) {
        const z = sum(input(w.W, x), on(w.U, h_prev)); // [urnn:1/z]
        const h = phi.value(z, w.b); // [urnn:1/h] [goru:2.6]
        return { x, h_prev, z, h };
      },
      backward: function (w, { x, z, h }, { h: dh }) {
        const { da: dz, db } = phi.pullback(dh, z, w.b, h); // [bp:rnn/1]
        const dh_prev = back(w.U, dz); // [bp:rnn/2] [bp:urnn/U]
        const dx = inputBack(x, [[w.W, dz]]); // [bp:bptt/W] [bp:urnn/x]
        return { dz, db, dh_prev, dx };
      },
      weightGradients: function (w, { x, h_prev }, { dz, db }) {
        return productGradients(w, "", x, h_prev, dz, db); // [bp:rnn/2] [bp:bptt/W]
      },
    };
  }

  // The GRU with the reset gate inside the recurrent product: ncgru:1, and with modReLU the NC-GRU's.
  function gruResetBefore(phi) {
    return {
      states: ["h"],
      recurrent: ["U_r", "U_u", "U_c"],
      forward: function (w, x, { h: h_prev }) {
        const r = sigmoid(sum(input(w.W_r, x), on(w.U_r, h_prev), w.b_r)); // [ncgru:1/r]
        const u = sigmoid(sum(input(w.W_u, x), on(w.U_u, h_prev), w.b_u)); // [ncgru:1/u]
        const s = each((gate, old) => gate * old, r, h_prev); // [ncgru:1/s]
        const a = sum(input(w.W_c, x), on(w.U_c, s)); // [ncgru:35]
        const c = phi.value(a, w.b_c); // [ncgru:1/c] [ncgru:19/c]
        const h = each((gate, old, fresh) => (1 - gate) * old + gate * fresh, u, h_prev, c); // [ncgru:1/h]
        return { x, h_prev, r, u, s, a, c, h };
      },
      backward: function (w, { x, h_prev, r, u, a, c }, { h: dh }) {
        const du = each((d, fresh, old) => d * (fresh - old), dh, c, h_prev); // [bp:gru1/1]
        const dc = each((d, gate) => d * gate, dh, u); // [bp:gru1/1]
        const dh_kept = each((d, gate) => d * (1 - gate), dh, u); // [bp:gru1/1]
        const { da: da_c, db: db_c } = phi.pullback(dc, a, w.b_c, c); // [bp:gru1/2]
        const ds = back(w.U_c, da_c); // [bp:gru1/2]
        const dr = each((d, old) => d * old, ds, h_prev); // [bp:gru1/3]
        const dh_reset = sum(dh_kept, each((d, gate) => d * gate, ds, r)); // [bp:gru1/3]
        const da_r = sigmoidPullback(dr, r); // [bp:gru1/4]
        const da_u = sigmoidPullback(du, u); // [bp:gru1/4]
        const dh_prev = sum(dh_reset, back(w.U_r, da_r), back(w.U_u, da_u)); // [bp:gru1/5]
        const dx = inputBack(x, [[w.W_r, da_r], [w.W_u, da_u], [w.W_c, da_c]]); // [bp:bptt/W]
        return { du, dc, dh_kept, da_c, db_c, ds, dr, dh_reset, da_r, da_u, dh_prev, dx };
      },
      weightGradients: function (w, { x, h_prev, s }, { da_r, da_u, da_c, db_c }) {
        return {
          ...productGradients(w, "_r", x, h_prev, da_r, da_r), // [bp:gru1/5] [bp:bptt/W]
          ...productGradients(w, "_u", x, h_prev, da_u, da_u), // [bp:gru1/5] [bp:bptt/W]
          ...productGradients(w, "_c", x, s, da_c, db_c), // [bp:gru1/2] [bp:bptt/W]
        };
      },
    };
  }

  // The GRU with the reset gate after the recurrent product: cuDNN's and PyTorch's, and with modReLU the GORU's.  A
  // gate that w has no weights of is a vector r or z there; b_hh is added where w has it.
  function gruResetAfter(phi) {
    return {
      states: ["h"],
      recurrent: ["U_r", "U_z", "U_h"],
      forward: function (w, x, { h: h_prev }) {
        const gate = (name) => sigmoid(sum(input(w["W_" + name], x), on(w["U_" + name], h_prev), w["b_" + name]));
        const r = w.r || gate("r"); // [goru:2.4] [goru:3.3] [goru:abl]
        const z = w.z || gate("z"); // [goru:2.3] [goru:3.2] [goru:abl]
        const product = on(w.U_h, h_prev); // [goru:2.2/p] [goru:3.1/p]
        const p = w.b_hh ? sum(product, w.b_hh) : product; // [goru:2.2/p]
        const a = sum(input(w.W_h, x), each((reset, old) => reset * old, r, p)); // [goru:2.2/a] [goru:3.1/a]
        const c = phi.value(a, w.b_h); // [goru:2.2/c] [goru:3.1/c]
        const h = each((g, old, fresh) => g * old + (1 - g) * fresh, z, h_prev, c); // [goru:2.2/h] [goru:3.1/h]
        return { x, h_prev, r, z, p, a, c, h };
      },
      backward: function (w, { x, h_prev, r, z, p, a, c }, { h: dh }) {
        const dz = each((d, old, fresh) => d * (old - fresh), dh, h_prev, c); // [bp:gru2/1]
        const dc = each((d, gate) => d * (1 - gate), dh, z); // [bp:gru2/1]
        const dh_kept = each((d, gate) => d * gate, dh, z); // [bp:gru2/1]
        const { da, db: db_h } = phi.pullback(dc, a, w.b_h, c); // [bp:gru2/2]
        const dr = each((d, old) => d * old, da, p); // [bp:gru2/3]
        const dp = each((d, gate) => d * gate, da, r); // [bp:gru2/3]
        const dh_product = sum(dh_kept, back(w.U_h, dp)); // [bp:gru2/3]
        const da_r = w.r ? null : sigmoidPullback(dr, r); // [bp:gru2/4]
        const da_z = w.z ? null : sigmoidPullback(dz, z); // [bp:gru2/4]
        const gates = [["r", da_r], ["z", da_z]].filter(([, d]) => d);
        const through = gates.map(([gate, d]) => back(w["U_" + gate], d)); // [bp:gru2/4]
        const dh_prev = sum(dh_product, ...through); // [bp:gru2/4]
        const dx = inputBack(x, [...gates.map(([gate, d]) => [w["W_" + gate], d]), [w.W_h, da]]); // [bp:bptt/W]
        return { dz, dc, dh_kept, da, db_h, dr, dp, dh_product, da_r, da_z, dh_prev, dx };
      },
      weightGradients: function (w, { x, h_prev }, { dz, dr, da_r, da_z, da, db_h, dp }) {
        const ofGate = (gate, da_g) => productGradients(w, gate, x, h_prev, da_g, da_g); // [bp:gru2/4] [bp:bptt/W]
        return {
          ...(w.r ? { r: dr } : ofGate("_r", da_r)), // [bp:gru2/4] [bp:gru2/5]
          ...(w.z ? { z: dz } : ofGate("_z", da_z)), // [bp:gru2/4] [bp:gru2/5]
          ...productGradients(w, "_h", x, h_prev, da, db_h, dp), // [bp:gru2/3] [bp:bptt/W]
          ...(w.b_hh ? { b_hh: dp } : {}), // [bp:gru2/3]
        };
      },
    };
  }

  const lstm = {
    states: ["h", "c"],
    recurrent: ["U_i", "U_f", "U_g", "U_o"],
    forward: function (w, x, { h: h_prev, c: c_prev }) {
      const i = sigmoid(sum(input(w.W_i, x), on(w.U_i, h_prev), w.b_i)); // [bp:lstm/i]
      const f = sigmoid(sum(input(w.W_f, x), on(w.U_f, h_prev), w.b_f)); // [bp:lstm/f]
      const g = phis.tanh.value(sum(input(w.W_g, x), on(w.U_g, h_prev)), w.b_g); // [bp:lstm/g]
      const o = sigmoid(sum(input(w.W_o, x), on(w.U_o, h_prev), w.b_o)); // [bp:lstm/o]
      const c = each((forget, old, gate, fresh) => forget * old + gate * fresh, f, c_prev, i, g); // [bp:lstm/c]
      const y = c.map(Math.tanh); // [bp:lstm/h]
      const h = each((gate, value) => gate * value, o, y); // [bp:lstm/h]
      return { x, h_prev, c_prev, i, f, g, o, c, y, h };
    },
    backward: function (w, { x, c_prev, i, f, g, o, y }, { h: dh, c: dc_later }) {
      const d_o = each((d, value) => d * value, dh, y); // [bp:lstm/1]
      const through = each((d, gate, value) => d * gate * (1 - value * value), dh, o, y); // [bp:lstm/1]
      const dc = sum(dc_later, through); // [bp:lstm/1]
      const di = each((d, fresh) => d * fresh, dc, g); // [bp:lstm/2]
      const dg = each((d, gate) => d * gate, dc, i); // [bp:lstm/2]
      const df = each((d, old) => d * old, dc, c_prev); // [bp:lstm/2]
      const dc_prev = each((d, gate) => d * gate, dc, f); // [bp:lstm/3]
      const da_i = sigmoidPullback(di, i); // [bp:lstm/4]
      const da_f = sigmoidPullback(df, f); // [bp:lstm/4]
      const da_g = each((d, fresh) => d * (1 - fresh * fresh), dg, g); // [bp:lstm/4]
      const da_o = sigmoidPullback(d_o, o); // [bp:lstm/4]
      const dh_prev = sum(back(w.U_i, da_i), back(w.U_f, da_f), back(w.U_g, da_g), back(w.U_o, da_o)); // [bp:lstm/5]
      const dx = inputBack(x, [[w.W_i, da_i], [w.W_f, da_f], [w.W_g, da_g], [w.W_o, da_o]]); // [bp:bptt/W]
      return { do: d_o, dc, di, dg, df, dc_prev, da_i, da_f, da_g, da_o, dh_prev, dx };
    },
    weightGradients: function (w, { x, h_prev }, { da_i, da_f, da_g, da_o }) {
      return {
        ...productGradients(w, "_i", x, h_prev, da_i, da_i), // [bp:lstm/5] [bp:bptt/W]
        ...productGradients(w, "_f", x, h_prev, da_f, da_f), // [bp:lstm/5] [bp:bptt/W]
        ...productGradients(w, "_g", x, h_prev, da_g, da_g), // [bp:lstm/5] [bp:bptt/W]
        ...productGradients(w, "_o", x, h_prev, da_o, da_o), // [bp:lstm/5] [bp:bptt/W]
      };
    },
  };

  // What a complex U and W are in real and imaginary parts, from those of U and of W.
  function realU(re, im) {
    const above = re.map((row, i) => row.concat(im[i].map((entry) => -entry))); // [urnn:7]
    return above.concat(im.map((row, i) => row.concat(re[i]))); // [urnn:7]
  }

  function realW(re, im) {
    return re.concat(im);
  }

  const own = { elman, gruResetBefore, gruResetAfter, lstm, realU, realW };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive.cells = own;
  }
})();
