// What a person changes in a channel, and names that are completed while a person writes.
import { SECONDS, check, same, until } from "./browser_checking.mjs";
import { arrives, box, send, shown, write } from "./browser_channels.mjs";
import { ASKER, HELPER } from "./browser_stage.mjs";
import { isMarked, mark, reads, textOf } from "./browser_window.mjs";

const PATH = "/dashboard/channels/managed";
const channelNow = async (stage) => (await stage.api("GET", "/api/channels/managed")).data;
const button = (page, name) => page.locator("#manage").getByRole("button", { name, exact: true });
const members = (page) =>
    page.locator("#members .member").evaluateAll((all) => all.map((one) => one.firstChild.textContent.trim()));

async function opened(browsers) {
    const page = await browsers.page(PATH);
    await page.locator("#manage > summary").click();
    await mark(page);
    return page;
}

export async function manage(stage, browsers) {
    await stage.channel("managed", "the first topic");
    const page = await opened(browsers);
    const other = await opened(browsers);
    await topic(stage, page, other);
    await people(stage, page, other);
    await completion(stage, page);
    await archive(stage, browsers, page, other);
    check("no page was loaded again", (await Promise.all([page, other].map(isMarked))).every(Boolean));
}

async function topic(stage, page, other) {
    const wanted = 'a second topic, with <b> & "quotes"';
    const field = (one) => one.getByLabel("Topic", { exact: true });
    await field(page).fill(wanted);
    await button(page, "Save").click();
    const isStored = () => until(SECONDS, async () => (await channelNow(stage)).topic === wanted);
    check("a topic is changed on the page", await isStored(), await channelNow(stage));
    for (const [name, one] of [
        ["the page", page],
        ["the other browser", other],
    ]) {
        const shows = async () => (await one.locator("#topic").innerText()).trim() === wanted;
        check(`the new one is shown: ${name}`, await until(SECONDS, shows), await one.locator("#topic").innerText());
        check(`also in the field: ${name}`, await until(SECONDS, async () => (await field(one).inputValue()) === wanted));
    }
    await field(other).fill("a draft of a topic");
    await stage.api("PUT", "/api/channels/managed", { topic: "from elsewhere", as: "kim" });
    check("a topic from elsewhere comes", await reads(other, /from elsewhere/, SECONDS), await textOf(other));
    check("and leaves alone what a person types", (await field(other).inputValue()) === "a draft of a topic");
    const before = await channelNow(stage);
    await field(page).fill("");
    await button(page, "Save").click();
    await field(page).fill(" ");
    await button(page, "Save").click();
    const refused = await until(SECONDS, async () => /failed/i.test(await page.locator("#announce").textContent()));
    check("an empty topic is refused aloud", refused, await page.locator("#announce").textContent());
    check("and changes nothing", (await channelNow(stage)).topic === before.topic, await channelNow(stage));
}

