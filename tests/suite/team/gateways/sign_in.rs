//! Browsers that reach the gateways of a group at one address: what one gateway began, any other one ends.

use flock::config::secret;
use flock::home::Home;
use flock::supervise::gateway_client::{Answer, Call, Client};
use serde_json::{Value, json};

use super::{LIMIT, Pair, quiet_home};
use crate::gateway::house::{send, text};
use crate::gateway::oidc::provider::{CLIENT, Provider, SECRET};
use crate::support::home::TempHome;
use crate::team::stage::Served;

/// A request of a browser, at the gateway of a home.
async fn browse(home: &TempHome, call: Call, cookie: &str) -> Answer {
    Client::new(home.port()).send(call.header("cookie", cookie), LIMIT).await.unwrap()
}

/// Opens a page, and returns its status and its text.
async fn page(home: &TempHome, path: &str, cookie: &str) -> (u16, String) {
    text(browse(home, Call::get(path), cookie).await).await
}

/// The cookie that an answer gives a browser, with its name.
fn cookie_of(answer: &Answer) -> Option<String> {
    let set = answer.header("set-cookie")?;
    Some(set.split(';').next().unwrap_or_default().to_owned())
}

/// Makes a code at the gateway of a home, and returns the path with which a browser signs in.
async fn code_page(home: &TempHome) -> String {
    let call = Call::post("/api/dashboard/codes").json(&json!({"by": "ann"})).unwrap();
    let (status, made) = send(&home.owner(), call).await;
    assert_eq!(status, 201, "{made}");
    format!("/dashboard?code={}", made["code"].as_str().unwrap())
}

