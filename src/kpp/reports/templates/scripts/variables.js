// Variables: filter, order, and the effect of the chosen one.
function variables() {
  var section = data.variables, body = byId("variable-table").tBodies[0];
  var lines = Array.from(body.rows).filter(function (line) { return line.dataset.variable !== undefined; });
  var others = body.querySelector(".others");
  var output = -1, chosen = null;
  byId("variable-controls").hidden = false;

  function sum(list) { return list.reduce(function (a, b) { return a + b; }, 0); }
  function size(line) {
    var sizes = section.variables[line.dataset.variable].mean_abs;
    return output < 0 ? sum(sizes) : sizes[output];
  }
  function refresh() {
    var order = byId("variable-order").value, wanted = byId("variable-filter").value.toLowerCase();
    var most = Math.max.apply(null, lines.map(size)) || 1, left = 0;
    lines.slice().sort(function (a, b) {
      var one = section.variables[a.dataset.variable].name, two = section.variables[b.dataset.variable].name;
      return order === "name" ? one.localeCompare(two) : size(b) - size(a) || a.dataset.variable - b.dataset.variable;
    }).forEach(function (line) {
      body.append(line);
      line.hidden = section.variables[line.dataset.variable].name.toLowerCase().indexOf(wanted) < 0;
      left += line.hidden ? 0 : 1;
      line.cells[1].replaceChildren(bar(0, size(line) / most, "first"));
      line.cells[2].textContent = figure(size(line));
    });
    if (others) {
      var rest = output < 0 ? sum(section.others_mean_abs) : section.others_mean_abs[output];
      others.cells[1].replaceChildren(bar(0, Math.min(1, rest / most), "muted-fill"));
      others.cells[2].textContent = figure(rest);
      others.hidden = wanted !== "";
      body.append(others);
    }
    byId("variable-none").hidden = left > 0;
  }
  function choose(line) {
    chosen = line;
    lines.forEach(function (other) { other.querySelector("button").setAttribute("aria-pressed", String(other === line)); });
    var k = output < 0 ? 0 : output;
    byId("effect").replaceChildren.apply(byId("effect"), effect(section, section.variables[line.dataset.variable], k, output < 0));
  }
  lines.forEach(function (line) { line.querySelector("button").addEventListener("click", function () { choose(line); }); });
  byId("variable-filter").addEventListener("input", refresh);
  byId("variable-order").addEventListener("change", refresh);
  if (byId("variable-output")) {
    byId("variable-output").addEventListener("change", function () {
      output = Number(this.value);
      refresh();
      if (chosen) { choose(chosen); }
    });
  }
  if (lines.length) { choose(lines[0]); }
}

function effect(section, variable, k, together) {
  var bins = variable.effect.bins, several = section.outputs.length > 1;
  var caption = make("figcaption", {}, [make("h3", {}, words(variable.name))]);
  caption.append("Contribution to the score");
  if (several || section.is_classifier) { caption.append(" of ", words(section.outputs[k])); }
  if (several && together) { caption.append(", one of " + section.outputs.length + " (choose another above),"); }
  caption.append(variable.effect.kind === "number"
    ? " against the value: mean in bins of equally many rows, and the middle 80% of the rows."
    : " for each value: mean, and the middle 80% of the rows as a line.");
  var chart = drawBins(variable.name, variable.effect, k, "contribution");
  var missing = bins.filter(function (bin) { return bin.label === "missing"; })[0];
  var note = missing && chart.tagName === "svg"
    ? [make("p", { "class": "small" }, "Where the value is missing (" + number(missing.n) + " rows) the mean contribution is " + signed(missing.mean[k]) + ".")] : [];
  return [caption, chart].concat(note, make("details", { "class": "numbers" }, [
    make("summary", {}, "The effect as a table"),
    binTable(bins, k, "Middle 80%")
  ]), residuals(section, variable, k));
}

// What the predictions leave, by the value of the variable.
function residuals(section, variable, k) {
  var text = section.is_classifier ? "Whether a row is of " : "Actual value less prediction";
  var caption = make("p", {}, [make("strong", {}, "Residuals: "), text]);
  if (section.is_classifier) { caption.append(words(section.outputs[k]), " (1 or 0), less its probability"); }
  caption.append(": mean, and its 95% interval. Where the interval leaves out 0, predictions are off there on average; of twenty such intervals one does by chance.");
  return [caption, drawBins(variable.name, variable.residual, k, "mean residual"), make("details", { "class": "numbers" }, [
    make("summary", {}, "The residuals as a table"),
    binTable(variable.residual.bins, k, "95% interval")
  ])];
}

