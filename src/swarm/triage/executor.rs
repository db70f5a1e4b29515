//! Carries out granted requests. The caller has marked the row as running in the same transaction that checked it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::execution::{self, Execution};
use super::host_command;
use super::request::{FiledRequest, PackageAction, Request, mounted_at};
use crate::config::agents::{self, NewAgent};
use crate::config::{self, Live, Role};
use crate::error::chain;
use crate::generation::Origin;
use crate::home::scratch::ScratchDir;
use crate::id::AgentId;
use crate::nix_store;
use crate::provider::BoxFuture;
use crate::sandbox::Sandbox;
use crate::swarm::new_agent;

/// The executor of requests.
pub trait Executor: Send + Sync + 'static {
    /// Carries out a request to its end. A command or the installation of a package ends early when cancelled. Returns
    /// the text for the agent, or the reason of the failure.
    fn carry_out<'a>(
        &'a self,
        asked: &'a FiledRequest,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, String>>;
}

/// Makes links of channels with other platforms. The bridges implement it, because only they know the platforms.
pub(crate) trait ChannelLinker: Send + Sync + 'static {
    /// Makes the link of a request. Returns the text for the agent, or the reason of the failure.
    fn link<'a>(&'a self, asked: &'a FiledRequest) -> BoxFuture<'a, Result<String, String>>;
}

/// Takes over the changed definitions of granted tools. The gateway implements it, because only it knows the servers.
pub(crate) trait ToolDefinitions: Send + Sync + 'static {
    /// Takes over the definition of a request, if the server's is still this one. Returns the text for the agent, or the
    /// reason of the failure.
    fn accept<'a>(&'a self, asked: &'a FiledRequest) -> BoxFuture<'a, Result<String, String>>;
}

/// Carries out requests on this machine.
pub(crate) struct HostExecutor {
    /// The live configuration, which includes the home.
    pub live: Arc<Live>,
    pub packages: Arc<nix_store::PackageStores>,
    pub sandbox: Arc<dyn Sandbox>,
    pub links: Arc<dyn ChannelLinker>,
    pub definitions: Arc<dyn ToolDefinitions>,
}

impl Executor for HostExecutor {
    fn carry_out<'a>(
        &'a self,
        asked: &'a FiledRequest,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let agent = &asked.agent;
            match &asked.request {
                Request::Package { action, package, .. } => {
                    self.package(agent, *action, package, cancel).await
                }
                // Nothing to do: the proxy and the sandbox look up the grant in the database.
                Request::Egress { .. } => Ok("you can reach it through the proxy now".to_owned()),
                Request::Mount { path, target } => {
                    let target = target.clone().unwrap_or_else(|| mounted_at(path));
                    Ok(format!("from your next command on it is at {target}, read-only"))
                }
                Request::Command { execution: None, .. } => Err(execution::OUTDATED_REASON.to_owned()),
                Request::Command { command, timeout, execution: Some(execution) } => {
                    self.command(command, *timeout, execution, cancel).await
                }
                Request::AgentCreate { id, archetype, model } => {
                    let new = NewAgent {
                        archetype: archetype.as_ref().map(ToString::to_string),
                        model: model.clone(),
                        ..NewAgent::new(id.clone(), Role::Worker)
                    };
                    self.create(new).await
                }
                Request::AgentRemove { id } => self.remove(id).await,
                Request::BridgeLink { .. } => self.links.link(asked).await,
                Request::McpTool { .. } => self.definitions.accept(asked).await,
                // Passed on by the part that waits for the answer.
                Request::McpQuestion { .. } => Err("nobody waits for the answer".to_owned()),
                // The team itself carries these out.
                Request::Schedule { .. } => Err("a schedule is added by the gateway".to_owned()),
                Request::Other { .. } => {
                    Ok("a person agreed; flock runs nothing for such a request".to_owned())
                }
            }
        })
    }
}

