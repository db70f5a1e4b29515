//! `flock service`, written below another root so that no service manager takes part.

use super::Flock;

#[test]
fn a_service_is_written_shown_and_removed() {
    let flock = Flock::new();
    let root = flock.outside().join("root");
    let install = |scope: &str| {
        flock.flock(["service", "install", scope, "--json", "--root", root.to_str().unwrap()]).ok().json()
    };
    let user = install("--user");
    let path = std::path::PathBuf::from(user["path"].as_str().unwrap());
    assert!(path.starts_with(&root), "{user}");
    assert_eq!(user["active"], false);
    if cfg!(target_os = "linux") {
        let unit = std::fs::read_to_string(&path).unwrap();
        let line = format!("--home \"{}\" start --foreground", flock.path().display());
        assert!(unit.contains(&line), "{unit}");
        assert!(unit.contains("WantedBy=default.target"), "{unit}");
        let system = install("--system");
        assert!(system["path"].as_str().unwrap().contains("/etc/systemd/system/flock-"), "{system}");
    }
    let text = flock.flock(["service", "install", "--user", "--root", root.to_str().unwrap()]).ok();
    assert!(text.stderr.contains("start --foreground"), "it shows what it wrote: {text:?}");
    let remove = || flock.flock(["service", "remove", "--user", "--root", root.to_str().unwrap()]).ok();
    remove();
    assert!(!path.exists());
    assert!(remove().stderr.contains("no service"));
}
