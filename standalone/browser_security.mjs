// What the dashboard tells browsers to forbid, and what requests may do that somebody forged. Without a browser, so that each
// header can be chosen.
import { SOON, ask, check, until } from "./browser_checking.mjs";
import { AGENTS, ASKER, HELPER } from "./browser_stage.mjs";
import { paths } from "./browser_window.mjs";

// The content security policy of all pages.
const POLICY = {
    "default-src": ["'none'"],
    "script-src": ["'self'"],
    "style-src": ["'self'"],
    "connect-src": ["'self'"],
    "img-src": ["'self'", "blob:", "data:"],
    "form-action": ["'self'"],
    "frame-ancestors": ["'none'"],
    "base-uri": ["'none'"],
};
const HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
};

function policyOf(headers) {
    const lines = (headers["content-security-policy"] ?? "")
        .split(";")
        .map((one) => one.trim().split(/\s+/))
        .filter(([name]) => name);
    return Object.fromEntries(lines.map(([name, ...sources]) => [name, sources.sort()]));
}

function isStrict(name, answer) {
    const policy = policyOf(answer.headers);
    const wrong = Object.entries(POLICY).filter(
        ([directive, sources]) => JSON.stringify(policy[directive]) !== JSON.stringify(sources),
    );
    check(`${name}: the policy is the strict one`, wrong.length === 0, [wrong.map(([directive]) => directive), policy]);
    // What the contract does not name may only be stricter.
    const loose = Object.entries(policy).filter(
        ([directive, sources]) =>
            !(directive in POLICY) &&
            !/^(require-trusted-types-for|trusted-types|upgrade-insecure-requests)$/.test(directive) &&
            sources.some((source) => !["'none'", "'self'"].includes(source)),
    );
    check(`${name}: nothing else is allowed`, loose.length === 0 && !/unsafe|\*|https?:/.test(JSON.stringify(policy)), policy);
    const missing = Object.entries(HEADERS).filter(([header, value]) => answer.headers[header] !== value);
    check(`${name}: the other headers`, missing.length === 0, [missing, answer.headers]);
    check(`${name}: it is not kept`, answer.headers["cache-control"] === "no-store", answer.headers["cache-control"]);
}

