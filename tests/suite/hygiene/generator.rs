//! Generates conversations for tests from a seed, with everything that models, people and accidents can leave in a
//! transcript.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use flock::agent::Provenance;
use flock::agent::transcript::hygiene::Target;
use flock::agent::transcript::hygiene::policy::{DroppedThinking, HygienePolicy, IdFormat, SignatureRule};
use flock::agent::transcript::{Entry, EntryKind, EntryMetadata};
use flock::config::Api;
use flock::provider::{Block, Message, Role, Route, StopReason, Usage};

pub fn route(model: &str, api: Api) -> Route {
    Route { model: model.parse().unwrap(), api }
}

/// At least one route for each row of the policy table.
pub const ROUTES: [(&str, Api); 26] = [
    ("openai/gpt-5", Api::OpenAiResponses),
    ("openai/gpt-5-codex", Api::OpenAiCodexResponses),
    ("azure-openai/gpt-5", Api::OpenAiResponses),
    ("gateway/claude-opus-4-5", Api::OpenAiResponses),
    ("openai/gpt-4o", Api::OpenAiCompletions),
    ("my-azure/gpt-4o", Api::OpenAiCompletions),
    ("ollama/qwen3", Api::OpenAiCompletions),
    ("moonshot/kimi-k2-thinking", Api::OpenAiCompletions),
    ("google/gemini-2.5-pro", Api::GoogleGenerativeAi),
    ("google/gemini-3-pro-preview", Api::GoogleGenerativeAi),
    ("gemini-cli/gemini-3-pro-preview", Api::GoogleGeminiCli),
    ("google-antigravity/gemini-3-pro", Api::GoogleGeminiCli),
    ("google-antigravity/claude-opus-4-5-thinking", Api::GoogleGeminiCli),
    ("anthropic/claude-opus-4-5", Api::AnthropicMessages),
    ("anthropic/claude-3-7-sonnet-latest", Api::AnthropicMessages),
    ("minimax/MiniMax-M2", Api::AnthropicMessages),
    ("minimax/MiniMax-M3", Api::AnthropicMessages),
    ("kimi-coding/k2p5", Api::AnthropicMessages),
    ("kimi/kimi-for-coding", Api::AnthropicMessages),
    ("amazon-bedrock/anthropic.claude-sonnet-4-5-v1:0", Api::BedrockConverseStream),
    ("mistral/mistral-large", Api::OpenAiCompletions),
    ("openrouter/google/gemini-3-pro", Api::OpenAiCompletions),
    ("openrouter/anthropic/claude-opus-4.5", Api::OpenAiCompletions),
    ("openrouter/openai/gpt-5", Api::OpenAiCompletions),
    ("github-copilot/claude-sonnet-4", Api::OpenAiCompletions),
    ("github-copilot/gpt-5", Api::OpenAiCompletions),
];

/// Returns a target for each of [`ROUTES`].
pub fn targets() -> impl Iterator<Item = Target> {
    // MiniMax-M2 takes no pictures, as in flock's list of known models.
    ROUTES.iter().map(|(model, api)| Target {
        thinking: true,
        images: !model.contains("MiniMax-M2"),
        ..Target::new(route(model, *api))
    })
}

/// Generates conversations. The same seed generates the same conversation.
pub struct ConversationGenerator {
    random: StdRng,
    entries: Vec<Entry>,
}

/// Returns the signature, in Base64, by which a route's provider recognises its own content.
pub fn signature(route: &Route) -> String {
    STANDARD.encode(format!("signed at {:?} by {}", route.api, route.model))
}

/// Returns the stored form of the reasoning that a router encrypts for the model behind it.
fn encrypted_reasoning(route: &Route) -> String {
    let details = json!([{"type": "reasoning.encrypted", "data": signature(route), "index": 0}]);
    STANDARD.encode(details.to_string())
}

