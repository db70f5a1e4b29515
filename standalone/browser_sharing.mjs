// The page of people: what an owner does there about those who share the home, and the tokens that it shows once.
import { SECONDS, check, must, until } from "./browser_checking.mjs";
import { violations } from "./browser_access.mjs";
import { harmless, ran, RTL } from "./browser_hostile.mjs";
import { signIn } from "./browser_people.mjs";
import { HELPER } from "./browser_stage.mjs";
import { isMarked, isSignedOut, mark, textOf, visit } from "./browser_window.mjs";

const PATH = "/dashboard/people";
const NAME = "paula";
const link = (page) => page.locator(`nav[aria-label=Pages] a[href="${PATH}"]`);
const card = (page) => page.locator(`[data-person="${NAME}"][data-state="active"]`);
const field = (page, name) => card(page).locator(`[data-field="${name}"]`);
const token = (page, number) => card(page).locator(`[data-token="${NAME}.${number}"]`);
const dialog = (page) => page.getByRole("dialog");
const said = (page) => page.locator("#announce").textContent();
const says = (page, text) => until(SECONDS, async () => (await said(page)).includes(text));
const now = async (stage) => (await stage.api("GET", `/api/people/${NAME}`)).data;

export async function sharing(stage, browsers) {
    const context = await browsers.person();
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: stage.origin });
    const page = await browsers.tab(context);
    check("with one person no page leads to that of people", (await link(page).count()) === 0);
    await visit(stage, page, PATH);
    await mark(page);
    check("it is there by its address, and marks itself", (await link(page).getAttribute("aria-current")) === "page");
    const secret = await adding(stage, page);
    const theirs = await coming(stage, browsers, page, secret);
    await changing(stage, page);
    await renewing(stage, page, theirs);
    check("no page was loaded again", await isMarked(page));
    await hostileAccount(stage, page);
    await looks(stage, page);
    await removing(stage, page);
}

// A person is added with limits and a budget, and the token is in a window that is closed for good.
async function adding(stage, page) {
    await page.locator("#add-person > summary").click();
    const form = page.locator("#add-person form");
    await form.getByLabel("Name").fill(NAME);
    await form.getByLabel("Role").selectOption("viewer");
    await form.getByLabel("Agents").fill("nobody-here");
    await form.getByLabel("Channels").fill("work, lobby");
    await form.getByLabel("Tokens in a day").fill("5000");
    await form.getByLabel("Dollars in a day").fill("1.5");
    await form.getByLabel("Days until").fill("30");
    const add = form.getByRole("button", { name: "Add", exact: true });
    await add.click();
    check("an agent that is not there is refused aloud", await says(page, "nobody-here"), await said(page));
    check("with what was typed still there", (await form.getByLabel("Name").inputValue()) === NAME);
    await form.getByLabel("Agents").fill(HELPER);
    await add.click();
    check("a new token is in a window", await until(SECONDS, () => dialog(page).isVisible()), await textOf(page));
    const secret = await dialog(page).getByLabel("Token", { exact: true }).inputValue();
    check("it is a token, with its name", /^flk_[0-9a-f]{64}$/.test(secret) && (await dialog(page).innerText()).includes(`${NAME}.1`), secret);
    check("nothing for axe in the window", ...(await violations(page)));
    const copy = dialog(page).getByRole("button", { name: "Copy" });
    check("the focus is on the button that copies it", await copy.evaluate((one) => one === document.activeElement));
    await page.keyboard.press("Enter");
    const isCopied = await until(SECONDS, async () => (await dialog(page).getByRole("status").innerText()) === "Copied.");
    check("it is copied, and the window says so", isCopied, await dialog(page).innerText());
    check("as it is", (await page.evaluate(() => navigator.clipboard.readText())) === secret);
    await page.keyboard.press("g");
    await page.keyboard.press("t");
    check("no key leads away from the window", new URL(page.url()).pathname === PATH && (await dialog(page).isVisible()));
    await page.keyboard.press("Escape");
    check("Escape closes it", await until(SECONDS, async () => !(await dialog(page).isVisible())));
    const isGone = async () => (await page.locator("#new-token-value").inputValue()) === "";
    check("and the token is gone from the page", (await until(SECONDS, isGone)) && !(await page.content()).includes(secret));
    const focus = await page.evaluate(() => document.activeElement.textContent);
    check("the focus is back at the form", focus === "Add a person", focus);

    check("the person is there, without a reload", await until(SECONDS, () => card(page).count()), await textOf(page));
    const { role, agents, channels, dayTokens, dayCostMicros, tokens } = await now(stage);
    check("with what was typed", JSON.stringify([role, agents, channels, dayTokens, dayCostMicros]) === JSON.stringify(["viewer", [HELPER], ["lobby", "work"], 5000, 1_500_000]), [role, agents, channels]);
    const days = (tokens[0].expiresAt - Date.now()) / 86_400_000;
    check("and a token of thirty days", tokens.length === 1 && Math.abs(days - 30) < 0.1, tokens);
    const shown = await Promise.all(["role", "agents", "channels", "seen"].map((name) => field(page, name).innerText()));
    check("which the page shows", shown.join("; ") === `viewer; ${HELPER}; lobby, work; not known`, shown);
    const budget = await field(page, "budget").innerText();
    check("with the budget", /^0 tokens of 5,000 tokens\s+\$0\.00 of \$1\.50$/.test(budget.trim()), budget);
    return secret;
}

