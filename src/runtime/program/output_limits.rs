//! Limits how much one run of a program may report. The reports are kept in memory until the turn has taken them. Pure.

use serde_json::json;

use crate::runtime::{ProgramEvent, ToolEvent};
use crate::tool::safe_text;

/// Bytes of text and thinking of one run together.
const MAX_TEXT: usize = 8 << 20;
/// Calls of one run.
const MAX_CALLS: usize = 20_000;
/// Bytes of one call's arguments, and of its result. Longer ones are shortened.
const MAX_ARGUMENTS: usize = 256 << 10;
const MAX_RESULT: usize = 64 << 10;
/// Bytes of a call's id, and of a tool's name.
const MAX_ID: usize = 512;
const MAX_NAME: usize = 256;

/// The amounts that one run has reported so far.
#[derive(Debug, Default)]
pub struct OutputLimiter {
    words: usize,
    calls: usize,
}

impl OutputLimiter {
    /// Returns the report, shortened to the limits.
    ///
    /// # Errors
    ///
    /// Returns the reason why the run must be stopped.
    pub fn within(&mut self, said: ProgramEvent) -> Result<ProgramEvent, String> {
        match said {
            ProgramEvent::Text(text) => self.words(text).map(ProgramEvent::Text),
            ProgramEvent::Thinking(text) => self.words(text).map(ProgramEvent::Thinking),
            ProgramEvent::Replaced(text) => self.words(text).map(ProgramEvent::Replaced),
            ProgramEvent::Tool(event) => self.tool(event).map(ProgramEvent::Tool),
            // The other reports become at most one short line each.
            other => Ok(other),
        }
    }

    fn words(&mut self, text: String) -> Result<String, String> {
        self.words = self.words.saturating_add(text.len());
        if self.words <= MAX_TEXT {
            return Ok(text);
        }
        // An answer cannot be shortened without changing its meaning, so the run is stopped.
        Err(format!("it said more than {} MB in one turn", MAX_TEXT >> 20))
    }

    fn tool(&mut self, event: ToolEvent) -> Result<ToolEvent, String> {
        Ok(match event {
            ToolEvent::Began { call, tool, arguments } => {
                self.calls += 1;
                if self.calls > MAX_CALLS {
                    return Err(format!("it called more than {MAX_CALLS} tools in one turn"));
                }
                let length = arguments.to_string().len();
                // Arguments must stay valid JSON, so they are replaced as a whole.
                let arguments = if length > MAX_ARGUMENTS {
                    json!({"left out": format!("{length} bytes")})
                } else {
                    arguments
                };
                ToolEvent::Began { call: cut(call, MAX_ID), tool: cut(tool, MAX_NAME), arguments }
            }
            ToolEvent::Ended { call, tool, result, error, took } => ToolEvent::Ended {
                call: cut(call, MAX_ID),
                tool: cut(tool, MAX_NAME),
                result: shortened(result),
                error: error.map(shortened),
                took,
            },
        })
    }
}

fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

fn shortened(text: String) -> String {
    if text.len() > MAX_RESULT { safe_text::middle_cut(&text, MAX_RESULT) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_too_much_output_is_stopped() {
        let mut bounds = OutputLimiter::default();
        let piece = "ä".repeat(1 << 18);
        for at in 0..16 {
            let said = if at % 2 == 0 {
                ProgramEvent::Text(piece.clone())
            } else {
                ProgramEvent::Thinking(piece.clone())
            };
            assert_eq!(bounds.within(said.clone()), Ok(said));
        }
        let too_much = Err("it said more than 8 MB in one turn".to_owned());
        assert_eq!(bounds.within(ProgramEvent::Replaced("a".to_owned())), too_much);
        assert_eq!(bounds.within(ProgramEvent::Note("a".to_owned())), Ok(ProgramEvent::Note("a".to_owned())));
        let began = |call: String| ToolEvent::Began { call, tool: "t".to_owned(), arguments: json!({}) };
        let mut bounds = OutputLimiter::default();
        for at in 0..MAX_CALLS {
            bounds.within(ProgramEvent::Tool(began(at.to_string()))).unwrap();
        }
        assert!(bounds.within(ProgramEvent::Tool(began("more".to_owned()))).is_err());
    }

    #[test]
    fn long_call_fields_are_shortened() {
        let long = "é".repeat(1 << 20);
        let began =
            ToolEvent::Began { call: long.clone(), tool: long.clone(), arguments: json!({"content": long}) };
        let Ok(ProgramEvent::Tool(ToolEvent::Began { call, tool, arguments })) =
            OutputLimiter::default().within(ProgramEvent::Tool(began))
        else {
            panic!("a call")
        };
        assert_eq!((call.len(), tool.len()), (MAX_ID, MAX_NAME));
        assert_eq!(arguments, json!({"left out": "2097166 bytes"}));
        let ended = ToolEvent::Ended {
            call: call.clone(),
            tool,
            result: long.clone(),
            error: Some(long),
            took: None,
        };
        let Ok(ProgramEvent::Tool(ToolEvent::Ended { call: same, result, error, .. })) =
            OutputLimiter::default().within(ProgramEvent::Tool(ended))
        else {
            panic!("its end")
        };
        assert_eq!(same, call, "its end is still that of this call");
        assert!(result.len() <= MAX_RESULT + 200 && error.unwrap().len() <= MAX_RESULT + 200);
    }
}
