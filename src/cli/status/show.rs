//! The report, formatted for people.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::engine::{MOST_NAMED_AGENTS, first_of};
use super::openclaw::{Build, OpenClawReport};
use super::report::StatusReport;
use super::unit::UnitReport;
use crate::cli::{Context, team};
use crate::clock;
use crate::error::Kind;
use crate::gateway::unread;
use crate::store::{DatabasePlace, GATEWAY_LIFETIME_MS, LeaseKind};
use crate::supervise::resource_usage::ResourceUsage;
use crate::ui::progress::span;
use crate::ui::{Failure, StyledLine, Table, TextStyle};

pub(crate) fn show(report: &StatusReport, context: &Context) {
    let printer = &context.printer;
    printer.line(title("home").plain(report.home.display().to_string()));
    if let Some(DatabasePlace::Postgres { address }) = &report.database {
        printer.line(title("database").plain(format!("PostgreSQL at {address}")));
    }
    printer.line(gateway(report));
    let gateway = &report.gateway;
    for text in [&gateway.problem, &gateway.unit.reason].into_iter().flatten() {
        printer.line(title("").with(TextStyle::Warn, text.clone()));
    }
    // OpenClaw is shown only if it is installed or needed.
    if let Some(bundle) = &report.openclaw {
        openclaw(bundle).into_iter().for_each(|line| printer.line(line));
    }
    if let Some(supervisor) = &report.supervisor {
        let held = if supervisor.foreground { ", run by a service manager" } else { "" };
        let text = format!("pid {}, version {}{held}", supervisor.pid, supervisor.version);
        printer.line(title("supervisor").plain(text + &usage_text(supervisor.figures)));
    }
    if let Some(turns) = &gateway.turns {
        let sessions = gateway.sessions.map(|count| format!(", {count} sessions")).unwrap_or_default();
        let text = format!("{} running, {} waiting{sessions}", turns["running"], turns["waiting"]);
        printer.line(title("turns").plain(text));
    }
    // Without a gateway nothing is known about the team, so the line is left out.
    if let Some(team) = &report.team {
        printer.line(title("team").plain(channel_text(team)));
        for breaker in team["breakers"].as_array().into_iter().flatten() {
            printer.line(title("provider").with(TextStyle::Warn, outage_text(breaker)));
        }
    }
    for park in report.parked.iter().flat_map(|parked| parked.as_array()).flatten() {
        printer.line(title("quota").with(TextStyle::Warn, park_text(park)));
    }
    for bridge in report.bridges.iter().flat_map(|bridges| bridges.as_array()).flatten() {
        printer.line(bridge_line(bridge));
    }
    for server in report.mcp_servers.iter().flat_map(|servers| servers.as_array()).flatten() {
        printer.line(mcp_server_line(server));
    }
    for race in report.races.iter().flat_map(|races| races.as_array()).flatten() {
        printer.line(race_line(race));
    }
    if let Some(line) = report.hooks.as_ref().and_then(hooks_line) {
        printer.line(line);
    }
    if let Some(line) = report.schedules.as_ref().and_then(schedules_line) {
        printer.line(line);
    }
    if let Some(line) = report.skills.as_ref().and_then(skills_line) {
        printer.line(line);
    }
    for project in report.projects.iter().flat_map(|projects| projects.as_array()).flatten() {
        printer.line(project_line(project));
    }
    if let Some(people) = &report.people {
        printer.line(
            title("people")
                .plain(format!("{} beside the owner: ", people["count"]))
                .accent("flock person list"),
        );
        for budget in people["budgets"].as_array().into_iter().flatten() {
            printer.line(budget_line(budget));
        }
    }
    if let Some(browsers) = report.dashboard.as_ref().and_then(|dashboard| dashboard["browsers"].as_u64()) {
        let text = match browsers {
            0 => "no browser is signed in: ".to_owned(),
            1 => "1 browser is signed in: ".to_owned(),
            _ => format!("{browsers} browsers are signed in: "),
        };
        printer.line(title("dashboard").plain(text).accent("flock dashboard"));
    }
    for shared in report.gateways.iter().flat_map(|gateways| gateways.as_array()).flatten() {
        printer.line(shared_line(shared));
    }
    let oidc = report.dashboard.as_ref().and_then(|dashboard| dashboard["oidc"]["issuer"].as_str());
    if let Some(issuer) = oidc {
        printer.line(title("sign-in").plain(format!("people sign in at {issuer}")));
    }
    if let Some(telemetry) = &report.telemetry {
        printer.line(telemetry_line(telemetry));
    }
    if let Some(line) = report.search_index.as_ref().and_then(search_line) {
        printer.line(line);
    }
    if let Some(storage) = &report.storage {
        printer.line(storage_line(storage));
    }
    if let Some(backup) = &report.backup {
        printer.line(backup_line(backup));
    }
    printer.line(docker(report));
    for engine in report.engines.iter().flat_map(|engines| engines.as_array()).flatten() {
        printer.line(engine_line(engine));
    }
    if let Some(hint) = &report.engine.docker.hint {
        printer.line(title("").plain("mend it with ").accent(hint.clone()));
    }
    if let Some(images) = &report.engine.images {
        printer.line(title("images").plain(images_text(images)));
    }
    if let Some(store) = &report.engine.store {
        let text = format!("{} {}", brief(&store["container"]), brief(&store["state"]));
        printer.line(title("store").plain(text));
    }
    // A person has to decide these, so they are shown only if there are any.
    if let Some(count @ 1..) = report.approvals_waiting {
        let text =
            if count == 1 { "1 request waits: ".to_owned() } else { format!("{count} requests wait: ") };
        printer.line(title("approvals").with(TextStyle::Warn, text).accent("flock approvals list"));
    }
    if !report.agents.is_empty() {
        printer.line("");
        printer.table(&agents(report));
    }
    if let Some(freeze) = &report.frozen {
        printer.warn(&team::home_frozen_text(freeze));
    }
    for warning in unread::sentences(&report.unread).iter().chain(&report.warnings) {
        printer.warn(warning);
    }
    for agent in &report.agents {
        if let Some(warning) = &agent.warning {
            let mut failure = Failure::new(Kind::Failed, format!("{}: {warning}", agent.id));
            failure.hint.clone_from(&agent.hint);
            printer.warn(&failure.to_line_with_hint());
        }
    }
    if report.newer_home {
        printer.warn("a newer flock made this home: this one does not change it");
    }
    // The hint goes to stderr with the other messages, so that the output itself stays data.
    if !report.running {
        printer.say(StyledLine::new().plain("start it with ").accent("flock start"));
    }
}

