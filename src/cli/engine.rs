//! `flock engine`: container engines besides the machine's own.

mod cluster;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::reconnect::{Reconnector, Repeat};
use super::stored::{PLACEMENTS, StoredState};
use super::{Context, Exit, Failure, images, person, team, token};
use crate::config::{self, ClusterAddress, Config, EngineAddress, EngineSettings, docker, engines, secret};
use crate::error::{Kind, to_mend};
use crate::gateway::engines::{KnownPlaces, views};
use crate::gateway::routes::engines::{DrainBody, NewEngine};
use crate::gateway::unread::{self, Unread};
use crate::home::Home;
use crate::id::EngineName;
use crate::sandbox::engine::Engine;
use crate::sandbox::engine_check;
use crate::sandbox::engine_route::{CertificateFile, CertificateTexts};
use crate::sandbox::kubernetes::access::ClusterAccess;
use crate::sandbox::kubernetes::client::ClusterClient;
use crate::supervise::gateway_client::Call;
use crate::ui::{StyledLine, Table, TextStyle};
use cluster::{AccessArgs, ClusterArgs};

/// Use more container engines than the machine's own
///
/// Agents are placed on an engine by their labels, by their memory limits and by what is there already, and stay there. The
/// machine's own engine is always there and is called local.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock engine add second unix:///run/second/docker.sock --labels gpu --memory 16g
  flock engine add gpu ssh://ann@gpu.example.org --labels gpu
  flock engine image registry.example.org/flock-sandbox:1
  flock engine add far k8s://work/flock --image registry.example.org/flock-sandbox:1
  flock engine list
  flock engine drain second
  flock engine remove second")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Add an engine after it was checked
    ///
    /// The images are made in it, and a sandbox is made, probed and removed. An engine that can't hold sandboxes is refused.
    Add(AddArgs),
    /// List the engines with their agents
    #[command(visible_alias = "ls")]
    List,
    /// Show an engine
    Show {
        /// Name of the engine
        name: EngineName,
        /// Check it now, with a sandbox that is made in it
        #[arg(long)]
        check: bool,
    },
    /// Move the agents of an engine to others, each when its turn has ended
    Drain {
        /// Name of the engine
        name: EngineName,
        /// End the draining; agents that have moved stay where they are
        #[arg(long)]
        stop: bool,
    },
    /// Replace the certificates of an engine with TLS, or the access to a cluster
    ///
    /// They are tried first. If the engine takes them, they are copied to the home's secrets, and each later connection uses
    /// them. Otherwise the former ones stay.
    Renew {
        /// Name of the engine
        name: EngineName,
        #[command(flatten)]
        certificates: Certificates,
        #[command(flatten)]
        access: AccessArgs,
    },
    /// Make the image of the sandboxes in a Kubernetes cluster
    ///
    /// It is made in the machine's own engine. Push it to a registry from which the cluster can pull it, and make it anew after
    /// each update of flock.
    Image {
        /// Reference of the image, as in registry.example.org/flock-sandbox:1
        reference: String,
    },
    /// Remove an engine with all that this home has in it
    #[command(visible_alias = "rm")]
    Remove {
        /// Name of the engine
        name: EngineName,
        /// Remove it although it has agents, which are placed anew, or does not answer
        #[arg(long)]
        force: bool,
    },
}