// The token lets its person in, who gets no page of people, and the owner sees that somebody came.
async function coming(stage, browsers, page, secret) {
    const theirs = await (await browsers.stranger()).newPage();
    await visit(stage, theirs, "/dashboard");
    await signIn(theirs, secret);
    const isIn = await until(SECONDS, async () => (await theirs.locator("nav[aria-label=Pages]").count()) === 1);
    check("the token signs its person in", isIn, await textOf(theirs));
    check("who is offered no page of people", (await link(theirs).count()) === 0);
    const refused = await visit(stage, theirs, PATH);
    check("and is refused it", refused.status() === 403 && !(await theirs.content()).includes("data-person"), refused.status());
    await visit(stage, theirs, "/dashboard");
    const tokens = async () => (await stage.api("GET", "/api/tokens")).data.tokens;
    const isUsed = async () => (await tokens()).find((one) => one.name === `${NAME}.1`)?.lastUsedAt > 0;
    check("the use of the token is known", await until(SECONDS, isUsed));
    await visit(stage, page, PATH);
    await mark(page);
    const seen = await Promise.all(["seen", "browsers"].map((name) => field(page, name).innerText()));
    check("the owner sees that somebody came", /now|ago/.test(seen[0]) && seen[1] === "1", seen);
    check("and by which token", /last used/.test(await token(page, 1).innerText()), await token(page, 1).innerText());
    check("other pages lead here now", (await link(page).count()) === 1);
    return theirs;
}

// Rights are changed by the keyboard alone, and only those that somebody touched.
async function changing(stage, page) {
    const summary = card(page).locator("summary", { hasText: "Rights and budget" });
    const form = card(page).locator('[data-form="change-person"]');
    await summary.focus();
    await page.keyboard.press("Enter");
    check("the form opens by the keyboard", await until(SECONDS, () => form.isVisible()));
    await form.getByLabel("Role").selectOption("owner");
    await form.getByLabel("Role").focus();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    check("what is not allowed is refused aloud", await says(page, "for all agents and channels"), await said(page));
    check("and not done", (await now(stage)).role === "viewer", await now(stage));
    await form.getByLabel("Role").selectOption("member");
    // Meanwhile somebody else changes what is not touched here.
    await must("another change", "person", "set", NAME, "--channels", "work");
    await form.getByLabel("Tokens in a day").fill("");
    await page.keyboard.press("Enter");
    const isChanged = () => until(SECONDS, async () => (await now(stage)).role === "member");
    check("the rights are changed", await isChanged(), await now(stage));
    const { agents, channels, dayTokens, dayCostMicros } = await now(stage);
    check("with the budget", dayTokens === null && dayCostMicros === 1_500_000, [dayTokens, dayCostMicros]);
    check("and nothing else is set back", agents.join() === HELPER && channels.join() === "work", [agents, channels]);
    const isShown = async () => (await field(page, "role").innerText()) === "member" && (await field(page, "channels").innerText()) === "work";
    check("which the page shows", await until(SECONDS, isShown), await card(page).innerText());
    check("the form is closed, with the focus at hand", await summary.evaluate((one) => one === document.activeElement));
    await summary.click();
    const values = [await form.getByLabel("Role").inputValue(), await form.getByLabel("Channels").inputValue()];
    check("and has the new values", values.join("; ") === "member; work", values);
    await summary.click();
}