// The headers of pages and of what they load, and that pages have nothing that the policy would have to stop.
export async function headers(stage, browsers) {
    const { cookie } = await stage.signIn();
    const get = (target, more = {}) => ask(stage.port, "GET", target, { headers: { Cookie: cookie, ...more } });
    const page = await browsers.page();
    // Pages may forbid themselves to parse texts, so an empty one does it.
    const parser = await (await browsers.stranger()).newPage();
    const assets = new Set();
    for (const path of await paths(stage, page)) {
        const answer = await get(path);
        check(`${path} is a page`, answer.status === 200 && answer.headers["content-type"] === "text/html; charset=utf-8", [
            answer.status,
            answer.headers,
        ]);
        isStrict(path, answer);
        const found = await parser.evaluate(inspect, answer.text);
        check(`${path}: no script, style or handler in the page itself`, found.inline.length === 0, found.inline);
        check(
            `${path}: all that it loads is the gateway's own`,
            found.loaded.length > 0 && found.loaded.every((one) => one.startsWith("/dashboard/assets/")),
            found.loaded,
        );
        found.loaded.forEach((one) => assets.add(one));
    }
    isStrict("the page for strangers", await ask(stage.port, "GET", "/dashboard"));
    isStrict("a page that is not there", await get("/dashboard/nothing"));
    for (const asset of assets) {
        const answer = await get(asset);
        const types = { css: "text/css", js: "text/javascript", webmanifest: "application/manifest+json" };
        const type = types[asset.split(".").at(-1)] ?? "image/";
        check(`${asset} is there`, answer.status === 200 && (answer.headers["content-type"] ?? "").startsWith(type), [
            answer.status,
            answer.headers,
        ]);
        check(
            `${asset}: its type is not guessed, and other sites can't load it`,
            answer.headers["x-content-type-options"] === "nosniff" &&
                answer.headers["cross-origin-resource-policy"] === "same-origin",
            answer.headers,
        );
        check(
            `${asset} loads nothing from elsewhere`,
            !/(?:import|url)\s*\(?\s*["']?(?:https?:)?\/\/|["'`]https?:\/\/(?!www\.w3\.org\/)/.test(answer.text),
            asset,
        );
    }
    for (const target of [
        "../config.json",
        "..%2fconfig.json",
        "%2e%2e/%2e%2e/config.json",
        "....//config.json",
        "/etc/passwd",
        "%00",
    ]) {
        const answer = await get(`/dashboard/assets/${target}`);
        check(
            `assets are not files: ${target}`,
            answer.status >= 300 && answer.status < 500 && !answer.text.includes(stage.token),
            answer,
        );
    }
}

// Runs in a browser: what a page's own text holds, without running it.
function inspect(html) {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    const inline = [];
    const loaded = [];
    for (const one of parsed.querySelectorAll("*")) {
        const name = one.localName;
        if (name === "script" && !one.src && !/^application\/(ld\+)?json$/.test(one.type)) inline.push("script");
        if (name === "style" || one.hasAttribute("style")) inline.push(`style in ${name}`);
        if (name === "base" || (name === "meta" && one.hasAttribute("http-equiv"))) inline.push(name);
        for (const attribute of one.attributes) {
            if (/^on/.test(attribute.name)) inline.push(`${attribute.name} of ${name}`);
            if (/^\s*javascript:/i.test(attribute.value)) inline.push(`${attribute.name} of ${name}`);
        }
        const source =
            name === "script" || name === "img" ? one.getAttribute("src") : name === "link" ? one.getAttribute("href") : null;
        if (source && !/^(data|blob):/.test(source)) loaded.push(source);
    }
    return { inline, loaded: [...new Set(loaded)] };
}

const READS = [
    "/api/agents",
    "/api/approvals",
    "/api/approvals?state=all",
    "/api/audit",
    "/api/bridges",
    "/api/channels",
    "/api/channels/work",
    "/api/channels/work/messages",
    "/api/messages?agent=helper",
    "/api/people",
    "/api/sessions",
    "/api/status",
    "/api/tasks",
    "/api/tokens",
    "/api/usage",
];

// What the cookie opens, and what not.
export async function reach(stage) {
    const { cookie, csrf } = await stage.signIn();
    const closed = [];
    for (const target of READS) {
        const answer = await ask(stage.port, "GET", target, { headers: { Cookie: cookie } });
        if (answer.status !== 200) closed.push([target, answer.status, answer.text]);
    }
    check("the cookie opens what the owner may read", closed.length === 0, closed);
    const strangers = await Promise.all(
        [...READS, "/api/events"].map((target) => ask(stage.port, "GET", target, { limit: 5_000 })),
    );
    check(
        "which nobody reads without it",
        strangers.every((one) => one.status === 401),
        strangers.map((one) => one.status),
    );
    for (const [method, target] of [
        ["POST", "/mcp"],
        ["POST", "/relay/anthropic/v1/messages"],
        ["POST", "/api/plugin/tools/flock_status"],
    ]) {
        const answer = await ask(stage.port, method, target, { headers: { Cookie: cookie, "X-Flock-CSRF": csrf }, body: {} });
        check(`the cookie does not open ${target}`, [401, 403].includes(answer.status), answer);
    }
}

// Each of these would change something.
function changes(request) {
    return [
        ["POST", "/api/channels/work/messages", { content: "forged" }],
        ["POST", "/api/channels", { id: "forged", topic: "forged" }],
        ["PUT", "/api/channels/work", { topic: "forged" }],
        ["POST", "/api/channels/work/members", { remove: [HELPER] }],
        ["POST", "/api/channels/work/archive", { action: "force" }],
        ["POST", `/api/agents/${HELPER}/freeze`, undefined],
        ["POST", "/api/freeze", undefined],
        ["POST", "/api/thaw", undefined],
        ["DELETE", `/api/agents/${HELPER}`, undefined],
        ["PUT", "/api/settings", { agent: HELPER, cli: "native", model: "script/forged" }],
        ["POST", `/api/approvals/${request.id}/approve`, { sha256: request.sha256 }],
        ["POST", `/api/approvals/${request.id}/deny`, {}],
        ["POST", `/api/approvals/${request.id}/revoke`, {}],
        ["POST", "/api/message", { agent: HELPER, prompt: "how are you" }],
        ["POST", "/api/tokens", { name: "forged", rights: ["read"] }],
        ["DELETE", "/api/tokens/forged", undefined],
        ["POST", "/api/people/rename", { from: "kim", to: "forged" }],
        ["DELETE", "/api/bridges/forged", undefined],
    ];
}

async function everything(stage) {
    const targets = ["/api/channels", "/api/agents", "/api/tokens", "/api/approvals?state=all", "/api/sessions", "/api/people"];
    return Promise.all(targets.map(async (target) => (await stage.api("GET", target)).text));
}

const codeOf = (answer) => /"code":\s*"([a-z_]+)"/.exec(answer.text)?.[1];

// Requests with a cookie that somebody else's page, or somebody with a stolen cookie, could send.
export async function forged(stage) {
    const { cookie, csrf } = await stage.signIn();
    const other = await stage.signIn();
    const request = await stage.request("forged");
    // The turn that asked has to be over.
    await until(SOON, async () => ((await stage.api("GET", "/api/sessions")).data.turns ?? [0]).length === 0);
    const before = await everything(stage);
    const own = { Cookie: cookie, "X-Flock-CSRF": csrf };
    check("each session has its own token against forged requests", csrf && other.csrf && csrf !== other.csrf, [
        csrf,
        other.csrf,
    ]);

    const ways = [
        ["no token of a page", { Cookie: cookie }, "csrf"],
        ["a wrong token", { Cookie: cookie, "X-Flock-CSRF": "wrong" }, "csrf"],
        ["an empty token", { Cookie: cookie, "X-Flock-CSRF": "" }, "csrf"],
        ["the token of another session", { Cookie: cookie, "X-Flock-CSRF": other.csrf }, "csrf"],
        ["the cookie as the token", { Cookie: cookie, "X-Flock-CSRF": cookie.split("=")[1] }, "csrf"],
        ["another site's Origin", { ...own, Origin: "https://evil.example" }, "foreign_origin"],
        ["another port's Origin", { ...own, Origin: `http://127.0.0.1:${stage.port === 1 ? 2 : 1}` }, "foreign_origin"],
        ["an Origin of null", { ...own, Origin: "null" }, "foreign_origin"],
        ["another Host", { ...own, Host: "evil.example" }, "foreign_host"],
        ["another Host with the gateway's port", { ...own, Host: `evil.example:${stage.port}` }, "foreign_host"],
        ["a Host that begins as the right one", { ...own, Host: `127.0.0.1.evil.example:${stage.port}` }, "foreign_host"],
    ];
    for (const [name, given, code] of ways) {
        const passed = [];
        for (const [method, target, body] of changes(request)) {
            const answer = await ask(stage.port, method, target, { headers: given, body });
            if (answer.status !== 403 || codeOf(answer) !== code) passed.push([method, target, answer.status, answer.text]);
        }
        check(`${name} changes nothing: 403 ${code}`, passed.length === 0, passed);
    }
    // What a form can send without asking first.
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]) {
        const given = { Cookie: cookie, "Content-Type": type };
        const answer = await ask(stage.port, "POST", "/api/channels/work/messages", {
            headers: given,
            body: '{"content":"forged","x":"="}',
        });
        check(`a form of ${type} changes nothing`, answer.status === 403 && codeOf(answer) === "csrf", answer);
    }
    check("nothing has changed", JSON.stringify(before) === JSON.stringify(await everything(stage)), [
        before,
        await everything(stage),
    ]);

    const write = { headers: { ...own, Origin: stage.origin }, body: { content: "said with the page's token" } };
    const said = await ask(stage.port, "POST", "/api/channels/work/messages", write);
    check("the same with the page's token is done", said.status === 201, said);
    const [last] = (await stage.messages("work")).slice(-1);
    check("by a person", last.content === "said with the page's token" && last.author.startsWith("human:"), last);
    await stage.api("POST", `/api/approvals/${request.id}/deny`, {});
}

