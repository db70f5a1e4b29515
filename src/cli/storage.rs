//! `flock storage`: checks the second place for checkpoints, conversations and vaults, copies checkpoints there and back, and
//! brings vaults back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::DateTime;
use serde_json::{Value, json};

use super::{Context, Exit, Failure, person};
use crate::blob::{self, BlobError, BlobStore, owner};
use crate::checkpoint::remote::{self, NewestCopy, PullRequest};
use crate::clock;
use crate::config::{self, Config};
use crate::error::Kind;
use crate::home::Home;
use crate::home::write_fence::WriteFence;
use crate::id::{AgentId, FolderName};
use crate::swarm::vault::{Vaults, shown};
use crate::swarm::vault_copies::{self, HeldVault, VaultPull, VaultWork};
use crate::ui::{StyledLine, Table, TextStyle};

/// Keep checkpoints, conversations and vaults in a second place, and bring them back
///
/// The place is a folder of another disk or a bucket with the API of S3; `…storage.blobs` of the configuration names it. The
/// gateway copies each new checkpoint, what is said and what changes in vaults there, and brings lost conversations back. These
/// commands are for checkpoints and vaults, and also work without a gateway.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Check(CheckArgs),
    List(ListArgs),
    Push(PushArgs),
    Pull(PullArgs),
    Sweep(SweepArgs),
    Forget(ForgetArgs),
    Take(TakeArgs),
}

/// Try everything that flock needs of the place
///
/// Writes, reads, lists and deletes a blob of its own, compares the clocks, and says if the place is this home's.
#[derive(Debug, clap::Args)]
struct CheckArgs {}

/// List the checkpoints and the copies of vaults in the place, newest first
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Ids of the agents [default: all, and all vaults]
    #[arg(value_name = "AGENT")]
    agents: Vec<AgentId>,
}

/// Copy the newest checkpoints now
///
/// Only what the place lacks is written. A running gateway does the same by itself, and copies conversations and vaults.
#[derive(Debug, clap::Args)]
struct PushArgs {
    /// Ids of the agents [default: all]
    #[arg(value_name = "AGENT")]
    agents: Vec<AgentId>,
}

/// Delete the oldest checkpoints in the place, and what only they needed
///
/// As many checkpoints of an agent stay as on the disk (`…checkpoints.keep`). A content without a checkpoint stays for a day.
#[derive(Debug, clap::Args)]
struct SweepArgs {
    /// Ids of the agents [default: all]
    #[arg(value_name = "AGENT")]
    agents: Vec<AgentId>,
}

/// Bring a checkpoint or a vault from the place to this home
///
/// The files of a checkpoint stay in the agent's checkpoints, where `flock rewind` goes back to it. The agent has to exist in
/// this home. A checkpoint that this home has already gets back the contents that are missing or damaged.
///
/// The files of a vault are put into the vault, which is made if it is missing. Files that differ here stay as they are.
#[derive(Debug, clap::Args)]
struct PullArgs {
    /// Id of the agent
    #[arg(required_unless_present = "vault")]
    agent: Option<AgentId>,
    /// Number of the checkpoint, as `flock storage list` shows it [default: the newest state]
    #[arg(long, value_name = "NUMBER", requires = "agent")]
    checkpoint: Option<u64>,
    /// Name of a vault, instead of an agent
    #[arg(long, value_name = "NAME", conflicts_with = "agent")]
    vault: Option<FolderName>,
    /// Time up to which the newest copy of the vault is taken, as in '2026-02-28 09:30:00' [default: now]
    #[arg(long, value_name = "TIME", requires = "vault")]
    at: Option<DateTime>,
    /// Replacement of the vault's files that differ here
    #[arg(long, requires = "vault")]
    replace: bool,
}

