//! The command line of an installed package. It comes from the names of programs that the package declares, and is a list of
//! words that no shell reads.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::error::PackageError;
use super::lock::{Lock, PackageRuntime, normalized};
use crate::config::PackageSource;
use crate::sandbox::program_mounts::{NODE_TARGET, PACKAGE_TARGET};

/// The most bytes of a file that declares programs.
const MAX_DECLARATION: u64 = 1 << 20;

/// The folder below a package's folder with all packages of Python, and the file that starts their programs.
pub(super) const SITE: &str = "site";
pub(super) const RUN_FILE: &str = "run.py";
/// The content of that file. Its argument is an entry point, `MODULE:OBJECT`.
pub(super) const RUN: &str = "\
import functools
import importlib
import os
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), \"site\")
if __name__ == \"__main__\":
    module, _, path = sys.argv.pop(1).partition(\":\")
    sys.argv[0] = module
    sys.exit(functools.reduce(getattr, path.split(\".\"), importlib.import_module(module))())
";

/// Returns the command line of the program that a lock asks for, and the names of all programs of the package.
///
/// # Errors
///
/// Returns [`PackageError::NoProgram`] if the package has none, and [`PackageError::WhichProgram`] if it has several or
/// not the one that was asked for.
pub(super) fn command(folder: &Path, lock: &Lock, arguments: &[String]) -> Result<Vec<String>, PackageError> {
    let exact = lock.request.source.exact(&lock.request.name, &lock.version);
    let bins = match lock.request.source {
        PackageSource::Npm => of_npm(folder, &lock.request.name),
        PackageSource::Pypi => of_pypi(folder, &lock.request.name),
    };
    let program = choose(lock, &exact, bins)?;
    let start = match (&lock.runtime, program) {
        (PackageRuntime::Node { .. }, program) => vec![
            format!("{NODE_TARGET}/bin/node"),
            format!("{PACKAGE_TARGET}/node_modules/{}/{program}", lock.request.name),
        ],
        (PackageRuntime::Python { path, .. }, program) => {
            vec![path.clone(), format!("{PACKAGE_TARGET}/{RUN_FILE}"), program]
        }
    };
    Ok(start.into_iter().chain(arguments.iter().cloned()).collect())
}

/// Returns the words of a server's command line that come after its program. `None` if the program is not that of its
/// package, because somebody has changed it.
#[must_use]
pub(crate) fn arguments(source: PackageSource, command: &[String]) -> Option<Vec<String>> {
    let words = match source {
        PackageSource::Npm => 2,
        PackageSource::Pypi => 3,
    };
    let below = format!("{PACKAGE_TARGET}/");
    let is_own = command.get(1).is_some_and(|word| word.starts_with(&below));
    if is_own { command.get(words..).map(<[String]>::to_vec) } else { None }
}

fn choose(lock: &Lock, exact: &str, bins: BTreeMap<String, String>) -> Result<String, PackageError> {
    if bins.is_empty() {
        return Err(PackageError::NoProgram { package: exact.to_owned() });
    }
    let plain = lock.request.name.rsplit('/').next().unwrap_or_default();
    // As npx and uvx choose: the only one, or that with the name of the package.
    let wanted = match &lock.request.bin {
        Some(wanted) => bins.get(wanted),
        None if bins.len() == 1 => bins.values().next(),
        None => bins.get(plain),
    };
    match wanted {
        Some(program) => Ok(program.clone()),
        None => Err(PackageError::WhichProgram {
            registry: lock.request.source,
            package: exact.to_owned(),
            wanted: lock.request.bin.clone(),
            bins: bins.into_keys().take(40).collect(),
        }),
    }
}

/// Returns the programs of a package of npm: each name with its file below the package.
fn of_npm(folder: &Path, name: &str) -> BTreeMap<String, String> {
    let own = folder.join("node_modules").join(name);
    let Some(found) = read(&own.join("package.json")) else { return BTreeMap::new() };
    let Ok(document) = serde_json::from_str::<Value>(found.trim_start_matches('\u{feff}')) else {
        return BTreeMap::new();
    };
    let plain = name.rsplit('/').next().unwrap_or_default();
    let declared: Vec<(String, String)> = match &document["bin"] {
        Value::String(file) => vec![(plain.to_owned(), file.clone())],
        Value::Object(files) => {
            files.iter().filter_map(|(name, file)| Some((name.clone(), file.as_str()?.to_owned()))).collect()
        }
        _ => Vec::new(),
    };
    let usable = |(name, file): (String, String)| {
        let mut path = PathBuf::new();
        for part in Path::new(&file).components() {
            match part {
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                _ => return None,
            }
        }
        let path = if own.join(&path).is_file() { path } else { path.with_extension("js") };
        let is_there = is_program_name(&name) && own.join(&path).is_file();
        is_there.then(|| Some((name, path.to_str()?.to_owned()))).flatten()
    };
    declared.into_iter().filter_map(usable).collect()
}

/// Returns the programs of a package of `PyPI`: each name with its entry point.
fn of_pypi(folder: &Path, name: &str) -> BTreeMap<String, String> {
    let site = folder.join(SITE);
    let is_own = |found: &fs_err::DirEntry| {
        let file_name = found.file_name();
        let text = file_name.to_str().and_then(|text| text.strip_suffix(".dist-info"));
        text.and_then(|text| text.rsplit_once('-'))
            .is_some_and(|(own, _)| normalized(own) == normalized(name))
    };
    let info = fs_err::read_dir(&site).into_iter().flatten().flatten().find(is_own);
    let Some(text) = info.and_then(|info| read(&info.path().join("entry_points.txt"))) else {
        return BTreeMap::new();
    };
    let mut bins = BTreeMap::new();
    let mut section = "";
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim();
        } else if section == "console_scripts"
            && let Some((name, point)) = line.split_once('=')
        {
            let point = point.split('[').next().unwrap_or_default().trim();
            let name = name.trim();
            if is_program_name(name) && is_entry_point(point) {
                bins.insert(name.to_owned(), point.to_owned());
            }
        }
    }
    bins
}

fn is_program_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// Returns `true` for `MODULE:OBJECT`, both made of names with dots.
fn is_entry_point(text: &str) -> bool {
    let names = |text: &str| {
        text.split('.').all(|name| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    text.len() <= 300 && text.split_once(':').is_some_and(|(module, object)| names(module) && names(object))
}

fn read(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = fs_err::File::open(path).ok()?;
    file.take(MAX_DECLARATION).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::lock::tests::{lock, package};
    use super::super::spec::Request;
    use super::*;

    fn npm(bin: &str, wanted: Option<&str>) -> Result<Vec<String>, PackageError> {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("node_modules/@a/main");
        fs_err::create_dir_all(own.join("dist")).unwrap();
        for file in ["dist/index.js", "cli.js"] {
            fs_err::write(own.join(file), "").unwrap();
        }
        fs_err::write(own.join("package.json"), format!("{{\"bin\": {bin}}}")).unwrap();
        let mut lock = lock(vec![package("@a/main", "1.0.0", b"x")]);
        lock.request.bin = wanted.map(str::to_owned);
        command(folder.path(), &lock, &["--flag".to_owned()])
    }

    fn pypi(text: &str, wanted: Option<&str>) -> Result<Vec<String>, PackageError> {
        let folder = tempfile::tempdir().unwrap();
        let info = folder.path().join("site/a_main-1.0.dist-info");
        fs_err::create_dir_all(&info).unwrap();
        fs_err::write(info.join("entry_points.txt"), text).unwrap();
        let mut lock = lock(vec![package("@a/main", "1.0.0", b"x")]);
        lock.request = Request::parse(PackageSource::Pypi, "A.main").unwrap();
        lock.request.bin = wanted.map(str::to_owned);
        lock.runtime =
            PackageRuntime::Python { path: "/usr/bin/python3".to_owned(), version: "3.11".to_owned() };
        command(folder.path(), &lock, &[])
    }

    #[test]
    fn the_program_of_a_package_of_npm_is_found_as_npx_finds_it() {
        let index = "/package/node_modules/@a/main/dist/index.js";
        let wanted = vec!["/opt/flock/node/bin/node", index, "--flag"];
        assert_eq!(npm("\"./dist/index.js\"", None).unwrap(), wanted);
        assert_eq!(npm("{\"tool\": \"dist/index\"}", None).unwrap(), wanted);
        assert_eq!(npm("{\"main\": \"dist/index.js\", \"other\": \"cli.js\"}", None).unwrap(), wanted);
        assert!(
            npm("{\"main\": \"dist/index.js\", \"other\": \"cli.js\"}", Some("other")).unwrap()[1]
                .ends_with("cli.js")
        );
        let error = npm("{\"b\": \"cli.js\", \"a\": \"cli.js\"}", None).unwrap_err();
        assert!(error.to_string().ends_with("has several programs: a, b"), "{error}");
        assert!(crate::error::Explain::hint(&error).unwrap().ends_with("--bin a"));
        let error = npm("{\"a\": \"cli.js\"}", Some("x")).unwrap_err();
        assert!(error.to_string().ends_with("has no such program: a"), "{error}");
    }

    #[test]
    fn a_program_outside_of_the_package_or_with_a_hostile_name_is_none() {
        for bin in [
            "\"../other/index.js\"",
            "\"/etc/passwd\"",
            "\"missing.js\"",
            "{\"$(id)\": \"cli.js\"}",
            "{\"-x\": \"cli.js\"}",
            "{\"a b\": \"cli.js\"}",
            "[]",
            "{\"a\": 1}",
            "\"dist\"",
        ] {
            assert!(matches!(npm(bin, None), Err(PackageError::NoProgram { .. })), "{bin}");
        }
        for point in ["os:system('id')", "os", "a b:c", "a:b;id", "../a:b", ":x", "a:"] {
            let text = format!("[console_scripts]\nmain = {point}\n");
            assert!(matches!(pypi(&text, None), Err(PackageError::NoProgram { .. })), "{point}");
        }
        assert!(matches!(pypi("[gui_scripts]\nx = a:b\n", None), Err(PackageError::NoProgram { .. })));
    }

    #[test]
    fn the_program_of_a_package_of_pypi_is_its_entry_point() {
        let start = ["/usr/bin/python3", "/package/run.py"];
        let one = pypi("[other]\ny = c:d\n[console_scripts]\nx = a.b:main.run [extra]\n", None).unwrap();
        assert_eq!(one, [start[0], start[1], "a.b:main.run"]);
        let text = "[console_scripts]\nx = a:x\ny = a:y\n";
        assert!(matches!(pypi(text, None), Err(PackageError::WhichProgram { .. })));
        assert_eq!(pypi(text, Some("y")).unwrap()[2], "a:y");
    }
}
