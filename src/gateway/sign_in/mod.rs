//! Signing in to the dashboard: `flock dashboard` gets a [code](codes), the browser opens a page with it, and gets a
//! [cookie] in exchange. Requests that change something also need a [token](csrf) that only flock's pages have. People may
//! also sign in at a provider of [OpenID Connect](oidc), if the owner has set one up.

pub(crate) mod codes;
pub(crate) mod cookie;
pub(crate) mod csrf;
pub(crate) mod oidc;

use axum::http::{HeaderMap, Method, StatusCode};

use self::codes::Visitor;
use self::cookie::CookieNames;
use super::error::ApiError;
use super::state::Gateway;
use crate::clock::unix_ms;
use crate::store::{ClientToken, Level, SignIn, StoreError, TOUCH_INTERVAL, token_hash};
use crate::swarm::Actor;

/// Most characters of a browser's name that are kept.
const MAX_BROWSER: usize = 120;

/// Exchanges a code for a sign-in. Returns the value of its cookie, or `None` if the code is not good.
///
/// # Errors
///
/// Returns the store's error if the database can't be read or written.
pub(crate) async fn redeem(
    gateway: &Gateway,
    code: &str,
    browser: &str,
) -> Result<Option<String>, StoreError> {
    let Some(visitor) = codes::take(gateway.swarm.store(), code).await? else { return Ok(None) };
    let since = match &visitor.made_by {
        // With a time of its own, each code would be good for thirty more days, and so would those that its browser makes.
        Some(id) => match with_id(gateway, id).await? {
            Some(maker) => maker.created_at,
            // A browser that was signed out in the meantime lets no other one in.
            None => return Ok(None),
        },
        None => unix_ms(),
    };
    sign_in(gateway, visitor, browser, since).await.map(Some)
}

/// Signs a browser in with a token of a person of the home. Returns the value of its cookie, or `None` if the token is
/// not good. A client's token and the owner's sign nobody in.
///
/// # Errors
///
/// Returns the store's error if the database can't be read or written.
pub(crate) async fn with_token(
    gateway: &Gateway,
    token: &str,
    browser: &str,
) -> Result<Option<String>, StoreError> {
    let (store, now) = (gateway.swarm.store(), unix_ms());
    // The lookup is by hash, so its timing reveals nothing about the token.
    let found = store.tokens().find(&token_hash(token.trim().as_bytes())).await?;
    let found = found.filter(|found| found.is_good(now));
    let Some(found @ ClientToken { name, person: Some(person), .. }) = &found else { return Ok(None) };
    if !store.people().find(person).await?.is_some_and(|person| person.is_active()) {
        return Ok(None);
    }
    gateway.token_uses.note(store, found, now);
    let (person, token) = (person.clone(), Some(name.clone()));
    sign_in(gateway, Visitor { person, token, account: None, made_by: None }, browser, now).await.map(Some)
}

/// Signs a browser in and returns the value of its cookie. `since` is the time from which the sign-in's age counts.
async fn sign_in(
    gateway: &Gateway,
    visitor: Visitor,
    browser: &str,
    since: i64,
) -> Result<String, StoreError> {
    let cookie = crate::id::hex(&rand::random::<[u8; 32]>());
    let now = unix_ms();
    let new = SignIn {
        id: crate::id::hex(&rand::random::<[u8; 4]>()),
        person: visitor.person,
        // A browser may send anything.
        browser: crate::clean::summary(browser, MAX_BROWSER),
        created_at: since,
        used_at: now,
        token: visitor.token,
        account: visitor.account,
    };
    let entry =
        Actor::human(&new.person).entry("dashboard.signin", &new.id, Level::Yellow, new.browser.clone());
    let store = gateway.swarm.store();
    store.sign_ins().add(new, token_hash(cookie.as_bytes()), entry, now).await?;
    // On disk before the browser gets the cookie: a power failure must not sign it out again.
    store.sync().await?;
    Ok(cookie)
}

/// Returns the sign-in that the cookie of a request belongs to, or `None` if there is no cookie or it is not good.
///
/// # Errors
///
/// Returns the store's error if the database can't be read.
pub(crate) async fn find(gateway: &Gateway, headers: &HeaderMap) -> Result<Option<SignIn>, StoreError> {
    let Some(cookie) = gateway.cookies.value(headers) else { return Ok(None) };
    let sign_ins = gateway.swarm.store().sign_ins();
    // The lookup is by hash, so its timing reveals nothing about the cookie.
    let found = sign_ins.find(token_hash(cookie.as_bytes())).await?;
    let Some(found) = still_good(gateway, found).await? else { return Ok(None) };
    let now = unix_ms();
    if now - found.used_at > TOUCH_INTERVAL {
        sign_ins.touch(found.id.clone(), now).await?;
    }
    Ok(Some(found))
}

/// Returns the sign-in of this id, whose cookie another gateway has seen. `None` if it is not good.
///
/// # Errors
///
/// Returns the store's error if the database can't be read.
pub(crate) async fn with_id(gateway: &Gateway, id: &str) -> Result<Option<SignIn>, StoreError> {
    let found = gateway.swarm.store().sign_ins().with_id(id.to_owned()).await?;
    still_good(gateway, found).await
}

