//! `/dashboard`: the pages for a browser. A page is made of what the documented routes answer, so it shows nothing that
//! a program could not ask for.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use serde_json::Value;
use tower_service::Service as _;

use crate::config::OidcSettings;
use crate::dashboard::{
    self, Api, ApiFailure, Asset, Language, Offer, Page, SignInFailure, SignInWays, Viewer,
};
use crate::error::chain;
use crate::gateway::auth::Caller;
use crate::gateway::body::RawBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Path;
use crate::gateway::limits::ServerLimits;
use crate::gateway::person_access;
use crate::gateway::sign_in::codes::{self, CodeStep};
use crate::gateway::sign_in::oidc::{self, OidcError};
use crate::gateway::sign_in::{self, csrf};
use crate::gateway::state::Gateway;
use crate::id::Party;
use crate::provider::BoxFuture;
use crate::store::Person;

/// Largest answer of a route that a page is made of.
const MAX_ANSWER: usize = 64 << 20;

/// The rights of a page: run flock's own scripts and styles, show pictures of this gateway, and talk with it. Nothing
/// comes from elsewhere, nothing is written inside the page, and no other page may frame it. Texts become HTML in one
/// place only, which the last two rules enforce.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data: blob:; connect-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'self'; \
    frame-ancestors 'none'; base-uri 'none'; trusted-types flock; require-trusted-types-for 'script'";

/// The headers of every page and asset.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// The state of these routes.
#[derive(Clone)]
pub(crate) struct DashboardState {
    pub gateway: Arc<Gateway>,
    /// The routes that the pages are made of.
    pub api: Router,
}

/// Returns a page, or signs a browser in with a code.
pub(crate) async fn page(
    State(state): State<DashboardState>,
    caller: Option<Extension<Caller>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let language = dashboard::language(text(&headers, header::ACCEPT_LANGUAGE));
    let query = uri.query().unwrap_or_default();
    let gateway = &state.gateway;
    // The provider's answer has a code, too.
    if let Some(settings) = gateway.config().oidc.clone() {
        // The futures are large, and boxing them keeps this one small.
        match uri.path() {
            oidc::BEGIN_PATH => return Box::pin(begin_oidc(gateway, &settings, &headers)).await,
            oidc::RETURN_PATH => return Box::pin(finish_oidc(gateway, &settings, query, &headers)).await,
            _ => {}
        }
    }
    if let Some(code) = dashboard::query_value(query, "code") {
        let caller = caller.as_ref().map(|Extension(caller)| caller);
        return Box::pin(open_code(gateway, caller, &code, &headers)).await;
    }
    let (Some(Extension(caller)), Some(cookie)) = (caller, gateway.cookies.value(&headers)) else {
        return signed_out(gateway, language, None).await;
    };
    let viewer = Viewer {
        person: person(&caller)?,
        offers: offers(gateway, &caller).await?,
        csrf: csrf::token(cookie),
        last_event: gateway
            .events
            .id_for(caller.home_person().map(|person| &*person.name), gateway.events.now()),
        language,
    };
    let api = RouterApi { router: state.api.clone(), caller, limits: gateway.limits };
    match dashboard::render(uri.path(), query, &viewer, &api).await {
        Ok(page) => html(StatusCode::OK, page),
        Err(failure) => {
            let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            html(status, dashboard::failed(&viewer, &failure)?)
        }
    }
}

/// Returns the name of the person who looks at a page.
fn person(caller: &Caller) -> Result<String, ApiError> {
    match caller.party()? {
        Party::Human(person) => Ok(person),
        _ => Err(ApiError::forbidden("name_of_another", "only a person looks at pages")),
    }
}

