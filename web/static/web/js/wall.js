// Wall mode: counts down to the next table, stays on a click or the space bar, leaves on Escape.

const seconds = Number(document.body.dataset.wall);
const next = document.body.dataset.next;
const words = document.querySelector("[data-wall-words]");
const stop = document.querySelector("[data-wall-stop]");
let left = seconds;
let stays = false;

function tell() {
  if (words) words.textContent = stays ? "Stays here; then" : `Next in ${left} s:`;
}

function toggle() {
  stays = !stays;
  left = seconds;
  stop.setAttribute("aria-pressed", String(stays));
  tell();
}

if (next) {
  stop.hidden = false;
  stop.addEventListener("click", toggle);
  setInterval(() => {
    if (stays || document.hidden) return;
    left -= 1;
    tell();
    if (left <= 0) location.replace(next);
  }, 1000);
}

document.addEventListener("keydown", (event) => {
  if (event.target.closest("button, a, input, select, textarea") && event.key !== "Escape") return;
  if (event.key === "Escape") location.assign(document.querySelector("[data-wall-leave]").href);
  if (event.key === " " && next) {
    event.preventDefault();
    toggle();
  }
});
