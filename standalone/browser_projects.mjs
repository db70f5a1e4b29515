// The pages of projects: the list, one project with what was submitted, the changes in both ways of showing, and the
// decisions of a person.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { violations } from "./browser_access.mjs";
import { HOME, SECONDS, check, flock, must, run, same, until } from "./browser_checking.mjs";
import { HELPER } from "./browser_stage.mjs";
import { textOf, visit } from "./browser_window.mjs";

const NAME = "lib";
const HOSTILE = "<img src=x onerror=alert(1)>";

async function git(folder, ...args) {
    const done = await run("git", ["-C", folder, "-c", "user.name=ann", "-c", "user.email=ann@example.org", ...args]);
    check(`git ${args[0]}`, done.code === 0, done);
}

// Makes the owner's repository and the project, with a branch of the helper's in flock's repository.
async function prepared() {
    const owner = fs.mkdtempSync(path.join(os.tmpdir(), "owner-"));
    await git(owner, "init", "-q", "-b", "main");
    const lines = Array.from({ length: 30 }, (_, at) => `line ${at}`);
    fs.writeFileSync(path.join(owner, "a.txt"), `${lines.join("\n")}\n`);
    await git(owner, "add", "-A");
    await git(owner, "commit", "-q", "-m", "Begin");
    await must("the project is added", "project", "add", NAME, "--repo", owner, "--review", "person", "--agent", HELPER);
    await git(owner, "checkout", "-q", "-b", "work");
    lines[3] = `changed ${HOSTILE}`;
    fs.writeFileSync(path.join(owner, "a.txt"), `${lines.join("\n")}\nadded\n`);
    await git(owner, "commit", "-q", "-a", "-m", `Change ${HOSTILE}`);
    await git(owner, "push", "-q", path.join(HOME, "projects", `${NAME}.git`), `HEAD:refs/heads/flock/${HELPER}/work`);
    return owner;
}

export async function projects(stage, browsers) {
    const empty = await browsers.page("/dashboard/projects");
    check("without projects, the page says how to add one", (await textOf(empty)).includes("flock project add"));
    const owner = await prepared();
    const row = empty.locator("#projects tbody tr");
    await until(SECONDS, async () => (await row.count()) === 1);
    check("a new project appears by itself", (await row.count()) === 1, await textOf(empty));
    check("with nothing for axe", ...(await violations(empty)));

    const page = await browsers.page(`/dashboard/projects/${NAME}`);
    check("its branch is there", (await textOf(page)).includes(`flock/${HELPER}/work`), await textOf(page));
    await must("work is submitted", "project", "submit", NAME, HELPER, "--title", `A change ${HOSTILE}`);
    const cards = page.locator("article[data-state]");
    const states = () => cards.evaluateAll((all) => all.map((one) => one.dataset.state));
    await until(SECONDS, async () => (await states())[0] === "review");
    same("it appears, and waits for a person", ["review"], await states());
    check("a title is only text", (await textOf(page)).includes(HOSTILE) && (await page.locator("main img").count()) === 0);
    check("with nothing for axe", ...(await violations(page)));

    await page.locator('form[data-form="refuse-work"] input').fill("not like this");
    await page.locator('form[data-form="refuse-work"] button').click();
    await until(SECONDS, async () => (await states())[0] === "refused");
    check("sent back with the reason", (await textOf(page)).includes("not like this"), await textOf(page));
    await must("it is submitted again", "project", "submit", NAME, HELPER);
    await until(SECONDS, async () => (await page.locator('[data-action="accept-work"]').count()) === 1);
    await page.locator('[data-action="accept-work"]').click();
    await until(SECONDS, async () => (await states())[0] === "merged");
    same("accepted, it is merged", ["merged", "refused"], await states());

    for (const [view, columns] of [["", 3], ["&view=beside", 4]]) {
        await visit(stage, page, `/dashboard/projects/${NAME}/diff?agent=${HELPER}&branch=work${view}`);
        // Everything of the branch is in the tip by now, so the changes are against your branch.
        await visit(stage, page, `/dashboard/projects/${NAME}/diff${view.replace("&", "?")}`);
        const text = await textOf(page);
        check(`the lines are there${view}`, text.includes(`changed ${HOSTILE}`) && text.includes("line 3"), text);
        const cells = await page.locator("table.code tr").first().locator("td").count();
        check(`in ${columns} columns${view}`, cells === columns, cells);
        check("and are only text", (await page.locator("main img").count()) === 0);
        check("with nothing for axe", ...(await violations(page)));
    }
    await going_back(stage, page);
    await racing(stage, page, owner);
    await by_itself(stage, page);
    await served(stage, page);
    await visit(stage, page, `/dashboard/projects/none`);
    check("a project that is not there is said to be missing", (await textOf(page)).includes("none"), await textOf(page));
    await must("the project is removed", "project", "remove", NAME, "--yes");
    fs.rmSync(owner, { recursive: true });
}

