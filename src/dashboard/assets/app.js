// What every page does: it stays up to date by the gateway's events, sends changes to the documented routes, and can be
// used with the keyboard alone.

import { attachments } from "./{digest}-attach.js";
import { keyForCommands } from "./{digest}-commands.js";
import { listen, start } from "./{digest}-events.js";
import { watchSwitch } from "./{digest}-push.js";

for (const part of document.querySelectorAll("[data-live]")) part.dataset.shown = part.innerHTML;

const texts = JSON.parse(document.getElementById("texts").textContent);
const meta = (name) => document.querySelector(`meta[name="${name}"]`).content;
const person = meta("person");
// The only place where text becomes HTML: pages of this gateway, in which everything foreign is escaped. And the only
// one where it becomes the address of a script: that of the service worker.
const rules = { createHTML: (html) => html, createScriptURL: ownScript };
const policy = window.trustedTypes ? window.trustedTypes.createPolicy("flock", rules) : rules;

function ownScript(address) {
  if (!/^\/dashboard\/assets\/[0-9a-f]+-worker\.js$/.test(address)) throw new TypeError(`no script: ${address}`);
  return address;
}

const EVENTS = [
  "turn.started", "turn.ended", "tool.started", "tool.ended", "approval.waiting", "approval.decided", "approval.ended", "approval.revoked",
  "task.changed", "agent.added", "agent.removed", "agent.frozen", "agent.thawed", "agent.slept", "agent.woke", "agent.paused",
  "config.changed", "gateway.stopping", "channel.created", "channel.message", "channel.changed",
];

const fill = (text, ...values) => values.reduce((filled, value) => filled.replace("{}", () => value), text);

/** Says something to people who hear the page, and to those who see it unless they see it anyway. */
function announce(text, isSeenAnyway = false) {
  const line = document.createElement("p");
  line.classList.toggle("unseen", isSeenAnyway);
  line.textContent = text;
  document.getElementById("announce").append(line);
  setTimeout(() => line.remove(), 6000);
}

