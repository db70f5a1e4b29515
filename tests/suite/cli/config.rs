//! `flock config`, and what every verb does with a configuration that is not usable.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use super::session::{session, snapshot};
use crate::support::home::{TempHome, finish};

#[test]
fn config_gets_sets_and_checks() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    snapshot!(
        "config",
        session(
            &home,
            &[
                "config get agents.list[coder].model.primary",
                "config set agents.list[coder].model.primary openai/gpt-5",
                "config get agents.list[coder].model.primary",
                "config get agents.list[coder].model --json",
                "config set plugins.entries.flock.config.gateway.port 70000",
                "config set plugins.entries.flock.config.gatewayAgents {}",
                "config set agents.list[nobody].model.primary x/y",
                "config set agents..list 1",
                "config get no.such.key",
                "config unset agents.list[coder].model",
                "config unset agents.list[coder].model",
                "config validate",
                "config validate --json",
                "config get gateway.auth",
                "config",
                "config set --help",
            ]
        )
    );
}

#[test]
fn a_setting_without_effect_is_named() {
    let home = TempHome::new().init();
    let path = "plugins.entries.flock.config.gatewayAgents[sysadmin].onHost";
    home.flock(["config", "set", path, "true"]).ok();
    let said = format!("{path} is set but has no effect: only agent programs run on the host");
    assert!(home.flock(["config", "validate"]).ok().stderr.contains(&said));
    home.flock(["config", "unset", path]).ok();
    assert!(!home.flock(["config", "validate"]).ok().stderr.contains(&said));
}

#[test]
fn a_key_goes_to_secrets_and_is_never_shown() {
    let home = TempHome::new().init();
    let line = ["config", "set", "models.providers.mine.apiKey", "-"];
    let run = home.flock_with_input(line, "sk-planted-key\n").ok();
    assert!(!format!("{run:?}").contains("sk-planted"), "{run:?}");
    assert_eq!(home.config()["models"]["providers"]["mine"]["apiKey"], "secret:mine");
    let file = home.file("secrets/mine");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "sk-planted-key");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let everything = home.flock(["config", "get"]).ok().stdout;
    let token = home.token();
    assert!(!everything.contains("sk-planted") && !everything.contains(&token));
    let run = home.flock(["config", "get", "gateway.auth.token"]).ok();
    assert_eq!(run.stdout.trim(), token);
    home.flock(["config", "set", "models.providers.other.apiKey", "env:OTHER_KEY"]).ok();
    assert_eq!(home.config()["models"]["providers"]["other"]["apiKey"], "env:OTHER_KEY");
}

#[test]
fn unknown_keys_and_their_order_survive_every_edit() {
    let home = TempHome::new().init();
    let mut document = home.config();
    document["zz"] = serde_json::json!({"b": 1, "a": [{"y": 2, "x": 1}]});
    document["aa"] = serde_json::json!("kept");
    std::fs::write(home.file("config.json"), document.to_string()).unwrap();
    home.flock(["add", "coder", "--no-container"]).ok();
    home.flock(["config", "set", "gateway.custom.deep", "1"]).ok();
    home.flock(["remove", "coder"]).ok();
    let text = home.config_text();
    let found = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(found("\"zz\"") < found("\"aa\""));
    assert!(found("\"b\": 1") < found("\"y\": 2") && found("\"y\": 2") < found("\"x\": 1"));
}

