//! The dashboard: how a browser signs in and out, what its cookie opens, and that its pages hold.

use flock::supervise::gateway_client::{Answer, Call, Client};
use serde_json::{Value, json};

use super::house::{House, LIMIT, json_of, text, until};

/// A browser that is signed in.
pub struct Browser {
    client: Client,
    port: u16,
    /// The cookie as the browser sends it.
    cookie: String,
}

impl Browser {
    pub async fn new(house: &House) -> Self {
        let call = Call::get(&code_page(house, "ann").await);
        let answer = Client::new(house.port).send(call, LIMIT).await.unwrap();
        assert_eq!(answer.status(), 200);
        Self::of(house, &answer)
    }

    /// The browser that got this answer.
    fn of(house: &House, answer: &Answer) -> Self {
        let set = answer.header("set-cookie").unwrap().to_owned();
        for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
            assert!(set.contains(part), "{set}");
        }
        let cookie = set.split(';').next().unwrap().to_owned();
        assert!(cookie.starts_with(&format!("flock_{}=", house.port)), "{set}");
        Self { client: Client::new(house.port), port: house.port, cookie }
    }

    pub async fn send(&self, call: Call) -> Answer {
        self.client.send(call.header("cookie", &self.cookie), LIMIT).await.unwrap()
    }

    async fn page(&self, path: &str) -> (u16, String) {
        text(self.send(Call::get(path)).await).await
    }

    /// The token for changes, from a page.
    async fn csrf(&self) -> String {
        let (status, page) = self.page("/dashboard").await;
        assert_eq!(status, 200, "{page}");
        let rest = page.split_once("name=\"csrf-token\" content=\"").unwrap().1;
        rest.split_once('"').unwrap().0.to_owned()
    }

    /// Reads a route.
    pub async fn json(&self, path: &str) -> (u16, Value) {
        json_of(self.send(Call::get(path)).await).await
    }

    pub async fn change(&self, call: Call) -> (u16, Value) {
        let token = self.csrf().await;
        let origin = format!("http://127.0.0.1:{}", self.port);
        json_of(self.send(call.header("x-flock-csrf", &token).header("origin", &origin)).await).await
    }
}

/// The path with which a browser signs in.
async fn code_page(house: &House, by: &str) -> String {
    let call = Call::post("/api/dashboard/codes").json(&json!({"by": by})).unwrap();
    let (status, made) = json_of(house.owner().send(call, LIMIT).await.unwrap()).await;
    assert_eq!(status, 201, "{made}");
    assert!(made["expiresAt"].as_i64().unwrap() <= flock::clock::unix_ms() + 60_000);
    format!("/dashboard?code={}", made["code"].as_str().unwrap())
}

#[tokio::test]
async fn a_browser_signs_in_once_with_a_code() {
    let house = House::new().await;
    let stranger = Client::new(house.port);
    let plain = stranger.send(Call::get("/dashboard"), LIMIT).await.unwrap();
    let (status, page) = text(plain).await;
    assert!(status == 401 && page.contains("flock dashboard") && !page.contains("coder"), "{page}");
    let path = code_page(&house, "ann").await;
    let first = stranger.send(Call::get(&path), LIMIT).await.unwrap();
    assert!(first.status() == 200 && first.header("set-cookie").is_some());
    for wrong in
        [path.as_str(), "/dashboard?code=", "/dashboard?code=00", "/dashboard?token=owner-token-of-the-test"]
    {
        let again = stranger.send(Call::get(wrong), LIMIT).await.unwrap();
        assert!(again.status() == 401 && again.header("set-cookie").is_none(), "{wrong}");
    }
    // The owner's token is for programs and opens no page.
    assert_eq!(house.owner().send(Call::get("/dashboard"), LIMIT).await.unwrap().status(), 401);
    let browser = Browser::new(&house).await;
    let (status, page) = browser.page("/dashboard").await;
    assert!(status == 200 && page.contains("data-agent=\"coder\""), "{page}");
    // Nothing that was shown or stored is the cookie itself.
    let secret = browser.cookie.split_once('=').unwrap().1;
    assert!(!page.contains(secret));
    assert!(!house.database.contains(secret));
}

