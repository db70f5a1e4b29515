// The page of a session: talking with an agent, stopping its turn, and what it did, call by call.
import { SECONDS, SOON, ask, check, same, until } from "./browser_checking.mjs";
import { violations } from "./browser_access.mjs";
import { RTL, harmless, ran } from "./browser_hostile.mjs";
import { HELPER } from "./browser_stage.mjs";
import { stateOf } from "./browser_team.mjs";
import { isMarked, mark, reads, textOf, visit } from "./browser_window.mjs";

// The number of turns that a page has at first.
const FIRST = 20;
const NOTE = "Nothing was said here yet.";
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

export const sessionPage = (key) => `/dashboard/sessions/${encodeURIComponent(key)}`;

const field = (page) => page.getByRole("textbox", { name: `Message to ${HELPER}`, exact: true });
const stopButton = (page) => page.getByRole("button", { name: "Stop", exact: true });

// The turns that a page shows: id, state, the text of the footer, and the messages with their sides.
function turns(page) {
    return page.locator("#turns > article[data-turn]").evaluateAll((articles) =>
        articles.map((one) => ({
            id: one.dataset.turn,
            state: one.dataset.state,
            end: one.querySelector("footer")?.textContent.trim(),
            said: [...one.querySelectorAll(":scope > .message")].map((message) => [
                message.classList.contains("by-human") ? "person" : "agent",
                message.querySelector(".text").textContent.trim(),
            ]),
        })),
    );
}

// How often each side is shown with this text.
async function times(page, side, text) {
    return (await turns(page)).flatMap((one) => one.said).filter(([by, said]) => by === side && said === text).length;
}

const isAnswering = (page) => page.locator("#answering").isVisible();

// Waits until the newest turn that a page shows has ended and begins with this text of the person's; the turn.
function ended(page, text, limit = SOON) {
    return until(limit, async () => {
        const last = (await turns(page)).at(-1);
        return last?.said[0]?.[1] === text && last.state !== "started" && !(await isAnswering(page)) && last;
    });
}

async function say(page, text) {
    await field(page).fill(text);
    await field(page).press("Enter");
}

// A turn without a browser.
function turn(stage, key, content) {
    return ask(stage.port, "POST", "/v1/chat/completions", {
        headers: { Authorization: `Bearer ${stage.token}`, "X-OpenClaw-Session-Key": key },
        body: { model: HELPER, messages: [{ role: "user", content }] },
    });
}

const transcript = async (stage, key) =>
    (await stage.api("GET", `/api/sessions/${encodeURIComponent(key)}/transcript?limit=100`)).data.turns ?? [];

export async function chat(stage, browsers) {
    const page = await browsers.page();
    await page.locator(`[data-agent="${HELPER}"]`).getByRole("link", { name: "Chat", exact: true }).click();
    await field(page).waitFor();
    const person = await page.locator('meta[name="person"]').getAttribute("content");
    const key = `agent:${HELPER}:flock:main:${person}`;
    check("Team leads to one's own session with the agent", page.url() === stage.origin + sessionPage(key), page.url());
    const other = await browsers.page(sessionPage(key));
    const both = [page, other];
    await Promise.all(both.map(mark));
    await first(page, other);
    await slowly(stage, page);
    await stopped(stage, browsers, page, other, key);
    await called(stage, page);
    await meter(stage, page, key);
    await inside(stage, browsers, page, key);
    await hostileTurn(stage, browsers, page, key);
    check("no page was loaded again", (await Promise.all(both.map(isMarked))).every(Boolean));
    await earlier(stage, browsers, key);
    await ofOthers(stage, browsers);
}

