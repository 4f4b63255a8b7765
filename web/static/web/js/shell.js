// The frame: clock, theme, keyboard, copy buttons. Works on every page, needs nothing else.

const root = document.documentElement;
const search = document.getElementById("search");
const help = document.getElementById("help");
const skew = Number(document.body.dataset.now || Date.now()) - Date.now();

const clock = document.querySelector("[data-clock]");
if (clock) {
  setInterval(() => { clock.textContent = new Date(Date.now() + skew).toISOString().slice(11, 19); }, 1000);
}

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

const helpButton = document.querySelector("[data-help]");
if (helpButton) {
  helpButton.hidden = false;
  helpButton.addEventListener("click", () => help.showModal());
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button || !navigator.clipboard) return;
  await navigator.clipboard.writeText(button.dataset.copy);
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
  if (event.key === "g") {
    leader = Date.now();
    return;
  }
  const isChord = Date.now() - leader < 1200;
  leader = 0;
  if (isChord) {
    const there = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`) ?? (event.key === "a" || event.key === "t" ? document.querySelector(".brand") : null);
    if (there) location.assign(there.href);
  } else if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "?" && help) {
    help.showModal();
  }
});
