//! Signing in to the dashboard at a provider of OpenID Connect: the way there and back, what is refused on it, and how a
//! browser ends that came by it.

pub mod provider;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flock::config::secret;
use flock::supervise::gateway_client::{Answer, Call, Client};
use serde_json::{Value, json};

use self::provider::{CLIENT, Provider, SECRET};
use super::house::{House, LIMIT, send, text};

/// The begin of the cookie of a browser that is signed in.
fn cookie_name(house: &House) -> String {
    format!("flock_{}=", house.port)
}

fn redirect(house: &House) -> String {
    format!("http://127.0.0.1:{}/dashboard/oidc/callback", house.port)
}

/// Sets the provider up.
fn configure(house: &House, issuer: &str) {
    secret::set(&house.home, "oidc.client", SECRET).unwrap();
    house.edit(|document| {
        document["plugins"]["entries"]["flock"]["config"]["dashboard"]["oidc"] = json!({"issuer": issuer,
            "clientId": CLIENT, "clientSecret": "secret:oidc.client", "name": "Example"});
    });
}

/// A house with a provider, and with `bob`, who has the account 4711 there.
async fn house_with_bob() -> (House, Provider) {
    let house = House::new().await;
    let provider = Provider::new(vec![redirect(&house)]).await;
    configure(&house, &provider.issuer());
    add(&house, "bob", "member").await;
    bind(&house, "bob", json!({"subject": "4711"})).await;
    (house, provider)
}

async fn add(house: &House, name: &str, role: &str) {
    let call = Call::post("/api/people").json(&json!({"name": name, "role": role, "by": "boss"})).unwrap();
    let (status, body) = send(&house.owner(), call).await;
    assert_eq!(status, 201, "{body}");
}

/// Gives a person an account.
async fn bind(house: &House, name: &str, account: Value) -> Value {
    let body = json!({"oidc": account, "by": "boss"});
    let call = Call::put(&format!("/api/people/{name}")).json(&body).unwrap();
    let (status, body) = send(&house.owner(), call).await;
    assert_eq!(status, 200, "{body}");
    body
}

async fn get(house: &House, path: &str, cookie: Option<&str>) -> Answer {
    let call = Call::get(path);
    let call = match cookie {
        Some(cookie) => call.header("cookie", cookie),
        None => call,
    };
    Client::new(house.port).send(call, LIMIT).await.unwrap()
}

/// A browser that was led to the provider: the address there, and the browser's cookie.
async fn begin(house: &House) -> (String, String) {
    let answer = get(house, "/dashboard/oidc", None).await;
    assert_eq!(answer.status(), 303);
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/dashboard/oidc", "Max-Age=600"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap().to_owned();
    (answer.header("location").unwrap().to_owned(), cookie)
}

/// Lets the person sign in at the provider, and returns the path to which the browser is led back.
async fn at_provider(house: &House, provider: &Provider, address: &str) -> String {
    let path = address.strip_prefix(&provider.issuer()).unwrap();
    let answer = Client::new(provider.port).send(Call::get(path), LIMIT).await.unwrap();
    assert_eq!(answer.status(), 302, "{address}");
    let back = answer.header("location").unwrap();
    back.strip_prefix(&format!("http://127.0.0.1:{}", house.port)).unwrap().to_owned()
}

/// Goes the whole way, and returns the gateway's answer to the browser that came back.
async fn attempt(house: &House, provider: &Provider) -> Answer {
    let (address, cookie) = begin(house).await;
    let back = at_provider(house, provider, &address).await;
    get(house, &back, Some(&cookie)).await
}

/// Signs a browser in, and returns its cookie.
async fn signed_in(house: &House, provider: &Provider) -> String {
    let answer = attempt(house, provider).await;
    let cookie = session_cookie(house, &answer);
    let (status, page) = text(answer).await;
    assert_eq!(status, 200, "{page}");
    cookie.expect("the browser gets a cookie")
}

