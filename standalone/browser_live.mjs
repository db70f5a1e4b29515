// Pages that stay open: many tabs, a gateway that is stopped, and one that is killed while people write.
import { SECONDS, SOON, check, flock, must, same, until } from "./browser_checking.mjs";
import { arrives, box, send, shown, write } from "./browser_channels.mjs";
import { cardOf } from "./browser_requests.mjs";
import { HELPER } from "./browser_stage.mjs";
import { stateOf } from "./browser_team.mjs";
import { isMarked, mark, textOf } from "./browser_window.mjs";

const TABS = 6;
// When a person tries again.
const AGAIN = 2_000;
const notice = (page) => page.locator("#connection");
const isAway = (page) =>
    notice(page)
        .isVisible()
        .catch(() => false);

// Counts the streams that a browser holds. It has to be there before the browser's first page.
function streamsOf(context) {
    const open = new Set();
    let begun = 0;
    context.on("request", (request) => {
        if (new URL(request.url()).pathname !== "/api/events") return;
        begun += 1;
        open.add(request);
    });
    for (const end of ["requestfinished", "requestfailed"]) context.on(end, (request) => open.delete(request));
    const isOpen = (request) => {
        try {
            return !request.frame().page().isClosed();
        } catch {
            return false;
        }
    };
    return { open: () => [...open].filter(isOpen), begun: () => begun };
}

// Six tabs of one browser hold one stream, and all of them are live.
export async function tabs(stage, browsers) {
    await stage.channel("tabs");
    const context = await browsers.person();
    const streams = streamsOf(context);
    const pages = [];
    for (let number = 0; number < TABS; number += 1) pages.push(await browsers.tab(context, "/dashboard/channels/tabs"));
    await stage.post("tabs", "to all tabs");
    const got = await Promise.all(pages.map(async (page) => (await arrives(page, "to all tabs", SOON)).length));
    check(
        `a message comes once to each of ${TABS} tabs`,
        got.every((count) => count === 1),
        got,
    );
    check(
        "they hold one stream",
        streams.open().length === 1,
        streams.open().map((one) => one.frame().page().url()),
    );

    // The tab that holds it goes. Another one takes its place.
    const holder = streams.open()[0]?.frame().page();
    await holder?.close();
    const rest = pages.filter((page) => page !== holder);
    await stage.post("tabs", "to those that are left");
    const left = await Promise.all(rest.map(async (page) => (await arrives(page, "to those that are left", SOON)).length));
    check("without the tab that held it, the others are live still", holder && left.every((count) => count === 1), left);
    check("and hold one again", await until(SECONDS, () => streams.open().length === 1), streams.open().length);

    // A tab of another page hears the same stream.
    const team = await browsers.tab(context, "/dashboard");
    await mark(team);
    await must("an agent is frozen", "freeze", HELPER);
    check(
        "a tab of another page is live by it",
        await until(SECONDS, async () => /frozen/i.test(await stateOf(team, HELPER))),
        await textOf(team),
    );
    await must("and thawed", "thaw", HELPER);
    check("that, too", await until(SECONDS, async () => !/frozen/i.test(await stateOf(team, HELPER))), await textOf(team));
    check("there is one stream still", streams.open().length === 1, streams.open().length);

    // Another browser has its own.
    const second = await browsers.person();
    const others = streamsOf(second);
    const page = await browsers.tab(second, "/dashboard/channels/tabs");
    await stage.post("tabs", "to both browsers");
    for (const one of [page, ...rest])
        check("both browsers have the message once", (await arrives(one, "to both browsers")).length === 1, await shown(one));
    check("each holds one stream", streams.open().length === 1 && others.open().length === 1, [
        streams.open().length,
        others.open().length,
    ]);
    check("no stream was begun again and again", streams.begun() <= 4 && others.begun() === 1, [streams.begun(), others.begun()]);
}

