// The timeline: draws the figure with the theme's colours, keeps the address in step, opens instants beside the chart.

const page = document.querySelector("[data-timeline]");
const chart = page.querySelector("[data-chart]");
const side = page.querySelector("[data-side]");
const summary = document.querySelector("[data-summary]");
const filters = document.querySelector("[data-filters]");
const legend = document.querySelector(".legend");
const rowsPart = document.querySelector('[data-live="instants"]');

const TONES = { completed: "good", inflight: "busy", requested: "quiet", archived: "quiet", failed: "bad", rolled_back: "undone", conflicted: "bad", savepoint: "busy" };
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const params = () => new URLSearchParams(location.search);

let figure = JSON.parse(document.getElementById("figure").textContent);
let asking = null;

// Drawing

function themed({ data, layout }) {
  const selected = params().get("sel");
  const line = css("--line");
  const ink = css("--ink-3");
  const surface = css("--surface");
  return {
    data: data.map((trace) => {
      if (trace.type === "heatmap") {
        return { ...trace, colorscale: [[0, css("--busy-soft")], [0.15, css("--busy-mark")], [1, css("--busy")]] };
      }
      const color = css(`--${TONES[trace.meta.state] ?? "quiet"}-mark`);
      const edges = trace.customdata.map((row) => (row[0] === selected ? css("--ink") : color));
      const widths = trace.customdata.map((row) => (row[0] === selected ? 2.5 : trace.marker.line.width));
      if (trace.type === "scatter") return { ...trace, marker: { ...trace.marker, color, line: { color: edges, width: widths } } };
      return {
        ...trace,
        marker: { ...trace.marker, color, pattern: { ...trace.marker.pattern, bgcolor: css("--surface"), fgcolor: color }, line: { color: edges, width: widths } },
      };
    }),
    layout: {
      ...layout,
      autosize: true,
      // What a person zoomed to belongs to one address and ends with it.
      uirevision: params().toString().replace(/&?(sel=\d+|tab=\w+)/g, ""),
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--font"), size: 12, color: ink },
      hoverlabel: { bgcolor: css("--ink"), bordercolor: css("--ink"), font: { family: css("--font"), size: 12, color: surface }, align: "left" },
      xaxis: { ...layout.xaxis, gridcolor: line, linecolor: line, tickcolor: line },
      yaxis: { ...layout.yaxis, tickfont: { color: css("--ink-2") } },
      shapes: (layout.shapes ?? []).map(painted),
    },
  };
}

const SHAPE_INKS = { now: "--bad-mark", tie: "--busy-mark", "overlay-savepoints": "--busy-mark", "overlay-archive": "--ink-3" };

function painted(shape) {
  const own = { ...shape, line: { ...shape.line, color: css(SHAPE_INKS[shape.name] ?? "--line") } };
  if (shape.type === "rect") own.fillcolor = css("--good-soft");
  if (shape.label) own.label = { ...shape.label, font: { ...shape.label.font, color: css("--ink-2") } };
  return own;
}

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, scrollZoom: false };

function draw() {
  const { data, layout } = themed(figure);
  // The element has the height, the figure follows it: a resize would forget a height of its own.
  if (legend) legend.dataset.mode = layout.meta.mode;
  chart.style.height = `${layout.height}px`;
  delete layout.height;
  return Plotly.react(chart, data, layout, CONFIG);
}

// Asking for another window