/// The files of an engine with TLS.
#[derive(Debug, clap::Args)]
struct Certificates {
    /// PEM file with the certificate of the authority that has signed the engine's, for a tcp:// address
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with the certificate by which the engine knows this home, for a tcp:// address
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// PEM file with the key of that certificate; it is copied to the home's secrets
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl Certificates {
    fn path(&self, file: CertificateFile) -> Option<&Path> {
        let path = match file {
            CertificateFile::Authority => &self.ca,
            CertificateFile::Certificate => &self.cert,
            CertificateFile::Key => &self.key,
        };
        path.as_deref()
    }

    /// Returns the files that are given.
    fn given(&self) -> impl Iterator<Item = CertificateFile> {
        CertificateFile::ALL.into_iter().filter(move |file| self.path(*file).is_some())
    }

    /// Returns the names of the given files, as in `cert, key`.
    fn names(&self) -> String {
        self.given().map(CertificateFile::name).collect::<Vec<_>>().join(", ")
    }

    /// Reads the given files, and the others from the secrets of the home. All three must be there, and fit together.
    fn read(&self, home: &Home, engine: &EngineName) -> Result<CertificateTexts, Failure> {
        let one = |file: CertificateFile| -> Result<String, Failure> {
            let text = match self.path(file) {
                Some(path) => Some(read_certificate(path)?),
                None => secret::get(home, &file.secret(engine))?,
            };
            let missing = || {
                let text = "an engine with TLS needs --ca, --cert and --key";
                Failure::new(Kind::Usage, text).hint("flock engine add --help")
            };
            text.ok_or_else(missing)
        };
        let texts = CertificateTexts {
            authority: one(CertificateFile::Authority)?,
            certificate: one(CertificateFile::Certificate)?,
            key: one(CertificateFile::Key)?,
        };
        let help = format!("flock engine renew {engine} --help");
        texts.check().map_err(|why| Failure::new(Kind::Usage, why).hint(help))?;
        Ok(texts)
    }

    /// Keeps the texts of the given files among the secrets of the home.
    fn keep(&self, home: &Home, engine: &EngineName, texts: &CertificateTexts) -> Result<(), Failure> {
        for file in self.given() {
            secret::set(home, &file.secret(engine), texts.of(file))?;
        }
        Ok(())
    }
}

fn read_certificate(path: &Path) -> Result<String, Failure> {
    let refused = |why: String| {
        let text = format!("{} can't be read: {why}", path.display());
        Failure::new(Kind::Usage, text).hint("flock engine add --help")
    };
    let size = fs_err::metadata(path).map_err(|error| refused(error.to_string()))?.len();
    if size > MAX_CERTIFICATE {
        return Err(refused(format!("it is larger than {} KiB", MAX_CERTIFICATE >> 10)));
    }
    fs_err::read_to_string(path).map_err(|error| refused(error.to_string()))
}

/// The largest file of a certificate, in bytes.
const MAX_CERTIFICATE: u64 = 64 << 10;

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// Name for the engine
    name: EngineName,
    /// Address of the engine: unix:///PATH, ssh://USER@HOST:PORT/SOCKET, tcp://HOST:PORT, which is TLS, or
    /// k8s://CONTEXT/NAMESPACE
    #[arg(value_name = "ADDRESS")]
    address: String,
    #[command(flatten)]
    certificates: Certificates,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// OCI runtime of agents that name none [default: the engine's]
    #[arg(long, value_name = "NAME")]
    runtime: Option<String>,
    /// Labels that agents can ask for, separated by commas
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    labels: Vec<String>,
    /// Memory that the limits of its agents may add up to, as in 16g [default: no limit]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Silence after which its agents are placed on other engines, as in 30m; for another machine only [default: never]
    #[arg(long, value_name = "TIME", value_parser = token::lifetime)]
    lost_after: Option<Duration>,
}

/// Time that a request may take. A check makes a sandbox, and a removal stops all that are there.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Time for the list of engines. The gateway asks them for two seconds, and waits for its database.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// The words for what the database did not say.
const NOT_KNOWN: &str = "not known";

/// Runs the verb below `engine`.
///
/// # Errors
///
/// Returns an error if the engine does not exist or can't hold sandboxes, or if the gateway or the database fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Add(wanted) => add(wanted, context),
        Verb::List => list(context),
        Verb::Show { name, check } => show(name, *check, context),
        Verb::Drain { name, stop } => drain(name, *stop, context),
        Verb::Renew { name, certificates, access } => renew(name, certificates, access, context),
        Verb::Image { reference } => image(reference, context),
        Verb::Remove { name, force } => remove(name, *force, context),
    }
}

