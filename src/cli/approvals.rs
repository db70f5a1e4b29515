//! `flock approvals`: lists the requests of agents and records a person's decisions about them.
//!
//! The right to decide is the right to read and write the home's files; there is no other credential. A running gateway
//! is told, so that an approved action begins at once. Without a gateway it begins at the next start.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person, team};
use crate::cli::database;
use crate::clock::unix_ms;
use crate::config::{self, Config};
use crate::error::{Kind, chain};
use crate::home::Home;
use crate::nix_store::{Attribute, NixError};
use crate::store::{RequestRow, RequestState};
use crate::supervise::gateway_client::Call;
use crate::swarm::triage::{self, ApprovalDecision, DecideError, FiledRequest, Request, decide, view};
use crate::ui::pager::{self, PagerRow};
use crate::ui::{StyledLine, Table, TextStyle, ask};

/// Show, approve, answer, deny and revoke the requests of agents
///
/// RED requests wait here for a person. An approval is valid for exactly what was shown, is used once and expires.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock approvals list
  flock approvals show r-7k3m9qwx
  flock approvals answer r-7k3m9qwx table=notes rows=10
  flock approvals deny r-7k3m9qwx --reason \"use the package instead\"")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the open requests
    List {
        /// Also list closed requests
        #[arg(long)]
        all: bool,
    },
    /// Show one request: the exact action, the agent and the reason
    Show {
        /// Id of the request, as in r-7k3m9qwx
        id: String,
    },
    /// Approve a request, or restore a revoked grant
    Approve {
        /// Id of the request
        id: String,
    },
    /// Answer the question of an MCP server
    ///
    /// The server gets the values as they are: never give a password, a key or anything private. To decline, deny the
    /// request.
    Answer {
        /// Id of the request
        id: String,
        /// Values of the fields; several choices are separated by commas. What is missing is asked for, or gets its
        /// default
        #[arg(value_name = "FIELD=VALUE", value_parser = assignment)]
        values: Vec<(String, String)>,
    },
    /// Deny a request, or withdraw an approval that has had no effect yet
    Deny {
        /// Id of the request
        id: String,
        /// Reason, which the agent is told
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Revoke what a request granted: a host, a folder or a package
    ///
    /// The agent is not granted the same again until a person restores it with `flock approvals approve`.
    Revoke {
        /// Id of the request
        id: String,
    },
}

/// The question before an approval.
pub(super) const QUESTION: &str = "Approve exactly this?";

/// Number of requests that a list shows at most.
const MAX_LISTED: u32 = 500;

/// Time that the gateway may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the verb below `approvals`.
///
/// # Errors
///
/// Returns an error if there is no such request, or if it can't be decided any more.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::List { all } => list(!all, context),
        Verb::Show { id } => {
            let row = find(&context.home()?, id)?;
            show(&row, context)?;
            Ok(Exit::Done)
        }
        Verb::Approve { id } => {
            let home = context.writable_home()?;
            let row = find(&home, id)?;
            if can_be_approved(&row) && context.may_ask() {
                // Without the last page a person has not seen everything that they approve.
                let seen = show(&row, context)?;
                if !seen || !ask::confirm(QUESTION, false)? {
                    return Err(Failure::new(Kind::Failed, format!("{id} was not approved")));
                }
            }
            // The hash binds the decision to the request that was shown. If the request has changed, the decision is
            // refused.
            let decision = ApprovalDecision::Approve { sha256: row.sha256 };
            let row = context.block_on(take(&home, id, decision, context))?;
            print_decision(&row, "approved", context);
            Ok(if row.state == RequestState::Failed { Exit::Failed(Kind::Failed) } else { Exit::Done })
        }
        Verb::Answer { id, values } => {
            let home = context.writable_home()?;
            let row = answer(&home, id, values, context)?;
            print_decision(&row, "answered", context);
            Ok(if row.state == RequestState::Failed { Exit::Failed(Kind::Failed) } else { Exit::Done })
        }
        Verb::Deny { id, reason } => {
            let home = context.writable_home()?;
            let row = context.block_on(take(
                &home,
                id,
                ApprovalDecision::Deny { reason: reason.clone() },
                context,
            ))?;
            print_decision(&row, "denied", context);
            Ok(Exit::Done)
        }
        Verb::Revoke { id } => {
            let home = context.writable_home()?;
            let row = context.block_on(revoke(&home, id, context))?;
            print_decision(&row, "revoked", context);
            Ok(Exit::Done)
        }
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or("write the name of a field, = and its value")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Answers a question: shows it, asks for what was not given, and sends the values.
fn answer(
    home: &Home,
    id: &str,
    given: &[(String, String)],
    context: &Context,
) -> Result<RequestRow, Failure> {
    let row = find(home, id)?;
    let Some(FiledRequest { request: Request::McpQuestion { fields, .. }, .. }) =
        FiledRequest::read(&row.body)
    else {
        return Err(DecideError::NoQuestion(row.id).into());
    };
    let mut values = Map::new();
    for (name, text) in given {
        let value = fields.iter().find(|field| field.name == *name).map(|field| field.typed(text));
        // A field that is not there is refused with the others.
        values.insert(name.clone(), value.unwrap_or_else(|| json!(text)));
    }
    if row.state == RequestState::Waiting && context.may_ask() {
        if !show(&row, context)? {
            return Err(Failure::new(Kind::Failed, format!("{id} was not answered: the end was not read")));
        }
        for field in &fields {
            if values.contains_key(&field.name) {
                continue;
            }
            let default = field
                .default
                .as_ref()
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            let check = {
                let field = field.clone();
                move |text: &str| match text {
                    "" if !field.required || field.default.is_some() => Ok(()),
                    text => field.check(&field.typed(text)),
                }
            };
            let typed = ask::text(&field.describe(), &default.unwrap_or_default(), check)?;
            if !typed.is_empty() {
                values.insert(field.name.clone(), field.typed(&typed));
            }
        }
    }
    let body = json!({"sha256": row.sha256, "values": values, "by": person::name()});
    let call = Call::post(&path(id, "answer")?).json(&body)?;
    context.block_on(Reconnector::new(home, context).send(call, Repeat::Unsent, TIMEOUT))?;
    find(home, id)
}

