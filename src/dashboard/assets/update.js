// Keeps the page up to date: it fetches the page again, and replaces the parts that are different now.

import { fetchPage } from "./{digest}-page.js";

const changed = new Set();
const kept = new Set();

/** Calls `listener` with each part of the page that has new content. */
export function onUpdate(listener) {
  changed.add(listener);
}

/** Leaves an element as it is if `isKept(element, fresh)` says that a script made it so from the same content. */
export function keepIf(isKept) {
  kept.add(isKept);
}

/** Tells that a part of the page has new content. */
export function updated(part) {
  for (const listener of changed) listener(part);
}

// The content of parts as the gateway sent it, before scripts changed it.
const shown = new WeakMap();

/** Remembers what the page shows. It is called before other scripts change something. */
export function remember() {
  for (const part of document.querySelectorAll("[data-live]")) shown.set(part, part.innerHTML);
}
remember();

/** Replaces the parts of this page that are different in a fresh one. What has the focus keeps it. */
export function replace(fresh) {
  const token = fresh.querySelector('meta[name="csrf-token"]');
  if (token) document.querySelector('meta[name="csrf-token"]').content = token.content;
  for (const part of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(part.id);
    if (!now || now.innerHTML === shown.get(part)) continue;
    shown.set(part, now.innerHTML);
    update(part, now);
    updated(part);
  }
}

/** Makes one element like another, child by child, so that focus, selection and typed text survive. */
export function update(old, now) {
  for (const isKept of kept) if (isKept(old, now)) return;
  const known = new Map([...old.childNodes].filter((node) => node.id).map((node) => [node.id, node]));
  let at = old.firstChild;
  // Earlier turns that were fetched stay, although a fresh page has only the newest ones.
  const isEarlier = (node) => node.nodeType === Node.TEXT_NODE || (node.id && !now.ownerDocument.getElementById(node.id));
  while (at && old.hasAttribute("data-keep") && isEarlier(at)) at = at.nextSibling;
  for (const next of [...now.childNodes]) {
    const match = next.id ? known.get(next.id) : at && !at.id && at.nodeName === next.nodeName ? at : null;
    if (!match) {
      old.insertBefore(document.importNode(next, true), at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    if (match.nodeType !== Node.ELEMENT_NODE) {
      if (match.nodeValue !== next.nodeValue) match.nodeValue = next.nodeValue;
    } else {
      for (const { name, value } of [...next.attributes]) {
        if (match.getAttribute(name) !== value) match.setAttribute(name, value);
      }
      for (const { name } of [...match.attributes]) {
        if (!next.hasAttribute(name) && name !== "open") match.removeAttribute(name);
      }
      update(match, next);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    if (!gone.id || !now.ownerDocument.getElementById(gone.id)) gone.remove();
  }
}

let wanted = false;
let fetching = false;

/** Fetches this page again soon. Many calls at once lead to one fetch. */
export function refresh() {
  wanted = true;
  if (fetching) return;
  setTimeout(fetchAgain, 100);
  fetching = true;
}

async function fetchAgain() {
  while (wanted) {
    wanted = false;
    await fetchNow();
    await new Promise((done) => setTimeout(done, 150));
  }
  fetching = false;
}

let source = () => location.href;

/** Has this page fetched again from `address()`, where all its parts are, and less of what stays as it is. */
export function refreshFrom(address) {
  source = address;
}

/** Fetches this page again. */
export async function fetchNow() {
  const address = location.href;
  const fresh = await fetchPage(source()).catch(() => null);
  // Another page may have been opened meanwhile.
  if (fresh && address === location.href) replace(fresh);
}

/** Fetches a part from the page that has it. Returns `false` if it could not be had. */
export async function fetchPart(part, address) {
  const fresh = await fetchPage(address).catch(() => null);
  const now = fresh?.getElementById(part.id);
  if (now && part.isConnected) {
    update(part, now);
    updated(part);
  }
  return Boolean(now);
}

/** Fetches the parts that take longer than the page itself. Each is an element of a page of its own. */
export async function fetchParts() {
  for (const part of document.querySelectorAll("[data-source]")) await fetchPart(part, part.dataset.source);
}

/** Returns `true` if a part of this page shows something that the event is about. */
export function concerns({ type, data }) {
  const own = document.querySelector("[data-session]")?.dataset.session;
  if (own && data?.session && data.session !== own) return false;
  return [...document.querySelectorAll("[data-events]")].some((part) =>
    part.dataset.events.split(" ").some((prefix) => type === prefix || type.startsWith(`${prefix}.`)),
  );
}
