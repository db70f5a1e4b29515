//! The routes of engines, as far as they need none. `docker::engines` uses the others.

use serde_json::json;

use super::{NOTHING, Scene};

/// Looks at the machine's own engine, drains it, and asks for what is refused.
pub(super) async fn use_engines(scene: &Scene) {
    let listed = scene.get("/api/engines").await;
    assert_eq!(listed["engines"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["engines"][0]["name"], "local");
    assert!(scene.get("/api/status").await.get("engines").is_none(), "nothing new is shown");
    let drained = scene.post("/api/engines/local/drain", json!({"drain": true, "by": "ann"})).await;
    assert_eq!(drained["engine"]["draining"], true);
    let agents = drained["engine"]["agents"].as_array().unwrap();
    let placed = agents.iter().find(|agent| agent["id"] == "orchestrator").unwrap();
    // No move is planned away from an engine that does not answer. `docker::engines` moves some.
    assert_eq!((&placed["movesTo"], &placed["waits"]), (&NOTHING, &NOTHING), "{drained}");
    assert_eq!(scene.get("/api/status").await["engines"][0]["draining"], true);
    let ended = scene.post("/api/engines/local/drain", json!({"drain": false})).await;
    assert_eq!(ended["engine"]["draining"], false);
    assert!(scene.get("/api/status").await.get("engines").is_none(), "its entry is gone");
    let rows = scene.get("/api/audit?action=engine").await;
    let named = |action: &str| {
        let rows = rows["rows"].as_array().unwrap();
        rows.iter().find(|row| row["action"] == action && row["subject"] == "local").unwrap()["actor"].clone()
    };
    assert_eq!(named("engine.drain"), "human:ann", "{rows}");
    assert_eq!(named("engine.undrain"), "human:owner", "{rows}");
    scene.get("/api/engines/local").await;
    scene.post("/api/engines/local/check", NOTHING).await;
    let new = |name: &str, address: &str| json!({"name": name, "address": address, "by": "ann"});
    let nowhere = format!("unix://{}", scene.home.file("nothing.sock").display());
    for (wanted, status, code) in [
        (new("second", &nowhere), 409, "engine_unfit"),
        (new("second", "http://gpu.invalid"), 400, "usage"),
        (new("second", "tcp://gpu.invalid"), 409, "engine_unfit"),
        (new("local", &nowhere), 400, "usage"),
        (new("No", &nowhere), 400, "invalid_body"),
    ] {
        scene.fails("POST", "/api/engines", wanted, status, code).await;
    }
    scene.fails("GET", "/api/engines/second", NOTHING, 404, "engine_not_found").await;
    scene.fails("DELETE", "/api/engines/second?force=true&by=ann", NOTHING, 404, "engine_not_found").await;
    scene.fails("DELETE", "/api/engines/local", NOTHING, 400, "usage").await;
    scene.fails("POST", "/api/engines/second/check", NOTHING, 404, "engine_not_found").await;
    scene.fails("POST", "/api/engines/second/drain", json!({"drain": true}), 404, "engine_not_found").await;
    wait_for_files(scene).await;
}

/// Has an agent wait for files of an engine that is gone.
async fn wait_for_files(scene: &Scene) {
    assert!(scene.get("/api/status").await.get("missingFiles").is_none());
    let folder = scene.home.file("agents/coder/checkpoints");
    std::fs::create_dir_all(&folder).unwrap();
    // No checkpoint has these files, so no turn that begins now can bring them back.
    let files = json!({"before": "0".repeat(64), "wanted": "1".repeat(64), "kept": []});
    let given_up = json!({"id": "ab12", "at": 7, "by": "human:ann", "to": 3, "files": files,
        "conversations": [], "lost": "far"});
    std::fs::write(folder.join("rewind.json"), given_up.to_string()).unwrap();
    let expected = json!([{"agent": "coder", "engine": "far", "hint": "flock checkpoint coder",
        "message": "the files of coder, which were in the engine far, are not back yet"}]);
    assert_eq!(scene.get("/api/status").await["missingFiles"], expected);
    std::fs::remove_file(folder.join("rewind.json")).unwrap();
}
