// The first script of every page: it has all others, and passes the gateway's events on.

import "./{digest}-actions.js";
import "./{digest}-code.js";
import "./{digest}-keyboard.js";
import "./{digest}-times.js";
import { catchUp, talk } from "./{digest}-conversation.js";
import { listen, start } from "./{digest}-events.js";
import { announce, connection, fill, meta, policy, send, signedOut, texts } from "./{digest}-page.js";
import { concerns, fetchParts, refresh } from "./{digest}-update.js";
import { followLinks, noteEvent, onArrival, onMissed, open } from "./{digest}-visit.js";

const EVENTS = [
  "turn.started", "turn.ended", "tool.started", "tool.ended", "approval.waiting", "approval.decided", "approval.ended", "approval.revoked",
  "task.changed", "agent.added", "agent.removed", "agent.frozen", "agent.thawed", "agent.slept", "agent.woke", "agent.paused",
  "config.changed", "gateway.stopping", "channel.created", "channel.message", "channel.changed",
];

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
  } else {
    noteEvent(event);
    follow(event);
  }
});

/** Brings the page up to date if the event is about something that it shows. */
function follow(event) {
  const isReset = event.type === "reset";
  if (isReset || concerns(event)) {
    refresh();
    if (event.type === "turn.ended") fetchParts();
  }
  if (isReset || (event.type === "channel.message" && event.data.channel === talk()?.dataset.channel)) catchUp();
}

followLinks();
onMissed(follow);
start(EVENTS, meta("last-event"));
onArrival(fetchParts);
onArrival(async () => {
  if (!document.getElementById("push")) return;
  const { watchSwitch } = await import("./{digest}-push.js");
  watchSwitch({ texts, fill, announce, send, refresh, scriptAddress: (address) => policy.createScriptURL(address) });
});
// A notification was opened whose page this window has had.
navigator.serviceWorker?.addEventListener("message", ({ data }) => {
  if (location.pathname !== data.page) open(data.page);
});