impl ConversationGenerator {
    pub fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), entries: Vec::new() }
    }

    /// Generates this many turns of any kind, with models of all routes.
    pub fn transcript(mut self, turns: usize) -> Vec<Entry> {
        for _ in 0..turns {
            let (model, api) = *ROUTES.choose(&mut self.random).unwrap();
            self.turn(&route(model, api));
        }
        self.entries
    }

    /// Generates a turn of one route's model, with everything that can go wrong in it.
    fn turn(&mut self, route: &Route) {
        self.running(route);
        self.ending(route);
    }

    /// Generates an unfinished turn: the model has called tools and got results.
    pub fn running(&mut self, route: &Route) {
        self.user();
        for _ in 0..self.random.random_range(0..4) {
            self.step(route);
        }
    }

    /// Ends such a turn.
    pub fn go_on(&mut self, route: &Route) {
        self.ending(route);
    }

    /// Returns the entries so far.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns a random number below `of`.
    pub fn pick(&mut self, of: usize) -> usize {
        self.random.random_range(0..of)
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.random.random_ratio(1, one_in)
    }

    fn any(&mut self, of: &[&str]) -> String {
        (*of.choose(&mut self.random).unwrap()).to_owned()
    }

    fn say(&mut self, message: Message, about: EntryMetadata) {
        let id = format!("m{}", self.entries.len());
        // Now and then the clock is set back.
        let back = if self.chance(20) { 30 } else { 0 };
        let at = self.entries.len() as i64 * 10 - back;
        let about = Arc::new(EntryMetadata { id, at, ..about });
        self.entries.push(Entry { message: Arc::new(message), about });
    }

    fn user(&mut self) {
        let said = format!("said {}", self.entries.len());
        let mut content = match self.random.random_range(0..12) {
            0 => vec![Block::text(" \n")],
            1 => vec![],
            2 => vec![Block::text(said), Block::text(""), self.random_picture()],
            3 => {
                vec![Block::text(format!("{said} [inter-session message] isUser=true")), Block::text("more")]
            }
            4 => vec![Block::text(said), Block::call("u", "exec", json!({})), result("u", "exec", "x")],
            _ => vec![Block::text(said)],
        };
        if self.chance(6) {
            content.push(Block::text("<flock-context>now</flock-context>"));
        }
        let session = "agent:coder:flock:main:ann".parse().unwrap();
        let item = Some("i".into());
        let provenance = self.chance(5).then_some(Provenance::InterSession { session, tool: None, item });
        let kind = if self.chance(40) { EntryKind::Compacted } else { EntryKind::Said };
        self.say(
            Message { role: Role::User, content },
            EntryMetadata { provenance, kind, ..EntryMetadata::default() },
        );
        if self.chance(8) {
            self.user();
        }
    }

    /// Returns a valid picture, one with a wrong media type, or one that is none.
    fn random_picture(&mut self) -> Block {
        let Block::Image { media_type, data } = picture() else { return picture() };
        match self.random.random_range(0..3) {
            0 => Block::Image { media_type, data },
            1 => Block::Image { media_type: "image/jpeg".into(), data },
            _ => Block::Image { media_type, data: "****".into() },
        }
    }

    fn step(&mut self, route: &Route) {
        let mut content = self.thoughts(route);
        if self.chance(2) {
            content.push(Block::Text { text: self.any(&["I look.", "", " "]), signature: self.mark(route) });
        }
        let mut results = Vec::new();
        for _ in 0..self.random.random_range(1..4) {
            let id = self.call_id(route);
            let name =
                self.any(&["exec", "read", "exec", "read", "flock_message", " exec ", "", "bad name<|x|>"]);
            let arguments = match self.random.random_range(0..10) {
                0 => serde_json::Value::Null,
                1 => json!("{\"broken"),
                _ => json!({"path": "x"}),
            };
            let signature = self.mark(route);
            content.push(Block::ToolCall { id: id.clone(), name: name.clone(), arguments, signature });
            results.push(result(&id, &name, "found"));
        }
        self.answer(route, content, StopReason::ToolUse);
        self.results(results);
    }

    /// Adds the results, in order or with one of the possible faults.
    fn results(&mut self, mut results: Vec<Block>) {
        match self.random.random_range(0..14) {
            0 => results.shuffle(&mut self.random),
            1 => drop(results.pop()),
            2 => results.push(results[0].clone()),
            3 => results.push(result("nobody", "exec", "lost")),
            4 => results[0] = result("", "", "found"),
            5 => results[0] = result("call_1", "exec", " "),
            6 => self.user(),
            7 => results.clear(),
            8 => {
                let message = Message { role: Role::Tool, content: std::mem::take(&mut results) };
                self.say(message, EntryMetadata::default());
            }
            _ => {}
        }
        for block in results {
            if self.chance(30) {
                self.answer(
                    &route("openai/gpt-4o", Api::OpenAiCompletions),
                    vec![Block::text("in between")],
                    StopReason::End,
                );
            }
            self.say(Message { role: Role::Tool, content: vec![block] }, EntryMetadata::default());
        }
    }

    fn ending(&mut self, route: &Route) {
        let mut content = self.thoughts(route);
        let signature = self.mark(route);
        let text = Block::Text { text: "Done.".to_owned(), signature };
        match self.random.random_range(0..14) {
            0 => return,
            1 => return self.answer(route, content, StopReason::Length),
            2 => return self.answer(route, vec![], StopReason::Error),
            3 => {
                content.push(Block::call("cut", "exec", json!({})));
                content.push(text);
                return self.answer(route, content, StopReason::Aborted);
            }
            4 => content.push(Block::text(" ")),
            5 => {
                content.push(text);
                content.push(picture());
            }
            _ => content.push(text),
        }
        self.answer(route, content, StopReason::End);
        if self.chance(10) {
            self.answer(route, vec![Block::text("said to people")], StopReason::End);
            let last = self.entries.last_mut().unwrap();
            Arc::make_mut(&mut last.about).kind = EntryKind::ForPeople;
        }
    }

    fn answer(&mut self, route: &Route, content: Vec<Block>, stop: StopReason) {
        let known = !self.chance(25);
        let about = EntryMetadata {
            route: known.then(|| route.clone()),
            stop: Some(stop),
            usage: Some(Usage::default()),
            ..EntryMetadata::default()
        };
        self.say(Message { role: Role::Assistant, content }, about);
    }

    fn thoughts(&mut self, route: &Route) -> Vec<Block> {
        if self.chance(3) {
            return Vec::new();
        }
        let n = self.entries.len();
        let signature = match route.api {
            Api::OpenAiResponses | Api::OpenAiCodexResponses => Some(
                json!({"id": format!("rs_{n}"), "type": "reasoning", "encrypted_content": signature(route)})
                    .to_string(),
            ),
            Api::AnthropicMessages | Api::BedrockConverseStream | Api::GoogleGeminiCli => {
                Some(signature(route))
            }
            Api::OpenAiCompletions if route.provider() == "openrouter" => Some(encrypted_reasoning(route)),
            _ => None,
        };
        if self.chance(8) {
            let signature = self.chance(2).then(|| " ".to_owned());
            return vec![Block::Thinking { thinking: "cut".into(), signature, redacted: None }];
        }
        if self.chance(8) {
            return vec![Block::Thinking { thinking: String::new(), signature: None, redacted: signature }];
        }
        vec![Block::Thinking { thinking: "hm".into(), signature, redacted: None }]
    }

    fn mark(&mut self, route: &Route) -> Option<String> {
        let n = self.entries.len();
        if self.chance(2) {
            return None;
        }
        match route.api {
            Api::OpenAiResponses | Api::OpenAiCodexResponses => Some(format!("msg_{n}")),
            Api::GoogleGenerativeAi | Api::GoogleGeminiCli => {
                Some(if self.chance(4) { "no base64!".to_owned() } else { signature(route) })
            }
            _ => None,
        }
    }

    fn call_id(&mut self, route: &Route) -> String {
        let n = self.entries.len();
        if self.chance(12) {
            let long = "x".repeat(439);
            return self.any(&["", " ", "call_1", "call_1", "toolu_1", "é|é", "|fc_1", "a b", &long]);
        }
        let salt: u16 = self.random.random();
        match route.api {
            Api::OpenAiResponses | Api::OpenAiCodexResponses => format!("call_{n}_{salt}|fc_{n}_{salt}"),
            Api::AnthropicMessages => format!("toolu_{n}_{salt}"),
            Api::BedrockConverseStream => format!("tooluse_{n}-{salt}"),
            Api::GoogleGenerativeAi | Api::GoogleGeminiCli => format!("g{n}x{salt}"),
            Api::OpenAiCompletions if route.provider() == "moonshot" => {
                let count: u8 = self.random.random_range(0..3);
                format!("functions.exec:{count}")
            }
            Api::OpenAiCompletions if route.provider() == "mistral" => format!("m{n:04}{:04}", salt % 10_000),
            Api::OpenAiCompletions => format!("call_{n}_{salt}"),
        }
    }
}

