//! Folders and files of the host that a person approved for an agent. They are mounted read-only at `/mnt/<name>`. An
//! approval is for a path as it was at that time, so the path is checked again whenever a container is made. Some paths
//! of the host are never mounted, approved or not.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::config::Config;
use crate::home::Home;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::binds::{self, ResolvedPath};

/// The folder of the sandbox that holds the mounts.
pub(crate) const MOUNTS_TARGET: &str = "/mnt";

/// A mount that a person approved for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovedMount {
    /// The folder or file of the host, with all symbolic links resolved at the time of the approval.
    pub source: PathBuf,
    /// The mount's name below [`MOUNTS_TARGET`].
    pub name: String,
}

/// A function that returns the mounts currently approved for an agent.
pub(crate) type ApprovedMounts = Arc<dyn Fn(&AgentId) -> Vec<ApprovedMount> + Send + Sync>;

/// A function that looks up the mounts currently approved for an agent.
pub type MountSource = Arc<dyn Fn(AgentId) -> BoxFuture<'static, Vec<ApprovedMount>> + Send + Sync>;

/// The mounts of one sandbox and the facts they are checked against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    pub approved: Vec<ApprovedMount>,
    /// The folders of the host below which mounts are allowed. No mount is allowed if there are none.
    pub roots: Vec<PathBuf>,
    /// The workspaces of all agents. No mount may overlap them, because an agent can change its workspace at any
    /// moment.
    pub workspaces: Vec<PathBuf>,
    /// The home folders of people, which hold their keys.
    pub homes: Vec<PathBuf>,
}

impl Mounts {
    /// Combines the approved mounts of an agent with the configuration. Without a mount the result is the same for
    /// every configuration.
    #[must_use]
    pub(crate) fn new(config: &Config, approved: Vec<ApprovedMount>) -> Self {
        if approved.is_empty() {
            return Self::default();
        }
        Self {
            approved,
            roots: config.mount_roots.clone(),
            workspaces: config.agents.iter().map(|agent| agent.workspace.clone()).collect(),
            homes: dirs::home_dir().into_iter().collect(),
        }
    }

    /// Checks all mounts and returns their sources and targets.
    ///
    /// # Errors
    ///
    /// Returns the reason why one of them is refused. The text completes "may not have …". One refused mount refuses
    /// the sandbox, because an agent that lacks data it was given would work on something else.
    pub(crate) fn decide(
        &self,
        home: &Home,
        engine_socket: Option<&Path>,
        resolve: impl Fn(&Path) -> Option<ResolvedPath>,
    ) -> Result<Vec<(PathBuf, String)>, String> {
        let mut found: Vec<(PathBuf, String)> = Vec::new();
        for mount in &self.approved {
            let target = format!("{MOUNTS_TARGET}/{}", mount.name);
            if let Err(why) = self.judge(home, engine_socket, mount, &resolve) {
                return Err(format!("the mount of {:?} at {target:?}: {why}", mount.source));
            }
            if found.iter().any(|(_, taken)| *taken == target) {
                return Err(format!("two mounts at {target}"));
            }
            found.push((mount.source.clone(), target));
        }
        Ok(found)
    }

    fn judge(
        &self,
        home: &Home,
        engine_socket: Option<&Path>,
        mount: &ApprovedMount,
        resolve: impl Fn(&Path) -> Option<ResolvedPath>,
    ) -> Result<(), &'static str> {
        if !is_name(&mount.name) {
            return Err("its name is not usable: use a-z, A-Z, 0-9, '.', '-' and '_'");
        }
        let resolved = resolve(&mount.source).ok_or("it is not there")?;
        let path = resolved.path.as_path();
        if path != mount.source {
            return Err("it is no longer the approved folder: a link leads elsewhere now");
        }
        if let Some(why) = binds::forbidden(home, &resolved, engine_socket).or_else(|| denied(path)) {
            return Err(why);
        }
        let meets = |other: &PathBuf| {
            // A path that does not exist yet is compared as written.
            let other = resolve(other).map_or_else(|| other.clone(), |found| found.path);
            path.starts_with(&other) || other.starts_with(path)
        };
        if self.workspaces.iter().any(meets) {
            return Err("it is, holds or is in the workspace of an agent, which can change it");
        }
        if self.homes.iter().any(|folder| folder.starts_with(path))
            || SECRETS.iter().any(|secret| resolve(&path.join(secret)).is_some())
        {
            return Err("it holds a person's keys");
        }
        let roots: Vec<PathBuf> =
            self.roots.iter().filter_map(|root| resolve(root)).map(|root| root.path).collect();
        // A mount root itself is refused as well as a folder above it: an approval has to name something inside.
        if roots.iter().any(|root| root.starts_with(path)) {
            return Err("it is or holds a whole folder of plugins.entries.flock.config.mountRoots");
        }
        if !roots.iter().any(|root| path.starts_with(root)) {
            return Err("it is not below a folder of plugins.entries.flock.config.mountRoots");
        }
        Ok(())
    }
}

