//! The life of a gateway process. At the start it binds the port, opens the home and answers requests; slow work comes
//! later or on demand. On a signal, or when its supervisor is gone, it refuses new work, cancels turns, waits a little
//! and stops the sandboxes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::signal::unix::{SignalKind, signal};

use super::assembly::GatewayAssembly;
use super::backup;
use super::bind::{BindError, bind};
use super::driver::{EventCallback, TurnRunner};
use super::operation_recovery::{self, OperationRecovery};
use super::peers::{self, PeersError};
use super::projects::SandboxChecks;
use super::projects::train::Train;
use super::shared_config::{self, SharedConfigError};
use super::state::Gateway;
use super::team::Team;
use super::telemetry::Exporter;
use super::{
    checkpoint_copies, disk_quota, engines, heartbeat, package_moves, place_mark, push, retention, schedules,
    search_index, server, transcript_copies, uploads, vault_copies,
};
use crate::agent::{Engine, TurnError, TurnOutcome, TurnRequest};
use crate::bridge::{RunningTurn, Turns};
use crate::config::{ConfigError, Live};
use crate::error::{Explain, Kind, chain};
use crate::generation;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, instance, temp_files, version};
use crate::id::{AgentId, ChannelId};
use crate::install::self_update::ProgramRecord;
use crate::install::self_update::pending_change::PendingProgramChange;
use crate::install::{pending_change, versions};
use crate::mcp;
use crate::nix_store::PackageStores;
use crate::process;
use crate::provider::BoxFuture;
use crate::runtime::program as programs;
use crate::sandbox::SandboxError;
use crate::sandbox::check::DockerChecks;
use crate::sandbox::placed_sandbox::PlacedSandbox;
use crate::store::integrity::{self, CheckDepth};
use crate::store::{self, LeaseSubject, NewGateway, Store, StoreError};
use crate::supervise::health::HomeIdentity;
use crate::supervise::parent_watch;
use crate::swarm::lease::while_held;
use crate::swarm::operation::OperationError;
use crate::swarm::triage::Triage;
use crate::swarm::{Swarm, scheduler};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The reason why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The home can't be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The configuration can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The port can't be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The database can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A rename that was interrupted can't be finished.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The gateway is in a group, and what it needs for that is not there.
    #[error(transparent)]
    Group(#[from] SharedConfigError),
    /// The gateway can't take requests from the others of its group.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// The process can't listen for signals.
    #[error("failed to listen for signals")]
    Signals(#[source] std::io::Error),
}

impl ServeError {
    /// Returns the error that explains this one.
    fn explained(&self) -> Option<&dyn Explain> {
        match self {
            Self::Home(error) => Some(error),
            Self::Config(error) => Some(error),
            Self::Bind(error) => Some(error),
            Self::Store(error) => Some(error),
            Self::Operation(error) => Some(error),
            Self::Group(error) => Some(error),
            Self::Peers(error) => Some(error),
            Self::Signals(_) => None,
        }
    }
}

impl Explain for ServeError {
    fn kind(&self) -> Kind {
        self.explained().map_or(Kind::Internal, Explain::kind)
    }

    fn hint(&self) -> Option<String> {
        self.explained().and_then(Explain::hint)
    }
}

/// Serves this home until SIGTERM, SIGINT, or the end of its supervisor.
///
/// # Errors
///
/// Returns [`ServeError`] if the home, its configuration, its database or the port can't be used, and if the database
/// turns out to be damaged, or another gateway takes over, while the gateway runs.
pub async fn serve(home: Home) -> Result<(), ServeError> {
    // The handlers come first, so that a signal during the start does not kill the process in the middle of a write.
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    home.require_initialised()?;
    version::check_writable(&home)?;
    home.close()?;
    raise_open_files();
    let _alone = match acquire_gateway_lock(&home).await {
        Err(error @ HomeError::Held { .. }) => return Err(other_gateway_error(&home, error).await),
        taken => taken?,
    };
    // Interrupted renames come before everything that reads agents.
    operation_recovery::renames(&home).await?;
    let live = Arc::new(Live::open(home.clone())?);
    let config = live.current();
    instance::settle(&home)?;
    let instance = instance::read(&home)?;
    let identity = HomeIdentity { instance: instance.clone(), token: config.token.clone() };
    let listener = bind(config.port, &identity).await?;
    let this = NewGateway {
        home: instance.clone(),
        name: process::host_name(),
        address: format!("127.0.0.1:{}", config.port),
        version: env!("FLOCK_VERSION").to_owned(),
    };
    let opened = open_database(&home, &this).map_err(|error| classify_error(&home, error))?;
    join_group(&home, &opened.store, &instance).await?;
    note_state(&home);
    let assembled = GatewayAssembly::new(live.clone(), opened.store, instance, config.port).await;
    let (assembly, rings) = assembled.map_err(|error| classify_error(&home, error))?;
    let GatewayAssembly { gateway, middleware, team, sandboxes, git, grants } = &*assembly;
    let (engine, triage) = (&gateway.engine, &gateway.triage);
    // The newest time is read before this process writes any row with the clock's time.
    let newest = gateway.swarm.store().audit().newest_time().await;
    let newest = newest.map_err(|error| classify_error(&home, error))?;
    let limits = gateway.limits;
    let server = tokio::spawn(server::serve(listener, middleware.clone(), limits, gateway.stop.clone()));
    let peer_listener = peers::open(gateway).await?;
    let peer_server = tokio::spawn(peers::serve(peer_listener, gateway.clone(), middleware.clone()));
    tracing::info!(port = config.port, agents = config.agents.len(), "the gateway listens");
    // Until then a push waits for the lock of its repository, so it finds nothing half done.
    let repaired = git.clone();
    tokio::task::spawn_blocking(move || repaired.repair());
    // On the host these programs outlive a gateway only if the process that held them was killed too.
    programs::host::sweep(&home.digest());
    let swept = home.clone();
    tokio::task::spawn_blocking(move || match temp_files::sweep(&swept) {
        0 => {}
        count => tracing::info!(count, "removed drafts of files that killed processes had left"),
    });
    if !opened.is_checked {
        let (searched, stop) = (gateway.swarm.store().clone(), gateway.stop.clone());
        tokio::task::spawn_blocking(move || search_for_damage(&searched, stop));
    }
    tokio::spawn(sync_frozen_sandboxes(gateway.swarm.clone(), sandboxes.clone()));
    let read = live.clone();
    let checks = DockerChecks::new(
        home.clone(),
        Arc::new(move || read.current()),
        sandboxes.docker().engine().clone(),
    );
    tokio::spawn(sweep_checks(checks));
    let heart = tokio::spawn(heartbeat::run(gateway.clone()));
    tokio::spawn(shared_config::run(gateway.clone()));
    tokio::spawn(place_mark::share(gateway.clone()));
    tokio::spawn(peers::follow_events(gateway.clone()));
    tokio::spawn(super::mcp::follow_grants(gateway.clone()));
    tokio::spawn(recover_and_run(gateway.clone(), team.clone(), rings));
    tokio::spawn(run_triage(triage.clone(), gateway.stop.clone()));
    tokio::spawn(backup::watch(home.clone(), gateway.swarm.store().clone(), gateway.stop.clone()));
    tokio::spawn(finisher(gateway, &live, sandboxes).watch(gateway.stop.clone()));
    tokio::spawn(merge_train(gateway, &live).run(gateway.stop.clone()));
    spawn_timed_work(gateway, newest);
    tokio::spawn(engines::watch(gateway.clone(), sandboxes.clone()));
    tokio::spawn(package_moves::follow_agents(gateway.clone()));
    tokio::spawn(search_index::watch(gateway.swarm.clone(), gateway.stop.clone()));
    tokio::spawn(uploads::watch(home.clone(), gateway.stop.clone()));
    let exporter = Arc::new(Exporter::new(
        gateway.live().clone(),
        gateway.swarm.telemetry().clone(),
        gateway.instance.clone(),
    ));
    let exported = {
        let (exporter, stop) = (exporter.clone(), gateway.stop.clone());
        tokio::spawn(async move { exporter.run(&stop).await })
    };
    let (bridges, decider, stop) = (gateway.bridges.clone(), triage.clone(), gateway.stop.clone());
    let turns = bridge_turns(gateway);
    tokio::spawn(async move { bridges.run(decider, turns, stop).await });
    let recorded = tokio::spawn(grants.clone().record(gateway.stop.clone()));

    let why = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
        () = parent_watch::wait_for_supervisor_exit() => "the supervisor is gone",
        () = wait_for_damage(gateway.swarm.store()) => DAMAGED_REASON,
        () = gateway.swarm.store().until_fenced() => FENCED_REASON,
    };
    tracing::info!(why, "the gateway stops");
    gateway.stop();
    triage.stop();
    // Turns and requests share one grace period. After another gateway has taken over, nothing of them can be written any
    // more, and each moment is one in which both act. One that was paused may hear of that only now.
    let ended = async { tokio::join!(gateway.driver.ended(), triage.settled()) };
    let grace = tokio::time::timeout(limits.grace, gateway.swarm.store().until_fenced());
    let have_ended = tokio::select! {
        biased;
        _ = ended => true,
        _ = grace => false,
    };
    if !have_ended {
        tracing::warn!(
            "turns or requests did not end in time; they will be marked interrupted at the next start"
        );
    }
    // The sandboxes of MCP servers end below with all others. Here their secrets go.
    gateway.servers.end_all();
    // The server waits for its open connections, and the sandboxes stop at the same time.
    let ((served, peers_served), (), ()) = tokio::join!(
        async { tokio::join!(server, peer_server) },
        stop_sandboxes(sandboxes),
        exporter.finish(exported)
    );
    // This waits for the rows of the connections that ended with their sandboxes.
    if recorded.await.is_err() {
        tracing::error!("the task that records connections failed");
    }
    if let Err(error) = served.and(peers_served) {
        tracing::error!(%error, "the task that serves requests failed");
    }
    if let Err(error) = engine.settle().await {
        tracing::error!(error = crate::error::chain(&error), "failed to bring the database to the disk");
    }
    heart.abort();
    let was_replaced = heartbeat::end(gateway.swarm.store()).await || why == FENCED_REASON;
    tracing::info!("the gateway has stopped");
    if was_replaced {
        // Its supervisor starts it again, with nothing of what it remembers, and does not take this for a crash.
        return Err(StoreError::Fenced { what: "go on" }.into());
    }
    // What looked like damage may be a disk that could not be read for a moment. Then the gateway ends without the
    // error.
    match gateway.swarm.store().trouble().filter(|_| why == DAMAGED_REASON) {
        Some(trouble) => Err(StoreError::Damaged { path: home.database(), what: trouble.reason }.into()),
        None => Ok(()),
    }
}

