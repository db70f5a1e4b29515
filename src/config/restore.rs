//! The backups of the configuration that every change leaves: what they hold, and how one of them comes back.

use std::path::PathBuf;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{ConfigError, edit, file, parse};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic, version};
use crate::id::hex;

/// A backup of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigBackup {
    /// The name of its file.
    pub name: String,
    /// The time in Unix milliseconds at which the file was replaced by the next one.
    pub at: i64,
    /// Its number among the backups of the same millisecond, from 0.
    pub step: u32,
    path: PathBuf,
}

/// Returns the digest by which a person names the file that was shown: the SHA-256 in hexadecimal digits.
#[must_use]
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns all backups, the newest first.
#[must_use]
pub(crate) fn all(home: &Home) -> Vec<ConfigBackup> {
    let parse = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        let mut numbers = name.strip_prefix("config-")?.split(['-', '.']);
        let at = numbers.next()?.parse().ok()?;
        // Backups of an older flock have no such number.
        let step = numbers.next().and_then(|step| step.parse().ok()).unwrap_or_default();
        Some(ConfigBackup { name, at, step, path })
    };
    file::backups(home).into_iter().rev().filter_map(parse).collect()
}

/// Returns the backup with this name.
///
/// # Errors
///
/// Returns [`ConfigError::NoBackup`] if there is none.
pub(crate) fn find(home: &Home, name: &str) -> Result<ConfigBackup, ConfigError> {
    // Only a name that was listed is opened, so no name leads out of the folder.
    let found = all(home).into_iter().find(|backup| backup.name == name);
    found.ok_or_else(|| ConfigError::NoBackup(crate::clean::summary(name, 80)))
}

impl ConfigBackup {
    /// Returns the file's bytes and the document in them.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read or is not JSON.
    pub(crate) fn read(&self) -> Result<(Vec<u8>, Value), ConfigError> {
        let bytes = atomic::read(&self.path, file::CAP)?;
        let bytes = bytes.ok_or_else(|| ConfigError::NoBackup(self.name.clone()))?;
        let document = file::document(&bytes).map_err(|(line, column, message)| {
            self.unusable(format!("line {line}, column {column}: {message}"))
        })?;
        Ok((bytes, document))
    }

    /// Returns the reason why it can't be restored, or `None` if it is a valid configuration.
    pub(crate) fn problem(&self, home: &Home) -> Option<ConfigError> {
        self.valid(home).err()
    }

    fn valid(&self, home: &Home) -> Result<Vec<u8>, ConfigError> {
        let (bytes, document) = self.read()?;
        match parse::config(&document, home) {
            Ok(_) => Ok(bytes),
            Err(problem) => Err(self.unusable(format!("{} {}", problem.at, problem.message))),
        }
    }

    fn unusable(&self, why: String) -> ConfigError {
        ConfigError::UnusableBackup { name: self.name.clone(), why }
    }
}

/// Puts a backup in the place of the configuration, which becomes the newest backup. `shown` is the digest of the file
/// that the person has seen: a newer one is not replaced. The present file may be broken. Returns the new digest.
///
/// # Errors
///
/// Returns an error if there is no such backup, if it is no valid configuration, if the file has changed since it was
/// shown, or if it can't be replaced. Then it stays as it was.
pub(crate) fn restore(home: &Home, name: &str, shown: &str) -> Result<String, ConfigError> {
    home.require_initialised()?;
    version::check_writable(home)?;
    let _lock = Lock::acquire(&home.config_lock(), edit::LOCK_TIMEOUT)?;
    let path = home.config();
    let missing = || HomeError::NotInitialised { root: home.root().to_owned() };
    let present = atomic::read(&path, file::CAP)?.ok_or_else(missing)?;
    if digest(&present) != shown {
        return Err(ConfigError::Changed);
    }
    // The backup is read before the present file becomes one, because that can remove the oldest.
    let found = find(home, name)?;
    let bytes = found.valid(home)?;
    if bytes != present {
        let (_, after) = found.read()?;
        // A broken file has no state that a generation could record.
        let before = file::document(&present).ok();
        edit::write_as_generation(home, (&present, before.as_ref()), (&bytes, &after))?;
    }
    Ok(digest(&bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{read, starter};

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("flock"), None);
        home.make_folders().unwrap();
        let document = starter::document(&home, None, "token", 3779);
        atomic::write(&home.config(), &edit::render(&document), 0o600).unwrap();
        (dir, home)
    }

    fn limit_agents(home: &Home, most: u32) {
        edit::edit(home, |document| {
            document["plugins"]["entries"]["flock"]["config"]["maxAgents"] = json!(most);
            Ok::<_, ConfigError>(())
        })
        .unwrap();
    }

    fn present(home: &Home) -> Vec<u8> {
        std::fs::read(home.config()).unwrap()
    }

    #[test]
    fn a_backup_comes_back_and_the_present_file_becomes_one() {
        let (_dir, home) = home();
        limit_agents(&home, 7);
        let first = present(&home);
        limit_agents(&home, 8);
        let newest = all(&home)[0].clone();
        assert_eq!(newest.read().unwrap().0, first);
        let second = present(&home);
        let shown = digest(&second);
        assert_eq!(restore(&home, &newest.name, &shown).unwrap(), digest(&first));
        assert_eq!(read(&home).unwrap().max_agents, 7);
        assert_eq!(all(&home)[0].read().unwrap().0, second, "nothing is lost");
        // What was shown is not there any more.
        let error = restore(&home, &newest.name, &shown).unwrap_err();
        assert!(matches!(error, ConfigError::Changed), "{error}");
        assert_eq!(present(&home), first);
    }

    #[test]
    fn backups_of_one_millisecond_differ_by_their_number() {
        let (_dir, home) = home();
        for name in ["config-000000000000001-000.json", "config-000000000000001-012.json", "config-2.json"] {
            std::fs::write(home.backups().join(name), "{}").unwrap();
        }
        let found: Vec<(i64, u32)> = all(&home).iter().map(|backup| (backup.at, backup.step)).collect();
        assert_eq!(found, [(2, 0), (1, 12), (1, 0)]);
    }

    #[test]
    fn a_broken_file_is_replaced_and_a_broken_backup_replaces_nothing() {
        let (_dir, home) = home();
        limit_agents(&home, 7);
        let good = all(&home)[0].clone();
        let broken = home.backups().join("config-000000000000001-000.json");
        std::fs::write(&broken, "{\"agents\": 5}").unwrap();
        std::fs::write(home.config(), "{").unwrap();
        for (name, wanted) in [
            ("config-000000000000001-000.json", "can't be used: agents must be an object"),
            ("../config.json", "there is no backup"),
            ("config-000000000000002-000.json", "there is no backup"),
        ] {
            let error = restore(&home, name, &digest(b"{")).unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
            assert_eq!(present(&home), b"{");
        }
        restore(&home, &good.name, &digest(b"{")).unwrap();
        assert!(read(&home).is_ok());
    }
}
