//! From a model's name to the provider that answers for it: the configuration, the providers flock knows,
//! and the key.

mod endpoint;
pub mod listing;
mod speaks;

use std::borrow::Cow;
use std::sync::Arc;

pub use endpoint::{Endpoint, KNOWN, known};
use speaks::Speaks;

use super::anthropic::Anthropic;
use super::bedrock::{self, Bedrock};
use super::google::Google;
use super::http::{Http, Limits};
use super::key::{self, ApiKey};
use super::openai::OpenAi;
use super::responses::Responses;
use super::script::{self, Script};
use super::{Provider, ProviderError, Route};
use crate::config::model::ModelSettings;
use crate::config::{Api, Config};
use crate::env;
use crate::home::Home;
use crate::id::ModelRef;

/// A model, ready to be asked.
#[derive(Clone)]
pub struct Resolved {
    /// Which way it is asked.
    pub route: Route,
    /// Asks it.
    pub provider: Arc<dyn Provider>,
    /// Tokens it takes in all.
    pub context_window: u64,
    /// Tokens to let it answer with.
    pub max_tokens: u32,
    /// Whether it takes images.
    pub images: bool,
    /// Whether it reasons, where the configuration says so.
    pub reasoning: Option<bool>,
    /// Whether it reasons, where the configuration or the list of well-known models says so.
    pub reasons: Option<bool>,
    /// What to show: the model's name, or that a script plays it.
    pub label: String,
}

/// Where the models of one home come from.
#[derive(Clone, Debug)]
pub struct Catalog {
    home: Home,
    http: Arc<Http>,
}

/// How a model is asked, for another program that asks it itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// Its wire format.
    pub api: Api,
    /// Where it answers, as the configuration or flock's own list has it.
    pub base_url: String,
    /// Whether its provider wants a key there.
    pub needs_key: bool,
    /// Tokens it takes in all.
    pub context_window: u64,
    /// Tokens to let it answer with.
    pub max_tokens: u32,
    /// Whether it takes images.
    pub images: bool,
    /// Whether it can think before it answers.
    pub reasoning: bool,
}

/// How a model is asked by this configuration. No key is looked for.
///
/// # Errors
///
/// [`ProviderError::NotConfigured`], also where only flock itself can ask it.
pub fn wire(model: &ModelRef, config: &Config) -> Result<Wire, ProviderError> {
    if model.is_script() {
        return Err(ProviderError::NotConfigured {
            provider: model.provider().to_owned(),
            model: model.to_string(),
            reason: "its script is played by flock itself".to_owned(),
            hint: "flock config set agents.defaults.model.primary PROVIDER/MODEL".to_owned(),
        });
    }
    let known = known(model.provider());
    let (base_url, api) = address(model, config, known)?;
    Ok(Wire {
        api,
        base_url: base_url.as_str().trim_end_matches('/').to_owned(),
        needs_key: wants_key(model, config, known),
        context_window: window(model, config),
        max_tokens: longest(model, config),
        images: sees(model, config),
        reasoning: listing::reasons(config, model).unwrap_or(false),
    })
}

/// Where a model is to be asked, all of it checked.
#[derive(Clone, Debug)]
struct Target {
    api: Api,
    speaks: Speaks,
    base_url: reqwest::Url,
    key: Option<ApiKey>,
    /// Bedrock's, where the configuration says it.
    region: Option<String>,
}

/// Whether a provider's key is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// It is, and has to be there where the provider wants one.
    Wanted,
    /// It is not.
    LeftAlone,
}

impl Catalog {
    /// The catalog of this home. Nothing is opened and no connection is made before a model is asked.
    #[must_use]
    pub fn new(home: Home) -> Self {
        Self::with_limits(home, Limits::default())
    }

    /// As [`Catalog::new`], with other limits for silence and size.
    #[must_use]
    pub fn with_limits(home: Home, limits: Limits) -> Self {
        Self { home, http: Arc::new(Http::new(limits)) }
    }

    /// The model, ready to be asked.
    ///
    /// # Errors
    ///
    /// [`ProviderError::NotConfigured`].
    pub fn resolve(&self, model: &ModelRef, config: &Config) -> Result<Resolved, ProviderError> {
        self.resolve_with(model, config, Keys::Wanted)
    }

