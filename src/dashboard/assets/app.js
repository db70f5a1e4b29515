// The first script of every page: it has all others, and passes the gateway's events on.

import "./{digest}-actions.js";
import "./{digest}-code.js";
import "./{digest}-keyboard.js";
import "./{digest}-times.js";
import { catchUp, talk } from "./{digest}-conversation.js";
import { listen, start, want } from "./{digest}-events.js";
import { announce, connection, fill, meta, policy, send, signedOut, texts } from "./{digest}-page.js";
import { concerns, fetchParts, refresh } from "./{digest}-update.js";
import { followLinks, noteEvent, onArrival, onMissed, open } from "./{digest}-visit.js";

const EVENTS = [
  "turn.started", "turn.ended", "tool.started", "tool.ended", "approval.waiting", "approval.decided", "approval.ended", "approval.revoked",
  "task.changed", "agent.added", "agent.removed", "agent.frozen", "agent.thawed", "agent.slept", "agent.woke", "agent.paused",
  "quota.parked", "quota.resumed",
  "config.changed", "gateway.stopping", "channel.created", "channel.message", "channel.changed", "project.changed", "race.changed",
  "schedule.changed", "hook.changed", "engine.changed", "gateway.changed",
];

let wasLost = false;
// Whether something happened while nobody saw this tab.
let isBehind = false;

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
      renew();
    }
  } else {
    noteEvent(event);
    follow(event);
  }
});

/** Returns the events that concern something on the page. */
function wants() {
  const names = [...document.querySelectorAll("[data-events]")].flatMap((part) => part.dataset.events.split(" "));
  if (talk()?.dataset.channel) names.push("channel.message");
  // Every page has a stream, because it tells that the gateway is gone.
  return ["gateway", ...names];
}

/** Brings the page up to date if the event is about something that it shows. */
function follow(event) {
  if (event.type === "reset") return renew();
  const isNews = event.type === "channel.message" && event.data.channel === talk()?.dataset.channel;
  const isShown = concerns(event);
  if (document.hidden) {
    isBehind ||= isNews || isShown;
    return;
  }
  if (isShown) refresh();
  if (isShown && event.type === "turn.ended") fetchParts();
  if (isNews) catchUp();
}

/** Brings all of the page up to date, at once or when the tab is seen again. */
function renew() {
  isBehind = document.hidden;
  if (isBehind) return;
  refresh();
  fetchParts();
  catchUp();
}
document.addEventListener("visibilitychange", () => {
  if (isBehind) renew();
});

followLinks();
onMissed(follow);
onArrival(() => want(wants(), meta("last-event")));
start(EVENTS);
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
