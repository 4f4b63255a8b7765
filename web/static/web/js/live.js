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
      const fresh = parse(await answer.text());
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
    // Unless the page was paused since: it refreshes all of its parts when it goes on.
    setTimeout(() => { if (mode !== "paused") refresh(part); }, part.restMs);
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

// Patching. A patch never changes what a person entered or chose: ticks, text, selection, focus, scroll, open folds.

function parse(html) {
  // A template keeps the white space before the first element; a parsed document drops it.
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
  const focused = part.element.contains(document.activeElement) ? document.activeElement : null;
  const waiting = morphChildren(part.element, fresh, held);
  if (focused && focused !== document.activeElement) focusAgain(focused, part.element);
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

function isSelectedIn(element) {
  const selection = document.getSelection();
  return !selection.isCollapsed && selection.containsNode(element, true);
}

// An element that moved or was replaced lost the focus, and a text the place of its cursor.
function focusAgain(focused, element) {
  const key = keyOf(focused);
  const target = focused.isConnected ? focused : key && [...element.querySelectorAll("*")].find((one) => keyOf(one) === key);
  if (!target) return;
  target.focus({ preventScroll: true });
  if (target.matches("textarea, input[type=text], input[type=search], input:not([type])")) {
    target.setSelectionRange(focused.selectionStart, focused.selectionEnd);
  }
}

const CONTROLS = "input, select, textarea";

function isEdited(control) {
  if (control.type === "checkbox" || control.type === "radio") return control.checked !== control.defaultChecked;
  if (control.type === "hidden" || control.type === "file") return false;
  if (control.nodeName !== "SELECT") return control.value !== control.defaultValue;
  const options = [...control.options];
  // Without a default the browser chooses the first.
  if (!control.multiple && !options.some((option) => option.defaultSelected)) return control.selectedIndex > 0;
  return options.some((option) => option.selected !== option.defaultSelected);
}

function hasEdits(element) {
  return [...element.querySelectorAll(CONTROLS)].some(isEdited);
}

function copyEdit(from, to) {
  if (from.type === "checkbox" || from.type === "radio") {
    to.checked = from.checked;
  } else if (from.nodeName === "SELECT") {
    const chosen = new Set([...from.selectedOptions].map((option) => option.value));
    for (const option of to.options) option.selected = chosen.has(option.value);
  } else {
    to.value = from.value;
  }
}

// Elements that are the same thing before and after, wherever they stand among their siblings.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return null;
  if (node.id) return `#${node.id}`;
  if (node.dataset.key !== undefined) return `key ${node.dataset.key}`;
  if (!node.name || !node.matches(CONTROLS)) return null;
  const isOneOfSeveral = node.type === "checkbox" || node.type === "radio";
  return `${node.name} ${isOneOfSeveral ? node.getAttribute("value") : ""}`;
}

const isAlike = (old, fresh) =>
  old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh) && old.type === fresh.type;

// A copy of `fresh` in the place of `old`, with what a person entered in `old`.
function replace(old, fresh) {
  const copy = document.importNode(fresh, true);
  if (old.nodeType === Node.ELEMENT_NODE && copy.nodeType === Node.ELEMENT_NODE) {
    const controls = (element) => [...(element.matches(CONTROLS) ? [element] : element.querySelectorAll(CONTROLS))];
    const targets = new Map(controls(copy).map((control) => [keyOf(control), control]));
    for (const control of controls(old).filter(isEdited)) {
      const target = targets.get(keyOf(control));
      if (target?.type === control.type) copyEdit(control, target);
    }
  }
  old.replaceWith(copy);
}

function morph(old, fresh, held) {
  if (!isAlike(old, fresh)) {
    replace(old, fresh);
    return 0;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return 0;
  }
  // A new default would change what is chosen in a list, and the text of an area.
  if (old.matches("select, textarea") && isEdited(old)) return 0;
  for (const { name, value } of fresh.attributes) {
    // What a person opened stays open, and what they closed stays closed.
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  return morphChildren(old, fresh, held);
}

function morphChildren(old, fresh, held) {
  if (old.nodeType === Node.ELEMENT_NODE && old.hasAttribute("data-rows")) return morphRows(old, fresh, held);
  const left = [...old.childNodes].filter((node) => !node.dataset || node.dataset.keep === undefined);
  const end = left.at(-1)?.nextSibling ?? null;
  // The partner of each node: the one with its key, else the next of its kind without one.
  const pairs = [...fresh.childNodes].map((node) => {
    const at = left.findIndex((known) => isAlike(known, node));
    return { node, known: at < 0 ? null : left.splice(at, 1)[0] };
  });
  // What has no partner is another element in the same place, or gone.
  for (const pair of pairs) {
    if (pair.known || keyOf(pair.node)) continue;
    const at = left.findIndex((known) => known.nodeType === pair.node.nodeType && !keyOf(known));
    if (at >= 0) pair.known = left.splice(at, 1)[0];
  }
  left.forEach((node) => node.remove());
  let waiting = 0;
  let next = old.firstChild;
  const skipKept = () => {
    while (next && next !== end && next.dataset?.keep !== undefined) next = next.nextSibling;
  };
  for (const { node, known } of pairs) {
    skipKept();
    if (!known) {
      old.insertBefore(document.importNode(node, true), next ?? end);
      continue;
    }
    if (known === next) next = next.nextSibling;
    else old.insertBefore(known, next ?? end);
    waiting += morph(known, node, held);
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
    row.classList.toggle("is-gone", !wanted.has(key) && (held || hasEdits(row)));
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
