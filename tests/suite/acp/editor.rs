//! An editor: it starts `flock acp`, answers its questions, and keeps what it is shown.

use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    ContentBlock, InitializeRequest, InitializeResponse, NewSessionRequest, PromptRequest, PromptResponse,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome,
    SessionId, SessionNotification,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, Error, Lines, on_receive_notification, on_receive_request};
use futures_util::{sink, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::support::home::TempHome;
use crate::support::wait_until;

pub const LIMIT: Duration = Duration::from_secs(60);

/// The person's answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This option.
    Option(&'static str),
    /// The question is closed.
    Cancelled,
    /// The editor does not know such questions.
    Error,
    /// There is no answer for as long as the editor lives.
    Never,
}

/// The updates that the editor was shown.
#[derive(Clone, Default)]
pub struct Shown(Arc<Mutex<Vec<Value>>>);

impl Shown {
    /// All updates of one kind.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        let shown = self.0.lock().unwrap();
        shown.iter().filter(|update| update["sessionUpdate"] == kind).cloned().collect()
    }

    /// The text of all updates of one kind.
    pub fn text(&self, kind: &str) -> String {
        self.all(kind).iter().filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    /// The questions that were asked, as `question`.
    pub fn questions(&self) -> Vec<Value> {
        self.all("question")
    }

    /// Waits until something of what is shown is found.
    pub async fn until<T>(&self, what: &str, find: impl Fn(&Self) -> Option<T>) -> T {
        let end = tokio::time::Instant::now() + LIMIT;
        loop {
            if let Some(found) = find(self) {
                return found;
            }
            assert!(tokio::time::Instant::now() < end, "{what}: {:#?}", self.0.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn push(&self, update: Value) {
        self.0.lock().unwrap().push(update);
    }
}

/// Runs `main` in an editor that has started `flock acp` with these arguments.
pub async fn edit<R>(
    home: &TempHome,
    args: &[&str],
    answer: Answer,
    main: impl AsyncFnOnce(ConnectionTo<Agent>, Shown) -> R,
) -> R {
    let mut command = tokio::process::Command::from(home.command());
    command.arg("acp").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let incoming = stream::unfold(BufReader::new(child.stdout.take().unwrap()).lines(), |mut lines| async {
        let line = lines.next_line().await.transpose()?;
        Some((line, lines))
    });
    let outgoing = sink::unfold(child.stdin.take().unwrap(), |mut stdin, line: String| async move {
        stdin.write_all(format!("{line}\n").as_bytes()).await?;
        stdin.flush().await?;
        Ok::<_, std::io::Error>(stdin)
    });
    let shown = Shown::default();
    let (updates, questions) = (shown.clone(), shown.clone());
    let held: Arc<Mutex<Vec<Responder<RequestPermissionResponse>>>> = Arc::default();
    let result = Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _| {
                updates.push(serde_json::to_value(&notification.update).unwrap());
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                let mut question = serde_json::to_value(&request).unwrap();
                question["sessionUpdate"] = json!("question");
                questions.push(question);
                let outcome = match answer {
                    Answer::Option(id) => {
                        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id))
                    }
                    Answer::Cancelled => RequestPermissionOutcome::Cancelled,
                    Answer::Error => return responder.respond_with_error(Error::method_not_found()),
                    Answer::Never => {
                        held.lock().unwrap().push(responder);
                        return Ok(());
                    }
                };
                responder.respond(RequestPermissionResponse::new(outcome))
            },
            on_receive_request!(),
        )
        .connect_with(Lines::new(Box::pin(outgoing), Box::pin(incoming)), async |flock| {
            Ok(main(flock, shown).await)
        })
        .await
        .unwrap();
    // The editor has closed the pipes, so the program ends by itself.
    let status = tokio::time::timeout(LIMIT, child.wait()).await.expect("flock acp ends with stdin");
    assert!(status.unwrap().success());
    result
}

/// Returns `true` while a turn runs or waits in the gateway.
pub fn is_working(home: &TempHome) -> bool {
    // On a busy machine `status` does without what the gateway does not tell in time.
    wait_until("the gateway tells its turns", LIMIT, || {
        let status = home.flock(["status", "--json"]).ok().json();
        let turns = status["gateway"]["turns"].clone();
        if turns.is_null() {
            Err(status.to_string())
        } else {
            Ok(turns != json!({"running": 0, "waiting": 0}))
        }
    })
}

/// Initialises the connection.
pub async fn initialize(flock: &ConnectionTo<Agent>) -> InitializeResponse {
    flock.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await.unwrap()
}

/// Initialises the connection and opens a session.
pub async fn open(flock: &ConnectionTo<Agent>) -> SessionId {
    initialize(flock).await;
    flock.send_request(NewSessionRequest::new("/tmp")).block_task().await.unwrap().session_id
}

/// Sends a prompt and waits for its end.
pub async fn prompt(
    flock: &ConnectionTo<Agent>,
    session: &SessionId,
    text: &str,
) -> Result<PromptResponse, Error> {
    let blocks = vec![ContentBlock::from(text.to_owned())];
    let asked = flock.send_request(PromptRequest::new(session.clone(), blocks)).block_task();
    tokio::time::timeout(LIMIT * 2, asked).await.expect("the prompt ends")
}

/// `flock acp` with bare pipes, for what no decent editor sends.
pub struct Raw {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Raw {
    pub fn start(home: &TempHome, args: &[&str]) -> Self {
        let mut child = home
            .command()
            .arg("acp")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(stdout));
        Self { stdin: child.stdin.take(), child, lines }
    }

    /// Sends a line as it is.
    pub fn send(&mut self, line: &str) {
        use std::io::Write as _;
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request.
    pub fn ask(&mut self, id: u64, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    }

    /// Reads messages until one fits. Every line must be a message of the protocol.
    pub fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.next().expect("stdout is open").unwrap();
            let message: Value = serde_json::from_str(&line).expect(&line);
            assert_eq!(message["jsonrpc"], "2.0", "{line}");
            if fits(&message) {
                return message;
            }
        }
    }

    /// Reads messages until the answer to this request.
    pub fn answer(&mut self, id: u64) -> Value {
        self.until(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Initialises the connection and opens a session.
    pub fn open(&mut self) -> String {
        self.ask(1, "initialize", &json!({"protocolVersion": 1}));
        self.answer(1);
        self.ask(2, "session/new", &json!({"cwd": "/tmp", "mcpServers": []}));
        self.answer(2)["result"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// Closes stdin, reads the rest, and returns it with the exit code.
    pub fn end(mut self) -> (i32, Vec<Value>) {
        drop(self.stdin.take());
        let rest = self.lines.by_ref().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        (self.child.wait().unwrap().code().unwrap_or(-1), rest)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
