//! Puts a derived configuration in place: only what the installed program itself takes replaces what is there, in one
//! step, and so a gateway that runs goes on with the last good one whatever happens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::check::{self, Program};
use super::derive::{Derived, Key, TOKEN_VARIABLE};
use super::{OpenClawError, agents, identity};
use crate::config::{Api, Config, secret};
use crate::env;
use crate::home::{Home, HomeError, atomic};
use crate::id::hex;
use crate::provider::catalog;
use crate::provider::key;
use crate::supervise::pid;
use crate::supervise::unit::OPENCLAW;

/// The secret that is the token of OpenClaw's own gateway.
pub const TOKEN: &str = "openclaw-token";

/// What was put in place last, and for which build it was found good.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Placed {
    #[serde(default)]
    build: String,
    sha256: String,
    /// The variables that it refers to.
    variables: Vec<String>,
    /// The digest of each agent's sandbox.
    #[serde(default)]
    sandboxes: BTreeMap<String, String>,
    /// Whether containers may be left that were made for another sandbox.
    #[serde(default)]
    uncleared: bool,
}

/// What became of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It was in place already.
    Same,
    /// It is in place of another one.
    Changed,
    /// It is in place, and says other things of a sandbox that may be there than that was made for: see [`cleared`].
    Sandboxes,
    /// It is good, and waits for the next start: it refers to a key that the process that runs does not have, or is for
    /// another version than runs, and to some versions a file like that is as good as none.
    AtNextStart,
}

const LARGEST: u64 = 16 << 20;

/// Puts a derived configuration in place for this program. The program is asked only where it was not asked about the same
/// before.
///
/// # Errors
///
/// [`OpenClawError::Invalid`] or [`OpenClawError::Unchecked`], and the file is as it was; or that it can't be written.
pub async fn put(home: &Home, derived: &Derived, program: &Program) -> Result<Put, OpenClawError> {
    let path = home.openclaw_config();
    let text = text(derived);
    make_folders(home)?;
    identity::install(home)?;
    let placed = Placed {
        build: program.build(),
        sha256: hex(&Sha256::digest(&text)),
        variables: derived.keys.iter().map(|key| key.variable.clone()).collect(),
        sandboxes: sandboxes(&derived.document),
        uncleared: false,
    };
    let known = placed_last(home)?;
    let fits = |(id, one): (&String, &String)| placed.sandboxes.get(id) == Some(one);
    let uncleared = known.as_ref().is_none_or(|known| known.uncleared || !known.sandboxes.iter().all(fits));
    let placed = Placed { uncleared, ..placed };
    let there = atomic::read(&path, LARGEST).ok().flatten();
    let is_known = known.as_ref() == Some(&placed);
    if is_known && there.as_deref() == Some(&text) {
        return Ok(if uncleared { Put::Sandboxes } else { Put::Same });
    }
    if !is_known && !has_taken(home, program, &placed.sha256) {
        ask(home, &text, derived, program).await?;
    }
    let has = |variable: &String| known.as_ref().is_some_and(|known| known.variables.contains(variable));
    let is_others = known.as_ref().is_some_and(|known| known.build != placed.build);
    if (is_others || !placed.variables.iter().all(has)) && pid::read(&home.pid_file(OPENCLAW)).is_some() {
        return Ok(Put::AtNextStart);
    }
    atomic::write(&path, &text, 0o600)?;
    record(home, &placed)?;
    // It may rewrite its file in its own words; that is no other configuration.
    let same = known.is_some_and(|known| known.sha256 == placed.sha256);
    Ok(match (uncleared, same) {
        (true, _) => Put::Sandboxes,
        (false, true) => Put::Same,
        (false, false) => Put::Changed,
    })
}

/// Remembers that no container is left that was made for another sandbox. Until then [`put`] says that there may be.
///
/// # Errors
///
/// If that can't be noted.
pub fn cleared(home: &Home) -> Result<(), HomeError> {
    match placed_last(home)? {
        Some(placed) if placed.uncleared => record(home, &Placed { uncleared: false, ..placed }),
        _ => Ok(()),
    }
}

