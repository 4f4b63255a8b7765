// Sending a file: dropping one chooses it, and one that is too large is refused before it is sent.
// Without this script the form works as any other.

const form = document.querySelector("[data-upload]");
const input = form?.querySelector("input[type=file]");
const problem = form?.querySelector(".problem");
const button = form?.querySelector("button");

function check() {
  const file = input.files[0];
  const isTooLarge = Boolean(file) && file.size > Number(form.dataset.bytesMax);
  problem.textContent = isTooLarge ? "This file is larger than the limit." : "";
  if (isTooLarge) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
  return !isTooLarge;
}

function hasFiles(event) {
  return [...event.dataTransfer.types].includes("Files");
}

function over(event) {
  if (!hasFiles(event)) return;
  event.preventDefault();
  form.dataset.over = "";
}

function drop(event) {
  if (!hasFiles(event)) return;
  event.preventDefault();
  delete form.dataset.over;
  if (event.dataTransfer.files.length !== 1) {
    problem.textContent = "Drop one file at a time.";
    return;
  }
  input.files = event.dataTransfer.files;
  if (check()) form.requestSubmit(button);
}

function send(event) {
  if (!check()) {
    event.preventDefault();
    return;
  }
  button.textContent = "Uploading…";
}

form?.addEventListener("dragover", over);
form?.addEventListener("dragleave", () => delete form.dataset.over);
form?.addEventListener("drop", drop);
form?.addEventListener("submit", send);
input?.addEventListener("change", check);
// A page that the browser shows again on its way back has the button as it was left.
window.addEventListener("pageshow", () => {
  if (button) button.textContent = "Upload";
});