/// Delete everything in the place of an agent or a vault that was removed
///
/// `flock remove` leaves an agent's checkpoints in the place, and a vault that is gone here stays there, too.
#[derive(Debug, clap::Args)]
struct ForgetArgs {
    /// Id of the removed agent
    #[arg(required_unless_present = "vault")]
    agent: Option<AgentId>,
    /// Name of the removed vault, instead of an agent
    #[arg(long, value_name = "NAME", conflicts_with = "agent")]
    vault: Option<FolderName>,
}

/// Make the place this home's, after another home has used it
///
/// Only for a place whose home is lost: two homes that write to the same place delete each other's checkpoints.
#[derive(Debug, clap::Args)]
struct TakeArgs {}

/// Runs a verb of the storage.
///
/// # Errors
///
/// Returns an error if no place is set, or if it can't be used.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Check(_) => check(context),
        Verb::List(args) => list(&args.agents, context),
        Verb::Push(args) => push(&args.agents, context),
        Verb::Pull(args) => match (&args.agent, &args.vault) {
            (_, Some(vault)) => pull_vault(vault, args, context),
            (Some(agent), None) => pull(agent, args.checkpoint, context),
            (None, None) => Err(nothing_named("flock storage pull --help")),
        },
        Verb::Sweep(args) => sweep(&args.agents, context),
        Verb::Forget(args) => match (&args.agent, &args.vault) {
            (_, Some(vault)) => forget_vault(vault, context),
            (Some(agent), None) => forget(agent, context),
            (None, None) => Err(nothing_named("flock storage forget --help")),
        },
        Verb::Take(_) => take(context),
    }
}

/// Returns the failure for a command line without a subject, which its own parser refuses.
fn nothing_named(help: &str) -> Failure {
    Failure::new(Kind::Usage, "neither an agent nor a vault is named").hint(help)
}

/// The home with its place.
struct Place {
    home: Home,
    config: Config,
    store: Arc<dyn BlobStore>,
}

impl Place {
    fn of(home: Home) -> Result<Self, Failure> {
        let config = config::read(&home)?;
        let settings = config.blobs.clone().ok_or(BlobError::Unset)?;
        let store = blob::open(&home, &settings);
        Ok(Self { home, config, store })
    }

    /// Returns the agents with these ids, or all.
    fn agents(&self, wanted: &[AgentId]) -> Result<Vec<AgentId>, Failure> {
        for agent in wanted {
            self.config.require_agent(agent)?;
        }
        let all = self.config.agents.iter().map(|agent| agent.id.clone());
        Ok(if wanted.is_empty() { all.collect() } else { wanted.to_vec() })
    }
}

/// The difference of two clocks from which on it is worth a warning. Signatures fail at 15 minutes.
pub(super) const CLOCK_WARNING: Duration = Duration::from_secs(60);

/// Returns a warning if the server's clock differs much from this machine's.
pub(super) fn clock_warning(ahead: Option<i64>) -> Option<String> {
    let ahead = ahead.filter(|ahead| u128::from(ahead.unsigned_abs()) >= CLOCK_WARNING.as_millis())?;
    let (seconds, word) = (ahead.unsigned_abs() / 1000, if ahead > 0 { "behind" } else { "ahead of" });
    Some(format!(
        "the clock of this machine is {seconds} seconds {word} the server's, which refuses more than 900"
    ))
}

/// The warning about a server that ignores conditions.
pub(super) const NO_CONDITIONS: &str = "the server replaces a blob although it is asked not to, so two homes could take one place at the same moment";

/// Returns the name of a copy for people.
fn name(number: u64) -> String {
    if number == 0 { "the state after a turn".to_owned() } else { format!("checkpoint {number}") }
}

fn check(context: &Context) -> Result<Exit, Failure> {
    let Place { home, store, .. } = Place::of(context.home()?)?;
    let (report, owner) = context.block_on(async {
        let report = blob::probe(&*store).await?;
        Ok((report, owner::read(&*store).await?))
    })?;
    let owner = match owner {
        None => "none",
        Some(owner) if owner.is(&home)? => "this",
        Some(_) => "other",
    };
    let value = json!({
        "place": store.place(),
        "clockAhead": report.clock_ahead,
        "keepsConditions": report.keeps_conditions,
        "owner": owner,
    });
    context.printer.result(&value, StyledLine::new().accent(store.place()).plain(" works"));
    if let Some(warning) = clock_warning(report.clock_ahead) {
        context.printer.warn(&warning);
    }
    if !report.keeps_conditions {
        context.printer.warn(NO_CONDITIONS);
    }
    if owner == "other" {
        let place = store.place().to_owned();
        return Err(BlobError::Foreign { place }.into());
    }
    Ok(Exit::Done)
}