/// Returns the line about skills, or none without any.
fn skills_line(skills: &Value) -> Option<StyledLine> {
    let count = skills["count"].as_u64().filter(|count| *count > 0)?;
    let mut line = title("skills").plain(format!("{count}"));
    for name in skills["changed"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        line = line
            .with(TextStyle::Warn, format!(", {name} is not what was agreed to: "))
            .accent(format!("flock skill show {name}"));
    }
    Some(line)
}

/// Returns the line about the budget of a person.
fn budget_line(budget: &Value) -> StyledLine {
    let (mut parts, mut is_used_up) = (Vec::new(), false);
    let usd = |micros: u64| format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000);
    let tokens = |count: u64| format!("{count} tokens");
    let shown: [(&str, &dyn Fn(u64) -> String); 2] = [("tokens", &tokens), ("costMicros", &usd)];
    for (key, text) in shown {
        let amount = |part: &str| budget[key][part].as_u64();
        if let Some(limit) = amount("limit") {
            let used = amount("used").unwrap_or_default() + amount("reserved").unwrap_or_default();
            is_used_up |= used >= limit;
            parts.push(format!("{} of {}", text(used), text(limit)));
        }
    }
    let name = budget["name"].as_str().unwrap_or_default();
    let line = title("budget").plain(format!("{name}: {} today", parts.join(", ")));
    if !is_used_up {
        return line;
    }
    line.with(TextStyle::Warn, ", used up: ").accent(format!("flock person show {name}"))
}

