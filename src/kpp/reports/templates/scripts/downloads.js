// Every table as CSV and every picture as SVG: small buttons, and files made in the page.
function save(name, text, kind) {
  var address = URL.createObjectURL(new Blob([text], { type: kind }));
  var link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  // Later: a browser reads it when it gets to it.
  window.setTimeout(function () { URL.revokeObjectURL(address); }, 10000);
}

// What a cell holds: a number as programs read it, or a text.
function cellText(cell) {
  var field = cell.querySelector("input, select");
  if (field) { return field.tagName === "SELECT" ? field.selectedOptions[0].textContent : field.value; }
  if (cell.dataset.value !== undefined) { return cell.dataset.value; }
  var seen = cell.cloneNode(true);
  seen.querySelectorAll(".unseen").forEach(function (one) { one.remove(); });
  var text = seen.textContent.replace(/\s+/g, " ").trim();
  return plainNumber(text.replace(/^\+/, "")) || text;
}
function plainNumber(text) {
  var plain = text.replace(/\u2212/g, "-");
  return /^-?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?(e-?\d+)?$/.test(plain) ? plain.replace(/,/g, "") : "";
}
function csvField(text) {
  // A name that begins like a formula must not be one in a spreadsheet.
  if (/^[=+\-@\t\r]/.test(text) && !plainNumber(text)) { text = "'" + text; }
  return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
}
function csvOf(source) {
  return Array.from(source.rows).filter(function (line) { return !line.hidden; }).map(function (line) {
    return Array.from(line.cells).filter(function (cell) { return !cell.querySelector("svg.bar") && !isBarHead(cell); })
      .flatMap(function (cell) {
        var empty = Array(Math.max(0, cell.colSpan - 1)).fill("");
        return [csvField(cellText(cell))].concat(empty);
      }).join(",");
  }).join("\r\n") + "\r\n";
}
function isBarHead(cell) { return cell.tagName === "TH" && cell.children.length === 1 && cell.textContent === "Bar"; }

// A picture by itself: its colours are those of the page as it is shown now.
var SVG_STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "font-size", "font-family", "font-weight", "text-anchor"];
function svgOf(source) {
  var copy = source.cloneNode(true), box = source.viewBox.baseVal;
  var from = [source].concat(Array.from(source.querySelectorAll("*")));
  [copy].concat(Array.from(copy.querySelectorAll("*"))).forEach(function (element, i) {
    var style = window.getComputedStyle(from[i]);
    element.removeAttribute("class");
    if (element.tagName === "title") { return; }
    SVG_STYLES.forEach(function (name) { element.setAttribute(name, style.getPropertyValue(name)); });
  });
  fill(copy, { xmlns: SVG, width: box.width, height: box.height });
  copy.prepend(draw("rect", { x: box.x, y: box.y, width: box.width, height: box.height, fill: window.getComputedStyle(document.body).backgroundColor }));
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(copy) + "\n";
}

// A name for a file, from where the table or picture stands.
function fileName(element, ending) {
  var section = element.closest("section"), near = element.closest("figure, details, .piece, section");
  var head = near && near.querySelector("h3, h4, summary"), caption = element.querySelector("caption");
  var parts = [section ? section.id : "report", caption ? caption.textContent : head ? head.textContent : ""];
  return (parts.join(" ").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "report") + ending;
}

function offer(element, label, ending, kind, write) {
  if (element.dataset.saved) { return; }
  element.dataset.saved = "yes";
  var button = make("button", { type: "button", "class": "save" }, [make("span", { "class": "unseen" }, "Save as "), label]);
  button.addEventListener("click", function () { save(fileName(element, ending), write(element), kind); });
  element.after(button);
}
function offerDownloads() {
  document.querySelectorAll("main table").forEach(function (one) { offer(one, "CSV", ".csv", "text/csv;charset=utf-8", csvOf); });
  document.querySelectorAll("main svg.chart").forEach(function (one) { offer(one, "SVG", ".svg", "image/svg+xml", svgOf); });
}