fn session_cookie(house: &House, answer: &Answer) -> Option<String> {
    let cookie = answer.header("set-cookie")?.split(';').next()?.to_owned();
    cookie.starts_with(&cookie_name(house)).then_some(cookie)
}

/// Checks that a browser was not signed in, and returns the page.
async fn refused(house: &House, answer: Answer, status: u16, what: &str) -> String {
    assert_eq!(session_cookie(house, &answer), None, "{what}");
    let (found, page) = text(answer).await;
    assert_eq!(found, status, "{what}: {page}");
    page
}

#[tokio::test]
async fn without_a_provider_nothing_of_it_is_to_be_seen() {
    let house = House::new().await;
    add(&house, "bob", "member").await;
    for path in ["/dashboard", "/dashboard/oidc", "/dashboard/oidc/callback?code=x&state=y"] {
        let page = refused(&house, get(&house, path, None).await, 401, path).await;
        assert!(!page.contains("oidc") && !page.contains("Sign in with"), "{path}: {page}");
    }
    let (_, status) = send(&house.owner(), Call::get("/api/status")).await;
    assert!(status["dashboard"].get("oidc").is_none(), "{status}");
    let (_, bob) = send(&house.owner(), Call::get("/api/people/bob")).await;
    assert!(bob.get("oidc").is_none(), "{bob}");
    let wanted = json!({"oidc": {"subject": "4711"}});
    let (status, body) = send(&house.owner(), Call::put("/api/people/bob").json(&wanted).unwrap()).await;
    assert_eq!((status, &body["error"]["code"]), (400, &json!("usage")), "{body}");
}

#[tokio::test]
async fn a_person_signs_in_at_the_provider_with_the_rights_of_the_role() {
    let (house, provider) = house_with_bob().await;
    let (_, page) = text(get(&house, "/dashboard", None).await).await;
    assert!(page.contains("href=\"/dashboard/oidc\"") && page.contains("Sign in with Example"), "{page}");
    let (_, status) = send(&house.owner(), Call::get("/api/status")).await;
    assert_eq!(status["dashboard"]["oidc"]["issuer"], json!(provider.issuer()), "{status}");
    let cookie = signed_in(&house, &provider).await;
    let (status, page) = text(get(&house, "/dashboard", Some(&cookie)).await).await;
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("Signed in as bob") && !page.contains("data-action=\"freeze-all\""), "{page}");
    assert_eq!(get(&house, "/api/agents", Some(&cookie)).await.status(), 200);
    assert_eq!(get(&house, "/api/people", Some(&cookie)).await.status(), 403);
    let (_, audit) = send(&house.owner(), Call::get("/api/audit?action=dashboard.signin&limit=1")).await;
    assert_eq!(audit["rows"][0]["actor"], "human:bob", "{audit}");
    // Signing out ends this browser.
    let csrf = page.split_once("name=\"csrf-token\" content=\"").unwrap().1.split_once('"').unwrap().0;
    let out = Call::delete("/api/dashboard/sessions/current").header("cookie", &cookie);
    let out = out.header("x-flock-csrf", csrf);
    assert_eq!(Client::new(house.port).send(out, LIMIT).await.unwrap().status(), 200);
    assert_eq!(get(&house, "/dashboard", Some(&cookie)).await.status(), 401);
    // The document and the keys were read once, and no request went elsewhere.
    signed_in(&house, &provider).await;
    assert_eq!(provider.count("GET /.well-known/openid-configuration"), 1);
    assert_eq!((provider.count("GET /keys"), provider.count("POST /token")), (1, 2));
    // A page of another site begins no sign-in.
    let call = Call::get("/dashboard/oidc").header("sec-fetch-site", "cross-site");
    assert_eq!(Client::new(house.port).send(call, LIMIT).await.unwrap().status(), 403);
}

