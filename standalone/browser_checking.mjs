// What all checks of the dashboard have in common: counting them, running flock, asking its gateway. As checking.py.
//
// The home is FLOCK_HOME, the binary FLOCK_BINARY.
import { execFile } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import path from "node:path";

export const HOME = process.env.FLOCK_HOME;
export const FLOCK = process.env.FLOCK_BINARY;
// Everything is there much sooner; this is when waiting ends.
export const SOON = 30_000;
// What a person would call "within seconds".
export const SECONDS = 10_000;

let passed = 0;
// What failed, for the end: of a long run often only the end is read.
const failed = [];

// Counts one check and says how it went; a failure says what was seen.
export function check(name, ok, seen = "") {
    const shown = typeof seen === "string" ? seen : JSON.stringify(seen);
    const line = ok ? `ok    ${name}` : `FAIL  ${name}: ${String(shown).slice(0, 3000)}`;
    if (ok) passed += 1;
    else failed.push(line);
    console.log(line);
    return Boolean(ok);
}

// Checks that two lists are equal, and says what is lost, doubled or out of order.
export function same(name, wanted, found) {
    if (JSON.stringify(wanted) === JSON.stringify(found)) {
        return check(name, wanted.length > 0, "there are none");
    }
    const count = (word) => found.filter((one) => one === word).length;
    const at = wanted.findIndex((word, place) => word !== found[place]);
    const place = at < 0 ? wanted.length : at;
    return check(name, false, {
        lost: wanted.filter((word) => !count(word)).slice(0, 50),
        twice: [...new Set(found.filter((word) => count(word) > 1))].slice(0, 50),
        first: { at: place, wanted: wanted.slice(place, place + 5), found: found.slice(place, place + 5) },
    });
}

export const failures = () => failed.length;

// What failed once more, the last line, and the exit code: 0 only if nothing failed.
export function finish() {
    for (const line of failed) console.log(line.slice(0, 1000));
    console.log(`${passed} passed, ${failed.length} failed`);
    process.exitCode = failed.length || !passed ? 1 : 0;
}

// Waits until the condition holds, at most so many milliseconds; its last value.
export async function until(limit, condition) {
    const end = Date.now() + limit;
    for (;;) {
        const asked = Date.now();
        const value = await condition();
        const now = Date.now();
        if (value || now > end) return value;
        // Many conditions read whole pages. Most of the processor is left to what is waited for.
        await new Promise((done) => setTimeout(done, Math.min(500, Math.max(50, 2 * (now - asked)))));
    }
}

// Runs a program; gives its exit code and what it printed.
export function run(program, args, { stdin = "", limit = 120_000 } = {}) {
    return new Promise((done) => {
        const child = execFile(program, args, { timeout: limit, maxBuffer: 1 << 28 }, (error, out, err) => {
            done({ code: error ? (error.code ?? error.signal) : 0, out, err });
        });
        // A program that has ended does not read.
        child.stdin.on("error", () => {});
        child.stdin.end(stdin);
    });
}

export const flock = (...args) => run(FLOCK, args);

// A command of flock's that has to succeed; its standard output.
export async function must(name, ...args) {
    const begun = Date.now();
    const done = await flock(...args);
    check(`${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`, done.code === 0, done);
    return done.out;
}

export function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        return {};
    }
}

// A request to this machine with these headers, `Host`, `Origin` and `Cookie` among them. Gives `status`, which is 0 where
// nothing answers, `headers` and `text`. A body that is no text is sent as JSON. An answer that has no end, as a stream,
// is given after `limit` milliseconds as far as it came.
export function ask(port, method, target, { headers = {}, body, limit = 20_000 } = {}) {
    const isText = typeof body === "string";
    const data = body === undefined ? undefined : isText ? body : JSON.stringify(body);
    const type = data === undefined || isText ? {} : { "Content-Type": "application/json" };
    const length = data === undefined ? {} : { "Content-Length": Buffer.byteLength(data) };
    const all = { ...type, ...length, ...headers };
    return new Promise((done) => {
        const request = http.request({ host: "127.0.0.1", port, method, path: target, agent: false, headers: all });
        const parts = [];
        let answer;
        const finish = (error) => {
            clearTimeout(timer);
            if (answer) done({ status: answer.statusCode, headers: answer.headers, text: Buffer.concat(parts).toString() });
            else done({ status: 0, headers: {}, text: String(error) });
        };
        const timer = setTimeout(() => request.destroy(new Error("no answer in time")), limit);
        request.on("response", (response) => {
            answer = response;
            response.on("data", (part) => parts.push(part));
            response.on("end", finish);
            response.on("error", finish);
        });
        request.on("error", finish);
        request.end(data);
    });
}

export function freePort() {
    return new Promise((done) => {
        const listener = net.createServer().listen(0, "127.0.0.1", () => {
            const { port } = listener.address();
            listener.close(() => done(port));
        });
    });
}

// The files below a folder in which one of these texts stands.
export function filesWith(folder, texts) {
    const found = [];
    for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
        const file = path.join(entry.parentPath ?? entry.path, entry.name);
        if (!entry.isFile()) continue;
        const content = fs.readFileSync(file);
        if (texts.some((text) => content.includes(text))) found.push(file);
    }
    return found;
}

// The PID of the gateway, by the file that the supervisor writes; 0 if it does not run.
export function gatewayPid() {
    try {
        const pid = Number(fs.readFileSync(`${HOME}/run/gateway.pid`, "utf8").split(/\s/)[0]);
        process.kill(pid, 0);
        return pid;
    } catch {
        return 0;
    }
}

// The PIDs of all supervisors and gateways of the home.
export function ownProcesses() {
    return fs.readdirSync("/proc").filter((pid) => {
        try {
            if (!/^\d+$/.test(pid)) return false;
            const line = fs.readFileSync(`/proc/${pid}/cmdline`, "utf8");
            const isOurs = line.includes(FLOCK) && /supervise|gateway/.test(line);
            return isOurs && fs.readFileSync(`/proc/${pid}/environ`, "utf8").includes(HOME);
        } catch {
            return false;
        }
    });
}
