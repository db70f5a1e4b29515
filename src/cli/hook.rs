//! `flock hook`: webhooks, with which other services send to a channel.

use std::io::Read as _;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person, token_file};
use crate::clock;
use crate::config;
use crate::error::Kind;
use crate::gateway::routes::hooks::HookPreviewBody;
use crate::gateway::routes::parts::PauseBody;
use crate::home::Home;
use crate::id::{ChannelId, HookName};
use crate::store::HookKind;
use crate::supervise::gateway_client::Call;
use crate::swarm::hook::template::MAX_TEMPLATE;
use crate::swarm::hook::{HookWish, view};
use crate::ui::{StyledLine, Table, TextStyle};

/// Let other services send to a channel by webhooks
///
/// A delivery is taken only with a good signature, and once. What it says is quoted in the channel as data from outside.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock hook add ci --channel dev --github
  flock hook add alerts --channel ops --template alert.txt
  flock hook preview ci push.json --event push
  flock hook history ci")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Add a webhook, and show its address and its secret
    Add(AddArgs),
    /// List the webhooks
    #[command(visible_alias = "ls")]
    List,
    /// Show a webhook
    Show {
        /// Name of the webhook
        name: HookName,
    },
    /// Pause a webhook; its deliveries are refused
    Pause {
        /// Name of the webhook
        name: HookName,
    },
    /// Let a paused webhook go on
    Resume {
        /// Name of the webhook
        name: HookName,
    },
    /// Show what came to a webhook, the newest first
    History {
        /// Name of the webhook
        name: HookName,
        /// Number of rows to show
        #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// Show the message that a webhook would post
    Preview {
        /// Name of the webhook
        name: HookName,
        /// File with what a sender would send, or - for stdin
        file: String,
        /// Event, such as push
        #[arg(long, value_name = "EVENT", default_value = "")]
        event: String,
    },
    /// Remove a webhook with its secret and its history
    #[command(visible_alias = "rm")]
    Remove {
        /// Name of the webhook
        name: HookName,
    },
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Name of the webhook, which is a part of its address
    name: HookName,
    /// Channel to post to
    #[arg(long, value_name = "CHANNEL")]
    channel: ChannelId,
    #[command(flatten)]
    kind: KindArgs,
    /// File with the template of the message [default: the kind's own]
    #[arg(long, value_name = "FILE")]
    template: Option<String>,
    /// File with the secret that the sender has already, or - for stdin [default: a new one]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct KindArgs {
    /// GitHub, also Gitea and Forgejo
    #[arg(long)]
    github: bool,
    /// GitLab
    #[arg(long)]
    gitlab: bool,
    /// Any sender that signs by the specification Standard Webhooks (default)
    #[arg(long)]
    generic: bool,
}

impl KindArgs {
    const fn kind(&self) -> HookKind {
        match (self.github, self.gitlab) {
            (true, _) => HookKind::Github,
            (_, true) => HookKind::Gitlab,
            _ => HookKind::Generic,
        }
    }
}

/// Time that a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes of a delivery that is previewed.
const MAX_PREVIEW: u64 = 4 << 20;

/// Runs the verb below `hook`.
///
/// # Errors
///
/// Returns an error if the webhook or its channel does not exist, or if a part of a new webhook is not acceptable.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Add(args) => add(args, context),
        Verb::List => list(context),
        Verb::Show { name } => show(name, context),
        Verb::Pause { name } => set_paused(name, true, context),
        Verb::Resume { name } => set_paused(name, false, context),
        Verb::History { name, limit } => history(name, *limit, context),
        Verb::Preview { name, file, event } => preview(name, file, event, context),
        Verb::Remove { name } => remove(name, context),
    }
}

