// The application on a phone: the manifest, the service worker, the switch for notifications, and a notification. Chromium
// asks its maker's push service for a subscription, which is out of reach here, so the page gets one that it keeps itself.
// What the gateway sends is checked by its own tests.
import { SECONDS, check, flock, parsed, same, until } from "./browser_checking.mjs";
import { isMarked, mark, reads, textOf, visit } from "./browser_window.mjs";

const SECRET = "sk-planted-in-a-reason";

// In place of the browser's own subscriptions.
function subscribeHere() {
    const KEY = "subscription of the checks";
    const of = (described) => ({
        toJSON: () => described,
        unsubscribe: async () => {
            localStorage.removeItem(KEY);
            return true;
        },
    });
    PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
        if (!userVisibleOnly || applicationServerKey.length !== 65) throw new TypeError("no subscription for this");
        const described = {
            endpoint: "https://push.invalid/of-the-checks",
            expirationTime: null,
            keys: {
                p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
                auth: "BTBZMqHH6r4Tts7J_aSIgg",
            },
        };
        localStorage.setItem(KEY, JSON.stringify(described));
        return of(described);
    };
    PushManager.prototype.getSubscription = async () => {
        const kept = localStorage.getItem(KEY);
        return kept && of(JSON.parse(kept));
    };
}

async function phone(stage, browsers, options) {
    const context = await browsers.person(options);
    await context.grantPermissions(["notifications"], { origin: stage.origin });
    await context.addInitScript(subscribeHere);
    return context;
}

const turn = (page, name) => page.locator("#push").getByRole("button", { name, exact: true });
const state = (page) => page.locator("#push").getAttribute("data-state");
const becomes = (page, wanted) => until(SECONDS, async () => (await state(page)) === wanted);

export async function push(stage, browsers) {
    const context = await phone(stage, browsers);
    const page = await browsers.tab(context, "/dashboard/machine");
    await manifest(stage, context, page);
    await mark(page);
    check("notifications are off at first", await becomes(page, "off"), await textOf(page));
    await turn(page, "Turn on").click();
    check("the switch turns them on", await becomes(page, "on"), await textOf(page));
    const worker = await page.evaluate(async () => {
        const { scope, active } = await navigator.serviceWorker.ready;
        return { scope, state: active.state, script: active.scriptURL };
    });
    same("the worker is for all pages", `${stage.origin}/dashboard`, worker.scope);
    check("and active", await until(SECONDS, () => page.evaluate(async () =>
        (await navigator.serviceWorker.ready).active.state === "activated")), worker);
    check("its script is the gateway's own", worker.script.startsWith(`${stage.origin}/dashboard/assets/`), worker);
    await listed(stage, page);
    await notification(stage, browsers, context, page);
    await refused(stage, browsers);
    check("no page was loaded again", await isMarked(page));
    await turn(page, "Turn off").click();
    check("the switch turns them off", await becomes(page, "off"), await textOf(page));
    check("the gateway knows nothing of them any more", (await stage.sessions()).every((one) => one.notifications === null));
}

async function manifest(stage, context, page) {
    const cdp = await context.newCDPSession(page);
    const { url, errors, data } = await cdp.send("Page.getAppManifest");
    check("the browser reads the manifest without an error", errors.length === 0, errors);
    check("it is the gateway's", url.startsWith(`${stage.origin}/dashboard/assets/`), url);
    const read = parsed(data ?? "");
    same("it opens the dashboard as an application", ["/dashboard", "/dashboard", "standalone"], [read.start_url, read.scope, read.display]);
    for (const icon of read.icons ?? []) {
        const size = await page.evaluate(async (src) => {
            const image = new Image();
            image.src = src;
            await image.decode();
            return `${image.naturalWidth}x${image.naturalHeight}`;
        }, icon.src);
        check(`the icon ${icon.sizes} is a picture`, icon.sizes === "any" || size === icon.sizes, [icon, size]);
    }
    await cdp.detach();
}

// Who gets notifications can be seen, and the address at the push service can't.
async function listed(stage, page) {
    const told = (await stage.sessions()).filter((one) => one.notifications);
    same("one browser gets notifications", ["push.invalid"], told.map((one) => one.notifications.service));
    check("the list of browsers says so", /NOTIFICATIONS/.test((await flock("dashboard", "sessions")).out));
    await visit(stage, page, "/dashboard/machine");
    await mark(page);
    check("so does the page", await reads(page, /gets notifications|notifications fail/), await textOf(page));
    check("the switch stays on after a reload", await becomes(page, "on"), await textOf(page));
    const shown = JSON.stringify(await stage.sessions()) + (await page.content());
    check("the address is shown nowhere", !shown.includes("of-the-checks"), shown);
}

