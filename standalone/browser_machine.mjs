// The pages of the machine: the gateway, the browsers that are signed in, the checks of flock doctor, the audit, the logs
// and the configuration.
import fs from "node:fs";
import { HOME, SECONDS, SOON, check, flock, must, parsed, same, until } from "./browser_checking.mjs";
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
    const kept = (await stage.api("GET", "/api/supervisor")).data;
    const keeper = await page.locator("#supervisor").innerText();
    check("the supervisor is shown with its process", kept.supervisor?.pid > 0 && keeper.includes(` ${kept.supervisor.pid},`), [keeper, kept]);
    const cells = await page.locator('#supervisor [data-unit="gateway"] td').allInnerTexts();
    check("and the gateway's state and restarts", cells[0] === "healthy" && cells[1].startsWith(`${status.pid}, `) && cells[2] === "0", cells);
    check("OpenClaw is not installed", keeper.includes("OpenClaw is not installed."), keeper);
    const usage = page.locator("#sandbox-usage");
    const isThere = await until(SOON, async () => !/Being measured/.test(await usage.innerText()));
    const told = (await stage.api("GET", "/api/sandboxes/usage")).data;
    const wanted = told.problem ?? "No sandbox runs now.";
    check("what the sandboxes use comes after the page", isThere && (await usage.innerText()).includes(wanted), [await usage.innerText(), told]);
    await working(stage, page);
    await signedIn(stage, browsers, page);
    check("no page was loaded again", await isMarked(page));
    await checks(page, stage);
    await audit(stage, browsers, page);
    await verified(stage, page);
    await logs(stage, page);
    await configuration(stage, page);
}

// Follows a tab of these pages.
async function tab(stage, page, name) {
    await visit(stage, page, "/dashboard/machine");
    await page.locator(".tabs").getByRole("link", { name, exact: true }).click();
    const marked = () => page.locator('.tabs [aria-current="true"]').innerText();
    check(`the tab ${name} is marked`, await until(SECONDS, async () => (await marked()) === name), await marked());
    await mark(page);
}

// A finding is shown with the command that mends it, by the keyboard alone.
async function checks(page, stage) {
    const file = `${HOME}/config.json`;
    fs.chmodSync(file, 0o644);
    await tab(stage, page, "Checks");
    check("nothing runs before somebody asks", (await page.locator("#findings").innerText()).trim() === "");
    await page.getByRole("link", { name: "Run the checks" }).focus();
    await page.keyboard.press("Enter");
    const bad = page.locator("#findings tr", { hasText: "config.json" }).filter({ hasText: "chmod" });
    check("a fault is found", await until(4 * SOON, async () => (await bad.count()) > 0), await textOf(page));
    const mend = await bad.locator("code.mend").first().innerText();
    check("with the command that mends it", mend.startsWith("chmod 600 ") && mend.endsWith("config.json"), mend);
    const states = await page.locator("#findings tbody .state").allInnerTexts();
    const rank = { broken: 0, warning: 1, ok: 2 };
    const isSorted = states.every((state, at) => at === 0 || rank[states[at - 1]] <= rank[state]);
    check("the worst comes first", states.length > 5 && isSorted, states);
    fs.chmodSync(file, 0o600);
    await page.getByRole("link", { name: "Run the checks" }).click();
    check("what was mended is gone", await until(4 * SOON, async () => (await bad.count()) === 0), await textOf(page));
    check("without a reload", await isMarked(page));
}

// The chain is verified, and a filter chooses rows.
async function verified(stage, page) {
    await tab(stage, page, "Audit");
    await page.getByRole("link", { name: "Verify the audit" }).click();
    const text = async () => (await page.locator("#verified").innerText()).trim();
    check("the audit is whole", await until(SECONDS, async () => /^The audit is whole: [\d,]+ rows, /.test(await text())), await text());
    check("which the page says without a reload", await isMarked(page));
    await page.locator('input[name="action"]').fill("agent.freeze");
    await page.locator('select[name="level"]').selectOption("");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/action=agent\.freeze/);
    const actions = await page.locator("#audit tbody tr td:nth-child(5)").allInnerTexts();
    check("only rows of the filter", actions.length > 0 && actions.every((action) => action === "agent.freeze"), [page.url(), actions, await textOf(page)]);
}

// A log is filtered, and what is hostile in it stays text.
async function logs(stage, page) {
    const evil = "<img src=x onerror=alert(1)>\u001b[2J\u202e";
    fs.appendFileSync(`${HOME}/logs/supervisor.log`, `2026-11-21T22:27:03Z  WARN hostile: ${evil}\n`);
    await tab(stage, page, "Logs");
    const lines = () => page.locator("#lines p").allInnerTexts();
    check("the gateway's log is shown", (await lines()).some((line) => line.includes("info")), await lines());
    await page.locator('select[name="log"]').selectOption("supervisor");
    await page.locator('select[name="level"]').selectOption("warn");
    await page.locator('input[name="text"]').fill("HOSTILE: <img");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/log=supervisor/);
    const found = await lines();
    check("only lines of the filter", found.length === 1 && found[0].includes("hostile: <img src=x"), found);
    check("control characters are spelled out", found[0]?.includes("\\u{1b}[2J\\u{202e}"), found);
    check("and nothing of it is an element", (await page.locator("#lines img").count()) === 0);
    await page.locator('input[name="text"]').fill("no such line");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/no/);
    check("a filter may fit nothing", (await page.locator("#lines").innerText()).trim() === "No line fits.");
}

