//! The sign-in to a server, with an authorization server that refuses what real ones refuse, and with hostile ones.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};

use super::access::Access;
use super::authorization_server_tests::{Habits, Server};
use super::requests::Requests;
use super::sign_in::{SignIn, SignInChoice};
use super::sign_out::{TokenRevocation, sign_out};
use super::tokens::{ClientAuth, SignInState, StoredSignIn, TokenFile, secret_name};
use crate::config::{self, McpRemote, McpServer, secret};
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::mcp::McpError;
use crate::mcp::remote::client_for;
use crate::mcp::tests::{Stage, name};
use crate::sync::lock;

const BACK: &str = "http://127.0.0.1:9/callback";

fn stage(server: &Server) -> Stage {
    let url = server.url.clone();
    Stage::with(&[], |entry| *entry = json!({"url": url, "allowLocal": true, "callSeconds": 10}))
}

fn configured(stage: &Stage) -> McpServer {
    stage.live.current().mcp_server(&name()).unwrap().clone()
}

async fn begin_with(stage: &Stage, choice: SignInChoice) -> Result<SignIn, McpError> {
    SignIn::begin(&stage.home, &configured(stage), BACK, choice).await
}

async fn begin(stage: &Stage) -> Result<SignIn, McpError> {
    begin_with(stage, SignInChoice::default()).await
}

/// Does all of a sign-in.
async fn sign_in(stage: &Stage, server: &Server) {
    let sign_in = begin(stage).await.unwrap();
    let back = server.agree(sign_in.address()).await;
    let code = sign_in.answer(&back).unwrap().unwrap();
    sign_in.finish(code).await.unwrap();
}

fn file(stage: &Stage) -> TokenFile {
    TokenFile::new(&stage.home, &name(), configured(stage).remote.as_ref().unwrap())
}

fn stored(stage: &Stage) -> StoredSignIn {
    file(stage).read().unwrap().unwrap()
}

fn access_token(stage: &Stage) -> String {
    stored(stage).tokens.unwrap().access_token
}

/// Makes the stored tokens older.
fn age(stage: &Stage, seconds: i64) {
    let mut stored = stored(stage);
    stored.tokens.as_mut().unwrap().received_at -= seconds;
    file(stage).write(&stored).unwrap();
}

async fn access(stage: &Stage) -> Arc<Access> {
    let server = configured(stage);
    let remote = server.remote.as_ref().unwrap();
    let http = client_for(&server.name, remote).await.unwrap();
    Access::new(&stage.home, &server, remote, http)
}

#[tokio::test]
async fn a_person_signs_in_once_and_calls_are_signed_with_tokens_that_are_renewed() {
    let server = Server::start(Habits::default()).await;
    let stage = stage(&server);
    let error = stage.list().await.unwrap_err();
    assert!(matches!(error, McpError::NotSignedIn { .. }), "{error}");
    assert_eq!(error.hint().as_deref(), Some("flock mcp login fixture"));
    assert_eq!(stage.servers.state(&name()).sign_in, Some(SignInState::Needed));

    let sign_in = begin(&stage).await.unwrap();
    let address: Url = sign_in.address().parse().unwrap();
    let part = |key: &str| address.query_pairs().find(|(name, _)| name == key).unwrap().1.into_owned();
    assert_eq!((part("response_type").as_str(), part("code_challenge_method").as_str()), ("code", "S256"));
    assert_eq!(
        (part("redirect_uri").as_str(), part("resource"), part("tenant").as_str()),
        (BACK, server.url.clone(), "1")
    );
    assert!(part("state").len() >= 43 && part("code_challenge").len() == 43);
    assert!(!address.query_pairs().any(|(name, _)| name == "scope"), "no scope is made up");
    let back = server.agree(sign_in.address()).await;
    let code = sign_in.answer(&back).unwrap().unwrap();
    sign_in.finish(code).await.unwrap();
    let path = stage.home.secrets().join("mcp-fixture.oauth");
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(stage.servers.state(&name()).sign_in, Some(SignInState::SignedIn));
    assert_eq!(stage.servers.state(&name()).failure, None);

    stage.grant("coder", &["echo"], false).await.unwrap();
    stage.call("echo", json!({})).await.unwrap();
    assert_eq!(server.grants("refresh_token"), 0);
    // The server takes the token back, and the call succeeds all the same.
    let first = access_token(&stage);
    server.end_access();
    stage.call("echo", json!({})).await.unwrap();
    assert_ne!(access_token(&stage), first);
    assert_eq!(server.grants("refresh_token"), 1);
    // Before the end of a token it is renewed without a refusal.
    let refusals = || server.requests("/mcp").len();
    age(&stage, 3_590);
    let before = refusals();
    stage.call("echo", json!({})).await.unwrap();
    assert_eq!((server.grants("refresh_token"), refusals()), (2, before + 1));
    // A new connection uses what is stored.
    stage.servers.stop_all().await;
    stage.call("echo", json!({})).await.unwrap();
    assert_eq!((server.grants("refresh_token"), server.grants("authorization_code")), (2, 1));
}

