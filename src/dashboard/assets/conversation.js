// The pages that show a talk: a channel, and a session of an agent.

import { announce, fetchPage, fill, person, texts } from "./{digest}-page.js";
import { onUpdate, refreshFrom, updated } from "./{digest}-update.js";
import { onArrival, onDeparture } from "./{digest}-visit.js";

/** The element of the talk, if the page has one. */
export const talk = () => document.querySelector(".channel");
const conversation = () => document.getElementById("conversation");
const messages = () => document.getElementById("messages");

let scrollsDown = false;
let catching = Promise.resolve();

export const isAtEnd = ({ scrollHeight, scrollTop, clientHeight } = conversation()) =>
  scrollHeight - scrollTop - clientHeight < 80;

export function scrollToEnd() {
  conversation().scrollTop = conversation().scrollHeight;
}

const PARTS = "#messages > .stretch, #turns > [data-turn]";
const lastMessage = (list) => list.lastElementChild?.lastElementChild;
const lastSeq = (list) => Number(lastMessage(list)?.dataset.seq ?? 0);

/** Returns the stretch to which the next message is added. Stretches have as many messages as a page. */
function openStretch(list) {
  if (!(list.lastElementChild?.childElementCount < Number(list.dataset.stretch))) {
    const stretch = document.createElement("div");
    stretch.className = "stretch";
    list.append(stretch);
  }
  return list.lastElementChild;
}

// Whether the page shows the newest messages of a channel.
const isNewest = () => messages() && !talk().dataset.later;
// The address of the page with only those that are newer.
const newer = (list) => `${location.pathname}?after=${lastSeq(list)}`;
// The other parts are fetched without the messages that are shown. What a message says stays as it is as a rule: an edit on
// a linked platform is shown when the page is loaded again.
refreshFrom(() => (isNewest() ? newer(messages()) : location.href));

/** Adds the messages that are newer than the last one shown. Calls at the same time are done one after the other. */
export function catchUp({ toEnd = false } = {}) {
  scrollsDown ||= toEnd;
  if (!isNewest()) return Promise.resolve();
  catching = catching.then(addNew).catch(() => {});
  return catching;
}

async function addNew() {
  const list = messages();
  while (list) {
    const fresh = await fetchPage(newer(list));
    // Another page may have been opened meanwhile.
    if (!list.isConnected) return;
    const added = fresh ? [...fresh.querySelectorAll("#messages [data-seq]")] : [];
    const atEnd = scrollsDown || isAtEnd();
    const news = added.filter((message) => Number(message.dataset.seq) > lastSeq(list));
    for (const message of news) {
      message.classList.toggle("continues", lastMessage(list)?.dataset.author === message.dataset.author);
      openStretch(list).append(document.importNode(message, true));
    }
    if (news.length === 0) return;
    document.getElementById("no-messages")?.remove();
    updated(list);
    if (atEnd) scrollToEnd();
    else document.getElementById("to-end").hidden = false;
    scrollsDown = false;
    noteRead();
    const { author } = lastMessage(list).dataset;
    if (author !== `human:${person}`) announce(fill(texts.newMessage, author), true);
    if (!fresh.querySelector("[data-later]")) return;
  }
}

/** Puts the messages before the first one shown above it, and keeps what is on the screen in its place. */
async function addEarlier(link) {
  const fresh = await fetchPage(link.href);
  if (!fresh || !link.isConnected) return;
  const height = conversation().scrollHeight;
  const earlier = [...fresh.querySelectorAll(PARTS)].map((part) => document.importNode(part, true));
  (messages() ?? document.getElementById("turns")).prepend(...earlier);
  const further = fresh.getElementById("earlier");
  if (further) link.href = further.href;
  else link.parentElement.remove();
  updated(conversation());
  conversation().scrollTop += conversation().scrollHeight - height;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-earlier]");
  if (!link) return;
  event.preventDefault();
  addEarlier(link);
});

onArrival(() => {
  if (!talk()) return;
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) target.scrollIntoView();
  else scrollToEnd();
  const toEnd = document.getElementById("to-end");
  toEnd.addEventListener("click", () => {
    scrollToEnd();
    toEnd.hidden = true;
  });
  const part = conversation();
  part.addEventListener("scroll", () => {
    if (isAtEnd(part)) toEnd.hidden = true;
  }, { passive: true });
});

// ---- what was read ------------------------------------------------------------------------------------------------

// What a person has read is known to the browser only.
const READ = "flock-read";
const readUntil = () => JSON.parse(localStorage.getItem(READ) ?? "{}");

function noteRead() {
  if (!messages() || talk().dataset.later || document.hidden) return;
  localStorage.setItem(READ, JSON.stringify({ ...readUntil(), [talk().dataset.channel]: lastSeq(messages()) }));
}
document.addEventListener("visibilitychange", noteRead);
onArrival(noteRead);

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
onArrival(markUnread);
onUpdate(markUnread);

// ---- what was begun -----------------------------------------------------------------------------------------------

const drafts = new Map();

/** Keeps a text for the form of a page that is shown no more. */
export function keepDraft(page, text) {
  drafts.set(page, text);
}

// What was written and not sent is there again when a person comes back.
onDeparture(() => {
  const field = document.getElementById("compose");
  if (field) keepDraft(location.pathname, field.value);
});
onArrival(() => {
  const field = document.getElementById("compose");
  const draft = drafts.get(location.pathname);
  if (field && draft && !field.value) field.value = draft;
});
