// Checks the dashboard in a browser. Usage: browser_checks.mjs [OPTIONS], see browser.sh.
import { parseArgs } from "node:util";
import { access, keyboard, quiet } from "./browser_access.mjs";
import { audits } from "./browser_audits.mjs";
import { channels } from "./browser_channels.mjs";
import { chat } from "./browser_chat.mjs";
import { check, finish } from "./browser_checking.mjs";
import { cost } from "./browser_cost.mjs";
import { everywhere } from "./browser_everywhere.mjs";
import { files } from "./browser_files.mjs";
import { graph } from "./browser_graph.mjs";
import { hostile, strangeBrowser } from "./browser_hostile.mjs";
import { korean } from "./browser_korean.mjs";
import { away, between, kills, tabs } from "./browser_live.mjs";
import { machine } from "./browser_machine.mjs";
import { manage } from "./browser_manage.mjs";
import { people } from "./browser_people.mjs";
import { pictures } from "./browser_pictures.mjs";
import { projects } from "./browser_projects.mjs";
import { push } from "./browser_push.mjs";
import { question } from "./browser_question.mjs";
import { requests } from "./browser_requests.mjs";
import { search } from "./browser_search.mjs";
import { forged, headers, reach, rebound } from "./browser_security.mjs";
import { foreign } from "./browser_foreign.mjs";
import { sharing } from "./browser_sharing.mjs";
import { codes, expired, secrets, sessions, signin, signout } from "./browser_signin.mjs";
import { Stage } from "./browser_stage.mjs";
import { team } from "./browser_team.mjs";
import { visits } from "./browser_visits.mjs";
import { Browsers } from "./browser_window.mjs";

// Each part takes the stage and the browsers. What one of them leaves behind, the next ones may use.
const PARTS = {
    codes,
    signin,
    sessions,
    signout,
    headers,
    reach,
    forged,
    rebound,
    foreign,
    people,
    sharing,
    // Before those that give the helper turns, because it begins with an empty session.
    chat,
    team,
    channels,
    manage,
    files,
    search,
    everywhere,
    visits,
    cost,
    graph,
    projects,
    machine,
    requests,
    question,
    push,
    access,
    keyboard,
    quiet,
    audits,
    korean,
    hostile,
    strangeBrowser,
    tabs,
    between,
    away,
    kills,
    expired,
    secrets,
};

// Parts that `--short` leaves out, unless `--only` names them.
const FULL = ["audits"];

function usage(problem) {
    console.error(`browser_checks.mjs: ${problem}`);
    console.error("options: [--messages N] [--kills N] [--short] [--pictures FOLDER] [--only PART…]");
    console.error(`parts: ${Object.keys(PARTS).join(" ")}`);
    process.exit(2);
}

function chosenOptions() {
    const options = {
        only: { type: "boolean", default: false },
        pictures: { type: "string" },
        messages: { type: "string", default: "60" },
        kills: { type: "string", default: "5" },
        short: { type: "boolean", default: false },
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
const names = values.only ? positionals : Object.keys(PARTS).filter((name) => !values.short || !FULL.includes(name));
const chosen = values.pictures ? { pictures } : Object.fromEntries(names.map((name) => [name, PARTS[name]]));

const stage = new Stage({
    pictures: values.pictures,
    messages: Number(values.messages),
    kills: Number(values.kills),
    short: values.short,
});
const browsers = new Browsers(stage);

// The others go on without a part that can't.
async function attempt(name, part) {
    console.log(`-- ${name} (${Math.round(performance.now() / 1000)} s)`);
    try {
        await part(stage, browsers);
    } catch (error) {
        check(`the part ${name} went to its end`, false, error.stack);
    }
    await browsers.clear(name);
}

try {
    await stage.open();
    for (const [name, part] of Object.entries(chosen)) {
        await attempt(name, part);
    }
} catch (error) {
    check("the run went to its end", false, error.stack);
}
await browsers.close();
await stage.close();
finish();