#[tokio::test]
async fn only_the_answer_to_this_sign_in_is_taken() {
    let server = Server::start(Habits::default()).await;
    let stage = stage(&server);
    let sign_in = begin(&stage).await.unwrap();
    let back = server.agree(sign_in.address()).await;
    let state = back.split("state=").nth(1).unwrap();
    for foreign in [
        format!("{BACK}?code=x&state=forged"),
        format!("{BACK}?code=x"),
        format!("{BACK}?code=x&state="),
        format!("{BACK}?code=x&state={state}&state={state}"),
        format!("{BACK}?error=access_denied&state=forged"),
        format!("http://127.0.0.1:9/other?code=x&state={state}"),
        format!("{BACK}?code=x&state={state}&pad={}", "x".repeat(20_000)),
        "https://a.example/".to_owned(),
        String::new(),
    ] {
        assert!(sign_in.answer(&foreign).unwrap().is_none(), "{foreign}");
    }
    let refused =
        sign_in.answer(&format!("{BACK}?error=access_denied&error_description=no%1b[31m&state={state}"));
    let refused = chain(&refused.err().unwrap());
    assert!(refused.contains("access_denied: no") && !refused.contains('\u{1b}'), "{refused:?}");
    assert!(sign_in.answer(&format!("{BACK}?state={state}")).is_err(), "there is no code");
    assert!(sign_in.answer(&back).unwrap().is_some(), "a forged visit does not end the sign-in");
}

#[tokio::test]
async fn an_answer_of_another_authorization_server_is_refused() {
    let server = Server::start(Habits::default()).await;
    let stage = stage(&server);
    let promise = json!({"authorization_response_iss_parameter_supported": true});
    for (iss, promised, is_good) in [
        (None, false, true),
        (None, true, false),
        (Some(server.base.clone()), true, true),
        (Some(server.base.clone()), false, true),
        (Some("https://other.example".to_owned()), true, false),
        (Some("https://other.example".to_owned()), false, false),
        (Some(format!("{}/", server.base)), true, false),
    ] {
        server.set(|habits| {
            habits.iss.clone_from(&iss);
            habits.metadata = if promised { promise.clone() } else { json!({}) };
        });
        let sign_in = begin(&stage).await.unwrap();
        let back = server.agree(sign_in.address()).await;
        assert_eq!(sign_in.answer(&back).is_ok(), is_good, "{iss:?} {promised}");
    }
    assert_eq!(server.grants("authorization_code"), 0, "no code was sent anywhere");
}

