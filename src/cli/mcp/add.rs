//! `flock mcp add` and `flock mcp import`.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _};
use std::str::FromStr;

use serde_json::json;

use super::{missing_secrets, package};
use crate::cli::add::{check_cores, check_size};
use crate::cli::{Context, Exit, Failure, images, nix, person, team};
use crate::config::mcp_servers::{self, Imported, is_variable};
use crate::config::{self, McpRemote, McpServer, Network, PackageSource, docker, secret};
use crate::error::Kind;
use crate::home::Home;
use crate::id::{AgentId, McpServerName};
use crate::mcp::package::{Request, described};
use crate::mcp::remote::check_address;
use crate::nix_store::Attribute;
use crate::sandbox::egress::EgressRule;
use crate::store::Level;
use crate::ui::ask;

/// Largest file of servers, and largest secret.
const MAX_FILE: u64 = 1 << 20;
const MAX_SECRET: u64 = 64 << 10;

/// Add a server
///
/// Nothing is granted by it: flock mcp grant shows the tools and gives them to an agent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock mcp add notes -- python3 /workspace/notes.py
  flock mcp add everything --npm @modelcontextprotocol/server-everything@2026.8.31
  flock mcp add clock --pypi mcp-server-time==2026.10.19
  flock mcp add files --npm @modelcontextprotocol/server-filesystem -- /workspace/data
  flock mcp add built --packages nodejs -- node /workspace/dist/index.js stdio
  flock mcp add weather --egress api.weather.example --secret API_KEY -- python3 -m weather
  flock mcp add tracker https://tracker.example/mcp --header Authorization")]
pub(super) struct AddArgs {
    /// Name of the server: 1 to 24 of a-z, 0-9 and "-"
    name: McpServerName,
    /// Address of a server that runs elsewhere and speaks streamable HTTP
    #[arg(value_name = "URL", conflicts_with_all = ["command", "server_json", "env", "secret", "packages", "network",
        "egress", "memory", "cpus", "npm", "pypi"])]
    url: Option<String>,
    /// Program and its arguments, after "--". With --npm and --pypi only the arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["server_json", "url", "npm", "pypi"])]
    command: Vec<String>,
    /// Package of npm that is the server, as NAME@VERSION. A range or a tag is pinned to the version that it means now
    ///
    /// flock fetches the package and those that it needs, shows them, and asks. Nothing of them runs before the server does.
    #[arg(long, value_name = "PACKAGE", conflicts_with_all = ["server_json", "pypi"])]
    npm: Option<String>,
    /// Package of PyPI that is the server, as NAME==VERSION. Only wheels are used
    #[arg(long, value_name = "PACKAGE", conflicts_with = "server_json")]
    pypi: Option<String>,
    /// Package that is installed beside it, with a range of versions; can be given more than once
    #[arg(long, value_name = "PACKAGE")]
    with: Vec<String>,
    /// Program of the package to run if it has several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// Fetch the package that a description runs with npx, uvx or pipx
    #[arg(long, requires = "server_json")]
    fetch: bool,
    /// Description of the server in the form that other programs use: {"command": …, "args": […], "env": {…}}
    #[arg(long, value_name = "JSON", conflicts_with = "command")]
    server_json: Option<String>,
    /// Variable of its environment; can be given more than once
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<Assignment>,
    /// Variable whose value is a secret, with the name of the secret; can be given more than once
    ///
    /// Without the name of the secret it is "mcp-SERVER.NAME". Its value is asked for, unless it is stored already.
    #[arg(long, value_name = "NAME[=SECRET]")]
    secret: Vec<String>,
    /// Header of each request to a server at a URL, with the name of the secret; can be given more than once
    ///
    /// Without the name of the secret it is "mcp-SERVER.HEADER". Its value is asked for, unless it is stored already. For
    /// Authorization it usually is the word Bearer, a space and a token.
    #[arg(long, value_name = "HEADER[=SECRET]", requires = "url", conflicts_with_all = ["command", "server_json"])]
    header: Vec<String>,
    /// Allow a server at a URL that is on this machine or its networks, also without TLS
    #[arg(long, requires = "url", conflicts_with_all = ["command", "server_json"])]
    allow_local: bool,
    /// Packages to install for the server, by their names in nixpkgs, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    packages: Vec<Attribute>,
    /// Network of the server's sandbox [default: none, or proxy with --egress]
    #[arg(long, value_enum)]
    network: Option<Network>,
    /// Host that the server may reach, or "*.HOST" for all hosts below it; can be given more than once
    #[arg(long, value_name = "HOST[:PORT]")]
    egress: Vec<EgressRule>,
    /// Memory limit of the server's container, as in 512m
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Core limit of the server's container, as in 1.5
    #[arg(long, value_name = "NUMBER")]
    cpus: Option<f64>,
    /// Image of the server's container, which is on this machine [default: flock's own]
    #[arg(long, value_name = "IMAGE", conflicts_with = "url", value_parser = image)]
    image: Option<String>,
    /// Longest time of one call
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    call_seconds: Option<u64>,
    /// Most calls of the server's tools in one turn
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    calls_per_turn: Option<u32>,
    /// Most times that the server can ask an agent's model in one call, if you grant that
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    samples_per_call: Option<u32>,
    /// Most times that the server can ask the model of one agent on one day
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    samples_per_day: Option<u32>,
    /// Most tokens of an answer of the model
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    sample_tokens: Option<u32>,
    /// Time without a call after which the server is stopped
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=1_440))]
    idle_minutes: Option<u64>,
}

