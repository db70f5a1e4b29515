//! The process is killed while a skill is imported, updated or removed. What agents read is the skill before or after.

use flock::fault_point::FaultPoint;

use super::rollback::dies;
use crate::support::home::TempHome;

/// Puts a skill with this text into a folder beside the home.
fn source(home: &TempHome, text: &str) -> String {
    let folder = home.outside().join("pdf");
    std::fs::create_dir_all(folder.join("scripts")).unwrap();
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    std::fs::write(folder.join("scripts/run.sh"), text).unwrap();
    folder.display().to_string()
}

/// Returns the state of the skill and its text, or nothing if there is none.
fn found(home: &TempHome) -> Option<(String, String)> {
    let list = home.flock(["skill", "list", "--json"]).ok().json();
    let skills = list["skills"].as_array().unwrap();
    assert!(skills.len() <= 1, "{list}");
    let state = skills.first()?["state"].as_str().unwrap().to_owned();
    let text = std::fs::read_to_string(home.file("skills/pdf/SKILL.md")).unwrap();
    assert_eq!(std::fs::read_to_string(home.file("skills/pdf/scripts/run.sh")).unwrap(), text);
    Some((state, text))
}

#[test]
fn a_killed_import_update_or_removal_is_whole_or_did_not_happen() {
    let intact = |text: &str| Some(("intact".to_owned(), text.to_owned()));
    let home = TempHome::new().init();
    let folder = source(&home, "one\n");
    let add = format!("skill add {folder} --yes");
    assert!(dies(&home, &add, FaultPoint::SkillStaged));
    assert_eq!(found(&home), None);
    assert!(home.file("skills/.flock-staging").exists(), "it died in the middle");
    assert!(dies(&home, &add, FaultPoint::SkillPlaced));
    assert_eq!(found(&home), intact("one\n"));

    source(&home, "two\n");
    let update = "skill update pdf --yes";
    assert!(dies(&home, update, FaultPoint::SkillStaged));
    assert_eq!(found(&home), intact("one\n"));
    assert!(dies(&home, update, FaultPoint::SkillPlaced));
    assert_eq!(found(&home), intact("two\n"));
    let told = home.flock(["skill", "update", "pdf"]).ok();
    assert!(told.stderr.contains("up to date"), "{told:#?}");

    assert!(dies(&home, "skill remove pdf --yes", FaultPoint::SkillPlaced));
    assert_eq!(found(&home), None);
    home.flock(["skill", "add", &folder, "--yes"]).ok();
    assert_eq!(found(&home), intact("two\n"));
    let names: Vec<_> =
        std::fs::read_dir(home.file("skills")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["pdf"], "what the killed processes left is gone");
}