function drawBins(name, effect, k, what) {
  var placed = effect.bins.filter(function (bin) { return bin.at !== undefined && bin.at !== null; });
  return effect.kind === "number" && placed.length > 1 ? curve(name, placed, k, what) : categories(effect.bins, k);
}

function binTable(bins, k, spread) {
  return table(["Value", "Mean", spread, "Rows"], bins.map(function (bin) {
    var label = bin.label !== undefined ? words(bin.label)
      : bin.low === bin.high ? number(bin.low, 4) : number(bin.low, 4) + " to " + number(bin.high, 4);
    return [label, signed(bin.mean[k]), signed(bin.q10[k]) + " to " + signed(bin.q90[k]), number(bin.n)];
  }), ["", "num", "num", "num"]);
}

function curve(variable, bins, k, what) {
  var W = 420, H = 290, L = 58, R = 14, T = 14, B = 46, GAP = 7, NAME = 24;
  var xs = bins.map(function (bin) { return bin.at; });
  var low = Math.min.apply(null, bins.map(function (b) { return b.q10[k]; }).concat(0));
  var high = Math.max.apply(null, bins.map(function (b) { return b.q90[k]; }).concat(0));
  if (low === high) { low -= 0.5; high += 0.5; }
  var room = 0.06 * (high - low);
  low -= room; high += room;
  var levels = steps(low, high, 5), levelTexts = tickTexts(levels);
  // The left side grows with the numbers beside the axis.
  L = Math.max(L, Math.ceil(NAME + Math.max.apply(null, levelTexts.map(textWidth)) + GAP));
  var x0 = Math.min.apply(null, xs), x1 = Math.max.apply(null, xs);
  function px(x) { return L + (x1 > x0 ? (x - x0) / (x1 - x0) : 0.5) * (W - L - R - 12) + 6; }
  function py(y) { return H - B - (y - low) / (high - low) * (H - T - B); }
  var svg = draw("svg", { "class": "chart", viewBox: "0 0 " + W + " " + H, role: "img", "aria-label": what + " of " + variable + " against its value; the figures are in the table below." });
  levels.forEach(function (tick, i) {
    svg.append(draw("path", { "class": "grid", d: "M" + L + " " + py(tick) + "H" + (W - R) }));
    svg.append(draw("text", { "class": "tick", x: L - GAP, y: py(tick) + 4, "text-anchor": "end" }, levelTexts[i]));
  });
  axisBelow(svg, [x0, x1], px, { left: L, right: W - R, width: W, bottom: H - B, gap: GAP });
  svg.append(draw("path", { "class": "line reference", d: "M" + L + " " + py(0) + "H" + (W - R) }));
  var up = bins.map(function (b) { return px(b.at) + " " + py(b.q90[k]); });
  var down = bins.map(function (b) { return px(b.at) + " " + py(b.q10[k]); }).reverse();
  svg.append(draw("path", { "class": "band", d: "M" + up.concat(down).join("L") + "Z" }));
  svg.append(draw("path", { "class": "line first", d: "M" + bins.map(function (b) { return px(b.at) + " " + py(b.mean[k]); }).join("L") }));
  bins.forEach(function (b) { svg.append(draw("circle", { "class": "dot first", cx: px(b.at), cy: py(b.mean[k]), r: 2.6 })); });
  var name = variable.length > 44 ? variable.slice(0, 43) + "\u2026" : variable;
  svg.append(draw("text", { "class": "name", x: (L + W - R) / 2, y: H - 8, "text-anchor": "middle" }, name));
  svg.append(draw("text", { "class": "name", transform: "translate(13 " + (T + H - B) / 2 + ") rotate(-90)", "text-anchor": "middle" }, what));
  return svg;
}

function categories(bins, k) {
  var low = Math.min.apply(null, bins.map(function (b) { return b.mean[k]; }).concat(0));
  var high = Math.max.apply(null, bins.map(function (b) { return b.mean[k]; }).concat(0));
  if (low === high) { high = low + 1; }
  function at(value) { return (value - low) / (high - low); }
  var lines = bins.map(function (bin) {
    var label = bin.label !== undefined ? words(bin.label) : number(bin.at === undefined ? null : bin.at, 4);
    return [label, bar(at(0), at(bin.mean[k]), bin.mean[k] < 0 ? "down" : "up", at(0)), signed(bin.mean[k])];
  });
  var made = table(["Value", "", "Mean"], lines, ["", "bar-cell", "num"]);
  made.classList.add("bars");
  return made;
}

starts.variables = variables;