#[tokio::test]
async fn an_answer_is_good_once_and_for_the_browser_that_asked() {
    let (house, provider) = house_with_bob().await;
    let (address, cookie) = begin(&house).await;
    let (_, other) = begin(&house).await;
    let back = at_provider(&house, &provider, &address).await;
    let state = back.split('&').find(|part| part.starts_with("state=")).unwrap();
    for (path, sent, what) in [
        (back.clone(), Some(&other), "another browser"),
        (back.clone(), None, "no cookie"),
        (back.replace(state, "state=x"), Some(&cookie), "another state"),
        (back.replace(state, ""), Some(&cookie), "no state"),
        (format!("{back}&{state}"), Some(&cookie), "two states"),
        ("/dashboard/oidc/callback".to_owned(), Some(&cookie), "nothing"),
    ] {
        refused(&house, get(&house, &path, sent.map(String::as_str)).await, 401, what).await;
    }
    assert_eq!(provider.count("POST /token"), 0, "no code was sent anywhere");
    // None of these ended the sign-in of the browser that asked.
    let answer = get(&house, &back, Some(&cookie)).await;
    assert!(session_cookie(&house, &answer).is_some());
    refused(&house, get(&house, &back, Some(&cookie)).await, 401, "a replayed answer").await;
    assert_eq!(provider.count("POST /token"), 1, "the code was not sent again");
}

#[tokio::test]
async fn an_answer_of_a_provider_that_refuses_or_of_another_one_signs_nobody_in() {
    let (house, provider) = house_with_bob().await;
    for change in
        ["error=access_denied", "error=access_denied&code=x", "iss=https%3A%2F%2Fevil.example&code=x"]
    {
        let (address, cookie) = begin(&house).await;
        let back = at_provider(&house, &provider, &address).await;
        let state = back.split('&').find(|part| part.starts_with("state=")).unwrap();
        let path = format!("/dashboard/oidc/callback?{state}&{change}");
        refused(&house, get(&house, &path, Some(&cookie)).await, 401, change).await;
        refused(&house, get(&house, &back, Some(&cookie)).await, 401, "it has ended").await;
    }
    assert_eq!(provider.count("POST /token"), 0);
    // A provider that says that it names itself has to.
    provider.lock().document = json!({"authorization_response_iss_parameter_supported": true});
    configure(&house, &provider.issuer());
    house.edit(|document| {
        document["plugins"]["entries"]["flock"]["config"]["dashboard"]["oidc"]["name"] = "Other".into();
    });
    let (address, cookie) = begin(&house).await;
    let back = at_provider(&house, &provider, &address).await;
    let without: Vec<&str> = back.split('&').filter(|part| !part.starts_with("iss=")).collect();
    refused(&house, get(&house, &without.join("&"), Some(&cookie)).await, 401, "no issuer").await;
}

#[tokio::test]
async fn the_stand_in_refuses_what_a_provider_refuses() {
    let (house, provider) = house_with_bob().await;
    let client = Client::new(provider.port);
    let (address, _) = begin(&house).await;
    let path = address.strip_prefix(&provider.issuer()).unwrap();
    // A gateway that is reached by another name is not registered under it.
    let foreign = path.replace("127.0.0.1", "localhost");
    assert_eq!(client.send(Call::get(&foreign), LIMIT).await.unwrap().status(), 400);
    let exchange = async |code: &str, verifier: &str, redirect: &str, secret: &str| {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{CLIENT}:{secret}"));
        let body = form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", redirect)
            .append_pair("code_verifier", verifier)
            .finish();
        let call =
            Call::post("/token").bytes(body.as_bytes()).header("authorization", &format!("Basic {pair}"));
        send(&client, call.header("content-type", "application/x-www-form-urlencoded")).await
    };
    let back = redirect(&house);
    for (verifier, at, secret) in
        [("x", &*back, SECRET), ("", "http://127.0.0.1/other", SECRET), ("x", &*back, "wrong")]
    {
        let answer = at_provider(&house, &provider, &begin(&house).await.0).await;
        let code = answer.split_once("code=").unwrap().1.split('&').next().unwrap().to_owned();
        let (status, body) = exchange(&code, verifier, at, secret).await;
        assert_eq!(status, 400, "{body}");
    }
    let (status, body) = exchange("code-0", "x", &back, SECRET).await;
    assert_eq!((status, &body["error"]), (400, &json!("invalid_grant")));
    // The gateway is refused too if its secret is wrong.
    secret::set(&house.home, "oidc.client", "wrong").unwrap();
    refused(&house, attempt(&house, &provider).await, 401, "a wrong secret of the client").await;
}

