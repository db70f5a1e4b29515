// The search through memory, findings, sessions, vaults and channels: filters, the ways to the places, hostile texts.
import fs from "node:fs";
import path from "node:path";
import { HOME, SECONDS, check, must, same, until } from "./browser_checking.mjs";
import { violations } from "./browser_access.mjs";
import { ran } from "./browser_hostile.mjs";
import { ASKER, HELPER } from "./browser_stage.mjs";
import { enter, reads, textOf, visit } from "./browser_window.mjs";

const MARKUP = `<script>${ran("search")}</script><img src=x onerror="${ran("search")}">`;
const SIGNS = "\u202egnp.exe\u001b[31m";
// A file's name that is markup, and one that is a long way off.
const NAMED = `<img src=x onerror=${ran("name")}>.md`;

function write(file, text) {
    const target = path.join(HOME, file);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    fs.writeFileSync(target, text);
}

// Something in every kind of place, each with the word `okapi` and a word of its own.
async function fill(stage) {
    const long = Array.from({ length: 1_000 }, (_, at) => (at === 699 ? "here an okapi hides: faraway" : `line ${at + 1} of a long file`));
    write(`workspaces/${HELPER}/MEMORY.md`, `# Notes\n\nThe okapi eats leaves: memoword ${MARKUP} ${SIGNS}\n`);
    write(`workspaces/${HELPER}/memory/${NAMED}`, "an okapi in a file with a strange name: nameword\n");
    write(`workspaces/${HELPER}/memory/long.md`, long.join("\n"));
    write(`workspaces/${HELPER}/deliverables/findings/main/finding_1.md`, "an okapi was found: findword sk-0123456789abcdef0123\n");
    write(`workspaces/${ASKER}/MEMORY.md`, "the asker knows an okapi as well: otherword\n");
    write("vaults/zoo/animals.md", "the okapi of the vault: vaultword\n");
    await stage.channel("okapis");
    const seq = await stage.post("okapis", "an okapi was seen: postword");
    stage.learn("tell me of the okapi", "The okapi is shy: saidword.");
    await must("the helper talks", "chat", HELPER, "tell me of the okapi");
    return seq;
}

const results = (page) =>
    page.locator("ol.results > li").evaluateAll((items) =>
        items.map((one) => ({ area: one.dataset.in, place: one.querySelector("a").textContent, text: one.querySelector(".text").textContent })),
    );
const areas = async (page) => [...new Set((await results(page)).map((one) => one.area))].sort();
const has = async (page, word) => (await results(page)).some((one) => one.text.includes(word));
const box = (page, name) => page.getByRole("checkbox", { name, exact: true });
const found = (page, words) => visit(page.stage, page, `/dashboard/search?${words}`);

export async function everywhere(stage, browsers) {
    const seq = await fill(stage);
    const page = await browsers.page();
    page.stage = stage;
    await page.locator("body").press("g");
    await page.keyboard.press("f");
    await page.waitForURL((url) => url.pathname === "/dashboard/search");
    check("without words there is no answer", !/Found/.test(await textOf(page)));
    check("all places are chosen", (await page.getByRole("checkbox", { checked: true }).count()) === 5);
    await page.keyboard.press("/");
    check("/ leads into the field", await page.locator("#search").evaluate((one) => one === document.activeElement));
    await page.keyboard.type("okapi");
    await page.keyboard.press("Enter");
    await until(SECONDS, async () => (await results(page)).length);
    same("every kind of place has a result", ["channels", "findings", "memory", "sessions", "vaults"], await areas(page));
    for (const word of ["memoword", "nameword", "faraway", "findword", "otherword", "vaultword", "postword", "saidword"])
        check(`${word} is among them`, await has(page, word), await results(page));
    check("a key is not", !(await page.content()).includes("sk-0123456789"), await results(page));
    const text = (await results(page)).find((one) => one.text.includes("memoword"))?.text ?? "";
    check("markup is text", text.includes(MARKUP) && (await page.locator("main img, main script").count()) === 0, text);
    check("signs that deceive are named", text.includes("\\u{202e}") && text.includes("\\u{1b}"), text);
    await fits(page, "the results");
    await filters(page);
    await places(stage, page, seq);
    await wrong(page);
    await many(page);
    await without(stage, browsers);
}

