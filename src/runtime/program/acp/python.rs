//! The files of a program of pip, pipx or uv: a script, the packages of its virtual environment, and the Python that runs it.

use std::path::{Path, PathBuf};

use crate::runtime::program::interface::ProgramFiles;

/// The file that makes a folder a virtual environment.
const SETTINGS: &str = "pyvenv.cfg";
/// Runs a script as Python does, with the packages of a folder. The environment itself is not used: it names its Python by a path
/// of the host.
const START: &str = "import runpy,site,sys; site.addsitedir(sys.argv[1]); del sys.argv[:2]; \
                     runpy.run_path(sys.argv[0], run_name='__main__')";
/// Most bytes of a script that an installer made for a package.
const MAX_ENTRY: u64 = 1024;

/// Returns the files of a Python script with its environment, or `None` if it has no environment.
///
/// # Errors
///
/// Returns the reason why it can't be run in a sandbox.
pub(super) fn of(inside: &str, script: &Path, interpreter: &Path) -> Option<Result<ProgramFiles, String>> {
    // A script of pip names the environment's Python. If that path is long, it names a shell, and stands beside that Python.
    let root = [interpreter, script].into_iter().find_map(|path| {
        let root = path.parent()?.parent()?;
        root.join(SETTINGS).is_file().then(|| root.to_owned())
    })?;
    Some(in_environment(inside, script, &root))
}

/// Returns `true` if a script was made by an installer and only calls a package, which is not in it.
pub(super) fn is_entry(script: &Path) -> bool {
    let is_small = fs_err::metadata(script).is_ok_and(|found| found.len() <= MAX_ENTRY);
    let text = if is_small { fs_err::read_to_string(script).unwrap_or_default() } else { String::new() };
    text.contains("sys.exit(")
        && text.lines().any(|line| line.starts_with("from ") && line.contains(" import "))
}

/// Returns the name of a file.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn in_environment(inside: &str, script: &Path, root: &Path) -> Result<ProgramFiles, String> {
    let settings = fs_err::read_to_string(root.join(SETTINGS)).map_err(|error| error.to_string())?;
    let shares = settings.lines().filter_map(|line| line.split_once('=')).any(|(key, value)| {
        key.trim() == "include-system-site-packages" && value.trim().eq_ignore_ascii_case("true")
    });
    if shares {
        return Err("its environment also uses packages of this machine, which a sandbox has not".to_owned());
    }
    let packages = packages(root).ok_or_else(|| format!("{} has no packages", root.display()))?;
    if let Some(place) = installed_in_place(&packages) {
        return Err(format!(
            "{place} is installed in place (editable), so its code is not in its environment"
        ));
    }
    // As in lib/python3.12/site-packages.
    let version = packages.parent().map(name_of).unwrap_or_default();
    let python =
        fs_err::canonicalize(root.join("bin/python")).map_err(|_| "its Python is gone".to_owned())?;
    let (library, command) = (format!("{inside}/packages"), format!("{inside}/bin/{}", name_of(script)));
    let mut mounts = vec![(packages, library.clone()), (script.to_owned(), command.clone())];
    let is_system = python.parent().is_some_and(|folder| folder == Path::new("/usr/bin"));
    let python = if is_system {
        // The sandbox's image is made of the machine's own release, with the same Python.
        format!("/usr/bin/{version}")
    } else {
        let (own, path) = own_python(inside, &python, &version)?;
        mounts.extend(own);
        path
    };
    let sandbox = vec![python, "-c".to_owned(), START.to_owned(), library, command];
    Ok(ProgramFiles { mounts, host: vec![script.display().to_string()], sandbox })
}

/// Returns the folder of an environment's packages.
fn packages(root: &Path) -> Option<PathBuf> {
    let versions = fs_err::read_dir(root.join("lib")).ok()?.flatten();
    let mut found = versions
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("python3."))
        .map(|entry| entry.path().join("site-packages"))
        .filter(|packages| packages.is_dir());
    found.next()
}

/// Returns the name of a package whose code is somewhere else on the machine, if there is one.
fn installed_in_place(packages: &Path) -> Option<String> {
    let entries = fs_err::read_dir(packages).ok()?.flatten();
    entries.map(|entry| entry.path()).find_map(|path| {
        let name = name_of(&path);
        let links = path.extension().is_some_and(|end| end == "pth")
            && fs_err::read_to_string(&path).unwrap_or_default().lines().any(|line| line.starts_with('/'));
        (links || name.starts_with("__editable__")).then_some(name)
    })
}

