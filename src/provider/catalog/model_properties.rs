//! The properties of a model: from its configuration, else from the table of well-known models, else from its provider.

use super::{known, known_models};
use crate::config::Config;
use crate::config::model::ModelSettings;
use crate::id::ModelRef;
use crate::provider::script;

/// Returns the maximum number of tokens of a model's answer.
pub(super) fn max_answer_tokens(model: &ModelRef, config: &Config) -> u32 {
    config
        .model(model)
        .and_then(answer_of)
        .or(known_models::of(model).answer)
        .unwrap_or(known(model.provider()).map_or(4_096, |known| known.max_tokens))
}

/// Returns `true` if a model accepts pictures. A configured model without any information is assumed to accept them:
/// its provider refuses them if not.
pub(super) fn accepts_images(model: &ModelRef, config: &Config) -> bool {
    let own = config.model(model);
    let known = known(model.provider());
    own.and_then(|own| own.images)
        .or(known_models::of(model).images)
        .unwrap_or(own.is_some() || known.is_some_and(|known| known.images))
}

/// Returns the context window of a model in tokens, even if the model cannot be asked.
#[must_use]
pub fn window(model: &ModelRef, config: &Config) -> u64 {
    if model.is_script() {
        return 200_000;
    }
    config
        .model(model)
        .and_then(|own| own.context_window)
        .or(known_models::of(model).context)
        .unwrap_or(known(model.provider()).map_or(32_768, |known| known.context_window))
}

/// Returns the name to show for a model. For a script it says that a script plays it.
#[must_use]
pub fn label(model: &ModelRef) -> String {
    if model.is_script() { format!("{model} ({})", script::LABEL) } else { model.to_string() }
}

fn answer_of(own: &ModelSettings) -> Option<u32> {
    own.max_tokens.and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0)
}
