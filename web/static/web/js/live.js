// Live parts. The stream says which kinds of rows changed; each part that shows them fetches its own fragment and is
// patched in place, row by row. Nothing under the pointer, the focus or the eye moves: new rows wait behind "3 new".

const STALE_MS = 10000;
const POLL_MS = 5000;
const HIDDEN_MS = 60000;
const REOPEN_MS = 15000;

const body = document.body;
const skew = Number(body.dataset.now || Date.now()) - Date.now();
const now = () => Date.now() + skew;
const banner = document.querySelector("[data-banner]");
const toggle = document.querySelector("[data-live-switch]");
const word = toggle?.querySelector("[data-live-word]");
const voice = document.querySelector("[data-announce]");

const parts = [...document.querySelectorAll("[data-live]")].map((element) => ({
  element,
  name: element.dataset.live,
  kinds: new Set((element.dataset.on || "").split(" ")),
  everyMs: Number(element.dataset.every || 0) * 1000,
  // What shows all tables hears of each: it rests so long between two answers.
  restMs: Number(element.dataset.rest || 0) * 1000 || 200,
  at: Date.now(),
  busy: false,
  again: false,
}));

let mode = "off";
let source = null;
let heardAt = Date.now();
let polledAt = 0;
let openedAt = 0;
let answeredAt = now();
let missed = 0;

// Refreshing

async function refresh(part, { force = false } = {}) {
  if (part.busy) {
    part.again = true;
    return true;
  }
  part.busy = true;
  part.element.setAttribute("aria-busy", "true");
  const wasPaused = mode === "paused";
  let ok = false;
  try {
    const query = part.element.hasAttribute("data-with-query") ? location.search : "";
    const answer = await fetch(part.element.dataset.src + query);
    if (answer.redirected) return location.reload();
    if (answer.ok) {
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").body;
      // A page that was paused while it asked stands still all the same; it asks again when it goes on.
      if (force || wasPaused || mode !== "paused") patch(part, fresh, force);
      answeredAt = now();
      ok = true;
    }
    old(part, !answer.ok);
  } catch {
    ok = false;
  }
  part.busy = false;
  part.element.removeAttribute("aria-busy");
  part.at = Date.now();
  if (part.again) {
    part.again = false;
    setTimeout(() => refresh(part), part.restMs);
  }
  return ok;
}

// At once where it rested enough, else as soon as it has.
function rested(part) {
  const leftMs = part.restMs > 200 ? part.at + part.restMs - Date.now() : 0;
  if (part.busy || leftMs <= 0) return refresh(part);
  part.waits ??= setTimeout(() => {
    part.waits = null;
    if (mode !== "paused") refresh(part);
  }, leftMs);
}

// The last good state stays, greyed, when a fragment fails while the stream is well.
function old(part, isOld) {
  part.element.toggleAttribute("data-old", isOld);
  if (isOld) warn(`Some of this page could not be refreshed. What is grey may be old; it is tried again.`);
  else if (mode === "live" && banner && !parts.some((one) => one.element.hasAttribute("data-old"))) banner.hidden = true;
}

async function refreshAll() {
  document.dispatchEvent(new CustomEvent("sluice:change", { detail: ["instants"] }));
  return (await Promise.all(parts.map((part) => refresh(part)))).every(Boolean);
}

// Patching

function patch(part, fresh, force) {
  const held = !force && isHeld(part.element);
  const waiting = morphChildren(part.element, fresh, held);
  showArrivals(part, waiting);
  tick();
  document.dispatchEvent(new CustomEvent("sluice:patched", { detail: part.name }));
}

function isHeld(element) {
  if (element.matches(":hover") || element.contains(document.activeElement)) return true;
  if ([...element.querySelectorAll(".scroll")].some((box) => box.scrollTop > 0)) return true;
  // Rows that came in above the top of the screen would push what is being read.
  return element.getBoundingClientRect().top < 0;
}

