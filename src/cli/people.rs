//! `flock person`: people who come from other platforms, and their accounts there.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::bridge::Target;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::error::Kind;
use crate::gateway::routes::people::{BindAccount, RenamePerson};
use crate::supervise::gateway_client::Call;
use crate::ui::{Table, TextStyle};

/// List, join and rename the people who come from other platforms
///
/// The first message of an account makes a person with the name of the account. An account that you bind to a person
/// with "link" speaks and, if the person is in approvers, decides requests under that person's name.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the people with their accounts
    #[command(visible_alias = "ls")]
    List,
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
        Verb::List => list(context),
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

fn list(context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let call = Call::get("/api/people");
    let found = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?.answer;
    let mut table = Table::new(&["PERSON", "PLATFORM", "ACCOUNT", "USER NAME", "BOUND BY"]);
    for account in found["accounts"].as_array().into_iter().flatten() {
        let text = |key: &str| account[key].as_str().unwrap_or_default().to_owned();
        table.styled_row(vec![
            (TextStyle::Accent, text("person")),
            (TextStyle::Plain, text("platform")),
            (TextStyle::Plain, text("id")),
            (TextStyle::Plain, text("username")),
            (TextStyle::Plain, text("boundBy")),
        ]);
    }
    let none = "Nobody came from another platform yet; see flock bridge add --help.";
    context.printer.list(&json!({"accounts": found["accounts"]}), &table, none);
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