/// Returns `true` if the text can be the name of a mount.
#[must_use]
pub fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// Returns the reason why a path of the host is never mounted, judged by its name alone, or `None` if nothing is wrong.
#[must_use]
pub fn denied(path: &Path) -> Option<&'static str> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !path.is_absolute() || !plain {
        return Some("it is not a plain absolute path");
    }
    // Both directions count: a folder inside a system folder, and a folder such as `/var` that contains one.
    if SYSTEM.iter().any(|system| path.starts_with(system) || Path::new(system).starts_with(path)) {
        return Some("it is, holds or is in a part of the host's system");
    }
    // A whole home folder is refused, because keys are somewhere in it.
    if path == Path::new("/home") || path.parent() == Some(Path::new("/home")) {
        return Some("it holds a person's keys");
    }
    let parts: Vec<Component<'_>> = path.components().collect();
    let holds = |secret: &&str| {
        let names: Vec<Component<'_>> = Path::new(secret).components().collect();
        parts.windows(names.len()).any(|window| window == names)
    };
    let key = path.file_name().and_then(|name| name.to_str()).is_some_and(is_key);
    (key || SECRETS.iter().any(holds)).then_some("it is or holds a person's keys")
}

/// Returns `true` if a file of this name is a key.
fn is_key(name: &str) -> bool {
    // Public keys may be mounted, and so may the `.env` templates that projects publish.
    name.starts_with("id_") && !name.ends_with(".pub")
        || [".pem", ".key", ".p12", ".pfx"].iter().any(|end| name.ends_with(end))
        || name == ".env"
        || name.starts_with(".env.") && ![".env.example", ".env.sample", ".env.template"].contains(&name)
}

