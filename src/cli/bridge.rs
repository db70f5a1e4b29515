//! `flock bridge`: joins channels with channels of other platforms.

mod account;
mod found_token;
mod list;
mod status;

use std::str::FromStr;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::channel::backend;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person, token};
use crate::clock::unix_ms;
use crate::config::bridges;
use crate::error::Kind;
use crate::gateway::routes::bridges::{HeardChange, NewLink};
use crate::id::ChannelId;
use crate::supervise::gateway_client::Call;

/// Let people join channels from other platforms
///
/// A bridge is an account of yours on a platform, such as a Matrix user for flock. A link joins one channel with one
/// channel of the platform: people write there, agents write here, and both see everything.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Add(account::AddArgs),
    /// Remove a bridge with its token and its links
    Remove {
        /// Name of the bridge
        name: String,
    },
    Link(LinkArgs),
    /// End a link
    Unlink {
        /// Bridge and channel of the platform, as in matrix:#room:example.org
        #[arg(value_name = "BRIDGE:CHANNEL")]
        link: Target,
    },
    /// Let more people be heard over a link
    Allow {
        /// Bridge and channel of the platform
        #[arg(value_name = "BRIDGE:CHANNEL")]
        link: Target,
        /// Accounts by the platform's ids, "role:ID", or "everyone"
        #[arg(required = true, value_name = "ACCOUNT")]
        accounts: Vec<String>,
    },
    /// Hear some people no longer over a link
    Disallow {
        /// Bridge and channel of the platform
        #[arg(value_name = "BRIDGE:CHANNEL")]
        link: Target,
        /// Accounts as "flock bridge list --json" shows them
        #[arg(required = true, value_name = "ACCOUNT")]
        accounts: Vec<String>,
    },
    /// List the bridges and their links
    #[command(visible_alias = "ls")]
    List,
    /// Show how the bridges are: connected since when, the last error, what waits
    Status {
        /// Name of the bridge [default: all]
        name: Option<String>,
    },
    /// Pause a bridge, or one of its links
    ///
    /// A paused bridge does not connect: what either side says waits and arrives after the pause. A paused link is
    /// closed: what is said meanwhile does not reach the other side.
    Pause {
        /// Bridge, or bridge and channel of the platform
        #[arg(value_name = "BRIDGE[:CHANNEL]")]
        target: Target,
    },
    /// Resume a paused bridge or link
    Resume {
        /// Bridge, or bridge and channel of the platform
        #[arg(value_name = "BRIDGE[:CHANNEL]")]
        target: Target,
    },
    /// Send a test message over a link, or over each link of a bridge, and look whether it arrived
    Test {
        /// Bridge, or bridge and channel of the platform
        #[arg(value_name = "BRIDGE[:CHANNEL]")]
        target: Target,
    },
}

/// Link a channel with a channel of a platform
///
/// Without --allow, those are heard who are in a private channel of the platform at this moment, and nobody in a public
/// one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock bridge link fizzbuzz matrix:'#fizzbuzz:example.org'
  flock bridge link fizzbuzz matrix:'!abc:example.org' --allow @ann:example.org --allow @ben:example.org
  flock bridge link fizzbuzz matrix --create --allow everyone")]
struct LinkArgs {
    /// Channel of flock
    channel: ChannelId,
    /// Bridge and channel of the platform, as in matrix:#room:example.org
    #[arg(value_name = "BRIDGE:CHANNEL")]
    target: String,
    /// Create the platform's channel
    #[arg(long)]
    create: bool,
    /// Account that is heard, by the platform's id, "role:ID", or "everyone"; can be given more than once
    #[arg(long, value_name = "ACCOUNT")]
    allow: Vec<String>,
    /// Also send what people say on other platforms
    #[arg(long)]
    cross: bool,
    /// Also hear programs among those who are heard, such as other bots
    #[arg(long)]
    bots: bool,
    /// Bring in earlier messages as read history, of the last m, h, d or w, as in 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = token::lifetime)]
    since: Option<Duration>,
}

/// A bridge, or one of its links by the platform's channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) bridge: String,
    pub(super) external: Option<String>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (bridge, external) = match text.split_once(':') {
            Some((bridge, external)) => (bridge, Some(external)),
            None => (text, None),
        };
        if !bridges::is_name(bridge) || external == Some("") {
            return Err(
                "write a bridge, or a bridge and the platform's channel as in matrix:#room:example.org"
                    .to_owned(),
            );
        }
        Ok(Self { bridge: bridge.to_owned(), external: external.map(str::to_owned) })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.external {
            Some(external) => write!(f, "{}:{external}", self.bridge),
            None => f.write_str(&self.bridge),
        }
    }
}