// The receipts, the checkpoints of an agent, and the generations of the home.
async function going_back(stage, page) {
    await visit(stage, page, `/dashboard/projects/${NAME}`);
    await page.locator('main a[href^="/dashboard/receipts"]').first().click();
    await until(SECONDS, async () => (await textOf(page)).includes("no receipts"));
    check("a project without checks has no receipt", (await textOf(page)).includes("no receipts"), await textOf(page));
    check("with nothing for axe", ...(await violations(page)));

    await visit(stage, page, `/dashboard/agents/${HELPER}/checkpoints`);
    const rows = page.locator("[data-checkpoint]");
    const before = await rows.count();
    // A page that is left takes its unanswered requests with it.
    const made = page.waitForResponse((answer) => answer.request().method() === "POST");
    await page.locator('[data-action="make-checkpoint"]').click();
    await made;
    await must("another one is made", "checkpoint", HELPER, "--note", `before ${HOSTILE}`);
    await visit(stage, page, `/dashboard/agents/${HELPER}/checkpoints`);
    await until(SECONDS, async () => (await rows.count()) === before + 2);
    check("both are listed, the newest first", (await rows.count()) === before + 2, await textOf(page));
    const text = await textOf(page);
    check("a note is only text", text.includes(HOSTILE) && (await page.locator("main img").count()) === 0, text);
    check("with nothing for axe", ...(await violations(page)));

    await visit(stage, page, "/dashboard/machine/generations");
    const listed = page.locator("[data-generation]");
    const first = Number(await listed.first().getAttribute("data-generation"));
    check("the project is a generation", (await textOf(page)).includes("project.add"), await textOf(page));
    await must("a setting is changed", "config", "set", "plugins.entries.flock.config.maxAgents", "19");
    await until(SECONDS, async () => Number(await listed.first().getAttribute("data-generation")) > first);
    const newest = Number(await listed.first().getAttribute("data-generation"));
    check("a new generation appears by itself", newest > first, await textOf(page));
    check("with nothing for axe", ...(await violations(page)));
}

// A race: its copies appear, a person stops it, and chooses the copy that delivered something.
async function racing(stage, page, owner) {
    await visit(stage, page, "/dashboard/races");
    check("without races, the page says how to begin one", (await textOf(page)).includes("flock race"), await textOf(page));
    check("with nothing for axe", ...(await violations(page)));
    await must("a project to race for", "project", "add", "raced", "--repo", owner, "--check", "true", "--agent", HELPER);
    await must("a channel with a team", "channel", "create", "derby", "--topic", "a race", "--member", HELPER);
    // A team can't be copied during a turn, and the new channel wakes its members.
    let begun;
    await until(SECONDS, async () => (begun = await flock("race", "derby", "2", "--project", "raced", `Win ${HOSTILE}`)).code === 0);
    check("a race begins", begun.code === 0, begun);
    const row = page.locator("[data-race]");
    await until(SECONDS, async () => (await row.count()) === 1);
    check("it appears by itself", (await textOf(page)).includes(`Win ${HOSTILE}`), await textOf(page));
    const number = await row.first().getAttribute("data-race");
    check("with nothing for axe", ...(await violations(page)));

    await visit(stage, page, `/dashboard/races/${number}`);
    const copies = page.locator('article[id^="copy-"]');
    check("it has both copies", (await copies.count()) === 2, await textOf(page));
    check("a task is only text", (await page.locator("main img").count()) === 0);
    // Without checks the work passes at once, whether this machine has an engine or not.
    await must("its project has no checks now", "config", "set", "plugins.entries.flock.config.projects.raced.checks", "[]");
    const racer = `${HELPER}-r${number}-1`;
    await git(owner, "push", "-q", path.join(HOME, "projects", "raced.git"), `HEAD:refs/heads/flock/${racer}/work`);
    await must("a copy submits", "project", "submit", "raced", racer);
    await until(SECONDS, async () => (await copies.first().getAttribute("data-state")) === "proven");
    same("its work passed", "proven", await copies.first().getAttribute("data-state"));
    await page.locator('[data-action="stop-race"]').click();
    await until(SECONDS, async () => (await page.locator("dd[data-state]").getAttribute("data-state")) === "stopped");
    same("stopped", "stopped", await page.locator("dd[data-state]").getAttribute("data-state"));
    await page.locator('[data-action="keep-copy"]').click();
    await until(SECONDS, async () => (await copies.first().getAttribute("data-state")) === "won");
    same("chosen, it has won", "won", await copies.first().getAttribute("data-state"));
    check("what removes the others is said", (await textOf(page)).includes(`flock race drop ${number}`), await textOf(page));
    check("with nothing for axe", ...(await violations(page)));
    await must("the others are removed", "race", "drop", number, "--yes");
    await must("the project is removed", "project", "remove", "raced", "--yes");
}

