//! Carries the configuration between the file of the home and the database, in a group of gateways.
//!
//! The database has what all of them share. Each gateway publishes what was changed in its file, and adopts what others
//! published. `config::shared` decides; the file `data/shared-config.json` says what the home has taken or published last.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::Gateway;
use crate::config::shared::{Sharing, adopted, decide, shared_part};
use crate::config::{self, ConfigError, file};
use crate::error::{Explain, Kind, chain};
use crate::home::{Home, HomeError, atomic};
use crate::store::{GatewayGroup, NoticeKind, SharedConfig, Store, StoreError};
use crate::sync::lock;

/// Longest time between two looks. A notice of another gateway comes at once.
const INTERVAL: Duration = Duration::from_secs(2);

/// The reason why the configuration could not be carried.
#[derive(Debug, thiserror::Error)]
pub enum SharedConfigError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody has changed the database by hand.
    #[error("the configuration in the database is not JSON")]
    Malformed(#[source] serde_json::Error),
    /// The folder of the agents' files is not the one of the other gateways.
    #[error("{} does not have the files of the agents that the other gateways use", path.display())]
    OtherFiles { path: PathBuf },
    /// Another change of the configuration came first.
    #[error("the configuration was changed elsewhere at the same moment")]
    Outrun,
}

impl Explain for SharedConfigError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Config(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Malformed(_) | Self::OtherFiles { .. } => Kind::Failed,
            Self::Outrun => Kind::Conflict,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Home(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Malformed(_) => None,
            Self::Outrun => Some("flock config get".to_owned()),
            Self::OtherFiles { path } => Some(format!(
                "mount the folder of the other gateways there, or name it: ln -sfn FOLDER {}",
                path.display()
            )),
        }
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Home(error) => error.may_pass(),
            Self::Config(error) => error.may_pass(),
            Self::Store(error) => error.may_pass(),
            Self::Malformed(_) | Self::OtherFiles { .. } | Self::Outrun => false,
        }
    }
}

/// The record of what this home has adopted or published last.
#[derive(Serialize, Deserialize)]
struct Base {
    revision: i64,
    config: Value,
}

impl Base {
    fn read(home: &Home) -> Result<Option<Self>, HomeError> {
        // One that can't be parsed is as good as none: the database has the configuration.
        let bytes = atomic::read(&home.shared_config(), config::file::CAP)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    fn write(self, home: &Home) -> Result<(), HomeError> {
        let bytes = serde_json::to_vec(&self).unwrap_or_default();
        atomic::write(&home.shared_config(), &bytes, 0o600)
    }
}

/// The longest mark, in bytes.
const MAX_MARK: u64 = 256;

/// Checks that the folder of the agents' files is the one that the other gateways use.
///
/// # Errors
///
/// Returns [`SharedConfigError::OtherFiles`] if it is not, or if the machine has not mounted it.
pub(crate) fn check_files(home: &Home, group: &GatewayGroup) -> Result<(), SharedConfigError> {
    let mark = atomic::read(&home.files_mark(), MAX_MARK)?;
    if mark.is_some_and(|mark| mark.trim_ascii() == group.files.as_bytes()) {
        return Ok(());
    }
    Err(SharedConfigError::OtherFiles { path: home.files().to_owned() })
}

/// Checks that this home can use the configuration of the group, unless it has it already.
///
/// # Errors
///
/// Returns the reason why it is not usable here, or an error if a file can't be read.
pub(crate) fn check_usable(home: &Home, group: &GatewayGroup) -> Result<(), SharedConfigError> {
    if Base::read(home)?.is_some_and(|base| base.revision == group.revision) {
        return Ok(());
    }
    let theirs: Value = serde_json::from_str(&group.config.text).map_err(SharedConfigError::Malformed)?;
    let own = file::read_document(home)?.1;
    let after = adopted(&theirs, &own, Path::new(&group.config.root), home);
    config::parse::config(&after, home).map_err(|problem| file::shape(home, problem))?;
    Ok(())
}

/// Returns what the file of this home shares with others.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub(crate) fn own(home: &Home, instance: &str) -> Result<SharedConfig, ConfigError> {
    Ok(shared(home, instance, &present(home)?))
}