fn add(args: &AddArgs, context: &Context) -> Result<Exit, Failure> {
    let usage = |text: String| Failure::new(Kind::Usage, text).hint("flock engine add --help");
    let address: EngineAddress =
        args.address.parse().map_err(|why| usage(format!("the address {:?} {why}", args.address)))?;
    if let Some(label) = args.labels.iter().find(|label| !engines::is_label(label)) {
        return Err(usage(format!("{label:?} is not a label: {}", engines::LABEL_FORM)));
    }
    let memory = match &args.memory {
        None => None,
        Some(text) => {
            let size = docker::bytes(&json!(text));
            let refused =
                || usage(format!("{text:?} is not a size; write it as in 512m or 16g, at least 32m"));
            Some(size.ok_or_else(refused)?)
        }
    };
    let lost_after = EngineSettings {
        lost_after: args.lost_after,
        ..EngineSettings::new(args.name.clone(), Some(args.address.clone()))
    };
    lost_after.check_lost_after().map_err(|why| usage(format!("--lost-after {why}")))?;
    let home = context.writable_home()?;
    let wanted = NewEngine {
        name: args.name.clone(),
        address: args.address.clone(),
        runtime: args.runtime.clone(),
        labels: args.labels.clone(),
        memory,
        lost_after_minutes: lost_after.lost_after_minutes(),
        image: args.cluster.image(),
        storage: args.cluster.storage()?,
        storage_class: args.cluster.storage_class(),
        by: Some(person::name()),
    };
    let config = config::read(&home)?;
    let is_new = !config.engines.iter().any(|engine| engine.name == args.name) && !args.name.is_local();
    if is_new {
        match &address {
            EngineAddress::Tls(_) => {
                let texts = args.certificates.read(&home, &args.name)?;
                args.certificates.keep(&home, &args.name, &texts)?;
            }
            EngineAddress::Cluster(address) if wanted.image.is_some() => {
                cluster::keep(&home, &args.name, &args.cluster.access().read(address)?)?;
            }
            EngineAddress::Cluster(_) => return Err(usage("a cluster needs --image".to_owned())),
            _ if args.cluster.is_given() => {
                let text =
                    "--image, --storage, --storage-class and --kubeconfig are for k8s:// addresses only";
                return Err(usage(text.to_owned()));
            }
            _ if args.certificates.given().next().is_some() => {
                return Err(usage("--ca, --cert and --key are for tcp:// addresses only".to_owned()));
            }
            _ => {}
        }
    }
    let added = add_checked(args, &wanted, is_new, &home, &config, context);
    if added.is_err() && is_new {
        // What opens an engine that is not used stays nowhere.
        for file in CertificateFile::ALL {
            secret::remove(&home, &file.secret(&args.name))?;
        }
        secret::remove(&home, &ClusterAccess::secret(&args.name))?;
    }
    added
}

fn add_checked(
    args: &AddArgs,
    wanted: &NewEngine,
    is_new: bool,
    home: &Home,
    config: &Config,
    context: &Context,
) -> Result<Exit, Failure> {
    // Images take minutes, with progress, so this process makes them before the engine is checked with them. A cluster pulls
    // its own.
    if is_new && wanted.image.is_none() {
        let engine = Engine::named(home, args.name.clone(), args.address.clone());
        context.block_on(async {
            // An engine that was not added has no certificates that could be renewed.
            let again = format!(
                "flock engine add {} {} --ca CA.pem --cert CERT.pem --key KEY.pem",
                args.name, args.address
            );
            connect(&engine, again).await?;
            let versions = engine.version().await?;
            if let Some(refused) = engine_check::kind(&engine, &versions) {
                let text = format!(
                    "the engine at {} can't hold sandboxes: {}: {}",
                    args.address, refused.name, refused.message
                );
                return Err(Failure::new(Kind::Failed, text).hint(refused.hint.unwrap_or_default()));
            }
            images::make_in(&engine, home, config, context).await
        })?;
    }
    let call = Call::post("/api/engines").json(wanted)?;
    let answer = send(context, call, Repeat::Unsent)?;
    let line = StyledLine::new().with(TextStyle::Good, "added").plain(" engine ").accent(args.name.as_str());
    context.printer.result(&answer, line.plain(format!(", {}", checked(&answer["checks"]))));
    Ok(Exit::Done)
}

