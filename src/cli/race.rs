//! `flock race`: copies of a channel's team get the same task, and the checks choose the one whose work is merged.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, pending_operations, person};
use crate::clock;
use crate::config::budgets;
use crate::error::Kind;
use crate::gateway::routes::races::{ByBody, KeepBody, NewRaceBody};
use crate::id::{AgentId, ChannelId, IdError, ProjectName};
use crate::supervise::gateway_client::Call;
use crate::ui::{StyledLine, Table, TextStyle};

/// Let several copies of a channel's team work on the same task, and merge the best result
///
/// Each copy has the files, conversations and packages of the team as they are now, and branches of its own. What a copy
/// submits is checked as any other submission, and waits. Once no copy works any more, the checks choose: the winner's
/// submission is merged, and the others stop. Needs a project with checks.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "\
Examples:
  flock race dev 3 --project lib --budget-tokens 2000000 'Make parse() twice as fast'
  flock race show 1
  flock race keep 1 2       # another winner
  flock race drop 1         # removes the copies that lost"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Id of the channel whose team is copied; may be written as '#dev'
    #[arg(required = true, value_parser = channel)]
    channel: Option<ChannelId>,
    /// Number of copies, from 2 to 8
    #[arg(required = true, value_parser = clap::value_parser!(u32).range(2..=8))]
    copies: Option<u32>,
    /// The task for each copy
    #[arg(required = true, value_name = "TEXT")]
    task: Option<String>,
    /// Name of the project that the copies work on
    #[arg(long, required = true, value_name = "NAME")]
    project: Option<ProjectName>,
    /// Tokens that all copies together may use
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    budget_tokens: Option<u64>,
    /// Dollars that all copies together may use
    #[arg(long, value_name = "NUMBER", value_parser = dollars)]
    budget_usd: Option<u64>,
    /// Minutes after which the race is decided with what is there
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the races, the newest first
    #[command(visible_alias = "ls")]
    List,
    /// Show a race with what each copy has done
    Show {
        /// Number of the race
        race: i64,
    },
    /// Choose the winner yourself, before the work of another one is merged
    Keep {
        /// Number of the race
        race: i64,
        /// Number of the copy [default: the best one]
        copy: Option<u32>,
    },
    /// End a race without a winner
    Stop {
        /// Number of the race
        race: i64,
    },
    /// Remove the copies that did not win, with their agents, files and branches
    Drop {
        /// Number of the race
        race: i64,
    },
}

/// Time that a request may take. Copying the files of several agents takes long.
const TIMEOUT: Duration = Duration::from_secs(1_800);

fn channel(text: &str) -> Result<ChannelId, IdError> {
    text.strip_prefix('#').unwrap_or(text).parse()
}

/// Reads an amount in dollars as millionths.
fn dollars(text: &str) -> Result<u64, String> {
    let number = text.parse::<f64>().ok().map(|number| json!(number));
    let micros = number.as_ref().and_then(budgets::micros).filter(|micros| *micros > 0);
    micros.ok_or_else(|| "write dollars as in 2.5".to_owned())
}

/// Begins a race, or runs the verb below `race`.
///
/// # Errors
///
/// Returns an error if the race, the channel or the project does not exist, if the team can't be copied, or if the state of
/// the race does not allow it.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        None => begin(args, context),
        Some(Verb::List) => list(context),
        Some(Verb::Show { race }) => show(*race, context),
        Some(Verb::Keep { race, copy }) => keep(*race, *copy, context),
        Some(Verb::Stop { race }) => stop(*race, context),
        Some(Verb::Drop { race }) => drop_losers(*race, context),
    }
}

