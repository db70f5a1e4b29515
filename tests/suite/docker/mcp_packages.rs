//! Packages of MCP servers over the whole way: resolved in a sandbox, pinned, run read-only, updated. The registry is the
//! test's own, and so are the stand-ins for Node, npm and pip.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::docker::docker as docker_command;
use crate::support::home::{Run, TempHome};
use crate::support::package_registry::{PackageRegistry, tarball, tarball_with_link};

const SERVER: &str = include_str!("../../fixtures/mcp/server.py");
/// The wheel's program.
const MODULE: &str =
    "def main():\n    import runpy, helper\n    runpy.run_module('server_program', run_name='__main__')\n";

struct Setup {
    home: TempHome,
    registry: PackageRegistry,
}

impl Setup {
    fn new() -> Option<Self> {
        let home = TempHome::init_in_docker()?;
        PackageRegistry::stand_ins(&home);
        let registry = PackageRegistry::start();
        let manifest = |helper: &str| {
            json!({"bin": {"test-server": "./dist/index.js", "other": "dist/other.js"},
                "dependencies": {"helper": helper}})
        };
        let files = [("dist/index.js", SERVER), ("dist/other.js", "")];
        registry.npm("@test/test-server", "1.0.0", manifest("1.0.0"), &files);
        registry.npm("@test/test-server", "1.1.0", manifest("1.0.0"), &files);
        let scripts =
            json!({"scripts": {"install": "touch /workspace/ran", "postinstall": "touch /workspace/ran"}});
        registry.npm("helper", "1.0.0", scripts, &[("index.js", "one")]);
        Some(Self { home, registry })
    }

    fn flock(&self, args: &[&str]) -> Run {
        let variables = self.registry.variables();
        let own = variables.iter().map(|(name, value)| (*name, value.as_str()));
        // A person's own settings of npm and pip count for nothing. The stand-ins look for them.
        let evil = "http://evil.example/";
        let others = ["NPM_CONFIG_REGISTRY", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "HTTPS_PROXY"];
        let variables: Vec<(&str, &str)> = own.chain(others.map(|name| (name, evil))).collect();
        self.home.flock_with_env(args, &variables)
    }

    fn server(&self, name: &str) -> Value {
        self.home.config()["plugins"]["entries"]["flock"]["config"]["mcpServers"][name].clone()
    }

    /// Nothing of a server that was not added may be there.
    fn is_clean(&self, name: &str) -> bool {
        let folder = self.home.file(format!("mcp/{name}"));
        self.server(name).is_null()
            && std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
    }

    fn container(&self, name: &str) -> String {
        self.home.container("x").replace("flock-sbx-x", &format!("flock-mcp-{name}"))
    }
}

