// The names that are offered after `@` while a message is written. The field may be replaced when the page is updated,
// so these listen to the whole page.

const begunName = (field) => /(?:^|\s)@([\w.-]*)$/.exec(field.value.slice(0, field.selectionStart));
const isCompose = (element) => element.id === "compose" && element.dataset.members;

function closeNames(field) {
  document.getElementById("mentions").hidden = true;
  field.removeAttribute("aria-activedescendant");
}

function selectName(field, option) {
  for (const other of option.parentElement.children) other.setAttribute("aria-selected", String(other === option));
  field.setAttribute("aria-activedescendant", option.id);
}

function takeName(field, name) {
  const end = field.selectionStart;
  field.setRangeText(`${name} `, end - begunName(field)[1].length, end, "end");
  closeNames(field);
  field.focus();
}

document.addEventListener("input", ({ target: field }) => {
  if (!isCompose(field)) return;
  const list = document.getElementById("mentions");
  const begun = begunName(field);
  const names = field.dataset.members.split(" ").map((name) => name.replace(/^human:/, ""));
  const found = begun ? names.filter((name) => name.toLowerCase().startsWith(begun[1].toLowerCase())) : [];
  list.replaceChildren(...found.slice(0, 8).map((name, at) => {
    const option = document.createElement("li");
    option.id = `mention-${at}`;
    option.role = "option";
    option.textContent = name;
    return option;
  }));
  list.hidden = found.length === 0;
  if (found.length) selectName(field, list.firstElementChild);
  else closeNames(field);
});

document.addEventListener("mousedown", (event) => {
  const option = event.target.closest("#mentions li");
  if (!option) return;
  event.preventDefault();
  takeName(document.getElementById("compose"), option.textContent);
});

/** Handles a key while names are offered. Returns `true` if the key was for them. */
export function keyForNames(event) {
  const list = document.getElementById("mentions");
  if (!isCompose(event.target) || list.hidden) return false;
  const now = list.querySelector('[aria-selected="true"]');
  const next = {
    ArrowDown: now.nextElementSibling ?? list.firstElementChild,
    ArrowUp: now.previousElementSibling ?? list.lastElementChild,
  };
  if (next[event.key]) selectName(event.target, next[event.key]);
  else if (event.key === "Enter" || event.key === "Tab") takeName(event.target, now.textContent);
  else if (event.key === "Escape") closeNames(event.target);
  else return false;
  event.preventDefault();
  return true;
}

document.addEventListener("focusout", ({ target }) => {
  if (isCompose(target)) closeNames(target);
});
