// Files for a message: they are chosen, pasted or dropped, listed where each can be removed again, and sent to the
// gateway before the message that names them.

import { announce, fill, meta, signedOut, texts } from "./{digest}-page.js";
import { onUpdate } from "./{digest}-update.js";
import { onArrival } from "./{digest}-visit.js";

const MOST = 10;
const LARGEST = 20 << 20;
// The gateway keeps a file for an hour. One that was sent longer ago is sent again.
const FRESH = 50 * 60 * 1000;
// What models look at, and the bytes that all pictures of one request may have: a third more as base64.
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const ROOM = 5 << 20;
const SMALL = 400 << 10;
const SIDE = 1568;

/** Returns a picture with less pixels, as a JPEG. */
async function smaller(file) {
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  const canvas = new OffscreenCanvas(Math.ceil(picture.width * scale), Math.ceil(picture.height * scale));
  const context = canvas.getContext("2d");
  // JPEG has no transparency.
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob({ type: "image/jpeg", quality: 0.85 });
}

const dataUrl = (blob) =>
  new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(blob);
  });

/** Returns pictures as data URLs. Large ones are made smaller if all of them together would be too much. */
async function dataUrls(files) {
  const total = files.reduce((sum, file) => sum + file.size, 0);
  return Promise.all(files.map(async (file) => dataUrl(total > ROOM && file.size > SMALL ? await smaller(file) : file)));
}

// What is chosen for the message of each page of this tab. In a chat, pictures are part of the message itself.
const choices = new Map();
const chosen = (page = location.pathname) => choices.get(page) ?? [];
const isChat = () => document.querySelector(".chat") !== null;

function choose(items, page = location.pathname) {
  choices.set(page, items);
  show();
}

function add(files) {
  for (const file of files) {
    const size = Math.ceil(file.size / (1 << 20));
    if (chosen().length >= MOST) announce(fill(texts.filesTooMany, file.name, MOST));
    else if (file.size > LARGEST) announce(fill(texts.fileTooLong, file.name, size, LARGEST >> 20));
    else {
      const item = { file, isPicture: isChat() && PICTURES.includes(file.type) };
      choose([...chosen(), item]);
      announce(fill(texts.fileAttached, file.name), true);
      prepare(item);
    }
  }
}

/** Removes files from the page that they were chosen for, which may be shown no more. */
function remove(items) {
  for (const [page, chosen] of choices) choose(chosen.filter((item) => !items.includes(item)), page);
}

async function prepare(item) {
  // A file that only says it is a picture is sent as any other.
  if (item.isPicture) item.isPicture = await createImageBitmap(item.file).then(() => true, () => false);
  // Sent at once: somebody who writes for a minute learns now that a file is not taken.
  send(item);
}

/** Sends a file, unless it was sent lately. `item.sent` becomes its id, or null after it was said why it has none. */
function send(item) {
  if (item.isPicture || (item.sent && Date.now() - item.at < FRESH)) return;
  item.at = Date.now();
  item.sent = put(item.file).then(
    (id) => id,
    (why) => {
      announce(fill(texts.failed, why));
      item.sent = null;
      return null;
    },
  );
  // What the gateway refuses by its content would be refused again.
  item.sent.then(() => item.isRefused && remove([item]));

  async function put(file) {
    const response = await fetch(`/api/files?name=${encodeURIComponent(file.name)}`, {
      method: "PUT",
      headers: { "X-Flock-CSRF": meta("csrf-token"), "Content-Type": "application/octet-stream" },
      body: file,
    }).catch(() => null);
    if (!response) throw texts.disconnected;
    if (response.status === 401) signedOut();
    const answer = await response.json().catch(() => null);
    if (response.ok) return answer.id;
    item.isRefused = response.status === 422;
    throw answer?.error.message ?? String(response.status);
  }
}

/** Lists what is chosen. A message with files needs no text. */
function show() {
  const list = document.getElementById("attached");
  if (!list) return;
  list.hidden = chosen().length === 0;
  list.replaceChildren(...chosen().map(listed));
  const field = document.getElementById("compose");
  if (field) field.required = chosen().length === 0;
}

function listed(item) {
  const row = document.createElement("li");
  const name = document.createElement("span");
  name.textContent = `${item.file.name} (${Math.ceil(item.file.size / 1024)} KiB)`;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "×";
  button.ariaLabel = fill(texts.fileRemove, item.file.name);
  button.addEventListener("click", () => {
    const at = chosen().indexOf(item);
    remove([item]);
    announce(fill(texts.fileRemoved, item.file.name), true);
    // The button is gone, and the focus with it.
    const next = document.querySelectorAll("#attached button")[Math.min(at, chosen().length - 1)];
    (next ?? document.querySelector("[data-attach]"))?.focus();
  });
  row.append(name, button);
  return row;
}

const canTake = () => document.getElementById("attach-input");

// The form may be replaced when the page is updated, so these listen to the whole page.
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-attach]")) canTake()?.click();
});
document.addEventListener("change", ({ target }) => {
  if (target.id !== "attach-input") return;
  add([...target.files]);
  // So that the same file can be chosen again after it was removed.
  target.value = "";
});
document.addEventListener("paste", (event) => {
  const { files, types } = event.clipboardData;
  // Programs put a picture of copied text beside the text.
  if (event.target.id !== "compose" || !canTake() || files.length === 0 || types.includes("text/plain")) return;
  event.preventDefault();
  add([...files]);
});
document.addEventListener("dragover", (event) => {
  if (canTake() && event.dataTransfer.types.includes("Files")) event.preventDefault();
});
document.addEventListener("drop", (event) => {
  if (!canTake() || event.dataTransfer.files.length === 0) return;
  event.preventDefault();
  add([...event.dataTransfer.files]);
});
onArrival(show);
// The list is empty in a form that was replaced.
onUpdate(show);

/**
 * Returns the files for a message: their ids, `with` for the content of a message to a model with the pictures,
 * `done` and `undo` to forget and restore them. Returns `null` after it was said which file failed.
 */
export async function takeFiles() {
  const page = location.pathname;
  const taken = chosen();
  taken.forEach(send);
  const sent = taken.filter(({ isPicture }) => !isPicture);
  const ids = await Promise.all(sent.map((item) => item.sent));
  // A file that is refused while somebody sends must not be missing from the message unnoticed.
  if (ids.includes(null)) return null;
  const pictures = await dataUrls(taken.filter(({ isPicture }) => isPicture).map(({ file }) => file)).catch(() => null);
  if (!pictures) return announce(fill(texts.failed, texts.notLoaded)) ?? null;
  return {
    ids,
    with(text) {
      // A model is told at least what the files are called.
      const content = text.trim() ? text : taken.map(({ file }) => file.name).join(", ");
      const parts = pictures.map((url) => ({ type: "image_url", image_url: { url } }));
      return parts.length ? [{ type: "text", text: content }, ...parts] : content;
    },
    done: () => remove(taken),
    undo() {
      choose([...taken, ...chosen(page)].slice(0, MOST), page);
    },
  };
}
