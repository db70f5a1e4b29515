//! The home, its configuration, and the models its agents use.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;

use super::super::openclaw as bundled;
use super::check::Check;
use crate::cli::programs;
use crate::config::{self, Agent, Config};
use crate::error::{Explain as _, chain};
use crate::home::{Home, version};
use crate::id::ModelRef;
use crate::provider::catalog::Catalog;
use crate::provider::{effort, price};

/// The folder: made by `init`, of a format this flock writes, closed to others.
pub fn home(home: &Home) -> Check {
    const NAME: &str = "home";
    let root = home.root().display();
    if let Err(error) = home.require().and_then(|()| version::check_writable(home)) {
        return Check::failed(NAME, error.into());
    }
    if let Some((missing, _)) = home.folders().into_iter().find(|(folder, _)| !folder.is_dir()) {
        return Check::bad(NAME, format!("{} is missing", missing.display()), "flock init");
    }
    for closed in [home.root().to_owned(), home.secrets(), home.data()] {
        let mode = fs_err::metadata(&closed).map_or(0, |meta| meta.mode());
        if mode & 0o077 != 0 {
            let text = format!("others can look into {}", closed.display());
            return Check::bad(NAME, text, format!("chmod 700 {}", closed.display()));
        }
    }
    Check::ok(NAME, format!("{root}, format {}", crate::home::FORMAT))
}

/// The configuration, which could be read.
pub fn config(home: &Home, config: &Config) -> Check {
    const NAME: &str = "config";
    let path = home.config();
    if fs_err::metadata(&path).is_ok_and(|meta| meta.mode() & 0o077 != 0) {
        let text = format!("others can read the owner's token in {}", path.display());
        return Check::bad(NAME, text, format!("chmod 600 {}", path.display()));
    }
    let agents = config.agents.len();
    Check::ok(NAME, format!("{} with {agents} agents", path.display()))
}

/// Settings that have no effect yet.
pub fn unused(home: &Home) -> Vec<Check> {
    let Ok((_, document)) = config::file::read_document(home) else { return Vec::new() };
    let warn = |path: String| {
        Check::warn("config", config::unused::warning(&path), format!("flock config unset {path}"))
    };
    config::unused::settings(&document).into_iter().map(warn).collect()
}

/// What stands in the way of the agents on OpenClaw, if there are any.
pub async fn openclaw(home: &Home, config: &Config) -> Vec<Check> {
    const NAME: &str = "openclaw";
    let agents = crate::openclaw::agents(config).count();
    let mut checks: Vec<Check> = Vec::new();
    for trouble in bundled::troubles(home, config).await {
        let make = if trouble.breaks { Check::bad } else { Check::warn };
        checks.push(make(NAME, trouble.text, trouble.mend));
    }
    if agents > 0 && checks.is_empty() {
        checks.push(Check::ok(NAME, format!("{agents} agents; their configuration can be derived")));
    }
    checks
}

/// What stands in the way of the agents that programs run, and the programs that are there.
pub async fn programs(config: Option<&Config>) -> Vec<Check> {
    const NAME: &str = "programs";
    let mut checks = Vec::new();
    if let Some(config) = config {
        checks.extend(programs::troubles(config).await.into_iter().map(|(breaks, text, mend)| {
            if breaks { Check::bad(NAME, text, mend) } else { Check::warn(NAME, text, mend) }
        }));
    }
    let installed: Vec<String> = programs::installed().await.iter().map(programs::Installed::label).collect();
    if !installed.is_empty() {
        checks.push(Check::ok(NAME, format!("found {}", installed.join(", "))));
    }
    checks
}

/// Models that no budget in money limits, because nobody knows what they cost.
pub fn unbound(config: &Config) -> Vec<Check> {
    let warn = |model: ModelRef| {
        let set = format!("flock config set models.providers.{}.models JSON", model.provider());
        Check::warn("budgets", price::unbound_warning(&model), set)
    };
    price::unbound(config).into_iter().map(warn).collect()
}

/// Agents whose effort a model of theirs can't be told.
pub fn idle_effort(config: &Config) -> Vec<Check> {
    let warn = |text: String| Check::warn("effort", text, "flock config get agents");
    effort::warnings(config).into_iter().map(warn).collect()
}

/// Whether each model in use could be asked. Nothing is sent to a provider.
pub fn models(home: &Home, config: &Config) -> Vec<Check> {
    const NAME: &str = "model";
    let catalog = Catalog::new(home.clone());
    let mut seen = HashSet::new();
    let mut checks = Vec::new();
    for agent in &config.agents {
        if agent.model.is_none() {
            let set = format!("flock config set agents.list[{}].model.primary PROVIDER/MODEL", agent.id);
            checks.push(Check::bad(NAME, format!("agent {} has no model", agent.id), set));
        }
    }
    // A program on the host may have a login of its own.
    let asked: Vec<&Agent> = config.agents.iter().filter(|agent| !programs::has_own_login(agent)).collect();
    let firsts: HashSet<&ModelRef> = asked.iter().filter_map(|agent| agent.model.as_ref()).collect();
    for model in asked.into_iter().flat_map(Agent::models) {
        if !seen.insert(model) {
            continue;
        }
        checks.push(match catalog.describe(model, config) {
            Err(error) if firsts.contains(model) => Check::failed(NAME, error.into()),
            Err(error) => {
                let hint = error.hint().unwrap_or_default();
                Check::warn(NAME, format!("a fallback can't answer: {}", chain(&error)), hint)
            }
            Ok(()) if model.is_script() => {
                Check::ok(NAME, format!("{model} ({})", crate::provider::script::LABEL))
            }
            Ok(()) => Check::ok(NAME, format!("{model} is configured; it was not asked")),
        });
    }
    checks
}
