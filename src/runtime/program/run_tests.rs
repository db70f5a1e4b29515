use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::gate::{CallCounter, RelayAccess, TurnAccess};
use super::super::interface::{
    Parser, Program, ProgramExit, ProgramFacts, ProgramFiles as ProgramParts, StateFile, TurnFile, TurnSpec,
};
use super::super::state::StateFolder;
use super::*;
use crate::config::Api;
use crate::id::{ModelRef, TurnId};
use crate::provider::{Message, Role, Usage};
use crate::runtime::ProgramEvent;
use crate::store::{NewSession, NewTurn, StoredPrompt};

const LIMIT: Duration = Duration::from_secs(30);

/// A program that records its input, and then runs the script that its test wrote into `do`.
const SCRIPT: &str = r#"#!/bin/sh
here=$(dirname "$0")
runs=$(ls "$here" | grep -c '^run-')
{ printf 'args %s\n' "$*"; env; cat "$3"; printf 'input\n'; cat; } > "$here/run-$runs"
. "$here/do"
"#;

/// Replaces `flock hold --turn MARK -- PROGRAM`, for input and exit code only.
const SUBREAPER_SCRIPT: &str = r#"#!/bin/sh
export FLOCK_TURN="$3"
shift 4
read -r length
head -c "$length" | "$@"
code=$?
echo left $(cat "$(dirname "$0")/left" 2>/dev/null || echo 0 0) >&0
exit $code
"#;

struct ScriptedProgram {
    command: String,
    renews_prompt: bool,
    withholds: AtomicBool,
}

impl Program for ScriptedProgram {
    fn facts(&self) -> ProgramFacts<'_> {
        ProgramFacts {
            name: "scripted",
            title: "Scripted",
            command: &self.command,
            package: "scripted",
            oldest: "1.0.0",
            renews_prompt: self.renews_prompt,
            withholds: self.withholds.load(Ordering::Relaxed),
            ..ProgramFacts::default()
        }
    }
    fn speaks(&self, _api: Api) -> bool {
        true
    }
    fn parts(&self, command: &Path) -> Result<ProgramParts, String> {
        let words = vec![command.display().to_string()];
        Ok(ProgramParts { mounts: Vec::new(), host: words.clone(), sandbox: words })
    }
    fn version(&self, printed: &str) -> Option<String> {
        Some(printed.to_owned())
    }
    fn invocation(&self, turn: &TurnSpec<'_>) -> Result<Invocation, String> {
        let (how, name) = match turn.conversation {
            ConversationStart::New(_) => ("new", String::new()),
            ConversationStart::Resumed(name) => ("resumed", name.to_owned()),
        };
        Ok(Invocation {
            kept: None,
            links: &[],
            arguments: vec![
                how.to_owned(),
                name,
                format!("{}/system", turn.files),
                turn.state.unwrap_or_default().to_owned(),
            ],
            environment: vec![
                ("MCP_TOKEN".to_owned(), turn.mcp_token.to_owned()),
                ("COMMANDS".to_owned(), if turn.withheld.commands { "withheld" } else { "all" }.to_owned()),
            ],
            input: turn.prompt.to_owned(),
            files: vec![TurnFile { name: "system".to_owned(), content: turn.system.to_owned() }],
            state: vec![StateFile { path: "settings".to_owned(), content: Some("flock's".to_owned()) }],
        })
    }
    fn parser(&self, _conversation: ConversationStart<'_>) -> Box<dyn Parser> {
        Box::new(ScriptParser(None))
    }
}

struct ScriptParser(Option<RunOutcome>);

