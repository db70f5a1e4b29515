//! The route of skills, and what the status says about them.

use serde_json::json;

use super::Scene;
use crate::support::home::TempHome;

const HASH: &str = "what a person agreed to";

/// Writes a skill of the owner's, and an imported one that is not what was agreed to.
pub(super) fn plant(home: &TempHome) {
    for name in ["deploy", "pdf"] {
        std::fs::create_dir_all(home.file(format!("skills/{name}"))).unwrap();
        std::fs::write(home.file(format!("skills/{name}/SKILL.md")), "Do it well.\n").unwrap();
    }
    let text = "---\narguments: [page]\nargument-hint: its number\n---\nRead $page.\n";
    std::fs::write(home.file("skills/pdf/SKILL.md"), text).unwrap();
    let source = json!({"kind": "git", "repository": "https://example.org/skills", "path": "pdf",
        "reference": "v1", "pin": "tag", "commit": "0".repeat(40)});
    let record = json!({"source": source, "hash": HASH, "importedAt": 1, "importedBy": "ann"});
    std::fs::write(home.file("skills/pdf/.flock-skill.json"), record.to_string()).unwrap();
}

/// Lists the skills of [`plant`].
pub(super) async fn use_skills(scene: &Scene) {
    let listed = scene.get("/api/skills").await;
    let states: Vec<_> = listed["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| (skill["name"].clone(), skill["state"].clone()))
        .collect();
    assert_eq!(states, [(json!("deploy"), json!("own")), (json!("pdf"), json!("changed"))]);
    assert_eq!(listed["skills"][1]["record"]["hash"], HASH);
    assert_eq!(listed["skills"][0]["arguments"], json!([]));
    let page = json!({"name": "page", "description": "its number", "required": true});
    assert_eq!(listed["skills"][1]["arguments"], json!([page]));
    assert_eq!(scene.get("/api/status").await["skills"], json!({"count": 2, "changed": ["pdf"]}));
    let told = scene.home.flock(["status"]).ok().stdout;
    assert!(told.contains("pdf is not what was agreed to: flock skill show pdf"), "{told}");
}
