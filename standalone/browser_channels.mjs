// The pages of channels: the list, and reading and writing in one.
import { SECONDS, SOON, check, must, same, until } from "./browser_checking.mjs";
import { HELPER } from "./browser_stage.mjs";
import { isMarked, mark, reads, textOf, visit } from "./browser_window.mjs";

// The messages that a page shows: number, author and text.
export function shown(page) {
    return page.locator("#messages article[data-seq]").evaluateAll((articles) =>
        articles.map((one) => ({
            seq: Number(one.dataset.seq),
            author: one.querySelector('[data-field="author"]')?.textContent.trim(),
            text: one.querySelector('[data-field="text"]')?.textContent.trim(),
        })),
    );
}

export const box = (page) => page.getByRole("textbox", { name: "Message", exact: true });
export const send = (page) => page.getByRole("button", { name: "Send", exact: true });

// Writes as a person does.
export async function write(page, text) {
    await box(page).fill(text);
    await send(page).click();
}

// Waits until a page shows a text, and gives the messages that have it.
export async function arrives(page, text, limit = SECONDS) {
    const found = async () => (await shown(page)).filter((one) => one.text?.includes(text));
    await until(limit, async () => (await found()).length);
    return found();
}

const seqs = (messages) => messages.map((one) => one.seq);

export async function channels(stage, browsers) {
    const page = await browsers.page("/dashboard/channels");
    for (const id of ["work", "lobby"]) {
        check(
            `#${id} is in the list`,
            await until(SECONDS, () => page.locator(`main a[href="/dashboard/channels/${id}"]`).count()),
            await textOf(page),
        );
    }
    await mark(page);
    await stage.channel("fresh", "a topic that is new");
    const fresh = page.locator('main a[href="/dashboard/channels/fresh"]');
    check("a new channel comes into the list", await until(SECONDS, () => fresh.count()), await textOf(page));
    check("with its topic", await reads(page, /a topic that is new/, SECONDS), await textOf(page));
    check("without a reload", await isMarked(page));
    await fresh.first().click();
    check("its page has its topic", await reads(page, /a topic that is new/, SECONDS), await textOf(page));
    await talk(stage, browsers, page);
    await long(stage, browsers);
    await archived(stage, browsers);
    const missing = await visit(stage, page, "/dashboard/channels/nothing");
    check(
        "a channel that is not there is 404, as a page",
        missing.status() === 404 && (await page.locator("h1").count()) === 1,
        await textOf(page),
    );
}

