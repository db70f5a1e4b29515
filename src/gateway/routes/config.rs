//! `/api/config…`: shows the configuration without its secrets, sets one value, and restores a backup.

use std::sync::Arc;

use axum::extract::{Extension, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::JsonResult;
use crate::clock::unix_ms;
use crate::config::path::ConfigPath;
use crate::config::restore::{self, ConfigBackup};
use crate::config::{self, Config, ConfigError, assign, edit, file, hidden};
use crate::error::{Explain as _, chain};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::state::Gateway;
use crate::gateway::{config_change, config_review};
use crate::generation::Origin;
use crate::home::{Home, atomic};
use crate::store::Level;
use crate::swarm::Actor;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Longest value in a row of the audit, in characters.
const MAX_RECORDED: usize = 200;

/// A new value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetValue {
    /// The path, as `flock config set` takes it.
    path: String,
    value: Value,
    /// Name of the person, for the audit.
    by: Option<String>,
}

/// The value to remove.
#[derive(Debug, Deserialize)]
pub(crate) struct UnsetQuery {
    /// The path, as `flock config unset` takes it.
    path: String,
    /// Name of the person, for the audit.
    by: Option<String>,
}

/// The backup to restore.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreBackup {
    /// Name of the backup.
    backup: String,
    /// Digest of the file that the person has seen and that the backup replaces.
    sha256: String,
    /// Name of the person, for the audit.
    by: Option<String>,
}

/// The result of removing a value.
enum Removal {
    Done,
    /// It is or holds a key or token, and stays.
    HoldsSecret,
    /// There is no such value.
    Nothing,
}

