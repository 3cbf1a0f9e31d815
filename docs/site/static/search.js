// Below each result of a search how its page begins.
(function () {
  "use strict";

  function show() {
    document.querySelectorAll("#search-results li > a[href]").forEach(function (link) {
      var page = decodeURI(link.getAttribute("href")).replace(/#.*$/, "").replace(/\?.*$/, "").replace(/\.html$/, "");
      var words = window.excerpts && window.excerpts[page];
      if (words && !link.parentElement.querySelector(".excerpt")) {
        var shown = document.createElement("p");
        shown.className = "excerpt";
        shown.textContent = words;
        link.parentElement.appendChild(shown);
      }
    });
  }

  document.addEventListener("DOMContentLoaded", function () {
    var results = document.getElementById("search-results");
    if (results) {
      new MutationObserver(show).observe(results, { childList: true, subtree: true });
      show();
    }
  });
})();
