// The keys that work on every page.

import { keyForCommands } from "./{digest}-commands.js";
import { keyForNames } from "./{digest}-names.js";
import { open } from "./{digest}-visit.js";

const keys = document.getElementById("keys");
document.getElementById("show-keys").addEventListener("click", () => keys.showModal());

let pressedG = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const typing = event.target.closest("input, textarea, select");
  if (typing) {
    if (keyForNames(event) || keyForCommands(event)) return;
    if (event.key === "Escape") typing.blur();
    if (typing.id === "compose" && event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      typing.form.requestSubmit();
    }
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (Date.now() - pressedG < 1500) {
    pressedG = 0;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) return link.click();
  }
  if (event.key === "g") pressedG = Date.now();
  if (event.key === "?") keys.showModal();
  if (event.key === "/") {
    event.preventDefault();
    const field = document.getElementById("search");
    if (field) field.focus();
    else open("/dashboard/search");
  }
  if (event.key === "c") {
    const field = document.getElementById("compose");
    if (field) {
      event.preventDefault();
      field.focus();
    }
  }
});
