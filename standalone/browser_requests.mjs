// The page of requests: what is shown of one, and what people decide.
import { SECONDS, SOON, check, must, same, until } from "./browser_checking.mjs";
import { isMarked, mark, textOf } from "./browser_window.mjs";
import { answer } from "./browser_team.mjs";

const ALL_NEW = "nothing of this kind: all of it is new";

export const cardOf = (page, request) => page.locator(`[data-request="${request.id}"]`);
const button = (page, request, name) => cardOf(page, request).getByRole("button", { name, exact: true });

// Presses a button of a request. If the page asks once more, it is answered.
export async function press(page, request, name) {
    await button(page, request, name).click();
    await answer(page, name);
}

// Waits until a request has a state; whether it has.
const becomes = (stage, request, ...states) =>
    until(SOON, async () => states.includes((await stage.requestNow(request.id)).state));

// Waits until a page offers no decision about a request any more.
const isDecided = (page, request) =>
    until(
        SECONDS,
        async () => (await button(page, request, "Approve").count()) === 0 && (await button(page, request, "Deny").count()) === 0,
    );

async function decisions(stage, request, action) {
    const rows = (await stage.api("GET", `/api/audit?action=${action}&limit=100`)).data.rows ?? [];
    return rows.filter((one) => one.subject === request.id);
}

export async function requests(stage, browsers) {
    const page = await browsers.page("/dashboard/requests");
    const other = await browsers.page("/dashboard/requests");
    await Promise.all([page, other].map(mark));
    const first = await stage.request("first", { reason: "it has the manual" });
    check("a new request comes to the page", await until(SECONDS, () => cardOf(page, first).count()), await textOf(page));
    const text = await cardOf(page, first).textContent();
    for (const [name, word] of [
        ["the whole body", first.body],
        ["the whole digest", first.sha256],
        ["who asks", first.agent],
        ["what for", first.summary],
        ["the reason", first.reason],
        ["the level", first.level],
        ["why", first.why[0]],
    ]) {
        check(`it shows ${name}`, text.includes(word), [word, text]);
    }
    const granted = (one) => cardOf(page, one).locator('[data-field="granted"]').innerText();
    const before = (await stage.requestNow(first.id)).granted;
    check("it shows what was granted before", (await granted(first)) === (before.join("\n") || ALL_NEW), [before, await granted(first)]);
    check("nothing is hidden", await cardOf(page, first).getByText(first.sha256).isVisible(), text);
    await press(page, first, "Approve");
    check("it is approved by its button", await becomes(stage, first, "done"), await stage.requestNow(first.id));
    const decided = await stage.requestNow(first.id);
    check("by a person", /^human:/.test(decided.decidedBy ?? ""), decided);
    check(
        "no page offers a decision any more",
        (await isDecided(page, first)) && (await isDecided(other, first)),
        await textOf(other),
    );

    const another = await stage.request("another");
    await until(SECONDS, () => button(page, another, "Deny").count());
    check("what was granted is shown with the next request", (await granted(another)).includes(first.summary), await granted(another));
    const told = await must("shown on the command line", "--json", "approvals", "show", another.id);
    check("as on the command line", JSON.parse(told).request.granted.includes(first.summary), told);
    await must("decided on the command line", "approvals", "deny", another.id);

    // What is decided is in the other list.
    const all = await browsers.tab(other.context(), "/dashboard/requests?state=all");
    const alike = await browsers.page("/dashboard/requests?state=all");
    await Promise.all([all, alike].map((one) => until(SECONDS, () => button(one, first, "Revoke").count())));
    await press(all, first, "Revoke");
    const isRevoked = await until(SOON, async () => (await stage.requestNow(first.id)).revokedAt !== null);
    check("a grant is revoked by its button", isRevoked, await stage.requestNow(first.id));
    const isOver = (one) => until(SECONDS, async () => (await button(one, first, "Revoke").count()) === 0);
    check("its page shows that", await isOver(all), await textOf(all));
    check("another browser, too", await isOver(alike), await textOf(alike));

    const second = await stage.request("second");
    await until(SECONDS, () => button(page, second, "Deny").count());
    await press(page, second, "Deny");
    check("a request is denied by its button", await becomes(stage, second, "denied"), await stage.requestNow(second.id));
    check("in the other browser too", await isDecided(other, second), await textOf(other));

    const third = await stage.request("third");
    await until(SECONDS, () => button(page, third, "Approve").count());
    await must("decided on the command line", "approvals", "deny", third.id);
    check(
        "a decision from elsewhere is shown",
        (await isDecided(page, third)) && (await isDecided(other, third)),
        await textOf(page),
    );

    await atOnce(stage, page, other);
    await onAPhone(stage, browsers);
    await stale(stage, page);
    check("no page was loaded again", (await Promise.all([page, other].map(isMarked))).every(Boolean));
}