async function people(stage, page, other) {
    const has = async (one, name) => (await members(one)).includes(name);
    const field = page.getByLabel("New member", { exact: false });
    await field.fill("human:ann");
    await button(page, "Add").click();
    const isStored = await until(SECONDS, async () => (await channelNow(stage)).members.includes("human:ann"));
    check("a member is added on the page", isStored, await channelNow(stage));
    const seen = new Set();
    for (const [name, one] of [
        ["the page", page],
        ["the other browser", other],
    ]) {
        if (await until(SECONDS, () => has(one, "human:ann"))) seen.add(one);
        check(`it is shown: ${name}`, seen.has(one), await members(one));
        const removes = async () => (await button(one, "Remove human:ann").count()) === 1;
        check(`with a button that removes it: ${name}`, await until(SECONDS, removes), await textOf(one));
    }
    check("the field is empty again", (await field.inputValue()) === "", await field.inputValue());
    for (const [name, one] of [
        ["the page", page],
        ["the other browser", other],
    ]) {
        await box(one).fill("@an");
        await box(one).press("n");
        const offered = async () => (await options(one)).some((each) => each.name === "ann");
        check(`who came meanwhile is offered after @: ${name}`, await until(SECONDS, offered), await options(one));
        await box(one).fill("");
    }

    const before = (await channelNow(stage)).members;
    await field.fill("nobody-of-this-name");
    await button(page, "Add").click();
    const told = await until(SECONDS, async () => /nobody-of-this-name/.test(await page.locator("#announce").textContent()));
    check("somebody who is not there is refused aloud", told, await page.locator("#announce").textContent());
    check("with the name still in the field", (await field.inputValue()) === "nobody-of-this-name", await field.inputValue());
    same("and nobody is added", before, (await channelNow(stage)).members);
    await field.fill("");

    await button(page, "Remove human:ann").click();
    const isGone = await until(SECONDS, async () => !(await channelNow(stage)).members.includes("human:ann"));
    check("a member is removed on the page", isGone, await channelNow(stage));
    for (const [name, one] of [
        ["the page", page],
        ["the other browser", other],
    ]) {
        const isOver = seen.has(one) && (await until(SECONDS, async () => !(await has(one, "human:ann"))));
        check(`it is not shown any more: ${name}`, isOver, await members(one));
    }
    const audit = (await stage.api("GET", "/api/audit?action=channel&limit=20")).data.rows ?? [];
    const person = await page.locator('meta[name="person"]').getAttribute("content");
    const own = audit.filter((row) => row.subject.startsWith("managed") && row.actor === `human:${person}`);
    check("the audit has it with the person", own.length >= 3, audit);
}

const options = (page) =>
    page
        .locator('#mentions:not([hidden]) [role="option"]')
        .evaluateAll((all) => all.map((one) => ({ id: one.id, name: one.textContent, isSelected: one.ariaSelected === "true" })));

// The one option that is chosen, if the field says the same of it.
async function selected(page) {
    const chosen = (await options(page)).filter((one) => one.isSelected);
    const active = await box(page).getAttribute("aria-activedescendant");
    return chosen.length === 1 && chosen[0].id === active ? chosen[0].name : JSON.stringify([chosen, active]);
}

// Names after @.
async function completion(stage, page) {
    const before = (await stage.messages("managed")).length;
    const value = () => box(page).inputValue();
    const isOpen = async () => (await options(page)).length > 0;
    await box(page).focus();
    await page.keyboard.type("hello @");
    const names = (await options(page)).map((one) => one.name);
    check(
        "@ offers the members, and all",
        ["all", HELPER, ASKER].every((one) => names.includes(one)),
        names,
    );
    check("the first is chosen", (await selected(page)) === names[0], await selected(page));
    await page.keyboard.press("ArrowDown");
    check("the arrow keys go down", (await selected(page)) === names[1], await selected(page));
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    check("and up, over the end", (await selected(page)) === names.at(-1), await selected(page));
    await page.keyboard.type(ASKER.slice(0, 2).toUpperCase());
    same(
        "letters choose, in either case",
        [ASKER],
        (await options(page)).map((one) => one.name),
    );
    await page.keyboard.press("Enter");
    check("Enter takes it", (await value()) === `hello @${ASKER} `, await value());
    check("the list is closed then", !(await isOpen()), await options(page));

    await page.keyboard.type(`and @${HELPER.slice(0, 2)}`);
    await page.keyboard.press("Tab");
    check("Tab takes it as well", (await value()) === `hello @${ASKER} and @${HELPER} `, await value());
    const isFocused = () => box(page).evaluate((one) => one === document.activeElement);
    check("and stays in the field", await isFocused());
    await page.keyboard.type("@");
    await page.keyboard.press("Escape");
    check("Escape closes the list", !(await isOpen()), await options(page));
    check("but does not leave the field", await isFocused());
    await page.keyboard.type("zzz");
    check("nothing is offered for no name", !(await isOpen()), await options(page));
    await box(page).fill("");
    await page.keyboard.type("mail@he");
    check("nor in the middle of a word", !(await isOpen()), await options(page));

    await box(page).fill("");
    await page.keyboard.type(`@${HELPER.slice(0, 2)} how are you`);
    for (let step = 0; step < " how are you".length; step += 1) await page.keyboard.press("ArrowLeft");
    await page.keyboard.type(HELPER.slice(2, 3));
    const option = page.locator("#mentions").getByRole("option", { name: HELPER, exact: true });
    await option.click();
    check("the mouse takes it, in the middle of a text", (await value()) === `@${HELPER}  how are you`, await value());
    check("and the field keeps the focus", await isFocused());
    check("nothing was sent meanwhile", (await stage.messages("managed")).length === before, await stage.messages("managed"));
    await page.keyboard.press("Enter");
    const [answer] = await arrives(page, "I am well.");
    check("what is sent then reaches the one who is named", answer?.author.includes(HELPER), await shown(page));
}

