// What if: the values of a row as controls, and the model's answer to them.
function whatif() {
  var section = data.whatif, body = byId("whatif-table") && byId("whatif-table").tBodies[0];
  if (!body) { return; }
  var model = section.exact ? readModel(section.model) : null;
  var isClassifier = section.classes.length > 0, output = 0, place = 0, shownVariable = 0;
  var values = null, changed = {}, base = null;
  byId("whatif-controls").hidden = false;
  byId("whatif-table").hidden = false;
  var grids = model ? [] : section.variables.map(function (variable) {
    return {
      scores: unpack(variable.scores, Float64Array), adds: unpack(variable.adds, Float32Array),
      ranges: variable.ranges && unpack(variable.ranges, Float64Array)
    };
  });
  var K = section.scores[0].length;

  // One answer: scores, contributions of the listed variables, and the range.
  function gridAnswer(j, point) {
    var V = section.variables.length, P = section.variables[j].names.length, at = place * P + point, own = grids[j];
    function part(list, size) { return Array.from(list.slice(at * size, (at + 1) * size)); }
    var adds = part(own.adds, V * K), shape = section.ranges && section.ranges[place];
    return {
      scores: part(own.scores, K),
      adds: section.variables.map(function (_, v) { return adds.slice(v * K, (v + 1) * K); }),
      range: own.ranges && shape.map(function (line, i) {
        return part(own.ranges, shape.length * line.length).slice(i * line.length, (i + 1) * line.length);
      })
    };
  }
  function answer(withoutRange) {
    if (!model) {
      var moved = Object.keys(changed)[0];
      return moved === undefined ? rowAnswer() : gridAnswer(Number(moved), changed[moved]);
    }
    var own = evaluate(model, values, withoutRange);
    own.adds = section.variables.map(function (variable) { return Array.from(own.adds[variable.variable]); });
    if (!own.range && section.ranges) {
      var known = section.ranges[place];
      own.range = isClassifier ? (Object.keys(changed).length ? null : known) : known.map(function (line) {
        return line.map(function (end, k) { return end + respond(own.scores)[k] - respond(section.scores[place])[k]; });
      });
    }
    return own;
  }
  function rowAnswer() {
    return { scores: section.scores[place], adds: section.adds[place], range: section.ranges && section.ranges[place] };
  }
  function respond(scores) { return section.link === "log" ? scores.map(Math.exp) : scores; }
  // What is drawn: the probability of a class, or the prediction.
  function height(scores) {
    if (!isClassifier) { return respond(scores)[output]; }
    return probabilities(scores, section.link)[section.link === "logistic" ? 1 : output];
  }
  function said(scores) {
    if (!isClassifier) { return respond(scores).map(function (v) { return number(v, 5); }).join(", "); }
    var shares = probabilities(scores, section.link);
    var best = section.link === "logistic" ? (scores[0] > 0 ? 1 : 0) : scores.indexOf(Math.max.apply(null, scores));
    return section.classes[best] + " (" + percent(shares[best]) + ")";
  }
  function rangeSaid(range) {
    if (!range) { return "\u2013"; }
    if (isClassifier) {
      return section.classes.filter(function (_, c) { return range[0][c]; }).join(", ") || "no class";
    }
    return range[0].map(function (low, k) { return number(low, 4) + " to " + number(range[1][k], 4); }).join(", ");
  }

  function fact(id, term, description, was) {
    var dd = make("dd", { id: id }, words(description));
    if (was !== description) { dd.append(make("span", {}, [" was ", words(was)])); }
    return make("div", {}, [make("dt", {}, term), dd]);
  }
  function refresh() {
    var now = answer(), facts = make("dl", { "class": "facts" });
    facts.append(fact("whatif-prediction", "Prediction", said(now.scores), said(base.scores)));
    if (section.ranges) { facts.append(fact("whatif-range", section.range_name, rangeSaid(now.range), rangeSaid(base.range))); }
    facts.dataset.scores = JSON.stringify(now.scores);
    facts.dataset.range = JSON.stringify(now.range);
    byId("whatif-answer").replaceChildren(facts);
    Array.from(body.rows).forEach(function (line, v) {
      var own = now.adds[v][output], difference = own - base.adds[v][output];
      line.cells[2].textContent = signed(own);
      line.cells[2].dataset.value = String(own);
      line.cells[3].textContent = Math.abs(difference) < 1e-12 ? "" : signed(difference);
      line.classList.toggle("changed", changed[v] !== undefined);
    });
    drawCurve();
  }

  function setColumn(row, variable, option, typed) {
    variable.columns.forEach(function (column, i) {
      for (var r = 0; r < model.R; r++) {
        if (variable.kind === "number") {
          row[r][column] = variable.single ? Math.fround(typed) : typed;
        } else {
          variable.unpacked = variable.unpacked || unpack(variable.values, Float64Array);
          row[r][column] = variable.unpacked[(r * variable.names.length + option) * variable.columns.length + i];
        }
      }
    });
  }
  function control(variable, v) {
    if (variable.kind === "number") {
      var value = values[0][variable.columns[0]];
      var input = make("input", { type: "number", step: "any", "aria-label": variable.name, value: Number.isFinite(value) ? String(value) : "",
        placeholder: Number.isNaN(value) ? "missing" : Number.isFinite(value) ? "" : value > 0 ? "\u221e" : MINUS + "\u221e" });
      input.addEventListener("input", function () {
        var typed = input.value === "" ? NaN : Number(input.value);
        // A browser gives an empty text for what is no number.
        var wrong = input.validity.badInput || (Number.isNaN(typed) && !variable.may_miss)
          || (!variable.may_be_infinite && !Number.isNaN(typed) && !Number.isFinite(Math.fround(typed)));
        input.setAttribute("aria-invalid", String(wrong));
        if (wrong) { return; }
        setColumn(values, variable, null, typed);
        changed[v] = typed;
        shownVariable = v;
        refresh();
      });
      return input;
    }
    var own = model ? variable.of_rows[place] : -1;
    var list = model ? [] : [make("option", { value: "-1" }, variable.of_rows[place])];
    var select = make("select", { "aria-label": variable.name }, list.concat(variable.names.map(function (name, i) {
      return make("option", { value: String(i) }, name);
    })));
    select.value = String(own);
    select.addEventListener("change", function () {
      var option = Number(select.value);
      if (model) { setColumn(values, variable, option); } else {
        changed = {};
        Array.from(body.querySelectorAll("select")).forEach(function (other) { if (other !== select) { other.value = "-1"; } });
      }
      if (option === own) { delete changed[v]; } else { changed[v] = option; }
      shownVariable = v;
      refresh();
    });
    return select;
  }
  function lay() {
    changed = {};
    values = model ? rowOf(model, place) : null;
    base = answer();
    // What was computed in Python for this row is what is computed here, or nothing is shown.
    var off = base.scores.some(function (score, k) {
      var known = section.scores[place][k];
      return !(Math.abs(score - known) <= 1e-6 * Math.max(1, Math.abs(known)));
    });
    if (off) {
      byId("whatif-answer").replaceChildren(make("p", { "class": "box bad" }, "The prediction in the page differs from the model's: nothing is shown."));
      body.replaceChildren();
      byId("whatif-curve").replaceChildren();
      return;
    }
    body.replaceChildren.apply(body, section.variables.map(function (variable, v) {
      var name = make("button", { type: "button", "class": "link" }, words(variable.name));
      name.addEventListener("click", function () { shownVariable = v; drawCurve(); });
      return make("tr", {}, [make("th", { scope: "row" }, name), make("td", {}, control(variable, v)),
        make("td", { "class": "num" }), make("td", { "class": "num" })]);
    }));
    refresh();
  }

  // The answer against one variable, with all other values as they are now.
  function drawCurve() {
    var variable = section.variables[shownVariable], points = [], now;
    Array.from(body.rows).forEach(function (line, v) { line.querySelector("button").setAttribute("aria-pressed", String(v === shownVariable)); });
    if (model) {
      var trial = values.map(function (own) { return Float64Array.from(own); });
      var list = variable.kind === "number" ? variable.points : variable.names;
      points = list.map(function (own, i) {
        setColumn(trial, variable, i, own);
        return { at: variable.kind === "number" ? own : null, name: String(own), value: height(evaluate(model, trial, true).scores) };
      });
      now = variable.kind === "number" ? values[0][variable.columns[0]] : null;
    } else {
      points = variable.names.map(function (name, i) {
        return { at: variable.at ? variable.at[i] : null, name: name, value: height(gridAnswer(shownVariable, i).scores) };
      });
      now = variable.at && changed[shownVariable] !== undefined ? variable.at[changed[shownVariable]] : null;
    }
    var what = isClassifier ? "probability of " + (section.link === "logistic" ? section.classes[1] : section.classes[output])
      : section.outputs.length > 1 ? section.outputs[output] : "prediction";
    var numbers = points.filter(function (point) { return point.at !== null && Number.isFinite(point.at); });
    var caption = make("figcaption", {}, [make("h3", {}, words(variable.name)), "The ", words(what), " for other values of this column, "
      + (model ? "all others as they are above." : "all others as they are in the row.")]);
    var chart = numbers.length > 1
      ? answerCurve(numbers, now === null || !Number.isFinite(now) ? null : { at: now, value: height(answer(true).scores) }, variable.name, what)
      : answerBars(points);
    byId("whatif-curve").replaceChildren(caption, chart, make("details", { "class": "numbers" }, [
      make("summary", {}, "The curve as a table"),
      table(["Value", what], points.map(function (point) { return [words(point.name), number(point.value, 5)]; }), ["", "num"])
    ]));
  }

  byId("whatif-row").addEventListener("change", function () { place = Number(this.value); lay(); });
  byId("whatif-reset").addEventListener("click", lay);
  if (byId("whatif-output")) {
    byId("whatif-output").addEventListener("change", function () { output = Number(this.value); refresh(); });
  }
  // The row that is chosen above is the row here.
  place = Math.max(0, section.rows.indexOf(data.rows ? data.rows.chosen : -1));
  byId("whatif-row").value = String(place);
  document.addEventListener("row-chosen", function (event) {
    var found = section.rows.indexOf(event.detail);
    if (found >= 0 && found !== place) { place = found; byId("whatif-row").value = String(found); lay(); }
  });
  lay();
}