/// A line of the difference between two files.
#[derive(Serialize)]
struct DiffLine {
    kind: LineKind,
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum LineKind {
    Same,
    /// The backup has it, and the present file does not.
    Added,
    /// The present file has it, and the backup does not.
    Removed,
}

/// Returns the configuration as it is on the disk, what is wrong with it, and its backups.
pub(crate) async fn show(State(gateway): State<Arc<Gateway>>) -> JsonResult {
    blocking(&gateway, |home| {
        let bytes = present(home)?;
        let (document, problem, warnings) = match checked(home) {
            Ok((document, warnings)) => (document, None, warnings),
            // A document with a mistake is shown all the same. Text that is no JSON is not: nobody knows what in it is
            // secret.
            Err(error) => {
                (file::read_document(home).ok().map(|(_, document)| document), Some(error), Vec::new())
            }
        };
        let document = document.map(|mut document| {
            hidden::hide_secrets(&mut document);
            document
        });
        let backups: Vec<Value> = restore::all(home).iter().map(|backup| describe(home, backup)).collect();
        Ok(json!({
            "path": home.config(),
            "sha256": restore::digest(&bytes),
            "document": document,
            "problem": problem.map(|error| json!({"message": chain(&error), "hint": error.hint()})),
            "warnings": warnings,
            "backups": backups,
        }))
    })
    .await
}

/// Returns what would change if a backup was restored.
pub(crate) async fn backup(State(gateway): State<Arc<Gateway>>, Path(name): Path<String>) -> JsonResult {
    blocking(&gateway, move |home| {
        let backup = restore::find(home, &name)?;
        let (_, mut after) = backup.read()?;
        let bytes = present(home)?;
        // A file that is no JSON has no lines that may be shown.
        let (_, mut before) = file::read_document(home).unwrap_or_default();
        let secrets = hidden::different_secrets(&before, &after);
        hidden::hide_secrets(&mut before);
        hidden::hide_secrets(&mut after);
        let mut shown = describe(home, &backup);
        shown["replaces"] = restore::digest(&bytes).into();
        shown["hunks"] = json!(hunks(&before, &after));
        shown["changedSecrets"] = json!(secrets);
        Ok(shown)
    })
    .await
}

/// Sets one value, with all checks of `flock config set`.
pub(crate) async fn set(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    JsonBody(SetValue { path, value, by }): JsonBody<SetValue>,
) -> JsonResult {
    let by = Actor::party(caller.person(by.as_deref())?);
    let path = open_path(&path)?;
    // A key that is typed into a page would be in the browser's memory and perhaps in its history of forms.
    if hidden::holds_secret(&value) {
        return Err(secret_value(&path));
    }
    let recorded = crate::clean::summary(&value.to_string(), MAX_RECORDED);
    let (shown, home) = (path.to_string(), gateway.home().clone());
    let entry = by.entry("config.set", &shown, Level::Yellow, recorded);
    let origin = Origin::new(by.party.to_string(), "config.set, by the API");
    let change = move |document: &mut Value| assign::put(document, &home, &path, value);
    let changing = config_change::change(&gateway, origin, change, move |_, _| Some(entry));
    let off_host = Box::pin(changing).await.map_err(ApiError::explained)?;
    with_digest(&gateway, json!({"path": shown, "offHost": off_host})).await
}

/// Removes one value, as `flock config unset` does.
pub(crate) async fn unset(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Query(UnsetQuery { path, by }): Query<UnsetQuery>,
) -> JsonResult {
    let by = Actor::party(caller.person(by.as_deref())?);
    let path = open_path(&path)?;
    let shown = path.to_string();
    let entry = by.entry("config.unset", &shown, Level::Yellow, String::new());
    let origin = Origin::new(by.party.to_string(), "config.unset, by the API");
    let change = move |document: &mut Value| {
        // A whole block may hold keys. They are in the configuration for good reasons, and nobody sees them here.
        if path.get(document).is_some_and(hidden::holds_secret) {
            return Ok(Removal::HoldsSecret);
        }
        Ok(if path.remove(document) { Removal::Done } else { Removal::Nothing })
    };
    let record = move |removal: &Removal, _: &Config| matches!(removal, Removal::Done).then_some(entry);
    let changing = config_change::change(&gateway, origin, change, record);
    match Box::pin(changing).await.map_err(ApiError::explained)? {
        Removal::Done => with_digest(&gateway, json!({"path": shown})).await,
        Removal::HoldsSecret => {
            let text = format!("{shown} holds a key or token, which is removed on the command line only");
            Err(ApiError::invalid("secret_value", text).with_hint(format!("flock config unset {shown}")))
        }
        Removal::Nothing => {
            Err(ApiError::not_found("value_not_found", format!("the configuration has no {shown}"))
                .with_hint("flock config get"))
        }
    }
}

/// Returns the path of a value that may be changed here.
///
/// # Errors
///
/// Returns 400 if it is no path, or if it names a key, a token or the source of packages.
fn open_path(text: &str) -> Result<ConfigPath, ApiError> {
    let path: ConfigPath = text.parse().map_err(|why: String| ApiError::invalid("invalid_path", why))?;
    if path.keys().iter().any(|key| hidden::is_secret(key)) {
        return Err(secret_value(&path));
    }
    // The command also pins the packages, which can take long.
    if path.to_string().ends_with("config.nix.flake") {
        let text = format!("{path} is set on the command line only, which also pins the packages");
        let hint = format!("flock config set {path} FLAKE");
        return Err(ApiError::invalid("set_elsewhere", text).with_hint(hint));
    }
    Ok(path)
}

fn secret_value(path: &ConfigPath) -> ApiError {
    let text = format!("{path} is or holds a key or token, which is set on the command line only");
    ApiError::invalid("secret_value", text).with_hint(format!("flock config set {path} -"))
}

/// Puts a backup in the place of the configuration.
pub(crate) async fn restore_backup(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    JsonBody(RestoreBackup { backup, sha256, by }): JsonBody<RestoreBackup>,
) -> JsonResult {
    let by = Actor::party(caller.person(by.as_deref())?);
    let subject = crate::clean::summary(&backup, MAX_RECORDED);
    let origin = Origin::new(by.party.to_string(), "config.restore, by the API");
    let answer = blocking(&gateway, move |home| {
        let sha256 = origin.run(|| restore::restore(home, &backup, &sha256))?;
        Ok(json!({"backup": backup, "sha256": sha256}))
    })
    .await?;
    // The look applies the change at once and announces it.
    drop(gateway.config());
    let entry = by.entry("config.restore", &subject, Level::Yellow, String::new());
    gateway.swarm.store().audit().append(entry, unix_ms()).await.map_err(ApiError::explained)?;
    Ok(answer)
}

/// Adds the digest of the present file to an answer.
async fn with_digest(gateway: &Gateway, mut answer: Value) -> JsonResult {
    blocking(gateway, move |home| {
        answer["sha256"] = restore::digest(&present(home)?).into();
        Ok(answer)
    })
    .await
}

/// Runs work on the files of the configuration, which blocks, on a thread of its own.
async fn blocking(
    gateway: &Gateway,
    work: impl FnOnce(&Home) -> Result<Value, ConfigError> + Send + 'static,
) -> JsonResult {
    let home = gateway.home().clone();
    let done = tokio::task::spawn_blocking(move || work(&home)).await.map_err(ApiError::internal)?;
    done.map(axum::Json).map_err(|error| match error {
        ConfigError::NoBackup(_) => ApiError::not_found("backup_not_found", error.to_string()),
        ConfigError::Changed => {
            ApiError::conflict("changed", error.to_string()).with_hint(error.hint().unwrap_or_default())
        }
        error => ApiError::explained(error),
    })
}

fn present(home: &Home) -> Result<Vec<u8>, ConfigError> {
    Ok(atomic::read(&home.config(), file::CAP)?.unwrap_or_default())
}

/// Returns the document and the warnings about it, or the error that makes it unusable.
fn checked(home: &Home) -> Result<(Option<Value>, Vec<String>), ConfigError> {
    let config = config::read(home)?;
    let (_, document) = file::read_document(home)?;
    let warnings = config_review::warnings(home, &document, &config);
    Ok((Some(document), warnings))
}

fn describe(home: &Home, backup: &ConfigBackup) -> Value {
    json!({
        "name": backup.name,
        "at": backup.at,
        "step": backup.step,
        "problem": backup.problem(home).map(|error| error.to_string()),
    })
}

/// Returns the lines that differ, in groups with some unchanged lines around them.
fn hunks(before: &Value, after: &Value) -> Vec<Vec<DiffLine>> {
    let [before, after] =
        [before, after].map(|document| String::from_utf8_lossy(&edit::render(document)).into_owned());
    let diff = TextDiff::from_lines(&before, &after);
    let groups = diff.grouped_ops(CONTEXT_LINES);
    let lines = groups.iter().map(|group| {
        let changes = group.iter().flat_map(|part| diff.iter_changes(part));
        changes
            .map(|change| DiffLine {
                kind: match change.tag() {
                    ChangeTag::Equal => LineKind::Same,
                    ChangeTag::Insert => LineKind::Added,
                    ChangeTag::Delete => LineKind::Removed,
                },
                text: change.value().trim_end_matches('\n').to_owned(),
            })
            .collect()
    });
    lines.collect()
}
