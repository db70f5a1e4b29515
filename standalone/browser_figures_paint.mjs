// The first paint of long pages, the switch to another session, and the bytes of the first load.
import { SECONDS, parsed, until } from "./browser_checking.mjs";
import { Client } from "./browser_figures_client.mjs";
import { CHANNEL, LONG, TURNS, channelPage, pause, sessionPage } from "./browser_figures_stage.mjs";
import { median } from "./browser_figures_table.mjs";
import { visit } from "./browser_window.mjs";

const FIRST_PAINT = 300;
const SWITCH = 100;
// The switches in one document.
const SWITCHES = 6;
const BYTES = 150_000;
// The time after the load in which a page fetches what else it needs.
const SETTLED = 700;
// The time after which a new window has nothing left to do.
const OPENED = 1_500;

// The times of a page's load in milliseconds since its navigation began.
export const timesOf = (page) =>
    page.evaluate(
        () =>
            new Promise((done) => {
                new PerformanceObserver((list) => {
                    const paint = list.getEntries().find((entry) => entry.name === "first-contentful-paint");
                    if (!paint) return;
                    const [load] = performance.getEntriesByType("navigation");
                    done({
                        paint: paint.startTime,
                        began: performance.timeOrigin,
                        asked: load.requestStart,
                        first: load.responseStart,
                        last: load.responseEnd,
                        read: load.domInteractive,
                    });
                }).observe({ type: "paint", buffered: true });
            }),
    );

export async function paint(stage, browsers, figures) {
    await stage.work();
    const context = await browsers.person();
    const pages = [
        [`a session of ${stage.sizes.messages} messages`, sessionPage(LONG), FIRST_PAINT],
        [`a channel of ${stage.sizes.messages} messages`, channelPage(CHANNEL), FIRST_PAINT],
        ["Team", "/dashboard"],
        ["Sessions", "/dashboard/sessions"],
    ];
    const bytes = [];
    for (const [name, path, limit] of pages) {
        const loads = [];
        for (let round = 0; round < stage.sizes.rounds; round += 1) loads.push(await firstLoad(stage, context, path));
        bytes.push([name, loads.map((load) => load.bytes)]);
        const times = loads.map((load) => load.times);
        figures.add(
            `first paint, ${stage.sizes.workers} agents at work: ${name}`,
            "ms",
            times.map((one) => one.paint),
            limit,
        );
        figures.remark(`${name}: ${parts(times)}`);
    }
    for (const [name, values] of bytes) figures.add(`first load on the wire: ${name}`, "KB", values, BYTES);
    await routes(stage, figures);
}

// Loads a page in a new tab with an empty cache.
async function firstLoad(stage, context, path) {
    const page = await context.newPage();
    // With each new window, Chromium starts a process for the window's own parts, which is no part of the load.
    await pause(OPENED);
    const client = await context.newCDPSession(page);
    await client.send("Network.enable");
    await client.send("Network.clearBrowserCache");
    let bytes = 0;
    client.on("Network.loadingFinished", ({ encodedDataLength }) => {
        bytes += encodedDataLength;
    });
    await visit(stage, page, path);
    const times = await timesOf(page);
    await pause(SETTLED);
    await page.close();
    return { times, bytes };
}

// The parts of the loads' times.
function parts(times) {
    const of = (part) => median(times.map(part)).toFixed(0);
    const [asked, first, last, read] = ["asked", "first", "last", "read"].map((name) => of((one) => one[name]));
    return `request after ${asked} ms, first byte ${first} ms, last byte ${last} ms, document read ${read} ms, paint ${of((one) => one.paint)} ms`;
}

// The times of the routes that the page of the long session and that of the channel are made of.
async function routes(stage, figures) {
    const key = encodeURIComponent(LONG);
    const { cookie } = await stage.signIn();
    const browser = new Client(stage.port, { Cookie: cookie });
    for (const [name, path] of [
        ["the page of the session", sessionPage(LONG)],
        ["its turns", `/api/sessions/${key}/transcript?limit=20`],
        ["its context", `/api/sessions/${key}`],
        ["the list of sessions", "/api/sessions"],
        ["the page of the channel", channelPage(CHANNEL)],
        ["its messages", `/api/channels/${CHANNEL}/messages?limit=50`],
    ]) {
        const times = [];
        for (let round = 0; round < stage.sizes.rounds; round += 1) {
            const begun = performance.now();
            const answer = await browser.request("GET", path);
            times.push(performance.now() - begun);
            if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${parsed(answer.text).error?.message ?? ""}`);
        }
        figures.remark(`${name} by plain HTTP: ${median(times).toFixed(1)} ms`);
    }
    browser.close();
}

// A click on a link in the list of sessions, until the other page is painted in its place: the first in a document, and
// later ones.
export async function switches(stage, browsers, figures) {
    await stage.work();
    const page = await browsers.page("/dashboard/sessions");
    for (const [name, key] of [
        [`of ${stage.sizes.messages} messages`, LONG],
        [`of ${stage.sizes.turns} turns`, TURNS],
    ]) {
        const rounds = [];
        for (let round = 0; round < stage.sizes.rounds; round += 1) {
            await visit(stage, page, "/dashboard/sessions");
            await timesOf(page);
            await pause(SETTLED);
            const times = [];
            for (let number = 0; number < SWITCHES; number += 1) {
                if (number) await goBack(page);
                times.push(await switchTo(stage, page, key));
            }
            rounds.push(times);
        }
        const first = rounds.map(([time]) => time);
        const later = rounds.map(([, ...times]) => times);
        const took = (list) => list.map((time) => time.took);
        figures.add(`first switch of a document to a session ${name}, from the click to the paint`, "ms", took(first), SWITCH);
        figures.add(
            `later switches, median of ${SWITCHES - 1}`,
            "ms",
            later.map((times) => median(took(times))),
            SWITCH,
        );
        const fetched = (list) => median(list.map((time) => time.fetched)).toFixed(0);
        figures.remark(`the fetch of its page in the browser: ${fetched(first)} ms, later ${fetched(later.flat())} ms`);
    }
}

async function goBack(page) {
    await page.goBack();
    await page.locator("#sessions a").first().waitFor();
    await pause(SETTLED);
}

async function switchTo(stage, page, key) {
    await page.evaluate(noteSwitch);
    await page.locator(`#sessions a[href="${sessionPage(key)}"]`).click({ noWaitAfter: true });
    const took = await until(SECONDS, () => page.evaluate(() => window.switched));
    if (!took) throw new Error(`${page.url()}: the page was not opened in place`);
    return { took, fetched: await page.evaluate(fetchOf, stage.origin + sessionPage(key)) };
}

// The time in milliseconds that the fetch of a page has taken.
const fetchOf = (address) => performance.getEntriesByName(address).at(-1)?.duration;

// Notes in a page how long a click takes until the turns of a session are painted.
function noteSwitch() {
    window.switched = 0;
    document.addEventListener("click", ({ timeStamp }) => (window.clicked = timeStamp), { capture: true, once: true });
    const observer = new MutationObserver(() => {
        if (!document.getElementById("turns")) return;
        observer.disconnect();
        requestAnimationFrame(() => {
            // A message comes after the frame was painted.
            const { port1, port2 } = new MessageChannel();
            port1.onmessage = () => (window.switched = performance.now() - window.clicked);
            port2.postMessage(null);
        });
    });
    observer.observe(document.getElementById("main"), { childList: true });
}
