// Pages that are opened in place of others: by links, forms, keys and the browser's history.
import { SECONDS, SOON, check, parsed, until } from "./browser_checking.mjs";
import { arrives, box, write } from "./browser_channels.mjs";
import { HELPER } from "./browser_stage.mjs";
import { isMarked, isSignedOut, mark, reads, textOf, visit } from "./browser_window.mjs";

const nav = (page, name) => page.locator(`header nav a:text-is("${name}")`);
const heading = (page) => page.locator("h1").innerText();

// A page that is on its way can't be asked.
const isReloaded = (page) => isMarked(page).then((marked) => !marked, () => false);

// Whether the page at a path is shown, without a new document.
async function inPlace(page, name, path, title) {
    const there = await until(SECONDS, async () => new URL(page.url()).pathname + new URL(page.url()).search === path && (await heading(page)) === title);
    check(`${name}: the page is shown`, there, `${page.url()} ${await heading(page)}`);
    check(`${name}: in place`, await isMarked(page));
}

export async function visits(stage, browsers) {
    const page = await browsers.page();
    await mark(page);
    await links(page);
    await history(stage, page);
    await drafts(stage, page);
    await missed(stage, page);
    await overtaken(page);
    await asBefore(stage, browsers, page);
    await onward(stage, browsers);
    await left(stage, browsers);
}

async function links(page) {
    await nav(page, "Channels").click();
    await inPlace(page, "a link", "/dashboard/channels", "Channels");
    check("the title of the window is the page's", (await page.title()) === "Channels · flock", await page.title());
    const marked = await page.locator("header nav a[aria-current]").allInnerTexts();
    check("and the navigation marks it alone", marked.join() === "Channels", marked);
    check("the focus is on the new page", await page.evaluate(() => document.activeElement?.id === "main"));
    const said = await page.locator("#announce").innerText();
    check("which is said to people who hear it", said.includes("Channels"), said);
    await page.locator("#search").fill("nobody wrote this");
    await page.keyboard.press("Enter");
    await inPlace(page, "a search", "/dashboard/search/messages?q=nobody+wrote+this", "Search");
    await page.keyboard.press("g");
    await page.keyboard.press("s");
    await inPlace(page, "keys", "/dashboard/sessions", "Sessions");
    await page.keyboard.press("/");
    await inPlace(page, "the key for the search", "/dashboard/search", "Search");
}

async function history(stage, page) {
    const numbers = [];
    for (let at = 0; at < 60; at += 1) numbers.push(await stage.post("work", `a line of the history ${at}`));
    await nav(page, "Channels").click();
    await page.locator('#channels a[href="/dashboard/channels/work"]').click();
    await inPlace(page, "a channel", "/dashboard/channels/work", "#work");
    const place = () => page.evaluate(() => document.getElementById("conversation").scrollTop);
    check("it is shown at its end", (await place()) > 100, await place());
    await page.evaluate(() => (document.getElementById("conversation").scrollTop = 40));
    await nav(page, "Team").click();
    await inPlace(page, "away", "/dashboard", "Team");
    await page.goBack();
    await inPlace(page, "back", "/dashboard/channels/work", "#work");
    check("it is scrolled as before", await until(SECONDS, async () => (await place()) === 40), await place());
    await page.goForward();
    await inPlace(page, "forward", "/dashboard", "Team");
    const target = `/dashboard/channels/work#m${numbers[40]}`;
    await page.evaluate((href) => {
        const link = document.createElement("a");
        link.href = href;
        link.textContent = "a message";
        document.getElementById("main").prepend(link);
        link.click();
    }, target);
    await inPlace(page, "a link to a message", "/dashboard/channels/work", "#work");
    const seen = await until(SECONDS, () => page.evaluate(() => document.querySelector(":target")?.id));
    check("the message is the page's target", seen === `m${numbers[40]}`, seen);
}

async function drafts(stage, page) {
    await box(page).fill("half a thought");
    await nav(page, "Team").click();
    await inPlace(page, "away from a draft", "/dashboard", "Team");
    await page.goBack();
    await inPlace(page, "back to it", "/dashboard/channels/work", "#work");
    check("what was begun is still there", (await box(page).inputValue()) === "half a thought", await box(page).inputValue());
    await write(page, "a whole thought");
    const found = await arrives(page, "a whole thought");
    check("and a page that was opened in place sends", found.length === 1, found);
    const number = await stage.post("work", "a live message");
    check("and stays up to date", number && (await arrives(page, "a live message")).length === 1, await textOf(page));
    await nav(page, "Team").click();
    await inPlace(page, "away again", "/dashboard", "Team");
    await page.goBack();
    await inPlace(page, "back after sending", "/dashboard/channels/work", "#work");
    check("what was sent is no draft", (await box(page).inputValue()) === "", await box(page).inputValue());
}