/// Connects to an engine for the first time, or for the first time with other certificates. If the certificates are why it fails,
/// the hint is `again`, the command that gives others.
async fn connect(engine: &Engine, again: String) -> Result<(), Failure> {
    engine.first_ping().await.map_err(|error| {
        let hint = match error.way().is_some_and(|way| way.needs_certificates) {
            true => again,
            false => error.way_hint().unwrap_or_else(|| "start the engine, and look at its log".to_owned()),
        };
        Failure::from(error).hint(hint)
    })
}

fn checked(checks: &Value) -> String {
    let version = items(checks).find(|check| check["name"] == "engine").map(|check| text(&check["message"]));
    format!("{}; a sandbox in it is confined", version.unwrap_or_default())
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let (answer, lacks) = match send_within(context, Call::get("/api/engines"), Repeat::Safe, LIST_TIMEOUT) {
        Ok(answer) => (answer, None),
        Err(failure) => {
            let (answer, lacks) = without_database(context)?.ok_or(failure)?;
            (answer, Some(lacks))
        }
    };
    let mut table = Table::new(&["ENGINE", "STATE", "AGENTS", "MEMORY", "LABELS", "RUNTIME", "ADDRESS"]);
    for engine in items(&answer["engines"]) {
        let (tone, state) = state(engine);
        table.styled_row(vec![
            (TextStyle::Accent, text(&engine["name"]).to_owned()),
            (tone, state),
            (TextStyle::Plain, agent_count(engine)),
            (TextStyle::Plain, memory(engine)),
            (TextStyle::Plain, words(&engine["labels"])),
            (TextStyle::Plain, text(&engine["runtime"]).to_owned()),
            (TextStyle::Dim, text(&engine["address"]).to_owned()),
        ]);
    }
    context.printer.list(&answer, &table, "There are no engines.");
    let Some((kind, unread)) = lacks else { return Ok(Exit::Done) };
    for sentence in unread::sentences(&unread) {
        context.printer.warn(&sentence);
    }
    Ok(Exit::Failed(kind))
}

/// The reason why a list lacks the agents.
type Lacks = (Kind, Vec<Unread>);

/// Returns the engines without their agents, in the form of `GET /api/engines`, if the database can't be read.
fn without_database(context: &Context) -> Result<Option<(Value, Lacks)>, Failure> {
    let home = context.home()?;
    let StoredState { mut unread, failure, .. } = StoredState::read(&home);
    unread.retain(|unread| unread.part == PLACEMENTS);
    let Some(kind) = failure.filter(|_| !unread.is_empty()) else { return Ok(None) };
    let config = config::read(&home)?;
    let engines = team::engines_with(&home, &config, BTreeMap::new());
    let asked = context.block_on(async { Ok(engines.ask().await) })?;
    let mut found = json!(views(&config, asked, &KnownPlaces::default()));
    for engine in found.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        // Nobody knows which agents are there, and null is not none.
        for key in ["agents", "memoryUsed"] {
            engine.insert(key.to_owned(), Value::Null);
        }
    }
    Ok(Some((json!({"engines": found, "unread": unread}), (kind, unread))))
}

fn agent_count(engine: &Value) -> String {
    engine["agents"].as_array().map_or_else(|| NOT_KNOWN.to_owned(), |agents| agents.len().to_string())
}