/// Checks that a gateway of a group sees the files of the agents, and takes the configuration of the group. It is to be called
/// before anything reads agents or their files.
async fn join_group(home: &Home, store: &Store, instance: &str) -> Result<(), ServeError> {
    if !store.is_in_group() {
        return Ok(());
    }
    let Some(group) = store.gateway_group().find().await? else { return Ok(()) };
    shared_config::check_files(home, &group)?;
    // The gateways that run go on with what they have, and so does this one until its file is mended.
    if let Err(error) = shared_config::synchronise(home, store, instance).await {
        tracing::error!(
            error = chain(&error),
            "the configuration could not be shared with the other gateways"
        );
    }
    Ok(())
}

/// Starts what happens at certain times for the whole team. Of several gateways, one does it. `newest` is the time of the
/// newest row when this process started.
fn spawn_timed_work(gateway: &Arc<Gateway>, newest: Option<i64>) {
    let races = gateway.races.clone();
    // A race is ended by one gateway, and each ends its own turns of the copies.
    tokio::spawn(races.clone().follow_freezes(gateway.stop.clone()));
    spawn_clock(gateway, move |_, stop| races.clone().run(stop));
    spawn_clock(gateway, schedules::run);
    // Whichever gateway runs the schedules, each notes its own events for them.
    tokio::spawn(schedules::note_events(gateway.clone(), gateway.stop.clone()));
    spawn_clock(gateway, |gateway, stop| {
        checkpoint_copies::watch(gateway.live().clone(), gateway.copies.checkpoints.clone(), stop)
    });
    spawn_clock(gateway, |gateway, stop| {
        let (live, report) = (gateway.live().clone(), gateway.copies.conversations.clone());
        transcript_copies::watch(live, gateway.swarm.store().clone(), report, stop)
    });
    spawn_clock(gateway, |gateway, stop| {
        let (live, report) = (gateway.live().clone(), gateway.copies.vaults.clone());
        vault_copies::watch(live, gateway.swarm.store().syncer().fence().clone(), report, stop)
    });
    spawn_clock(gateway, move |gateway, stop| {
        retention::watch(gateway.engine.clone(), gateway.live().clone(), newest, stop)
    });
    spawn_clock(gateway, push::run);
    // Each counts the workspaces of its own agents, whose engines it reaches.
    tokio::spawn(disk_quota::watch(gateway.swarm.clone(), gateway.stop.clone()));
}