#[tokio::test]
async fn a_code_is_good_once_for_its_own_sign_in_and_nothing_else() {
    let server = Server::start(Habits::default()).await;
    let stage = stage(&server);
    // The server really refuses: one part of a good request is wrong at a time.
    server.register("known", "", BACK);
    let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let resource = server.url.clone();
    let address = format!(
        "{}/authorize?tenant=1&response_type=code&client_id=known&redirect_uri={BACK}&state=s&code_challenge={challenge}\
         &code_challenge_method=S256&resource={resource}",
        server.base
    );
    let good = [
        ("grant_type", "authorization_code"),
        ("client_id", "known"),
        ("redirect_uri", BACK),
        ("code_verifier", verifier),
        ("resource", &resource),
    ];
    for wrong in ["client_id", "redirect_uri", "code_verifier", "resource", "code", ""] {
        let back = server.agree(&address).await;
        let code = back.split("code=").nth(1).unwrap().split('&').next().unwrap();
        let form: Vec<(&str, &str)> = good
            .iter()
            .copied()
            .chain([("code", code)])
            .map(|(name, value)| (name, if name == wrong { "wrong" } else { value }))
            .collect();
        let (status, answer) = server.ask(&form).await;
        assert_eq!(status == 200, wrong.is_empty(), "{wrong}: {answer}");
        if wrong.is_empty() {
            assert_eq!(server.ask(&form).await.0, 400, "a code was used twice");
            assert!(!server.has_tokens(), "its second use ends what the first one gave");
        }
    }
    // A code that came with the right state, but from another sign-in, gives flock nothing.
    let (one, other) = (begin(&stage).await.unwrap(), begin(&stage).await.unwrap());
    let back = server.agree(one.address()).await;
    let foreign = back.split("code=").nth(1).unwrap().split('&').next().unwrap();
    let state = other.address().split("state=").nth(1).unwrap().split('&').next().unwrap();
    let code = other.answer(&format!("{BACK}?code={foreign}&state={state}")).unwrap().unwrap();
    let error = chain(&other.finish(code).await.unwrap_err());
    assert!(error.contains("invalid_grant") && !error.contains(foreign), "{error}");
    assert!(file(&stage).read_any().unwrap().is_none());
}

#[tokio::test]
async fn hostile_and_odd_descriptions_are_refused_before_anything_is_sent() {
    let elsewhere = Server::start(Habits::default()).await;
    let prm = "/.well-known/oauth-protected-resource/mcp";
    let asm = "/.well-known/oauth-authorization-server";
    type Change = Box<dyn Fn(&mut Habits)>;
    let resource =
        |changes: Value| -> Change { Box::new(move |habits| habits.resource = Some(changes.clone())) };
    let metadata = |changes: Value| -> Change { Box::new(move |habits| habits.metadata = changes.clone()) };
    let fixed = |path: &'static str, answer: (u16, String, String)| -> Change {
        Box::new(move |habits| drop(habits.fixed.insert(path, answer.clone())))
    };
    let challenge = |text: String| -> Change { Box::new(move |habits| habits.challenge.clone_from(&text)) };
    let redirect = |path: &str| (302, format!("{}{path}", elsewhere.base), String::new());
    let huge = || (200, String::new(), format!("{{\"issuer\": \"{}\"}}", "x".repeat(1 << 20)));
    let cases: Vec<(&str, Change, &str)> = vec![
        ("another resource", resource(json!({"resource": "https://evil.example/mcp"})), "another server"),
        (
            "a resource beside it",
            resource(json!({"resource": format!("{}/mcp", elsewhere.base)})),
            "another server",
        ),
        ("no resource", resource(json!({"resource": null})), "names no resource"),
        (
            "no authorization server",
            resource(json!({"authorization_servers": []})),
            "names no authorization server",
        ),
        (
            "a place that is none",
            resource(json!({"authorization_servers": ["file:///etc"]})),
            "no address of the web",
        ),
        (
            "a user in a place",
            resource(json!({"authorization_servers": ["http://a:b@127.0.0.1/"]})),
            "a user",
        ),
        ("another issuer", metadata(json!({"issuer": elsewhere.base})), "another one"),
        ("no issuer", metadata(json!({"issuer": null})), "no issuer"),
        ("no PKCE", metadata(json!({"code_challenge_methods_supported": null})), "PKCE"),
        ("only plain PKCE", metadata(json!({"code_challenge_methods_supported": ["plain"]})), "PKCE"),
        ("no codes", metadata(json!({"response_types_supported": ["token"]})), "authorization codes"),
        ("no place to sign in", metadata(json!({"authorization_endpoint": null})), "sign in at"),
        (
            "a script",
            metadata(json!({"authorization_endpoint": "javascript:alert(1)"})),
            "no address of the web",
        ),
        ("a fragment", metadata(json!({"authorization_endpoint": "http://127.0.0.1/a#b"})), "fragment"),
        (
            "a file for tokens",
            metadata(json!({"token_endpoint": "file:///etc/passwd"})),
            "no address of the web",
        ),
        (
            "a long place",
            metadata(json!({"token_endpoint": format!("http://127.0.0.1/{}", "x".repeat(3_000))})),
            "too long",
        ),
        ("no registration", metadata(json!({"registration_endpoint": null})), "--client-id"),
        ("a huge resource", fixed(prm, huge()), "more than 256 KiB"),
        ("a huge description", fixed(asm, huge()), "more than 256 KiB"),
        ("a redirected registration", fixed("/register", redirect("/register")), "did not register"),
        ("a broken registration", fixed("/register", (201, String::new(), "{}".to_owned())), "no id"),
        ("a redirected description", fixed(asm, redirect(asm)), "does not describe itself"),
        (
            "a redirected resource",
            Box::new(|habits: &mut Habits| {
                habits.challenge = ", resource_metadata=\"BASE/away\"".to_owned();
            }),
            "no description",
        ),
        (
            "a hostile place of the description",
            challenge(", resource_metadata=\"file:///x\"".to_owned()),
            "no address of the web",
        ),
    ];
    for (what, change, part) in cases {
        let server = Server::start(Habits::default()).await;
        server.set(|habits| {
            change(habits);
            habits.challenge = habits.challenge.replace("BASE", &server.base);
            habits.fixed.insert("/away", redirect(prm));
        });
        let stage = stage(&server);
        let error = begin(&stage).await.err().unwrap_or_else(|| panic!("{what} was accepted"));
        assert!(matches!(error, McpError::SignIn { .. }), "{what}: {error}");
        let error = chain(&error);
        assert!(error.contains(part) && error.len() < 2_000, "{what}: {error}");
        assert!(server.requests("/token").is_empty(), "{what}");
    }
    for path in [prm, asm, "/register", "/away"] {
        assert!(elsewhere.requests(path).is_empty(), "a redirect was followed to {path}");
    }
}

