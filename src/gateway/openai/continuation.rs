//! The two ways in which a request with results of calls is taken: as the continuation of the session whose calls they
//! answer, or, if the client keeps its conversation itself and flock knows no such session, as a conversation of its own.

use super::ChatInput;
use crate::agent::client_tools::{ResultFault, bounded, unanswered};
use crate::agent::{ClientResult, ClientTools};
use crate::clean;
use crate::gateway::error::ApiError;
use crate::provider::{Block, Message, Role};

/// The results at the end of a conversation are looked up by at most this number of ids.
const MAX_LOOKED_UP: usize = 16;

impl ChatInput {
    /// Returns `true` if the request brings tools, or a conversation with calls of such.
    #[must_use]
    pub(crate) fn uses_client_tools(&self) -> bool {
        let has_call = |message: &Message| {
            message.role == Role::Tool || (message.role == Role::Assistant && has_calls(message))
        };
        self.client.is_used() || self.messages.iter().any(has_call)
    }

    /// Returns the position of the first result at the end of the conversation, and that of the first message of a user
    /// behind it.
    fn tail(&self) -> (usize, usize) {
        let is = |at: usize, role| self.messages[at].role == role;
        let mut user = self.messages.len();
        while user > 0 && is(user - 1, Role::User) {
            user -= 1;
        }
        let mut results = user;
        while results > 0 && is(results - 1, Role::Tool) {
            results -= 1;
        }
        (results, user)
    }

    /// Returns the ids of the calls that the end of the conversation answers, or leaves without an answer.
    #[must_use]
    pub(crate) fn waited_calls(&self) -> Vec<&str> {
        let (results, user) = self.tail();
        let answered = self.messages[results..user].iter().flat_map(result_ids);
        let called = results.checked_sub(1).map(|at| &self.messages[at]).into_iter();
        let called = called.flat_map(Message::tool_calls).map(|call| call.id);
        answered.chain(called).take(MAX_LOOKED_UP).collect()
    }

    /// Leaves of the conversation only what a session that remembers the rest is told: the results, and the last message
    /// of a user.
    pub(crate) fn continue_session(&mut self) {
        let (results, user) = self.tail();
        let mut tail = self.messages.drain(..).skip(results);
        let results = tail.by_ref().take(user - results).flat_map(|message| message.content);
        self.client.results = results
            .filter_map(|block| match block {
                Block::ToolResult { call_id, content, .. } => {
                    Some(ClientResult { call: call_id, content: content.to_vec() })
                }
                _ => None,
            })
            .collect();
        let last = tail.last();
        self.messages = last.into_iter().collect();
    }

    /// Makes the conversation one of a new session. Each call has its result behind it; one that the client went on
    /// without gets an error as its result.
    ///
    /// # Errors
    ///
    /// Returns 400 if a result answers no call of the answer before it or a call is answered twice, and if only some of
    /// an answer's calls are answered. `param` is the parameter with the conversation.
    pub(crate) fn begin_session(&mut self, param: &'static str) -> Result<(), ApiError> {
        let mut open = AnswerCalls::default();
        let mut messages = Vec::with_capacity(self.messages.len());
        for message in std::mem::take(&mut self.messages) {
            if message.role == Role::Tool {
                for block in message.content {
                    let result = open.answer(block).map_err(|fault| refused(&fault, param))?;
                    messages.push(Message { role: Role::Tool, content: vec![result] });
                }
                continue;
            }
            messages.extend(open.close().map_err(|fault| refused(&fault, param))?);
            open = AnswerCalls::of(&message);
            messages.push(message);
        }
        messages.extend(open.close().map_err(|fault| refused(&fault, param))?);
        self.messages = messages;
        Ok(())
    }

    /// Returns the results at the end of the request, each as the id of its call and its text.
    #[must_use]
    pub(crate) fn new_results(&self) -> Vec<(&str, String)> {
        let ClientTools { results, .. } = &self.client;
        if !results.is_empty() {
            let text = |result: &ClientResult| crate::provider::message::joined_text(&result.content);
            return results.iter().map(|result| (result.call.as_str(), text(result))).collect();
        }
        let (results, user) = self.tail();
        let blocks = self.messages[results..user].iter().flat_map(|message| &message.content);
        blocks
            .filter_map(|block| match block {
                Block::ToolResult { call_id, content, .. } => {
                    Some((call_id.as_str(), crate::provider::message::joined_text(content)))
                }
                _ => None,
            })
            .collect()
    }
}

fn has_calls(message: &Message) -> bool {
    message.tool_calls().next().is_some()
}

fn result_ids(message: &Message) -> impl Iterator<Item = &str> {
    message.content.iter().filter_map(|block| match block {
        Block::ToolResult { call_id, .. } => Some(call_id.as_str()),
        _ => None,
    })
}

/// Returns the error for results that can't be taken.
#[must_use]
pub(crate) fn refused(fault: &ResultFault, param: &'static str) -> ApiError {
    let code = match fault {
        ResultFault::Doubled(_) => "tool_call_doubled",
        ResultFault::Unknown(_) => "tool_call_not_pending",
        ResultFault::Missing(_) => "tool_call_missing",
    };
    ApiError::invalid(code, fault.to_string()).with_param(param)
}