// The steps of archiving, each on one page and seen on the other.
async function archive(stage, browsers, page, other) {
    const list = await browsers.page("/dashboard/channels");
    const both = [
        ["the page", page],
        ["the other browser", other],
    ];
    const states = { active: /active/, archiving: /being archived/, archived: /(?<!being )archived/ };
    const step = async (one, name, state, buttons) => {
        await button(one, name).click();
        const isStored = await until(SECONDS, async () => (await channelNow(stage)).state === state);
        check(`${name}: the channel is ${state}`, isStored, await channelNow(stage));
        for (const [whose, each] of both) {
            const all = async () => (await each.locator('#manage [data-action="archive"]').allInnerTexts()).join();
            check(
                `${name}: its buttons are the next steps: ${whose}`,
                await until(SECONDS, async () => (await all()) === buttons),
                await all(),
            );
            const text = async () => each.locator("#topic").innerText();
            const isTold = async () => (state === "active" ? !/archiv/.test(await text()) : states[state].test(await text()));
            check(`${name}: the state is told: ${whose}`, await until(SECONDS, isTold), await text());
            const writes = async () => (await send(each).count()) === (state === "archived" ? 0 : 1);
            check(`${name}: one can write unless it is archived: ${whose}`, await until(SECONDS, writes), await textOf(each));
        }
        const row = list.locator('tr[data-channel="managed"] td').last();
        check(
            `${name}: the list has it`,
            await until(SECONDS, async () => states[state].test(await row.innerText())),
            await row.innerText(),
        );
    };
    await step(page, "Archive", "archiving", "Stop archiving,Archive now");
    const waits = async () => (await other.locator("#members .ready").allInnerTexts()).join("");
    check(
        "each member has a mark of whether it is ready",
        await until(SECONDS, async () => /^[…✓]{2}$/.test(await waits())),
        await waits(),
    );
    await step(other, "Stop archiving", "active", "Archive");
    check("the marks are gone", await until(SECONDS, async () => (await waits()) === ""), await waits());
    await step(page, "Archive", "archiving", "Stop archiving,Archive now");
    await step(page, "Archive now", "archived", "Open again");
    await step(other, "Open again", "active", "Archive");

    await write(page, "written after it was opened again");
    for (const [whose, one] of both)
        check(
            `one writes in it as before: ${whose}`,
            (await arrives(one, "written after it was opened again")).length === 1,
            await shown(one),
        );
    await box(page).fill("by Enter after it was opened again");
    await box(page).press("Enter");
    const [sent] = await arrives(other, "by Enter after it was opened again");
    check("also by Enter", sent, [await box(page).inputValue(), await shown(other)]);
    await box(page).fill("");
    await box(page).pressSequentially(`@${HELPER.slice(0, 2)}`);
    const names = (await options(page)).map((one) => one.name);
    check("and with names that are completed", names.includes(HELPER), names);
}