/// Starts a task that runs while this gateway has the lease of the clock.
fn spawn_clock<F: Future<Output = ()> + Send + 'static>(
    gateway: &Arc<Gateway>,
    work: impl Fn(Arc<Gateway>, CancellationToken) -> F + Send + 'static,
) {
    let clock = LeaseSubject::clock();
    let (ownership, stop, own) =
        (gateway.swarm.ownership().clone(), gateway.stop.clone(), Arc::clone(gateway));
    tokio::spawn(while_held(ownership, clock, stop, move |stop| work(Arc::clone(&own), stop)));
}

/// Makes a generation of what was changed by hand while nothing ran: the configuration, OpenClaw's link, and a program
/// that a package manager has replaced.
fn note_state(home: &Home) {
    let schema = store::schema_version(home).ok().flatten();
    let openclaw = versions::current(home).map(|version| version.name());
    let is_changing = pending_change::interrupted(home).is_some();
    let is_updating = PendingProgramChange::interrupted(home).is_some();
    let recorded = ProgramRecord::recorded(home).map(|program| program.version);
    let looked = generation::look(home, |state| {
        // An update in progress records its own change, and so does the one that completes it.
        if !is_changing {
            state.openclaw = openclaw;
        }
        if !is_updating {
            state.schema = schema;
            // The program of an update may be started by a name under which this process can't know it.
            if recorded.as_ref() != Some(&state.program) {
                env!("FLOCK_VERSION").clone_into(&mut state.program);
            }
        }
    });
    if let Err(error) = looked {
        tracing::warn!(error = chain(&error), "failed to record the state of the home as a generation");
    }
}