/// The form of the page that asks about a code.
fn code_form(path: &str) -> Call {
    let code = path.strip_prefix("/dashboard?").unwrap();
    Call::post("/dashboard/sign-in")
        .bytes(code.as_bytes())
        .header("content-type", "application/x-www-form-urlencoded")
}

#[tokio::test]
async fn a_code_takes_the_place_of_another_person_only_by_the_form_of_its_page() {
    let house = House::new().await;
    let ann = Browser::new(&house).await;
    let path = code_page(&house, "eve").await;
    let answer = ann.send(Call::get(&path)).await;
    assert_eq!(answer.header("set-cookie"), None, "ann stays signed in");
    let (status, page) = text(answer).await;
    assert_eq!(status, 200, "{page}");
    for part in
        ["signed in here as ann", "Sign in as eve", "action=\"/dashboard/sign-in\"", "name=\"referrer\""]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    // Another site knows its own code, and so may the page of another server of this machine.
    let own = format!("http://127.0.0.1:{}", house.port);
    for (origin, site) in [
        ("https://evil.example", "cross-site"),
        ("http://127.0.0.1:1", "same-site"),
        (own.as_str(), "same-site"),
        ("null", "same-origin"),
    ] {
        let call = code_form(&path).header("origin", origin).header("sec-fetch-site", site);
        let answer = ann.send(call).await;
        assert_eq!((answer.status(), answer.header("set-cookie")), (403, None), "{origin} {site}");
    }
    // All that has left the code unused.
    let button = || code_form(&path).header("origin", &own).header("sec-fetch-site", "same-origin");
    let answer = ann.send(button()).await;
    assert_eq!(answer.status(), 200);
    let eve = Browser::of(&house, &answer);
    assert!(eve.page("/dashboard").await.1.contains("Signed in as eve"));
    let again = ann.send(button()).await;
    assert_eq!((again.status(), again.header("set-cookie")), (401, None));
    // The same person needs no question.
    let answer = ann.send(Call::get(&code_page(&house, "ann").await)).await;
    assert!(answer.status() == 200 && answer.header("set-cookie").is_some());
}

#[tokio::test]
async fn a_link_of_another_site_to_a_code_signs_nobody_in_by_itself() {
    let house = House::new().await;
    let ann = Browser::new(&house).await;
    let stranger = Client::new(house.port);
    for site in ["cross-site", "same-site"] {
        // With such a request a browser sends no cookie.
        let path = code_page(&house, "eve").await;
        let answer = stranger.send(Call::get(&path).header("sec-fetch-site", site), LIMIT).await.unwrap();
        assert_eq!(answer.header("set-cookie"), None, "{site}");
        let (status, page) = text(answer).await;
        assert!(status == 200 && page.contains(&format!("content=\"0; url={path}\"")), "{page}");
        // It sends the cookie when flock's own page leads it.
        let led = || Call::get(&path).header("sec-fetch-site", "same-origin");
        let answer = ann.send(led()).await;
        assert_eq!(answer.header("set-cookie"), None, "{site}");
        assert!(text(answer).await.1.contains("Sign in as eve"), "{site}");
        // `flock dashboard` opens a file that leads a browser there, in which nobody may be signed in.
        let answer = stranger.send(led(), LIMIT).await.unwrap();
        assert!(answer.status() == 200 && answer.header("set-cookie").is_some(), "{site}");
    }
}