/// Returns what a browser gets that opens the address of a code. `caller` is who is signed in there now.
async fn open_code(
    gateway: &Gateway,
    caller: Option<&Caller>,
    code: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let language = dashboard::language(text(headers, header::ACCEPT_LANGUAGE));
    let visitor = codes::visitor(gateway.swarm.store(), code).await.map_err(ApiError::explained)?;
    let Some(visitor) = visitor else {
        return signed_out(gateway, language, Some(&SignInFailure::Code)).await;
    };
    let present = caller.map(person).transpose()?;
    let page = match visitor.step(sign_in::is_foreign(headers), present.as_deref()) {
        CodeStep::Lead => dashboard::leading_to_code(language, code)?,
        CodeStep::Ask => dashboard::asking_for_code(language, code, &visitor.person, present.as_deref())?,
        CodeStep::Redeem => return redeem_code(gateway, code, headers).await,
    };
    html(StatusCode::OK, page)
}

/// Signs a browser in with a code, whoever is signed in there now.
async fn redeem_code(gateway: &Gateway, code: &str, headers: &HeaderMap) -> Result<Response<Body>, ApiError> {
    let language = dashboard::language(text(headers, header::ACCEPT_LANGUAGE));
    let browser = text(headers, header::USER_AGENT);
    match sign_in::redeem(gateway, code, browser).await.map_err(ApiError::explained)? {
        Some(value) => signed_in(gateway, headers, &value, language),
        None => signed_out(gateway, language, Some(&SignInFailure::Code)).await,
    }
}

/// Leads a browser to the provider of OpenID Connect.
async fn begin_oidc(
    gateway: &Gateway,
    settings: &Arc<OidcSettings>,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let (origin, secure) = own_origin(gateway, headers);
    // A page of another site must not begin sign-ins: those that wait would give way to them.
    sign_in::check_request(&Method::GET, headers, &gateway.cookies)?;
    let redirect = format!("{origin}{}", oidc::RETURN_PATH);
    match gateway.oidc.begin(gateway.swarm.store(), settings, &redirect).await {
        Ok(begun) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::SEE_OTHER;
            let address = HeaderValue::from_str(&begun.address).map_err(ApiError::internal)?;
            response.headers_mut().insert(header::LOCATION, address);
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            add_headers(&mut response);
            set_cookie(&mut response, &gateway.cookies.set_oidc(Some(&begun.cookie), secure))?;
            Ok(response)
        }
        Err(error) => failed_oidc(gateway, headers, error).await,
    }
}

/// Signs a browser in that comes back from the provider.
async fn finish_oidc(
    gateway: &Gateway,
    settings: &Arc<OidcSettings>,
    query: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let browser = text(headers, header::USER_AGENT);
    let of_browser = gateway.cookies.oidc_value(headers).unwrap_or_default();
    let mut response = match oidc::finish(gateway, settings, query, (of_browser, browser)).await {
        Ok(value) => {
            let language = dashboard::language(text(headers, header::ACCEPT_LANGUAGE));
            signed_in(gateway, headers, &value, language)?
        }
        Err(error) => failed_oidc(gateway, headers, error).await?,
    };
    set_cookie(&mut response, &gateway.cookies.set_oidc(None, own_origin(gateway, headers).1))?;
    Ok(response)
}

/// Returns the page for a browser that could not sign in at the provider. What the provider said is for the owner, in the log.
async fn failed_oidc(
    gateway: &Gateway,
    headers: &HeaderMap,
    error: OidcError,
) -> Result<Response<Body>, ApiError> {
    let failure = match error {
        OidcError::Store(error) => return Err(ApiError::explained(error)),
        OidcError::Provider(_) | OidcError::Busy => {
            tracing::error!(error = chain(&error), "nobody can sign in at the provider");
            SignInFailure::Provider
        }
        OidcError::NoPerson(ref subject) => {
            tracing::warn!(error = chain(&error), "a sign-in was refused");
            SignInFailure::NoPerson(subject.clone())
        }
        OidcError::Unknown | OidcError::Refused(_) | OidcError::Token(_) => {
            tracing::warn!(error = chain(&error), "a sign-in was refused");
            SignInFailure::Refused
        }
    };
    let language = dashboard::language(text(headers, header::ACCEPT_LANGUAGE));
    signed_out(gateway, language, Some(&failure)).await
}