/// Gives bridges access to the turns.
fn bridge_turns(gateway: &Gateway) -> Turns {
    let (listing, stopping) = (gateway.driver.clone(), gateway.driver.clone());
    let list = move || {
        let turns = listing.list().into_iter().filter(|(_, turn)| !turn.waits());
        turns.map(|(_, turn)| RunningTurn { channel: turn.session.channel(), agent: turn.agent }).collect()
    };
    let stop = move |agent: &AgentId, channel: &ChannelId| {
        let turns = stopping.list().into_iter();
        let chosen = turns
            .filter(|(_, turn)| turn.agent == *agent && turn.session.channel().as_ref() == Some(channel));
        chosen.filter_map(|(turn, _)| stopping.cancel_turn(turn)).count()
    };
    Turns { changes: gateway.events.watch(), list: Arc::new(list), stop: Arc::new(stop) }
}

/// The reason for which a gateway stops by itself.
const DAMAGED_REASON: &str = "the database is damaged";

/// The reason for which a gateway stops that another one has replaced.
const FENCED_REASON: &str = "another gateway has taken over";

/// Longest time for which a start looks for damage before it serves. It is enough for some ten megabytes. The check of
/// a larger database goes on beside the gateway.
const DAMAGE_CHECK_TIMEOUT: Duration = Duration::from_millis(100);