/// Returns the line about webhooks, or none without any.
fn hooks_line(hooks: &Value) -> Option<StyledLine> {
    let count = |key: &str| hooks[key].as_u64().unwrap_or_default();
    if count("active") + count("paused") == 0 {
        return None;
    }
    let mut line = title("webhooks").plain(format!("{} active, {} paused", count("active"), count("paused")));
    if count("refused") > 0 {
        line = line.plain(format!(", {} refused", count("refused")));
    }
    for name in hooks["failing"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let show = format!("flock hook show {name}");
        line = line.with(TextStyle::Warn, format!(", {name} was paused: ")).accent(show);
    }
    Some(line)
}

/// Returns the line about schedules, or none without any.
fn schedules_line(schedules: &Value) -> Option<StyledLine> {
    let count = |key: &str| schedules[key].as_u64().unwrap_or_default();
    if count("active") + count("paused") == 0 {
        return None;
    }
    let mut line =
        title("schedules").plain(format!("{} active, {} paused", count("active"), count("paused")));
    if let (Some(next), Some(at)) = (schedules["next"].as_str(), schedules["nextAt"].as_i64()) {
        line = line.plain(format!(", next {next} at {}", crate::clock::local(at)));
    }
    for name in schedules["failing"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let history = format!("flock schedule history {name}");
        line = line.with(TextStyle::Warn, format!(", {name} fails: ")).accent(history);
    }
    Some(line)
}

fn race_line(race: &Value) -> StyledLine {
    let text = |key: &str| race[key].as_str().unwrap_or_default().to_owned();
    let line = title("race").plain(format!(
        "{} of #{} for {}: {}",
        race["race"],
        text("channel"),
        text("project"),
        text("state")
    ));
    if text("state") == "person" {
        return line
            .with(TextStyle::Warn, ", a copy has to be chosen: ")
            .accent(format!("flock race show {}", race["race"]));
    }
    line
}

fn project_line(project: &Value) -> StyledLine {
    let name = project["name"].as_str().unwrap_or_default();
    let (open, waiting) = (project["open"].as_u64().unwrap_or_default(), project["waitForPerson"].as_u64());
    let line = title("project").plain(format!("{name}: {open} on their way"));
    if let Some(problem) = project["problem"].as_str() {
        return line.with(TextStyle::Warn, format!(", the merge train waits: {problem}"));
    }
    match waiting {
        Some(count @ 1..) => line
            .with(TextStyle::Warn, format!(", {count} wait for you: "))
            .accent(format!("flock project submissions {name} --open")),
        _ => line,
    }
}

/// Returns the line about one of the gateways that share a database on a server.
fn shared_line(shared: &Value) -> StyledLine {
    let text = |key: &str| shared[key].as_str().unwrap_or_default();
    let own = if shared["own"] == true { ", this one" } else { "" };
    let agents: Vec<String> = shared["agents"].as_array().into_iter().flatten().map(brief).collect();
    let (agents, others) = (counted("agent", &agents), other_leases(&shared["leases"]));
    let turns = match (shared["turns"]["running"].as_u64(), shared["turns"]["waiting"].as_u64()) {
        (Some(0), Some(0)) | (None, _) | (_, None) => String::new(),
        (Some(running), Some(waiting)) => format!(", turns: {running} running, {waiting} waiting"),
    };
    let line = title("database").plain(format!(
        "on a server, gateway {} on {} at {}, version {}, {agents}{others}{turns}{own}",
        shared["epoch"],
        text("name"),
        text("address"),
        text("version"),
    ));
    match shared["silentMs"].as_i64().unwrap_or_default() {
        silent if silent >= GATEWAY_LIFETIME_MS => {
            line.with(TextStyle::Warn, format!(", silent for {} s", silent / 1000))
        }
        _ => line,
    }
}

