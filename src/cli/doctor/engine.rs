//! Checks of the Docker engine and of what flock keeps in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::super::team;
use super::check::{Check, CheckState};
use crate::config::{Config, EngineSettings, SandboxMode};
use crate::home::Home;
use crate::nix_store::{self, Flake, NixError, Pin};
use crate::sandbox::advisory::{self, Advisory, Component};
use crate::sandbox::engine::{Engine, Versions};
use crate::sandbox::engine_check::{self, EngineCheck};
use crate::sandbox::engines::{AgentPlace, PlacedEngine};
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::kubernetes::{cluster_check, relocation};
use crate::sandbox::workspace_volume;

/// Checks the engine. If it answers and there is a configuration, the images, the runtimes and the package store are
/// checked too.
pub(crate) async fn all(home: &Home, config: Option<&Config>) -> Vec<Check> {
    const NAME: &str = "engine";
    let engine = Engine::from_env();
    match engine.version().await {
        Err(error) => vec![Check::failed(NAME, error.into())],
        Ok(versions) => {
            let runc = versions.runc.as_ref().map_or(String::new(), |version| format!(", runc {version}"));
            let text =
                format!("Docker {}, API {}{runc}, at {}", versions.engine, versions.api, engine.endpoint());
            let mut checks = vec![Check::ok(NAME, text)];
            checks.extend(advisories(&versions));
            checks.extend(shared_user(config));
            if let Some(config) = config {
                for recipe in Recipe::ALL {
                    checks.push(check_image(&engine, home, config, recipe).await);
                }
                checks.extend(runtimes(&engine, config).await);
                let running = store(engine.clone(), home, config).await;
                // A build needs a running store.
                if running.state == CheckState::Ok {
                    checks.push(build_confinement(engine, home, config).await);
                }
                checks.push(running);
                checks.push(packages(home, config));
            }
            checks
        }
    }
}

/// Checks the engines besides the machine's own, each with a sandbox that is made in it. They are checked at the same time.
pub(crate) async fn others(home: &Home, config: &Config) -> Vec<Check> {
    let own = Arc::new(Engine::from_env());
    let others = config.engines.iter().filter(|engine| !engine.name.is_local());
    let checked = others.map(|settings| {
        let (place, own) = (AgentPlace::of(home, settings), Arc::clone(&own));
        async move {
            let (checks, is_remote) = match &place {
                AgentPlace::Engine(PlacedEngine { engine, .. }) => {
                    let checks = Box::pin(engine_check::run(home, config, settings, engine, &[own])).await;
                    (checks, engine.is_remote())
                }
                AgentPlace::Cluster(placed) => {
                    (Box::pin(cluster_check::run(home, config, settings, placed)).await, true)
                }
            };
            let is_good = checks.iter().all(|check| check.ok);
            let mut checks: Vec<_> = checks.into_iter().map(|check| of_other(settings, check)).collect();
            if is_good && is_remote {
                checks.extend(workspaces(home, &place).await);
            }
            checks
        }
    });
    futures_util::future::join_all(checked).await.into_iter().flatten().collect()
}

/// Warns of workspaces in an engine on another machine that belong to no agent, and reports those that another home has made, of
/// which this one is a copy.
async fn workspaces(home: &Home, place: &AgentPlace) -> Vec<Check> {
    const NAME: &str = "engines";
    let name = place.name();
    let unclaimed = match place {
        AgentPlace::Engine(found) => workspace_volume::unclaimed(&found.engine, home).await,
        AgentPlace::Cluster(placed) => relocation::unclaimed(placed, home).await,
    };
    let warn = |volume: String| {
        let text = format!("{name}: the volume {volume} is the workspace of no agent of this home");
        let removal = match place {
            AgentPlace::Engine(_) => format!("docker volume rm {volume}, on the machine of {name}"),
            AgentPlace::Cluster(placed) => placed.client.address().removal_of(&volume),
        };
        Check::warn(NAME, text, removal)
    };
    let mut checks: Vec<Check> = match unclaimed {
        Ok(found) => found.into_iter().map(warn).collect(),
        Err(error) => vec![Check::failed(NAME, error.into())],
    };
    // A mark that can't be read is reported with the volumes that no mark has.
    for (agent, mark) in workspace_volume::marks(home).unwrap_or_default() {
        if mark.engine == *name
            && let Some(error) = place.refusal(home, &agent, &mark).await.unwrap_or_else(Some)
        {
            checks.push(Check::failed(NAME, error.into()));
        }
    }
    checks
}

fn of_other(settings: &EngineSettings, check: EngineCheck) -> Check {
    const NAME: &str = "engines";
    let name = &settings.name;
    let text = format!("{name}, {}: {}", check.name, check.message);
    if check.ok {
        return Check::ok(NAME, text);
    }
    let text = match settings.lost_after_minutes() {
        Some(minutes) if check.name == "engine" => {
            format!("{text}; after {minutes} minutes of silence its agents are placed elsewhere")
        }
        _ => text,
    };
    Check::bad(NAME, text, check.hint.unwrap_or_else(|| format!("flock engine show {name}")))
}