/// Returns the origin at which a browser has reached the gateway, and whether it came over HTTPS. The middleware has checked
/// the Host header.
fn own_origin(gateway: &Gateway, headers: &HeaderMap) -> (String, bool) {
    let host = text(headers, header::HOST).to_ascii_lowercase();
    if gateway.config().trusted_origins.iter().any(|origin| origin.has_authority(&host)) {
        return (format!("https://{}", host.strip_suffix(":443").unwrap_or(&host)), true);
    }
    (format!("http://{host}"), false)
}

fn set_cookie(response: &mut Response<Body>, cookie: &str) -> Result<(), ApiError> {
    let cookie = HeaderValue::from_str(cookie).map_err(ApiError::internal)?;
    response.headers_mut().append(header::SET_COOKIE, cookie);
    Ok(())
}

/// Returns what the pages offer to the caller: what the routes would not refuse.
async fn offers(gateway: &Gateway, caller: &Caller) -> Result<Vec<Offer>, ApiError> {
    let mut offers = Offer::ALL.to_vec();
    let Some(person) = caller.home_person() else {
        if !has_people(gateway).await? {
            offers.retain(|offer| *offer != Offer::People);
        }
        return Ok(offers);
    };
    // Each offer stands for requests of one kind, and one of them is tried.
    let is_allowed = |offer: &Offer| {
        let (method, path) = match offer {
            Offer::Talk => (Method::POST, "/api/message"),
            Offer::Decide => (Method::POST, "/api/approvals/x/approve"),
            Offer::Survey => (Method::GET, "/api/status"),
            Offer::Oversee => (Method::GET, "/api/audit"),
            Offer::Manage => (Method::PUT, "/api/settings"),
            Offer::ManageTeam => (Method::POST, "/api/freeze"),
            Offer::Administer => (Method::GET, "/api/bridges"),
            Offer::People => (Method::GET, "/api/people"),
            Offer::Configure => (Method::PUT, "/api/config/value"),
        };
        person_access::check(person, &method, path).is_ok()
    };
    offers.retain(is_allowed);
    Ok(offers)
}

/// Returns `true` if there are people in the home beside the owner.
async fn has_people(gateway: &Gateway) -> Result<bool, ApiError> {
    let people = gateway.swarm.store().people().list().await.map_err(ApiError::explained)?;
    Ok(people.iter().any(Person::is_active))
}

/// Returns a script, a style or a picture of the pages.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response<Body>, ApiError> {
    let Some(asset) = Asset::named(&name) else {
        return Err(ApiError::not_found("not_found", "there is nothing at this path"));
    };
    let accepts_gzip = text(&headers, header::ACCEPT_ENCODING).contains("gzip");
    let mut response = Response::new(Body::from(if accepts_gzip { asset.gzipped() } else { asset.bytes() }));
    let head = response.headers_mut();
    head.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type()));
    // The pages name an asset by its digest, so it never changes under its address.
    head.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    head.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if accepts_gzip {
        head.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(scope) = asset.worker_scope() {
        head.insert("service-worker-allowed", HeaderValue::from_static(scope));
    }
    add_headers(&mut response);
    Ok(response)
}

