use super::*;

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().canonicalize().unwrap(), None);
    home.make_folders().unwrap();
    (dir, home)
}

fn version(home: &Home, version: &str, digit: char, built_at: i64) -> InstalledVersion {
    let commit: String = std::iter::repeat_n(digit, 40).collect();
    let path = home.openclaw_versions().join(folder_name(version, &commit));
    std::fs::create_dir_all(&path).unwrap();
    let made = InstalledVersion {
        version: version.to_owned(),
        commit,
        reference: "main".to_owned(),
        follows: true,
        origin: "/srv/openclaw".to_owned(),
        committed_at: 1,
        built_at,
        node: "/usr/bin/node".into(),
        node_version: "22.0.0".to_owned(),
        replaces: None,
        altered: None,
        path: path.clone(),
    };
    made.write(&path).unwrap();
    made
}

#[test]
fn current_and_previous_version_come_from_link_and_records() {
    let (_dir, home) = home();
    assert!(list(&home).unwrap().is_empty() && current(&home).is_none() && previous(&home).is_none());
    let first = version(&home, "2026.2.9", 'a', 1);
    let second = version(&home, "2026.2.9", 'b', 2);
    assert_eq!(list(&home).unwrap(), [second.clone(), first.clone()]);
    assert!(current(&home).is_none(), "installed is not in use");
    let installer = super::super::InstallLock::begin(&home).unwrap();
    super::super::swap(&installer, &home, &first).unwrap();
    assert_eq!(current(&home).unwrap().commit, first.commit);
    assert!(previous(&home).is_none());
    super::super::swap(&installer, &home, &second).unwrap();
    assert_eq!(current(&home).unwrap().commit, second.commit);
    assert_eq!(previous(&home).unwrap().commit, first.commit);
    // Back again: the other version becomes the previous one.
    super::super::swap(&installer, &home, &first).unwrap();
    assert_eq!(previous(&home).unwrap().commit, second.commit);
    // The same once more: the previous version is not forgotten.
    super::super::swap(&installer, &home, &first).unwrap();
    assert_eq!(previous(&home).unwrap().commit, second.commit);
}

#[test]
fn a_folder_is_a_version_only_with_its_own_record() {
    let (_dir, home) = home();
    let made = version(&home, "2026.2.9", 'a', 1);
    let moved = home.openclaw_versions().join("2026.2.9-cccccccccccc");
    std::fs::rename(&made.path, &moved).unwrap();
    assert!(list(&home).unwrap().is_empty());
    std::fs::write(moved.join(RECORD), "{").unwrap();
    assert!(read(&moved).is_none());
}

#[test]
fn only_the_current_and_the_previous_version_are_kept() {
    let (_dir, home) = home();
    let [a, b, c] = [('a', 1), ('b', 2), ('c', 3)].map(|(digit, at)| version(&home, "1.0.0", digit, at));
    let count = || list(&home).unwrap().len();
    let installer = super::super::InstallLock::begin(&home).unwrap();
    for one in [&a, &b, &c] {
        super::super::swap(&installer, &home, one).unwrap();
    }
    // The remains of an interrupted removal.
    std::fs::create_dir_all(home.openclaw_versions().join(".removed-x/deep")).unwrap();
    super::super::prune(&installer, &home, &[a.name()]).unwrap();
    assert_eq!(count(), 3, "one that still runs stays");
    super::super::prune(&installer, &home, &[]).unwrap();
    let left: Vec<String> = list(&home).unwrap().into_iter().map(|version| version.commit).collect();
    assert_eq!(left, [c.commit, b.commit]);
    assert_eq!(std::fs::read_dir(home.openclaw_versions()).unwrap().count(), 2);
}

#[test]
fn failures_are_recorded_by_commit_with_a_limit() {
    let (_dir, home) = home();
    assert!(failed(&home.openclaw_failures_file()).is_empty());
    for at in 0..40 {
        let failure = Failed { version: None, reason: "no luck".to_owned(), at, doubtful: false };
        assert!(record_failure(&home.openclaw_failures_file(), &format!("{at:040}"), failure).unwrap());
    }
    assert_eq!(failed(&home.openclaw_failures_file()).len(), 32);
    assert!(
        !failed(&home.openclaw_failures_file()).contains_key(&format!("{:040}", 7)),
        "the oldest are forgotten"
    );
    forget_failure(&home.openclaw_failures_file(), &format!("{:040}", 39)).unwrap();
    assert!(!failed(&home.openclaw_failures_file()).contains_key(&format!("{:040}", 39)));
    std::fs::write(home.openclaw_failures_file(), "nonsense").unwrap();
    assert!(failed(&home.openclaw_failures_file()).is_empty());
}

#[test]
fn a_doubtful_failure_counts_the_second_time() {
    let (_dir, home) = home();
    let commit = "a".repeat(40);
    let failure = |doubtful| Failed { version: None, reason: "it was slow".to_owned(), at: 1, doubtful };
    assert!(!record_failure(&home.openclaw_failures_file(), &commit, failure(true)).unwrap());
    assert!(failed(&home.openclaw_failures_file()).is_empty());
    assert!(record_failure(&home.openclaw_failures_file(), &commit, failure(true)).unwrap());
    assert!(failed(&home.openclaw_failures_file()).contains_key(&commit));
    // The commit worked in between.
    forget_failure(&home.openclaw_failures_file(), &commit).unwrap();
    assert!(!record_failure(&home.openclaw_failures_file(), &commit, failure(true)).unwrap());
    forget_failure(&home.openclaw_failures_file(), &commit).unwrap();
    assert!(!record_failure(&home.openclaw_failures_file(), &commit, failure(true)).unwrap());
    assert!(record_failure(&home.openclaw_failures_file(), &commit, failure(false)).unwrap());
    assert!(
        record_failure(&home.openclaw_failures_file(), &commit, failure(true)).unwrap(),
        "what is known stays so"
    );
}