fn add(args: &AddArgs, context: &Context) -> Result<Exit, Failure> {
    let template = match &args.template {
        Some(file) => read(file, MAX_TEMPLATE as u64)?,
        None => String::new(),
    };
    let secret = args.secret_file.as_deref().map(token_file::read).transpose()?;
    let wish = HookWish {
        name: args.name.clone(),
        channel: args.channel.clone(),
        kind: args.kind.kind(),
        template,
        secret,
        by: Some(person::name()),
    };
    let mut answer = send(context, Call::post("/api/hooks").json(&wish)?, Repeat::Unsent)?;
    let url = url(&context.writable_home()?, &args.name);
    answer["url"] = json!(url);
    let printer = &context.printer;
    if printer.is_json() {
        printer.json(&answer);
        return Ok(Exit::Done);
    }
    let line = StyledLine::new().with(TextStyle::Good, "added").plain(" webhook ").accent(args.name.as_str());
    printer.line(line.plain(format!(" for #{}", args.channel)));
    printer.line(StyledLine::new().plain("address  ").accent(url));
    if let Some(secret) = answer["secret"].as_str() {
        printer.line(StyledLine::new().plain("secret   ").accent(secret));
        printer.say("The secret is not shown again. Give both to the sender, with application/json as the content type.");
    }
    Ok(Exit::Done)
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let answer = send(context, Call::get("/api/hooks"), Repeat::Safe)?;
    let mut table = Table::new(&["WEBHOOK", "STATE", "CHANNEL", "KIND", "REFUSED", "WHY"]);
    for hook in answer["hooks"].as_array().into_iter().flatten() {
        table.styled_row(vec![
            (TextStyle::Accent, text(&hook["name"]).to_owned()),
            (TextStyle::Plain, text(&hook["state"]).to_owned()),
            (TextStyle::Plain, format!("#{}", text(&hook["channel"]))),
            (TextStyle::Plain, text(&hook["kind"]).to_owned()),
            (TextStyle::Plain, hook["refused"]["count"].as_u64().unwrap_or(0).to_string()),
            (TextStyle::Plain, text(&hook["why"]).to_owned()),
        ]);
    }
    context.printer.list(&answer, &table, "There are no webhooks; see flock hook --help.");
    Ok(Exit::Done)
}

fn show(name: &HookName, context: &Context) -> Result<Exit, Failure> {
    let mut answer = send(context, Call::get(&format!("/api/hooks/{name}")), Repeat::Safe)?;
    let url = url(&context.writable_home()?, name);
    answer["url"] = json!(url);
    if context.printer.is_json() {
        context.printer.json(&answer);
        return Ok(Exit::Done);
    }
    let hook = &answer["hook"];
    let mut facts = Table::new(&["WEBHOOK", ""]);
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            facts.row([name.to_owned(), value]);
        }
    };
    row("name", text(&hook["name"]).to_owned());
    row("address", url);
    row("channel", format!("#{}", text(&hook["channel"])));
    row("kind", text(&hook["kind"]).to_owned());
    row("state", text(&hook["state"]).to_owned());
    row("why", text(&hook["why"]).to_owned());
    let has_secret = hook["hasSecret"].as_bool().unwrap_or_default();
    row("secret", if has_secret { "is set" } else { "is missing" }.to_owned());
    row("template", if hook["template"].is_null() { "the kind's own" } else { "its own" }.to_owned());
    if let Some(count) = hook["refused"]["count"].as_u64() {
        let (at, why) = (time(&hook["refused"]["lastAt"]), text(&hook["refused"]["lastWhy"]).to_owned());
        row("refused", format!("{count}, the last one at {at}: {why}"));
    }
    row("made by", text(&hook["createdBy"]).to_owned());
    row("made at", time(&hook["createdAt"]));
    context.printer.table(&facts);
    if let Some(template) = hook["template"].as_str() {
        context.printer.line("");
        template.lines().for_each(|line| context.printer.line(line));
    }
    Ok(Exit::Done)
}