// What happens between the moment in which a page was made and the one in which it listens is not missed.
export async function between(stage, browsers) {
    await stage.channel("between");
    const context = await browsers.person();
    const [page, later] = [await context.newPage(), await context.newPage()];

    // The first tab's stream begins late.
    const held = await hold(page, (url) => url.pathname === "/api/events");
    await page.goto(`${stage.origin}/dashboard/channels/between`, { waitUntil: "domcontentloaded" });
    check("a page asks for the stream", await held.isAsked());
    await stage.post("between", "before the stream was there");
    await held.release();
    const first = await arrives(page, "before the stream was there");
    check("what was posted before its stream was there is shown", first.length === 1, await shown(page));

    // The second tab hears the first one's stream, but its script comes late.
    const script = await hold(later, (url) => /^\/dashboard\/assets\/.*\.js$/.test(url.pathname));
    await later.goto(`${stage.origin}/dashboard/channels/between`, { waitUntil: "commit" });
    check("a page asks for its script", await script.isAsked());
    await stage.post("between", "before the script was there");
    await arrives(page, "before the script was there");
    await script.release();
    const second = await arrives(later, "before the script was there");
    check("what was posted before its script ran is shown", second.length === 1, await shown(later));

    // The same for the state of an agent.
    const team = await context.newPage();
    const late = await hold(team, (url) => /^\/dashboard\/assets\/.*\.js$/.test(url.pathname));
    await team.goto(`${stage.origin}/dashboard`, { waitUntil: "commit" });
    check("another page asks for its script", await late.isAsked());
    await must("an agent is frozen meanwhile", "freeze", HELPER);
    await late.release();
    check("it is shown", await until(SECONDS, async () => /frozen/i.test(await stateOf(team, HELPER))), await textOf(team));
    await must("and thawed", "thaw", HELPER);
}

// Lets requests of a page wait until they are released.
async function hold(page, matches) {
    const waiting = [];
    let isOpen = false;
    await page.route(matches, (route) => (isOpen ? route.continue() : waiting.push(route)));
    return {
        isAsked: () => until(SECONDS, () => waiting.length > 0),
        release: () => {
            isOpen = true;
            return Promise.all(waiting.map((route) => route.continue()));
        },
    };
}

// The gateway is stopped for a while, in which more is said than it keeps events for.
export async function away(stage, browsers) {
    await stage.channel("away");
    const page = await browsers.page("/dashboard/channels/away");
    const team = await browsers.page();
    const requests = await browsers.page("/dashboard/requests");
    const all = [page, team, requests];
    await Promise.all(all.map(mark));
    const request = await stage.request("away");
    await until(SECONDS, () => cardOf(requests, request).count());
    check(
        "no page says that the gateway is away",
        (await Promise.all(all.map(isAway))).every((one) => !one),
    );
    await box(page).fill("a draft");
    await must("stop", "stop");
    for (const one of all)
        check(`${new URL(one.url()).pathname} says that it is away`, await until(SECONDS, () => isAway(one)), await textOf(one));
    check(
        "with what is the matter",
        /answer|reach|flock start/i.test(await notice(page).innerText()),
        await notice(page).innerText(),
    );
    const unsigned = await flock("dashboard", "--print");
    check(
        "without a gateway nobody signs in, and flock says what helps",
        unsigned.code !== 0 && unsigned.err.includes("flock start"),
        unsigned,
    );
    check("the draft is there still", (await box(page).inputValue()) === "a draft");
    // The button may be disabled meanwhile.
    await box(page).fill("sent while it was away");
    await send(page)
        .click({ timeout: AGAIN })
        .catch(() => {});
    await stage.post("away", "posted while it was away");
    await must("a freeze without a gateway", "freeze", HELPER);
    await must("a decision without a gateway", "approvals", "deny", request.id);
    await must("start", "start");
    for (const one of all)
        check(
            `${new URL(one.url()).pathname} says so no more`,
            await until(SOON, async () => !(await isAway(one))),
            await textOf(one),
        );
    check(
        "what was posted meanwhile is there",
        (await arrives(page, "posted while it was away")).length === 1,
        await shown(page),
    );
    check(
        "an agent that was frozen meanwhile is frozen",
        await until(SECONDS, async () => /frozen/i.test(await stateOf(team, HELPER))),
        await textOf(team),
    );
    const isOver = () =>
        until(
            SECONDS,
            async () => (await cardOf(requests, request).getByRole("button", { name: "Approve", exact: true }).count()) === 0,
        );
    check("a request that was decided meanwhile offers nothing", await isOver(), await textOf(requests));
    await must("thawed again", "thaw", HELPER);

    // What was sent then is in the channel once, or in the box still, so that the person can send it again.
    const sent = async () => (await stage.messages("away")).filter((one) => one.content === "sent while it was away").length;
    const isKept = await until(
        SECONDS,
        async () => (await sent()) === 1 || (await box(page).inputValue()).includes("sent while it was away"),
    );
    check("what a person sent meanwhile is not lost, and not there twice", isKept && (await sent()) <= 1, [
        await sent(),
        await box(page).inputValue(),
    ]);
    await write(page, "and on it goes");
    check("the page works as before", (await arrives(page, "and on it goes")).length === 1, await shown(page));
    check("and was not loaded again", (await Promise.all(all.map(isMarked))).every(Boolean));
}

