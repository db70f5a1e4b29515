use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::super::derive::{MachineFacts, derive};
use super::super::schema::ConfigSchema;
use super::*;
use crate::config::agents::{NewAgent, add};
use crate::config::{Role, parse, starter};
use crate::sandbox::spec::SandboxUser;

/// A home with an agent on OpenClaw, and a fake program that answers as a script file says.
struct Fixture {
    _dir: tempfile::TempDir,
    home: Home,
    program: OpenClawProgram,
}

impl Fixture {
    fn new(version: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().canonicalize().unwrap().join("home"), None);
        home.make_folders().unwrap();
        let entry = dir.path().join("openclaw.mjs");
        let program = OpenClawProgram { node: "/bin/sh".into(), entry, version: version.to_owned() };
        let bench = Self { _dir: dir, home, program };
        bench.says("echo '{\"valid\":true}'");
        bench
    }

    /// Sets the program's script. The program records each time that it is asked.
    fn says(&self, script: &str) {
        let asked = self.calls_file();
        let text = format!(
            "echo \"$@ $FLOCK_OPENCLAW_TOKEN $FLOCK_PROVIDER_KEY_LAB\" >> {}\ntest -s \"$OPENCLAW_CONFIG_PATH\" || exit 9\n{script}\n",
            asked.display()
        );
        std::fs::write(&self.program.entry, text).unwrap();
    }

    /// Makes another build of the same version that runs the first one's current script.
    fn other_build(&self, name: &str) -> OpenClawProgram {
        let entry = self.program.entry.with_file_name(name).join("openclaw.mjs");
        std::fs::create_dir(entry.parent().unwrap()).unwrap();
        std::fs::copy(&self.program.entry, &entry).unwrap();
        OpenClawProgram { entry, ..self.program.clone() }
    }

    fn calls_file(&self) -> std::path::PathBuf {
        self.program.entry.with_file_name("asked")
    }

    fn asked(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.calls_file()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn config(&self, agents: &[&str]) -> (serde_json::Value, Config) {
        let mut document = starter::document(&self.home, None, "owners-token", 4000);
        document["models"] =
            json!({"providers": {"lab": {"baseUrl": "http://127.0.0.1:1/v1", "apiKey": "secret:lab"}}});
        for id in agents {
            let mut agent = NewAgent::new(id.parse().unwrap(), Role::Worker);
            agent.runtime = "openclaw".to_owned();
            agent.model = Some("lab/x".parse().unwrap());
            add(&mut document, &self.home, &agent).unwrap();
        }
        let config = parse::config(&document, &self.home).unwrap();
        (document, config)
    }

    fn derived(&self, agents: &[&str]) -> DerivedConfig {
        let (document, config) = self.config(agents);
        let facts = MachineFacts {
            port: 3790,
            image: "image".to_owned(),
            user: SandboxUser { uid: 1, gid: 1 },
            users: std::collections::BTreeMap::new(),
            cores: 1,
            engine_socket: None,
            store: None,
            plugin: self.home.extension("flock"),
            plugin_settings: json!({}),
            hooks: identity::hooks(&self.home),
            mounts: BTreeMap::new(),
        };
        derive(&self.home, &document, &config, ConfigSchema::of(&self.program.version), &facts).unwrap()
    }

    fn there(&self) -> String {
        std::fs::read_to_string(self.home.openclaw_config()).unwrap()
    }
}

/// Puts a configuration in place and confirms the cleanup that it asks for.
async fn put(
    home: &Home,
    derived: &DerivedConfig,
    program: &OpenClawProgram,
) -> Result<ApplyOutcome, OpenClawError> {
    let put = super::put(home, derived, program).await?;
    if put == ApplyOutcome::Sandboxes {
        cleared(home).unwrap();
    }
    Ok(put)
}

#[tokio::test]
async fn stale_sandboxes_are_reported_until_they_are_cleared() {
    let bench = Fixture::new("2026.9.6");
    let one = bench.derived(&["coder"]);
    for _ in 0..2 {
        assert_eq!(super::put(&bench.home, &one, &bench.program).await.unwrap(), ApplyOutcome::Sandboxes);
    }
    let two = bench.derived(&["coder", "tester"]);
    assert_eq!(super::put(&bench.home, &two, &bench.program).await.unwrap(), ApplyOutcome::Sandboxes);
    cleared(&bench.home).unwrap();
    assert_eq!(super::put(&bench.home, &two, &bench.program).await.unwrap(), ApplyOutcome::Same);
}

