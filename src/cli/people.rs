//! `flock person`: the people of the home, and those who come from other platforms with their accounts.

use std::str::FromStr;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::bridge::Target;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person, token};
use crate::clock::{self, unix_ms};
use crate::config::budgets;
use crate::error::Kind;
use crate::gateway::routes::people::{
    AddPerson, BindAccount, ChangeAccount, ChangePerson, CreatePersonToken, RenamePerson,
};
use crate::id::{AgentId, ChannelId};
use crate::store::PersonRole;
use crate::supervise::gateway_client::Call;
use crate::ui::{Table, TextStyle};

/// Add people with rights of their own, and manage those who come from other platforms
///
/// A person whom you add works with tokens of their own, over the HTTP API and the dashboard, with the rights of a role.
/// The first message of an account on another platform makes a person with the name of the account. An account that you
/// bind to a person with "link" speaks and, if the person is in approvers, decides requests under that person's name.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Add a person
    ///
    /// The roles are owner (everything but the configuration and your token), operator (runs the team and decides
    /// requests), member (works with agents) and viewer (reads). Make a token for the person with "flock person token".
    #[command(after_long_help = "\
Examples:
  flock person add ann --role operator
  flock person add bob --role member --agents coder --channels dev --budget-usd 5")]
    Add(AddArgs),
    /// List the people with their roles and accounts
    #[command(visible_alias = "ls")]
    List,
    /// Show one person with tokens, browsers and budget
    Show {
        /// Name of the person
        name: String,
    },
    /// Change the role, the agents, the channels or the budget of a person
    ///
    /// The change counts from the person's next request on. What you do not name stays.
    Set(SetArgs),
    /// Make a token of a person and print it
    ///
    /// The token is not shown again, because flock stores only its hash. "flock token list" shows it by name, and "flock
    /// token revoke" revokes it.
    Token {
        /// Name of the person
        name: String,
        /// Time until the token expires, in m, h, d or w, as in 12h or 30d [default: never]
        #[arg(long, value_name = "TIME", value_parser = token::lifetime)]
        expires: Option<Duration>,
    },
    /// Remove a person, with all tokens, browsers and accounts
    ///
    /// Running streams end. Messages and the audit keep the name, so nobody can get it again.
    #[command(visible_alias = "rm")]
    Remove {
        /// Name of the person
        name: String,
    },
    /// Bind an account to a person
    ///
    /// Several accounts may belong to one person. The name may also be yours, or one of approvers: no account gets
    /// these names by itself.
    #[command(after_long_help = "\
Examples:
  flock person link ann matrix:@ann:example.org
  flock person link ann discord:80351110224678912")]
    Link {
        /// Name of the person
        name: String,
        /// Bridge or platform, and the platform's id of the account
        #[arg(value_name = "BRIDGE:ACCOUNT")]
        account: Target,
    },
    /// Forget an account: its next message makes a person of its own
    Unlink {
        /// Bridge or platform, and the platform's id of the account
        #[arg(value_name = "BRIDGE:ACCOUNT")]
        account: Target,
    },
    /// Give a person another name
    ///
    /// Messages that the person wrote keep the name of their time.
    Rename {
        /// Name of the person
        from: String,
        /// New name
        to: String,
    },
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Name of the person, in posts and in the audit: a-z, 0-9, '.', '_' and '-'
    name: String,
    /// Role of the person
    #[arg(long, value_parser = roles())]
    role: PersonRole,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// Name of the person
    name: String,
    /// Role of the person
    #[arg(long, value_parser = roles())]
    role: Option<PersonRole>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Subject of the person's account at the OpenID Connect provider, which then signs in to the dashboard
    #[arg(long, value_name = "SUBJECT", conflicts_with_all = ["oidc_email", "oidc_none"])]
    oidc_subject: Option<String>,
    /// E-mail address of that account, for its first sign-in
    ///
    /// The provider has to say that it has verified the address. The account with which somebody signs in first is bound to
    /// the person, and the address alone opens nothing any more.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "oidc_none")]
    oidc_email: Option<String>,
    /// Take the account away, and sign its browsers out
    #[arg(long)]
    oidc_none: bool,
}

