// Rows come behind the frame: a part is fetched from its address, and again when its form is sent.

const WAIT_MS = 150;
const HEADER = "X-Sluice-Part";
const part = document.querySelector("[data-part]");
const form = document.querySelector("[data-part-form]");
let running = null;

function copyOf(name) {
  return document.querySelector(`template[data-${name}]`).content.cloneNode(true);
}

async function load(url, options = {}) {
  running?.abort();
  const mine = new AbortController();
  running = mine;
  part.setAttribute("aria-busy", "true");
  const waiting = setTimeout(() => part.replaceChildren(copyOf("waiting")), WAIT_MS);
  try {
    const answer = await fetch(url, { ...options, headers: { [HEADER]: "1" }, signal: mine.signal });
    const text = await answer.text();
    clearTimeout(waiting);
    if (mine.signal.aborted) return;
    if (answer.status >= 500) throw new Error(`status ${answer.status}`);
    if (answer.redirected && new URL(answer.url).pathname.startsWith("/login")) location.reload();
    part.innerHTML = text;
    showProblem();
  } catch (error) {
    clearTimeout(waiting);
    if (mine.signal.aborted) return;
    part.replaceChildren(copyOf("broken"));
    part.querySelector("[data-again]").addEventListener("click", () => load(url, options));
  } finally {
    if (running === mine) part.removeAttribute("aria-busy");
  }
}

// What is wrong with one field is said at that field, not somewhere below.
function showProblem() {
  document.querySelectorAll("[data-problem-for]").forEach((place) => {
    place.textContent = "";
    document.getElementById(place.dataset.problemFor)?.removeAttribute("aria-invalid");
  });
  const problem = part.querySelector("[data-problem-of]");
  const place = problem && document.querySelector(`[data-problem-for="${CSS.escape(problem.dataset.problemOf)}"]`);
  if (!place) return;
  place.textContent = problem.textContent.trim();
  const field = document.getElementById(place.dataset.problemFor);
  field.setAttribute("aria-invalid", "true");
  problem.remove();
}

function query() {
  const words = new URLSearchParams(new FormData(form));
  const boxes = [...form.querySelectorAll('input[name="columns"]')];
  // All columns are what is shown when none is named.
  if (boxes.every((box) => box.checked)) words.delete("columns");
  for (const [name, text] of [...words]) if (!text || name.startsWith("filter_")) words.delete(name);
  return words;
}

function send() {
  if (form.method === "post") {
    load(form.dataset.partForm, { method: "POST", body: new FormData(form) });
    return;
  }
  const words = query();
  history.pushState(null, "", words.size ? `?${words}` : location.pathname);
  load(`${form.dataset.partForm}?${words}`);
}

if (form && part) {
  form.addEventListener("submit", (event) => {
    if (event.submitter?.hasAttribute("formaction")) return;
    event.preventDefault();
    send();
  });
  addEventListener("popstate", () => location.reload());
  form.querySelectorAll("select:not(.data-build select)").forEach((field) => {
    if (form.method !== "post") field.addEventListener("change", send);
  });
}

// The slider goes along the commits; the list beside it says the same in words, and is what is sent.
const slider = document.querySelector("[data-slider]");
if (slider) {
  const knob = slider.querySelector("input");
  const list = document.getElementById(slider.dataset.slider);
  const options = [...list.options].filter((option) => option.value).reverse();
  knob.max = options.length;
  const follow = () => {
    const at = options.indexOf(list.selectedOptions[0]);
    knob.value = at < 0 ? options.length : at;
    knob.setAttribute("aria-valuetext", list.selectedOptions[0].text.trim().replace(/\s+/g, " "));
  };
  knob.addEventListener("input", () => {
    const option = options[Number(knob.value)];
    list.value = option ? option.value : "";
    follow();
  });
  knob.addEventListener("change", () => send());
  list.addEventListener("change", follow);
  slider.hidden = false;
  follow();
}

// Enter in the value of a condition adds it.
document.querySelector(".data-build input")?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  form.requestSubmit(document.querySelector("[data-builds]"));
});

document.querySelector("[data-runs]")?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  send();
});

document.querySelector("[data-takes-statement]")?.addEventListener("submit", (event) => {
  event.target.elements.statement.value = document.getElementById("statement").value;
});

if (part?.dataset.part && !part.querySelector("section, .notice, .empty, ol")) load(part.dataset.part);