/// Returns the part of the home's file that it shares.
fn present(home: &Home) -> Result<Value, ConfigError> {
    Ok(shared_part(&file::read_document(home)?.1))
}

/// Returns this part as the database has it.
pub(super) fn shared(home: &Home, instance: &str, present: &Value) -> SharedConfig {
    SharedConfig {
        text: present.to_string(),
        root: home.files().to_string_lossy().into_owned(),
        by: instance.to_owned(),
    }
}

/// Makes the configuration of the database that of this home. Returns `true` if that changed anything.
///
/// # Errors
///
/// Returns an error if it is not usable here, or if a file can't be written.
pub(crate) fn adopt(home: &Home, group: &GatewayGroup) -> Result<bool, SharedConfigError> {
    let theirs: Value = serde_json::from_str(&group.config.text).map_err(SharedConfigError::Malformed)?;
    // The one that it replaces may not be usable: a home that has just joined still has the paths of its own workspaces in it.
    let has_changed = config::complete(home, |document| {
        let after = adopted(&theirs, document, Path::new(&group.config.root), home);
        let has_changed = after != *document;
        if has_changed {
            *document = after;
        }
        Ok::<_, ConfigError>(has_changed)
    })?;
    // What the file has now, and not what the database has: the paths are those of this home.
    note_published(home, group.revision)?;
    Ok(has_changed)
}

/// Notes that the database has what the file of this home shares, under this number.
///
/// # Errors
///
/// Returns an error if a file can't be read or written.
pub(crate) fn note_published(home: &Home, revision: i64) -> Result<(), SharedConfigError> {
    Base { revision, config: present(home)? }.write(home)?;
    Ok(())
}

/// Publishes or adopts a change, if there is one.
///
/// # Errors
///
/// Returns an error if the database or a file can't be used, or if the configuration of the database is not usable here.
pub(crate) async fn synchronise(
    home: &Home,
    store: &Store,
    instance: &str,
) -> Result<Sharing, SharedConfigError> {
    let Some(newest) = store.gateway_group().revision().await? else { return Ok(Sharing::Same) };
    let base = Base::read(home)?;
    let present = present(home)?;
    let sharing = decide(base.as_ref().map(|base| (base.revision, &base.config)), &present, newest);
    match (sharing, base) {
        (Sharing::Publish, Some(base)) => {
            // If another gateway was faster, the next look finds its configuration.
            let own = shared(home, instance, &present);
            if let Some(revision) = store.gateway_group().replace_config(base.revision, own, None).await? {
                Base { revision, config: present }.write(home)?;
                tracing::info!(revision, "the configuration was shared with the other gateways");
            }
        }
        (Sharing::Adopt | Sharing::Overrule, _) => {
            let Some(group) = store.gateway_group().find().await? else { return Ok(Sharing::Same) };
            let place = home.clone();
            let revision = group.revision;
            let adopting = tokio::task::spawn_blocking(move || adopt(&place, &group)).await;
            let has_changed = adopting.map_err(|_| StoreError::Stopped)??;
            if has_changed && sharing == Sharing::Overrule {
                tracing::error!(
                    revision,
                    backups = %home.backups().display(),
                    "the configuration was changed here and by another gateway at the same time; the other one is used, and \
                     this one is in the backups"
                );
            } else if has_changed {
                tracing::info!(revision, "a configuration of another gateway was adopted");
            }
        }
        _ => {}
    }
    Ok(sharing)
}

/// Returns the number of the configuration that this home shares, after it has published or adopted what is newer. `None` for
/// a gateway without others.
///
/// # Errors
///
/// Returns the errors of [`synchronise()`].
pub(super) async fn known_revision(
    home: &Home,
    store: &Store,
    instance: &str,
) -> Result<Option<i64>, SharedConfigError> {
    if !store.is_in_group() {
        return Ok(None);
    }
    synchronise(home, store, instance).await?;
    // A person may have ended the group since the gateway started.
    if store.gateway_group().revision().await?.is_none() {
        return Ok(None);
    }
    Ok(Base::read(home)?.map(|base| base.revision))
}

