// The dashboard for people who use a keyboard, a screen reader, a small screen, another theme, or less motion.
import fs from "node:fs";
import { createRequire } from "node:module";
import { SECONDS, check, must, until } from "./browser_checking.mjs";
import { HELPER } from "./browser_stage.mjs";
import { button, stateOf } from "./browser_team.mjs";
import { arrives, box, shown } from "./browser_channels.mjs";
import { paths, visit } from "./browser_window.mjs";

const AXE = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

// Something of everything is on the pages.
async function fill(stage) {
    await stage.request(`seen${Date.now()}`);
    await stage.post("work", "# A title\n\nSome `code`, a [link](https://example.org/) and\n\n| a | b |\n|---|---|\n| 1 | 2 |");
}

// How pages are looked at: with each theme and width, or with `--short` each theme at one width.
const LOOKS = [
    ["light", 1280],
    ["dark", 360],
    ["light", 360],
    ["dark", 1280],
];

// All pages by the rules of axe, and what axe does not look at.
export async function access(stage, browsers) {
    await fill(stage);
    const page = await browsers.page();
    const titles = new Map();
    for (const path of await paths(stage, page)) {
        for (const [colorScheme, width] of stage.options.short ? LOOKS.slice(0, 2) : LOOKS) {
            await page.emulateMedia({ colorScheme });
            await page.setViewportSize({ width, height: 800 });
            await visit(stage, page, path);
            check(`${path}, ${colorScheme}, ${width} px: nothing for axe`, ...(await violations(page)));
        }
        await page.setViewportSize({ width: 320, height: 800 });
        const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
        check(`${path} fits a width of 320 px`, width <= 320, width);
        check(...(await outline(page, path)));
        titles.set(await page.title(), [...(titles.get(await page.title()) ?? []), path]);
    }
    const doubled = [...titles].filter(([title, found]) => !title || found.length > 1);
    check("each page has a title of its own", titles.size > 0 && doubled.length === 0, doubled);
    const stranger = await (await browsers.stranger()).newPage();
    await visit(stage, stranger, "/dashboard");
    check("the page for strangers: nothing for axe", ...(await violations(stranger)));
}

export async function violations(page) {
    await page.evaluate(AXE);
    const found = await page.evaluate((values) => window.axe.run({ runOnly: { type: "tag", values } }), RULES);
    const told = found.violations.map(
        (one) =>
            `${one.id}: ${one.nodes
                .slice(0, 3)
                .map((node) => `${node.target} ${node.failureSummary}`)
                .join("; ")}`,
    );
    return [found.passes.length > 0 && told.length === 0, told];
}

// The parts that each page has, by their roles.
async function outline(page, path) {
    const found = await page.evaluate(() => ({
        main: document.querySelectorAll("main").length,
        id: document.querySelectorAll("main#main").length,
        h1: document.querySelectorAll("h1").length,
        nav: document.querySelectorAll('nav[aria-label="Pages"]').length,
        current: document.querySelectorAll('nav[aria-label="Pages"] [aria-current]').length,
        announce: document.querySelectorAll('#announce[role="status"]').length,
        language: document.documentElement.lang,
    }));
    const { language, ...counts } = found;
    return [
        `${path} has its parts, each once`,
        language.startsWith("en") && Object.values(counts).every((count) => count === 1),
        found,
    ];
}

// What can be used without a mouse.
export async function keyboard(stage, browsers) {
    await fill(stage);
    const page = await browsers.page();
    for (const path of await paths(stage, page)) {
        await visit(stage, page, path);
        await tabbing(page, path);
    }
    await skipping(stage, page);
    await keys(stage, page);
    await working(stage, page);
}

// Walks through a page by the tab key: all that can be used is reached, and shows where one is.
async function tabbing(page, path) {
    const wanted = await page.evaluate(() => {
        const usable = 'a[href], button, input:not([type="hidden"]), select, textarea, summary, [tabindex]';
        const all = [...document.querySelectorAll(usable)].filter(
            (one) =>
                !one.disabled &&
                one.tabIndex >= 0 &&
                one.checkVisibility({ visibilityProperty: true }) &&
                !(one.type === "radio" && !one.checked),
        );
        all.forEach((one, number) => {
            one.dataset.tab = number;
        });
        document.activeElement?.blur();
        return all.length;
    });
    const reached = new Set();
    const unseen = [];
    for (let step = 0; step < 2 * wanted + 10 && reached.size < wanted; step += 1) {
        await page.keyboard.press("Tab");
        const at = await page.evaluate(() => {
            const one = document.activeElement;
            const style = getComputedStyle(one);
            const isRinged = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
            const place = one.getBoundingClientRect();
            const isInside =
                place.width > 0 && place.bottom > 0 && place.top < innerHeight && place.right > 0 && place.left < innerWidth;
            return { tab: one.dataset.tab, isSeen: isRinged && isInside, what: one.outerHTML.slice(0, 200) };
        });
        if (at.tab === undefined) continue;
        reached.add(at.tab);
        if (!at.isSeen) unseen.push(at.what);
    }
    const missed = await page.evaluate(
        (got) =>
            [...document.querySelectorAll("[data-tab]")]
                .filter((one) => !got.includes(one.dataset.tab))
                .map((one) => one.outerHTML.slice(0, 200)),
        [...reached],
    );
    check(`${path}: the tab key reaches all that can be used`, wanted > 0 && missed.length === 0, missed);
    check(`${path}: and one sees where one is`, wanted > 0 && unseen.length === 0, unseen);
}