// Nothing for axe in both themes and at two widths, and nothing that is wider than a phone.
async function fits(page, name) {
    for (const colorScheme of ["light", "dark"]) {
        for (const width of [360, 1280]) {
            await page.emulateMedia({ colorScheme });
            await page.setViewportSize({ width, height: 800 });
            check(`${name}, ${colorScheme}, ${width} px: nothing for axe`, ...(await violations(page)));
        }
    }
    await page.setViewportSize({ width: 320, height: 800 });
    const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
    check(`${name}: it fits a width of 320 px`, width <= 320, width);
    await page.setViewportSize({ width: 1280, height: 800 });
}

async function filters(page) {
    for (const name of ["Memory of agents", "Findings", "Sessions", "Channels"]) await box(page, name).uncheck();
    await page.getByRole("search").getByRole("button", { name: "Search" }).click();
    await page.waitForURL((url) => url.searchParams.getAll("in").join() === "vaults");
    await until(SECONDS, async () => (await areas(page)).join() === "vaults");
    same("only the chosen place is searched", ["vaults"], await areas(page));
    check("the words stay", (await page.locator("#search").inputValue()) === "okapi");
    check("and so does the choice", (await box(page, "Vaults").isChecked()) && !(await box(page, "Sessions").isChecked()));
    await found(page, "q=okapi");
    await page.getByRole("combobox").selectOption(ASKER);
    await page.keyboard.press("Tab");
    await page.locator("#search").press("Enter");
    await page.waitForURL((url) => url.searchParams.get("agent") === ASKER);
    await until(SECONDS, () => has(page, "otherword"));
    check("as an agent, one finds what it may read", (await has(page, "otherword")) && (await has(page, "vaultword")), await results(page));
    const foreign = ["memoword", "findword", "saidword"];
    const isClosed = (await Promise.all(foreign.map((word) => has(page, word)))).every((one) => !one);
    check("and nothing of another agent", isClosed, await results(page));
}

// From a result to where it stands.
async function follow(page, area, word) {
    await found(page, "q=okapi");
    await page.locator(`ol.results > li[data-in="${area}"]`, { hasText: word }).locator("a").click();
    await page.waitForURL((url) => url.pathname !== "/dashboard/search");
}

async function inView(page, locator) {
    return until(SECONDS, () =>
        locator.evaluate((one) => {
            const place = one.getBoundingClientRect();
            return place.height > 0 && place.top >= 0 && place.top <= innerHeight - 10;
        }),
    );
}

