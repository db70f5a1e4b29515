// The home for the figures: a channel and a session of 10,000 messages, a session of 500 turns, and agents at work.
import fs from "node:fs";
import { HOME, SOON, check, must, parsed, until } from "./browser_checking.mjs";
import { Client } from "./browser_figures_client.mjs";
import { HELPER, Stage } from "./browser_stage.mjs";

export const SIZES = {
    rounds: 5,
    // Messages of the long channel and of the long session.
    messages: 10_000,
    // Turns of the session that is scrolled through, and messages of the channel that are.
    turns: 500,
    scrolled: 2_000,
    // Agents at work.
    workers: 20,
    // Messages and turns of a busy team in an hour.
    said: 3_600,
    taken: 600,
    // Open pages, and turns that are timed with them.
    pages: 50,
    timed: 100,
    // Pages that Lighthouse looks at.
    audited: Infinity,
};

// For a run that only proves that everything can be measured.
export const SMALL = {
    rounds: 1,
    messages: 300,
    turns: 45,
    scrolled: 150,
    workers: 3,
    said: 100,
    taken: 30,
    pages: 5,
    timed: 10,
    audited: 2,
};

export const CHANNEL = "talk";
export const LONG = `agent:${HELPER}:flock:main:long`;
export const TURNS = `agent:${HELPER}:flock:main:turns`;
export const channelPage = (id) => `/dashboard/channels/${id}`;
export const sessionPage = (key) => `/dashboard/sessions/${encodeURIComponent(key)}`;

const WORKER = "worker";
const AUTHORS = ["kim", "lee", "park", "choi", "jung"];
const WORDS = (
    "the build is green on main and the parser reads every file of the old format again which took a while because two " +
    "tests wrote into one folder so I moved them apart and ran all of it twice please look at the last change before you " +
    "merge since it touches how messages are kept when the disk is full"
).split(" ");

export class FiguresStage extends Stage {
    constructor(sizes) {
        super({});
        this.sizes = sizes;
        this.working = [];
        // A turn with one call and an answer.
        this.said.unshift({
            when: "look at",
            steps: [{ calls: [{ name: "session_status", arguments: {} }] }, { say: text(7), usage: { input: 900, output: 60 } }],
        });
    }

    async open() {
        await super.open();
        this.client = new Client(this.port, { Authorization: `Bearer ${this.token}` });
        fs.writeFileSync(
            `${HOME}/scripts/${WORKER}`,
            JSON.stringify({ replies: [{ steps: [{ say: "Done.", delay_ms: 590_000 }] }] }),
        );
        for (const worker of this.workers)
            await must(`add ${worker}`, "add", worker, "--no-container", "--model", `script/${WORKER}`);
        await this.channel(CHANNEL);
        let begun = performance.now();
        await this.say(CHANNEL, this.sizes.messages);
        console.log(`   #${CHANNEL} has ${this.sizes.messages} messages (${seconds(begun)})`);
        begun = performance.now();
        await this.bring(LONG, { messages: this.sizes.messages });
        await this.bring(TURNS, { turns: this.sizes.turns });
        console.log(`   two sessions are imported (${seconds(begun)})`);
    }

    async close() {
        this.rest();
        this.client?.close();
        await super.close();
    }

    get workers() {
        return Array.from({ length: this.sizes.workers }, (_, number) => `${WORKER}${number + 1}`);
    }

    // Has people say this much in a channel, several at a time, without waking an agent.
    async say(channel, count, atOnce = 8) {
        let next = 0;
        const person = async () => {
            while (next < count) {
                const number = next++;
                const body = { content: text(number), as: AUTHORS[number % AUTHORS.length], notify: false };
                const answer = await this.client.request("POST", `/api/channels/${channel}/messages`, { body });
                if (answer.status !== 201) throw new Error(`a post: ${answer.status} ${answer.text}`);
            }
        };
        await Promise.all(Array.from({ length: atOnce }, person));
    }

    // Posts one message; gives its number and the time that is stored with it.
    async sayOnce(channel, content) {
        const path = `/api/channels/${channel}/messages`;
        const posted = parsed((await this.client.request("POST", path, { body: { content, as: "kim", notify: false } })).text);
        const found = parsed((await this.client.request("GET", `${path}?after=${posted.seq - 1}&limit=1`)).text);
        return found.messages[0];
    }