/// Returns the mounts of a Python that needs nothing of the machine, and its path in a sandbox.
fn own_python(
    inside: &str,
    python: &Path,
    version: &str,
) -> Result<(Vec<(PathBuf, String)>, String), String> {
    let prefix = python.parent().and_then(Path::parent).unwrap_or(python);
    let (libraries, standard) = (prefix.join("lib"), prefix.join("lib").join(version));
    // A complete one has everything in its program or its own library. Others load libraries of the machine, such as OpenSSL.
    let borrows = fs_err::read_dir(standard.join("lib-dynload"))
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("_ssl."));
    if borrows || !standard.join("os.py").is_file() {
        return Err(format!(
            "its Python, {}, needs libraries of this machine that a sandbox has not: install it with the machine's own Python \
             (pipx install, python3 -m venv) or with one of uv's (uv tool install --managed-python)",
            python.display()
        ));
    }
    let path = format!("{inside}/python/bin/{}", name_of(python));
    let mut mounts =
        vec![(python.to_owned(), path.clone()), (standard, format!("{inside}/python/lib/{version}"))];
    for entry in fs_err::read_dir(libraries).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("libpython3") && name.contains(".so.") {
            mounts.push((entry.path(), format!("{inside}/python/lib/{name}")));
        }
    }
    Ok((mounts, path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Writes an environment whose Python is at `python`, and returns its script.
    fn environment(folder: &Path, python: &Path) -> PathBuf {
        let root = folder.join("venv");
        fs_err::create_dir_all(root.join("lib/python3.12/site-packages/agent")).unwrap();
        fs_err::create_dir_all(root.join("bin")).unwrap();
        fs_err::write(root.join(SETTINGS), "home = /x\ninclude-system-site-packages = false\n").unwrap();
        symlink(python, root.join("bin/python")).unwrap();
        let script = root.join("bin/agent");
        let entry = "import sys\nfrom agent import main\nif __name__ == '__main__':\n    sys.exit(main())\n";
        fs_err::write(&script, format!("#!{}\n{entry}", root.join("bin/python").display())).unwrap();
        script
    }

    /// Writes a Python of its own folder, and returns its program.
    fn standalone(folder: &Path) -> PathBuf {
        let prefix = folder.join("cpython-3.12");
        fs_err::create_dir_all(prefix.join("lib/python3.12/lib-dynload")).unwrap();
        fs_err::create_dir_all(prefix.join("bin")).unwrap();
        for file in ["bin/python3.12", "lib/python3.12/os.py", "lib/libpython3.12.so.1.0", "lib/libtcl.so"] {
            fs_err::write(prefix.join(file), "").unwrap();
        }
        prefix.join("bin/python3.12")
    }

    fn files(script: &Path) -> Option<Result<ProgramFiles, String>> {
        let interpreter = script.with_file_name("python");
        of("/opt/flock/acp-x", script, &interpreter)
    }

    #[test]
    fn a_script_of_an_environment_has_its_packages_and_its_python() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let python = standalone(&root);
        let script = environment(&root, &python);
        let found = files(&script).unwrap().unwrap();
        let mut targets: Vec<&str> = found.mounts.iter().map(|(_, target)| target.as_str()).collect();
        targets.sort_unstable();
        assert_eq!(
            targets,
            [
                "/opt/flock/acp-x/bin/agent",
                "/opt/flock/acp-x/packages",
                "/opt/flock/acp-x/python/bin/python3.12",
                "/opt/flock/acp-x/python/lib/libpython3.12.so.1.0",
                "/opt/flock/acp-x/python/lib/python3.12",
            ]
        );
        assert_eq!(found.sandbox[0], "/opt/flock/acp-x/python/bin/python3.12");
        assert_eq!(found.sandbox[3..], ["/opt/flock/acp-x/packages", "/opt/flock/acp-x/bin/agent"]);
        assert!(found.mounts.iter().all(|(source, _)| source.exists() && *source != root.join("venv")));
        // A script that names a shell, because the path of its Python is too long for a first line.
        assert!(of("/opt/flock/acp-x", &script, Path::new("/bin/sh")).unwrap().is_ok());
        let alone = root.join("agent.py");
        fs_err::write(&alone, "import sys\n").unwrap();
        assert!(of("/opt/flock/acp-x", &alone, Path::new("/usr/bin/python3")).is_none());
        assert!(is_entry(&script) && !is_entry(&alone));
    }

    #[test]
    fn what_a_sandbox_has_not_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let python = standalone(&root);
        let script = environment(&root, &python);
        let refused = |said: &str| {
            let why = files(&script).unwrap().unwrap_err();
            assert!(why.contains(said), "{why}");
        };
        let packages = root.join("venv/lib/python3.12/site-packages");
        fs_err::write(packages.join("x.pth"), "/home/kim/agent/src\n").unwrap();
        refused("installed in place");
        fs_err::write(packages.join("x.pth"), "import _virtualenv\n").unwrap();
        assert!(files(&script).unwrap().is_ok());
        fs_err::write(packages.join("__editable___agent_finder.py"), "").unwrap();
        refused("installed in place");
        fs_err::remove_file(packages.join("__editable___agent_finder.py")).unwrap();
        let borrowed =
            root.join("cpython-3.12/lib/python3.12/lib-dynload/_ssl.cpython-312-x86_64-linux-gnu.so");
        fs_err::write(&borrowed, "").unwrap();
        refused("uv tool install --managed-python");
        fs_err::remove_file(&borrowed).unwrap();
        fs_err::write(root.join("venv").join(SETTINGS), "include-system-site-packages = true\n").unwrap();
        refused("packages of this machine");
        fs_err::write(root.join("venv").join(SETTINGS), "").unwrap();
        fs_err::remove_file(&python).unwrap();
        refused("its Python is gone");
    }
}
