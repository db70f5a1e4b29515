// The buttons and forms of all pages. Each sends a change to a documented route.

import { takeFiles } from "./{digest}-attach.js";
import { ask } from "./{digest}-chat.js";
import { configForms } from "./{digest}-config.js";
import { catchUp, keepDraft, talk } from "./{digest}-conversation.js";
import { freezeForms } from "./{digest}-freeze.js";
import { announce, fill, person, send, signedOut, texts } from "./{digest}-page.js";
import { peopleActions, peopleForms } from "./{digest}-people.js";
import { fetchPart, refresh } from "./{digest}-update.js";
import { open } from "./{digest}-visit.js";

const by = encodeURIComponent(person);
const actions = {
  ...peopleActions,
  freeze: async ({ target }) => (await send("POST", `/api/agents/${target}/freeze?by=${by}`)) && fill(texts.frozen, target),
  thaw: async ({ target }) => (await send("POST", `/api/agents/${target}/thaw?by=${by}`)) && fill(texts.thawed, target),
  "freeze-all": async () => (await send("POST", `/api/freeze?by=${by}`)) && " ",
  "thaw-all": async () => (await send("POST", `/api/thaw?by=${by}`)) && " ",
  approve: async ({ target, sha256 }) =>
    (await send("POST", `/api/approvals/${target}/approve`, { sha256, by: person })) && texts.approved,
  withdraw: async ({ target }) =>
    (await send("DELETE", `/api/sessions/${encodeURIComponent(talk().dataset.session)}/turns/${target}`)) && texts.withdrawn,
  stop: async ({ target }) => (await send("POST", `/api/sessions/${encodeURIComponent(target)}/stop`)) && texts.stopped,
  "end-session": async ({ target }) => (await send("DELETE", `/api/dashboard/sessions/${target}`)) && " ",
  archive: async ({ target }) => (await send("POST", `${channelRoute()}/archive`, { action: target, as: person })) && texts.saved,
  "remove-member": async ({ target }) =>
    (await send("POST", `${channelRoute()}/members`, { remove: [target], as: person })) && texts.saved,
  "restore-config": async ({ target, sha256 }) =>
    (await send("POST", "/api/config/restore", { backup: target, sha256, by: person })) && texts.restored,
  "accept-work": async ({ target }) => (await send("POST", `/api/projects/${target}/accept`, { by: person })) && texts.approved,
  "keep-copy": async ({ target, copy }) =>
    (await send("POST", `/api/races/${target}/keep`, { copy: Number(copy), by: person })) && texts.saved,
  "stop-race": async ({ target }) => (await send("POST", `/api/races/${target}/stop`, { by: person })) && texts.saved,
  "run-schedule": async ({ target }) => (await send("POST", `/api/schedules/${target}/run`, { by: person })) && texts.saved,
  "pause-schedule": async ({ target }) => (await send("PUT", `/api/schedules/${target}`, { paused: true, by: person })) && texts.saved,
  "resume-schedule": async ({ target }) => (await send("PUT", `/api/schedules/${target}`, { paused: false, by: person })) && texts.saved,
  "pause-hook": async ({ target }) => (await send("PUT", `/api/hooks/${target}`, { paused: true, by: person })) && texts.saved,
  "resume-hook": async ({ target }) => (await send("PUT", `/api/hooks/${target}`, { paused: false, by: person })) && texts.saved,
  "revoke-tools": async ({ target, agent }) =>
    (await send("POST", `/api/mcp/servers/${target}/revoke`, { agent, by: person })) && texts.revoked,
  "make-checkpoint": async ({ target }) => (await send("POST", `/api/agents/${target}/checkpoints`, { by: person })) && texts.saved,
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

const channelRoute = () => `/api/channels/${encodeURIComponent(talk().dataset.channel)}`;
const forms = {
  ...configForms,
  ...freezeForms,
  ...peopleForms,
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
  answer: async (form) => {
    const values = {};
    for (const input of form.querySelectorAll("[data-value]")) {
      const { value: name, kind } = input.dataset;
      if (kind === "several") {
        const chosen = [...input.selectedOptions].map((option) => option.value);
        if (chosen.length > 0) values[name] = chosen;
      } else if (input.value !== "") {
        values[name] = kind === "number" ? Number(input.value) : kind === "flag" ? input.value === "true" : input.value;
      }
    }
    const { target, sha256 } = form.dataset;
    return (await send("POST", `/api/approvals/${target}/answer`, { sha256, values, by: person })) && texts.approved;
  },
  deny: async (form, data) =>
    (await send("POST", `/api/approvals/${form.dataset.target}/deny`, { reason: data.get("reason") || undefined, by: person })) &&
    texts.denied,
  "refuse-work": async (form, data) =>
    (await send("POST", `/api/projects/${form.dataset.target}/refuse`, { reason: data.get("reason"), by: person })) && texts.denied,
  "create-channel": async (form, data) => {
    const members = data.get("members").split(",").map((name) => name.trim()).filter(Boolean);
    const made = await send("POST", "/api/channels", { id: data.get("id").trim(), topic: data.get("topic"), members, as: person });
    if (made) open(`/dashboard/channels/${encodeURIComponent(made.channelId)}`);
    return made && texts.created;
  },
  chat: async (form, data) => {
    const files = await takeFiles();
    if (!files) return null;
    form.reset();
    files.done();
    // The form is free again at once: what is sent meanwhile waits in the session's queue.
    chat(form, data.get("content"), files);
    return " ";
  },
  post: async (form, data) => {
    const content = data.get("content");
    const files = await takeFiles();
    if (!files) return null;
    const key = { "Idempotency-Key": keyOf(form, JSON.stringify([content, ...files.ids])) };
    const posted = await send("POST", `${channelRoute()}/messages`, { content, files: files.ids, as: person }, key);
    if (!posted) return null;
    files.done();
    unsent.delete(form);
    form.reset();
    // Somebody who reads an old place goes to the end, where the message is.
    if (talk()?.dataset.later) open(talk().dataset.address);
    else await catchUp({ toEnd: true });
    return posted.notes.join(" ") || texts.sent;
  },
};

async function chat(form, content, files) {
  const page = location.pathname;
  const message = { content: files.with(content), files: files.ids };
  const said = JSON.stringify(message);
  const isSent = await ask(message, keyOf(form, said));
  if (isSent && unsent.get(form)?.content === said) unsent.delete(form);
  if (!isSent) files.undo();
  // What could not be sent is not lost.
  const field = form.elements.content;
  if (isSent || field.value) return;
  if (form.isConnected) field.value = content;
  else keepDraft(page, content);
}

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
  // Other buttons of a form, such as the one for files, do not send it.
  const button = form.querySelector('button:not([type="button"])') ?? form;
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
