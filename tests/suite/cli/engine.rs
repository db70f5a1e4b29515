//! `flock engine` without an engine of Docker: what is refused, what is shown, and which certificates are kept. `docker::engines` has
//! the rest.

use std::io::{Read, Write as _};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use serde_json::{Value, json};

use crate::support::extra_engine::tls_file;
use crate::support::home::TempHome;

#[test]
fn the_machines_own_engine_is_always_there_and_needs_no_entry() {
    let home = TempHome::new().init();
    let before = home.config_text();
    let listed = home.flock(["engine", "list", "--json"]).ok().json();
    let engines = listed["engines"].as_array().unwrap();
    assert_eq!(engines.len(), 1, "{listed:#}");
    assert_eq!((&engines[0]["name"], &engines[0]["reachable"]), (&"local".into(), &false.into()));
    assert!(engines[0]["problem"].as_str().unwrap().starts_with("the Docker engine at"), "{listed:#}");
    let table = home.flock(["engine", "list"]).ok().stdout;
    assert!(table.contains("local") && table.contains("does not answer"), "{table}");
    let shown = home.flock(["engine", "show", "local", "--check"]).fails(1).stdout;
    assert!(shown.contains("FAILED"), "{shown}");
    let run = home.flock(["engine", "remove", "local"]).fails(2);
    assert!(run.stderr.contains("flock engine drain local"), "{run:?}");
    assert_eq!(home.config_text(), before);
}

#[test]
fn commands_show_what_they_know_without_the_server_of_the_database() {
    let home = TempHome::new().init();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let place = format!(r#"{{"postgres": "postgres://flock@127.0.0.1:{port}/flock?sslmode=disable"}}"#);
    std::fs::write(home.file("store.json"), place).unwrap();
    let parts = |said: &Value| -> Vec<String> {
        let unread = said["unread"].as_array().unwrap().iter();
        unread.map(|unread| unread["part"].as_str().unwrap().to_owned()).collect()
    };
    let engines = home.flock(["engine", "list", "--json"]).fails(12).json();
    assert_eq!(parts(&engines), ["placements"], "{engines:#}");
    assert_eq!(
        (&engines["engines"][0]["name"], &engines["engines"][0]["agents"]),
        (&"local".into(), &Value::Null)
    );
    let table = home.flock(["engine", "list"]).fails(12);
    assert!(table.stdout.contains("not known") && table.stderr.contains("placements"), "{table:?}");
    let agents = home.flock(["list", "--json"]).fails(12).json();
    assert_eq!(parts(&agents), ["freezes", "sleep"], "{agents:#}");
    assert_eq!(agents["agents"][0]["id"], "orchestrator");
    let status = home.flock(["status", "--json"]).fails(4).json();
    assert_eq!(parts(&status), ["freezes", "sleep", "approvals", "placements"], "{status:#}");
    let doctor = home.flock(["doctor", "--json"]).fails(1).json();
    let checks = doctor["checks"].as_array().unwrap().iter();
    let names_it =
        |check: &&Value| check["message"].as_str().unwrap().contains("failed to connect to the database");
    let told: Vec<&Value> = checks.filter(names_it).map(|check| &check["name"]).collect();
    assert_eq!(told, ["database"], "{doctor:#}");
    let refused = home.flock(["add", "coder", "--no-container"]).fails(12).stderr;
    assert!(refused.contains("failed to connect to the database"), "{refused}");
}

#[test]
fn an_engine_that_cannot_be_used_is_refused_by_what_is_wrong() {
    let home = TempHome::new().init();
    let before = home.config_text();
    let nowhere = format!("unix://{}", home.file("nothing.sock").display());
    for (args, code, words) in [
        (vec!["second", "tcp://10.0.0.1:2376"], 2, "needs --ca, --cert and --key"),
        (vec!["second", "http://gpu.invalid"], 2, "flock uses none without"),
        (vec!["second", "/run/docker.sock"], 2, "must be the address of an engine"),
        (vec!["second", &nowhere, "--labels", "a b"], 2, "is not a label"),
        (vec!["second", &nowhere, "--memory", "much"], 2, "is not a size"),
        (vec!["second", &nowhere], 6, "its socket is not there"),
        (vec!["local", &nowhere], 2, "local is the machine's own engine"),
    ] {
        let run = home.flock([&["engine", "add"], &args[..]].concat()).fails(code);
        assert!(run.stderr.contains(words) && run.stderr.contains("hint: "), "{args:?}: {run:?}");
    }
    let run = home.flock(["engine", "show", "second"]).fails(1);
    assert!(run.stderr.contains("there is no engine second"), "{run:?}");
    assert_eq!(home.config_text(), before);
}

#[test]
fn status_says_without_a_gateway_what_becomes_of_an_engine_and_of_files_that_are_gone() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let nowhere = json!({"address": format!("unix://{}", home.file("nothing.sock").display())});
    home.flock(["config", "set", "plugins.entries.flock.config.engines.far", &nowhere.to_string()]).ok();
    // An engine that is gone may come back, or a person gives it up.
    let run = home.flock(["status"]).fails(4);
    assert!(run.stderr.contains("; to give it up: flock engine remove far --force"), "{run:?}");
    assert!(!run.stderr.contains("not back yet"), "{run:?}");

    let folder = home.file("agents/coder/checkpoints");
    std::fs::create_dir_all(&folder).unwrap();
    let given_up = json!({"id": "ab12", "at": 7, "by": "human:ann", "to": 3, "files": null,
        "conversations": [], "lost": "lost"});
    std::fs::write(folder.join("rewind.json"), given_up.to_string()).unwrap();
    let text = "the files of coder, which were in the engine lost, are not back yet; to mend it: \
                flock checkpoint coder";
    let run = home.flock(["status"]).fails(4);
    assert!(run.stderr.contains(text), "{run:?}");
    let status = home.flock(["status", "--json"]).fails(4).json();
    assert!(status["warnings"].as_array().unwrap().iter().any(|warning| warning == text), "{status:#}");
}

