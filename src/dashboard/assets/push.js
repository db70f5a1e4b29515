// The switch for notifications of this browser, on the page of the machine.

// The scope of the service worker: all pages.
const SCOPE = "/dashboard";
const ROUTE = "/api/dashboard/push";

/** Lets the switch work. `page` has the texts, and what sends changes, says something and updates the page. */
export function watchSwitch(page) {
  const box = document.getElementById("push");
  if (!box) return;
  const button = document.getElementById("push-switch");
  const line = document.getElementById("push-state");

  async function show() {
    const state = await look().catch(() => "failed");
    box.dataset.state = state;
    line.textContent = page.texts[`push${state[0].toUpperCase()}${state.slice(1)}`];
    button.hidden = state !== "on" && state !== "off";
    button.textContent = state === "on" ? page.texts.pushTurnOff : page.texts.pushTurnOn;
  }

  button.addEventListener("click", async () => {
    if (button.ariaDisabled === "true") return;
    button.ariaDisabled = "true";
    try {
      if (box.dataset.state === "on") await turnOff(page);
      else await turnOn(page, box.dataset.worker);
    } catch (error) {
      page.announce(page.fill(page.texts.failed, error.message ?? String(error)));
    }
    button.ariaDisabled = "false";
    await show();
    // The list of browsers below says which of them get notifications.
    page.refresh();
  });
  show();
}

/** Returns `on`, `off`, or why there are no notifications: `insecure`, `unsupported`, `refused`. */
async function look() {
  // Browsers have neither workers nor notifications on a page that came by plain HTTP, except from this machine itself.
  if (!window.isSecureContext) return "insecure";
  if (!("serviceWorker" in navigator && "PushManager" in window && "Notification" in window)) return "unsupported";
  if (Notification.permission === "denied") return "refused";
  const { subscription } = await known();
  return subscription && (await own()) ? "on" : "off";
}

/** Asks the gateway for its key and for what it knows of this browser. */
async function known() {
  const response = await fetch(ROUTE);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

/** Returns the browser's own subscription. */
async function own() {
  const registration = await navigator.serviceWorker.getRegistration(SCOPE);
  return registration ? registration.pushManager.getSubscription() : null;
}

async function turnOn(page, worker) {
  // The browser asks the person.
  if ((await Notification.requestPermission()) !== "granted") return;
  const { publicKey } = await known();
  await navigator.serviceWorker.register(page.scriptAddress(worker), { scope: SCOPE });
  const { pushManager } = await navigator.serviceWorker.ready;
  // One of an earlier sign-in may be for another key.
  await (await pushManager.getSubscription())?.unsubscribe();
  const subscription = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(publicKey) });
  const kept = await page.send("PUT", ROUTE, subscription.toJSON());
  if (!kept) await subscription.unsubscribe();
}

async function turnOff(page) {
  await page.send("DELETE", ROUTE);
  await (await own())?.unsubscribe();
}

/** Reads base64 of the form for addresses. */
function bytes(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}