/// Returns the numbers of what a gateway takes care of besides agents, as in `, 2 bridges, the periodic work`.
fn other_leases(leases: &Value) -> String {
    let kinds = [
        (LeaseKind::Bridge, "1 bridge", "bridges"),
        (LeaseKind::Train, "1 merge train", "merge trains"),
        (LeaseKind::Server, "1 MCP server", "MCP servers"),
        // There is one for the whole team.
        (LeaseKind::Clock, "the periodic work", ""),
    ];
    let text = |(kind, one, many): (LeaseKind, &str, &str)| match leases[kind.as_str()].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => format!(", {one}"),
        Some(count) => format!(", {count} {many}"),
    };
    kinds.map(text).concat()
}

fn telemetry_line(telemetry: &Value) -> StyledLine {
    let endpoint = telemetry["endpoint"].as_str().unwrap_or_default();
    let mut text = format!("{endpoint}, {} spans sent, {} waiting", telemetry["sent"], telemetry["waiting"]);
    if telemetry["contents"] == true {
        text.push_str(", with contents");
    }
    let line = title("telemetry").plain(text);
    let lost: u64 =
        telemetry["lost"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
    let error = telemetry["error"]["message"].as_str().filter(|_| telemetry["error"]["lasts"] == true);
    match (lost, error) {
        (0, None) => line,
        (0, Some(error)) => line.with(TextStyle::Warn, format!(", not reached: {error}")),
        (lost, None) => line.with(TextStyle::Warn, format!(", {lost} lost")),
        (lost, Some(error)) => line.with(TextStyle::Warn, format!(", {lost} lost, not reached: {error}")),
    }
}

/// The number of messages that a search takes in by itself, more or less. If the index lacks fewer, there is no line.
const MESSAGES_OF_A_SEARCH: i64 = 10_000;

/// Returns the line about the search index, or none if a search is hardly held up by what the index lacks.
fn search_line(index: &Value) -> Option<StyledLine> {
    let behind = index["messagesBehind"].as_i64().filter(|behind| *behind >= MESSAGES_OF_A_SEARCH)?;
    Some(
        title("search").plain(format!(
            "the index is {behind} messages behind: until it has them, a search can miss some"
        )),
    )
}

/// Returns the line about the newest backup of the home.
fn backup_line(backup: &Value) -> StyledLine {
    let age = clock::unix_ms() - backup["at"].as_i64().unwrap_or_default();
    title("backup").plain(format!("made {} ago: {}", ago(age), brief(&backup["file"])))
}

/// Returns the line about the second place: when something was copied there last, and of which agents and vaults copies wait or
/// fail. The reasons of failures are among the warnings.
fn storage_line(storage: &Value) -> StyledLine {
    let mut line = title("storage").plain(brief(&storage["place"]));
    for (kind, subject) in [("checkpoints", "agent"), ("conversations", "agent"), ("vaults", "vault")] {
        // Nothing is known before the first look, or if another gateway makes the copies.
        let copies = &storage[kind];
        if copies.is_null() {
            continue;
        }
        line = match copies["copiedAt"].as_i64() {
            Some(at) => line.plain(format!("; {kind} copied {} ago", ago(clock::unix_ms() - at))),
            None => line.plain(format!("; no {kind} copied yet")),
        };
        let list = |key: &str| copies[key].as_array().into_iter().flatten();
        let waiting: Vec<String> = list("waiting").map(brief).collect();
        let failed: Vec<String> = list("failed").map(|problem| brief(&problem[subject])).collect();
        if !waiting.is_empty() {
            line = line.plain(format!(", waiting: {}", counted(subject, &waiting)));
        }
        if !failed.is_empty() {
            line = line.with(TextStyle::Warn, format!(", failing: {}", counted(subject, &failed)));
        }
    }
    line
}

/// Returns the number of agents or vaults, with their names if they are few.
fn counted(subject: &str, names: &[String]) -> String {
    match names {
        [] => format!("no {subject}s"),
        [one] => format!("1 {subject} ({one})"),
        names if names.len() > MOST_NAMED_AGENTS => format!("{} {subject}s", names.len()),
        names => format!("{} {subject}s ({})", names.len(), names.join(", ")),
    }
}

fn bridge_line(bridge: &Value) -> StyledLine {
    let text = |key: &str| bridge[key].as_str().unwrap_or_default().to_owned();
    let mut line = format!(
        "{} {}, {} links, {} waiting",
        text("name"),
        text("state"),
        bridge["links"],
        bridge["waiting"]
    );
    if !text("lastError").is_empty() {
        let _ = write!(line, ": {}", text("lastError"));
    }
    let style = match bridge["state"].as_str() {
        Some("connected") => TextStyle::Plain,
        Some("paused") => TextStyle::Dim,
        _ => TextStyle::Warn,
    };
    title("bridge").with(style, line)
}

fn mcp_server_line(server: &Value) -> StyledLine {
    let text = |key: &str| server[key].as_str().unwrap_or_default().to_owned();
    let name = text("name");
    let (style, state) = match (server["waiting"].as_u64(), server["failure"].as_str()) {
        (Some(tools @ 1..), _) => (TextStyle::Warn, format!("{tools} changed tools wait for you")),
        (_, Some(failure)) => (TextStyle::Warn, format!("failed: {}", crate::clean::summary(failure, 100))),
        _ if server["running"] == true => (TextStyle::Plain, "running".to_owned()),
        _ => (TextStyle::Dim, "stopped".to_owned()),
    };
    title("mcp").with(style, format!("{name} {state}"))
}

fn title(name: &str) -> StyledLine {
    StyledLine::new().with(TextStyle::Strong, format!("{name:<12}"))
}

fn gateway(report: &StatusReport) -> StyledLine {
    let gateway = &report.gateway;
    let line = title("gateway");
    if !report.running {
        return line.with(TextStyle::Bad, state(&gateway.unit)).plain(crashes(&gateway.unit));
    }
    let mut text = format!(" at {}", report.url.as_deref().unwrap_or_default());
    // Values that are unknown are left out, not shown as unknown.
    let known = [
        (", pid ", gateway.unit.pid.map(|pid| pid.to_string())),
        (", version ", gateway.version.clone()),
        (", up ", gateway.uptime_ms.map(ago)),
    ];
    text.extend(known.into_iter().filter_map(|(what, value)| Some(what.to_owned() + &value?)));
    text.push_str(&usage_text(gateway.unit.figures));
    if let Some(percent) = gateway.cpu_percent {
        let _ = write!(text, " ({percent} %)");
    }
    line.with(TextStyle::Good, state(&gateway.unit)).plain(text + &crashes(&gateway.unit))
}

/// Returns lines about the running OpenClaw, and about the installed version if that is another one.
fn openclaw(bundle: &OpenClawReport) -> Vec<StyledLine> {
    let build = |build: &Build| {
        let time = jiff::Timestamp::from_second(build.committed_at).unwrap_or_default();
        let (day, commit) = (time.strftime("%Y-%m-%d"), build.commit.get(..7).unwrap_or(&build.commit));
        format!("{} ({commit}, {day})", build.version)
    };
    let installed = bundle.installed.as_ref().map_or("not installed".to_owned(), build);
    let line = title("openclaw");
    let mut lines = Vec::new();
    lines.push(match (&bundle.serving, bundle.healthy) {
        // The running version is shown, not the installed one: only it answers.
        (Some(serving), healthy) => {
            let mut text = format!(", serves {}", build(serving));
            let known = [
                (" on port ", bundle.unit.port.map(|port| port.to_string())),
                (", pid ", bundle.unit.pid.map(|pid| pid.to_string())),
                (", up ", bundle.started_at.map(|at| ago(clock::unix_ms() - at))),
            ];
            text.extend(known.into_iter().filter_map(|(what, value)| Some(what.to_owned() + &value?)));
            text.push_str(&usage_text(bundle.unit.figures));
            text.push_str(&crashes(&bundle.unit));
            let state = state(&bundle.unit);
            // The supervisor's state is from its last look. The process was asked just now, so its silence is newer.
            let state =
                if healthy || bundle.unit.state != "healthy" { state } else { "does not answer".to_owned() };
            line.with(if healthy { TextStyle::Good } else { TextStyle::Warn }, state).plain(text)
        }
        (None, _) if bundle.agents == 0 => line.plain(format!("{installed}; no agent runs on it")),
        (None, _) => {
            let tone = if bundle.unit.state == "starting" { TextStyle::Warn } else { TextStyle::Bad };
            let text = format!(", installed {installed}{}", crashes(&bundle.unit));
            line.with(tone, state(&bundle.unit)).plain(text)
        }
    });
    // An update that is installed but not yet started needs a restart.
    if bundle.serving.is_some() && bundle.serving != bundle.installed {
        let text = format!("{installed} is installed; it serves after the next ");
        lines.push(title("").with(TextStyle::Warn, text).accent("flock restart"));
    }
    if bundle.installed.is_none() && bundle.agents > 0 {
        lines.push(title("").plain("install it with ").accent("flock init --gateway openclaw"));
    }
    if let Some(stale) = &bundle.stale {
        lines.push(
            title("").with(TextStyle::Bad, format!("still runs with its earlier configuration: {stale}")),
        );
    }
    let told = [&bundle.problem, &bundle.unit.reason];
    lines.extend(told.into_iter().flatten().map(|text| title("").with(TextStyle::Warn, text.clone())));
    lines
}

fn state(unit: &UnitReport) -> String {
    // The state is a word with hyphens for programs and with spaces for people.
    unit.state.replace('-', " ")
}

fn crashes(unit: &UnitReport) -> String {
    let mut text = String::new();
    if let Some(restarts) = unit.restarts.filter(|restarts| *restarts > 0) {
        let _ = write!(text, ", restarted {restarts} times");
    }
    if let Some(replacements) = unit.replacements.filter(|replacements| *replacements > 0) {
        let _ = write!(text, ", replaced by another gateway {replacements} times");
    }
    // After this number of crashes nothing restarts it, so a person has to.
    if let Some(opened) = unit.breaker_opened_at {
        let since = ago(clock::unix_ms() - opened);
        let _ = write!(text, " {since} ago after {} crashes; `flock start` tries again", unit.crashes);
    }
    if let Some(at) = unit.retry_at {
        let _ = write!(text, ", next attempt in {}", ago(at - clock::unix_ms()));
    }
    text
}

fn channel_text(team: &Value) -> String {
    let count = |state: &str| team["channels"][state].as_u64().unwrap_or_default();
    let (active, archiving, archived) = (count("active"), count("archiving"), count("archived"));
    // A channel that is being archived can still be used, so it counts as one of the channels.
    let mut text = format!("{} channels", active + archiving);
    if archiving > 0 {
        let _ = write!(text, ", {archiving} being archived");
    }
    if archived > 0 {
        let _ = write!(text, ", {archived} archived");
    }
    let _ = write!(text, ", {} unread by agents", team["unseen"].as_u64().unwrap_or_default());
    text
}

/// Returns a sentence about a provider that does not answer.
fn outage_text(breaker: &Value) -> String {
    let now = clock::unix_ms();
    let time = |name: &str| breaker[name].as_i64().unwrap_or(now);
    // The breaker is a circuit breaker: while it is open, the provider is not asked.
    let next = match (breaker["trying"].as_bool(), time("retryAt") - now) {
        (Some(true), _) => "flock is asking it again now".to_owned(),
        (_, wait @ 1..) => format!("next attempt in {}", ago(wait)),
        _ => "next attempt when one of its agents has something to do".to_owned(),
    };
    format!("{} has not answered for {}; {next}", brief(&breaker["provider"]), ago(now - time("since")))
}

fn park_text(park: &Value) -> String {
    let now = clock::unix_ms();
    let until = park["until"].as_i64().unwrap_or(now);
    let next = match (park["probing"].as_bool(), until - now) {
        (Some(true), _) => "flock is trying it now".to_owned(),
        (_, wait @ 1..) => format!("next try at {}, in {}", clock::local(until), ago(wait)),
        _ => "next try when one of its agents has something to do".to_owned(),
    };
    let agents: Vec<String> = park["agents"].as_array().into_iter().flatten().map(brief).collect();
    let who = match agents.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} waits"),
        agents => format!("; {} wait", first_of(agents)),
    };
    format!("{} is used up for {}; {next}{who}", brief(&park["credential"]), brief(&park["model"]))
}