fn list(open: bool, context: &Context) -> Result<Exit, Failure> {
    let rows =
        database::read(&context.home()?, async |reader| reader.requests().list(open, MAX_LISTED).await)?;
    let rows = rows.unwrap_or_default();
    let requests: Vec<Value> = rows.iter().map(view::json).collect();
    let mut table = Table::new(&["ID", "AGENT", "LEVEL", "STATE", "WHAT", "UNTIL"]);
    for row in &rows {
        let tone = if row.state == RequestState::Waiting { TextStyle::Warn } else { TextStyle::Plain };
        table.styled_row(vec![
            (TextStyle::Accent, row.id.clone()),
            (TextStyle::Plain, row.agent.to_string()),
            (tone, row.level.as_str().to_owned()),
            (tone, row.state.as_str().to_owned()),
            (TextStyle::Plain, view::brief_row(row)),
            (TextStyle::Plain, expiry_text(row)),
        ]);
    }
    context.printer.list(&json!({"requests": requests}), &table, "no requests wait");
    Ok(Exit::Done)
}

/// Prints a whole request, page by page on a terminal. Returns `true` if all of it was shown.
fn show(row: &RequestRow, context: &Context) -> Result<bool, Failure> {
    let home = context.home()?;
    if context.printer.is_json() {
        let mut request = view::json(row);
        request["granted"] = json!(granted_before(&home, row)?);
        context.printer.json(&json!({"request": request}));
        return Ok(true);
    }
    // What was granted before is no part of the request, so it is said first and beside it.
    for line in granted_before(&home, row)?.iter().flat_map(|granted| view::granted_lines(granted)) {
        context.printer.say(line);
    }
    let seen = pager::show(&context.printer, &shown(row), context.may_ask())?;
    // The result of an executed request is not part of what is approved, so it is not paged.
    if let Some(result) = row.result.as_ref().filter(|_| seen) {
        context.printer.stream(&format!("{result}\n"));
    }
    Ok(seen)
}

/// Returns everything that a person is shown before a decision, in the order of the lines.
pub(super) fn shown(row: &RequestRow) -> Vec<PagerRow> {
    let fields = view::fields(row, &expiry_text(row));
    fields.into_iter().map(|(name, text)| PagerRow { name: format!("{name:<10}"), text }).collect()
}

/// Returns what the agent was granted before of this kind, or `None` for a request that is closed.
pub(super) fn granted_before(home: &Home, row: &RequestRow) -> Result<Option<Vec<String>>, Failure> {
    // Who reads the home's database sees everything in it.
    let granted = database::read(home, async |reader| triage::granted_before(&reader, row, |_| true).await)?;
    Ok(granted.flatten())
}

