//! What of a conversation a model is shown: the newest whole turns that fit, in a form every provider
//! takes. Pure.
//!
//! Three things always hold of what [`Window::messages`] gives: the first message is a user's; a message
//! with calls is followed by one message with exactly their results, in their order; no message is empty.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crate::provider::{Block, Message, Request, Role, ToolSpec};
use crate::tool::bounded;

/// What a picture costs, whatever its size: providers scale them down to about this.
const IMAGE_TOKENS: u64 = 1_600;

/// What a message costs besides its content.
const MESSAGE_TOKENS: u64 = 8;

/// What the time costs that is shown beside a message.
const TIME_TOKENS: u64 = 20;

/// What a delivered message costs besides its text.
const DELIVERY_TOKENS: u64 = MESSAGE_TOKENS + TIME_TOKENS;

/// What a call is told to have given when nobody knows.
pub const INTERRUPTED: &str = "interrupted, outcome unknown";

const LEFT_OUT: &str = "[earlier steps of this turn no longer fit and were left out]";

/// Estimates what some content costs: four bytes a token.
#[must_use]
pub fn cost(content: &[Block]) -> u64 {
    content.iter().map(block_cost).sum::<u64>() + MESSAGE_TOKENS
}

fn block_cost(block: &Block) -> u64 {
    match block {
        Block::Text { text, .. } => text_cost(text),
        Block::Thinking { thinking, signature, redacted } => {
            [Some(thinking), signature.as_ref(), redacted.as_ref()]
                .into_iter()
                .flatten()
                .map(|text| text_cost(text))
                .sum()
        }
        Block::ToolCall { id, name, arguments, .. } => {
            text_cost(id) + text_cost(name) + text_cost(&arguments.to_string())
        }
        Block::ToolResult { call_id, content, .. } => {
            text_cost(call_id) + content.iter().map(block_cost).sum::<u64>() + MESSAGE_TOKENS
        }
        Block::Image { .. } => IMAGE_TOKENS,
    }
}

/// Estimates what a request costs besides its messages: the system prompt and the tools.
#[must_use]
pub fn fixed_cost(request: &Request) -> u64 {
    text_cost(&request.system) + tools_cost(&request.tools)
}

/// Estimates what the tools of a request cost.
#[must_use]
pub fn tools_cost(tools: &[ToolSpec]) -> u64 {
    let cost = |tool: &ToolSpec| {
        text_cost(&tool.name) + text_cost(&tool.description) + text_cost(&tool.parameters.to_string())
    };
    tools.iter().map(cost).sum()
}

/// Estimates what is shown beside a message costs: the time, and a client's system text.
#[must_use]
pub fn context_cost(client: &[String]) -> u64 {
    client.iter().map(|text| text_cost(text) + TIME_TOKENS).sum::<u64>() + TIME_TOKENS
}

/// Estimates what a text costs.
#[must_use]
pub const fn text_cost(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

/// Whether the model takes pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Images {
    /// It does.
    Shown,
    /// A text stands in their place.
    Named,
}

/// A conversation with room for so many tokens.
#[derive(Clone, Debug)]
pub struct Window {
    room: u64,
    images: Images,
    /// The past turns, the input, the steps of this turn, one after the other.
    messages: Vec<Arc<Message>>,
    past: VecDeque<Part>,
    input: Part,
    /// The steps, and what was delivered between them.
    steps: VecDeque<Part>,
    left_out: bool,
}

/// Messages that stay or go together.
#[derive(Clone, Copy, Debug)]
struct Part {
    messages: usize,
    cost: u64,
    /// Whether it is a step of the turn, which may be left out, and not something that was said to the model.
    is_step: bool,
}

impl Window {
    /// A turn that begins with `input`, after the turns in `past`, oldest first.
    #[must_use]
    pub fn new(room: u64, images: Images, past: Vec<Vec<Message>>, input: Vec<Message>) -> Self {
        let mut window = Self {
            room,
            images,
            messages: Vec::with_capacity(past.iter().map(Vec::len).sum::<usize>() + input.len() + 8),
            past: VecDeque::with_capacity(past.len()),
            input: Part { messages: 0, cost: 0, is_step: false },
            steps: VecDeque::new(),
            left_out: false,
        };
        for turn in past {
            let part = window.add(from_first_question(paired(without_thinking(turn))));
            window.past.push_back(part);
        }
        window.input = window.add(from_first_question(paired(input)));
        window.shrink();
        window
    }