#[tokio::test]
async fn a_hostile_token_signs_nobody_in() {
    let (house, provider) = house_with_bob().await;
    type Change = fn(&mut Value, &mut Value);
    let changes: [(&str, Change); 12] = [
        ("another issuer", |_, claims| claims["iss"] = "https://evil.example".into()),
        ("another client", |_, claims| claims["aud"] = "other".into()),
        ("several clients", |_, claims| claims["aud"] = json!([CLIENT, "other"])),
        ("asked by another", |_, claims| claims["azp"] = "other".into()),
        ("another nonce", |_, claims| claims["nonce"] = "x".into()),
        ("no nonce", |_, claims| drop(claims.as_object_mut().unwrap().remove("nonce"))),
        ("expired", |_, claims| claims["exp"] = json!(flock::clock::unix_ms() / 1000 - 3600)),
        ("old", |_, claims| claims["iat"] = json!(flock::clock::unix_ms() / 1000 - 7200)),
        ("from the future", |_, claims| claims["iat"] = json!(flock::clock::unix_ms() / 1000 + 7200)),
        ("an unknown key", |head, _| head["kid"] = "k9".into()),
        ("a critical header", |head, _| head["crit"] = json!(["x"])),
        ("no subject", |_, claims| claims["sub"] = "".into()),
    ];
    for (what, change) in changes {
        provider.lock().twist = Some(Box::new(change));
        refused(&house, attempt(&house, &provider).await, 401, what).await;
    }
    for alg in ["none", "None", "HS256", "HS512", "RS256", "ES384"] {
        provider.lock().twist = Some(Box::new(move |head, _| head["alg"] = alg.into()));
        refused(&house, attempt(&house, &provider).await, 401, alg).await;
        provider.lock().signature = Some(Box::new(|_| String::new()));
        refused(&house, attempt(&house, &provider).await, 401, alg).await;
        provider.lock().signature = None;
    }
    // Everybody knows the public key.
    let point = provider.point();
    {
        let mut state = provider.lock();
        state.twist = Some(Box::new(|head, _| head["alg"] = "HS256".into()));
        state.signature = Some(Box::new(move |message| {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &point);
            URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, message.as_bytes()).as_ref())
        }));
    }
    refused(&house, attempt(&house, &provider).await, 401, "the public key as a secret").await;
    {
        let mut state = provider.lock();
        state.twist = None;
        state.signature = Some(Box::new(|_| URL_SAFE_NO_PAD.encode([0; 64])));
    }
    refused(&house, attempt(&house, &provider).await, 401, "zeros").await;
    provider.lock().signature = None;
    signed_in(&house, &provider).await;
}

#[tokio::test]
async fn a_new_key_of_the_provider_is_read_and_the_old_one_opens_nothing() {
    let (house, provider) = house_with_bob().await;
    signed_in(&house, &provider).await;
    assert_eq!(provider.count("GET /keys"), 1);
    provider.rotate();
    signed_in(&house, &provider).await;
    assert_eq!(provider.count("GET /keys"), 2);
    signed_in(&house, &provider).await;
    assert_eq!(provider.count("GET /keys"), 2, "known keys are not read again");
    // A token that names the old key has the keys read once more, and no more than that.
    provider.lock().twist = Some(Box::new(|head, _| head["kid"] = "k1".into()));
    refused(&house, attempt(&house, &provider).await, 401, "the old key").await;
    assert_eq!(provider.count("GET /keys"), 3);
}

