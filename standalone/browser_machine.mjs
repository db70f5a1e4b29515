// The page of the machine: the gateway, the audit, and the browsers that are signed in.
import { SECONDS, check, flock, must, parsed, same, until } from "./browser_checking.mjs";
import { HELPER } from "./browser_stage.mjs";
import { button } from "./browser_team.mjs";
import { isMarked, isSignedOut, mark, textOf, visit } from "./browser_window.mjs";

const term = (page, name) =>
    page
        .locator("#gateway > div")
        .filter({ has: page.locator("dt", { hasText: new RegExp(`^${name}$`) }) })
        .locator("dd");

export async function machine(stage, browsers) {
    const page = await browsers.page("/dashboard/machine");
    await mark(page);
    const status = (await stage.api("GET", "/api/status")).data;
    const version = (await term(page, "Version").innerText()).trim();
    check("the version is the gateway's", status.version && version === status.version, [version, status.version]);
    const shown = (await term(page, "Process").innerText()).trim();
    check("and so is the process", status.pid > 0 && shown.startsWith(`${status.pid}, `), [shown, status.pid]);
    check("with its memory", /^\d+, [\d.]+ (KiB|MiB|GiB), /.test(shown), shown);
    const engine = await term(page, "Container engine").innerText();
    const isRight = status.docker.reachable ? /in order/.test(engine) : engine.includes(status.docker.problem);
    check("the engine is as the gateway says", isRight, [engine, status.docker]);
    await working(stage, page);
    await audit(stage, browsers, page);
    await signedIn(stage, browsers, page);
    check("no page was loaded again", await isMarked(page));
}

// Turns that run are counted.
async function working(stage, page) {
    const text = async () => (await term(page, "Turns").innerText()).trim();
    check("no turn runs", await until(SECONDS, async () => (await text()) === "0 running, 0 waiting"), await text());
    const leaving = new AbortController();
    const asking = fetch(`${stage.origin}/api/message`, {
        method: "POST",
        signal: leaving.signal,
        body: JSON.stringify({ agent: HELPER, prompt: "work for an hour" }),
        headers: { Authorization: `Bearer ${stage.token}`, "Content-Type": "application/json" },
    }).catch(() => {});
    check(
        "a turn that runs is counted",
        await until(SECONDS, async () => (await text()) === "1 running, 0 waiting"),
        await text(),
    );
    leaving.abort();
    await asking;
    check("until it ends", await until(SECONDS, async () => (await text()) === "0 running, 0 waiting"), await text());
}

// The newest rows of the audit.
async function audit(stage, browsers, page) {
    const rows = () =>
        page.locator("#audit tbody tr").evaluateAll((all) =>
            all.map((row) => {
                const [, , level, actor, action, subject] = [...row.cells].map((cell) => cell.textContent.trim());
                return { id: Number(row.dataset.row), level, actor, action, subject };
            }),
        );
    const person = await page.locator('meta[name="person"]').getAttribute("content");
    const newest = (await rows())[0]?.id ?? 0;
    const team = await browsers.page();
    await button(team, HELPER, "Freeze").click();
    const found = await until(SECONDS, async () =>
        (await rows()).find((row) => row.id > newest && row.action === "agent.freeze"),
    );
    check("what was just done comes into the audit", found, (await rows()).slice(0, 5));
    const { id, actor, action, subject, level } =
        ((await stage.api("GET", "/api/audit?action=agent.freeze&limit=1")).data.rows ?? [])[0] ?? {};
    const wanted = { id, level, actor, action, subject };
    check("it is the row of the gateway", JSON.stringify(found) === JSON.stringify(wanted), [found, wanted]);
    check("with the person and the agent", found?.actor === `human:${person}` && found.subject === HELPER, found);
    await must("it is thawed", "thaw", HELPER);
    const thawed = () => until(SECONDS, async () => (await rows()).some((row) => row.id > id && row.action === "agent.thaw"));
    check("also what is done on the command line", await thawed(), (await rows()).slice(0, 5));
    const ids = (await stage.api("GET", "/api/audit?limit=50")).data.rows.map((row) => row.id);
    await until(SECONDS, async () => JSON.stringify((await rows()).map((row) => row.id)) === JSON.stringify(ids));
    same(
        "the newest rows are there, each once, in order",
        ids,
        (await rows()).map((row) => row.id),
    );
}

// The list of browsers, and signing one of them out.
async function signedIn(stage, browsers, page) {
    const before = (await stage.sessions()).map((one) => one.id);
    const other = await browsers.page("/dashboard/channels/work");
    const [session] = (await stage.sessions()).filter((one) => !before.includes(one.id));
    const list = await browsers.tab(page.context(), "/dashboard/machine");
    const row = (one, id) => one.locator(`[data-browser="${id}"]`);
    const ids = (await stage.sessions()).map((one) => one.id).sort();
    const shown = () => list.locator("[data-browser]").evaluateAll((all) => all.map((one) => one.dataset.browser).sort());
    same("all browsers are listed", ids, await shown());
    const current = list.locator("[data-browser]", { hasText: "this browser" });
    check("one of them is this one", (await current.count()) === 1, await textOf(list));
    check("which has no button there", (await current.getByRole("button").count()) === 0, await current.innerHTML());
    await mark(list);
    await row(list, session?.id).getByRole("button", { name: "Sign out", exact: true }).click();
    check("the other one is signed out by its button", await isSignedOut(other, SECONDS), await textOf(other));
    check("it is a stranger now", (await visit(stage, other, "/dashboard")).status() === 401);
    const left = parsed((await flock("--json", "dashboard", "sessions")).out).sessions ?? [];
    check("its session is over", left.length > 0 && !left.some((one) => one.id === session?.id), left);
    const isGone = await until(SECONDS, async () => (await row(list, session?.id).count()) === 0);
    check("and gone from the list, without a reload", isGone && (await isMarked(list)), await textOf(list));
    same("the others are there still", left.map((one) => one.id).sort(), await shown());
    check("this browser is signed in still", (await visit(stage, list, "/dashboard")).status() === 200);
}