impl HostExecutor {
    async fn package(
        &self,
        agent: &AgentId,
        action: PackageAction,
        package: &str,
        cancel: &CancellationToken,
    ) -> Result<String, String> {
        let quiet = |_: &str| {};
        let failed = |error: nix_store::NixError| match error {
            // Nix changes a profile atomically, so a cancelled installation leaves nothing half installed.
            nix_store::NixError::Cancelled { .. } => {
                "stopped: you were frozen, or the gateway stopped; your profile is unchanged".to_owned()
            }
            error => chain(&error),
        };
        match (action, package.parse::<nix_store::Attribute>()) {
            // A plain name is an attribute of the pinned set. Anything else is a reference to another flake.
            (PackageAction::Install, Ok(attribute)) => {
                let new = self
                    .store(agent)
                    .await?
                    .install(agent, &[attribute], cancel, &quiet)
                    .await
                    .map_err(failed)?;
                Ok(match new.is_empty() {
                    true => format!("you have {package} already"),
                    false => format!("{package} is installed and on your PATH"),
                })
            }
            (PackageAction::Install, Err(_)) => {
                self.store(agent)
                    .await?
                    .install_reference(agent, package, cancel, &quiet)
                    .await
                    .map_err(failed)?;
                Ok(format!("{package} is installed and on your PATH"))
            }
            (PackageAction::Remove, Ok(attribute)) => {
                match self.store(agent).await?.uninstall(agent, &[attribute]).await {
                    Err(nix_store::NixError::NotInstalled { .. }) => {
                        // The package is absent, which is what was asked for.
                        return Ok(format!("{package} was not installed"));
                    }
                    other => other.map_err(failed)?,
                }
                Ok(format!("{package} is removed"))
            }
            (PackageAction::Remove, Err(error)) => Err(chain(&error)),
        }
    }

    /// Returns the package store that an agent's sandbox reads.
    async fn store(&self, agent: &AgentId) -> Result<Arc<nix_store::PackageStore>, String> {
        self.packages.of(agent).await.map_err(|error| chain(&error))
    }

    /// Runs a command in a new folder, if the files that it names are still what they were at the time of the request.
    async fn command(
        &self,
        command: &str,
        timeout: Option<u32>,
        execution: &Execution,
        cancel: &CancellationToken,
    ) -> Result<String, String> {
        let broke_off = |_| "not run: a defect stopped it".to_owned();
        let name = execution.name(self.live.home())?.to_owned();
        let above = self.live.home().commands();
        let made =
            tokio::task::spawn_blocking(move || ScratchDir::make(&above, &name)).await.map_err(broke_off)?;
        let scratch = made.map_err(|error| format!("not run: {}", chain(&error)))?;
        let changed = self.changed(execution).await.map_err(broke_off)?;
        if !changed.is_empty() {
            return Err(format!(
                "not run: {} changed after this was asked for, and agents can write there; ask again, so that a person \
                 can check the new content",
                changed.join(", ")
            ));
        }
        let told = host_command::run(command, execution, timeout, cancel).await;
        // The command may have changed these files itself. A person who reads the result can tell.
        let changed = self.changed(execution).await.unwrap_or_default();
        tokio::task::spawn_blocking(move || drop(scratch)).await.map_err(broke_off)?;
        if changed.is_empty() {
            return told;
        }
        let note = format!("\nWhile it ran, {} changed.", changed.join(", "));
        told.map(|text| text + &note).map_err(|text| text + &note)
    }

    async fn changed(&self, execution: &Execution) -> Result<Vec<String>, tokio::task::JoinError> {
        let (home, config, execution) = (self.live.home().clone(), self.live.current(), execution.clone());
        tokio::task::spawn_blocking(move || execution.changed(&home, &config)).await
    }

    async fn create(&self, new: NewAgent) -> Result<String, String> {
        let id = new.id.clone();
        let most = self.live.current().max_agents;
        let made = new_agent::create(self.live.home().clone(), Some(most), new).await;
        made.map_err(|error| chain(&error))?;
        // A failure here does not undo the creation: the sandbox is made at the first command.
        match self.sandbox.ensure(&id).await {
            Ok(()) => Ok(format!("{id} is created and ready")),
            Err(error) => Ok(format!(
                "{id} is created; its sandbox could not be made yet and is made at its first command: {}",
                chain(&error)
            )),
        }
    }

