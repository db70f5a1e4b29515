//! Model APIs, from outside: every wire format over real HTTP against a server that refuses what the real
//! ones refuse, and every way in which a provider can fail.

mod answers;
pub mod bedrock;
mod configuration;
mod effort;
mod faults;
pub mod forms;
mod google;
mod matrix;
mod prefix;
mod requests;
mod responses;
mod retries;
mod routers;
mod servers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flock::config::model::{Api, Config, ProviderSettings};
use flock::home::Home;
use flock::provider::http::HttpLimits;
use flock::provider::{
    Block, Catalog, Delta, Message, ProviderError, Request, ResolvedModel, Response, Role, ToolSpec,
};
use serde_json::json;

use crate::support::model_server::ModelServer;

const KEY: &str = "sk-planted-key-0123456789";

/// The wire formats of which an answer holds nothing but what it says.
const BOTH: [Api; 2] = [Api::AnthropicMessages, Api::OpenAiCompletions];

/// All wire formats.
const ALL: [Api; 5] = [
    Api::AnthropicMessages,
    Api::OpenAiCompletions,
    Api::OpenAiResponses,
    Api::OpenAiCodexResponses,
    Api::GoogleGenerativeAi,
];

/// A server, and a configuration in which `test/m` is on it.
struct Stage {
    server: ModelServer,
    config: Config,
    catalog: Catalog,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn new(api: Api) -> Self {
        Self::with_limits(api, HttpLimits::default())
    }

    fn with_limits(api: Api, limits: HttpLimits) -> Self {
        let server = ModelServer::start();
        let base_url = match api {
            Api::AnthropicMessages | Api::GoogleGenerativeAi => server.base_url(),
            Api::OpenAiCodexResponses => format!("{}/backend-api", server.base_url()),
            _ => server.openai_url(),
        };
        let settings = ProviderSettings {
            base_url: Some(base_url),
            api_key: Some(KEY.into()),
            api: Some(api),
            models: vec![],
        };
        let (folder, home) = home();
        Self {
            server,
            config: config([("test", settings)]),
            catalog: Catalog::with_limits(home, limits),
            _folder: folder,
        }
    }

    fn resolve(&self) -> ResolvedModel {
        self.catalog.resolve(&"test/m".parse().unwrap(), &self.config).unwrap()
    }

    async fn ask(&self, request: &Request) -> (Result<Response, ProviderError>, Vec<Delta>) {
        let mut deltas = Vec::new();
        let answer = self.resolve().provider.call(request, &mut |delta| deltas.push(delta)).await;
        (answer, deltas)
    }

    /// Asks `hello` and returns the failure, which never holds the key.
    async fn fail(&self) -> ProviderError {
        let error = self.ask(&hello()).await.0.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(KEY), "{shown}");
        assert!(shown.len() < 3_000, "{} bytes", shown.len());
        error
    }
}

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().canonicalize().unwrap(), None);
    std::fs::create_dir(home.secrets()).unwrap();
    std::fs::create_dir(home.scripts()).unwrap();
    (folder, home)
}

fn config<const N: usize>(providers: [(&str, ProviderSettings); N]) -> Config {
    Config {
        agents: flock::config::AgentList::default(),
        port: 0,
        token: String::new(),
        chat_completions: true,
        responses: true,
        providers: BTreeMap::from(providers.map(|(name, settings)| (name.to_owned(), settings))),
        bedrock_region: None,
        nix_flake: None,
        nix_image: None,
        sandbox_image: None,
        budgets: flock::config::Budgets::default(),
        channel_readers: flock::config::ChannelReaders::default(),
        max_agents: 20,
        max_turns: 8,
        mount_roots: Vec::new(),
        egress_ask: flock::config::EgressApprover::Person,
        approvers: Vec::new(),
        approvals: Default::default(),
        trusted_origins: Vec::new(),
        peer_address: None,
        oidc: None,
        otlp: None,
        blobs: None,
        image_side: 1200,
        turn_time: None,
        quota_patience: std::time::Duration::from_secs(120),
        approval_time: std::time::Duration::from_secs(86_400),
        packages_per_day: 20,
        retention: flock::config::Retention::default(),
        generations: flock::config::KeptGenerations::default(),
        openclaw: Default::default(),
        compaction: flock::config::Compaction::default(),
        checkpoints: flock::config::CheckpointSettings::default(),
        race_idle: std::time::Duration::from_secs(120),
        hook_origins: Vec::new(),
        schedule_distance: std::time::Duration::from_secs(3600),
        bridges: Vec::new(),
        projects: Vec::new(),
        mcp_servers: Vec::new(),
        engines: Vec::new(),
    }
}

/// Limits for providers that are silent, and for nothing else: a busy machine is slow, too.
fn short() -> HttpLimits {
    let limit = Duration::from_millis(300);
    HttpLimits { first_byte: limit, near_first_byte: limit, idle: limit, ..HttpLimits::default() }
}

/// Limits for answers that are too long, or whose end is waited for.
fn small() -> HttpLimits {
    HttpLimits { settle: Duration::from_millis(100), answer: 64 * 1024, ..HttpLimits::default() }
}

fn hello() -> Request {
    ask_with(vec![Message::text(Role::User, "hello")])
}

fn ask_with(messages: Vec<Message>) -> Request {
    let messages = messages.into_iter().map(Arc::new).collect();
    Request {
        model: "m".into(),
        system: "You are a test.".into(),
        messages,
        tools: vec![ToolSpec {
            name: "exec".into(),
            description: "Runs a command.".into(),
            parameters: json!({"type": "object", "properties": {"command": {"type": "string"}}}).into(),
        }],
        max_tokens: 1000,
        ..Request::default()
    }
}

/// A block without what a provider wants back with it.
fn plain(block: &Block) -> Block {
    match block {
        Block::Text { text, .. } => Block::text(text.as_str()),
        Block::Thinking { thinking, redacted, .. } => {
            Block::Thinking { thinking: thinking.clone(), signature: None, redacted: redacted.clone() }
        }
        Block::ToolCall { id, name, arguments, .. } => {
            let id = id.split('|').next().unwrap_or_default();
            Block::call(id, name.as_str(), arguments.clone())
        }
        other => other.clone(),
    }
}

fn plain_all(content: &[Block]) -> Vec<Block> {
    content.iter().map(plain).collect()
}

fn text(text: &str) -> Block {
    Block::text(text)
}

fn call(id: &str, name: &str, arguments: serde_json::Value) -> Block {
    Block::call(id, name, arguments)
}

fn result(id: &str, content: Vec<Block>) -> Block {
    Block::ToolResult { call_id: id.into(), name: "exec".into(), content: content.into(), is_error: false }
}

fn said(deltas: &[Delta]) -> String {
    let text = |delta: &Delta| match delta {
        Delta::Text(text) => text.clone(),
        Delta::Thinking(_) | Delta::ToolCall => String::new(),
    };
    deltas.iter().map(text).collect()
}