// Schedules and webhooks: they appear, are paused and resumed, and a text is only text.
async function by_itself(stage, page) {
    await visit(stage, page, "/dashboard/automation");
    const text = await textOf(page);
    check("without any, the page says how to begin", text.includes("flock schedule add") && text.includes("flock hook add"), text);
    check("with nothing for axe", ...(await violations(page)));
    await must("a channel", "channel", "create", "clocked", "--topic", "times", "--member", "human:ann");
    await must("a schedule", "schedule", "add", "clocked", "0 9 * * 1-5", `Look ${HOSTILE}`, "--name", "morning");
    await must("a webhook", "hook", "add", "ci", "--channel", "clocked", "--github");
    const schedule = page.locator('[data-schedule="morning"]');
    const hook = page.locator('[data-hook="ci"]');
    await until(SECONDS, async () => (await schedule.count()) === 1 && (await hook.count()) === 1);
    check("both appear by themselves", (await textOf(page)).includes(`Look ${HOSTILE}`), await textOf(page));
    check("a text is only text", (await page.locator("main img").count()) === 0);
    for (const [row, name] of [[schedule, "schedule"], [hook, "hook"]]) {
        await row.locator(`[data-action="pause-${name}"]`).click();
        await until(SECONDS, async () => (await row.getAttribute("data-state")) === "paused");
        same(`the ${name} is paused`, "paused", await row.getAttribute("data-state"));
        await row.locator(`[data-action="resume-${name}"]`).click();
        await until(SECONDS, async () => (await row.getAttribute("data-state")) === "active");
        same(`the ${name} goes on`, "active", await row.getAttribute("data-state"));
    }
    await schedule.locator('[data-action="run-schedule"]').click();
    await until(SECONDS, async () => (await schedule.locator("time[data-ago]").count()) === 1);
    check("a run now is shown", (await schedule.locator("time[data-ago]").count()) === 1, await textOf(page));
    check("with nothing for axe", ...(await violations(page)));
    await must("the schedule is removed", "schedule", "remove", "morning");
    await must("the webhook is removed", "hook", "remove", "ci");
}

// MCP servers: one appears, its failure and its name are only text, and its tools are taken away.
async function served(stage, page) {
    await visit(stage, page, "/dashboard/mcp");
    check("without any, the page says how to begin", (await textOf(page)).includes("flock mcp add"), await textOf(page));
    check("with nothing for axe", ...(await violations(page)));
    await must("a server is added", "mcp", "add", "notes", "--", "python3", "-c", `print(${JSON.stringify(HOSTILE)})`);
    const row = page.locator('[data-server="notes"]');
    await until(SECONDS, async () => (await row.count()) === 1);
    same("it appears by itself and does not run", "idle", await row.getAttribute("data-state"));
    check("its program is only text", (await textOf(page)).includes(HOSTILE) && (await page.locator("main img").count()) === 0, await textOf(page));
    check("with nothing for axe", ...(await violations(page)));
    await must("it is removed", "mcp", "remove", "notes", "--yes");
    await until(SECONDS, async () => (await row.count()) === 0);
    check("it is gone from the page", (await row.count()) === 0);
}