// The first messages, by both ways of sending.
async function first(page, other) {
    check("the page of a new session says that it is empty", await reads(page, new RegExp(NOTE), SECONDS), await textOf(page));
    await say(page, "how are you");
    check("a message is sent by Enter, and answered", await ended(page, "how are you"), await turns(page));
    const both = async (one) => [await times(one, "person", "how are you"), await times(one, "agent", "I am well.")];
    same("message and answer are there once", [1, 1], await both(page));
    check("the box is empty again", (await field(page).inputValue()) === "", await field(page).inputValue());
    check("the other browser shows them", await ended(other, "how are you", SECONDS), await turns(other));
    for (const [name, one] of [
        ["the page", page],
        ["the other browser", other],
    ]) {
        const isGone = await until(SECONDS, async () => !(await textOf(one)).includes(NOTE));
        check(`the note of the empty session goes away: ${name}`, isGone, await textOf(one));
    }
    await page.reload({ waitUntil: "domcontentloaded" });
    await mark(page);
    same("and once after a reload", [1, 1], await both(page));

    await field(page).fill("how are you by the button");
    await page.getByRole("button", { name: "Send", exact: true }).click();
    const done = await ended(page, "how are you by the button");
    check("a message is sent by the button, and answered", done?.said.at(-1)[1] === "I am well.", await turns(page));
    const before = (await turns(page)).length;
    await field(page).fill("two lines");
    await field(page).press("Shift+Enter");
    await field(page).pressSequentially("how are you");
    check("Shift and Enter begin a line", (await field(page).inputValue()) === "two lines\nhow are you");
    check("and send nothing", (await turns(page)).length === before, await turns(page));
    await field(page).press("Enter");
    const lines = await until(SOON, async () => {
        const last = (await turns(page)).at(-1);
        return /two lines\s+how are you/.test(last?.said[0]?.[1]) && last.state === "done";
    });
    check("both lines are sent as one message", lines && (await turns(page)).length === before + 1, await turns(page));
    await field(page).fill("  \n ");
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await say(page, "how are you in the end");
    await ended(page, "how are you in the end");
    check("nothing is sent of an empty box", (await turns(page)).length === before + 2, await turns(page));
}

// An answer whose words come one by one.
async function slowly(stage, page) {
    const words = Array.from({ length: 40 }, (_, number) => `word${number}`).join(" ");
    stage.teach("word by word", { say: words, pace_ms: 150 });
    await say(page, "word by word");
    const box = page.locator("#answering [data-answer]");
    const begun = await until(SECONDS, async () => {
        const text = (await isAnswering(page)) && ((await box.textContent()) ?? "");
        return text?.startsWith("word0") && text;
    });
    check("an answer is shown as it comes", begun && !begun.includes("word39"), begun);
    const done = await ended(page, "word by word");
    check("in the end all of it, once", done?.said.length === 2 && done.said[1][1] === words, done);
}

// A turn that would take an hour.
async function stopped(stage, browsers, page, other, key) {
    const team = await browsers.page();
    const request = "please work for an hour";
    await say(page, request);
    const doing = page.locator("#answering [data-doing]");
    const isWorking = async () => (await doing.isVisible()) && /working/i.test(await doing.textContent());
    check("the page says that the agent works", await until(SECONDS, isWorking), await textOf(page));
    for (const [name, one] of [
        ["the page", page],
        ["the other browser", other],
    ]) {
        const shown = async () => {
            const last = (await turns(one)).at(-1);
            return last?.said[0]?.[1] === request && last.state === "started" && /working/i.test(last.end);
        };
        check(`the turn is shown as working: ${name}`, await until(SECONDS, shown), await turns(one));
        check(`with a button that stops it: ${name}`, await until(SECONDS, () => stopButton(one).isVisible()), await textOf(one));
    }
    const isBusy = async () => /working/i.test(await stateOf(team, HELPER));
    check("Team shows the agent as working", await until(SECONDS, isBusy), await textOf(team));
    const link = team.locator(`[data-agent="${HELPER}"]`).getByRole("link", { name: `in ${key}`, exact: true });
    check("in this session", await until(SECONDS, () => link.count()), await textOf(team));
    check("to which it leads", (await link.getAttribute("href")) === sessionPage(key), await link.getAttribute("href"));

    await stopButton(page).click();
    for (const [name, one] of [
        ["the page", page],
        ["the other browser", other],
    ]) {
        const shown = async () => {
            const it = (await turns(one)).find((each) => each.said[0]?.[1] === request);
            return it?.state === "cancelled" && /stopped/i.test(it.end);
        };
        check(`the turn is shown as stopped: ${name}`, await until(SECONDS, shown), await turns(one));
        const isGone = async () => (await stopButton(one).count()) === 0;
        check(`and the button is gone: ${name}`, await until(SECONDS, isGone), await textOf(one));
    }
    check("nothing is shown as working", await until(SECONDS, async () => !(await isAnswering(page))), await textOf(page));
    const kept = (await transcript(stage, key)).filter((one) => one.items[0]?.text === request);
    check("the gateway has it as cancelled, once", kept.length === 1 && kept[0].state === "cancelled", kept);
    check("Team shows the agent as idle", await until(SECONDS, async () => /idle/i.test(await stateOf(team, HELPER))));
    const value = await field(page).inputValue();
    check("what was sent does not come back into the box", value === "", value);
    await field(page).fill("");
    await waiting(stage, page, key);
    await say(page, "how are you after it");
    check("the next message is answered", (await ended(page, "how are you after it"))?.state === "done", await turns(page));
}