#[derive(Debug, clap::Args)]
struct LimitArgs {
    /// Agents that the person may see and ask, separated by commas, or "all"
    #[arg(long, value_name = "IDS", value_parser = list::<AgentId>)]
    agents: Option<Limit<AgentId>>,
    /// Channels that the person is on, separated by commas, or "all" or "none"
    ///
    /// Without it, a person who is limited to some agents is on no channel.
    #[arg(long, value_name = "IDS", value_parser = list::<ChannelId>)]
    channels: Option<Limit<ChannelId>>,
    /// Tokens that the person may use in one day, or "none" for no limit
    #[arg(long, value_name = "NUMBER", value_parser = tokens)]
    budget_tokens: Option<Amount>,
    /// Dollars that the person may use in one day, or "none" for no limit
    #[arg(long, value_name = "NUMBER", value_parser = dollars)]
    budget_usd: Option<Amount>,
}

/// Some agents or channels; `None` for all of them.
#[derive(Clone, Debug)]
struct Limit<T>(Option<Vec<T>>);

/// A limit of a day; `None` for no limit.
#[derive(Clone, Copy, Debug)]
struct Amount(Option<u64>);

fn roles() -> impl clap::builder::TypedValueParser<Value = PersonRole> {
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(PersonRole::ALL.map(PersonRole::as_str))
        .try_map(|word| word.parse::<PersonRole>())
}

fn list<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<Limit<T>, String> {
    match text {
        "all" => Ok(Limit(None)),
        "none" => Ok(Limit(Some(Vec::new()))),
        ids => {
            let ids = ids.split(',').map(|id| id.trim().parse::<T>());
            ids.collect::<Result<_, _>>().map(|ids| Limit(Some(ids))).map_err(|error| error.to_string())
        }
    }
}

fn tokens(text: &str) -> Result<Amount, String> {
    if text == "none" {
        return Ok(Amount(None));
    }
    let wrong = |_| format!("{text:?} is not a number of tokens; write it as in 500000");
    text.parse::<u64>().map(|number| Amount(Some(number))).map_err(wrong)
}

fn dollars(text: &str) -> Result<Amount, String> {
    if text == "none" {
        return Ok(Amount(None));
    }
    let number = serde_json::from_str::<Value>(text).ok().filter(Value::is_number);
    let micros = number.and_then(|number| budgets::micros(&number));
    micros.map(|micros| Amount(Some(micros))).ok_or_else(|| {
        format!("{text:?} is not a number of dollars from 0 to 1000000000; write it as in 1.5")
    })
}

/// Time that the gateway may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the verb below `person`.
///
/// # Errors
///
/// Returns an error if the name can't be a person's or is taken, if the account or bridge is not known, or if the
/// gateway or the database fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Add(wanted) => add(wanted, context),
        Verb::List => list_all(context),
        Verb::Show { name } => show(name, context),
        Verb::Set(wanted) => set(wanted, context),
        Verb::Token { name, expires } => make_token(name, *expires, context),
        Verb::Remove { name } => remove(name, context),
        Verb::Link { name, account } => {
            let answer = send(context, "accounts", &bind(Some(name), account)?)?;
            done(context, &answer, &format!("{account} speaks as human:{name} now"))
        }
        Verb::Unlink { account } => {
            let answer = send(context, "accounts", &bind(None, account)?)?;
            done(context, &answer, &format!("{account} is forgotten"))
        }
        Verb::Rename { from, to } => {
            let wanted = RenamePerson { from: from.clone(), to: to.clone(), by: Some(person::name()) };
            let answer = send(context, "rename", &wanted)?;
            done(context, &answer, &format!("human:{from} is human:{to} now"))
        }
    }
}

fn bind(name: Option<&String>, account: &Target) -> Result<BindAccount, Failure> {
    let Some(id) = &account.external else {
        let text = format!("{account} is a bridge or a platform; name the account too");
        return Err(Failure::new(Kind::Usage, text).hint("flock person list"));
    };
    Ok(BindAccount {
        name: name.cloned(),
        bridge: account.bridge.clone(),
        account: id.clone(),
        by: Some(person::name()),
    })
}

fn add(wanted: &AddArgs, context: &Context) -> Result<Exit, Failure> {
    let limits = &wanted.limits;
    let body = AddPerson {
        name: wanted.name.clone(),
        role: wanted.role,
        agents: limits.agents.as_ref().and_then(|limit| limit.0.clone()),
        channels: limits.channels.as_ref().and_then(|limit| limit.0.clone()),
        day_tokens: limits.budget_tokens.and_then(|limit| limit.0),
        day_cost_micros: limits.budget_usd.and_then(|limit| limit.0),
        by: Some(person::name()),
    };
    let home = context.writable_home()?;
    let call = Call::post("/api/people").json(&body)?;
    // A repeated request would fail because the name is taken.
    let answer =
        context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))?.answer;
    done(
        context,
        &answer,
        &format!(
            "human:{} is added. Make a token for them with: flock person token {0}",
            answer["name"].as_str().unwrap_or_default()
        ),
    )
}

