//! Decides which binds of the configuration a sandbox may have. Without an approval only the Nix store is allowed,
//! read-only. A folder of the host needs a person's approval of exactly that path. flock's own home, the engine's
//! socket and every other socket are refused even then, whatever symbolic links lead to them.

use std::path::{Path, PathBuf};

use crate::home::Home;
use crate::sandbox::names;

/// Path of the Nix store in the sandbox.
pub(crate) const STORE_TARGET: &str = "/nix";

/// The host path of a bind as it is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedPath {
    /// The path with all symbolic links resolved.
    pub path: PathBuf,
    /// `true` if the path is a socket.
    pub is_socket: bool,
}

/// The decision about one bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The bind is the store, which every sandbox has in any case.
    Store,
    /// The bind is an approved folder or file of the host.
    Host {
        /// The source with all symbolic links resolved, so that exactly the approved path is mounted.
        source: PathBuf,
        /// The path in the sandbox.
        target: String,
        /// `true` if the sandbox may write to it.
        writable: bool,
    },
    /// The bind is not allowed. The text completes "may not have …".
    Refused(String),
}

/// Decides about one bind as written in the configuration: `source:target[:ro|rw]`.
///
/// `resolve` reads the disk. `approved` holds the canonical paths that a person approved for this agent, each with
/// `true` if it may be written.
#[must_use]
pub(crate) fn decide(
    home: &Home,
    bind: &str,
    engine_socket: Option<&Path>,
    approved: &[(PathBuf, bool)],
    resolve: impl Fn(&Path) -> Option<ResolvedPath>,
) -> Decision {
    let refused = |why: &str| Decision::Refused(format!("the bind {bind:?}: {why}"));
    let parts: Vec<&str> = bind.split(':').collect();
    let (source, target, mode) = match parts[..] {
        // Docker's own default is a writable bind.
        [source, target] => (source, target, "rw"),
        [source, target, mode @ ("ro" | "rw")] => (source, target, mode),
        _ => return refused("write it as source:target:ro or source:target:rw"),
    };
    if !target.starts_with('/') || Path::new(target).components().any(|part| part.as_os_str() == "..") {
        return refused("its target is not an absolute path");
    }
    if !source.starts_with('/') {
        // The configuration may use the plain name, whatever this home's suffix is.
        let store = source == "flock-nix" || source == names::store_volume(home);
        return match (store, target, mode) {
            (true, STORE_TARGET, "ro") => Decision::Store,
            (true, ..) => refused("the store is only mounted at /nix, read-only"),
            _ => refused("no volume but the store is mounted"),
        };
    }
    if RESERVED_TARGETS.iter().any(|taken| Path::new(target).starts_with(taken)) || target == "/" {
        return refused("its target belongs to the sandbox itself");
    }
    let Some(resolved) = resolve(Path::new(source)) else {
        return refused("its source is not there");
    };
    if let Some(why) = forbidden(home, &resolved, engine_socket) {
        return refused(why);
    }
    let writable = mode == "rw";
    match approved.iter().find(|(path, _)| *path == resolved.path) {
        Some((_, may_write)) if *may_write || !writable => {
            Decision::Host { source: resolved.path, target: target.to_owned(), writable }
        }
        Some(_) => refused("it is approved for reading only"),
        None => refused("no approval of this path exists"),
    }
}

/// Returns the reason why a path of the host is never mounted, or `None` if nothing is wrong.
#[must_use]
pub(crate) fn forbidden(
    home: &Home,
    resolved: &ResolvedPath,
    engine_socket: Option<&Path>,
) -> Option<&'static str> {
    let path = resolved.path.as_path();
    if resolved.is_socket {
        return Some("it is a socket");
    }
    // A folder above the home would expose it, too.
    if path.starts_with(home.root()) || home.root().starts_with(path) {
        return Some("it is, holds or is in flock's own home");
    }
    if engine_socket.is_some_and(|socket| socket.starts_with(path)) {
        return Some("it holds the Docker engine's socket");
    }
    // `/run` and `/var/run` hold the sockets of the whole system. `/proc`, `/sys` and `/dev` are the host itself.
    if SYSTEM.iter().any(|system| path == Path::new(system) || Path::new(system).starts_with(path))
        || HOST_DIRS.iter().any(|host| path.starts_with(host))
    {
        return Some("it is part of the host's system");
    }
    None
}