    /// Adds a step of the turn: what the model said, and the results of all its calls.
    pub fn push(&mut self, answer: Message, results: Vec<Block>) {
        let mut step = vec![answer];
        if !results.is_empty() {
            step.push(Message { role: Role::Tool, content: results });
        }
        let part = self.add(paired(step));
        self.steps.push_back(Part { is_step: true, ..part });
        self.shrink();
    }

    /// Adds what was said to the model between two steps. It stays for the rest of the turn, as the input
    /// does.
    pub fn deliver(&mut self, message: Message) {
        let part = self.add(paired(vec![message]));
        self.steps.push_back(part);
        self.shrink();
    }

    /// How many tokens of text can be delivered now: half of what is free once past turns are left out, so
    /// that the turn can go on after it.
    #[must_use]
    pub fn free(&self) -> u64 {
        let taken = self.steps.iter().map(|part| part.cost).sum::<u64>() + self.input.cost;
        (self.room.saturating_sub(taken) / 2).saturating_sub(DELIVERY_TOKENS)
    }

    /// What the messages cost in all.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.total()
    }

    /// Takes half of the room away, because the estimate was wrong; `false` where nothing more can be left
    /// out.
    pub fn narrow(&mut self) -> bool {
        let before = self.total();
        // Not half of the room, which may be far larger than what was refused.
        self.room = before.min(self.room) / 2;
        self.shrink();
        self.total() < before
    }

    /// What the model is shown.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    fn add(&mut self, mut messages: Vec<Message>) -> Part {
        if self.images == Images::Named {
            for message in &mut messages {
                name_images(&mut message.content);
            }
        }
        let cost = messages.iter().map(message_cost).sum();
        let part = Part { messages: messages.len(), cost, is_step: false };
        self.messages.extend(messages.into_iter().map(Arc::new));
        part
    }

    /// Leaves out the oldest turns, then the oldest steps of this one, then cuts the results of the last.
    fn shrink(&mut self) {
        let mut total = self.total();
        let mut gone = 0;
        while total > self.room
            && let Some(turn) = self.past.pop_front()
        {
            total -= turn.cost;
            gone += turn.messages;
        }
        self.messages.drain(..gone);
        while total > self.room
            && let Some(step) = self.leave_step_out()
        {
            total -= step.cost;
            total += self.say_left_out();
        }
        if total > self.room {
            self.cut_results(total);
        }
    }

    /// Takes the oldest step out, unless it is the last one.
    fn leave_step_out(&mut self) -> Option<Part> {
        let mut steps = self.steps.iter().enumerate().filter(|(_, part)| part.is_step);
        let (at, _) = steps.next()?;
        steps.next()?;
        let first = self.first_message(at);
        let step = self.steps.remove(at)?;
        self.messages.drain(first..first + step.messages);
        Some(step)
    }

    /// Says in the question that something is missing, once; gives what that costs.
    fn say_left_out(&mut self) -> u64 {
        let input = self.first_step() - self.input.messages..self.first_step();
        let question = self.messages[input].iter_mut().rfind(|message| message.role == Role::User);
        match question {
            Some(question) if !self.left_out => {
                Arc::make_mut(question).content.push(Block::text(LEFT_OUT));
                self.left_out = true;
                self.input.cost += text_cost(LEFT_OUT);
                text_cost(LEFT_OUT)
            }
            _ => 0,
        }
    }

    fn cut_results(&mut self, total: u64) {
        let Some(at) = self.steps.iter().rposition(|part| part.is_step) else { return };
        let first = self.first_message(at);
        let step = &mut self.steps[at];
        let messages = &mut self.messages[first..first + step.messages];
        let results = messages.iter_mut().filter(|message| message.role == Role::Tool);
        for message in results {
            let room = self.room.saturating_sub(total - message_cost(message));
            let share = room / (message.content.len() as u64).max(1);
            for block in &mut Arc::make_mut(message).content {
                if block_cost(block) > share
                    && let Block::ToolResult { content, .. } = block
                {
                    // Room for the line that says what is missing, and for the block itself.
                    let bytes = usize::try_from(share.saturating_sub(60) * 4).unwrap_or(usize::MAX);
                    let text = crate::provider::message::joined_text(content);
                    *content = [Block::text(bounded::middle_cut(&text, bytes))].into();
                }
            }
        }
        step.cost = messages.iter().map(|message| message_cost(message)).sum();
    }

    /// Where the first step of this turn is.
    fn first_step(&self) -> usize {
        self.messages.len() - self.steps.iter().map(|step| step.messages).sum::<usize>()
    }

    /// Where the messages begin of what has this place among the steps.
    fn first_message(&self, place: usize) -> usize {
        self.first_step() + self.steps.iter().take(place).map(|part| part.messages).sum::<usize>()
    }

    fn total(&self) -> u64 {
        let parts = self.past.iter().chain(&self.steps);
        parts.map(|part| part.cost).sum::<u64>() + self.input.cost
    }
}

