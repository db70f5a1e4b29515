//! Checks of the home, its configuration, and the models of its agents.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use super::super::openclaw as bundled;
use super::check::Check;
use super::fix::Fix;
use crate::agent::identity;
use crate::cli::{programs, settings};
use crate::config::{self, Agent, Config};
use crate::error::{Explain as _, chain};
use crate::home::{Home, HomeError, instance, version};
use crate::id::ModelRef;
use crate::provider::catalog::Catalog;
use crate::provider::{effort, price};
use crate::sandbox::SandboxError;

/// Checks the folder: it was made by `init`, has a format that this flock writes, is complete, and is closed to others.
pub(crate) fn home(home: &Home) -> Vec<Check> {
    const NAME: &str = "home";
    // A home of a newer version may have other folders, so no other check is made.
    if let Err(error) = home.require_initialised().and_then(|()| version::check_writable(home)) {
        return vec![Check::failed(NAME, error.into())];
    }
    let mut checks = Vec::new();
    let folders = home.folders();
    let missing: Vec<String> = folders
        .iter()
        .filter(|(folder, _)| !folder.is_dir())
        .map(|(folder, _)| folder.display().to_string())
        .collect();
    if !missing.is_empty() {
        let verb = if missing.len() == 1 { "is" } else { "are" };
        let text = format!("{} {verb} missing", missing.join(", "));
        checks.push(Check::bad(NAME, text, "flock doctor --fix").with_fix(Fix::Folders));
    }
    // The bits for group and others must be zero.
    let is_open = |path: &PathBuf| fs_err::metadata(path).is_ok_and(|meta| meta.mode() & 0o077 != 0);
    for (folder, _) in folders.into_iter().filter(|(folder, mode)| *mode == 0o700 && is_open(folder)) {
        let text = format!("others can look into {}", folder.display());
        let mend = format!("chmod 700 {}", folder.display());
        checks.push(Check::bad(NAME, text, mend).with_fix(Fix::Mode(folder, 0o700)));
    }
    let secrets = fs_err::read_dir(home.secrets()).into_iter().flatten().flatten();
    let is_file = |entry: &fs_err::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    // Only plain files are checked, because each key is a plain file.
    for file in secrets.filter(is_file).map(|entry| entry.path()).filter(is_open) {
        let text = format!("others could read the key in {}", file.display());
        let mend = format!("chmod 600 {}", file.display());
        checks.push(Check::bad(NAME, text, mend).with_fix(Fix::Mode(file, 0o600)));
    }
    if checks.is_empty() {
        let text = format!("{}, format {}", home.root().display(), crate::home::FORMAT);
        checks.push(Check::ok(NAME, text));
    }
    checks
}

/// Checks the home's instance id. Without it a gateway can't prove that it belongs to this home.
pub(crate) fn instance(home: &Home) -> Option<Check> {
    let error = instance::read(home).err()?;
    let is_missing = matches!(error, HomeError::NoInstance { .. });
    let check = Check::failed("home", error.into());
    Some(if is_missing { check.with_fix(Fix::Instance) } else { check })
}

/// Checks the file mode of a valid configuration, which holds the owner's token.
pub(crate) fn config(home: &Home, config: &Config) -> Check {
    const NAME: &str = "config";
    let path = home.config();
    if fs_err::metadata(&path).is_ok_and(|meta| meta.mode() & 0o077 != 0) {
        let text = format!("others can read the owner's token in {}", path.display());
        let mend = format!("chmod 600 {}", path.display());
        return Check::bad(NAME, text, mend).with_fix(Fix::Mode(path, 0o600));
    }
    let agents = config.agents.len();
    Check::ok(NAME, format!("{} with {agents} agents", path.display()))
}

/// Warns of settings that have no effect yet.
pub(crate) fn unused(home: &Home) -> Vec<Check> {
    let Ok((_, document)) = config::file::read_document(home) else { return Vec::new() };
    let warn = |path: String| {
        Check::warn("config", config::ineffective::warning(&path), format!("flock config unset {path}"))
    };
    config::ineffective::settings(&document).into_iter().map(warn).collect()
}

/// Warns of settings that flock does not follow.
pub(crate) fn unread(home: &Home) -> Vec<Check> {
    let warn = |unread: config::ignored::IgnoredSetting| {
        Check::warn("config", unread.text(), format!("flock config unset {}", unread.at))
    };
    settings::unread(home).into_iter().map(warn).collect()
}

/// Reports agents whose sandbox can't be made as configured.
pub(crate) fn refused(home: &Home, config: &Config) -> Vec<Check> {
    let bad = |error: SandboxError| Check::bad("sandbox", error.to_string(), "flock config get agents");
    settings::refused(home, config).into_iter().map(bad).collect()
}

