// The home for the checks of the dashboard: agents that play scripts, channels, requests, and a gateway of its own.
import fs from "node:fs";
import {
    HOME,
    SECONDS,
    SOON,
    ask,
    check,
    flock,
    freePort,
    gatewayPid,
    must,
    ownProcesses,
    parsed,
    until,
} from "./browser_checking.mjs";

// Talks in channels.
export const HELPER = "helper";
// Asks for what only a person can grant.
export const ASKER = "asker";
export const AGENTS = ["orchestrator", "sysadmin", HELPER, ASKER];
export const CHANNELS = ["work", "lobby"];
const USAGE = { input: 1_200, output: 80, cacheRead: 400 };

export class Stage {
    constructor(options) {
        this.options = options;
        this.asked = [];
        this.said = [
            { when: "how are you", steps: [{ say: "I am well.", usage: USAGE }] },
            // It ends when its caller goes away.
            { when: "work for an hour", steps: [{ say: "That was an hour.", delay_ms: 590_000 }] },
        ];
    }

    async open() {
        this.port = await freePort();
        await must("init", "init", "--yes", "--no-images", "--model", "script/demo", "--port", String(this.port));
        this.token = JSON.parse(fs.readFileSync(`${HOME}/config.json`, "utf8")).gateway.auth.token;
        fs.mkdirSync(`${HOME}/scripts`, { recursive: true });
        this.write();
        const add = (agent, ...more) =>
            must(`add ${agent}`, "add", agent, "--no-container", "--model", `script/${agent}`, ...more);
        await add(HELPER);
        await add(ASKER, "--network", "proxy");
        await must("the orchestrator plays the same", "edit", "orchestrator", "--model", `script/${HELPER}`);
        await must("start", "start");
        for (const channel of CHANNELS) {
            await this.channel(channel);
        }
    }

    // The home is left as the checks made it, without a process.
    async close() {
        await must("the audit is whole", "audit", "--verify");
        await must("stop for good", "stop");
        const left = ownProcesses();
        check("no process of the home is left", left.length === 0, left);
    }

    get origin() {
        return `http://127.0.0.1:${this.port}`;
    }

    // A model reads its file at each request, so it must never be there in part.
    write() {
        const silent = { steps: [{ say: "" }] };
        for (const [agent, replies] of [
            [HELPER, this.said],
            [ASKER, this.asked],
        ]) {
            fs.writeFileSync(`${HOME}/scripts/${agent}.new`, JSON.stringify({ replies: [...replies, silent] }));
            fs.renameSync(`${HOME}/scripts/${agent}.new`, `${HOME}/scripts/${agent}`);
        }
    }

    // The helper answers with this text when it reads `word`.
    learn(word, text) {
        this.teach(word, { say: text, usage: USAGE });
    }

    // The helper plays these steps when it reads `word`.
    teach(word, ...steps) {
        this.said.unshift({ when: word, steps });
        this.write();
    }

    // What a person does on the command line.

    channel(id, topic = "people", ...members) {
        const chosen = members.length ? members : [HELPER, ASKER];
        return must(`channel ${id}`, "channel", "create", id, "--topic", topic, ...chosen.flatMap((one) => ["--member", one]));
    }

    // Posts; the number of the message, which is undefined where it was not acknowledged.
    async post(channel, text, author = "kim") {
        const done = await flock("--json", "channel", "post", channel, text, "--as", author, "--no-notify");
        return parsed(done.out).seq;
    }

    // Posts so that the members wake; the number of the message.
    async tell(channel, text, author = "kim") {
        return parsed((await flock("--json", "channel", "post", channel, text, "--as", author)).out).seq;
    }

    // Everything in a channel, the oldest first.
    async messages(channel) {
        const found = [];
        for (let after = 0; ;) {
            const answer = await this.api("GET", `/api/channels/${channel}/messages?after=${after}&limit=200`);
            if (answer.status !== 200) throw new Error(`#${channel} can't be read: ${answer.status} ${answer.text}`);
            const page = answer.data;
            found.push(...page.messages);
            if (!page.messages.length || page.after === null) return found;
            after = page.after;
        }
    }