/// Reads the head of a request.
fn read_head(stream: &mut impl Read) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(())
}

/// Starts what answers as an engine with TLS does, to clients with a certificate of `authority.pem`. Returns its port. It ends with
/// the test's process.
fn tls_engine() -> u16 {
    let certificates = |name: &str| -> Vec<CertificateDer<'static>> {
        let text = std::fs::read(tls_file(name)).unwrap();
        CertificateDer::pem_slice_iter(&text).map(Result::unwrap).collect()
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(certificates("authority.pem"));
    let verifier = WebPkiClientVerifier::builder_with_provider(authorities.into(), Arc::clone(&provider));
    let verifier = verifier.build().unwrap();
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::from_pem_slice(&std::fs::read(tls_file("server.key")).unwrap()).unwrap();
    let config = config.with_client_cert_verifier(verifier).with_single_cert(certificates("server.pem"), key);
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut tls = rustls::Stream::new(&mut connection, &mut stream);
            if read_head(&mut tls).is_ok() {
                let _ = tls.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK");
            }
            // A socket that is closed with something unread in it is reset, and the refusal could be lost with that.
            let _ = stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    port
}

/// Gives a home an engine by the configuration alone, which makes no check.
fn set_engine(home: &TempHome, name: &str, engine: &Value) {
    let path = format!("plugins.entries.flock.config.engines.{name}");
    home.flock(["config", "set", &path, &engine.to_string()]).ok();
}