#[tokio::test]
async fn a_code_that_a_person_made_for_themselves_signs_nobody_in_without_a_question() {
    let house = House::new().await;
    let add =
        Call::post("/api/people").json(&json!({"name": "eve", "role": "viewer", "by": "boss"})).unwrap();
    assert_eq!(house.owner().send(add, LIMIT).await.unwrap().status(), 201);
    let make = Call::post("/api/people/eve/tokens").json(&json!({"by": "boss"})).unwrap();
    let (_, token) = json_of(house.owner().send(make, LIMIT).await.unwrap()).await;
    let eve = Client::new(house.port).with_token(token["token"].as_str().unwrap());
    let make = Call::post("/api/dashboard/codes").json(&json!({})).unwrap();
    let (status, made) = json_of(eve.send(make, LIMIT).await.unwrap()).await;
    assert_eq!(status, 201, "{made}");
    let path = format!("/dashboard?code={}", made["code"].as_str().unwrap());
    let stranger = Client::new(house.port);
    for site in ["none", "same-origin"] {
        let call = Call::get(&path).header("sec-fetch-site", site);
        let answer = stranger.send(call, LIMIT).await.unwrap();
        assert_eq!(answer.header("set-cookie"), None, "{site}");
        let (status, page) = text(answer).await;
        assert!(status == 200 && page.contains("Sign in as eve"), "{site}: {page}");
    }
    let answer = stranger.send(code_form(&path), LIMIT).await.unwrap();
    let browser = Browser::of(&house, &answer);
    assert!(browser.page("/dashboard").await.1.contains("Signed in as eve"));
    // It is a browser of that token.
    assert_eq!(house.owner().send(Call::delete("/api/tokens/eve.1"), LIMIT).await.unwrap().status(), 200);
    assert_eq!(browser.page("/dashboard").await.0, 401);
}

#[tokio::test]
async fn a_sign_in_by_a_code_ends_no_later_than_the_one_that_made_the_code() {
    let house = House::new().await;
    let day = 24 * 3600 * 1000;
    let mut browser = Browser::new(&house).await;
    let began = flock::clock::unix_ms() - 29 * day;
    house.database.execute(&format!("UPDATE sign_in SET created_at = {began}"));
    let make = || Call::post("/api/dashboard/codes").json(&json!({})).unwrap();
    // Each browser makes the code for the next one.
    for _ in 0..2 {
        let (status, made) = browser.change(make()).await;
        assert_eq!(status, 201, "{made}");
        let path = format!("/dashboard?code={}", made["code"].as_str().unwrap());
        let answer = browser.send(Call::get(&path)).await;
        browser = Browser::of(&house, &answer);
    }
    let (_, listed) = browser.json("/api/dashboard/sessions").await;
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 3, "{listed}");
    for session in sessions {
        assert_eq!(session["createdAt"], began, "{listed}");
        assert_eq!(session["expiresAt"], began + 30 * day, "{listed}");
    }
    // Nor does a code let anybody in after the browser that made it was signed out.
    let (_, made) = browser.change(make()).await;
    assert_eq!(browser.change(Call::delete("/api/dashboard/sessions/current")).await.0, 200);
    let path = format!("/dashboard?code={}", made["code"].as_str().unwrap());
    let answer = browser.send(code_form(&path)).await;
    assert_eq!((answer.status(), answer.header("set-cookie")), (401, None));
}

#[tokio::test]
async fn a_change_needs_the_token_of_a_page_and_no_foreign_page_gets_through() {
    let house = House::new().await;
    let browser = Browser::new(&house).await;
    let freeze = || Call::post("/api/agents/coder/freeze");
    let token = browser.csrf().await;
    let own = format!("http://127.0.0.1:{}", house.port);
    for (headers, code) in [
        (vec![], "csrf"),
        (vec![("x-flock-csrf", "x")], "csrf"),
        (vec![("x-flock-csrf", &*token), ("origin", "https://evil.example")], "foreign_origin"),
        (vec![("x-flock-csrf", &*token), ("origin", "http://127.0.0.1:1")], "foreign_origin"),
        (vec![("x-flock-csrf", &*token), ("sec-fetch-site", "same-site")], "foreign_origin"),
        (vec![("x-flock-csrf", &*token), ("sec-fetch-site", "cross-site")], "foreign_origin"),
    ] {
        let call = headers.iter().fold(freeze(), |call, (name, value)| call.header(name, value));
        let (status, answer) = json_of(browser.send(call).await).await;
        assert_eq!((status, answer["error"]["code"].as_str()), (403, Some(code)), "{headers:?} {answer}");
    }
    // Of two browsers, each needs its own token.
    let other = Browser::new(&house).await;
    let call = freeze().header("x-flock-csrf", &other.csrf().await).header("origin", &own);
    assert_eq!(browser.send(call).await.status(), 403);
    assert!(house.sandbox.entries.lock().unwrap().is_empty(), "nothing was frozen");
    let (status, answer) = browser.change(freeze()).await;
    assert_eq!((status, answer["agents"][0]["frozen"].as_bool()), (200, Some(true)), "{answer}");
    let (_, rows) = json_of(browser.send(Call::get("/api/audit?action=agent.freeze")).await).await;
    assert_eq!(rows["rows"][0]["actor"], "human:ann", "the person who signed in acted: {rows}");
    // A page of another server of this machine may not even read.
    let read = Call::get("/api/agents").header("sec-fetch-site", "same-site");
    assert_eq!(browser.send(read).await.status(), 403);
    // A cookie opens neither the plugin's paths nor those of a turn.
    assert_eq!(browser.send(Call::post("/api/plugin/events")).await.status(), 403);
    assert_eq!(browser.send(Call::post("/mcp")).await.status(), 403);
}

