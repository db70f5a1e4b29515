//! The machine's engine for tests, and images that all suites share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use flock::config::{Agent, Autonomy, Config, DockerSettings, Role, SandboxMode};
use flock::home::Home;
use flock::sandbox::engine::Engine;
use flock::sandbox::image;

/// The engine, or `None` after saying why a test does not run. Under `FLOCK_TEST_REQUIRE_DOCKER=1` a missing
/// engine is a failure.
pub fn engine() -> Option<Arc<Engine>> {
    static STATE: OnceLock<Result<(), String>> = OnceLock::new();
    let engine = Arc::new(Engine::from_env());
    let state = STATE.get_or_init(|| {
        block_on(async { Engine::from_env().version().await })
            .map(drop)
            .map_err(|error| flock::error::chain(&error))
    });
    match state {
        Ok(()) => Some(engine),
        Err(why) if std::env::var("FLOCK_TEST_REQUIRE_DOCKER").is_ok_and(|value| value == "1") => {
            panic!("FLOCK_TEST_REQUIRE_DOCKER=1 and no engine: {why}")
        }
        Err(why) => {
            eprintln!("not run, no engine: {why}");
            None
        }
    }
}

/// As [`engine`], with both images made, once for the whole run. They keep a tag of the tests' own, so that
/// the homes of tests take them over at once and a later run finds them.
pub fn engine_with_images() -> Option<Arc<Engine>> {
    static READY: OnceLock<()> = OnceLock::new();
    let engine = engine()?;
    READY.get_or_init(|| {
        block_on(async {
            let keeper = Home::new(PathBuf::from("/flock-test-images"), None);
            let config = config(Vec::new());
            let engine = Engine::from_env();
            image::ensure_images(&engine, &keeper, &config, &|_| {}).await
        })
        .unwrap();
    });
    Some(engine)
}

/// A configuration of these agents.
pub fn config(agents: Vec<Agent>) -> Config {
    Config {
        agents,
        port: 0,
        token: String::new(),
        providers: BTreeMap::new(),
        nix_flake: None,
        nix_image: None,
        sandbox_image: None,
        max_agents: 20,
    }
}

/// A sandboxed worker of this home.
pub fn worker(home: &Home, id: &str) -> Agent {
    let id: flock::id::AgentId = id.parse().unwrap();
    Agent {
        role: Role::Worker,
        archetype: None,
        runtime: "native".to_owned(),
        model: None,
        workspace: home.workspace(&id),
        sandbox: SandboxMode::All,
        autonomy: Autonomy::Supervised,
        allow: Vec::new(),
        profile: None,
        deny: Vec::new(),
        docker: DockerSettings::default(),
        id,
    }
}

/// Runs a future to its end on a runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}
