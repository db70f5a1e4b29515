// A question of an MCP server: its form on the page of requests, what a person fills in there, and what the server gets.
import http from "node:http";
import { SECONDS, SOON, check, must, same, until } from "./browser_checking.mjs";
import { HELPER } from "./browser_stage.mjs";
import { cardOf } from "./browser_requests.mjs";
import { isMarked, mark, textOf } from "./browser_window.mjs";

export const SERVER = "questions";
const ASKED = {
    message: "Which table, <b>please</b>?",
    requestedSchema: {
        type: "object",
        required: ["table", "size"],
        properties: {
            table: { type: "string", title: "Table" },
            rows: { type: "integer", title: "Rows", minimum: 1, default: 10 },
            size: { type: "string", title: "Size", enum: ["small", "large"] },
            fresh: { type: "boolean", title: "Fresh" },
        },
    },
};

// An MCP server whose tool asks a person, over streamable HTTP. `answers` are what it was given.
export class Server {
    answers = [];
    #waiting = new Map();

    async open() {
        this.http = http.createServer((request, response) => this.#serve(request, response));
        await new Promise((listens) => this.http.listen(0, "127.0.0.1", listens));
        return `http://127.0.0.1:${this.http.address().port}/mcp`;
    }

    close() {
        this.http.closeAllConnections();
        this.http.close();
    }

    async #serve(request, response) {
        if (request.method !== "POST") return response.writeHead(405).end();
        const pieces = [];
        for await (const piece of request) pieces.push(piece);
        const message = JSON.parse(Buffer.concat(pieces).toString());
        if (message.method === undefined) {
            this.#waiting.get(message.id)?.(message);
            return response.writeHead(202).end();
        }
        if (message.id === undefined) return response.writeHead(202).end();
        const end = (result) => {
            response.writeHead(200, { "content-type": "application/json", "mcp-session-id": "one" });
            response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, result }));
        };
        if (message.method === "initialize") {
            const { protocolVersion } = message.params;
            return end({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: SERVER, version: "1" } });
        }
        if (message.method === "tools/list") {
            return end({ tools: [{ name: "ask", description: "Asks a person.", inputSchema: { type: "object", properties: {} } }] });
        }
        if (message.method !== "tools/call") {
            response.writeHead(200, { "content-type": "application/json" });
            const error = { code: -32601, message: "there is no such method" };
            return response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, error }));
        }
        response.writeHead(200, { "content-type": "text/event-stream" });
        const send = (one) => response.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", ...one })}\n\n`);
        const id = `question-${this.#waiting.size}`;
        const answered = new Promise((resolve) => this.#waiting.set(id, resolve));
        send({ id, method: "elicitation/create", params: ASKED });
        const { result, error } = await answered;
        this.answers.push(result ?? error);
        send({ id: message.id, result: { content: [{ type: "text", text: "thank you" }] } });
        response.end();
    }
}

export async function question(stage, browsers) {
    const server = new Server();
    const address = await server.open();
    await must("an MCP server is added", "mcp", "add", SERVER, address, "--allow-local");
    await must("it may ask people", "mcp", "grant", SERVER, HELPER, "--tools", "ask", "--elicitation", "--yes");
    stage.teach("have it ask", { calls: [{ name: `mcp_${SERVER}_ask`, arguments: {} }] }, { say: "It was answered." });
    const page = await browsers.page("/dashboard/requests");
    await mark(page);

    const first = await asked(stage);
    const card = cardOf(page, first);
    check("a question comes to the page", await until(SECONDS, () => card.count()), await textOf(page));
    const text = await card.textContent();
    check("with its words as they are", text.includes("Which table, <b>please</b>?"), text);
    check("and no markup of them", (await card.locator("b").count()) === 0);
    check("it can't be approved without values", (await card.getByRole("button", { name: "Approve", exact: true }).count()) === 0);
    const form = card.locator('form[data-form="answer"]');
    const field = (name) => form.locator(`[data-value="${name}"]`);
    const names = await form.locator("[data-value]").evaluateAll((all) => all.map((one) => one.dataset.value));
    same("it has a field for each value", Object.keys(ASKED.requestedSchema.properties), names);
    check("a default stands there", (await field("rows").inputValue()) === "10", await field("rows").inputValue());
    const labels = await form.locator("label").allInnerTexts();
    check("each field has its title", labels.length === 4 && labels[0].includes("Table"), labels);

    const send = form.getByRole("button", { name: "Answer", exact: true });
    await send.click();
    const isValid = await form.evaluate((one) => one.checkValidity());
    check("what is required is asked for", !isValid && server.answers.length === 0, server.answers);
    await field("table").fill("notes");
    await field("rows").fill("7");
    await field("size").selectOption("large");
    await field("fresh").selectOption("true");
    await send.click();
    check("the answer reaches the server", await until(SOON, async () => server.answers.length === 1), await textOf(page));
    const wanted = { action: "accept", content: { table: "notes", rows: 7, size: "large", fresh: true } };
    check("as it was filled in", isSame(server.answers[0], wanted), server.answers);
    const isOver = (request) => until(SECONDS, async () => (await cardOf(page, request).locator('form[data-form="answer"]').count()) === 0);
    check("the form is gone then", await isOver(first), await textOf(page));
    const decided = await stage.requestNow(first.id);
    check("a person answered it", /^human:/.test(decided.decidedBy ?? ""), decided);

    const second = await asked(stage);
    await until(SECONDS, () => cardOf(page, second).count());
    await cardOf(page, second).getByRole("button", { name: "Deny", exact: true }).click();
    check("a denied question is declined", await until(SOON, async () => server.answers[1]?.action === "decline"), server.answers);
    check("and its form is gone", await isOver(second), await textOf(page));
    check("no page was loaded again", await isMarked(page));
    await page.close();
    await must("the server is removed", "mcp", "remove", SERVER, "--yes");
    server.close();
}

// Has the helper call the tool; the request, once it waits for a person.
async function asked(stage) {
    const open = async () => (await stage.requests()).filter((one) => one.agent === HELPER && one.state === "waiting");
    const before = (await open()).map((one) => one.id);
    await stage.tell("lobby", "please have it ask");
    const made = await until(SOON, async () => (await open()).find((one) => !before.includes(one.id)));
    if (!made) throw new Error(`no question was asked: ${JSON.stringify(await stage.requests())}`);
    return made;
}

const sorted = (value) => Object.entries(value ?? {}).sort(([one], [other]) => (one < other ? -1 : 1));
const isSame = (found, wanted) =>
    found?.action === wanted.action && JSON.stringify(sorted(found.content)) === JSON.stringify(sorted(wanted.content));
