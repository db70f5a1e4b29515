// A list of words that are offered while a message is written. One of them is chosen by keys or with the mouse.
//
// The field may be replaced when the page is updated, so all of this listens to the whole page.

/**
 * Offers the words of the list with this id. `isFor` tells whether they are for a field, `find` fills the list for what
 * is written there and returns the options that fit, and `put` writes a chosen one. Returns the handler of keys, which
 * returns `true` for a key that was for the list.
 */
export function offer({ id, isFor, find, put }) {
  const list = () => document.getElementById(id);
  const shown = () => [...list().children].filter((option) => !option.hidden);

  function close(field) {
    list().hidden = true;
    field.removeAttribute("aria-activedescendant");
  }

  function select(field, option) {
    for (const other of list().children) other.setAttribute("aria-selected", String(other === option));
    field.setAttribute("aria-activedescendant", option.id);
  }

  function take(field, option) {
    put(field, option);
    close(field);
    field.focus();
  }

  document.addEventListener("input", ({ target: field }) => {
    if (!isFor(field)) return;
    const [first] = find(field, list());
    list().hidden = !first;
    if (first) select(field, first);
    else close(field);
  });

  document.addEventListener("mousedown", (event) => {
    const option = event.target.closest(`#${id} li`);
    if (!option) return;
    event.preventDefault();
    take(document.getElementById("compose"), option);
  });

  document.addEventListener("focusout", ({ target }) => {
    if (isFor(target)) close(target);
  });

  return (event) => {
    if (!isFor(event.target) || list().hidden) return false;
    const options = shown();
    const at = options.findIndex((option) => option.ariaSelected === "true");
    const next = { ArrowDown: (at + 1) % options.length, ArrowUp: (at - 1 + options.length) % options.length };
    if (event.key in next) select(event.target, options[next[event.key]]);
    else if (event.key === "Enter" || event.key === "Tab") take(event.target, options[at]);
    else if (event.key === "Escape") close(event.target);
    else return false;
    event.preventDefault();
    return true;
  };
}
