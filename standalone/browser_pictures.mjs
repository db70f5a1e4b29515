// Pictures of all pages, for people to look at: at three widths and in both themes.
import fs from "node:fs";
import { SECONDS, check, must, until } from "./browser_checking.mjs";
import { SERVER, Server } from "./browser_question.mjs";
import { HELPER } from "./browser_stage.mjs";
import { paths, visit } from "./browser_window.mjs";

const WIDTHS = [360, 1280, 2560];
const PLAN =
    "## The plan\n\nFizzBuzz from 1 to 30, **with tests**.\n\n| number | printed |\n|---|---|\n| 3 | Fizz |\n| 5 | Buzz |\n| 15 | FizzBuzz |\n";
const CODE =
    'It works:\n\n```python\nfor number in range(1, 31):\n    print("Fizz" * (number % 3 == 0) + "Buzz" * (number % 5 == 0) or number)\n```';

// A team that is in the middle of something.
async function work(stage) {
    stage.learn("what is the plan", PLAN);
    stage.learn("show me the code", CODE);
    await stage.request("pypi", { reason: "pytest is not in my sandbox" });
    await stage.tell("work", `@${HELPER} what is the plan?`, "ann");
    const said = async (text) =>
        until(SECONDS, async () => (await stage.messages("work")).some((one) => one.content.includes(text)));
    await said("The plan");
    await stage.tell("work", `@${HELPER} show me the code. これで大丈夫ですか?`, "ann");
    check("the team has said something", await said("It works"));
    const server = new Server();
    await must("an MCP server", "mcp", "add", SERVER, await server.open(), "--allow-local");
    await must("one grant", "mcp", "grant", SERVER, HELPER, "--tools", "ask", "--yes");
    server.close();
    await must("a schedule", "schedule", "add", "work", "0 9 * * 1-5", "Look at yesterday's failures.", "--name", "morning");
    await must("a webhook", "hook", "add", "ci", "--channel", "work", "--github");
}

export async function pictures(stage, browsers) {
    const folder = stage.options.pictures;
    fs.mkdirSync(folder, { recursive: true });
    await work(stage);
    const context = await browsers.person();
    const page = await browsers.tab(context);
    const stranger = await (await browsers.stranger()).newPage();
    const views = [
        ...(await paths(stage, page)).map((path) => [
            page,
            path,
            path.replace(/^\/dashboard\/?/, "").replaceAll("/", "-") || "team",
        ]),
        [stranger, "/dashboard", "stranger"],
    ];
    for (const [one, path, name] of views) {
        for (const colorScheme of ["light", "dark"]) {
            for (const width of WIDTHS) {
                await one.emulateMedia({ colorScheme });
                await one.setViewportSize({ width, height: width === 360 ? 780 : 900 });
                await visit(stage, one, path);
                await one.waitForLoadState("load");
                // To hide the caret, a style would be put into the page, which its policy forbids.
                const file = `${folder}/${name}-${width}-${colorScheme}.png`;
                await one.screenshot({ path: file, caret: "initial", fullPage: true });
                check(file, fs.statSync(file).size > 1_000);
            }
        }
    }
    await page.setViewportSize({ width: 1280, height: 900 });
    await visit(stage, page, "/dashboard");
    await page.keyboard.press("?");
    await page.getByRole("dialog").waitFor();
    await page.screenshot({ path: `${folder}/keys.png`, caret: "initial" });
}