fn set(wanted: &SetArgs, context: &Context) -> Result<Exit, Failure> {
    let limits = &wanted.limits;
    let body = ChangePerson {
        role: wanted.role,
        agents: limits.agents.as_ref().map(|limit| limit.0.clone()),
        channels: limits.channels.as_ref().map(|limit| limit.0.clone()),
        day_tokens: limits.budget_tokens.map(|limit| limit.0),
        day_cost_micros: limits.budget_usd.map(|limit| limit.0),
        oidc: account_of(wanted),
        by: Some(person::name()),
    };
    let nothing = body.role.is_none()
        && body.agents.is_none()
        && body.channels.is_none()
        && body.day_tokens.is_none()
        && body.day_cost_micros.is_none()
        && body.oidc.is_none();
    if nothing {
        return Err(Failure::new(Kind::Usage, "name what to change").hint("flock person set --help"));
    }
    let home = context.writable_home()?;
    let call = Call::put(&address(&wanted.name)?).json(&body)?;
    let answer = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?.answer;
    done(context, &answer, &format!("human:{} is changed", answer["name"].as_str().unwrap_or_default()))
}

/// Returns the account that the person gets, or loses. `None` if it stays.
fn account_of(wanted: &SetArgs) -> Option<Option<ChangeAccount>> {
    let SetArgs { oidc_subject: subject, oidc_email: email, oidc_none, .. } = wanted;
    if *oidc_none {
        return Some(None);
    }
    let account = ChangeAccount { subject: subject.clone(), email: email.clone() };
    (subject.is_some() || email.is_some()).then_some(Some(account))
}

fn remove(name: &str, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let call = Call::delete(&format!("{}?by={}", address(name)?, person::name()));
    // A repeated request would fail because the person is gone already.
    let answer =
        context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))?.answer;
    done(context, &answer, &format!("human:{name} is removed"))
}

fn make_token(name: &str, expires: Option<Duration>, context: &Context) -> Result<Exit, Failure> {
    let lifetime = expires.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let body = CreatePersonToken {
        expires_at: lifetime.map(|time| unix_ms().saturating_add(time)),
        by: Some(person::name()),
    };
    let home = context.writable_home()?;
    let call = Call::post(&format!("{}/tokens", address(name)?)).json(&body)?;
    // Nobody would see the token of a first request whose answer was lost.
    let made = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))?.answer;
    let text = |key: &str| made[key].as_str().unwrap_or_default();
    // The message goes to stderr and the token to stdout, so that a pipe receives only the token.
    context.printer.say(format!("Made token {}. Copy it now: it is not shown again.", text("name")));
    context.printer.result(&made, text("token"));
    Ok(Exit::Done)
}

/// Returns the path of a person. The name becomes a part of it, so it is checked first.
fn address(name: &str) -> Result<String, Failure> {
    let name = name.strip_prefix("human:").unwrap_or(name);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || !name.chars().all(is_name) || name.starts_with('.') {
        let text = format!("there is no person {:?}", crate::clean::summary(name, 80));
        return Err(Failure::new(Kind::Failed, text).hint("flock person list"));
    }
    Ok(format!("/api/people/{}", name.to_ascii_lowercase()))
}

