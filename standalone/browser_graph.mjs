// The page of the graph: its contacts, turns and tasks are those of the gateway, and it follows what happens.
import { SECONDS, SOON, check, same, until } from "./browser_checking.mjs";
import { ASKER, HELPER } from "./browser_stage.mjs";
import { isMarked, mark, visit } from "./browser_window.mjs";

const graphOf = async (stage, hours = 24) =>
    (await stage.api("GET", `/api/graph?since=${Date.now() - hours * 3_600_000}`)).data;

const KINDS = { post: "message", mention: "mention", direct: "direct message" };

const rows = (page) =>
    page
        .locator("#contacts tbody tr")
        .evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent.trim()).join(" | ")));

// The turns that the bars stand for: those that nobody could tell apart are one bar.
const drawn = (page) =>
    page.locator("#timeline rect").evaluateAll((bars) => bars.reduce((sum, bar) => sum + Number(bar.dataset.turns), 0));

export async function graph(stage, browsers) {
    const other = "graphed";
    stage.teach("pass it on", {
        calls: [{ name: "flock_message", arguments: { to: ASKER, message: "please look at the graph" } }],
    }, { say: "It is passed on." });
    await stage.channel(other);
    await stage.tell(other, `@${HELPER} pass it on`, "kim");
    const talked = async () => {
        const { contacts } = await graphOf(stage);
        return contacts.some((one) => one.from === HELPER && one.to === ASKER && one.kind === "direct");
    };
    check("the gateway knows who talked to whom", await until(SOON, talked), (await graphOf(stage)).contacts);

    const page = await browsers.page("/dashboard/graph");
    await mark(page);
    await until(SECONDS, async () => (await drawn(page)) === (await graphOf(stage)).turns.length);
    const counted = [(await graphOf(stage)).turns.length, await drawn(page)];
    check("each turn is in a bar", counted[0] > 0 && counted[0] === counted[1], counted);
    const wanted = (await graphOf(stage)).contacts.map(({ from, to, kind, count }) => `${from} | ${to} | ${KINDS[kind]} | ${count}`);
    await until(SECONDS, async () => JSON.stringify((await rows(page)).sort()) === JSON.stringify(wanted.sort()));
    same("and a row for each pair", wanted.sort(), (await rows(page)).sort());
    const names = await page.locator("#contacts svg text").allTextContents();
    check("everybody is in the picture", [HELPER, ASKER, "human:kim", `#${other}`].every((name) => names.includes(name)), names);
    const overlapping = await page.locator("#contacts svg text").evaluateAll((texts) => {
        const frame = texts[0].ownerSVGElement.getBoundingClientRect();
        return texts.filter((text) => {
            const box = text.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1;
        }).map((text) => text.textContent);
    });
    check("and no name is cut off", overlapping.length === 0, overlapping);

    const tasks = (await stage.api("GET", "/api/tasks?limit=200")).data.tasks;
    same(
        "each task is there with its state",
        tasks.map((task) => `${task.id} ${task.state}`).sort(),
        (await page.locator("#tasks [data-task]").evaluateAll((all) =>
            all.map((one) => `${one.dataset.task} ${one.querySelector(".state").textContent}`))).sort(),
    );

    const before = await drawn(page);
    await stage.tell(other, `@${HELPER} once more`, "kim");
    check("a further turn is added", await until(SECONDS, async () => (await drawn(page)) > before), before);
    check("without a reload", await isMarked(page));
    await page.locator("#timeline a").last().focus();
    await page.keyboard.press("Enter");
    check("a turn leads to its session", await until(SECONDS, () => page.url().includes("/dashboard/sessions/agent%3A")), page.url());

    await visit(stage, page, "/dashboard/graph?hours=1");
    same("an hour can be chosen", ["1 h"], await page.locator('.tabs [aria-current="true"]').allInnerTexts());
    await visit(stage, page, "/dashboard/graph?hours=x");
    same("something else is a day", ["24 h"], await page.locator('.tabs [aria-current="true"]').allInnerTexts());
}
