//! Provides the grants of agents to the egress proxy and to the code that creates containers. Both ask each time. The
//! rules for the proxy are cached until something changes, because a connection must not cost a database query.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::egress_audit::ConnectionCounts;
use crate::clock::unix_ms;
use crate::config::{Config, Network};
use crate::error::chain;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::egress::{ConfiguredEgress, ConnectionRecord, EgressPolicy, EgressRule};
use crate::sandbox::mount::{ApprovedMount, MountSource};
use crate::swarm::Swarm;
use crate::sync::lock;

/// The grants of a team's agents.
pub(crate) struct TeamGrants {
    swarm: Arc<Swarm>,
    configured: ConfiguredEgress,
    known: Mutex<HashMap<AgentId, CachedRules>>,
    tally: Mutex<ConnectionCounts>,
}

impl TeamGrants {
    /// Returns the grants of this team.
    #[must_use]
    pub(crate) fn new(swarm: Arc<Swarm>) -> Arc<Self> {
        let configured = Arc::clone(&swarm);
        Arc::new(Self {
            swarm,
            configured: ConfiguredEgress(Arc::new(move || configured.config())),
            known: Mutex::default(),
            tally: Mutex::default(),
        })
    }

    /// Writes the connections into the audit, once a minute and when `stop` is cancelled.
    pub(crate) async fn record(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(AUDIT_INTERVAL)).await.is_some() {
            self.write_audit().await;
        }
        self.write_audit().await;
    }

    /// Writes the connections since the last call into the audit.
    pub(crate) async fn write_audit(&self) {
        let entries = lock(&self.tally).take();
        if entries.is_empty() {
            return;
        }
        if let Err(error) = self.swarm.store().audit().append_all(entries, unix_ms()).await {
            tracing::error!(error = chain(&error), "failed to write connections into the audit");
        }
    }

    /// Returns a function that looks up the mounts that an agent was granted.
    #[must_use]
    pub(crate) fn mounts(self: &Arc<Self>) -> MountSource {
        let granted = Arc::clone(self);
        Arc::new(move |agent| {
            let swarm = Arc::clone(&granted.swarm);
            Box::pin(async move {
                // If the grants can't be read, no mount is allowed.
                swarm.granted_mounts(&agent).await.unwrap_or_else(|error| {
                    tracing::error!(
                        %agent,
                        error = chain(&error),
                        "failed to read the granted mounts, so none is allowed"
                    );
                    Vec::<ApprovedMount>::new()
                })
            })
        })
    }

    /// Returns the rules of the configuration and the grants.
    async fn current_rules(&self, agent: &AgentId) -> Vec<EgressRule> {
        let config = self.swarm.config();
        // The configuration has priority over every grant.
        if config.agent(agent).is_none_or(|agent| agent.network != Network::Proxy) {
            return Vec::new();
        }
        // The version is read before the grants. A grant that is added in between is then seen the next time.
        let version = self.swarm.store().grants().version();
        let current = lock(&self.known).get(agent).and_then(|known| known.rules_if_current(&config, version));
        if let Some(rules) = current {
            return rules;
        }
        match self.swarm.egress_rules(agent).await {
            Ok(rules) => {
                // A rule that can't be parsed allows nothing.
                let rules: Vec<EgressRule> = rules.iter().filter_map(|rule| rule.parse().ok()).collect();
                let rules_now = CachedRules { config, version, read: Instant::now(), rules: rules.clone() };
                // Of two reads at the same time an older one may be kept. Its version shows that, so it is not used.
                lock(&self.known).insert(agent.clone(), rules_now);
                rules
            }
            Err(error) => {
                tracing::error!(%agent, error = chain(&error), "failed to read the granted hosts");
                self.configured.rules(agent).await
            }
        }
    }
}

impl EgressPolicy for TeamGrants {
    fn rules<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>> {
        Box::pin(self.current_rules(agent))
    }

    fn note(&self, agent: &AgentId, connection: &ConnectionRecord) {
        self.configured.note(agent, connection);
        lock(&self.tally).add(agent, connection);
    }
}

/// The rules of an agent at the time of the last read.
struct CachedRules {
    config: Arc<Config>,
    version: u64,
    read: Instant,
    rules: Vec<EgressRule>,
}

impl CachedRules {
    /// Returns the rules if nothing has changed since.
    fn rules_if_current(&self, config: &Arc<Config>, version: u64) -> Option<Vec<EgressRule>> {
        let holds = Arc::ptr_eq(&self.config, config)
            && self.version == version
            && self.read.elapsed() < CACHE_LIFETIME;
        holds.then(|| self.rules.clone())
    }
}

