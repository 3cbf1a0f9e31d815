// One step of a cell, forward and back, from numbers that somebody has pasted: every line of it, by its name.
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const phis = inNode ? require("./activations.js") : window.alive.activations;
  const cells = inNode ? require("./cells.js") : window.alive.cells;
  const MOST = 16;

  // section: of the page, with the cell's equations; gates: how the names of its weights end.
  const CELLS = {
    gru_reset_before: {
      title: "GRU, reset before",
      section: "gru-reset-before",
      gates: ["_r", "_u", "_c"],
      make: cells.gruResetBefore,
    },
    gru_reset_after: {
      title: "GRU, reset after",
      section: "gru-reset-after",
      gates: ["_r", "_z", "_h"],
      make: cells.gruResetAfter,
    },
    lstm: { title: "LSTM", section: "lstm", gates: ["_i", "_f", "_g", "_o"], make: () => cells.lstm },
    elman: { title: "Simple RNN", section: "simple-rnn", gates: [""], make: cells.elman },
  };
  // What the fields begin with, a gate after the other.
  const EXAMPLE = {
    h: "0.5 -0.4",
    c: "0.3 -0.6",
    x: "1 0.5 -1",
    dh: "1 -0.5",
    dc: "0 0",
    W: [
      "0.2 -0.4 0.1; 0.5 0.3 -0.2",
      "-0.3 0.1 0.4; 0.2 -0.5 0.3",
      "0.6 0.2 -0.1; -0.4 0.3 0.5",
      "0.1 0.3 0.2; -0.2 0.4 0.1",
    ],
    U: ["0.3 -0.5; 0.4 0.1", "-0.2 0.6; 0.5 0.3", "0.8 -0.6; 0.6 0.8", "0.4 0.2; -0.3 0.5"],
    b: ["1 1", "-1 -1", "0.1 -0.1", "0 0.2"],
  };

  // What is wrong with a field: `name` is its, and the message says what was given and what is allowed.
  class Wrong extends Error {
    constructor(name, given, allowed) {
      super(name + " " + given + "; allowed: " + allowed);
      this.field = name;
    }
  }

  // The fields of a cell, {name, label, text}, in the order in which they stand.
  function fields(name) {
    const { gates, make } = CELLS[name];
    const labels = { h: "h before", c: "c before", x: "x", dh: "dL/dh after", dc: "dL/dc after" };
    const states = make(phis.tanh).states;
    const vectors = [...states, "x", ...states.map((state) => "d" + state)];
    const first = vectors.map((one) => ({ name: one, label: labels[one], text: EXAMPLE[one] }));
    const weights = gates.flatMap(function (gate, k) {
      const last = gates.length === 1 ? 2 : k; // one gate alone has the orthogonal U
      return ["W", "U", "b"].map((kind) => ({ name: kind + gate, label: kind + gate, text: EXAMPLE[kind][last] }));
    });
    return first.concat(weights);
  }

  // Rows of numbers from a text, as a person, NumPy or PyTorch writes them: in brackets if there are any, else on lines
  // or between semicolons.
  function rows(name, text) {
    const inBrackets = text.match(/\[[^[\]]*\]/g);
    const split = inBrackets ? inBrackets.map((row) => row.slice(1, -1)) : text.split(/[;\n]/);
    const found = split.map(function (row) {
      return row.split(/[\s,]+/).filter(Boolean).map(function (word) {
        const number = Number(word);
        if (!Number.isFinite(number)) {
          throw new Wrong(name, "has '" + word.slice(0, 40) + "'", "numbers, as 0.5 or -1e-3");
        }
        return number;
      });
    });
    return found.filter((row) => row.length);
  }

  function vector(name, text, length, why) {
    const found = rows(name, text).flat();
    const [least, most] = length === null ? [1, MOST] : [length, length];
    if (found.length < least || found.length > most) {
      const allowed = length === null ? "1 to " + MOST + " numbers" : length + ", as " + why + " has";
      throw new Wrong(name, "has " + found.length + " numbers", allowed);
    }
    return found;
  }

  function matrix(name, text, height, width, why) {
    const found = rows(name, text);
    if (found.length !== height || found.some((row) => row.length !== width)) {
      const counts = found.map((row) => row.length).join(", ") || "no";
      const given = "has " + found.length + " rows, of " + counts + " numbers";
      throw new Wrong(name, given, height + " rows of " + width + ", as " + why);
    }
    return found;
  }

  // {state, x, g, w} from the texts of the fields, or what is wrong with one, thrown.
  function read(name, texts) {
    const { gates, make } = CELLS[name];
    const states = make(phis.tanh).states;
    const h = vector("h", texts.h, null);
    const x = vector("x", texts.x, null);
    const of = (field) => vector(field, texts[field], h.length, "h");
    const w = {};
    gates.forEach(function (gate) {
      w["W" + gate] = matrix("W" + gate, texts["W" + gate], h.length, x.length, "h and x have");
      w["U" + gate] = matrix("U" + gate, texts["U" + gate], h.length, h.length, "h has");
      w["b" + gate] = of("b" + gate);
    });
    const state = Object.fromEntries(states.map((one) => [one, of(one)]));
    const g = Object.fromEntries(states.map((one) => [one, of("d" + one)]));
    return { state: state, x: x, g: g, w: w };
  }

  // The value of every line, by the name that the page has for it.
  function lines(name, phi, texts) {
    const { state, x, g, w } = read(name, texts);
    const cell = CELLS[name].make(phis[phi]);
    const k = cell.forward(w, x, state);
    const back = cell.backward(w, k, g);
    const gradients = cell.weightGradients(w, k, back);
    const named = Object.fromEntries(Object.keys(gradients).map((weight) => ["d" + weight, gradients[weight]]));
    return Object.assign({}, k, back, named);
  }

  if (inNode) {
    module.exports = { fields, lines };
    return;
  }

  const { frame } = window.alive;

  // A number for each entry, in full and shown to five digits; a matrix has a line for each row.
  function put(place, value) {
    place.textContent = "";
    (Array.isArray(value[0]) ? value : [value]).forEach(function (row) {
      const line = frame.make("span", { class: "row" }, place);
      row.forEach(function (entry, j) {
        line.append(j ? ", " : "");
        frame.make("data", { value: String(entry) }, line, frame.shown(entry));
      });
    });
  }

  window.alive.yourOwnCell = { fields, lines };
  frame.picture("your-own-cell", function (at) {
    const options = Object.keys(CELLS).map((name) => [name, CELLS[name].title]);
    const cell = at.choice({ name: "cell", label: "Cell", options: options, value: "gru_reset_before" });
    const phiOptions = [["tanh", "tanh"], ["modrelu", "modReLU"]];
    const phi = at.choice({ name: "phi", label: "Phi", options: phiOptions, value: "tanh" });
    const texts = frame.make("div", { class: "texts" }, at.controls);
    const areas = {};
    let filled = null;

    function fill(name) {
      texts.textContent = "";
      Object.keys(areas).forEach((one) => delete areas[one]);
      fields(name).forEach(function (field) {
        const id = "your-own-cell-" + field.name;
        const holder = frame.make("div", { class: /^W/.test(field.name) ? "text first" : "text" }, texts);
        frame.make("label", { for: id }, holder, field.label);
        const area = { id: id, rows: /^[WU]/.test(field.name) ? 2 : 1, spellcheck: "false" };
        areas[field.name] = frame.make("textarea", area, holder, field.text.replace(/; /g, "\n"));
      });
      document.getElementById("your-own-cell-phi").disabled = name === "lstm";
      filled = name;
    }

    // Only the chosen cell's equations are shown.
    function show(name) {
      Object.keys(CELLS).forEach(function (one) {
        document.getElementById(CELLS[one].section).hidden = one !== name;
      });
    }

    function follow() {
      const chosen = Object.keys(CELLS).find((one) => "#" + CELLS[one].section === window.location.hash);
      if (chosen && chosen !== cell.value) {
        const select = document.getElementById("your-own-cell-cell");
        select.value = chosen;
        select.dispatchEvent(new Event("input", { bubbles: true }));
        document.getElementById(CELLS[chosen].section).scrollIntoView();
      }
    }

    window.addEventListener("hashchange", follow);
    window.setTimeout(follow);
    return function () {
      const name = cell.value;
      if (filled !== name) {
        fill(name);
        show(name);
      }
      const places = document.getElementById(CELLS[name].section).querySelectorAll("[data-line]");
      Object.values(areas).forEach((area) => area.removeAttribute("aria-invalid"));
      try {
        const given = Object.keys(areas).map((one) => [one, areas[one].value]);
        const found = lines(name, phi.value, Object.fromEntries(given));
        places.forEach((place) => put(place, found[place.dataset.line]));
        at.say("h after the step is " + found.h.map(frame.shown).join(", ") + ". Every line stands below, under " +
          CELLS[name].title + ".");
      } catch (error) {
        if (!(error instanceof Wrong)) {
          throw error;
        }
        areas[error.field].setAttribute("aria-invalid", "true");
        places.forEach(function (place) {
          place.textContent = "";
        });
        at.say(error.message + ".");
      }
    };
  });
})();