/// Warns of known container escapes that these versions may still have.
fn advisories(versions: &Versions) -> Vec<Check> {
    let parts = [(Component::Engine, Some(&versions.engine)), (Component::Runc, versions.runc.as_ref())];
    let open = parts.into_iter().filter_map(|(part, version)| Some((part, version?)));
    open.flat_map(|(part, version)| {
        advisory::open(part, version).map(move |known| warn(part, version, known))
    })
    .collect()
}

fn warn(part: Component, version: &str, known: &Advisory) -> Check {
    let text = format!(
        "{part} {version} may be vulnerable to {} of {}: {}. A distribution may have corrected it in this version; \
         {} (looked up {})",
        known.names,
        known.published,
        known.allows,
        known.source,
        advisory::LAST_CHECKED
    );
    // The names of Debian's packages, which are also those in `apt-get changelog`.
    let package = match part {
        Component::Engine => "docker.io",
        Component::Runc => "runc",
    };
    // One of several names is enough to find the entry in a changelog.
    let first = known.names.split(',').next().unwrap_or_default();
    let mend = format!(
        "install {part} {}, or check that the output of apt-get changelog {package} contains {first}",
        known.fixed()
    );
    Check::warn("engine", text, mend)
}

/// Warns if several sandboxes share one user: the kernel then counts its limits for all of them together.
fn shared_user(config: Option<&Config>) -> Option<Check> {
    let several = config.is_some_and(|config| {
        config.agents.iter().filter(|agent| agent.sandbox == SandboxMode::All).count() > 1
    });
    let user = nix::unistd::Uid::effective();
    (several && !user.is_root()).then(|| {
        let text = format!(
            "all sandboxes run as this user ({user}), so one agent can use up a kernel limit per user, such as \
             inotify watches, for all agents; each agent gets a user of its own only if flock runs as root"
        );
        Check::warn("users", text, "sudo sysctl fs.inotify.max_user_instances=1024")
    })
}

/// Checks the OCI runtimes that agents are configured to use.
async fn runtimes(engine: &Engine, config: &Config) -> Vec<Check> {
    let sandboxed = config.agents.iter().filter(|agent| agent.sandbox == SandboxMode::All);
    let mut wanted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for agent in sandboxed {
        if let Some(runtime) = &agent.docker.runtime {
            wanted.entry(runtime).or_default().push(agent.id.as_str());
        }
    }
    if wanted.is_empty() {
        return Vec::new();
    }
    // The engine is asked once for all agents.
    let known = match engine.runtimes().await {
        Ok(known) => known,
        Err(error) => return vec![Check::failed("runtime", error.into())],
    };
    wanted.iter().map(|(runtime, agents)| check_runtime(runtime, &agents.join(", "), &known)).collect()
}

/// Checks one runtime against those that the engine knows. `known` maps a name to its program, if the engine named one.
fn check_runtime(runtime: &str, agents: &str, known: &BTreeMap<String, Option<String>>) -> Check {
    const NAME: &str = "runtime";
    match known.get(runtime) {
        // A name of containerd's own kind, such as `io.containerd.runsc.v1`, need not be registered.
        None if !runtime.starts_with("io.containerd.") => {
            let known: Vec<&str> = known.keys().map(String::as_str).collect();
            let text = format!(
                "the engine has no runtime {runtime:?}, which is configured for {agents}; it has {}",
                known.join(", ")
            );
            let mend = format!("register {runtime} in /etc/docker/daemon.json and restart Docker");
            Check::bad(NAME, text, mend)
        }
        found => {
            let program = found.and_then(Option::as_deref).unwrap_or_default();
            // A name without a slash is looked up by the engine on its own PATH, which flock can't see.
            if program.starts_with('/') && !Path::new(program).exists() {
                let text = format!("the program of {runtime}, which runs {agents}, is missing: {program}");
                return Check::bad(NAME, text, format!("install {runtime}"));
            }
            Check::ok(NAME, format!("{runtime} runs {agents}"))
        }
    }
}

async fn check_image(engine: &Engine, home: &Home, config: &Config, recipe: Recipe) -> Check {
    const NAME: &str = "image";
    let reference = image::reference(home, config, recipe);
    match image::id(engine, &reference).await {
        Ok(Some(_)) => Check::ok(NAME, reference),
        Ok(None) => Check::warn(NAME, format!("{reference} is not there yet"), "flock init"),
        Err(error) => Check::failed(NAME, error.into()),
    }
}

/// Checks by a real build that package builds are confined. Reading the settings alone would not prove it.
async fn build_confinement(engine: Engine, home: &Home, config: &Config) -> Check {
    const NAME: &str = "builds";
    match team::store(home, config, Arc::new(engine)).probe_builds().await {
        Ok(()) => Check::ok(NAME, format!("a package is {}", nix_store::confinement())),
        Err(error) => Check::failed(NAME, error.into()),
    }
}

