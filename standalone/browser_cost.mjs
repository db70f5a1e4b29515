// The page of cost: its numbers are those of the gateway, in its tables and in the files that it saves.
import fs from "node:fs";
import { SECONDS, SOON, check, must, same, until } from "./browser_checking.mjs";
import { ASKER, HELPER } from "./browser_stage.mjs";
import { isMarked, mark, textOf, visit } from "./browser_window.mjs";

const BY = ["day", "agent", "model", "channel"];
const count = (number) => number.toLocaleString("en-US");
const money = (micros) => `$${(micros / 1e6).toFixed(micros > 0 && micros < 10_000 ? 4 : 2)}`;

// The rows of a table, each as one text.
const rows = (page, by) =>
    page.locator(`section.by:has(#by-${by}) tbody tr`).evaluateAll((all) =>
        all.map((row) =>
            [...row.cells]
                .map((cell) => cell.textContent.trim())
                .filter(Boolean)
                .join(" | "),
        ),
    );

const line = (sum) =>
    [
        sum.name || "(no channel)",
        money(sum.costMicros) + (sum.unpriced ? "*" : ""),
        ...[sum.tokens, sum.input, sum.output, sum.cacheRead + sum.cacheWrite, sum.calls].map(count),
    ].join(" | ");

const usage = async (stage, since, by) => (await stage.api("GET", `/api/usage?since=${since}&by=${by}`)).data;

// The first day of the last so many, as the gateway counts days.
async function sinceOf(stage, days) {
    const today = (await stage.api("GET", "/api/usage")).data.since;
    return new Date(Date.parse(`${today}T12:00:00Z`) - (days - 1) * 86_400_000).toISOString().slice(0, 10);
}

async function used(stage, channel, number) {
    stage.teach(`spend ${number}`, {
        say: `Spent ${number}.`,
        usage: { input: 1_234_567 * number, output: 89 * number, cacheRead: 1_000, cacheWrite: 7 },
    });
    await stage.tell(channel, `@${HELPER} spend ${number}`);
    return until(SOON, async () => (await stage.messages(channel)).some((one) => one.content === `Spent ${number}.`));
}

export async function cost(stage, browsers) {
    for (const [channel, number] of [
        ["work", 1],
        ["lobby", 2],
    ])
        check(`something is spent in #${channel}`, await used(stage, channel, number), await stage.messages(channel));
    await stage.request(`spending${Date.now()}`);
    const page = await browsers.page("/dashboard/cost");
    await equal(stage, page, 1, "at first");
    const opened = await page.locator('.tabs [aria-current="true"]').allInnerTexts();
    same("it opens on today", ["Today"], opened);
    for (const [name, days] of [
        ["Today", 1],
        ["30 days", 30],
        ["90 days", 90],
    ]) {
        await page.getByRole("link", { name, exact: true }).click();
        await page.waitForURL(`${stage.origin}/dashboard/cost?days=${days}`);
        const current = await page.locator('.tabs [aria-current="true"]').allInnerTexts();
        same(`${name} is marked as chosen`, [name], current);
        await equal(stage, page, days, name);
    }
    const agents = await rows(page, "agent");
    check(
        "each agent that was asked is there",
        [HELPER, ASKER].every((one) => agents.some((row) => row.startsWith(`${one} |`))),
        agents,
    );
    const channels = await rows(page, "channel");
    check(
        "and each channel",
        ["work", "lobby"].every((one) => channels.some((row) => row.startsWith(one))),
        channels,
    );

    await visit(stage, page, "/dashboard/cost?days=1");
    await mark(page);
    const total = () => page.locator("p.total").innerText();
    const before = await total();
    await used(stage, "work", 3);
    check("what is spent meanwhile is added", await until(SECONDS, async () => (await total()) !== before), before);
    await equal(stage, page, 1, "afterwards");
    check("without a reload", await isMarked(page));
    for (const by of BY) await saved(stage, page, by);
    await budgets(stage, page);
    await sorted(stage, page);
    for (const query of ["days=0", "days=-1", "days=x", "days=999999999999999999999"]) {
        const answer = await visit(stage, page, `/dashboard/cost?${query}`);
        check(
            `${query}: the usual span`,
            answer.status() === 200 && (await page.locator('.tabs [aria-current="true"]').innerText()) === "Today",
        );
    }
}

