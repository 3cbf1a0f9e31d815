// The cells and maps of these pages, as a program that the conformance kit runs (docs/check/programs.md):
//
//     python -m ortho_ref.conformance run --command "node docs/alive/adapter.js {input} {output}"
//
// It answers the cases of four cells, of the scaled Cayley transform, of the Neumann-Cayley update, of the optimizers
// and of the activations.  What moves on the pages is computed by the same files.
"use strict";

const path = require("path");
const safetensors = require("./safetensors.js");

const STATIC = path.join(__dirname, "..", "site", "static", "alive");
const [m, phis, cells, sequence, maps, optimizers] = [
  "matrices", "activations", "cells", "sequence", "maps", "optimizers",
].map((name) => require(path.join(STATIC, name + ".js")));

const UNSUPPORTED = 77;

class Unsupported extends Error {}

// ---- tensors and what the files of the pages take ----

// Nested arrays of the tensor's shape.
function nested({ shape, data }) {
  let parts = data;
  for (const length of shape.slice(1).reverse()) {
    parts = Array.from({ length: parts.length / length }, (_, k) => parts.slice(k * length, (k + 1) * length));
  }
  return shape.length ? parts : parts[0];
}

// The other way.
function tensor(value) {
  const shape = [];
  for (let part = value; Array.isArray(part); part = part[0]) {
    shape.push(part.length);
  }
  return { shape: shape, data: [value].flat(Infinity) };
}

// Of (..., 2) the real parts and the imaginary ones.
const part = (value, which) => (Array.isArray(value[0]) ? value.map((one) => part(one, which)) : value[which]);
const together = (re, im) => (Array.isArray(re) ? re.map((one, k) => together(one, im[k])) : [re, im]);

// A complex vector as a real one, and back.
const asReal = (v) => part(v, 0).concat(part(v, 1));
const asComplex = (v) => together(v.slice(0, v.length / 2), v.slice(v.length / 2));

// The gradient of a complex U or W from that of the real matrix that stands for it.
function foldU(M) {
  const n = M.length / 2;
  const block = (i, j) => M.slice(i * n, (i + 1) * n).map((row) => row.slice(j * n, (j + 1) * n));
  return together(m.plus(block(0, 0), block(1, 1)), m.minus(block(1, 0), block(0, 1)));
}

const foldW = (M) => together(M.slice(0, M.length / 2), M.slice(M.length / 2));

function matrixLike(flat, A) {
  return nested({ shape: [A.length, A[0].length], data: flat });
}

// ---- cells ----

function cellOf(config) {
  const phi = config.complex ? phis.modreluComplex : phis[config.activation];
  const made = {
    elman: () => cells.elman(phi),
    gru_reset_before: () => cells.gruResetBefore(phi),
    gru_reset_after: () => cells.gruResetAfter(phi),
    lstm: () => cells.lstm,
  }[config.cell];
  if (!made) {
    throw new Unsupported("cell " + config.cell);
  }
  return made();
}

function cellWeights(inputs, complex) {
  const w = {};
  for (const name of Object.keys(inputs).filter((one) => one.startsWith("weights."))) {
    const value = nested(inputs[name]);
    const real = { W: cells.realW, U: cells.realU }[name.slice("weights.".length)];
    w[name.slice("weights.".length)] = complex && real ? real(part(value, 0), part(value, 1)) : value;
  }
  return w;
}

function cellAnswer(config, inputs) {
  const cell = cellOf(config);
  const [into, out] = config.complex ? [asReal, asComplex] : [(v) => v, (v) => v];
  const w = cellWeights(inputs, config.complex);
  const value = (name) => nested(inputs[name]);
  const x = value("x");
  const stateOf = (name, b) => Object.fromEntries(cell.states.map((s) => [s, into(value(name(s))[b])]));
  const runs = x[0].map(function (_, b) {
    const first = stateOf((s) => s + "0", b);
    const steps = sequence.forward(cell, w, x.map((x_t) => x_t[b]), first);
    const d = value("dh").map((dh_t) => into(dh_t[b]));
    const back = sequence.backward(cell, w, steps, d, stateOf((s) => "d" + s + "_T", b));
    return { states: [first, ...steps], back, weights: sequence.weightGradients(cell, w, steps, back.lines) };
  });
  const outputs = {};
  for (const s of cell.states) {
    outputs[s] = runs[0].states.map((_, t) => runs.map((run) => out(run.states[t][s])));
    outputs["d_" + s + "0"] = runs.map((run) => out(run.back.all[0][s]));
  }
  if (inputs.x.shape.length === 3) {
    outputs.d_x = x.map((_, t) => runs.map((run) => run.back.lines[t].dx));
  }
  for (const name of Object.keys(w)) {
    const plus = Array.isArray(w[name][0]) ? m.plus : m.sum;
    const total = runs.map((run) => run.weights[name]).reduce((a, b) => plus(a, b));
    const fold = config.complex && { W: foldW, U: foldU }[name];
    outputs["d_weights." + name] = fold ? fold(total) : total;
  }
  return outputs;
}

