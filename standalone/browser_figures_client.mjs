// A client of the gateway that keeps its connections open, so that the time of a request has no new connection in it.
import http from "node:http";

export class Client {
    constructor(port, headers, connections = 8) {
        this.port = port;
        this.headers = headers;
        this.agent = new http.Agent({ keepAlive: true, maxSockets: connections });
    }

    // Sends a request; gives `status` and `text`. A body is sent as JSON.
    request(method, target, { body, headers } = {}) {
        const data = body === undefined ? undefined : JSON.stringify(body);
        const type = data === undefined ? {} : { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(data) };
        const all = { ...this.headers, ...type, ...headers };
        const options = { host: "127.0.0.1", port: this.port, method, path: target, agent: this.agent, headers: all };
        return new Promise((done, fail) => {
            const request = http.request(options, (response) => {
                const parts = [];
                response.on("data", (part) => parts.push(part));
                response.on("end", () => done({ status: response.statusCode, text: Buffer.concat(parts).toString() }));
                response.on("error", fail);
            });
            request.on("error", fail);
            request.end(data);
        });
    }

    // Opens a stream of server-sent events and gives each to `listener` as `{type, data}`. Returns what closes it.
    async events(target, listener) {
        const headers = { ...this.headers, Accept: "text/event-stream" };
        return new Promise((done, fail) => {
            // A stream needs a connection of its own.
            const options = { host: "127.0.0.1", port: this.port, path: target, agent: false, headers };
            const request = http.get(options, (response) => {
                if (response.statusCode !== 200) return fail(new Error(`${target}: ${response.statusCode}`));
                let rest = "";
                response.setEncoding("utf8");
                response.on("data", (part) => {
                    const blocks = (rest + part).split("\n\n");
                    rest = blocks.pop();
                    for (const block of blocks) {
                        const type = /^event: ?(.*)$/m.exec(block)?.[1];
                        const data = /^data: ?(.*)$/m.exec(block)?.[1];
                        if (type && data) listener({ type, data: JSON.parse(data) });
                    }
                });
                response.on("error", () => {});
                done(() => request.destroy());
            });
            request.on("error", fail);
        });
    }

    close() {
        this.agent.destroy();
    }
}