function morph(old, fresh, held) {
  if (old.nodeName !== fresh.nodeName || old.nodeType !== fresh.nodeType) {
    old.replaceWith(document.importNode(fresh, true));
    return 0;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return 0;
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    // What a person opened stays open.
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  return morphChildren(old, fresh, held);
}

function morphChildren(old, fresh, held) {
  if (old.hasAttribute("data-rows")) return morphRows(old, fresh, held);
  const have = [...old.childNodes].filter((node) => !node.dataset || node.dataset.keep === undefined);
  const want = [...fresh.childNodes];
  let waiting = 0;
  want.forEach((node, at) => {
    if (have[at]) waiting += morph(have[at], node, held);
    else old.append(document.importNode(node, true));
  });
  have.slice(want.length).forEach((node) => node.remove());
  return waiting;
}

function morphRows(old, fresh, held) {
  const have = new Map([...old.children].map((row) => [row.dataset.key, row]));
  const want = [...fresh.children];
  let waiting = 0;
  for (const row of want) {
    const known = have.get(row.dataset.key);
    if (known) morph(known, row, held);
    else waiting += 1;
  }
  const wanted = new Set(want.map((row) => row.dataset.key));
  for (const [key, row] of have) {
    if (wanted.has(key)) continue;
    if (held) row.classList.add("is-gone");
    else row.remove();
  }
  if (held) return waiting;
  want.forEach((row, at) => {
    let known = have.get(row.dataset.key);
    if (!known) {
      known = document.importNode(row, true);
      known.classList.add("fresh");
    }
    if (old.children[at] !== known) old.insertBefore(known, old.children[at] ?? null);
  });
  return 0;
}

function showArrivals(part, waiting) {
  let pill = part.element.querySelector(":scope > .arrivals");
  if (!waiting) {
    pill?.remove();
    return;
  }
  if (!pill) {
    pill = document.createElement("button");
    pill.className = "arrivals";
    pill.type = "button";
    pill.dataset.keep = "";
    pill.addEventListener("click", () => refresh(part, { force: true }));
    part.element.append(pill);
  }
  pill.textContent = `${waiting} new`;
  say(`${waiting} new in ${part.name}`);
}

let saidAt = 0;
function say(text) {
  if (!voice || Date.now() - saidAt < 5000) return;
  saidAt = Date.now();
  voice.textContent = text;
}

// Ages and heartbeats are `ticks.js`'s; a paused page stands still altogether.
function tick() {
  if (mode !== "paused") document.dispatchEvent(new CustomEvent("sluice:tick", { detail: now() }));
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

// The stream

function hear(kinds) {
  heardAt = Date.now();
  if (mode === "stale") refreshAll();
  if (mode !== "paused") show("live");
  if (!kinds.length) return;
  if (mode === "paused") {
    missed += 1;
    show("paused");
    return;
  }
  toggle?.setAttribute("data-pulse", "");
  setTimeout(() => toggle?.removeAttribute("data-pulse"), 900);
  const isMeant = (part) => part.kinds.has("*") || kinds.some((kind) => part.kinds.has(kind));
  parts.filter(isMeant).forEach(rested);
  document.dispatchEvent(new CustomEvent("sluice:change", { detail: kinds }));
}

// What changed between the making of the page, or the end of the last stream, and now was told to nobody.
function start() {
  heardAt = Date.now();
  if (mode === "paused") return;
  show("live");
  refreshAll();
}

function open() {
  source?.close();
  openedAt = Date.now();
  source = new EventSource(body.dataset.events);
  source.addEventListener("start", start);
  source.addEventListener("ping", () => hear([]));
  // Renamed or unregistered: the address leads on to the new one, or says that there is nothing.
  source.addEventListener("gone", () => location.reload());
  source.addEventListener("change", (event) => hear(JSON.parse(event.data).kinds));
}

function show(next) {
  mode = next;
  if (toggle) {
    toggle.dataset.mode = next;
    toggle.setAttribute("aria-pressed", String(next === "paused"));
  }
  setText(word, { live: "Live", stale: "Polling", off: "Connecting", paused: missed ? `Paused, ${missed} behind` : "Paused" }[next]);
  if (banner && next !== "stale" && !parts.some((part) => part.element.hasAttribute("data-old"))) banner.hidden = true;
}

function warn(text) {
  if (!banner) return;
  banner.hidden = false;
  setText(banner, text);
}

async function watch() {
  if (mode === "paused" || document.hidden) return;
  const silentMs = Date.now() - heardAt;
  if (silentMs > STALE_MS) {
    show("stale");
    if (source?.readyState !== EventSource.OPEN && Date.now() - openedAt > REOPEN_MS) open();
    if (Date.now() - polledAt > POLL_MS) {
      polledAt = Date.now();
      const ok = await refreshAll();
      if (mode !== "stale") return;
      warn(ok
        ? `No live events for ${Math.round((Date.now() - heardAt) / 1000)} s. This page asks every 5 seconds instead.`
        : `The server does not answer. What you see is from ${new Date(answeredAt).toISOString().slice(11, 19)} UTC; trying again.`);
    }
    return;
  }
  const isDue = (part) => Date.now() - part.at > (part.element.hasAttribute("data-old") ? POLL_MS : part.everyMs || Infinity);
  parts.filter(isDue).forEach((part) => refresh(part));
}

function pause() {
  if (mode === "paused") {
    missed = 0;
    show("live");
    refreshAll();
  } else {
    show("paused");
  }
}

if (body.dataset.events && parts.length) {
  show("off");
  // A page's own script listens by then, so it hears the start as well.
  document.addEventListener("DOMContentLoaded", open);
  setInterval(() => { tick(); watch(); }, 1000);
  toggle?.addEventListener("click", pause);
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    if (event.key === "p" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) pause();
  });
  // Rows that waited for the pointer to leave, or for the page to be scrolled back.
  const catchUp = (part) => {
    if (mode !== "paused" && part.element.querySelector(":scope > .arrivals") && !isHeld(part.element)) refresh(part);
  };
  document.addEventListener("scrollend", () => parts.forEach(catchUp));
  for (const part of parts) {
    part.element.addEventListener("sluice:look", () => refresh(part));
    part.element.addEventListener("sluice:refresh", () => refresh(part, { force: true }));
    part.element.addEventListener("pointerleave", () => catchUp(part));
  }
  let hiding = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => { source?.close(); source = null; }, HIDDEN_MS);
    } else if (!source) {
      heardAt = Date.now();
      open();
      if (mode !== "paused") refreshAll();
    }
  });
}
tick();
