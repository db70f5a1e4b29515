// The commands of a session, which are offered after `/` at the beginning of a message as names are after `@`. The page has
// them, and a message that is more than the command is none.

const list = () => document.getElementById("commands");
const isField = (element) => element.id === "compose" && list();
const offered = () => [...list().children].filter((option) => !option.hidden);

function close(field) {
  list().hidden = true;
  field.removeAttribute("aria-activedescendant");
}

function select(field, option) {
  for (const other of list().children) other.setAttribute("aria-selected", String(other === option));
  field.setAttribute("aria-activedescendant", option.id);
}

function take(field, option) {
  field.value = option.dataset.value;
  close(field);
  field.focus();
}

document.addEventListener("input", ({ target: field }) => {
  if (!isField(field)) return;
  const isBegun = /^\/[a-z]*$/.test(field.value);
  for (const option of list().children) {
    // What is written out need not be offered: Enter sends it.
    const { value } = option.dataset;
    option.hidden = !isBegun || !value.startsWith(field.value) || value === field.value;
  }
  const [first] = offered();
  list().hidden = !first;
  if (first) select(field, first);
  else close(field);
});

document.addEventListener("mousedown", (event) => {
  const option = event.target.closest("#commands li");
  if (!option) return;
  event.preventDefault();
  take(document.getElementById("compose"), option);
});

document.addEventListener("focusout", ({ target }) => {
  if (isField(target)) close(target);
});

/** Handles a key while commands are offered. Returns `true` if the key was for them. */
export function keyForCommands(event) {
  if (!isField(event.target) || list().hidden) return false;
  const options = offered();
  const at = options.findIndex((option) => option.ariaSelected === "true");
  const next = { ArrowDown: (at + 1) % options.length, ArrowUp: (at - 1 + options.length) % options.length };
  if (event.key in next) select(event.target, options[next[event.key]]);
  else if (event.key === "Enter" || event.key === "Tab") take(event.target, options[at]);
  else if (event.key === "Escape") close(event.target);
  else return false;
  event.preventDefault();
  return true;
}