fn show(name: &EngineName, check: bool, context: &Context) -> Result<Exit, Failure> {
    let call = match check {
        true => Call::post(&format!("/api/engines/{name}/check")),
        false => Call::get(&format!("/api/engines/{name}")),
    };
    let answer = send(context, call, Repeat::Safe)?;
    let is_bad = items(&answer["checks"]).any(|check| check["ok"] == false);
    let exit = if is_bad { Exit::Failed(Kind::Failed) } else { Exit::Done };
    if context.printer.is_json() {
        context.printer.json(&answer);
        return Ok(exit);
    }
    let engine = &answer["engine"];
    let mut facts = Table::new(&["ENGINE", ""]);
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            facts.row([name.to_owned(), value]);
        }
    };
    row("name", text(&engine["name"]).to_owned());
    row("address", text(&engine["address"]).to_owned());
    row("state", state(engine).1);
    row("problem", text(&engine["problem"]).to_owned());
    row("what to do", text(&engine["hint"]).to_owned());
    row("labels", words(&engine["labels"]));
    row("runtime", text(&engine["runtime"]).to_owned());
    row("memory", memory(engine));
    let lost_after = engine["lostAfterMinutes"].as_u64();
    row("lost after", lost_after.map_or_else(String::new, |minutes| format!("{minutes} minutes of silence")));
    for agent in items(&engine["agents"]) {
        row("agent", agent_text(agent));
    }
    for check in items(&answer["checks"]) {
        let verdict = if check["ok"] == true { "ok" } else { "FAILED" };
        let found = format!("{verdict}: {}", text(&check["message"]));
        row(text(&check["name"]), to_mend(&found, check["hint"].as_str()));
    }
    context.printer.table(&facts);
    Ok(exit)
}

fn drain(name: &EngineName, stop: bool, context: &Context) -> Result<Exit, Failure> {
    let body = DrainBody { drain: !stop, by: Some(person::name()) };
    let call = Call::post(&format!("/api/engines/{name}/drain")).json(&body)?;
    let answer = send(context, call, Repeat::Safe)?;
    let agents: Vec<String> = items(&answer["engine"]["agents"]).map(agent_text).collect();
    let line = match (stop, agents.is_empty()) {
        (true, _) => format!("engine {name} is not drained any more"),
        (false, true) => format!("engine {name} has no agents, and none is placed on it"),
        (false, false) => format!("engine {name} is drained; still there: {}", agents.join(", ")),
    };
    context.printer.result(&answer, line);
    Ok(Exit::Done)
}

fn image(reference: &str, context: &Context) -> Result<Exit, Failure> {
    cluster::make_image(reference, context)?;
    let answer = json!({"image": reference});
    context.printer.result(&answer, format!("made {reference}; to push it: docker push {reference}"));
    Ok(Exit::Done)
}

fn renew(
    name: &EngineName,
    certificates: &Certificates,
    access: &AccessArgs,
    context: &Context,
) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    let found = config.engines.iter().find(|engine| engine.name == *name);
    let address = found.and_then(|engine| engine.address.clone()).unwrap_or_default();
    if let Ok(EngineAddress::Cluster(address)) = address.parse() {
        return renew_access(name, access, address, &home, context);
    }
    if access.is_given() {
        let text = format!("there is no cluster {name}");
        return Err(Failure::new(Kind::Usage, text).hint("flock engine list"));
    }
    let Ok(EngineAddress::Tls(place)) = address.parse() else {
        let text = format!("there is no engine {name} with TLS");
        return Err(Failure::new(Kind::Usage, text).hint("flock engine list"));
    };
    if certificates.given().next().is_none() {
        let text = "one of --ca, --cert and --key is needed";
        return Err(Failure::new(Kind::Usage, text).hint("flock engine renew --help"));
    }
    let texts = certificates.read(&home, name)?;
    let engine = Engine::with_certificates(name.clone(), address, place, texts.clone());
    // All three are named, because the reason can be one that this command did not give.
    let again = format!("flock engine renew {name} --ca CA.pem --cert CERT.pem --key KEY.pem");
    context.block_on(connect(&engine, again)).map_err(|failure| {
        let is_kept = |file: &CertificateFile| matches!(secret::get(&home, &file.secret(name)), Ok(Some(_)));
        let rest = match CertificateFile::ALL.iter().all(is_kept) {
            true => "the former ones are still used",
            false => "nothing was stored",
        };
        failure.within(format!("engine {name} did not take the new {}, so {rest}", certificates.names()))
    })?;
    certificates.keep(&home, name, &texts)?;
    person::record_done(&home, "engine.renew", name.as_str(), certificates.names(), context);
    let answer = json!({"renewed": name});
    context.printer.result(&answer, format!("engine {name} answers with the new certificates"));
    Ok(Exit::Done)
}

