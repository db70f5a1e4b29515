// The cost of open pages for the gateway: its memory, and the time of turns.
import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";
import { gatewayPid, must } from "./browser_checking.mjs";
import { CHANNEL, channelPage, pause } from "./browser_figures_stage.mjs";
import { median } from "./browser_figures_table.mjs";
import { HELPER } from "./browser_stage.mjs";

const MIB = 2 ** 20;
const ONE_PAGE = 3 * MIB;
const MANY_PAGES = 20 * MIB;
const SLOWER = 5;
const IDLE = 3_000;
const BUSY = 6_000;
// 3,600 messages in an hour.
const BETWEEN_POSTS = 1_000;
const BETWEEN_TURNS = 20;
const ORDER = ["without", "together", "together", "without", "together", "without", "without", "together"];

export async function gateway(stage, browsers, figures) {
    const { pages } = stage.sizes;
    const context = await browsers.person();
    const found = [];
    for (let round = 0; round < stage.sizes.rounds; round += 1) found.push(await resident(stage, browsers, context));
    const none = (one) => one.none;
    const grown = (of, kind) => found.map((one) => of(one)[kind] - none(one)[kind]);
    figures.add(
        "idle gateway without a page: resident memory",
        "MiB",
        found.map((one) => none(one).all),
    );
    figures.add(
        "the same with one open page: more",
        "MiB",
        grown((one) => one.one, "all"),
        ONE_PAGE,
    );
    figures.add(
        `with ${pages} open pages of a busy channel, at the peak: more`,
        "MiB",
        grown((one) => one.many, "all"),
        MANY_PAGES,
    );
    figures.add(
        "of this, with one page: own memory (anonymous)",
        "MiB",
        grown((one) => one.one, "own"),
    );
    figures.add(
        `of this, with ${pages} pages: own memory (anonymous)`,
        "MiB",
        grown((one) => one.many, "own"),
    );

    const pairs = [];
    for (let round = 0; round < stage.sizes.rounds; round += 1) pairs.push(await pair(stage, round));
    figures.add(
        `a scripted turn without pages, median of ${4 * stage.sizes.timed}`,
        "ms",
        pairs.map((one) => one.without),
    );
    figures.add(
        `the same with ${pages} pages`,
        "ms",
        pairs.map((one) => one.together),
    );
    const slower = pairs.map((one) => (one.together / one.without - 1) * 100);
    figures.add(`slower with ${pages} pages, in pairs`, "%", slower, SLOWER);
    figures.remark(
        `the ${pages} pages loaded ${pairs.map((one) => one.loads).join(", ")} times for ${pairs.map((one) => one.posts).join(", ")} posts`,
    );
}

// The memory of a gateway that was just started: with no page, with one, and with many.
async function resident(stage, browsers, context) {
    await must("stop", "stop");
    await must("start", "start");
    await pause(IDLE);
    const none = memoryOf();
    const page = await browsers.tab(context, channelPage(CHANNEL));
    await pause(IDLE);
    const one = memoryOf();
    await page.close();
    const pages = await open(stage);
    const isPosting = post(stage);
    const many = { all: 0, own: 0 };
    for (const end = Date.now() + BUSY; Date.now() < end; await pause(100)) {
        const now = memoryOf();
        many.all = Math.max(many.all, now.all);
        many.own = Math.max(many.own, now.own);
    }
    await isPosting.stop();
    await pages.close();
    return { none, one, many };
}

// The times of turns with open pages and without. The machine gets faster and slower within seconds, so they take turns
// several times, and the first of a pair is not always the same.
async function pair(stage, round) {
    const posting = post(stage);
    const times = { together: [], without: [] };
    let loads = 0;
    for (const [number, name] of ORDER.entries()) {
        const pages = name === "together" ? await open(stage) : null;
        await pause(500);
        times[name].push(...(await turns(stage, `${round}-${number}`)));
        if (pages) loads += await pages.close();
    }
    const posts = await posting.stop();
    return { together: median(times.together), without: median(times.without), loads, posts };
}

async function turns(stage, name) {
    const key = `agent:${HELPER}:flock:main:timed${name}-${Date.now()}`;
    const times = [];
    for (let number = -5; number < stage.sizes.timed; number += 1) {
        const time = await stage.turn(key, "how are you");
        // The first ones warm everything.
        if (number >= 0) times.push(time);
        await pause(BETWEEN_TURNS);
    }
    return times;
}

// Somebody posts once a second, until `stop`, which gives the number of posts.
function post(stage) {
    let isOver = false;
    let count = 0;
    const done = (async () => {
        for (; !isOver; await pause(BETWEEN_POSTS)) {
            await stage.sayOnce(CHANNEL, `busy ${count}`);
            count += 1;
        }
    })();
    return {
        stop: async () => {
            isOver = true;
            await done;
            return count;
        },
    };
}

// Opens the pages in a process of their own. `close` gives how many loads they made.
async function open(stage) {
    const { cookie } = await stage.signIn();
    const program = path.join(path.dirname(fileURLToPath(import.meta.url)), "browser_figures_pages.mjs");
    const args = [program, String(stage.port), CHANNEL, String(stage.sizes.pages)];
    // The arguments of a process are no place for a cookie.
    const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
    const ended = new Promise((done) => child.on("exit", done));
    child.stdin.write(`${cookie}\n`);
    const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    if ((await lines.next()).value !== "open") throw new Error("the pages did not open");
    return {
        close: async () => {
            child.stdin.end();
            const loads = Number((await lines.next()).value);
            await ended;
            return loads;
        },
    };
}

function memoryOf() {
    const status = fs.readFileSync(`/proc/${gatewayPid()}/status`, "utf8");
    const of = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)[1]) * 1024;
    return { all: of("VmRSS"), own: of("RssAnon") };
}
