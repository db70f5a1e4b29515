//! Resolves a model's name to a provider that is ready to answer, from the configuration, the built-in providers and
//! the keys.

mod builtin;
pub mod known_models;

use std::borrow::Cow;
use std::sync::Arc;

pub use builtin::known;
pub(crate) use builtin::{BuiltinProvider, KNOWN};

use super::bedrock;
use super::http::{HttpClients, HttpLimits};
use super::key::{self, ApiKey};
use super::script::{self, Script};
use super::wire_format::{self, NewClient};
use super::{Provider, ProviderError, Route};
use crate::config::model::ModelSettings;
use crate::config::{Api, Config};
use crate::env;
use crate::home::Home;
use crate::id::ModelRef;

/// A model that is ready to be asked.
#[derive(Clone)]
pub struct ResolvedModel {
    pub route: Route,
    /// The client that asks the model.
    pub provider: Arc<dyn Provider>,
    /// Context window in tokens.
    pub context_window: u64,
    /// Maximum tokens of an answer.
    pub max_tokens: u32,
    /// `true` if the model accepts pictures.
    pub images: bool,
    /// `true` if the model reasons, according to the configuration alone.
    pub reasoning: Option<bool>,
    /// `true` if the model reasons, according to the configuration or the table of well-known models.
    pub reasons: Option<bool>,
    /// Name to show: the model's, with a note if a script plays it.
    pub label: String,
}

/// The source of all models of one home.
#[derive(Clone, Debug)]
pub struct Catalog {
    home: Home,
    http: Arc<HttpClients>,
}

/// The data that another program needs to ask a model by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConnection {
    pub api: Api,
    /// Address from the configuration or from flock's own list, without a slash at the end.
    pub base_url: String,
    /// `true` if the provider requires a key at this address.
    pub needs_key: bool,
    /// Context window in tokens.
    pub context_window: u64,
    /// Maximum tokens of an answer.
    pub max_tokens: u32,
    /// `true` if the model accepts pictures.
    pub images: bool,
    /// `true` if the model can reason before it answers.
    pub reasoning: bool,
}

/// Returns how a model is asked with this configuration. No key is looked up.
///
/// # Errors
///
/// Returns [`ProviderError::NotConfigured`] if the model is a script, which only flock can play, or if its provider has
/// no valid base URL.
pub fn wire(model: &ModelRef, config: &Config) -> Result<ModelConnection, ProviderError> {
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
    Ok(ModelConnection {
        api,
        // A parsed URL ends with a slash if it has no path. Programs that append a path would double it.
        base_url: base_url.as_str().trim_end_matches('/').to_owned(),
        needs_key: requires_key(model, config, known),
        context_window: window(model, config),
        max_tokens: max_answer_tokens(model, config),
        images: accepts_images(model, config),
        reasoning: known_models::reasons(config, model).unwrap_or(false),
    })
}

/// The checked target of a model's requests.
#[derive(Clone, Debug)]
struct RequestTarget {
    api: Api,
    client: NewClient,
    base_url: reqwest::Url,
    key: Option<ApiKey>,
    /// Bedrock's region, if the configuration has one.
    region: Option<String>,
}

/// The handling of a provider's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyLookup {
    /// The key is looked up, and must exist if the provider requires one.
    Wanted,
    /// The key is not looked up.
    LeftAlone,
}

impl Catalog {
    /// Returns the catalog of this home. No file is opened and no connection is made before a model is asked.
    #[must_use]
    pub fn new(home: Home) -> Self {
        Self::with_limits(home, HttpLimits::default())
    }

    /// Returns the catalog with other limits for timeouts and sizes than [`Catalog::new`].
    #[must_use]
    pub fn with_limits(home: Home, limits: HttpLimits) -> Self {
        Self { home, http: Arc::new(HttpClients::new(limits)) }
    }

    /// Returns the model, ready to be asked.
    ///
    /// # Errors
    ///
    /// Returns [`ProviderError::NotConfigured`] if the provider has no valid base URL, its wire format is not
    /// supported, its key is missing or malformed, or the script cannot be opened.
    pub fn resolve(&self, model: &ModelRef, config: &Config) -> Result<ResolvedModel, ProviderError> {
        self.resolve_with(model, config, KeyLookup::Wanted)
    }

    /// Returns the model without looking up its key.
    ///
    /// The result can build request bodies. A provider that requires a key would refuse its calls.
    ///
    /// # Errors
    ///
    /// Returns [`ProviderError::NotConfigured`] for the same reasons as [`Catalog::resolve`], except for the key.
    pub fn resolve_without_key(
        &self,
        model: &ModelRef,
        config: &Config,
    ) -> Result<ResolvedModel, ProviderError> {
        self.resolve_with(model, config, KeyLookup::LeftAlone)
    }

