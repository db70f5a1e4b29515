//! Sandboxes that another OCI runtime than the engine's own makes.

use flock::error::Explain as _;
use flock::sandbox::{CommandExit, Sandbox as _, SandboxError};

use super::sandbox::{id, output, run};
use super::walls::{ATTACKS, PLANTS, planted};
use crate::support::docker::{self, Team};
use crate::support::extra_engine::ExtraEngine;

/// gVisor of 2022 takes the networks of newer kernels for the host's; a sandbox has none anyway.
const RUNTIMES: [(&str, &[&str]); 2] = [("crun", &[]), ("runsc", &["--network=none"])];

#[test]
fn a_sandbox_is_confined_by_crun_and_by_gvisor_too() {
    if docker::engine().is_none() {
        return;
    }
    let Some(extra) = ExtraEngine::with(&RUNTIMES) else { return };
    let Some(team) = Team::in_engine(extra.engine(), &["coder", "other"]) else { return };
    team.configure(|config| {
        config.agents[0].docker.runtime = Some("crun".to_owned());
        config.agents[1].docker.runtime = Some("runsc".to_owned());
    });
    let sandbox = team.sandbox();
    docker::block_on(async {
        for agent in ["coder", "other"] {
            sandbox.ensure(&id(agent)).await.unwrap();
            assert_eq!(output(&sandbox, agent, "echo hello > made; cat made").await, "hello");
            run(&sandbox, agent, PLANTS).await.unwrap();
            assert_eq!(planted(&team, agent), [""; 0], "{agent}");
            assert_eq!(output(&sandbox, agent, ATTACKS).await, "nothing", "{agent}");
            assert!(sandbox.probe(&id(agent)).await.unwrap().is_confined(), "{agent}");
            assert_eq!(
                run(&sandbox, agent, "echo x > /etc/passwd").await.unwrap().end,
                CommandExit::Exited(2),
                "{agent}"
            );
        }
        let mut runtimes: Vec<_> =
            sandbox.containers().await.unwrap().into_iter().filter_map(|found| found.runtime).collect();
        runtimes.sort();
        assert_eq!(runtimes, ["crun", "runsc"]);
        let release = |text: String| text.split('.').next().unwrap().to_owned();
        let inside = release(output(&sandbox, "other", "uname -r").await);
        let host = release(std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap());
        assert_ne!(inside, host, "gVisor answers itself");

        // What was chosen may change, and be nothing the engine knows.
        team.configure(|config| config.agents[0].docker.runtime = Some("kata-none".to_owned()));
        let error = sandbox.ensure(&id("coder")).await.unwrap_err();
        assert!(
            matches!(&error, SandboxError::NoRuntime { runtime, .. } if runtime == "kata-none"),
            "{}",
            flock::error::chain(&error)
        );
        assert_eq!(error.hint().as_deref(), Some("flock doctor"));
        team.configure(|config| config.agents[0].docker.runtime = None);
        assert_eq!(output(&sandbox, "coder", "cat made").await, "hello");
    });
}