impl Parser for ScriptParser {
    fn line(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        said.extend(text("name").map(ProgramEvent::Conversation));
        said.extend(text("text").map(ProgramEvent::Text));
        said.extend(text("doomed").map(ProgramEvent::WillFail));
        said.extend(
            line["tokens"].as_u64().map(|input| ProgramEvent::Usage(Usage { input, ..Usage::default() })),
        );
        said.extend(line["cost"].as_f64().map(ProgramEvent::Cost));
        match line["end"].as_str() {
            Some("well") => self.0 = Some(RunOutcome::Well { cut: false }),
            Some("unknown") => self.0 = Some(RunOutcome::Unknown),
            _ => {}
        }
    }
    fn error_line(&mut self, line: &str, said: &mut Vec<ProgramEvent>) {
        said.extend(line.strip_prefix("doom: ").map(|why| ProgramEvent::WillFail(why.to_owned())));
    }
    fn is_over(&self) -> bool {
        self.0.is_some()
    }
    fn end(&mut self, exit: &ProgramExit<'_>) -> RunOutcome {
        let message = format!("exit {}: {}", exit.code, exit.stderr.trim());
        self.0.take().unwrap_or(RunOutcome::Broken { message })
    }
}

struct TestAccess {
    own_login: bool,
    relayed: bool,
    calls: Arc<CallCounter>,
}

impl AccessProvider for TestAccess {
    fn has_provider(&self, _model: &ModelRef) -> bool {
        false
    }
    fn open(
        &self,
        _order: &RuntimeRequest,
        _program: &dyn Program,
        own_login: bool,
    ) -> Result<TurnAccess, RuntimeError> {
        assert_eq!(own_login, self.own_login);
        Ok(TurnAccess {
            relay: self.relayed.then(|| RelayAccess {
                token: "the-relay-token".to_owned(),
                api: Api::AnthropicMessages,
                context_window: 1000,
                max_tokens: 100,
            }),
            mcp_token: "the-mcp-token".to_owned(),
            host_origin: "http://127.0.0.1:1".to_owned(),
            calls: Arc::clone(&self.calls),
            close: Box::new(()),
        })
    }
}

/// A sandbox whose engine stops responding once the program has printed this text.
struct LostSandbox(String);

impl Sandbox for LostSandbox {
    fn attend<'a>(
        &'a self,
        _: &'a AgentId,
        _: &'a ProgramCommand,
        heard: &'a mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> BoxFuture<'a, Result<i32, SandboxError>> {
        heard(OutputChunk::Out(self.0.as_bytes()));
        let source = "it broke off the connection".into();
        Box::pin(async {
            Err(SandboxError::Unavailable { engine: None, endpoint: "unix:///x".to_owned(), source })
        })
    }

    fn ensure<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        unreachable!()
    }
    fn run<'a>(
        &'a self,
        _: &'a AgentId,
        _: crate::sandbox::Command,
        _: &'a tokio_util::sync::CancellationToken,
    ) -> BoxFuture<'a, Result<crate::sandbox::CommandOutcome, SandboxError>> {
        unreachable!()
    }
    fn spawn<'a>(
        &'a self,
        _: &'a AgentId,
        _: crate::sandbox::Command,
    ) -> BoxFuture<'a, Result<crate::sandbox::BackgroundJob, SandboxError>> {
        unreachable!()
    }
    fn jobs<'a>(
        &'a self,
        _: &'a AgentId,
        _: crate::sandbox::JobRequest,
    ) -> BoxFuture<'a, Result<crate::sandbox::JobReply, SandboxError>> {
        unreachable!()
    }
    fn remove<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        unreachable!()
    }
    fn pause<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        unreachable!()
    }
    fn resume<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        unreachable!()
    }
}

/// A home with one agent and the folder of its program.
struct House {
    folder: tempfile::TempDir,
    document: Value,
    config: Arc<Mutex<Arc<Config>>>,
    program: Arc<ScriptedProgram>,
    /// The relay's counts of all turns.
    calls: Arc<CallCounter>,
    cli: ProgramRuntime,
    order: RuntimeRequest,
    /// The messages since the last turn that the program has.
    missed: String,
}

impl House {
    async fn new(renews_prompt: bool) -> Self {
        Self::with(renews_prompt, None, false).await
    }

