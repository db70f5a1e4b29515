//! A copy of a home beside the first one, in one engine: each has containers of its own and leaves the other's alone.

use std::path::Path;
use std::process::Command;

use crate::support::docker::{self, docker as docker_command};
use crate::support::home::{Run, TempHome, finish, free_port};

/// Removes what the copy has in the engine, whether the test passed or not.
struct Copy(std::path::PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        docker::clean(&flock::home::Home::new(self.0.clone(), None));
    }
}

fn with_home(home: &TempHome, other: &Path, args: &[&str]) -> Run {
    finish(home.command().arg("--home").arg(other).args(args))
}

#[test]
fn a_copy_never_touches_the_containers_and_workspaces_of_the_first_home() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["add", "coder"]).ok();
    home.flock(["start"]).ok();
    home.flock(["edit", "coder", "--memory", "256m"]).ok();
    std::fs::write(home.file("workspaces/coder/precious"), "x").unwrap();
    let container = home.container("coder");
    let state = || docker_command(&["inspect", "-f", "{{.Id}} {{.State.Status}}", &container]);
    let first = state();
    assert!(first.ends_with("running"), "{first}");
    let copy = Copy(home.outside().join("copy"));
    assert!(Command::new("cp").arg("-a").args([&home.path(), &copy.0]).status().unwrap().success());
    let _database = home.database().copied_to(&flock::home::Home::new(copy.0.clone(), None));
    let in_copy = |args: &[&str]| with_home(&home, &copy.0, args);
    let port = free_port().to_string();
    in_copy(&["config", "set", "plugins.entries.flock.config.gateway.port", &port]).ok();
    in_copy(&["config", "validate"]).ok();
    in_copy(&["start"]).ok();
    in_copy(&["add", "other"]).ok();
    let own = flock::sandbox::names::sandbox(
        &flock::home::Home::new(copy.0.clone(), None),
        &"other".parse().unwrap(),
    );
    assert_eq!(docker_command(&["inspect", "-f", "{{.State.Status}}", &own]), "running");
    let binds = docker_command(&["inspect", "-f", "{{range .Mounts}}{{.Source}} {{end}}", &own]);
    assert!(!binds.split_whitespace().any(|source| Path::new(source).starts_with(home.path())), "{binds}");
    in_copy(&["freeze", "--all"]).ok();
    assert_eq!(state(), first, "not paused");
    in_copy(&["thaw", "--all"]).ok();
    in_copy(&["remove", "coder", "--purge", "--yes"]).ok();
    assert!(home.file("workspaces/coder/precious").exists() && !copy.0.join("workspaces/coder").exists());
    in_copy(&["stop"]).ok();
    in_copy(&["uninstall", "--purge", "--yes"]).ok();
    assert_eq!(state(), first);
    assert_eq!(docker_command(&["ps", "-aq", "--filter", &format!("name=^{own}$")]), "");
    home.flock(["chat", "coder", "hello"]).ok();
    assert!(home.file("workspaces/coder/precious").exists());
}