fn placed_last(home: &Home) -> Result<Option<Placed>, HomeError> {
    let bytes = atomic::read(&home.openclaw_versions().join(PLACED), LARGEST)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn record(home: &Home, placed: &Placed) -> Result<(), HomeError> {
    let text = serde_json::to_vec(placed).unwrap_or_default();
    atomic::write(&home.openclaw_versions().join(PLACED), &text, 0o600)
}

const PLACED: &str = "placed.json";

/// A digest of each agent's sandbox; that of all of them is under the empty name.
fn sandboxes(document: &Value) -> BTreeMap<String, String> {
    let agents = &document["agents"];
    let digest = |one: &Value| hex(&Sha256::digest(one["sandbox"].to_string()));
    let listed = agents["list"].as_array().into_iter().flatten();
    let listed = listed.map(|one| (one["id"].as_str().unwrap_or_default(), one));
    let entries = agents["entries"].as_object().into_iter().flatten();
    let entries = entries.map(|(id, one)| (id.as_str(), one));
    let all = [("", &agents["defaults"])].into_iter().chain(listed).chain(entries);
    all.map(|(id, one)| (id.to_owned(), digest(one))).collect()
}

/// Whether a program that is not in use yet takes what was derived for it. Nothing is put in place; when it is, it
/// need not be asked again, while nothing serves.
///
/// # Errors
///
/// [`OpenClawError::Invalid`] or [`OpenClawError::Unchecked`].
pub async fn try_on(home: &Home, derived: &Derived, program: &Program) -> Result<(), OpenClawError> {
    make_folders(home)?;
    let text = text(derived);
    ask(home, &text, derived, program).await?;
    let taken = Taken { entry: program.entry.clone(), sha256: hex(&Sha256::digest(&text)) };
    let record = serde_json::to_vec(&taken).unwrap_or_default();
    Ok(atomic::write(&home.openclaw_versions().join(TAKEN), &record, 0o600)?)
}

/// What a program took that was not in use yet.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Taken {
    entry: std::path::PathBuf,
    sha256: String,
}

const TAKEN: &str = "taken.json";

fn has_taken(home: &Home, program: &Program, sha256: &str) -> bool {
    let bytes =
        atomic::read(&home.openclaw_versions().join(TAKEN), LARGEST).ok().flatten().unwrap_or_default();
    serde_json::from_slice::<Taken>(&bytes)
        .is_ok_and(|taken| taken.entry == program.entry && taken.sha256 == sha256)
}

async fn ask(home: &Home, text: &[u8], derived: &Derived, program: &Program) -> Result<(), OpenClawError> {
    let io = |verb, path: &std::path::Path| {
        let path = path.to_owned();
        move |source| HomeError::Io { verb, path, source }
    };
    let folder = home.openclaw_versions();
    // A name of its own: a command and the supervisor may ask at the same time. Only its owner can read it.
    let candidate =
        tempfile::Builder::new().prefix(&check::name(check::CANDIDATE)).suffix(".json").tempfile_in(&folder);
    let candidate = candidate.map_err(io("make a file in", &folder))?;
    fs_err::write(candidate.path(), text).map_err(io("write", candidate.path()))?;
    check::check(program, candidate.path(), &derived.keys).await
}

fn text(derived: &Derived) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(&derived.document).unwrap_or_default();
    text.push(b'\n');
    text
}

/// The token of OpenClaw's own gateway, made at its first use.
///
/// # Errors
///
/// If it can be neither read nor made.
pub fn token(home: &Home) -> Result<String, HomeError> {
    made(home, TOKEN)
}

/// A secret of this name, made of 32 random bytes where there is none.
///
/// # Errors
///
/// If it can be neither read nor made.
pub fn made(home: &Home, name: &str) -> Result<String, HomeError> {
    if let Some(token) = secret::get(home, name)? {
        return Ok(token);
    }
    let token = hex(&rand::random::<[u8; 32]>());
    let path = home.secrets().join(name);
    if atomic::write_new(&path, token.as_bytes(), 0o600)? {
        return Ok(token);
    }
    // Another process was faster, or what is there is empty.
    match secret::get(home, name)? {
        Some(token) => Ok(token),
        None => secret::set(home, name, &token).map(|()| token),
    }
}