// The essential comes first, and on a phone the buttons are at hand beside a long body, of which nothing is cut.
async function onAPhone(stage, browsers) {
    const long = await stage.request("long", { reason: `${"because of the manual. ".repeat(60)}End` });
    const page = await browsers.page("/dashboard/requests");
    await page.setViewportSize({ width: 360, height: 640 });
    const card = cardOf(page, long);
    await until(SECONDS, () => card.count());
    const names = await card.locator("dt").allInnerTexts();
    same("the essential first", ["Agent", "What for", "Since", "What it would do"], names.slice(0, 4));
    check("then the body", names.indexOf("Body") > 4, names);
    await card.evaluate((one) => window.scrollTo(0, one.getBoundingClientRect().top + window.scrollY));
    const height = await card.evaluate((one) => one.getBoundingClientRect().height);
    check("it is longer than the screen", height > 900, height);
    for (const name of ["Approve", "Deny"]) {
        const box = await button(page, long, name).boundingBox();
        check(`${name} is at hand`, box && box.y >= 0 && box.y + box.height <= 640, box);
    }
    const text = await card.locator('[data-field="body"]').innerText();
    check("nothing of the body is cut", text === long.body, [text, long.body]);
    // At its end the buttons stand below the last line.
    await card.evaluate((one) => window.scrollTo(0, one.getBoundingClientRect().bottom + window.scrollY - window.innerHeight));
    const digest = await card.locator('[data-field="sha256"]').boundingBox();
    const decision = await card.locator(".decision").boundingBox();
    check("and nothing is hidden by the buttons at its end", digest.y + digest.height <= decision.y + 1, [digest, decision]);
    const isWide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
    check("the page is not wider than the phone", !isWide);
    const bar = await page.locator("nav").evaluate((nav) => ({ mask: getComputedStyle(nav).maskImage, more: nav.scrollWidth > nav.clientWidth }));
    check("the menu shows that it goes on", bar.more && bar.mask.includes("gradient"), bar);
    await press(page, long, "Deny");
    check("the button works there", await becomes(stage, long, "denied"), await stage.requestNow(long.id));
    await page.close();
}

// Two people decide at the same time, one of them twice.
async function atOnce(stage, page, other) {
    const request = await stage.request("both");
    await Promise.all([page, other].map((one) => until(SECONDS, () => button(one, request, "Approve").count())));
    await Promise.allSettled([
        button(page, request, "Approve")
            .dblclick()
            .then(() => answer(page, "Approve")),
        press(other, request, "Approve"),
    ]);
    check("a request that two approve is done", await becomes(stage, request, "done"), await stage.requestNow(request.id));
    const rows = await decisions(stage, request, "request.approve");
    check("and was decided once", rows.length === 1, rows);
    check("both pages say so", (await isDecided(page, request)) && (await isDecided(other, request)), await textOf(other));
}

// A page that could not hear of a decision sends its own one too late.
async function stale(stage, page) {
    const request = await stage.request("late");
    await until(SECONDS, () => button(page, request, "Approve").count());
    const bound = [];
    await page.route(`**/api/approvals/${request.id}/approve`, async (route) => {
        bound.push(route.request().postData() ?? "");
        await must("somebody was faster", "approvals", "deny", request.id);
        await route.continue();
    });
    await press(page, request, "Approve");
    check(
        "an approval is bound to the digest",
        await until(SECONDS, () => bound.some((body) => body.includes(request.sha256))),
        bound,
    );
    check(
        "a decision that comes too late changes nothing",
        await becomes(stage, request, "denied"),
        await stage.requestNow(request.id),
    );
    check("and the page shows the one that counts", await isDecided(page, request), await textOf(page));
    const announced = await until(SECONDS, async () => /already|denied/i.test(await textOf(page)));
    check("with what happened", announced, await textOf(page));
}
