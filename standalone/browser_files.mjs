// Pictures and files: in channels and in a chat, chosen, pasted and dropped, shown, downloaded, refused and gone. And what
// a chat offers besides: commands, and the messages that wait.
import fs from "node:fs";
import { HOME, SECONDS, SOON, check, same, until } from "./browser_checking.mjs";
import { violations } from "./browser_access.mjs";
import { arrives, box, send, shown, write } from "./browser_channels.mjs";
import { sessionPage } from "./browser_chat.mjs";
import { HELPER } from "./browser_stage.mjs";
import { reads, textOf, visit } from "./browser_window.mjs";

const HOSTILE = "<!doctype html><script>document.title = 'ran'; alert('ran')</script>";
const workspace = `${HOME}/workspaces/${HELPER}`;

// A picture that browsers can show.
const picture = (page) => page.screenshot({ caret: "initial", clip: { x: 0, y: 0, width: 320, height: 200 } });
const attached = (page) => page.locator("#attached li").allTextContents();
const isLoaded = (image) => image.evaluate((one) => one.complete && one.naturalWidth > 0);
const announced = (page, pattern) =>
    until(SECONDS, async () => pattern.test(await page.locator("#announce").textContent()));

// A large file takes its time on its way into the browser.
async function choose(page, ...files) {
    await page.locator("#attach-input").setInputFiles(
        files.map(([name, mimeType, buffer]) => ({ name, mimeType, buffer: Buffer.from(buffer) })),
        { timeout: 2 * SOON },
    );
}

// Gives a file to an element as the clipboard or a drag does.
const give = (page, kind, [name, mimeType, text]) =>
    page.evaluate(
        ({ kind, name, mimeType, text }) => {
            const data = new DataTransfer();
            data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name, { type: mimeType }));
            const given = { bubbles: true, cancelable: true };
            const event =
                kind === "paste"
                    ? new ClipboardEvent("paste", { ...given, clipboardData: data })
                    : new DragEvent(kind, { ...given, dataTransfer: data });
            return !document.getElementById("compose").dispatchEvent(event);
        },
        { kind, name, mimeType, text: Buffer.from(text).toString("base64") },
    );

export async function files(stage, browsers) {
    await stage.channel("files");
    const page = await browsers.page("/dashboard/channels/files");
    const other = await browsers.page("/dashboard/channels/files");
    const image = await picture(page);
    await chosen(page, image);
    await refused(page);
    await posted(stage, page, other, image);
    await linked(stage, page);
    await inChat(stage, browsers, image);
}

async function chosen(page, image) {
    const attach = page.getByRole("button", { name: "Attach files", exact: true });
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), attach.press("Enter")]);
    check("the button opens the choice of files by the keyboard, of several", chooser.isMultiple());
    await chooser.setFiles([{ name: "one.txt", mimeType: "text/plain", buffer: Buffer.from("one") }]);
    check("a pasted picture is taken", await give(page, "paste", ["pasted.png", "image/png", image]));
    check("files may be dropped", await give(page, "dragover", ["x", "text/plain", "x"]));
    check("and are taken", await give(page, "drop", ["dropped.txt", "text/plain", "dropped"]));
    const names = (await attached(page)).map((text) => text.split(" ")[0]);
    same("all of them are listed", ["one.txt", "pasted.png", "dropped.txt"], names);
    const remove = page.getByRole("button", { name: "Remove one.txt", exact: true });
    await remove.press("Enter");
    check("one is removed again", (await attached(page)).length === 2, await attached(page));
    const focused = await page.evaluate(() => document.activeElement?.ariaLabel);
    check("the focus is on the next one", focused === "Remove pasted.png", focused);
    check("axe finds nothing wrong with them", ...(await violations(page)));
    await page.getByRole("button", { name: /^Remove/ }).last().click();
    await page.getByRole("button", { name: /^Remove/ }).last().click();
    check("without files there is no list", await page.locator("#attached").isHidden());
    check("and the focus is on the button", await attach.evaluate((one) => one === document.activeElement));
}

