//! The machine's engine for tests, and images that all suites share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use flock::config::{Agent, Autonomy, CommandPolicy, Config, DockerSettings, Role, SandboxMode, SkillsMode};
use flock::home::Home;
use flock::sandbox::engine::Engine;
use flock::sandbox::{SandboxError, containers, image, volumes};

/// Returns `true` if a test that does not run is a failure.
pub fn is_required() -> bool {
    std::env::var("FLOCK_TEST_REQUIRE_DOCKER").is_ok_and(|value| value == "1")
}

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
        Err(why) if is_required() => {
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
        agents: agents.into(),
        port: 0,
        token: String::new(),
        chat_completions: true,
        responses: true,
        providers: BTreeMap::new(),
        bedrock_region: None,
        nix_flake: None,
        nix_image: None,
        sandbox_image: None,
        budgets: flock::config::Budgets::default(),
        channel_readers: flock::config::ChannelReaders::default(),
        max_agents: 20,
        max_turns: 8,
        mount_roots: Vec::new(),
        egress_ask: flock::config::EgressApprover::Person,
        approvers: Vec::new(),
        approvals: Default::default(),
        trusted_origins: Vec::new(),
        peer_address: None,
        oidc: None,
        otlp: None,
        blobs: None,
        image_side: 1200,
        turn_time: None,
        quota_patience: std::time::Duration::from_secs(120),
        approval_time: std::time::Duration::from_secs(86_400),
        packages_per_day: 20,
        retention: flock::config::Retention::default(),
        generations: flock::config::KeptGenerations::default(),
        openclaw: Default::default(),
        compaction: flock::config::Compaction::default(),
        checkpoints: flock::config::CheckpointSettings::default(),
        race_idle: std::time::Duration::from_secs(120),
        hook_origins: Vec::new(),
        schedule_distance: std::time::Duration::from_secs(3600),
        bridges: Vec::new(),
        projects: Vec::new(),
        mcp_servers: Vec::new(),
        engines: Vec::new(),
    }
}

/// A sandboxed worker of this home.
pub fn worker(home: &Home, id: &str) -> Agent {
    let id: flock::id::AgentId = id.parse().unwrap();
    Agent {
        role: Role::Worker,
        archetype: None,
        runtime: "native".to_owned(),
        on_host: false,
        model: None,
        fallbacks: Vec::new(),
        workspace: home.workspace(&id),
        identity: home.identity(&id),
        sandbox: SandboxMode::All,
        autonomy: Autonomy::Supervised,
        effort: None,
        allow: Vec::new(),
        profile: None,
        deny: Vec::new(),
        network: flock::config::Network::None,
        egress: Vec::new(),
        docker: DockerSettings::default(),
        policy: CommandPolicy::default(),
        persona: None,
        avatar: None,
        skills: SkillsMode::Compact,
        language: None,
        has_project: false,
        labels: Vec::new(),
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

/// A home with agents and their sandboxes in the real engine. Everything it made is gone when it is dropped.
pub struct Team {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The home, in a folder of its own.
    pub home: Home,
    /// Its configuration; change it with [`Team::configure`].
    config: Arc<std::sync::RwLock<Arc<Config>>>,
    _folder: tempfile::TempDir,
}

impl Team {
    /// A home with these agents, or `None` without an engine.
    pub fn new(agents: &[&str]) -> Option<Self> {
        Self::in_engine(engine_with_images()?, agents)
    }

    /// The same in this engine.
    pub fn in_engine(engine: Arc<Engine>, agents: &[&str]) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("flock-test-").tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("home");
        let home = Home::new(root, None);
        home.make_folders().unwrap();
        let config = config(agents.iter().map(|id| worker(&home, id)).collect());
        block_on(image::ensure_images(&engine, &home, &config, &|_| {})).unwrap();
        let config = Arc::new(std::sync::RwLock::new(Arc::new(config)));
        Some(Self { engine, home, config, _folder: folder })
    }

    /// Changes the configuration.
    pub fn configure(&self, change: impl FnOnce(&mut Config)) {
        let mut config = self.config.write().unwrap();
        change(Arc::make_mut(&mut config));
    }

    /// Where the configuration is read from.
    pub fn source(&self) -> flock::sandbox::docker::ConfigSource {
        let config = Arc::clone(&self.config);
        Arc::new(move || Arc::clone(&config.read().unwrap()))
    }

    /// A gateway's view of the sandboxes; several at once are several processes, one after the other.
    pub fn sandbox(&self) -> flock::sandbox::docker::DockerSandbox {
        flock::sandbox::docker::DockerSandbox::new(self.home.clone(), self.source(), Arc::clone(&self.engine))
    }

    /// The store.
    pub fn store(&self) -> flock::nix_store::PackageStore {
        flock::nix_store::PackageStore::new(self.home.clone(), self.source(), Arc::clone(&self.engine))
    }

    /// The name of an agent's container.
    pub fn container(&self, agent: &str) -> String {
        flock::sandbox::names::sandbox(&self.home, &agent.parse().unwrap())
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let cleaned = block_on(async {
            remove_all(&self.engine, &self.home).await?;
            image::untag(&self.engine, &self.home).await.map(drop)
        });
        if let Err(error) = cleaned
            && !std::thread::panicking()
        {
            panic!("could not clean up: {}", flock::error::chain(&error));
        }
    }
}

/// Removes what a home has in the engine: containers, image tags, the store.
pub fn clean(home: &Home) {
    let engine = Engine::from_env();
    let cleaned = block_on(async {
        remove_all(&engine, home).await?;
        image::untag(&engine, home).await.map(drop)
    });
    if let Err(error) = cleaned
        && !std::thread::panicking()
    {
        panic!("could not clean up: {error}");
    }
}

/// Removes a home's containers and volumes, as `flock uninstall` does.
pub async fn remove_all(engine: &Engine, home: &Home) -> Result<(), SandboxError> {
    containers::remove_all(engine, home).await?;
    for volume in volumes::list(engine, home).await? {
        volumes::remove(engine, &volume).await?;
    }
    Ok(())
}

/// Runs the docker command line, which must be there where an engine is.
pub fn docker(args: &[&str]) -> String {
    let output = std::process::Command::new("docker").args(args).output().unwrap();
    assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