    async fn remove(&self, id: &AgentId) -> Result<String, String> {
        let home = self.live.home().clone();
        let gone = id.clone();
        let origin = Origin::current();
        let edited = tokio::task::spawn_blocking(move || {
            origin.run(|| config::edit(&home, |document| agents::remove(document, &gone)))
        });
        edited.await.map_err(|_| "a defect stopped it".to_owned())?.map_err(|error| chain(&error))?;
        match self.sandbox.remove(id).await {
            Ok(()) => Ok(format!("{id} is removed; its workspace and transcripts are kept")),
            Err(error) => Ok(format!("{id} is removed; its container may still exist: {}", chain(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::home::{Home, atomic};
    use crate::sandbox::docker::ConfigSource;
    use crate::sandbox::engine::Engine;
    use crate::sandbox::engines::{Engines, PlacementRecords};
    use crate::swarm::testing::Team;
    use crate::tool::fake::FakeSandbox;

    /// Returns the package stores of a home without agents that are placed.
    fn packages(home: &Home, config: ConfigSource) -> nix_store::PackageStores {
        let records = PlacementRecords::Read(std::collections::BTreeMap::new());
        let engine = Arc::new(Engine::from_env());
        let engines = Engines::new(home.clone(), Arc::clone(&config), engine, records);
        nix_store::PackageStores::new(home.clone(), config, Arc::new(engines))
    }

    /// Refuses every link.
    struct NoLinks;

    impl ChannelLinker for NoLinks {
        fn link<'a>(&'a self, _: &'a FiledRequest) -> BoxFuture<'a, Result<String, String>> {
            Box::pin(async { Err("no links here".to_owned()) })
        }
    }

    impl ToolDefinitions for NoLinks {
        fn accept<'a>(&'a self, _: &'a FiledRequest) -> BoxFuture<'a, Result<String, String>> {
            Box::pin(async { Err("no servers here".to_owned()) })
        }
    }

    #[tokio::test]
    async fn a_refused_agent_leaves_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let mut document =
            config::starter::document(&home, Some(&"script/demo".parse().unwrap()), "token", 4000);
        document["plugins"]["entries"]["flock"]["config"]["maxAgents"] = json!(1);
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        let live = Arc::new(Live::open(home.clone()).unwrap());
        let newest = live.clone();
        let packages = packages(&home, Arc::new(move || newest.current()));
        let executor = HostExecutor {
            live,
            packages: Arc::new(packages),
            sandbox: Arc::new(FakeSandbox::default()),
            links: Arc::new(NoLinks),
            definitions: Arc::new(NoLinks),
        };
        let make = async |id: &str| {
            let request = json!({"kind": "agent-create", "id": id});
            let asked = FiledRequest {
                agent: "orchestrator".parse().unwrap(),
                request: serde_json::from_value(request).unwrap(),
            };
            executor.carry_out(&asked, &CancellationToken::new()).await
        };
        assert_eq!(make("coder").await.unwrap(), "coder is created and ready");
        let before = fs_err::read(home.config()).unwrap();
        let twice = make("coder").await.unwrap_err();
        assert!(twice.contains("coder") || twice.contains("1 agents already"), "{twice}");
        assert_eq!(make("tester").await.unwrap_err(), "there are 1 agents already");
        let id = "tester".parse().unwrap();
        assert!(!home.identity(&id).exists() && !home.workspace(&id).exists());
        assert_eq!(fs_err::read(home.config()).unwrap(), before);
    }

    #[tokio::test]
    async fn a_package_installation_can_be_cancelled() {
        let team = Team::new();
        let home = team.swarm.home().clone();
        let live = Arc::new(Live::open(home.clone()).unwrap());
        let config = || {
            let live = live.clone();
            Arc::new(move || live.current())
        };
        let executor = HostExecutor {
            live: live.clone(),
            packages: Arc::new(packages(&home, config())),
            sandbox: Arc::new(FakeSandbox::default()),
            links: Arc::new(NoLinks),
            definitions: Arc::new(NoLinks),
        };
        let cancel = CancellationToken::new();
        cancel.cancel();
        for package in ["hello", "github:a/b#c"] {
            let request =
                Request::Package { action: PackageAction::Install, package: package.to_owned(), runs: None };
            let asked = FiledRequest { agent: "coder".parse().unwrap(), request };
            let told = executor.carry_out(&asked, &cancel).await.unwrap_err();
            assert!(told.starts_with("stopped: you were frozen, or the gateway stopped"), "{told}");
        }
    }
}
