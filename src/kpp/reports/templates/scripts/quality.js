// The threshold of a class: counts at every step stand in the page; costs are the reader's.
function quality() {
  var found = data.quality.finding;
  if (!found) { return; }
  var slider = byId("threshold-slider"), costs = [byId("cost-false"), byId("cost-missed")];
  var steps = found.threshold, total = found.n_positive + found.n_negative;
  byId("threshold-panel").hidden = false;

  function cost(input) {
    var value = parseFloat(input.value);
    return value >= 0 && isFinite(value) ? value : null;
  }
  function total_cost(k, ofFalse, ofMissed) {
    return ofFalse * found.false_positive[k] + ofMissed * (found.n_positive - found.true_positive[k]);
  }
  // The least cost; of equal ones the threshold nearest to one half, the lower of two.
  function best(ofFalse, ofMissed) {
    var least = 0;
    for (var k = 1; k < steps.length; k++) {
      var here = total_cost(k, ofFalse, ofMissed), there = total_cost(least, ofFalse, ofMissed);
      if (here < there || (here === there && Math.abs(steps[k] - 0.5) < Math.abs(steps[least] - 0.5))) { least = k; }
    }
    return least;
  }
  function share(part, whole) { return whole > 0 ? percent(part / whole) : "\u2013"; }
  function set(id, text) { byId(id).textContent = text; }
  function refresh() {
    var k = Number(slider.value), positive = found.true_positive[k], wrong = found.false_positive[k];
    var missed = found.n_positive - positive, name = number(steps[k], 6);
    set("threshold-value", name);
    slider.setAttribute("aria-valuetext", name);
    set("count-true", number(positive, 6));
    set("count-false", number(wrong, 6));
    set("count-missed", number(missed, 6));
    set("count-rest", number(found.n_negative - wrong, 6));
    set("threshold-precision", share(positive, positive + wrong));
    set("threshold-recall", share(positive, found.n_positive));
    set("threshold-f1", share(2 * positive, 2 * positive + wrong + missed));
    set("threshold-share", share(positive + wrong, total));
    var ofFalse = cost(costs[0]), ofMissed = cost(costs[1]), known = ofFalse !== null && ofMissed !== null;
    costs.forEach(function (input) { input.setAttribute("aria-invalid", String(cost(input) === null)); });
    byId("threshold-best").disabled = !known;
    if (!known) {
      set("threshold-cost", "\u2013");
      set("threshold-advice", "A cost is a number, 0 or more.");
      return;
    }
    var at = best(ofFalse, ofMissed);
    set("threshold-cost", number(total_cost(k, ofFalse, ofMissed) / total, 4));
    set("threshold-advice", "For these costs the best threshold on these rows is " + number(steps[at], 6) + ": "
      + number(total_cost(at, ofFalse, ofMissed) / total, 4) + " a row. Chosen on the very rows that it is shown on, that is a little too good.");
  }
  slider.addEventListener("input", refresh);
  costs.forEach(function (input) { input.addEventListener("input", refresh); });
  byId("threshold-best").addEventListener("click", function () {
    slider.value = best(cost(costs[0]), cost(costs[1]));
    refresh();
  });
  refresh();
}

starts.quality = quality;
