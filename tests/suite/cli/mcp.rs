//! `flock mcp` without an engine: what is added, imported, shown and refused.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::home::TempHome;
use crate::support::package_registry::{PackageRegistry, zipped};

fn servers(home: &TempHome) -> Value {
    home.config()["plugins"]["entries"]["flock"]["config"]["mcpServers"].clone()
}

#[test]
fn a_server_is_added_shown_and_removed() {
    let home = TempHome::new().init();
    let add = [
        "mcp",
        "add",
        "notes",
        "--egress",
        "a.example",
        "--memory",
        "256m",
        "--env",
        "MODE=x=y",
        "--secret",
        "API_KEY",
    ];
    let run = home.flock(add.into_iter().chain(["--json", "--", "python3", "-m", "notes", "--flag"])).ok();
    assert_eq!(run.json(), json!({"added": ["notes"]}));
    let found = servers(&home);
    assert_eq!(
        found["notes"],
        json!({"command": ["python3", "-m", "notes", "--flag"], "env": {"MODE": "x=y"},
            "secrets": {"API_KEY": "mcp-notes.API_KEY"}, "network": "proxy", "egress": ["a.example"], "memory": 256 << 20})
    );
    let run = home.flock(["mcp", "list"]).ok();
    assert!(run.stdout.contains("notes") && run.stdout.contains("nobody"), "{run:?}");
    let shown = home.flock(["mcp", "show", "notes", "--json"]).ok().json();
    assert_eq!(shown["server"]["variables"], json!(["MODE"]));
    assert!(!shown.to_string().contains("x=y"), "values of variables are not shown: {shown}");
    let doctor = home.flock(["doctor", "--json"]);
    assert!(doctor.stdout.contains("flock mcp secret notes API_KEY"), "{doctor:?}");
    home.flock_with_input(["mcp", "secret", "notes", "API_KEY"], "sk-1234\n").ok();
    assert_eq!(std::fs::read_to_string(home.file("secrets/mcp-notes.API_KEY")).unwrap(), "sk-1234");
    home.flock_with_input(["mcp", "secret", "notes", "OTHER"], "x").fails(2);
    home.flock(["mcp", "remove", "notes"]).fails(2);
    home.flock(["mcp", "remove", "notes", "--yes"]).ok();
    assert_eq!(servers(&home), Value::Null);
    home.flock(["mcp", "show", "notes"]).fails(1);
}

#[test]
fn a_server_can_have_an_image_of_its_own() {
    let home = TempHome::new().init();
    home.flock([
        "mcp",
        "add",
        "notes",
        "--image",
        "registry.example/node:24@sha256:0a",
        "--",
        "node",
        "x.js",
    ])
    .ok();
    assert_eq!(servers(&home)["notes"]["image"], "registry.example/node:24@sha256:0a");
    let shown = home.flock(["mcp", "show", "notes", "--json"]).ok().json();
    assert_eq!(shown["server"]["image"], "registry.example/node:24@sha256:0a");
    let shown = home.flock(["mcp", "show", "notes"]).ok();
    assert!(shown.stdout.contains("image      registry.example/node:24@sha256:0a"), "{shown:?}");
    home.flock(["mcp", "add", "plain", "--", "x"]).ok();
    assert_eq!(home.flock(["mcp", "show", "plain", "--json"]).ok().json()["server"]["image"], Value::Null);
    for wrong in ["", "-v", "two words", "line\nbreak"] {
        home.flock(["mcp", "add", "other", &format!("--image={wrong}"), "--", "x"]).fails(2);
    }
    home.flock(["mcp", "add", "far", "https://a.example/mcp", "--image", "node"]).fails(2);
    // A description with its own settings keeps what it has, and the option counts for the image.
    let json = r#"{"command": "node", "args": ["x.js"]}"#;
    home.flock(["mcp", "add", "described", "--server-json", json, "--image", "node:24"]).ok();
    assert_eq!(servers(&home)["described"]["image"], "node:24");
}

