//! `flock schedule`: texts that are given to a channel or an agent at certain times.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::clock;
use crate::config::budgets;
use crate::error::Kind;
use crate::gateway::routes::parts::ScheduleChangeBody;
use crate::gateway::routes::races::ByBody;
use crate::id::ScheduleName;
use crate::store::MissedPolicy;
use crate::supervise::gateway_client::Call;
use crate::swarm::schedule::{ScheduleWish, event};
use crate::ui::{StyledLine, Table, TextStyle};

/// Give a text to a channel or an agent at certain times
///
/// Each time runs once or is recorded as missed, also if flock was stopped, the machine was suspended or its clock was set.
/// The members of the channel are woken as by a message of a person.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock schedule add dev '0 9 * * 1-5' 'Say what you do today'
  flock schedule add @coder --every 2h 'Look for new bug reports'
  flock schedule add dev --at 2026-12-24T18:00 --tz Europe/Berlin 'Stop the deployment'
  flock schedule add dev --after project.merged 'Check the release notes'
  flock schedule history dev-1")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Add a schedule
    #[command(override_usage = "flock schedule add [OPTIONS] <CHANNEL|AGENT> [CRON] <TEXT>")]
    Add(Box<AddArgs>),
    /// List the schedules with their next times
    #[command(visible_alias = "ls")]
    List,
    /// Show a schedule
    Show {
        /// Name of the schedule
        name: ScheduleName,
    },
    /// Pause a schedule; its times pass without effect
    Pause {
        /// Name of the schedule
        name: ScheduleName,
    },
    /// Let a paused schedule go on
    Resume {
        /// Name of the schedule
        name: ScheduleName,
    },
    /// Change what the runs of a schedule may use in a day
    Budget {
        /// Name of the schedule
        name: ScheduleName,
        /// Tokens in a day, or none for no limit
        #[arg(long, value_name = "NUMBER|none", value_parser = tokens_or_none, required_unless_present = "usd")]
        tokens: Option<Limit>,
        /// Dollars in a day, or none for no limit
        #[arg(long, value_name = "NUMBER|none", value_parser = dollars_or_none)]
        usd: Option<Limit>,
    },
    /// Run a schedule now, besides its times
    Run {
        /// Name of the schedule
        name: ScheduleName,
    },
    /// Show what became of a schedule's times, the newest first
    History {
        /// Name of the schedule
        name: ScheduleName,
        /// Number of rows to show
        #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// Remove a schedule with its history
    #[command(visible_alias = "rm")]
    Remove {
        /// Name of the schedule
        name: ScheduleName,
    },
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Channel or agent, such as dev, '#dev' or @coder
    #[arg(value_name = "CHANNEL|AGENT")]
    to: String,
    /// Cron pattern (minute, hour, day of the month, month, day of the week), unless an option says when; then the text
    #[arg(required = true, value_name = "[CRON] TEXT")]
    words: Vec<String>,
    /// Interval, such as 90m, 2h or 1d
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["at", "after"])]
    every: Option<String>,
    /// Single time, such as 2026-12-24T18:00
    #[arg(long, value_name = "TIME", conflicts_with = "after")]
    at: Option<String>,
    /// Event to run after, such as task.completed or project.merged
    #[arg(long, value_name = "EVENT", value_parser = clap::builder::PossibleValuesParser::new(event::NAMES))]
    after: Option<String>,
    /// Time zone, such as Europe/Berlin [default: the machine's]
    #[arg(long, value_name = "ZONE", conflicts_with_all = ["every", "after"])]
    tz: Option<String>,
    /// Name of the schedule [default: the recipient's with a number]
    #[arg(long, value_name = "NAME")]
    name: Option<ScheduleName>,
    /// Policy for times that passed while nothing could run
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    missed: Missed,
    /// Tokens that its runs may use in a day
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    budget_tokens: Option<u64>,
    /// Dollars that its runs may cost in a day
    #[arg(long, value_name = "NUMBER", value_parser = dollars)]
    budget_usd: Option<u64>,
}

/// The policy for missed times.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Missed {
    /// One run for all of them
    #[default]
    Once,
    /// No run
    Skip,
    /// One run for each
    All,
}

impl From<Missed> for MissedPolicy {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::Once => Self::Once,
            Missed::Skip => Self::Skip,
            Missed::All => Self::All,
        }
    }
}

/// A limit that is set, or taken away.
#[derive(Clone, Copy, Debug)]
struct Limit(Option<u64>);

/// Time that a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads an amount in dollars as millionths.
fn dollars(text: &str) -> Result<u64, String> {
    let number = text.parse::<f64>().ok().map(|number| json!(number));
    let micros = number.as_ref().and_then(budgets::micros).filter(|micros| *micros > 0);
    micros.ok_or_else(|| "write dollars as in 2.5".to_owned())
}

fn tokens_or_none(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let tokens = text.parse().ok().filter(|tokens: &u64| *tokens > 0);
    tokens.map(|tokens| Limit(Some(tokens))).ok_or_else(|| "write a number of tokens, or none".to_owned())
}

