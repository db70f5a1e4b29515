// The search in the messages of all channels, and the way from a result to its place.
import { SECONDS, check, same, until } from "./browser_checking.mjs";
import { violations } from "./browser_access.mjs";
import { send, shown } from "./browser_channels.mjs";
import { reads, textOf, visit } from "./browser_window.mjs";

const results = (page) =>
    page.locator("ol.results > li").evaluateAll((items) =>
        items.map((one) => ({
            place: one.querySelector("a").textContent.trim(),
            author: one.querySelector(".author").textContent.trim(),
            text: one.querySelector(".text").textContent.trim(),
        })),
    );

// Searches as a person does who is on another page.
async function find(page, words) {
    await page.locator("body").press("/");
    const field = page.getByRole("searchbox");
    await field.waitFor();
    if (!(await until(SECONDS, () => field.evaluate((one) => one === document.activeElement)))) return false;
    await field.fill(words);
    await field.press("Enter");
    return until(SECONDS, () => new URL(page.url()).searchParams.get("q") === words);
}

const seqs = async (page) => (await shown(page)).map((one) => one.seq);

export async function search(stage, browsers) {
    for (const id of ["burrow", "meadow"]) await stage.channel(id);
    // Enough before and behind it that neither end of the channel is on the page.
    const write = async (content) =>
        (await stage.api("POST", "/api/channels/burrow/messages", { content, as: "kim", notify: false })).data.seq;
    for (let number = 1; number <= 90; number += 1) await write(`line ${number}`);
    const seq = await write("a quokka sleeps here");
    for (let number = 1; number <= 130; number += 1) await write(`line ${number} behind it`);
    const near = await stage.post("meadow", "another Quokka eats **grass**", "ann");

    const page = await browsers.page("/dashboard/channels");
    check("/ leads to the search", await find(page, "quokka"), page.url());
    same(
        "the words are found in both channels, the newest first",
        [`#meadow ${near} human:ann`, `#burrow ${seq} human:kim`],
        (await results(page)).map((one) => `${one.place} ${one.author}`),
    );
    check("the page says how many", /Found: 2\b/.test(await textOf(page)), await textOf(page));
    check("the messages are readable", (await results(page))[0]?.text === "another Quokka eats grass", await results(page));
    check("the words stay in the field", (await page.getByRole("searchbox").inputValue()) === "quokka");
    check("nothing for axe", ...(await violations(page)));
    await jump(stage, page, seq);

    await visit(stage, page, "/dashboard/search/messages?q=quokka+grass");
    same(
        "all words have to be there",
        [`#meadow ${near}`],
        (await results(page)).map((one) => one.place),
    );
    await nothing(stage, page);
}

// From a result to the message, and on from there.
async function jump(stage, page, seq) {
    await page.getByRole("link", { name: `#burrow ${seq}`, exact: true }).click();
    await page.waitForURL((url) => url.pathname === "/dashboard/channels/burrow");
    const target = page.locator("#messages article:target");
    check("the link leads to the message", await until(SECONDS, () => target.count()), page.url());
    check("which is the one", (await target.getAttribute("data-seq")) === String(seq) && /quokka/.test(await target.innerText()));
    const isSeen = () =>
        target.evaluate((one) => {
            const part = document.getElementById("conversation").getBoundingClientRect();
            const place = one.getBoundingClientRect();
            return place.top >= part.top - 1 && place.bottom <= part.bottom + 1 && place.bottom <= innerHeight;
        });
    check("it is in view", await until(SECONDS, isSeen), await target.evaluate((one) => one.getBoundingClientRect()));
    const around = await seqs(page);
    check("with what was said before and after it", around[0] < seq && around.at(-1) > seq, around);
    same(
        "without a gap",
        Array.from(around, (_, at) => around[0] + at),
        around,
    );

    const wanted = (await stage.messages("burrow")).map((one) => one.seq);
    const all = [...around];
    const later = page.getByRole("link", { name: "Later messages", exact: true });
    check("later messages can be reached", await later.count(), await textOf(page));
    for (let step = 0; step < 10 && (await later.count()) > 0; step += 1) {
        const before = page.url();
        await later.click();
        await page.waitForURL((url) => url.href !== before);
        await until(SECONDS, async () => (await shown(page)).length);
        all.push(...(await seqs(page)));
    }
    same("up to the newest, each once", wanted.slice(wanted.indexOf(around[0])), all);
    await visit(stage, page, `/dashboard/channels/burrow?around=${seq}#m${seq}`);
    const earlier = page.getByRole("link", { name: "Earlier messages", exact: true });
    for (let step = 0; step < 10 && (await earlier.count()) > 0; step += 1) {
        const before = (await shown(page)).length;
        await earlier.click();
        await until(SECONDS, async () => (await shown(page)).length > before || (await earlier.count()) === 0);
    }
    same("and earlier ones, down to the first", wanted.slice(0, wanted.indexOf(around.at(-1)) + 1), await seqs(page));
    // What is new is not put behind an old place as if nothing were between.
    const newest = await stage.post("burrow", "this is new");
    await visit(stage, page, `/dashboard/channels/burrow?around=${seq}#m${seq}`);
    const before = await seqs(page);
    const another = await stage.post("burrow", "this is newer");
    await page.getByRole("link", { name: "Jump to the newest message", exact: true }).waitFor();
    same("an old place stays as it is when a message comes", before, await seqs(page));
    await page.getByRole("link", { name: "Jump to the newest message", exact: true }).click();
    await until(SECONDS, async () => (await seqs(page)).at(-1) === another);
    same("one link leads to the newest", [newest, another], (await seqs(page)).slice(-2));
    check("where one can write", await send(page).isVisible(), await textOf(page));
}

// Words that are not there, and words that are no words.
async function nothing(stage, page) {
    await visit(stage, page, "/dashboard/search/messages?q=wombat");
    check("nothing found says so", await reads(page, /Found: 0\b/, SECONDS), await textOf(page));
    check("and shows nothing", (await results(page)).length === 0, await results(page));
    await visit(stage, page, "/dashboard/search/messages?q=");
    check("no words, no answer", !/Found/.test(await textOf(page)) && (await results(page)).length === 0, await textOf(page));
    for (const words of [
        '"',
        "quokka AND",
        "quok*",
        "NEAR(",
        "content:quokka",
        "-quokka",
        "'; DROP TABLE x",
        "%",
        "\\",
        "x".repeat(2_000),
    ]) {
        const answer = await visit(stage, page, `/dashboard/search/messages?q=${encodeURIComponent(words)}`);
        const kept = await page.getByRole("searchbox").inputValue();
        check(`it is no command: ${words.slice(0, 20)}`, answer.status() === 200 && kept === words, [answer.status(), kept]);
    }
    const markup = '"><script>window.ran=1</script><b>';
    await visit(stage, page, `/dashboard/search/messages?q=${encodeURIComponent(markup)}`);
    const field = page.getByRole("searchbox");
    const isTame = (await field.inputValue()) === markup && !(await page.evaluate(() => "ran" in window));
    check("nor is it markup", isTame, await page.content());
}