pub fn result(id: &str, name: &str, text: &str) -> Block {
    Block::ToolResult {
        call_id: id.into(),
        name: name.into(),
        content: [Block::text(text)].into(),
        is_error: false,
    }
}

/// A picture of one pixel.
pub fn picture() -> Block {
    Block::Image { media_type: "image/png".into(), data: PIXEL.into() }
}

const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Returns a conversation as the route itself would have made it, so that no rule applies.
pub fn clean(target: &Target, turns: usize) -> Vec<Entry> {
    let api = target.route.api;
    let responses = matches!(api, Api::OpenAiResponses | Api::OpenAiCodexResponses);
    let policy = HygienePolicy::of(target);
    let thinks = policy.drop == DroppedThinking::Nothing;
    let mut entries = Vec::new();
    let mut say = |message: Message, route: Option<Route>| {
        let stop = route.is_some().then_some(StopReason::End);
        let about = EntryMetadata {
            id: format!("m{}", entries.len()),
            at: entries.len() as i64,
            route,
            stop,
            ..EntryMetadata::default()
        };
        entries.push(Entry { message: Arc::new(message), about: Arc::new(about) });
    };
    for turn in 0..turns {
        let mut asked = vec![Block::text("do it")];
        asked.extend(target.images.then(picture));
        say(Message { role: Role::User, content: asked }, None);
        let (one, two) = match (policy.ids, api) {
            (IdFormat::Pairs, _) => (format!("call_{turn}a|fc_{turn}a"), format!("call_{turn}b|fc_{turn}b")),
            (IdFormat::Native, _) => (format!("toolu_{turn}a"), format!("tooluse_{turn}-b")),
            (IdFormat::Nine, _) => (format!("a{turn:08}"), format!("b{turn:08}")),
            _ => (format!("call{turn}a"), format!("call{turn}b")),
        };
        let mark = match policy.marks {
            SignatureRule::Base64 { .. } => Some(signature(&target.route)),
            _ => None,
        };
        let item = json!({"id": format!("rs_{turn}"), "type": "reasoning"}).to_string();
        let thought = Block::Thinking {
            thinking: "hm".into(),
            signature: Some(if responses { item } else { signature(&target.route) }),
            redacted: None,
        };
        let call = |id: &str, signature| Block::ToolCall {
            id: id.into(),
            name: "exec".into(),
            arguments: json!({}),
            signature,
        };
        let mut content = vec![thought, Block::text("I look."), call(&one, mark), call(&two, None)];
        if !thinks {
            content.remove(0);
        }
        say(Message { role: Role::Assistant, content }, Some(target.route.clone()));
        say(Message { role: Role::Tool, content: vec![result(&one, "exec", "1")] }, None);
        say(Message { role: Role::Tool, content: vec![result(&two, "exec", "2")] }, None);
        let text = Block::Text { text: "Done.".into(), signature: responses.then(|| format!("msg_{turn}")) };
        say(Message { role: Role::Assistant, content: vec![text] }, Some(target.route.clone()));
    }
    say(Message::text(Role::User, "and now?"), None);
    entries
}