// The page is made, then something happens, then the page arrives.
async function missed(stage, page) {
    let made = null;
    const held = new Promise((done) => {
        page.route("**/dashboard/channels/lobby", async (route) => {
            const response = await route.fetch();
            made = await new Promise((go) => done(go));
            await route.fulfill({ response });
        });
    });
    await nav(page, "Channels").click();
    await page.locator('#channels a[href="/dashboard/channels/lobby"]').click();
    const release = await held;
    await stage.post("lobby", "it came while the page was on its way");
    // The event has to reach the page before the page that is on its way does.
    await until(SECONDS, async () => (await stage.messages("lobby")).some((one) => one.content.startsWith("it came")));
    await page.waitForTimeout(300);
    release(true);
    check("a message that came meanwhile is shown", (await arrives(page, "it came while")).length === 1, await textOf(page));
    check("on a page that was shown in place", made && (await isMarked(page)));
    await page.unroute("**/dashboard/channels/lobby");
}

// Of two pages that were asked for, the second is shown, whichever comes first.
async function overtaken(page) {
    let release;
    const held = new Promise((go) => (release = go));
    await page.route("**/dashboard/cost", async (route) => {
        await held;
        await route.continue();
    });
    await nav(page, "Cost").click();
    await nav(page, "Team").click();
    await inPlace(page, "the second click", "/dashboard", "Team");
    const answered = page.waitForResponse("**/dashboard/cost");
    release();
    await answered;
    await page.waitForTimeout(200);
    await inPlace(page, "the first one's answer changes nothing", "/dashboard", "Team");
    await page.unroute("**/dashboard/cost");
}

// What can't be shown in place is loaded as any browser does it.
async function asBefore(stage, browsers, page) {
    await page.evaluate(() => {
        const link = document.createElement("a");
        link.href = "/dashboard/channels/there-is-none";
        link.textContent = "nothing";
        document.getElementById("main").prepend(link);
    });
    await page.locator('a:text-is("nothing")').click();
    check("a page that is not there is loaded whole, and says so", await until(SECONDS, () => isReloaded(page)), page.url());
    await visit(stage, page, "/dashboard");
    await mark(page);
    await page.route("**/dashboard/requests", async (route) => {
        const response = await route.fetch();
        const text = (await response.text()).replace(/assets\/[0-9a-f]+-app\.js/g, "assets/0123456789ab-app.js");
        await route.fulfill({ response, body: text });
    });
    await nav(page, "Requests").click();
    check("a page of another version is loaded whole", await until(SECONDS, () => isReloaded(page)), page.url());
    await page.unroute("**/dashboard/requests");
    await visit(stage, page, "/dashboard");
    const tab = page.context().waitForEvent("page");
    await nav(page, "Cost").click({ modifiers: ["Control"] });
    check("a click with Control opens another tab", new URL((await tab).url()).pathname === "/dashboard/cost", (await tab).url());
    check("and leaves this one", (await heading(page)) === "Team", await heading(page));
    const other = await browsers.page();
    await mark(other);
    const [browser] = await other.evaluate(async () => {
        const { sessions } = await (await fetch("/api/dashboard/sessions")).json();
        return sessions.filter((one) => one.current).map((one) => one.id);
    });
    check("this browser is known", browser, await stage.sessions());
    await stage.api("DELETE", `/api/dashboard/sessions/${browser}`);
    await nav(other, "Cost").click();
    check("a browser that was signed out is told so", await isSignedOut(other, SOON), await textOf(other));
}

// A turn goes on when its page is left, and is shown by the page that comes back.
async function onward(stage, browsers) {
    stage.teach("slow and steady", { say: "I took my time.", delay_ms: 3_000 });
    const page = await browsers.page("/dashboard");
    await mark(page);
    await page.locator(`#agent-${HELPER} .actions a.button:text-is("Chat")`).click();
    await until(SECONDS, () => page.locator("#compose").count());
    await page.locator("#compose").fill("slow and steady, please");
    await page.keyboard.press("Enter");
    await until(SECONDS, () => page.locator("#session-state button").count());
    await nav(page, "Team").click();
    await inPlace(page, "away from a chat", "/dashboard", "Team");
    await page.goBack();
    check("the answer is shown after all", await reads(page, /I took my time\./, SOON), await textOf(page));
    check("without a reload", await isMarked(page));
}

// Pages that were left keep no connection: a browser opens six at most.
async function left(stage, browsers) {
    stage.teach("stay with it", { say: "I stayed.", delay_ms: 8_000 });
    const page = await browsers.page("/dashboard");
    await mark(page);
    for (let round = 0; round < 7; round += 1) {
        await page.locator(`#agent-${HELPER} .actions a.button:text-is("Chat")`).click();
        await until(SECONDS, () => page.locator("#compose").count());
        await page.locator("#compose").fill(`stay with it, ${round}`);
        const asked = page.waitForRequest("**/v1/chat/completions");
        await page.keyboard.press("Enter");
        await asked;
        await nav(page, "Team").click();
        await until(SECONDS, async () => (await heading(page)) === "Team");
    }
    const begun = Date.now();
    await nav(page, "Cost").click();
    await inPlace(page, "after seven chats", "/dashboard/cost", "Cost");
    check("pages come as fast as before", Date.now() - begun < 5_000, Date.now() - begun);
    const key = `agent:${HELPER}:`;
    const { sessions } = parsed((await stage.api("GET", "/api/sessions")).text);
    for (const { key: name } of sessions.filter((one) => one.key.startsWith(key))) {
        await stage.api("POST", `/api/sessions/${encodeURIComponent(name)}/stop`);
    }
}
