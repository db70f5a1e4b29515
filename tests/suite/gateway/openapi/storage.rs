//! The second place in the status.

use serde_json::json;

use super::Scene;

/// Has a checkpoint and a vault copied to a folder, and other states not, because the folder is gone.
pub(super) async fn use_storage(scene: &Scene) {
    const SETTINGS: &str = "plugins.entries.flock.config.storage.blobs";
    assert!(scene.get("/api/status").await.get("storage").is_none());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("place");
    std::fs::create_dir(&path).unwrap();
    let settings = json!({"kind": "folder", "path": path}).to_string();
    scene.home.flock(["config", "set", SETTINGS, &settings]).ok();
    scene.home.flock(["checkpoint", "coder"]).ok();
    let note = scene.home.file("vaults/notes/plan.md");
    std::fs::create_dir(note.parent().unwrap()).unwrap();
    std::fs::write(&note, "one").unwrap();
    let place = path.display().to_string();
    scene
        .until("the copies are shown", "/api/status", |status| {
            let storage = &status["storage"];
            storage["place"] == place.as_str()
                && storage["checkpoints"]["copiedAt"].is_i64()
                && storage["conversations"]["copiedAt"].is_i64()
                && storage["vaults"]["copiedAt"].is_i64()
        })
        .await;
    std::fs::rename(&path, folder.path().join("away")).unwrap();
    scene.home.flock(["checkpoint", "coder"]).ok();
    std::fs::write(&note, "another").unwrap();
    scene
        .until("the failures are shown", "/api/status", |status| {
            let failed = |kind: &str| &status["storage"][kind]["failed"][0];
            let (checkpoint, vault) = (failed("checkpoints"), failed("vaults"));
            checkpoint["agent"] == "coder"
                && checkpoint["hint"].as_str().unwrap().contains("make the folder")
                && vault["vault"] == "notes"
        })
        .await;
    std::fs::remove_dir_all(note.parent().unwrap()).unwrap();
    scene.home.flock(["config", "unset", SETTINGS]).ok();
    assert!(scene.get("/api/status").await.get("storage").is_none());
}
