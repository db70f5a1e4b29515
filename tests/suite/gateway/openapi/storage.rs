//! The second place in the status.

use serde_json::json;

use super::Scene;

/// Has a checkpoint copied to a folder, and another one not, because the folder is gone.
pub(super) async fn use_storage(scene: &Scene) {
    const SETTINGS: &str = "plugins.entries.flock.config.storage.blobs";
    assert!(scene.get("/api/status").await.get("storage").is_none());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("place");
    std::fs::create_dir(&path).unwrap();
    let settings = json!({"kind": "folder", "path": path}).to_string();
    scene.home.flock(["config", "set", SETTINGS, &settings]).ok();
    scene.home.flock(["checkpoint", "coder"]).ok();
    let place = path.display().to_string();
    scene
        .until("the copies are shown", "/api/status", |status| {
            let storage = &status["storage"];
            storage["place"] == place.as_str()
                && storage["checkpoints"]["copiedAt"].is_i64()
                && storage["conversations"]["copiedAt"].is_i64()
        })
        .await;
    std::fs::rename(&path, folder.path().join("away")).unwrap();
    scene.home.flock(["checkpoint", "coder"]).ok();
    scene
        .until("the failure is shown", "/api/status", |status| {
            let failed = &status["storage"]["checkpoints"]["failed"][0];
            failed["agent"] == "coder" && failed["hint"].as_str().unwrap().contains("make the folder")
        })
        .await;
    scene.home.flock(["config", "unset", SETTINGS]).ok();
    assert!(scene.get("/api/status").await.get("storage").is_none());
}