/** Sends a change to a documented route. Returns its answer, or `null` after it has said why it failed. */
async function send(method, path, body, headers = {}) {
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

// ---- staying up to date -------------------------------------------------------------------------------------------

/** Fetches a page of this gateway as a document. */
async function page(address) {
  const response = await fetch(address, { headers: { Accept: "text/html" } });
  if (response.status === 401) signedOut();
  if (!response.ok) return null;
  return new DOMParser().parseFromString(policy.createHTML(await response.text()), "text/html");
}

/** Replaces the parts of this page that are different now. What has the focus keeps it. */
function replace(fresh) {
  const token = fresh.querySelector('meta[name="csrf-token"]');
  if (token) document.querySelector('meta[name="csrf-token"]').content = token.content;
  for (const part of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(part.id);
    if (!now || now.innerHTML === part.dataset.shown) continue;
    part.dataset.shown = now.innerHTML;
    update(part, now);
  }
  refreshTimes();
  markUnread();
  colour();
}

/** Makes one element like another, child by child, so that focus, selection and typed text survive. */
function update(old, now) {
  if (coloured.has(old) && old.textContent === now.textContent) return;
  coloured.delete(old);
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

/** Fetches this page again soon. Many events at once lead to one fetch. */
function refresh() {
  wanted = true;
  if (!fetching) setTimeout(fetchAgain, 100);
  fetching = true;
}

async function fetchAgain() {
  while (wanted) {
    wanted = false;
    const fresh = await page(location.href).catch(() => null);
    if (fresh) replace(fresh);
    await new Promise((done) => setTimeout(done, 150));
  }
  fetching = false;
}

/** Fetches a part from the page that has it. Returns `false` if it could not be had. */
async function fetchPart(part, address) {
  const fresh = await page(address).catch(() => null);
  const now = fresh?.getElementById(part.id);
  if (now) update(part, now);
  refreshTimes(part);
  return Boolean(now);
}

/** Fetches the parts that take longer than the page itself. Each is an element of a page of its own. */
async function fetchParts() {
  for (const part of document.querySelectorAll("[data-source]")) await fetchPart(part, part.dataset.source);
}

/** Returns `true` if a part of this page shows something that the event is about. */
function concerns({ type, data }) {
  const own = document.querySelector("[data-session]")?.dataset.session;
  if (own && data?.session && data.session !== own) return false;
  return [...document.querySelectorAll("[data-events]")].some((part) =>
    part.dataset.events.split(" ").some((prefix) => type === prefix || type.startsWith(`${prefix}.`)),
  );
}

function connection(lost) {
  const notice = document.getElementById("connection");
  notice.textContent = lost ? texts.disconnected : "";
  notice.hidden = !lost;
}

function signedOut() {
  location.href = "/dashboard";
}

let wasLost = false;

listen(async (event) => {
  if (event.type === "lost") {
    // A browser that is signed out gets no stream either, so it is asked which of the two it is.
    const response = await fetch("/api/dashboard/sessions").catch(() => null);
    if (response && response.status === 401) return signedOut();
    wasLost = true;
    connection(!response);
  } else if (event.type === "open") {
    connection(false);
    if (wasLost) {
      wasLost = false;
      announce(texts.reconnected);
      refresh();
      catchUp();
    }
  } else if (event.type === "reset") {
    refresh();
    catchUp();
  } else {
    if (concerns(event)) {
      refresh();
      if (event.type === "turn.ended") fetchParts();
    }
    if (event.type === "channel.message" && messages && event.data.channel === channel.dataset.channel) catchUp();
  }
});
start(EVENTS, meta("last-event"));
fetchParts();
watchSwitch({ texts, fill, announce, send, scriptAddress: (address) => policy.createScriptURL(address) });

// ---- times --------------------------------------------------------------------------------------------------------

function ago(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 5) return texts.now;
  if (seconds < 60) return fill(texts.seconds, seconds);
  if (seconds < 3600) return fill(texts.minutes, Math.floor(seconds / 60));
  if (seconds < 86400) return fill(texts.hours, Math.floor(seconds / 3600));
  return fill(texts.days, Math.floor(seconds / 86400));
}

function refreshTimes(root = document) {
  for (const time of root.querySelectorAll("time[data-ago]")) {
    const at = new Date(time.dateTime);
    const text = ago(Date.now() - at);
    if (time.textContent !== text) time.textContent = text;
    time.title = at.toLocaleString();
  }
  for (const time of root.querySelectorAll("time[data-clock]:not([title])")) {
    const at = new Date(time.dateTime);
    time.title = at.toLocaleString();
    const today = at.toDateString() === new Date().toDateString();
    time.textContent = today ? at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : at.toLocaleString();
  }
}
refreshTimes();
setInterval(refreshTimes, 10000);

// ---- changes ------------------------------------------------------------------------------------------------------

const attached = attachments({ texts, fill, announce, signedOut, csrf: () => meta("csrf-token") });
const by = encodeURIComponent(person);
const actions = {
  freeze: async ({ target }) => (await send("POST", `/api/agents/${target}/freeze?by=${by}`)) && fill(texts.frozen, target),
  thaw: async ({ target }) => (await send("POST", `/api/agents/${target}/thaw?by=${by}`)) && fill(texts.thawed, target),
  "freeze-all": async () => (await send("POST", `/api/freeze?by=${by}`)) && " ",
  "thaw-all": async () => (await send("POST", `/api/thaw?by=${by}`)) && " ",
  approve: async ({ target, sha256 }) =>
    (await send("POST", `/api/approvals/${target}/approve`, { sha256, by: person })) && texts.approved,
  withdraw: async ({ target }) =>
    (await send("DELETE", `/api/sessions/${encodeURIComponent(channel.dataset.session)}/turns/${target}`)) && texts.withdrawn,
  stop: async ({ target }) => (await send("POST", `/api/sessions/${encodeURIComponent(target)}/stop`)) && texts.stopped,
  "end-session": async ({ target }) => (await send("DELETE", `/api/dashboard/sessions/${target}`)) && " ",
  archive: async ({ target }) => (await send("POST", `${channelRoute()}/archive`, { action: target, as: person })) && texts.saved,
  "remove-member": async ({ target }) =>
    (await send("POST", `${channelRoute()}/members`, { remove: [target], as: person })) && texts.saved,
  "restore-config": async ({ target, sha256 }) =>
    (await send("POST", "/api/config/restore", { backup: target, sha256, by: person })) && texts.restored,
  revoke: async ({ target }) => (await send("POST", `/api/approvals/${target}/revoke`, { by: person })) && texts.revoked,
};

/** Returns what a person typed as a value of the configuration: JSON if it is JSON, otherwise a text. */
function configValue(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const channelRoute = () => `/api/channels/${encodeURIComponent(channel.dataset.channel)}`;
const forms = {
  topic: async (form, data) => (await send("PUT", channelRoute(), { topic: data.get("topic"), as: person })) && texts.saved,
  "add-member": async (form, data) => {
    const added = await send("POST", `${channelRoute()}/members`, { add: [data.get("member").trim()], as: person });
    if (added) form.reset();
    return added && texts.saved;
  },
  "add-agent": async (form, data) => {
    const given = (name) => data.get(name).trim() || undefined;
    const wanted = { id: given("id"), role: given("role"), archetype: given("archetype"), model: given("model"), by: person };
    const made = await send("POST", "/api/agents", wanted);
    if (!made) return null;
    form.reset();
    // The sandbox takes its time, and the agent can be used before: its first command waits for it.
    send("POST", `/api/agents/${made.id}/prepare`).then(refresh);
    return fill(texts.added, made.id);
  },
  settings: async (form, data) => {
    const change = { agent: form.dataset.target, cli: data.get("cli").trim() };
    const model = data.get("model").trim();
    if (model && model !== "–") change.model = model;
    if (data.get("effort")) change.effort = data.get("effort");
    return (await send("PUT", "/api/settings", change)) && texts.saved;
  },
  "config-set": async (form, data) => {
    const path = data.get("path").trim();
    const set = await send("PUT", "/api/config/value", { path, value: configValue(data.get("value").trim()), by: person });
    if (!set) return null;
    form.reset();
    return [fill(texts.setDone, path), ...set.offHost.map((agent) => fill(texts.offHost, agent))].join(" ");
  },
  deny: async (form, data) =>
    (await send("POST", `/api/approvals/${form.dataset.target}/deny`, { reason: data.get("reason") || undefined, by: person })) &&
    texts.denied,
  "create-channel": async (form, data) => {
    const members = data.get("members").split(",").map((name) => name.trim()).filter(Boolean);
    const made = await send("POST", "/api/channels", { id: data.get("id").trim(), topic: data.get("topic"), members, as: person });
    if (made) location.href = `/dashboard/channels/${encodeURIComponent(made.channelId)}`;
    return made && texts.created;
  },
  chat: async (form, data) => {
    const files = await attached.take();
    if (!files) return null;
    form.reset();
    files.done();
    // The form is free again at once: what is sent meanwhile waits in the session's queue.
    answer(data.get("content"), form, files);
    return " ";
  },
  post: async (form, data) => {
    const content = data.get("content");
    const files = await attached.take();
    if (!files) return null;
    const key = { "Idempotency-Key": keyOf(form, JSON.stringify([content, ...files.ids])) };
    const posted = await send("POST", `${channelRoute()}/messages`, { content, files: files.ids, as: person }, key);
    if (!posted) return null;
    files.done();
    unsent.delete(form);
    form.reset();
    // Somebody who reads an old place goes to the end, where the message is.
    if (channel.dataset.later) location.href = channel.dataset.address;
    scrollDown = true;
    await catchUp();
    return posted.notes.join(" ") || texts.sent;
  },
};

// Not attributes: an update of the page would remove them.
const busy = new WeakSet();
const unsent = new WeakMap();

/** Marks a button as busy. Returns `false` if it is busy already. */
function begin(button) {
  if (busy.has(button)) return false;
  busy.add(button);
  button.ariaDisabled = "true";
  return true;
}

function end(button) {
  busy.delete(button);
  button.ariaDisabled = null;
}

/**
 * Returns the key of what a form sends. It stays the same until the sending has succeeded, so that something whose
 * answer was lost is not done twice.
 */
function keyOf(form, content) {
  if (unsent.get(form)?.content !== content) {
    unsent.set(form, { content, key: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` });
  }
  return unsent.get(form).key;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-action]");
  if (!button) return;
  // A button that is disabled loses the focus, and with it the place of somebody who uses the keyboard.
  if (!begin(button)) return;
  const said = await actions[button.dataset.action](button.dataset);
  end(button);
  if (said) {
    if (said.trim()) announce(said);
    refresh();
  }
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  const act = forms[form.dataset.form];
  if (!act) return;
  event.preventDefault();
  const button = form.querySelector("button");
  if (!begin(button)) return;
  const said = await act(form, new FormData(form));
  end(button);
  if (said) {
    if (said.trim()) announce(said);
    refresh();
  }
});

document.getElementById("sign-out").addEventListener("click", async () => {
  if (await send("DELETE", "/api/dashboard/sessions/current")) signedOut();
});

// A part of a page that takes its time, or is wanted now: its link leads to the page with it.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-part]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (!begin(link)) return;
  const part = document.getElementById(link.dataset.part);
  part.ariaBusy = "true";
  announce(texts.loading);
  const isThere = await fetchPart(part, link.href);
  part.ariaBusy = null;
  end(link);
  announce(isThere ? texts.loaded : texts.notLoaded);
});

// Links of messages lead elsewhere: they open beside this page, and that page learns nothing of this one.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (link instanceof HTMLAnchorElement && link.origin !== location.origin) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
});

// ---- a channel ----------------------------------------------------------------------------------------------------

const channel = document.querySelector(".channel");
const conversation = document.getElementById("conversation");
const messages = document.getElementById("messages");
let scrollDown = false;
let catching = null;

const isAtEnd = () => conversation.scrollHeight - conversation.scrollTop - conversation.clientHeight < 80;
const lastSeq = () => Number(messages.lastElementChild?.dataset.seq ?? 0);
const PARTS = "#messages > [data-seq], #turns > [data-turn]";

/** Adds the messages that are newer than the last one shown. Calls at the same time are done one after the other. */
function catchUp() {
  if (!messages || channel.dataset.later) return Promise.resolve();
  catching = (catching ?? Promise.resolve()).then(addNew).catch(() => {});
  return catching;
}

async function addNew() {
  for (;;) {
    const fresh = await page(`${location.pathname}?after=${lastSeq()}`);
    const added = fresh ? [...fresh.querySelectorAll("#messages > [data-seq]")] : [];
    const atEnd = scrollDown || isAtEnd();
    const news = added.filter((message) => Number(message.dataset.seq) > lastSeq());
    for (const message of news) {
      const previous = messages.lastElementChild;
      message.classList.toggle("continues", previous?.dataset.author === message.dataset.author);
      messages.append(document.importNode(message, true));
    }
    if (news.length === 0) return;
    document.getElementById("no-messages")?.remove();
    refreshTimes(messages);
    colour(messages);
    if (atEnd) conversation.scrollTop = conversation.scrollHeight;
    else document.getElementById("to-end").hidden = false;
    scrollDown = false;
    noteRead();
    const author = messages.lastElementChild.dataset.author;
    if (author !== `human:${person}`) announce(fill(texts.newMessage, author), true);
  }
}

/** Puts the messages before the first one shown above it, and keeps what is on the screen in its place. */
async function addEarlier(link) {
  const fresh = await page(link.href);
  if (!fresh) return;
  const height = conversation.scrollHeight;
  const earlier = [...fresh.querySelectorAll(PARTS)].map((part) => document.importNode(part, true));
  (messages ?? document.getElementById("turns")).prepend(...earlier);
  const further = fresh.getElementById("earlier");
  if (further) link.href = further.href;
  else link.parentElement.remove();
  refreshTimes(conversation);
  colour(conversation);
  conversation.scrollTop += conversation.scrollHeight - height;
}

// What a person has read is known to the browser only.
const READ = "flock-read";
const readUntil = () => JSON.parse(localStorage.getItem(READ) ?? "{}");

function noteRead() {
  if (!messages || channel.dataset.later || document.hidden) return;
  localStorage.setItem(READ, JSON.stringify({ ...readUntil(), [channel.dataset.channel]: lastSeq() }));
}
document.addEventListener("visibilitychange", noteRead);
noteRead();

/** Marks the channels that have messages which were not read here. */
function markUnread() {
  const read = readUntil();
  for (const row of document.querySelectorAll("tr[data-channel]")) {
    const count = Number(row.dataset.lastSeq) - (read[row.dataset.channel] ?? 0);
    const mark = row.querySelector("[data-unread]");
    mark.hidden = count <= 0;
    mark.textContent = count > 0 ? fill(texts.unread, count) : "";
  }
}
markUnread();

if (channel) {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) target.scrollIntoView();
  else conversation.scrollTop = conversation.scrollHeight;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-earlier]");
    if (!link) return;
    event.preventDefault();
    addEarlier(link);
  });
  const toEnd = document.getElementById("to-end");
  toEnd.addEventListener("click", () => {
    conversation.scrollTop = conversation.scrollHeight;
    toEnd.hidden = true;
  });
  conversation.addEventListener("scroll", () => {
    if (isAtEnd()) toEnd.hidden = true;
  }, { passive: true });
}

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
function keyForNames(event) {
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

// ---- code ---------------------------------------------------------------------------------------------------------

// Longer code is left as it is, because colouring it takes too long.
const MAX_CODE = 20000;
const coloured = new WeakSet();
const idle = () => new Promise((done) => (window.requestIdleCallback ?? setTimeout)(done));

/** Colours code whose language is named. Only a page with such code fetches what it takes. */
async function colour(root = document) {
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
colour();

// ---- a chat with an agent -----------------------------------------------------------------------------------------

/** Sends a message to the agent and shows the answer as it comes. */
async function answer(content, form, files) {
  const box = document.getElementById("answering");
  const text = box.querySelector("[data-answer]");
  const doing = box.querySelector("[data-doing]");
  const { session, agent } = channel.dataset;
  const body = JSON.stringify({ model: agent, stream: true, messages: [{ role: "user", content: files.with(content) }] });
  const said = body + files.ids;
  let isSent = false;
  box.hidden = false;
  text.textContent = "";
  doing.textContent = texts.working;
  conversation.scrollTop = conversation.scrollHeight;
  const told = {
    "tool.started": ({ tool }) => fill(texts.using, tool),
    "tool.ended": ({ tool }) => fill(texts.callEnded, tool),
    "turn.retrying": ({ reason }) => reason,
    "turn.notice": ({ text: notice }) => notice,
  };
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: {
        "X-Flock-CSRF": meta("csrf-token"),
        "Content-Type": "application/json",
        "X-OpenClaw-Session-Key": session,
        "X-Flock-Activity": "1",
        "X-Flock-Files": files.ids.join(","),
        "Idempotency-Key": keyOf(form, said),
      },
      body,
    });
    // With 424 the turn had begun, so the message is in the session.
    isSent = response.ok || response.status === 424;
    if (isSent && unsent.get(form)?.content === said) unsent.delete(form);
    if (!response.ok) throw (await response.json()).error;
    for await (const { type, data } of streamed(response.body)) {
      const atEnd = isAtEnd();
      if (told[type]) doing.textContent = told[type](data);
      else if (data.error) throw data.error;
      else text.textContent += data.choices?.[0]?.delta?.content ?? "";
      if (atEnd) conversation.scrollTop = conversation.scrollHeight;
    }
  } catch (error) {
    announce(fill(texts.notSent, error.message ?? String(error)) + (error.hint ? ` ${fill(texts.hint, error.hint)}` : ""));
    // What could not be sent is not lost.
    const field = form.elements.content;
    if (!field.value && !isSent) field.value = content;
    if (!isSent) files.undo();
  }
  const fresh = await page(location.href);
  if (fresh) replace(fresh);
  box.hidden = true;
  conversation.scrollTop = conversation.scrollHeight;
}

/** Yields the events of a stream as `{type, data}` until its end. */
async function* streamed(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      let type = "message";
      let data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) type = line.slice(7);
        if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data && data !== "[DONE]") yield { type, data: JSON.parse(data) };
    }
  }
}

// ---- the keyboard -------------------------------------------------------------------------------------------------

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
  if (keys.open) return;
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
    else location.href = "/dashboard/search";
  }
  if (event.key === "c") {
    const field = document.getElementById("compose");
    if (field) {
      event.preventDefault();
      field.focus();
    }
  }
});