// A page may leave out that a person is one.
const line = (seq, author, text) => `${seq} ${author?.replace(/^human:/, "")} ${text}`;

// The gateway is killed again and again while two browsers and the command line write.
export async function kills(stage, browsers) {
    await stage.channel("kills");
    const pages = [await browsers.page("/dashboard/channels/kills"), await browsers.page("/dashboard/channels/kills")];
    await Promise.all(pages.map(mark));
    const acknowledged = [];
    const tried = [];
    const total = stage.options.messages;
    let isOver = false;
    const typing = (async () => {
        // Each page writes the next line only when the last one is in the channel.
        for (let number = 0; !isOver; number += 1) {
            const [page, text] = [pages[number % 2], `typed ${number}.`];
            tried.push(text);
            await write(page, text);
            const isThere = async () => (await shown(page)).some((one) => one.text === text);
            // What could not be sent is in the box still, and is sent again, as a person would do it.
            for (const end = Date.now() + SOON; Date.now() < end && !(await until(AGAIN, isThere));) {
                if ((await box(page).inputValue()) === text && !(await isAway(page))) await send(page).click();
            }
            check(`'${text}' reaches the channel`, await until(SOON, isThere), [
                await box(page).inputValue(),
                (await shown(page)).slice(-3),
            ]);
        }
    })();
    const killing = (async () => {
        for (let number = 0; number < stage.options.kills; number += 1) {
            // Between two of them something has to be said.
            const before = acknowledged.length;
            await until(SOON, () => acknowledged.length > before + total / (stage.options.kills + 1) || isOver);
            check(`the gateway is back after kill ${number + 1}`, await stage.kill());
        }
    })();
    for (let number = 0; number < total; number += 1) {
        const text = `line ${number}.`;
        tried.push(text);
        if (await stage.post("kills", text)) acknowledged.push(text);
    }
    await killing;
    isOver = true;
    await typing;

    const messages = await stage.messages("kills");
    const contents = messages.map((one) => one.content);
    check("most of what was posted was acknowledged", acknowledged.length > total / 2, [acknowledged.length, total]);
    same(
        "what was acknowledged is in the channel once, in order",
        acknowledged,
        contents.filter((text) => acknowledged.includes(text)),
    );
    const doubled = tried.filter((text) => contents.filter((one) => one === text).length > 1);
    check("nothing is there twice", contents.length > 0 && doubled.length === 0, doubled);
    for (const [number, page] of pages.entries()) {
        await until(SOON, async () => (await shown(page)).length >= messages.length);
        const found = await shown(page);
        // A page may let go of what is far above. It shows the newest without a gap.
        same(
            `browser ${number + 1} shows the channel, each message once, in order`,
            messages.slice(-found.length).map((one) => line(one.seq, one.author, one.content)),
            found.map((one) => line(one.seq, one.author, one.text)),
        );
        check(`browser ${number + 1} shows at least the last of them`, found.length >= Math.min(50, messages.length), [
            found.length,
            messages.length,
        ]);
        check(`browser ${number + 1} was not loaded again`, await isMarked(page));
        check(
            `browser ${number + 1} has no notice left`,
            await until(SOON, async () => !(await isAway(page))),
            await textOf(page),
        );
    }
}
