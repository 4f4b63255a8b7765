// The frame: clock, theme, keyboard, copy buttons. Works on every page, needs nothing else.

const root = document.documentElement;
const search = document.getElementById("search");
const help = document.getElementById("help");
const skew = Number(document.body.dataset.now || Date.now()) - Date.now();

const clocks = document.querySelectorAll("[data-clock]");
const hands = new Map([...clocks].map((clock) => [clock, new Intl.DateTimeFormat("en-GB", { timeZone: clock.dataset.clock || "UTC", hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" })]));
setInterval(() => hands.forEach((hand, clock) => { clock.textContent = hand.format(Date.now() + skew); }), 1000);

// Whoever chose times of his browser has them written by the server, which knows its zone by this.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.split("; ").includes(`sluice_zone=${zone}`)) {
  document.cookie = `sluice_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
}

const tables = document.querySelector("[data-page-tables]");
const offerTables = () => { tables.hidden = !tables.open && !document.querySelector("main table tr"); };
tables?.addEventListener("toggle", async () => {
  if (tables.open) (await import(tables.dataset.script)).fill(tables);
});
if (tables) {
  new MutationObserver(offerTables).observe(document.getElementById("main"), { childList: true, subtree: true });
  offerTables();
}

// Folds of a page that would be long on a phone are closed there at first. Charts in them are drawn when they open.
const asked = location.hash.slice(1);
if (matchMedia("(max-width: 48rem)").matches) {
  document.querySelectorAll("details[data-fold]").forEach((fold) => { fold.open = fold.id === asked; });
}
document.addEventListener("toggle", (event) => {
  if (event.target.matches("details[data-fold]")) dispatchEvent(new Event("resize"));
}, true);

const themeSwitch = document.querySelector("[data-theme-switch]");
if (themeSwitch) {
  themeSwitch.hidden = false;
  themeSwitch.addEventListener("click", () => {
    const night = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = night ? "light" : "dark";
    document.cookie = `sluice_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
    document.dispatchEvent(new CustomEvent("sluice:theme"));
  });
}

const DENSITIES = ["standard", "comfortable", "compact"];
const densitySwitch = document.querySelector("[data-density-switch]");
if (densitySwitch) {
  const name = () => {
    const now = root.dataset.density ?? DENSITIES[0];
    const next = DENSITIES[(DENSITIES.indexOf(now) + 1) % DENSITIES.length];
    densitySwitch.title = `Density: ${now}; switch to ${next}`;
    densitySwitch.setAttribute("aria-label", densitySwitch.title);
    return next;
  };
  name();
  densitySwitch.hidden = false;
  densitySwitch.addEventListener("click", () => {
    const next = name();
    if (next === DENSITIES[0]) delete root.dataset.density;
    else root.dataset.density = next;
    document.cookie = `sluice_density=${next}; path=/; max-age=31536000; samesite=lax`;
    name();
    dispatchEvent(new Event("resize"));
  });
}

const helpButton = document.querySelector("[data-help]");
if (helpButton) {
  helpButton.hidden = false;
  helpButton.addEventListener("click", () => help.showModal());
}

// Plain http has no clipboard.
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await copy(button.dataset.copy);
  button.focus();
  announce("Copied");
  button.dataset.done = "";
  setTimeout(() => delete button.dataset.done, 1200);
});

function announce(text) {
  const place = document.querySelector("[data-announce]");
  if (place) place.textContent = text;
}

// One POST is enough: a second click while the answer is on its way does nothing.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post" || event.defaultPrevented) return;
  if (event.target.dataset.sent !== undefined) event.preventDefault();
  event.target.dataset.sent = "";
});
addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent));

let leader = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help?.open) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const isChord = Date.now() - leader < 1200;
  leader = 0;
  if (event.key === "g" && !isChord) {
    leader = Date.now();
    return;
  }
  if (isChord) {
    const there = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`) ?? (event.key === "t" ? document.querySelector('[data-go="a"]') : null);
    if (there) location.assign(there.href);
  } else if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "?" && help) {
    help.showModal();
  }
});
