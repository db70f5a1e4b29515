//! Determines where a host path leads, and if anything there may be granted to an agent.

use std::path::{Path, PathBuf};

use super::floor::PathClass;
use crate::home::Home;
use crate::sandbox::binds::{self, ResolvedPath};
use crate::sandbox::mount;

/// Resolves all symbolic links of a path and classifies the result. Reads the disk.
#[must_use]
pub(crate) fn look(home: &Home, roots: &[PathBuf], path: &str) -> (PathBuf, PathClass) {
    let Some(resolved) = binds::resolve(Path::new(path)) else { return (path.into(), PathClass::Outside) };
    let roots: Vec<PathBuf> =
        roots.iter().filter_map(|root| binds::resolve(root)).map(|root| root.path).collect();
    let person = dirs::home_dir().and_then(|folder| binds::resolve(&folder)).map(|folder| folder.path);
    let mut place = classify_resolved(home, &roots, person.as_deref(), &resolved);
    if place == PathClass::Below && mount::holds_keys(&resolved.path) {
        place = PathClass::Never("it contains a file or folder for keys, such as .env, .ssh or *.pem");
    }
    (resolved.path, place)
}

/// Classifies a resolved path. `roots` and `person`, the person's home folder, must be resolved too.
fn classify_resolved(
    home: &Home,
    roots: &[PathBuf],
    person: Option<&Path>,
    resolved: &ResolvedPath,
) -> PathClass {
    if let Some(why) = binds::forbidden(home, resolved, None) {
        return PathClass::Never(why);
    }
    let path = resolved.path.as_path();
    if person.is_some_and(|person| person.starts_with(path)) {
        return PathClass::Never("it is or contains a person's home folder, with their keys");
    }
    // Names that begin with a dot often contain keys, tokens and histories.
    if path.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.')) {
        return PathClass::Never("it is in a hidden folder, where keys are kept");
    }
    if path.to_str().is_none_or(|text| text.contains(':')) {
        return PathClass::Never("its name is not valid for a mount");
    }
    // A root is a choice of things to grant. All of it at once is more than a person can examine.
    if roots.iter().any(|root| root.starts_with(path)) {
        return PathClass::Never(
            "it is or contains a whole mount root; ask for the folder in it that you need",
        );
    }
    if roots.iter().any(|root| path.starts_with(root)) { PathClass::Below } else { PathClass::Outside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_a_root_without_secrets_can_be_granted() {
        let home = Home::new("/home/ann/.flock".into(), None);
        let roots = [PathBuf::from("/srv/shared"), PathBuf::from("/home/ann"), PathBuf::from("/run/data")];
        let place = |path: &str, is_socket| {
            classify_resolved(
                &home,
                &roots,
                Some(Path::new("/home/ann")),
                &ResolvedPath { path: path.into(), is_socket },
            )
        };
        for path in ["/srv/shared/a", "/srv/shared/a/b", "/home/ann/papers"] {
            assert_eq!(place(path, false), PathClass::Below, "{path}");
        }
        for path in ["/srv/other", "/srv/sharedx", "/opt", "/home/ben"] {
            assert_eq!(place(path, false), PathClass::Outside, "{path}");
        }
        for path in [
            "/home/ann",
            "/home",
            "/",
            "/home/ann/.ssh",
            "/home/ann/.flock",
            "/home/ann/.flock/secrets",
            "/home/ann/work/.git",
            "/srv/shared/.env",
            "/etc",
            "/run/data",
            "/proc/1",
            "/var/lib/docker",
            "/srv/shared/a:b",
            "/srv/shared",
            "/srv",
        ] {
            assert!(matches!(place(path, false), PathClass::Never(_)), "{path}: {:?}", place(path, false));
        }
        assert!(matches!(place("/srv/shared/s", true), PathClass::Never(_)));
    }

    #[test]
    fn links_are_followed_before_a_path_is_judged() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (shared, other) = (root.join("shared"), root.join("other"));
        let (data, deep) = (shared.join("data"), shared.join("keys/a/b"));
        for made in [&shared, &other, &data, &deep] {
            std::fs::create_dir_all(made).unwrap();
        }
        std::fs::write(deep.join(".env"), "KEY=1").unwrap();
        std::os::unix::fs::symlink(&other, shared.join("out")).unwrap();
        let home = Home::new(root.join("home"), None);
        let judged = |path: &Path| look(&home, std::slice::from_ref(&shared), &path.to_string_lossy());
        if shared.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.')) {
            return;
        }
        assert_eq!(judged(&data).1, PathClass::Below);
        assert!(matches!(judged(&shared).1, PathClass::Never(_)));
        assert!(matches!(judged(&shared.join("keys")).1, PathClass::Never(_)));
        assert_eq!(judged(&shared.join("out")), (other, PathClass::Outside));
        assert_eq!(judged(&shared.join("missing")).1, PathClass::Outside);
    }
}