/// Returns `true` if a person can approve the request. A grant that was revoked can be given back by a second approval.
pub(super) fn can_be_approved(row: &RequestRow) -> bool {
    row.state == RequestState::Waiting || row.revoked_by.is_some()
}

fn print_decision(row: &RequestRow, how: &str, context: &Context) {
    if context.printer.is_json() {
        context.printer.json(&json!({"request": view::json(row)}));
        return;
    }
    let line = StyledLine::new().with(TextStyle::Good, how).plain(" ").accent(row.id.clone());
    context.printer.line(line.plain(format!(": {}", view::brief_row(row))));
    match row.state {
        RequestState::Approved => {
            context.printer.say("the request begins when the gateway starts: flock start");
        }
        RequestState::Running => {
            let text = format!("the request is running; to see its result: flock approvals show {}", row.id);
            context.printer.say(text);
        }
        RequestState::Done | RequestState::Failed => {
            if let Some(result) = &row.result {
                context.printer.stream(&format!("{}: {result}\n", row.state.as_str()));
            }
        }
        _ => {}
    }
}

fn expiry_text(row: &RequestRow) -> String {
    if !row.state.is_open() {
        return String::new();
    }
    let left = row.expires_at.saturating_sub(unix_ms());
    match u64::try_from(left) {
        Ok(left) => format!("in {}", crate::ui::progress::span(Duration::from_millis(left))),
        // Only the state says that it has expired: another gateway's clock may have given the time.
        Err(_) => "due".to_owned(),
    }
}

// Reads the database directly: every state of a request is committed there, with or without a gateway.
pub(super) fn find(home: &Home, id: &str) -> Result<RequestRow, Failure> {
    let row = database::read(home, async |reader| reader.requests().find(id).await)?.flatten();
    row.ok_or_else(|| DecideError::Unknown(view::id(id)).into())
}

/// Revokes a grant. A running gateway does it, so that everything that depends on the grant ends at once.
async fn revoke(home: &Home, id: &str, context: &Context) -> Result<RequestRow, Failure> {
    let call = Call::post(&path(id, "revoke")?).json(&json!({"by": person::name()}))?;
    // Revoking twice has the same result, so the request may be repeated after a broken connection.
    let revoked = Reconnector::new(home, context).send(call, Repeat::Safe, TIMEOUT).await?;
    let row = find(home, id)?;
    if revoked.in_process {
        // Without a gateway this process removes the package, too.
        uninstall_package(home, &config::read(home)?, &row).await?;
    }
    Ok(row)
}

/// Uninstalls the package that an approved request installed.
async fn uninstall_package(home: &Home, config: &Config, row: &RequestRow) -> Result<(), Failure> {
    let Some(FiledRequest { agent, request: Request::Package { package, .. } }) = decide::undo_request(row)
    else {
        return Ok(());
    };
    let left = |why: String| DecideError::Left { id: row.id.clone(), why };
    let package: Attribute = package.parse().map_err(|error| left(chain(&error)))?;
    let packages = team::store_of(home, config, &agent).await?;
    match packages.uninstall(&agent, &[package]).await {
        // Somebody has removed it already.
        Ok(()) | Err(NixError::NotInstalled { .. }) => Ok(()),
        Err(error) => Err(left(chain(&error)).into()),
    }
}

/// Returns the path of a request in the gateway's API. An id that is not a plain path segment is unknown.
fn path(id: &str, verb: &str) -> Result<String, Failure> {
    if id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        Ok(format!("/api/approvals/{id}/{verb}"))
    } else {
        Err(DecideError::Unknown(view::id(id)).into())
    }
}

/// Records a decision. A running gateway does it, so that an approved action begins at once.
pub(super) async fn take(
    home: &Home,
    id: &str,
    decision: ApprovalDecision,
    context: &Context,
) -> Result<RequestRow, Failure> {
    // The gateway adds the prefix `human:` itself.
    let name = person::name();
    let (verb, body) = match &decision {
        ApprovalDecision::Approve { sha256 } => ("approve", json!({"sha256": sha256, "by": name})),
        ApprovalDecision::Deny { reason } => ("deny", json!({"reason": reason, "by": name})),
    };
    let call = Call::post(&path(id, verb)?).json(&body)?;
    // The request is repeated only if it was not sent: a repeated decision would be refused as already made.
    Reconnector::new(home, context).send(call, Repeat::Unsent, TIMEOUT).await?;
    find(home, id)
}