// The rows are sorted by the number of a column, which its head says.
async function sorted(stage, page) {
    await visit(stage, page, "/dashboard/cost?days=7");
    for (const [name, column] of [
        ["Tokens", 3],
        ["Calls", 7],
    ]) {
        const head = page.locator("section.by:has(#by-agent) thead").getByRole("link", { name: new RegExp(`^${name}`) });
        await head.focus();
        await page.keyboard.press("Enter");
        await page.waitForURL(new RegExp(`days=7&sort=${name.toLowerCase()}$`));
        const cells = page.locator(`section.by:has(#by-agent) tbody tr > :nth-child(${column + 1})`);
        const numbers = (await cells.allInnerTexts()).map((text) => Number(text.replaceAll(",", "")));
        const wanted = [...numbers].sort((a, b) => b - a);
        check(`by ${name}: the largest first`, numbers.length > 1 && JSON.stringify(numbers) === JSON.stringify(wanted), numbers);
        const marked = await page.locator('section.by:has(#by-agent) th[aria-sort="descending"]').allInnerTexts();
        check(`by ${name}: its head says so`, marked.length === 1 && marked[0].startsWith(name), marked);
    }
    await page.getByRole("link", { name: "30 days", exact: true }).click();
    await page.waitForURL(/days=30&sort=calls$/);
    check("another span keeps the order", true);
}

// The budgets, with what is used of them.
async function budgets(stage, page) {
    const table = page.locator('[aria-labelledby="budgets"]');
    check("without a budget there is no table of them", (await table.count()) === 0);
    const limits = { agent: { [HELPER]: { tokens: 1_000_000_000 } }, day: { usd: 5_000 } };
    const set = (value) => must("budgets", "config", "set", "plugins.entries.flock.config.budgets", JSON.stringify(value));
    await set(limits);
    const { budgets: known } = await until(SECONDS, async () => {
        const { data } = await stage.api("GET", "/api/usage/budgets");
        return data.budgets.length === 2 && data;
    });
    await visit(stage, page, "/dashboard/cost");
    const shown = await table.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].slice(0, 4).map((one) => one.innerText)));
    const wanted = [
        ["The whole team", ...["used", "reserved", "limit"].map((part) => money(known[0].costMicros[part]))],
        [`Agent ${HELPER}`, ...["used", "reserved", "limit"].map((part) => `${count(known[1].tokens[part])} tokens`)],
    ];
    same("each budget with what is used and reserved of it", wanted, shown);
    check("something is used", known[1].tokens.used > 0, known);
    await set({ agent: { [HELPER]: { tokens: 1 } } });
    const isUsedUp = await until(SECONDS, async () => {
        await visit(stage, page, "/dashboard/cost");
        return (await table.innerText()).includes("used up");
    });
    check("one that is used up is called so", isUsedUp, await table.innerText());
    await must("no budgets", "config", "unset", "plugins.entries.flock.config.budgets");
    await until(SECONDS, async () => (await stage.api("GET", "/api/usage/budgets")).data.budgets.length === 0);
}

// All tables and the total.
async function equal(stage, page, days, name) {
    const since = await sinceOf(stage, days);
    for (const by of BY) {
        // Something may be spent between the two answers.
        let wanted;
        await until(SECONDS, async () => {
            wanted = (await usage(stage, since, by)).usage.map(line).sort();
            return JSON.stringify(wanted) === JSON.stringify((await rows(page, by)).sort());
        });
        same(`${name}, by ${by}: the sums of the gateway`, wanted, (await rows(page, by)).sort());
    }
    const { total } = await usage(stage, since, "day");
    const text = (await page.locator("p.total").innerText()).replace(/\s+/g, " ").trim();
    const wanted = `${money(total.costMicros)} ${count(total.tokens)} tokens, model calls: ${count(total.calls)}`;
    check(`${name}: the total`, text === wanted || (total.unpriced > 0 && text.startsWith(wanted)), [text, wanted]);
}

// The file of a table.
async function saved(stage, page, by) {
    const link = page.locator(`section.by:has(#by-${by})`).getByRole("link", { name: "Save as CSV", exact: true });
    const [file] = await Promise.all([page.waitForEvent("download"), link.click()]);
    check(
        `by ${by}: the link saves a file with its name`,
        file.suggestedFilename() === `usage-by-${by}.csv`,
        file.suggestedFilename(),
    );
    const [head, ...lines] = fs
        .readFileSync(await file.path(), "utf8")
        .trim()
        .split(/\r?\n/)
        .map(fields);
    const sums = lines.map((cells) => {
        const row = Object.fromEntries(head.map((name, at) => [name, /^name$/.test(name) ? cells[at] : Number(cells[at])]));
        return {
            ...row,
            costMicros: Math.round(row.costDollars * 1e6),
            tokens: row.input + row.output + row.cacheRead + row.cacheWrite,
        };
    });
    same(`by ${by}: it has the numbers of the page`, (await rows(page, by)).sort(), sums.map(line).sort());
    check(`by ${by}: the page stays`, page.url().startsWith(`${stage.origin}/dashboard/cost`), await textOf(page));
}

// The cells of a line of CSV.
const fields = (text) =>
    [...text.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map((found) => found[1]?.replaceAll('""', '"') ?? found[2]);
