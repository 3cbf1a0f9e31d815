// "Go to equation": numbers, ranges, names, errata and words, from the array in equations.js.  The search page asks it
// first.
(function () {
  "use strict";

  var MOST = 60;

  // As it may be typed: no capitals, no raised digits, one kind of minus.
  function flat(text) {
    return (text || "").normalize("NFKC").toLowerCase().replace(/[–—−]/g, "-").replace(/\^/g, "").replace(/\s+/g, " ").trim();
  }

  // "(5)", "5", "eq. (2.10)", "31a" as a number in print; "(29)-(45)" as two of them.
  function numbers(text) {
    text = text.replace(/^(?:equations?|eqs?\b\.?)\s*/, "");
    var found = /^\(?(\d+(?:\.\d+)?[a-z]?)\)?(?:\s*(?:-|to)\s*\(?(\d+(?:\.\d+)?[a-z]?)\)?)?$/.exec(text);
    return found ? [found[1], found[2] || found[1]] : null;
  }

  function place(number) {
    var found = /^(?:(\d+)\.)?(\d+)(.*)$/.exec(number);
    return [Number(found[1] || 0), Number(found[2]), found[3]];
  }

  function compare(a, b) {
    for (var k = 0; k < 3; k += 1) {
      if (a[k] !== b[k]) {
        return a[k] < b[k] ? -1 : 1;
      }
    }
    return 0;
  }

  function between(entry, range) {
    if (!entry.number || /-/.test(entry.number)) {
      return false;
    }
    var at = place(entry.number);
    if (range[0] === range[1]) {
      return entry.number === range[0];
    }
    var first = place(range[0]);
    var last = place(range[1]);
    return at[0] === first[0] && at[0] === last[0] && compare(first, at) <= 0 && compare(at, last) <= 0;
  }

  // The entries that a text asks for, best first.
  function find(text, entries) {
    var wanted = flat(text);
    if (!wanted) {
      return [];
    }
    var paper = /^(ncgru|nc-gru|urnn|sgornn|goru)[\s:]+(.*)$/.exec(wanted);
    var range = numbers(paper ? paper[2] : wanted);
    var prefix = paper ? paper[1].replace("-", "") + ":" : "";
    if (range) {
      var numbered = entries.filter(function (entry) {
        return entry.id.indexOf(prefix) === 0 && between(entry, range);
      });
      if (numbered.length) {
        return numbered;
      }
    }
    var name = wanted.replace(/^\[|\]$/g, "").split("/")[0];
    var exact = entries.filter(function (entry) {
      return flat(entry.id) === wanted || flat(entry.id) === name || flat(entry.id).split(":")[1] === name;
    });
    var words = wanted.split(" ");
    var rest = entries.filter(function (entry) {
      var all = flat([entry.id, entry.title, entry.words, entry.formula, entry.keys].join(" "));
      return exact.indexOf(entry) < 0 && words.every(function (word) {
        return all.indexOf(word) >= 0;
      });
    });
    // What begins with the words as they were given, then what has them one after the other, then the words apart.
    function near(entry) {
      var at = flat(entry.words).indexOf(wanted);
      return at === 0 ? 2 : at > 0 ? 1 : 0;
    }
    rest.sort(function (a, b) {
      return near(b) - near(a);
    });
    return exact.concat(rest);
  }

  function root() {
    return document.documentElement.dataset.content_root || "./";
  }

  function fill(list, found) {
    list.replaceChildren();
    found.slice(0, MOST).forEach(function (entry) {
      var link = document.createElement("a");
      link.href = root() + entry.to;
      link.append(entry.title + " ");
      var code = document.createElement("code");
      code.textContent = entry.id;
      link.append(code);
      if (entry.words) {
        var words = document.createElement("small");
        words.textContent = entry.words.length > 110 ? entry.words.slice(0, 107) + "…" : entry.words;
        link.append(words);
      }
      var item = document.createElement("li");
      item.append(link);
      list.append(item);
    });
  }

  function counted(found) {
    if (!found.length) {
      return "no equation of that number, name or words";
    }
    return found.length + (found.length === 1 ? " equation or page" : " equations or pages");
  }

  function box(form) {
    var input = form.querySelector("input");
    var count = form.querySelector(".goto-count");
    var list = form.querySelector(".goto-found");
    var found = [];
    input.addEventListener("input", function () {
      found = find(input.value, window.EQUATIONS);
      count.textContent = input.value.trim() ? counted(found) : "";
      fill(list, found);
    });
    // Enter goes to the first; where there is none, to the search page with the same words.
    form.addEventListener("submit", function (event) {
      found = find(input.value, window.EQUATIONS);
      if (found.length) {
        event.preventDefault();
        location.href = root() + found[0].to;
      }
    });
  }

  function searched() {
    var results = document.getElementById("search-results");
    var wanted = new URLSearchParams(location.search).get("q");
    if (!results || !wanted) {
      return;
    }
    var found = find(wanted, window.EQUATIONS);
    var section = document.createElement("section");
    var heading = document.createElement("h2");
    heading.textContent = "Equations";
    var count = document.createElement("p");
    count.textContent = counted(found);
    var list = document.createElement("ul");
    list.className = "goto-found";
    section.append(heading, count, list);
    fill(list, found);
    results.before(section);
  }

  function start() {
    document.querySelectorAll("form.goto").forEach(box);
    searched();
  }

  if (document.readyState === "loading") {
    document.addEventListener("DOMContentLoaded", start);
  } else {
    start();
  }
})();