// The link over the navigation.
async function skipping(stage, page) {
    await visit(stage, page, "/dashboard");
    await page.keyboard.press("Tab");
    const first = await page.evaluate(() => document.activeElement.getAttribute("href"));
    check("the first stop leads to the content", first === "#main", first);
    await page.keyboard.press("Enter");
    const isIn = await until(SECONDS, () => page.evaluate(() => document.activeElement.id === "main"));
    check("and puts the focus there", isIn, await page.evaluate(() => document.activeElement.outerHTML.slice(0, 200)));
    await page.keyboard.press("Tab");
    check(
        "the next stop is in the content",
        await page.evaluate(() => document.getElementById("main").contains(document.activeElement)),
    );
}

// The dialog of keys.
async function keys(stage, page) {
    await visit(stage, page, "/dashboard/channels/work");
    const link = page.locator('nav[aria-label="Pages"] a').first();
    await link.focus();
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog");
    check("? opens the dialog of keys", await until(SECONDS, () => dialog.isVisible()));
    check(
        "which has a name and names the key",
        /\?/.test(await dialog.innerText()) && (await page.getByRole("dialog", { name: /\w/ }).count()) === 1,
    );
    await page.evaluate(AXE);
    check("nothing for axe in it", ...(await violations(page)));
    check("the focus is in it", await dialog.evaluate((one) => one.contains(document.activeElement)));
    await page.keyboard.press("Escape");
    check("Escape closes it", await until(SECONDS, async () => !(await dialog.isVisible())));
    check("and the focus is where it was", await link.evaluate((one) => one === document.activeElement));
    await box(page).focus();
    await page.keyboard.type("why?");
    check(
        "? in a text is a letter",
        (await box(page).inputValue()) === "why?" && !(await dialog.isVisible()),
        await box(page).inputValue(),
    );
}

// The work itself: an agent is frozen and thawed, a message is written.
async function working(stage, page) {
    await visit(stage, page, "/dashboard");
    await button(page, HELPER, "Freeze").focus();
    await page.keyboard.press("Enter");
    check(
        "an agent is frozen by the keyboard",
        await until(SECONDS, async () => /frozen/i.test(await stateOf(page, HELPER))),
        await stateOf(page, HELPER),
    );
    check("which is announced", await announces(page, /frozen|froze/i), await page.locator("#announce").textContent());
    const focus = await page.evaluate(
        () => document.activeElement.closest("[data-agent]")?.dataset.agent ?? document.activeElement.outerHTML.slice(0, 100),
    );
    check("the focus is still at that agent", focus === HELPER, focus);
    await page.keyboard.press("Space");
    check(
        "and thawed by the next key",
        await until(SECONDS, async () => !/frozen/i.test(await stateOf(page, HELPER))),
        await stateOf(page, HELPER),
    );
    // Other parts need it.
    await must("it is thawed in the end", "thaw", HELPER);

    await visit(stage, page, "/dashboard/channels/work");
    await box(page).focus();
    await page.keyboard.type("written without a mouse");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    check(
        "a message is written by the keyboard",
        (await arrives(page, "written without a mouse")).length === 1,
        await shown(page),
    );
    await stage.post("work", "somebody else writes");
    await arrives(page, "somebody else writes");
    check("a new message is announced", await announces(page, /kim|message/i), await page.locator("#announce").textContent());
}

const announces = (page, pattern) => until(SECONDS, async () => pattern.test(await page.locator("#announce").textContent()));

// For people whom motion makes ill, and for those who chose colours of their own.
export async function quiet(stage, browsers) {
    const page = await browsers.page("/dashboard", { reducedMotion: "reduce" });
    for (const path of await paths(stage, page)) {
        await visit(stage, page, path);
        const moving = await page.evaluate(() =>
            [...document.querySelectorAll("*")].flatMap((one) => {
                const style = getComputedStyle(one);
                const isLong = (times) =>
                    times.split(",").some((time) => parseFloat(time) * (time.includes("ms") ? 1 : 1_000) > 10);
                const moves =
                    (style.animationName !== "none" && isLong(style.animationDuration)) ||
                    (/all|transform|left|top|width|height/.test(style.transitionProperty) && isLong(style.transitionDuration));
                return moves ? [one.outerHTML.slice(0, 100)] : [];
            }),
        );
        check(`${path}: nothing moves where less motion is wanted`, moving.length === 0, moving);
    }
    const [light, dark] = await Promise.all(
        ["light", "dark"].map(async (colorScheme) => {
            const one = await browsers.page("/dashboard", { colorScheme });
            return one.evaluate(
                () =>
                    getComputedStyle(document.body).backgroundColor + getComputedStyle(document.documentElement).backgroundColor,
            );
        }),
    );
    check("the theme follows the person's", light !== dark, [light, dark]);
    const forced = await browsers.page("/dashboard", { forcedColors: "active" });
    check("the buttons are there with forced colours", await until(SECONDS, () => button(forced, HELPER, "Freeze").isVisible()));
}
