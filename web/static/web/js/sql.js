// The editor of SQL: suggestions of tables and columns while a statement is typed, and its end on request.

const WORDS_MAX = 8;
const KEYWORDS = (
  "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT JOIN LEFT INNER ON AND OR NOT IN IS NULL BETWEEN LIKE AS " +
  "DISTINCT UNION ALL WITH CASE WHEN THEN ELSE END DESC ASC COUNT SUM AVG MIN MAX CAST TIMESTAMP OF"
).split(" ");
const form = document.querySelector("[data-cancel]");
const field = document.getElementById("statement");
const list = document.getElementById("statement-words");
const part = document.querySelector("[data-part]");
const tables = JSON.parse(document.getElementById("sql-words").textContent);
let at = 0;

function spelled(name) {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `\`${name}\``;
}

// The word before the caret, and the table before a dot, where there is one.
function typed() {
  const before = field.value.slice(0, field.selectionStart);
  const [, qualifier = "", word] = before.match(/(?:([\w-]+|`[^`]+`)\.)?(`?[\w-]*)$/);
  return { word, table: qualifier.replaceAll("`", "") };
}

// Columns of the table before the dot, of the tables in the statement, or of all; then tables and keywords.
function suggestions() {
  const { word, table } = typed();
  const start = word.replace("`", "").toLowerCase();
  if (!start && !table) return [];
  const named = Object.keys(tables).filter((slug) => field.value.includes(slug));
  const alias = table && field.value.match(new RegExp(`([\\w-]+)\`?\\s+(?:AS\\s+)?${table}\\b`, "i"));
  const of = tables[table] ? [table] : alias && tables[alias[1]] ? [alias[1]] : named.length ? named : Object.keys(tables);
  const columns = of.flatMap((slug) => tables[slug].map((name) => [name, `column of ${slug}`]));
  const others = table
    ? []
    : [
        ...Object.keys(tables).map((slug) => [slug, "table"]),
        ...KEYWORDS.filter(() => start.length > 1).map((name) => [name, ""]),
      ];
  const seen = new Set();
  return [...columns, ...others]
    .filter(([name]) => name.toLowerCase().startsWith(start) && name.toLowerCase() !== start)
    .filter(([name]) => !seen.has(name) && seen.add(name))
    .slice(0, WORDS_MAX);
}

function close() {
  list.hidden = true;
  list.replaceChildren();
  field.removeAttribute("aria-activedescendant");
}

function mark(next) {
  const options = [...list.children];
  at = (next + options.length) % options.length;
  options.forEach((option, index) => option.setAttribute("aria-selected", index === at));
  field.setAttribute("aria-activedescendant", options[at].id);
}

function suggest() {
  const found = suggestions();
  if (!found.length) return close();
  list.replaceChildren(
    ...found.map(([name, kind], index) => {
      const option = document.createElement("li");
      option.id = `word-${index}`;
      option.setAttribute("role", "option");
      option.dataset.word = kind ? spelled(name) : name;
      const code = document.createElement("code");
      code.textContent = name;
      const note = document.createElement("span");
      note.className = "quiet";
      note.textContent = kind;
      option.append(code, note);
      return option;
    }),
  );
  list.hidden = false;
  mark(0);
}

function take(option) {
  const end = field.selectionStart;
  field.setRangeText(option.dataset.word, end - typed().word.length, end, "end");
  close();
  field.focus();
}

field.addEventListener("input", suggest);
field.addEventListener("blur", () => setTimeout(close, 150));
field.addEventListener("keydown", (event) => {
  if (list.hidden || event.ctrlKey || event.metaKey) return;
  if (event.key === "ArrowDown") mark(at + 1);
  else if (event.key === "ArrowUp") mark(at - 1);
  else if (event.key === "Tab") take(list.children[at]);
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
});
list.addEventListener("mousedown", (event) => {
  const option = event.target.closest("[role=option]");
  if (!option) return;
  event.preventDefault();
  take(option);
});

// Each run has an id of its own, by which Cancel ends it on the server. The part is busy while it runs.
const run = form.elements.run_id;
const cancel = form.querySelector("[data-cancels]");

function renew() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  run.value = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

new MutationObserver(() => {
  const isBusy = part.hasAttribute("aria-busy");
  cancel.hidden = !isBusy;
  cancel.disabled = false;
  if (isBusy) cancel.dataset.run = run.value;
  else renew();
}).observe(part, { attributes: true, attributeFilter: ["aria-busy"] });
renew();

cancel.addEventListener("click", async () => {
  cancel.disabled = true;
  const body = new FormData();
  body.set("run_id", cancel.dataset.run);
  body.set("csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value);
  await fetch(form.dataset.cancel, { method: "POST", body });
});