fn list(wanted: &[AgentId], context: &Context) -> Result<Exit, Failure> {
    let place = Place::of(context.home()?)?;
    let agents = place.agents(wanted)?;
    let store = &place.store;
    let (found, vaults) = context.block_on(async {
        let mut found = Vec::new();
        for agent in &agents {
            for copy in remote::list(&**store, agent).await? {
                found.push((agent.clone(), copy));
            }
        }
        let vaults = if wanted.is_empty() { vault_copies::list(&**store).await? } else { BTreeMap::new() };
        Ok((found, vaults))
    })?;
    let mut table = Table::new(&["AGENT", "NUMBER", "AT", "HERE"]);
    let mut rows = Vec::new();
    for (agent, copy) in &found {
        let newest = NewestCopy::read(&place.home, agent, store.place())?;
        let is_newest = newest.is_some_and(|newest| (newest.number, newest.at) == (copy.number, copy.at));
        let here = if is_newest { "the newest of this home" } else { "" };
        table.styled_row(vec![
            (TextStyle::Accent, agent.to_string()),
            (TextStyle::Plain, if copy.number == 0 { String::new() } else { copy.number.to_string() }),
            (TextStyle::Plain, clock::local(copy.at)),
            (TextStyle::Dim, here.to_owned()),
        ]);
        rows.push(json!({"agent": agent, "number": copy.number, "at": copy.at, "newest": is_newest}));
    }
    let mut vault_table = Table::new(&["VAULT", "AT"]);
    let mut vault_rows = Vec::new();
    for (vault, copies) in &vaults {
        for at in copies {
            vault_table.styled_row(vec![
                (TextStyle::Accent, vault.to_string()),
                (TextStyle::Plain, clock::local(*at)),
            ]);
            vault_rows.push(json!({"vault": vault, "at": at}));
        }
    }
    let value = json!({"place": store.place(), "checkpoints": rows, "vaults": vault_rows});
    context.printer.list(&value, &table, format!("{} has no checkpoints.", store.place()).as_str());
    if !vault_table.is_empty() && !context.printer.is_json() {
        context.printer.table(&vault_table);
    }
    Ok(Exit::Done)
}

fn push(wanted: &[AgentId], context: &Context) -> Result<Exit, Failure> {
    let place = Place::of(context.writable_home()?)?;
    let agents = place.agents(wanted)?;
    let mut done = Vec::new();
    let mut failed = None;
    for agent in agents {
        let keep = place.config.checkpoints.keep;
        let pushed = context
            .block_on(async { Ok(remote::push_and_sweep(&place.home, &agent, &place.store, keep).await?) });
        match pushed {
            Ok(pushed) => {
                let text = match &pushed {
                    Some(pushed) => {
                        let (contents, bytes) = (pushed.contents, pushed.bytes);
                        format!("{agent}: {}, {contents} contents with {bytes} bytes", name(pushed.number))
                    }
                    None => format!("{agent}: nothing new"),
                };
                context.printer.say(text.as_str());
                done.push(json!({"agent": agent, "copied": pushed}));
            }
            Err(failure) => {
                // The other agents' checkpoints are copied all the same.
                context.printer.warn(&failure.within(format!("{agent} was not copied")).to_line_with_hint());
                done.push(json!({"agent": agent, "copied": Value::Null}));
                failed = Some(Kind::Failed);
            }
        }
    }
    context.printer.if_json(&json!({"place": place.store.place(), "agents": done}));
    Ok(failed.map_or(Exit::Done, Exit::Failed))
}