#[tokio::test]
async fn an_accepted_config_is_applied_and_checked_once() {
    let bench = Fixture::new("2026.9.6");
    let one = bench.derived(&["coder"]);
    assert_eq!(
        put(&bench.home, &one, &bench.program).await.unwrap(),
        ApplyOutcome::Sandboxes,
        "nothing is known"
    );
    assert!(bench.there().contains("\"coder\""));
    let mode = std::fs::metadata(bench.home.openclaw_config()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(put(&bench.home, &one, &bench.program).await.unwrap(), ApplyOutcome::Same);
    assert_eq!(bench.asked(), ["config validate --json not-the-token not-the-key"]);
    // A file that the program overwrote is restored, and that is no change of the configuration.
    std::fs::write(bench.home.openclaw_config(), "{}").unwrap();
    assert_eq!(put(&bench.home, &one, &bench.program).await.unwrap(), ApplyOutcome::Same);
    assert!(bench.there().contains("\"coder\""));
    assert_eq!(bench.asked().len(), 1);
    // Another build is asked again, even if it has the same version.
    let newer = bench.other_build("newer");
    assert_eq!(put(&bench.home, &one, &newer).await.unwrap(), ApplyOutcome::Same);
    assert_eq!(bench.asked().len(), 2);
    let two = bench.derived(&["coder", "tester"]);
    assert_eq!(put(&bench.home, &two, &newer).await.unwrap(), ApplyOutcome::Changed);
    let left: Vec<String> = std::fs::read_dir(bench.home.openclaw_versions())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(identity::hooks(&bench.home).join("flock-identity/handler.js").is_file());
}

#[tokio::test]
async fn a_rejected_config_never_replaces_an_accepted_one() {
    let bench = Fixture::new("2026.2.9");
    put(&bench.home, &bench.derived(&["coder"]), &bench.program).await.unwrap();
    let good = bench.there();
    bench.says("echo '- agents.list.0: Unrecognized key: \"x\"' >&2; exit 1");
    let two = bench.derived(&["coder", "tester"]);
    let error = put(&bench.home, &two, &bench.program).await.unwrap_err();
    assert!(matches!(&error, OpenClawError::Invalid { problems, .. } if problems.len() == 1), "{error:?}");
    assert!(error.to_string().contains("agents.list.0"), "{error}");
    assert_eq!(bench.there(), good);
    bench.says("echo 'Segmentation fault'; exit 139");
    let error = put(&bench.home, &two, &bench.program).await.unwrap_err();
    assert!(matches!(&error, OpenClawError::Unchecked { reason, .. } if reason.contains("Segmentation")));
    assert_eq!(bench.there(), good);
    let nowhere = OpenClawProgram { node: "/nowhere/node".into(), ..bench.program.clone() };
    assert!(matches!(put(&bench.home, &two, &nowhere).await, Err(OpenClawError::Unchecked { .. })));
    assert_eq!(bench.there(), good);
    let left =
        std::fs::read_dir(bench.home.openclaw_versions()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with("candidate-")));
    assert!(bench.asked()[0].starts_with("config get gateway.mode "));
    // After the fix, the same configuration is asked about again.
    bench.says("echo local");
    assert_eq!(put(&bench.home, &two, &bench.program).await.unwrap(), ApplyOutcome::Changed);
    assert_ne!(bench.there(), good);
}