#[test]
fn the_usual_file_is_imported_and_its_variables_become_secrets() {
    let home = TempHome::new().init();
    let file = json!({"mcpServers": {
        "Git_Hub": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "sk-imported"}},
        "far": {"url": "https://a.example/mcp", "headers": {"Authorization": "Bearer sk-imported"}},
        "old": {"type": "sse", "url": "https://a.example/sse"},
    }});
    let run = home.flock_with_input(["mcp", "import", "-"], &file.to_string()).ok();
    assert!(run.stderr.contains("old was left out"), "{run:?}");
    assert_eq!(
        servers(&home),
        json!({"git-hub": {"command": ["npx", "-y", "server"], "secrets": {"TOKEN": "mcp-git-hub.TOKEN"}},
            "far": {"url": "https://a.example/mcp", "headers": {"authorization": "mcp-far.authorization"}}})
    );
    assert!(!home.config_text().contains("sk-imported"));
    assert_eq!(
        std::fs::read_to_string(home.file("secrets/mcp-far.authorization")).unwrap(),
        "Bearer sk-imported"
    );
    assert_eq!(std::fs::read_to_string(home.file("secrets/mcp-git-hub.TOKEN")).unwrap(), "sk-imported");
    home.flock_with_input(["mcp", "import", "-"], &file.to_string()).fails(5);
    home.flock_with_input(["mcp", "import", "-"], "[]").fails(2);
}

#[test]
fn a_server_at_a_url_is_added_with_the_names_of_its_secrets() {
    let home = TempHome::new().init();
    home.flock([
        "mcp",
        "add",
        "far",
        "https://a.example/mcp",
        "--header",
        "Authorization",
        "--header",
        "X-Org=org-id",
    ])
    .ok();
    home.flock(["mcp", "add", "near", "http://127.0.0.1:9/mcp", "--allow-local", "--call-seconds", "5"]).ok();
    assert_eq!(
        servers(&home),
        json!({"far": {"url": "https://a.example/mcp",
                "headers": {"authorization": "mcp-far.authorization", "x-org": "org-id"}},
            "near": {"url": "http://127.0.0.1:9/mcp", "allowLocal": true, "callSeconds": 5}})
    );
    home.flock_with_input(["mcp", "secret", "far", "Authorization"], "Bearer sk-1234\n").ok();
    let shown = home.flock(["mcp", "show", "far"]).ok().stdout;
    assert!(shown.contains("https://a.example/mcp") && shown.contains("authorization"), "{shown}");
    assert!(!shown.contains("1234"), "{shown}");
    let doctor = home.flock(["doctor", "--json"]);
    assert!(doctor.stdout.contains("flock mcp secret far x-org"), "{doctor:?}");
    let run = home.flock(["mcp", "test", "near"]).fails(1);
    assert!(run.stderr.contains("near did not start"), "{run:?}");
}

#[test]
fn what_can_not_run_is_refused_and_nothing_is_written() {
    let home = TempHome::new().init();
    for args in [
        vec!["mcp", "add", "Notes", "--", "x"],
        vec!["mcp", "add", "notes"],
        vec!["mcp", "add", "notes", "--", "https://a.example/mcp"],
        vec!["mcp", "add", "notes", "http://a.example/mcp"],
        vec!["mcp", "add", "notes", "https://192.168.1.1/mcp"],
        vec!["mcp", "add", "notes", "https://me:secret@a.example/mcp"],
        vec!["mcp", "add", "notes", "https://a.example/mcp", "--header", "Host"],
        vec!["mcp", "add", "notes", "https://a.example/mcp", "--egress", "b.example"],
        vec!["mcp", "add", "notes", "--header", "X-Key", "--", "x"],
        vec!["mcp", "add", "notes", "--memory", "1", "--", "x"],
        vec!["mcp", "add", "notes", "--network", "none", "--egress", "a.example", "--", "x"],
        vec!["mcp", "add", "notes", "--env", "A=1", "--secret", "A", "--", "x"],
        vec!["mcp", "add", "notes", "--secret", "A-B", "--", "x"],
        vec!["mcp", "add", "notes", "--call-seconds", "0", "--", "x"],
        vec!["mcp", "add", "notes", "--npm", "a", "--pypi", "a"],
        vec!["mcp", "add", "notes", "--npm", "../a"],
        vec!["mcp", "add", "notes", "--npm", "git+https://a.example/x", "--yes"],
        vec!["mcp", "add", "notes", "--npm", "a", "--with", "file:../x", "--yes"],
        vec!["mcp", "add", "notes", "--pypi", "a @ https://a.example/x.whl", "--yes"],
        vec!["mcp", "add", "notes", "--pypi", "a\n--index-url=http://a.example", "--yes"],
        vec!["mcp", "add", "notes", "--with", "a", "--", "x"],
        vec!["mcp", "add", "notes", "https://a.example/mcp", "--npm", "a"],
    ] {
        home.flock(&args).fails(2);
    }
    assert_eq!(servers(&home), Value::Null);
    home.flock(["mcp", "grant", "notes", "nobody", "--yes"]).fails(1);
    // Without a verb it is for agent programs, as before.
    let run = home.flock(["mcp"]).fails(2);
    assert!(run.stderr.contains("flock sets it for the programs it runs"), "{run:?}");
}

