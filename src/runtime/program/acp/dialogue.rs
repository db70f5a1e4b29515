//! A turn of a program that speaks the Agent Client Protocol: what it says, and what it is answered. Pure.
//!
//! flock is the client: it initialises the connection, opens or continues the session, sends the prompt, and allows what
//! the program asks for, because the sandbox confines it. Files and terminals are the sandbox's own, so flock offers none.

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AuthenticateRequest, ContentBlock, HttpHeader, InitializeRequest, LoadSessionRequest, McpServer,
    McpServerHttp, NewSessionRequest, PromptRequest, RequestPermissionOutcome, RequestPermissionResponse,
    ResumeSessionRequest, SelectedPermissionOutcome, SetSessionModeRequest,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::runtime::program::environment::SERVER;
use crate::runtime::program::extract::{self, items, one_line, text};
use crate::runtime::program::interface::{ConversationStart, Parser, ProgramExit, RunOutcome, TurnSpec};
use crate::runtime::program::run_progress::RunProgress;
use crate::runtime::{ProgramEvent, ToolEvent};

/// JSON-RPC's code for a method that does not exist.
const NO_METHOD: i32 = -32_601;
/// The protocol's code for a session that can't be opened before a login.
const WANTS_LOGIN: i64 = -32_000;
/// Words in the ids of modes in which programs ask for nothing.
const FREE_MODES: [&str; 3] = ["yolo", "bypass", "full-access"];
/// Longest title of a call in characters.
const MAX_TITLE: usize = 500;
/// Bytes of a command's output that are put together from pieces.
const MAX_PRINTED: usize = 256 << 10;
/// Calls that are remembered at most until they end.
const MAX_OPEN_CALLS: usize = 1000;

/// A call of the program's own tools.
struct OpenCall {
    id: String,
    tool: String,
    /// The program's words for what it does.
    title: String,
    /// Set once its beginning was reported, with its arguments.
    has_begun: bool,
    /// The output so far of a terminal that the program shows in pieces.
    printed: String,
}

/// The request that the program is to answer next. Its number is the id of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Initialize = 1,
    Open = 2,
    Login = 3,
    Mode = 5,
    Prompt = 4,
}

/// The input that the turn gives to the program.
#[derive(Clone, Debug, Default)]
struct Given {
    workspace: String,
    mcp_url: String,
    mcp_token: String,
    system: String,
    prompt: String,
}

/// The dialogue of one turn.
pub(super) struct Dialogue {
    title: String,
    given: Given,
    /// The conversation to continue.
    resumed: Option<String>,
    progress: RunProgress,
    step: Step,
    /// Set once the session is open. What the program says before that is the past.
    session: Option<String>,
    /// The capabilities that it has announced.
    capabilities: Value,
    /// Ways to log in that need no person, best one last.
    logins: Vec<String>,
    replies: Vec<String>,
    /// The calls of its own tools that have not ended.
    open: Vec<OpenCall>,
    end: Option<RunOutcome>,
}

/// Returns the line with which flock begins.
pub(super) fn first_line() -> String {
    // Without capabilities, the program works with the files and commands of its sandbox.
    format!("{}\n", request(Step::Initialize, "initialize", &InitializeRequest::new(ProtocolVersion::V1)))
}

impl Dialogue {
    /// Creates the dialogue of a turn.
    pub(super) fn new(title: &str, turn: &TurnSpec<'_>) -> Self {
        let given = Given {
            workspace: turn.workspace.to_owned(),
            mcp_url: format!("{}/mcp", turn.origin),
            mcp_token: turn.mcp_token.to_owned(),
            system: turn.system.to_owned(),
            prompt: turn.prompt.replace('\0', ""),
        };
        Self { given, ..Self::without_turn(title, turn.conversation) }
    }

    /// Creates a dialogue that has nothing to say.
    pub(super) fn without_turn(title: &str, conversation: ConversationStart<'_>) -> Self {
        let resumed = match conversation {
            ConversationStart::New(_) => None,
            ConversationStart::Resumed(name) => Some(name.to_owned()),
        };
        Self {
            title: title.to_owned(),
            given: Given::default(),
            progress: RunProgress::new(resumed.is_some()),
            resumed,
            step: Step::Initialize,
            session: None,
            capabilities: Value::Null,
            logins: Vec::new(),
            replies: Vec::new(),
            open: Vec::new(),
            end: None,
        }
    }

