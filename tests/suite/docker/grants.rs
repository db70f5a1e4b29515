//! What agents ask for and get, from the model's call to what is different in the sandbox afterwards, and
//! taken back again: the whole of flock, with a scripted model.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};

use super::store::flake;
use crate::support::home::TempHome;
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

fn call(when: &str, tool: &str, arguments: Value) -> Value {
    json!({"when": when, "steps": [{"calls": [{"name": tool, "arguments": arguments}]}, {"say": "{{last_result}}"}]})
}

fn exec(when: &str, command: &str) -> Value {
    call(when, "exec", json!({"command": command}))
}

fn wants(when: &str, mut request: Value) -> Value {
    request["reason"] = "it is needed".into();
    call(when, "flock_sysadmin_request", request)
}

/// A home whose agents follow these replies.
fn home(replies: Value) -> Option<TempHome> {
    let home = TempHome::init_in_docker()?;
    std::fs::write(home.file("scripts/test"), json!({"replies": replies}).to_string()).unwrap();
    home.flock(["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
    Some(home)
}

fn say(home: &TempHome, text: &str) -> String {
    home.flock(["chat", "coder", text]).ok().stdout
}

/// The newest request of this kind.
fn row(home: &TempHome, holds: &str) -> Value {
    let all = home.flock(["approvals", "list", "--all", "--json"]).ok().json();
    let rows = all["requests"].as_array().unwrap().clone();
    rows.into_iter()
        .find(|row| row["body"].as_str().unwrap().contains(holds))
        .unwrap_or_else(|| panic!("{all}"))
}

fn id(row: &Value) -> &str {
    row["id"].as_str().unwrap()
}

#[test]
fn a_host_is_reached_from_when_it_is_granted_until_it_is_taken_back() {
    let fetch = |url: &str| {
        format!(
            "python3 - <<'END'\nimport urllib.request, urllib.error\ntry: print('status', urllib.request.urlopen('{url}', timeout=60).status)\n\
             except urllib.error.HTTPError as error: print('status', error.code)\nEND"
        )
    };
    let Some(home) = home(json!([
        exec("fetch plain", &fetch("http://files.example/")),
        exec("fetch odd", &fetch("http://files.example:8080/")),
        wants("want plain", json!({"kind": "egress", "host": "files.example"})),
        wants("want odd", json!({"kind": "egress", "host": "files.example", "port": 8080})),
        {"steps": [{"say": "noted"}]},
    ])) else {
        return;
    };
    home.flock(["config", "set", "plugins.entries.flock.config.egress.ask", "auto"]).ok();
    home.flock(["add", "coder", "--network", "proxy"]).ok();
    home.flock(["add", "other", "--network", "proxy"]).ok();
    home.flock(["start", "-q"]).ok();
    let status = |text: &str| {
        let said = say(&home, text);
        said.rsplit("status ").next().unwrap().trim().to_owned()
    };
    // Refused is 403; let through to a name that nobody has is 502.
    assert_eq!(status("fetch plain"), "403");
    assert_eq!(status("fetch odd"), "403");
    let said = say(&home, "want plain");
    assert!(said.contains("you can reach it"), "{said}");
    let plain = row(&home, "\"files.example\"}");
    assert_eq!((&plain["level"], &plain["state"]), (&json!("YELLOW"), &json!("done")), "{plain}");
    assert_eq!(status("fetch plain"), "502");
    assert_eq!(status("fetch odd"), "403", "another port is another thing");
    assert!(say(&home, "want plain").contains("you have that already"));
    let others = home.flock(["chat", "other", "fetch plain"]).ok().stdout;
    assert!(others.contains("status 403"), "it is not the other agent's: {others}");

    let said = say(&home, "want odd");
    assert!(said.contains("RED") && said.contains("not done"), "{said}");
    assert_eq!(status("fetch odd"), "403");
    let odd = row(&home, "8080");
    home.flock(["approvals", "approve", id(&odd)]).ok();
    wait_until("it is done", LIMIT, || {
        let row = row(&home, "8080");
        if row["state"] == "done" { Ok(()) } else { Err(row.to_string()) }
    });
    assert_eq!(status("fetch odd"), "502");

    for granted in [&plain, &odd] {
        home.flock(["approvals", "revoke", id(granted)]).ok();
        home.flock(["approvals", "revoke", id(granted)]).fails(1);
    }
    assert_eq!(status("fetch plain"), "403");
    assert_eq!(status("fetch odd"), "403");
    // Asking again does not bring it back, and a person does.
    let said = say(&home, "want plain");
    assert!(said.contains("took back") && said.contains(id(&plain)), "{said}");
    assert_eq!(status("fetch plain"), "403");
    home.flock(["approvals", "approve", id(&plain)]).ok();
    assert_eq!(status("fetch plain"), "502");
    home.flock(["approvals", "revoke", id(&plain)]).ok();
    assert_eq!(status("fetch plain"), "403");
    home.flock(["stop", "-q"]).ok();
}

#[test]
fn a_folder_is_read_from_when_it_is_granted_until_it_is_taken_back_or_gone() {
    let folder = tempfile::Builder::new().prefix("flock-test-grants-").tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let data = root.join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("numbers"), "1 2 3").unwrap();
    for (path, mode) in [(&root, 0o755), (&data, 0o777)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let Some(home) = home(json!([
        exec("look", "cat /mnt/data/numbers; touch /mnt/data/new || echo kept"),
        wants("want data", json!({"kind": "mount", "path": data})),
        wants("want etc", json!({"kind": "mount", "path": "/etc"})),
        {"steps": [{"say": "noted"}]},
    ])) else {
        return;
    };
    let roots = json!([root]).to_string();
    home.flock(["config", "set", "plugins.entries.flock.config.mountRoots", &roots]).ok();
    home.flock(["add", "coder"]).ok();
    home.flock(["start", "-q"]).ok();
    assert!(say(&home, "look").contains("No such file"));
    assert!(say(&home, "want etc").contains("never given to an agent"));
    let want = |refusal: &str| {
        let said = say(&home, "want data");
        assert!(said.contains(refusal), "{said}");
        assert!(say(&home, "look").contains("No such file"), "nobody approved it so far");
        let named = said.split("approvals approve ").nth(1).unwrap();
        let named: String = named.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        home.flock(["approvals", "approve", &named]).ok();
        wait_until("it is done", LIMIT, || {
            let all = home.flock(["approvals", "list", "--all", "--json"]).ok().json();
            let mut rows = all["requests"].as_array().unwrap().iter();
            let is_done = rows.any(|row| row["id"] == named.as_str() && row["state"] == "done");
            if is_done { Ok(()) } else { Err(all.to_string()) }
        });
    };
    want("not done. This is RED");
    let said = say(&home, "look");
    assert!(said.contains("1 2 3") && said.contains("kept"), "{said}");
    assert!(!data.join("new").exists());

    let granted = row(&home, "\"mount\"");
    home.flock(["approvals", "revoke", id(&granted)]).ok();
    let said = say(&home, "look");
    assert!(said.contains("No such file") && !said.contains("1 2 3"), "{said}");

    // What is gone from the host is named to the agent, and taking the grant back mends it.
    // What was taken back is given back by a person, and not by asking.
    want("took back");
    std::fs::remove_dir_all(&data).unwrap();
    let said = say(&home, "look");
    assert!(said.contains("data") && said.contains("it is not there"), "{said}");
    let open = home.flock(["approvals", "list", "--all", "--json"]).ok().json();
    let rows = open["requests"].as_array().unwrap().iter().filter(|row| row["kind"] == "mount");
    let revoked = rows.filter(|row| home.flock(["approvals", "revoke", id(row)]).code == 0).count();
    assert_eq!(revoked, 1, "{open}");
    let said = say(&home, "look");
    assert!(said.contains("No such file"), "{said}");
    home.flock(["stop", "-q"]).ok();
}

#[test]
fn a_package_that_was_asked_for_runs_from_the_store_in_the_next_command() {
    let Some(home) = home(json!([
        wants("want greet", json!({"kind": "package", "package": "greet"})),
        wants("want elsewhere", json!({"kind": "package", "package": "github:a/b/50ab793786d9de88ee30ec4e4c24fb4236fc2674#c"})),
        exec("greet", "greet || echo none"),
        {"steps": [{"say": "noted"}]},
    ])) else {
        return;
    };
    let flake = flake(&home.outside());
    let reference = format!("path:{}", flake.display());
    home.flock(["config", "set", "plugins.entries.flock.config.nix.flake", &reference]).ok();
    home.flock(["add", "coder"]).ok();
    home.flock(["add", "other"]).ok();
    home.flock(["start", "-q"]).ok();
    assert!(say(&home, "greet").contains("none"));
    let said = say(&home, "want greet");
    assert!(said.contains("greet is installed"), "{said}");
    let greet = row(&home, "\"greet\"");
    assert_eq!((&greet["level"], &greet["state"]), (&json!("GREEN"), &json!("done")), "{greet}");
    assert!(say(&home, "greet").contains("greet from the store"));
    let others = home.flock(["chat", "other", "greet"]).ok().stdout;
    assert!(others.contains("none"), "{others}");
    let said = say(&home, "want elsewhere");
    assert!(said.contains("RED") && said.contains("not done"), "{said}");
    home.flock(["stop", "-q"]).ok();
}
