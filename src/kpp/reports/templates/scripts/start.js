Object.keys(starts).forEach(function (name) {
  if (data[name] && data[name].made) { starts[name](); }
});
document.documentElement.dataset.ready = "yes";