async function fetchFigure() {
  asking?.abort();
  const mine = (asking = new AbortController());
  try {
    const answer = await fetch(page.dataset.figureSrc + location.search, { signal: mine.signal });
    if (answer.redirected) return location.reload();
    if (!answer.ok) {
      summary.textContent = "could not be drawn again; what you see is older";
      return;
    }
    const fresh = await answer.json();
    figure = fresh.figure;
    summary.textContent = fresh.summary;
    draw();
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
}

function visit(changes, { push = true } = {}) {
  const next = params();
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const address = `${location.pathname}${next.size ? `?${next}` : ""}`;
  history[push ? "pushState" : "replaceState"](null, "", address);
  markRanges();
}

function markRanges() {
  const range = params().get("range");
  for (const link of document.querySelectorAll(".segments a")) {
    if (link.textContent.trim() === range) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

const toInstant = (value) => new Date(value).toISOString().replace(/\D/g, "").slice(0, 17);

function zoomed(changes) {
  const from = changes["xaxis.range[0]"] ?? changes["xaxis.range"]?.[0];
  const to = changes["xaxis.range[1]"] ?? changes["xaxis.range"]?.[1];
  if (from === undefined || to === undefined) return;
  // Plotly gives dates without a zone; they are UTC like all others.
  const utc = (value) => (typeof value === "number" ? value : Date.parse(`${String(value).replace(" ", "T")}Z`));
  visit({ from: toInstant(utc(from)), to: toInstant(utc(to)), range: "", before: "" });
  refreshWindow();
}

const LEAST_MS = 10_000;
function instantMs(text) {
  const at = text.padEnd(17, "0");
  return Date.parse(`${at.slice(0, 4)}-${at.slice(4, 6)}-${at.slice(6, 8)}T${at.slice(8, 10)}:${at.slice(10, 12)}:${at.slice(12, 14)}.${at.slice(14)}Z`);
}

// Each edge by its part of the window. While an answer is on its way the address is ahead of the chart.
function move(startBy, endBy) {
  const [from, to] = [params().get("from"), params().get("to")];
  const shown = figure.layout.xaxis.range.map((edge) => Date.parse(`${edge.replace(" ", "T")}Z`));
  const [start, end] = from && to ? [instantMs(from), instantMs(to)] : shown;
  const width = end - start;
  if (width * (1 + endBy - startBy) < LEAST_MS) return;
  zoomed({ "xaxis.range": [start + width * startBy, end + width * endBy] });
}

const AROUND_MS = 900_000;
function stretch(at) {
  // A bin and half of each beside it: wide enough to be told apart, narrow enough to see more.
  const around = Math.max(AROUND_MS, figure.layout.meta.bin_ms);
  zoomed({ "xaxis.range": [at - around, at + around] });
}

function refreshWindow() {
  fetchFigure();
  rowsPart?.dispatchEvent(new CustomEvent("sluice:refresh"));
}

// One instant beside the chart

async function openInstant(instant, { push = true, tab = params().get("tab") } = {}) {
  if (push) visit({ sel: instant, tab });
  mark(instant);
  const address = page.dataset.instantSrc.replace("00000000000000000", encodeURIComponent(instant));
  const answer = await fetch(address + location.search);
  if (answer.redirected) return location.reload();
  const text = answer.ok ? await answer.text() : "";
  const fresh = new DOMParser().parseFromString(text, "text/html").body;
  if (!text) fresh.textContent = "This instant could not be loaded. Choose it again.";
  side.replaceChildren(...fresh.childNodes);
  const wasHidden = side.hidden;
  side.hidden = false;
  page.classList.add("has-side");
  if (wasHidden) Plotly.Plots.resize(chart);
  if (matchMedia("(max-width: 60rem)").matches) side.scrollIntoView({ block: "start" });
}

function closeInstant({ push = true } = {}) {
  if (push) visit({ sel: "", tab: "" });
  side.hidden = true;
  page.classList.remove("has-side");
  mark("");
  Plotly.Plots.resize(chart);
}

function mark(instant) {
  for (const row of document.querySelectorAll(".instants tbody tr")) {
    row.classList.toggle("is-selected", instant !== "" && row.dataset.key.startsWith(`${instant}.`));
  }
  draw();
}

function step(by) {
  // What was taken back has a bar and a sign at its end, a kept commit a bar and a flag: each is one step.
  const drawn = figure.data.flatMap((trace) => (trace.type === "heatmap" ? [] : trace.customdata.map((row) => row[0])));
  const all = [...new Set(drawn)].sort();
  const here = all.indexOf(params().get("sel"));
  const next = here < 0 ? all.length - 1 : here + by;
  if (all[next]) openInstant(all[next]);
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const link = event.target.closest("a[data-instant]");
  if (link) {
    event.preventDefault();
    openInstant(link.dataset.instant, link.dataset.tab ? { tab: link.dataset.tab } : {});
  } else if (event.target.closest("[data-close]")) {
    event.preventDefault();
    closeInstant();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "[") step(-1);
  else if (event.key === "]") step(1);
  else if (event.key === "Escape" && !side.hidden) closeInstant();
  else if (event.target.closest(".scroll")) return; // There arrows scroll.
  else if (event.key === "ArrowLeft") move(-0.5, -0.5);
  else if (event.key === "ArrowRight") move(0.5, 0.5);
  else if (event.key === "+" || event.key === "=") move(0.25, -0.25);
  else if (event.key === "-") move(-0.5, 0.5);
});

filters?.addEventListener("change", () => filters.requestSubmit());
addEventListener("popstate", () => {
  const selected = params().get("sel");
  if (selected) openInstant(selected, { push: false });
  else if (!side.hidden) closeInstant({ push: false });
  markRanges();
  refreshWindow();
});

let waiting = 0;
document.addEventListener("sluice:change", (event) => {
  // A window that stands still does not change; one that follows the clock is drawn again, at most every two seconds.
  if (params().has("to") || !event.detail.includes("instants") || waiting) return;
  waiting = setTimeout(() => { waiting = 0; fetchFigure(); }, 2000);
});
document.addEventListener("sluice:theme", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

await draw();
chart.querySelector(".chart-wait")?.remove();
chart.on("plotly_click", ({ points }) => {
  const chosen = points[0];
  if (chosen.data.type !== "heatmap") openInstant(chosen.customdata[0]);
  else stretch(Date.parse(`${chosen.x}Z`));
});
chart.on("plotly_relayout", zoomed);
chart.on("plotly_doubleclick", () => {
  visit({ from: "", to: "", range: "", before: "" });
  refreshWindow();
});
