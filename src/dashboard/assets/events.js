// The gateway's events, by one stream for all tabs of this browser: a browser opens few connections to one address.
//
// The tab that holds the lock has the stream and passes the events on. The stream has what some tab wants, and is begun
// again when that changes. When its tab goes, the next tab gets the lock and continues after the last event that it knows.

const TABS = new BroadcastChannel("flock-events");
const listeners = new Set();
// What each tab wants, by an id of the tab. All tabs know it, because each may be the next with the stream.
const wanted = new Map();
const tab = `${Date.now()}-${Math.random()}`;
let known = [];
let last = null;
let connected = null;
// The stream, if this tab has it, and what it has.
let source = null;
let streamed = "";

/** Calls `listener` with `{type, data}` for each event. Besides the gateway's there are `open`, `lost` and `reset`. */
export function listen(listener) {
  listeners.add(listener);
}

/** Says which events this tab wants from now on: names, or their first words. `since` is the last one that it knows. */
export function want(names, since) {
  last ??= since;
  note({ tab, names, since });
  TABS.postMessage({ wants: { tab, names, since } });
}

/**
 * Begins to listen. `names` are all events that somebody may want. A page that joins a stream may have missed some, so it
 * gets `reset`.
 */
export function start(names) {
  known = names;
  TABS.onmessage = ({ data }) => {
    if (data.wants) note(data.wants);
    else if (data.isNew) TABS.postMessage({ wants: { tab, names: wanted.get(tab) } });
    else receive(data.event);
  };
  TABS.postMessage({ isNew: true });
  addEventListener("pagehide", () => TABS.postMessage({ wants: { tab } }));
  addEventListener("pageshow", ({ persisted }) => {
    if (persisted) TABS.postMessage({ wants: { tab, names: wanted.get(tab) } });
  });
  const keep = () => new Promise(() => hold(last));
  navigator.locks.request("flock-events", { ifAvailable: true }, (lock) => {
    if (lock) return keep();
    receive({ type: "reset" });
    navigator.locks.request("flock-events", keep);
  });
}

/** Notes what a tab wants, or that it is gone. */
function note({ tab, names, since }) {
  if (names) wanted.set(tab, names);
  else wanted.delete(tab);
  // The tab's page may have been made before events that the stream did not have for it.
  // Only the gateway knows which of the two ids is the earlier one.
  if (source && union() !== streamed) hold([...new Set([since, last])].filter(Boolean).join(","));
}

const union = () => [...new Set([...wanted.values()].flat())].sort().join(",");

function receive(event) {
  if (event.id) last = event.id;
  if (event.type === "open" || event.type === "lost") {
    if (connected === event.type) return;
    connected = event.type;
  }
  for (const listener of listeners) listener(event);
}

/** Opens the stream, which continues after an event. */
function hold(after) {
  source?.close();
  streamed = union();
  const place = after ? `&lastEventId=${encodeURIComponent(after)}` : "";
  const own = new EventSource(`/api/events?types=${streamed}${place}`);
  source = own;
  const tell = (event) => {
    receive(event);
    TABS.postMessage({ event });
  };
  own.onopen = () => tell({ type: "open" });
  own.onerror = () => {
    tell({ type: "lost" });
    // A browser gives up for good when the answer is an error, such as that of a browser that is signed out.
    if (own.readyState === EventSource.CLOSED) {
      setTimeout(() => {
        if (own === source) hold(last);
      }, 2000);
    }
  };
  for (const name of [...known, "reset", "passed"]) {
    own.addEventListener(name, (event) => tell({ type: name, id: event.lastEventId, data: JSON.parse(event.data) }));
  }
}