/// Returns `true` if a folder contains keys, judged by names. The search goes `MAX_DEPTH` folders deep and looks at the
/// first `MAX_NAMES` names. It does not follow symbolic links, because a mount does not follow them out of the
/// folder either. A folder that cannot be read counts as empty.
#[must_use]
pub(crate) fn holds_keys(path: &Path) -> bool {
    let mut left = MAX_NAMES;
    let mut folders = std::collections::VecDeque::from([(path.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop_front() {
        if SECRETS.iter().any(|secret| fs_err::symlink_metadata(folder.join(secret)).is_ok()) {
            return true;
        }
        let Ok(entries) = fs_err::read_dir(&folder) else { continue };
        for entry in entries.filter_map(Result::ok) {
            if left == 0 {
                return false;
            }
            left -= 1;
            if entry.file_name().to_str().is_some_and(is_key) {
                return true;
            }
            if depth < MAX_DEPTH && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push_back((entry.path(), depth + 1));
            }
        }
    }
    false
}

/// Depth in folders of the search for keys.
const MAX_DEPTH: usize = 4;
/// Limit on the number of names that the search looks at.
const MAX_NAMES: usize = 50_000;

/// Folders of the host's operating system and of the services that run on it.
const SYSTEM: [&str; 18] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/nix", "/proc", "/root", "/run", "/sbin",
    "/snap", "/sys", "/usr", "/var/lib", "/var/log", "/var/run",
];

/// Files and folders in which programs keep credentials, below a home folder or anywhere else.
const SECRETS: [&str; 28] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".azure",
    ".kube",
    ".docker",
    ".password-store",
    ".config/gh",
    ".config/gcloud",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/google-chrome",
    ".config/chromium",
    ".local/share/keyrings",
    ".mozilla",
    ".netrc",
    ".git-credentials",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    // Login folders of the agent programs. Each program names its own in `ProgramFacts::logins`, and a test compares them
    // with this list.
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".local/share/opencode",
    ".flock",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(source: &str, name: &str) -> Result<Vec<(PathBuf, String)>, String> {
        let home = Home::new("/data/flock".into(), None);
        let approved = vec![ApprovedMount { source: source.into(), name: name.to_owned() }];
        let mounts = Mounts {
            approved,
            roots: vec![
                "/srv".into(),
                "/data".into(),
                "/home/ann/work".into(),
                "/etc".into(),
                "/link".into(),
            ],
            workspaces: vec!["/srv/coder".into()],
            homes: vec!["/srv/people/ann".into()],
        };
        let resolve = |path: &Path| {
            let path = path.to_str()?;
            let to = match path {
                "/srv/swapped" => "/srv/elsewhere",
                "/link" => "/real",
                "/srv/missing" => return None,
                "/srv/keys/.ssh" | "/srv/deep/.config/gh" => path,
                _ if path.contains("/.") && !path.starts_with("/srv/named") => return None,
                _ => path,
            };
            Some(ResolvedPath { path: to.into(), is_socket: path == "/srv/agent.sock" })
        };
        mounts.decide(&home, Some(Path::new("/srv/docker/docker.sock")), resolve)
    }

    #[test]
    fn a_path_below_a_root_is_mounted_where_its_name_says() {
        for source in ["/srv/data", "/srv/data/sub", "/home/ann/work/x", "/real/x", "/data/sets"] {
            assert_eq!(
                decide(source, "set-1.0"),
                Ok(vec![(source.into(), "/mnt/set-1.0".to_owned())]),
                "{source}"
            );
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for source in [
            "/",
            "/opt/data",
            "/srvx",
            "srv/data",
            "/srv/../etc",
            "/srv/missing",
            "/srv/swapped",
            "/srv/agent.sock",
            "/srv/docker/docker.sock",
            "/srv/docker",
            "/data",
            "/srv",
            "/home/ann/work",
            "/data/flock",
            "/data/flock/secrets",
            "/srv/coder",
            "/srv/coder/out",
            "/srv/people",
            "/srv/people/ann",
            "/srv/keys",
            "/srv/deep",
            "/srv/named/.ssh",
            "/etc",
            "/etc/shadow",
            "/link/x",
        ] {
            assert!(decide(source, "name").is_err(), "{source}");
        }
        for name in ["", ".", "..", "a/b", "../x", ".hidden", "a b", "a\nb", "ü", &"a".repeat(65)] {
            assert!(decide("/srv/data", name).is_err(), "{name}");
        }
        let mounts = Mounts { roots: Vec::new(), ..Mounts::default() };
        let approved = vec![ApprovedMount { source: "/srv/data".into(), name: "x".to_owned() }];
        let resolve = |path: &Path| Some(ResolvedPath { path: path.to_owned(), is_socket: false });
        let home = Home::new("/data/flock".into(), None);
        assert!(Mounts { approved, ..mounts }.decide(&home, None, resolve).is_err(), "no roots, no mounts");
    }

    #[test]
    fn keys_and_system_folders_are_denied_anywhere() {
        for path in [
            "/",
            "/home",
            "/home/ann",
            "/root",
            "/root/x",
            "/var",
            "/var/lib/docker/volumes",
            "/var/run/x",
            "/run/user/1000",
            "/proc/1",
            "/sys",
            "/dev/sda",
            "/etc/ssl/private",
            "/usr",
            "/boot",
            "/home/ann/.ssh",
            "/home/ann/.ssh/config",
            "/home/ann/.aws/credentials",
            "/home/ann/.gnupg",
            "/home/ann/.config/gh/hosts.yml",
            "/home/ann/.kube/config",
            "/home/ann/.docker/config.json",
            "/home/ann/.netrc",
            "/home/ann/.git-credentials",
            "/srv/backup/ann/.ssh",
            "/home/ann/.cargo/credentials.toml",
            "/srv/id_ed25519",
            "/srv/tls/server.key",
            "/srv/tls/all.pem",
            "/srv/site/.env",
            "/srv/site/.env.production",
            "/home/ann/.local/share/keyrings/login.keyring",
            "/home/ann/.claude",
            "/home/ann/.flock/secrets",
            "relative",
        ] {
            assert!(denied(Path::new(path)).is_some(), "{path}");
        }
        for path in [
            "/srv/data",
            "/home/ann/work",
            "/home/ann/.config/nvim",
            "/home/ann/ssh",
            "/home/ann/work/.github",
            "/mnt/disk/set",
            "/var/www/site",
            "/srv/id_ed25519.pub",
            "/opt/models",
        ] {
            assert_eq!(denied(Path::new(path)), None, "{path}");
        }
    }
}