/// The calls of an answer in a conversation that the client keeps.
#[derive(Default)]
struct AnswerCalls {
    /// Those without a result, as id and name.
    open: Vec<(String, String)>,
    answered: Vec<String>,
}

impl AnswerCalls {
    fn of(message: &Message) -> Self {
        let calls = message.tool_calls().map(|call| (call.id.to_owned(), call.name.to_owned()));
        Self { open: calls.collect(), answered: Vec::new() }
    }

    /// Returns the result with the name of its call.
    fn answer(&mut self, block: Block) -> Result<Block, ResultFault> {
        let Block::ToolResult { call_id, content, is_error, .. } = block else {
            return Err(ResultFault::Unknown(String::new()));
        };
        let named = clean::label(&call_id, 80);
        if self.answered.contains(&call_id) {
            return Err(ResultFault::Doubled(named));
        }
        let Some(at) = self.open.iter().position(|(id, _)| *id == call_id) else {
            return Err(ResultFault::Unknown(named));
        };
        let (_, name) = self.open.remove(at);
        self.answered.push(call_id.clone());
        Ok(Block::ToolResult { call_id, name, content: bounded(content.to_vec()).into(), is_error })
    }

    /// Returns the results of the calls that were not answered at all.
    fn close(&mut self) -> Result<Vec<Message>, ResultFault> {
        if let Some((id, _)) = self.open.first().filter(|_| !self.answered.is_empty()) {
            return Err(ResultFault::Missing(clean::label(id, 80)));
        }
        let open = std::mem::take(&mut self.open);
        let result = |(id, name): (String, String)| Message {
            role: Role::Tool,
            content: vec![unanswered(&id, &name)],
        };
        Ok(open.into_iter().map(result).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::message::joined_text;
    use serde_json::json;

    fn calls(ids: &[&str]) -> Message {
        let calls = ids.iter().map(|id| Block::call(*id, "weather", json!({})));
        Message { role: Role::Assistant, content: calls.collect() }
    }

    fn result(id: &str) -> Message {
        let content = [Block::text(format!("of {id}"))].into();
        let block = Block::ToolResult { call_id: id.into(), name: String::new(), content, is_error: false };
        Message { role: Role::Tool, content: vec![block] }
    }

    fn user(text: &str) -> Message {
        Message::text(Role::User, text)
    }

    fn input(messages: Vec<Message>) -> ChatInput {
        ChatInput { messages, ..ChatInput::default() }
    }

    #[test]
    fn a_session_is_told_the_results_and_the_last_words() {
        for (messages, results, said) in [
            (vec![user("a"), calls(&["1", "2"]), result("2"), result("1")], vec!["2", "1"], None),
            (vec![result("1")], vec!["1"], None),
            (vec![user("a"), calls(&["1"]), result("1"), user("b"), user("c")], vec!["1"], Some("c")),
            (vec![user("a"), calls(&["1"]), user("b")], vec![], Some("b")),
            (vec![user("a")], vec![], Some("a")),
        ] {
            let mut input = input(messages);
            input.continue_session();
            let found: Vec<&str> = input.client.results.iter().map(|result| result.call.as_str()).collect();
            assert_eq!(found, results);
            assert_eq!(input.messages.first().map(Message::joined_text).as_deref(), said);
        }
    }

    #[test]
    fn the_calls_that_wait_are_those_before_the_end() {
        let old = [user("a"), calls(&["0"]), result("0"), Message::text(Role::Assistant, "b")];
        for (tail, ids) in [
            (vec![user("c"), calls(&["1", "2"]), result("1")], vec!["1", "1", "2"]),
            (vec![user("c"), calls(&["1"]), user("d")], vec!["1"]),
            (vec![user("c")], vec![]),
        ] {
            assert_eq!(input([old.to_vec(), tail].concat()).waited_calls(), ids);
        }
    }

    #[test]
    fn a_conversation_of_its_own_is_whole() {
        let mut own = input(vec![user("a"), calls(&["1", "2"]), result("2"), result("1"), user("b")]);
        own.begin_session("messages").unwrap();
        let Block::ToolResult { name, .. } = &own.messages[2].content[0] else { panic!() };
        assert_eq!((own.messages.len(), name.as_str()), (5, "weather"));
        let mut gone_on = input(vec![user("a"), calls(&["1"]), user("b")]);
        gone_on.begin_session("messages").unwrap();
        let Block::ToolResult { content, is_error, .. } = &gone_on.messages[2].content[0] else { panic!() };
        assert!(*is_error && joined_text(content).contains("was not answered"));
        for (messages, code) in [
            (vec![user("a"), result("1")], "tool_call_not_pending"),
            (vec![user("a"), calls(&["1"]), result("2")], "tool_call_not_pending"),
            (vec![user("a"), calls(&["1"]), result("1"), result("1")], "tool_call_doubled"),
            (vec![user("a"), calls(&["1", "2"]), result("1")], "tool_call_missing"),
            (vec![user("a"), calls(&["1", "2"]), result("1"), user("b")], "tool_call_missing"),
        ] {
            let error = input(messages).begin_session("messages").unwrap_err();
            assert_eq!((&*error.code, error.details.param.as_deref()), (code, Some("messages")));
        }
    }
}