/// The number of rows of a table.
fn rows(pair: &Pair, table: &str) -> i64 {
    pair.first.database().number(&format!("SELECT count(*) FROM {table}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_and_a_cookie_of_one_gateway_are_good_at_the_other_one() {
    let Some(first) = quiet_home() else { return };
    let pair = Pair::of(first, |_| ());
    let (first, _second) = (Served::start(&pair.first), Served::start(&pair.second));
    let path = code_page(&pair.first).await;
    assert_eq!(rows(&pair, "sign_in_code"), 1);
    let signed_in = browse(&pair.second, Call::get(&path), "").await;
    let cookie = cookie_of(&signed_in);
    let (status, shown) = text(signed_in).await;
    assert_eq!(status, 200, "{shown}\n{}", pair.logs());
    let cookie = cookie.expect("the browser gets a cookie");
    for home in [&pair.first, &pair.second] {
        assert!(!cookie.starts_with(&format!("flock_{}=", home.port())), "the name is that of the group");
        assert_eq!(page(home, &path, "").await.0, 401, "the code was used");
        let (status, shown) = page(home, "/dashboard", &cookie).await;
        assert_eq!(status, 200, "{shown}\n{}", pair.logs());
    }
    assert_eq!(rows(&pair, "sign_in_code"), 0);
    // A page of one gateway changes something by the other one.
    let (_, shown) = page(&pair.first, "/dashboard", &cookie).await;
    let token = shown.split_once("name=\"csrf-token\" content=\"").unwrap().1.split('"').next().unwrap();
    let origin = format!("http://127.0.0.1:{}", pair.second.port());
    let end = || Call::delete("/api/dashboard/sessions/current").header("origin", &origin);
    let without = browse(&pair.second, end(), &cookie).await;
    assert_eq!(without.status(), 403);
    let ended = browse(&pair.second, end().header("x-flock-csrf", token), &cookie).await;
    assert_eq!(ended.status(), 200);
    for home in [&pair.first, &pair.second] {
        assert_eq!(page(home, "/dashboard", &cookie).await.0, 401);
    }
    // A code outlives the gateway that made it.
    let path = code_page(&pair.first).await;
    first.kill();
    let signed_in = browse(&pair.second, Call::get(&path), "").await;
    assert!(signed_in.status() == 200 && cookie_of(&signed_in).is_some(), "{}", pair.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_browsers_that_use_a_code_at_two_gateways_at_once_one_is_signed_in() {
    let Some(first) = quiet_home() else { return };
    let pair = Pair::of(first, |_| ());
    let _gateways = (Served::start(&pair.first), Served::start(&pair.second));
    for round in 0..20 {
        let path = code_page(&pair.first).await;
        let (one, two) = tokio::join!(
            browse(&pair.first, Call::get(&path), ""),
            browse(&pair.second, Call::get(&path), "")
        );
        let mut found = [&one, &two].map(|answer| (answer.status(), cookie_of(answer).is_some()));
        found.sort_unstable();
        assert_eq!(found, [(200, true), (401, false)], "round {round}\n{}", pair.logs());
    }
    assert_eq!(rows(&pair, "sign_in"), 20);
}

/// Has the person sign in at the provider, and returns the path to which the browser is led back.
async fn at_provider(provider: &Provider, redirect: &str, address: &str) -> String {
    let path = address.strip_prefix(&provider.issuer()).unwrap();
    let answer = Client::new(provider.port).send(Call::get(path), LIMIT).await.unwrap();
    let back = answer.header("location").expect("the browser is led back");
    let query = back.strip_prefix(redirect).unwrap();
    format!("/dashboard/oidc/callback{query}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_at_a_provider_begins_at_one_gateway_and_ends_at_the_other_one() {
    let Some(first) = quiet_home() else { return };
    // A proxy in front has one address for all of them.
    let redirect = format!("http://127.0.0.1:{}/dashboard/oidc/callback", first.port());
    let provider = Provider::new(vec![redirect.clone()]).await;
    let keep = |home: &TempHome| secret::set(&Home::new(home.path(), None), "oidc.client", SECRET).unwrap();
    keep(&first);
    let settings = json!({"issuer": provider.issuer(), "clientId": CLIENT, "clientSecret": "secret:oidc.client",
        "name": "Example"});
    let settings = settings.to_string();
    first.flock(["config", "set", "plugins.entries.flock.config.dashboard.oidc", &settings]).ok();
    let pair = Pair::of(first, keep);
    let _gateways = (Served::start(&pair.first), Served::start(&pair.second));
    let owner = pair.first.owner();
    let add = json!({"name": "nina", "role": "member", "by": "boss"});
    let (status, said) = send(&owner, Call::post("/api/people").json(&add).unwrap()).await;
    assert_eq!(status, 201, "{said}");
    let bind = json!({"oidc": {"subject": "4711"}, "by": "boss"});
    let (status, said) = send(&owner, Call::put("/api/people/nina").json(&bind).unwrap()).await;
    assert_eq!(status, 200, "{said}");

    let begun = browse(&pair.first, Call::get("/dashboard/oidc"), "").await;
    assert_eq!(begun.status(), 303, "{}", pair.logs());
    let waiting = cookie_of(&begun).unwrap();
    let back = at_provider(&provider, &redirect, begun.header("location").unwrap()).await;
    // Another browser does not end it.
    let stranger = browse(&pair.second, Call::get("/dashboard/oidc"), "").await;
    let of_stranger = cookie_of(&stranger).unwrap();
    assert_eq!(page(&pair.second, &back, &of_stranger).await.0, 401);
    let signed_in = browse(&pair.second, Call::get(&back), &waiting).await;
    let cookie = cookie_of(&signed_in);
    let (status, shown) = text(signed_in).await;
    assert_eq!(status, 200, "{shown}\n{}", pair.logs());
    let cookie = cookie.expect("the browser gets a cookie");
    for home in [&pair.first, &pair.second] {
        assert_eq!(page(home, &back, &waiting).await.0, 401, "the answer was used");
        let (status, shown) = page(home, "/dashboard", &cookie).await;
        assert_eq!(status, 200, "{shown}\n{}", pair.logs());
    }
    // The database has nothing that the browser or the provider was given.
    let found = pair.first.database();
    let secrets = [waiting.split_once('=').unwrap().1, of_stranger.split_once('=').unwrap().1];
    assert_eq!(rows(&pair, "oidc_sign_in"), 1);
    assert!(secrets.iter().all(|secret| !found.contains(secret)));
    let people: Value = owner.get_json("/api/dashboard/sessions", LIMIT).await.unwrap();
    assert_eq!(people["sessions"][0]["person"], "nina", "{people}");
}
