// Signing in by a code, sessions, and signing out.
import { HOME, SECONDS, SOON, ask, check, filesWith, flock, parsed, until } from "./browser_checking.mjs";
import { AGENTS, cookieOf } from "./browser_stage.mjs";
import { enter, isSignedOut, textOf, visit } from "./browser_window.mjs";

// How long a code is good.
const CODE = 60_000;

const get = (stage, target, headers = {}) => ask(stage.port, "GET", target, { headers });

// Checks an answer that lets nobody in: it says how to sign in, and nothing about the team.
export function refuses(stage, name, answer) {
    const isPage = answer.status === 401 && /^text\/html/.test(answer.headers["content-type"] ?? "");
    check(`${name}: a page that lets nobody in`, isPage, [answer.status, answer.headers]);
    check(`${name}: it names the command`, answer.text.includes("flock dashboard"), answer.text);
    const told = [...AGENTS, 'data-agent="', "csrf-token", stage.token].filter((word) => answer.text.includes(word));
    check(`${name}: it tells nothing about the team`, answer.status !== 0 && told.length === 0, told);
    check(`${name}: it sets no session`, answer.status !== 0 && !cookieOf(answer, stage.cookieName), answer.headers);
}

// Codes, without a browser.
export async function codes(stage) {
    const line = new RegExp(`^http://127\\.0\\.0\\.1:${stage.port}/dashboard\\?code=([A-Za-z0-9_-]{16,})\\n$`);
    const printed = await flock("dashboard", "--print");
    check("one line with the address is printed", line.test(printed.out), printed);
    const asked = Date.now();
    const made = parsed((await flock("--json", "dashboard", "--print")).out);
    check("the same with --json", line.test(`${made.url}\n`), made);
    const left = made.expiresAt - asked;
    check("a code is good for a minute", left > CODE - 5_000 && left <= CODE + 5_000, [asked, made]);
    check("each code is another one", printed.out.trim() !== made.url, made);
    // It is used when it has expired.
    stage.aged = made;

    const url = new URL(printed.out.trim());
    const target = url.pathname + url.search;
    const answer = await get(stage, target);
    // A page that leads there does what a redirection does, and it does so after a link of another site, too.
    const isSent = answer.status === 303 && answer.headers.location === "/dashboard";
    const isLed = answer.status === 200 && /<meta http-equiv="refresh" content="0; url=\/dashboard">/.test(answer.text);
    check("a code leads to the page without the code", isSent || isLed, answer);
    check("the answer does not repeat the code", !answer.text.includes(url.searchParams.get("code")), answer.text);
    const cookie = (answer.headers["set-cookie"] ?? [""])[0];
    const attributes = cookie
        .split(";")
        .slice(1)
        .map((one) => one.trim().toLowerCase());
    check("the cookie is not for scripts", attributes.includes("httponly"), cookie);
    check("nor for requests of other sites", attributes.includes("samesite=strict"), cookie);
    check("it is for all paths of this host only", attributes.includes("path=/") && !/domain=/i.test(cookie), cookie);
    check("it is long enough not to be guessed", (cookieOf(answer, stage.cookieName) ?? "").length >= 32, cookie);
    check("the answer is not kept", answer.headers["cache-control"] === "no-store", answer.headers);
    check("nor told to another site", answer.headers["referrer-policy"] === "no-referrer", answer.headers);

    const own = { Cookie: cookie.split(";")[0] };
    const page = await get(stage, "/dashboard", own);
    check(
        "the cookie opens the page",
        page.status === 200 && AGENTS.every((one) => page.text.includes(`data-agent="${one}"`)),
        page.status,
    );

    refuses(stage, "a code that was used", await get(stage, target));
    refuses(stage, "a code that was never made", await get(stage, `/dashboard?code=${"A".repeat(43)}`));
    refuses(stage, "an empty code", await get(stage, "/dashboard?code="));
    refuses(stage, "no cookie", await get(stage, "/dashboard"));
    refuses(stage, "no cookie on another page", await get(stage, "/dashboard/channels/work"));
    refuses(stage, "the owner's token in the address", await get(stage, `/dashboard?token=${stage.token}`));
    refuses(stage, "the owner's token as a code", await get(stage, `/dashboard?code=${stage.token}`));
    refuses(
        stage,
        "the owner's token as a cookie",
        await get(stage, "/dashboard", { Cookie: `${stage.cookieName}=${stage.token}` }),
    );
    const value = own.Cookie.split("=")[1];
    const changed = value.slice(0, -1) + (value.endsWith("A") ? "B" : "A");
    refuses(stage, "a cookie that was changed", await get(stage, "/dashboard", { Cookie: `${stage.cookieName}=${changed}` }));
    refuses(stage, "a cookie under another name", await get(stage, "/dashboard", { Cookie: `flock=${value}` }));
    const asToken = await get(stage, "/api/agents", { Authorization: `Bearer ${value}` });
    check("a cookie's value is no token", asToken.status === 401, asToken);
    const withToken = await get(stage, `/api/agents?token=${stage.token}`);
    check("nor does the API take a token in the address", withToken.status === 401, withToken);

    // All at once: one of them is the first.
    const shared = new URL(await stage.link());
    const answers = await Promise.all(Array.from({ length: 8 }, () => get(stage, shared.pathname + shared.search)));
    const signed = answers.filter((one) => cookieOf(one, stage.cookieName)).length;
    const refused = answers.filter((one) => one.status === 401).length;
    check("of eight at once, a code signs one in", signed === 1 && refused === 7, [signed, refused]);
}

