// The page of the team: agents with their state, freezing and thawing, and all of it live.
import { SECONDS, check, flock, must, until } from "./browser_checking.mjs";
import { AGENTS, ASKER, HELPER } from "./browser_stage.mjs";
import { isMarked, mark, textOf } from "./browser_window.mjs";

const rowOf = (page, agent) => page.locator(`[data-agent="${agent}"]`);

export async function stateOf(page, agent) {
    return (await rowOf(page, agent).locator('[data-field="state"]').innerText()).trim();
}

export const button = (page, agent, name) => rowOf(page, agent).getByRole("button", { name, exact: true });

// Waits until all these pages show an agent as frozen, or as not frozen, with the button for the other.
function shows(pages, agent, isFrozen) {
    const [there, gone] = isFrozen ? ["Thaw", "Freeze"] : ["Freeze", "Thaw"];
    return until(SECONDS, async () => {
        const each = await Promise.all(
            pages.map(
                async (page) =>
                    /frozen/i.test(await stateOf(page, agent)) === isFrozen &&
                    (await button(page, agent, there).count()) === 1 &&
                    (await button(page, agent, gone).count()) === 0,
            ),
        );
        return each.every(Boolean);
    });
}

export async function team(stage, browsers) {
    const page = await browsers.page();
    const other = await browsers.page();
    const both = [page, other];
    const agents = await until(SECONDS, async () => {
        const found = await page.locator("[data-agent]").evaluateAll((rows) => rows.map((row) => row.dataset.agent));
        return found.length && found;
    });
    check("each agent is there once", JSON.stringify([...(agents || [])].sort()) === JSON.stringify([...AGENTS].sort()), agents);
    check("each has a state", (await Promise.all(AGENTS.map((one) => stateOf(page, one)))).every(Boolean), await textOf(page));
    await Promise.all(both.map(mark));

    await button(page, HELPER, "Freeze").click();
    check(
        "an agent is frozen by its button, in the other browser too",
        await shows(both, HELPER, true),
        await stateOf(other, HELPER),
    );
    const frozen = (await stage.agent(HELPER)).frozen;
    check("the gateway has it, with the person", frozen && typeof frozen.by === "string" && frozen.by !== "", frozen);
    check("nobody else is frozen", await shows(both, "orchestrator", false), await stateOf(page, "orchestrator"));
    await button(other, HELPER, "Thaw").click();
    check("and thawed by the other's button", await shows(both, HELPER, false), await stateOf(page, HELPER));
    check("the gateway has that, too", (await stage.agent(HELPER)).frozen === null, await stage.agent(HELPER));

    await must("frozen on the command line", "freeze", HELPER);
    check("both pages show it", await shows(both, HELPER, true), await stateOf(page, HELPER));
    await must("thawed on the command line", "thaw", HELPER);
    check("and that it is over", await shows(both, HELPER, false), await stateOf(page, HELPER));

    await reasons(stage, both);

    const all = page.getByRole("button", { name: "Freeze all", exact: true });
    const place = await all.boundingBox();
    await all.click();
    // Nothing is lost by a freeze, so it needs no question. If the page asks one, it is answered.
    await answer(page, "Freeze all");
    for (const one of AGENTS) check(`all are frozen: ${one}`, await shows(both, one, true), await stateOf(page, one));
    const states = await Promise.all(AGENTS.map(async (one) => (await stage.agent(one)).frozen));
    check("the gateway has all of them", states.every(Boolean), states);
    const back = page.getByRole("button", { name: "Thaw all", exact: true });
    await until(SECONDS, () => back.isVisible());
    const there = await back.boundingBox();
    const isApart = there.y >= place.y + place.height || there.x >= place.x + place.width || there.x + there.width <= place.x;
    check("the way back stands elsewhere, so a second click undoes nothing", isApart, [place, there]);
    await page.locator("#reason-all > summary").click();
    await page.locator("#reason-all-text").fill("a holiday");
    await page.locator("#reason-all").getByRole("button").click();
    const reasonOf = (one) => rowOf(other, one).locator('[data-field="reason"]');
    const hasReason = async (one) => (await reasonOf(one).allInnerTexts()).join("") === "Reason: a holiday";
    for (const one of AGENTS) check(`all have a reason: ${one}`, await until(SECONDS, () => hasReason(one)), await textOf(other));
    await other.getByRole("button", { name: "Thaw all", exact: true }).click();
    await answer(other, "Thaw all");
    for (const one of AGENTS) check(`all are thawed: ${one}`, await shows(both, one, false), await stateOf(page, one));

    await working(stage, page);
    await doors(stage, page);
    await coming(page);
    check("no page was loaded again", (await Promise.all(both.map(isMarked))).every(Boolean));
    const audit = (await stage.api("GET", `/api/audit?action=agent&limit=100`)).text;
    check("the audit names who froze", /freeze|frozen/.test(audit), audit);
}

