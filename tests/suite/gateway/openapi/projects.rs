//! Calls the routes of projects.

use std::path::Path;

use serde_json::{Value, json};

use super::{NOTHING, Scene};
use crate::support::git;

fn commit(checkout: &Path, name: &str, text: &str) {
    std::fs::write(checkout.join(name), text).unwrap();
    git(checkout, &["add", "-A"]);
    git(checkout, &["commit", "-q", "-m", &format!("change {name}")]);
}

/// Adds a project, submits to it, decides, lands it and removes it.
pub(super) async fn use_projects(scene: &Scene) {
    let folder = tempfile::tempdir().unwrap();
    let owner = folder.path().join("owner");
    std::fs::create_dir(&owner).unwrap();
    git(&owner, &["init", "-q", "-b", "main"]);
    commit(&owner, "README", "one\n");
    let new = |repo: &str| json!({"name": "lib", "repo": repo, "agents": ["coder"], "review": "person", "by": "ann"});
    let repo = owner.to_str().unwrap();
    scene.fails("POST", "/api/projects", new("lib"), 400, "invalid_project").await;
    let made = scene.post("/api/projects", new(repo)).await;
    assert_eq!(made["tip"]["subject"], "change README");
    scene.fails("POST", "/api/projects", new(repo), 409, "project_exists").await;
    assert_eq!(scene.get("/api/projects").await["projects"][0]["name"], "lib");
    assert_eq!(scene.get("/api/projects/lib").await["review"], "person");
    scene.fails("GET", "/api/projects/none", NOTHING, 404, "project_not_found").await;
    let sysadmin = json!({"add": ["sysadmin"]});
    scene.fails("POST", "/api/projects/lib/agents", sysadmin, 409, "no_sandbox").await;
    let agents = scene.post("/api/projects/lib/agents", json!({"add": ["coder"], "by": "ann"})).await;
    assert_eq!(agents, json!({"name": "lib", "agents": ["coder"], "changed": []}));

    let bare = scene.home.path().join("projects/lib.git");
    let bare = bare.to_str().unwrap();
    let submit = json!({"agent": "coder", "title": "a change", "by": "ann"});
    scene.fails("POST", "/api/projects/lib/submissions", submit.clone(), 404, "branch_not_found").await;
    git(&owner, &["checkout", "-q", "-b", "work"]);
    commit(&owner, "a", "1\n");
    git(&owner, &["push", "-q", bare, "HEAD:refs/heads/flock/coder/work"]);
    let diff = scene.get("/api/projects/lib/diff?agent=coder").await;
    assert_eq!((&diff["files"][0]["path"], &diff["added"]), (&json!("a"), &json!(1)));
    let first = scene.post("/api/projects/lib/submissions", submit.clone()).await["id"].clone();
    let waits = |shown: &Value| shown["waitsFor"] == "person";
    let at = |number: &Value| format!("/api/projects/lib/submissions/{number}");
    scene.until("it waits for a person", &at(&first), waits).await;
    let refuse = format!("{}/refuse", at(&first));
    scene.fails("POST", &refuse, json!({}), 400, "invalid_project").await;
    scene.post(&refuse, json!({"reason": "not so", "by": "ann"})).await;
    scene.fails("POST", &refuse, json!({"reason": "again"}), 409, "submission_state").await;

    let second = scene.post("/api/projects/lib/submissions", submit.clone()).await["id"].clone();
    scene.post(&format!("{}/withdraw", at(&second)), json!({})).await;
    let third = scene.post("/api/projects/lib/submissions", submit.clone()).await["id"].clone();
    scene.until("it waits for a person", &at(&third), waits).await;
    scene.post(&format!("{}/accept", at(&third)), json!({"by": "ann"})).await;
    scene.until("it is merged", &at(&third), |shown| shown["state"] == "merged").await;
    scene.fails("POST", "/api/projects/lib/submissions", submit, 409, "nothing_new").await;
    scene.fails("GET", &at(&json!(99)), NOTHING, 404, "submission_not_found").await;
    let all = scene.get("/api/projects/lib/submissions").await;
    assert_eq!(all["submissions"].as_array().unwrap().len(), 3);
    assert_eq!(scene.get("/api/projects/lib/submissions?open=1").await, json!({"submissions": []}));

    let log = scene.get("/api/projects/lib/log?limit=5").await;
    assert_eq!(log["commits"].as_array().unwrap().len(), 3, "{log}");
    assert_eq!(scene.get("/api/projects/lib/diff").await["files"][0]["path"], "a");
    scene.fails("POST", "/api/projects/lib/land", json!({"branch": "main"}), 409, "not_landed").await;
    let patch = scene.post("/api/projects/lib/land", json!({"patch": true})).await;
    assert!(patch["patch"].as_str().unwrap().contains("+++ b/a"), "{patch}");
    let landed = scene.post("/api/projects/lib/land", json!({"branch": "result", "by": "ann"})).await;
    git(&owner, &["merge-base", "--is-ancestor", landed["commit"].as_str().unwrap(), "result"]);
    // The owner takes it over, and flock sees that nothing is left to land.
    git(&owner, &["checkout", "-q", "main"]);
    git(&owner, &["merge", "-q", "--ff-only", "result"]);
    assert_eq!(scene.post("/api/projects/lib/sync?by=ann", NOTHING).await["outcome"], "upToDate");
    scene.fails("POST", "/api/projects/lib/land", json!({}), 409, "not_landed").await;

    scene.delete("/api/projects/lib?by=ann").await;
    scene.fails("DELETE", "/api/projects/lib", NOTHING, 404, "project_not_found").await;
    assert!(!Path::new(bare).exists() && owner.join("README").exists());
}

