// Lights an equation and its lines together: under the pointer, in focus, and when a link leads to one of them.
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

  // What a link led to stays lit while nothing else is pointed at.
  function linked() {
    var name = decodeURIComponent(location.hash.slice(1));
    var target = name && document.getElementById(name);
    return target ? idsOf(target) : [];
  }

  function start() {
    var book = document.querySelector(".book.columns");
    if (!book) {
      return;
    }
    book.addEventListener("mouseover", function (event) {
      var ids = idsOf(event.target);
      light(ids.length ? ids : linked());
    });
    book.addEventListener("mouseleave", function () {
      light(linked());
    });
    book.addEventListener("focusin", function (event) {
      var ids = idsOf(event.target);
      light(ids.length ? ids : linked());
    });
    book.addEventListener("focusout", function () {
      light(linked());
    });
    window.addEventListener("hashchange", function () {
      light(linked());
    });
    light(linked());
    // The mathematics font, once it is there, moves what a link has led to.
    document.fonts.ready.then(function () {
      var target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (target && book.contains(target)) {
        target.scrollIntoView({ block: target.closest(".line") ? "center" : "start" });
      }
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
