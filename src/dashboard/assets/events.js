// The gateway's events, by one stream for all tabs of this browser: a browser opens few connections to one address.
//
// The tab that holds the lock has the stream and passes the events on. When it goes, the next tab gets the lock and
// continues after the last event that it knows.

const CHANNEL = new BroadcastChannel("flock-events");
const listeners = new Set();
let last = null;
let connected = null;

/** Calls `listener` with `{type, data}` for each event. Besides the gateway's there are `open`, `lost` and `reset`. */
export function listen(listener) {
  listeners.add(listener);
}

/**
 * Begins to listen. `names` are the events of the gateway that somebody wants, and `known` is the last one that the page
 * knows. A page that joins a stream may have missed some, so it gets `reset`.
 */
export function start(names, known) {
  last = known;
  CHANNEL.onmessage = (message) => receive(message.data);
  const keep = () => new Promise(() => hold(names));
  navigator.locks.request("flock-events", { ifAvailable: true }, (lock) => {
    if (lock) return keep();
    receive({ type: "reset" });
    navigator.locks.request("flock-events", keep);
  });
}

function receive(event) {
  if (event.id) last = event.id;
  if (event.type === "open" || event.type === "lost") {
    if (connected === event.type) return;
    connected = event.type;
  }
  for (const listener of listeners) listener(event);
}

function hold(names) {
  const address = last ? `/api/events?lastEventId=${encodeURIComponent(last)}` : "/api/events";
  const source = new EventSource(address);
  const tell = (event) => {
    receive(event);
    CHANNEL.postMessage(event);
  };
  source.onopen = () => tell({ type: "open" });
  source.onerror = () => {
    tell({ type: "lost" });
    // A browser gives up for good when the answer is an error, such as that of a browser that is signed out.
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(() => hold(names), 2000);
    }
  };
  for (const name of [...names, "reset"]) {
    source.addEventListener(name, (event) => tell({ type: name, id: event.lastEventId, data: JSON.parse(event.data) }));
  }
}
