//! The provider `script`. It plays a written conversation instead of asking a model, for tests and for trying flock
//! without an account. Its answers depend on the request alone.
//!
//! `script/demo` is built in; any other name is a file in the home's `scripts` folder. docs/scripts.md describes the
//! format.

mod document;
mod playback;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use document::ScriptDocument;

use super::{BoxFuture, Delta, Provider, ProviderError, Request, Response, Sink};
use crate::error::chain;
use crate::home::Home;
use crate::home::beneath::Root;

/// The note for a script wherever a model is shown.
pub(crate) const LABEL: &str = "scripted, not a model";

const DEMO: &str = include_str!("demo.json");
/// Maximum size of a script file in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Longest pause of a script. It must not hold a turn longer than a silent provider could.
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// A provider that plays a written conversation.
#[derive(Clone, Debug)]
pub struct Script {
    document: Arc<ScriptDocument>,
}

impl Script {
    /// Opens the script with this name.
    ///
    /// # Errors
    ///
    /// Returns a sentence for the user if the name is not valid, the file cannot be read, or it is no script.
    pub fn open(home: &Home, name: &str) -> Result<Self, String> {
        if name == "demo" {
            static DEMO_DOCUMENT: OnceLock<Result<Arc<ScriptDocument>, String>> = OnceLock::new();
            let demo = DEMO_DOCUMENT.get_or_init(|| ScriptDocument::parse(DEMO.as_bytes()).map(Arc::new));
            return demo.clone().map(|document| Self { document });
        }
        let text = read(home, name)?;
        let document = ScriptDocument::parse(&text).map_err(|error| format!("the script {name}: {error}"))?;
        Ok(Self { document: Arc::new(document) })
    }
}

fn read(home: &Home, name: &str) -> Result<Vec<u8>, String> {
    // The name becomes a path, so only names without a folder are accepted.
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.starts_with('.') || !name.chars().all(safe) {
        return Err(format!("{name:?} is not the name of a script: use letters, digits, '-', '_' and '.'"));
    }
    let folder = Root::open(&home.scripts()).map_err(|error| chain(&error))?;
    folder.read(Path::new(name), MAX_FILE_BYTES).map_err(|error| chain(&error))
}

impl Provider for Script {
    /// Returns the neutral request as JSON, because a script has no wire format.
    fn body(&self, request: &Request) -> Result<Vec<u8>, ProviderError> {
        serde_json::to_vec(request).map_err(|error| ProviderError::Failed {
            provider: "script".to_owned(),
            message: error.to_string(),
            retry_after: None,
            unsent: true,
        })
    }

    fn call<'a>(
        &'a self,
        request: &'a Request,
        sink: Sink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(async move {
            let answer = playback::answer(&self.document, request);
            pause(answer.delay).await;
            if !answer.think.is_empty() {
                sink(Delta::Thinking(answer.think.clone()));
            }
            for piece in split_pieces(&answer.say) {
                pause(answer.pace).await;
                sink(Delta::Text(piece.to_owned()));
            }
            match answer.error {
                Some(error) => Err(error),
                None => Ok(answer.into_response()),
            }
        })
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time.min(MAX_PAUSE)).await;
    }
}

/// Splits a text into pieces of a few words, as a model would stream it.
fn split_pieces(text: &str) -> impl Iterator<Item = &str> {
    const MIN_PIECE_BYTES: usize = 12;
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest
            .char_indices()
            .find(|(at, c)| *at >= MIN_PIECE_BYTES && c.is_whitespace())
            .map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (piece, left) = rest.split_at(end);
        rest = left;
        Some(piece)
    })
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
