// The parameters of a schedule belong to what it asks for: each kind keeps its own text while the form is open.

const what = document.querySelector("#id_what");
const parameters = document.querySelector("#id_parameters");
const texts = new Map();
let current = [...(what?.options ?? [])].find((one) => one.defaultSelected)?.value ?? what?.options[0]?.value;

function follow() {
  if (what.value === current) return;
  texts.set(current, parameters.value);
  current = what.value;
  parameters.value = texts.get(current) ?? "{}";
}

what?.addEventListener("change", follow);
// A choice may be made before this script runs.
if (what && parameters.value === parameters.defaultValue) follow();
else current = what?.value;