/// Returns a sign-in if it is not expired, and the token or the account is still there with which it began.
async fn still_good(gateway: &Gateway, found: Option<SignIn>) -> Result<Option<SignIn>, StoreError> {
    let now = unix_ms();
    let found = found.filter(|found| found.is_good(now));
    if let Some(SignIn { token: Some(name), person, .. }) = &found {
        let store = gateway.swarm.store();
        let token = store.tokens().named(name).await?;
        let is_theirs = |token: &ClientToken| token.is_good(now) && token.person.as_ref() == Some(person);
        let Some(token) = token.filter(is_theirs) else { return Ok(None) };
        // It is what lets the browser in.
        gateway.token_uses.note(store, &token, now);
    }
    if let Some(SignIn { account: Some(account), person, .. }) = &found
        && !has_account(gateway, person, account).await?
    {
        return Ok(None);
    }
    Ok(found)
}

/// Returns `true` if a person still has this account, and it is at the provider of the configuration.
async fn has_account(
    gateway: &Gateway,
    person: &str,
    (issuer, subject): &(String, String),
) -> Result<bool, StoreError> {
    if gateway.config().oidc.as_ref().is_none_or(|settings| settings.issuer != *issuer) {
        return Ok(false);
    }
    let person = gateway.swarm.store().people().find(person).await?;
    let account = person.and_then(|person| person.oidc);
    Ok(account.is_some_and(|account| account.issuer == *issuer && account.subject.as_ref() == Some(subject)))
}

/// Checks a request that carries a cookie: it must come from one of the gateway's own pages, and it needs the pages'
/// token if it changes something.
///
/// Browsers send a cookie to every port of a host, and count all of them as one site, so `SameSite` does not keep out a
/// page of another server on this machine.
///
/// # Errors
///
/// Returns 403 if it comes from another page, or if the token is missing or wrong.
pub(crate) fn check_request(
    method: &Method,
    headers: &HeaderMap,
    cookies: &CookieNames,
) -> Result<(), ApiError> {
    if is_foreign(headers) {
        return Err(ApiError::forbidden("foreign_origin", "requests from pages of other sites are refused"));
    }
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let shown = headers.get(csrf::HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_good = cookies.value(headers).is_some_and(|cookie| csrf::is_good(shown, cookie));
    if is_good {
        return Ok(());
    }
    let message = "a browser's request that changes something needs the token of the page";
    Err(ApiError::forbidden("csrf", message).with_hint("reload the page"))
}

/// Returns `true` if a page of another site or of another server of this machine caused the request.
pub(crate) fn is_foreign(headers: &HeaderMap) -> bool {
    // Only browsers send this header, and no page can change it. `none` stands for a person's own navigation.
    let site = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    !matches!(site, None | Some(b"same-origin" | b"none"))
}

/// Checks that a form comes from one of the gateway's own pages.
///
/// # Errors
///
/// Returns 403 if it comes from another page.
pub(crate) fn check_form(headers: &HeaderMap) -> Result<(), ApiError> {
    let site = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    if matches!(site, None | Some(b"same-origin")) {
        return Ok(());
    }
    Err(ApiError::forbidden("foreign_origin", "forms of other pages are refused"))
}

/// Returns the refusal for a cookie that is not good (any more).
pub(crate) fn signed_out() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "signed_out", "this browser is not signed in (any more)")
        .with_hint("flock dashboard")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(method: &Method, headers: &[(&'static str, &str)]) -> Option<String> {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.insert(*name, value.parse().unwrap());
        }
        check_request(method, &all, &CookieNames::new(3779, None)).err().map(|error| error.code.into_owned())
    }

    #[test]
    fn a_change_needs_the_token_of_the_page() {
        let cookie = "ab".repeat(32);
        let token = csrf::token(&cookie);
        let sent = format!("flock_3779={cookie}");
        let post = |token: &str| checked(&Method::POST, &[("cookie", &sent), (csrf::HEADER, token)]);
        assert_eq!(post(&token), None);
        let others = csrf::token(&"cd".repeat(32));
        for wrong in ["", "x", &token[1..], &others, &token.to_uppercase()] {
            assert_eq!(post(wrong), Some("csrf".to_owned()), "{wrong}");
        }
        assert_eq!(checked(&Method::DELETE, &[("cookie", &sent)]), Some("csrf".to_owned()));
        assert_eq!(checked(&Method::GET, &[("cookie", &sent)]), None);
    }

    #[test]
    fn a_page_of_another_server_of_this_machine_is_refused() {
        for (site, refused) in
            [("same-origin", false), ("none", false), ("same-site", true), ("cross-site", true)]
        {
            let found = checked(&Method::GET, &[("sec-fetch-site", site)]);
            assert_eq!(found, refused.then(|| "foreign_origin".to_owned()), "{site}");
        }
    }
}
