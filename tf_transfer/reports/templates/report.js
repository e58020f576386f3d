"use strict";
// A number where the text begins with one: "82.79 (81.20 to 84.38)".
function keyOf(cell) {
  const text = cell.textContent.trim();
  const number = parseFloat(text.replace(/,/g, "").replace("−", "-"));
  return Number.isNaN(number) ? text.toLowerCase() : number;
}
function compare(a, b) {
  if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}
function sortBy(header) {
  const row = header.parentNode, body = header.closest("table").tBodies[0];
  const column = [...row.cells].indexOf(header);
  const falls = header.getAttribute("aria-sort") === "ascending";
  for (const cell of row.cells) cell.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", falls ? "descending" : "ascending");
  const keyed = [...body.rows].map((r) => [keyOf(r.cells[column]), r]);
  keyed.sort(([a], [b]) => {
    const order = compare(a, b);
    return falls && a !== "" && b !== "" ? -order : order;
  });
  body.append(...keyed.map(([, r]) => r));
}
function search(input) {
  const words = input.value.toLowerCase().split(/\s+/);
  for (const row of input.closest(".table").querySelectorAll("tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
}
function download(button) {
  const rows = [...button.closest(".table").querySelectorAll("tr")];
  // As in tables/: a spreadsheet computes no text of a run.
  const isFormula = (text) =>
    /^[-=+@\t\r]/.test(text) && !/^[-+\d.,%()± to]*$/.test(text);
  const quote = ({ textContent: text }) =>
    '"' + (isFormula(text) ? "'" : "") + text.replace(/"/g, '""') + '"';
  const lines = rows.map((row) => [...row.cells].map(quote).join(","));
  const link = document.createElement("a");
  const file = new Blob([lines.join("\n") + "\n"], { type: "text/csv" });
  link.href = URL.createObjectURL(file);
  link.download = button.dataset.csv;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function copy(button) {
  getSelection().selectAllChildren(button.previousElementSibling);
  document.execCommand("copy"); // the clipboard's own API asks, or is missing
  button.textContent = "Copied";
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.csv) download(button);
  else if ("copy" in button.dataset) copy(button);
  else sortBy(button.closest("th"));
});
document.addEventListener("input", (event) => {
  if (event.target.type === "search") search(event.target);
});
// What is folded is printed too.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open])")) {
    part.open = true;
    part.dataset.folded = "";
  }
});
addEventListener("afterprint", () => {
  for (const part of document.querySelectorAll("[data-folded]")) {
    part.open = false;
    delete part.dataset.folded;
  }
});