fn message_cost(message: &Message) -> u64 {
    cost(&message.content)
}

/// A conversation begins with a user's message; some providers refuse every other.
fn from_first_question(mut turn: Vec<Message>) -> Vec<Message> {
    let first = turn.iter().position(|message| message.role == Role::User).unwrap_or(turn.len());
    turn.drain(..first);
    turn
}

/// Thinking belongs to the turn it was thought in; the signature of another model's would be refused.
fn without_thinking(mut turn: Vec<Message>) -> Vec<Message> {
    for message in &mut turn {
        message.content.retain(|block| !matches!(block, Block::Thinking { .. }));
    }
    turn
}

/// Brings calls and results together: one message of results after each message of calls, in the calls'
/// order. A call without a result gets [`INTERRUPTED`]; a result without a call, and a message without
/// content, goes.
fn paired(turn: Vec<Message>) -> Vec<Message> {
    let mut paired: Vec<Message> = Vec::with_capacity(turn.len());
    let mut messages = turn.into_iter().peekable();
    while let Some(mut message) = messages.next() {
        match message.role {
            Role::Tool => continue,
            Role::User => message
                .content
                .retain(|block| !matches!(block, Block::ToolCall { .. } | Block::ToolResult { .. })),
            Role::Assistant => {
                let mut seen = HashSet::new();
                message.content.retain(|block| match block {
                    Block::ToolCall { id, .. } => seen.insert(id.clone()),
                    Block::ToolResult { .. } => false,
                    _ => true,
                });
            }
        }
        let mut given = Vec::new();
        while let Some(results) = messages.next_if(|next| next.role == Role::Tool) {
            given.extend(results.content);
        }
        let results: Vec<Block> =
            message.tool_calls().map(|call| take_result(&mut given, call.id, call.name)).collect();
        let says = |block: &Block| !matches!(block, Block::Text { text, .. } if text.trim().is_empty());
        message.content.retain(says);
        if message.content.is_empty() {
            continue;
        }
        paired.push(message);
        if !results.is_empty() {
            paired.push(Message { role: Role::Tool, content: results });
        }
    }
    paired
}

fn take_result(given: &mut Vec<Block>, id: &str, name: &str) -> Block {
    let is_it = |block: &Block| matches!(block, Block::ToolResult { call_id, .. } if call_id == id);
    match given.iter().position(is_it) {
        Some(at) => given.swap_remove(at),
        None => unknown_result(id, name),
    }
}

/// The result of a call of which nobody knows what it did.
#[must_use]
pub fn unknown_result(id: &str, name: &str) -> Block {
    Block::ToolResult {
        call_id: id.to_owned(),
        name: name.to_owned(),
        content: [Block::text(INTERRUPTED)].into(),
        is_error: true,
    }
}

fn name_images(content: &mut [Block]) {
    for block in content {
        match block {
            Block::Image { media_type, .. } => {
                *block =
                    Block::text(format!("[a picture ({media_type}); this model does not take pictures]"));
            }
            Block::ToolResult { content, .. }
                if content.iter().any(|block| matches!(block, Block::Image { .. })) =>
            {
                let mut named = content.to_vec();
                name_images(&mut named);
                *content = named.into();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
