//! The files of a program that is known by its command alone: a native program, a script whose interpreter is in the
//! sandbox, a package of npm with the Node that runs it, or a Python script with its [environment](python).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::python::{self, name_of};
use crate::runtime::program::interface::ProgramFiles;
use crate::runtime::program::{executable, node};

/// The folder of a sandbox for these programs.
const BELOW: &str = "/opt/flock";
/// The folders of a sandbox in which commands are looked for.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The folders of a sandbox with the interpreters of its image.
const SYSTEM: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];
/// Longest first line of a script.
const MAX_FIRST_LINE: u64 = 256;

/// Returns the files of the program to which a command leads.
///
/// # Errors
///
/// Returns the reason why it can't be run in a sandbox. The text completes "can't be used: …".
pub(super) fn of(folder: &str, command: &Path) -> Result<ProgramFiles, String> {
    let inside = format!("{BELOW}/{folder}");
    let name = name_of(command);
    let host = vec![command.display().to_string()];
    let single = || ProgramFiles {
        mounts: vec![(command.to_owned(), format!("{inside}/bin/{name}"))],
        host: host.clone(),
        sandbox: vec![format!("{inside}/bin/{name}")],
    };
    if executable::is_native(command) {
        return Ok(single());
    }
    let interpreter = interpreter(command).ok_or_else(|| executable::INCOMPLETE.to_owned())?;
    if let Some(files) = python::of(&inside, command, &interpreter) {
        return files;
    }
    if !interpreter.ends_with("node") {
        check_alone(command, &interpreter)?;
        return Ok(single());
    }
    // npm puts what a package needs beside it or into it, so all of the outermost folder is taken.
    let modules = command
        .ancestors()
        .filter(|folder| folder.ends_with("node_modules"))
        .last()
        .ok_or("its script is in no folder of npm's packages")?;
    let below = command.strip_prefix(modules).map_err(|error| error.to_string())?;
    let node = node::find(modules)?;
    let script = format!("{inside}/node_modules/{}", below.display());
    Ok(ProgramFiles {
        mounts: vec![
            (node.clone(), format!("{inside}/bin/node")),
            (modules.to_owned(), format!("{inside}/node_modules")),
        ],
        host: vec![node.display().to_string(), command.display().to_string()],
        sandbox: vec![format!("{inside}/bin/node"), script],
    })
}

/// Checks that a script which is mounted alone has what it needs.
fn check_alone(script: &Path, interpreter: &Path) -> Result<(), String> {
    let is_there = interpreter.is_relative()
        || interpreter.parent().is_some_and(|folder| SYSTEM.map(Path::new).contains(&folder));
    if !is_there {
        return Err(format!(
            "its interpreter {} is not in a sandbox: flock takes along Node, and the Python of a virtual environment",
            interpreter.display()
        ));
    }
    if name_of(interpreter).starts_with("python") && python::is_entry(script) {
        return Err("its packages are not in a virtual environment, so a sandbox does not get them: install it with pipx or uv"
            .to_owned());
    }
    Ok(())
}

/// Returns the search path of such a program: its own commands, and those of the packages beside it, come first.
pub(super) fn search_path(folder: &str) -> String {
    format!("{BELOW}/{folder}/bin:{BELOW}/{folder}/node_modules/.bin:{SYSTEM_PATH}")
}

/// Returns the interpreter that a script names, or `None` if the file is no script.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut head = String::new();
    // A file that is not text has no such line.
    File::open(script).ok()?.take(MAX_FIRST_LINE).read_to_string(&mut head).ok().or_else(|| {
        // The cut may be inside a character: the first line itself is what counts.
        let mut bytes = Vec::new();
        File::open(script).ok()?.take(MAX_FIRST_LINE).read_to_end(&mut bytes).ok()?;
        head = String::from_utf8_lossy(&bytes).into_owned();
        Some(head.len())
    })?;
    let line = head.lines().next()?.strip_prefix("#!")?.trim();
    let mut words = line.split_whitespace();
    let first = words.next()?;
    // `env` finds the interpreter by its name. Its options are passed over.
    let named = if first.ends_with("/env") { words.find(|word| !word.starts_with('-'))? } else { first };
    Some(PathBuf::from(named))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn script(folder: &Path, path: &str, text: &str) -> PathBuf {
        let path = folder.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_script_is_run_by_the_interpreter_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        for (text, expected) in [
            ("#!/bin/sh\necho", Some("/bin/sh")),
            ("#!/usr/bin/env node\n", Some("node")),
            ("#!/usr/bin/env -S node --x\n", Some("node")),
            ("#! /usr/bin/python3 -u\n", Some("/usr/bin/python3")),
            ("echo", None),
            ("", None),
        ] {
            let path = script(folder.path(), "agent", text);
            assert_eq!(interpreter(&path), expected.map(PathBuf::from), "{text:?}");
        }
        let long = format!("#!/bin/sh\n{}é", "x".repeat(245));
        assert_eq!(interpreter(&script(folder.path(), "agent", &long)), Some("/bin/sh".into()));
    }

    #[test]
    fn a_script_of_the_system_is_mounted_alone_and_a_package_with_all_that_is_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let alone = script(folder.path(), "bin/agent", "#!/bin/sh\n");
        let files = of("acp-x", &alone).unwrap();
        assert_eq!(files.mounts, [(alone, "/opt/flock/acp-x/bin/agent".to_owned())]);
        assert_eq!(files.sandbox, ["/opt/flock/acp-x/bin/agent"]);
        let packaged =
            script(folder.path(), "node_modules/@a/b/node_modules/c/cli.js", "#!/usr/bin/env node\n");
        // Whether there is a Node depends on the machine.
        if let Ok(files) = of("acp-x", &packaged) {
            assert_eq!(files.mounts[1].0, folder.path().join("node_modules"));
            assert_eq!(files.sandbox[1], "/opt/flock/acp-x/node_modules/@a/b/node_modules/c/cli.js");
        }
        for (text, said) in [
            ("#!/home/kim/python/bin/python3\nimport sys\n", "its interpreter /home/kim/python/bin/python3"),
            ("#!/usr/bin/python3\nimport sys\nfrom agent.cli import main\nsys.exit(main())\n", "pipx or uv"),
        ] {
            let why = of("acp-x", &script(folder.path(), "bin/refused", text)).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
        assert!(
            of("acp-x", &script(folder.path(), "bin/own", "#!/usr/bin/env python3\nimport sys\n")).is_ok()
        );
        let loose = script(folder.path(), "cli.js", "#!/usr/bin/env node\n");
        assert!(of("acp-x", &loose).is_err());
        assert!(of("acp-x", &script(folder.path(), "text", "no script")).is_err());
    }
}
