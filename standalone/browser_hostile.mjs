// Texts of others that want to be more than text: in messages, topics, names, answers of agents, requests and browsers' names.
import { SECONDS, SOON, ask, check, flock, parsed, until } from "./browser_checking.mjs";
import { arrives, shown } from "./browser_channels.mjs";
import { otherServer } from "./browser_foreign.mjs";
import { cardOf } from "./browser_requests.mjs";
import { ASKER, HELPER } from "./browser_stage.mjs";
import { paths, reads, textOf, visit } from "./browser_window.mjs";

// What runs in a page leaves its name in `window.ran`.
export const ran = (name) => `(window.ran=window.ran||[]).push('${name}')`;
export const RTL = "\u202e";
const CONTROLS = "\u001b[31mred\u001b[0m \u001b]0;title\u0007 \u0000\u0008 \u009b31m";

// Each has a word by which it is found again. `url` is a server of somebody else.
function texts(url) {
    const markup = [
        `<script>${ran("script")}</script>`,
        `<img src=x onerror="${ran("img")}">`,
        `<svg onload="${ran("svg")}"><script>${ran("svgscript")}</script><animate onbegin="${ran("animate")}" attributeName=x dur=1s></svg>`,
        `<a href="javascript:${ran("a")}">look here</a>`,
        `<iframe src="${url}/frame" srcdoc="<script>parent.${ran("srcdoc")}</script>"></iframe>`,
        `<style>@import url(${url}/style); * { display: none }</style><link rel=stylesheet href=${url}/link>`,
        `<meta http-equiv=refresh content="0;url=${url}/refresh"><base href="${url}/base">`,
        `<form action="${url}/form"><button>Approve</button><input autofocus onfocus="${ran("focus")}"></form>`,
        `<object data="${url}/object"></object><embed src="${url}/embed"><video src=x onerror="${ran("video")}"><audio src="${url}/audio">`,
        `</textarea></title></article></main></body></html><script>${ran("closed")}</script>`,
        `--><script>${ran("comment")}</script><!--`,
        `"><img src=x onerror="${ran("quoted")}"> '><img src=x onerror='${ran("single")}'>`,
        `&lt;script&gt;${ran("entities")}&lt;/script&gt; &#60;img src=x onerror=${ran("numbers")}&#62;`,
        `<details open ontoggle="${ran("toggle")}"><summary>x</summary></details><template shadowrootmode=open><script>${ran("shadow")}</script></template>`,
        `<a id="announce" name="main">x</a><meta name="csrf-token" content="stolen"><b data-agent="helper" data-seq="1">x</b>`,
        `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=${ran("mutation")}&gt;">`,
        `{{constructor.constructor("${ran("template")}")()}} \${${ran("literal")}} {% x %} <%= 7*7 %>`,
    ];
    const links = [
        `[link](javascript:${ran("link")})`,
        `[link](JaVaScRiPt:${ran("case")})`,
        `[link](java\tscript:${ran("tab")})`,
        `[link](&#106;avascript:${ran("entity")})`,
        `[link](data:text/html,<script>${ran("data")}</script>)`,
        `[link](vbscript:x)`,
        `<javascript:${ran("auto")}>`,
        `[ref]\n\n[ref]: javascript:${ran("reference")}`,
        `[link](//evil.example/x "\\" onmouseover=\\"${ran("title")}")`,
        `![picture](${url}/picture.png)`,
        `![x](x" onerror="${ran("alt")})`,
        `[![picture](${url}/inner.png)](${url}/outer)`,
        `\`<script>${ran("code")}</script>\``,
        `\`\`\`"><script>${ran("fence")}</script>\n<script>${ran("block")}</script>\n\`\`\``,
        `[<img src=x onerror="${ran("file")}">.png](out/<svg onload="${ran("path")}">.svg)`,
        "[drawing](drawing.svg)",
    ];
    const signs = [
        `${RTL}gnp.exe and what follows`,
        CONTROLS.replaceAll("\u0000", ""),
        "\u2066\u2067isolates\u2028separators\u2029",
        "a\u0301".repeat(400),
        "x".repeat(5_000),
    ];
    return { markup, links, signs };
}