/// A variable with its value.
#[derive(Clone, Debug)]
struct Assignment(String, String);

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if is_variable(name) => Ok(Self(name.to_owned(), value.to_owned())),
            _ => Err("write NAME=VALUE".to_owned()),
        }
    }
}

/// Reads the name of an image.
fn image(text: &str) -> Result<String, String> {
    let is_name = (1..=255).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_graphic());
    is_name
        .then(|| text.to_owned())
        .ok_or_else(|| "write the name of an image, as in node:24-slim".to_owned())
}

/// Adds a server.
///
/// # Errors
///
/// Returns an error if an option has an unusable value, if the name is taken, or if a secret or a package can't be stored.
pub(super) fn add(args: &AddArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    if config.mcp_server(&args.name).is_some() {
        return Err(config::ConfigError::McpServerExists(args.name.clone()).into());
    }
    let (mut server, values) = wanted(args)?;
    let staged = match request(args, &mut server, context)? {
        Some(request) => Some(package::fetch(&home, &config, &mut server, &request, context)?),
        None => None,
    };
    store_secrets(&home, &server, &values, context)?;
    if !args.packages.is_empty() {
        context.block_on(async {
            let engine = team::engine().await?;
            images::make(&engine, &home, &config, context).await?;
            let store = team::store(&home, &config, engine);
            nix::install(&store, &AgentId::of_mcp_server(&server.name), &args.packages, context).await
        })?;
    }
    if let Some(staged) = &staged {
        staged.place(&home, &server.name)?;
    }
    put(&home, &[server], context)
}

/// Returns the package that a server is made of, and leaves its arguments as its command line. `None` if it is a program.
fn request(args: &AddArgs, server: &mut McpServer, context: &Context) -> Result<Option<Request>, Failure> {
    let usage = |text: String| Failure::new(Kind::Usage, text).hint("flock mcp add --help");
    let named = args.npm.as_deref().map(|text| (PackageSource::Npm, text));
    let named = named.or_else(|| args.pypi.as_deref().map(|text| (PackageSource::Pypi, text)));
    let found = match named {
        Some((source, text)) => Some(Request::parse(source, text).map_err(usage)?),
        None if args.server_json.is_some() => package::of_run_line(server, args.fetch, context)?,
        None => None,
    };
    let Some(found) = found else {
        if !args.with.is_empty() || args.bin.is_some() {
            return Err(usage("--with and --bin need --npm or --pypi".to_owned()));
        }
        return Ok(None);
    };
    let mut found = found.with(&args.with).map_err(usage)?;
    found.bin = args.bin.clone().or(found.bin);
    Ok(Some(found))
}

/// Adds the servers of a file.
///
/// # Errors
///
/// Returns an error if the file can't be read or has another form, or if a name is taken.
pub(super) fn import(file: &str, fetch: bool, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    let text = read_file(file)?;
    let found = mcp_servers::read_usual(&text).map_err(|why| {
        Failure::new(Kind::Usage, format!("{file} has no servers that flock can read: {why}"))
    })?;
    let (mut servers, mut fetched) = (Vec::new(), Vec::new());
    for one in found {
        match one {
            Imported::Program(mut server) => {
                if let Some(request) = package::of_run_line(&mut server, fetch, context)? {
                    if config.mcp_server(&server.name).is_some() {
                        return Err(config::ConfigError::McpServerExists(server.name.clone()).into());
                    }
                    let staged = package::fetch(&home, &config, &mut server, &request, context)?;
                    fetched.push((server.name.clone(), staged));
                }
                let values = std::mem::take(&mut server.env);
                // Nobody can tell a key from a setting here, and a secret serves as both.
                for variable in values.keys() {
                    server.secrets.insert(variable.clone(), secret_name(&server.name, variable)?);
                }
                store_secrets(&home, &server, &values, context)?;
                servers.push(*server);
            }
            Imported::Remote(server, values) => {
                let server = with_header_secrets(*server)?;
                store_secrets(&home, &server, &values, context)?;
                servers.push(server);
            }
            Imported::Unusable(name, why) => {
                context.printer.warn(&format!("{} was left out: {why}", crate::clean::label(&name, 60)));
            }
        }
    }
    if servers.is_empty() {
        return Err(Failure::new(Kind::Failed, format!("{file} has no server that flock can run")));
    }
    for (name, staged) in &fetched {
        staged.place(&home, name)?;
    }
    put(&home, &servers, context)
}