fn show(name: &str, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let call = Call::get(&address(name)?);
    let found = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?.answer;
    let mut table = Table::new(&["PERSON", "VALUE"]);
    let mut line = |name: &str, value: String| {
        table.styled_row(vec![(TextStyle::Accent, name.to_owned()), (TextStyle::Plain, value)]);
    };
    line("name", shown(&found["name"]));
    line("role", shown(&found["role"]));
    line("agents", words(&found["agents"]));
    line("channels", words(&found["channels"]));
    for (key, what, is_money) in [("tokens", "tokens today", false), ("costMicros", "dollars today", true)] {
        let budget = &found["budget"][key];
        if let (Some(limit), Some(used)) = (budget["limit"].as_u64(), budget["used"].as_u64()) {
            let used = used + budget["reserved"].as_u64().unwrap_or_default();
            line(what, format!("{} of {}", amount(used, is_money), amount(limit, is_money)));
        }
    }
    if let Some(account) = found["oidc"].as_object() {
        let part = |name: &str| account.get(name).and_then(Value::as_str);
        let who = match (part("subject"), part("email")) {
            (Some(subject), _) => subject.to_owned(),
            (None, email) => format!("{}, not signed in yet", email.unwrap_or_default()),
        };
        line("account", format!("{who} at {}", part("issuer").unwrap_or_default()));
    }
    line("added", format!("{} by {}", time(&found["addedAt"]), shown(&found["addedBy"])));
    line("browsers", found["browsers"].as_u64().unwrap_or_default().to_string());
    for token in found["tokens"].as_array().into_iter().flatten() {
        let state = match (token["revokedAt"].as_i64(), token["expiresAt"].as_i64()) {
            (Some(at), _) => format!("revoked {}", clock::local(at)),
            (None, Some(end)) if end <= unix_ms() => format!("expired {}", clock::local(end)),
            (None, Some(end)) => format!("until {}", clock::local(end)),
            (None, None) => "without an end".to_owned(),
        };
        let used = match token["lastUsedAt"].as_i64() {
            Some(at) => format!("last used {}", clock::local(at)),
            None => "not used yet".to_owned(),
        };
        line("token", format!("{}, {state}, {used}", shown(&token["name"])));
    }
    context.printer.list(&found, &table, "");
    Ok(Exit::Done)
}

fn shown(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn time(value: &Value) -> String {
    value.as_i64().map(clock::local).unwrap_or_default()
}

/// Returns an amount of tokens, or of dollars that is given in millionths.
fn amount(number: u64, is_money: bool) -> String {
    if is_money {
        format!("{}.{:02}", number / 1_000_000, number % 1_000_000 / 10_000)
    } else {
        number.to_string()
    }
}

/// Returns the words of a list that stands for all if it is `null`.
fn words(list: &Value) -> String {
    match list.as_array() {
        None => "all".to_owned(),
        Some(list) if list.is_empty() => "none".to_owned(),
        Some(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
    }
}

fn list_all(context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let call = Call::get("/api/people");
    let found = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?.answer;
    let mut accounts = Table::new(&["PERSON", "PLATFORM", "ACCOUNT", "USER NAME", "BOUND BY"]);
    for account in found["accounts"].as_array().into_iter().flatten() {
        let text = |key: &str| shown(&account[key]);
        accounts.styled_row(vec![
            (TextStyle::Accent, text("person")),
            (TextStyle::Plain, text("platform")),
            (TextStyle::Plain, text("id")),
            (TextStyle::Plain, text("username")),
            (TextStyle::Plain, text("boundBy")),
        ]);
    }
    let people = found["people"].as_array().map(Vec::as_slice).unwrap_or_default();
    let none = "Nobody came from another platform yet; see flock bridge add --help.";
    // Without people of the home, the answer is that of a home with one person.
    if people.is_empty() {
        context.printer.list(&json!({"accounts": found["accounts"]}), &accounts, none);
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["PERSON", "ROLE", "AGENTS", "CHANNELS", "ADDED"]);
    for person in people {
        let removed = person["removedAt"].as_i64();
        let style = if removed.is_some() { TextStyle::Dim } else { TextStyle::Plain };
        let added = match removed {
            Some(at) => format!("removed {}", clock::local(at)),
            None => time(&person["addedAt"]),
        };
        table.styled_row(vec![
            (TextStyle::Accent, format!("human:{}", shown(&person["name"]))),
            (style, shown(&person["role"])),
            (style, words(&person["agents"])),
            (style, words(&person["channels"])),
            (style, added),
        ]);
    }
    context.printer.list(&json!({"accounts": found["accounts"], "people": people}), &table, "");
    if !context.printer.is_json() && found["accounts"].as_array().is_some_and(|accounts| !accounts.is_empty())
    {
        context.printer.list(&Value::Null, &accounts, "");
    }
    Ok(Exit::Done)
}

fn send(context: &Context, action: &str, body: &impl serde::Serialize) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    let call = Call::post(&format!("/api/people/{action}")).json(body)?;
    Ok(context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))?.answer)
}

fn done(context: &Context, answer: &Value, text: &str) -> Result<Exit, Failure> {
    if context.printer.is_json() {
        context.printer.json(answer);
    } else {
        context.printer.say(text);
    }
    Ok(Exit::Done)
}