// A name of somebody else that leads to this machine: a page from there is no page of the gateway.
export async function rebound(stage, browsers) {
    const { cookie } = await stage.signIn();
    for (const host of [
        "evil.example",
        `evil.example:${stage.port}`,
        `localhost.evil.example:${stage.port}`,
        `[::2]:${stage.port}`,
    ]) {
        for (const target of ["/dashboard", "/api/agents", "/api/events", `/dashboard?code=${"A".repeat(43)}`]) {
            const answer = await ask(stage.port, "GET", target, { headers: { Cookie: cookie, Host: host }, limit: 5_000 });
            const isSilent = !AGENTS.some((one) => answer.text.includes(one));
            check(`${target} for ${host} is refused`, answer.status === 403 && isSilent, answer);
        }
    }
    const browser = await browsers.launch("--host-resolver-rules=MAP rebound.example 127.0.0.1");
    const page = await (await browsers.stranger({ browser, isWatched: false })).newPage();
    const link = (await stage.link()).replace("127.0.0.1", "rebound.example");
    const answer = await page.goto(link);
    check("a browser is refused too", answer.status() === 403, answer.status());
    const text = await page.locator("body").innerText();
    check("and shown nothing", !text.includes(ASKER) && (await page.context().cookies()).length === 0, text);
}
