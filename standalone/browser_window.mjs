// Chromium, as the checks use it: browsers with a profile each, and what their pages did that no page may do.
import { execFileSync } from "node:child_process";
import { chromium } from "playwright-core";
import { SOON, check, until } from "./browser_checking.mjs";

export const ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
const STEP = 10_000;

export class Browsers {
    constructor(stage) {
        this.stage = stage;
        this.opened = [];
        this.profiles = [];
        this.program = execFileSync("sh", ["-c", "command -v chromium"], { encoding: "utf8" }).trim();
    }

    // The one Chromium that most checks share.
    async shared() {
        this.main ??= await this.launch();
        return this.main;
    }

    async launch(...more) {
        const browser = await chromium.launch({ executablePath: this.program, args: [...ARGUMENTS, ...more] });
        this.opened.push(browser);
        return browser;
    }

    // A browser of a person, with cookies of its own, in which nothing of the others is known. It is not signed in.
    // With `isWatched: false` nothing is checked of what its pages do.
    async stranger({ browser, isWatched = true, ...options } = {}) {
        const context = await (browser ?? (await this.shared())).newContext({
            viewport: { width: 1280, height: 800 },
            ...options,
        });
        context.setDefaultTimeout(STEP);
        context.wrongs = [];
        this.profiles.push(context);
        if (isWatched) watch(context, this.stage.origin);
        return context;
    }

    // The same, and signed in.
    async person(options) {
        const context = await this.stranger(options);
        const page = await context.newPage();
        await enter(this.stage, page);
        await page.close();
        return context;
    }

    // A page of a new person's.
    async page(path = "/dashboard", options = {}) {
        const context = await this.person(options);
        return this.tab(context, path);
    }

    async tab(context, path = "/dashboard") {
        const page = await context.newPage();
        await visit(this.stage, page, path);
        return page;
    }

    // Closes what a part has opened, and checks what its pages did meanwhile.
    async clear(part) {
        const wrongs = this.profiles.flatMap((context) => context.wrongs);
        check(`${part}: no script failed, no policy was broken, nothing was asked of another host`, wrongs.length === 0, wrongs);
        await Promise.all(this.profiles.map((context) => context.close()));
        this.profiles = [];
    }

    async close() {
        await Promise.all(this.opened.map((browser) => browser.close()));
    }
}

// Notes what a page of the dashboard never does.
function watch(context, origin) {
    const note = (kind, text) => context.wrongs.push(`${kind}: ${text}`);
    context.on("weberror", (error) => note("script failed", error.error().stack ?? error.error()));
    context.on("dialog", (dialog) => {
        note("dialog", dialog.message());
        dialog.dismiss().catch(() => {});
    });
    context.on("console", (message) => {
        const text = message.text();
        // Chromium itself writes a line for each answer that is no success, and for each that did not come.
        if (message.type() === "error" && !text.startsWith("Failed to load resource")) note("console", text);
        else if (/content security policy|refused to/i.test(text)) note("policy", text);
    });
    context.on("request", (request) => {
        const url = new URL(request.url());
        if (!["data:", "blob:", "about:"].includes(url.protocol) && url.origin !== origin) note("foreign request", url.href);
    });
}

// Signs a browser in, until the first page is there.
export async function enter(stage, page) {
    await page.goto(await stage.link());
    await page.waitForURL(`${stage.origin}/dashboard`, { waitUntil: "domcontentloaded" });
}

export async function visit(stage, page, path) {
    return page.goto(stage.origin + path, { waitUntil: "domcontentloaded" });
}

// Leaves a mark in a page, which a reload takes away.
export const mark = (page) =>
    page.evaluate(() => {
        window.mark = "not reloaded";
    });
export const isMarked = (page) => page.evaluate(() => window.mark === "not reloaded");

// What a person reads on a page.
export async function textOf(page) {
    try {
        return await page.locator("body").innerText({ timeout: 1_000 });
    } catch {
        return "";
    }
}

// Waits until a person reads something on a page.
export const reads = (page, pattern, limit = SOON) => until(limit, async () => pattern.test(await textOf(page)));

// Waits until a page says that it is signed out; whether it does.
export const isSignedOut = (page, limit) => reads(page, /signed out|flock dashboard/i, limit);

// The paths of all pages: those of the navigation, one of a channel, those that others link to, that of people, to which
// nothing leads before somebody was added, and those behind the tabs of the machine.
export async function paths(stage, page) {
    await visit(stage, page, "/dashboard");
    const found = await page
        .locator('nav[aria-label="Pages"] a')
        .evaluateAll((links) => links.map((link) => new URL(link.href).pathname));
    const tabs = ["checks", "logs", "audit", "config", "generations"].map((name) => `/dashboard/machine/${name}`);
    const linked = ["channels/work", "automation", "mcp", "people"].map((name) => `/dashboard/${name}`);
    return [...new Set([...found, ...linked, ...tabs])];
}
