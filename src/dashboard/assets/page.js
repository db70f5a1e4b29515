// What all scripts share: the page's texts and tokens, changes to the documented routes, and fetching other pages.

export const texts = JSON.parse(document.getElementById("texts").textContent);
export const meta = (name) => document.querySelector(`meta[name="${name}"]`).content;
export const person = meta("person");

// The only place where text becomes HTML: pages of this gateway, in which everything foreign is escaped. And the only
// one where it becomes the address of a script: that of the service worker.
const rules = { createHTML: (html) => html, createScriptURL: ownScript };
export const policy = window.trustedTypes ? window.trustedTypes.createPolicy("flock", rules) : rules;

function ownScript(address) {
  if (!/^\/dashboard\/assets\/[0-9a-f]+-worker\.js$/.test(address)) throw new TypeError(`no script: ${address}`);
  return address;
}

/** Puts values into a text, one for each `{}`. */
export const fill = (text, ...values) => values.reduce((filled, value) => filled.replace("{}", () => value), text);

/** Says something to people who hear the page, and to those who see it unless they see it anyway. */
export function announce(text, isSeenAnyway = false) {
  const line = document.createElement("p");
  line.classList.toggle("unseen", isSeenAnyway);
  line.textContent = text;
  document.getElementById("announce").append(line);
  setTimeout(() => line.remove(), 6000);
}

/** Shows or hides that the gateway can't be reached. */
export function connection(isLost) {
  const notice = document.getElementById("connection");
  notice.textContent = isLost ? texts.disconnected : "";
  notice.hidden = !isLost;
}

export function signedOut() {
  location.href = "/dashboard";
}

/** Sends a change to a documented route. Returns its answer, or `null` after it has said why it failed. */
export async function send(method, path, body, headers = {}) {
  try {
    const response = await fetch(path, {
      method,
      headers: { "X-Flock-CSRF": meta("csrf-token"), "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const answer = await response.json();
    if (response.ok) return answer;
    const hint = answer.error.hint ? ` ${fill(texts.hint, answer.error.hint)}` : "";
    announce(fill(texts.failed, answer.error.message) + hint);
    if (response.status === 401) signedOut();
  } catch {
    announce(texts.disconnected);
  }
  return null;
}

/** Fetches a page of this gateway as a document. Returns `null` if there is none. */
export async function fetchPage(address) {
  const response = await fetch(address, { headers: { Accept: "text/html" } });
  if (response.status === 401) signedOut();
  if (!response.ok || !response.headers.get("Content-Type").startsWith("text/html")) return null;
  return new DOMParser().parseFromString(policy.createHTML(await response.text()), "text/html");
}
