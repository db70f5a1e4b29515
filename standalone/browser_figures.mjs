// Measures the dashboard and what it costs the gateway. Usage: browser_figures.mjs [OPTIONS], see browser.sh.
//
// Prints a table with each figure and its limit. The exit code is 1 if a figure misses its limit.
import os from "node:os";
import { parseArgs } from "node:util";
import { FLOCK, check, failures, run } from "./browser_checking.mjs";
import { gateway } from "./browser_figures_gateway.mjs";
import { lighthouse } from "./browser_figures_lighthouse.mjs";
import { live } from "./browser_figures_live.mjs";
import { memory } from "./browser_figures_memory.mjs";
import { paint, switches } from "./browser_figures_paint.mjs";
import { scroll } from "./browser_figures_scroll.mjs";
import { FiguresStage, SIZES, SMALL } from "./browser_figures_stage.mjs";
import { Figures } from "./browser_figures_table.mjs";
import { Browsers } from "./browser_window.mjs";

// Each part takes the stage, the browsers and the table.
const PARTS = { paint, switch: switches, live, scroll, gateway, memory, lighthouse };

function usage(problem) {
    console.error(`browser_figures.mjs: ${problem}`);
    console.error("options: --figures [--small] [--rounds N] [--only PART…]");
    console.error(`parts: ${Object.keys(PARTS).join(" ")}`);
    process.exit(2);
}

function chosenOptions() {
    const options = {
        figures: { type: "boolean", default: false },
        only: { type: "boolean", default: false },
        small: { type: "boolean", default: false },
        rounds: { type: "string" },
    };
    try {
        return parseArgs({ allowPositionals: true, options });
    } catch (error) {
        return usage(error.message);
    }
}

const { values, positionals } = chosenOptions();
const unknown = positionals.filter((name) => !(name in PARTS));
if (unknown.length) usage(`no part ${unknown.join(", ")}`);
if (positionals.length > 0 !== values.only) usage("the names of parts come after --only");
const chosen = Object.entries(PARTS).filter(([name]) => !values.only || positionals.includes(name));
const sizes = values.small ? SMALL : SIZES;
const rounds = Number(values.rounds ?? sizes.rounds);
if (!Number.isInteger(rounds) || rounds < 1) usage(`${values.rounds} is no number of rounds`);

const stage = new FiguresStage({ ...sizes, rounds });
const browsers = new Browsers(stage);
const figures = new Figures(rounds);

async function machine() {
    const version = async (program) => (await run(program, ["--version"])).out.trim();
    const memory = Math.round(os.totalmem() / 2 ** 30);
    return [
        `${new Date().toISOString().slice(0, 10)}, ${os.cpus().length} cores (${os.cpus()[0]?.model.trim()}), ${memory} GiB`,
        `Linux ${os.release()}, ${await version(browsers.program)}, ${await version(FLOCK)}, load ${os.loadavg()[0].toFixed(1)}`,
    ].join("\n");
}

const begun = await machine();
console.log(begun);
try {
    await stage.open();
    for (const [name, part] of chosen) {
        console.log(`-- ${name} (${Math.round(performance.now() / 1000)} s)`);
        try {
            await part(stage, browsers, figures);
        } catch (error) {
            check(`the part ${name} went to its end`, false, error.stack);
        }
        stage.rest();
        await browsers.clear(name);
    }
} catch (error) {
    check("the run went to its end", false, error.stack);
}
await browsers.close();
await stage.close();

console.log(`\n${begun}\n${Math.round(performance.now() / 1000)} s\n`);
const missed = figures.print();
console.log(`\n${missed} missed, ${failures()} checks failed`);
process.exitCode = missed || failures() ? 1 : 0;
