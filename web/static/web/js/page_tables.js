// The tables of a page as files, cell by cell as they are shown: also those that are no list of the
// API. Moments are written in UTC, and texts that were shortened as a whole. shell.js loads this when it is wanted.

const FORMULA_STARTS = /^[=+\-@\t\r\n\0]/;
const NOT_CONTENT = "button, svg, template, script, [hidden], [aria-hidden='true']";

function tables() {
  return [...document.querySelectorAll("main table")].filter((table) => table.rows.length);
}

function titleOf(table, number) {
  const region = table.closest("[aria-label], [aria-labelledby]");
  const heading = document.getElementById(region?.getAttribute("aria-labelledby"))?.firstChild;
  const words = table.caption?.textContent ?? region?.getAttribute("aria-label") ?? heading?.textContent;
  return words?.trim() || `Table ${number + 1}`;
}

function textOf(cell) {
  const copy = cell.cloneNode(true);
  copy.querySelectorAll(NOT_CONTENT).forEach((node) => node.remove());
  copy.querySelectorAll("input[type=hidden]").forEach((node) => node.remove());
  copy.querySelectorAll("input, textarea").forEach((node) => node.replaceWith(node.value));
  copy.querySelectorAll("select").forEach((node) => node.replaceWith(node.selectedOptions[0]?.label ?? ""));
  copy.querySelectorAll("time[datetime]").forEach((node) => node.replaceWith(node.dateTime));
  copy.querySelectorAll("[title]").forEach((node) => {
    if (node.textContent.includes("…")) node.replaceWith(node.title);
  });
  const text = copy.textContent.replace(/\s+/g, " ").trim();
  return text.includes("…") && cell.title ? cell.title : text;
}

// Cells that span several columns or rows stand in the first of them; the others are empty.
function gridOf(rows) {
  const grid = rows.map(() => []);
  rows.forEach((row, y) => {
    let x = 0;
    for (const cell of row.cells) {
      while (grid[y][x] !== undefined) x += 1;
      const down = Math.min(cell.rowSpan || rows.length, rows.length - y);
      for (let dy = 0; dy < down; dy += 1) {
        for (let dx = 0; dx < cell.colSpan; dx += 1) grid[y + dy][x + dx] = "";
      }
      grid[y][x] = textOf(cell);
      x += cell.colSpan;
    }
  });
  return grid;
}

function contentOf(table) {
  const rows = [...table.rows].filter((row) => !row.hidden);
  const heads = rows.filter((row) => row.parentElement === table.tHead);
  const grid = gridOf(rows);
  return { names: heads.length ? grid[heads.length - 1] : [], rows: grid.slice(heads.length) };
}

function csvOf({ names, rows }) {
  const cell = (text) => `"${(FORMULA_STARTS.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  const lines = names.length ? [names, ...rows] : rows;
  return lines.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function jsonOf({ names, rows }) {
  const name = (at) => names[at] || `column ${at + 1}`;
  const objects = rows.map((row) => Object.fromEntries(row.map((text, at) => [name(at), text])));
  return `${JSON.stringify(objects, null, 1)}\n`;
}

const FORMATS = {
  CSV: { type: "text/csv", ending: "csv", made: csvOf },
  JSON: { type: "application/json", ending: "json", made: jsonOf },
};

function save(table, title, { type, ending, made }) {
  const url = URL.createObjectURL(new Blob([made(contentOf(table))], { type: `${type};charset=utf-8` }));
  const moment = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  const name = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  Object.assign(document.createElement("a"), { href: url, download: `${name}-${moment}.${ending}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function line(table, number) {
  const title = titleOf(table, number);
  const row = document.createElement("div");
  const term = Object.assign(document.createElement("dt"), { textContent: title });
  const files = document.createElement("dd");
  for (const [words, format] of Object.entries(FORMATS)) {
    const button = Object.assign(document.createElement("button"), {
      type: "button",
      className: "small",
      textContent: words,
      ariaLabel: `${title} as ${words}`,
    });
    button.addEventListener("click", () => save(table, title, format));
    files.append(button);
  }
  row.append(term, files);
  return row;
}

export const fill = (place) => place.querySelector("dl").replaceChildren(...tables().map(line));