// Everything is said while a page is open, and read anew by another.
export async function hostile(stage, browsers) {
    const other = await otherServer();
    const url = `http://127.0.0.1:${other.port}`;
    try {
        const { markup, links, signs } = texts(url);
        const named = await spread(stage, url);
        const page = await browsers.page("/dashboard/channels/hostile");
        const all = [...markup, ...links, ...signs];
        for (const [number, text] of all.entries()) {
            await stage.api("POST", "/api/channels/hostile/messages", {
                content: `m${number}m ${text}`,
                as: "mallory",
                notify: false,
            });
        }
        stage.learn("say it", `m${all.length}m ${markup.join("\n\n")}`);
        await stage.tell("hostile", `@${HELPER} say it`);
        const last = `m${all.length}m `;
        check("the agent said all of it", (await arrives(page, last, SOON)).length === 1, (await shown(page)).slice(-2));
        const again = await browsers.page("/dashboard/channels/hostile");
        await arrives(again, last);
        for (const [name, one] of [
            ["as it came", page],
            ["loaded anew", again],
        ]) {
            await harmless(stage, one, `the channel, ${name}`);
            await readable(stage, one, name, all, markup);
        }
        for (const path of [...(await paths(stage, again)), ...named]) {
            await visit(stage, again, path);
            await reads(again, /\w/, SECONDS);
            await harmless(stage, again, path);
        }
        await request(stage, browsers);
        check("the server of somebody else was asked for nothing", other.hits.length === 0, other.hits);
    } finally {
        await other.close();
    }
}

// Hostile names and topics; the paths of their channels.
async function spread(stage, url) {
    const wanted = [
        `<script>${ran("topic")}</script>`,
        `"><img src=x onerror="${ran("topic")}"> ${RTL}cipot`,
        `<img src=${url}/topic>`,
    ];
    await stage.channel("hostile", wanted[0], HELPER, "human:mallory");
    for (const [number, topic] of wanted.entries()) {
        const made = await stage.api("POST", "/api/channels", { id: `hostile${number}`, topic, members: [HELPER] });
        const named = await stage.api("PUT", `/api/channels/hostile${number}`, {
            name: `<b onclick="${ran("name")}">${number}</b>`,
        });
        check(
            `a hostile topic and name are there (${number})`,
            [made.status, named.status].every((one) => one < 300),
            [made, named],
        );
    }
    return wanted.map((_, number) => `/dashboard/channels/hostile${number}`);
}

// Nothing of it ran, and nothing of it is an element.
export async function harmless(stage, page, name) {
    const found = await page.evaluate((origin) => {
        const wrong = [];
        const note = (one) => wrong.push(one.outerHTML.slice(0, 300));
        for (const one of document.querySelectorAll("*")) {
            if ([...one.attributes].some((attribute) => /^on/.test(attribute.name))) note(one);
            // Data does not run.
            if (one.localName === "script" && one.type === "application/json") continue;
            if (["script", "img", "iframe", "link", "object", "embed", "video", "audio", "source"].includes(one.localName)) {
                const source = one.getAttribute("src") ?? one.getAttribute("href") ?? one.getAttribute("data");
                if (source === null || (!/^(blob|data):/.test(source) && new URL(source, document.baseURI).origin !== origin))
                    note(one);
            }
            if (["base", "iframe", "object", "embed"].includes(one.localName)) note(one);
            if (one.localName === "a" && one.hasAttribute("href")) {
                const target = new URL(one.href, document.baseURI);
                // A new window must not get hold of this one.
                const isHeld = target.origin !== origin && one.target && !/noopener/.test(one.rel);
                if (!["http:", "https:", "mailto:"].includes(target.protocol) || isHeld) note(one);
            }
        }
        for (const one of document.querySelectorAll(
            '[data-field="text"] :is(form, input, button, textarea, style, script, svg, math, meta, link, template, [id], [data-agent], [data-seq])',
        ))
            note(one);
        return {
            ran: window.ran ?? [],
            wrong,
            heads: document.querySelectorAll('main, #announce, meta[name="csrf-token"]').length,
        };
    }, stage.origin);
    check(`${name}: nothing ran`, found.ran.length === 0, found.ran);
    check(`${name}: nothing became an element`, found.wrong.length === 0, found.wrong);
    check(`${name}: the page's own parts are there once`, found.heads === 3, found.heads);
}

