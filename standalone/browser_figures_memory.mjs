// The memory of pages that stay open while a busy team says as much as in an hour.
import fs from "node:fs";
import { check, until } from "./browser_checking.mjs";
import { CHANNEL, channelPage, pause, sessionPage } from "./browser_figures_stage.mjs";
import { HELPER } from "./browser_stage.mjs";

const LIMIT = 150e6;
const CAUGHT_UP = 120_000;
// A page fetches the newest 20 turns. More must not end before it fetches again.
const TURNS_AT_ONCE = 15;

export async function memory(stage, browsers, figures) {
    const found = [];
    for (let round = 0; round < stage.sizes.rounds; round += 1) found.push(await hour(stage, browsers, round));
    const what = `${stage.sizes.said} messages and ${stage.sizes.taken} turns`;
    for (const [name, of] of [
        ["channel", (one) => one.channel],
        ["session", (one) => one.session],
    ]) {
        figures.add(
            `page of the ${name} after ${what}: private memory`,
            "MB",
            found.map((one) => of(one).memory),
            LIMIT,
        );
        figures.add(
            `page of the ${name} after ${what}: JS heap`,
            "MB",
            found.map((one) => of(one).heap),
            LIMIT,
        );
        figures.remark(
            `page of the ${name}: ${of(found[0]).nodes} nodes of the document; new: ${mb(of(found[0]).before)} private`,
        );
    }
    figures.remark(`the hour took ${found.map((one) => `${one.took.toFixed(0)} s`).join(", ")}`);
}

const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

// Opens both pages, has everything said, and measures.
async function hour(stage, browsers, round) {
    const browser = await browsers.launch();
    const key = `agent:${HELPER}:flock:main:hour${round}${Date.now()}`;
    await stage.turn(key, "how are you");
    const open = async (path) => browsers.tab(await browsers.person({ browser }), path);
    const [channel, session] = [await open(channelPage(CHANNEL)), await open(sessionPage(key))];
    await pause(1_000);
    const before = [await measure(browser, channel), await measure(browser, session)];
    const begun = performance.now();
    await Promise.all([stage.say(CHANNEL, stage.sizes.said, 4), take(stage, session, key)]);
    const last = (await stage.api("GET", `/api/channels/${CHANNEL}`)).data.lastSeq;
    const isThere = () => channel.evaluate((seq) => Boolean(document.getElementById(`m${seq}`)), last);
    check("the channel's page shows everything", await until(CAUGHT_UP, isThere));
    const took = (performance.now() - begun) / 1000;
    const shown = await session.locator("#turns > [data-turn]").count();
    check("the session's page shows every turn", shown === stage.sizes.taken + 1, shown);
    const result = {
        took,
        channel: { ...(await measure(browser, channel)), before: before[0].memory },
        session: { ...(await measure(browser, session)), before: before[1].memory },
    };
    await Promise.all([channel.context(), session.context()].map((context) => context.close()));
    await browser.close();
    return result;
}

// Takes the turns of an hour in the session of a page.
async function take(stage, page, key) {
    for (let done = 0; done < stage.sizes.taken;) {
        const end = Math.min(stage.sizes.taken, done + TURNS_AT_ONCE);
        for (; done < end; done += 1) await stage.turn(key, `look at part ${done}`);
        const isShown = await until(CAUGHT_UP, async () => (await page.locator("#turns > [data-turn]").count()) > done);
        if (!isShown) throw new Error(`the page does not show turn ${done}`);
    }
}

async function measure(browser, page) {
    const client = await page.context().newCDPSession(page);
    await client.send("Performance.enable");
    const { metrics } = await client.send("Performance.getMetrics");
    const of = (name) => metrics.find((one) => one.name === name)?.value;
    const pid = await rendererOf(browser, page);
    const result = { memory: privateMemory(pid), heap: of("JSHeapUsedSize"), nodes: of("Nodes") };
    await client.detach();
    return result;
}

// The process that runs a page: the renderer that works while the page is kept busy. Another one may work meanwhile, so it
// must be clear.
async function rendererOf(browser, page) {
    const client = await browser.newBrowserCDPSession();
    const used = async () => {
        const { processInfo } = await client.send("SystemInfo.getProcessInfo");
        return new Map(processInfo.filter((one) => one.type === "renderer").map((one) => [one.id, one.cpuTime]));
    };
    const found = await until(CAUGHT_UP, async () => {
        const before = await used();
        await page.evaluate(() => {
            for (const end = performance.now() + 300; performance.now() < end;);
        });
        const after = [...(await used())].map(([pid, time]) => ({ pid, worked: time - (before.get(pid) ?? 0) }));
        const [first, second] = after.sort((a, b) => b.worked - a.worked);
        return first.worked > 0.1 && first.worked > 3 * (second?.worked ?? 0) && first;
    });
    await client.detach();
    return found.pid;
}

function privateMemory(pid) {
    const lines = fs.readFileSync(`/proc/${pid}/smaps_rollup`, "utf8").matchAll(/^Private_\w+:\s+(\d+) kB$/gm);
    return [...lines].reduce((sum, [, kib]) => sum + Number(kib) * 1024, 0);
}