fn docker(report: &StatusReport) -> StyledLine {
    let line = title("docker");
    match (&report.engine.docker.problem, &report.engine.containers) {
        (Some(problem), _) => line.with(TextStyle::Warn, problem.clone()),
        (None, Some(Value::Array(all))) => {
            let count = |state: &str| all.iter().filter(|one| one["state"] == state).count();
            let line = line.plain(format!("reachable, {} containers running", count("running")));
            match count("paused") {
                0 => line,
                frozen => line.plain(format!(", {frozen} frozen")),
            }
        }
        (None, _) => line.plain("reachable"),
    }
}

/// Formats an engine, such as `second: ready, ada, bob`. Agents that move come first, because not all of many agents are named.
fn engine_line(engine: &Value) -> StyledLine {
    let (tone, state) = crate::cli::engine::state(engine);
    let (staying, moving): (Vec<&Value>, Vec<&Value>) = engine["agents"]
        .as_array()
        .into_iter()
        .flatten()
        .partition(|agent| agent["movesTo"].is_null() && agent["waits"].is_null());
    let agents: Vec<String> = moving.into_iter().chain(staying).map(crate::cli::engine::agent_text).collect();
    let agents = if agents.is_empty() { "no agents".to_owned() } else { first_of(&agents) };
    title("engine").accent(brief(&engine["name"])).plain(": ").with(tone, state).plain(format!(", {agents}"))
}

