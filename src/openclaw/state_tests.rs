use super::*;

struct Fixture {
    _dir: tempfile::TempDir,
    home: Home,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().canonicalize().unwrap().join("home"), None);
        home.make_folders().unwrap();
        Self { _dir: dir, home }
    }

    fn say(&self, text: &str) {
        let folder = self.home.openclaw_state().join("agents/coder/sessions");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("sessions.json"), text).unwrap();
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.home.openclaw_state().join("agents/coder/sessions/sessions.json"))
            .unwrap()
    }

    fn ready(&self, version: &InstalledVersion) -> StateOutcome {
        ready(&self.home, version, &CancellationToken::new()).unwrap()
    }

    fn kept(&self) -> Vec<String> {
        let found = copy_paths(&self.home).into_iter();
        found.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }
}

fn version(version: &str) -> InstalledVersion {
    InstalledVersion {
        version: version.to_owned(),
        commit: version.repeat(40)[..40].to_owned(),
        reference: "main".to_owned(),
        follows: true,
        origin: "/there".to_owned(),
        committed_at: 1,
        built_at: 1,
        node: "/usr/bin/node".into(),
        node_version: "24.0.0".to_owned(),
        replaces: None,
        altered: None,
        path: "/here".into(),
    }
}

#[test]
fn the_state_is_copied_only_before_another_version_starts() {
    let bench = Fixture::new();
    let (old, new) = (version("1"), version("2"));
    assert_eq!(bench.ready(&old), StateOutcome::Same, "there is none yet");
    bench.say("one");
    assert_eq!(bench.ready(&old), StateOutcome::Same);
    assert!(bench.kept().is_empty());
    std::os::unix::fs::symlink("agents", bench.home.openclaw_state().join("link")).unwrap();
    std::fs::write(bench.home.openclaw_state().join("gateway.103ffb93.lock.sqlite"), "").unwrap();
    std::fs::write(bench.home.openclaw_state().join("agents/gateway.lock"), "7").unwrap();
    assert_eq!(bench.ready(&new), StateOutcome::Copied);
    assert_eq!(bench.kept(), [format!("state-of-{}", old.name())]);
    let copy = find_copy(&bench.home, &old).unwrap();
    assert_eq!(std::fs::read_link(copy.join("link")).unwrap(), Path::new("agents"));
    let names = |folder: &Path| {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    assert_eq!((names(&copy.join("agents")), names(&copy).len()), (vec!["coder".into()], 2), "no locks");
    bench.say("two");
    assert_eq!(bench.ready(&new), StateOutcome::Same);
    assert_eq!(std::fs::read_to_string(copy.join("agents/coder/sessions/sessions.json")).unwrap(), "one");
    // Going back needs no request: the conversations are still there, and the newer version's state is copied in turn.
    assert_eq!(bench.ready(&old), StateOutcome::Copied);
    assert_eq!((bench.said(), bench.kept()), ("two".to_owned(), vec![format!("state-of-{}", new.name())]));
}

#[test]
fn a_requested_restore_sets_the_other_state_aside() {
    let bench = Fixture::new();
    let (old, new) = (version("1"), version("2"));
    bench.ready(&old);
    bench.say("one");
    bench.ready(&new);
    bench.say("two");
    request_restore(&bench.home, Some(&old)).unwrap();
    assert_eq!(bench.ready(&new), StateOutcome::Same, "not its own");
    request_restore(&bench.home, Some(&old)).unwrap();
    assert_eq!(bench.ready(&old), StateOutcome::PutBack);
    assert_eq!((bench.said(), bench.kept()), ("one".to_owned(), vec![format!("state-of-{}", new.name())]));
    assert_eq!(bench.ready(&old), StateOutcome::Same, "once");
    // There is nothing to put back, so the state stays as it is.
    request_restore(&bench.home, Some(&new)).unwrap();
    request_restore(&bench.home, None).unwrap();
    assert_eq!(bench.ready(&new), StateOutcome::Copied);
    assert_eq!(bench.said(), "one");
    request_restore(&bench.home, Some(&version("3"))).unwrap();
    assert_eq!(bench.ready(&version("3")), StateOutcome::Copied);
}

#[test]
fn restoring_an_older_copy_keeps_the_versions_current_state() {
    let bench = Fixture::new();
    let (old, new) = (version("1"), version("2"));
    bench.ready(&old);
    bench.say("one");
    bench.ready(&new);
    // The process was killed after the copy and before the new owner was recorded.
    write(&bench.home, &OwnerRecord { last: Some(old.name()), put_back: Some(old.name()), healthy: false })
        .unwrap();
    bench.say("two");
    assert_eq!((bench.ready(&old), bench.said()), (StateOutcome::PutBack, "one".to_owned()));
    let aside = bench.home.openclaw_versions().join(format!("state-of-{}-since", old.name()));
    let said = std::fs::read_to_string(aside.join("agents/coder/sessions/sessions.json")).unwrap();
    assert_eq!(said, "two");
}

#[test]
fn a_failed_restore_stays_pending() {
    let bench = Fixture::new();
    let (old, new) = (version("1"), version("2"));
    bench.ready(&old);
    bench.say("one");
    bench.ready(&new);
    assert!(!is_restore_pending(&bench.home, &old));
    request_restore(&bench.home, Some(&old)).unwrap();
    assert!(is_restore_pending(&bench.home, &old) && !is_restore_pending(&bench.home, &new));
    let lock = bench.home.openclaw_versions().join("state-owner.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    ready(&bench.home, &old, &CancellationToken::new()).unwrap_err();
    assert!(is_restore_pending(&bench.home, &old));
    std::fs::remove_dir(&lock).unwrap();
    assert_eq!(bench.ready(&old), StateOutcome::PutBack);
    assert!(!is_restore_pending(&bench.home, &old));
}

#[test]
fn an_interrupted_restore_is_finished_at_the_next_start() {
    let (old, new) = (version("1"), version("2"));
    let bench = || {
        let bench = Fixture::new();
        bench.ready(&old);
        bench.say("one");
        bench.ready(&new);
        bench.say("two");
        request_restore(&bench.home, Some(&old)).unwrap();
        bench
    };
    // The newer version's state was set aside, and nothing is in its place yet.
    let half = bench();
    rename(&half.home.openclaw_state(), &copy_path(&half.home, &new.name())).unwrap();
    assert_eq!((half.ready(&old), half.said()), (StateOutcome::PutBack, "one".to_owned()));
    // Everything is in its place, but that is not recorded.
    let half = bench();
    rename(&half.home.openclaw_state(), &copy_path(&half.home, &new.name())).unwrap();
    rename(&copy_path(&half.home, &old.name()), &half.home.openclaw_state()).unwrap();
    assert_eq!((half.ready(&old), half.said()), (StateOutcome::PutBack, "one".to_owned()));
    assert_eq!(half.kept(), [format!("state-of-{}", new.name())]);
    // A partial copy does not count as a copy.
    let half = Fixture::new();
    half.ready(&old);
    half.say("one");
    make(&half.home.openclaw_versions().join(DRAFT_FOLDER).join("agents")).unwrap();
    assert_eq!(half.ready(&new), StateOutcome::Copied);
    assert_eq!(half.kept(), [format!("state-of-{}", old.name())]);
}

#[test]
fn a_cancelled_copy_leaves_the_state_unchanged() {
    let bench = Fixture::new();
    let (old, new) = (version("1"), version("2"));
    bench.ready(&old);
    bench.say("one");
    let patience = CancellationToken::new();
    let waiting = patience.clone().drop_guard();
    let held = Lock::try_acquire(&bench.home.openclaw_versions().join("state-owner.lock")).unwrap();
    std::thread::scope(|scope| {
        // The call waits for another one that holds the lock.
        let asked = scope.spawn(|| ready(&bench.home, &new, &patience));
        drop(waiting);
        asked.join().unwrap().unwrap_err();
    });
    drop(held);
    ready(&bench.home, &new, &patience).unwrap_err();
    assert!(bench.kept().is_empty() && !bench.home.openclaw_versions().join(DRAFT_FOLDER).exists());
    assert_eq!((bench.said(), read(&bench.home).last), ("one".to_owned(), Some(old.name())));
    assert_eq!(bench.ready(&new), StateOutcome::Copied);
}

#[test]
fn the_healthy_mark_lasts_until_another_version_starts() {
    let bench = Fixture::new();
    let (old, new) = (version("1"), version("2"));
    bench.ready(&old);
    assert!(!has_been_healthy(&bench.home, &old));
    record_healthy(&bench.home, &new.name()).unwrap();
    assert!(!has_been_healthy(&bench.home, &new), "it was not started");
    record_healthy(&bench.home, &old.name()).unwrap();
    bench.say("one");
    request_restore(&bench.home, Some(&new)).unwrap();
    request_restore(&bench.home, None).unwrap();
    bench.ready(&old);
    assert!(has_been_healthy(&bench.home, &old) && !has_been_healthy(&bench.home, &new));
    bench.ready(&new);
    assert!(!has_been_healthy(&bench.home, &old) && !has_been_healthy(&bench.home, &new));
    record_healthy(&bench.home, &new.name()).unwrap();
    request_restore(&bench.home, Some(&old)).unwrap();
    bench.ready(&old);
    assert!(!has_been_healthy(&bench.home, &old));
}

#[test]
fn a_migrated_state_is_recognized() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    let write = |root: &Path, file: &str| {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    };
    assert!(!is_migrated(&before, &after), "there are none");
    write(&before, "agents/coder/sessions/sessions.json");
    write(&after, "agents/coder/sessions/sessions.json");
    write(&after, "agents/coder/agent/openclaw-agent.sqlite");
    assert!(!is_migrated(&before, &after));
    assert!(is_migrated(&after, &before), "the database is unknown there");
    std::fs::remove_file(after.join("agents/coder/sessions/sessions.json")).unwrap();
    assert!(is_migrated(&before, &after));
}

#[test]
fn a_state_behind_a_link_is_measured_and_a_link_inside_is_not_followed() {
    let bench = Fixture::new();
    bench.say("small");
    let (state, link) = (bench.home.openclaw_state(), bench.home.root().join("link"));
    std::os::unix::fs::symlink(&state, &link).unwrap();
    std::os::unix::fs::symlink("/", state.join("everything")).unwrap();
    assert!(is_copyable(&bench.home, &link));
    // It takes no space: nothing is written to it.
    std::fs::File::create(state.join("large")).unwrap().set_len(LARGEST + 1).unwrap();
    assert!(!is_copyable(&bench.home, &link) && !is_copyable(&bench.home, &state));
}