/// A configuration spoiled in every way there is: each verb says where it is broken and how to mend it, and
/// none of them writes over it.
#[test]
fn a_broken_configuration_is_named_and_never_overwritten() {
    let good = TempHome::new().init();
    good.flock(["config", "set", "gateway.custom", "1"]).ok();
    let text = std::fs::read_to_string(good.file("config.json")).unwrap();
    let half = text.split("\"agents\"").next().unwrap();
    let commented = text.replacen("{\n", "{\n  // mine\n", 1);
    let cases = [
        ("truncated", half),
        ("not-json", "port = 3779\n"),
        ("empty", ""),
        ("wrong-shape", "[1, 2]"),
        ("wrong-value", r#"{"gateway": {"auth": {"token": 5}}}"#),
        ("comments", &commented),
    ];
    let mut shown = String::new();
    for (name, broken) in cases {
        std::fs::write(good.file("config.json"), broken).unwrap();
        writeln!(shown, "## {name}\n").unwrap();
        shown.push_str(&session(&good, &["config validate"]));
        for line in [
            &["list"][..],
            &["add", "coder", "--no-container"],
            &["remove", "sysadmin"],
            &["config", "set", "gateway.custom", "2"],
            &["init", "--yes", "--no-images"],
        ] {
            let run = good.flock(line);
            // A value of another shape is named only where that value matters; `init` may complete a
            // document, never replace one.
            assert_ne!(run.code, 0, "{name}: {line:?}: {run:?}");
            assert!(run.stderr.contains("config.json") || run.stderr.contains("invalid"), "{name}: {run:?}");
        }
        assert_eq!(std::fs::read_to_string(good.file("config.json")).unwrap(), broken, "{name}");
    }
    snapshot!("config-broken", shown);
}

#[test]
fn a_byte_order_mark_is_taken_for_what_it_is() {
    let home = TempHome::new().init();
    let text = home.config_text();
    std::fs::write(home.file("config.json"), format!("\u{feff}{text}")).unwrap();
    home.flock(["list"]).ok();
    home.flock(["add", "coder", "--no-container"]).ok();
    assert_eq!(home.flock(["list", "--json"]).ok().json()["agents"].as_array().unwrap().len(), 3);
}

#[test]
fn an_unreadable_configuration_is_an_error_with_its_path() {
    let home = TempHome::new().init();
    std::fs::remove_file(home.file("config.json")).unwrap();
    std::fs::create_dir(home.file("config.json")).unwrap();
    let run = home.flock(["list"]).fails(1);
    assert!(run.stderr.contains("config.json"), "{run:?}");
    std::fs::remove_dir(home.file("config.json")).unwrap();
    nix::unistd::mkfifo(&home.file("config.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    home.flock(["list"]).fails(1);
}

#[test]
fn without_permission_the_error_says_on_what() {
    let home = TempHome::new().init();
    let open = |path: std::path::PathBuf, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut command = home.command();
    if nix::unistd::Uid::effective().is_root() {
        // Nothing is unreadable for root, so somebody else runs it.
        command.uid(65534).gid(65534);
        open(home.outside(), 0o755);
        open(home.path(), 0o755);
    }
    open(home.file("config.json"), 0o000);
    let run = finish(command.arg("list"));
    open(home.file("config.json"), 0o600);
    if run.code == 1 {
        assert!(run.stderr.contains("failed to read") && run.stderr.contains("config.json"), "{run:?}");
        assert!(run.stderr.contains("hint: "), "{run:?}");
    } else {
        panic!("{run:?}");
    }
}

#[test]
fn a_full_or_read_only_disk_leaves_the_old_file() {
    let home = TempHome::new();
    let mount = home.path();
    std::fs::create_dir(&mount).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=512k,mode=700", "flock-test"])
        .arg(&mount)
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        eprintln!("skipped: a small disk needs the right to mount one");
        return;
    }
    let run = std::panic::catch_unwind(|| {
        home.flock(["init", "--yes", "--no-images", "--model", "script/demo"]).ok();
        let before = home.config_text();
        let filler = home.file("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        for line in
            [&["add", "coder", "--no-container"][..], &["config", "set", "x.y", "1"], &["remove", "sysadmin"]]
        {
            let run = home.flock(line).fails(1);
            assert!(run.stderr.contains("No space left"), "{run:?}");
        }
        assert_eq!(home.config_text(), before);
        // Emptied, not only removed: a child that another test is about to start may hold the file a moment.
        file.set_len(0).unwrap();
        drop(file);
        std::fs::remove_file(&filler).unwrap();
        home.flock(["add", "coder", "--no-container"]).ok();
        assert_eq!(home.config()["agents"]["list"].as_array().unwrap().len(), 3);

        let remount = |how: &str| {
            let how = format!("remount,{how}");
            std::process::Command::new("mount").args(["-o", &how]).arg(&mount).status().unwrap().success()
        };
        assert!(remount("ro"));
        let run = home.flock(["config", "set", "x.y", "1"]).fails(1);
        assert!(run.stderr.contains("Read-only") && run.stderr.contains("hint: "), "{run:?}");
        home.flock(["list"]).ok();
    });
    std::process::Command::new("umount").arg("-l").arg(&mount).status().unwrap();
    run.unwrap();
}

#[test]
fn stdout_that_can_not_be_written_is_an_error_and_a_closed_pipe_is_not() {
    let home = TempHome::new().init();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = home.command();
    let output = command.args(["list"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("failed to write to stdout"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = home.command().args(["config", "get"]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{output:?}");
}

const OWN: &str = "plugins.entries.flock.config";

#[test]
fn a_misspelt_key_is_refused_with_the_nearest_known_one_and_one_that_was_there_only_warns() {
    let home = TempHome::new().init();
    let before = home.config_text();
    let wrong = format!("{OWN}.budget.day.usd");
    let run = home.flock(["config", "set", &wrong, "5"]).fails(2);
    assert!(run.stderr.contains(&format!("{OWN}.budget is not known: did you mean budgets?")), "{run:?}");
    let run =
        home.flock(["config", "set", &format!("{OWN}.gatewayAgents[sysadmin].autonmy"), "full"]).fails(2);
    assert!(run.stderr.contains("did you mean autonomy?"), "{run:?}");
    let run = home.flock(["config", "set", &format!("{OWN}.dbBackend"), "postgres"]).fails(2);
    assert!(run.stderr.contains("must be \"sqlite\""), "{run:?}");
    let run = home.flock(["config", "set", &format!("{OWN}.dataDir"), "/elsewhere"]).fails(2);
    assert!(run.stderr.contains("keeps its data nowhere else"), "{run:?}");
    assert_eq!(home.config_text(), before, "nothing was written");
    // By hand, as an older flock let it be.
    let mut document = home.config();
    document["plugins"]["entries"]["flock"]["config"]["budget"] = serde_json::json!({"day": {"usd": 5}});
    std::fs::write(home.file("config.json"), document.to_string()).unwrap();
    home.flock(["config", "set", &format!("{OWN}.maxAgents"), "5"]).ok();
    let run = home.flock(["config", "validate"]).fails(2);
    assert!(run.stderr.contains("did you mean budgets?"), "{run:?}");
    assert!(run.stderr.contains(&format!("flock config unset {OWN}.budget")), "{run:?}");
    let shown = home.flock(["status"]).fails(4);
    assert!((shown.stdout + &shown.stderr).contains("did you mean budgets?"));
    let checks = home.flock(["doctor", "--json"]).json();
    let named =
        |check: &serde_json::Value| check["message"].as_str().unwrap().contains("did you mean budgets?");
    let check = checks["checks"].as_array().unwrap().iter().find(|check| named(check)).unwrap();
    assert_eq!((check["name"].as_str(), check["state"].as_str()), (Some("config"), Some("warn")));
    home.flock(["config", "unset", &format!("{OWN}.budget")]).ok();
    home.flock(["config", "validate"]).ok();
}

#[test]
fn a_sandbox_that_can_not_be_made_shows_everywhere() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let bind = "agents.list[coder].sandbox.docker.binds";
    let says = "the sandbox of coder may not have ";
    let run = home.flock(["config", "set", bind, "[\"/etc:/host\"]"]).ok();
    assert!(run.stderr.contains(says), "{run:?}");
    assert!(home.flock(["config", "validate"]).fails(1).stderr.contains(says));
    let shown = home.flock(["status"]).fails(4);
    assert!((shown.stdout + &shown.stderr).contains(says));
    let checks = home.flock(["doctor", "--json"]).fails(1).json();
    let sandbox =
        checks["checks"].as_array().unwrap().iter().find(|check| check["name"] == "sandbox").unwrap();
    assert_eq!(sandbox["state"], "bad");
    assert!(sandbox["message"].as_str().unwrap().starts_with(says), "{sandbox}");
    let run = home.flock(["config", "unset", bind]).ok();
    assert!(!run.stderr.contains(says), "{run:?}");
    home.flock(["config", "validate"]).ok();
}
