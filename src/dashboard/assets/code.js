// Colours code whose language is named. Only a page with such code fetches what it takes.

import { policy } from "./{digest}-page.js";
import { keepIf, onUpdate } from "./{digest}-update.js";
import { onArrival } from "./{digest}-visit.js";

// Longer code is left as it is, because colouring it takes too long.
const MAX_CODE = 20000;
const coloured = new WeakSet();
const idle = () => new Promise((done) => (window.requestIdleCallback ?? setTimeout)(done));

/** Colours the code in a part of the page. */
export async function colour(root = document) {
  const isOpen = (code) => !coloured.has(code) && code.textContent.length <= MAX_CODE;
  const codes = [...root.querySelectorAll('pre > code[class^="language-"]')].filter(isOpen);
  if (codes.length === 0) return;
  for (const code of codes) coloured.add(code);
  const { default: highlighter } = await import("./{digest}-highlight.js");
  // The newest first: they are what a person sees.
  for (const code of codes.reverse()) {
    const language = code.className.slice("language-".length).split(" ")[0];
    if (!highlighter.getLanguage(language)) continue;
    await idle();
    const { value } = highlighter.highlight(code.textContent, { language, ignoreIllegals: true });
    code.innerHTML = policy.createHTML(value);
  }
}

keepIf((old, now) => {
  if (coloured.has(old) && old.textContent === now.textContent) return true;
  coloured.delete(old);
  return false;
});
onArrival(() => colour());
onUpdate(colour);