fn set_paused(name: &HookName, paused: bool, context: &Context) -> Result<Exit, Failure> {
    let body = PauseBody { paused, by: Some(person::name()) };
    let answer = send(context, Call::put(&format!("/api/hooks/{name}")).json(&body)?, Repeat::Safe)?;
    let state = if paused { "is paused" } else { "goes on" };
    context.printer.result(&answer, format!("webhook {name} {state}"));
    Ok(Exit::Done)
}

fn history(name: &HookName, limit: u32, context: &Context) -> Result<Exit, Failure> {
    let call = Call::get(&format!("/api/hooks/{name}/history?limit={limit}"));
    let answer = send(context, call, Repeat::Safe)?;
    let mut table = Table::new(&["RECEIVED", "EVENT", "OUTCOME", "MESSAGE", "DELIVERY", "WHY"]);
    for row in answer["history"].as_array().into_iter().flatten() {
        table.styled_row(vec![
            (TextStyle::Dim, time(&row["receivedAt"])),
            (TextStyle::Accent, text(&row["event"]).to_owned()),
            (TextStyle::Plain, text(&row["outcome"]).to_owned()),
            (TextStyle::Plain, row["seq"].as_u64().map(|seq| seq.to_string()).unwrap_or_default()),
            (TextStyle::Dim, text(&row["delivery"]).to_owned()),
            (TextStyle::Plain, text(&row["why"]).to_owned()),
        ]);
    }
    context.printer.list(&answer, &table, format!("Nothing has come to {name} yet."));
    Ok(Exit::Done)
}

fn preview(name: &HookName, file: &str, event: &str, context: &Context) -> Result<Exit, Failure> {
    let sent = read(file, MAX_PREVIEW)?;
    let payload: Value = serde_json::from_str(&sent).unwrap_or(Value::String(sent));
    let body = HookPreviewBody { event: event.to_owned(), payload };
    let call = Call::post(&format!("/api/hooks/{name}/preview")).json(&body)?;
    let answer = send(context, call, Repeat::Safe)?;
    let message = match text(&answer["message"]) {
        "" => "The template leaves this delivery out.",
        message => message,
    };
    if context.printer.is_json() {
        context.printer.json(&answer);
    } else {
        message.lines().for_each(|line| context.printer.line(line));
    }
    Ok(Exit::Done)
}

fn remove(name: &HookName, context: &Context) -> Result<Exit, Failure> {
    let by = person::name();
    let by: String = form_urlencoded::byte_serialize(by.as_bytes()).collect();
    let answer = send(context, Call::delete(&format!("/api/hooks/{name}?by={by}")), Repeat::Unsent)?;
    context.printer.result(&answer, format!("webhook {name} is removed"));
    Ok(Exit::Done)
}

/// Returns the address for senders: the owner's own tunnel if the configuration names one, otherwise this machine.
fn url(home: &Home, name: &HookName) -> String {
    let config = config::read(home).ok();
    let origin = config.as_ref().map(|config| match config.hook_origins.first() {
        Some(origin) => origin.to_string(),
        None => format!("http://127.0.0.1:{}", config.port),
    });
    format!("{}{}", origin.unwrap_or_default(), view::path(name))
}

/// Reads a text from a file, or from stdin if it is `-`.
fn read(file: &str, most: u64) -> Result<String, Failure> {
    if file == "-" {
        return person::stdin(most, "flock hook --help");
    }
    let mut text = String::new();
    fs_err::File::open(file)
        .and_then(|opened| opened.take(most + 1).read_to_string(&mut text))
        .map_err(|error| Failure::with_cause(format!("failed to read {file}"), &error))?;
    if text.len() as u64 > most {
        return Err(Failure::new(Kind::Usage, format!("{file} holds more than {most} bytes")));
    }
    Ok(text)
}

fn send(context: &Context, call: Call, repeat: Repeat) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    Ok(context.block_on(Reconnector::new(&home, context).send(call, repeat, TIMEOUT))?.answer)
}

fn time(value: &Value) -> String {
    value.as_i64().map(clock::local).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
