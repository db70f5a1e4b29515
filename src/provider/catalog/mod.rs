//! Resolves a model's name to a provider that is ready to answer, from the configuration, the built-in providers and
//! the keys.

mod builtin;
pub mod known_models;
mod model_properties;

use std::borrow::Cow;
use std::sync::Arc;

pub use builtin::known;
pub(crate) use builtin::{BuiltinProvider, KNOWN};
use model_properties::{accepts_images, max_answer_tokens};
pub use model_properties::{label, window};

use super::bedrock;
use super::credential::Credential;
use super::http::{HttpClients, HttpLimits};
use super::key::{self, ApiKey};
use super::script::Script;
use super::wire_format::{self, WireFormat};
use super::{Provider, ProviderError, Route};
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
    /// The credential that it is asked with. A script needs none.
    pub credential: Option<Credential>,
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
        let hint = "flock config set agents.defaults.model.primary PROVIDER/MODEL".to_owned();
        return Err(not_configured(model, "its script is played by flock itself", hint));
    }
    let (base_url, api) = address(model, config)?;
    Ok(ModelConnection {
        api,
        // A parsed URL ends with a slash if it has no path. Programs that append a path would double it.
        base_url: base_url.as_str().trim_end_matches('/').to_owned(),
        needs_key: requires_key(model, config),
        context_window: window(model, config),
        max_tokens: max_answer_tokens(model, config),
        images: accepts_images(model, config),
        reasoning: known_models::reasons(config, model).unwrap_or(false),
    })
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
        self.resolve_with(model, config, |format| self.key(model, config, format))
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
        self.resolve_with(model, config, |_| Ok(None))
    }

    fn resolve_with(
        &self,
        model: &ModelRef,
        config: &Config,
        key: impl FnOnce(&WireFormat) -> Result<Option<ApiKey>, ProviderError>,
    ) -> Result<ResolvedModel, ProviderError> {
        if model.is_script() {
            return Ok(ResolvedModel {
                // A script has no wire format and accepts the content of any. This one stands in.
                route: Route { model: model.clone(), api: Api::OpenAiCompletions },
                provider: Arc::new(self.script(model)?),
                context_window: window(model, config),
                max_tokens: 8_192,
                images: true,
                reasoning: None,
                reasons: None,
                label: label(model),
                credential: None,
            });
        }
        let (base_url, api) = address(model, config)?;
        let format = wire_format::of(api);
        let client = format
            .client
            .map_err(|unsupported| unset(model, unsupported.reason, "api", unsupported.instead.as_str()))?;
        let (key, region) = (key(format)?, config.bedrock_region.as_deref());
        Ok(ResolvedModel {
            route: Route { model: model.clone(), api },
            provider: client(self.http.clone(), model.provider(), &base_url, key.as_ref(), region),
            context_window: window(model, config),
            max_tokens: max_answer_tokens(model, config),
            images: accepts_images(model, config),
            reasoning: config.model(model).and_then(|own| own.reasoning),
            reasons: known_models::reasons(config, model),
            label: label(model),
            credential: Some(Credential::of_key(&self.home, model.provider(), key.as_ref())),
        })
    }

    /// Checks that [`Catalog::resolve`] would succeed.
    ///
    /// # Errors
    ///
    /// Returns the [`ProviderError::NotConfigured`] that [`Catalog::resolve`] would return, for a warning.
    pub fn describe(&self, model: &ModelRef, config: &Config) -> Result<(), ProviderError> {
        self.resolve(model, config).map(drop)
    }

    /// Returns the credential that a model is asked with. `None` for a script, and if there is no key where one is
    /// needed.
    #[must_use]
    pub(crate) fn credential(&self, model: &ModelRef, config: &Config) -> Option<Credential> {
        if model.is_script() {
            return None;
        }
        let (_, api) = address(model, config).ok()?;
        let key = self.key(model, config, wire_format::of(api)).ok()?;
        Some(Credential::of_key(&self.home, model.provider(), key.as_ref()))
    }

    /// Returns the credential of a program that asks with its user's own login.
    #[must_use]
    pub(crate) fn login(&self, program: &str) -> Credential {
        Credential::of_login(&self.home, program)
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
        Script::open(&self.home, model.model()).map_err(|reason| {
            let folder = self.home.scripts();
            let hint = format!("put the script into {}, or use script/demo", folder.display());
            not_configured(model, reason, hint)
        })
    }

    /// Finds the key of the model's provider, which must exist if the provider requires one.
    fn key(
        &self,
        model: &ModelRef,
        config: &Config,
        format: &WireFormat,
    ) -> Result<Option<ApiKey>, ProviderError> {
        let provider = model.provider();
        // For Bedrock, the AWS keys of the environment are the last source.
        let key = key::find(&self.home, provider, config.providers.get(provider), known(provider))
            .map_err(|reason| unset(model, reason, "apiKey", "-"))?
            .or_else(|| format.uses_aws.then(bedrock::from_environment).flatten());
        if key.is_none() && requires_key(model, config) {
            return Err(unset(model, "it has no key", "apiKey", "-"));
        }
        // The key becomes a header value, where other characters would be refused or split it.
        if key.as_ref().is_some_and(|key| !key.expose().bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(unset(model, "its key holds characters that no key has", "apiKey", "-"));
        }
        Ok(key)
    }
}

/// Returns `true` if the provider requires a key. It does at its public address; another address may not.
fn requires_key(model: &ModelRef, config: &Config) -> bool {
    let provider = model.provider();
    config.providers.get(provider).and_then(|settings| settings.base_url.as_ref()).is_none()
        && known(provider).is_some_and(|known| !known.keys.is_empty())
}

/// Returns the address and the wire format for a model.
fn address(model: &ModelRef, config: &Config) -> Result<(reqwest::Url, Api), ProviderError> {
    let known = known(model.provider());
    let settings = config.providers.get(model.provider());
    let own_url = settings.and_then(|settings| settings.base_url.as_deref());
    let region = config.bedrock_region.as_deref();
    let public = || known.map(|known| known.public_address(region));
    let Some(base_url) = own_url.map(Cow::Borrowed).or_else(public) else {
        return Err(unset(model, "it has no base URL", "baseUrl", "URL"));
    };
    let not_http = || unset(model, "its base URL is not an http or https address", "baseUrl", "URL");
    let base_url = base_url.parse::<reqwest::Url>().ok().filter(is_http).ok_or_else(not_http)?;
    let api = settings
        .and_then(|settings| settings.api)
        .or(known.map(|known| known.api_for(model.model(), &base_url)))
        // Most servers that flock does not know speak chat completions.
        .unwrap_or(Api::OpenAiCompletions);
    Ok((base_url, api))
}

/// Returns the error for a model whose provider needs another value of this setting.
fn unset(model: &ModelRef, reason: impl Into<String>, key: &str, value: &str) -> ProviderError {
    let hint = format!("flock config set models.providers.{}.{key} {value}", model.provider());
    not_configured(model, reason, hint)
}

fn not_configured(model: &ModelRef, reason: impl Into<String>, hint: String) -> ProviderError {
    ProviderError::NotConfigured {
        provider: model.provider().to_owned(),
        model: model.to_string(),
        reason: reason.into(),
        hint,
    }
}

fn is_http(url: &reqwest::Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}