/// Longest time for which cached rules count. The limit covers changes that this process did not make: the command line
/// may have revoked a grant while the gateway was starting.
const CACHE_LIFETIME: Duration = Duration::from_secs(10);
/// Interval for which connections are counted together.
const AUDIT_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sandbox::egress::{ConnectionOutcome, Host};
    use crate::store::{Along, Level, NewRequest, RequestState, RequestStep, Scope, Store};
    use crate::swarm::Actor;
    use crate::swarm::testing::Team;
    use crate::swarm::triage::{FiledRequest, Request};

    /// Returns a team in which `coder` may use the network through the proxy, and its grants.
    fn granted() -> (Team, Arc<TeamGrants>) {
        let team = Team::new();
        crate::config::edit(team.swarm.home(), |document| {
            let agents = &mut document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
            for agent in agents.as_array_mut().into_iter().flatten() {
                agent["network"] = json!("proxy");
            }
            Ok::<_, crate::config::ConfigError>(())
        })
        .unwrap();
        let granted = TeamGrants::new(team.swarm.clone());
        (team, granted)
    }

    async fn grant(store: &Store, id: &str, host: &str) {
        let agent: AgentId = "coder".parse().unwrap();
        let request = Request::Egress { host: host.to_owned(), port: None };
        let new = NewRequest {
            id: id.to_owned(),
            kind: "egress",
            agent: agent.clone(),
            session: "agent:coder:flock:main:ann".parse().unwrap(),
            channel: None,
            body: FiledRequest { agent, request }.body(),
            reason: "x".to_owned(),
            floor: Level::Yellow,
            why: Vec::new(),
            state: RequestState::Triage,
            scope: Scope::Agent,
            asks_sysadmin: false,
            expires_at: i64::MAX,
            exchange: None,
            now: 1,
        };
        let entry = || Actor::system().entry("test", id, Level::Green, String::new());
        assert!(store.requests().add(new, Along::audit(entry())).await.unwrap());
        store.requests().begin(id.to_owned(), entry(), 2).await.unwrap();
        store
            .requests()
            .step(id.to_owned(), RequestStep::Finish, None, Along::audit(entry()), 3)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_grant_counts_at_once_and_is_gone_at_once_without_a_look_for_each_connection() {
        let (team, granted) = granted();
        let coder: AgentId = "coder".parse().unwrap();
        assert_eq!(granted.rules(&coder).await, []);
        grant(&team.store, "r-1", "a.example").await;
        let allows = async |host: &str| {
            let host = Host::Name(host.to_owned());
            granted.rules(&coder).await.iter().any(|rule| rule.allows(&host, 443))
        };
        assert!(allows("a.example").await);
        // This grant is made behind this process's back. The cache does not show it, so nothing was read again.
        let other = Store::open(team.swarm.home()).unwrap();
        grant(&other, "r-2", "b.example").await;
        assert!(!allows("b.example").await);
        let entry = Actor::system().entry("request.revoke", "r-1", Level::Yellow, String::new());
        team.store.grants().revoke(coder.clone(), Some("r-1".to_owned()), entry, 4).await.unwrap();
        assert!(!allows("a.example").await && allows("b.example").await);
        crate::config::edit(team.swarm.home(), |document| {
            let agents = &mut document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
            for agent in agents.as_array_mut().into_iter().flatten() {
                agent["network"] = json!("none");
            }
            Ok::<_, crate::config::ConfigError>(())
        })
        .unwrap();
        assert!(!allows("b.example").await, "the configuration goes before all that was granted");
    }

    #[tokio::test]
    async fn connections_are_in_the_audit_as_one_row_for_each_place() {
        let (team, granted) = granted();
        let coder: AgentId = "coder".parse().unwrap();
        let connection = ConnectionRecord {
            host: Host::Name("a.example".to_owned()),
            port: 443,
            fate: ConnectionOutcome::Connected,
            sent: 1,
            received: 2,
            took: Duration::ZERO,
        };
        for _ in 0..100 {
            granted.note(&coder, &connection);
        }
        granted.write_audit().await;
        granted.write_audit().await;
        let rows = team.store.audit().rows_about("egress").await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((rows[0].actor.as_str(), rows[0].subject.as_str()), ("coder", "a.example:443"));
        assert!(rows[0].detail.starts_with("100 connected"), "{}", rows[0].detail);
    }
}
