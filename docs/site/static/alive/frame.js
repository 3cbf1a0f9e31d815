// What the pages of docs/alive are made of: sliders, choices, a button that plays, charts in SVG, tables of numbers.
//
//     alive.frame.picture("neumann", function (at) {          fills the page's <div id="picture-neumann">
//       const rate = at.slider({name: "rate", label: "Rate", min: -6, max: 0, step: 0.1, value: -3, shown: f});
//       const chart = at.chart("Defect over updates");
//       const table = at.table("Defect", ["update", "defect"]);
//       return function () {                                 draws; called at the start and after each input
//         chart.begin({x: {label: "update", from: 0, to: 100}, y: {label: "defect", from: 1e-12, to: 1, log: true}});
//         chart.curve("Algorithm 1", points, 1);             points [x, y]; the last is the colour, 1 to 6; 0 is grey
//         chart.end("What the picture shows, for screen readers");
//         table.fill([[1, 0.5]]);                            numbers are kept in full, and shown to five digits
//         at.say("One sentence that says what happened.");
//       };
//     });
//
// Nothing moves unless it is asked to; who prefers reduced motion gets one step for each press of the button.
(function () {
  "use strict";

  const inNode = typeof module === "object";
  const SVG = "http://www.w3.org/2000/svg";
  const MARGIN = { left: 64, right: 14, top: 12, bottom: 46 };
  const SHAPES = { circle: 0, square: 4, diamond: 4, triangle: 3 };
  let clips = 0;

  // A number for people: five digits, an exponent where it is far from 1.
  function shown(value) {
    if (!Number.isFinite(value)) {
      return Number.isNaN(value) ? "no number" : value > 0 ? "infinite" : "-infinite";
    }
    const size = Math.abs(value);
    if (value === 0 || (Number.isInteger(value) && size < 1e6)) {
      return String(value);
    }
    return size < 1e-3 || size >= 1e6 ? value.toExponential(3) : String(Number(value.toPrecision(5)));
  }

  // Where an axis has its marks: 1, 2 or 5 times a power of ten apart; on a logarithmic one whole powers.
  function ticks(axis, most) {
    if (axis.log) {
      const first = Math.ceil(Math.log10(axis.from) - 1e-9);
      const last = Math.floor(Math.log10(axis.to) + 1e-9);
      const apart = Math.max(1, Math.ceil((last - first) / most));
      return steps(Math.ceil(first / apart) * apart, last, apart).map(function (power) {
        return Math.pow(10, power);
      });
    }
    const rough = (axis.to - axis.from) / most;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const apart = power * [1, 2, 5, 10].find(function (factor) {
      return factor * power >= rough * (1 - 1e-9);
    });
    return steps(Math.ceil(axis.from / apart - 1e-9), Math.floor(axis.to / apart + 1e-9), 1).map(function (count) {
      return Number((count * apart).toPrecision(12));
    });
  }

  function steps(first, last, apart) {
    const found = [];
    for (let at = first; at <= last; at += apart) {
      found.push(at);
    }
    return found;
  }

  function tickText(value, log) {
    const plain = !log || (value >= 0.01 && value <= 100);
    return plain ? shown(value) : value.toExponential(0).replace("+", "");
  }

  // An element of HTML, or of SVG, with attributes, in another.
  function make(name, attributes, parent, text) {
    const svg = parent && (parent.namespaceURI === SVG || name === "svg");
    const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
    Object.keys(attributes).forEach(function (key) {
      made.setAttribute(key, attributes[key]);
    });
    if (text !== undefined) {
      made.textContent = text;
    }
    if (parent) {
      parent.appendChild(made);
    }
    return made;
  }

  // Axes, and what is drawn between them.  `square`: a step along x is as long as one along y.
  function Chart(parent, name, square) {
    this.figure = make("figure", { class: square ? "chart square" : "chart" }, parent);
    make("figcaption", {}, this.figure, name);
    this.svg = make("svg", { role: "img" }, this.figure);
    this.legend = make("ul", { class: "legend" }, this.figure);
    this.name = name;
    this.square = square;
    this.clip = "alive-clip-" + (clips += 1);
  }

  // Empties it and draws axes: {x, y}, each {label, from, to, log}.
  Chart.prototype.begin = function (axes) {
    const least = this.square ? 240 : 280;
    this.width = Math.max(least, Math.min(this.figure.clientWidth || 640, this.square ? 460 : 760));
    this.height = this.square
      ? this.width - MARGIN.left - MARGIN.right + MARGIN.top + MARGIN.bottom
      : Math.round(Math.max(240, Math.min(360, this.width * 0.6)));
    this.axes = axes;
    this.svg.textContent = "";
    this.legend.textContent = "";
    this.svg.setAttribute("viewBox", "0 0 " + this.width + " " + this.height);
    this.svg.setAttribute("width", this.width);
    const inner = {
      x: MARGIN.left,
      y: MARGIN.top,
      width: this.width - MARGIN.left - MARGIN.right,
      height: this.height - MARGIN.top - MARGIN.bottom,
    };
    make("rect", inner, make("clipPath", { id: this.clip }, make("defs", {}, this.svg)));
    this.inner = inner;
    this.grid();
    this.drawn = make("g", { "clip-path": "url(#" + this.clip + ")" }, this.svg);
  };

  Chart.prototype.grid = function () {
    const chart = this;
    const box = this.inner;
    const group = make("g", { class: "axes", "aria-hidden": "true" }, this.svg);
    ticks(this.axes.x, Math.max(3, Math.floor(box.width / 75))).forEach(function (value) {
      const x = chart.x(value);
      make("line", { x1: x, x2: x, y1: box.y, y2: box.y + box.height }, group);
      const at = { x: x, y: box.y + box.height + 17, "text-anchor": "middle" };
      make("text", at, group, tickText(value, chart.axes.x.log));
    });
    ticks(this.axes.y, Math.max(3, Math.floor(box.height / 42))).forEach(function (value) {
      const y = chart.y(value);
      make("line", { x1: box.x, x2: box.x + box.width, y1: y, y2: y }, group);
      make("text", { x: box.x - 7, y: y + 4, "text-anchor": "end" }, group, tickText(value, chart.axes.y.log));
    });
    make("rect", Object.assign({ class: "box" }, box), group);
    const middle = box.y + box.height / 2;
    make("text", { x: box.x + box.width / 2, y: this.height - 8, "text-anchor": "middle" }, group, this.axes.x.label);
    const up = { x: 14, y: middle, "text-anchor": "middle", transform: "rotate(-90 14 " + middle + ")" };
    make("text", up, group, this.axes.y.label);
  };

  // Where a value stands, from 0 to 1 of an axis; null where it stands nowhere, as 0 on a logarithmic one.
  function part(axis, value) {
    if (!Number.isFinite(value) || (axis.log && value <= 0)) {
      return null;
    }
    return axis.log
      ? Math.log(value / axis.from) / Math.log(axis.to / axis.from)
      : (value - axis.from) / (axis.to - axis.from);
  }

  function rounded(pixels) {
    return Math.round(Math.max(-1e4, Math.min(1e4, pixels)) * 100) / 100;
  }

  Chart.prototype.x = function (value) {
    const at = part(this.axes.x, value);
    return at === null ? null : rounded(this.inner.x + at * this.inner.width);
  };

  Chart.prototype.y = function (value) {
    const at = part(this.axes.y, value);
    return at === null ? null : rounded(this.inner.y + (1 - at) * this.inner.height);
  };

  // A line through points; it breaks where one has no place.
  Chart.prototype.curve = function (name, points, series) {
    const chart = this;
    let open = false;
    const path = points.map(function (point) {
      const x = chart.x(point[0]);
      const y = chart.y(point[1]);
      const command = x === null || y === null ? "" : (open ? "L" : "M") + x + " " + y;
      open = command !== "";
      return command;
    });
    make("path", { class: "curve series-" + series, d: path.join("") }, this.drawn);
    this.entry(name, series, null);
  };

  // Marks: shape is circle, square, diamond or triangle.
  Chart.prototype.points = function (name, points, series, shape) {
    const chart = this;
    points.forEach(function (point) {
      const x = chart.x(point[0]);
      const y = chart.y(point[1]);
      if (x !== null && y !== null) {
        mark(chart.drawn, x, y, series, shape || "circle");
      }
    });
    this.entry(name, series, shape || "circle");
  };

  function mark(parent, x, y, series, shape) {
    const sides = SHAPES[shape];
    if (!sides) {
      make("circle", { class: "mark series-" + series, cx: x, cy: y, r: 5 }, parent);
      return;
    }
    const turn = shape === "square" ? Math.PI / 4 : -Math.PI / 2;
    const corners = steps(0, sides - 1, 1).map(function (k) {
      const angle = turn + (2 * Math.PI * k) / sides;
      return rounded(x + 6.5 * Math.cos(angle)) + "," + rounded(y + 6.5 * Math.sin(angle));
    });
    make("polygon", { class: "mark series-" + series, points: corners.join(" ") }, parent);
  }

  // Words in the chart; they are not read out, so that `end` has to say what they say.
  Chart.prototype.words = function (x, y, text) {
    make("text", { class: "words", x: this.x(x) + 5, y: this.y(y) - 5, "aria-hidden": "true" }, this.drawn, text);
  };

  // Its line of the legend; of no name there is none.
  Chart.prototype.entry = function (name, series, shape) {
    if (!name) {
      return;
    }
    const item = make("li", {}, this.legend);
    const key = make("svg", { viewBox: "0 0 30 14", width: 30, height: 14, "aria-hidden": "true" }, item);
    if (shape) {
      mark(key, 15, 7, series, shape);
    } else {
      make("path", { class: "curve series-" + series, d: "M1 7L29 7" }, key);
    }
    make("span", {}, item, name);
  };

  // What the whole chart shows, in words.
  Chart.prototype.end = function (words) {
    this.svg.setAttribute("aria-label", this.name + ". " + words);
  };

  function Table(parent, name, columns) {
    const details = make("details", { class: "numbers" }, parent);
    make("summary", {}, details, "Numbers: " + name);
    const around = { class: "table-wrapper", tabindex: "0", role: "region", "aria-label": name };
    const table = make("table", {}, make("div", around, details));
    make("caption", {}, table, name);
    this.head = make("thead", {}, table);
    this.body = make("tbody", {}, table);
    this.columns(columns);
  }

  Table.prototype.columns = function (names) {
    this.head.textContent = "";
    const row = make("tr", {}, this.head);
    names.forEach(function (name) {
      make("th", { scope: "col" }, row, name);
    });
  };

  // Rows of words and numbers; the first of each names it.
  Table.prototype.fill = function (rows) {
    const body = this.body;
    body.textContent = "";
    rows.forEach(function (row) {
      const line = make("tr", {}, body);
      row.forEach(function (entry, k) {
        const cell = k ? make("td", {}, line) : make("th", { scope: "row" }, line);
        if (typeof entry === "number") {
          make("data", { value: String(entry) }, cell, shown(entry));
        } else {
          cell.textContent = entry;
        }
      });
    });
  };

  // The element of a page's picture, with what can be put into it.
  function Picture(name) {
    const root = document.getElementById("picture-" + name);
    if (!root) {
      throw new Error("a picture is named " + name + "; allowed: NAME of a <div> whose id is picture-NAME");
    }
    root.textContent = "";
    this.name = name;
    this.controls = make("form", { class: "controls", "aria-label": "Settings" }, root);
    this.controls.addEventListener("submit", function (event) {
      event.preventDefault();
    });
    this.charts = make("div", { class: "charts" }, root);
    this.said = make("p", { class: "said", role: "status" }, root);
    this.tables = make("div", { class: "tables" }, root);
    this.buttons = make("div", { class: "buttons" });
    this.resets = [];
  }

  // A labelled place for a control.
  Picture.prototype.field = function (name, label) {
    const field = make("div", { class: "field" }, this.controls);
    make("label", { for: this.name + "-" + name }, field, label);
    return field;
  };

  // {name, label, min, max, step, value, shown}: `shown` makes words of the value.  `value` is what it stands at.
  Picture.prototype.slider = function (given) {
    const field = this.field(given.name, given.label);
    const id = this.name + "-" + given.name;
    const limits = { min: given.min, max: given.max, step: given.step, value: given.value };
    const input = make("input", Object.assign({ type: "range", id: id, name: given.name }, limits), field);
    // the slider says its value itself, so that the output need not
    const output = make("output", { for: id, "aria-live": "off" }, field);
    function tell() {
      output.textContent = (given.shown || shown)(Number(input.value));
      input.setAttribute("aria-valuetext", output.textContent);
    }
    input.addEventListener("input", tell);
    this.resets.push(tell);
    tell();
    return {
      get value() {
        return Number(input.value);
      },
      set value(value) {
        input.value = value;
        input.dispatchEvent(new Event("input", { bubbles: true }));
      },
      min: given.min,
      max: given.max,
      step: given.step,
    };
  };

  // {name, label, options: [[value, words]], value}; values are strings.
  Picture.prototype.choice = function (given) {
    const field = this.field(given.name, given.label);
    const select = make("select", { id: this.name + "-" + given.name, name: given.name }, field);
    given.options.forEach(function (option) {
      const chosen = option[0] === given.value ? { selected: "" } : {};
      make("option", Object.assign({ value: option[0] }, chosen), select, option[1]);
    });
    return {
      get value() {
        return select.value;
      },
    };
  };

  // A button that moves a slider from its least to its largest value and stops there.
  Picture.prototype.play = function (slider, label, perSecond) {
    const button = make("button", { type: "button", class: "play" }, this.buttons);
    const still = window.matchMedia("(prefers-reduced-motion: reduce)");
    let since = null;
    function tell() {
      button.textContent = since !== null ? "Pause" : still.matches ? label + ", one step" : label;
    }
    function next() {
      const following = slider.value + slider.step;
      slider.value = following > slider.max + slider.step / 2 ? slider.min : following;
      return slider.value < slider.max - slider.step / 2;
    }
    function pause() {
      since = null;
      tell();
    }
    function frame(now) {
      if (since === null) {
        return;
      }
      if (now - since >= 1000 / perSecond) {
        since = now;
        if (!next()) {
          pause();
          return;
        }
      }
      window.requestAnimationFrame(frame);
    }
    button.addEventListener("click", function () {
      if (still.matches) {
        next();
      } else if (since === null) {
        since = -Infinity;
        tell();
        window.requestAnimationFrame(frame);
      } else {
        pause();
      }
    });
    still.addEventListener("change", pause);
    this.controls.addEventListener("reset", pause);
    tell();
  };

  Picture.prototype.chart = function (name, square) {
    return new Chart(this.charts, name, Boolean(square));
  };

  Picture.prototype.table = function (name, columns) {
    return new Table(this.tables, name, columns);
  };

  Picture.prototype.say = function (words) {
    this.said.textContent = words;
  };

  // Draws after each input, and when the place has another width.
  Picture.prototype.run = function (draw) {
    const resets = this.resets;
    this.controls.appendChild(this.buttons);
    make("button", { type: "reset" }, this.buttons, "Reset");
    let width = this.charts.clientWidth;
    this.controls.addEventListener("input", draw);
    this.controls.addEventListener("reset", function () {
      window.setTimeout(function () {
        resets.forEach(function (tell) {
          tell();
        });
        draw();
      });
    });
    const charts = this.charts;
    new ResizeObserver(function () {
      if (charts.clientWidth !== width) {
        width = charts.clientWidth;
        draw();
      }
    }).observe(charts);
    draw();
  };

  // name: of the page, whose element is picture-NAME; build: gets a Picture, and returns what draws.
  function picture(name, build) {
    function begin() {
      const at = new Picture(name);
      at.run(build(at));
    }
    if (document.readyState === "loading") {
      document.addEventListener("DOMContentLoaded", begin);
    } else {
      begin();
    }
  }

  const own = { shown, ticks, make, picture };
  if (inNode) {
    module.exports = own;
  } else {
    window.alive = window.alive || {};
    window.alive.frame = own;
  }
})();
