//! Puts a derived configuration in place. Only a configuration that the installed program accepts replaces the file, in
//! one atomic step, so a running gateway always has the last good one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::check::{self, OpenClawProgram};
use super::derive::{DerivedConfig, ProviderKey, TOKEN_VARIABLE};
use super::state::{failed, make};
use super::{OpenClawError, agents, identity};
use crate::config::{Config, secret};
use crate::env;
use crate::home::{Home, HomeError, atomic};
use crate::id::hex;
use crate::provider::{catalog, key, wire_format};
use crate::supervise::pid_file;
use crate::supervise::unit::OPENCLAW;

/// Name of the secret that holds the token of OpenClaw's own gateway.
pub const TOKEN: &str = "openclaw-token";

/// A record of the configuration that was put in place last and of the build that accepted it.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct AppliedRecord {
    #[serde(default)]
    build: String,
    sha256: String,
    /// The environment variables to which the configuration refers.
    variables: Vec<String>,
    /// Digest of each agent's sandbox settings.
    #[serde(default)]
    sandboxes: BTreeMap<String, String>,
    /// `true` while containers may exist that were made for other sandbox settings.
    #[serde(default)]
    uncleared: bool,
}

/// The effect of [`put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyOutcome {
    /// The same configuration was already in place.
    Same,
    /// It replaced another configuration.
    Changed,
    /// It is in place, and containers may exist that were made for other sandbox settings. The caller removes them and
    /// calls [`cleared`].
    Sandboxes,
    /// It was accepted but waits for the next start. It refers to a key that the running process does not have, or it
    /// is for another version than the running one. Some versions treat such a file as missing.
    AtNextStart,
}

const MAX_FILE_SIZE: u64 = 16 << 20;

/// Puts a derived configuration in place for this program. The program is asked only if it was not asked about the same
/// configuration before.
///
/// # Errors
///
/// Returns [`OpenClawError::Invalid`] or [`OpenClawError::Unchecked`] from the program's check, with the file
/// unchanged, or [`OpenClawError::Home`] if a file can't be read or written.
pub(crate) async fn put(
    home: &Home,
    derived: &DerivedConfig,
    program: &OpenClawProgram,
) -> Result<ApplyOutcome, OpenClawError> {
    let path = home.openclaw_config();
    let text = text(derived);
    make_folders(home)?;
    identity::install(home)?;
    let placed = AppliedRecord {
        build: program.build(),
        sha256: hex(&Sha256::digest(&text)),
        variables: derived.keys.iter().map(|key| key.variable.clone()).collect(),
        sandboxes: sandboxes(&derived.document),
        uncleared: false,
    };
    let known = read_record(home)?;
    let fits = |(id, one): (&String, &String)| placed.sandboxes.get(id) == Some(one);
    let uncleared = known.as_ref().is_none_or(|known| known.uncleared || !known.sandboxes.iter().all(fits));
    let placed = AppliedRecord { uncleared, ..placed };
    // An unreadable file is written anew, like a missing one.
    let there = atomic::read(&path, MAX_FILE_SIZE).ok().flatten();
    let is_known = known.as_ref() == Some(&placed);
    if is_known && there.as_deref() == Some(&text) {
        return Ok(if uncleared { ApplyOutcome::Sandboxes } else { ApplyOutcome::Same });
    }
    // A trial may have asked the program about exactly this text already.
    if !is_known && !is_accepted(home, program, &placed.sha256) {
        check_document(home, &text, derived, program).await?;
    }
    let has = |variable: &String| known.as_ref().is_some_and(|known| known.variables.contains(variable));
    let is_others = known.as_ref().is_some_and(|known| known.build != placed.build);
    // A running process can't get new environment variables, so the new file has to wait for its next start.
    if (is_others || !placed.variables.iter().all(has)) && pid_file::read(&home.pid_file(OPENCLAW)).is_some()
    {
        return Ok(ApplyOutcome::AtNextStart);
    }
    atomic::write(&path, &text, 0o600)?;
    record(home, &placed)?;
    // OpenClaw may rewrite its file in its own formatting. Restoring it is not a change of the configuration.
    let same = known.is_some_and(|known| known.sha256 == placed.sha256);
    Ok(match (uncleared, same) {
        (true, _) => ApplyOutcome::Sandboxes,
        (false, true) => ApplyOutcome::Same,
        (false, false) => ApplyOutcome::Changed,
    })
}

