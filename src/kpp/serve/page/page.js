"use strict";
(function () {
  var SVG = "http://www.w3.org/2000/svg";
  var token = null, card = null;

  // Everything below makes elements and sets their text. Names and values never become markup.
  function byId(id) { return document.getElementById(id); }
  function make(tag, attributes, children) { return fill(document.createElement(tag), attributes, children); }
  function draw(tag, attributes) { return fill(document.createElementNS(SVG, tag), attributes, []); }
  function fill(element, attributes, children) {
    Object.keys(attributes || {}).forEach(function (name) { element.setAttribute(name, attributes[name]); });
    (children === undefined ? [] : Array.isArray(children) ? children : [children]).forEach(function (child) { element.append(child); });
    return element;
  }
  function words(text) { return make("bdi", {}, String(text)); }
  function number(value) {
    if (value === null || value === undefined) { return "\u2013"; }
    if (typeof value !== "number") { return String(value); }
    return Number(value.toPrecision(5)).toLocaleString("en-US", { maximumSignificantDigits: 5 }).replace("-", "\u2212");
  }
  function signed(value) { return (value > 0 ? "+" : "") + number(value); }

  (function () {
    var button = byId("theme"), names = ["system", "light", "dark"], at = 0;
    button.hidden = false;
    button.addEventListener("click", function () {
      at = (at + 1) % names.length;
      if (at === 0) { delete document.documentElement.dataset.theme; } else { document.documentElement.dataset.theme = names[at]; }
      byId("theme-name").textContent = names[at];
    });
  })();

  function ask(path, body) {
    var headers = { "Accept": "application/json" };
    if (token) { headers["Authorization"] = "Bearer " + token; }
    var options = { headers: headers, cache: "no-store", credentials: "omit" };
    if (body) { headers["Content-Type"] = "application/json"; options.method = "POST"; options.body = JSON.stringify(body); }
    return fetch(path, options).then(function (answer) {
      return answer.json().then(function (data) {
        if (!answer.ok) { throw Object.assign(new Error(data.error), { status: answer.status, data: data }); }
        return data;
      });
    });
  }
  function complain(error) {
    var box = byId("error");
    box.hidden = false;
    box.textContent = error.data ? error.message : "The service does not answer.";
    ((error.data && error.data.errors) || []).forEach(function (one) {
      var input = one.column === undefined ? null : inputs().find(function (e) { return e.dataset.column === one.column; });
      if (!input) { box.append(make("span", { "class": "block" }, one.message)); return; }
      input.setAttribute("aria-invalid", "true");
      input.parentElement.append(make("span", { "class": "wrong" }, one.message));
    });
  }
  function inputs() { return Array.from(byId("fields").querySelectorAll("[data-column]")); }
  function quiet() {
    byId("error").hidden = true;
    inputs().forEach(function (e) { e.removeAttribute("aria-invalid"); });
    Array.from(byId("fields").querySelectorAll(".wrong")).forEach(function (e) { e.remove(); });
  }

  // The form, from the columns of the model.
  function begin() {
    quiet();
    return ask("model").then(function (found) {
      card = found;
      byId("token-form").hidden = true;
      byId("title").textContent = card.name;
      byId("about").textContent = card.task + (card.target ? " of " + card.target : "") + ", " + number(card.trees) + " trees, fitted on " +
        number(card.rows_fitted) + " rows, version " + card.version;
      byId("report-link").hidden = !card.has_report;
      byId("fields").replaceChildren.apply(byId("fields"), card.columns.map(field));
      byId("row").hidden = false;
      document.documentElement.dataset.ready = "yes";
    }).catch(function (error) {
      complain(error);
      if (error.status === 401) { byId("token-form").hidden = false; }
    });
  }
  function field(column, at) {
    var known = column.categories, id = "column-" + at, input;
    if (known) {
      input = make("select", {}, (column.takes_missing ? [make("option", { value: "" }, "(missing)")] : []).concat(
        known.map(function (one, k) { return make("option", { value: String(k) }, one); })));
      input.value = "0";
    } else {
      input = make("input", { type: "text", autocomplete: "off", inputmode: column.kind === "number" ? "decimal" : "text" });
      input.value = column.kind === "number" ? (column.low === null ? "0" : String(Number(((column.low + column.high) / 2).toPrecision(4)))) : "";
    }
    fill(input, { id: id, "data-column": column.name, "aria-describedby": id + "-words" });
    return make("label", { "class": "field", "for": id }, [
      make("span", { "class": "name" }, words(column.name)), input,
      make("span", { "class": "muted small", id: id + "-words" }, words(hint(column)))
    ]);
  }
  function hint(column) {
    var said = column.categories ? "A category." : column.words.replace(" null where it is missing.", "");
    return column.takes_missing && !column.categories ? said + " Empty where it is missing." : said;
  }
  function valueOf(column, input) {
    if (column.categories) { return input.value === "" ? null : column.categories[Number(input.value)]; }
    var text = input.value;
    if (text.trim() === "") { return null; }
    if (column.kind === "number" || column.kind === "any") {
      var value = Number(text.trim());
      return Number.isFinite(value) ? value : text;  // the service says what is wrong with it
    }
    return text;
  }

  byId("form").addEventListener("submit", function (event) {
    event.preventDefault();
    quiet();
    var row = {}, button = byId("ask");
    inputs().forEach(function (input, k) { row[card.columns[k].name] = valueOf(card.columns[k], input); });
    var body = { rows: [row] };
    button.disabled = true;
    delete document.documentElement.dataset.answered;
    Promise.all([
      ask("predict", body), ask("explain", body),
      card.has_intervals ? ask("interval?coverage=0.9", body).catch(function () { return null; }) : null
    ]).then(function (all) { show(row, all[0], all[1], all[2]); }).catch(function (error) {
      byId("answer").hidden = true;
      complain(error);
    }).finally(function () { button.disabled = false; document.documentElement.dataset.answered = "yes"; });
  });

  function tile(label, value, note) {
    return make("div", { "class": "tile" }, [make("dt", {}, label), make("dd", {}, [
      make("span", { "class": "figure" }, words(value)), make("span", { "class": "muted small" }, note || "")])]);
  }
  function show(row, found, moved, covered) {
    var tiles = [], first = found.prediction[0];
    if (found.classes) {
      var at = found.classes.indexOf(first);
      tiles.push(tile("Predicted " + (card.target || "class"), first, "probability " + (100 * found.probability[0][at]).toFixed(1) + "%"));
    } else { tiles.push(tile("Predicted " + (card.target || "value"), [].concat(first).map(number).join(", "))); }
    if (covered) {
      var aim = covered.is_guarantee ? covered.status : "not a guarantee";
      tiles.push(covered.set ? tile("90% set of classes", covered.set[0].length ? covered.set[0].join(", ") : "(none)", aim)
        : tile("90% interval", [].concat(covered.lower[0]).map(number).join(", ") + " to " + [].concat(covered.upper[0]).map(number).join(", "), aim));
    }
    tiles.push(tile("Score", number(moved.score[0]), "starts from " + number(moved.baseline[0])));
    byId("tiles").replaceChildren.apply(byId("tiles"), tiles);
    byId("remarks").replaceChildren.apply(byId("remarks"), found.remarks.map(function (one) { return make("li", {}, words(one)); }));
    byId("convention").textContent = moved.convention;
    var parts = moved.columns.map(function (name, k) { return [name, moved.contributions[0][k]]; });
    parts.sort(function (a, b) { return Math.abs(b[1]) - Math.abs(a[1]); });
    var most = Math.max.apply(null, parts.map(function (p) { return Math.abs(p[1]); })) || 1;
    byId("parts").querySelector("tbody").replaceChildren.apply(byId("parts").querySelector("tbody"), parts.map(function (part) {
      var value = Object.hasOwn(row, part[0]) ? row[part[0]] : undefined, size = 49 * Math.abs(part[1]) / most;
      var bar = draw("svg", { "class": "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
      bar.append(draw("rect", { "class": part[1] > 0 ? "up" : "down", x: part[1] > 0 ? 50 : 50 - size, y: 1, width: size, height: 8 }),
        draw("line", { "class": "zero", x1: 50, x2: 50, y1: 0, y2: 10 }));
      return make("tr", {}, [make("th", { scope: "row" }, words(part[0])), make("td", { "class": "value-cell" }, words(value === null ? "missing" : number(value))),
        make("td", { "class": "bar-cell" }, bar), make("td", { "class": "num" }, signed(part[1]))]);
    }));
    byId("answer").hidden = false;
  }

  byId("reset").addEventListener("click", function () { byId("answer").hidden = true; begin(); });
  byId("token-form").addEventListener("submit", function (event) { event.preventDefault(); token = byId("token").value; begin(); });
  if (document.body.dataset.token === "yes") { byId("token-form").hidden = false; document.documentElement.dataset.ready = "token"; } else { begin(); }
})();