/// Warns of files in workspaces that look like identity files but are not read.
pub(crate) fn identity(config: &Config) -> Vec<Check> {
    // OpenClaw writes its own texts there.
    let agents = config.agents.iter().filter(|agent| agent.runtime != crate::openclaw::RUNTIME);
    let warn = |file: identity::UnreadFile| {
        let (found, read) = (file.found.display(), file.read.display());
        let text = format!(
            "{found} is not read; flock reads {read} instead. Check the file before you copy it: the agent may have \
             written it"
        );
        Check::warn("identity", text, format!("cp {found} {read}"))
    };
    agents.flat_map(|agent| identity::unread(&agent.identity, &agent.workspace)).map(warn).collect()
}

/// Reports what stops the agents on OpenClaw from working, if there are any.
pub(crate) async fn openclaw(home: &Home, config: &Config) -> Vec<Check> {
    const NAME: &str = "openclaw";
    let agents = crate::openclaw::agents(config).count();
    let mut checks: Vec<Check> = Vec::new();
    // A trouble that stops the agents is an error here, any other one a warning.
    for trouble in bundled::troubles(home, config).await {
        let make = if trouble.breaks { Check::bad } else { Check::warn };
        checks.push(make(NAME, trouble.text, trouble.mend));
    }
    if agents > 0 && checks.is_empty() {
        checks.push(Check::ok(NAME, format!("{agents} agents; their configuration can be derived")));
    }
    checks
}

/// Reports what stops the agents that external programs run, and lists the installed programs.
pub(crate) async fn programs(config: Option<&Config>) -> Vec<Check> {
    const NAME: &str = "programs";
    let mut checks = Vec::new();
    if let Some(config) = config {
        checks.extend(programs::troubles(config).await.into_iter().map(|(breaks, text, mend)| {
            if breaks { Check::bad(NAME, text, mend) } else { Check::warn(NAME, text, mend) }
        }));
    }
    let installed: Vec<String> =
        programs::installed().await.iter().map(programs::InstalledProgram::label).collect();
    if !installed.is_empty() {
        checks.push(Check::ok(NAME, format!("found {}", installed.join(", "))));
    }
    checks
}

/// Warns of models that no money budget limits, because their price is unknown.
pub(crate) fn unbound(config: &Config) -> Vec<Check> {
    let warn = |model: ModelRef| {
        let set = format!("flock config set models.providers.{}.models JSON", model.provider());
        Check::warn("budgets", price::unpriced_warning(&model), set)
    };
    price::unpriced_models(config).into_iter().map(warn).collect()
}

/// Warns of agents whose effort setting one of their models does not support.
pub(crate) fn unsupported_effort(config: &Config) -> Vec<Check> {
    let warn = |text: String| Check::warn("effort", text, "flock config get agents");
    effort::warnings(config).into_iter().map(warn).collect()
}

/// Checks that each model in use has a provider and a key. Nothing is sent to a provider.
pub(crate) fn models(home: &Home, config: &Config) -> Vec<Check> {
    const NAME: &str = "model";
    let catalog = Catalog::new(home.clone());
    let mut seen = HashSet::new();
    let mut checks = Vec::new();
    // An agent without a model can't run at all, so it comes before the models in use.
    for agent in &config.agents {
        if agent.model.is_none() {
            let set = format!("flock config set agents.list[{}].model.primary PROVIDER/MODEL", agent.id);
            checks.push(Check::bad(NAME, format!("agent {} has no model", agent.id), set));
        }
    }
    // A program on the host may have its own login, so it needs no key here.
    let asked: Vec<&Agent> = config.agents.iter().filter(|agent| !programs::has_own_login(agent)).collect();
    let firsts: HashSet<&ModelRef> = asked.iter().filter_map(|agent| agent.model.as_ref()).collect();
    for model in asked.into_iter().flat_map(Agent::models) {
        if !seen.insert(model) {
            continue;
        }
        checks.push(match catalog.describe(model, config) {
            // An agent without its first model can't work. Without a fallback it still can.
            Err(error) if firsts.contains(model) => Check::failed(NAME, error.into()),
            Err(error) => {
                let hint = error.hint().unwrap_or_default();
                Check::warn(NAME, format!("a fallback model can't be used: {}", chain(&error)), hint)
            }
            Ok(()) if model.is_script() => {
                Check::ok(NAME, format!("{model} ({})", crate::provider::script::LABEL))
            }
            Ok(()) => Check::ok(NAME, format!("{model} is configured; it was not asked")),
        });
    }
    checks
}