fn put(home: &Home, servers: &[McpServer], context: &Context) -> Result<Exit, Failure> {
    mcp_servers::add(home, servers)?;
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    for server in servers {
        let detail = server.package.as_ref().map(package::detail).unwrap_or_default();
        context.block_on(person::record(home, "mcp.add", server.name.as_str(), Level::Yellow, detail))?;
    }
    let named = |server: &McpServer| Some((server.name.to_string(), described(home, server)?));
    let packages: serde_json::Map<String, serde_json::Value> = servers.iter().filter_map(named).collect();
    let mut answer = json!({"added": names});
    if !packages.is_empty() {
        answer["packages"] = packages.into();
    }
    context.printer.if_json(&answer);
    context.printer.say(format!("added {}; no agent may call its tools yet", names.join(", ")));
    for server in servers {
        for variable in missing_secrets(home, server) {
            let name = &server.name;
            context
                .printer
                .warn(&format!("{name} has no value for {variable}: flock mcp secret {name} {variable}"));
        }
    }
    Ok(Exit::Done)
}

fn wanted(args: &AddArgs) -> Result<(McpServer, BTreeMap<String, String>), Failure> {
    let usage = |text: String| Failure::new(Kind::Usage, text).hint("flock mcp add --help");
    let mut values = BTreeMap::new();
    let mut server = match (&args.server_json, &args.url) {
        (None, Some(url)) => return Ok((limited(remote(args, url)?, args), values)),
        // The command line of a package is made when it is there. Until then it is its arguments.
        (None, None) => McpServer::new(args.name.clone(), args.command.clone()),
        (Some(text), _) => {
            let wrapped = format!("{{\"{}\": {text}}}", args.name);
            match mcp_servers::read_usual(&wrapped).map_err(usage)?.pop() {
                Some(Imported::Program(server)) => *server,
                Some(Imported::Remote(server, values)) => {
                    return Ok((limited(with_header_secrets(*server)?, args), values));
                }
                Some(Imported::Unusable(_, why)) => return Err(usage(why)),
                None => return Err(usage("the description is empty".to_owned())),
            }
        }
    };
    if let [only] = server.command.as_slice()
        && only.contains("://")
        && args.npm.is_none()
        && args.pypi.is_none()
    {
        return Err(usage(format!(
            "a server at a URL is added without \"--\": flock mcp add {} {only}",
            args.name
        )));
    }
    if args.server_json.is_some() {
        values = std::mem::take(&mut server.env);
        for variable in values.keys() {
            server.secrets.insert(variable.clone(), secret_name(&args.name, variable)?);
        }
    }
    server.env.extend(args.env.iter().map(|Assignment(name, value)| (name.clone(), value.clone())));
    for given in &args.secret {
        let (variable, name) = match given.split_once('=') {
            Some((variable, name)) => (variable, name.to_owned()),
            None => (given.as_str(), secret_name(&args.name, given)?),
        };
        if !is_variable(variable) || !secret::is_name(&name) {
            return Err(usage(format!("{given:?} is not NAME or NAME=SECRET")));
        }
        server.secrets.insert(variable.to_owned(), name);
    }
    if let Some(both) = server.env.keys().find(|name| server.secrets.contains_key(*name)) {
        return Err(usage(format!("{both} is given with --env and with --secret")));
    }
    if args.network == Some(Network::None) && !args.egress.is_empty() {
        return Err(usage("--egress needs --network proxy".to_owned()));
    }
    let has_egress = !args.egress.is_empty();
    server.network = args.network.unwrap_or(if has_egress { Network::Proxy } else { Network::None });
    server.egress = args.egress.iter().map(ToString::to_string).collect();
    if let Some(memory) = &args.memory {
        check_size(memory).map_err(usage)?;
        server.docker.memory = docker::bytes(&json!(memory));
    }
    server.docker.image.clone_from(&args.image);
    if let Some(cpus) = args.cpus {
        check_cores(cpus).map_err(usage)?;
        server.docker.cpu_millis = docker::cpu_millis(&json!(cpus));
    }
    Ok((limited(server, args), values))
}

