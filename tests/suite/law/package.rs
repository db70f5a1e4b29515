//! The Debian package has every file with the mode that it has here, and all of the quickstart.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder, with those of its folders.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Each packed file of the repository with its mode in the package.
fn packed() -> BTreeMap<PathBuf, String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let assets = manifest.split_once("assets = [\n").unwrap().1.split_once("\n]").unwrap().0;
    let mut packed = BTreeMap::new();
    for line in assets.lines() {
        let asset: Vec<String> = serde_json::from_str(line.trim().trim_end_matches(',')).unwrap();
        let [from, _, mode] = &asset[..] else { panic!("{line}") };
        if from.starts_with("target/") {
            continue;
        }
        let sources = match from.split_once('*') {
            None => vec![root().join(from)],
            Some((begin, end)) => {
                assert!(!end.contains('*'), "{from}: one folder, so that each has its own mode");
                let (folder, begin) = begin.rsplit_once('/').unwrap();
                let mut all = Vec::new();
                files(&root().join(folder), &mut all);
                all.retain(|path| {
                    let name = path.file_name().unwrap().to_str().unwrap();
                    path.parent() == Some(&root().join(folder))
                        && name.starts_with(begin)
                        && name.ends_with(end)
                });
                all
            }
        };
        assert!(!sources.is_empty(), "{from} is nothing");
        for source in sources {
            assert!(packed.insert(source.clone(), mode.clone()).is_none(), "{source:?} is packed twice");
        }
    }
    packed
}

#[test]
fn only_programs_are_executable_in_the_package() {
    for (path, mode) in packed() {
        let is_program = std::fs::metadata(&path).unwrap().permissions().mode() & 0o111 != 0;
        assert_eq!(mode, if is_program { "755" } else { "644" }, "{path:?}");
    }
}

#[test]
fn all_of_the_quickstart_is_in_the_package() {
    let packed = packed();
    let mut scenario = Vec::new();
    files(&root().join("standalone/scenario"), &mut scenario);
    for path in scenario {
        assert!(packed.contains_key(&path), "{path:?}");
    }
}