/// Longest time for the check of a large database. It keeps a snapshot, and meanwhile the write-ahead log only grows.
const DAMAGE_SEARCH_TIMEOUT: Duration = Duration::from_secs(60);

struct OpenedDatabase {
    store: Arc<Store>,
    /// Unset if the time ran out before everything was checked.
    is_checked: bool,
}

/// Opens the database. A damaged one is refused, because nothing more may be written into it.
fn open_database(home: &Home, this: &NewGateway) -> Result<OpenedDatabase, StoreError> {
    let path = home.database();
    let mut is_checked = true;
    // A server checks its own files.
    if store::server_address(home)?.is_none() && path.exists() {
        let checked = integrity::check(&path, CheckDepth::Quick(DAMAGE_CHECK_TIMEOUT))?;
        if !checked.is_whole() {
            return Err(StoreError::Damaged { path, what: checked.summary() });
        }
        is_checked = !checked.is_partial;
    }
    Ok(OpenedDatabase { store: Arc::new(Store::open_for_gateway(home, this)?), is_checked })
}

/// Checks a database for which the start had no time. What it finds ends the gateway, as [`wait_for_damage`] says.
fn search_for_damage(store: &Store, stop: CancellationToken) {
    let began = Instant::now();
    let searched =
        store.search_for_damage(move || stop.is_cancelled() || began.elapsed() >= DAMAGE_SEARCH_TIMEOUT);
    match searched {
        Ok(()) => tracing::debug!(took = ?began.elapsed(), "searched the database for damage"),
        Err(error) => tracing::warn!(error = chain(&error), "failed to search the database for damage"),
    }
}

/// Decides what an error of a start means. After damage the supervisor does not start the gateway again, but after a
/// temporary failure of the disk it does.
fn classify_error(home: &Home, error: StoreError) -> ServeError {
    match store::database_file(home, "check the database") {
        Ok(path) => integrity::judge(&path, error).into(),
        Err(_) => error.into(),
    }
}

/// Returns once a part of the database is confirmed to be damaged, and not just unreadable for a while.
async fn wait_for_damage(store: &Arc<Store>) {
    let mut faults = store.faults();
    loop {
        if store.trouble().is_some_and(|trouble| trouble.is_damage) {
            let looked = Arc::clone(store);
            let is_damaged =
                tokio::task::spawn_blocking(move || looked.confirm_damage(integrity::CLASSIFY_TIMEOUT)).await;
            // If the check itself broke, the damage counts as confirmed.
            if is_damaged.unwrap_or(true) {
                return;
            }
            tokio::time::sleep(RECHECK_DELAY).await;
        }
        faults.next().await;
    }
}

/// Delay before the database is checked once more.
const RECHECK_DELAY: Duration = Duration::from_secs(1);

/// Takes the right to be the gateway of this home, which lasts as long as the lock is held.
///
/// An earlier gateway that is still ending, for example because its supervisor was killed, may be writing the outcome
/// of a turn. Two gateways at a time would each take the other's turns for interrupted ones. And a turn that one takes
/// up after the other has looked would wait for the next start.
async fn acquire_gateway_lock(home: &Home) -> Result<Lock, HomeError> {
    match take(home, LOCK_WARNING_DELAY).await {
        Err(held @ HomeError::Held { .. }) => {
            let holder = other_gateway_error(home, held).await;
            tracing::warn!(
                holder = crate::error::chain(&holder),
                "the gateway waits until another gateway of this home has ended"
            );
            take(home, PREDECESSOR_TIMEOUT).await
        }
        taken => taken,
    }
}

async fn take(home: &Home, limit: Duration) -> Result<Lock, HomeError> {
    let path = home.gateway_lock();
    let taken = tokio::task::spawn_blocking(move || Lock::acquire(&path, limit)).await;
    taken.map_err(|error| HomeError::Io {
        verb: "lock",
        path: home.gateway_lock(),
        source: std::io::Error::other(error),
    })?
}