async function places(stage, page, seq) {
    for (const [area, word, line] of [
        ["memory", "faraway", 700],
        ["memory", "memoword", 3],
        ["memory", "nameword", 1],
        ["findings", "findword", 1],
        ["vaults", "vaultword", 1],
    ]) {
        await follow(page, area, word);
        const row = page.locator("tr.found");
        check(`${word}: the file is shown`, (await row.count()) === 1 && (await row.innerText()).includes(word), await textOf(page));
        check(`${word}: at its line`, (await row.getAttribute("id")) === `l${line}` && (await inView(page, row)), page.url());
        check(`${word}: with nothing for axe`, ...(await violations(page)));
    }
    await follow(page, "memory", "memoword");
    const shown = await page.locator("tr.found").innerText();
    check("a file is only text", shown.includes(MARKUP) && (await page.locator("main img, main script").count()) === 0, shown);
    await fits(page, "a file");
    await follow(page, "memory", "nameword");
    check("so is its name", (await page.locator("h1").innerText()).includes(NAMED), await page.locator("h1").innerText());
    await follow(page, "findings", "findword");
    check("a key is not shown", /\[key\]/.test(await textOf(page)) && !(await page.content()).includes("sk-0123456789"));

    await follow(page, "memory", "faraway");
    const numbers = async () => (await page.locator("table.notes td.number").allInnerTexts()).map(Number);
    const first = await numbers();
    check("a page has a part of a long file", first.length === 300 && first[0] <= 700 && first.at(-1) >= 700, [first[0], first.at(-1)]);
    const all = [...first];
    for (const [name, at] of [["Earlier lines", 0], ["Later lines", -1]]) {
        await follow(page, "memory", "faraway");
        const link = page.getByRole("link", { name, exact: true });
        for (let step = 0; step < 5 && (await link.count()) > 0; step += 1) {
            const before = (await numbers()).at(at);
            await link.click();
            await until(SECONDS, async () => (await numbers()).at(at) !== before);
            all.push(...(await numbers()));
        }
    }
    same("and the rest of it is on others", Array.from({ length: 1_000 }, (_, at) => at + 1), [...new Set(all)].sort((a, b) => a - b));

    await follow(page, "sessions", "saidword");
    check("a session's result leads to its turn", /\/turns\//.test(page.url()) && (await reads(page, /saidword/, SECONDS)), page.url());
    await follow(page, "channels", "postword");
    const target = page.locator("#messages article:target");
    check("a message's to the message", await until(SECONDS, () => target.count()), page.url());
    check("which is the one", (await target.getAttribute("data-seq")) === String(seq), page.url());
    await stage.api("GET", "/api/agents");
}

// What can't be searched for, and files that are not there.
async function wrong(page) {
    for (const [words, answer] of [
        ["q=%22", /at least one word/],
        [`q=${"xy%20".repeat(1_500)}`, /at most 4 KiB/],
        ["q=okapi&agent=nobody", /no agent nobody/],
        [`q=okapi&agent=${encodeURIComponent("<b>")}`, /no agent/],
        ["q=wolpertinger", /Found: 0[^]*None of these words/],
        ["q=okapi&in=secrets", /Found: /],
    ]) {
        const status = (await found(page, words)).status();
        check(`${words.slice(0, 30)}: the page says it`, status === 200 && (await reads(page, answer, SECONDS)), [status, await textOf(page)]);
        check(`${words.slice(0, 30)}: with nothing for axe`, ...(await violations(page)));
    }
    const markup = '"><script>window.ran=1</script><b>';
    await found(page, `q=${encodeURIComponent(markup)}`);
    const isTame = (await page.locator("#search").inputValue()) === markup && !(await page.evaluate(() => "ran" in window));
    check("words are no markup", isTame, await page.content());
    for (const file of [
        `agent=${HELPER}&path=SOUL.md`,
        `agent=${HELPER}&path=memory/../SOUL.md`,
        `agent=${HELPER}&path=../../config.json`,
        "vault=zoo&path=../../config.json",
        "vault=nothing&path=x",
        "agent=nobody&path=MEMORY.md",
        "path=MEMORY.md",
        "",
    ]) {
        const answer = await visit(page.stage, page, `/dashboard/search/file?${file}`);
        check(`no file: ${file}`, [400, 404].includes(answer.status()) && (await page.locator("table.notes").count()) === 0, answer.status());
    }
}

async function many(page) {
    for (let number = 0; number < 30; number += 1) write(`vaults/zoo/many/${number}.md`, `herd number ${number}\n`);
    await found(page, "q=herd&in=vaults");
    check("a page has twenty results at first", (await results(page)).length === 20, await results(page));
    await page.getByRole("link", { name: "Show more results", exact: true }).click();
    await until(SECONDS, async () => (await results(page)).length === 30);
    check("and all of them on demand", (await results(page)).length === 30, (await results(page)).length);
    check("with the same filter", (await areas(page)).join() === "vaults" && !(await box(page, "Sessions").isChecked()));
    await page.getByRole("link", { name: "Messages, newest first", exact: true }).click();
    await page.waitForURL((url) => url.pathname === "/dashboard/search/messages");
    check("the other tab has the same words", (await page.locator("#search").inputValue()) === "herd", page.url());
}

// A browser without scripts.
async function without(stage, browsers) {
    const context = await browsers.stranger({ javaScriptEnabled: false });
    const page = await context.newPage();
    await enter(stage, page);
    await visit(stage, page, "/dashboard/search");
    await page.locator("#search").fill("okapi");
    await page.getByRole("checkbox", { name: "Sessions", exact: true }).uncheck();
    await page.getByRole("search").getByRole("button", { name: "Search" }).click();
    await page.locator("ol.results > li").first().waitFor();
    const shown = await page.locator("ol.results").innerText();
    check("without scripts the search works too", /vaultword/.test(shown) && !/saidword/.test(shown), shown);
    await page.locator('ol.results > li[data-in="vaults"] a').first().click();
    await page.locator("tr.found").waitFor();
    check("and leads to the place", /vaultword/.test(await page.locator("tr.found").innerText()));
}