#[test]
fn a_package_of_npm_is_resolved_without_a_network_shown_pinned_and_run_read_only() {
    let Some(setup) = Setup::new() else { return };
    let add = ["mcp", "add", "tools", "--npm", "@test/test-server@^1.0.0"];
    let shown = setup.flock(&add).fails(2);
    for part in ["1.1.0 from npm, with 1 other packages", "sha512-", "helper", "do not run", "--yes"] {
        assert!(shown.stdout.contains(part) || shown.stderr.contains(part), "{part}: {shown:?}");
    }
    assert!(setup.is_clean("tools"), "nothing is there before a person has agreed");
    let added = setup.flock(&[&add[..], &["--yes", "--json", "--", "--flag"]].concat()).ok().json();
    let package = &added["packages"]["tools"];
    assert_eq!((&package["version"], &package["packages"]), (&json!("1.1.0"), &json!(2)), "{added}");
    let entry = setup.server("tools");
    assert_eq!(
        entry["command"],
        json!([
            "/opt/flock/node/bin/node",
            "/package/node_modules/@test/test-server/dist/index.js",
            "--flag"
        ])
    );
    assert_eq!(entry["package"]["version"], "1.1.0");
    assert_eq!(entry["package"]["lock"].as_str().unwrap().len(), 64);
    let found = setup.flock(&["mcp", "test", "tools", "--json"]).ok().json();
    assert!(found["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "echo"), "{found}");
    setup.home.flock(["start"]).ok();
    setup.flock(&["mcp", "test", "tools"]).ok();
    let container = setup.container("tools");
    let mounts = "{{range .Mounts}}{{.Destination}} {{.RW}};{{end}} {{.HostConfig.NetworkMode}}";
    let inspected = docker_command(&["inspect", "-f", mounts, &container]);
    for part in ["/package false", "/opt/flock/node false", "/workspace true", "none"] {
        assert!(inspected.contains(part), "{part}: {inspected}");
    }
    let write =
        docker_command(&["exec", &container, "sh", "-c", "touch /package/x /opt/flock/node/x; ls /package"]);
    assert_eq!(write.trim(), "node_modules");
    assert!(!setup.home.file("mcp/tools/workspace/ran").exists(), "no install script ran");
    let shown = setup.flock(&["mcp", "show", "tools"]).ok().stdout;
    assert!(shown.contains("@test/test-server 1.1.0 from npm") && shown.contains("sha512-"), "{shown}");
    // A running server is started again with the files that come back.
    let file = setup.home.file("mcp/tools/packages/node_modules/helper/index.js");
    std::fs::write(&file, "evil").unwrap();
    setup.flock(&["mcp", "update", "tools", "--locked"]).ok();
    setup.flock(&["mcp", "test", "tools"]).ok();
    let seen = docker_command(&["exec", &container, "cat", "/package/node_modules/helper/index.js"]);
    assert_eq!(seen.trim(), "one");
    // Beside a running gateway, too.
    setup.flock(&["mcp", "add", "second", "--npm", "@test/test-server@1.0.0", "--yes"]).ok();
    setup.flock(&["mcp", "test", "second"]).ok();
    assert!(setup.flock(&["audit", "--json"]).ok().stdout.contains("npm @test/test-server@1.0.0 lock"));
    setup.home.flock(["mcp", "remove", "tools", "--yes"]).ok();
    assert!(!setup.home.file("mcp/tools/packages").exists() && !setup.home.file("mcp/tools/locks").exists());
    setup.home.flock(["stop"]).ok();
}

#[test]
fn an_update_shows_the_differences_and_a_lost_package_comes_back_as_its_lock_says() {
    let Some(setup) = Setup::new() else { return };
    setup.flock(&["mcp", "add", "tools", "--npm", "@test/test-server@1.0.0", "--yes", "--", "--x"]).ok();
    let first = setup.server("tools");
    let same = setup.flock(&["mcp", "update", "tools", "--json"]).ok().json();
    assert_eq!(same["replaced"], false, "{same}");
    // Another version with another helper.
    setup.registry.npm("helper", "2.0.0", json!({}), &[("index.js", "two")]);
    let manifest = json!({"bin": "./dist/index.js", "dependencies": {"helper": "2.0.0"}});
    setup.registry.npm("@test/test-server", "2.0.0", manifest, &[("dist/index.js", SERVER)]);
    let shown = setup.flock(&["mcp", "update", "tools", "--to", "latest"]).fails(2);
    assert!(shown.stdout.contains("helper") && shown.stdout.contains("2.0.0"), "{shown:?}");
    assert_eq!(setup.server("tools"), first, "nothing changed without consent");
    let done = setup.flock(&["mcp", "update", "tools", "--to", "latest", "--yes", "--json"]).ok().json();
    let changed: Vec<&str> =
        done["differences"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(changed, ["@test/test-server", "helper"]);
    let entry = setup.server("tools");
    assert_eq!((&entry["package"]["version"], &entry["command"][2]), (&json!("2.0.0"), &json!("--x")));
    setup.flock(&["mcp", "test", "tools"]).ok();
    // Lost: it does not start, doctor says why, and only the same archives bring it back.
    std::fs::remove_dir_all(setup.home.file("mcp/tools/packages")).unwrap();
    let failed = setup.flock(&["mcp", "test", "tools"]).fails(1);
    assert!(failed.stderr.contains("flock mcp update tools --locked"), "{failed:?}");
    assert!(setup.flock(&["doctor", "--json"]).stdout.contains("flock mcp update tools --locked"));
    let honest =
        setup.registry.swap("helper-2.0.0.tgz", tarball(&[("package.json", "{}"), ("index.js", "evil")]));
    let refused = setup.flock(&["mcp", "update", "tools", "--locked"]).fails(1);
    assert!(refused.stderr.contains("helper@2.0.0 has another hash than it should"), "{refused:?}");
    assert!(!setup.home.file("mcp/tools/packages").exists());
    setup.registry.swap("helper-2.0.0.tgz", honest);
    setup.flock(&["mcp", "update", "tools", "--locked"]).ok();
    setup.flock(&["mcp", "test", "tools"]).ok();
    // Changed.
    let file = setup.home.file("mcp/tools/packages/node_modules/helper/index.js");
    std::fs::write(&file, "evil").unwrap();
    assert!(setup.flock(&["doctor", "--json"]).stdout.contains("have been changed"));
    setup.flock(&["mcp", "update", "tools", "--locked"]).ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    let again = setup.flock(&["mcp", "update", "tools", "--locked", "--json"]).ok().json();
    assert_eq!(again["replaced"], false);
}

#[test]
fn lies_of_a_registry_end_the_installation_and_leave_nothing() {
    let Some(setup) = Setup::new() else { return };
    let add = |package: &str, part: &str| {
        let run = setup.flock(&["mcp", "add", "bad", "--npm", package, "--yes"]);
        assert!(run.code != 0 && run.stderr.contains(part), "{package}: {part}: {run:?}");
        assert!(setup.is_clean("bad"), "{package} left something");
    };
    let bin = json!({"bin": "index.js"});
    setup.registry.npm("swapped", "1.0.0", bin.clone(), &[("index.js", "x")]);
    setup.registry.swap("swapped-1.0.0.tgz", tarball(&[("index.js", "evil")]));
    add("swapped", "swapped@1.0.0 has another hash than it should");
    let outside = tarball(&[("package.json", "{\"bin\": \"index.js\"}"), ("../../../../planted", "x")]);
    setup.registry.npm_archive("traversal", "1.0.0", bin.clone(), outside);
    add("traversal", "its archive has the path");
    assert!(!setup.home.file("planted").exists() && !setup.home.outside().join("planted").exists());
    let linked = tarball_with_link("out", "/tmp", "{\"bin\": \"index.js\"}");
    setup.registry.npm_archive("linked", "1.0.0", bin, linked);
    add("linked", "linked@1.0.0 has no program to run");
    assert!(!std::path::Path::new("/tmp/planted").exists());
    let elsewhere = json!({"bin": "index.js", "dependencies": {"foreign": "1.0.0"}});
    setup.registry.npm("asks", "1.0.0", elsewhere, &[("index.js", "x")]);
    add("asks", "no packages that fit");
    add("missing-package", "npm has no package missing-package");
    add("swapped@9", "has no version \"9\"; it has 1.0.0");
    setup.registry.npm("library", "1.0.0", json!({}), &[("index.js", "x")]);
    add("library", "library@1.0.0 has no program to run");
    let several = json!({"bin": {"one": "index.js", "two": "index.js"}});
    setup.registry.npm("several", "1.0.0", several, &[("index.js", "x")]);
    add("several", "has several programs: one, two");
    let ran = setup.flock(&["mcp", "add", "bad", "--npm", "several", "--bin", "three", "--yes"]).fails(2);
    assert!(ran.stderr.contains("no such program: one, two"), "{ran:?}");
    setup.flock(&["mcp", "add", "good", "--npm", "several", "--bin", "two", "--yes"]).ok();
    let gone = [("FLOCK_NPM_REGISTRY", "http://127.0.0.1:9/")];
    let run = setup.home.flock_with_env(["mcp", "add", "bad", "--npm", "several", "--yes"], &gone).fails(1);
    assert!(run.stderr.contains("npm can't be reached") && run.stderr.contains("HTTPS_PROXY"), "{run:?}");
}

#[test]
fn a_package_of_pypi_comes_as_wheels_and_runs_by_its_entry_point() {
    let Some(setup) = Setup::new() else { return };
    let registry = &setup.registry;
    let points = "[console_scripts]\ntest-server = test_server.main:main\n";
    registry.wheel("test-helper", "1.0", &[], &[("helper.py", "")]);
    let files = [
        ("test_server/__init__.py", ""),
        ("test_server/main.py", MODULE),
        ("server_program.py", SERVER),
        ("INFO/entry_points.txt", points),
    ];
    registry.wheel("test-server", "1.5", &["test-helper"], &files);
    registry.file("test-server", "test_server-2.0.tar.gz", b"source".to_vec());
    registry.file("only-source", "only_source-1.0.tar.gz", b"source".to_vec());
    setup
        .flock(&["mcp", "add", "tools", "--pypi", "test-server==1.5", "--with", "test-helper", "--yes"])
        .ok();
    let entry = setup.server("tools");
    assert_eq!(
        entry["command"].as_array().unwrap()[1..],
        json!(["/package/run.py", "test_server.main:main"]).as_array().unwrap()[..]
    );
    let found = setup.flock(&["mcp", "test", "tools", "--json"]).ok().json();
    assert!(found["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "echo"), "{found}");
    for (package, part) in [
        ("test-server==2.0", "has no wheel, and flock builds nothing; these versions have: 1.5"),
        ("only-source", "no version of it has one"),
        ("test-server==9", "has no version \"==9\"; it has 1.5"),
        ("test-server>=9", "no packages that fit"),
        ("missing", "PyPI has no package missing"),
        ("test-helper", "test-helper==1.0 has no program to run"),
    ] {
        let run = setup.flock(&["mcp", "add", "bad", "--pypi", package, "--yes"]);
        assert!(run.code == 1 && run.stderr.contains(part), "{package}: {run:?}");
        assert!(setup.is_clean("bad"), "{package}");
    }
    registry.swap("test_helper-1.0-py3-none-any.whl", b"evil".to_vec());
    let run = setup.flock(&["mcp", "add", "bad", "--pypi", "test-server==1.5", "--yes"]).fails(1);
    assert!(run.stderr.contains("test_helper==1.0 has another hash than it should"), "{run:?}");
    assert!(setup.is_clean("bad"));
}

#[test]
fn the_run_lines_of_other_programs_become_packages_if_the_person_says_so() {
    let Some(setup) = Setup::new() else { return };
    let file = json!({"mcpServers": {
        "tools": {"command": "npx", "args": ["-y", "@test/test-server@1.0.0", "--flag"], "env": {"TOKEN": "t"}},
        "plain": {"command": "python3", "args": ["/workspace/x.py"]},
    }});
    std::fs::write(setup.home.outside().join("servers.json"), file.to_string()).unwrap();
    let file = setup.home.outside().join("servers.json");
    let file = file.to_str().unwrap();
    setup.flock(&["mcp", "import", file, "--fetch"]).fails(2);
    assert!(setup.server("tools").is_null());
    setup.flock(&["mcp", "import", file, "--fetch", "--yes"]).ok();
    let entry = setup.server("tools");
    assert_eq!((&entry["package"]["version"], &entry["command"][2]), (&json!("1.0.0"), &json!("--flag")));
    assert!(entry["secrets"]["TOKEN"].is_string() && setup.server("plain")["package"].is_null());
    setup.flock(&["mcp", "test", "tools"]).ok();
    let one = json!({"command": "npx", "args": ["-y", "@test/test-server"]}).to_string();
    setup.flock(&["mcp", "add", "more", "--server-json", &one, "--fetch", "--yes"]).ok();
    assert_eq!(setup.server("more")["package"]["version"], "1.1.0");
}
