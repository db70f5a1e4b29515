// Opens other pages in place of this one. Scripts, styles and the stream of events stay, so it takes a fraction of the
// time of a new document.
//
// What can't be shown so is loaded as any browser does it: an error, a page of a newer version, the one that says that
// the browser is signed out.

import { announce, fetchPage } from "./{digest}-page.js";
import { remember, update } from "./{digest}-update.js";

const arrivals = new Set();
const departures = new Set();

/** Calls `listener` now and after each further page that is opened. */
export function onArrival(listener) {
  arrivals.add(listener);
  listener();
}

/** Calls `listener` before another page takes the place of this one. */
export function onDeparture(listener) {
  departures.add(listener);
}

// Each entry of the history has an id, under which this tab knows how far the page was scrolled.
const newId = () => `${Date.now()}-${Math.random()}`;
const places = new Map();
let entry = history.state?.entry ?? newId();
let address = location.pathname + location.search;

history.replaceState({ entry }, "");
// The browser scrolls before the page is there. It does so again for a document that it loads itself.
history.scrollRestoration = "manual";
addEventListener("pagehide", () => {
  history.scrollRestoration = "auto";
});
addEventListener("pageshow", () => {
  history.scrollRestoration = "manual";
});

/** A page on its way, and the events that come meanwhile: the page may have been made before them. */
class Coming {
  events = [];

  constructor(url) {
    this.href = url.href;
    this.page = fetchPage(url).catch(() => null);
  }
}

// The page that was asked for last, and the one on whose link a button of the mouse is being held down.
let asked = null;
let pressed = null;

/** Notes an event for the pages that are on their way. */
export function noteEvent(event) {
  for (const coming of new Set([asked, pressed])) coming?.events.push(event);
}

let catchUp = () => {};

/** Calls `listener` with each event that came while a page was on its way. */
export function onMissed(listener) {
  catchUp = listener;
}

/** Opens a page. `back` is the entry of the history that the browser has gone to already, if it has. */
export async function open(target, back = null) {
  const url = new URL(target, location.href);
  const coming = pressed?.href === url.href ? pressed : new Coming(url);
  const main = document.getElementById("main");
  asked = coming;
  pressed = null;
  main.ariaBusy = "true";
  const fresh = await coming.page;
  // Only the page that was asked for last is shown.
  if (asked !== coming) return;
  stay();
  if (!fresh || !isOfThisVersion(fresh)) {
    if (back) location.reload();
    else location.assign(url);
    return;
  }
  leave();
  if (back) entry = back;
  else history.pushState({ entry: (entry = newId()) }, "", url.pathname + url.search);
  address = url.pathname + url.search;
  show(fresh, main);
  settle(url, back && places.get(back));
  for (const event of coming.events) catchUp(event);
}

/** Ends the wait for a page. */
function stay() {
  asked = null;
  document.getElementById("main").ariaBusy = null;
}

/** A page of a newer gateway needs the scripts that it names. One for a browser that is signed out has none. */
function isOfThisVersion(fresh) {
  const script = (page) => page.querySelector('script[type="module"]')?.getAttribute("src");
  return script(fresh) === script(document);
}

function leave() {
  for (const listener of departures) listener();
  notePlace();
}

/** The part of a page that scrolls by itself. */
const inside = () => document.getElementById("conversation");

function notePlace() {
  places.set(entry, { page: scrollY, inside: inside()?.scrollTop });
}

function restorePlace(place) {
  scrollTo(0, place.page);
  if (place.inside !== undefined && inside()) inside().scrollTop = place.inside;
}

function show(fresh, main) {
  document.title = fresh.title;
  for (const name of ["csrf-token", "last-event"]) {
    const selector = `meta[name="${name}"]`;
    document.querySelector(selector).content = fresh.querySelector(selector).content;
  }
  update(document.querySelector("header nav"), fresh.querySelector("header nav"));
  main.replaceChildren(...fresh.getElementById("main").childNodes);
  remember();
  for (const listener of arrivals) listener();
}

let isSettling = false;

/** Scrolls to where this entry of the history was, or to the place that the address names, and takes the focus there. */
function settle({ hash }, place) {
  if (place) restorePlace(place);
  else scrollTo(0, 0);
  if (hash && !place) {
    // Only the browser itself makes an element the target of a page. It tells of a new entry meanwhile.
    isSettling = true;
    location.replace(hash);
    isSettling = false;
    history.replaceState({ entry }, "");
  }
  document.getElementById("main").focus({ preventScroll: true });
  announce(document.title, true);
}

/** Returns the address of a page that can be opened in place. */
function pageOf(target) {
  const url = new URL(target, location.href);
  const isPage = url.pathname === "/dashboard" || url.pathname.startsWith("/dashboard/");
  if (url.origin !== location.origin || !isPage || url.searchParams.has("code")) return null;
  return url;
}

/** Begins to open links and forms in place. What another script has handled already is left alone, so this comes last. */
export function followLinks() {
  document.addEventListener("pointerdown", onPress);
  // A click comes before the next task.
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => setTimeout(() => (pressed = null)));
  document.addEventListener("click", onClick);
  document.addEventListener("submit", onSubmit);
}

/** Returns the address of the page that a press or a click asks for, if it can be opened in place. */
function askedBy(event) {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return null;
  const link = event.target.closest("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return null;
  return pageOf(link.href);
}

// A place on this page needs no other one.
const isHere = (url) => url.hash && url.pathname + url.search === address;

/** Begins to fetch the page before the button is let go, which takes people longer than the fetch. */
function onPress(event) {
  // A touch may begin a movement of the page.
  const url = event.pointerType === "mouse" && !event.target.closest("[data-earlier]") ? askedBy(event) : null;
  pressed = url && !isHere(url) ? new Coming(url) : null;
}

function onClick(event) {
  const url = askedBy(event);
  if (!url) return;
  if (isHere(url)) return notePlace();
  event.preventDefault();
  open(url);
}

/** Opens the page that a form asks for, such as a search. */
function onSubmit(event) {
  const form = event.target;
  // Not by the form's properties, which are its fields if they have such names.
  const isGet = (form.getAttribute("method") ?? "get").toLowerCase() === "get";
  const url = pageOf(form.getAttribute("action") ?? location.href);
  if (event.defaultPrevented || !isGet || !url) return;
  event.preventDefault();
  url.search = new URLSearchParams(new FormData(form, event.submitter));
  open(url);
}

addEventListener("popstate", ({ state }) => {
  if (isSettling) return;
  if (location.pathname + location.search !== address) return open(location.href, state?.entry ?? newId());
  // Only the place on this page is another one.
  stay();
  entry = state?.entry ?? newId();
  history.replaceState({ entry }, "");
  if (places.has(entry)) restorePlace(places.get(entry));
});