    // Imports a session with this many messages or turns.
    async bring(key, size) {
        const file = `${HOME}/brought.json`;
        fs.writeFileSync(file, sessionDocument(key, size));
        await must(`import ${key}`, "session", "import", file);
        fs.rmSync(file);
    }

    // Runs a turn of the helper in a session; gives its time in milliseconds.
    async turn(key, content) {
        const begun = performance.now();
        const answer = await this.client.request("POST", "/v1/chat/completions", {
            headers: { "X-OpenClaw-Session-Key": key },
            body: { model: HELPER, messages: [{ role: "user", content }] },
        });
        if (answer.status !== 200) throw new Error(`a turn: ${answer.status} ${answer.text}`);
        return performance.now() - begun;
    }

    // Gives every worker a turn that lasts until `rest`.
    async work() {
        const client = new Client(this.port, { Authorization: `Bearer ${this.token}` }, this.sizes.workers);
        for (const worker of this.workers) {
            const body = { model: worker, messages: [{ role: "user", content: "work" }] };
            const headers = { "X-OpenClaw-Session-Key": `agent:${worker}:flock:main:work` };
            // The gateway cancels a turn whose client goes away.
            client.request("POST", "/v1/chat/completions", { body, headers }).catch(() => {});
        }
        this.working.push(client);
        const running = async () =>
            (await this.api("GET", "/api/sessions")).data.turns.filter((one) => one.state === "running").length;
        const isBusy = await until(SOON, async () => (await running()) >= this.sizes.workers);
        check(`${this.sizes.workers} agents are at work`, isBusy, await running());
    }

    rest() {
        for (const client of this.working) client.close();
        this.working = [];
    }
}

export const seconds = (begun) => `${((performance.now() - begun) / 1000).toFixed(1)} s`;
export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// A message as people write it: one to four sentences, some with Markdown. The same number gives the same text.
export function text(number) {
    let state = number * 2_654_435_761 + 1;
    const next = (below) => {
        state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
        return Math.floor((state / 2_147_483_648) * below);
    };
    const words = (count) => Array.from({ length: count }, () => WORDS[next(WORDS.length)]).join(" ");
    const sentences = Array.from({ length: 1 + next(4) }, () => `${words(6 + next(14))}.`).join(" ");
    if (number % 10 === 3) return `${sentences}\n\n- ${words(4)}\n- **${words(2)}** ${words(3)}\n- \`${words(2)}\``;
    if (number % 10 === 7) return `${sentences}\n\n\`\`\`\n${words(8)}\n${words(6)}\n\`\`\``;
    return sentences;
}

// An exported session. Every second turn has a tool call.
function sessionDocument(key, { messages = Infinity, turns = Infinity }) {
    const usage = { input: 900, output: 60, cacheRead: 0, cacheWrite: 0 };
    const made = { model: `script/${HELPER}`, api: "openai-completions" };
    const first = Date.now() - 86_400_000;
    const records = [];
    let at = first;
    let said = 0;
    const id = () => {
        const time = at.toString(16).padStart(12, "0");
        return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${(records.length + 1).toString(16).padStart(12, "0")}`;
    };
    for (let number = 0; number < turns && said < messages; number += 1) {
        const turn = `${id().slice(0, -12)}f${(number + 1).toString(16).padStart(11, "0")}`;
        const message = (role, content, more = {}) => {
            records.push({ type: "message", id: id(), turn, at, message: { role, content }, ...more });
            at += 1_000;
            said += 1;
        };
        records.push({ type: "turn", turn, state: "started", at, model: made.model });
        message("user", [{ type: "text", text: text(number) }], { context: [] });
        if (number % 2) {
            const call = {
                type: "toolCall",
                id: `call_${number}`,
                name: "exec",
                arguments: { command: `cargo test part${number}` },
            };
            message("assistant", [call], { usage, ...made, stop: "toolUse" });
            const content = [{ type: "text", text: `test part${number} ... ok\n`.repeat(12) }];
            message("tool", [{ type: "toolResult", callId: call.id, name: call.name, content }]);
        }
        message("assistant", [{ type: "text", text: text(number + 1) }], { usage, ...made, stop: "end" });
        records.push({ type: "turn", turn, state: "done", at, steps: 1 + (number % 2), usage });
        at += 1_000;
    }
    const head = JSON.stringify({ format: "flock.session", version: 1, key, agent: HELPER, created: first });
    return `${head.slice(0, -1)},"records":[\n${records.map((record) => JSON.stringify(record)).join(",\n")}\n]}\n`;
}
