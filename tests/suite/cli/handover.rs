//! util-linux's `flock` has the same name: called as that one, the binary becomes it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::home::{Run, finish};
use crate::support::{copy_program, flock_binary};

/// A folder with our binary first on PATH and other folders behind it.
struct Shadowed {
    dir: tempfile::TempDir,
}

impl Shadowed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("ours");
        std::fs::create_dir(&ours).unwrap();
        std::os::unix::fs::symlink(flock_binary(), ours.join("flock")).unwrap();
        Self { dir }
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.dir.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn fake(&self) -> PathBuf {
        let folder = self.folder("theirs");
        let script = folder.join("flock");
        std::fs::write(&script, "#!/bin/sh\necho \"fake:$*\"\nexit 42\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    fn run(&self, behind: &[&Path], args: &[&str]) -> Run {
        let ours = self.dir.path().join("ours");
        let path =
            std::env::join_paths(std::iter::once(ours.as_path()).chain(behind.iter().copied())).unwrap();
        let mut command = Command::new(ours.join("flock"));
        finish(command.env_clear().env("PATH", path).current_dir(self.dir.path()).args(args))
    }
}

#[test]
fn lines_of_the_other_flock_run_the_other_flock() {
    let place = Shadowed::new();
    let fake = place.fake();
    for args in [&["-n", "lock", "true"][..], &["9"], &["/tmp", "-c", "echo hi"], &["--close", "x", "y"]] {
        let run = place.run(&[&fake], args).fails(42);
        assert_eq!(run.stdout, format!("fake:{}\n", args.join(" ")));
    }
}

#[test]
fn verbs_stay_ours_even_where_a_file_has_their_name() {
    let place = Shadowed::new();
    let fake = place.fake();
    std::fs::write(place.dir.path().join("completions"), "").unwrap();
    let run = place.run(&[&fake], &["completions", "fish"]).ok();
    assert!(run.stdout.contains("complete -c flock"), "{run:?}");
    assert!(place.run(&[&fake], &["--version"]).ok().stdout.starts_with("flock "));
}

#[test]
fn a_word_that_is_neither_verb_nor_file_is_a_usage_error() {
    let place = Shadowed::new();
    let run = place.run(&[&place.fake()], &["lsit"]).fails(2);
    assert!(run.stderr.contains("unrecognized subcommand 'lsit'"), "{run:?}");
}

#[test]
fn where_there_is_no_other_flock_the_error_says_so() {
    let place = Shadowed::new();
    let run = place.run(&[&place.folder("empty")], &["-n", "lock", "true"]).fails(2);
    assert!(run.stdout.is_empty() && run.stderr.contains("util-linux"), "{run:?}");
    assert!(run.stderr.contains("hint: run `flock --help`"), "{run:?}");
}

#[test]
fn two_copies_of_ours_do_not_call_each_other_for_ever() {
    let place = Shadowed::new();
    let copy = place.folder("copy");
    copy_program(flock_binary().as_ref(), &copy.join("flock"));
    place.run(&[&copy], &["-n", "lock", "true"]).fails(2);
    let run = place.run(&[&copy, &place.fake()], &["-n", "lock", "true"]).fails(42);
    assert_eq!(run.stdout, "fake:-n lock true\n");
}

#[test]
fn the_real_util_linux_flock_locks() {
    let Some(real) =
        which::which_in_all("flock", Some("/usr/bin:/bin"), "/").ok().and_then(|mut all| all.next())
    else {
        eprintln!("skipped: this machine has no util-linux flock");
        return;
    };
    let place = Shadowed::new();
    let folder = real.parent().unwrap();
    let run =
        place.run(&[folder], &["-n", "lock", "sh", "-c", "echo locked; flock -n lock true || echo refused"]);
    assert_eq!(run.clone().ok().stdout, "locked\nrefused\n", "{run:?}");
    assert!(place.dir.path().join("lock").exists());
}