#[test]
fn certificates_that_an_engine_does_not_take_replace_none_that_it_takes() {
    let home = TempHome::new().init();
    // The database is there from the first channel on, and with it the audit.
    home.flock(["channel", "create", "work", "--topic", "the work"]).ok();
    let place = format!("127.0.0.1:{}", tls_engine());
    set_engine(&home, "near", &json!({"address": format!("tcp://{place}")}));
    let renew = |files: &[(&str, &str)]| {
        let files = files.iter().flat_map(|(option, name)| [(*option).to_owned(), tls_file(name)]);
        home.flock(["engine", "renew", "near"].into_iter().map(str::to_owned).chain(files))
    };
    let kept = || {
        let one = |part: &str| std::fs::read_to_string(home.file(format!("secrets/engine-near.{part}.pem")));
        ["ca", "cert", "key"].map(|part| one(part).ok())
    };
    let authority = ("--ca", "authority.pem");
    let key = ("--key", "client.key");
    let expired = format!("{place} refuses the certificate of this home: it has expired");

    // Without former ones, none is kept.
    let run = renew(&[authority, ("--cert", "client-expired.pem"), key]).fails(6);
    let text = "engine near did not take the new ca, cert, key, so nothing was stored";
    assert!(run.stderr.contains(text) && run.stderr.contains(&expired), "{run:?}");
    assert!(kept().iter().all(Option::is_none));

    let run = renew(&[authority, ("--cert", "client.pem"), key]).ok();
    assert!(run.stdout.contains("answers with the new certificates"), "{run:?}");
    let former = kept();
    assert!(former.iter().all(Option::is_some));
    let renewals = || home.audited_of_people("engine.renew");
    assert_eq!(renewals(), ["near: ca, cert, key"]);

    let again = "flock engine renew near --ca CA.pem --cert CERT.pem --key KEY.pem";
    for (given, new, why) in [
        (&[("--cert", "client-expired.pem")][..], "cert", expired.as_str()),
        (&[("--cert", "client-stranger.pem"), key][..], "cert, key", "another authority has signed it"),
        (&[("--ca", "another.pem")][..], "ca", "is not signed by the given authority"),
    ] {
        let run = renew(given).fails(6);
        let text = format!("engine near did not take the new {new}, so the former ones are still used");
        assert!(run.stderr.contains(&text) && run.stderr.contains(why), "{run:?}");
        assert!(run.stderr.contains(again), "{run:?}");
        assert_eq!(kept(), former, "{given:?}");
    }
    renew(&[]).fails(2);
    assert_eq!(renewals(), ["near: ca, cert, key"]);

    // One of them alone is used with the former ones.
    renew(&[("--cert", "client.pem")]).ok();
    assert_eq!(kept(), former);
    assert_eq!(renewals(), ["near: cert", "near: ca, cert, key"]);
}

#[test]
fn an_access_is_not_kept_if_its_cluster_does_not_answer() {
    let home = TempHome::new().init();
    home.flock(["channel", "create", "work", "--topic", "the work"]).ok();
    let cluster = json!({"address": "k8s://work/flock", "image": "registry.invalid/sandbox:1"});
    set_engine(&home, "far", &cluster);
    let kubeconfig = home.file("kubeconfig.json");
    let contexts = json!([{"name": "work", "context": {"cluster": "c", "user": "u"}}]);
    let clusters = json!([{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}]);
    let users = json!([{"name": "u", "user": {"token": "a-token-of-the-test"}}]);
    let text = json!({"contexts": contexts, "clusters": clusters, "users": users}).to_string();
    std::fs::write(&kubeconfig, text).unwrap();
    let renew = || home.flock(["engine", "renew", "far", "--kubeconfig", kubeconfig.to_str().unwrap()]);
    let run = renew().fails(6);
    let text = "the cluster far did not take the new access, so nothing was stored";
    assert!(run.stderr.contains(text) && !run.stderr.contains("a-token-of-the-test"), "{run:?}");
    let secret = home.file("secrets/engine-far.cluster");
    assert!(!secret.exists());
    std::fs::write(&secret, "the former one").unwrap();
    let run = renew().fails(6);
    assert!(run.stderr.contains("so the former one is still used"), "{run:?}");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "the former one");
    assert!(home.audited("engine.renew").is_empty());
}
