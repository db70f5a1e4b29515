// Many open pages of one channel, without a browser: each has a stream of events, and loads what is new as app.js does.
// Usage: browser_figures_pages.mjs PORT CHANNEL COUNT, with the header `Cookie` as the first line of standard input.
//
// Prints "open" when all pages are open. At the end of standard input it closes them and prints the number of loads.
import readline from "node:readline";
import { Client } from "./browser_figures_client.mjs";

const [port, channel, count] = process.argv.slice(2);
const path = `/dashboard/channels/${channel}`;
let loads = 0;

class Page {
    constructor(cookie) {
        const headers = {
            Cookie: cookie,
            "Sec-Fetch-Site": "same-origin",
            "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) figures",
        };
        this.client = new Client(port, headers, 5);
        this.catching = Promise.resolve();
    }

    async load(query = "") {
        const answer = await this.client.request("GET", path + query, { headers: { Accept: "text/html" } });
        if (answer.status !== 200) throw new Error(`${path}${query}: ${answer.status}`);
        loads += 1;
        const seqs = [...answer.text.matchAll(/data-seq="(\d+)"/g)].map(([, seq]) => Number(seq));
        this.last = seqs.at(-1) ?? this.last;
        return { text: answer.text, isMore: answer.text.includes("data-later=") };
    }

    async open() {
        const { text } = await this.load();
        const id = /<meta name="last-event" content="([^"]*)">/.exec(text)[1];
        const named = [...text.matchAll(/data-events="([^"]*)"/g)].flatMap(([, names]) => names.split(" "));
        const types = [...new Set(["gateway", "channel.message", ...named])].sort();
        this.end = await this.client.events(`/api/events?types=${types}&lastEventId=${encodeURIComponent(id)}`, ({ type, data }) => {
            if (type === "channel.message" && data.channel === channel) this.catchUp();
        });
    }

    // One after the other, until there are no more.
    catchUp() {
        this.catching = this.catching.then(async () => {
            while ((await this.load(`?after=${this.last}`)).isMore);
        });
        // A gateway that stops takes the answers with it.
        this.catching = this.catching.catch(() => {});
    }

    close() {
        this.end();
        this.client.close();
    }
}

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { value: cookie } = await lines.next();
const pages = Array.from({ length: Number(count) }, () => new Page(cookie));
for (const page of pages) await page.open();
console.log("open");
await lines.next();
for (const page of pages) page.close();
console.log(loads);
process.exit(0);