/// Returns the engine of an agent that does not answer.
fn silent_engine(report: &StatusReport, id: &str) -> Option<String> {
    let engines = report.engines.as_ref()?.as_array()?;
    let is_there = |engine: &&Value| {
        engine["agents"].as_array().is_some_and(|agents| agents.iter().any(|agent| agent["id"] == id))
    };
    let engine = engines.iter().find(is_there).filter(|engine| engine["reachable"] == false)?;
    Some(brief(&engine["name"]))
}

fn agents(report: &StatusReport) -> Table {
    let mut table = Table::new(&["AGENT", "ROLE", "RUNTIME", "MODEL", "SANDBOX"]);
    for agent in &report.agents {
        let model = match (&agent.model, agent.scripted) {
            (Some(model), true) => format!("{model} ({})", crate::provider::script::LABEL),
            (Some(model), false) => model.clone(),
            // An agent without a model also has a warning below the table.
            (None, _) => "none".to_owned(),
        };
        let tone = if agent.warning.is_some() { TextStyle::Warn } else { TextStyle::Plain };
        table.styled_row(vec![
            (TextStyle::Accent, agent.id.clone()),
            (TextStyle::Plain, agent.role.to_owned()),
            (TextStyle::Plain, agent.runtime.clone()),
            (tone, model),
            team::inactive_text(agent.frozen.as_ref(), agent.paused.as_ref(), agent.asleep.as_ref())
                // The reason and the command that mends it are below the table.
                .or_else(|| {
                    (!agent.can_work)
                        .then(|| (TextStyle::Bad, "CAN'T WORK: its model can't be asked".to_owned()))
                })
                .unwrap_or_else(|| sandbox(report, &agent.id, agent.sandbox)),
        ]);
    }
    table
}