#[test]
fn a_package_that_is_not_there_is_named_with_the_command_that_mends() {
    let home = TempHome::new().init();
    home.flock(["mcp", "add", "notes", "--", "x"]).ok();
    let run = home.flock(["mcp", "update", "notes"]).fails(1);
    assert!(run.stderr.contains("has no package"), "{run:?}");
    home.flock(["mcp", "update", "nothing"]).fails(1);
    let mut config = home.config();
    config["plugins"]["entries"]["flock"]["config"]["mcpServers"]["notes"] = json!({
        "command": ["/usr/bin/python3", "/package/run.py", "a:main"],
        "package": {"source": "pypi", "name": "a", "version": "1.0", "lock": "ab".repeat(32)},
    });
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    let doctor = home.flock(["doctor", "--json"]);
    assert!(doctor.stdout.contains("flock mcp update notes --locked"), "{doctor:?}");
    let run = home.flock(["mcp", "update", "notes", "--locked"]).fails(1);
    assert!(run.stderr.contains("the lock of the MCP server notes is not there"), "{run:?}");
    let shown = home.flock(["mcp", "show", "notes"]).ok().stdout;
    assert!(
        shown.contains("a 1.0 from PyPI") && shown.contains("its package a==1.0 is not there"),
        "{shown}"
    );
    let run = home.flock(["mcp", "test", "notes"]).fails(1);
    assert!(run.stderr.contains("flock mcp update notes --locked"), "{run:?}");
    for (key, value) in [("source", "git"), ("name", "../a"), ("version", "latest"), ("lock", "x")] {
        let mut bad = config.clone();
        bad["plugins"]["entries"]["flock"]["config"]["mcpServers"]["notes"]["package"][key] = json!(value);
        std::fs::write(home.file("config.json"), bad.to_string()).unwrap();
        home.flock(["config", "validate"]).fails(1);
    }
}

#[test]
fn a_locked_package_comes_back_without_an_engine_and_no_other_archive_does() {
    let home = TempHome::new().init();
    let registry = PackageRegistry::start();
    registry.lock_test_server(&home);
    let variables = registry.variables();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let update = || home.flock_with_env(["mcp", "update", "notes", "--locked"], &variables);
    let packages = home.file("mcp/notes/packages");
    for evil in [
        b"no zip".to_vec(),
        zipped(&[("helper.py".to_owned(), "evil")]),
        zipped(&[("../x".to_owned(), "evil")]),
    ] {
        let honest = registry.swap("helper-1.0-py3-none-any.whl", evil);
        let run = update().fails(1);
        assert!(run.stderr.contains("helper==1.0 has another hash than it should"), "{run:?}");
        assert!(!packages.exists());
        registry.swap("helper-1.0-py3-none-any.whl", honest);
    }
    update().ok();
    assert_eq!(std::fs::read_to_string(packages.join("site/helper.py")).unwrap(), "one");
    let doctor = home.flock(["doctor", "--json"]);
    assert!(doctor.stdout.contains("1 MCP servers have what they need"), "{doctor:?}");
    for (name, change) in [("site/helper.py", "two"), ("site/new.py", "x"), ("run.py", "import os")] {
        std::fs::write(packages.join(name), change).unwrap();
        let doctor = home.flock(["doctor", "--json"]);
        assert!(doctor.stdout.contains("have been changed"), "{name}: {doctor:?}");
        update().ok();
        assert!(!home.flock(["doctor", "--json"]).stdout.contains("have been changed"), "{name}");
    }
    // A redirect is not followed, and an archive that is said to be too large is not read.
    std::fs::remove_dir_all(&packages).unwrap();
    let helper = "helper-1.0-py3-none-any.whl";
    registry.redirect(helper, &registry.address("/files/elsewhere"));
    let run = update().fails(1);
    assert!(run.stderr.contains("gave no usable answer") && run.stderr.contains("302"), "{run:?}");
    assert!(!registry.requests().contains(&"/files/elsewhere".to_owned()), "a redirect was followed");
    registry.redirect(helper, "");
    registry.announce(helper, 600 << 20);
    let run = update().fails(1);
    assert!(run.stderr.contains("larger than flock fetches"), "{run:?}");
    registry.announce(helper, 0);
    update().ok();
    // An address elsewhere on this machine is not asked, even if the pinned lock has it.
    registry.lock_elsewhere(&home);
    let run = update().fails(1);
    assert!(run.stderr.contains("does not come from PyPI"), "{run:?}");
    assert!(!registry.requests().iter().any(|path| path.contains("secret")), "{:?}", registry.requests());
    registry.lock_test_server(&home);
    // A lock that somebody changed counts for nothing.
    let pinned = servers(&home)["notes"]["package"]["lock"].as_str().unwrap().to_owned();
    let lock = home.file(format!("mcp/notes/locks/{pinned}.json"));
    let text = std::fs::read_to_string(&lock).unwrap();
    std::fs::write(&lock, text.replace("\"1.0\"", "\"1.1\"")).unwrap();
    std::fs::remove_dir_all(&packages).unwrap();
    let run = update().fails(1);
    assert!(run.stderr.contains("was changed"), "{run:?}");
    assert!(!packages.exists());
    assert!(
        std::fs::read_dir(home.file("mcp/notes"))
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with('.') })
    );
}