/// Returns a server with the limits of calls that were given.
fn limited(mut server: McpServer, args: &AddArgs) -> McpServer {
    if let Some(seconds) = args.call_seconds {
        server.call_time = std::time::Duration::from_secs(seconds);
    }
    if let Some(calls) = args.calls_per_turn {
        server.calls_per_turn = calls;
    }
    server.samples_per_call = args.samples_per_call.unwrap_or(server.samples_per_call);
    server.samples_per_day = args.samples_per_day.unwrap_or(server.samples_per_day);
    server.sample_tokens = args.sample_tokens.unwrap_or(server.sample_tokens);
    if let Some(minutes) = args.idle_minutes {
        server.idle = std::time::Duration::from_secs(minutes * 60);
    }
    server
}

/// Reads a server at a URL from the options.
fn remote(args: &AddArgs, url: &str) -> Result<McpServer, Failure> {
    let usage = |text: String| Failure::new(Kind::Usage, text).hint("flock mcp add --help");
    if !mcp_servers::is_address(url) {
        return Err(usage(format!("{url:?} is no http or https address; a command comes after \"--\"")));
    }
    let mut remote =
        McpRemote { url: url.to_owned(), allow_local: args.allow_local, headers: BTreeMap::new() };
    check_address(&remote).map_err(|why| usage(format!("{url} can't be added: {why}")))?;
    for given in &args.header {
        let (header, name) =
            given.split_once('=').map_or((given.as_str(), None), |(one, two)| (one, Some(two)));
        let header = header.to_ascii_lowercase();
        let name = match name {
            Some(name) => name.to_owned(),
            None => secret_name(&args.name, &header)?,
        };
        if !mcp_servers::is_header(&header) || !secret::is_name(&name) {
            return Err(usage(format!(
                "{given:?} is not HEADER or HEADER=SECRET, or that header can't be set"
            )));
        }
        remote.headers.insert(header, name);
    }
    Ok(McpServer::at(args.name.clone(), remote))
}

/// Returns a server at a URL whose headers get secrets of their own.
fn with_header_secrets(mut server: McpServer) -> Result<McpServer, Failure> {
    let name = server.name.clone();
    for (header, secret) in server.remote.iter_mut().flat_map(|remote| remote.headers.iter_mut()) {
        *secret = secret_name(&name, header)?;
    }
    Ok(server)
}

/// Returns the name of a server's secret for a variable.
fn secret_name(server: &McpServerName, variable: &str) -> Result<String, Failure> {
    // A server's name has no dot, so this is not the secret of another server.
    let name = format!("mcp-{server}.{variable}");
    if secret::is_name(&name) {
        return Ok(name);
    }
    Err(Failure::new(Kind::Usage, format!("{variable:?} is too long for the name of a secret"))
        .hint("flock mcp add --help"))
}

/// Stores the values that are given, and asks for those that are missing.
fn store_secrets(
    home: &Home,
    server: &McpServer,
    values: &BTreeMap<String, String>,
    context: &Context,
) -> Result<(), Failure> {
    for (variable, name) in server.all_secrets() {
        if let Some(value) = values.get(variable).filter(|value| !value.is_empty()) {
            secret::set(home, name, value)?;
        } else if secret::get(home, name)?.is_none() && context.may_ask() {
            let value = read_secret(variable, context)?;
            secret::set(home, name, &value)?;
        }
    }
    Ok(())
}

/// Reads a secret: from a person on a terminal, otherwise from stdin. It is never an argument, which others could see.
pub(super) fn read_secret(variable: &str, context: &Context) -> Result<String, Failure> {
    if context.may_ask() && std::io::stdin().is_terminal() {
        return ask::secret(&format!("Value of {variable}"));
    }
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_SECRET).read_to_string(&mut text);
    read.map_err(|error| Failure::with_cause("failed to read the secret from stdin", &error))?;
    match text.trim() {
        "" => Err(Failure::new(Kind::Usage, format!("stdin has no value for {variable}"))),
        value => Ok(value.to_owned()),
    }
}

fn read_file(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let failed = |error: std::io::Error| Failure::with_cause(format!("failed to read {file}"), &error);
    if file == "-" {
        std::io::stdin().take(MAX_FILE).read_to_string(&mut text).map_err(failed)?;
    } else {
        fs_err::File::open(file)
            .and_then(|open| open.take(MAX_FILE).read_to_string(&mut text))
            .map_err(failed)?;
    }
    Ok(text)
}
