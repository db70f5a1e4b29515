// The people who share the home, on their page. A new token is shown once, in a window of its own.

import { fill, person, send, texts } from "./{digest}-page.js";
import { onDeparture } from "./{digest}-visit.js";

const by = encodeURIComponent(person);
const routeOf = (name) => `/api/people/${encodeURIComponent(name)}`;

/** Returns the ids that a person typed: `null` for all of them, as the routes have it. */
function ids(text) {
  const words = text.split(",").map((word) => word.trim()).filter(Boolean);
  if (words.join() === "all") return null;
  return words.join() === "none" ? [] : words;
}

const numberOf = (text) => (text === "" ? null : Number(text));
// The fields of a person, as the routes take them.
const READERS = {
  name: (text) => text.trim(),
  role: (text) => text,
  agents: ids,
  channels: ids,
  dayTokens: numberOf,
  dayCostMicros: (text) => (text === "" ? null : Math.round(numberOf(text) * 1e6)),
};

function wanted(form, isWanted = () => true) {
  const fields = [...form.elements].filter((field) => field.name in READERS && isWanted(field));
  return Object.fromEntries(fields.map((field) => [field.name, READERS[field.name](field.value)]));
}

// What somebody else has changed meanwhile must not be set back by a field that nobody touched.
const isChanged = (field) =>
  field.localName === "select" ? !field.selectedOptions[0].defaultSelected : field.value !== field.defaultValue;

/** Empties a form and closes it. The focus stays where the form is. */
function close(form) {
  const details = form.closest("details");
  form.reset();
  details.open = false;
  details.querySelector("summary").focus();
}

const part = (name) => document.getElementById(`new-token-${name}`);

function makeToken(name, days) {
  const expiresAt = days === "" ? null : Date.now() + Number(days) * 86_400_000;
  return send("POST", `${routeOf(name)}/tokens`, { expiresAt, by: person });
}

function showToken({ name, token }) {
  const dialog = document.getElementById("new-token");
  // Somebody may have gone on to another page meanwhile.
  if (!dialog) return;
  part("name").textContent = name;
  part("value").value = token;
  dialog.showModal();
  dialog.querySelector("button").focus();
}

function forgetToken() {
  if (!part("value")) return;
  part("value").value = "";
  part("name").textContent = "";
  part("said").textContent = "";
}

// The event does not bubble. A page that the browser keeps for the way back must not have the token either.
document.addEventListener("close", ({ target }) => target.id === "new-token" && forgetToken(), true);
addEventListener("pagehide", forgetToken);
onDeparture(forgetToken);

/** The buttons by name. */
export const peopleActions = {
  "copy-token": async () => {
    const field = part("value");
    const isCopied = await navigator.clipboard?.writeText(field.value).then(() => true, () => false);
    part("said").textContent = isCopied ? texts.copied : texts.notCopied;
    if (isCopied) return;
    field.focus();
    field.select();
  },
  "revoke-token": async ({ target }) => (await send("DELETE", `/api/tokens/${encodeURIComponent(target)}?by=${by}`)) && texts.revoked,
  "remove-person": async ({ target }) => (await send("DELETE", `${routeOf(target)}?by=${by}`)) && fill(texts.personRemoved, target),
};

/** The forms by name. */
export const peopleForms = {
  "add-person": async (form, data) => {
    const added = await send("POST", "/api/people", { ...wanted(form), by: person });
    if (!added) return null;
    close(form);
    const made = await makeToken(added.name, data.get("days"));
    if (made) showToken(made);
    return fill(texts.personAdded, added.name);
  },
  "change-person": async (form) => {
    const change = { ...wanted(form, isChanged), by: person };
    if (!(await send("PUT", routeOf(form.dataset.target), change))) return null;
    close(form);
    return texts.saved;
  },
  "new-token": async (form, data) => {
    const made = await makeToken(form.dataset.target, data.get("days"));
    if (!made) return null;
    close(form);
    showToken(made);
    return fill(texts.tokenMade, made.name);
  },
};
