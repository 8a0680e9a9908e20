// Words that are explained where they stand: a box that a click, a tap, a key or the mouse opens.
function explained(word, text) {
  var box = byId("word-" + word.toLowerCase().replace(/[^a-z0-9]+/g, "-"));
  return box ? make("button", { type: "button", "class": "term", popovertarget: box.id }, text || word) : make("span", {}, text || word);
}
(function () {
  var asked = null, timer = 0;
  function near(box) {
    if (!asked) { return; }
    var place = asked.getBoundingClientRect(), width = box.offsetWidth, tall = box.offsetHeight;
    var left = Math.max(8, Math.min(place.left, document.documentElement.clientWidth - width - 8));
    var below = place.bottom + 6, top = below + tall > window.innerHeight ? Math.max(8, place.top - tall - 6) : below;
    Object.assign(box.style, { position: "fixed", inset: "auto", margin: "0", left: left + "px", top: top + "px" });
  }
  document.querySelectorAll(".word-box").forEach(function (box) {
    box.addEventListener("toggle", function () {
      var open = box.matches(":popover-open");
      document.querySelectorAll('[popovertarget="' + box.id + '"]').forEach(function (button) { button.setAttribute("aria-expanded", String(open && button === asked)); });
      if (open) { near(box); }
    });
  });
  document.addEventListener("click", function (event) {
    asked = event.target.closest && event.target.closest(".term") || asked;
  }, true);
  document.addEventListener("pointerover", function (event) {
    var button = event.pointerType === "mouse" && event.target.closest && event.target.closest(".term");
    window.clearTimeout(timer);
    if (!button) { return; }
    timer = window.setTimeout(function () {
      var box = byId(button.getAttribute("popovertarget"));
      if (!box || !box.showPopover || box.matches(":popover-open")) { return; }
      asked = button;
      box.showPopover();
      button.addEventListener("pointerleave", function () { if (box.matches(":popover-open")) { box.hidePopover(); } }, { once: true });
    }, 300);
  });
})();