#[tokio::test]
async fn the_places_of_a_sign_in_follow_the_rules_of_the_servers_address() {
    let remote =
        |url: &str, allow_local| McpRemote { url: url.to_owned(), headers: Default::default(), allow_local };
    let requests = async |remote: McpRemote| {
        let server = McpServer::at(name(), remote.clone());
        Requests::new(&server, &remote).await.unwrap()
    };
    let public = requests(remote("https://mcp.example.com/mcp", false)).await;
    assert!(public.place("https://login.example.com/token?tenant=1").is_ok());
    for place in [
        "http://login.example.com/token",
        "https://localhost/token",
        "https://127.0.0.1/token",
        "https://0x7f.1/token",
        "https://[::1]/token",
        "https://[::ffff:169.254.169.254]/token",
        "https://169.254.169.254/token",
        "https://10.0.0.1/token",
        "https://intranet/token",
        "ftp://login.example.com/token",
    ] {
        assert!(public.place(place).is_err(), "{place}");
    }
    // A server with TLS does not lead to a sign-in without it, wherever it is.
    let local = requests(remote("https://127.0.0.1/mcp", true)).await;
    assert!(local.place("http://127.0.0.1/token").is_err());
    assert!(local.place("https://127.0.0.1/token").is_ok());
}

#[tokio::test]
async fn many_calls_and_other_processes_renew_a_token_once() {
    let server =
        Server::start(Habits { renewal_time: Duration::from_millis(200), ..Habits::default() }).await;
    let stage = stage(&server);
    sign_in(&stage, &server).await;
    stage.grant("coder", &["echo"], false).await.unwrap();
    server.end_access();
    // Each of these has a lock of its own, as a process has.
    let (one, other) = (access(&stage).await, access(&stage).await);
    let old = access_token(&stage);
    let calls = (0..6).map(|_| stage.call("echo", json!({})));
    let (calls, one, other) =
        tokio::join!(futures_util::future::join_all(calls), one.renewed(&old), other.renewed(&old));
    for call in calls {
        call.unwrap();
    }
    assert_eq!(server.grants("refresh_token"), 1, "a refresh token was used twice");
    assert_eq!(one.unwrap(), other.unwrap());
    assert!(server.has_tokens());
}

