// The parameters of a schedule belong to what it asks for: each kind keeps its own text while the form is open.

const what = document.querySelector("#id_what");
const parameters = document.querySelector("#id_parameters");
const texts = new Map();
let current = what?.value;

what?.addEventListener("change", () => {
  texts.set(current, parameters.value);
  current = what.value;
  parameters.value = texts.get(current) ?? "{}";
});