/// Begins a race in the channel `calm`, ends it, and drops its copies.
pub(super) async fn use_races(scene: &Scene) {
    let folder = tempfile::tempdir().unwrap();
    let owner = folder.path().join("owner");
    std::fs::create_dir(&owner).unwrap();
    git(&owner, &["init", "-q", "-b", "main"]);
    commit(&owner, "README", "one\n");
    let new = json!({"name": "raced", "repo": owner, "agents": ["copy"], "checks": ["true"], "by": "ann"});
    scene.post("/api/projects", new).await;
    let race = |copies: u32| json!({"channel": "calm", "copies": copies, "project": "raced", "task": "win", "by": "ann"});
    scene.fails("POST", "/api/races", race(1), 400, "invalid_race").await;
    scene.fails("POST", "/api/races", json!({"channel": "calm"}), 400, "invalid_body").await;
    let is_idle = |status: &Value| status["turns"]["running"] == 0 && status["turns"]["waiting"] == 0;
    scene.until("nobody is in a turn", "/api/status", is_idle).await;
    let begun = scene.post("/api/races", race(2)).await;
    let at = format!("/api/races/{}", begun["race"]["race"]);
    assert_eq!(scene.get("/api/races").await["races"][0]["state"], "running");
    assert_eq!(scene.get(&at).await["race"]["copies"].as_array().unwrap().len(), 2);
    assert_eq!(scene.get("/api/status").await["races"][0]["project"], "raced");
    scene.fails("GET", "/api/races/99", NOTHING, 404, "race_not_found").await;
    scene.fails("POST", &format!("{at}/keep"), json!({"copy": 1}), 409, "race_state").await;
    scene.fails("POST", &format!("{at}/drop"), json!({}), 409, "race_state").await;
    // Without checks the work passes at once: this gateway has no engine that could run any.
    scene.home.flock(["config", "set", "plugins.entries.flock.config.projects.raced.checks", "[]"]).ok();
    let bare = scene.home.path().join("projects/raced.git");
    commit(&owner, "a", "1\n");
    let racer = begun["race"]["copies"][0]["agents"][0]["agent"].as_str().unwrap().to_owned();
    git(&owner, &["push", "-q", bare.to_str().unwrap(), &format!("HEAD:refs/heads/flock/{racer}/work")]);
    let submitted = scene.post("/api/projects/raced/submissions", json!({"agent": racer})).await;
    let submission = format!("/api/projects/raced/submissions/{}", submitted["id"]);
    scene.until("it is proven", &submission, |shown| shown["state"] == "proven").await;
    scene.post(&format!("{at}/stop"), json!({"by": "ann"})).await;
    scene.fails("POST", &format!("{at}/stop"), json!({}), 409, "race_state").await;
    scene.fails("POST", &format!("{at}/keep"), json!({"copy": 2}), 409, "nothing_delivered").await;
    let kept = scene.post(&format!("{at}/keep"), json!({"by": "ann"})).await;
    assert_eq!((&kept["race"]["winner"], &kept["race"]["chosenBy"]), (&json!(1), &json!("human:ann")));
    scene.until("it is merged", &submission, |shown| shown["state"] == "merged").await;
    let dropped = scene.post(&format!("{at}/drop"), json!({"by": "ann"})).await;
    assert!(dropped["race"]["droppedAt"].is_number(), "{dropped}");
    scene.fails("POST", &format!("{at}/drop"), json!({}), 409, "race_state").await;
    // That changes the configuration, which later steps are shown before they change it.
    let loser = &begun["race"]["copies"][1]["agents"][0]["agent"];
    let is_gone =
        |shown: &Value| shown["agents"].as_array().unwrap().iter().all(|agent| agent["id"] != *loser);
    scene.until("the copy that lost is removed", "/api/agents", is_gone).await;
}