#[tokio::test]
async fn a_config_with_a_new_key_waits_for_the_next_start() {
    let bench = Fixture::new("2026.2.9");
    put(&bench.home, &bench.derived(&["coder"]), &bench.program).await.unwrap();
    let before = bench.there();
    let pid_file = bench.home.pid_file("openclaw");
    std::fs::write(&pid_file, format!("{}\n", crate::process::ProcessId::current())).unwrap();
    let mut more = bench.derived(&["coder", "tester"]);
    more.keys.push(ProviderKey {
        provider: "new".into(),
        variable: "FLOCK_PROVIDER_KEY_NEW".into(),
        needed: true,
    });
    assert_eq!(put(&bench.home, &more, &bench.program).await.unwrap(), ApplyOutcome::AtNextStart);
    assert_eq!(bench.there(), before);
    // Without a new key, a configuration is taken up while the program runs.
    let mut other = bench.derived(&["coder", "tester"]);
    assert_eq!(
        put(&bench.home, &other, &bench.program).await.unwrap(),
        ApplyOutcome::Changed,
        "one more agent"
    );
    other.document["agents"]["list"][0]["sandbox"]["docker"]["network"] = json!("none-of-before");
    assert_eq!(
        put(&bench.home, &other, &bench.program).await.unwrap(),
        ApplyOutcome::Sandboxes,
        "another sandbox"
    );
    let other = bench.derived(&["tester"]);
    assert_eq!(
        put(&bench.home, &other, &bench.program).await.unwrap(),
        ApplyOutcome::Sandboxes,
        "one agent less"
    );
    std::fs::remove_file(&pid_file).unwrap();
    assert_eq!(put(&bench.home, &more, &bench.program).await.unwrap(), ApplyOutcome::Changed);
    assert!(bench.there().contains("\"coder\""));
}

#[tokio::test]
async fn a_candidate_is_checked_once_without_replacing_the_config() {
    let bench = Fixture::new("2026.9.6");
    let one = bench.derived(&["coder"]);
    put(&bench.home, &one, &bench.program).await.unwrap();
    let before = bench.there();
    let newer = bench.other_build("newer");
    let two = bench.derived(&["coder", "tester"]);
    check_candidate(&bench.home, &two, &newer).await.unwrap();
    assert_eq!((bench.there(), bench.asked().len()), (before.clone(), 2));
    let pid_file = bench.home.pid_file("openclaw");
    std::fs::write(&pid_file, format!("{}\n", crate::process::ProcessId::current())).unwrap();
    assert_eq!(put(&bench.home, &two, &newer).await.unwrap(), ApplyOutcome::AtNextStart);
    assert_eq!(bench.there(), before, "the older one does not read it");
    std::fs::remove_file(&pid_file).unwrap();
    assert_eq!(put(&bench.home, &two, &newer).await.unwrap(), ApplyOutcome::Changed);
    assert_eq!(bench.asked().len(), 2, "it took it already");
    // Another build and another configuration are both asked about.
    let elsewhere = bench.other_build("elsewhere");
    put(&bench.home, &two, &elsewhere).await.unwrap();
    put(&bench.home, &one, &newer).await.unwrap();
    assert_eq!(bench.asked().len(), 4);
    bench.says("echo '- agents: Unrecognized key: \"x\"' >&2; exit 1");
    let third = bench.other_build("third");
    let error = check_candidate(&bench.home, &bench.derived(&["tester"]), &third).await.unwrap_err();
    assert!(matches!(error, OpenClawError::Invalid { .. }), "{error:?}");
}

#[test]
fn the_environment_has_only_the_keys_of_used_models() {
    let bench = Fixture::new("2026.9.6");
    let (_, config) = bench.config(&["coder"]);
    let keys = bench.derived(&["coder"]).keys;
    let error = environment(&bench.home, &config, &keys).unwrap_err();
    assert!(matches!(&error, OpenClawError::NoKey { provider, .. } if provider == "lab"), "{error:?}");
    secret::set(&bench.home, "lab", "the-key").unwrap();
    secret::set(&bench.home, "other", "another-key").unwrap();
    let found = environment(&bench.home, &config, &keys).unwrap();
    let token = token(&bench.home).unwrap();
    assert_eq!(token.len(), 64);
    assert_eq!(
        found,
        [
            ("FLOCK_OPENCLAW_TOKEN".to_owned(), token.clone()),
            ("FLOCK_PROVIDER_KEY_LAB".to_owned(), "the-key".to_owned())
        ]
    );
    assert_eq!(super::token(&bench.home).unwrap(), token, "it is made once");
    let mode = std::fs::metadata(bench.home.secrets().join(TOKEN)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_role_is_written_to_its_own_file() {
    let bench = Fixture::new("2026.9.6");
    let id = "coder".parse().unwrap();
    identity::set_role(&bench.home, &id, "You work.").unwrap();
    identity::set_role(&bench.home, &id, "You work.").unwrap();
    let file = bench.home.openclaw_versions().join("roles/coder.md");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "You work.");
}
