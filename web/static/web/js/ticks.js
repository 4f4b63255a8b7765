// What moves with the clock between two answers of the server: ages, and the heartbeat strip of each writer.

const STRIP = 300;
const BEATS_MAX = 60;
const heard = new Map();

function beat(element, at) {
  const last = Number(element.dataset.beat);
  const tolerance = Number(element.dataset.tolerance) || 1;
  const used = (at - last) / tolerance;
  const tone = used > 1 ? "bad" : used > 0.5 ? "warn" : "good";
  setText(element.querySelector("[data-beat-age]"), `${age((at - last) / 1000)} ago`);
  const left = (tolerance - (at - last)) / 1000;
  setText(element.querySelector("[data-beat-left]"), left > 0 ? `expires in ${age(left)}` : `expired ${age(-left)} ago`);
  const strip = element.querySelector(".strip");
  const width = Math.min(STRIP, Math.max(0, (used * STRIP) / 3));
  const band = strip.querySelector(".strip-age");
  band.setAttribute("x", (STRIP - width).toFixed(1));
  band.setAttribute("width", width.toFixed(1));
  drawBeats(strip, element.closest("[data-key]")?.dataset.key, last, (beatAt) => STRIP - ((at - beatAt) / tolerance) * (STRIP / 3));
  if (strip.classList.contains(`tone-${tone}`)) return;
  strip.setAttribute("class", `strip tone-${tone}`);
  // The badge beside it is the server's to change.
  setTimeout(() => element.closest("[data-live]")?.dispatchEvent(new CustomEvent("sluice:look")), 300);
}

// One mark for every beat seen since the page was opened; a gap is a beat that did not come.
function drawBeats(strip, key, last, place) {
  const beats = heard.get(key) ?? [];
  if (beats.at(-1) !== last) beats.push(last);
  heard.set(key, beats.slice(-BEATS_MAX));
  let marks = strip.querySelector("[data-keep]");
  if (!marks) {
    marks = document.createElementNS("http://www.w3.org/2000/svg", "g");
    marks.dataset.keep = "";
    strip.append(marks);
  }
  const seen = beats.map(place).filter((x) => x >= 0);
  while (marks.childElementCount > seen.length) marks.lastChild.remove();
  seen.forEach((x, at) => {
    let mark = marks.children[at];
    if (!mark) {
      mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      mark.setAttribute("class", "strip-beat");
      mark.setAttribute("width", "3");
      mark.setAttribute("height", "10");
      marks.append(mark);
    }
    mark.setAttribute("x", Math.min(x, STRIP - 3).toFixed(1));
  });
}

function age(seconds) {
  const total = Math.max(0, Math.floor(seconds));
  for (const [unit, size, smaller, part] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]]) {
    if (total < size) continue;
    const rest = Math.floor((total % size) / part);
    return `${Math.floor(total / size)} ${unit}${rest ? ` ${rest} ${smaller}` : ""}`;
  }
  return `${total} s`;
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

document.addEventListener("sluice:tick", (event) => {
  for (const element of document.querySelectorAll("[data-ago]")) setText(element, age((event.detail - element.dataset.ago) / 1000));
  for (const element of document.querySelectorAll("[data-until]")) {
    const left = (element.dataset.until - event.detail) / 1000;
    setText(element, left > 0 ? `in ${age(left)}` : `${age(-left)} ago`);
  }
  // A word that holds until then is the server's to change: whoever shows it asks again.
  for (const element of document.querySelectorAll("[data-due]")) {
    if (element.dataset.due <= event.detail) element.closest("[data-live]")?.dispatchEvent(new CustomEvent("sluice:look"));
  }
  for (const element of document.querySelectorAll("[data-beat]")) beat(element, event.detail);
});