/// Records that no container is left that was made for other sandbox settings. Until then, [`put`] returns
/// [`ApplyOutcome::Sandboxes`].
///
/// # Errors
///
/// Returns [`HomeError`] if the record can't be read or written.
pub(crate) fn cleared(home: &Home) -> Result<(), HomeError> {
    match read_record(home)? {
        Some(placed) if placed.uncleared => record(home, &AppliedRecord { uncleared: false, ..placed }),
        _ => Ok(()),
    }
}

fn read_record(home: &Home) -> Result<Option<AppliedRecord>, HomeError> {
    let bytes = atomic::read(&home.openclaw_versions().join(RECORD_FILE), MAX_FILE_SIZE)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn record(home: &Home, placed: &AppliedRecord) -> Result<(), HomeError> {
    let text = serde_json::to_vec(placed).unwrap_or_default();
    atomic::write(&home.openclaw_versions().join(RECORD_FILE), &text, 0o600)
}

const RECORD_FILE: &str = "placed.json";

/// Returns the digest of each agent's sandbox settings. The defaults for all agents are under the empty name.
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

/// Checks that a program that is not in use yet accepts the configuration derived for it, without putting it in place.
/// A positive answer is recorded, so that [`put`] need not ask again at a time when no OpenClaw serves.
///
/// # Errors
///
/// Returns [`OpenClawError::Invalid`] or [`OpenClawError::Unchecked`] from the program's check, or
/// [`OpenClawError::Home`] if the record can't be written.
pub(crate) async fn check_candidate(
    home: &Home,
    derived: &DerivedConfig,
    program: &OpenClawProgram,
) -> Result<(), OpenClawError> {
    make_folders(home)?;
    let text = text(derived);
    check_document(home, &text, derived, program).await?;
    let taken = AcceptedRecord { entry: program.entry.clone(), sha256: hex(&Sha256::digest(&text)) };
    let record = serde_json::to_vec(&taken).unwrap_or_default();
    Ok(atomic::write(&home.openclaw_versions().join(ACCEPTED_FILE), &record, 0o600)?)
}

/// A record of the configuration that a program accepted before it was put in use.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct AcceptedRecord {
    entry: std::path::PathBuf,
    sha256: String,
}

const ACCEPTED_FILE: &str = "taken.json";

fn is_accepted(home: &Home, program: &OpenClawProgram, sha256: &str) -> bool {
    let bytes = atomic::read(&home.openclaw_versions().join(ACCEPTED_FILE), MAX_FILE_SIZE)
        .ok()
        .flatten()
        .unwrap_or_default();
    serde_json::from_slice::<AcceptedRecord>(&bytes)
        .is_ok_and(|taken| taken.entry == program.entry && taken.sha256 == sha256)
}

async fn check_document(
    home: &Home,
    text: &[u8],
    derived: &DerivedConfig,
    program: &OpenClawProgram,
) -> Result<(), OpenClawError> {
    let folder = home.openclaw_versions();
    // A unique name, because a command and the supervisor may ask at the same time. The file is readable only by its
    // owner.
    let candidate = tempfile::Builder::new()
        .prefix(&check::name(check::CANDIDATE_PREFIX))
        .suffix(".json")
        .tempfile_in(&folder);
    let candidate = candidate.map_err(failed("make a file in", &folder))?;
    fs_err::write(candidate.path(), text).map_err(failed("write", candidate.path()))?;
    check::check(program, candidate.path(), &derived.keys).await
}

fn text(derived: &DerivedConfig) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(&derived.document).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Returns the token of OpenClaw's own gateway. It is created at first use.
///
/// # Errors
///
/// Returns [`HomeError`] if it can be neither read nor created.
pub(crate) fn token(home: &Home) -> Result<String, HomeError> {
    made(home, TOKEN)
}