    /// Makes a home with or without a sandbox, and with the relay or the program's own login.
    async fn with(renews_prompt: bool, sandbox: Option<LostSandbox>, relayed: bool) -> Self {
        let on_host = sandbox.is_none();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["home", "bin", "work"] {
            fs_err::create_dir(at(name)).unwrap();
        }
        let (command, keeper) = (at("bin/scripted"), at("bin/keeper"));
        for (file, script) in [(&command, SCRIPT), (&keeper, SUBREAPER_SCRIPT)] {
            fs_err::write(file, script).unwrap();
            fs_err::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let home = Home::new(at("home"), None);
        let own = json!({"gatewayAgents": [{"id": "coder", "role": "worker", "runtime": "scripted", "onHost": on_host}],
            "gateway": {"port": 1}});
        let document = json!({
            "gateway": {"auth": {"token": "0123456789abcdef0123456789abcdef"}},
            "agents": {"list": [{"id": "coder", "workspace": at("work")}]},
            "plugins": {"entries": {"flock": {"config": own}}},
        });
        let config = Arc::new(Mutex::new(Arc::new(crate::config::parse::config(&document, &home).unwrap())));
        let store = Arc::new(Store::open(&home).unwrap());
        let session: crate::id::SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
        let begin = NewTurn {
            session: NewSession { key: session.clone(), file: Uuid::now_v7().to_string() },
            turn: TurnId::new(),
            model: "a/b".to_owned(),
            prompt: StoredPrompt { inputs: "hash".to_owned(), text: "be good".into() },
            now: 1,
        };
        store.turns().begin(begin).await.unwrap();
        let program = Arc::new(ScriptedProgram {
            command: command.display().to_string(),
            renews_prompt,
            withholds: AtomicBool::new(true),
        });
        let current = Arc::clone(&config);
        let calls = Arc::new(CallCounter::default());
        let parts = ProgramServices {
            home,
            config: Arc::new(move || Arc::clone(&current.lock().unwrap())),
            store,
            sandbox: Arc::new(sandbox.unwrap_or_else(|| LostSandbox(String::new()))),
            gate: Arc::new(TestAccess { own_login: on_host, relayed, calls: Arc::clone(&calls) }),
            flock: keeper,
            begun: Mutex::default(),
        };
        let order = RuntimeRequest {
            agent: "coder".parse().unwrap(),
            session,
            turn: TurnId::new(),
            model: "a/b".parse().unwrap(),
            effort: None,
            conversation: "agent:coder:flock:main:ann.1".to_owned(),
            system: "SYSTEM".to_owned(),
            messages: vec![Message::text(Role::User, "hello")],
            recent: "[Recent Context]\n[user] before\n---\n".to_owned(),
            missed: None,
        };
        let cli = ProgramRuntime::new(ProgramHandle::Described(program.clone()), Arc::new(parts));
        Self { folder, document, config, program, calls, cli, order, missed: String::new() }
    }

    /// Changes the agent's denied tools and its autonomy.
    fn policy(&mut self, deny: &[&str], autonomy: &str) {
        self.document["agents"]["list"][0]["tools"] = json!({ "deny": deny });
        let own = &mut self.document["plugins"]["entries"]["flock"]["config"];
        own["gatewayAgents"][0]["autonomy"] = autonomy.into();
        let home = Home::new(self.folder.path().join("home"), None);
        *self.config.lock().unwrap() = Arc::new(crate::config::parse::config(&self.document, &home).unwrap());
    }

    /// Replaces the script of the program.
    fn set_script(&self, script: &str) {
        fs_err::write(self.folder.path().join("bin/do"), script).unwrap();
    }

    async fn knows(&self) -> Option<TurnId> {
        self.cli.knows(&self.order.session, &self.order.conversation).await.unwrap()
    }

    /// Begins a new turn, with the record of the turns before it.
    async fn next(&mut self) {
        self.order.turn = TurnId::new();
        self.order.missed = self.knows().await.map(|_| self.missed.clone());
    }

    async fn turn(&mut self) -> (Result<RuntimeReply, RuntimeError>, Vec<RuntimeEvent>) {
        self.next().await;
        let mut events = Vec::new();
        let mut tell = |event| events.push(event);
        let reply = tokio::time::timeout(LIMIT, self.cli.run(&self.order, &mut tell)).await.unwrap();
        (reply, events)
    }

    /// Returns the input of the program in this run.
    fn run(&self, number: usize) -> String {
        fs_err::read_to_string(self.folder.path().join(format!("bin/run-{number}"))).unwrap()
    }

    fn runs(&self) -> usize {
        let names = fs_err::read_dir(self.folder.path().join("bin")).unwrap();
        names
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("run-"))
            .count()
    }
}

