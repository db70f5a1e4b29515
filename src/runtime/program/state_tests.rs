use std::os::unix::fs::symlink;

use super::super::claude::Claude;
use super::*;

/// A home with one session of an agent.
struct Fixture {
    folder: tempfile::TempDir,
    home: Home,
    session: SessionKey,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        Self { folder, home, session: "agent:coder:flock:main:ann".parse().unwrap() }
    }

    fn state(&self) -> StateFolder {
        StateFolder::of(&self.home, &Claude, &self.session)
    }

    fn gone(&self) -> usize {
        gone(&self.home, self.session.agent()).read_dir().map_or(0, Iterator::count)
    }
}

fn file(path: &str, content: Option<&str>) -> StateFile {
    StateFile { path: path.to_owned(), content: content.map(str::to_owned) }
}

fn remove_permissions(path: &Path) {
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
}

#[test]
fn planted_settings_are_replaced() {
    let house = Fixture::new();
    let state = house.state();
    state.ready().unwrap();
    let at = |name: &str| state.path().join(name);
    fs_err::create_dir_all(at("as-folder/deep")).unwrap();
    fs_err::create_dir_all(at("commands/deep")).unwrap();
    fs_err::write(at("commands/deep/x"), "x").unwrap();
    fs_err::write(at("old"), "the agent's").unwrap();
    let outside = house.folder.path().join("outside");
    fs_err::write(&outside, "the host's").unwrap();
    symlink(&outside, at("link")).unwrap();
    let files = [
        file("as-folder", Some("flock's")),
        file("commands", None),
        file("not-there", None),
        file("not/there", None),
        file("old", Some("flock's")),
        file("link", Some("flock's")),
        file("new/deep", Some("flock's")),
    ];
    state.write(&files, None).unwrap();
    for name in ["as-folder", "old", "link", "new/deep"] {
        assert_eq!(fs_err::read_to_string(at(name)).unwrap(), "flock's", "{name}");
    }
    assert!(!at("commands").exists());
    assert_eq!(fs_err::read_to_string(&outside).unwrap(), "the host's");
}

#[test]
fn login_files_are_linked_and_not_copied() {
    let house = Fixture::new();
    let (state, user) = (house.state(), house.folder.path().join("user"));
    state.ready().unwrap();
    fs_err::create_dir_all(user.join("own/folder")).unwrap();
    fs_err::write(user.join("own/login"), "old").unwrap();
    fs_err::write(user.join("key"), "a key").unwrap();
    fs_err::write(user.join("settings"), "the user's").unwrap();
    // Obstacles: some from the agent, some from an earlier turn.
    fs_err::create_dir_all(state.path().join("key/deep")).unwrap();
    symlink("/nowhere", state.path().join("own")).unwrap();
    let files = ["own/login", "key", "not/there", "own/folder"];
    for _ in 0..2 {
        state.link(&user, &files).unwrap();
    }
    fs_err::write(state.path().join("own/login"), "renewed").unwrap();
    assert_eq!(fs_err::read_to_string(user.join("own/login")).unwrap(), "renewed");
    assert_eq!(fs_err::read_link(state.path().join("key")).unwrap(), user.join("key"));
    for name in ["not", "own/folder", "settings"] {
        assert!(fs_err::symlink_metadata(state.path().join(name)).is_err(), "{name}");
    }
    // The links are removed, and the files to which they lead stay.
    state.write(&[], Some(&["conversations"])).unwrap();
    assert!(state.path().read_dir().unwrap().next().is_none());
    drop(state.anew().unwrap());
    remove_contents(&gone(&house.home, house.session.agent()));
    assert_eq!(fs_err::read_to_string(user.join("key")).unwrap(), "a key");
    assert_eq!(fs_err::read_to_string(user.join("own/login")).unwrap(), "renewed");
}

#[test]
fn a_link_in_place_of_a_folder_is_not_followed() {
    let house = Fixture::new();
    let (state, outside) = (house.state(), house.folder.path().join("outside"));
    state.ready().unwrap();
    fs_err::create_dir_all(&outside).unwrap();
    symlink(&outside, state.path().join("settings")).unwrap();
    state.write(&[file("settings/x", Some("flock's"))], None).unwrap();
    assert!(outside.read_dir().unwrap().next().is_none());
    assert_eq!(fs_err::read_to_string(state.path().join("settings/x")).unwrap(), "flock's");
    // Nor does a link in the place of the session's own folder.
    fs_err::remove_dir_all(state.path()).unwrap();
    symlink(&outside, state.path()).unwrap();
    state.ready().unwrap();
    state.write(&[file("settings", Some("flock's"))], None).unwrap();
    assert!(outside.read_dir().unwrap().next().is_none());
    assert!(state.path().symlink_metadata().unwrap().is_dir());
}