// A message that comes to the worker, as the gateway makes it.
async function notification(stage, browsers, context, page) {
    const request = await stage.request("pushed", { reason: SECRET });
    const cdp = await context.newCDPSession(page);
    const registered = new Promise((done) => {
        cdp.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
            const own = registrations.find((one) => one.scopeURL === `${stage.origin}/dashboard` && !one.isDeleted);
            if (own) done(own.registrationId);
        });
    });
    await cdp.send("ServiceWorker.enable");
    const registrationId = await registered;
    const deliver = (data) => cdp.send("ServiceWorker.deliverPushMessage", { origin: stage.origin, registrationId, data });
    const shown = () =>
        page.evaluate(async () => {
            const registration = await navigator.serviceWorker.ready;
            return (await registration.getNotifications()).map(({ title, body, tag, data }) => ({ title, body, tag, data }));
        });
    const message = JSON.stringify({ kind: "request", agent: request.agent, request: request.id, tag: "t1" });
    await deliver(message);
    check("a notification is shown", await until(SECONDS, async () => (await shown()).length === 1), await shown());
    const [first] = await shown();
    check("it names the agent and the request", first?.body.includes(request.agent) && first.body.includes(request.id), first);
    const content = [request.body, SECRET, "pushed.example.org"];
    check("and nothing of what is asked for", content.every((text) => !JSON.stringify(first).includes(text)), first);
    await deliver(message);
    // On a busy machine the browser has lost a message that came while it showed another one. A push service sends it again.
    let asked = 0;
    const bothShown = async () => {
        if (asked++ % 40 === 0) await deliver(JSON.stringify({ kind: "pause", agent: request.agent, tag: "t2" }));
        return (await shown()).length === 2;
    };
    check("one that comes again replaces itself", await until(SECONDS, bothShown), await shown());
    for (const strange of ["no JSON", JSON.stringify({ kind: "__proto__", tag: 7, page: "https://evil.example/" })]) {
        await deliver(strange);
    }
    const isOne = async () => (await shown()).filter((one) => one.title === "flock needs you").length === 1;
    check("a message that nobody understands is shown all the same", await until(SECONDS, isOne), await shown());
    const pages = (await shown()).map((one) => one.data.page).sort();
    same("each leads to a page of the dashboard", ["/dashboard", "/dashboard", "/dashboard/requests"], pages);

    // A person's tap is needed to open a window, so it is noted what would be opened.
    const worker = context.serviceWorkers().find((one) => one.url().includes("worker.js"));
    const opened = await worker?.evaluate(async () => {
        const found = (await self.registration.getNotifications()).find((one) => one.tag === "t1");
        return new Promise((done) => {
            self.clients.openWindow = async (page) => done(page);
            self.dispatchEvent(new NotificationEvent("notificationclick", { notification: found }));
        });
    });
    same("a tap opens the page where it is decided", "/dashboard/requests", opened);
    check("and takes the notification away", await until(SECONDS, async () => (await shown()).every((one) => one.tag !== "t1")), await shown());
    await cdp.detach();
}

// Why there are none, and the other language.
async function refused(stage, browsers) {
    const denied = await browsers.person();
    await denied.addInitScript(() => Object.defineProperty(Notification, "permission", { get: () => "denied" }));
    const page = await browsers.tab(denied, "/dashboard/machine");
    check("a browser that refuses is named", await becomes(page, "refused"), await textOf(page));
    check("with what helps, and without a switch", (await reads(page, /Allow them/)) && !(await page.locator("#push-switch").isVisible()));
    const plain = await browsers.person();
    await plain.addInitScript(() => Object.defineProperty(window, "isSecureContext", { get: () => false }));
    const other = await browsers.tab(plain, "/dashboard/machine");
    check("so is a page that did not come by HTTPS", (await becomes(other, "insecure")) && (await reads(other, /HTTPS/)), await textOf(other));
    const korean = await browsers.tab(await phone(stage, browsers, { locale: "ko-KR" }), "/dashboard/machine");
    check("the switch speaks Korean", (await becomes(korean, "off")) && (await turn(korean, "켜기").count()) === 1, await textOf(korean));
}