// A freeze gets a reason afterwards, which is shown to everybody and can be changed.
async function reasons(stage, both) {
    const [page, other] = both;
    await button(page, HELPER, "Freeze").click();
    await shows(both, HELPER, true);
    const give = async (summary, text) => {
        await rowOf(page, HELPER).getByText(summary, { exact: true }).click();
        await page.locator(`#reason-text-${HELPER}`).fill(text);
        await page.keyboard.press("Enter");
    };
    const shown = async (one) => (await rowOf(one, HELPER).locator('[data-field="reason"]').allInnerTexts()).join("");
    const isShown = (text) =>
        until(SECONDS, async () => (await Promise.all(both.map(shown))).every((found) => found === `Reason: ${text}`));
    const hostile = "it loops <b id=evil>all</b> day";
    await give("Give a reason", hostile);
    check("a freeze gets a reason", await isShown(hostile), await shown(other));
    check("as text", (await page.locator("#evil").count()) === 0);
    check("the gateway has it", (await stage.agent(HELPER)).frozen.reason === hostile, await stage.agent(HELPER));
    await give("Change the reason", "its key is old");
    check("and another one", await isShown("its key is old"), await shown(other));
    const session = await (await page.context().newPage()).goto(`${stage.origin}/dashboard/sessions/agent%3A${HELPER}%3Aflock%3Amain%3Aann`);
    const text = await session.text();
    check("its session says so", text.includes('id="session-frozen"') && text.includes("its key is old"), text.slice(0, 3_000));
    await button(other, HELPER, "Thaw").click();
    check("the thaw ends it", await until(SECONDS, async () => (await shown(page)) === ""), await shown(page));
}

// A card leads to the agent's last session, and says what is in the way of an agent without a key.
async function doors(stage, page) {
    await until(SECONDS, async () => (await stage.agent(HELPER)).lastSession);
    const { lastSession } = await stage.agent(HELPER);
    const address = await rowOf(page, HELPER).locator('[data-field="last-session"]').getAttribute("href");
    check("a card leads to the last session", decodeURIComponent(address ?? "") === `/dashboard/sessions/${lastSession}`, [address, lastSession]);
    await must("an agent of a provider without a key", "edit", ASKER, "--model", "nowhere/model");
    const problem = rowOf(page, ASKER).locator('[data-field="problem"]');
    check("is not called idle", await until(SECONDS, async () => (await stateOf(page, ASKER)) === "Can't work"), await stateOf(page, ASKER));
    const told = (await problem.allInnerTexts()).join("");
    check("with what is missing and the command", told.includes("nowhere") && told.includes("flock config set"), told);
    const overview = await page.context().newPage();
    await overview.goto(`${stage.origin}/dashboard/machine`);
    check("the machine does not call that in order", (await overview.locator(`[data-blocked="${ASKER}"]`).count()) === 1, await textOf(overview));
    await overview.close();
    await must("its model is back", "edit", ASKER, "--model", `script/${ASKER}`);
    check("and so is the agent", await until(SECONDS, async () => (await stateOf(page, ASKER)) === "Idle"), await stateOf(page, ASKER));
}

// Answers the question of a dialog of the page with the button of this name, if there is one.
export async function answer(page, name) {
    const chosen = page.locator("dialog[open]").getByRole("button", { name, exact: true });
    if (await until(1_000, () => chosen.isVisible().catch(() => false))) await chosen.click();
}

// An agent in the middle of a turn.
async function working(stage, page) {
    // Times in it may go on.
    const state = async () => (await stateOf(page, HELPER)).replace(/\d+/g, "0");
    const idle = await state();
    const leaving = new AbortController();
    const asking = fetch(`${stage.origin}/api/message`, {
        method: "POST",
        signal: leaving.signal,
        body: JSON.stringify({ agent: HELPER, prompt: "work for an hour" }),
        headers: { Authorization: `Bearer ${stage.token}`, "Content-Type": "application/json" },
    }).catch(() => {});
    const busy = await until(SECONDS, async () => {
        const now = await state();
        return now !== idle && now;
    });
    check("an agent that works is shown as such", busy && !/frozen/i.test(busy), [idle, busy]);
    // Whoever asked goes away, which ends the turn.
    leaving.abort();
    await asking;
    check("and as idle afterwards", await until(SECONDS, async () => (await state()) === idle), await stateOf(page, HELPER));
}

// An agent that comes, and goes again.
async function coming(page) {
    await must("an agent is added", "add", "late", "--no-container", "--model", "script/demo");
    check("the page shows it", await until(SECONDS, async () => (await rowOf(page, "late").count()) === 1), await textOf(page));
    check("with a state", (await stateOf(page, "late")) !== "", await textOf(page));
    const removed = await flock("remove", "late", "--yes", "--purge");
    check("it is removed again", removed.code === 0, removed);
    check(
        "and not on the page any more",
        await until(SECONDS, async () => (await rowOf(page, "late").count()) === 0),
        await textOf(page),
    );
}