/// Replaces the access to a cluster, once the cluster has taken the new one.
fn renew_access(
    name: &EngineName,
    access: &AccessArgs,
    address: ClusterAddress,
    home: &Home,
    context: &Context,
) -> Result<Exit, Failure> {
    let access = access.read(&address)?;
    let client = ClusterClient::with_access(home.clone(), name.clone(), address, &access);
    context.block_on(cluster::try_access(&client)).map_err(|failure| {
        let rest = match secret::get(home, &ClusterAccess::secret(name)) {
            Ok(Some(_)) => "the former one is still used",
            _ => "nothing was stored",
        };
        failure.within(format!("the cluster {name} did not take the new access, so {rest}"))
    })?;
    cluster::keep(home, name, &access)?;
    person::record_done(home, "engine.renew", name.as_str(), "access".to_owned(), context);
    let answer = json!({"renewed": name});
    context.printer.result(&answer, format!("the cluster {name} answers with the new access"));
    Ok(Exit::Done)
}

fn remove(name: &EngineName, force: bool, context: &Context) -> Result<Exit, Failure> {
    let by = person::name();
    let by: String = form_urlencoded::byte_serialize(by.as_bytes()).collect();
    let call = Call::delete(&format!("/api/engines/{name}?force={force}&by={by}"));
    let answer = send(context, call, Repeat::Unsent)?;
    for warning in items(&answer["warnings"]) {
        context.printer.warn(text(warning));
    }
    context.printer.result(&answer, format!("engine {name} is removed"));
    Ok(Exit::Done)
}

fn send(context: &Context, call: Call, repeat: Repeat) -> Result<Value, Failure> {
    send_within(context, call, repeat, TIMEOUT)
}

fn send_within(context: &Context, call: Call, repeat: Repeat, limit: Duration) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    Ok(context.block_on(Reconnector::new(&home, context).send(call, repeat, limit))?.answer)
}

/// Returns the state of an engine in a word or two, with its tone.
pub(crate) fn state(engine: &Value) -> (TextStyle, String) {
    match (&engine["reachable"], &engine["draining"]) {
        (Value::Bool(false), _) => (TextStyle::Bad, "does not answer".to_owned()),
        (_, Value::Bool(true)) => (TextStyle::Warn, "draining".to_owned()),
        _ => (TextStyle::Good, "ready".to_owned()),
    }
}

/// Returns an agent with what becomes of it, as in `coder (moves to local: a turn runs)`.
pub(crate) fn agent_text(agent: &Value) -> String {
    let id = text(&agent["id"]);
    match (agent["movesTo"].as_str(), agent["waits"].as_str()) {
        (Some(to), Some(waits)) => format!("{id} (moves to {to}, waits: {waits})"),
        (Some(to), None) => format!("{id} (moves to {to})"),
        (None, Some(waits)) => format!("{id} (can't move: {waits})"),
        (None, None) => id.to_owned(),
    }
}

fn memory(engine: &Value) -> String {
    let size = |bytes: &Value| bytes.as_u64().map(|bytes| format!("{} MiB", bytes >> 20));
    let used = size(&engine["memoryUsed"]).unwrap_or_else(|| NOT_KNOWN.to_owned());
    match size(&engine["memory"]) {
        Some(most) => format!("{used} of {most}"),
        None => used,
    }
}

fn words(list: &Value) -> String {
    items(list).map(text).collect::<Vec<_>>().join(", ")
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