fn begin(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let (Some(channel), Some(copies), Some(task), Some(project)) =
        (&args.channel, args.copies, &args.task, &args.project)
    else {
        return Err(Failure::new(
            Kind::Usage,
            "name the channel, the number of copies, the project and the task",
        )
        .hint("flock race --help"));
    };
    let new = NewRaceBody {
        channel: channel.clone(),
        copies,
        project: project.clone(),
        task: task.clone(),
        tokens: args.budget_tokens,
        cost_micros: args.budget_usd,
        minutes: args.minutes,
        by: Some(person::name()),
    };
    let answer = send(context, Call::post("/api/races").json(&new)?, Repeat::Unsent)?;
    let race = &answer["race"];
    let names: Vec<String> =
        items(&race["copies"]).map(|copy| format!("#{}", text(&copy["channel"]))).collect();
    let line =
        StyledLine::new().with(TextStyle::Good, "began").plain(" race ").accent(race["race"].to_string());
    context.printer.result(&answer, line.plain(format!(" with {}", names.join(", "))));
    for warning in items(&race["warnings"]).filter_map(Value::as_str) {
        context.printer.warn(warning);
    }
    Ok(Exit::Done)
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let answer = send(context, Call::get("/api/races"), Repeat::Safe)?;
    let mut table = Table::new(&["RACE", "STATE", "CHANNEL", "PROJECT", "COPIES", "WINNER", "BEGAN", "TASK"]);
    for race in items(&answer["races"]) {
        table.styled_row(vec![
            (TextStyle::Accent, race["race"].to_string()),
            (TextStyle::Plain, state_text(race)),
            (TextStyle::Plain, text(&race["channel"]).to_owned()),
            (TextStyle::Plain, text(&race["project"]).to_owned()),
            (TextStyle::Plain, race["copyCount"].to_string()),
            (TextStyle::Plain, number(&race["winner"])),
            (TextStyle::Dim, clock::local(race["createdAt"].as_i64().unwrap_or_default())),
            (TextStyle::Plain, crate::clean::summary(text(&race["task"]), 60)),
        ]);
    }
    context.printer.list(&answer, &table, "There are no races; see flock race --help.");
    Ok(Exit::Done)
}

fn state_text(race: &Value) -> String {
    let dropped = if race["droppedAt"].is_null() { "" } else { ", dropped" };
    format!("{}{dropped}", text(&race["state"]))
}

fn show(race: i64, context: &Context) -> Result<Exit, Failure> {
    let answer = send(context, Call::get(&format!("/api/races/{race}")), Repeat::Safe)?;
    if context.printer.is_json() {
        context.printer.json(&answer);
        return Ok(Exit::Done);
    }
    print(&answer["race"], context);
    Ok(Exit::Done)
}

fn print(race: &Value, context: &Context) {
    let mut facts = Table::new(&["RACE", ""]);
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            facts.row([name.to_owned(), value]);
        }
    };
    row("number", race["race"].to_string());
    row("state", state_text(race));
    row("why", text(&race["why"]).to_owned());
    row("chosen by", text(&race["chosenBy"]).to_owned());
    row("channel", format!("#{}", text(&race["channel"])));
    row("project", format!("{} at {}", text(&race["project"]), crate::project::short(text(&race["base"]))));
    row("task", crate::clean::summary(text(&race["task"]), 200));
    let used = &race["used"];
    row("tokens", against(&used["tokens"], &race["tokens"], ToString::to_string));
    row("cost", against(&used["costMicros"], &race["costMicros"], |micros| usd(*micros)));
    row("ends", race["endsAt"].as_i64().map(clock::local).unwrap_or_default());
    context.printer.table(&facts);
    let mut copies = Table::new(&[
        "COPY",
        "STATE",
        "CHANNEL",
        "SUBMISSION",
        "RECEIPT",
        "TESTS",
        "CHANGE",
        "TOKENS",
        "COST",
    ]);
    for copy in items(&race["copies"]) {
        let found = &copy["submission"];
        let change = if found["files"].is_null() {
            String::new()
        } else {
            format!("{} files, +{} -{}", found["files"], found["added"], found["removed"])
        };
        let submission = if found.is_null() {
            String::new()
        } else {
            format!("{} {}", found["number"], text(&found["state"]))
        };
        let receipt = text(&found["receipt"]);
        copies.styled_row(vec![
            (TextStyle::Accent, copy["number"].to_string()),
            (TextStyle::Plain, text(&copy["state"]).to_owned()),
            (TextStyle::Plain, format!("#{}", text(&copy["channel"]))),
            (TextStyle::Plain, submission),
            (TextStyle::Plain, receipt.get(..12).unwrap_or(receipt).to_owned()),
            (TextStyle::Plain, number(&found["tests"])),
            (TextStyle::Plain, change),
            (TextStyle::Plain, copy["tokens"].to_string()),
            (TextStyle::Plain, usd(copy["costMicros"].as_u64().unwrap_or_default())),
        ]);
    }
    context.printer.line(String::new());
    context.printer.table(&copies);
    for copy in items(&race["copies"]).filter(|copy| !text(&copy["why"]).is_empty()) {
        context.printer.line(format!("copy {}: {}", copy["number"], text(&copy["why"])));
    }
}