/// Returns the state of an agent's container, with the age of its last probe.
fn sandbox(report: &StatusReport, id: &str, configured: &str) -> (TextStyle, String) {
    match configured {
        "off" => return (TextStyle::Warn, "off".to_owned()),
        "host" => return (TextStyle::Warn, "none: it runs on this machine itself".to_owned()),
        _ => {}
    }
    if let Some(engine) = silent_engine(report, id) {
        return (TextStyle::Bad, format!("CAN'T WORK: its engine {engine} does not answer"));
    }
    let all = report.engine.containers.as_ref().and_then(Value::as_array);
    let Some(container) = all.and_then(|all| all.iter().find(|one| one["agent"] == id)) else {
        // A sandbox is made at the agent's first command, so a new agent has none.
        return (TextStyle::Dim, "none yet".to_owned());
    };
    let state = container["state"].as_str().unwrap_or("unknown");
    let probe = &container["probe"];
    let age = probe["ageMs"].as_i64().map(|age| format!(", probed {} ago", ago(age)));
    let age = age.unwrap_or_default();
    match probe["confined"].as_bool() {
        Some(true) => (TextStyle::Good, format!("{state}, confined{age}")),
        Some(false) => (TextStyle::Bad, format!("{state}, NOT CONFINED{age}: {}", brief(&probe["findings"]))),
        // Confinement is claimed only with a probe of this gateway behind it.
        None => (TextStyle::Plain, format!("{state}, not probed by this gateway")),
    }
}