fn dollars_or_none(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    dollars(text).map(|micros| Limit(Some(micros))).map_err(|error| format!("{error}, or none"))
}

/// Runs the verb below `schedule`.
///
/// # Errors
///
/// Returns an error if the schedule or its recipient does not exist, or if a part of a new schedule is not acceptable.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Add(args) => add(args, context),
        Verb::List => list(context),
        Verb::Show { name } => show(name, context),
        Verb::Pause { name } => set_paused(name, true, context),
        Verb::Resume { name } => set_paused(name, false, context),
        Verb::Budget { name, tokens, usd } => set_budget(name, *tokens, *usd, context),
        Verb::Run { name } => run_now(name, context),
        Verb::History { name, limit } => history(name, *limit, context),
        Verb::Remove { name } => remove(name, context),
    }
}

fn add(args: &AddArgs, context: &Context) -> Result<Exit, Failure> {
    let (cron, text_given) = split(args)?;
    let wish = ScheduleWish {
        to: args.to.clone(),
        text: text_given,
        name: args.name.as_ref().map(ScheduleName::to_string),
        cron,
        every: args.every.clone(),
        at: args.at.clone(),
        after: args.after.clone(),
        tz: args.tz.clone(),
        missed: Some(args.missed.into()),
        tokens: args.budget_tokens,
        cost_micros: args.budget_usd,
        by: Some(person::name()),
    };
    let answer = send(context, Call::post("/api/schedules").json(&wish)?, Repeat::Unsent)?;
    let added = &answer["schedule"];
    let line =
        StyledLine::new().with(TextStyle::Good, "added").plain(" schedule ").accent(text(&added["name"]));
    let next = match added["nextAt"].as_i64() {
        Some(next) => format!(", next at {}", clock::local(next)),
        None => format!(", {}", text(&added["when"])),
    };
    context.printer.result(&answer, line.plain(next));
    Ok(Exit::Done)
}

/// Returns the pattern, if there is one, and the text.
fn split(args: &AddArgs) -> Result<(Option<String>, String), Failure> {
    let has_option = args.every.is_some() || args.at.is_some() || args.after.is_some();
    match (args.words.as_slice(), has_option) {
        ([text], true) => Ok((None, text.clone())),
        ([cron, text], false) => Ok((Some(cron.clone()), text.clone())),
        ([_], false) => {
            let message =
                "say when it runs, by a cron pattern before the text, or by --every, --at or --after";
            Err(Failure::new(Kind::Usage, message).hint("flock schedule add --help"))
        }
        (_, true) => {
            let message = "with --every, --at or --after there is only the text, as one word in quotes";
            Err(Failure::new(Kind::Usage, message).hint("flock schedule add --help"))
        }
        _ => {
            let message = "there is one cron pattern and one text, each as one word in quotes";
            Err(Failure::new(Kind::Usage, message).hint("flock schedule add --help"))
        }
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let answer = send(context, Call::get("/api/schedules"), Repeat::Safe)?;
    let mut table = Table::new(&["SCHEDULE", "STATE", "TO", "WHEN", "NEXT", "LAST", "TEXT"]);
    for schedule in items(&answer["schedules"]) {
        table.styled_row(vec![
            (TextStyle::Accent, text(&schedule["name"]).to_owned()),
            (TextStyle::Plain, text(&schedule["state"]).to_owned()),
            (TextStyle::Plain, recipient(schedule)),
            (TextStyle::Plain, text(&schedule["when"]).to_owned()),
            (TextStyle::Plain, time(&schedule["nextAt"])),
            (TextStyle::Dim, last(&schedule["last"])),
            (TextStyle::Plain, crate::clean::summary(text(&schedule["text"]), 50)),
        ]);
    }
    context.printer.list(&answer, &table, "There are no schedules; see flock schedule --help.");
    Ok(Exit::Done)
}

fn show(name: &ScheduleName, context: &Context) -> Result<Exit, Failure> {
    let answer = send(context, Call::get(&format!("/api/schedules/{name}")), Repeat::Safe)?;
    if context.printer.is_json() {
        context.printer.json(&answer);
        return Ok(Exit::Done);
    }
    let schedule = &answer["schedule"];
    let mut facts = Table::new(&["SCHEDULE", ""]);
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            facts.row([name.to_owned(), value]);
        }
    };
    row("name", text(&schedule["name"]).to_owned());
    row("to", recipient(schedule));
    row("when", text(&schedule["when"]).to_owned());
    row("state", text(&schedule["state"]).to_owned());
    row("why", text(&schedule["why"]).to_owned());
    row("next", time(&schedule["nextAt"]));
    row("last", last(&schedule["last"]));
    row("missed times", text(&schedule["missed"]).to_owned());
    let used = &schedule["used"];
    row("tokens today", against(&used["tokens"], &schedule["tokens"], ToString::to_string));
    row("cost today", against(&used["costMicros"], &schedule["costMicros"], |micros| usd(*micros)));
    row("made by", text(&schedule["createdBy"]).to_owned());
    row("made at", time(&schedule["createdAt"]));
    row("text", crate::clean::block(text(&schedule["text"])).into_owned());
    context.printer.table(&facts);
    Ok(Exit::Done)
}