async function refused(page) {
    await choose(page, ["run.bin", "application/octet-stream", "\x7fELF and more"]);
    check("a program is refused before anything is sent", await announced(page, /run\.bin is not taken: it is a program/));
    check("and taken off the list", await until(SECONDS, async () => (await attached(page)).length === 0), await attached(page));
    await choose(page, ["long.bin", "application/octet-stream", Buffer.alloc((20 << 20) + 1)]);
    check("a file that is too large is refused by name", await announced(page, /long\.bin is not attached: it has 21 MiB/));
    const many = Array.from({ length: 11 }, (_, number) => [`many${number}.txt`, "text/plain", "x"]);
    await choose(page, ...many);
    check("the eleventh file is refused", await announced(page, /many10\.txt is not attached: a message takes 10/));
    check("the others are taken", (await attached(page)).length === 10, await attached(page));
    for (let left = 10; left > 0; left -= 1) await page.getByRole("button", { name: /^Remove/ }).first().click();
}

async function posted(stage, page, other, image) {
    await choose(page, ["view.png", "image/png", image], ["page.html", "text/html", HOSTILE]);
    await write(page, "see these files");
    for (const [name, one] of [
        ["it", page],
        ["the other browser", other],
    ]) {
        check(`the message comes: ${name}`, (await arrives(one, "see these files")).length === 1, await shown(one));
        const img = one.getByRole("img", { name: "Picture view.png", exact: true });
        check(`its picture is shown: ${name}`, await until(SECONDS, () => isLoaded(img)), await one.locator("#messages").innerHTML());
    }
    check("the list is empty again", (await attached(page)).length === 0, await attached(page));
    check("the places are not read as text", !(await textOf(page)).includes("[attachment"), await textOf(page));
    const [opened] = await Promise.all([
        page.context().waitForEvent("page"),
        page.getByRole("img", { name: "Picture view.png", exact: true }).click(),
    ]);
    await opened.waitForLoadState("load");
    check("a click opens it in full", await until(SECONDS, () => isLoaded(opened.locator("img"))), opened.url());
    await opened.close();
    const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("link", { name: "page.html.txt", exact: true }).click(),
    ]);
    check("another file is downloaded", fs.readFileSync(await download.path(), "utf8") === HOSTILE);
    const href = await page.getByRole("link", { name: "page.html.txt", exact: true }).getAttribute("href");
    const direct = await page.context().newPage();
    const [saved] = await Promise.all([
        direct.waitForEvent("download"),
        direct.goto(stage.origin + href).catch(() => null),
    ]);
    check("also by its address, and nothing of it runs", saved && (await direct.title()) !== "ran", direct.url());
    await direct.close();
    const message = (await stage.messages("files")).at(-1);
    const places = [...message.content.matchAll(/\[attachment: (.*)\]/g)].map(([, place]) => place);
    check("the agent has them", fs.readFileSync(`${workspace}/${places[0]}`).equals(Buffer.from(image)), message);
    fs.rmSync(`${workspace}/inbox`, { recursive: true });
    fs.rmSync(`${HOME}/workspaces/asker/inbox`, { recursive: true });
    await page.reload({ waitUntil: "domcontentloaded" });
    check("what is gone is said to be gone", await reads(page, /page\.html\.txt is not there \(any more\)/, SECONDS), await textOf(page));

    await choose(page, ["alone.txt", "text/plain", "alone"]);
    await send(page).click();
    const alone = page.getByRole("link", { name: "alone.txt", exact: true });
    check("a file needs no text", await until(SECONDS, () => alone.count()), await textOf(page));
    check("the box has nothing left", (await box(page).inputValue()) === "" && (await attached(page)).length === 0);
    check("axe finds nothing wrong with files of messages", ...(await violations(page)));
}

// What an agent links.
async function linked(stage, page) {
    fs.writeFileSync(`${workspace}/chart.png`, await picture(page));
    stage.learn("draw a chart", "Here: ![the chart](chart.png), with [numbers](numbers.csv).");
    await stage.tell("files", `@${HELPER} draw a chart`);
    const chart = page.getByRole("img", { name: "Picture chart.png", exact: true });
    check("a picture that an agent links is shown", await until(SOON, () => chart.count().then((count) => count && isLoaded(chart))));
    check("and what it links without having it is said", await reads(page, /numbers\.csv is not there/, SECONDS), await textOf(page));
}