fn pull(wanted: &AgentId, number: Option<u64>, context: &Context) -> Result<Exit, Failure> {
    let place = Place::of(context.writable_home()?)?;
    let agent = place.config.require_agent(wanted)?;
    let by = person::name();
    let request = PullRequest {
        home: &place.home,
        agent,
        settings: place.config.checkpoints,
        number,
        by: &by,
        fence: WriteFence::absent(),
    };
    let pulled = context.block_on(async { Ok(remote::pull(request, &place.store).await?) })?;
    let line = StyledLine::new()
        .plain("checkpoint ")
        .accent(pulled.number.to_string())
        .plain(format!(" of {wanted}: {} files and folders", pulled.entries));
    context.printer.result(&pulled, line);
    let others = if pulled.is_in_use { " --keep-others" } else { "" };
    if pulled.is_in_use {
        context.printer.warn("the workspace has other files, and a rewind does not touch them");
    }
    context.printer.say(format!("flock rewind {wanted} --turn {}{others}", pulled.number).as_str());
    Ok(Exit::Done)
}

/// The most files that a message names.
const MAX_NAMED: usize = 20;

fn pull_vault(vault: &FolderName, args: &PullArgs, context: &Context) -> Result<Exit, Failure> {
    let place = Place::of(context.writable_home()?)?;
    let until = args.at.map(|at| {
        let refused =
            || Failure::new(Kind::Usage, format!("{at} is too far away")).hint("flock storage list");
        clock::end_of_local_second(at).ok_or_else(refused)
    });
    let (until, store) = (until.transpose()?, &place.store);
    let again = |at: i64, replaces: bool| {
        let replace = if replaces { " --replace" } else { "" };
        format!("flock storage pull --vault {vault} --at '{}'{replace}", clock::local(at))
    };
    let held = HeldVault::take(&place.home, vault, VaultWork::Pull)?;
    let (pulled, ended) = context.block_on(async {
        let at = vault_copies::newest(&**store, vault, until).await?;
        // A gateway copies what is back by then, so that the newest copy would be another one.
        context.printer.say(format!("if this breaks off, go on with: {}", again(at, args.replace)));
        let wish = VaultPull { held: &held, at, replaces: args.replace };
        Ok(vault_copies::pull(wish, store).await)
    })?;
    // Also if it failed: what was written before stays.
    if pulled.written > 0 {
        let (at, written) = (clock::local(pulled.at), pulled.written);
        let end = if ended.is_err() { ", and then it failed" } else { "" };
        let detail = format!("{written} files of {}, as of {at}{end}", place.store.place());
        person::record_done(&place.home, "storage.pull", vault.as_str(), detail, context);
    }
    ended?;
    let line = StyledLine::new().plain("vault ").accent(vault.as_str()).plain(format!(
        ", as of {}: {} files written, {} as they were",
        clock::local(pulled.at),
        pulled.written,
        pulled.same
    ));
    context.printer.result(&pulled, line);
    for path in pulled.kept.iter().take(MAX_NAMED) {
        context.printer.warn(&format!("{} differs here and stays", shown(Path::new(path))));
    }
    if !pulled.kept.is_empty() {
        let (count, replacing) = (pulled.kept.len(), again(pulled.at, true));
        context.printer.say(format!("{count} files differ here and stay: {replacing}"));
    }
    for missing in pulled.missing.iter().take(MAX_NAMED) {
        let path = shown(Path::new(&missing.path));
        context.printer.warn(&format!("{path} was not brought back: {}", missing.problem));
    }
    Ok(if pulled.missing.is_empty() { Exit::Done } else { Exit::Failed(Kind::Failed) })
}