fn set_paused(name: &ScheduleName, paused: bool, context: &Context) -> Result<Exit, Failure> {
    let body = ScheduleChangeBody {
        paused: Some(paused),
        by: Some(person::name()),
        ..ScheduleChangeBody::default()
    };
    let call = Call::put(&format!("/api/schedules/{name}")).json(&body)?;
    let answer = send(context, call, Repeat::Safe)?;
    let line = if paused {
        format!("schedule {name} is paused")
    } else {
        format!("schedule {name} goes on, next at {}", time(&answer["schedule"]["nextAt"]))
    };
    context.printer.result(&answer, line);
    Ok(Exit::Done)
}

fn set_budget(
    name: &ScheduleName,
    tokens: Option<Limit>,
    usd_given: Option<Limit>,
    context: &Context,
) -> Result<Exit, Failure> {
    let body = ScheduleChangeBody {
        tokens: tokens.map(|limit| limit.0),
        cost_micros: usd_given.map(|limit| limit.0),
        by: Some(person::name()),
        ..ScheduleChangeBody::default()
    };
    let call = Call::put(&format!("/api/schedules/{name}")).json(&body)?;
    let answer = send(context, call, Repeat::Safe)?;
    let schedule = &answer["schedule"];
    let tokens = schedule["tokens"].as_u64().map(|limit| format!("{limit} tokens"));
    let parts: Vec<String> = tokens.into_iter().chain(schedule["costMicros"].as_u64().map(usd)).collect();
    let line = if parts.is_empty() {
        format!("schedule {name} has no budget of its own")
    } else {
        format!("schedule {name} may use {} in a day", parts.join(" and "))
    };
    context.printer.result(&answer, line);
    Ok(Exit::Done)
}

fn run_now(name: &ScheduleName, context: &Context) -> Result<Exit, Failure> {
    let body = ByBody { by: Some(person::name()) };
    let call = Call::post(&format!("/api/schedules/{name}/run")).json(&body)?;
    let answer = send(context, call, Repeat::Unsent)?;
    context.printer.result(&answer, format!("{} was given the text", recipient(&answer["schedule"])));
    Ok(Exit::Done)
}

fn history(name: &ScheduleName, limit: u32, context: &Context) -> Result<Exit, Failure> {
    let call = Call::get(&format!("/api/schedules/{name}/history?limit={limit}"));
    let answer = send(context, call, Repeat::Safe)?;
    let mut table = Table::new(&["TIME", "OUTCOME", "HANDLED", "CAUSE", "LED TO", "WHY"]);
    for row in items(&answer["history"]) {
        let count = row["count"].as_u64().unwrap_or(1);
        let slot = time(&row["slot"]);
        let slot = if count > 1 { format!("{slot} and {} more", count - 1) } else { slot };
        let led_to = match (row["channel"].as_str(), row["task"].as_str()) {
            (Some(channel), _) => format!("#{channel} {}", row["seq"]),
            (None, Some(task)) => format!("task {task} {}", text(&row["taskState"])),
            (None, None) => String::new(),
        };
        table.styled_row(vec![
            (TextStyle::Accent, slot),
            (TextStyle::Plain, text(&row["outcome"]).to_owned()),
            (TextStyle::Dim, time(&row["handledAt"])),
            (TextStyle::Plain, text(&row["cause"]).to_owned()),
            (TextStyle::Plain, led_to),
            (TextStyle::Plain, text(&row["why"]).to_owned()),
        ]);
    }
    context.printer.list(&answer, &table, format!("No time of {name} has passed yet."));
    Ok(Exit::Done)
}

fn remove(name: &ScheduleName, context: &Context) -> Result<Exit, Failure> {
    let by = person::name();
    let by: String = form_urlencoded::byte_serialize(by.as_bytes()).collect();
    let call = Call::delete(&format!("/api/schedules/{name}?by={by}"));
    let answer = send(context, call, Repeat::Unsent)?;
    context.printer.result(&answer, format!("schedule {name} is removed"));
    Ok(Exit::Done)
}

fn send(context: &Context, call: Call, repeat: Repeat) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    Ok(context.block_on(Reconnector::new(&home, context).send(call, repeat, TIMEOUT))?.answer)
}

fn recipient(schedule: &Value) -> String {
    match (schedule["channel"].as_str(), schedule["agent"].as_str()) {
        (Some(channel), _) => format!("#{channel}"),
        (None, agent) => format!("@{}", agent.unwrap_or_default()),
    }
}

fn last(row: &Value) -> String {
    if row.is_null() {
        return String::new();
    }
    format!("{} {}", text(&row["outcome"]), time(&row["handledAt"]))
}

fn time(value: &Value) -> String {
    value.as_i64().map(clock::local).unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
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
