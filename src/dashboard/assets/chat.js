// A chat with an agent: it sends a message and shows the answer as it comes.

import { isCommand } from "./{digest}-commands.js";
import { isAtEnd, scrollToEnd, talk } from "./{digest}-conversation.js";
import { announce, fill, meta, texts } from "./{digest}-page.js";
import { fetchNow } from "./{digest}-update.js";
import { onDeparture } from "./{digest}-visit.js";

// The answers that are coming. Their turns go on without a reader, and a browser opens few connections to one address.
const reading = new Set();
onDeparture(() => {
  for (const reader of reading) reader.leave();
});

/** A reader of an answer, who stays at least until the message is known to be in the session. */
class Reader {
  isSent = false;
  isGone = false;
  #connection = new AbortController();

  get signal() {
    return this.#connection.signal;
  }

  leave() {
    this.isGone = true;
    if (this.isSent) this.#connection.abort();
  }

  sent() {
    this.isSent = true;
    if (this.isGone) this.#connection.abort();
  }
}

const TOLD = {
  "tool.started": ({ tool }) => fill(texts.using, tool),
  "tool.ended": ({ tool }) => fill(texts.callEnded, tool),
  "turn.retrying": ({ reason }) => reason,
  "turn.notice": ({ text }) => text,
};

/**
 * Sends a message to the agent: its content for the model, and the ids of its files. `key` stays the same until the sending has succeeded. Returns `true` if the message is
 * in the session, and `false` after it has said why it is not.
 */
export async function ask({ content, files }, key) {
  const box = document.getElementById("answering");
  const text = box.querySelector("[data-answer]");
  const doing = box.querySelector("[data-doing]");
  const { session, agent } = talk().dataset;
  const reader = new Reader();
  box.hidden = false;
  text.textContent = "";
  doing.textContent = texts.working;
  scrollToEnd();
  reading.add(reader);
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: {
        "X-Flock-CSRF": meta("csrf-token"),
        "Content-Type": "application/json",
        "X-OpenClaw-Session-Key": session,
        "X-Flock-Activity": "1",
        "X-Flock-Files": files.join(","),
        "Idempotency-Key": key,
      },
      body: JSON.stringify({ model: agent, stream: true, messages: [{ role: "user", content }] }),
      signal: reader.signal,
    });
    // With 424 the turn had begun, so the message is in the session.
    if (response.ok || response.status === 424) reader.sent();
    if (!response.ok) throw (await response.json()).error;
    for await (const { type, data } of streamed(response.body)) {
      const atEnd = isAtEnd();
      if (TOLD[type]) doing.textContent = TOLD[type](data);
      else if (data.error) throw data.error;
      else text.textContent += data.choices?.[0]?.delta?.content ?? "";
      if (atEnd) scrollToEnd();
    }
  } catch (error) {
    if (!reader.signal.aborted) {
      const hint = error.hint ? ` ${fill(texts.hint, error.hint)}` : "";
      announce(fill(texts.notSent, error.message ?? String(error)) + hint);
    }
  }
  reading.delete(reader);
  if (box.isConnected) {
    await fetchNow();
    // The answer to a command is in no turn, so it stays until the next message.
    box.hidden = !isCommand(content) || !text.textContent;
    doing.textContent = "";
    if (box.isConnected) scrollToEnd();
  }
  return reader.isSent;
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