/// Makes a change in the file of this home that the database has under this number. `shared` is what the database has: whatever
/// else was changed in the file meanwhile differs from it, and is published next.
///
/// # Errors
///
/// Returns an error if the file does not take the change, or can't be read or written. Nothing is noted then.
pub(super) fn take<T>(
    home: &Home,
    change: impl FnOnce(&mut Value) -> Result<T, ConfigError>,
    shared: Value,
    revision: i64,
) -> Result<(), SharedConfigError> {
    config::edit(home, change)?;
    Base { revision, config: shared }.write(home)?;
    Ok(())
}

/// Publishes and adopts changes until the gateway stops. A gateway without others returns at once.
pub(super) async fn run(gateway: Arc<Gateway>) {
    let store = gateway.swarm.store();
    if !store.is_in_group() {
        return;
    }
    let mut notices = store.notices();
    let mut problem = String::new();
    loop {
        let alone = gateway.sharing.lock().await;
        let shared = synchronise(gateway.home(), store, &gateway.instance).await;
        drop(alone);
        *lock(&gateway.sharing_problem) = match &shared {
            // The state of the storage says so.
            Ok(_) | Err(SharedConfigError::Store(_)) => None,
            Err(error) => Some(format!("that of the group can't be used here: {}", chain(error))),
        };
        match shared {
            Ok(Sharing::Same) => problem.clear(),
            // The change takes effect at the first look at the configuration.
            Ok(_) => drop(gateway.config()),
            Err(error) => {
                let text = chain(&error);
                if text != problem {
                    tracing::error!(
                        error = text,
                        "the configuration could not be shared with the other gateways"
                    );
                }
                problem = text;
            }
        }
        tokio::select! {
            () = gateway.stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
            _ = notices.next_of(&[NoticeKind::Config]) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{edit, starter};

    #[test]
    fn a_configuration_that_is_not_usable_here_is_said_until_it_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let mut document = starter::document(&home, None, "token", 3779);
        atomic::write(&home.config(), &edit::render(&document), 0o600).unwrap();
        let group = |document: &Value, revision| {
            let config = shared(&home, "other", &shared_part(document));
            GatewayGroup { files: String::new(), revision, config }
        };
        check_usable(&home, &group(&document, 1)).unwrap();
        document["plugins"]["entries"]["flock"]["config"]["maxAgents"] = "many".into();
        let refused = check_usable(&home, &group(&document, 2)).unwrap_err();
        assert!(chain(&refused).contains("maxAgents"), "{refused:?}");
        Base { revision: 2, config: Value::Null }.write(&home).unwrap();
        check_usable(&home, &group(&document, 2)).unwrap();
    }

    #[test]
    fn a_change_that_the_database_has_leaves_what_was_changed_in_the_file_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let mut document = starter::document(&home, None, "token", 3779);
        atomic::write(&home.config(), &edit::render(&document), 0o600).unwrap();
        let limit = |document: &mut Value, most: u32| -> Result<(), ConfigError> {
            document["plugins"]["entries"]["flock"]["config"]["maxAgents"] = most.into();
            Ok(())
        };
        let step = |newest| {
            let base = Base::read(&home).unwrap().unwrap();
            decide(Some((base.revision, &base.config)), &present(&home).unwrap(), newest)
        };
        limit(&mut document, 7).unwrap();
        take(&home, |document| limit(document, 7), shared_part(&document), 2).unwrap();
        assert_eq!(file::read_document(&home).unwrap().1, document);
        assert_eq!((step(2), step(3)), (Sharing::Same, Sharing::Adopt));
        // A command changes the file after the database has a change, and before the file has it.
        limit(&mut document, 8).unwrap();
        let shared = shared_part(&document);
        let command = |document: &mut Value| -> Result<(), ConfigError> {
            document["later"] = 1.into();
            Ok(())
        };
        config::edit(&home, command).unwrap();
        take(&home, |document| limit(document, 8), shared, 3).unwrap();
        command(&mut document).unwrap();
        assert_eq!(file::read_document(&home).unwrap().1, document);
        assert_eq!((step(3), step(4)), (Sharing::Publish, Sharing::Overrule));
        // The file does not take it.
        let refused = |_: &mut Value| -> Result<(), ConfigError> { Err(ConfigError::RollingBack) };
        take(&home, refused, Value::Null, 4).unwrap_err();
        assert_eq!(step(3), Sharing::Publish);
    }
}