fn usage_text(figures: Option<ResourceUsage>) -> String {
    figures.map_or_else(String::new, |figures| {
        let mib = figures.memory_bytes.div_ceil(1 << 20);
        format!(", {mib} MiB, {} CPU", ago(i64::try_from(figures.cpu_ms).unwrap_or(i64::MAX)))
    })
}

fn ago(milliseconds: i64) -> String {
    span(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)))
}

fn images_text(images: &Value) -> String {
    let one = |image: &Value| {
        let state = match image["present"].as_bool() {
            Some(true) => "",
            Some(false) => " (missing)",
            None => " (unknown)",
        };
        brief(&image["image"]) + state
    };
    images.as_array().map(|all| all.iter().map(one).collect::<Vec<_>>().join(", ")).unwrap_or_default()
}

/// Formats a value from the gateway in a few words.
fn brief(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(brief).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name} {}", brief(value));
            fields.iter().map(field).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gateway_and_an_engine_are_one_line_however_many_agents_they_have() {
        let ids: Vec<String> = (0..10_000).map(|number| format!("a{number}")).collect();
        let gateway = |agents: &[String], leases: Value| {
            let shared = json!({
                "epoch": 7, "name": "box", "address": "127.0.0.1:1", "version": "1", "silentMs": 0, "own": true,
                "leases": leases, "agents": agents, "turns": {"running": 0, "waiting": 0},
            });
            let line = shared_line(&shared).render(false);
            line.split_once("version 1, ").unwrap().1.to_owned()
        };
        let leases = json!({"agent": 10_000, "bridge": 1, "train": 0, "server": 2, "clock": 1});
        let others = "1 bridge, 2 MCP servers, the periodic work, this one";
        assert_eq!(gateway(&ids, leases), format!("10000 agents, {others}"));
        assert_eq!(gateway(&ids[..2], json!({"agent": 2})), "2 agents (a0, a1), this one");

        let mut agents: Vec<Value> =
            ids.iter().map(|id| json!({"id": id, "movesTo": null, "waits": null})).collect();
        agents[9_999]["waits"] = json!("a turn runs");
        let engine = json!({"name": "far", "reachable": true, "draining": true, "agents": agents});
        let shown = engine_line(&engine).render(false);
        let named = "a9999 (can't move: a turn runs), a0, a1, a2, a3, a4, a5, a6 and 9992 more";
        assert!(shown.ends_with(&format!("far: draining, {named}")), "{shown}");
    }

    #[test]
    fn the_search_index_has_a_line_only_if_a_search_can_be_held_up() {
        let line =
            |behind: i64| search_line(&json!({"messagesBehind": behind})).map(|line| line.render(false));
        assert_eq!(line(MESSAGES_OF_A_SEARCH - 1), None);
        let shown = line(12_000).unwrap();
        assert!(shown.starts_with("search ") && shown.contains(" 12000 messages behind"), "{shown}");
    }
}