/// Resolves a path on the disk for [`decide`]. Returns `None` if it does not exist.
#[must_use]
pub(crate) fn resolve(path: &Path) -> Option<ResolvedPath> {
    use std::os::unix::fs::FileTypeExt as _;
    let path = fs_err::canonicalize(path).ok()?;
    let is_socket = fs_err::symlink_metadata(&path).ok()?.file_type().is_socket();
    Some(ResolvedPath { path, is_socket })
}

const RESERVED_TARGETS: [&str; 8] =
    ["/nix", "/workspace", "/proc", "/sys", "/dev", "/tmp", "/etc", super::spec::HELPER_TARGET];
const SYSTEM: [&str; 9] =
    ["/etc", "/usr", "/bin", "/lib", "/sbin", "/boot", "/root", "/var/run", "/var/lib/docker"];
const HOST_DIRS: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/var/run"];

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(bind: &str, approved: &[(PathBuf, bool)]) -> Decision {
        let home = Home::new("/home/ann/.flock".into(), None);
        let resolve = |path: &Path| {
            Some(match path.to_str()? {
                "/srv/link-to-home" => ResolvedPath { path: home.root().join("secrets"), is_socket: false },
                "/srv/agent.sock" => ResolvedPath { path: path.to_owned(), is_socket: true },
                "/srv/missing" => return None,
                _ => ResolvedPath { path: path.to_owned(), is_socket: false },
            })
        };
        decide(&home, bind, Some(Path::new("/srv/docker/docker.sock")), approved, resolve)
    }

    #[test]
    fn the_store_is_allowed_without_approval_only_read_only_at_its_target() {
        assert_eq!(decision("flock-nix:/nix:ro", &[]), Decision::Store);
        for bind in ["flock-nix:/nix", "flock-nix:/nix:rw", "flock-nix:/store:ro", "other:/nix:ro", "x:/data"]
        {
            assert!(matches!(decision(bind, &[]), Decision::Refused(_)), "{bind}");
        }
    }

    #[test]
    fn a_host_path_needs_an_approval_of_exactly_that_path() {
        let approved = [("/srv/data".into(), false), ("/srv/out".into(), true)];
        for bind in ["/srv/other:/data:ro", "/srv:/data:ro", "/srv/data/sub:/data:ro", "/srv/data:/data:rw"] {
            assert!(matches!(decision(bind, &approved), Decision::Refused(_)), "{bind}");
        }
        let allowed = |source: &str, writable| Decision::Host {
            source: source.into(),
            target: "/data".to_owned(),
            writable,
        };
        assert_eq!(decision("/srv/data:/data:ro", &approved), allowed("/srv/data", false));
        assert_eq!(decision("/srv/out:/data", &approved), allowed("/srv/out", true));
    }

    #[test]
    fn some_paths_are_refused_even_when_approved() {
        for source in [
            "/",
            "/home",
            "/home/ann",
            "/home/ann/.flock",
            "/home/ann/.flock/workspaces/coder",
            "/srv/link-to-home",
            "/srv/agent.sock",
            "/srv/docker/docker.sock",
            "/srv/docker",
            "/var/run/docker.sock",
            "/run",
            "/proc/1/root",
            "/etc",
            "/var",
            "/srv/missing",
        ] {
            let canonical = if source == "/srv/link-to-home" { "/home/ann/.flock/secrets" } else { source };
            let decided = decision(&format!("{source}:/data:ro"), &[(canonical.into(), true)]);
            assert!(matches!(decided, Decision::Refused(_)), "{source}: {decided:?}");
        }
        for bind in [
            "/srv/data:/workspace/x:ro",
            "/srv/data:/:ro",
            "/srv/data:relative",
            "/a:/b:/c:ro",
            "/srv/data:/x/../nix:ro",
        ] {
            let decided = decision(bind, &[("/srv/data".into(), true)]);
            assert!(matches!(decided, Decision::Refused(_)), "{bind}");
        }
    }
}
