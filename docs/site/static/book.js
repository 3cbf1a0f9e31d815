// Lights an equation and its lines together: under the pointer, in focus, and when a link leads to one of them.  The one
// line that a link has led to is marked beside the others of its equation.
(function () {
  "use strict";

  function idsOf(element) {
    var holder = element && element.closest && element.closest("[data-ids]");
    return holder ? holder.dataset.ids.split(" ") : [];
  }

  function light(ids) {
    document.querySelectorAll(".book [data-ids]").forEach(function (holder) {
      var own = holder.dataset.ids.split(" ");
      var lit = ids.some(function (id) {
        return own.indexOf(id) >= 0;
      });
      holder.classList.toggle("lit", lit);
    });
  }

  function named() {
    return decodeURIComponent(location.hash.slice(1));
  }

  // What a link led to stays lit while nothing else is pointed at: of a link to a tag, #ncgru-1-c, the equation of that
  // tag alone, whatever else its line has; of a link to a line, #L61, all that it has.
  function linked() {
    var target = named() && document.getElementById(named());
    var all = target ? idsOf(target) : [];
    var own = all.filter(function (id) {
      return (named() + "-").indexOf(id.replace(/[:/]/g, "-") + "-") === 0;
    });
    own.sort(function (a, b) {
      return b.length - a.length;
    });
    return own.length ? own.slice(0, 1) : all;
  }

  function mark() {
    document.querySelectorAll(".book .line.here").forEach(function (line) {
      line.classList.remove("here");
    });
    var target = named() && document.getElementById(named());
    var line = target && target.closest(".book .line");
    if (line) {
      line.classList.add("here");
    }
  }

  // A column that is longer than the window stays with its end in view: else that would be out of reach.
  function fit(columns) {
    columns.forEach(function (column) {
      column.style.setProperty("--stays", Math.min(8, window.innerHeight - column.offsetHeight - 8) + "px");
    });
  }

  function inView(element) {
    var box = element.getBoundingClientRect();
    return box.top >= 0 && box.bottom <= window.innerHeight;
  }

  // What a link has led to, in the window; of a line its equation as well, if the line can stay in view beside it.
  function show() {
    var target = named() && document.getElementById(named());
    if (!target || !target.closest(".book")) {
      return;
    }
    var folded = target.closest("details");
    if (folded) {
      folded.open = true;
    }
    var line = target.closest(".line");
    target.scrollIntoView({ block: line ? "center" : "start" });
    var id = linked()[0];
    var formula = line && id && line.closest(".part").querySelector('.equation[data-ids~="' + id + '"] .formula');
    var before = window.scrollY;
    var both = !formula || inView(formula);
    ["center", "start", "end"].forEach(function (block) {
      if (!both) {
        formula.scrollIntoView({ block: block });
        both = inView(formula) && inView(line);
      }
    });
    if (!both) {
      window.scrollTo(0, before);
    }
  }

  function start() {
    mark();
    window.addEventListener("hashchange", mark);
    var book = document.querySelector(".book.columns");
    if (!book) {
      return;
    }
    var columns = book.querySelectorAll(".left, .right");
    fit(columns);
    var watch = new ResizeObserver(function () {
      fit(columns);
    });
    columns.forEach(function (column) {
      watch.observe(column);
    });
    window.addEventListener("resize", function () {
      fit(columns);
    });
    // What is pointed at comes first, then what is in focus, then what a link led to.
    var pointed = [];
    var focused = [];
    function relight() {
      light(pointed.length ? pointed : focused.length ? focused : linked());
    }
    book.addEventListener("mouseover", function (event) {
      pointed = idsOf(event.target);
      relight();
    });
    book.addEventListener("mouseleave", function () {
      pointed = [];
      relight();
    });
    book.addEventListener("focusin", function (event) {
      focused = idsOf(event.target);
      relight();
    });
    book.addEventListener("focusout", function () {
      focused = [];
      relight();
    });
    window.addEventListener("hashchange", function () {
      relight();
      show();
    });
    light(linked());
    // The mathematics font, once it is there, moves what a link has led to; the browser goes there by itself as the page
    // has loaded.
    function settle() {
      fit(columns);
      show();
    }
    document.fonts.ready.then(settle);
    window.addEventListener("load", function () {
      requestAnimationFrame(settle);
    });
  }

  // A printed page has nothing folded away.
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("article details").forEach(function (details) {
      details.open = true;
    });
  });

  if (document.readyState === "loading") {
    document.addEventListener("DOMContentLoaded", start);
  } else {
    start();
  }
})();
