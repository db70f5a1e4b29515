// Times as a person reads them: how long ago, or by the clock of the browser's own place.

import { fill, texts } from "./{digest}-page.js";
import { onUpdate } from "./{digest}-update.js";
import { onArrival } from "./{digest}-visit.js";

function ago(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 5) return texts.now;
  if (seconds < 60) return fill(texts.seconds, seconds);
  if (seconds < 3600) return fill(texts.minutes, Math.floor(seconds / 60));
  if (seconds < 86400) return fill(texts.hours, Math.floor(seconds / 3600));
  return fill(texts.days, Math.floor(seconds / 86400));
}

/** Writes the times of a part of the page anew. */
export function refreshTimes(root = document) {
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

onArrival(() => refreshTimes());
onUpdate(refreshTimes);
setInterval(refreshTimes, 10000);
