//! Helpers shared by the tests of this module.

use std::path::PathBuf;

use crate::config::{Agent, CommandPolicy, DockerSettings, Role, SandboxMode, SkillsMode};

/// Returns the configuration of a worker agent with this id.
pub(crate) fn agent(id: &str, workspace: PathBuf) -> Agent {
    Agent {
        id: id.parse().unwrap(),
        role: Role::Worker,
        archetype: None,
        runtime: "native".to_owned(),
        on_host: false,
        model: None,
        effort: None,
        fallbacks: Vec::new(),
        identity: workspace.with_file_name("identity"),
        workspace,
        sandbox: SandboxMode::All,
        autonomy: crate::config::Autonomy::Supervised,
        allow: Vec::new(),
        profile: None,
        deny: Vec::new(),
        network: crate::config::Network::None,
        egress: Vec::new(),
        docker: DockerSettings::default(),
        policy: CommandPolicy::default(),
        persona: None,
        skills: SkillsMode::Compact,
        language: None,
    }
}