    fn ask(&mut self, step: Step, method: &str, params: &impl Serialize) {
        self.step = step;
        self.replies.push(request(step, method, params));
    }

    fn fail(&mut self, status: Option<u16>, message: &str) {
        self.end = Some(RunOutcome::Failed { status, message: one_line(message) });
    }

    /// Opens a session, or continues the conversation.
    fn open_session(&mut self, said: &mut Vec<ProgramEvent>) {
        let Given { workspace, mcp_url, mcp_token, .. } = &self.given;
        let mut servers = Vec::new();
        if self.capabilities.pointer("/mcpCapabilities/http") == Some(&Value::Bool(true)) {
            let header = HttpHeader::new("Authorization", format!("Bearer {mcp_token}"));
            servers.push(McpServer::Http(McpServerHttp::new(SERVER, mcp_url.clone()).headers(vec![header])));
        } else {
            let text = format!("{} can't use tools over HTTP, so it has none of flock's", self.title);
            said.push(ProgramEvent::Note(text));
        }
        let has = |pointer: &str| {
            self.capabilities.pointer(pointer).is_some_and(|has| !has.is_null() && *has != false)
        };
        let workspace = workspace.clone();
        match self.resumed.clone() {
            None => {
                let new = NewSessionRequest::new(workspace).mcp_servers(servers);
                self.ask(Step::Open, "session/new", &new);
            }
            Some(name) if has("/sessionCapabilities/resume") => {
                let resume = ResumeSessionRequest::new(name, workspace).mcp_servers(servers);
                self.ask(Step::Open, "session/resume", &resume);
            }
            Some(name) if has("/loadSession") => {
                let load = LoadSessionRequest::new(name, workspace).mcp_servers(servers);
                self.ask(Step::Open, "session/load", &load);
            }
            // Another run begins a new conversation, with the latest messages of this one.
            Some(_) => self.end = Some(RunOutcome::Unknown),
        }
    }

    /// Chooses the mode in which the program asks least, because all that it asks for is allowed: some modes ask the model
    /// whether to ask.
    fn choose_mode(&mut self, result: &Value) {
        let ids = || items(result, "/modes/availableModes").filter_map(|mode| text(mode, "/id"));
        let free = ids().find(|id| FREE_MODES.iter().any(|word| id.to_lowercase().contains(word)));
        let chosen = free.or_else(|| ids().find(|id| *id == "default")).map(str::to_owned);
        let current = text(result, "/modes/currentModeId");
        match (chosen.filter(|id| Some(id.as_str()) != current), self.session.clone()) {
            (Some(id), Some(session)) => {
                self.ask(Step::Mode, "session/set_mode", &SetSessionModeRequest::new(session, id));
            }
            _ => self.send_prompt(),
        }
    }

    fn send_prompt(&mut self) {
        let Some(session) = self.session.clone() else { return };
        let mut blocks = Vec::new();
        // The protocol has no place for a system prompt that all programs know, so it is the beginning of a conversation.
        if self.resumed.is_none() && !self.given.system.is_empty() {
            blocks.push(ContentBlock::from(self.given.system.clone()));
        }
        blocks.push(ContentBlock::from(self.given.prompt.clone()));
        self.ask(Step::Prompt, "session/prompt", &PromptRequest::new(session, blocks));
    }