// In a browser.
export async function signin(stage, browsers) {
    const context = await browsers.stranger();
    const page = await context.newPage();
    const refused = await visit(stage, page, "/dashboard");
    check(
        "a stranger's browser is told how to sign in",
        refused.status() === 401 && (await isSignedOut(page)),
        await textOf(page),
    );
    await enter(stage, page);
    check("the address has no code in the end", page.url() === `${stage.origin}/dashboard`, page.url());
    check("the team is shown", await until(SOON, async () => (await page.locator("[data-agent]").count()) === AGENTS.length));
    const kept = await context.cookies();
    check(
        "one cookie is kept",
        kept.length === 1 && kept[0].name === stage.cookieName && kept[0].httpOnly && kept[0].sameSite === "Strict",
        kept,
    );
    check("scripts don't see it", (await page.evaluate(() => document.cookie)) === "", "document.cookie has it");
    const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    check("no script keeps a secret", ![kept[0]?.value, stage.token].some((secret) => stored.includes(secret)), stored);
    const other = await browsers.stranger();
    const second = await other.newPage();
    check("another browser is a stranger still", (await visit(stage, second, "/dashboard")).status() === 401);
}

// The list of sessions, and ending them from the command line.
export async function sessions(stage, browsers) {
    const before = (await stage.sessions()).map((one) => one.id);
    const first = await browsers.page("/dashboard/channels/work");
    const second = await browsers.page();
    const found = (await stage.sessions()).filter((one) => !before.includes(one.id));
    check("both browsers are listed", found.length === 2, found);
    const now = Date.now();
    const isWhole = (one) =>
        one.id &&
        one.createdAt > now - 60_000 &&
        one.createdAt <= now &&
        one.lastUsedAt >= one.createdAt &&
        one.expiresAt > now &&
        typeof one.browser === "string" &&
        one.browser !== "";
    check("with times and the browser", found.length > 0 && found.every(isWhole), found);
    const printed = (await flock("dashboard", "sessions")).out;
    check("also for people", found.length > 0 && found.every((one) => printed.includes(one.id)), printed);
    const cookie = (await first.context().cookies())[0].value;
    check("the list does not tell the cookie", !JSON.stringify(found).includes(cookie) && !printed.includes(cookie), found);

    // Which of them is the first browser's is tried by ending one: one page is signed out, the other is not.
    const ended = await flock("dashboard", "sessions", "revoke", found[0].id);
    check("a session is ended", ended.code === 0, ended);
    const out = await until(SECONDS, async () => {
        const states = await Promise.all([first, second].map((page) => isSignedOut(page, 0)));
        return states.includes(true) ? states : null;
    });
    check("its open page says so within seconds", out, [await textOf(first), await textOf(second)]);
    const [gone, kept] = out?.[0] ? [first, second] : [second, first];
    check("its browser is a stranger now", (await visit(stage, gone, "/dashboard")).status() === 401);
    check("the other one is not", (await visit(stage, kept, "/dashboard")).status() === 200);
    const left = (await stage.sessions()).map((one) => one.id);
    check("and it is not listed", !left.includes(found[0].id) && left.includes(found[1]?.id), left);
    const nobody = await flock("dashboard", "sessions", "revoke", "nobody");
    check("a session that is not there can't be ended", nobody.code !== 0 && nobody.err.includes("nobody"), nobody);

    const all = await flock("dashboard", "sessions", "revoke", "--all");
    check("all sessions are ended", all.code === 0 && (await stage.sessions()).length === 0, all);
    check("and the other page says so too", await isSignedOut(kept, SECONDS), await textOf(kept));
    const owner = await stage.api("GET", "/api/agents");
    check("the owner's token is as good as before", owner.status === 200, owner.status);
}

// The button.
export async function signout(stage, browsers) {
    const page = await browsers.page();
    const tab = await browsers.tab(page.context(), "/dashboard/channels/work");
    const other = await browsers.page();
    const [cookie] = await page.context().cookies();
    const before = (await stage.sessions()).length;
    await page.getByRole("button", { name: "Sign out", exact: true }).click();
    check("the button signs out", await isSignedOut(page, SECONDS), await textOf(page));
    check("the browser's other tab says so", await isSignedOut(tab, SECONDS), await textOf(tab));
    check(
        "the session is over, one is left out of the list",
        (await stage.sessions()).length === before - 1,
        await stage.sessions(),
    );
    const kept = await get(stage, "/dashboard", { Cookie: `${cookie.name}=${cookie.value}` });
    refuses(stage, "a cookie that somebody kept", kept);
    const data = await get(stage, "/api/agents", { Cookie: `${cookie.name}=${cookie.value}` });
    check("nor does it open the API", data.status === 401, data);
    await page.goBack().catch(() => {});
    const shown = await page.locator("[data-agent]").count();
    check("going back shows no team", shown === 0, await textOf(page));
    check("the other browser is signed in still", (await visit(stage, other, "/dashboard")).status() === 200);
}

// A code that nobody used. It is made early in the run, so that the wait is short.
export async function expired(stage) {
    const made = stage.aged ?? parsed((await flock("--json", "dashboard", "--print")).out);
    const isOver = await until(CODE + 20_000, () => Date.now() > made.expiresAt + 1_000);
    const url = new URL(made.url);
    check("a code grows old", isOver, made);
    refuses(stage, "a code that is too old", await get(stage, url.pathname + url.search));
}

// Nothing that signs in is kept where it could be read.
export async function secrets(stage) {
    const link = await stage.link();
    const code = new URL(link).searchParams.get("code");
    const { value, csrf } = await stage.signIn();
    const found = filesWith(HOME, [code, value, csrf]);
    check("codes, cookies and tokens of pages are in no file of the home", found.length === 0, found);
    const log = (await flock("logs", "gateway", "-n", "100000")).out;
    check("nor in what flock says", log && ![code, value, csrf].some((secret) => log.includes(secret)));
}