// A value is set and a bad one refused; a backup is compared and restored, but not over something newer.
async function configuration(stage, page) {
    const MOST = "plugins.entries.flock.config.maxAgents";
    const most = () => JSON.parse(fs.readFileSync(`${HOME}/config.json`, "utf8")).plugins.entries.flock.config.maxAgents;
    await tab(stage, page, "Configuration");
    const said = () => page.locator("#announce").innerText();
    const set = async (path, value) => {
        await page.locator('input[name="path"]').fill(path);
        await page.locator('input[name="value"]').fill(value);
        await page.getByRole("button", { name: "Save" }).click();
    };
    const says = (text) => until(SECONDS, async () => (await said()).includes(text));
    const before = most();
    await set(MOST, "many");
    check("a bad value is refused with the reason", await says("maxAgents"), await said());
    check("and not written", most() === before, most());
    await set("gateway.auth.token", "x".repeat(32));
    check("a token is refused", await says("command line only"), await said());
    await set(MOST, "41");
    check("a good one is set", await says(`${MOST} is set.`), await said());
    const file = page.locator("#config-file");
    check("and shown", await until(SECONDS, async () => (await file.innerText()).includes('"maxAgents": 41')));
    check("the owner's token is not", !(await page.content()).includes(stage.token));
    await must("a hostile value", "config", "set", "agents.defaults.params.note", "<b id=evil>\u202e</b>");
    check("it is shown as text", await until(SECONDS, async () => (await file.innerText()).includes("<b id=evil>\\u{202e}</b>")));
    check("and is no element", (await page.locator("#evil").count()) === 0);
    check("all without a reload", await isMarked(page));
    const TIME = "agents.defaults.timeoutSeconds";
    await must("a value to remove", "config", "set", TIME, "77");
    const remove = async (path) => {
        await page.locator('input[name="removed"]').fill(path);
        await page.getByRole("button", { name: "Remove the value" }).click();
    };
    await remove("gateway");
    check("what holds a token is not removed", await says("command line only"), await said());
    await remove(TIME);
    check("a value is removed", await says(`${TIME} is removed.`), await said());
    const defaults = JSON.parse(fs.readFileSync(`${HOME}/config.json`, "utf8")).agents.defaults;
    check("and not written any more", defaults.timeoutSeconds === undefined, defaults);
    const labels = await page.locator("#backups tbody time").allInnerTexts();
    check("each backup has a name of its own", labels.length > 3 && new Set(labels).size === labels.length, labels);
    check("with its milliseconds", labels.every((label) => /\.\d{3}( \(\d+\))?$/.test(label)), labels);

    // The backup before four changes is the one without the value of agents.
    await page.locator("#backups tbody tr").nth(3).getByRole("link").click();
    await page.waitForURL(/backup=/);
    const removed = await page.locator("#difference .removed").allInnerTexts();
    check("what would go is shown", removed.some((line) => line.includes('"maxAgents": 41')), removed);
    const restore = page.getByRole("button", { name: "Restore this backup" });
    const stale = await restore.getAttribute("data-sha256");
    const forged = await page.evaluate(
        async ([sha256, backup]) => {
            const csrf = document.querySelector('meta[name="csrf-token"]').content;
            const headers = { "X-Flock-CSRF": csrf, "Content-Type": "application/json" };
            const body = JSON.stringify({ sha256, backup });
            return (await fetch("/api/config/restore", { method: "POST", headers, body })).status;
        },
        ["0".repeat(64), await restore.getAttribute("data-target")],
    );
    check("nothing newer than what was shown is replaced", forged === 409 && most() === 41, [forged, most()]);
    check("the digest is the file's", /^[0-9a-f]{64}$/.test(stale), stale);
    await mark(page);
    await restore.focus();
    await page.keyboard.press("Enter");
    check("it is restored", await until(SECONDS, async () => most() === before), [most(), before]);
    check("which the page says", await says("The backup is restored."), await said());
    const none = page.locator("#difference", { hasText: "It would change no line" });
    check("and shows, without a reload", (await until(SECONDS, async () => (await none.count()) === 1)) && (await isMarked(page)));
    const row = ((await stage.api("GET", "/api/audit?action=config.restore&limit=1")).data.rows ?? [])[0];
    const person = await page.locator('meta[name="person"]').getAttribute("content");
    check("the audit names the person", row?.actor === `human:${person}`, row);
    await must("the configuration is valid", "config", "validate");
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
    await tab(stage, page, "Audit");
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