    /// The model without its key, which is not even looked for: what it would be sent can be told, while it itself
    /// would refuse to be asked.
    ///
    /// # Errors
    ///
    /// [`ProviderError::NotConfigured`], for everything but the key.
    pub fn resolve_keyless(&self, model: &ModelRef, config: &Config) -> Result<Resolved, ProviderError> {
        self.resolve_with(model, config, Keys::LeftAlone)
    }

    fn resolve_with(&self, model: &ModelRef, config: &Config, keys: Keys) -> Result<Resolved, ProviderError> {
        if model.is_script() {
            let script = self.script(model)?;
            return Ok(Resolved {
                // It has no wire; it takes whatever this one takes.
                route: Route { model: model.clone(), api: Api::OpenAiCompletions },
                provider: Arc::new(script),
                context_window: window(model, config),
                max_tokens: 8_192,
                images: true,
                reasoning: None,
                reasons: None,
                label: label(model),
            });
        }
        let known = known(model.provider());
        let target = self.target(model, config, known, keys)?;
        let own = config.model(model);
        Ok(Resolved {
            route: Route { model: model.clone(), api: target.api },
            provider: self.provider(model, target),
            context_window: window(model, config),
            max_tokens: longest(model, config),
            images: sees(model, config),
            reasoning: own.and_then(|own| own.reasoning),
            reasons: listing::reasons(config, model),
            label: label(model),
        })
    }

    /// Whether [`Catalog::resolve`] would give a provider, without building one.
    ///
    /// # Errors
    ///
    /// [`ProviderError::NotConfigured`], for a warning.
    pub fn describe(&self, model: &ModelRef, config: &Config) -> Result<(), ProviderError> {
        if model.is_script() {
            return self.script(model).map(drop);
        }
        self.target(model, config, known(model.provider()), Keys::Wanted).map(drop)
    }

    /// The variable of the environment that the key of this model's provider comes from, if it does.
    #[must_use]
    pub fn key_variable(&self, model: &ModelRef, config: &Config) -> Option<String> {
        let provider = model.provider();
        if model.is_script() {
            return None;
        }
        let settings = config.providers.get(provider);
        let variable = key::variable(&self.home, provider, settings, known(provider));
        if variable.is_some() || key::find(&self.home, provider, settings, known(provider)) != Ok(None) {
            return variable;
        }
        let api = settings.and_then(|settings| settings.api).or(known(provider).map(|known| known.api));
        let pair = (api == Some(Api::BedrockConverseStream)).then(bedrock::from_environment).flatten();
        pair.map(|_| env::AWS_SECRET_ACCESS_KEY.name.to_owned())
    }

    fn script(&self, model: &ModelRef) -> Result<Script, ProviderError> {
        Script::open(&self.home, model.model()).map_err(|reason| ProviderError::NotConfigured {
            provider: model.provider().to_owned(),
            model: model.to_string(),
            reason,
            hint: format!("put the script into {}, or use script/demo", self.home.scripts().display()),
        })
    }

    fn target(
        &self,
        model: &ModelRef,
        config: &Config,
        known: Option<&'static Endpoint>,
        keys: Keys,
    ) -> Result<Target, ProviderError> {
        let provider = model.provider();
        let settings = config.providers.get(provider);
        let region = config.bedrock_region.clone();
        let (base_url, api) = address(model, config, known)?;
        let speaks = Speaks::of(api).map_err(|unspoken| {
            let (reason, hint) = unspoken.explain(provider);
            let (provider, model) = (provider.to_owned(), model.to_string());
            ProviderError::NotConfigured { provider, model, reason, hint }
        })?;
        if keys == Keys::LeftAlone {
            return Ok(Target { api, speaks, base_url, key: None, region });
        }
        let key = key::find(&self.home, provider, settings, known)
            .map_err(|reason| missing(model, reason, "apiKey", "-"))?
            .or_else(|| matches!(speaks, Speaks::Converse).then(bedrock::from_environment).flatten());
        if key.is_none() && wants_key(model, config, known) {
            return Err(missing(model, "it has no key".to_owned(), "apiKey", "-"));
        }
        if key.as_ref().is_some_and(|key| !key.expose().bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(missing(model, "its key holds characters that no key has".to_owned(), "apiKey", "-"));
        }
        Ok(Target { api, speaks, base_url, key, region })
    }

