//! `flock token`: manages tokens for clients, so that no client needs the owner's token.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::cli::database;
use crate::clock::{self, unix_ms};
use crate::error::Kind;
use crate::gateway::routes::tokens::CreateToken;
use crate::id::{AgentId, Party};
use crate::store::{ClientToken, Right};
use crate::supervise::gateway_client::Call;
use crate::ui::{Table, TextStyle};

/// Make, list and revoke the tokens of clients
///
/// The owner's token may do everything, including approving requests. Give a client a token of its own, for some agents
/// and some rights. The author of its posts and of its rows in the audit is human:token:NAME.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a token and print it
    ///
    /// The token is not shown again, because flock stores only its hash.
    #[command(
        after_long_help = "Example:\n  flock token add ci --agents coder --rights chat,read --expires 30d"
    )]
    Add(AddArgs),
    /// List the tokens with their rights, agents and expiry times
    List,
    /// Revoke a token and end the streams that it opened
    Revoke {
        /// Name of the token
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Name of the client, for its posts and the audit
    name: String,
    /// Agents that the client may see and ask, separated by commas, or "all"
    #[arg(long, value_name = "IDS", value_delimiter = ',', required = true)]
    agents: Vec<String>,
    /// Rights of the client, separated by commas
    #[arg(long, value_name = "RIGHTS", value_delimiter = ',', required = true, value_parser = rights())]
    rights: Vec<Right>,
    /// Time until the token expires, in m, h, d or w, as in 12h or 30d [default: never]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires: Option<Duration>,
}

fn rights() -> impl clap::builder::TypedValueParser<Value = Right> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(Right::ALL.map(Right::as_str))
        .try_map(|word| word.parse::<Right>())
}

/// Time that the gateway may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads a time in m, h, d or w.
pub(super) fn lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time as a number and m, h, d or w, as in 12h or 30d".to_owned();
    let at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(seconds).filter(|seconds| (1..=100 * 366 * 86_400).contains(seconds));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| "the time must be from a minute to a hundred years".to_owned())
}

/// Runs the verb below `token`.
///
/// # Errors
///
/// Returns an error if the token can't be made, if there is none of that name, or if the gateway or the database fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Add(wanted) => add(wanted, context),
        Verb::List => list(context),
        Verb::Revoke { name } => revoke(name, context),
    }
}

fn add(wanted: &AddArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let agents = match wanted.agents.as_slice() {
        [one] if one == "all" => None,
        ids => Some(ids.iter().map(|id| parse_agent(id)).collect::<Result<Vec<_>, _>>()?),
    };
    let lifetime = wanted.expires.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let wanted = CreateToken {
        name: wanted.name.clone(),
        agents,
        rights: wanted.rights.clone(),
        expires_at: lifetime.map(|time| unix_ms().saturating_add(time)),
        by: Some(person::name()),
    };
    let call = Call::post("/api/tokens").json(&wanted)?;
    // A repeated request would fail because the name is taken, and nobody would see the token of the first one.
    let reconnector = Reconnector::new(&home, context);
    let made = context.block_on(reconnector.send(call, Repeat::Unsent, TIMEOUT))?.answer;
    // The database has only a hash of the token, so this is the only moment at which it can be shown.
    let token = made["token"].as_str().unwrap_or_default();
    // The message goes to stderr and the token to stdout, so that a pipe receives only the token.
    context.printer.say(format!("Made token {}. Copy it now: it is not shown again.", shown_name(&made)));
    context.printer.result(&made, token);
    Ok(Exit::Done)
}

fn shown_name(token: &Value) -> &str {
    token["name"].as_str().unwrap_or_default()
}

fn parse_agent(id: &str) -> Result<AgentId, Failure> {
    let wrong = |error| Failure::new(Kind::Usage, format!("--agents: {error}")).hint("flock list");
    id.trim().parse::<AgentId>().map_err(wrong)
}

fn revoke(name: &str, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    // An invalid name is refused here, because it becomes part of a URL path.
    if Party::client(name).is_none() {
        let text = format!("there is no token {:?}", crate::clean::summary(name, 80));
        return Err(Failure::new(Kind::Failed, text).hint("flock token list"));
    }
    let call = Call::delete(&format!("/api/tokens/{name}?by={}", person::name()));
    // A repeated request would fail because the token is already revoked.
    context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))?;
    context.printer.if_json(&json!({"name": name, "revoked": true}));
    context.printer.say(format!("Revoked token {name}."));
    Ok(Exit::Done)
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let tokens = database::read(&home, async |reader| reader.tokens().list().await)?.unwrap_or_default();
    let mut table = Table::new(&["TOKEN", "RIGHTS", "AGENTS", "MADE", "USED", "EXPIRES"]);
    tokens.iter().for_each(|token| table.styled_row(row(token)));
    context.printer.list(&json!({"tokens": tokens}), &table, "There are no tokens of clients.");
    Ok(Exit::Done)
}

fn row(token: &ClientToken) -> Vec<(TextStyle, String)> {
    let until = match (token.revoked_at, token.expires_at) {
        (Some(at), _) => (TextStyle::Dim, format!("revoked {}", clock::local(at))),
        (None, None) => (TextStyle::Plain, "never".to_owned()),
        (None, Some(end)) if token.is_good(unix_ms()) => (TextStyle::Plain, clock::local(end)),
        (None, Some(end)) => (TextStyle::Warn, format!("expired {}", clock::local(end))),
    };
    let agents = token.agents.as_ref().map_or_else(
        || "all".to_owned(),
        |agents| agents.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    );
    let rights: Vec<&str> = token.rights.iter().copied().map(Right::as_str).collect();
    // A token of a person has the rights of the person.
    let rights = match &token.person {
        Some(person) => format!("those of {person}"),
        None => rights.join(","),
    };
    vec![
        (TextStyle::Accent, token.name.clone()),
        (TextStyle::Plain, rights),
        (TextStyle::Plain, agents),
        (TextStyle::Plain, clock::local(token.created_at)),
        (TextStyle::Plain, token.used_at.map_or_else(|| "not yet".to_owned(), clock::local)),
        until,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_a_number_and_a_unit() {
        for (text, seconds) in [("5m", 300), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600)] {
            assert_eq!(lifetime(text).unwrap().as_secs(), seconds);
        }
        for wrong in ["", "30", "d", "0d", "-1d", "30 d", "1y", "99999999999999999999d", "999999d"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