/// Answers the requests of a sign-in, and as an MCP server, on a port of its own until the test ends. Returns the address.
fn authorization_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let own = base.clone();
    std::thread::spawn(move || {
        let mut is_revoked = false;
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut length, mut token) = (String::new(), 0, String::new());
            reader.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
                    break;
                }
                if let Some(count) = line.to_lowercase().strip_prefix("content-length:") {
                    length = count.trim().parse().unwrap();
                }
                if let Some(value) = line.strip_prefix("authorization: Bearer ") {
                    value.trim().clone_into(&mut token);
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let body = String::from_utf8_lossy(&body);
            let path = first.split(' ').nth(1).unwrap_or_default();
            is_revoked |= path == "/revoke" && body.contains("sk-access");
            let (status, answer) = match path {
                "/.well-known/oauth-authorization-server" => (
                    "200 OK",
                    json!({"issuer": own, "authorization_endpoint": format!("{own}/authorize"),
                    "token_endpoint": format!("{own}/token"), "revocation_endpoint": format!("{own}/revoke"),
                    "scopes_supported": ["files"], "code_challenge_methods_supported": ["S256"]}),
                ),
                "/.well-known/oauth-protected-resource/mcp" => {
                    ("200 OK", json!({"resource": format!("{own}/mcp"), "authorization_servers": [own]}))
                }
                "/token" if body.contains("code=good") => {
                    ("200 OK", json!({"access_token": "sk-access", "token_type": "Bearer"}))
                }
                "/token" => ("400 Bad Request", json!({"error": "invalid_grant"})),
                "/revoke" => ("200 OK", Value::Null),
                "/mcp" if token != "sk-access" || is_revoked => ("401 Unauthorized", Value::Null),
                "/mcp" => {
                    let message: Value = serde_json::from_str(&body).unwrap_or_default();
                    let result = match message["method"].as_str().unwrap_or_default() {
                        "initialize" => {
                            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "far", "version": "1"}})
                        }
                        _ => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
                    };
                    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                    if message["id"].is_null() { ("202 Accepted", Value::Null) } else { ("200 OK", answer) }
                }
                _ => ("404 Not Found", Value::Null),
            };
            let text = if status.starts_with("202") { String::new() } else { answer.to_string() };
            let head = format!(
                "HTTP/1.1 {status}\r\nwww-authenticate: Bearer scope=\"files\"\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n",
                text.len()
            );
            drop(stream.write_all((head + &text).as_bytes()));
        }
    });
    base
}

/// Returns a parameter of the address that a person opens.
fn part(address: &str, name: &str) -> String {
    let start = address.find(&format!("{name}=")).unwrap() + name.len() + 1;
    address[start..].split('&').next().unwrap().replace("%3A", ":").replace("%2F", "/")
}