    // Has the asker make a request, for a new host if nothing else is said; the request, once it waits for a person.
    async request(word, more = {}) {
        const given = { kind: "egress", host: `${word}.example.org`, reason: "it is needed", ...more };
        this.asked.unshift({
            when: `ask for ${word}.`,
            steps: [{ calls: [{ name: "flock_sysadmin_request", arguments: given }] }, { say: "" }],
        });
        this.write();
        const ids = async () => (await this.requests()).filter((one) => one.agent === ASKER).map((one) => one.id);
        const before = await ids();
        await this.tell("lobby", `please ask for ${word}.`);
        const made = await until(SOON, async () =>
            (await this.requests()).find((one) => !before.includes(one.id) && one.state === "waiting"),
        );
        if (!made) throw new Error(`no request for ${word} was made: ${JSON.stringify(await this.requests())}`);
        return made;
    }

    async requests() {
        return (await this.api("GET", "/api/approvals?state=all")).data.requests ?? [];
    }

    async requestNow(id) {
        return (await this.api("GET", `/api/approvals/${id}`)).data.request ?? {};
    }

    // A request to the gateway with the owner's token.
    async api(method, target, body) {
        const answer = await ask(this.port, method, target, { body, headers: { Authorization: `Bearer ${this.token}` } });
        return { ...answer, data: parsed(answer.text) };
    }

    async agent(id) {
        return ((await this.api("GET", "/api/agents")).data.agents ?? []).find((one) => one.id === id) ?? {};
    }

    // Signing in.

    // The address that signs a browser in once.
    async link() {
        const done = await flock("dashboard", "--print");
        if (done.code !== 0) throw new Error(`flock dashboard --print: ${JSON.stringify(done)}`);
        return done.out.trim();
    }

    get cookieName() {
        return `flock_${this.port}`;
    }

    // Signs in without a browser: the header `Cookie` and the token of a page against forged requests.
    async signIn(userAgent = "Mozilla/5.0 (X11; Linux x86_64) checks") {
        const url = new URL(await this.link());
        const answer = await ask(this.port, "GET", url.pathname + url.search, { headers: { "User-Agent": userAgent } });
        const value = cookieOf(answer, this.cookieName);
        if (!value) throw new Error(`no cookie: ${answer.status} ${JSON.stringify(answer.headers)}`);
        const cookie = `${this.cookieName}=${value}`;
        const page = await ask(this.port, "GET", "/dashboard", { headers: { Cookie: cookie } });
        const csrf = csrfOf(page.text);
        if (!csrf) throw new Error(`no token in the page: ${page.status} ${page.text.slice(0, 1_000)}`);
        return { cookie, value, csrf };
    }

    async sessions() {
        return parsed((await flock("--json", "dashboard", "sessions")).out).sessions ?? [];
    }

    // The gateway's process is ended; the supervisor starts it again. Gives whether it serves again.
    async kill() {
        const before = gatewayPid();
        if (!before) return false;
        process.kill(before, "SIGKILL");
        const serves = () =>
            until(SECONDS, async () => {
                const health = parsed((await ask(this.port, "GET", "/health", { limit: 2_000 })).text);
                return health.status === "ok" && health.pid !== before;
            });
        // After too many crashes a person has to start it.
        return (await serves()) || ((await flock("start")).code === 0 && serves());
    }
}

// The value of a cookie that an answer sets.
export function cookieOf(answer, name) {
    const set = (answer.headers["set-cookie"] ?? []).find((line) => line.startsWith(`${name}=`));
    return set?.slice(name.length + 1).split(";")[0];
}

// The token of a page against forged requests.
export const csrfOf = (html) => /<meta name="csrf-token" content="([^"]+)">/.exec(html)?.[1];