fn keep(race: i64, copy: Option<u32>, context: &Context) -> Result<Exit, Failure> {
    let body = KeepBody { copy, by: Some(person::name()) };
    let answer = send(context, Call::post(&format!("/api/races/{race}/keep")).json(&body)?, Repeat::Safe)?;
    let found = &answer["race"];
    let winner = items(&found["copies"]).find(|copy| copy["number"] == found["winner"]);
    let submission = winner.map(|copy| copy["submission"]["number"].to_string()).unwrap_or_default();
    let line = format!(
        "copy {} has won race {race}; its submission {submission} goes on to be merged, with the review of the project",
        found["winner"]
    );
    context.printer.result(&answer, line);
    Ok(Exit::Done)
}

fn stop(race: i64, context: &Context) -> Result<Exit, Failure> {
    let body = ByBody { by: Some(person::name()) };
    let answer = send(context, Call::post(&format!("/api/races/{race}/stop")).json(&body)?, Repeat::Unsent)?;
    context.printer.result(&answer, format!("race {race} is stopped"));
    Ok(Exit::Done)
}

fn drop_losers(race: i64, context: &Context) -> Result<Exit, Failure> {
    if !context.yes() {
        let unasked =
            Failure::new(Kind::Usage, format!("dropping the copies of race {race} must be confirmed"))
                .hint(format!("flock race drop {race} --yes"));
        let question = format!("Remove the copies of race {race} that did not win, with all their files?");
        context.confirm(&question, unasked, "nothing was removed")?;
    }
    let body = ByBody { by: Some(person::name()) };
    let answer = send(context, Call::post(&format!("/api/races/{race}/drop")).json(&body)?, Repeat::Unsent)?;
    let found = &answer["race"];
    let home = context.writable_home()?;
    // The gateway would complete these removals, too, but only after a while.
    let losers = items(&found["copies"]).filter(|copy| found["winner"] != copy["number"]);
    let agents: Vec<AgentId> = losers
        .flat_map(|copy| items(&copy["agents"]))
        .filter_map(|agent| agent["agent"].as_str()?.parse().ok())
        .collect();
    context.block_on(async {
        for agent in &agents {
            pending_operations::finish(&home, agent, context).await?;
        }
        Ok::<_, Failure>(())
    })?;
    context.printer.result(&answer, format!("the copies of race {race} that did not win are removed"));
    Ok(Exit::Done)
}

fn send(context: &Context, call: Call, repeat: Repeat) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    Ok(context.block_on(Reconnector::new(&home, context).send(call, repeat, TIMEOUT))?.answer)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> String {
    if value.is_null() { String::new() } else { value.to_string() }
}

fn usd(micros: u64) -> String {
    let cents = micros.div_ceil(10_000);
    format!("${}.{:02}", cents / 100, cents % 100)
}

fn against(used: &Value, limit: &Value, show: impl Fn(&u64) -> String) -> String {
    let used = show(&used.as_u64().unwrap_or_default());
    match limit.as_u64() {
        Some(limit) => format!("{used} of {}", show(&limit)),
        None => used,
    }
}
