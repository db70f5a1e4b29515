// The time from the commit of a message until it is on the screen of an open page.
import { SECONDS, check, until } from "./browser_checking.mjs";
import { CHANNEL, channelPage, pause } from "./browser_figures_stage.mjs";

const ON_SCREEN = 100;
// Of the tabs that people have, one is seen, and the others bring themselves up to date when they are. Those of a driven
// browser are all seen, each as a window of its own.
const TABS = 6;
// Messages come one at a time, as people write.
const BETWEEN = 700;

export async function live(stage, browsers, figures) {
    const alone = await browsers.page(channelPage(CHANNEL));
    figures.add("a message, from its commit to the screen, only tab", "ms", await arrivals(stage, alone), ON_SCREEN);
    await alone.context().close();

    const context = await browsers.person();
    const tabs = [];
    for (let number = 0; number < TABS; number += 1) tabs.push(await browsers.tab(context, channelPage(CHANNEL)));
    const last = tabs.at(-1);
    await last.bringToFront();
    figures.add(`the same, the last of ${TABS} windows that are seen at once`, "ms", await arrivals(stage, last));
}

async function arrivals(stage, page) {
    await note(page);
    // The stream of events has to be open.
    await pause(2 * BETWEEN);
    const times = [];
    // The first message, which is not counted, warms everything.
    for (let round = -1; round < stage.sizes.rounds; round += 1) {
        const message = await stage.sayOnce(CHANNEL, `message ${round} for ${page.url()}`);
        const seen = await until(SECONDS, () => page.evaluate((seq) => window.painted.get(seq), message.seq));
        check(`message ${message.seq} comes to the page`, seen);
        if (round >= 0 && seen) times.push(seen - message.createdAt);
        await pause(BETWEEN);
    }
    return times;
}

// Has the page note when each new message has been painted.
const note = (page) =>
    page.evaluate(() => {
        window.painted = new Map();
        const later = (seq) => {
            // The frame is ready when the first task after it runs.
            const { port1, port2 } = new MessageChannel();
            port1.onmessage = () => window.painted.set(seq, Date.now());
            port2.postMessage("");
        };
        const added = (records) => records.flatMap((record) => [...record.addedNodes]).filter((node) => node.dataset?.seq);
        new MutationObserver((records) => {
            for (const node of added(records)) requestAnimationFrame(() => later(Number(node.dataset.seq)));
        }).observe(document.getElementById("messages"), { childList: true, subtree: true });
    });