const SUCCESS_SCRIPT: &str =
    r#"echo '{"name":"n-1"}'; echo noise; echo '{"text":"answer"}'; echo '{"end":"well"}'"#;

#[tokio::test]
async fn a_conversation_continues_under_the_programs_name() {
    let mut house = House::new(true).await;
    house.set_script(SUCCESS_SCRIPT);
    let (reply, events) = house.turn().await;
    assert_eq!(reply.unwrap().stop, crate::provider::StopReason::End);
    assert!(events.contains(&RuntimeEvent::Text("answer".to_owned())), "{events:?}");
    let first = house.run(0);
    assert!(first.starts_with("args new  "), "{first}");
    assert!(first.contains("\nMCP_TOKEN=the-mcp-token\n"), "{first}");
    // For `flock mcp`, and for scripts of the agent.
    assert!(first.contains("\nFLOCK_MCP_URL=http://127.0.0.1:1/mcp\n"), "{first}");
    assert!(
        first.contains("SYSTEMinput\n[Recent Context]\n[user] before\n---\n[Current Message]\nhello"),
        "{first}"
    );
    house.order.system = "ANOTHER".to_owned();
    house.turn().await.0.unwrap();
    let second = house.run(1);
    assert!(second.starts_with("args resumed n-1 "), "{second}");
    assert!(second.ends_with("ANOTHERinput\n[Current Message]\nhello"), "{second}");
    // flock's own conversation was begun anew, or another place was chosen.
    house.order.conversation.push('2');
    house.turn().await.0.unwrap();
    assert!(house.run(2).starts_with("args new "), "{}", house.run(2));
    assert!(!house.folder.path().join("home/agents/coder/turns").read_dir().unwrap().any(|_| true));
}

#[tokio::test]
async fn a_changed_prompt_needs_a_new_conversation_if_the_program_keeps_it() {
    let mut house = House::new(false).await;
    house.set_script(SUCCESS_SCRIPT);
    house.turn().await.0.unwrap();
    house.turn().await.0.unwrap();
    assert!(house.run(1).starts_with("args resumed n-1 "));
    house.order.system = "ANOTHER".to_owned();
    house.turn().await.0.unwrap();
    assert!(house.run(2).starts_with("args new "));
    assert!(house.run(2).contains("[Recent Context]"));
}

#[tokio::test]
async fn an_unknown_conversation_is_replaced_in_the_same_turn() {
    let mut house = House::new(true).await;
    house.set_script(SUCCESS_SCRIPT);
    house.turn().await.0.unwrap();
    house.set_script(&format!(
        r#"if [ "$1" = resumed ]; then echo '{{"end":"unknown"}}'; exit 1; fi; {}"#,
        SUCCESS_SCRIPT.replace("n-1", "n-2")
    ));
    let (reply, events) = house.turn().await;
    reply.unwrap();
    assert_eq!(house.runs(), 3);
    assert!(house.run(1).starts_with("args resumed n-1"));
    assert!(house.run(2).starts_with("args new ") && house.run(2).contains("[Recent Context]"));
    assert!(
        events.iter().any(|event| matches!(event, RuntimeEvent::Trace(line) if line.contains("lost"))),
        "{events:?}"
    );
    house.set_script(SUCCESS_SCRIPT);
    house.turn().await.0.unwrap();
    assert!(house.run(3).starts_with("args resumed n-2"), "{}", house.run(3));
}