// A person still reads what was written, and cannot be shown another text.
async function readable(stage, page, name, all, markup) {
    const messages = await shown(page);
    const wanted = (await stage.messages("hostile")).map((one) => one.seq);
    check(`${name}: every message is there once`, JSON.stringify(messages.map((one) => one.seq)) === JSON.stringify(wanted), [
        wanted.length,
        messages.length,
    ]);
    const lost = all.flatMap((_, number) => {
        const one = messages.find((message) => message.text?.startsWith(`m${number}m`));
        const isThere = one && one.author?.includes("mallory") && (number >= markup.length || /<|&lt;|\{\{/.test(one.text));
        return isThere ? [] : [[number, one]];
    });
    check(`${name}: with its author and its text`, lost.length === 0, lost);
    const signs = await page.locator("#messages article").evaluateAll((articles) =>
        articles.flatMap((one) => {
            const text = one.querySelector('[data-field="text"]');
            const controls = one.textContent.match(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g) ?? [];
            // Either shown as a number, or held in by its element.
            const isHeld = (part) => /isolate|plaintext/.test(getComputedStyle(part).unicodeBidi) || part.localName === "bdi";
            const turned =
                /[\u202a-\u202e\u2066-\u2069]/.test(text?.textContent) && !isHeld(text) ? ["turns round what follows"] : [];
            const wide = one.scrollWidth > innerWidth ? ["wider than the window"] : [];
            return [...controls.map((sign) => `control ${sign.charCodeAt(0)}`), ...turned, ...wide];
        }),
    );
    check(`${name}: no sign controls how it is shown`, signs.length === 0, signs);
    const files = await page
        .locator('#messages [data-field="text"] a[href]')
        .evaluateAll((links, origin) => links.map((one) => one.href).filter((one) => one.startsWith(origin)), stage.origin)
        // The dashboard's own pages are no files: a mention leads to one of them.
        .then((links) => links.filter((one) => !new URL(one).pathname.startsWith("/dashboard/")));
    for (const file of new Set(files)) {
        const answer = await page.context().request.get(file);
        const head = answer.headers();
        const isTame =
            answer.status() >= 400 ||
            /attachment/.test(head["content-disposition"] ?? "") ||
            /sandbox/.test(head["content-security-policy"] ?? "") ||
            !/html|svg|xml/.test(head["content-type"] ?? "");
        check(`${name}: a link to a file can't run it`, isTame, [file, head]);
    }
}

// A request whose words want to be the page around it.
async function request(stage, browsers) {
    const reason = `<script>${ran("reason")}</script> ${RTL}evorppa </article><button>Approve</button> sha256 ${"0".repeat(64)}`;
    const command = `echo '</pre><script>${ran("command")}</script>' "<button>Approve</button>"`;
    const page = await browsers.page("/dashboard/requests");
    for (const [word, more] of [
        ["sly", { reason }],
        ["slyer", { kind: "command", host: undefined, command, reason }],
    ]) {
        await shownAs(stage, page, await stage.request(word, more));
    }
}

async function shownAs(stage, page, made) {
    const card = cardOf(page, made);
    check(`a hostile request is shown: ${made.kind}`, await until(SECONDS, () => card.count()), await textOf(page));
    await harmless(stage, page, `its page: ${made.kind}`);
    const text = await card.textContent();
    // The body may be spelled as commands are, so that different bodies are shown differently.
    const isWhole = [made.body, made.body.replaceAll("\\", "\\\\")].some((body) => text.includes(body));
    check("its body and its digest are the real ones", isWhole && text.includes(made.sha256), [made.body, text]);
    check("no sign turns its text round", !/[\u202a-\u202e\u2066-\u2069\u001b]/.test(text), text);
    const approves = await card.getByRole("button", { name: "Approve" }).count();
    check(
        "it has the buttons of the page and no other",
        approves <= 1 && (await page.locator(`[data-request="${made.id}"] [data-request]`).count()) === 0,
        approves,
    );
    check("it comes from the agent that asked", text.includes(ASKER), text);
}

// A browser whose own name is hostile, in the list of sessions.
export async function strangeBrowser(stage, browsers) {
    const name = `Evil/1.0 <script>${ran("browser")}</script> \u009b31m ${"long ".repeat(200)}`;
    const before = (await stage.sessions()).map((one) => one.id);
    await stage.signIn(name);
    const [made] = (await stage.sessions()).filter((one) => !before.includes(one.id));
    check("its session is there, with a short name", made && made.browser.length <= 200, made);
    const printed = (await flock("dashboard", "sessions")).out;
    check(
        "the terminal is not controlled by it",
        printed && !/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/.test(printed),
        JSON.stringify(printed),
    );
    check("nor is its line more than one", printed.split("\n").filter((line) => line.includes(made?.id)).length === 1, printed);
    const page = await browsers.page();
    for (const path of await paths(stage, page)) {
        await visit(stage, page, path);
        await harmless(stage, page, `${path}, with that browser in the list`);
    }
    const twice = await ask(stage.port, "GET", "/dashboard", {
        headers: { Cookie: `${stage.cookieName}=x; ${stage.cookieName}=y; ${"z=1; ".repeat(50)}` },
    });
    check("two cookies of the name that are none open nothing", twice.status === 401 && !parsed(twice.text).agents, twice.status);
}
