// A log that is read at its end stays there while lines come; one that was scrolled back stands still.

const box = () => document.querySelector(".log-lines[data-tail]");
const SLACK_PX = 24;
let isAtEnd = true;

document.addEventListener("scroll", (event) => {
  if (event.target !== box()) return;
  isAtEnd = event.target.scrollHeight - event.target.scrollTop - event.target.clientHeight < SLACK_PX;
}, true);

function toEnd() {
  const lines = box();
  if (lines && isAtEnd) lines.scrollTop = lines.scrollHeight;
}

document.addEventListener("sluice:patched", (event) => { if (event.detail === "log") toEnd(); });
toEnd();
