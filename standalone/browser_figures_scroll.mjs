// Long tasks of a page while a person scrolls through a long conversation.
import { SECONDS, check } from "./browser_checking.mjs";
import { CHANNEL, TURNS, channelPage, sessionPage } from "./browser_figures_stage.mjs";

// The browser reports tasks of 50 ms and more.
const LONGEST = 50;
const WHEEL = 900;
const PARTS = "#messages [data-seq], #turns > [data-turn]";

export async function scroll(stage, browsers, figures) {
    for (const [name, path, count] of [
        [`${stage.sizes.scrolled} messages of a channel`, channelPage(CHANNEL), stage.sizes.scrolled],
        [`a session of ${stage.sizes.turns} turns`, sessionPage(TURNS), stage.sizes.turns],
    ]) {
        const found = [];
        for (let round = 0; round < stage.sizes.rounds; round += 1) {
            const page = await browsers.page(path);
            await watch(page);
            check("a long task is noticed", (await tasks(page)).length > 0);
            const shown = await loadEarlier(page, count);
            check(`${count} are loaded`, shown >= count, shown);
            const loading = await tasks(page);
            await through(page);
            found.push({ loading, scrolling: await tasks(page) });
            await page.context().close();
        }
        const longest = (of) => found.map((one) => Math.max(0, ...of(one).map((task) => task.duration)));
        figures.add(
            `longest task over 50 ms while scrolling through ${name}`,
            "task",
            longest((one) => one.scrolling),
            LONGEST,
        );
        figures.add(
            `the same while "Earlier messages" loads them`,
            "task",
            longest((one) => one.loading),
        );
        for (const [when, of] of [
            ["scrolling", (one) => one.scrolling],
            ["loading", (one) => one.loading],
        ]) {
            const worst = found.flatMap(of).sort((a, b) => b.duration - a.duration)[0];
            if (worst) figures.remark(`${name}, longest task while ${when}: ${JSON.stringify(worst)}`);
        }
    }
}

// Has the page note its long tasks, and the long frames with the scripts that ran in them. The first one is made here, to
// prove that it is noticed.
const watch = (page) =>
    page.evaluate(async () => {
        window.tasks = [];
        window.frames = [];
        new PerformanceObserver((list) => window.tasks.push(...list.getEntries())).observe({ type: "longtask" });
        new PerformanceObserver((list) => window.frames.push(...list.getEntries())).observe({ type: "long-animation-frame" });
        const work = (done) => {
            for (const end = performance.now() + 100; performance.now() < end;);
            done();
        };
        await new Promise((done) => setTimeout(work, 0, done));
    });

// The long tasks since the last call, each with what the browser says about its frame.
const tasks = (page) =>
    page.evaluate(async () => {
        await new Promise((done) => setTimeout(done, 200));
        const found = window.tasks.map(({ startTime, duration }) => {
            const frame = window.frames.find(
                (one) => one.startTime <= startTime + duration && startTime <= one.startTime + one.duration,
            );
            const scripts = frame?.scripts.map((one) => ({
                by: one.invoker,
                function: one.sourceFunctionName,
                took: Math.round(one.duration),
                layout: Math.round(one.forcedStyleAndLayoutDuration),
            }));
            const end = frame && frame.startTime + frame.duration;
            const rendering = frame?.styleAndLayoutStart && Math.round(end - frame.styleAndLayoutStart);
            return { duration: Math.round(duration), scripts, rendering };
        });
        window.tasks = [];
        window.frames = [];
        return found;
    });

// Follows "Earlier messages" until the page shows this many. Returns how many it shows.
async function loadEarlier(page, count) {
    const shown = () => page.locator(PARTS).count();
    for (let now = await shown(); now < count;) {
        const link = page.locator("#earlier");
        if (!(await link.count())) return now;
        await link.click();
        const more = page.waitForFunction(([parts, before]) => document.querySelectorAll(parts).length > before, [PARTS, now], {
            timeout: SECONDS,
        });
        await more;
        now = await shown();
    }
    return shown();
}

// Scrolls by the wheel to the top, to the end and back to the top.
async function through(page) {
    await page.locator("#conversation").hover();
    const place = () =>
        page.evaluate(() => {
            const { scrollTop, scrollHeight, clientHeight } = document.getElementById("conversation");
            return { top: scrollTop, rest: scrollHeight - clientHeight - scrollTop };
        });
    for (const [by, left] of [
        [-WHEEL, (one) => one.top],
        [WHEEL, (one) => one.rest],
        [-WHEEL, (one) => one.top],
    ]) {
        // The height of what was not yet on the screen is an estimate, so the end may move away.
        const isThere = async () => left(await place()) <= 1;
        for (let turned = 0; turned < 3_000 && (turned % 10 || !(await isThere())); turned += 1) await page.mouse.wheel(0, by);
        check(`the ${by < 0 ? "top" : "end"} is reached`, await isThere(), await place());
    }
}
