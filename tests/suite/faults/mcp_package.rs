//! The process is killed while the package of an MCP server is put in its place. Either all of it counts or nothing.

use super::rollback::dies_with;
use crate::support::home::TempHome;
use crate::support::package_registry::PackageRegistry;

/// The names in the folder of the server, except its locks.
fn names(home: &TempHome) -> Vec<String> {
    let entries = std::fs::read_dir(home.file("mcp/notes")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "locks").collect();
    names.sort();
    names
}

#[test]
fn a_package_that_was_killed_half_way_never_counts_as_installed() {
    let home = TempHome::new().init();
    let registry = PackageRegistry::start();
    registry.lock_test_server(&home);
    let variables = registry.variables();
    let env: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let update = || home.flock_with_env(["mcp", "update", "notes", "--locked", "--json"], &env);
    let helper = home.file("mcp/notes/packages/site/helper.py");
    let is_good = || !home.flock(["doctor", "--json"]).stdout.contains("flock mcp update notes --locked");
    // The first installation, and one over files that somebody has changed.
    for is_there in [false, true] {
        for (at, is_whole) in [
            ("PackageStaged", false),
            ("PackagePlacing:1", false),
            ("PackagePlacing:2", false),
            ("PackagePlacing:3", false),
            ("PackagePlacing:4", false),
            ("PackagePlacing:5", true),
        ] {
            if is_there {
                update().ok();
                std::fs::write(&helper, "changed").unwrap();
            } else {
                drop(std::fs::remove_dir_all(home.file("mcp/notes/packages")));
                drop(std::fs::remove_file(home.file("mcp/notes/installed.json")));
            }
            assert!(dies_with(&home, "mcp update notes --locked", at, &variables), "{at}");
            assert_eq!(is_good(), is_whole, "{at} with {is_there}");
            assert!(names(&home).iter().any(|name| name.starts_with(".new-")), "{at} died in the middle");
            if is_whole {
                assert_eq!(std::fs::read_to_string(&helper).unwrap(), "one", "{at}");
                assert_eq!(update().ok().json()["replaced"], false, "{at}");
                std::fs::write(&helper, "changed").unwrap();
            }
            assert_eq!(update().ok().json()["replaced"], true, "{at}");
            assert!(is_good(), "{at}");
            assert_eq!(std::fs::read_to_string(&helper).unwrap(), "one", "{at}");
            assert_eq!(
                names(&home),
                ["installed.json", "packages"],
                "{at}: what the killed process left is gone"
            );
        }
    }
}
