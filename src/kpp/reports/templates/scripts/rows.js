// Rows: a list box, and the chosen row in detail.
function rows() {
  var section = data.rows, list = byId("row-list"), detail = byId("row-detail"), chosen = null, visible = [], linked = false;
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
      .filter(function (i) { return texts[i].indexOf(wanted) >= 0 && passes(section.rows[i]); })
      .sort(function (a, b) {
        var one = key(order, section.rows[a]), two = key(order, section.rows[b]);
        return one < two ? -1 : one > two ? 1 : a - b;
      });
    list.replaceChildren.apply(list, visible.map(function (i) { return options[i]; }));
    byId("row-count").textContent = visible.length + " of " + section.rows.length + " rows listed";
    if (visible.length && visible.indexOf(chosen) < 0) { choose(visible[0]); }
    mark();
  }
  // Wrong or right, by actual class, and by why a row was taken.
  function passes(row) {
    return Array.from(document.querySelectorAll("[data-rows-by]")).every(function (own) {
      return own.value === "" || String(row[own.dataset.rowsBy]) === own.value;
    });
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
    section.chosen = section.rows[i].row;
    document.dispatchEvent(new CustomEvent("row-chosen", { detail: section.rows[i].row }));
    // The address of the page becomes that of the row, once the reader has chosen one.
    if (linked) { history.replaceState(null, "", "#row-" + section.rows[i].row); }
  }
  function goTo(number) {
    var i = section.rows.findIndex(function (row) { return row.row === number; });
    if (i < 0) { return false; }
    byId("row-filter").value = "";
    document.querySelectorAll("[data-rows-by]").forEach(function (own) { own.value = ""; });
    chosen = i;
    refresh();
    choose(i);
    list.focus();
    return true;
  }
  // A link to a row: #row-17.
  function follow() {
    var found = /^#row-(\d+)$/.exec(window.location.hash);
    if (!found) { return; }
    byId("rows").scrollIntoView();
    if (!goTo(Number(found[1]))) { byId("row-count").textContent = "Row " + found[1] + " is not among the rows of this page."; }
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
  document.querySelectorAll("[data-rows-by]").forEach(function (own) { own.addEventListener("change", refresh); });
  refresh();
  linked = true;
  follow();
  window.addEventListener("hashchange", follow);
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
  var head = make("h3", {}, [rowName(row), make("a", { "class": "row-link", href: "#row-" + row.row, "aria-label": "Link to row " + row.row }, "#")]);
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
  // Ticks under the bars, at round scores, as many as fit: the cell is as wide as the page allows.
  function axis() {
    var svg = draw("svg", { "class": "bar axis-row", "aria-hidden": "true", focusable: "false" });
    function ticksFor(width) {
      var ticks, texts, starts, most = 4, touch = true;
      for (; touch && most > 0; most--) {
        ticks = steps(low, high, most);
        texts = tickTexts(ticks);
        starts = ticks.map(function (tick, i) {
          var wide = textWidth(texts[i]);
          return Math.min(Math.max(share(tick) * width - wide / 2, 0), width - wide);
        });
        touch = starts.some(function (start, i) { return i > 0 && start < starts[i - 1] + textWidth(texts[i - 1]) + 6; });
      }
      svg.replaceChildren();
      ticks.forEach(function (tick, i) {
        var at = (100 * share(tick)).toFixed(2) + "%";
        svg.append(draw("line", { "class": "grid", x1: at, x2: at, y1: "0", y2: "4" }));
        // At the ends the numbers end where the bars do, however wide the font is.
        var last = starts[i] > 0 && starts[i] === width - textWidth(texts[i]);
        var anchor = starts[i] === 0 ? "start" : last ? "end" : "middle";
        svg.append(draw("text", { "class": "tick", x: anchor === "start" ? 0 : last ? "100%" : at, y: "15", "text-anchor": anchor }, texts[i]));
      });
    }
    new ResizeObserver(function (seen) { if (seen[0].contentRect.width) { ticksFor(seen[0].contentRect.width); } }).observe(svg);
    return make("tr", { "class": "axis-line" }, [make("th", { scope: "row", "class": "name-cell muted" }, "score up to here"), make("td", { "class": "bar-cell" }, svg), make("td", {}, "")]);
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
  body.push(axis());
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
    add(explained("certified radius", "Radius"), row.never_flips ? "\u221e" : figure(row.radius), section.radius_unit);
    add(explained("Lipschitz", "The paper's radius"), figure(row.lipschitz), section.radius_unit);
    add(explained("margin", "Margin"), figure(row.margin));
    if (row.changes_to) { add("Would change to", words(row.changes_to)); }
  }
  if (raw) {
    add(explained("raw radius", "Raw radius"), raw.is_infinite ? "\u221e" : figure(raw.radius), "standard deviations");
    if (raw.counterexample_at !== null) { add("Another answer at", figure(raw.counterexample_at), "standard deviations"); }
  }
  var other = raw && raw.changes ? [counterexample(section, row, raw.changes)] : [];
  var text = section.is_classifier ? "Every row that is closer than the radius gets the same class."
    : "Every row that is closer than the radius gets a " + section.certified + " within " + (Array.isArray(section.epsilon) ? section.epsilon.map(function (e) { return number(e); }).join(", ") : number(section.epsilon)) + ", " + section.epsilon_is + ".";
  var note = raw ? " The raw radius lets every column move by so many of its standard deviations at once" + (section.raw_in_prepared_columns ? ", after the preparation" : "") + (raw.searched ? "." : "; it was found without a search, which might enlarge it.") : "";
  if (row.never_flips) { note = " No combination of leaves changes this answer." + note; }
  return piece("How far it may move", facts.childElementCount ? other.concat([facts, make("p", { "class": "muted small" }, text + note)]) : [make("p", { "class": "muted" }, "No certificate for this model.")], true);
}

// Which values would have to be others, fewest first found.
function counterexample(section, row, changes) {
  var line = make("p", { "class": "counterexample" }, [section.is_classifier ? "It would not be " : "It would be off by more than the tolerance, and not ",
    make("strong", {}, words(row.predicted)), ", if "]);
  changes.forEach(function (change, i) {
    line.append(i ? " and " : "", make("strong", {}, words(change.column)), " were ", make("strong", {}, words(change.after)), " instead of ", words(change.before));
  });
  line.append(".");
  return line;
}

function rules(one) {
  var lines = one.rules.map(function (rule) {
    return [words(rule.text), rule.n_trees ? number(rule.n_trees, 9) : "", signed(rule.contribution), percent(rule.support)];
  });
  lines.push([one.n_others + " other rules", "", signed(one.others), ""]);
  return piece("Rules that moved it most", [
    table(["Rule", "Trees", "Adds", "Share"], lines, ["", "num", "num", "num"]),
    make("p", { "class": "muted small" }, "Trees: how many have the rule; their parts are added up. Share: of the rows of the fit in the same cell. With " + figure(one.baseline) + " for every row they sum to the score, " + figure(one.score) + ".")
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
  var base = "With the intercept " + figure(one.intercept) + (one.partition ? " and " + signed(one.partition) + " from " + one.partition_from : "");
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

starts.rows = rows;
