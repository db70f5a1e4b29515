// Lighthouse on every page, as on a phone and as on a desk.
import { CHANNEL, LONG, channelPage, sessionPage } from "./browser_figures_stage.mjs";
import { median } from "./browser_figures_table.mjs";
import { audit, failing, score, withLighthouse } from "./browser_lighthouse.mjs";

// Their order is that of the scores in the table.
const LEAST = { performance: 95, accessibility: 100, "best-practices": 100 };

export async function lighthouse(stage, browsers, figures) {
    await withLighthouse(stage, browsers, async (port, pages) => {
        const others = pages.filter((path) => !path.endsWith("/work"));
        const all = [
            ["a channel", channelPage(CHANNEL)],
            ["a session", sessionPage(LONG)],
            ...others.map((path) => [path.split("/")[2] ?? "team", path]),
        ];
        for (const kind of ["mobile", "desktop"]) {
            for (const [name, path] of all.slice(0, stage.sizes.audited)) await measure(stage, figures, port, kind, name, path);
        }
    });
}

// The scores of one page. A performance below its limit is measured again and the median counts, because one load can be
// slow by chance.
async function measure(stage, figures, port, kind, name, path) {
    const categories = Object.keys(LEAST);
    const results = [await audit(stage, port, kind, path, categories)];
    const middle = (category) => median(results.map((result) => score(result, category)));
    const isLow = (category) => middle(category) < LEAST[category];
    while (isLow("performance") && results.length < stage.sizes.rounds) results.push(await audit(stage, port, kind, path, categories));
    const all = results.map((result) => categories.map((category) => score(result, category)).join("/")).join(", ");
    const verdict = categories.some(isLow) ? "MISSED" : "ok";
    const least = `at least ${Object.values(LEAST).join("/")}`;
    figures.row([`Lighthouse, ${kind}: ${name}`, least, categories.map(middle).join("/"), all, verdict]);
    for (const category of categories.filter(isLow)) {
        for (const line of failing(results.at(-1), category)) figures.remark(`${kind}, ${name}, ${category}: ${line}`);
    }
}
