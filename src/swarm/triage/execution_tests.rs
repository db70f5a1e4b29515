use serde_json::json;

use super::*;
use crate::home::atomic;

struct Fixture {
    _folder: tempfile::TempDir,
    home: Home,
    config: Config,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&folder.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let mut document =
            crate::config::starter::document(&home, Some(&"script/demo".parse().unwrap()), "token", 3779);
        let outer = home.root().with_file_name("outer");
        fs_err::create_dir_all(&outer).unwrap();
        let plugin = &mut document["plugins"]["entries"]["flock"]["config"];
        plugin["gatewayAgents"] =
            json!([{"id": "sysadmin", "role": "sysadmin"}, {"id": "coder", "role": "worker"}]);
        document["agents"]["list"] = json!([
            {"id": "sysadmin", "sandbox": {"mode": "off"}}, {"id": "coder", "workspace": outer}
        ]);
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        let config = crate::config::parse::config(&document, &home).unwrap();
        fs_err::create_dir_all(home.workspaces().join("sysadmin")).unwrap();
        Self { _folder: folder, home, config }
    }

    fn workspace(&self, name: &str) -> String {
        self.home.workspaces().join("sysadmin").join(name).to_string_lossy().into_owned()
    }

    fn of(&self, command: &str) -> Result<(Execution, Vec<String>), String> {
        Execution::of(&self.home, &self.config, "r-1", command)
    }

    fn bound(&self, command: &str) -> Execution {
        self.of(command).unwrap().0
    }

    fn changed(&self, execution: &Execution) -> Vec<String> {
        execution.changed(&self.home, &self.config)
    }
}

#[test]
fn a_command_without_agent_files_gets_a_folder_and_a_small_environment() {
    let place = Fixture::new();
    let (execution, remarks) = place.of("df -h; cat /etc/hostname; git status --short").unwrap();
    assert_eq!(execution.cwd, place.home.commands().join("r-1").to_string_lossy());
    assert_eq!((&execution.files, &remarks), (&Vec::new(), &Vec::new()));
    assert!(
        execution.env.keys().all(|name| PASSED_VARIABLES.contains(&name.as_str())),
        "{:?}",
        execution.env
    );
    assert_eq!(execution.name(&place.home), Ok("r-1"));
    for cwd in ["/tmp", "/", "", &place.workspace(""), &format!("{}/../x", place.home.commands().display())] {
        let other = Execution { cwd: cwd.to_owned(), ..execution.clone() };
        assert!(other.name(&place.home).is_err(), "{cwd}");
    }
}

#[test]
fn an_agent_writable_file_is_bound_and_a_change_is_detected() {
    let place = Fixture::new();
    let script = place.workspace("run.sh");
    fs_err::write(&script, "echo one").unwrap();
    let commands = [
        format!("sh {script}"),
        format!("cd {} && sh workspaces/sysadmin/run.sh", place.home.root().display()),
        "sh ../../../workspaces/sysadmin/run.sh".to_owned(),
    ];
    let bound: Vec<Execution> = commands.iter().map(|command| place.bound(command)).collect();
    for (execution, command) in bound.iter().zip(&commands) {
        let found = execution.files.iter().find(|bound| bound.path == script);
        assert!(found.is_some_and(|bound| bound.kind == BoundFileKind::File), "{command}: {execution:?}");
        assert_eq!(place.changed(execution), Vec::<String>::new());
    }
    let (_, remarks) = place.of(&commands[0]).unwrap();
    assert!(remarks[0].contains(&script), "{remarks:?}");
    // Changed and changed back: the content is the same, and the change is noticed.
    fs_err::rename(&script, place.workspace("away")).unwrap();
    fs_err::write(&script, "echo one").unwrap();
    for execution in &bound {
        assert_eq!(place.changed(execution), std::slice::from_ref(&script));
    }
}

#[test]
fn missing_files_and_whole_folders_are_bound() {
    let place = Fixture::new();
    let later = place.bound(&format!("sh {}", place.workspace("later.sh")));
    let all = place.bound(&format!("cd {} && git status", place.workspace("")));
    let vault = place.bound(&format!("make -C {}", place.home.vaults().display()));
    let outer = place.home.root().with_file_name("outer");
    let outside = place.bound(&format!("sh {}", outer.join("x.sh").display()));
    let wildcard = place.bound(&format!("sh {}*", place.workspace("")));
    assert_eq!(later.files[0].kind, BoundFileKind::Absent);
    for execution in [&all, &vault, &wildcard] {
        assert_eq!(execution.files[0].kind, BoundFileKind::Folder, "{execution:?}");
    }
    for execution in [&later, &all, &vault, &outside, &wildcard] {
        assert_eq!(place.changed(execution), Vec::<String>::new());
    }
    fs_err::create_dir(place.workspace(".git")).unwrap();
    fs_err::write(place.workspace(".git/config"), "[core]\n\tfsmonitor = \"sh -c id\"\n").unwrap();
    fs_err::write(place.workspace("later.sh"), "id").unwrap();
    fs_err::write(place.home.vaults().join("Makefile"), "all:\n\tid\n").unwrap();
    fs_err::write(outer.join("x.sh"), "id").unwrap();
    for execution in [&later, &all, &vault, &outside, &wildcard] {
        assert_eq!(place.changed(execution).len(), 1, "{execution:?}");
    }
}

#[test]
fn agent_links_and_oversized_files_are_refused() {
    let place = Fixture::new();
    std::os::unix::fs::symlink("/etc", place.workspace("link")).unwrap();
    std::os::unix::fs::symlink(place.workspace(""), place.home.root().with_file_name("into")).unwrap();
    let into = place.home.root().with_file_name("into");
    let large = std::fs::File::create(place.home.vaults().join("large")).unwrap();
    large.set_len(fingerprint::MAX_BYTES + 1).unwrap();
    for command in [
        format!("cat {}/hostname", place.workspace("link")),
        format!("cat {}/link/hostname", into.display()),
        format!("cat {}", place.workspace("link")),
        format!("cat {}", place.home.vaults().join("large").display()),
        format!("cat {}", place.home.workspaces().join("none/../sysadmin/x").display()),
    ] {
        let refused = place.of(&command).unwrap_err();
        assert!(refused.contains("can't be bound"), "{command}: {refused}");
    }
    let refused = place.of(&(0..1000).map(|n| format!("/{n} ")).collect::<String>()).unwrap_err();
    assert!(refused.contains("more than 256 paths"), "{refused}");
}

#[test]
fn parent_folders_and_dynamic_parts_are_remarked() {
    let place = Fixture::new();
    let (execution, remarks) = place.of("find / -name core").unwrap();
    assert_eq!(execution.files, []);
    assert!(remarks.len() == 1 && remarks[0].contains("there are folders that agents write"), "{remarks:?}");
    let (_, remarks) = place.of("sh $(echo x)").unwrap();
    assert!(remarks.len() == 1 && remarks[0].contains("only known when it runs"), "{remarks:?}");
}

#[test]
fn path_contains_no_agent_writable_folder() {
    let place = Fixture::new();
    let env = environment(&writable_folders(&place.home, &place.config));
    assert!(env["PATH"].split(':').all(|folder| folder.starts_with('/')), "{env:?}");
    let workspaces = place.home.workspaces();
    assert!(!env["PATH"].contains(&*workspaces.to_string_lossy()));
}
