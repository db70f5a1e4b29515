// Lighthouse finds nothing about accessibility and best practices on any page. `--short` leaves this out.
import { check } from "./browser_checking.mjs";
import { audit, failing, score, withLighthouse } from "./browser_lighthouse.mjs";

const CATEGORIES = ["accessibility", "best-practices"];

export async function audits(stage, browsers) {
    await withLighthouse(stage, browsers, async (port, pages) => {
        for (const path of [...pages, "/dashboard/search/messages"]) {
            const result = await audit(stage, port, "mobile", path, CATEGORIES);
            for (const category of CATEGORIES) {
                check(`Lighthouse, ${category} of ${path}: 100`, score(result, category) === 100, failing(result, category));
            }
        }
    });
}