// A message leads to the turn that wrote it, and the id of a request to that request.
async function doors(stage, page, answer) {
    const turn = await page.locator(`#m${answer?.seq} [data-field="turn"]`).getAttribute("href");
    const tab = await page.context().newPage();
    const log = await visit(stage, tab, turn ?? "/dashboard/nothing");
    check("a message leads to the log of its turn", log.status() === 200 && /\/turns\//.test(turn), [turn, await textOf(tab)]);
    const own = (await shown(page)).find((one) => one.author?.startsWith("human:"));
    check("one of a person does not", (await page.locator(`#m${own?.seq} [data-field="turn"]`).count()) === 0, own);
    const request = await stage.request("doors");
    await stage.post("fresh", `see ${request.id}, not r-zzzzzzz2`);
    const [message] = await arrives(page, "not r-zzzzzzz2");
    const links = page.locator(`#m${message?.seq} [data-field="text"] a`);
    same("only the id of a request that exists is a link", [request.id], await links.allInnerTexts());
    await visit(stage, tab, (await links.first().getAttribute("href")) ?? "/dashboard/nothing");
    const found = await tab.locator("[data-request]").evaluateAll((all) => all.map((one) => one.dataset.request));
    same("which leads to it", [request.id], found);
    await tab.close();
    await must("it is denied", "approvals", "deny", request.id);
}

// Reading and writing, in two browsers and on the command line.
async function talk(stage, browsers, page) {
    const other = await browsers.page("/dashboard/channels/fresh");
    const both = [page, other];
    await Promise.all(both.map(mark));
    const hello = "hello from the page\nwith two lines & <b>no markup</b>";
    await write(page, hello);
    for (const [name, one] of [
        ["it", page],
        ["the other browser", other],
    ]) {
        const [found, ...more] = await arrives(one, "hello from the page");
        check(`what a person sends is shown once: ${name}`, found && more.length === 0, await shown(one));
        check(`as written: ${name}`, found?.text.includes("with two lines & <b>no markup</b>"), found);
    }
    const last = (await stage.messages("fresh")).find((one) => one.content.startsWith("hello"));
    check("the channel has it byte for byte, from a person", last?.content === hello && last.author.startsWith("human:"), last);
    check(
        "the box is empty again",
        await until(SECONDS, async () => (await box(page).inputValue()) === ""),
        await box(page).inputValue(),
    );

    await box(other).fill("a draft of the other");
    await box(other).focus();
    await stage.post("fresh", "from the command line");
    for (const one of both)
        check("a message from elsewhere comes", (await arrives(one, "from the command line")).length === 1, await shown(one));
    const isFree = await page.getByRole("button", { name: "Send", exact: true }).evaluate((button) => {
        const { left, top, width, height } = button.getBoundingClientRect();
        return document.elementFromPoint(left + width / 2, top + height / 2) === button;
    });
    check("what is announced covers no button", isFree && /kim/.test(await page.locator("#announce").textContent()));
    const kept = await other.evaluate(() => [document.activeElement?.tagName, document.activeElement?.value]);
    check(
        "what a person is writing stays, and so does the focus",
        kept[0] === "TEXTAREA" && kept[1] === "a draft of the other",
        kept,
    );

    await write(page, `@${HELPER} how are you`);
    const [answer, ...twice] = await arrives(page, "I am well.", SOON);
    check("an agent's answer comes once, in its name", answer?.author.includes(HELPER) && twice.length === 0, await shown(page));

    await doors(stage, page, answer);
    const fetched = [];
    page.on("request", (request) => request.url().endsWith("-highlight.js") && fetched.push(request.url()));
    await stage.post("fresh", "```rust\nfn main() { /* <b>x</b> */ }\n```\n```strange<i>\ncode\n```");
    const isColoured = () => page.locator("#messages pre .hljs-keyword").allTextContents();
    check("code has colours", await until(SECONDS, async () => (await isColoured()).includes("fn")), await isColoured());
    const code = await page.locator("#messages pre code").allTextContents();
    same("and its text stays", ["fn main() { /* <b>x</b> */ }\n", "code\n"], code);
    check("what colours it is fetched only then", fetched.length === 1, fetched);

    const before = (await stage.messages("fresh")).length;
    await write(page, "   \n ");
    await write(page, "after the empty one");
    await arrives(page, "after the empty one");
    check(
        "nothing is sent of an empty box",
        (await stage.messages("fresh")).length === before + 1,
        await stage.messages("fresh"),
    );

    // Twice in quick succession, as people click.
    await box(page).fill("clicked twice");
    await send(page).dblclick();
    await stage.post("fresh", "behind the clicks");
    await arrives(page, "behind the clicks");
    const clicked = (await stage.messages("fresh")).filter((one) => one.content === "clicked twice");
    check("a double click sends once", clicked.length === 1, clicked);

    await unanswered(stage, page);
    await must("another topic", "channel", "topic", "fresh", "the topic was changed");
    check("a new topic comes", await reads(page, /the topic was changed/, SECONDS), await textOf(page));
    const wanted = seqs(await stage.messages("fresh"));
    for (const one of both) {
        await until(SECONDS, async () => (await shown(one)).length === wanted.length);
        same("a page has every message once, in order", wanted, seqs(await shown(one)));
    }
    check("no page was loaded again", (await Promise.all(both.map(isMarked))).every(Boolean));
}

// The message arrives, its answer does not, and the person sends it again.
async function unanswered(stage, page) {
    let isLost = false;
    await page.route("**/api/channels/fresh/messages", async (route) => {
        if (isLost || route.request().method() !== "POST") return route.continue();
        isLost = true;
        await route.fetch();
        return route.abort("connectionreset");
    });
    await write(page, "its answer is lost");
    await until(SECONDS, () => isLost);
    await until(SECONDS, async () => (await send(page).isEnabled()) || (await box(page).inputValue()) === "");
    // The text is in the box still, or the page has noticed by itself that it arrived.
    if ((await box(page).inputValue()) !== "") await send(page).click();
    await stage.post("fresh", "behind the lost answer");
    await arrives(page, "behind the lost answer");
    await until(SECONDS, async () => (await box(page).inputValue()) === "");
    const found = (await stage.messages("fresh")).filter((one) => one.content === "its answer is lost");
    check("a message whose answer was lost is there once, also if it is sent again", isLost && found.length === 1, found);
    await page.unroute("**/api/channels/fresh/messages");
}

// A channel with more than a page shows at first.
async function long(stage, browsers) {
    await stage.channel("long");
    for (let number = 1; number <= 120; number += 1) {
        await stage.api("POST", "/api/channels/long/messages", { content: `line ${number}`, as: "kim", notify: false });
    }
    const page = await browsers.page("/dashboard/channels/long");
    const [newest] = await arrives(page, "line 120");
    check("the newest message of a long channel is there", newest, (await shown(page)).slice(-3));
    const wanted = seqs(await stage.messages("long"));
    const found = seqs(await shown(page));
    same("without a gap before it", wanted.slice(-found.length), found);
    check(
        "and a person sees it without scrolling",
        await until(SECONDS, () =>
            page
                .locator(`#messages article[data-seq="${newest?.seq}"]`)
                .evaluate((one) => one.getBoundingClientRect().top < innerHeight && one.getBoundingClientRect().bottom > 0),
        ),
    );
    await stage.post("long", "one more");
    await arrives(page, "one more");
    check(
        "the next one is in view as well",
        await until(SECONDS, () =>
            page
                .locator("#messages article[data-seq]")
                .last()
                .evaluate((one) => one.getBoundingClientRect().top < innerHeight && one.getBoundingClientRect().bottom > 0),
        ),
    );
}

// A channel that is closed.
async function archived(stage, browsers) {
    await stage.channel("closed");
    const page = await browsers.page("/dashboard/channels/closed");
    await must("a channel is archived", "channel", "archive", "closed", "--force");
    // The button may go between the two looks, and a look at one that is gone would wait for it.
    const isEnabled = () => send(page).isEnabled({ timeout: 500 }).catch(() => false);
    const isClosed = async () => (await send(page).count()) === 0 || !(await isEnabled());
    check("nobody can write there then", await until(SECONDS, isClosed), await textOf(page));
    check("and the page says why", await reads(page, /archived/i, SECONDS), await textOf(page));
}