/// Checks that the package set is pinned, and that a pinned folder still has the same content.
fn packages(home: &Home, config: &Config) -> Check {
    const NAME: &str = "packages";
    let configured = config.nix_flake.as_deref();
    let looked = || -> Result<(Option<Pin>, bool), NixError> {
        let pin = Pin::read(home, configured)?;
        let changed = match (Flake::configured(configured)?, &pin) {
            // Only a folder can change under its pin. A remote flake is pinned to a revision.
            (Flake::Folder(folder), Some(pin)) => nix_store::pin::folder_hash(&folder)? != pin.nar_hash,
            _ => false,
        };
        Ok((pin, changed))
    };
    match looked() {
        Ok((Some(pin), false)) => Check::ok(NAME, format!("from {} ({})", pin.locked, pin.nar_hash)),
        Ok((Some(pin), true)) => {
            let text = format!("the content of {} differs from the pinned content", pin.flake);
            Check::warn(NAME, text, "flock nix pin --update")
        }
        Ok((None, _)) => {
            Check::warn(NAME, "the package set is not pinned".to_owned(), "flock nix pin --update")
        }
        Err(error) => Check::failed(NAME, error.into()),
    }
}

async fn store(engine: Engine, home: &Home, config: &Config) -> Check {
    const NAME: &str = "store";
    match team::store(home, config, Arc::new(engine)).state().await {
        Ok(found) if found.state == "running" => Check::ok(NAME, format!("{} runs", found.container)),
        Ok(found) => Check::warn(NAME, format!("{} is {}", found.container, found.state), "flock init"),
        Err(error) => Check::failed(NAME, error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vulnerable_version_is_reported_with_source_and_fix() {
        let told = |engine: &str, runc: Option<&str>| {
            advisories(&Versions {
                engine: engine.to_owned(),
                api: "1.50".to_owned(),
                runc: runc.map(str::to_owned),
                is_podman: false,
            })
        };
        let warned = told("20.10.24+dfsg1", Some("1.3.2"));
        assert_eq!(warned.len(), 2, "one for each part");
        for (check, [text, source, mend]) in warned.iter().zip([
            [
                "Docker 20.10.24+dfsg1 may be vulnerable to CVE-2024-23652, CVE-2024-23653 of 2024-01-31: the build \
                 of an image",
                "https://github.com/moby/buildkit/security/advisories/GHSA-wr6v-9f75-vh2g",
                "install Docker 24.0.9, 25.0.2 or later, or check that the output of apt-get changelog docker.io \
                 contains CVE-2024-23652",
            ],
            [
                "runc 1.3.2 may be vulnerable to CVE-2025-31133, CVE-2025-52565, CVE-2025-52881 of 2025-11-05: a \
                 container",
                "https://github.com/opencontainers/runc/security/advisories/GHSA-9493-h29p-rfm2",
                "install runc 1.2.8, 1.3.3, 1.4.0-rc.3 or later, or check that the output of apt-get changelog runc \
                 contains CVE-2025-31133",
            ],
        ]) {
            assert_eq!((check.name, check.state), ("engine", CheckState::Warn));
            assert!(check.message.starts_with(text), "{}", check.message);
            let looked_up = format!("{source} (looked up {})", advisory::LAST_CHECKED);
            assert!(check.message.ends_with(&looked_up), "{}", check.message);
            assert_eq!(check.mend.as_deref(), Some(mend));
        }
        assert_eq!(told("29.4.3", Some("1.1.5+ds1")).len(), 2, "one for each way out");
        assert!(told("29.4.3", Some("1.4.0")).is_empty() && told("29.4.3", None).is_empty());
    }

    #[test]
    fn a_missing_runtime_is_reported_with_a_fix() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("crun").display().to_string();
        let known = BTreeMap::from([
            ("crun".to_owned(), Some(gone.clone())),
            ("kata".to_owned(), None),
            // The engine finds this one on its own PATH.
            ("runc".to_owned(), Some("runc".to_owned())),
            ("runsc".to_owned(), Some(folder.path().display().to_string())),
        ]);
        let judged = |runtime: &str| {
            let check = check_runtime(runtime, "coder, tester", &known);
            (check.state, check.message, check.mend)
        };
        for runtime in ["runsc", "runc", "kata", "io.containerd.runsc.v1"] {
            assert_eq!(judged(runtime), (CheckState::Ok, format!("{runtime} runs coder, tester"), None));
        }
        let (state, text, mend) = judged("crun");
        assert_eq!(state, CheckState::Bad, "{text}");
        assert_eq!(text, format!("the program of crun, which runs coder, tester, is missing: {gone}"));
        assert_eq!(mend.as_deref(), Some("install crun"));
        let (state, text, mend) = judged("youki");
        assert_eq!(state, CheckState::Bad, "{text}");
        assert_eq!(
            text,
            "the engine has no runtime \"youki\", which is configured for coder, tester; it has crun, kata, runc, \
             runsc"
        );
        assert_eq!(mend.as_deref(), Some("register youki in /etc/docker/daemon.json and restart Docker"));
    }
}