// A message behind a turn that is stopped.
async function waiting(stage, page, key) {
    const [long, behind] = ["work for an hour again", "how are you behind it"];
    await say(page, long);
    const runs = async () => (await turns(page)).some((one) => one.said[0]?.[1] === long && one.state === "started");
    await until(SECONDS, runs);
    await say(page, behind);
    const isTold = () => until(SECONDS, async () => (await textOf(page)).includes("1 waiting"));
    check("a message behind a turn waits, and the page says so", await isTold(), await textOf(page));
    await stopButton(page).click();
    const isOver = async () => !(await isAnswering(page)) && (await stopButton(page).count()) === 0;
    check("both are stopped", await until(SECONDS, isOver), await textOf(page));
    const isKept = async () =>
        (await field(page).inputValue()) === behind ||
        (await transcript(stage, key)).some((one) => one.items[0]?.text === behind);
    const seen = [await field(page).inputValue(), (await transcript(stage, key)).slice(-2)];
    check("what waited is not lost: it is in the session, or in the box again", await until(SECONDS, isKept), seen);
    await field(page).fill("");
}

// A tool call, folded.
async function called(stage, page) {
    const given = { channelId: "work", message: "posted by a tool" };
    stage.teach("post it", { calls: [{ name: "flock_channel_post", arguments: given }] }, { say: "It is posted." });
    await say(page, "post it");
    const done = await ended(page, "post it");
    check("a turn with a call is answered", done?.said.at(-1)[1] === "It is posted.", done);
    const call = page.locator(`#t${done?.id} details.call`);
    check("the call is there once", (await call.count()) === 1, await page.locator("#turns").innerHTML());
    const summary = await call.locator("summary").innerText();
    check("folded, with its tool", !(await call.evaluate((one) => one.open)) && summary.includes("flock_channel_post"), summary);
    check("its content is not seen", !(await call.locator("pre.result").isVisible()));
    await call.locator("summary").press("Enter");
    const read = async (selector) => (await call.locator(selector).isVisible()) && (await call.locator(selector).innerText());
    const shown = JSON.parse((await read("pre:not(.result)")) || "null");
    check("opened by the keyboard, it shows the arguments", JSON.stringify(shown) === JSON.stringify(given), shown);
    const result = await read("pre.result");
    const [posted] = (await stage.messages("work")).filter((one) => one.content === given.message);
    check("and the result", posted && String(result).includes(`posted to #work as seq ${posted.seq}`), [result, posted]);
    await say(page, "how are you after the call");
    await ended(page, "how are you after the call");
    check("it stays open when a turn comes", await call.evaluate((one) => one.open));

    stage.teach("fail at it", { calls: [{ name: "read", arguments: { path: "nothing.txt" } }] }, { say: "It failed." });
    await say(page, "fail at it");
    const failing = await ended(page, "fail at it");
    const text = await page.locator(`#t${failing?.id} details.call summary`).innerText();
    check("a call that failed says so while it is folded", /read/.test(text) && /failed/i.test(text), text);

    const edit = { path: "poem.txt", oldText: "red\nblue", newText: "green\nblue" };
    const write = { path: "poem.txt", content: "red\nblue\n" };
    stage.teach(
        "edit it",
        { calls: [{ name: "write", arguments: write }] },
        { calls: [{ name: "edit", arguments: edit }] },
        { say: "It is edited." },
    );
    await say(page, "edit it");
    const edited = await ended(page, "edit it");
    const lines = await page.locator(`#t${edited?.id} pre.diff span`).allTextContents();
    const [removed, added] = ["- red", "+ green"].map((line) => lines.some((one) => one.trim() === line));
    check("an edit is shown as the lines that change", removed && added, lines);
}

// How full the context is.
async function meter(stage, page, key) {
    const shown = () =>
        page.locator("#context meter").evaluateAll((all) => all.map((one) => [one.value, one.max, one.labels.length]));
    const report = (await stage.api("GET", `/api/sessions/${encodeURIComponent(key)}`)).data;
    const wanted = JSON.stringify([[report.conversation, report.room, 1]]);
    const isRight = await until(SECONDS, async () => JSON.stringify(await shown()) === wanted);
    check("the meter says how full the context is, with a label", report.conversation > 0 && isRight, [await shown(), report]);
    const text = await page.locator("#context .meter").innerText();
    const numbers = [report.conversation, report.room].map((one) => one.toLocaleString("en-US")).join(" / ");
    check("also in words", text.includes(numbers), [text, numbers]);
}