/// Time that the platform and the gateway may take.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Runs the verb below `bridge`.
///
/// # Errors
///
/// Returns an error if the bridge, the link or the channel does not exist, if the platform refuses the request, or if
/// the gateway or the database fails.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Add(wanted) => account::add(wanted, context),
        Verb::Remove { name } => {
            let whole = Target { bridge: name.clone(), external: None };
            let answer = change(context, Call::delete(&path(&whole, "")))?;
            done(context, &answer, &format!("{name} is removed with its token and its links"))
        }
        Verb::Link(wanted) => link(wanted, context),
        Verb::Unlink { link } if link.external.is_none() => Err(no_channel(link)),
        Verb::Unlink { link } => {
            let answer = change(context, Call::delete(&path(link, "/links")))?;
            done(context, &answer, &format!("{link} is no longer linked"))
        }
        Verb::Allow { link, accounts } => change_heard(link, accounts, &[], context),
        Verb::Disallow { link, accounts } => change_heard(link, &[], accounts, context),
        Verb::List => list::run(context),
        Verb::Status { name } => status::run(name.as_deref(), context),
        Verb::Pause { target } => {
            let answer = change(context, Call::post(&path(target, "/pause")))?;
            done(context, &answer, &format!("{target} is paused"))
        }
        Verb::Resume { target } => {
            let answer = change(context, Call::post(&path(target, "/resume")))?;
            done(context, &answer, &format!("{target} is resumed"))
        }
        Verb::Test { target } => test(target, context),
    }
}

fn no_channel(link: &Target) -> Failure {
    let text = format!("{link} is a bridge; name the platform's channel too");
    Failure::new(Kind::Usage, text).hint("flock bridge list")
}

fn change_heard(
    link: &Target,
    add: &[String],
    remove: &[String],
    context: &Context,
) -> Result<Exit, Failure> {
    let external = link.external.clone().ok_or_else(|| no_channel(link))?;
    let wanted =
        HeardChange { external, add: add.to_vec(), remove: remove.to_vec(), by: Some(person::name()) };
    let answer = change(context, Call::post(&format!("/api/bridges/{}/heard", link.bridge)).json(&wanted)?)?;
    let hears: Vec<&str> =
        answer["hears"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let text = match hears.as_slice() {
        [] => format!("{link} hears nobody now"),
        hears => format!("{link} hears {} now", hears.join(" ")),
    };
    done(context, &answer, &text)
}

fn test(target: &Target, context: &Context) -> Result<Exit, Failure> {
    let answer = change(context, Call::post(&path(target, "/test")))?;
    if context.printer.is_json() {
        context.printer.json(&answer);
        return Ok(Exit::Done);
    }
    for link in answer["tested"].as_array().into_iter().flatten() {
        let title = link["title"].as_str().unwrap_or_default();
        context
            .printer
            .say(format!("{title} has the test message, {} ms after it was sent", link["milliseconds"]));
    }
    Ok(Exit::Done)
}

fn link(wanted: &LinkArgs, context: &Context) -> Result<Exit, Failure> {
    let usage = |text: &str| Failure::new(Kind::Usage, text).hint("flock bridge link --help");
    let (bridge, external) = match (wanted.target.split_once(':'), wanted.create) {
        (None, true) => (wanted.target.as_str(), None),
        (Some((bridge, external)), false) if !external.is_empty() => (bridge, Some(external.to_owned())),
        (_, true) => return Err(usage("with --create, name the bridge alone")),
        (_, false) => return Err(usage("name the platform's channel after the bridge, or use --create")),
    };
    if !bridges::is_name(bridge) {
        return Err(usage(&format!("{bridge:?} can't be the name of a bridge")));
    }
    let new = NewLink {
        channel: wanted.channel.clone(),
        external,
        allow: (!wanted.allow.is_empty()).then(|| wanted.allow.clone()),
        is_cross: wanted.cross,
        hears_bots: wanted.bots,
        since: wanted
            .since
            .map(|since| unix_ms().saturating_sub(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))),
        by: Some(person::name()),
    };
    let answer = change(context, Call::post(&format!("/api/bridges/{bridge}/links")).json(&new)?)?;
    if answer["hears"].as_array().is_some_and(Vec::is_empty) {
        context.printer.warn(&format!(
            "nobody is heard there yet: flock bridge allow {bridge}:{} ACCOUNT",
            answer["external"].as_str().unwrap_or_default()
        ));
    }
    if let Some(error) = answer["importError"].as_str() {
        context.printer.warn(&format!("the earlier messages were not brought in: {error}"));
    }
    let title = answer["title"].as_str().unwrap_or_default();
    done(context, &answer, &format!("#{} is linked with {title} of {bridge}", wanted.channel))
}

fn path(target: &Target, action: &str) -> String {
    let query = json!({"external": target.external, "by": person::name()});
    backend::path(&format!("/api/bridges/{}{action}", target.bridge), &query)
}

fn change(context: &Context, call: Call) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    // A repeated request would be refused, because the change was made.
    Ok(context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))?.answer)
}

fn done(context: &Context, answer: &Value, text: &str) -> Result<Exit, Failure> {
    if context.printer.is_json() {
        context.printer.json(&json!(answer));
    } else {
        context.printer.say(text);
    }
    Ok(Exit::Done)
}