const field = (page) => page.getByRole("textbox", { name: `Message to ${HELPER}`, exact: true });

async function inChat(stage, browsers, image) {
    const page = await browsers.page();
    const person = await page.locator('meta[name="person"]').getAttribute("content");
    const key = `agent:${HELPER}:flock:main:${person}`;
    await visit(stage, page, sessionPage(key));
    stage.learn("what do you see", "I see it.");
    await choose(page, ["screen.png", "image/png", image], ["notes.txt", "text/plain", "my notes"], ["fake.png", "image/png", "no picture"]);
    await field(page).fill("what do you see");
    await field(page).press("Enter");
    const img = page.getByRole("img", { name: "Picture 1", exact: true });
    check("a picture goes to the model and is shown in the turn", await until(SOON, async () => (await img.count()) && isLoaded(img)), await textOf(page));
    const turns = (await stage.api("GET", `/api/sessions/${encodeURIComponent(key)}/transcript`)).data.turns;
    const said = turns.flatMap((turn) => turn.items).find((item) => item.text?.startsWith("what do you see"));
    const places = [...(said?.text ?? "").matchAll(/\[attachment: (.*)\]/g)].map(([, place]) => place);
    check("other files are in the agent's inbox, also what only pretends to be a picture", places.length === 2, said);
    check("as they were", fs.readFileSync(`${workspace}/${places[0]}`, "utf8") === "my notes", places);
    check("and the answer comes", await reads(page, /I see it\./, SOON), await textOf(page));
    check("nothing is left to send", (await attached(page)).length === 0, await attached(page));
    await commands(page);
    await waiting(page);
}

async function commands(page) {
    const options = page.locator("#commands li:visible");
    await field(page).pressSequentially("/");
    check("commands are offered after a slash", (await options.count()) === 3, await options.allTextContents());
    check("with what they do", (await options.allTextContents()).some((text) => /\/new .*new conversation/.test(text)));
    check("axe finds nothing wrong with them", ...(await violations(page)));
    await field(page).press("ArrowDown");
    await field(page).press("Tab");
    check("the keyboard takes one", (await field(page).inputValue()) === "/context", await field(page).inputValue());
    await field(page).press("Enter");
    check("and sends it", await until(SOON, async () => /of \d+ tokens/.test(await textOf(page))), await textOf(page));
    await field(page).fill("");
    await field(page).pressSequentially("say /n");
    check("a slash within a text offers nothing", (await options.count()) === 0);
    await field(page).fill("");
    await field(page).pressSequentially("/n");
    same("they are found by their letters", ["/new"], await options.evaluateAll((all) => all.map((one) => one.dataset.value)));
    await field(page).press("Escape");
    check("Escape closes the list", (await options.count()) === 0);
    await field(page).fill("");
}

async function waiting(page) {
    await field(page).fill("please work for an hour for the queue");
    await field(page).press("Enter");
    const stop = page.getByRole("button", { name: "Stop", exact: true });
    await until(SECONDS, () => stop.isVisible());
    for (const text of ["the first that waits", "the second that waits"]) {
        await field(page).fill(text);
        await field(page).press("Enter");
        const isListed = () => page.locator("#waiting li").filter({ hasText: text }).count();
        check(`a message that waits is shown: ${text}`, await until(SECONDS, isListed), await textOf(page));
    }
    check("axe finds nothing wrong with them", ...(await violations(page)));
    await page.locator("#waiting li").first().getByRole("button", { name: "Take back" }).click();
    const left = async () => (await page.locator("#waiting .line").allTextContents()).join("|");
    check("one is taken back, the other waits on", await until(SECONDS, async () => (await left()) === "the second that waits"), await left());
    const isBack = async () => (await field(page).inputValue()) === "the first that waits";
    check("its text is in the box again", await until(SECONDS, isBack), await field(page).inputValue());
    await stop.click();
    check("Stop ends the rest", await until(SOON, async () => (await page.locator("#waiting li").count()) === 0), await textOf(page));
}
