//! `flock gateway invite`: has several gateways use the database of this home.

use serde_json::json;

use super::{Context, Exit, Failure};
use crate::clock::unix_ms;
use crate::error::{Kind, chain};
use crate::gateway::shared_config;
use crate::home::{Home, atomic, instance};
use crate::id::hex;
use crate::process::login;
use crate::store::{self, GatewayGroup, GroupEnd, Level, Store, StoreError};
use crate::swarm::Actor;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Go back to one gateway: only this home's, from its next start on
    #[arg(long)]
    end: bool,
}

/// Makes the group of gateways, or ends it.
///
/// # Errors
///
/// Returns an error if the database is a file, or can't be written.
pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let Some(place) = store::server_address(&home)? else {
        let text =
            "only a database on a server can have several gateways, and this home has its own in a file";
        return Err(Failure::new(Kind::Failed, text).hint("flock home move --help"));
    };
    if args.end {
        return context.block_on(end(&home, &place, context));
    }
    context.block_on(invite(&home, &place, context))
}

async fn invite(home: &Home, place: &str, context: &Context) -> Result<Exit, Failure> {
    let store = Store::open(home)?;
    let is_new = match store.gateway_group().find().await? {
        Some(group) => {
            shared_config::check_files(home, &group)?;
            false
        }
        None => make(home, &store).await?,
    };
    let printer = &context.printer;
    if printer.is_json() {
        printer.json(&json!({"place": place, "files": home.files(), "isNew": is_new}));
        return Ok(Exit::Done);
    }
    let state = if is_new { "may have" } else { "already may have" };
    printer.line(format!("the database at {place} {state} several gateways"));
    printer.say("this home's gateway has others beside it after its next start: flock restart");
    printer.say(format!(
        "on another machine, mount {} and have a fresh home use the database: flock gateway join --help",
        home.files().display()
    ));
    Ok(Exit::Done)
}

/// Makes the group. Returns `false` if another process was faster.
async fn make(home: &Home, store: &Store) -> Result<bool, Failure> {
    instance::settle(home)?;
    let config = shared_config::own(home, &instance::read(home)?)?;
    let files = hex(&rand::random::<[u8; 16]>());
    let detail = format!("with the files in {}", home.files().display());
    let entry = Actor::human(&login()).entry("gateway.invite", "gateways", Level::Red, detail);
    if !store.gateway_group().make(files, config, entry, unix_ms()).await? {
        return Ok(false);
    }
    // The mark follows what the database has, whoever has made the group.
    if let Some(GatewayGroup { files, revision, .. }) = store.gateway_group().find().await? {
        atomic::write(&home.files_mark(), format!("{files}\n").as_bytes(), 0o600)?;
        shared_config::note_published(home, revision)?;
    }
    settle(store).await?;
    Ok(true)
}

async fn end(home: &Home, place: &str, context: &Context) -> Result<Exit, Failure> {
    let store = Store::open(home)?;
    let entry = Actor::human(&login()).entry("gateway.invite", "gateways", Level::Red, "ended".to_owned());
    let was_there = match store.gateway_group().end(instance::read(home)?, entry, unix_ms()).await? {
        GroupEnd::Ended => true,
        GroupEnd::WasNone => false,
        GroupEnd::InUse(other) => {
            let text =
                format!("another gateway uses the database: that of {} at {}", other.name, other.address);
            return Err(Failure::new(Kind::Conflict, text).hint("run there: flock stop"));
        }
    };
    settle(&store).await?;
    let printer = &context.printer;
    if printer.is_json() {
        printer.json(&json!({"place": place, "hasEnded": was_there}));
    } else if was_there {
        printer.line(format!("the database at {place} has one gateway from its next start on"));
        printer.say("restart this home's gateway: flock restart");
    } else {
        printer.line(format!("the database at {place} has one gateway"));
    }
    Ok(Exit::Done)
}

async fn settle(store: &Store) -> Result<(), Failure> {
    store.settle().await.map_err(|error: StoreError| Failure::new(Kind::Failed, chain(&error)))
}
