// Lighthouse on the pages of a person who is signed in.
import fs from "node:fs";
import { chromium } from "playwright-core";
import { check, freePort } from "./browser_checking.mjs";
import { ARGUMENTS, enter, paths } from "./browser_window.mjs";

// Opens a browser for Lighthouse; `work` gets its port and the paths of all pages.
export async function withLighthouse(stage, browsers, work) {
    const port = await freePort();
    const profile = fs.mkdtempSync(`${process.env.TMPDIR}/lighthouse-`);
    // Lighthouse opens its tabs in the browser's own profile, so that one has to be signed in.
    const context = await chromium.launchPersistentContext(profile, {
        executablePath: browsers.program,
        args: [...ARGUMENTS, `--remote-debugging-port=${port}`],
        viewport: null,
    });
    try {
        const page = await context.newPage();
        await enter(stage, page);
        const pages = await paths(stage, page);
        await page.close();
        await work(port, pages);
    } finally {
        await context.close();
    }
}

// What Lighthouse finds on a page, `mobile` or `desktop`.
export async function audit(stage, port, kind, path, categories) {
    // A run that does not use Lighthouse does not install it.
    const { default: lighthouseOf } = await import("lighthouse");
    const { default: desktop } = await import("lighthouse/core/config/desktop-config.js");
    const kinds = { mobile: undefined, desktop };
    const flags = {
        port,
        output: "json",
        logLevel: "error",
        // The cookie has to stay.
        disableStorageReset: true,
        onlyCategories: categories,
        maxWaitForLoad: 20_000,
    };
    const { lhr } = await lighthouseOf(stage.origin + path, flags, kinds[kind]);
    check(`Lighthouse saw ${path}, ${kind}`, !lhr.runtimeError && lhr.finalDisplayedUrl === stage.origin + path, [
        lhr.runtimeError,
        lhr.finalDisplayedUrl,
        lhr.runWarnings,
    ]);
    return lhr;
}

// The score of a page, of 100.
export const score = (result, category) => Math.round((result.categories[category].score ?? 0) * 100);

// The audits that lower a score, with what they found.
export function failing(result, category) {
    return result.categories[category].auditRefs
        .map(({ id, weight }) => ({ ...result.audits[id], weight }))
        .filter(({ score, weight }) => weight > 0 && score !== null && score < 1)
        .map(({ id, displayValue, score, details }) => {
            const items = (details?.items ?? [])
                .slice(0, 3)
                .map((item) => item.node?.snippet ?? item.description ?? item.url ?? "");
            return `${id} ${score} ${displayValue ?? ""} ${items.filter(Boolean).join(" ")}`.trim();
        });
}
