// Figures of pages other than the timeline: each `data-figure` names the JSON beside it. Colours come from the theme, and
// links from the figure's `customdata`, so that a chart leads where the row of its table twin leads.

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, scrollZoom: false };
const charts = [...document.querySelectorAll("[data-figure]")].map((element) => ({
  element,
  source: element.dataset.figure,
  text: document.getElementById(element.dataset.figure).textContent,
}));
for (const chart of charts) chart.figure = JSON.parse(chart.text);

const tone = (name) => css(`--${name || "busy"}-mark`);

function colored(trace) {
  const name = trace.meta?.tone;
  if (trace.type === "heatmap") {
    return { ...trace, colorscale: [[0, css("--busy-soft")], [0.2, css("--busy-mark")], [1, css("--busy")]] };
  }
  if (trace.type === "treemap") {
    const colors = trace.ids.map((id, at) => (trace.meta.tones?.[at] ? css(`--${trace.meta.tones[at]}-soft`) : css("--sunken")));
    return {
      ...trace,
      marker: { ...trace.marker, colors, line: { color: css("--surface"), width: 2 } },
      textfont: { color: css("--ink") },
      pathbar: { ...trace.pathbar, textfont: { color: css("--ink") } },
    };
  }
  if (trace.type === "scatter") return { ...trace, line: { ...trace.line, color: tone(name) }, marker: { ...trace.marker, color: tone(name) } };
  return { ...trace, marker: { ...trace.marker, color: tone(name), line: { color: css("--surface"), width: 1 } } };
}

// Plotly gives a legend above a chart no room of its own: on a phone its lines would cover the plot.
const LEGEND_LINE_PX = 19;
const LEGEND_KEY_PX = 46;
const LETTER_PX = 6.6;
function makeRoom(layout, names, widthPx) {
  const widths = names.map((name) => name.replace(/<[^>]*>/g, "").length * LETTER_PX + LEGEND_KEY_PX);
  const isOneLine = widths.reduce((sum, width) => sum + width, 0) <= widthPx;
  const columns = Math.max(1, Math.floor(widthPx / Math.max(...widths)));
  const lines = isOneLine ? 1 : Math.ceil(names.length / columns);
  const top = (layout.margin?.t ?? 8) + lines * LEGEND_LINE_PX + 4;
  layout.legend = { ...layout.legend, yref: "container", y: 1, yanchor: "top" };
  layout.margin = { ...layout.margin, t: top };
  layout.height += (lines - 1) * LEGEND_LINE_PX;
}

function draw(chart) {
  const { element, figure } = chart;
  const wait = element.querySelector(".chart-wait");
  element.hidden = !figure.data.length;
  if (element.hidden) return wait?.remove();
  const line = css("--line");
  const axis = { gridcolor: line, linecolor: line, tickcolor: line, zerolinecolor: line };
  const layout = {
    ...figure.layout,
    autosize: true,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: css("--font"), size: 12, color: css("--ink-3") },
    hoverlabel: { bgcolor: css("--ink"), bordercolor: css("--ink"), font: { family: css("--font"), size: 12, color: css("--surface") }, align: "left" },
    xaxis: { ...figure.layout.xaxis, ...axis },
    yaxis: { ...figure.layout.yaxis, ...axis },
  };
  const named = figure.data.filter(({ name, showlegend }) => name && showlegend !== false).map(({ name }) => name);
  if (layout.showlegend && layout.legend?.orientation === "h" && named.length) makeRoom(layout, named, element.clientWidth - 24);
  element.style.height = `${layout.height}px`;
  delete layout.height;
  Plotly.react(element, figure.data.map(colored), layout, CONFIG).then(() => wait?.remove());
  if (chart.isBound) return;
  chart.isBound = true;
  element.on("plotly_click", ({ points }) => {
    const address = points[0]?.data.meta?.links?.[points[0].pointNumber] ?? points[0]?.customdata?.at?.(-1);
    if (typeof address === "string" && address.startsWith("/t/")) location.assign(address);
  });
}

charts.forEach(draw);

const drawAll = () => charts.forEach(draw);
// A figure whose JSON lies in a live part is drawn again when that part brought another one.
document.addEventListener("sluice:patched", () => {
  for (const chart of charts) {
    const text = document.getElementById(chart.source)?.textContent;
    if (!text || text === chart.text) continue;
    chart.text = text;
    chart.figure = JSON.parse(text);
    draw(chart);
  }
});
document.addEventListener("sluice:theme", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