#[tokio::test]
async fn an_account_of_nobody_makes_no_person() {
    let (house, provider) = house_with_bob().await;
    provider.lock().subject = "0815".to_owned();
    let page = refused(&house, attempt(&house, &provider).await, 401, "an unknown subject").await;
    assert!(page.contains("0815"), "the owner needs the subject: {page}");
    let (_, people) = send(&house.owner(), Call::get("/api/people")).await;
    assert_eq!(people["people"].as_array().unwrap().len(), 1, "{people}");
    // What the provider says reaches the page as text.
    provider.lock().subject = "<b>x</b>".to_owned();
    let page = refused(&house, attempt(&house, &provider).await, 401, "a subject with tags").await;
    assert!(!page.contains("<b>x</b>"), "{page}");
}

#[tokio::test]
async fn an_address_opens_only_the_first_sign_in_and_only_if_it_is_verified() {
    let (house, provider) = house_with_bob().await;
    add(&house, "ann", "viewer").await;
    let given = bind(&house, "ann", json!({"email": "Ann@Example.org"})).await;
    assert_eq!(
        given["oidc"],
        json!({"issuer": provider.issuer(), "subject": null, "email": "ann@example.org"})
    );
    provider.lock().subject = "ann-1".to_owned();
    for (email, verified) in [
        (json!("ann@example.org"), json!(false)),
        (json!("ann@example.org"), json!("true")),
        (json!("ann@example.org"), Value::Null),
        (json!("other@example.org"), json!(true)),
    ] {
        provider.set_email(email.clone(), verified.clone());
        refused(&house, attempt(&house, &provider).await, 401, &format!("{email} {verified}")).await;
    }
    provider.set_email(json!("ann@example.org"), json!(true));
    let cookie = signed_in(&house, &provider).await;
    let (_, page) = text(get(&house, "/dashboard", Some(&cookie)).await).await;
    assert!(page.contains("Signed in as ann"), "{page}");
    let (_, ann) = send(&house.owner(), Call::get("/api/people/ann")).await;
    assert_eq!(ann["oidc"]["subject"], "ann-1", "{ann}");
    // The account is bound now: another one with the same address is nobody's, and she needs no address.
    provider.lock().subject = "ann-2".to_owned();
    refused(&house, attempt(&house, &provider).await, 401, "another account with the address").await;
    provider.lock().subject = "ann-1".to_owned();
    provider.set_email(Value::Null, Value::Null);
    signed_in(&house, &provider).await;
}

