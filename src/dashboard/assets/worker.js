// The service worker: it shows the gateway's notifications and opens the page where a person decides.
//
// It has no handler for `fetch` and no cache. So it keeps nothing of the pages, and a request of a foreign site does not
// become one of this site on its way through the worker, which would send the cookie that is `SameSite=Strict`.

const TEXTS = "{worker_texts}";
const ICON = "/dashboard/assets/{digest}-icon-192.png";

// The pages are named here and not by the message.
const PAGES = { request: "/dashboard/requests", pause: "/dashboard", crash: "/dashboard/machine" };

const language = () => (/^ko\b/.test(navigator.language) ? "ko" : "en");
const fill = (text, told) => text.replace(/\{(\w+)\}/g, (_, name) => String(told[name] ?? "?").slice(0, 80));

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  let told = {};
  try {
    told = event.data.json();
  } catch {
    // A browser takes notifications away from a page that shows none after a message, so a text is shown in any case.
  }
  const texts = TEXTS[language()];
  const kind = Object.hasOwn(PAGES, told.kind) ? told.kind : "other";
  event.waitUntil(
    self.registration.showNotification(texts[`${kind}Title`], {
      body: fill(texts[`${kind}Body`], told),
      lang: language(),
      icon: ICON,
      // One that comes again replaces itself.
      tag: typeof told.tag === "string" ? told.tag : "flock",
      data: { page: PAGES[kind] ?? "/dashboard" },
    }),
  );
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.page ?? "/dashboard"));
});

/** Shows a page: in the window that has it already, or in a new one, so that no window loses what somebody wrote. */
async function open(page) {
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const there = windows.find((one) => new URL(one.url).pathname === page);
  if (!there) return self.clients.openWindow(page);
  // The address of a window is that of its document, in which another page may be shown meanwhile.
  there.postMessage({ page });
  return there.focus();
}