    fn provider(&self, model: &ModelRef, target: Target) -> Arc<dyn Provider> {
        let Target { speaks, base_url, key, region, .. } = target;
        let (http, provider, key) = (self.http.clone(), model.provider(), key.as_ref());
        match speaks {
            Speaks::Messages => Arc::new(Anthropic::new(http, provider, &base_url, key)),
            Speaks::Completions => Arc::new(OpenAi::new(http, provider, &base_url, key)),
            Speaks::Responses => Arc::new(Responses::new(http, provider, &base_url, key)),
            Speaks::Codex => Arc::new(Responses::codex(http, provider, &base_url, key)),
            Speaks::Google => Arc::new(Google::new(http, provider, &base_url, key)),
            Speaks::Converse => Arc::new(Bedrock::new(http, provider, &base_url, key, region.as_deref())),
        }
    }
}

/// At its public address a provider that has a key wants one; behind another address it may not.
fn wants_key(model: &ModelRef, config: &Config, known: Option<&Endpoint>) -> bool {
    config.providers.get(model.provider()).and_then(|settings| settings.base_url.as_ref()).is_none()
        && known.is_some_and(|known| !known.keys.is_empty())
}

/// Where a model is asked, and in which wire format.
fn address(
    model: &ModelRef,
    config: &Config,
    known: Option<&Endpoint>,
) -> Result<(reqwest::Url, Api), ProviderError> {
    let settings = config.providers.get(model.provider());
    let own_url = settings.and_then(|settings| settings.base_url.as_deref());
    let region = config.bedrock_region.as_deref();
    let public = || known.map(|known| known.public_address(region));
    let Some(base_url) = own_url.map(Cow::Borrowed).or_else(public) else {
        return Err(missing(model, "it has no base URL".to_owned(), "baseUrl", "URL"));
    };
    let base_url = base_url.parse::<reqwest::Url>().ok().filter(is_http).ok_or_else(|| {
        missing(model, "its base URL is not an http or https address".to_owned(), "baseUrl", "URL")
    })?;
    let api = settings
        .and_then(|settings| settings.api)
        .or(known.map(|known| known.api_of(model.model(), &base_url)))
        .unwrap_or(Api::OpenAiCompletions);
    Ok((base_url, api))
}

fn missing(model: &ModelRef, reason: String, key: &str, value: &str) -> ProviderError {
    let provider = model.provider();
    ProviderError::NotConfigured {
        provider: provider.to_owned(),
        model: model.to_string(),
        reason,
        hint: format!("flock config set models.providers.{provider}.{key} {value}"),
    }
}

/// How many tokens to let a model answer with.
fn longest(model: &ModelRef, config: &Config) -> u32 {
    config
        .model(model)
        .and_then(answer_of)
        .or(listing::of(model).answer)
        .unwrap_or(known(model.provider()).map_or(4_096, |known| known.max_tokens))
}

/// Whether a model takes images. One that is described, but not as to this and by nobody else, is taken to read them: it
/// says so itself if not.
fn sees(model: &ModelRef, config: &Config) -> bool {
    let own = config.model(model);
    let known = known(model.provider());
    own.and_then(|own| own.images)
        .or(listing::of(model).images)
        .unwrap_or(own.is_some() || known.is_some_and(|known| known.images))
}

/// How many tokens a model takes in all, whether or not it can be asked.
#[must_use]
pub fn window(model: &ModelRef, config: &Config) -> u64 {
    if model.is_script() {
        return 200_000;
    }
    config
        .model(model)
        .and_then(|own| own.context_window)
        .or(listing::of(model).context)
        .unwrap_or(known(model.provider()).map_or(32_768, |known| known.context_window))
}

/// What to show for a model: its name, and where a script plays it, that too.
#[must_use]
pub fn label(model: &ModelRef) -> String {
    if model.is_script() { format!("{model} ({})", script::LABEL) } else { model.to_string() }
}

fn is_http(url: &reqwest::Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

fn answer_of(own: &ModelSettings) -> Option<u32> {
    own.max_tokens.and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0)
}
