//! The things that this gateway lacks to take care of something. In a group each gateway has secrets and programs of its own, so one may
//! be able to run an agent that another one can't.

use std::collections::BTreeMap;

use crate::config::bridges::BridgeSecret;
use crate::config::{Agent, Config, EngineAddress, EngineSettings, McpServer, secret};
use crate::error::{Explain as _, chain};
use crate::home::{Home, elsewhere};
use crate::id::ModelRef;
use crate::install::versions;
use crate::mcp::installed_problem;
use crate::openclaw::plugin;
use crate::provider::Catalog;
use crate::runtime::NATIVE;
use crate::sandbox::engine_route::CertificateFile;
use crate::sandbox::kubernetes::access::ClusterAccess;
use crate::store::{LeaseKind, LeaseSubject};

/// Returns the subjects that this gateway can't take care of, each with the reason. The engines of agents are not among the
/// reasons: which of them this gateway reaches is in [`super::engine_contact`].
pub(crate) fn lacking(home: &Home, config: &Config, catalog: &Catalog) -> BTreeMap<LeaseSubject, String> {
    let mut looked = Looked::default();
    let mut found = BTreeMap::new();
    for agent in &config.agents {
        if let Some(reason) = of_agent(home, config, catalog, agent, &mut looked) {
            found.insert(LeaseSubject::agent(&agent.id), reason);
        }
    }
    for bridge in &config.bridges {
        let name = BridgeSecret::Token.name(&bridge.name);
        // A token that stands in the configuration itself is there for every gateway.
        if !bridge.has_literal_token && !has_secret(home, &name) {
            let reason = format!("the secret {name} is not in {}", home.secrets().display());
            found.insert(LeaseSubject::new(LeaseKind::Bridge, &bridge.name), reason);
        }
    }
    for server in config.mcp_servers.iter().filter(|server| server.remote.is_none()) {
        if let Some(reason) = of_server(home, server) {
            found.insert(LeaseSubject::server(&server.name), reason);
        }
    }
    found
}

/// Returns the same with the agents whose engines need secrets that are not here. This gateway leaves such an agent to others
/// as long as one of them reaches the engine.
pub(crate) fn lacking_with_engines(
    home: &Home,
    config: &Config,
    catalog: &Catalog,
) -> BTreeMap<LeaseSubject, String> {
    let mut found = lacking(home, config, catalog);
    if config.engines.iter().any(EngineSettings::is_remote) {
        let lack = |agent: &Agent| Some((LeaseSubject::agent(&agent.id), of_engine(home, config, agent)?));
        found.extend(config.agents.iter().filter_map(lack));
    }
    found
}

fn of_server(home: &Home, server: &McpServer) -> Option<String> {
    if let Some(name) = server.secrets.values().find(|name| !has_secret(home, name)) {
        return Some(format!("the secret {name} is not in {}", home.secrets().display()));
    }
    installed_problem(home, server, false)
}

/// Returns the reason why the engine that has the agent's workspace can't be reached from here, as far as secrets tell.
fn of_engine(home: &Home, config: &Config, agent: &Agent) -> Option<String> {
    let name = elsewhere::engine_of(&agent.workspace)?;
    let engine = config.engines.iter().find(|engine| engine.name == name)?;
    match engine.address.as_ref()?.parse().ok()? {
        EngineAddress::Cluster(_) => (!has_secret(home, &ClusterAccess::secret(&name)))
            .then(|| format!("the access to the cluster {name} is not here: flock engine renew {name}")),
        EngineAddress::Tls(_) => {
            let has_all = CertificateFile::ALL.iter().all(|file| has_secret(home, &file.secret(&name)));
            (!has_all).then(|| {
                format!(
                    "the certificates for the engine {name} are not here: \
                     flock engine renew {name} --ca CA.pem --cert CERT.pem --key KEY.pem"
                )
            })
        }
        // The keys and settings of `ssh` are not flock's.
        EngineAddress::Socket(_) | EngineAddress::Ssh(_) => None,
    }
}

/// Returns `true` if this home has the secret and can read it.
fn has_secret(home: &Home, name: &str) -> bool {
    secret::get(home, name).is_ok_and(|value| value.is_some())
}

/// The results that many agents share.
#[derive(Default)]
struct Looked<'c> {
    /// The reasons why models can't be asked, by their names.
    models: BTreeMap<&'c str, Option<String>>,
    has_openclaw: Option<bool>,
}

fn of_agent<'c>(
    home: &Home,
    config: &'c Config,
    catalog: &Catalog,
    agent: &'c Agent,
    looked: &mut Looked<'c>,
) -> Option<String> {
    if agent.runtime == plugin::RUNTIME {
        let is_there = *looked.has_openclaw.get_or_insert_with(|| versions::current(home).is_some());
        return (!is_there).then(|| "OpenClaw is not installed here".to_owned());
    }
    // Agent programs sign in in several ways. One that can't says so when it runs.
    if agent.runtime != NATIVE {
        return None;
    }
    // Without a model, a turn fails on every gateway in the same way.
    let wanted: Vec<&ModelRef> = agent.model.iter().chain(&agent.fallbacks).collect();
    let mut first = None;
    for model in wanted {
        let lack = looked.models.entry(model.as_str()).or_insert_with(|| {
            let error = catalog.describe(model, config).err()?;
            let hint = error.hint().map(|hint| format!(": {hint}")).unwrap_or_default();
            Some(format!("{}{hint}", chain(&error)))
        });
        let Some(lack) = lack else { return None };
        first.get_or_insert_with(|| lack.clone());
    }
    first
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::home::elsewhere::Mark;
    use crate::id::EngineName;

    #[test]
    fn a_gateway_without_the_secrets_of_an_engine_leaves_its_agents_to_others_that_reach_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let worker = |id: &str| json!({"id": id, "role": "worker"});
        let document = json!({
            "gateway": {"auth": {"token": "t"}},
            "plugins": {"entries": {"flock": {"config": {
                "gatewayAgents": [worker("ada"), worker("bob"), worker("cat"), worker("dan")],
                "engines": {
                    "cluster": {"address": "k8s://work/flock", "image": "flock:1"},
                    "shell": {"address": "ssh://far.example"},
                    "tls": {"address": "tcp://far.example"},
                },
            }}}},
        });
        let config = crate::config::parse::config(&document, &home).unwrap();
        std::fs::create_dir_all(home.workspaces()).unwrap();
        let engines = ["cluster", "tls", "shell"].map(|engine| engine.parse::<EngineName>().unwrap());
        for (agent, engine) in config.agents.iter().zip(&engines) {
            elsewhere::mark(&agent.workspace, &Mark::new(engine, &agent.id)).unwrap();
        }
        let catalog = Catalog::new(home.clone());
        let left = || {
            let found = lacking_with_engines(&home, &config, &catalog);
            found.keys().map(|subject| subject.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(left(), ["ada", "bob"]);
        // One of them has to take such an agent, even if none of them has the secrets.
        assert!(lacking(&home, &config, &catalog).is_empty());
        let [cluster, tls, _] = &engines;
        secret::set(&home, &ClusterAccess::secret(cluster), "{}").unwrap();
        assert_eq!(left(), ["bob"]);
        for file in CertificateFile::ALL {
            assert_eq!(left(), ["bob"]);
            secret::set(&home, &file.secret(tls), "x").unwrap();
        }
        assert!(left().is_empty());
    }
}