/// Returns the error for a home that has another gateway, with the process id of that gateway if it tells it.
async fn other_gateway_error(home: &Home, held: HomeError) -> ServeError {
    let (Ok(instance), Ok(config)) = (instance::read(home), crate::config::read(home)) else {
        return held.into();
    };
    let identity = HomeIdentity { instance, token: config.token };
    match super::bind::running(config.port, &identity).await {
        Some(error) => error.into(),
        None => held.into(),
    }
}

/// Time to wait for an earlier gateway before that is logged.
const LOCK_WARNING_DELAY: Duration = Duration::from_millis(500);

/// Longest time for an earlier gateway to end. It covers the grace period of the turns, and the sandboxes.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the worker that finishes interrupted operations on agents.
fn finisher(gateway: &Gateway, live: &Arc<Live>, sandboxes: &PlacedSandbox) -> OperationRecovery {
    let (newest, engines) = (live.clone(), sandboxes.docker().engines().clone());
    OperationRecovery {
        swarm: gateway.swarm.clone(),
        driver: gateway.driver.clone(),
        sandbox: gateway.sandbox.clone(),
        packages: PackageStores::new(live.home().clone(), Arc::new(move || newest.current()), engines),
    }
}

/// Returns the train that joins submitted work with the tips of the projects.
fn merge_train(gateway: &Gateway, live: &Arc<Live>) -> Arc<Train> {
    let store = gateway.swarm.store().clone();
    let checks = SandboxChecks::new(live.clone(), store, gateway.stop.clone());
    Arc::new(Train::new(gateway.projects.clone(), Arc::new(checks)))
}

/// Stops all containers of this home. If no engine answers, nothing can be running.
async fn stop_sandboxes(sandboxes: &PlacedSandbox) {
    match tokio::time::timeout(SANDBOX_STOP_TIMEOUT, sandboxes.stop_all()).await {
        Ok(Ok(()) | Err(SandboxError::Unavailable { .. } | SandboxError::Denied { .. })) => {}
        Ok(Err(error)) => tracing::error!(error = chain(&error), "failed to stop the sandboxes"),
        Err(_) => tracing::error!("the sandboxes did not stop in time"),
    }
}

/// Longest time for stopping all containers. Together with the grace period of the turns it must stay below the ten
/// seconds after which the supervisor kills the gateway. The supervisor stops what is left then.
const SANDBOX_STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// Removes the containers of checks whose process was killed. Without an engine there are none to remove, and each run of
/// checks looks again.
async fn sweep_checks(checks: DockerChecks) {
    if let Err(error) = checks.sweep().await {
        tracing::debug!(error = chain(&error), "the leftovers of checks were not removed");
    }
}

/// Time after which the sandboxes of an engine that did not answer are looked at again.
const FREEZE_RETRY: Duration = Duration::from_secs(5);

/// Pauses the sandboxes of frozen agents, which an earlier run may have left running, and follows changes of the frozen
/// set that other processes write.
async fn sync_frozen_sandboxes(swarm: Arc<Swarm>, sandboxes: Arc<PlacedSandbox>) {
    let mut watch = swarm.watch_frozen();
    // A change is followed while an engine that does not answer still delays an earlier one.
    let mut following = FuturesUnordered::new();
    loop {
        let frozen = watch.borrow_and_update().clone();
        following.push(sandboxes.follow(Arc::new(move |agent| frozen.holds(agent))));
        let mut is_behind = false;
        loop {
            tokio::select! {
                // The sender is gone when the swarm is.
                changed = watch.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = tokio::time::sleep(FREEZE_RETRY), if is_behind => break,
                Some(followed) = following.next() => match followed {
                    Ok(()) => {}
                    Err(SandboxError::Unavailable { .. } | SandboxError::Denied { .. }) => {
                        // What runs in an engine that hangs goes on there. Without a socket there is no engine.
                        let engines = sandboxes.docker().engines();
                        is_behind = engines.all().iter().any(|found| found.engine.client().is_ok())
                            || !engines.clusters().is_empty();
                    }
                    Err(error) => {
                        tracing::error!(error = chain(&error), "a sandbox was not frozen or thawed with its agent");
                    }
                },
            }
        }
    }
}

