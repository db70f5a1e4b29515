//! `flock session list`: lists the sessions.

use serde_json::{Value, json};

use crate::clean;
use crate::cli::{Context, Exit, Failure, database};
use crate::clock;
use crate::gateway::status_source;
use crate::id::AgentId;
use crate::tool::sessions::SessionInfo;
use crate::ui::{Table, TextStyle};

/// List the sessions, last used first
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show only sessions of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Number of sessions to show
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// Prints the sessions.
///
/// # Errors
///
/// Returns an error if there is no home, or if its database can't be read.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    // The list is read from the database directly, so it works with and without a gateway.
    let (agent, limit) = (args.agent.as_ref(), args.limit);
    let found = database::read(&home, async |reader| reader.sessions().list(agent, limit).await)?;
    // A home without a database has no sessions, which is no error.
    let found: Vec<SessionInfo> = found.into_iter().flatten().map(SessionInfo::from).collect();
    let sessions: Vec<Value> = found.iter().map(status_source::session).collect();
    let mut table = Table::new(&["SESSION", "TURNS", "LAST USED", "MODEL", "STATE"]);
    // The order is that of the database: the session that was used last comes first.
    for session in &found {
        table.styled_row(vec![
            (TextStyle::Accent, session.key.to_string()),
            (TextStyle::Plain, session.turns.to_string()),
            (TextStyle::Plain, clock::local(session.updated_at)),
            (TextStyle::Dim, session.model.clone().unwrap_or_default()),
            (TextStyle::Plain, state(session)),
        ]);
    }
    context.printer.list(&json!({"sessions": sessions}), &table, "There are no such sessions.");
    Ok(Exit::Done)
}

/// Returns the state of a session in words. Most have none to tell.
fn state(session: &SessionInfo) -> String {
    if session.busy {
        return "a turn runs".to_owned();
    }
    let names: Vec<String> = session.pending.iter().map(|call| clean::label(&call.name, 64)).collect();
    if names.is_empty() { String::new() } else { format!("waits for a client: {}", names.join(", ")) }
}