#[tokio::test]
async fn an_account_belongs_to_one_person_and_a_browser_ends_with_it() {
    let (house, provider) = house_with_bob().await;
    add(&house, "ann", "member").await;
    let taken = json!({"oidc": {"subject": "4711"}});
    let (status, body) = send(&house.owner(), Call::put("/api/people/ann").json(&taken).unwrap()).await;
    assert_eq!((status, &body["error"]["code"]), (409, &json!("refused")), "{body}");
    for wrong in [json!({}), json!({"subject": ""}), json!({"email": "ann"}), json!({"subject": "a\nb"})] {
        let call = Call::put("/api/people/ann").json(&json!({"oidc": wrong})).unwrap();
        assert_eq!(send(&house.owner(), call).await.0, 400, "{wrong}");
    }
    let looks = async |cookie: &str| get(&house, "/dashboard", Some(cookie)).await.status();
    // Each of these ends the browsers that came by the account.
    let cookie = signed_in(&house, &provider).await;
    assert_eq!(looks(&cookie).await, 200);
    bind(&house, "bob", json!({"subject": "4712"})).await;
    assert_eq!(looks(&cookie).await, 401, "another account");
    bind(&house, "bob", json!({"subject": "4711"})).await;
    assert_eq!(looks(&cookie).await, 401, "it does not come back");
    let cookie = signed_in(&house, &provider).await;
    // A code that such a browser makes lets in nobody whom the account does not.
    let (_, page) = text(get(&house, "/dashboard", Some(&cookie)).await).await;
    let csrf = page.split_once("name=\"csrf-token\" content=\"").unwrap().1.split_once('"').unwrap().0;
    let call = Call::post("/api/dashboard/codes").json(&json!({})).unwrap();
    let call = call.header("cookie", &cookie).header("x-flock-csrf", csrf);
    let (status, made) = send(&Client::new(house.port), call).await;
    assert_eq!(status, 201, "{made}");
    let path = format!("/dashboard?code={}", made["code"].as_str().unwrap());
    let other = get(&house, &path, Some(&cookie)).await;
    let other = session_cookie(&house, &other).unwrap();
    assert_eq!(looks(&other).await, 200);
    bind(&house, "bob", Value::Null).await;
    assert_eq!((looks(&cookie).await, looks(&other).await), (401, 401), "no account");
    refused(&house, attempt(&house, &provider).await, 401, "no account").await;
    bind(&house, "bob", json!({"subject": "4711"})).await;
    let cookie = signed_in(&house, &provider).await;
    let stream = Client::new(house.port)
        .send(Call::get("/api/events").header("cookie", &cookie), LIMIT)
        .await
        .unwrap();
    assert_eq!((stream.status(), looks(&cookie).await), (200, 200));
    assert_eq!(send(&house.owner(), Call::delete("/api/people/bob?by=boss")).await.0, 200);
    assert_eq!(looks(&cookie).await, 401, "a removed person");
    let mut stream = stream;
    while stream.chunk(LIMIT).await.unwrap().is_some() {}
    refused(&house, attempt(&house, &provider).await, 401, "a removed person").await;
    // The account of a removed person is free for another one. It ends with the provider of the configuration.
    bind(&house, "ann", json!({"subject": "4711"})).await;
    let cookie = signed_in(&house, &provider).await;
    assert_eq!(looks(&cookie).await, 200);
    house.edit(|document| {
        document["plugins"]["entries"]["flock"]["config"]["dashboard"]
            .as_object_mut()
            .unwrap()
            .remove("oidc");
    });
    assert_eq!(looks(&cookie).await, 401, "no provider");
}

#[tokio::test]
async fn a_provider_that_is_down_costs_nothing_but_the_sign_in_there() {
    let (house, provider) = house_with_bob().await;
    let cookie = signed_in(&house, &provider).await;
    let (address, of_sign_in) = begin(&house).await;
    let back = at_provider(&house, &provider, &address).await;
    provider.lock().instead = Some(("/token", axum::http::StatusCode::BAD_GATEWAY, "down".to_owned()));
    refused(&house, get(&house, &back, Some(&of_sign_in)).await, 503, "the provider fails").await;
    // Nobody listens there.
    let nobody = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let gone = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    configure(&house, &gone);
    let page = refused(&house, get(&house, "/dashboard/oidc", None).await, 503, "nobody listens").await;
    assert!(page.contains("action=\"/dashboard/sign-in\""), "the other ways stay: {page}");
    let (status, made) =
        send(&house.owner(), Call::post("/api/dashboard/codes").json(&json!({})).unwrap()).await;
    assert_eq!(status, 201, "{made}");
    let by_code = get(&house, &format!("/dashboard?code={}", made["code"].as_str().unwrap()), None).await;
    assert!(session_cookie(&house, &by_code).is_some());
    assert_eq!(send(&house.owner(), Call::get("/api/agents")).await.0, 200);
    // The browser of before came by another provider.
    assert_eq!(get(&house, "/dashboard", Some(&cookie)).await.status(), 401);
    configure(&house, &provider.issuer());
    assert_eq!(get(&house, "/dashboard", Some(&cookie)).await.status(), 200);
}