#[test]
fn entries_that_are_not_retained_are_removed() {
    let house = Fixture::new();
    let (state, outside) = (house.state(), house.folder.path().join("outside"));
    state.ready().unwrap();
    let at = |name: &str| state.path().join(name);
    for kept in ["projects/deep", "in/chats", "in/other", "wrong"] {
        fs_err::create_dir_all(at(kept)).unwrap();
    }
    fs_err::create_dir_all(&outside).unwrap();
    for file in ["projects/deep/x", "in/chats/x", "in/other/x", "in/y", ".claude.json", "in/set", "..new"] {
        fs_err::write(at(file), "there").unwrap();
    }
    fs_err::write(outside.join("chats"), "the host's").unwrap();
    symlink(&outside, at("link")).unwrap();
    for many in 0..LIST_BATCH + 10 {
        fs_err::write(at(&format!("many-{many}")), "").unwrap();
    }
    let kept: &[&str] = &["projects", "in/chats", "link/chats", "not/there"];
    state.write(&[file("in/set", Some("flock's"))], Some(kept)).unwrap();
    let names = |folder: &Path| {
        let entries = fs_err::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&state.path()), ["in", "projects"]);
    assert_eq!(names(&at("in")), ["chats", "set"]);
    assert_eq!(fs_err::read_to_string(at("in/set")).unwrap(), "flock's");
    assert!(at("projects/deep/x").exists() && at("in/chats/x").exists());
    assert!(outside.join("chats").exists(), "what a link leads to stays");
}

#[test]
fn large_obstacles_do_not_block_a_turn() {
    let house = Fixture::new();
    let state = house.state();
    state.ready().unwrap();
    let hooks = state.path().join("hooks");
    fs_err::create_dir(&hooks).unwrap();
    for n in 0..3_000 {
        fs_err::write(hooks.join(n.to_string()), "").unwrap();
    }
    let mut deep = state.path().join("rules");
    for _ in 0..300 {
        deep.push("d");
    }
    fs_err::create_dir_all(&deep).unwrap();
    remove_permissions(&hooks);
    state.write(&[file("hooks", None), file("rules", None)], None).unwrap();
    assert_eq!(state.path().read_dir().unwrap().count(), 0);
    assert_eq!(house.gone(), 2);
    remove_contents(&gone(&house.home, house.session.agent()));
    assert_eq!(house.gone(), 0);
    // Without permissions on the folder itself, and on the one above.
    remove_permissions(&state.path());
    remove_permissions(&state.shared);
    drop(state.anew().unwrap());
    let replaced = state.anew().unwrap();
    state.write(&[file("settings", Some("flock's"))], None).unwrap();
    replaced.discard();
    assert!(state.path().join("settings").exists());
}

#[test]
fn old_contents_return_unless_the_new_conversation_begins() {
    let house = Fixture::new();
    let state = house.state();
    let conversation = state.path().join("conversation");
    drop(state.anew().unwrap());
    state.ready().unwrap();
    fs_err::write(&conversation, "old").unwrap();
    {
        let _replaced = state.anew().unwrap();
        assert!(!conversation.exists());
        fs_err::write(&conversation, "new").unwrap();
    }
    assert_eq!(fs_err::read_to_string(&conversation).unwrap(), "old", "it did not begin");
    let replaced = state.anew().unwrap();
    fs_err::write(&conversation, "new").unwrap();
    replaced.discard();
    assert_eq!(fs_err::read_to_string(&conversation).unwrap(), "new");
    assert!(aside(&house.home, house.session.agent()).read_dir().unwrap().next().is_none());
}

#[test]
fn folders_of_removed_sessions_are_deleted() {
    let house = Fixture::new();
    let other: SessionKey = "agent:coder:flock:request:1".parse().unwrap();
    let gone_one = StateFolder::of(&house.home, &Claude, &other);
    for state in [&house.state(), &gone_one] {
        state.ready().unwrap();
        fs_err::write(state.path().join("x"), "x").unwrap();
    }
    // A file of an older layout, and a link that an agent put there.
    fs_err::write(house.state().shared.join("settings.json"), "{}").unwrap();
    let outside = house.folder.path().join("outside");
    fs_err::create_dir(&outside).unwrap();
    fs_err::write(outside.join("x"), "x").unwrap();
    symlink(&outside, house.state().shared.join("link")).unwrap();
    let aside = house.state().aside;
    fs_err::create_dir_all(&aside).unwrap();
    sweep(&house.home, false, |_| None);
    assert!(gone_one.path().exists(), "where nobody knows the sessions none is taken for gone");
    sweep(&house.home, false, |_| Some(vec![house.session.clone()]));
    assert!(house.state().path().join("x").exists() && !gone_one.path().exists());
    assert_eq!(house.state().shared.read_dir().unwrap().count(), 1);
    assert!(outside.join("x").exists() && aside.exists());
    assert_eq!(house.gone(), 0);
    sweep(&house.home, true, |_| Some(vec![house.session.clone()]));
    assert!(!aside.exists());
}