#[tokio::test]
async fn a_browser_is_listed_and_signed_out_and_its_stream_ends() {
    let house = House::new().await;
    let (first, second) = (Browser::new(&house).await, Browser::new(&house).await);
    let (_, listed) = json_of(first.send(Call::get("/api/dashboard/sessions")).await).await;
    let sessions = listed["sessions"].as_array().unwrap().clone();
    assert_eq!(sessions.len(), 2, "{listed}");
    assert!(sessions[0]["current"] == true && sessions[1]["current"] == false, "{listed}");
    assert_eq!(sessions[0]["person"], "ann");
    let stream = second.send(Call::get("/api/events")).await;
    assert_eq!(stream.status(), 200);
    let path = format!("/api/dashboard/sessions/{}", sessions[1]["id"].as_str().unwrap());
    assert_eq!(first.change(Call::delete(&path)).await, (200, json!({"ended": 1})));
    assert_eq!(first.change(Call::delete(&path)).await.0, 404, "it was ended already");
    assert_eq!(second.send(Call::get("/api/agents")).await.status(), 401);
    assert_eq!(second.page("/dashboard").await.0, 401);
    // The stream of the one that was signed out ends by itself.
    let rest = tokio::time::timeout(LIMIT, stream.bytes(1 << 20, LIMIT)).await;
    assert!(rest.is_ok(), "the stream went on");
    assert_eq!(first.change(Call::delete("/api/dashboard/sessions/current")).await.0, 200);
    assert_eq!(first.page("/dashboard").await.0, 401);
    let third = Browser::new(&house).await;
    let all = house.owner().send(Call::delete("/api/dashboard/sessions?by=ann"), LIMIT).await.unwrap();
    assert_eq!(json_of(all).await, (200, json!({"ended": 1})));
    assert_eq!(third.page("/dashboard").await.0, 401);
}

