//! Checks the binds of the configuration and the paths of mounts. The only bind that a sandbox may have is the Nix store,
//! read-only: folders of the host are mounted by an approval (see [`super::mount`]), and not by the configuration. flock's
//! own home, the engine's socket and every other socket are never mounted, whatever symbolic links lead to them.

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

/// Checks one bind as written in the configuration: `source:target[:ro|rw]`. `resolve` reads the disk.
///
/// # Errors
///
/// Returns a text that completes "may not have …" for every bind that is not the store, which each sandbox has in any
/// case.
pub(crate) fn check(
    home: &Home,
    bind: &str,
    engine_socket: Option<&Path>,
    resolve: impl Fn(&Path) -> Option<ResolvedPath>,
) -> Result<(), String> {
    let refused = |why: &str| Err(format!("the bind {bind:?}: {why}"));
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
            (true, STORE_TARGET, "ro") => Ok(()),
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
    refused(forbidden(home, &resolved, engine_socket).unwrap_or("no approval of this path exists"))
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

/// Resolves a path on the disk. Returns `None` if it does not exist.
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

    fn checked(bind: &str) -> Result<(), String> {
        let home = Home::new("/home/ann/.flock".into(), None);
        let resolve = |path: &Path| {
            Some(match path.to_str()? {
                "/srv/link-to-home" => ResolvedPath { path: home.root().join("secrets"), is_socket: false },
                "/srv/agent.sock" => ResolvedPath { path: path.to_owned(), is_socket: true },
                "/srv/missing" => return None,
                _ => ResolvedPath { path: path.to_owned(), is_socket: false },
            })
        };
        check(&home, bind, Some(Path::new("/srv/docker/docker.sock")), resolve)
    }

    #[test]
    fn the_store_is_allowed_only_read_only_at_its_target() {
        assert_eq!(checked("flock-nix:/nix:ro"), Ok(()));
        for bind in ["flock-nix:/nix", "flock-nix:/nix:rw", "flock-nix:/store:ro", "other:/nix:ro", "x:/data"]
        {
            assert!(checked(bind).is_err(), "{bind}");
        }
    }

    #[test]
    fn a_host_path_is_refused_for_want_of_an_approval() {
        for bind in ["/srv/other:/data:ro", "/srv/data:/data:rw", "/srv/out:/data"] {
            let why = checked(bind).unwrap_err();
            assert!(why.ends_with("no approval of this path exists"), "{why}");
        }
        assert!(checked("/srv:/data:ro").is_err());
    }

    #[test]
    fn some_paths_are_refused_for_what_they_are() {
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
            let why = checked(&format!("{source}:/data:ro")).unwrap_err();
            assert!(!why.ends_with("no approval of this path exists"), "{source}: {why}");
        }
        for bind in [
            "/srv/data:/workspace/x:ro",
            "/srv/data:/:ro",
            "/srv/data:relative",
            "/a:/b:/c:ro",
            "/srv/data:/x/../nix:ro",
        ] {
            let why = checked(bind).unwrap_err();
            assert!(!why.ends_with("no approval of this path exists"), "{bind}: {why}");
        }
    }
}
