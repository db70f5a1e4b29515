// Lighthouse on every page, as on a phone and as on a desk.
import fs from "node:fs";
import lighthouseOf from "lighthouse";
import desktop from "lighthouse/core/config/desktop-config.js";
import { chromium } from "playwright-core";
import { check, freePort } from "./browser_checking.mjs";
import { CHANNEL, LONG, channelPage, sessionPage } from "./browser_figures_stage.mjs";
import { median } from "./browser_figures_table.mjs";
import { ARGUMENTS, enter, paths } from "./browser_window.mjs";

// Their order is that of the scores in the table.
const LEAST = { performance: 95, accessibility: 100, "best-practices": 100 };
const KINDS = { mobile: undefined, desktop };

export async function lighthouse(stage, browsers, figures) {
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
        const navigation = await paths(stage, page);
        await page.close();
        const others = navigation.filter((path) => !path.endsWith("/work"));
        const all = [
            ["a channel", channelPage(CHANNEL)],
            ["a session", sessionPage(LONG)],
            ...others.map((path) => [path.split("/")[2] ?? "team", path]),
            ["search", "/dashboard/search"],
        ];
        for (const kind of Object.keys(KINDS)) {
            for (const [name, path] of all.slice(0, stage.sizes.audited)) await measure(stage, figures, port, kind, name, path);
        }
    } finally {
        await context.close();
    }
}

// The scores of one page. A performance below its limit is measured again and the median counts, because one load can be
// slow by chance.
async function measure(stage, figures, port, kind, name, path) {
    const results = [await audit(stage, port, kind, path)];
    const score = (result, category) => Math.round((result.categories[category].score ?? 0) * 100);
    const middle = (category) => median(results.map((result) => score(result, category)));
    const isLow = (category) => middle(category) < LEAST[category];
    while (isLow("performance") && results.length < stage.sizes.rounds) results.push(await audit(stage, port, kind, path));
    const categories = Object.keys(LEAST);
    const all = results.map((result) => categories.map((category) => score(result, category)).join("/")).join(", ");
    const verdict = categories.some(isLow) ? "MISSED" : "ok";
    const least = `at least ${Object.values(LEAST).join("/")}`;
    figures.row([`Lighthouse, ${kind}: ${name}`, least, categories.map(middle).join("/"), all, verdict]);
    for (const category of categories.filter(isLow)) {
        for (const line of failing(results.at(-1), category)) figures.remark(`${kind}, ${name}, ${category}: ${line}`);
    }
}

async function audit(stage, port, kind, path) {
    const flags = {
        port,
        output: "json",
        logLevel: "error",
        // The cookie has to stay.
        disableStorageReset: true,
        onlyCategories: Object.keys(LEAST),
        maxWaitForLoad: 20_000,
    };
    const { lhr } = await lighthouseOf(stage.origin + path, flags, KINDS[kind]);
    check(`Lighthouse saw ${path}, ${kind}`, !lhr.runtimeError && lhr.finalDisplayedUrl === stage.origin + path, [
        lhr.runtimeError,
        lhr.finalDisplayedUrl,
        lhr.runWarnings,
    ]);
    return lhr;
}

// The audits that lower a score, with what they found.
function failing(result, category) {
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
