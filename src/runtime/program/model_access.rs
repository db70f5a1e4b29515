//! Decides if a program can ask a model, and in which way. The same answer is used when an agent is added, when it is
//! changed and when its turns run. All functions are pure.

use super::Program;
use crate::config::{Api, Config};
use crate::id::ModelRef;
use crate::provider::catalog::{self, ModelConnection};
use crate::provider::{ProviderError, wire_format};

/// A way in which a program asks a model.
#[derive(Clone, Debug)]
pub enum ModelAccess {
    /// Through flock's relay, which asks the model's provider.
    Relay(ModelConnection),
    /// Directly, with the program's own login.
    OwnLogin,
}

/// The reason why a program cannot ask a model.
#[derive(Clone, Debug)]
pub enum ModelAccessError {
    /// The home does not have the model's provider.
    NoProvider(ProviderError),
    /// The home has the provider but not its key.
    NoKey(ProviderError),
    /// Each request to the provider is signed, so the relay cannot pass it on.
    Signed(Api),
    /// The program does not support the model's wire format.
    Unspoken(Api),
}

/// Decides how a program asks a model. `described` is `Ok` if flock itself has everything to ask the model, including
/// the key.
///
/// # Errors
///
/// Returns [`ModelAccessError`] with the reason.
pub fn way(
    program: &dyn Program,
    model: &ModelRef,
    config: &Config,
    described: Result<(), ProviderError>,
    on_host: bool,
) -> Result<ModelAccess, ModelAccessError> {
    // On the host a program has the login of its user. It is used only for providers that the home does not have.
    if on_host && !is_known(model, config, described.is_ok()) {
        return Ok(ModelAccess::OwnLogin);
    }
    let wire = catalog::wire(model, config).map_err(ModelAccessError::NoProvider)?;
    if wire_format::of(wire.api).relay.is_none() {
        return Err(ModelAccessError::Signed(wire.api));
    }
    if !program.speaks(wire.api) {
        return Err(ModelAccessError::Unspoken(wire.api));
    }
    // The key is checked last, so that a missing key is reported only if it is the only obstacle.
    described.map_err(ModelAccessError::NoKey)?;
    Ok(ModelAccess::Relay(wire))
}

/// Returns `true` if the home has the model's provider: it is configured, or its key is there. Otherwise a program on
/// the host uses its own login.
#[must_use]
pub fn is_known(model: &ModelRef, config: &Config, is_described: bool) -> bool {
    let settings = config.providers.get(model.provider());
    model.is_script()
        || is_described
        || settings.is_some_and(|settings| settings.base_url.is_some() || settings.api_key.is_some())
}

impl ModelAccessError {
    /// Returns the reason as text about this model and this program.
    #[must_use]
    pub fn reason(&self, program: &dyn Program, model: &ModelRef) -> String {
        let provider = model.provider();
        match self {
            Self::NoProvider(error) | Self::NoKey(error) => error.to_string(),
            Self::Signed(api) => format!(
                "{provider} is asked as {}, where each request is signed by itself and can't be passed on",
                api.as_str()
            ),
            Self::Unspoken(api) => {
                let others: Vec<&str> = super::PROGRAMS
                    .iter()
                    .filter(|other| other.speaks(*api))
                    .map(|other| other.name())
                    .collect();
                let who = if others.is_empty() {
                    "no program does".to_owned()
                } else {
                    format!("{} can", others.join(", "))
                };
                let (api, title) = (api.as_str(), program.title());
                format!("{provider} is asked as {api}, which {title} does not speak; {who}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::parse;
    use crate::home::Home;

    #[test]
    fn model_access_depends_on_provider_and_location() {
        let document = json!({
            "gateway": {"auth": {"token": "0123456789abcdef0123456789abcdef"}},
            "models": {"providers": {
                "mine": {"baseUrl": "http://127.0.0.1:9", "api": "anthropic-messages", "models": [{"id": "m"}]},
                "chat": {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "models": [{"id": "m"}]},
            }},
        });
        let home = Home::new("/tmp/flock-asks-test".into(), None);
        let config = parse::config(&document, &home).unwrap();
        let claude = super::super::listed("claude").unwrap();
        let asked = |model: &str, has_key: bool, on_host: bool| {
            let model: ModelRef = model.parse().unwrap();
            let missing = || ProviderError::NotConfigured {
                provider: model.provider().to_owned(),
                model: model.to_string(),
                reason: "no key".to_owned(),
                hint: "flock config set".to_owned(),
            };
            let described = if has_key { Ok(()) } else { Err(missing()) };
            match way(claude, &model, &config, described, on_host) {
                Ok(ModelAccess::Relay(wire)) => wire.api.as_str().to_owned(),
                Ok(ModelAccess::OwnLogin) => "own login".to_owned(),
                Err(ModelAccessError::NoProvider(_)) => "no provider".to_owned(),
                Err(ModelAccessError::NoKey(_)) => "no key".to_owned(),
                Err(unable) => unable.reason(claude, &model),
            }
        };
        for (model, has_key, on_host, expected) in [
            ("mine/m", true, false, "anthropic-messages"),
            ("mine/m", false, false, "no key"),
            ("mine/m", true, true, "anthropic-messages"),
            // The provider is configured. A missing key is then a mistake, and not a wish to use another login.
            ("mine/m", false, true, "no key"),
            ("anthropic/claude-opus-4-5", true, true, "anthropic-messages"),
            ("anthropic/claude-opus-4-5", false, true, "own login"),
            ("anthropic/claude-opus-4-5", false, false, "no key"),
            // The program decides itself if its login fits the model.
            ("openai/gpt-5.5", false, true, "own login"),
            ("nobody/m", false, false, "no provider"),
            ("nobody/m", false, true, "own login"),
            ("script/demo", true, true, "no provider"),
            (
                "chat/m",
                true,
                false,
                "chat is asked as openai-completions, which Claude Code does not speak; opencode can",
            ),
            (
                "chat/m",
                false,
                true,
                "chat is asked as openai-completions, which Claude Code does not speak; opencode can",
            ),
        ] {
            assert_eq!(asked(model, has_key, on_host), expected, "{model} {has_key} {on_host}");
        }
        let bedrock = asked("amazon-bedrock/anthropic.claude-opus-4-5-20251101-v1:0", true, false);
        assert!(bedrock.contains("signed by itself"), "{bedrock}");
    }
}
