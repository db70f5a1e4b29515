//! `flock nix`: manages the packages of agents in the shared store.

use clap::Subcommand;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Context, Exit, Failure, person, team};
use crate::clock::unix_ms;
use crate::config::{self, Config};
use crate::home::Home;
use crate::id::AgentId;
use crate::nix_store::{Attribute, Flake, InstalledPackage, NixError, PackageStore, Pin, pin};
use crate::sandbox::engines::AgentPlace;
use crate::store::{self, Store};
use crate::swarm::triage::decide;
use crate::ui::Table;

/// Manage agents' packages in the shared store
///
/// A package is named by its attribute in the pinned package set, as in ripgrep or python3Packages.numpy. An installed
/// package is on the PATH of the agent's sandbox at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Install packages for an agent
    #[command(after_long_help = "Example:\n  flock nix install coder ripgrep python3Packages.numpy")]
    Install {
        /// Id of the agent
        agent: AgentId,
        /// Packages to install
        #[arg(required = true, value_name = "PACKAGE")]
        packages: Vec<Attribute>,
    },
    /// Remove packages from an agent
    Remove {
        /// Id of the agent
        agent: AgentId,
        /// Packages to remove
        #[arg(required = true, value_name = "PACKAGE")]
        packages: Vec<Attribute>,
    },
    /// List the installed packages
    List {
        /// Id of the agent [default: all agents]
        agent: Option<AgentId>,
    },
    /// Delete packages that no agent needs from the store
    Gc {
        /// Also delete generations of profiles that were replaced more than this many days ago
        ///
        /// `flock nix rollback` can't go back to them any more.
        #[arg(long, value_name = "DAYS")]
        keep_days: Option<u32>,
    },
    /// Show the pin of the package set, or move it
    ///
    /// flock evaluates and builds only content that has the hash of the pin. A folder is pinned to the content that it
    /// had when it was configured.
    Pin {
        /// Commit to pin the package set to, as in 50ab793786d9de88ee30ec4e4c24fb4236fc2674
        rev: Option<String>,
        /// Pin the package set to what its flake refers to now
        #[arg(long, conflicts_with = "rev")]
        update: bool,
    },
    /// Undo the last change of an agent's packages
    Rollback {
        /// Id of the agent
        agent: AgentId,
    },
}

/// Runs the verb below `nix`.
///
/// # Errors
///
/// Returns an error if the engine or the store does not answer, or if Nix fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    // To list packages, the container of the store is started or made anew, so that is a change as well.
    let home = match &args.verb {
        Verb::Pin { rev: None, update: false } => context.home()?,
        _ => context.writable_home()?,
    };
    let config = config::read(&home)?;
    // Showing the pin needs no engine, so it comes before the connection to one.
    if let Verb::Pin { rev, update } = &args.verb {
        return pin(&home, &config, rev.as_deref(), *update, context);
    }
    context.block_on(async {
        match &args.verb {
            Verb::Install { agent, packages } => {
                config.require_agent(agent)?;
                let store = team::store_of(&home, &config, agent).await?;
                let new = install(&store, agent, packages, context).await?;
                let names: Vec<&str> = new.iter().map(Attribute::as_str).collect();
                context.printer.result(
                    &json!({"agent": agent, "installed": names}),
                    match names.len() {
                        0 => format!("{agent} already has these packages"),
                        _ => format!("installed for {agent}: {}", names.join(", ")),
                    },
                );
            }
            Verb::Remove { agent, packages } => {
                config.require_agent(agent)?;
                team::store_of(&home, &config, agent).await?.uninstall(agent, packages).await?;
                // The package is removed first. If that fails, the agent keeps the right to it as well.
                take_back(&home, agent, packages).await?;
                let names: Vec<&str> = packages.iter().map(Attribute::as_str).collect();
                let text = format!("removed from {agent}: {}", names.join(", "));
                context.printer.result(&json!({"agent": agent, "removed": names}), text);
            }
            Verb::List { agent } => list(&home, &config, agent.as_ref(), context).await?,
            Verb::Gc { keep_days } => {
                team::engine().await?;
                let progress = context.printer.progress("removing packages that no agent needs");
                let (mut freed, mut skipped) = (Vec::new(), Vec::new());
                // Each engine has a store of its own. The machine's own, which is the first, has to answer.
                for (engine, store) in team::stores(&home, &config).all() {
                    let never = CancellationToken::new();
                    match store.gc(*keep_days, &never, &|line| progress.detail(line)).await {
                        Ok(text) => freed.push(text),
                        Err(error) if engine.is_local() => return Err(Failure::from(error)),
                        // What the others have freed is told all the same.
                        Err(error) => skipped.push((engine, Failure::from(error))),
                    }
                }
                let freed = freed.join("; ");
                progress.done("collected");
                let names: Vec<_> = skipped.iter().map(|(engine, _)| engine.clone()).collect();
                context.printer.result(&json!({"freed": freed, "skipped": names}), freed.as_str());
                let mut kind = None;
                for (engine, failure) in skipped {
                    kind.get_or_insert(failure.kind);
                    let failure =
                        failure.within(format!("the packages in the engine {engine} were left as they are"));
                    context.printer.warn(&failure.to_line_with_hint());
                }
                return Ok(kind.map_or(Exit::Done, Exit::Failed));
            }
            // This case has already returned above.
            Verb::Pin { .. } => {}
            Verb::Rollback { agent } => {
                config.require_agent(agent)?;
                team::store_of(&home, &config, agent).await?.rollback(agent).await?;
                let text = format!("{agent} has its previous packages again");
                context.printer.result(&json!({"agent": agent}), text);
            }
        }
        Ok(Exit::Done)
    })
}