// What the next request holds, and the log of a turn.
async function inside(stage, browsers, page, key) {
    const one = await browsers.page(sessionPage(key));
    await one.getByRole("link", { name: "What it holds", exact: true }).click();
    await one.waitForURL(`${stage.origin}${sessionPage(key)}/context`);
    const prompt = (await stage.api("GET", `/api/sessions/${encodeURIComponent(key)}/prompt`)).data;
    const names = await one.locator("#prompt summary strong").allInnerTexts();
    same("the page of the context has the sections of the prompt", prompt.sections.map((section) => section.name), names);
    const text = await one.locator("#prompt pre").first().evaluate((pre) => pre.textContent);
    check("with their texts", text.trim() === prompt.sections[0].text.trim(), [text, prompt.sections[0].text]);
    await visit(stage, one, sessionPage(key));
    const turnOf = one.locator("article.turn").filter({ hasText: "edit it" }).last();
    await turnOf.getByRole("link", { name: "Log of the turn" }).click();
    await one.waitForURL(/\/turns\//);
    const log = await one.locator("#trace").innerText();
    check("a turn has a page with its log", log.split("\n").some((line) => line.includes("edit")), log);
    const answer = await visit(stage, one, `${sessionPage(key)}/turns/00000000-0000-7000-8000-000000000000`);
    check("a turn that is not there has none", answer.status() === 404, answer.status());

    stage.teach(
        "patch it",
        { calls: [{ name: "apply_patch", arguments: { input: "*** Begin Patch\n*** Add File: patched.txt\n+new line\n*** End Patch" } }] },
        { say: "Patched." },
    );
    await say(page, "patch it");
    const patched = await ended(page, "patch it");
    const added = await page.locator(`#t${patched?.id} pre.diff .added`).allTextContents();
    same("a patch is shown by its lines", ["+new line"], added.map((line) => line.trim()));
}

// What the agent thinks, calls, gets and says is hostile.
async function hostileTurn(stage, browsers, page, key) {
    const evil = (name) =>
        `${name} \u001b[31mred \u001b]0;title\u0007 \u0008\u009b31m ${RTL}gnp.exe \u2066x\u2028y ` +
        `</pre></details></article><script>${ran(name)}</script><img src=x onerror="${ran(name)}">`;
    stage.teach(
        "be hostile",
        { think: evil("thought"), calls: [{ name: "write", arguments: { path: "evil.txt", content: evil("argument") } }] },
        { calls: [{ name: "read", arguments: { path: "evil.txt" } }] },
        { calls: [{ name: "read", arguments: { path: evil("path") } }] },
        { calls: [{ name: "edit", arguments: { path: "evil.txt", oldText: evil("old"), newText: evil("new") } }] },
        { calls: [{ name: evil("tool").slice(0, 60), arguments: evil("broken") }] },
        { say: `said ${evil("answer")}` },
    );
    const request = `be hostile ${evil("request")}`;
    await say(page, request);
    const done = await until(SOON, async () => {
        const last = (await turns(page)).at(-1);
        return last?.said[0]?.[1].startsWith("be hostile") && last.state !== "started" && !(await isAnswering(page)) && last;
    });
    check("a hostile turn is done", done?.state === "done" && done.said.at(-1)[1].startsWith("said answer"), done);
    const again = await browsers.page(sessionPage(key));
    const stored = (await transcript(stage, key)).at(-1)?.items ?? [];
    const raw = stored.find((one) => one.tool === "read")?.result?.text ?? "";
    check("its result really is hostile", raw.includes("\u001b[31m") && raw.includes("<script>"), raw);
    for (const [name, one] of [
        ["as it came", page],
        ["loaded anew", again],
    ]) {
        await harmless(stage, one, `a hostile turn, ${name}`);
        const it = one.locator("#turns > article[data-turn]").last();
        const folded = await it.locator("details.call").evaluateAll((all) =>
            all.map((each) => ({
                summary: each.querySelector("summary").textContent,
                shown: [...each.querySelectorAll("pre")].map((pre) => pre.textContent),
            })),
        );
        check(`${name}: thinking and calls are there`, folded.length === 6, folded);
        const text = folded.flatMap((each) => [each.summary, ...each.shown]);
        const controls = text.flatMap((each) => each.match(CONTROLS) ?? []).map((sign) => sign.codePointAt(0).toString(16));
        check(`${name}: no control characters in them`, text.length > 0 && controls.length === 0, controls);
        for (const word of ["thought", "argument"]) {
            const found = text.filter((each) => each.includes(`${word} `) && each.includes("\\u{1b}[31mred"));
            // In the arguments JSON has its own spelling.
            const isSpelled = found.length > 0 || text.some((each) => each.includes(`${word} \\u001b[31mred`));
            check(`${name}: they are spelled out: ${word}`, isSpelled, text);
        }
        const messages = await it.locator(":scope > .message .text").evaluateAll((all) =>
            all.flatMap((each) => {
                const controls = each.textContent.match(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g) ?? [];
                const isHeld = /isolate|plaintext/.test(getComputedStyle(each).unicodeBidi);
                const turned = /[\u202a-\u202e\u2066-\u2069]/.test(each.textContent) && !isHeld;
                return [...controls.map((sign) => sign.charCodeAt(0)), ...(turned ? ["turns round what follows"] : [])];
            }),
        );
        check(`${name}: no sign controls how the messages are shown`, messages.length === 0, messages);
        await it.locator("details.call").evaluateAll((all) => {
            for (const each of all) each.open = true;
        });
        for (const width of [320, 1280]) {
            await one.setViewportSize({ width, height: 800 });
            const wide = await one.evaluate(() => document.scrollingElement.scrollWidth);
            check(`${name}: it fits ${width} px with everything open`, wide <= width, wide);
        }
        for (const colorScheme of ["light", "dark"]) {
            await one.emulateMedia({ colorScheme });
            check(`${name}, ${colorScheme}: nothing for axe`, ...(await violations(one)));
        }
    }
}

// More turns than a page shows at first.
async function earlier(stage, browsers, key) {
    const wrong = [];
    for (let number = 1; number <= 45; number += 1) {
        const answer = await turn(stage, key, `how are you, number ${number}?`);
        if (answer.status !== 200) wrong.push(answer);
    }
    check("many turns are had", wrong.length === 0, wrong.slice(0, 2));
    const wanted = (await transcript(stage, key)).map((one) => one.turn);
    const page = await browsers.page(sessionPage(key));
    await mark(page);
    const ids = async () => (await turns(page)).map((one) => one.id);
    same("the newest turns are there", wanted.slice(-FIRST), await ids());
    const last = page.locator("#turns > article[data-turn]").last();
    const isSeen = () =>
        last.evaluate((one) => {
            const part = document.getElementById("conversation").getBoundingClientRect();
            const place = one.getBoundingClientRect();
            return place.bottom > part.top && place.bottom <= part.bottom + 1;
        });
    check("and the last of them is in view", await until(SECONDS, isSeen));
    const link = page.getByRole("link", { name: "Earlier messages", exact: true });
    await link.click();
    check("earlier ones come", await until(SECONDS, async () => (await ids()).length > FIRST), await ids());
    same("before them, in their order", wanted.slice(-2 * FIRST), await ids());
    await say(page, "how are you now?");
    await ended(page, "how are you now?");
    const all = (await transcript(stage, key)).map((one) => one.turn);
    same("they stay when a turn comes", all.slice(-2 * FIRST - 1), await ids());
    await turn(stage, key, "how are you from elsewhere?");
    await ended(page, "how are you from elsewhere?", SECONDS);
    same(
        "also when one comes from elsewhere",
        (await transcript(stage, key)).map((one) => one.turn).slice(-2 * FIRST - 2),
        await ids(),
    );
    for (let step = 0; step < 10 && (await link.count()) > 0; step += 1) {
        const before = (await ids()).length;
        await link.click();
        await until(SECONDS, async () => (await ids()).length > before || (await link.count()) === 0);
    }
    same(
        "in the end all of them are there",
        (await transcript(stage, key)).map((one) => one.turn),
        await ids(),
    );
    check("without a reload", await isMarked(page));
}

// Sessions that are not one's own.
async function ofOthers(stage, browsers) {
    await stage.tell("lobby", `@${HELPER} how are you`);
    const said = async () => (await stage.messages("lobby")).some((one) => one.content === "I am well.");
    check("the agent has a session of a channel", await until(SOON, said), await stage.messages("lobby"));
    await turn(stage, `agent:${HELPER}:flock:main:somebody`, "how are you");
    const page = await browsers.page("/dashboard/sessions");
    for (const key of [`agent:${HELPER}:flock:channel:lobby`, `agent:${HELPER}:flock:main:somebody`]) {
        await visit(stage, page, "/dashboard/sessions");
        await page.getByRole("link", { name: key, exact: true }).click();
        await page.waitForURL(stage.origin + sessionPage(key));
        check(`its turns are there: ${key}`, await until(SECONDS, async () => (await turns(page)).length), await textOf(page));
        const forms = await page.locator("main :is(form, textarea)").count();
        check(`but no form: ${key}`, (await page.locator("h1").count()) === 1 && forms === 0, forms);
    }
}