    /// Takes the answer to the request of this step.
    fn answered(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        if let Some(error) = line.get("error") {
            return self.refused(error);
        }
        let result = line.get("result").cloned().unwrap_or_default();
        match self.step {
            Step::Initialize => {
                if result.pointer("/protocolVersion") != Some(&json!(1)) {
                    return self.fail(None, "it speaks another version of the protocol");
                }
                self.capabilities = result.pointer("/agentCapabilities").cloned().unwrap_or_default();
                // A way that takes a key needs no person. Any other would wait for one, who is not there.
                let keys = items(&result, "/authMethods").filter_map(|method| text(method, "/id"));
                self.logins = keys.filter(|id| takes_key(id)).map(str::to_owned).collect();
                self.open_session(said);
            }
            Step::Login => self.open_session(said),
            Step::Open => {
                let named = text(&result, "/sessionId").map(str::to_owned).or_else(|| self.resumed.clone());
                if named.is_none() {
                    return self.fail(None, "it has opened no session");
                }
                self.progress.named(named.as_deref(), said);
                self.session = named;
                self.choose_mode(&result);
            }
            Step::Mode => self.send_prompt(),
            Step::Prompt => {
                self.end = Some(match text(&result, "/stopReason").unwrap_or_default() {
                    "end_turn" => RunOutcome::Well { cut: false },
                    "max_tokens" => RunOutcome::Well { cut: true },
                    reason => {
                        let message = one_line(&format!("it ended the turn: {reason}"));
                        RunOutcome::Failed { status: None, message }
                    }
                });
            }
        }
    }

    fn refused(&mut self, error: &Value) {
        let detail = text(error, "/data/details").or_else(|| text(error, "/data/message"));
        let message = [text(error, "/message"), detail].into_iter().flatten().collect::<Vec<_>>().join(": ");
        let wants_login = error.pointer("/code").and_then(Value::as_i64) == Some(WANTS_LOGIN);
        match self.step {
            Step::Open | Step::Login if wants_login || self.step == Step::Login => match self.logins.pop() {
                Some(id) => self.ask(Step::Login, "authenticate", &AuthenticateRequest::new(id)),
                None => self.fail(Some(401), &format!("it wants a login that flock can't give: {message}")),
            },
            Step::Open if self.resumed.is_some() => self.end = Some(RunOutcome::Unknown),
            // It then asks, and is answered.
            Step::Mode => self.send_prompt(),
            _ => self.fail(None, &message),
        }
    }

    /// Answers a request of the program.
    fn asked(&mut self, line: &Value) {
        let id = line.get("id").cloned().unwrap_or_default();
        let answer = if text(line, "/method") == Some("session/request_permission") {
            let chosen = ["allow_once", "allow_always"].iter().find_map(|kind| {
                let of_kind =
                    items(line, "/params/options").find(|option| text(option, "/kind") == Some(kind));
                of_kind.and_then(|option| text(option, "/optionId"))
            });
            let outcome = chosen.map_or(RequestPermissionOutcome::Cancelled, |id| {
                RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id.to_owned()))
            });
            let answer = serde_json::to_value(RequestPermissionResponse::new(outcome)).unwrap_or_default();
            json!({"jsonrpc": "2.0", "id": id, "result": answer})
        } else {
            let error = json!({"code": NO_METHOD, "message": "flock does not offer this"});
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        };
        self.replies.push(answer.to_string());
    }

    fn update(&mut self, update: &Value, said: &mut Vec<ProgramEvent>) {
        let piece = text(update, "/content/text").filter(|piece| !piece.is_empty());
        match (text(update, "/sessionUpdate").unwrap_or_default(), piece) {
            ("agent_message_chunk", Some(piece)) => {
                self.progress.begun = true;
                said.push(ProgramEvent::Text(piece.to_owned()));
            }
            ("agent_thought_chunk", Some(piece)) => {
                self.progress.begun = true;
                said.push(ProgramEvent::Thinking(piece.to_owned()));
            }
            ("tool_call", _) => self.call(update, said),
            ("tool_call_update", _) => self.called(update, said),
            _ => {}
        }
    }

    fn call(&mut self, update: &Value, said: &mut Vec<ProgramEvent>) {
        let Some(id) = text(update, "/toolCallId") else { return };
        let title = text(update, "/title").unwrap_or_default();
        // The kind says more than a title, which often is a whole command.
        let kind = text(update, "/kind").filter(|kind| *kind != "other");
        let tool =
            text(update, "/name").or_else(|| text(update, "/_meta/toolName")).or(kind).unwrap_or(title);
        let tool = crate::clean::label(if tool.is_empty() { "tool" } else { tool }, 80);
        self.progress.call();
        // A call of flock's own tools is known from its arrival.
        if [&tool, title].iter().any(|name| name.to_lowercase().contains(SERVER)) {
            said.push(ProgramEvent::FlockTool);
            return;
        }
        if self.open.len() < MAX_OPEN_CALLS && !self.open.iter().any(|open| open.id == id) {
            let title = crate::clean::label(title, MAX_TITLE);
            self.open.push(OpenCall {
                id: id.to_owned(),
                tool,
                title,
                has_begun: false,
                printed: String::new(),
            });
            // Some programs report a call only when it has ended.
            self.called(update, said);
        }
    }

    fn called(&mut self, update: &Value, said: &mut Vec<ProgramEvent>) {
        let state = text(update, "/status").unwrap_or_default();
        let id = text(update, "/toolCallId").unwrap_or_default();
        let Some(at) = self.open.iter().position(|open| open.id == id) else { return };
        let arguments = update.get("rawInput").filter(|input| !input.is_null() && **input != json!({}));
        let open = &mut self.open[at];
        if let Some(title) = text(update, "/title") {
            open.title = crate::clean::label(title, MAX_TITLE);
        }
        // The way in which programs show the output of commands to editors without the protocol's terminals.
        if let Some(more) = text(update, "/_meta/terminal_output/data")
            && open.printed.len() + more.len() <= MAX_PRINTED
        {
            open.printed.push_str(more);
        }
        // The arguments may still be on their way while a call is prepared.
        if !open.has_begun && (arguments.is_some() || !matches!(state, "" | "pending")) {
            open.has_begun = true;
            // Some programs tell no arguments, but a title that says what is done.
            let titled = || if open.title == open.tool { json!({}) } else { json!({"title": open.title}) };
            let arguments = arguments.cloned().unwrap_or_else(titled);
            let (call, tool) = (open.id.clone(), open.tool.clone());
            said.push(ProgramEvent::Tool(ToolEvent::Began { call, tool, arguments }));
        }
        if !matches!(state, "completed" | "failed") {
            return;
        }
        let OpenCall { id: call, tool, printed, .. } = self.open.swap_remove(at);
        let result = result(update, printed);
        let error = (state == "failed").then(|| result.clone());
        said.push(ProgramEvent::Tool(ToolEvent::Ended { call, tool, result, error, took: None }));
    }
}

