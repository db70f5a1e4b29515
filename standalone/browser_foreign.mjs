// Web pages of others in the browser of somebody who is signed in: what they can show, read and do.
import http from "node:http";
import { SECONDS, SOON, check, until } from "./browser_checking.mjs";
import { AGENTS } from "./browser_stage.mjs";
import { textOf } from "./browser_window.mjs";

const CONTROL = "a page that may be framed";

// A server of somebody else on this machine. `hits` are the paths that were asked for.
export async function otherServer(pages = {}) {
    const hits = [];
    const server = http.createServer((request, response) => {
        const { pathname } = new URL(request.url, "http://other");
        hits.push(pathname);
        response.setHeader("Content-Type", "text/html; charset=utf-8");
        response.end(pages[pathname] ?? "<!doctype html><title>other</title><p>nothing");
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    return {
        hits,
        port: server.address().port,
        close: () =>
            new Promise((done) => {
                server.closeAllConnections();
                server.close(done);
            }),
    };
}

// Runs in the foreign page: each way to reach the gateway, and what came of it.
async function tries(origin) {
    const failed = (promise) =>
        promise.then(
            (answer) => `answered ${answer.type} ${answer.status}`,
            () => "failed",
        );
    const element = (make) =>
        new Promise((done) => {
            const one = make();
            one.onload = () => done("loaded");
            one.onerror = () => done("failed");
            setTimeout(() => done("silent"), 5_000);
            document.body.append(one);
        });
    const script = (src) => element(() => Object.assign(document.createElement("script"), { src }));
    const image = (src) => element(() => Object.assign(document.createElement("img"), { src }));
    const stream = new Promise((done) => {
        const events = new EventSource(`${origin}/api/events`, { withCredentials: true });
        events.onopen = () => done("opened");
        events.onerror = () => {
            events.close();
            done("failed");
        };
    });
    const message = JSON.stringify({ content: "forged by a page" });
    const post = (options) =>
        fetch(`${origin}/api/channels/work/messages`, { method: "POST", credentials: "include", body: message, ...options });
    return {
        page: await failed(fetch(`${origin}/dashboard`, { credentials: "include" })),
        "page without asking": await failed(fetch(`${origin}/dashboard`, { credentials: "include", mode: "no-cors" })),
        data: await failed(fetch(`${origin}/api/agents`, { credentials: "include" })),
        "page as a script": await script(`${origin}/dashboard`),
        "data as a script": await script(`${origin}/api/agents`),
        "page as a picture": await image(`${origin}/dashboard`),
        stream: await stream,
        "message with a header": await failed(post({ headers: { "Content-Type": "application/json", "X-Flock-CSRF": "x" } })),
        "message without asking": await failed(post({ mode: "no-cors" })).then((how) =>
            how.replace("answered opaque 0", "failed"),
        ),
    };
}

// From another site, which has no cookie, and from another port of this machine, whose requests have it.
export async function foreign(stage, browsers) {
    const framing = `<!doctype html><title>evil</title><iframe name="control" src="/control"></iframe>
        <iframe name="victim" src="${stage.origin}/dashboard"></iframe><iframe name="channel" src="${stage.origin}/dashboard/channels/work"></iframe>
        <object data="${stage.origin}/dashboard"></object><a href="${stage.origin}/dashboard">look here</a>
        <form method="post" enctype="text/plain" target="answer" action="${stage.origin}/api/channels/work/messages">
        <input name='{"content":"forged by a form","x":"' value='"}'></form><iframe name="answer"></iframe>`;
    const pages = { "/": framing, "/control": `<!doctype html><title>control</title><p>${CONTROL}` };
    const other = await otherServer(pages);
    const context = await browsers.person({ isWatched: false });
    const before = (await stage.messages("work")).length;
    try {
        for (const [name, host] of [
            ["another site", "localhost"],
            ["another port", "127.0.0.1"],
        ]) {
            const page = await context.newPage();
            await page.goto(`http://${host}:${other.port}/`);
            const frames = async () =>
                Promise.all(
                    page.frames().map(async (frame) => [
                        frame.name(),
                        await frame
                            .locator("body")
                            .innerText({ timeout: 2_000 })
                            .catch(() => ""),
                    ]),
                );
            const isThere = await until(SOON, async () => (await frames()).some(([, text]) => text.includes(CONTROL)));
            check(`${name}: what may be framed is shown`, isThere, await frames());
            const shown = (await frames()).filter(
                ([, text]) => AGENTS.some((one) => text.includes(one)) || /flock dashboard/.test(text),
            );
            check(`${name}: the dashboard in a frame shows nothing`, shown.length === 0, shown);

            const came = await page.evaluate(tries, stage.origin);
            const worked = Object.entries(came).filter(([, how]) => how !== "failed");
            check(`${name}: no script reads or writes anything`, worked.length === 0 && Object.keys(came).length > 0, came);

            await page.evaluate(() => document.forms[0].submit());
            const answered = await until(SOON, async () =>
                page.frames().some((frame) => frame.name() === "answer" && frame.url() !== "about:blank"),
            );
            check(
                `${name}: a form was sent`,
                answered,
                page.frames().map((frame) => frame.url()),
            );

            const popup = context.waitForEvent("page");
            const isCut = await page.evaluate(async (address) => {
                const opened = window.open(address);
                const end = Date.now() + 10_000;
                while (opened && !opened.closed && Date.now() < end) await new Promise((done) => setTimeout(done, 50));
                return !opened || opened.closed;
            }, `${stage.origin}/dashboard`);
            check(`${name}: a window that it opens is out of its reach`, isCut && (await popup));

            const [answer] = await Promise.all([
                page.waitForResponse(
                    (one) =>
                        one.url() === `${stage.origin}/dashboard` &&
                        one.request().isNavigationRequest() &&
                        one.frame() === page.mainFrame(),
                ),
                page.getByText("look here").click(),
            ]);
            // Only the other site's link comes without the cookie.
            const wanted = host === "localhost" ? 401 : 200;
            check(`${name}: its link is answered with ${wanted}`, answer.status() === wanted, answer.status());
        }
        pages["/link"] = `<!doctype html><title>link</title><a href="${await stage.link()}">sign in</a>`;
        await led(stage, browsers, `http://localhost:${other.port}/link`);
        const after = await stage.messages("work");
        check("nothing was posted", after.length === before, after.slice(before));
    } finally {
        await other.close();
    }
}

// A person opens the address from a page of another site, such as a chat in the browser.
async function led(stage, browsers, address) {
    const page = await (await browsers.stranger({ isWatched: false })).newPage();
    await page.goto(address);
    await page.getByText("sign in").click();
    const isIn = await until(SECONDS, async () => (await page.locator("[data-agent]").count()) === AGENTS.length);
    check("a link of another site with a code signs in", isIn && page.url() === `${stage.origin}/dashboard`, [
        page.url(),
        await textOf(page),
    ]);
}
