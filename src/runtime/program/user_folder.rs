//! The folder of a program's user, for a program whose login consists of links to files there.

use std::path::{Path, PathBuf};

use super::interface::Login;
use crate::env;
use crate::home::atomic;

/// Most bytes of the settings that are read.
const MAX_SETTINGS: u64 = 1 << 20;

/// The folder of a program's user.
#[derive(Debug)]
pub struct UserFolder {
    folder: PathBuf,
    settings: Option<String>,
}

impl UserFolder {
    /// Finds the user with this login. `None` if no absolute path of the folder is known.
    #[must_use]
    pub fn of(login: &Login) -> Option<Self> {
        let value = |wanted: &str| {
            let found = env::inherited().find(|(name, value)| name == wanted && !value.is_empty());
            found.map(|(_, value)| PathBuf::from(value))
        };
        let folder = value(login.variable).or_else(|| value("HOME"));
        Some(Self::at(folder.filter(|folder| folder.is_absolute())?, login))
    }

    fn at(folder: PathBuf, login: &Login) -> Self {
        let settings = atomic::read(&folder.join(login.settings), MAX_SETTINGS);
        let settings = settings.ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok());
        Self { folder, settings }
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the user's settings, if they can be read.
    #[must_use]
    pub fn settings(&self) -> Option<&str> {
        self.settings.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_no_text_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let login = Login { variable: "FOLDER_OF_NOBODY", files: &[], settings: "settings.json" };
        let found = || UserFolder::at(folder.path().to_owned(), &login).settings().map(str::to_owned);
        assert_eq!(found(), None);
        fs_err::write(folder.path().join("settings.json"), b"\xff").unwrap();
        assert_eq!(found(), None);
        fs_err::write(folder.path().join("settings.json"), "{}").unwrap();
        assert_eq!(found().as_deref(), Some("{}"));
        assert!(UserFolder::of(&login).is_some_and(|user| user.folder().is_absolute()));
    }
}
