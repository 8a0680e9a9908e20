var data = JSON.parse(document.getElementById("embedded").textContent);
var SVG = "http://www.w3.org/2000/svg";
var MINUS = "\u2212";

// Everything below makes elements and sets their text. Names and values never become markup.
function make(tag, attributes, children) {
  return fill(document.createElement(tag), attributes, children);
}
function draw(tag, attributes, children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}
function fill(element, attributes, children) {
  Object.keys(attributes || {}).forEach(function (name) {
    element.setAttribute(name, attributes[name]);
  });
  (children === undefined ? [] : Array.isArray(children) ? children : [children]).forEach(function (child) {
    element.append(child);
  });
  return element;
}
function words(text) { return make("bdi", {}, String(text)); }
function byId(id) { return document.getElementById(id); }

function number(value, digits) {
  digits = digits || 3;
  if (value === null || value === undefined) { return "\u2013"; }
  if (value === 0) { return "0"; }
  var size = Math.abs(value), text;
  if (size >= 1e9 || size < 1e-4) {
    text = size.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e").replace("e-", "e" + MINUS);
  } else {
    var decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    text = size.toLocaleString("en-US", { minimumFractionDigits: 0, maximumFractionDigits: Math.min(decimals, 20) });
  }
  return (value < 0 ? MINUS : "") + text;
}
// With all its digits, so that the figures of a column have as many.
function figure(value) {
  if (value === null || value === undefined || value === 0) { return number(value); }
  var size = Math.abs(value), decimals = Math.min(Math.max(0, 2 - Math.floor(Math.log10(size))), 20);
  if (size >= 1e9 || size < 1e-4) { return number(value); }
  return (value < 0 ? MINUS : "") + size.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}
function signed(value) { return value > 0 ? "+" + figure(value) : figure(value); }
function percent(value) { return value === null ? "\u2013" : (100 * value).toFixed(1) + "%"; }

// Theme: system, light or dark.
(function () {
  var button = byId("theme"), names = ["system", "light", "dark"], at = 0;
  button.hidden = false;
  button.addEventListener("click", function () {
    at = (at + 1) % names.length;
    if (at === 0) { delete document.documentElement.dataset.theme; } else { document.documentElement.dataset.theme = names[at]; }
    byId("theme-name").textContent = names[at];
  });
})();

// Contents are folded on a narrow screen, where they would fill it.
var narrow = window.matchMedia("(max-width: 67.99rem)");
function foldContents() { byId("contents").open = !narrow.matches; }
narrow.addEventListener("change", foldContents);
foldContents();

function steps(low, high, most) {
  var span = high - low;
  if (!(span > 0)) { return [low]; }
  var power = Math.floor(Math.log10(span)) - 2;
  for (var e = power; e < power + 4; e++) {
    for (var factor of [1, 2, 2.5, 5]) {
      var step = factor * Math.pow(10, e);
      var first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9), found = [];
      if (last - first + 1 > most) { continue; }
      for (var k = first; k <= last; k++) { found.push(Number((k * step).toPrecision(12))); }
      return found;
    }
  }
  return [low, high];
}
// The numbers beside an axis: so many digits that they are what they mark; and their width.
function tickTexts(ticks) {
  var step = 0, texts = [];
  for (var i = 1; i < ticks.length; i++) {
    var apart = Math.abs(ticks[i] - ticks[i - 1]);
    step = step ? Math.min(step, apart) : apart;
  }
  for (var digits = 3; digits < 10; digits++) {
    texts = ticks.map(function (tick) { return number(tick, digits); });
    var exact = ticks.every(function (tick, i) {
      return Math.abs(Number(texts[i].replace(/,/g, "").replace(/\u2212/g, "-")) - tick) <= 0.01 * step;
    });
    if (exact) { return texts; }
  }
  return step ? texts : ticks.map(function (tick) { return number(tick); });
}
function textWidth(text) {
  return Array.from(text).reduce(function (sum, c) { return sum + (c === "," || c === "." ? 4 : 7.5); }, 0);
}

// The axis below a chart: so many numbers that they do not touch.
function axisBelow(svg, ends, px, box) {
  var places, texts, middles, most = 5, touch = true;
  for (; touch && most > 0; most--) {
    places = steps(ends[0], ends[1], most);
    texts = tickTexts(places);
    // The last one may be longer than the room on its right.
    middles = places.map(function (tick, i) { return Math.min(px(tick), box.width - textWidth(texts[i]) / 2); });
    touch = middles.some(function (middle, i) {
      return i > 0 && middle - middles[i - 1] < (textWidth(texts[i]) + textWidth(texts[i - 1])) / 2 + box.gap;
    });
  }
  places.forEach(function (tick, i) {
    svg.append(draw("path", { "class": "grid", d: "M" + px(tick) + " " + box.bottom + "v4" }));
    svg.append(draw("text", { "class": "tick", x: middles[i], y: box.bottom + 18, "text-anchor": "middle" }, texts[i]));
  });
  svg.append(draw("path", { "class": "axis", d: "M" + box.left + " " + box.bottom + "H" + box.right }));
}

// A bar between two shares of a cell; shares are of 0 to 1.
function bar(from, to, kind, zero) {
  var svg = draw("svg", { "class": "bar", "aria-hidden": "true", focusable: "false" });
  if (zero !== undefined) {
    svg.append(draw("line", { "class": "zero", x1: 100 * zero + "%", x2: 100 * zero + "%", y1: "0", y2: "100%" }));
  }
  var left = Math.min(from, to), width = Math.max(Math.abs(to - from), 0.004);
  svg.append(draw("rect", { "class": kind, x: (100 * left).toFixed(2) + "%", width: (100 * width).toFixed(2) + "%", height: "100%", rx: "1.5" }));
  return svg;
}
function table(heads, lines, kinds) {
  var head = make("tr", {}, heads.map(function (text, i) { return make("th", { scope: "col", "class": kinds[i] }, text); }));
  var body = lines.map(function (line) {
    return make("tr", {}, line.map(function (cell, i) {
      return make(i ? "td" : "th", i ? { "class": kinds[i] } : { scope: "row", "class": kinds[i] }, cell);
    }));
  });
  return make("table", { "class": "data" }, [make("thead", {}, head), make("tbody", {}, body)]);
}

// Section by section, what makes it move: each script adds its own.
var starts = {};