fn sweep(wanted: &[AgentId], context: &Context) -> Result<Exit, Failure> {
    let place = Place::of(context.writable_home()?)?;
    let mut done = Vec::new();
    for agent in place.agents(wanted)? {
        let keep = place.config.checkpoints.keep;
        let swept =
            context.block_on(async { Ok(remote::sweep(&place.home, &agent, &place.store, keep).await?) })?;
        let text = format!(
            "{agent}: deleted {} checkpoints and {} contents; {} checkpoints with {} bytes are left",
            swept.checkpoints, swept.contents, swept.kept, swept.bytes
        );
        context.printer.say(text.as_str());
        done.push(json!({"agent": agent, "swept": swept}));
    }
    context.printer.if_json(&json!({"place": place.store.place(), "agents": done}));
    Ok(Exit::Done)
}

fn forget(agent: &AgentId, context: &Context) -> Result<Exit, Failure> {
    let Place { home, config, store } = Place::of(context.writable_home()?)?;
    if config.agent(agent).is_some() {
        let text = format!("{agent} is an agent of this home, and its checkpoints would be copied again");
        return Err(Failure::new(Kind::Conflict, text).hint(format!("flock remove {agent}")));
    }
    let unasked = Failure::new(Kind::Usage, format!("deleting the checkpoints of {agent} must be confirmed"))
        .hint(format!("flock storage forget {agent} --yes"));
    if !context.yes() {
        let question = format!("Delete all checkpoints of {agent} in {} for good?", store.place());
        context.confirm(&question, unasked, "nothing was deleted")?;
    }
    let count = context.block_on(async { Ok(remote::forget(&home, agent, &*store).await?) })?;
    let detail = format!("{count} checkpoints in {}", store.place());
    person::record_done(&home, "storage.forget", agent.as_str(), detail, context);
    let value = json!({"place": store.place(), "agent": agent, "checkpoints": count});
    context
        .printer
        .result(&value, StyledLine::new().plain(format!("deleted {count} checkpoints of {agent}")));
    Ok(Exit::Done)
}

fn forget_vault(vault: &FolderName, context: &Context) -> Result<Exit, Failure> {
    let Place { home, store, .. } = Place::of(context.writable_home()?)?;
    vault_copies::check_gone(&Vaults::new(&home), vault)?;
    let unasked =
        Failure::new(Kind::Usage, format!("deleting the copies of vault {vault} must be confirmed"))
            .hint(format!("flock storage forget --vault {vault} --yes"));
    if !context.yes() {
        let question = format!("Delete all copies of vault {vault} in {} for good?", store.place());
        context.confirm(&question, unasked, "nothing was deleted")?;
    }
    let count = context.block_on(async { Ok(vault_copies::forget(&home, vault, &*store).await?) })?;
    let detail = format!("{count} copies in {}", store.place());
    person::record_done(&home, "storage.forget", vault.as_str(), detail, context);
    let value = json!({"place": store.place(), "vault": vault, "copies": count});
    context
        .printer
        .result(&value, StyledLine::new().plain(format!("deleted {count} copies of vault {vault}")));
    Ok(Exit::Done)
}

fn take(context: &Context) -> Result<Exit, Failure> {
    let Place { home, store, .. } = Place::of(context.writable_home()?)?;
    let unasked = Failure::new(Kind::Usage, "taking a place from another home must be confirmed")
        .hint("flock storage take --yes");
    if !context.yes() {
        let question =
            format!("Is the home that wrote to {} gone, and shall this one write there?", store.place());
        context.confirm(&question, unasked, "the place stays as it is")?;
    }
    context.block_on(async { Ok(owner::take(&home, &*store).await?) })?;
    person::record_done(&home, "storage.take", "storage", store.place().to_owned(), context);
    let value = json!({"place": store.place(), "owner": "this"});
    context.printer.result(&value, StyledLine::new().accent(store.place()).plain(" is this home's"));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_much_are_worth_a_warning() {
        for quiet in [None, Some(0), Some(59_000), Some(-59_000)] {
            assert_eq!(clock_warning(quiet), None);
        }
        assert!(clock_warning(Some(120_000)).unwrap().contains("120 seconds behind"));
        assert!(clock_warning(Some(-120_000)).unwrap().contains("120 seconds ahead of"));
    }
}