/// Records that a person removed these packages, so that the agent can't get them back by a request alone.
async fn take_back(home: &Home, agent: &AgentId, packages: &[Attribute]) -> Result<(), Failure> {
    if !store::is_made(home)? {
        return Ok(());
    }
    let store = Store::open(home)?;
    Ok(decide::take_back(&store, agent, packages, &person::party(), unix_ms()).await?)
}

fn pin(
    home: &Home,
    config: &Config,
    rev: Option<&str>,
    update: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    let flake = Flake::configured(config.nix_flake.as_deref())?;
    let folder = match &flake {
        Flake::Folder(folder) => Some(folder),
        Flake::Remote(_) => None,
    };
    let before = Pin::read(home, config.nix_flake.as_deref())?;
    let pin = match (rev, folder) {
        // Without a revision and `--update` the command only shows the pin.
        (None, _) if !update => before.clone(),
        // A folder is hashed by flock itself, so pinning it needs neither the engine nor the network.
        (None, Some(folder)) => Some(Pin::folder(home, folder)?),
        _ => {
            let moved = context.block_on(async {
                let store = team::store(home, config, team::engine().await?);
                let progress = context.printer.progress("looking up the package set");
                let never = CancellationToken::new();
                let pin = store.pin(rev, &never, &|line| progress.detail(line)).await?;
                progress.done("looked up");
                Ok(pin)
            });
            Some(moved?)
        }
    };
    // Only a folder is hashed again: nothing can change the content of a pinned commit.
    let now = match (folder, &pin) {
        (Some(folder), Some(_)) => Some(pin::folder_hash(folder)?),
        _ => None,
    };
    let Some(pin) = pin else {
        return Err(NixError::NotPinned { flake: flake.reference() }.into());
    };
    let is_changed = now.as_ref().is_some_and(|now| *now != pin.nar_hash);
    // The pin may have moved even if the reference is the same, so the document says so.
    let value = json!({"flake": pin.flake, "locked": pin.locked, "narHash": pin.nar_hash, "changed": is_changed,
        "moved": before.as_ref() != Some(&pin)});
    let text = format!("packages come from {} (content hash {})", pin.locked, pin.nar_hash);
    context.printer.result(&value, text);
    if is_changed {
        context.printer.warn(&format!(
            "the content of {} has changed, so nothing is installed from it; to pin the new content: flock nix pin \
             --update",
            pin.flake
        ));
    }
    Ok(Exit::Done)
}

/// Installs packages with progress and returns those that are new.
///
/// # Errors
///
/// Returns an error if the store does not answer, or if a package can't be built or fetched.
pub(crate) async fn install(
    store: &PackageStore,
    agent: &AgentId,
    packages: &[Attribute],
    context: &Context,
) -> Result<Vec<Attribute>, Failure> {
    let progress = context.printer.progress(&format!("installing packages for {agent}"));
    // Ctrl-C ends the whole process, so nothing has to cancel this.
    let never = CancellationToken::new();
    let new = store.install(agent, packages, &never, &|line| progress.detail(line)).await?;
    progress.done(&format!("packages of {agent} installed"));
    Ok(new)
}

async fn list(
    home: &Home,
    config: &Config,
    agent: Option<&AgentId>,
    context: &Context,
) -> Result<(), Failure> {
    let agents: Vec<&AgentId> = match agent {
        Some(agent) => vec![&config.require_agent(agent)?.id],
        None => config.agents.iter().map(|agent| &agent.id).collect(),
    };
    let mut all: Vec<(&AgentId, Vec<InstalledPackage>)> = Vec::new();
    let stores = team::stores(home, config);
    for agent in agents {
        let installed = match stores.engines().place_of_id(agent).await? {
            AgentPlace::Engine(found) => stores.on(&found).installed(agent).await?,
            // It has none.
            AgentPlace::Cluster(_) => Vec::new(),
        };
        all.push((agent, installed));
    }
    let agents: Vec<Value> =
        all.iter().map(|(id, installed)| json!({"id": id, "packages": packages(installed)})).collect();
    let mut table = Table::new(&["AGENT", "PACKAGE", "FROM"]);
    for (agent, installed) in &all {
        for package in installed {
            table.row([agent.as_str(), &package.package, &package.flake]);
        }
    }
    let none = format!("no packages are installed in the store of {}", home.root().display());
    context.printer.list(&json!({"agents": agents}), &table, none);
    Ok(())
}

fn packages(installed: &[InstalledPackage]) -> Vec<Value> {
    installed
        .iter()
        .map(|package| json!({"name": package.package, "flake": package.flake, "narHash": package.nar_hash, "paths": package.store_paths}))
        .collect()
}