#[tokio::test]
async fn a_document_that_leads_elsewhere_or_a_redirect_is_not_followed() {
    use axum::http::StatusCode;
    let house = House::new().await;
    add(&house, "bob", "member").await;
    let evil = Provider::new(vec![redirect(&house)]).await;
    for (name, value) in [
        ("issuer", json!("https://other.example")),
        ("issuer", Value::Null),
        ("token_endpoint", json!("http://10.0.0.1/token")),
        ("token_endpoint", json!("http://example.org/token")),
        ("token_endpoint", json!("file:///etc/passwd")),
        ("token_endpoint", Value::Null),
        ("authorization_endpoint", json!("javascript:alert(1)")),
        ("authorization_endpoint", json!("http://example.org/authorize")),
        ("jwks_uri", json!("http://user:pass@127.0.0.1/keys")),
        ("jwks_uri", Value::Null),
        ("response_types_supported", json!(["token"])),
        ("code_challenge_methods_supported", json!(["plain"])),
    ] {
        let provider = Provider::new(vec![redirect(&house)]).await;
        provider.lock().document = json!({name: value});
        configure(&house, &provider.issuer());
        let what = format!("{name} {value}");
        refused(&house, get(&house, "/dashboard/oidc", None).await, 503, &what).await;
        assert_eq!(provider.lock().log.len(), 1, "{what}: only the document is asked for");
    }
    let provider = Provider::new(vec![redirect(&house)]).await;
    configure(&house, &provider.issuer());
    bind(&house, "bob", json!({"subject": "4711"})).await;
    let big = format!("{{\"x\":\"{}\"}}", "x".repeat(1 << 20));
    for (path, status) in [("/.well-known/openid-configuration", 503), ("/keys", 503), ("/token", 401)] {
        for (code, text) in [
            (StatusCode::FOUND, format!("{}{path}", evil.issuer())),
            (StatusCode::TEMPORARY_REDIRECT, format!("{}{path}", evil.issuer())),
            (StatusCode::OK, "no JSON".to_owned()),
            (StatusCode::OK, big.clone()),
        ] {
            let provider = Provider::new(vec![redirect(&house)]).await;
            configure(&house, &provider.issuer());
            let what = format!("{path} {code}");
            if path.starts_with("/.well") {
                provider.lock().instead = Some((path, code, text));
                refused(&house, get(&house, "/dashboard/oidc", None).await, status, &what).await;
                continue;
            }
            let (address, cookie) = begin(&house).await;
            let back = at_provider(&house, &provider, &address).await;
            let is_big = text.len() > 1000;
            provider.lock().instead = Some((path, code, text));
            // An answer that is too long is not read, so nobody knows what it says.
            let status = if is_big { 503 } else { status };
            refused(&house, get(&house, &back, Some(&cookie)).await, status, &what).await;
        }
    }
    assert!(evil.lock().log.is_empty(), "a redirect was followed: {:?}", evil.lock().log);
}

#[tokio::test]
async fn a_browser_comes_back_to_the_address_at_which_it_began() {
    let (house, _provider) = house_with_bob().await;
    house.edit(|document| {
        document["plugins"]["entries"]["flock"]["config"]["dashboard"]["trustedOrigins"] =
            json!(["https://flock.example.org"]);
    });
    let begin = async |host: &str| {
        let head = format!("GET /dashboard/oidc HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        house.raw(head.as_bytes()).await
    };
    for host in ["flock.example.org", "FLOCK.example.org:443"] {
        let answer = begin(host).await;
        let back = "redirect_uri=https%3A%2F%2Fflock.example.org%2Fdashboard%2Foidc%2Fcallback&";
        assert!(answer.starts_with("HTTP/1.1 303") && answer.contains(back), "{host}: {answer}");
        assert!(answer.contains("; Secure"), "{host}: {answer}");
    }
    let answer = begin(&format!("localhost:{}", house.port)).await;
    let back = format!("redirect_uri=http%3A%2F%2Flocalhost%3A{}%2Fdashboard%2Foidc%2Fcallback&", house.port);
    assert!(answer.contains(&back) && !answer.contains("; Secure"), "{answer}");
    let answer = begin("evil.example.org").await;
    assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("redirect_uri"), "{answer}");
}
