Object.keys(starts).forEach(function (name) {
  if (data[name] && data[name].made) { starts[name](); }
});
offerDownloads();
// Tables and pictures that are made later are offered too.
new MutationObserver(offerDownloads).observe(byId("main"), { childList: true, subtree: true });
// On paper everything is open.
var opened = [];
window.addEventListener("beforeprint", function () {
  opened = Array.from(document.querySelectorAll("main details:not([open])"));
  opened.forEach(function (one) { one.open = true; });
});
window.addEventListener("afterprint", function () { opened.forEach(function (one) { one.open = false; }); });
document.documentElement.dataset.ready = "yes";