// ---- maps ----

function parametrizationAnswer(config, inputs) {
  if (!["scaled_cayley", "neumann_cayley"].includes(config.parametrization)) {
    throw new Unsupported("parametrization " + config.parametrization);
  }
  const A = nested(inputs["params.A"]);
  const D = maps.signs(A.length, config.negative_ones);
  const state = inputs.A_tilde ? maps.carried(A, nested(inputs.A_tilde), D) : maps.exact(A, D);
  return { U: state.U, "d_params.A": maps.cayleyPullback(state, nested(inputs.dU)) };
}

function updateAnswer(config, inputs) {
  if (!["scaled_cayley", "neumann_cayley"].includes(config.algorithm)) {
    throw new Unsupported("algorithm " + config.algorithm);
  }
  const A0 = nested(inputs.A0);
  const optimizer = optimizers.of(config.optimizer);
  const options = { order: config.order, resetEvery: config.reset_every };
  let state = maps.exact(A0, maps.signs(A0.length, config.negative_ones));
  const outputs = { A: [], A_tilde: [], U: [] };
  for (const dU of nested(inputs.dU)) {
    const gradient = maps.cayleyPullback(state, dU);
    const delta = matrixLike(optimizer(state.A.flat(), gradient.flat()), A0); // [ncgru:alg1/5]
    const exact = config.algorithm === "scaled_cayley";
    state = exact ? maps.scaledCayleyRetract(state, delta) : maps.neumannCayleyRetract(state, delta, options);
    Object.keys(outputs).forEach((name) => outputs[name].push(state[name]));
  }
  return outputs;
}

// ---- optimizers and activations ----

function optimizerAnswer(config, inputs) {
  const { shape, data } = inputs.parameter0;
  const k = inputs.gradient.shape[0];
  const optimizer = optimizers.of(config.optimizer);
  let parameter = data;
  const after = Array.from({ length: k }, function (_, step) {
    const gradient = inputs.gradient.data.slice(step * data.length, (step + 1) * data.length);
    parameter = m.each((p, delta) => p - delta, parameter, optimizer(parameter, gradient));
    return parameter;
  });
  return { parameter: { shape: [k, ...shape], data: after.flat() } };
}

function activationAnswer(config, inputs) {
  const into = config.complex ? asReal : (v) => v;
  const out = config.complex ? asComplex : (v) => v;
  const a = nested(inputs.a).map(into);
  const dy = nested(inputs.dy).map(into);
  if (config.activation === "sigmoid") {
    const y = a.map(phis.sigmoid);
    return { y: y, d_a: y.map((row, k) => phis.sigmoidPullback(dy[k], row)) };
  }
  const phi = config.complex ? phis.modreluComplex : phis[config.activation];
  const b = nested(inputs.b);
  const y = a.map((row) => phi.value(row, b));
  const back = a.map((row, k) => phi.pullback(dy[k], row, b, y[k]));
  return { y: y.map(out), d_a: back.map(({ da }) => out(da)), d_b: m.sum(...back.map(({ db }) => db)) };
}

const ANSWERS = {
  cell: cellAnswer,
  parametrization: parametrizationAnswer,
  update: updateAnswer,
  optimizer: optimizerAnswer,
  activation: activationAnswer,
};

function main([from, to]) {
  const { metadata, tensors } = safetensors.read(from);
  const answer = ANSWERS[metadata.kind];
  if (!answer) {
    throw new Unsupported("kind " + metadata.kind);
  }
  const outputs = answer(JSON.parse(metadata.config), tensors);
  const entries = Object.entries(outputs).map(([name, value]) => [name, value.shape ? value : tensor(value)]);
  safetensors.write(to, Object.fromEntries(entries), metadata.dtype);
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error(error.message);
  process.exitCode = error instanceof Unsupported ? UNSUPPORTED : 1;
}