// Another token, and the end of the first one with its browser.
async function renewing(stage, page, theirs) {
    await card(page).locator("summary", { hasText: "New token" }).click();
    await card(page).getByRole("button", { name: "Create" }).click();
    check("another token is in the window", await until(SECONDS, () => dialog(page).isVisible()), await textOf(page));
    const secret = await dialog(page).getByLabel("Token", { exact: true }).inputValue();
    await dialog(page).getByRole("button", { name: "Close" }).click();
    const isGone = async () => (await page.locator("#new-token-value").inputValue()) === "";
    check("which is closed by its button, without the token", await until(SECONDS, isGone));
    check("the other one is listed", await until(SECONDS, () => token(page, 2).count()), await card(page).innerText());
    check("without an end, and unused", /not used yet, without an end/.test(await token(page, 2).innerText()), await token(page, 2).innerText());
    check("and no page has it", !(await page.content()).includes(secret));
    await card(page).getByRole("button", { name: `Revoke: ${NAME}.1` }).click();
    check("the first one is revoked", await until(SECONDS, async () => (await token(page, 1).count()) === 0), await card(page).innerText());
    check("which the page says", await says(page, "Revoked."), await said(page));
    await visit(stage, theirs, "/dashboard");
    check("its browser is signed out", await isSignedOut(theirs, SECONDS), await textOf(theirs));
    const { tokens } = await now(stage);
    check("and only that", tokens.filter((one) => one.revokedAt === null).map((one) => one.name).join() === `${NAME}.2`, tokens);
}

// An account with a name that wants to be more than text.
async function hostileAccount(stage, page) {
    const evil = `"><img src=x onerror="${ran("account")}">${RTL}<script>${ran("accountscript")}</script>`;
    const bound = await stage.api("POST", "/api/people/accounts", { name: NAME, bridge: "matrix", account: evil });
    check("somebody has a hostile account", bound.status === 200, bound);
    await visit(stage, page, PATH);
    await harmless(stage, page, PATH);
    const shown = await field(page, "accounts").innerText();
    check("its name is text", shown === `matrix:${evil.replace(RTL, "\\u{202e}")}`, shown);
}

// All forms are open: nothing for axe, and nothing is wider than a small screen.
async function looks(stage, page) {
    await page.evaluate(() => {
        for (const one of document.querySelectorAll("details")) one.open = true;
    });
    for (const [colorScheme, width] of [
        ["light", 1280],
        ["dark", 360],
    ]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        check(`all forms, ${colorScheme}, ${width} px: nothing for axe`, ...(await violations(page)));
    }
    await page.setViewportSize({ width: 320, height: 800 });
    const width = await page.evaluate(() => document.scrollingElement.scrollWidth);
    check("all of it fits a width of 320 px", width <= 320, width);
    await page.setViewportSize({ width: 1280, height: 800 });
}

// A person is removed, and with the last one the way here.
async function removing(stage, page) {
    await visit(stage, page, PATH);
    await mark(page);
    const name = `Remove ${NAME}`;
    const button = card(page).getByRole("button", { name });
    check("nobody is removed by one click", !(await button.isVisible()));
    await card(page).locator("summary", { hasText: name }).click();
    await button.click();
    check("the person is gone", await until(SECONDS, async () => (await card(page).count()) === 0), await textOf(page));
    check("which the page says", await says(page, `${NAME} is removed.`), await said(page));
    check("without a reload", await isMarked(page));
    const removed = page.locator(`[data-person="${NAME}"][data-state="removed"]`);
    check("the name stays among those who were removed", (await removed.count()) === 1, await textOf(page));
    check("nothing is left of the tokens", (await now(stage)).tokens === undefined, await now(stage));
    const row = ((await stage.api("GET", "/api/audit?action=person.remove&limit=1")).data.rows ?? [])[0];
    const person = await page.locator('meta[name="person"]').getAttribute("content");
    check("the audit names who did it", row?.actor === `human:${person}` && row.subject === `human:${NAME}`, row);
    await visit(stage, page, "/dashboard");
    check("no page leads to that of people any more", (await link(page).count()) === 0);
}