function answerBars(points) {
  var values = points.map(function (point) { return point.value; });
  var low = Math.min.apply(null, values.concat(0)), high = Math.max.apply(null, values.concat(0));
  if (low === high) { high = low + 1; }
  function at(value) { return (value - low) / (high - low); }
  var made = table(["Value", make("span", { "class": "unseen" }, "Bar"), "Answer"], points.map(function (point) {
    return [words(point.name), bar(at(0), at(point.value), "first", at(0)), number(point.value, 4)];
  }), ["", "bar-cell", "num"]);
  made.classList.add("bars");
  return made;
}

function answerCurve(points, now, name, what) {
  var W = 420, H = 290, R = 14, T = 14, B = 46, GAP = 7, NAME = 24;
  var all = now ? points.concat(now) : points;
  function ends(key) {
    var list = all.map(function (point) { return point[key]; });
    var low = Math.min.apply(null, list), high = Math.max.apply(null, list), room = 0.06 * (high - low);
    return low === high ? [low - 0.5, high + 0.5] : [low - room, high + room];
  }
  var xs = ends("at"), ys = ends("value"), levels = steps(ys[0], ys[1], 5), levelTexts = tickTexts(levels);
  var L = Math.max(58, Math.ceil(NAME + Math.max.apply(null, levelTexts.map(textWidth)) + GAP));
  function px(x) { return L + (x - xs[0]) / (xs[1] - xs[0]) * (W - L - R); }
  function py(y) { return H - B - (y - ys[0]) / (ys[1] - ys[0]) * (H - T - B); }
  var svg = draw("svg", { "class": "chart", viewBox: "0 0 " + W + " " + H, role: "img", "aria-label": what + " against " + name + "; the figures are in the table below." });
  levels.forEach(function (tick, i) {
    svg.append(draw("path", { "class": "grid", d: "M" + L + " " + py(tick) + "H" + (W - R) }));
    svg.append(draw("text", { "class": "tick", x: L - GAP, y: py(tick) + 4, "text-anchor": "end" }, levelTexts[i]));
  });
  axisBelow(svg, xs, px, { left: L, right: W - R, width: W, bottom: H - B, gap: GAP });
  svg.append(draw("path", { "class": "line first", d: "M" + points.map(function (p) { return px(p.at) + " " + py(p.value); }).join("L") }));
  points.forEach(function (p) { svg.append(draw("circle", { "class": "dot first", cx: px(p.at), cy: py(p.value), r: 2.2 })); });
  if (now) { svg.append(draw("circle", { "class": "dot chosen", cx: px(now.at), cy: py(now.value), r: 5 })); }
  function cut(text) { return text.length > 44 ? text.slice(0, 43) + "\u2026" : text; }
  svg.append(draw("text", { "class": "name", x: (L + W - R) / 2, y: H - 8, "text-anchor": "middle" }, cut(name)));
  svg.append(draw("text", { "class": "name", transform: "translate(13 " + (T + H - B) / 2 + ") rotate(-90)", "text-anchor": "middle" }, cut(what)));
  return svg;
}

starts.whatif = whatif;
