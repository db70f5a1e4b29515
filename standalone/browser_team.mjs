// The page of the team: agents with their state, freezing and thawing, and all of it live.
import { SECONDS, check, flock, must, until } from "./browser_checking.mjs";
import { AGENTS, HELPER } from "./browser_stage.mjs";
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

    await page.getByRole("button", { name: "Freeze all", exact: true }).click();
    // Nothing is lost by a freeze, so it needs no question. If the page asks one, it is answered.
    await answer(page, "Freeze all");
    for (const one of AGENTS) check(`all are frozen: ${one}`, await shows(both, one, true), await stateOf(page, one));
    const states = await Promise.all(AGENTS.map(async (one) => (await stage.agent(one)).frozen));
    check("the gateway has all of them", states.every(Boolean), states);
    await other.getByRole("button", { name: "Thaw all", exact: true }).click();
    await answer(other, "Thaw all");
    for (const one of AGENTS) check(`all are thawed: ${one}`, await shows(both, one, false), await stateOf(page, one));

    await working(stage, page);
    await coming(page);
    check("no page was loaded again", (await Promise.all(both.map(isMarked))).every(Boolean));
    const audit = (await stage.api("GET", `/api/audit?action=agent&limit=100`)).text;
    check("the audit names who froze", /freeze|frozen/.test(audit), audit);
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
