use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::runtime::Handle;

use super::*;
use crate::agent::Provenance;
use crate::agent::transcript::{MessageRecord, Record};
use crate::home::Home;
use crate::id::{ChannelId, SessionKey};
use crate::provider::{Block, Message, Role};
use crate::store::{
    Along, IndexMeta, KEPT_MARKS, Level, NewEntry, NewFinding, NewSession, NewSubmission, SourceKey,
    SourceKind,
};
use crate::swarm::Actor;
use crate::swarm::channel::ChannelSpec;
use crate::swarm::testing::Team;

/// A team with memory, findings, sessions, a vault and a channel. Each text has the word `zebra` and one of its own.
struct Zoo {
    team: Team,
    /// The index of another gateway on the same database.
    other: SearchIndex,
}

/// Chooses one of the indexes.
type Chosen = fn(&Zoo) -> &SearchIndex;

impl Zoo {
    async fn new() -> Self {
        Self::with(|_| ()).await
    }

    async fn with(change: impl FnOnce(&mut serde_json::Value)) -> Self {
        let team = Team::with(change);
        let other = SearchIndex::new(&Home::new(team.swarm.home().root().join("other"), None));
        let zoo = Self { team, other };
        for agent in ["coder", "tester"] {
            zoo.write(&format!("workspaces/{agent}/MEMORY.md"), &format!("# Notes\n\nzebra memo{agent}\n"));
            zoo.write(&format!("workspaces/{agent}/memory/a/b.md"), &format!("zebra deep{agent}"));
            zoo.write(
                &format!("workspaces/{agent}/deliverables/findings/main/finding_1.md"),
                &format!("zebra find{agent}"),
            );
            zoo.write(&format!("workspaces/{agent}/other.md"), &format!("zebra hidden{agent}"));
            zoo.say(&format!("agent:{agent}:flock:main:ann"), Role::User, &format!("zebra main{agent}"))
                .await;
            zoo.say(&format!("agent:{agent}:flock:dm:bob"), Role::Assistant, &format!("zebra dm{agent}"))
                .await;
        }
        zoo.write("vaults/shared/notes.md", "zebra vaulttext");
        zoo.write("vaults/shared/.git/config", "zebra gitconfig");
        // The messages of the last one can be deleted for their age, because no agent has to be given them.
        for (id, member) in [("dev", "coder"), ("ops", "tester"), ("log", "human:ann")] {
            let wanted = ChannelSpec {
                id: id.parse().unwrap(),
                topic: "work".to_owned(),
                members: vec![member.parse().unwrap()],
                message: (id != "log").then(|| format!("zebra post{id}")),
            };
            zoo.team.swarm.create_channel(&Actor::human("ann"), wanted).await.unwrap();
        }
        zoo
    }

