// Each live part refetches its fragment when the stream reports a change of its kinds, and is patched in place. Rows do
// not move while they are read: new ones wait behind "3 new".

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

const refresh = (part, options) => refreshTogether([part], options);

// Parts below `data-parts` come in one answer, each of the others in its own.
function refreshParts(wanted) {
  const base = body.dataset.parts?.replace(/parts$/, "");
  const isShared = ({ name, element }) => base && element.dataset.src === base + name;
  const shared = wanted.filter(isShared);
  const groups = wanted.filter((part) => !isShared(part)).map((part) => [part]);
  return Promise.all((shared.length ? [shared, ...groups] : groups).map((group) => refreshTogether(group)));
}

async function refreshTogether(group, { force = false } = {}) {
  group.filter((part) => part.busy).forEach((part) => { part.again = true; });
  const idle = group.filter((part) => !part.busy);
  if (!idle.length) return true;
  for (const part of idle) {
    part.busy = true;
    part.element.setAttribute("aria-busy", "true");
  }
  const wasPaused = mode === "paused";
  let ok = false;
  try {
    const answer = await fetch(address(idle));
    if (answer.redirected) return location.reload();
    if (answer.ok) {
      const fresh = parse(await answer.text());
      // Paused since the request: the page refreshes when it resumes.
      if (force || wasPaused || mode !== "paused") idle.forEach((part) => patch(part, contentOf(part, fresh, idle), force));
      answeredAt = now();
      ok = true;
    }
    idle.forEach((part) => old(part, !answer.ok));
  } catch {
    ok = false;
  }
  for (const part of idle) {
    part.busy = false;
    part.element.removeAttribute("aria-busy");
    part.at = Date.now();
  }
  const again = idle.filter((part) => part.again);
  again.forEach((part) => { part.again = false; });
  if (again.length) setTimeout(() => { if (mode !== "paused") refreshParts(again); }, again[0].restMs);
  return ok;
}

function address(group) {
  const [{ element }] = group;
  if (group.length > 1) return `${body.dataset.parts}?names=${group.map(({ name }) => name)}`;
  return element.dataset.src + (element.hasAttribute("data-with-query") ? location.search : "");
}

function contentOf(part, fresh, group) {
  if (group.length === 1) return fresh;
  return fresh.querySelector(`template[data-part="${part.name}"]`).content;
}

function rest(part, leftMs) {
  part.waits ??= setTimeout(() => {
    part.waits = null;
    if (mode !== "paused") refresh(part);
  }, leftMs);
}

function refreshRested(wanted) {
  const leftMs = (part) => (part.busy || part.restMs <= 200 ? 0 : part.at + part.restMs - Date.now());
  wanted.filter((part) => leftMs(part) > 0).forEach((part) => rest(part, leftMs(part)));
  return refreshParts(wanted.filter((part) => leftMs(part) <= 0));
}

function old(part, isOld) {
  part.element.toggleAttribute("data-old", isOld);
  if (isOld) warn(`Some of this page could not be refreshed. What is grey may be old; it is tried again.`);
  else if (mode === "live" && banner && !parts.some((one) => one.element.hasAttribute("data-old"))) banner.hidden = true;
}

async function refreshAll() {
  document.dispatchEvent(new CustomEvent("sluice:change", { detail: ["instants"] }));
  return (await refreshParts(parts)).every(Boolean);
}

// A patch never changes ticks, typed text, selection, focus, scroll or open folds.

function parse(html) {
  // Unlike a document, a template keeps leading white space.
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

function patch(part, fresh, force) {
  if (!force && isSelectedIn(part.element)) {
    part.postponed = true;
    return;
  }
  part.postponed = false;
  const held = !force && isHeld(part.element);
  const waiting = morphChildren(part.element, fresh, held);
  showArrivals(part, waiting);
  tick();
  document.dispatchEvent(new CustomEvent("sluice:patched", { detail: part.name }));
}

function isHeld(element) {
  if (element.matches(":hover") || element.contains(document.activeElement)) return true;
  if ([...element.querySelectorAll(".scroll")].some((box) => box.scrollTop > 0)) return true;
  // New rows above the screen would push it down.
  return element.getBoundingClientRect().top < 0;
}

function isSelectedIn(element) {
  const selection = document.getSelection();
  return !selection.isCollapsed && selection.containsNode(element, true);
}

const CONTROLS = "input, select, textarea";

const isTick = ({ type }) => type === "checkbox" || type === "radio";

function isEdited(control) {
  if (control.type === "hidden") return false;
  if (isTick(control)) return control.checked !== control.defaultChecked;
  if (!control.options) return control.value !== control.defaultValue;
  const options = [...control.options];
  // Without a default the browser chooses the first.
  const first = options.some((option) => option.defaultSelected) ? null : options[0];
  return options.some((option) => option.selected !== (option.defaultSelected || option === first));
}

function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  return node.id || node.dataset.key || (node.matches(CONTROLS) && node.name + (isTick(node) && node.value)) || "";
}

const isAlike = (old, fresh) => old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);

function morph(old, fresh, held) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return 0;
  }
  // charts.js draws it again from the JSON beside it.
  if (old.dataset.figure !== undefined) return 0;
  // New defaults would replace the entry.
  if (old.matches("select, textarea") && isEdited(old)) return 0;
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  return morphChildren(old, fresh, held);
}

function morphChildren(old, fresh, held) {
  if (old.dataset?.rows !== undefined) return morphRows(old, fresh, held);
  const left = [...old.childNodes].filter((node) => node.dataset?.keep === undefined);
  const pairs = [...fresh.childNodes].map((node) => {
    const at = left.findIndex((known) => isAlike(known, node));
    return [at < 0 ? document.importNode(node, true) : left.splice(at, 1)[0], at < 0 ? null : node];
  });
  left.forEach((node) => node.remove());
  let waiting = 0;
  let next = old.firstChild;
  for (const [node, update] of pairs) {
    while (next?.dataset?.keep !== undefined) next = next.nextSibling;
    if (node === next) next = next.nextSibling;
    else old.insertBefore(node, next);
    if (update) waiting += morph(node, update, held);
  }
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
    row.classList.toggle("is-gone", !wanted.has(key) && (held || [...row.querySelectorAll(CONTROLS)].some(isEdited)));
    if (!wanted.has(key) && !row.classList.contains("is-gone")) row.remove();
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

function tick() {
  if (mode !== "paused") document.dispatchEvent(new CustomEvent("sluice:tick", { detail: now() }));
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

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
  refreshRested(parts.filter(isMeant));
  document.dispatchEvent(new CustomEvent("sluice:change", { detail: kinds }));
}

// Changes before the stream started were not reported.
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
  // Renamed or unregistered: the address redirects or answers 404.
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
  refreshParts(parts.filter(isDue));
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
  document.addEventListener("DOMContentLoaded", open);
  setInterval(() => { tick(); watch(); }, 1000);
  toggle?.addEventListener("click", pause);
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    if (event.key === "p" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) pause();
  });
  const catchUp = (part) => {
    if (mode !== "paused" && part.element.querySelector(":scope > .arrivals") && !isHeld(part.element)) refresh(part);
  };
  document.addEventListener("scrollend", () => parts.forEach(catchUp));
  document.addEventListener("selectionchange", () => {
    parts.filter((part) => part.postponed && !isSelectedIn(part.element)).forEach((part) => refresh(part));
  });
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