    fn resolve_with(
        &self,
        model: &ModelRef,
        config: &Config,
        keys: KeyLookup,
    ) -> Result<ResolvedModel, ProviderError> {
        if model.is_script() {
            let script = self.script(model)?;
            return Ok(ResolvedModel {
                // A script has no wire format and accepts the content of any. This one stands in.
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
        Ok(ResolvedModel {
            route: Route { model: model.clone(), api: target.api },
            provider: (target.client)(
                self.http.clone(),
                model.provider(),
                &target.base_url,
                target.key.as_ref(),
                target.region.as_deref(),
            ),
            context_window: window(model, config),
            max_tokens: max_answer_tokens(model, config),
            images: accepts_images(model, config),
            reasoning: own.and_then(|own| own.reasoning),
            reasons: known_models::reasons(config, model),
            label: label(model),
        })
    }

    /// Checks that [`Catalog::resolve`] would succeed, without building a provider.
    ///
    /// # Errors
    ///
    /// Returns the [`ProviderError::NotConfigured`] that [`Catalog::resolve`] would return, for a warning.
    pub fn describe(&self, model: &ModelRef, config: &Config) -> Result<(), ProviderError> {
        if model.is_script() {
            return self.script(model).map(drop);
        }
        self.target(model, config, known(model.provider()), KeyLookup::Wanted).map(drop)
    }

    /// Returns the environment variable that the key of this model's provider comes from, if there is one.
    #[must_use]
    pub(crate) fn key_variable(&self, model: &ModelRef, config: &Config) -> Option<String> {
        let provider = model.provider();
        if model.is_script() {
            return None;
        }
        let settings = config.providers.get(provider);
        let variable = key::variable(&self.home, provider, settings, known(provider));
        // A key from another source goes before the AWS keys of the environment. So does a source that fails.
        if variable.is_some() || key::find(&self.home, provider, settings, known(provider)) != Ok(None) {
            return variable;
        }
        let api = settings.and_then(|settings| settings.api).or(known(provider).map(|known| known.api));
        let pair = api.filter(|api| wire_format::of(*api).uses_aws).and_then(|_| bedrock::from_environment());
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
        known: Option<&'static BuiltinProvider>,
        keys: KeyLookup,
    ) -> Result<RequestTarget, ProviderError> {
        let provider = model.provider();
        let settings = config.providers.get(provider);
        let region = config.bedrock_region.clone();
        let (base_url, api) = address(model, config, known)?;
        let format = wire_format::of(api);
        let client = format.client.map_err(|unsupported| {
            not_configured(model, unsupported.reason.to_owned(), "api", unsupported.instead.as_str())
        })?;
        if keys == KeyLookup::LeftAlone {
            return Ok(RequestTarget { api, client, base_url, key: None, region });
        }
        // For Bedrock, the AWS keys of the environment are the last source.
        let key = key::find(&self.home, provider, settings, known)
            .map_err(|reason| not_configured(model, reason, "apiKey", "-"))?
            .or_else(|| format.uses_aws.then(bedrock::from_environment).flatten());
        if key.is_none() && requires_key(model, config, known) {
            return Err(not_configured(model, "it has no key".to_owned(), "apiKey", "-"));
        }
        // The key becomes a header value, where other characters would be refused or split it.
        if key.as_ref().is_some_and(|key| !key.expose().bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(not_configured(
                model,
                "its key holds characters that no key has".to_owned(),
                "apiKey",
                "-",
            ));
        }
        Ok(RequestTarget { api, client, base_url, key, region })
    }
}

/// Returns `true` if the provider requires a key. It does at its public address; another address may not.
fn requires_key(model: &ModelRef, config: &Config, known: Option<&BuiltinProvider>) -> bool {
    config.providers.get(model.provider()).and_then(|settings| settings.base_url.as_ref()).is_none()
        && known.is_some_and(|known| !known.keys.is_empty())
}

/// Returns the address and the wire format for a model.
fn address(
    model: &ModelRef,
    config: &Config,
    known: Option<&BuiltinProvider>,
) -> Result<(reqwest::Url, Api), ProviderError> {
    let settings = config.providers.get(model.provider());
    let own_url = settings.and_then(|settings| settings.base_url.as_deref());
    let region = config.bedrock_region.as_deref();
    let public = || known.map(|known| known.public_address(region));
    let Some(base_url) = own_url.map(Cow::Borrowed).or_else(public) else {
        return Err(not_configured(model, "it has no base URL".to_owned(), "baseUrl", "URL"));
    };
    let base_url = base_url.parse::<reqwest::Url>().ok().filter(is_http).ok_or_else(|| {
        not_configured(model, "its base URL is not an http or https address".to_owned(), "baseUrl", "URL")
    })?;
    let api = settings
        .and_then(|settings| settings.api)
        .or(known.map(|known| known.api_for(model.model(), &base_url)))
        // Most servers that flock does not know speak chat completions.
        .unwrap_or(Api::OpenAiCompletions);
    Ok((base_url, api))
}

fn not_configured(model: &ModelRef, reason: String, key: &str, value: &str) -> ProviderError {
    let provider = model.provider();
    ProviderError::NotConfigured {
        provider: provider.to_owned(),
        model: model.to_string(),
        reason,
        hint: format!("flock config set models.providers.{provider}.{key} {value}"),
    }
}

/// Returns the maximum number of tokens of a model's answer.
fn max_answer_tokens(model: &ModelRef, config: &Config) -> u32 {
    config
        .model(model)
        .and_then(answer_of)
        .or(known_models::of(model).answer)
        .unwrap_or(known(model.provider()).map_or(4_096, |known| known.max_tokens))
}

/// Returns `true` if a model accepts pictures. A configured model without any information is assumed to accept them:
/// its provider refuses them if not.
fn accepts_images(model: &ModelRef, config: &Config) -> bool {
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

fn is_http(url: &reqwest::Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

fn answer_of(own: &ModelSettings) -> Option<u32> {
    own.max_tokens.and_then(|tokens| u32::try_from(tokens).ok()).filter(|tokens| *tokens > 0)
}