/// Signs a browser in with the token of a person of the home, or with the code that a page has asked about. The middleware
/// has refused forms of other sites by their Origin, so nobody can be signed in as somebody else without noticing.
pub(crate) async fn sign_in_by_form(
    State(state): State<DashboardState>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response<Body>, ApiError> {
    let language = dashboard::language(text(&headers, header::ACCEPT_LANGUAGE));
    sign_in::check_form(&headers)?;
    let form = std::str::from_utf8(&body).unwrap_or_default();
    if let Some(code) = dashboard::query_value(form, "code") {
        return Box::pin(redeem_code(&state.gateway, &code, &headers)).await;
    }
    let token = dashboard::query_value(form, "token");
    let token = token.ok_or_else(|| ApiError::invalid("invalid_body", "the form has no token"))?;
    let browser = text(&headers, header::USER_AGENT);
    let signed = sign_in::with_token(&state.gateway, &token, browser).await;
    match signed.map_err(ApiError::explained)? {
        Some(value) => signed_in(&state.gateway, &headers, &value, language),
        None => signed_out(&state.gateway, language, Some(&SignInFailure::Token)).await,
    }
}

async fn signed_out(
    gateway: &Gateway,
    language: Language,
    failure: Option<&SignInFailure>,
) -> Result<Response<Body>, ApiError> {
    let ways = SignInWays {
        // Where nobody has a token of a person, the page says nothing about such tokens.
        takes_token: has_people(gateway).await?,
        provider: gateway.config().oidc.as_ref().map(|settings| settings.name.clone()),
    };
    // Without the provider, somebody may try again later.
    let is_passing = failure == Some(&SignInFailure::Provider);
    let status = if is_passing { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::UNAUTHORIZED };
    html(status, dashboard::signed_out(language, failure, ways)?)
}

/// Returns the response that gives a browser its cookie and leads it to the first page, without the code in its address.
fn signed_in(
    gateway: &Gateway,
    headers: &HeaderMap,
    value: &str,
    language: Language,
) -> Result<Response<Body>, ApiError> {
    let (_, secure) = own_origin(gateway, headers);
    let mut response = html(StatusCode::OK, dashboard::signed_in(language)?)?;
    set_cookie(&mut response, &gateway.cookies.set(value, secure))?;
    Ok(response)
}

fn html(status: StatusCode, Page(page): Page) -> Result<Response<Body>, ApiError> {
    let mut response = Response::new(Body::from(page));
    *response.status_mut() = status;
    let head = response.headers_mut();
    head.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    head.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    add_headers(&mut response);
    Ok(response)
}

fn add_headers(response: &mut Response<Body>) {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

impl From<ApiFailure> for ApiError {
    fn from(failure: ApiFailure) -> Self {
        let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut error = Self::new(status, "page_failed", failure.message);
        error.hint = failure.hint;
        error
    }
}

/// The documented routes, called in this process for the browser that asked for a page.
struct RouterApi {
    router: Router,
    caller: Caller,
    limits: ServerLimits,
}

impl RouterApi {
    async fn call(&self, path: &str) -> Result<Value, ApiError> {
        // The middleware is not in this way, so what the person may ask for is checked here.
        self.caller.check_scope(&Method::GET, path.split('?').next().unwrap_or_default())?;
        let mut request = Request::builder().method(Method::GET).uri(path).body(Body::empty());
        if let Ok(request) = &mut request {
            request.extensions_mut().insert(self.caller.clone());
            request.extensions_mut().insert(self.limits);
        }
        let mut response = match self.router.clone().call(request.map_err(ApiError::internal)?).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if let Some(error) = response.extensions_mut().remove::<Arc<ApiError>>() {
            return Err(Arc::into_inner(error).unwrap_or_else(|| ApiError::internal("the error is shared")));
        }
        let body = to_bytes(response.into_body(), MAX_ANSWER).await.map_err(ApiError::internal)?;
        serde_json::from_slice(&body).map_err(ApiError::internal)
    }
}

impl Api for RouterApi {
    fn get<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Value, ApiFailure>> {
        Box::pin(async move {
            self.call(path).await.map_err(|error| {
                // A session that has not begun, for example, is no fault of the gateway.
                if error.status.is_server_error()
                    && let Some(cause) = error.cause()
                {
                    tracing::error!(path, cause, "a page could not be made");
                }
                ApiFailure { status: error.status.as_u16(), message: error.message, hint: error.hint }
            })
        })
    }
}