#[tokio::test]
async fn a_resumed_program_gets_only_missed_messages() {
    let mut house = House::new(true).await;
    assert_eq!(house.knows().await, None);
    // A conversation without a turn cannot be continued, even if the program has named it.
    house.set_script(r#"echo '{"name":"n-0"}'; exit 1"#);
    house.turn().await.0.unwrap_err();
    assert_eq!(house.knows().await, None);
    house.set_script(SUCCESS_SCRIPT);
    house.turn().await.0.unwrap();
    assert!(house.run(1).starts_with("args new "), "{}", house.run(1));
    let first = house.order.turn;
    assert_eq!(house.knows().await, Some(first));
    // The program never receives this turn.
    house.set_script(r#"echo '{"doomed":"no tools"}'; sleep 4714"#);
    house.turn().await.0.unwrap_err();
    assert_eq!(house.knows().await, Some(first));
    house.set_script(SUCCESS_SCRIPT);
    house.missed = "[Recent Context]\n[user] meanwhile\n---\n".to_owned();
    house.turn().await.0.unwrap();
    let told = house.run(3);
    assert!(told.starts_with("args resumed n-1 "), "{told}");
    assert!(
        told.ends_with("input\n[Recent Context]\n[user] meanwhile\n---\n[Current Message]\nhello"),
        "{told}"
    );
    assert_eq!(house.knows().await, Some(house.order.turn));
    // The program has the beginning of this turn.
    house.set_script(r#"echo '{"text":"half"}'; kill -9 $$"#);
    house.turn().await.0.unwrap_err();
    assert_eq!(house.knows().await, Some(house.order.turn));
    // A turn that is no longer in the session's record cannot be continued from.
    house.set_script(SUCCESS_SCRIPT);
    house.next().await;
    house.order.missed = None;
    house.cli.run(&house.order, &mut |_| {}).await.unwrap();
    let told = house.run(5);
    assert!(told.starts_with("args new ") && told.contains("[user] before"), "{told}");
    // Another conversation of flock's contains nothing of this one.
    house.order.conversation.push('2');
    assert_eq!(house.knows().await, None);
}

#[tokio::test]
async fn a_cancelled_turn_counts_as_received() {
    let mut house = House::new(true).await;
    house.set_script(r#"echo '{"name":"n-1"}'; echo '{"text":"half"}'; sleep 4715"#);
    house.next().await;
    let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let mut tell = move |event| drop(said.send(event));
    {
        let work = house.cli.run(&house.order, &mut tell);
        tokio::select! {
            reply = work => panic!("{reply:?}"),
            event = tokio::time::timeout(LIMIT, heard.recv()) => {
                assert!(event.unwrap().is_some());
            }
        }
    }
    let known = async {
        while house.knows().await.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, known).await.expect("it must be written down");
    assert_eq!(house.knows().await, Some(house.order.turn));
}

#[tokio::test]
async fn a_failed_resume_is_replaced_in_the_same_turn() {
    let mut house = House::new(true).await;
    house.set_script(SUCCESS_SCRIPT);
    house.turn().await.0.unwrap();
    let crashes = |how: &str| {
        let anew = SUCCESS_SCRIPT.replace("n-1", "n-2");
        format!(r#"if [ "$1" = resumed ]; then {how}; fi; {anew}"#)
    };
    house.set_script(&crashes("echo database disk image is malformed >&2; exit 1"));
    let (reply, events) = house.turn().await;
    reply.unwrap();
    assert!(house.run(1).starts_with("args resumed n-1"));
    assert!(house.run(2).starts_with("args new ") && house.run(2).contains("[Recent Context]"));
    let why = "[coder] Scripted can't go on with its conversation (exit 1: database disk image is malformed) and \
               begins another";
    assert!(events.contains(&RuntimeEvent::Trace(why.to_owned())), "{events:?}");
    house.turn().await.0.unwrap();
    assert!(house.run(3).starts_with("args resumed n-2"), "{}", house.run(3));
    assert!(house.run(4).starts_with("args new "), "{}", house.run(4));
    // Only once, and not if the run had begun or has reported why it cannot end well.
    house.set_script("exit 1");
    house.turn().await.0.unwrap_err();
    assert_eq!(house.runs(), 7);
    for how in [r#"echo '{"text":"half"}'; exit 1"#, r#"echo '{"doomed":"no tools"}'; sleep 4716"#] {
        let before = house.runs();
        house.set_script(&crashes(how));
        house.turn().await.0.unwrap_err();
        assert_eq!(house.runs(), before + 1, "{how}");
    }
}

#[tokio::test]
async fn the_trace_contains_notes_and_usage() {
    let mut house = House::new(true).await;
    house.set_script(SUCCESS_SCRIPT);
    fs_err::write(house.folder.path().join("bin/left"), "2 1").unwrap();
    let (reply, events) = house.turn().await;
    reply.unwrap();
    let traced: Vec<&str> = events
        .iter()
        .filter_map(|event| if let RuntimeEvent::Trace(line) = event { Some(line.as_str()) } else { None })
        .collect();
    assert_eq!(
        traced,
        [
            "[coder] agent: answer",
            "[coder] note: ended 2 processes that Scripted had left; 1 process that Scripted had left can't be \
             ended: not this user's",
            "[coder] note: Scripted did not reach flock's tools in this turn",
        ]
    );
}

#[tokio::test]
async fn a_program_with_too_much_output_is_stopped() {
    let mut house = House::new(true).await;
    house.set_script(
        r#"while :; do printf '{"text":"'; head -c 100000 /dev/zero | tr '\0' x; echo '"}'; done"#,
    );
    let (reply, events) = house.turn().await;
    let Err(RuntimeError::Interrupted { message, .. } | RuntimeError::Failed { message, .. }) = reply else {
        panic!("{reply:?}")
    };
    assert_eq!(message, "it said more than 8 MB in one turn");
    let told = |event: &RuntimeEvent| if let RuntimeEvent::Text(text) = event { text.len() } else { 0 };
    assert!(events.iter().map(told).sum::<usize>() <= 8 << 20);
    let doomed =
        events.iter().filter(|event| matches!(event, RuntimeEvent::Trace(line) if line.contains("8 MB")));
    assert_eq!(doomed.count(), 1);
}

#[tokio::test]
async fn each_session_has_its_own_folder_that_is_empty_at_first() {
    let mut house = House::with(true, None, true).await;
    let keeps = r#"ls "$4" > "$here/found"; echo "$2" > "$4/kept";"#;
    house.set_script(&format!("{keeps} {SUCCESS_SCRIPT}"));
    let found = |house: &House| fs_err::read_to_string(house.folder.path().join("bin/found")).unwrap();
    let state =
        |house: &House| StateFolder::of(&house.cli.parts.home, &*house.cli.program, &house.order.session);
    house.turn().await.0.unwrap();
    let path = state(&house).path();
    assert!(house.run(0).contains(&path.display().to_string()), "{}", house.run(0));
    assert_eq!(found(&house), "settings\n");
    house.turn().await.0.unwrap();
    assert_eq!(found(&house), "kept\nsettings\n", "it goes on");
    // Neither the damaged conversation nor the new one can run. The old one is kept, because it may work later.
    house.set_script("exit 1");
    house.turn().await.0.unwrap_err();
    assert_eq!(house.runs(), 4);
    assert_eq!(fs_err::read_to_string(path.join("kept")).unwrap(), "n-1\n");
    house.set_script(&format!(r#"if [ "$1" = resumed ]; then exit 1; fi; {keeps} {SUCCESS_SCRIPT}"#));
    house.turn().await.0.unwrap();
    assert_eq!(found(&house), "settings\n", "nothing of what is damaged");
    // The agent put a file in the place of the whole folder.
    fs_err::remove_dir_all(&path).unwrap();
    fs_err::write(&path, "x").unwrap();
    house.set_script(&format!("{keeps} {SUCCESS_SCRIPT}"));
    house.turn().await.0.unwrap();
    assert_eq!(found(&house), "settings\n");
    house.order.session = "agent:coder:flock:main:bob".parse().unwrap();
    assert_ne!(state(&house).path(), path);
}

#[tokio::test]
async fn an_exit_code_of_0_proves_nothing() {
    let mut house = House::new(true).await;
    house.set_script("echo why >&2; exit 0");
    let (reply, _) = house.turn().await;
    let Err(RuntimeError::Failed { message, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(message, "exit 0: why");
    house.set_script(r#"echo '{"text":"half"}'; kill -9 $$"#);
    let (reply, _) = house.turn().await;
    let Err(RuntimeError::Interrupted { message, .. }) = reply else { panic!("{reply:?}") };
    assert!(message.starts_with("exit 137"), "{message}");
}

#[tokio::test]
async fn a_turn_is_not_repeated_after_its_sandbox_was_lost() {
    let said = "{\"name\":\"n-1\"}\n{\"text\":\"half\"}\n{\"text\":\" an answer\"}";
    let mut house = House::with(true, Some(LostSandbox(said.to_owned())), false).await;
    let (reply, events) = house.turn().await;
    let Err(RuntimeError::Interrupted { message, hint, .. }) = &reply else { panic!("{reply:?}") };
    assert!(message.contains("does not answer") && hint.contains("docker"), "{message}, {hint}");
    // The last line has no line end, but was read nevertheless.
    assert!(events.contains(&RuntimeEvent::Text(" an answer".to_owned())), "{events:?}");
    let known =
        house.cli.parts.store.program_conversations().find(&house.order.session, "scripted").await.unwrap();
    assert_eq!(known.map(|known| known.name).as_deref(), Some("n-1"), "its name is kept");
    // A turn that was not begun may be tried again.
    let mut house = House::with(true, Some(LostSandbox(String::new())), false).await;
    let (reply, _) = house.turn().await;
    assert!(matches!(reply, Err(RuntimeError::NotRunning { .. })), "{reply:?}");
}

#[tokio::test]
async fn a_run_with_a_fatal_error_is_stopped() {
    let mut house = House::new(true).await;
    house.set_script(r#"echo '{"doomed":"no tools"}'; sleep 4711"#);
    let (reply, _) = house.turn().await;
    let Err(RuntimeError::Failed { message, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(message, "no tools");
}

#[tokio::test]
async fn a_cancelled_turn_leaves_no_process() {
    let house = House::new(true).await;
    let pids = house.folder.path().join("pids");
    // One process in its own session, one that ignores signals, and one that keeps forking.
    house.set_script(&format!(
        "setsid sh -c 'echo $$ >> {0}; exec sleep 4712' & (trap '' TERM HUP; sh -c 'echo $$ >> {0}; exec sleep 4713') & \
         echo $$ >> {0}; wait",
        pids.display()
    ));
    let running = || -> Vec<i32> {
        let text = fs_err::read_to_string(&pids).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let mut tell = |_| {};
    {
        let work = house.cli.run(&house.order, &mut tell);
        let all_run = async {
            while running().len() < 3 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            reply = work => panic!("{reply:?}"),
            done = tokio::time::timeout(LIMIT, all_run) => done.unwrap(),
        }
    }
    let gone = async {
        while running().into_iter().any(|pid| crate::process::ProcessId::of(pid).is_some()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, gone).await.expect("processes are left");
}

#[tokio::test]
async fn a_missing_program_is_named_with_its_install_command() {
    let mut house = House::new(true).await;
    fs_err::remove_file(house.folder.path().join("bin/scripted")).unwrap();
    let (reply, _) = house.turn().await;
    let Err(RuntimeError::NotInstalled { hint, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(hint, "npm install -g scripted");
}

#[tokio::test]
async fn a_finished_program_that_does_not_exit_is_stopped() {
    let mut house = House::new(true).await;
    house.cli.grace = Duration::from_millis(50);
    house.set_script(&format!("{SUCCESS_SCRIPT}; sleep 4716"));
    let (reply, events) = house.turn().await;
    assert_eq!(reply.unwrap().stop, crate::provider::StopReason::End);
    assert!(events.contains(&RuntimeEvent::Text("answer".to_owned())), "{events:?}");
}

#[tokio::test]
async fn a_failure_before_the_start_leaves_the_turn_not_begun() {
    let mut house = House::new(true).await;
    house.set_script(SUCCESS_SCRIPT);
    let turns = house.folder.path().join("home/agents/coder/turns");
    fs_err::create_dir_all(turns.parent().unwrap()).unwrap();
    fs_err::write(&turns, "in the way").unwrap();
    let (reply, _) = house.turn().await;
    let Err(error) = reply else { panic!("{reply:?}") };
    assert!(matches!(error, RuntimeError::NotBegun { .. }), "{error:?}");
    assert!(error.is_passing() && !error.may_have_begun());
    assert_eq!(house.runs(), 0);
    fs_err::remove_file(&turns).unwrap();
    house.turn().await.0.unwrap();
}

#[tokio::test]
async fn usage_and_cost_are_reported_during_a_run() {
    let mut house = House::new(true).await;
    house.set_script(
        r#"echo '{"text":"a"}'; echo '{"tokens":7}'; echo '{"cost":0.25}'; echo '{"tokens":9}'; exit 1"#,
    );
    let (reply, events) = house.turn().await;
    reply.unwrap_err();
    let told = |input, cost| RuntimeEvent::Usage(Usage { input, cost, ..Usage::default() });
    let told = [told(7, None), told(7, Some(250_000)), told(9, Some(250_000))];
    let usage: Vec<RuntimeEvent> =
        events.into_iter().filter(|event| matches!(event, RuntimeEvent::Usage(_))).collect();
    assert_eq!(usage, told);
    house.set_script(
        r#"echo '{"tokens":3}'; echo '{"cost":0.1}'; echo '{"text":"a"}'; echo '{"end":"well"}'"#,
    );
    let usage = house.turn().await.0.unwrap().usage.unwrap();
    assert_eq!((usage.input, usage.cost), (3, Some(100_000)));
}

#[tokio::test]
async fn the_present_policy_disables_tools_at_each_turn() {
    let mut house = House::new(true).await;
    house.set_script(SUCCESS_SCRIPT);
    let mut next = async |deny: &[&str], autonomy: &str| {
        house.policy(deny, autonomy);
        let runs = house.runs();
        house.turn().await.0.unwrap();
        assert_eq!(house.runs(), runs + 1);
        let told = house.run(runs);
        let is_without = told.contains("\nCOMMANDS=withheld\n");
        assert_eq!(told.contains("\nGIT_DIR=/dev/null\n"), is_without, "{told}");
        assert_eq!(told.contains("args resumed"), runs > 0, "{told}");
        is_without
    };
    assert!(!next(&[], "supervised").await);
    assert!(next(&["exec"], "supervised").await, "in the same conversation");
    assert!(!next(&["web_fetch"], "full").await);
    assert!(next(&[], "readonly").await);
    assert!(next(&["group:what"], "full").await, "what was meant is not known");
}

#[tokio::test]
async fn a_program_that_cannot_disable_tools_runs_no_restricted_agent() {
    let mut house = House::new(true).await;
    house.set_script(SUCCESS_SCRIPT);
    house.program.withholds.store(false, Ordering::Relaxed);
    for (deny, autonomy, why, mends) in [
        (&[][..], "readonly", "may only read", "autonomy supervised"),
        (&["exec"], "full", "may not use all tools", "runtime native"),
    ] {
        house.policy(deny, autonomy);
        let error = house.turn().await.0.unwrap_err();
        let RuntimeError::Refused { status: 403, message, hint, .. } = &error else { panic!("{error}") };
        assert!(message.contains(why) && hint.ends_with(mends), "{message} {hint}");
        assert_eq!(house.runs(), 0);
    }
    house.policy(&["process"], "supervised");
    assert!(house.turn().await.0.is_ok());
}

#[tokio::test]
async fn standard_error_is_read_line_by_line_while_the_program_runs() {
    let mut house = House::new(true).await;
    house.set_script(
        r#"printf 'half a ' >&2; echo '{"text":"x"}'; printf 'line\ndoom: no quota\nmore' >&2; sleep 4711"#,
    );
    let (reply, _) = house.turn().await;
    let Err(RuntimeError::Failed { message, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(message, "no quota");
}

#[tokio::test]
async fn a_program_that_goes_on_asking_after_its_quota_is_used_up_is_stopped() {
    let mut house = House::with(true, None, true).await;
    house.cli.quota_grace = Duration::from_millis(20);
    house.set_script("sleep 4711");
    house.calls.note(|count| {
        count.refused = Some((429, "used up".to_owned()));
        count.used_up = true;
    });
    let (reply, _) = house.turn().await;
    let Err(RuntimeError::NoAnswer { message, .. }) = reply else { panic!("{reply:?}") };
    assert_eq!(message, "used up");
}