    fn at(&self, path: &str) -> PathBuf {
        self.team.swarm.home().root().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Appends a message to a session, which is made if it is missing.
    async fn say(&self, session: &str, role: Role, text: &str) -> TurnId {
        let turn = TurnId::new();
        self.append(session, MessageRecord::new(turn, 1, Message::text(role, text))).await;
        turn
    }

    async fn append(&self, session: &str, record: MessageRecord) {
        use std::io::Write as _;
        let key: SessionKey = session.parse().unwrap();
        let sessions = self.team.store.sessions();
        let file = match sessions.find(&key).await.unwrap() {
            Some(found) => found.file,
            None => {
                let file = uuid::Uuid::now_v7().to_string();
                sessions.create(NewSession { key: key.clone(), file: file.clone() }, 1).await.unwrap();
                file
            }
        };
        let folder = self.team.swarm.home().sessions(key.agent());
        std::fs::create_dir_all(&folder).unwrap();
        let mut lines = Vec::new();
        Record::Message(Box::new(record)).write_to(&mut lines);
        let path = folder.join(format!("{file}.jsonl"));
        std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(&lines).unwrap();
    }

    async fn post(&self, channel: &str, text: &str) {
        let id: ChannelId = channel.parse().unwrap();
        self.team.swarm.post(&Actor::human("ann"), &id, text.to_owned(), false).await.unwrap();
    }

    async fn search(&self, agent: Option<&str>, text: &str) -> Vec<SearchResult> {
        self.answer(agent, text, &[]).await.results
    }

    async fn answer(&self, agent: Option<&str>, text: &str, areas: &[SearchArea]) -> SearchAnswer {
        let request = SearchRequest {
            text: text.to_owned(),
            agent: agent.map(|agent| agent.parse().unwrap()),
            turn: None,
            areas: areas.to_vec(),
            limit: 50,
        };
        self.team.swarm.search_memory(request).await.unwrap()
    }

    /// Updates the index as a gateway does.
    async fn update(&self) {
        self.team.swarm.update_search_index(&CancellationToken::new()).await.unwrap();
    }

    fn own(&self) -> &SearchIndex {
        &self.team.swarm.search
    }

    const fn others(&self) -> &SearchIndex {
        &self.other
    }

    /// Has a run bring an index up to date that asks `goes_on` between its batches. Returns `true` if it came to its end.
    async fn run(self: &Arc<Self>, chosen: Chosen, goes_on: impl Fn(&Self) -> bool + Send + 'static) -> bool {
        let vaults = Vaults::new(self.team.swarm.home());
        let corpus = Corpus::whole(&self.team.swarm, &vaults).await.unwrap();
        let zoo = Arc::clone(self);
        let run = move || {
            let (index, store) = (chosen(&zoo), &zoo.team.store);
            let goes_on = || goes_on(&zoo);
            CatchUp { index, store, vaults: &vaults, corpus: &corpus, goes_on: &goes_on }.run().unwrap()
        };
        // A run that waited for another one would never end.
        let run = tokio::time::timeout(Duration::from_secs(60), tokio::task::spawn_blocking(run));
        run.await.unwrap().unwrap()
    }

    fn entries(&self) -> i64 {
        self.own().size().unwrap().entries
    }

    /// The last words of the snippets, sorted.
    async fn found(&self, agent: Option<&str>, text: &str) -> Vec<String> {
        words(&self.search(agent, text).await)
    }
}

fn words(results: &[SearchResult]) -> Vec<String> {
    let mut words: Vec<String> =
        results.iter().map(|found| found.snippet.split_whitespace().last().unwrap().to_owned()).collect();
    words.sort();
    words
}

const OF_CODER: [&str; 5] = ["deepcoder", "dmcoder", "findcoder", "maincoder", "memocoder"];

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finds_its_own_texts_and_shared_ones_and_nothing_of_another_agent() {
    let zoo = Zoo::new().await;
    for agent in ["coder", "tester"] {
        let mut own: Vec<String> = OF_CODER.iter().map(|word| word.replace("coder", agent)).collect();
        own.extend(["postdev", "postops", "vaulttext"].map(str::to_owned));
        assert_eq!(zoo.found(Some(agent), "zebra").await, own);
        let other = if agent == "coder" { "tester" } else { "coder" };
        for word in ["memo", "deep", "find", "main", "dm"] {
            assert_eq!(zoo.found(Some(agent), &format!("{word}{other}")).await, Vec::<String>::new());
        }
    }
    // A person searches everything, but neither hidden files nor the rest of a workspace.
    let all = zoo.found(None, "zebra").await;
    assert_eq!(all.len(), 13, "{all:?}");
    assert!(!all.iter().any(|word| word.starts_with("hidden") || word == "gitconfig"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_area_needs_the_tool_that_reads_it() {
    let all = ["read", "sessions_history", "flock_workspace_read", "flock_channel_read"];
    for (denied, area, words) in [
        ("read", SearchArea::Memory, vec!["deepcoder", "findcoder", "memocoder"]),
        ("sessions_history", SearchArea::Sessions, vec!["dmcoder", "maincoder"]),
        ("flock_workspace_read", SearchArea::Vaults, vec!["vaulttext"]),
        ("flock_channel_read", SearchArea::Channels, vec!["postdev", "postops"]),
    ] {
        assert!(all.contains(&denied));
        let zoo = Zoo::new().await;
        let path = zoo.team.swarm.home().config();
        let mut config: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        config["tools"]["deny"] = json!([denied]);
        std::fs::write(&path, config.to_string()).unwrap();
        let answer = zoo.answer(Some("coder"), "zebra", &[]).await;
        assert!(answer.closed.contains(&area), "{denied}: {:?}", answer.closed);
        let found = self::words(&answer.results);
        assert_eq!(found.len(), 8 - words.len(), "{denied}: {found:?}");
        assert!(!found.iter().any(|word| words.contains(&word.as_str())), "{denied}: {found:?}");
        assert_eq!(zoo.found(None, "zebra").await.len(), 13, "a person is not limited");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_only_channels_and_forbidden_paths_are_not_found() {
    let zoo = Zoo::with(|config| {
        config["channels"] = json!({"read": "members"});
        config["policy"] = json!({"forbiddenPaths": ["memory/a"]});
    })
    .await;
    let found = zoo.found(Some("coder"), "zebra").await;
    assert_eq!(found, ["dmcoder", "findcoder", "maincoder", "memocoder", "postdev", "vaulttext"]);
    assert_eq!(zoo.found(None, "zebra").await.len(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn areas_narrow_a_search_and_each_result_has_its_place() {
    let zoo = Zoo::new().await;
    let one = async |area| {
        let answer = zoo.answer(Some("coder"), "zebra", &[area]).await;
        assert!(answer.is_complete && answer.results.iter().all(|found| found.area == area));
        serde_json::to_value(answer.results).unwrap()
    };
    let memory = one(SearchArea::Memory).await;
    let note = memory.as_array().unwrap().iter().find(|found| found["path"] == "MEMORY.md").unwrap();
    assert_eq!((&note["line"], &note["agent"]), (&json!(3), &json!("coder")));
    assert_eq!(one(SearchArea::Findings).await[0]["path"], "deliverables/findings/main/finding_1.md");
    let session = one(SearchArea::Sessions).await;
    assert_eq!(session.as_array().unwrap().len(), 2);
    assert!(
        session[0]["record"].is_string()
            && session[0]["turn"].is_string()
            && session[0]["session"].is_string()
    );
    let vault = one(SearchArea::Vaults).await;
    assert_eq!(
        (&vault[0]["vault"], &vault[0]["path"], &vault[0]["line"]),
        (&json!("shared"), &json!("notes.md"), &json!(1))
    );
    let post = one(SearchArea::Channels).await;
    assert_eq!(post[0]["seq"], 1);
    assert_eq!(post[0]["author"], "human:ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_found_at_once_and_what_was_deleted_is_not() {
    let zoo = Zoo::new().await;
    assert_eq!(zoo.found(Some("coder"), "memocoder").await.len(), 1);
    zoo.write("workspaces/coder/MEMORY.md", "giraffe");
    zoo.say("agent:coder:flock:main:ann", Role::User, "giraffe later").await;
    zoo.post("log", "giraffe posted").await;
    assert_eq!(zoo.found(Some("coder"), "giraffe").await, ["giraffe", "later", "posted"]);
    assert_eq!(zoo.found(Some("coder"), "memocoder").await, Vec::<String>::new());
    std::fs::remove_file(zoo.at("workspaces/coder/MEMORY.md")).unwrap();
    std::fs::remove_file(zoo.at("vaults/shared/notes.md")).unwrap();
    let key = "agent:coder:flock:main:ann".parse().unwrap();
    zoo.team.store.sessions().delete(vec![key]).await.unwrap();
    zoo.post("log", "giraffe number one").await;
    assert_ne!(zoo.team.store.posts().delete_before(i64::MAX, 100).await.unwrap(), 0);
    assert_eq!(zoo.found(Some("coder"), "giraffe").await, ["one"]);
    // Gone are a note, a session and the text of the vault.
    assert_eq!(zoo.found(None, "zebra").await.len(), 13 - 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_words_of_deleted_texts_leave_the_file_of_the_index() {
    let zoo = Zoo::new().await;
    let is_in_file = |word: &str| {
        ["search.db", "search.db-wal"].iter().any(|name| {
            let bytes = std::fs::read(zoo.at("data").join(name)).unwrap_or_default();
            memchr::memmem::find(&bytes, word.as_bytes()).is_some()
        })
    };
    zoo.write("workspaces/coder/memory/secret.md", "xylophone4711");
    zoo.say("agent:coder:flock:main:ann", Role::User, "xylophone4712").await;
    zoo.post("log", "xylophone4713").await;
    zoo.post("log", "the last one stays").await;
    zoo.update().await;
    assert!(is_in_file("xylophone"));
    std::fs::remove_file(zoo.at("workspaces/coder/memory/secret.md")).unwrap();
    zoo.team.store.sessions().delete(vec!["agent:coder:flock:main:ann".parse().unwrap()]).await.unwrap();
    assert_ne!(zoo.team.store.posts().delete_before(i64::MAX, 100).await.unwrap(), 0);
    // A search forgets them too. The first attempt to tidy the file is stopped, so it is due again.
    zoo.search(None, "zebra").await;
    let index = &zoo.team.swarm.search;
    index.tidy(|| false).unwrap();
    assert_ne!(index.meta(IndexMeta::DeletedAt).unwrap(), 0);
    zoo.update().await;
    assert_eq!(index.meta(IndexMeta::DeletedAt).unwrap(), 0);
    assert!(!is_in_file("xylophone"), "the words are gone from the disk too");
    assert_eq!(zoo.found(Some("tester"), "memotester").await.len(), 1, "the rest is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_neither_in_the_index_nor_in_a_result() {
    let zoo = Zoo::new().await;
    zoo.write(
        "workspaces/coder/MEMORY.md",
        "the giraffe has sk-proj-0123456789abcdef and https://ann:pw77@example.org",
    );
    let found = zoo.search(Some("coder"), "giraffe").await;
    assert_eq!(found[0].snippet, "the giraffe has [key] and https://[key]@example.org");
    for text in ["0123456789abcdef", "pw77", "sk-proj-0123456789abcdef"] {
        assert!(
            zoo.search(None, text).await.iter().all(|found| !found.snippet.contains("0123456789")),
            "{text}"
        );
    }
    let bytes = std::fs::read(zoo.at("data/search.db-wal")).unwrap();
    assert!(memchr::memmem::find(&bytes, b"0123456789abcdef").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_finds_neither_itself_nor_earlier_searches() {
    let zoo = Zoo::new().await;
    let session = "agent:coder:flock:main:ann";
    let turn = zoo.say(session, Role::User, "giraffe of this turn").await;
    let call = Block::ToolCall {
        id: "1".to_owned(),
        name: TOOL.to_owned(),
        arguments: json!({"query": "giraffe"}),
        signature: None,
    };
    let message = Message { role: Role::Assistant, content: vec![call] };
    zoo.append(session, MessageRecord::new(TurnId::new(), 2, message)).await;
    let request = |turn| SearchRequest {
        text: "giraffe".to_owned(),
        agent: Some("coder".parse().unwrap()),
        turn,
        areas: Vec::new(),
        limit: 9,
    };
    assert_eq!(zoo.team.swarm.search_memory(request(Some(turn))).await.unwrap().results, []);
    assert_eq!(zoo.team.swarm.search_memory(request(None)).await.unwrap().results.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_message_is_not_found_twice() {
    let zoo = Zoo::new().await;
    zoo.post("dev", "giraffe").await;
    let mut record =
        MessageRecord::new(TurnId::new(), 1, Message::text(Role::User, "[seq 2] human:ann: giraffe"));
    record.provenance = Some(Provenance::Channel { channel: "dev".parse().unwrap(), from: 1, to: 2 });
    zoo.append("agent:coder:flock:channel:dev", record).await;
    let found = zoo.search(Some("coder"), "giraffe").await;
    assert_eq!(found.iter().map(|found| found.area).collect::<Vec<_>>(), [SearchArea::Channels]);
    assert_eq!(zoo.answer(Some("coder"), "giraffe", &[SearchArea::Sessions]).await.results.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_agent_takes_its_texts_along_and_a_later_one_of_its_name_inherits_none() {
    let zoo = Zoo::new().await;
    zoo.found(None, "zebra").await;
    let home = zoo.team.swarm.home().clone();
    let entry =
        Actor::human("ann").entry("agent.rename", "coder", crate::store::Level::Yellow, String::new());
    zoo.team
        .store
        .agents()
        .rename("coder".parse().unwrap(), "maker".parse().unwrap(), entry, 1)
        .await
        .unwrap();
    for folder in ["workspaces", "agents"] {
        std::fs::rename(home.root().join(folder).join("coder"), home.root().join(folder).join("maker"))
            .unwrap();
    }
    let text = std::fs::read_to_string(home.config()).unwrap();
    std::fs::write(
        home.config(),
        text.replace("\"coder\"", "\"maker\"").replace("workspaces/coder", "workspaces/maker"),
    )
    .unwrap();
    let found = zoo.found(Some("maker"), "zebra").await;
    assert_eq!(found.len(), 8, "{found:?}");
    // An agent of the old name begins with nothing.
    std::fs::write(
        home.config(),
        text.replace("\"tester\"", "\"maker\"").replace("workspaces/tester", "workspaces/maker"),
    )
    .unwrap();
    assert_eq!(zoo.found(Some("coder"), "zebra").await, ["postdev", "postops", "vaulttext"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_of_reviews_are_for_their_author_and_their_reviewer() {
    let zoo = Zoo::new().await;
    let submissions = || zoo.team.store.submissions();
    let submit = async |agent: &str, session: Option<&str>| {
        let new = NewSubmission {
            project: "web".parse().unwrap(),
            agent: agent.parse().unwrap(),
            branch: format!("flock/{agent}/work"),
            commit: "0".repeat(40),
            title: "work".to_owned(),
            session: session.map(|key| key.parse().unwrap()),
            task: None,
            now: 1,
        };
        let row = Actor::human("ann").entry("project.submit", "web", Level::Green, String::new());
        submissions().add(new, |_| Along::audit(row)).await.unwrap().id
    };
    let find = async |submission: i64, reviewer: &str, text: &str| {
        let content = NewFinding {
            is_blocking: true,
            path: Some("src/a.rs".to_owned()),
            line: Some(3),
            text: text.to_owned(),
        };
        submissions().add_findings(submission, reviewer.to_owned(), vec![content], 2).await.unwrap();
    };
    let told = submit("coder", Some("agent:coder:flock:main:ann")).await;
    find(told, "tester", "quagga unsafe").await;
    find(told, "human:ann", "quagga untidy").await;
    let reviewed = submit("tester", Some("agent:tester:flock:main:ann")).await;
    zoo.say(&format!("agent:coder:flock:request:review-{reviewed}"), Role::User, "please review").await;
    find(reviewed, "coder", "quagga mine").await;
    find(reviewed, "human:ann", "quagga others").await;
    // An earlier agent of the same id had a session that is gone, or a person submitted its work.
    let earlier = submit("coder", Some("agent:coder:flock:main:gone")).await;
    find(earlier, "tester", "quagga earlier").await;
    let unnamed = submit("coder", None).await;
    find(unnamed, "coder", "quagga unnamed").await;

    let all = ["earlier", "mine", "others", "unnamed", "unsafe", "untidy"];
    assert_eq!(zoo.found(None, "quagga").await, all);
    assert_eq!(zoo.found(Some("coder"), "quagga").await, ["mine", "unsafe", "untidy"]);
    assert_eq!(zoo.found(Some("tester"), "quagga").await, ["mine", "others"]);
    let findings = zoo.answer(Some("coder"), "unsafe", &[SearchArea::Findings]).await.results;
    let found = serde_json::to_value(&findings[0]).unwrap();
    assert_eq!(
        (&found["in"], &found["submission"], &found["path"]),
        (&json!("findings"), &json!(told), &json!("src/a.rs"))
    );
    assert!(zoo.answer(None, "quagga", &[SearchArea::Memory, SearchArea::Sessions]).await.results.is_empty());
    // The file that it is about is found too, and so is an answer once it is there.
    assert_eq!(zoo.search(Some("coder"), "src").await.len(), 3);
    let number = found["finding"].as_i64().unwrap();
    assert_eq!(zoo.found(Some("coder"), "mended").await, Vec::<String>::new());
    submissions().answer(vec![(number, "it is mended".to_owned())]).await.unwrap();
    assert_eq!(zoo.found(Some("coder"), "mended").await, ["mended"]);
    // They were told to it in its sessions.
    let path = zoo.team.swarm.home().config();
    let whole = std::fs::read_to_string(&path).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&whole).unwrap();
    config["tools"]["deny"] = json!(["sessions_history"]);
    std::fs::write(&path, config.to_string()).unwrap();
    assert_eq!(zoo.found(Some("coder"), "quagga").await, Vec::<String>::new());
    std::fs::write(&path, whole).unwrap();
    // Neither its words nor its text stay when the project goes.
    submissions().remove_project("web".parse().unwrap()).await.unwrap();
    assert_eq!(zoo.found(None, "quagga").await, Vec::<String>::new());
    zoo.update().await;
    assert!(zoo.team.swarm.search.sources(SourceKind::Review, "").unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_files_are_left_out() {
    let zoo = Zoo::new().await;
    zoo.write("secret.md", "giraffe outside");
    let folder = zoo.at("workspaces/coder/memory");
    std::os::unix::fs::symlink(zoo.at("secret.md"), folder.join("link.md")).unwrap();
    std::os::unix::fs::symlink(zoo.at("workspaces/tester"), folder.join("folder")).unwrap();
    nix::unistd::mkfifo(&folder.join("fifo.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::write(folder.join("binary.md"), b"giraffe \0 binary").unwrap();
    std::fs::write(folder.join("huge.md"), format!("{}\ngiraffe beyond the limit", "x ".repeat(600_000)))
        .unwrap();
    std::fs::write(folder.join("bytes.md"), b"giraffe \xff\xfe bytes").unwrap();
    assert_eq!(zoo.found(Some("coder"), "giraffe").await, ["bytes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_reads_what_the_search_finds_and_nothing_else_of_a_workspace() {
    let zoo = Zoo::new().await;
    zoo.write("secret.md", "giraffe outside");
    zoo.write("workspaces/coder/memory/.hidden.md", "hidden");
    zoo.write("workspaces/coder/memory/key.md", "the key sk-0123456789abcdef is");
    zoo.write("workspaces/coder/memory/huge.md", &"x".repeat(1024 * 1024 + 1));
    let folder = zoo.at("workspaces/coder/memory");
    std::fs::write(folder.join("binary.md"), b"giraffe \0 binary").unwrap();
    std::os::unix::fs::symlink(zoo.at("secret.md"), folder.join("link.md")).unwrap();
    std::os::unix::fs::symlink(zoo.at("workspaces/tester"), folder.join("folder")).unwrap();
    nix::unistd::mkfifo(&folder.join("fifo.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let read = async |owner: FileOwner, path: &str| {
        let found = zoo.team.swarm.searched_file(owner, path.to_owned()).await.unwrap();
        found.map(|file| (file.area, file.text, file.is_whole))
    };
    let coder = || FileOwner::Agent("coder".parse().unwrap());
    let shared = || FileOwner::Vault("shared".parse().unwrap());
    for (owner, path, area, text) in [
        (coder(), "memory/a/b.md", SearchArea::Memory, "zebra deepcoder"),
        (coder(), "memory/key.md", SearchArea::Memory, "the key [key] is"),
        (coder(), "deliverables/findings/main/finding_1.md", SearchArea::Findings, "zebra findcoder"),
        (shared(), "notes.md", SearchArea::Vaults, "zebra vaulttext"),
    ] {
        assert_eq!(read(owner, path).await, Some((area, text.to_owned(), true)), "{path}");
    }
    let (_, text, is_whole) = read(coder(), "memory/huge.md").await.unwrap();
    assert_eq!((text.len(), is_whole), (1024 * 1024, false));
    for path in [
        "other.md",
        "memory/../other.md",
        "memory/.hidden.md",
        "memory/link.md",
        "memory/folder/MEMORY.md",
        "memory/fifo.md",
        "memory/binary.md",
        "memory",
        "memory/none.md",
        "../tester/MEMORY.md",
    ] {
        assert_eq!(read(coder(), path).await, None, "{path}");
    }
    for path in [".git/config", "../../secret.md", "/etc/passwd", ""] {
        assert_eq!(read(shared(), path).await, None, "{path}");
    }
    let nobody = FileOwner::Agent("nobody".parse().unwrap());
    let missing = zoo.team.swarm.searched_file(nobody, "MEMORY.md".to_owned()).await;
    assert!(matches!(missing, Err(SwarmError::NoAgent(_))), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_damaged_or_foreign_index_is_made_anew() {
    let zoo = Zoo::new().await;
    assert_eq!(zoo.found(None, "zebra").await.len(), 13);
    for name in ["search.db", "search.db-wal", "search.db-shm"] {
        drop(std::fs::remove_file(zoo.at("data").join(name)));
    }
    assert_eq!(zoo.found(None, "zebra").await.len(), 13, "lost");
    for name in ["search.db", "search.db-wal", "search.db-shm"] {
        drop(std::fs::remove_file(zoo.at("data").join(name)));
    }
    std::fs::write(
        zoo.at("data/search.db"),
        "this is no database at all, and not a short one either".repeat(100),
    )
    .unwrap();
    assert_eq!(zoo.found(None, "zebra").await.len(), 13, "no database");
    zoo.update().await;
    zoo.team.swarm.search.tidy(|| true).unwrap();
    // Damage in the middle of the open file.
    let path = zoo.at("data/search.db");
    let size = usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &vec![0xa5; size - 4096], 4096).unwrap();
    zoo.write("workspaces/coder/MEMORY.md", "zebra memocoder again");
    let found = zoo.found(None, "zebra").await;
    assert!(found.len() == 13, "damaged: {found:?}");
    let connection = rusqlite::Connection::open(zoo.at("data/search.db")).unwrap();
    connection.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(connection);
    let swarm = &zoo.team.swarm;
    let again = crate::store::SearchIndex::new(swarm.home());
    assert_eq!(again.sources(SourceKind::Vault, "shared").unwrap().len(), 0, "another version");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_database_has_its_messages_indexed_anew() {
    let zoo = Zoo::new().await;
    assert_eq!(zoo.found(None, "postdev").await.len(), 1);
    // The number of the last message is larger than any that the database has.
    zoo.team.swarm.search.set_meta(IndexMeta::LastMessage, 1000).unwrap();
    zoo.post("dev", "giraffe").await;
    assert_eq!(zoo.found(None, "giraffe").await.len(), 1);
    zoo.team.swarm.search.set_meta(IndexMeta::Database, 1).unwrap();
    assert_eq!(zoo.found(None, "postdev giraffe").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_of_each_gateway_forgets_a_message_that_was_deleted() {
    let zoo = Arc::new(Zoo::new().await);
    zoo.post("log", "okapi").await;
    zoo.post("log", "the last one stays").await;
    let indexes: [Chosen; 2] = [Zoo::own, Zoo::others];
    let mut there = Vec::new();
    for chosen in indexes {
        assert!(zoo.run(chosen, |_| true).await);
        there.push(chosen(&zoo).size().unwrap().entries);
    }
    assert_ne!(zoo.team.store.posts().delete_before(i64::MAX, 100).await.unwrap(), 0);
    for (chosen, there) in indexes.into_iter().zip(there) {
        assert!(zoo.run(chosen, |_| true).await);
        assert!(chosen(&zoo).size().unwrap().entries < there);
    }
    // The oldest marks go.
    let posts = || zoo.team.store.posts();
    let marks = posts().search_marks(0, 9).await.unwrap();
    let (first, newest) = (marks.first().unwrap().id, posts().last_search_mark().await.unwrap());
    assert_eq!(zoo.own().meta(IndexMeta::LastMark).unwrap(), newest);
    posts().delete_old_search_marks(newest).await.unwrap();
    assert_eq!(posts().search_marks(0, 9).await.unwrap(), marks);
    posts().delete_old_search_marks(first + KEPT_MARKS).await.unwrap();
    assert_eq!(posts().search_marks(0, 9).await.unwrap(), marks[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_may_have_missed_deletions_takes_the_messages_in_anew() {
    let zoo = Zoo::new().await;
    zoo.update().await;
    let (index, there) = (zoo.own(), zoo.entries());
    let newest = zoo.team.store.posts().last_search_mark().await.unwrap();
    let last = index.meta(IndexMeta::LastMessage).unwrap();
    let key = SourceKey { kind: SourceKind::Channel, owner: String::new(), path: "dev".to_owned() };
    let deleted = NewEntry { place: last, length: 0, words: "okapi".to_owned() };
    assert!(index.take_messages(&[(key, deleted)], &[], (IndexMeta::LastMessage, last, last)).unwrap());
    for (behind, more) in [(KEPT_MARKS, 1), (KEPT_MARKS + 1, 0)] {
        index.set_meta(IndexMeta::LastMark, newest - behind).unwrap();
        zoo.update().await;
        assert_eq!(zoo.entries(), there + more, "{behind} marks behind");
    }
    assert_eq!(index.meta(IndexMeta::LastMark).unwrap(), newest);
    assert_eq!(zoo.found(None, "zebra").await.len(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_messages_that_the_index_lacks_is_known_after_the_first_look() {
    let zoo = Zoo::new().await;
    let lacks = async || zoo.team.swarm.messages_to_index().await.unwrap();
    assert_eq!(lacks().await, None);
    zoo.update().await;
    assert_eq!(lacks().await, Some(0));
    for n in 0..3 {
        zoo.post("dev", &format!("okapi {n}")).await;
    }
    assert_eq!(lacks().await, Some(3));
    zoo.search(None, "okapi").await;
    assert_eq!(lacks().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_with_more_of_the_words_come_first_and_rare_words_count_more() {
    let zoo = Zoo::new().await;
    for n in 0..40 {
        zoo.write(&format!("vaults/shared/filler{n}.md"), "the token of the gateway is used often");
    }
    zoo.write("vaults/shared/rotate.md", "# Rotating\nhow to rotate the token of a gateway");
    zoo.write("vaults/shared/rare.md", "rotated crops");
    let found = zoo.search(None, "how do I rotate a token?").await;
    let path = |found: &SearchResult| match &found.place {
        FoundPlace::Vault { path, .. } => path.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(path(&found[0]), "rotate.md");
    assert_eq!(path(&found[1]), "rare.md");
}

#[tokio::test(flavor = "multi_thread")]
async fn korean_japanese_and_names_are_found_in_any_form() {
    let zoo = Zoo::new().await;
    zoo.write("vaults/shared/ko.md", "결제를 취소하려면 관리자에게 요청한다. 메모리검색은 색인을 쓴다.");
    zoo.write("vaults/shared/ja.md", "東京都の天気を調べる");
    zoo.write("vaults/shared/de.md", "Die Zürcher Straßenbahn; call memorySearch() in read_vault_file");
    for (text, count) in [
        ("결제", 1),
        ("결제가", 1),
        ("검색", 1),
        ("메모리 검색", 1),
        ("색인", 1),
        ("검", 1),
        ("東京", 1),
        ("天気", 1),
        ("京", 1),
        ("zurcher", 1),
        ("strassenbahn", 0),
        ("memorysearch", 1),
        ("memory search", 1),
        ("vault", 1),
        ("고양이", 0),
    ] {
        let found = zoo.answer(None, text, &[SearchArea::Vaults]).await.results;
        assert_eq!(found.is_empty(), count == 0, "{text}: {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_stopped_ends_before_its_next_batch_and_another_one_goes_on() {
    let zoo = Arc::new(Zoo::new().await);
    let stop = CancellationToken::new();
    stop.cancel();
    zoo.team.swarm.update_search_index(&stop).await.unwrap();
    assert_eq!(zoo.entries(), 0, "the gateway stops");
    let mut earlier = 0;
    for batches in [1, 2, 3] {
        let left = Cell::new(batches);
        let ended = zoo.run(Zoo::own, move |_| left.replace(left.get() - 1) > 0).await;
        assert!(!ended && zoo.entries() > earlier, "{batches} batches");
        earlier = zoo.entries();
    }
    assert!(zoo.run(Zoo::own, |_| true).await && zoo.entries() > earlier);
    assert_eq!(zoo.found(None, "zebra").await.len(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_takes_in_what_it_needs_while_a_run_rests() {
    let zoo = Arc::new(Zoo::new().await);
    let (searched, found) = (Cell::new(false), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&found);
    let ended = zoo
        .run(Zoo::own, move |zoo| {
            if !searched.replace(true) {
                let results = Handle::current().block_on(zoo.search(None, "zebra"));
                seen.store(results.len(), Ordering::Relaxed);
            }
            true
        })
        .await;
    assert!(ended);
    assert_eq!(found.load(Ordering::Relaxed), 13, "the search did not wait");
    let other = Zoo::new().await;
    other.update().await;
    assert_eq!(zoo.entries(), other.entries(), "what both took in is there once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transcript_that_another_run_has_taken_in_further_is_read_on_from_there() {
    let zoo = Zoo::new().await;
    let index = &zoo.team.swarm.search;
    let key = SourceKey { kind: SourceKind::Session, owner: String::new(), path: "other".to_owned() };
    let entry = [NewEntry { place: 0, length: 0, words: "okapi".to_owned() }];
    assert_eq!(index.append(&key, "1 1", (0, 10), &entry).unwrap(), 10);
    assert_eq!(index.append(&key, "1 1", (0, 5), &entry).unwrap(), 10);
    assert_eq!(zoo.entries(), 1, "nothing is there twice");
    assert_eq!(index.append(&key, "1 1", (10, 20), &entry).unwrap(), 20);
    assert_eq!(zoo.entries(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_several_searches_take_in_at_once_is_found_once() {
    let zoo = Zoo::new().await;
    zoo.search(None, "zebra").await;
    let index = &zoo.team.swarm.search;
    let (last, before) = (index.meta(IndexMeta::LastMessage).unwrap(), index.size().unwrap().entries);
    let key = SourceKey { kind: SourceKind::Channel, owner: String::new(), path: "dev".to_owned() };
    let entry = NewEntry { place: last + 1, length: 0, words: "okapi".to_owned() };
    let take = || {
        let numbers = (IndexMeta::LastMessage, last, last + 1);
        index.take_messages(&[(key.clone(), entry.clone())], &[], numbers).unwrap()
    };
    assert!(take());
    assert!(!take(), "another search has taken it in");
    assert_eq!(index.size().unwrap().entries, before + 1);

    // One that saw the other database too, and comes to it after the first one has taken messages in.
    let database = index.meta(IndexMeta::Database).unwrap();
    index.restart_messages((0, 0), database, 0).unwrap();
    assert_eq!(index.meta(IndexMeta::LastMessage).unwrap(), last + 1);
    assert_eq!(index.size().unwrap().entries, before + 1);
    // A message that was changed before it was taken in is left to those that take new ones in.
    let later = (key.clone(), NewEntry { place: last + 2, length: 0, words: "okapi".to_owned() });
    let mark = index.meta(IndexMeta::LastMark).unwrap();
    assert!(index.take_messages(&[later], &[], (IndexMeta::LastMark, mark, mark + 1)).unwrap());
    assert_eq!(index.size().unwrap().entries, before + 1);

    let zoo = Zoo::new().await;
    for number in 0..20 {
        zoo.post("dev", &format!("quagga number {number}")).await;
    }
    let searches = futures_util::future::join_all((0..8).map(|_| zoo.search(None, "quagga")));
    for found in searches.await {
        assert_eq!(found.len(), 20, "{found:?}");
    }
}