#[test]
fn a_person_signs_in_with_a_browser_and_signs_out() {
    let home = TempHome::new().init();
    let base = authorization_server();
    home.flock(["mcp", "add", "far", &format!("{base}/mcp"), "--allow-local"]).ok();
    home.flock(["mcp", "add", "notes", "--", "x"]).ok();
    home.flock(["mcp", "add", "keyed", &format!("{base}/mcp"), "--allow-local", "--header", "Authorization"])
        .ok();
    home.flock(["mcp", "login", "notes"]).fails(2);
    home.flock(["mcp", "login", "keyed"]).fails(2);
    home.flock(["mcp", "login", "nobody"]).fails(1);
    let run = home.flock(["mcp", "test", "far"]).fails(1);
    assert!(run.stderr.contains("flock mcp login far"), "{run:?}");
    let mut login = home
        .command()
        .args(["mcp", "login", "far", "--client-id", "c-1", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(login.stdout.take().unwrap()).lines();
    let open: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((open["authorizationServer"].as_str(), &open["scopes"]), (Some(&*base), &json!(["files"])));
    let address = open["open"].as_str().unwrap();
    assert!(address.starts_with(&format!("{base}/authorize?")), "{address}");
    assert_eq!(part(address, "client_id"), "c-1");
    let (back, state) = (part(address, "redirect_uri"), part(address, "state"));
    let host = back.strip_prefix("http://").unwrap().split('/').next().unwrap();
    // A browser opens connections that it does not use, and other pages can make it visit this port. They end nothing.
    let silent = TcpStream::connect(host).unwrap();
    for (target, status) in [
        ("/favicon.ico".to_owned(), "404"),
        ("/callback?code=good&state=forged".to_owned(), "400"),
        ("/callback?error=access_denied&state=forged".to_owned(), "400"),
        (format!("/callback?code=good&state={state}"), "200"),
    ] {
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        assert!(page.starts_with(&format!("HTTP/1.1 {status}")), "{target}: {page}");
    }
    let end: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(end, json!({"server": "far", "signedIn": true}));
    assert!(login.wait().unwrap().success());
    drop(silent);
    let tokens = home.file("secrets/mcp-far.oauth");
    assert!(std::fs::read_to_string(&tokens).unwrap().contains("sk-access"));
    for args in [
        vec!["mcp", "test", "far", "--json"],
        vec!["mcp", "show", "far"],
        vec!["mcp", "show", "far", "--json"],
        vec!["mcp", "list", "--json"],
        vec!["audit", "--json"],
        vec!["audit"],
    ] {
        let run = home.flock(&args).ok();
        assert!(!run.stdout.contains("sk-access") && !run.stderr.contains("sk-access"), "{run:?}");
    }
    assert!(home.flock(["mcp", "show", "far"]).ok().stdout.contains("signed in"));
    assert!(home.flock(["audit"]).ok().stdout.contains("mcp.login"));
    // The server takes the token back, and gave none to renew it.
    let text = std::fs::read_to_string(&tokens).unwrap();
    std::fs::write(&tokens, text.replace("sk-access", "sk-former")).unwrap();
    let run = home.flock(["mcp", "test", "far"]).fails(1);
    assert!(run.stderr.contains("flock mcp login far") && !run.stderr.contains("sk-former"), "{run:?}");
    assert_eq!(home.flock(["mcp", "show", "far", "--json"]).ok().json()["server"]["signIn"], "expired");
    assert!(home.flock(["mcp", "list"]).ok().stdout.contains("sign-in expired"));
    let doctor = home.flock(["doctor", "--json"]);
    assert!(doctor.stdout.contains("flock mcp login far"), "{doctor:?}");
    std::fs::write(&tokens, text).unwrap();
    let run = home.flock(["mcp", "logout", "far", "--json"]).ok();
    assert_eq!(run.json(), json!({"server": "far", "was": true, "revocation": "done"}));
    assert!(!tokens.exists());
    let run = home.flock(["mcp", "logout", "far", "--json"]).ok();
    assert_eq!(run.json(), json!({"server": "far", "was": false, "revocation": null}));
}

#[test]
fn a_person_without_a_browser_here_pastes_the_address() {
    let home = TempHome::new().init();
    let base = authorization_server();
    home.flock(["mcp", "add", "far", &format!("{base}/mcp"), "--allow-local"]).ok();
    let args = ["mcp", "login", "far", "--client-id", "c-1", "--paste"];
    home.flock_with_input(args, "").fails(2);
    home.flock_with_input(["mcp", "login", "far", "--client-id", "c-1", "--paste", "--client-secret"], "x")
        .fails(2);
    home.flock(["mcp", "login", "far", "--client-secret"]).fails(2);
    let mut login = home
        .command()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(login.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let (back, state) = (part(&address, "redirect_uri"), part(&address, "state"));
    let host = back.strip_prefix("http://").unwrap().split('/').next().unwrap();
    assert!(TcpStream::connect(host).is_err(), "no port is open");
    let state = state.trim();
    let mut input = login.stdin.take().unwrap();
    write!(input, "https://other.example/\n{back}?code=good&state=forged\n{back}?code=good&state={state}\n")
        .unwrap();
    let mut said = String::new();
    login.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(login.wait().unwrap().success(), "{said}");
    assert_eq!(said.matches("begins with").count(), 2, "{said}");
    assert!(home.file("secrets/mcp-far.oauth").exists());
    // The removal of a server ends its sign-in, too.
    home.flock(["mcp", "remove", "far", "--yes"]).ok();
    assert!(!home.file("secrets/mcp-far.oauth").exists());
}
