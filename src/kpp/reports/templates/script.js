"use strict";
(function () {
  var data = JSON.parse(document.getElementById("data").textContent);
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
    var placed = bins.filter(function (bin) { return bin.at !== undefined && bin.at !== null; });
    var chart = variable.effect.kind === "number" && placed.length > 1
      ? curve(section, variable, placed, k) : categories(bins, k);
    var lines = bins.map(function (bin) {
      var label = bin.label !== undefined ? words(bin.label)
        : bin.low === bin.high ? number(bin.low, 4) : number(bin.low, 4) + " to " + number(bin.high, 4);
      return [label, signed(bin.mean[k]), signed(bin.q10[k]) + " to " + signed(bin.q90[k]), number(bin.n)];
    });
    var missing = bins.filter(function (bin) { return bin.label === "missing"; })[0];
    var note = missing && chart.tagName === "svg"
      ? [make("p", { "class": "small" }, "Where the value is missing (" + number(missing.n) + " rows) the mean contribution is " + signed(missing.mean[k]) + ".")] : [];
    return [caption, chart].concat(note, make("details", { "class": "numbers" }, [
      make("summary", {}, "The effect as a table"),
      table(["Value", "Mean", "Middle 80%", "Rows"], lines, ["", "num", "num", "num"])
    ]));
  }

  function curve(section, variable, bins, k) {
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
    var svg = draw("svg", { "class": "chart", viewBox: "0 0 " + W + " " + H, role: "img", "aria-label": "Contribution of " + variable.name + " against its value; the figures are in the table below." });
    levels.forEach(function (tick, i) {
      svg.append(draw("path", { "class": "grid", d: "M" + L + " " + py(tick) + "H" + (W - R) }));
      svg.append(draw("text", { "class": "tick", x: L - GAP, y: py(tick) + 4, "text-anchor": "end" }, levelTexts[i]));
    });
    var places, placeTexts, middles, most = 5, touch = true;
    for (; touch && most > 0; most--) {
      places = steps(x0, x1, most);
      placeTexts = tickTexts(places);
      // The last one may be longer than the room on its right.
      middles = places.map(function (tick, i) { return Math.min(px(tick), W - textWidth(placeTexts[i]) / 2); });
      touch = middles.some(function (middle, i) {
        return i > 0 && middle - middles[i - 1] < (textWidth(placeTexts[i]) + textWidth(placeTexts[i - 1])) / 2 + GAP;
      });
    }
    places.forEach(function (tick, i) {
      svg.append(draw("path", { "class": "grid", d: "M" + px(tick) + " " + (H - B) + "v4" }));
      svg.append(draw("text", { "class": "tick", x: middles[i], y: H - B + 18, "text-anchor": "middle" }, placeTexts[i]));
    });
    svg.append(draw("path", { "class": "axis", d: "M" + L + " " + (H - B) + "H" + (W - R) }));
    svg.append(draw("path", { "class": "line reference", d: "M" + L + " " + py(0) + "H" + (W - R) }));
    var up = bins.map(function (b) { return px(b.at) + " " + py(b.q90[k]); });
    var down = bins.map(function (b) { return px(b.at) + " " + py(b.q10[k]); }).reverse();
    svg.append(draw("path", { "class": "band", d: "M" + up.concat(down).join("L") + "Z" }));
    svg.append(draw("path", { "class": "line first", d: "M" + bins.map(function (b) { return px(b.at) + " " + py(b.mean[k]); }).join("L") }));
    bins.forEach(function (b) { svg.append(draw("circle", { "class": "dot first", cx: px(b.at), cy: py(b.mean[k]), r: 2.6 })); });
    var name = variable.name.length > 44 ? variable.name.slice(0, 43) + "\u2026" : variable.name;
    svg.append(draw("text", { "class": "name", x: (L + W - R) / 2, y: H - 8, "text-anchor": "middle" }, name));
    svg.append(draw("text", { "class": "name", transform: "translate(13 " + (T + H - B) / 2 + ") rotate(-90)", "text-anchor": "middle" }, "contribution"));
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

  // Rows: a list box, and the chosen row in detail.
  function rows() {
    var section = data.rows, list = byId("row-list"), detail = byId("row-detail"), chosen = null, visible = [];
    byId("row-controls").hidden = false;
    var options = section.rows.map(function (row, i) {
      var top = make("span", { "class": "option-top" }, [make("span", { "class": "name" }, rowName(row))]);
      if (row.is_right === false) { top.append(make("span", { "class": "badge bad" }, "wrong")); }
      var answer = make("span", { "class": "small block" }, [words(row.predicted), make("span", { "class": "muted" }, row.is_right ? "" : " (actual ")]);
      if (!row.is_right) { answer.append(make("span", { "class": "muted" }, [words(row.actual), ")"])); }
      var figures = section.error_name + " " + figure(row.error) + ", radius " + (row.never_flips ? "\u221e" : figure(row.radius));
      return make("li", { role: "option", id: "row-option-" + i, "aria-selected": "false" },
        [top, answer, make("span", { "class": "small muted block" }, figures)]);
    });
    var texts = section.rows.map(function (row) {
      var values = row.values ? row.values.join(" ") : "";
      return [row.row, row.label, row.actual, row.predicted, row.reason, row.is_right === false ? "wrong" : "", values].join(" ").toLowerCase();
    });
    options.forEach(function (option, i) { option.addEventListener("click", function () { choose(i); list.focus(); }); });

    function key(order, row) {
      if (order === "error") { return -row.error; }
      if (order === "radius") { return row.never_flips ? Infinity : row.radius === null ? Infinity : row.radius; }
      if (order === "margin") { return row.margin === null ? Infinity : row.margin; }
      return row.row;
    }
    function refresh() {
      var order = byId("row-order").value, wanted = byId("row-filter").value.toLowerCase().trim();
      visible = section.rows.map(function (_, i) { return i; })
        .filter(function (i) { return texts[i].indexOf(wanted) >= 0; })
        .sort(function (a, b) {
          var one = key(order, section.rows[a]), two = key(order, section.rows[b]);
          return one < two ? -1 : one > two ? 1 : a - b;
        });
      list.replaceChildren.apply(list, visible.map(function (i) { return options[i]; }));
      byId("row-count").textContent = visible.length + " of " + section.rows.length + " rows listed";
      if (visible.length && visible.indexOf(chosen) < 0) { choose(visible[0]); }
      mark();
    }
    function mark() {
      options.forEach(function (option, i) { option.setAttribute("aria-selected", String(i === chosen)); });
      if (visible.indexOf(chosen) >= 0) {
        list.setAttribute("aria-activedescendant", "row-option-" + chosen);
      } else { list.removeAttribute("aria-activedescendant"); }
    }
    function choose(i) {
      chosen = i;
      mark();
      // Only the list scrolls, not the page.
      var option = options[i], top = option.offsetTop - list.offsetTop;
      if (top < list.scrollTop) { list.scrollTop = top; }
      if (top + option.offsetHeight > list.scrollTop + list.clientHeight) { list.scrollTop = top + option.offsetHeight - list.clientHeight; }
      detail.replaceChildren.apply(detail, describe(section, section.rows[i], goTo));
    }
    function goTo(number) {
      var i = section.rows.findIndex(function (row) { return row.row === number; });
      if (i < 0) { return; }
      byId("row-filter").value = "";
      chosen = i;
      refresh();
      choose(i);
      list.focus();
    }
    list.addEventListener("keydown", function (event) {
      var at = visible.indexOf(chosen), next = null;
      if (event.key === "ArrowDown") { next = at + 1; }
      if (event.key === "ArrowUp") { next = at - 1; }
      if (event.key === "PageDown") { next = Math.min(at + 8, visible.length - 1); }
      if (event.key === "PageUp") { next = Math.max(at - 8, 0); }
      if (event.key === "Home") { next = 0; }
      if (event.key === "End") { next = visible.length - 1; }
      if (next === null) { return; }
      event.preventDefault();
      if (next >= 0 && next < visible.length) { choose(visible[next]); }
    });
    byId("row-filter").addEventListener("input", refresh);
    byId("row-order").addEventListener("change", refresh);
    refresh();
  }

  // The number of a row, and how the table calls it.
  function rowName(row) {
    var own = make("span", {}, "Row " + row.row);
    if (row.label !== String(row.row)) { own.append(make("span", { "class": "muted" }, [" \u00b7 ", words(row.label)])); }
    return own;
  }

  function piece(title, children, wide) {
    return make("div", { "class": wide ? "piece wide" : "piece" }, [make("h4", {}, title)].concat(children));
  }

  function describe(section, row, goTo) {
    var head = make("h3", {}, rowName(row));
    var lead = make("p", {}, ["Predicted ", make("strong", {}, words(row.predicted)), row.note ? " (" + row.note + ")" : "",
      ", actually ", make("strong", {}, words(row.actual)), ". "]);
    if (row.is_right !== null) { lead.append(make("span", { "class": "badge " + (row.is_right ? "good" : "bad") }, row.is_right ? "right" : "wrong")); }
    lead.append(make("span", { "class": "muted small" }, " Chosen for: " + row.reason + "."));
    var lines = [lead];
    if (row.range) {
      lines.push(make("p", { "class": "range" }, [section.range_name + ": ", make("strong", {}, words(row.range.text)), " ",
        make("span", { "class": "badge " + (row.range.covers ? "good" : "bad") }, row.range.covers ? "holds the truth" : "misses the truth")]));
    }
    var pieces = [];
    (row.waterfalls || []).forEach(function (one) { pieces.push(waterfall(one, row.waterfalls.length > 1 || section.is_classifier)); });
    pieces.push(certificate(section, row));
    if (row.rules) { pieces.push(rules(row.rules)); }
    if (row.neighbours) { pieces.push(neighbours(section, row.neighbours, goTo)); }
    if (row.carriers) { pieces.push(carriers(section, row.carriers)); }
    if (row.values) { pieces.push(values(section, row.values)); }
    return [head].concat(lines, make("div", { "class": "pieces" }, pieces));
  }

  function waterfall(one, named) {
    var at = one.baseline, places = [at];
    var terms = one.terms.slice();
    if (one.n_others) { terms.push({ variable: null, contribution: one.others }); }
    terms.forEach(function (term) { at += term.contribution; places.push(at); });
    var low = Math.min.apply(null, places), high = Math.max.apply(null, places);
    var room = 0.03 * (high - low || 1);
    low -= room; high += room;
    function share(v) { return (v - low) / (high - low); }
    function line(label, from, to, kind, text, sum) {
      var svg = draw("svg", { "class": "bar", "aria-hidden": "true", focusable: "false" });
      var left = Math.min(share(from), share(to)), width = Math.max(Math.abs(share(to) - share(from)), 0.006);
      svg.append(draw("rect", { "class": kind, x: (100 * left).toFixed(2) + "%", width: (100 * width).toFixed(2) + "%", height: "100%", rx: "1.5" }));
      return make("tr", sum ? { "class": "sum" } : {}, [make("th", { scope: "row", "class": "name-cell" }, label), make("td", { "class": "bar-cell" }, svg),
        make("td", { "class": "num " + (kind === "total" ? "" : kind) }, text)]);
    }
    var body = [line("mean over the rows of the fit", one.baseline, one.baseline, "total", figure(one.baseline))];
    at = one.baseline;
    terms.forEach(function (term) {
      var label = term.variable === null ? one.n_others + (one.n_others === 1 ? " other variable" : " other variables")
        : make("span", {}, [words(term.variable), make("span", { "class": "muted" }, [" = ", words(term.value)])]);
      var kind = term.contribution < 0 ? "down" : term.contribution > 0 ? "up" : "total";
      body.push(line(label, at, at + term.contribution, kind, signed(term.contribution)));
      at += term.contribution;
    });
    body.push(line(make("span", {}, "score"), one.score, one.score, "total", figure(one.score), true));
    var title = make("span", {}, "What moved the score");
    if (named) { title.append(" of ", words(one.output)); }
    return piece(title, [make("table", { "class": "data waterfall" }, [
      make("thead", {}, make("tr", {}, [make("th", { scope: "col", "class": "name-cell" }, "Variable"), make("th", { scope: "col" }, make("span", { "class": "unseen" }, "Bar")), make("th", { scope: "col", "class": "num" }, "Adds")])),
      make("tbody", {}, body)
    ])], true);
  }

  function certificate(section, row) {
    var facts = make("dl", { "class": "facts" });
    function add(term, description, unit) {
      facts.append(make("div", {}, [make("dt", {}, term), make("dd", {}, [description, make("span", {}, unit ? " " + unit : "")])]));
    }
    var raw = row.raw;
    if (row.radius !== null || row.never_flips) {
      add("Radius", row.never_flips ? "\u221e" : figure(row.radius), section.radius_unit);
      add("The paper's radius", figure(row.lipschitz), section.radius_unit);
      add("Margin", figure(row.margin));
      if (row.changes_to) { add("Would change to", words(row.changes_to)); }
    }
    if (raw) {
      add("Raw radius", raw.is_infinite ? "\u221e" : figure(raw.radius), "standard deviations");
      if (raw.counterexample_at !== null) { add("Another answer at", figure(raw.counterexample_at), "standard deviations"); }
    }
    var text = section.is_classifier ? "Every row that is closer than the radius gets the same class."
      : "Every row that is closer than the radius gets a " + section.certified + " within " + (Array.isArray(section.epsilon) ? section.epsilon.map(function (e) { return number(e); }).join(", ") : number(section.epsilon)) + ", " + section.epsilon_is + ".";
    var note = raw ? " The raw radius lets every column move by so many of its standard deviations at once" + (section.raw_in_prepared_columns ? ", after the preparation" : "") + (raw.searched ? "." : "; it was found without a search, which might enlarge it.") : "";
    if (row.never_flips) { note = " No combination of leaves changes this answer." + note; }
    return piece("How far it may move", facts.childElementCount ? [facts, make("p", { "class": "muted small" }, text + note)] : [make("p", { "class": "muted" }, "No certificate for this model.")], true);
  }

  function rules(one) {
    var lines = one.rules.map(function (rule) { return [words(rule.text), signed(rule.contribution), percent(rule.support)]; });
    lines.push([one.n_others + " other rules", signed(one.others), ""]);
    return piece("Rules that moved it most", [
      table(["Rule", "Adds", "Share"], lines, ["", "num", "num"]),
      make("p", { "class": "muted small" }, "Share: of the rows of the fit in the same cell. With " + figure(one.baseline) + " for every row they sum to the score, " + figure(one.score) + ".")
    ], true);
  }

  function neighbours(section, one, goTo) {
    var known = section.has_training_rows;
    var fit = one.fit.map(function (near) { return [rowName(near), figure(near.distance)].concat(known ? [words(near.actual)] : []); });
    var test = one.test.map(function (near) {
      var label = rowName(near);
      if (data.rows.rows.some(function (row) { return row.row === near.row; })) {
        label = make("button", { type: "button", "class": "link" }, label);
        label.addEventListener("click", function () { goTo(near.row); });
      }
      return [label, figure(near.distance), words(near.actual), words(near.predicted)];
    });
    return piece("Nearest by path", [
      make("p", { "class": "muted small" }, "Among " + number(one.n_fit, 9) + " rows of the fit, numbered as they were given:"),
      table(known ? ["Row of the fit", "\u03b4_T", "Actual"] : ["Row of the fit", "\u03b4_T"], fit, ["", "num", "word"]),
      make("p", { "class": "muted small" }, "Among " + number(one.n_test, 9) + " other " + section.called + "s:"),
      table([section.called.charAt(0).toUpperCase() + section.called.slice(1), "\u03b4_T", "Actual", "Predicted"], test, ["", "num", "word", "word"])
    ]);
  }

  function carriers(section, one) {
    var known = section.has_training_rows;
    var lines = one.rows.map(function (row) {
      return [rowName(row), signed(row.contribution), figure(row.kernel)].concat(known ? [words(row.actual)] : []);
    });
    lines.push([number(one.n_others, 9) + " others", signed(one.others), ""].concat(known ? [""] : []));
    var base = "With the intercept " + figure(one.intercept) + (one.partition ? " and " + signed(one.partition) + " from the partition model" : "");
    return piece("Training rows that carried it", [
      table(known ? ["Row of the fit", "Adds", "Similarity", "Actual"] : ["Row of the fit", "Adds", "Similarity"], lines, ["", "num", "num", "word"]),
      make("p", { "class": "muted small" }, base + " they sum to the score, " + figure(one.score) + ". That these rows also grew the trees is not counted.")
    ]);
  }

  function values(section, list) {
    var found = make("dl", { "class": "values" }, list.map(function (value, i) {
      return make("div", {}, [make("dt", {}, words(section.value_variables[i])), make("dd", {}, words(value))]);
    }));
    var note = section.n_other_values ? [make("p", { "class": "muted small" }, "And " + number(section.n_other_values, 9) + " columns that matter less.")] : [];
    return piece("Its values", [found].concat(note), true);
  }

  if (data.variables.made) { variables(); }
  if (data.rows.made) { rows(); }
  document.documentElement.dataset.ready = "yes";
})();