impl Parser for Dialogue {
    fn line(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        if self.end.is_some() {
            return;
        }
        match (text(line, "/method"), line.get("id")) {
            (Some(_), Some(_)) => {
                // A program that asks for permission tells there what it is for.
                if let Some(call) = line.pointer("/params/toolCall").filter(|_| self.step == Step::Prompt) {
                    self.called(call, said);
                }
                self.asked(line);
            }
            (Some("session/update"), None) => {
                // What comes before the prompt is the history of the conversation.
                let is_ours = text(line, "/params/sessionId") == self.session.as_deref();
                if self.step == Step::Prompt && is_ours {
                    let update = line.pointer("/params/update").cloned().unwrap_or_default();
                    self.update(&update, said);
                }
            }
            (Some(_), None) => {}
            (None, id) if id == Some(&json!(self.step as u8)) => self.answered(line, said),
            (None, _) => {}
        }
    }

    fn replies(&mut self) -> Vec<String> {
        std::mem::take(&mut self.replies)
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn end(&mut self, exit: &ProgramExit<'_>) -> RunOutcome {
        self.end.clone().unwrap_or_else(|| extract::broken(&self.title, exit))
    }
}

fn request(step: Step, method: &str, params: &impl Serialize) -> String {
    json!({"jsonrpc": "2.0", "id": step as u8, "method": method, "params": params}).to_string()
}

/// Returns what a call gave. What it `printed` counts if the end of the call says nothing itself.
fn result(update: &Value, printed: String) -> String {
    let texts: Vec<&str> =
        items(update, "/content").filter_map(|content| text(content, "/content/text")).collect();
    if !texts.is_empty() {
        return texts.join("\n");
    }
    if !printed.is_empty() {
        return printed;
    }
    update.get("rawOutput").map(extract::content).unwrap_or_default()
}

/// Returns `true` for a way to log in that takes a key from the environment.
fn takes_key(id: &str) -> bool {
    let id = id.to_lowercase();
    ["key", "openai", "anthropic"].iter().any(|word| id.contains(word))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const NEW: ConversationStart<'_> = ConversationStart::New(Uuid::nil());

    fn dialogue(conversation: ConversationStart<'_>) -> Dialogue {
        let given = Given {
            workspace: "/workspace".to_owned(),
            mcp_url: "http://127.0.0.1:3128/mcp".to_owned(),
            mcp_token: "t0ken".to_owned(),
            system: "You are coder.".to_owned(),
            prompt: "hello".to_owned(),
        };
        Dialogue { given, ..Dialogue::without_turn("qwen (by ACP)", conversation) }
    }

    /// Gives the program's line, and returns what flock reports and answers.
    fn hear(dialogue: &mut Dialogue, line: Value) -> (Vec<ProgramEvent>, Vec<Value>) {
        let mut said = Vec::new();
        dialogue.line(&line, &mut said);
        let replies = dialogue.replies().iter().map(|reply| serde_json::from_str(reply).unwrap()).collect();
        (said, replies)
    }

    fn initialized(capabilities: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "agentCapabilities": capabilities,
            "authMethods": [{"id": "oauth-personal"}, {"id": "some-api-key"}]}})
    }

    fn opened(dialogue: &mut Dialogue) {
        hear(dialogue, initialized(json!({"loadSession": true, "mcpCapabilities": {"http": true}})));
        hear(dialogue, json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s1"}}));
    }

    fn update(update: Value) -> Value {
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": update}})
    }

    fn exit(dialogue: &mut Dialogue) -> RunOutcome {
        dialogue.end(&ProgramExit { code: 0, stderr: "" })
    }

    #[test]
    fn a_turn_opens_a_session_with_flocks_tools_and_sends_the_prompt() {
        let first: Value = serde_json::from_str(&first_line()).unwrap();
        assert_eq!((&first["method"], &first["id"]), (&json!("initialize"), &json!(1)));
        let mut dialogue = dialogue(NEW);
        let capabilities = json!({"mcpCapabilities": {"http": true}});
        let (_, replies) = hear(&mut dialogue, initialized(capabilities));
        assert_eq!(replies[0]["method"], "session/new");
        assert_eq!(replies[0]["params"]["cwd"], "/workspace");
        let server = &replies[0]["params"]["mcpServers"][0];
        assert_eq!((&server["type"], &server["name"]), (&json!("http"), &json!("flock")));
        assert_eq!(server["headers"][0], json!({"name": "Authorization", "value": "Bearer t0ken"}));
        let (said, replies) =
            hear(&mut dialogue, json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s1"}}));
        assert_eq!(said, [ProgramEvent::Conversation("s1".to_owned())]);
        assert_eq!(replies[0]["params"]["prompt"][0]["text"], "You are coder.");
        assert_eq!(replies[0]["params"]["prompt"][1]["text"], "hello");
        let (said, _) = hear(
            &mut dialogue,
            update(
                json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}),
            ),
        );
        assert_eq!(said, [ProgramEvent::Text("hi".to_owned())]);
        assert!(!dialogue.is_over());
        hear(&mut dialogue, json!({"jsonrpc": "2.0", "id": 4, "result": {"stopReason": "end_turn"}}));
        assert!(dialogue.is_over());
        assert_eq!(exit(&mut dialogue), RunOutcome::Well { cut: false });
    }

    #[test]
    fn calls_are_reported_once_and_those_of_flocks_tools_are_left_to_their_arrival() {
        let mut dialogue = dialogue(NEW);
        opened(&mut dialogue);
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "ls", "kind": "execute",
            "status": "in_progress", "rawInput": {"command": "ls"}});
        let (said, _) = hear(&mut dialogue, update(call.clone()));
        assert!(
            matches!(&said[..], [ProgramEvent::Tool(ToolEvent::Began { tool, .. })] if tool == "execute")
        );
        assert_eq!(hear(&mut dialogue, update(call)).0, []);
        let ended = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed",
            "content": [{"type": "content", "content": {"type": "text", "text": "no such file"}}]});
        let (said, _) = hear(&mut dialogue, update(ended.clone()));
        assert!(
            matches!(&said[..], [ProgramEvent::Tool(ToolEvent::Ended { error: Some(why), .. })] if why == "no such file")
        );
        assert_eq!(hear(&mut dialogue, update(ended)).0, []);
        let own = json!({"sessionUpdate": "tool_call", "toolCallId": "c2", "title": "flock_channel_post (flock MCP Server)"});
        assert_eq!(hear(&mut dialogue, update(own)).0, [ProgramEvent::FlockTool]);
    }

    #[test]
    fn a_call_is_reported_with_its_arguments_even_if_they_come_later() {
        let mut dialogue = dialogue(NEW);
        opened(&mut dialogue);
        let prepared = json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Shell", "kind": "execute",
            "status": "pending", "rawInput": {}, "_meta": {"toolName": "run_it"}});
        assert_eq!(hear(&mut dialogue, update(prepared)).0, []);
        let known = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress",
            "rawInput": {"command": "ls"}});
        let (said, _) = hear(&mut dialogue, update(known));
        let began = ToolEvent::Began {
            call: "c1".to_owned(),
            tool: "run_it".to_owned(),
            arguments: json!({"command": "ls"}),
        };
        assert_eq!(said, [ProgramEvent::Tool(began)]);
    }

    #[test]
    fn a_call_without_arguments_is_known_by_its_title_and_its_output_by_what_a_terminal_shows() {
        let mut dialogue = dialogue(NEW);
        opened(&mut dialogue);
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "ls -l", "kind": "execute",
            "status": "pending", "content": [{"type": "terminal", "terminalId": "c1"}]});
        assert_eq!(hear(&mut dialogue, update(call)).0, []);
        let running =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"});
        let began = ToolEvent::Began {
            call: "c1".to_owned(),
            tool: "execute".to_owned(),
            arguments: json!({"title": "ls -l"}),
        };
        assert_eq!(hear(&mut dialogue, update(running)).0, [ProgramEvent::Tool(began)]);
        let shows = |status: &str, data: &str| {
            update(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": status,
                "_meta": {"terminal_output": {"terminal_id": "c1", "data": data}}}))
        };
        assert_eq!(hear(&mut dialogue, shows("in_progress", "a.txt\n")).0, []);
        let (said, _) = hear(&mut dialogue, shows("completed", "b.txt\n"));
        assert!(
            matches!(&said[..], [ProgramEvent::Tool(ToolEvent::Ended { result, .. })] if result == "a.txt\nb.txt\n"),
            "{said:?}"
        );
    }

    #[test]
    fn a_question_for_permission_tells_the_arguments_of_its_call() {
        let mut dialogue = dialogue(NEW);
        opened(&mut dialogue);
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Shell", "kind": "execute",
            "status": "pending", "rawInput": {}});
        assert_eq!(hear(&mut dialogue, update(call)).0, []);
        let ask = json!({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": {
            "sessionId": "s1", "toolCall": {"toolCallId": "c1", "status": "pending", "rawInput": {"command": "ls"}},
            "options": [{"optionId": "once", "kind": "allow_once"}]}});
        let (said, replies) = hear(&mut dialogue, ask);
        assert!(
            matches!(&said[..], [ProgramEvent::Tool(ToolEvent::Began { arguments, .. })] if arguments["command"] == "ls"),
            "{said:?}"
        );
        assert_eq!(replies[0]["result"]["outcome"]["optionId"], "once");
    }

    #[test]
    fn the_mode_that_asks_least_is_chosen() {
        let modes = |current: &str| {
            json!({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s1", "modes": {"currentModeId": current,
                "availableModes": [{"id": "plan"}, {"id": "default"}, {"id": "yolo"}]}}})
        };
        let mut asking = dialogue(NEW);
        hear(&mut asking, initialized(json!({})));
        let (_, replies) = hear(&mut asking, modes("auto"));
        assert_eq!(replies[0]["params"], json!({"sessionId": "s1", "modeId": "yolo"}));
        let refused = json!({"jsonrpc": "2.0", "id": 5, "error": {"code": -32602, "message": "not allowed"}});
        assert_eq!(hear(&mut asking, refused).1[0]["method"], "session/prompt");
        let mut free = dialogue(NEW);
        hear(&mut free, initialized(json!({})));
        assert_eq!(hear(&mut free, modes("yolo")).1[0]["method"], "session/prompt");
    }

    #[test]
    fn a_program_may_do_in_its_sandbox_what_it_asks_for_and_is_offered_nothing_else() {
        let mut dialogue = dialogue(NEW);
        opened(&mut dialogue);
        let ask = |options: Value| {
            json!({"jsonrpc": "2.0", "id": "p", "method": "session/request_permission",
                "params": {"sessionId": "s1", "options": options}})
        };
        let options = json!([{"optionId": "no", "kind": "reject_once"}, {"optionId": "always", "kind": "allow_always"},
            {"optionId": "once", "kind": "allow_once"}]);
        let (_, replies) = hear(&mut dialogue, ask(options));
        assert_eq!(replies[0]["result"]["outcome"], json!({"outcome": "selected", "optionId": "once"}));
        let (_, replies) = hear(&mut dialogue, ask(json!([{"optionId": "no", "kind": "reject_once"}])));
        assert_eq!(replies[0]["result"]["outcome"]["outcome"], "cancelled");
        for method in ["fs/read_text_file", "terminal/create", "elicitation/create", "x"] {
            let (_, replies) = hear(&mut dialogue, json!({"jsonrpc": "2.0", "id": 9, "method": method}));
            assert_eq!(replies[0]["error"]["code"], NO_METHOD, "{method}");
        }
    }

    #[test]
    fn a_conversation_goes_on_as_the_program_can_and_its_history_is_not_said_again() {
        let old = ConversationStart::Resumed("s1");
        let mut loading = dialogue(old);
        let (_, replies) = hear(&mut loading, initialized(json!({"loadSession": true})));
        assert_eq!(replies[0]["method"], "session/load");
        let past =
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "before"}});
        assert_eq!(hear(&mut loading, update(past)).0, []);
        let (_, replies) = hear(&mut loading, json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
        let prompt = replies[0]["params"]["prompt"].as_array().unwrap();
        assert_eq!((prompt.len(), &prompt[0]["text"]), (1, &json!("hello")));
        let mut resuming = dialogue(old);
        let capabilities = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
        assert_eq!(hear(&mut resuming, initialized(capabilities)).1[0]["method"], "session/resume");
        hear(
            &mut resuming,
            json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32602, "message": "unknown"}}),
        );
        assert_eq!(exit(&mut resuming), RunOutcome::Unknown);
        let mut forgetful = dialogue(old);
        hear(
            &mut forgetful,
            initialized(json!({"loadSession": false, "sessionCapabilities": {"resume": null}})),
        );
        assert_eq!(exit(&mut forgetful), RunOutcome::Unknown);
    }

    #[test]
    fn a_login_by_key_is_used_and_any_other_ends_the_turn() {
        let mut keyed = dialogue(NEW);
        hear(&mut keyed, initialized(json!({})));
        let refused = json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": "log in"}});
        let (_, replies) = hear(&mut keyed, refused.clone());
        assert_eq!(replies[0]["params"]["methodId"], "some-api-key");
        let (_, replies) = hear(&mut keyed, json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
        assert_eq!(replies[0]["method"], "session/new");
        hear(&mut keyed, refused);
        assert!(matches!(exit(&mut keyed), RunOutcome::Failed { status: Some(401), .. }));
    }

    #[test]
    fn whatever_a_program_says_ends_in_a_result() {
        let lines = [
            json!({}),
            json!({"id": 1}),
            json!({"id": 4, "result": {"stopReason": "end_turn"}}),
            json!({"id": null}),
            json!({"method": 5, "id": []}),
            json!({"method": "session/update"}),
            update(json!([])),
            update(json!({"sessionUpdate": "tool_call"})),
            json!({"id": 1, "error": 7}),
        ];
        for line in &lines {
            let mut dialogue = dialogue(NEW);
            hear(&mut dialogue, line.clone());
            opened(&mut dialogue);
            hear(&mut dialogue, line.clone());
            assert!(!matches!(exit(&mut dialogue), RunOutcome::Well { .. }) || line["id"] == 4, "{line}");
        }
        let mut early = dialogue(NEW);
        hear(&mut early, lines[2].clone());
        assert!(!early.is_over(), "an answer to what was not asked is none");
        let mut other = dialogue(NEW);
        hear(&mut other, json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2}}));
        assert!(matches!(exit(&mut other), RunOutcome::Failed { .. }));
    }
}