/// The secrets that the process must have in its environment for this configuration, by their variables. The token is
/// made where there is none.
///
/// # Errors
///
/// As [`provider_keys`], or that the token can't be made.
pub fn environment(
    home: &Home,
    config: &Config,
    keys: &[Key],
) -> Result<Vec<(String, String)>, OpenClawError> {
    let mut found = provider_keys(home, config, keys)?;
    found.insert(0, (TOKEN_VARIABLE.to_owned(), token(home)?));
    Ok(found)
}

/// The keys of the providers of its agents' models, by their variables.
///
/// # Errors
///
/// [`OpenClawError::NoKey`] where a provider wants a key and there is none.
pub fn provider_keys(
    home: &Home,
    config: &Config,
    keys: &[Key],
) -> Result<Vec<(String, String)>, OpenClawError> {
    let mut found = Vec::new();
    for one in keys {
        let settings = config.providers.get(&one.provider);
        let failed = |reason| OpenClawError::NoKey { provider: one.provider.clone(), reason };
        let key = key::find(home, &one.provider, settings, catalog::known(&one.provider)).map_err(failed)?;
        let value = match key {
            Some(key) => key.expose().to_owned(),
            None if one.needed => return Err(failed("it has no key".to_owned())),
            // OpenClaw wants one to be there even where nobody looks at it.
            None => "none".to_owned(),
        };
        found.push((one.variable.clone(), value));
    }
    let asks_aws =
        |model| catalog::wire(model, config).is_ok_and(|wire| wire.api == Api::BedrockConverseStream);
    if agents(config).flat_map(|agent| agent.models()).any(asks_aws) {
        found.extend(aws(home, config)?);
    }
    Ok(found)
}

/// What AWS's own signing reads: the bearer token or the pair, and the region.
fn aws(home: &Home, config: &Config) -> Result<Vec<(String, String)>, OpenClawError> {
    const PROVIDER: &str = "amazon-bedrock";
    let settings = config.providers.get(PROVIDER);
    let failed = |reason| OpenClawError::NoKey { provider: PROVIDER.to_owned(), reason };
    let key = key::find(home, PROVIDER, settings, catalog::known(PROVIDER)).map_err(failed)?;
    let mut found: Vec<(String, String)> = Vec::new();
    let variables = match &key {
        Some(key) => {
            let parts: Vec<&str> = key.expose().splitn(3, ':').collect();
            let names = if let [_] = parts[..] { &[env::AWS_BEARER_TOKEN_BEDROCK][..] } else { &PAIR[..] };
            found.extend(names.iter().zip(parts).map(|(name, part)| (name.name.to_owned(), part.to_owned())));
            &[][..]
        }
        None => &PAIR[..],
    };
    let regions = [env::AWS_REGION, env::AWS_DEFAULT_REGION];
    for variable in variables.iter().chain(&regions) {
        found.extend(variable.get().map(|value| (variable.name.to_owned(), value)));
    }
    if !found.iter().any(|(name, _)| name.starts_with("AWS_") && !name.ends_with("REGION")) {
        return Err(failed("it has no key".to_owned()));
    }
    Ok(found)
}

const PAIR: [env::Var; 3] = [env::AWS_ACCESS_KEY_ID, env::AWS_SECRET_ACCESS_KEY, env::AWS_SESSION_TOKEN];

pub(super) fn make_folders(home: &Home) -> Result<(), HomeError> {
    use std::os::unix::fs::DirBuilderExt as _;
    for path in [home.openclaw_versions(), home.openclaw_state()] {
        let made = fs_err::create_dir_all(path.parent().unwrap_or(&path)).and_then(|()| {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&path)
        });
        made.map_err(|source| HomeError::Io { verb: "make", path, source })?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