/// Returns the secret with this name. If it does not exist, it is made of 32 random bytes in hexadecimal.
///
/// # Errors
///
/// Returns [`HomeError`] if it can be neither read nor created.
pub(crate) fn made(home: &Home, name: &str) -> Result<String, HomeError> {
    if let Some(token) = secret::get(home, name)? {
        return Ok(token);
    }
    let token = hex(&rand::random::<[u8; 32]>());
    let path = home.secrets().join(name);
    if atomic::write_new(&path, token.as_bytes(), 0o600)? {
        return Ok(token);
    }
    // Another process was faster, or the existing file is empty.
    match secret::get(home, name)? {
        Some(token) => Ok(token),
        None => secret::set(home, name, &token).map(|()| token),
    }
}

/// Returns the secrets that OpenClaw's process needs in its environment, as variable and value. The gateway's token is
/// created if there is none.
///
/// # Errors
///
/// Returns [`OpenClawError::NoKey`] if a required provider key is missing, and [`OpenClawError::Home`] if the token
/// can't be read or created.
pub(crate) fn environment(
    home: &Home,
    config: &Config,
    keys: &[ProviderKey],
) -> Result<Vec<(String, String)>, OpenClawError> {
    let mut found = provider_keys(home, config, keys)?;
    found.insert(0, (TOKEN_VARIABLE.to_owned(), token(home)?));
    Ok(found)
}

/// Returns the keys of the providers that OpenClaw's agents use, as variable and value.
///
/// # Errors
///
/// Returns [`OpenClawError::NoKey`] if a provider requires a key and none is configured, or if a key can't be read.
pub(crate) fn provider_keys(
    home: &Home,
    config: &Config,
    keys: &[ProviderKey],
) -> Result<Vec<(String, String)>, OpenClawError> {
    let mut found = Vec::new();
    for one in keys {
        let settings = config.providers.get(&one.provider);
        let failed = |reason| OpenClawError::NoKey { provider: one.provider.clone(), reason };
        let key = key::find(home, &one.provider, settings, catalog::known(&one.provider)).map_err(failed)?;
        let value = match key {
            Some(key) => key.expose().to_owned(),
            None if one.needed => return Err(failed("it has no key".to_owned())),
            // OpenClaw wants every key to have a value, even if the provider ignores it.
            None => "none".to_owned(),
        };
        found.push((one.variable.clone(), value));
    }
    let asks_aws = |model| catalog::wire(model, config).is_ok_and(|wire| wire_format::of(wire.api).uses_aws);
    if agents(config).flat_map(|agent| agent.models()).any(asks_aws) {
        found.extend(aws_variables(home, config)?);
    }
    Ok(found)
}

/// Returns the variables that AWS request signing reads: a bearer token or an access key pair, and the region.
fn aws_variables(home: &Home, config: &Config) -> Result<Vec<(String, String)>, OpenClawError> {
    const PROVIDER: &str = "amazon-bedrock";
    let settings = config.providers.get(PROVIDER);
    let failed = |reason| OpenClawError::NoKey { provider: PROVIDER.to_owned(), reason };
    let key = key::find(home, PROVIDER, settings, catalog::known(PROVIDER)).map_err(failed)?;
    let mut found: Vec<(String, String)> = Vec::new();
    // flock stores AWS credentials as one secret: a bearer token, or `id:secret[:session]`.
    let variables = match &key {
        Some(key) => {
            let parts: Vec<&str> = key.expose().splitn(3, ':').collect();
            let names = if let [_] = parts[..] {
                &[env::AWS_BEARER_TOKEN_BEDROCK][..]
            } else {
                &KEY_PAIR_VARIABLES[..]
            };
            found.extend(names.iter().zip(parts).map(|(name, part)| (name.name.to_owned(), part.to_owned())));
            &[][..]
        }
        None => &KEY_PAIR_VARIABLES[..],
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

const KEY_PAIR_VARIABLES: [env::Var; 3] =
    [env::AWS_ACCESS_KEY_ID, env::AWS_SECRET_ACCESS_KEY, env::AWS_SESSION_TOKEN];

pub(super) fn make_folders(home: &Home) -> Result<(), HomeError> {
    for path in [home.openclaw_versions(), home.openclaw_state()] {
        fs_err::create_dir_all(path.parent().unwrap_or(&path)).map_err(failed("make", &path))?;
        make(&path)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
