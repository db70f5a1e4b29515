//! `flock gateway join`: has this home's gateway use the database and the agents of others, beside them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Context, Exit, Failure};
use crate::cli::home::take_locks;
use crate::clock::unix_ms;
use crate::config;
use crate::error::{Kind, chain};
use crate::gateway::{ability, shared_config};
use crate::home::{Home, canonical, instance};
use crate::process::login;
use crate::provider::Catalog;
use crate::store::{self, GatewayGroup, Level, ServerPlace, Store};
use crate::swarm::Actor;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address of the database, as in postgres://USER@HOST/DATABASE, without a password
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Folder with the files of the agents: the home of the gateway that invited, as this machine sees it
    #[arg(long, value_name = "FOLDER")]
    files: PathBuf,
    /// Schema with the tables on the server [default: flock]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
    /// Secret with the password of the database's user [default: postgres]
    #[arg(long, value_name = "NAME")]
    password_secret: Option<String>,
}

/// Joins the gateways of a database.
///
/// # Errors
///
/// Returns an error if something of this home runs or would be hidden, if the database has no group of gateways, or if the
/// folder does not have the files of its agents.
pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let _locks = take_locks(&home, context)?;
    let place = ServerPlace::parse(&args.address, args.schema.as_deref(), args.password_secret.as_deref())
        .map_err(|reason| Failure::new(Kind::Usage, reason).hint("flock gateway join --help"))?;
    check_own(&home, &place)?;
    let group = context.block_on(async { Ok(place.group(&home).await?) })?;
    let Some(group) = group else {
        let text = format!("the gateway that uses the database at {place} has invited no others");
        return Err(Failure::new(Kind::Failed, text).hint("run in its home: flock gateway invite"));
    };
    let files = canonical(&args.files);
    if files == home.root() {
        let text = "--files names this home itself; it takes the folder of the other gateway's home";
        return Err(Failure::new(Kind::Usage, text).hint("flock gateway join --help"));
    }
    let home = join(&home, &place, &group, &files)?;
    // The home has joined, whatever becomes of this row.
    if let Err(failure) = context.block_on(record(&home, &files)) {
        context.printer.warn(&format!("this is not in the audit: {}", failure.to_line_with_hint()));
    }
    let config = config::read(&home)?;
    let lacking = ability::lacking_with_engines(&home, &config, &Catalog::new(home.clone()));
    let lacking: BTreeMap<String, String> = lacking
        .into_iter()
        .map(|(subject, reason)| (format!("{} {}", subject.kind.as_str(), subject.name), reason))
        .collect();
    show(&place, &config, &lacking, context);
    Ok(Exit::Done)
}

/// Refuses a home that has something of its own, which would be hidden by what others have.
fn check_own(home: &Home, place: &ServerPlace) -> Result<(), Failure> {
    if let Some(used) = store::server_address(home)?
        && used != place.to_string()
    {
        let text = format!("this home uses another database, at {used}");
        return Err(
            Failure::new(Kind::Conflict, text).hint("make a home for this gateway: flock init --help")
        );
    }
    // One that was killed while it joined has nothing of its own any more, and its configuration may not be usable yet.
    if home.files() != home.root() {
        return Ok(());
    }
    let config = config::read(home)?;
    let talks = |folder: PathBuf| std::fs::read_dir(folder).is_ok_and(|mut found| found.next().is_some());
    if let Some(agent) = config.agents.iter().find(|agent| talks(home.sessions(&agent.id))) {
        let text = format!("this home has conversations of its own, such as those of {}", agent.id);
        return Err(
            Failure::new(Kind::Conflict, text).hint("make a home for this gateway: flock init --help")
        );
    }
    Ok(())
}

/// Carries it out. A kill in between leaves a home whose gateway does not start; the same command completes it.
fn join(home: &Home, place: &ServerPlace, group: &GatewayGroup, files: &Path) -> Result<Home, Failure> {
    // Looked at as if the link were there: nothing is changed before everything was found to fit.
    shared_config::check_files(&home.seen_with_files(files), group)?;
    let home = home.with_files(files)?;
    place.use_from_now_on(&home, unix_ms())?;
    shared_config::adopt(&home, group)?;
    instance::settle(&home)?;
    Ok(home)
}

async fn record(home: &Home, files: &Path) -> Result<(), Failure> {
    let detail = format!("the home at {} with the files in {}", home.root().display(), files.display());
    let entry = Actor::human(&login()).entry("gateway.join", "gateways", Level::Red, detail);
    let store = Store::open(home)?;
    store.audit().append(entry, unix_ms()).await?;
    store.settle().await.map_err(|error| Failure::new(Kind::Failed, chain(&error)))
}

fn show(place: &ServerPlace, config: &config::Config, lacking: &BTreeMap<String, String>, context: &Context) {
    let printer = &context.printer;
    if printer.is_json() {
        let agents: Vec<&str> = config.agents.iter().map(|agent| agent.id.as_str()).collect();
        printer.json(&json!({"place": place.to_string(), "agents": agents, "lacking": lacking}));
        return;
    }
    for (subject, reason) in lacking {
        printer.warn(&format!("this gateway will leave {subject} to others: {reason}"));
    }
    printer.line(format!("this home uses the database at {place}, with {} agents", config.agents.len()));
    if config.engines.iter().any(|engine| !engine.name.is_local()) {
        printer.say(
            "each home has images of its own; make them in the engines of the configuration: flock init",
        );
    }
    printer.say("have its gateway take some of them: flock start");
}