/// Marks the turns that an earlier run left unfinished, lets turns begin, and then runs the team.
async fn recover_and_run(
    gateway: Arc<Gateway>,
    team: Arc<Team>,
    rings: mpsc::UnboundedReceiver<scheduler::SchedulerEvent>,
) {
    let engine = &gateway.engine;
    // A fault from now on may leave something of this undone.
    let faults = gateway.swarm.store().faults();
    // Before anything that waits for the database after a fault, the recovery included.
    tokio::spawn(team.probe_storage(faults.clone()));
    // What is lost here is made again before anything reads it.
    transcript_copies::bring_back_lost(&gateway).await;
    // In a group, other gateways may be at work on what is under way. The team takes it up with the leases of the agents.
    if !gateway.swarm.ownership().is_shared() {
        mark_interrupted(engine).await;
    }
    // The tools of MCP servers are known before a turn asks for them.
    mcp::clear_secrets(gateway.home());
    if let Err(error) = gateway.servers.refresh().await {
        tracing::error!(error = chain(&error), "failed to read the grants of MCP servers");
        tokio::spawn(refresh_servers(gateway.clone()));
    }
    if !gateway.swarm.ownership().is_shared() {
        // Interrupted rewinds are completed before a turn can see files of two moments.
        gateway.checkpoints.recover(|_| true).await;
    }
    gateway.driver.recovered();
    let together = gateway.config().max_turns;
    team.run(rings, scheduler::Settings { together, ..scheduler::Settings::default() }, faults).await;
}

/// Time after which the grants of MCP servers are read once more.
const REFRESH_RETRY: Duration = Duration::from_secs(2);

/// Reads the grants of MCP servers until that succeeds. Without them, agents would lack the tools until the next change of the
/// configuration.
async fn refresh_servers(gateway: Arc<Gateway>) {
    while gateway.stop.run_until_cancelled(tokio::time::sleep(REFRESH_RETRY)).await.is_some() {
        if gateway.servers.refresh().await.is_ok() {
            return;
        }
    }
}

/// Marks the turns and settles the model calls that an earlier run left unfinished.
async fn mark_interrupted(engine: &Engine) {
    match engine.recover().await {
        Ok(marked) if marked.is_empty() => {}
        Ok(marked) => tracing::warn!(turns = marked.len(), "turns of an earlier run were marked interrupted"),
        // Turns of other sessions are not affected, so the start continues.
        Err(error) => {
            tracing::error!(error = chain(&error), "failed to mark interrupted turns");
        }
    }
    // Nobody knows what a call without an outcome took, so it counts with its whole reservation.
    match engine.store().usage().settle_all().await {
        Ok(0) => {}
        Ok(calls) => {
            tracing::warn!(calls, "model calls of an earlier run are charged at their whole reservation");
        }
        Err(error) => {
            tracing::error!(error = chain(&error), "failed to settle model calls of an earlier run");
        }
    }
}

/// Takes up the requests that an earlier run left, then those that other processes decide about, and ends those that nobody
/// decides in time.
async fn run_triage(triage: Arc<Triage>, stop: CancellationToken) {
    if let Err(error) = triage.recover().await {
        tracing::error!(error = chain(&error), "failed to take up the requests that an earlier run left");
    }
    tokio::spawn(Arc::clone(&triage).follow_decisions(stop.clone()));
    triage.watch(stop).await;
}

/// Raises the soft limit of open files to at most 65,536.
///
/// Shells start programs with a limit of 1,024 open files. As many idle connections would use it up, and then neither a
/// transcript nor the engine's socket could be opened. The hard limit is the system's to set.
fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    const ENOUGH: u64 = 65_536;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = hard.min(ENOUGH);
    if soft < wanted
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)
    {
        tracing::warn!(%error, soft, "failed to raise the limit of open files");
    }
}

impl TurnRunner for Engine {
    fn run<'a>(
        &'a self,
        request: TurnRequest,
        cancel: CancellationToken,
        on_event: EventCallback<'a>,
    ) -> BoxFuture<'a, Result<TurnOutcome, TurnError>> {
        Box::pin(self.run(request, cancel, on_event))
    }
}
