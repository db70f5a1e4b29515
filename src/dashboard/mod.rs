//! The pages that the gateway serves to a browser: HTML, made on the server, from what the documented routes answer.
//!
//! Path of a page: the gateway knows whose browser it is and calls [`render`], a file of [`pages`] asks the [`Api`] and
//! fills a template. The scripts among the [`assets`] listen to the gateway's events, fetch the page again when
//! something of it has changed, and replace the parts that are different. Changes go directly to the documented routes.

mod assets;
mod format;
mod layout;
mod offer;
mod pages;
mod query;
mod texts;

use askama::Template;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::provider::BoxFuture;

pub(crate) use assets::Asset;
pub(crate) use offer::Offer;
pub(crate) use query::value as query_value;
pub(crate) use texts::Language;

/// The routes that a page is made of.
pub(crate) trait Api: Send + Sync {
    /// Returns what `GET` of this path answers.
    ///
    /// # Errors
    ///
    /// Returns the error of the route.
    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Value, ApiFailure>>;
}

/// The reason why a page can't be shown.
#[derive(Clone, Debug)]
pub(crate) struct ApiFailure {
    /// The HTTP status.
    pub status: u16,
    pub message: String,
    /// The command that helps.
    pub hint: Option<String>,
}

impl ApiFailure {
    fn not_found(viewer: &Viewer) -> Self {
        Self { status: 404, message: viewer.texts().no_such_page.to_owned(), hint: None }
    }

    fn defect(cause: &dyn std::error::Error) -> Self {
        tracing::error!(cause = crate::error::chain(cause), "a page could not be made");
        let hint = Some("flock logs gateway".to_owned());
        Self { status: 500, message: "the gateway failed to make this page".to_owned(), hint }
    }
}

/// The person whose browser asks, and how the page speaks to them.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    /// The person's name, without `human:`.
    pub person: String,
    /// What the pages offer to the person.
    pub offers: Vec<Offer>,
    /// The token that the page's changes carry.
    pub csrf: String,
    /// The id of the last event before the page is made. Its scripts listen from there on, so nothing is missed.
    pub last_event: String,
    pub language: Language,
}

impl Viewer {
    fn has(&self, offer: Offer) -> bool {
        self.offers.contains(&offer)
    }

    fn texts(&self) -> &'static texts::Texts {
        self.language.texts()
    }
}

/// A page as HTML.
#[derive(Debug)]
pub(crate) struct Page(pub String);

impl Page {
    fn of(template: &impl Template) -> Result<Self, ApiFailure> {
        template.render().map(Self).map_err(|error| ApiFailure::defect(&error))
    }
}

/// Returns the language that a browser prefers, from its header `Accept-Language`.
#[must_use]
pub(crate) fn language(accepted: &str) -> Language {
    Language::accepted(accepted)
}

/// Returns the page at a path.
///
/// # Errors
///
/// Returns 404 if there is none, and the error of a route that it is made of.
pub(crate) async fn render(
    path: &str,
    query: &str,
    viewer: &Viewer,
    api: &dyn Api,
) -> Result<Page, ApiFailure> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).skip(1).collect();
    match parts.as_slice() {
        [] => pages::team::page(viewer, api).await,
        ["channels"] => pages::channels::page(viewer, api).await,
        ["channels", id] => pages::channel::page(viewer, api, id, query).await,
        ["search"] => pages::search::everything::page(viewer, api, query).await,
        ["search", "messages"] => pages::search::messages::page(viewer, api, query).await,
        ["search", "file"] => pages::search::file::page(viewer, api, query).await,
        ["sessions"] => pages::sessions::page(viewer, api).await,
        ["sessions", key] => pages::session::page(viewer, api, key, query).await,
        ["sessions", key, "context"] => pages::session::context::page(viewer, api, key, query).await,
        ["sessions", key, "turns", turn] => pages::session::log::page(viewer, api, key, turn).await,
        ["projects"] => pages::projects::page(viewer, api).await,
        ["projects", name] => pages::project::page(viewer, api, name).await,
        ["projects", name, "diff"] => pages::project::diff::page(viewer, api, name, query).await,
        ["races"] => pages::races::page(viewer, api).await,
        ["races", number] => pages::race::page(viewer, api, number).await,
        ["receipts"] => pages::receipts::page(viewer, api, query).await,
        ["receipts", id] => pages::receipt::page(viewer, api, id).await,
        ["agents", id, "checkpoints"] => pages::checkpoints::page(viewer, api, id).await,
        ["mcp"] => pages::mcp_servers::page(viewer, api).await,
        ["people"] => pages::people::page(viewer, api).await,
        ["automation"] => pages::automation::page(viewer, api).await,
        ["cost"] => pages::cost::page(viewer, api, query).await,
        ["graph"] => pages::graph::page(viewer, api, query).await,
        ["machine"] => pages::machine::overview::page(viewer, api).await,
        ["machine", "audit"] => pages::machine::audit::page(viewer, api, query).await,
        ["machine", "checks"] => pages::machine::checks::page(viewer, api, query).await,
        ["machine", "config"] => pages::machine::config::page(viewer, api, query).await,
        ["machine", "usage"] => pages::machine::usage::page(viewer, api).await,
        ["machine", "generations"] => pages::machine::generations::page(viewer, api).await,
        ["machine", "logs"] => pages::machine::logs::page(viewer, api, query).await,
        ["requests"] => pages::requests::page(viewer, api, query).await,
        _ => Err(ApiFailure::not_found(viewer)),
    }
}