#[tokio::test]
async fn a_caller_that_gives_up_does_not_lose_the_new_refresh_token() {
    let server =
        Server::start(Habits { renewal_time: Duration::from_millis(300), ..Habits::default() }).await;
    let stage = stage(&server);
    sign_in(&stage, &server).await;
    server.end_access();
    let old = access_token(&stage);
    let access = access(&stage).await;
    assert!(tokio::time::timeout(Duration::from_millis(50), access.renewed(&old)).await.is_err());
    assert_ne!(access.renewed(&old).await.unwrap(), old);
    assert_eq!(server.grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_failed_renewal_keeps_the_sign_in_and_a_refused_one_ends_it() {
    let server = Server::start(Habits::default()).await;
    let stage = stage(&server);
    sign_in(&stage, &server).await;
    stage.grant("coder", &["echo"], false).await.unwrap();
    // The authorization server is out of order: a token that still lasts is used.
    server.set(|habits| habits.renewal_status = Some(503));
    age(&stage, 3_590);
    stage.call("echo", json!({})).await.unwrap();
    server.end_access();
    let error = stage.call("echo", json!({})).await.unwrap_err();
    assert!(error.contains("503") && !error.contains("flock mcp login"), "{error}");
    assert_eq!(stage.servers.state(&name()).sign_in, Some(SignInState::SignedIn));
    server.set(|habits| habits.renewal_status = None);
    stage.call("echo", json!({})).await.unwrap();
    // The refresh token was taken back: its texts are not shown, and it is not tried again.
    server.end_all();
    let refresh = stored(&stage).tokens.unwrap().refresh_token.unwrap();
    let error = stage.call("echo", json!({})).await.unwrap_err();
    assert!(error.contains("flock mcp login fixture") && error.contains("invalid_grant"), "{error}");
    assert!(!error.contains(&refresh), "the server repeats it: {error}");
    assert_eq!(stage.servers.state(&name()).sign_in, Some(SignInState::Expired));
    let renewals = server.grants("refresh_token");
    stage.call("echo", json!({})).await.unwrap_err();
    assert_eq!(server.grants("refresh_token"), renewals);
    let left = secret::get(&stage.home, &secret_name(&name())).unwrap().unwrap();
    assert!(!left.contains(&refresh) && !left.contains("access-"), "{left}");
    // Another sign-in mends it, without a wait.
    sign_in(&stage, &server).await;
    stage.call("echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_refresh_token_that_somebody_else_has_used_ends_the_sign_in() {
    let server = Server::start(Habits::default()).await;
    let stage = stage(&server);
    sign_in(&stage, &server).await;
    let stolen = stored(&stage);
    let refresh = stolen.tokens.unwrap().refresh_token.unwrap();
    let form = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*refresh),
        ("client_id", &*stolen.client.id),
        ("resource", &*stolen.resource),
    ];
    assert_eq!(server.ask(&form).await.0, 200, "a thief was first");
    server.end_access();
    let error = stage.list().await.unwrap_err();
    assert!(matches!(error, McpError::NotSignedIn { .. }), "{error}");
    assert!(!server.has_tokens(), "the thief's tokens have ended, too");
}

#[tokio::test]
async fn without_a_refresh_token_the_person_is_asked_for_at_the_end() {
    let server = Server::start(Habits { rotates: None, lifetime: 1, ..Habits::default() }).await;
    let stage = stage(&server);
    sign_in(&stage, &server).await;
    age(&stage, 5);
    assert_eq!(stage.servers.state(&name()).sign_in, Some(SignInState::Expired));
    let error = chain(&stage.list().await.unwrap_err());
    assert!(error.contains("flock mcp login fixture"), "{error}");
    assert!(
        server.requests("/mcp").iter().all(|request| request.authorization.is_none()),
        "an old token was sent"
    );
    // A server that keeps its refresh token is asked with the same one again.
    server.set(|habits| (habits.rotates, habits.lifetime) = (Some(false), 3_600));
    sign_in(&stage, &server).await;
    for _ in 0..2 {
        server.end_access();
        let refresh = stored(&stage).tokens.unwrap().refresh_token;
        stage.servers.stop_all().await;
        stage.list().await.unwrap();
        assert_eq!(stored(&stage).tokens.unwrap().refresh_token, refresh);
    }
}

#[tokio::test]
async fn more_scopes_are_asked_for_only_after_a_person_signs_in_again() {
    let server = Server::start(Habits {
        call_scope: Some("files:write"),
        challenge: ", scope=\"files:read\"".to_owned(),
        is_open_at_first: true,
        metadata: json!({"scopes_supported": ["files:read", "offline_access"]}),
        ..Habits::default()
    })
    .await;
    let stage = stage(&server);
    let scopes = |sign_in: &SignIn| sign_in.scopes().join(" ");
    let first = begin(&stage).await.unwrap();
    assert_eq!(scopes(&first), "files:read offline_access");
    sign_in(&stage, &server).await;
    stage.grant("coder", &["echo"], false).await.unwrap();
    for _ in 0..2 {
        let error = stage.call("echo", json!({})).await.unwrap_err();
        assert!(error.contains("files:write") && error.contains("flock mcp login fixture"), "{error}");
    }
    assert_eq!(server.grants("refresh_token"), 0, "another token of the same sign-in would not help");
    assert_eq!(stage.servers.state(&name()).sign_in, Some(SignInState::ScopesNeeded));
    assert_eq!(scopes(&begin(&stage).await.unwrap()), "files:read offline_access files:write");
    sign_in(&stage, &server).await;
    stage.call("echo", json!({})).await.unwrap();
    assert_eq!(stage.servers.state(&name()).sign_in, Some(SignInState::SignedIn));
    let chosen = SignInChoice {
        scopes: vec!["only:this".to_owned(), "not\"this".to_owned()],
        ..SignInChoice::default()
    };
    assert_eq!(scopes(&begin_with(&stage, chosen).await.unwrap()), "only:this");
    // Without a word in the refusal, the description proposes.
    server.set(|habits| {
        habits.challenge.clear();
        habits.resource = Some(json!({"scopes_supported": ["a", "b"]}));
        habits.metadata = json!({});
    });
    assert_eq!(scopes(&begin(&stage).await.unwrap()), "a b");
}

#[tokio::test]
async fn clients_prove_themselves_as_the_authorization_server_wants() {
    for (auth, expected) in [
        ("none", ClientAuth::None),
        ("client_secret_basic", ClientAuth::Basic),
        ("client_secret_post", ClientAuth::Post),
    ] {
        let server = Server::start(Habits { auth, ..Habits::default() }).await;
        let stage = stage(&server);
        sign_in(&stage, &server).await;
        assert_eq!(stored(&stage).client.auth, expected);
        server.end_access();
        stage.list().await.unwrap();
        assert_eq!(server.grants("refresh_token"), 1, "{auth}: a renewal proves it as well");
    }
    // A client that was registered beforehand.
    let server = Server::start(Habits {
        auth: "client_secret_basic",
        metadata: json!({"registration_endpoint": null}),
        ..Habits::default()
    })
    .await;
    let stage = stage(&server);
    server.register("known", "sk-client-4711", BACK);
    let choice = SignInChoice {
        client_id: Some("known".to_owned()),
        client_secret: Some("sk-client-4711".to_owned()),
        scopes: Vec::new(),
    };
    let known = begin_with(&stage, choice).await.unwrap();
    assert!(!known.address().contains("4711"));
    let back = server.agree(known.address()).await;
    let code = known.answer(&back).unwrap().unwrap();
    known.finish(code).await.unwrap();
    stage.list().await.unwrap();
    // An address as the id of a client, where that is possible.
    let id = "https://client.example/flock.json";
    let choice = || SignInChoice { client_id: Some(id.to_owned()), ..SignInChoice::default() };
    assert!(begin_with(&stage, choice()).await.is_err());
    server.set(|habits| habits.metadata = json!({"client_id_metadata_document_supported": true}));
    let address: Url = begin_with(&stage, choice()).await.unwrap().address().parse().unwrap();
    assert!(address.query_pairs().any(|(name, value)| name == "client_id" && value == id));
    assert!(server.requests("/register").is_empty());
}

#[tokio::test]
async fn a_server_of_2025_03_26_is_its_own_authorization_server() {
    let server = Server::start(Habits { resource: None, ..Habits::default() }).await;
    let with_description = stage(&server);
    sign_in(&with_description, &server).await;
    with_description.list().await.unwrap();
    let server = Server::start(Habits { resource: None, is_described: false, ..Habits::default() }).await;
    let without = stage(&server);
    let sign_in = begin(&without).await.unwrap();
    assert!(sign_in.address().starts_with(&format!("{}/authorize?", server.base)));
    let back = server.agree(sign_in.address()).await;
    let code = sign_in.answer(&back).unwrap().unwrap();
    sign_in.finish(code).await.unwrap();
    without.list().await.unwrap();
    let elsewhere = json!({"issuer": "https://other.example"});
    let server = Server::start(Habits { resource: None, metadata: elsewhere, ..Habits::default() }).await;
    assert!(begin(&stage(&server)).await.is_err());
}

#[tokio::test]
async fn tokens_go_to_the_server_that_they_are_for_and_to_no_other() {
    let (server, other) = (Server::start(Habits::default()).await, Server::start(Habits::default()).await);
    let stage = stage(&server);
    sign_in(&stage, &server).await;
    stage.grant("coder", &["echo"], false).await.unwrap();
    let set_url = |home: &Home, url: &str| {
        config::edit(home, |document| {
            document["plugins"]["entries"]["flock"]["config"]["mcpServers"]["fixture"]["url"] = json!(url);
            Ok::<_, config::ConfigError>(())
        })
        .unwrap();
    };
    set_url(&stage.home, &other.url);
    let error = stage.call("echo", json!({})).await.unwrap_err();
    assert!(error.contains("flock mcp login fixture"), "{error}");
    assert!(!other.requests("/mcp").is_empty());
    assert!(other.requests("/mcp").iter().all(|request| request.authorization.is_none()));
    assert!(other.requests("/token").is_empty());
    set_url(&stage.home, &server.url);
    stage.call("echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn signing_out_revokes_the_tokens_and_removes_them_whatever_happens() {
    let server = Server::start(Habits::default()).await;
    let stage = stage(&server);
    let out = async || sign_out(&stage.home, &configured(&stage)).await.unwrap();
    assert_eq!(out().await, None);
    sign_in(&stage, &server).await;
    stage.grant("coder", &["echo"], false).await.unwrap();
    assert_eq!(out().await, Some(TokenRevocation::Done));
    assert!(!server.has_tokens());
    assert!(secret::get(&stage.home, &secret_name(&name())).unwrap().is_none());
    // A connection that is open is not used any more.
    let error = stage.call("echo", json!({})).await.unwrap_err();
    assert!(error.contains("flock mcp login fixture"), "{error}");
    server.set(|habits| habits.metadata = json!({"revocation_endpoint": null}));
    sign_in(&stage, &server).await;
    assert_eq!(out().await, Some(TokenRevocation::NotOffered));
    server.set(|habits| {
        habits.metadata = json!({});
        habits.fixed.insert("/revoke", (503, String::new(), String::new()));
    });
    sign_in(&stage, &server).await;
    assert_eq!(out().await, Some(TokenRevocation::Failed("HTTP 503".to_owned())));
    assert!(file(&stage).read_any().unwrap().is_none());
}

/// Everything that is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        lock(&self.0).extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_level_of_the_log_shows_a_code_or_a_token() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .without_time()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let server = Server::start(Habits { auth: "client_secret_basic", ..Habits::default() }).await;
    let stage = stage(&server);
    sign_in(&stage, &server).await;
    stage.grant("coder", &["echo"], false).await.unwrap();
    server.end_access();
    stage.call("echo", json!({})).await.unwrap();
    server.end_all();
    stage.call("echo", json!({})).await.unwrap_err();
    let text = String::from_utf8_lossy(&lock(&log.0)).into_owned();
    assert!(text.contains("the sign-in to an MCP server has ended"), "{text}");
    // The test's own browser logs the address that has the code, so the code is looked for in what flock sends.
    for secret in ["access-", "refresh-", "client-secret-", "code_verifier="] {
        let line = text.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}