#[tokio::test]
async fn every_page_forbids_what_comes_from_elsewhere_and_has_no_script_in_it() {
    let house = House::new().await;
    let browser = Browser::new(&house).await;
    let hostile = "<script>alert(1)</script> <img src=x onerror=alert(1)> [x](javascript:alert(1)) \
                   ![y](https://evil.example/y.png) <svg onload=alert(1)>";
    let (status, made) = browser
        .change(
            Call::post("/api/channels")
                .json(&json!({"id": "dev", "topic": hostile, "members": ["coder"]}))
                .unwrap(),
        )
        .await;
    assert_eq!(status, 201, "{made}");
    let post = Call::post("/api/channels/dev/messages").json(&json!({"content": hostile})).unwrap();
    assert_eq!(browser.change(post).await.0, 201);
    for path in [
        "/dashboard",
        "/dashboard/channels",
        "/dashboard/channels/dev",
        "/dashboard/search?q=alert",
        "/dashboard/search/messages?q=alert",
        "/dashboard/requests",
        "/dashboard/requests?state=all",
        "/dashboard/cost",
        "/dashboard/people",
        "/dashboard/nothing",
    ] {
        let answer = browser.send(Call::get(path)).await;
        let policy = answer.header("content-security-policy").unwrap().to_owned();
        for rule in [
            "default-src 'none'",
            "script-src 'self';",
            "style-src 'self';",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        let (status, page) = text(answer).await;
        assert_eq!(status, if path.ends_with("nothing") { 404 } else { 200 }, "{path} {page}");
        let lower = page.to_lowercase();
        // What is escaped stands there as text; these would be elements and attributes.
        for wrong in ["<script>", "<img", "<svg onload", "href=\"javascript:", "style=\"", "src=\"http"] {
            assert!(!lower.contains(wrong), "{path} has {wrong}: {page}");
        }
    }
    let missing = browser.send(Call::get("/dashboard/assets/x-app.txt")).await;
    assert_eq!(missing.status(), 404);
}

#[tokio::test]
async fn a_page_names_assets_that_are_there_for_everybody_and_small() {
    let house = House::new().await;
    let browser = Browser::new(&house).await;
    let (_, page) = browser.page("/dashboard").await;
    let mut total = page.len();
    let stranger = Client::new(house.port);
    let mut names: Vec<&str> =
        page.split("/dashboard/assets/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(names.len() >= 3, "{names:?}");
    names.sort_unstable();
    for name in names {
        let call = Call::get(&format!("/dashboard/assets/{name}")).header("accept-encoding", "gzip, br");
        let answer = stranger.send(call, LIMIT).await.unwrap();
        assert_eq!((answer.status(), answer.header("content-encoding")), (200, Some("gzip")), "{name}");
        assert!(answer.header("cache-control").unwrap().contains("immutable"));
        total += answer.bytes(1 << 20, LIMIT).await.unwrap().len();
    }
    assert!(total < 150_000, "the first page takes {total} bytes");
}

#[tokio::test]
async fn the_page_of_a_channel_has_what_was_said_and_continues_after_a_number() {
    let house = House::new().await;
    let browser = Browser::new(&house).await;
    let made = Call::post("/api/channels")
        .json(&json!({"id": "dev", "topic": "t", "members": ["coder"], "as": "ann"}));
    assert_eq!(browser.change(made.unwrap()).await.0, 201);
    for text in ["one **bold**", "two"] {
        let post =
            Call::post("/api/channels/dev/messages").json(&json!({"content": text, "as": "ann"})).unwrap();
        assert_eq!(browser.change(post).await.0, 201);
    }
    let post = Call::post("/api/channels/dev/messages").json(&json!({"content": "x", "as": "bob"})).unwrap();
    assert_eq!(browser.change(post).await.0, 403, "a browser speaks only as its person");
    let (_, page) = browser.page("/dashboard/channels/dev").await;
    assert!(page.contains("one <strong>bold</strong>") && page.contains("human:ann"), "{page}");
    let seq = page.matches("data-seq=").count();
    assert_eq!(seq, 3, "{page}");
    let (_, rest) = browser.page("/dashboard/channels/dev?after=2").await;
    assert!(rest.matches("data-seq=").count() == 1 && rest.contains("two"), "{rest}");
    let (status, none) = browser.page("/dashboard/channels/none").await;
    assert!(status == 404 && none.contains("none"), "{none}");
}

#[tokio::test]
async fn an_agent_is_shown_with_what_it_does() {
    let house = House::new().await;
    let owner = house.owner();
    let asked = super::house::ask("wait");
    let turn = tokio::spawn(async move {
        owner.send(Call::post("/v1/chat/completions").json(&asked).unwrap(), LIMIT).await
    });
    until("the turn runs", || house.runner.running() == 1).await;
    let (_, listed) = json_of(house.owner().send(Call::get("/api/agents"), LIMIT).await.unwrap()).await;
    let activity = &listed["agents"].as_array().unwrap().iter().find(|agent| agent["id"] == "coder").unwrap()
        ["activity"];
    assert_eq!(activity["state"], "working", "{activity}");
    let session = activity["session"].as_str().unwrap();
    assert!(session.starts_with("agent:coder:flock:request:") && activity["since"].is_i64(), "{activity}");
    let path = format!("/api/sessions/{session}/stop");
    let stopped = house.owner().send(Call::post(&path), LIMIT).await.unwrap();
    assert_eq!(json_of(stopped).await, (200, json!({"cancelled": 1})));
    drop(turn.await);
    let (_, listed) = json_of(house.owner().send(Call::get("/api/agents"), LIMIT).await.unwrap()).await;
    assert_eq!(listed["agents"][0]["activity"]["state"], "idle", "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_search_shows_what_the_route_finds_and_leads_to_its_place() {
    let house = House::new().await;
    let browser = Browser::new(&house).await;
    let write = |path: &str, text: &str| {
        let path = house.home.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("workspaces/coder/MEMORY.md", "one\ntwo\nan okapi <script>alert(1)</script> \u{202e}here\n");
    write("workspaces/tester/MEMORY.md", "the okapi of another agent");
    write("vaults/zoo/<b>.md", "the okapi of a vault");
    write("workspaces/coder/SOUL.md", "no okapi is found here");
    let (status, page) = browser.page("/dashboard/search?q=okapi").await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(
        (page.matches("data-in=\"memory\"").count(), page.matches("data-in=\"vaults\"").count()),
        (2, 1)
    );
    assert!(
        !page.contains("<script>alert") && !page.contains("<b>.md") && page.contains("\\u{202e}"),
        "{page}"
    );
    assert!(page.contains("/dashboard/search/file?agent=coder&#38;path=MEMORY.md&#38;line=3#l3"), "{page}");
    // As an agent, and in one place.
    let (_, page) = browser.page("/dashboard/search?q=okapi&agent=coder&in=memory").await;
    assert_eq!((page.matches("data-in=").count(), page.contains("another agent")), (1, false), "{page}");
    for (query, text) in [("q=%22", "at least one word"), ("q=okapi&agent=nobody", "no agent nobody")] {
        let (status, page) = browser.page(&format!("/dashboard/search?{query}")).await;
        assert!(status == 200 && page.contains(text) && !page.contains("data-in="), "{query}: {page}");
    }
    let (status, page) = browser.page("/dashboard/search/file?agent=coder&path=MEMORY.md&line=3").await;
    assert!(status == 200 && page.contains("<tr id=\"l3\" class=\"found\">"), "{page}");
    assert!(!page.contains("<script>alert") && page.matches("<tr").count() == 3, "{page}");
    let (status, page) = browser.page("/dashboard/search/file?vault=zoo&path=%3Cb%3E.md&from=9").await;
    assert!(status == 200 && page.contains("the okapi of a vault") && !page.contains("<b>.md"), "{page}");
    for query in
        ["agent=coder&path=SOUL.md", "agent=coder&path=memory/../SOUL.md", "agent=nobody&path=MEMORY.md"]
    {
        let (status, page) = browser.page(&format!("/dashboard/search/file?{query}")).await;
        assert!(status == 404 && !page.contains("no okapi"), "{query}: {page}");
    }
    // Only the owner and a browser that is signed in read the route; a token for all agents does not.
    let made = Call::post("/api/tokens").json(&json!({"name": "ci", "rights": ["read"]})).unwrap();
    let (status, token) = json_of(house.owner().send(made, LIMIT).await.unwrap()).await;
    assert_eq!(status, 201, "{token}");
    let client = Client::new(house.port).with_token(token["token"].as_str().unwrap());
    for path in ["/api/search/memory?q=okapi", "/api/search/memory/file?agent=coder&path=MEMORY.md"] {
        let refused = json_of(client.send(Call::get(path), LIMIT).await.unwrap()).await;
        assert_eq!((refused.0, refused.1["error"]["code"].as_str()), (403, Some("out_of_scope")), "{path}");
        assert_eq!(browser.json(path).await.0, 200, "{path}");
    }
}