/// Returns the page that leads a browser that has just signed in to the first page.
///
/// It is a page and no redirection: a browser that followed a link of another site sends the cookie with no redirected
/// request, but it does with one that flock's own page begins.
///
/// # Errors
///
/// Returns an error if the template fails.
pub(crate) fn signed_in(language: Language) -> Result<Page, ApiFailure> {
    pages::message::signed_in(language)
}

/// Returns the page that leads a browser to the address of a code again, as flock's own page and not as one of another
/// site. See [`signed_in`] for the difference.
///
/// # Errors
///
/// Returns an error if the template fails.
pub(crate) fn leading_to_code(language: Language, code: &str) -> Result<Page, ApiFailure> {
    pages::message::leading_to_code(language, code)
}

/// Returns the page that asks whether a code should sign the browser in as `person`. `present` is who is signed in there
/// now.
///
/// # Errors
///
/// Returns an error if the template fails.
pub(crate) fn asking_for_code(
    language: Language,
    code: &str,
    person: &str,
    present: Option<&str>,
) -> Result<Page, ApiFailure> {
    pages::message::asking_for_code(language, code, person, present)
}

/// What a browser came with that did not sign it in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignInFailure {
    Code,
    Token,
    /// The provider can't be used now.
    Provider,
    /// The provider refused, or its answer is not good.
    Refused,
    /// The account with this subject belongs to nobody of the home.
    NoPerson(String),
}

/// The ways to sign in that the page for a browser that is not signed in offers beside the code.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignInWays {
    /// `true` for a home with people who have tokens of their own.
    pub takes_token: bool,
    /// The name of the provider of OpenID Connect.
    pub provider: Option<String>,
}

/// Returns the page for a browser that is not signed in. `failure` is what it came with, if anything.
///
/// # Errors
///
/// Returns an error if the template fails.
pub(crate) fn signed_out(
    language: Language,
    failure: Option<&SignInFailure>,
    ways: SignInWays,
) -> Result<Page, ApiFailure> {
    pages::message::signed_out(language, failure, ways)
}

/// Returns the page that says why another one can't be shown.
///
/// # Errors
///
/// Returns an error if the template fails.
pub(crate) fn failed(viewer: &Viewer, failure: &ApiFailure) -> Result<Page, ApiFailure> {
    pages::message::failed(viewer, failure)
}

/// Returns what a route answers, read into the fields that a page needs.
async fn fetch<T: DeserializeOwned>(api: &dyn Api, path: &str) -> Result<T, ApiFailure> {
    let answer = api.get(path).await?;
    serde_json::from_value(answer).map_err(|error| ApiFailure::defect(&error))
}

/// Returns what a route answers, or the default if it is not for this viewer.
async fn fetch_if<T: DeserializeOwned + Default>(
    is_offered: bool,
    api: &dyn Api,
    path: &str,
) -> Result<T, ApiFailure> {
    if is_offered { fetch(api, path).await } else { Ok(T::default()) }
}
