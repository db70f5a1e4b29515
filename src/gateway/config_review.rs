//! Review of the configuration for people, as `flock config validate` says it.

use serde_json::Value;

use crate::config::ignored::{self, IgnoredSetting};
use crate::config::{Config, SandboxMode, ineffective};
use crate::error::to_mend;
use crate::home::Home;
use crate::provider::{Catalog, effort, price};
use crate::runtime::model_problem;
use crate::sandbox::engine::Engine;
use crate::sandbox::spec;
use crate::tool::policy;

/// Returns a text for each setting that has no effect or stands in the way of an agent.
pub(super) fn warnings(home: &Home, document: &Value, config: &Config) -> Vec<String> {
    let unread = ignored::settings(document, home);
    let mut found: Vec<String> = unread.iter().map(IgnoredSetting::text).collect();
    found.extend(ineffective::settings(document).iter().map(|path| ineffective::warning(path)));
    found.extend(price::unpriced_models(config).iter().map(price::unpriced_warning));
    found.extend(effort::warnings(config));
    let catalog = Catalog::new(home.clone());
    for agent in &config.agents {
        let problem = model_problem::of_agent(agent, config, &catalog);
        found.extend(problem.map(|problem| {
            to_mend(&format!("{} can't work: {}", agent.id, problem.message), problem.hint.as_deref())
        }));
    }
    let engine = Engine::from_env();
    for agent in &config.agents {
        let errors = policy::pattern_errors(agent);
        found.extend(errors.iter().map(|error| format!("{error} (tools of {})", agent.id)));
        // Only agents with a sandbox can be refused one.
        let refused = (agent.sandbox == SandboxMode::All).then(|| spec::check(home, agent, engine.socket()));
        found.extend(
            refused.and_then(Result::err).map(|error| format!("{error}: the agent can run no command")),
        );
    }
    found
}
