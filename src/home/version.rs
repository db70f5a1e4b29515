//! The home's format number. A home of a newer flock can be read by `status`, but nothing writes to it.

use super::{FORMAT, Home, HomeError, atomic};

/// Returns the home's format number, or `None` if there is no home or `init` has not finished.
///
/// # Errors
///
/// Returns [`HomeError::BadVersion`] if the file has no number in it, and [`HomeError::Io`] if it can't be read.
pub fn read(home: &Home) -> Result<Option<u32>, HomeError> {
    let path = home.version();
    // A number is much shorter. A longer file is not a format number.
    let Some(bytes) = atomic::read(&path, 64)? else { return Ok(None) };
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or(HomeError::BadVersion { path })
}

/// Checks that this flock may write to the home.
///
/// # Errors
///
/// Returns [`HomeError::Newer`] if the home has a newer format, and the errors of [`read`].
pub(crate) fn check_writable(home: &Home) -> Result<(), HomeError> {
    match read(home)? {
        Some(found) if found > FORMAT => {
            Err(HomeError::Newer { root: home.root().to_owned(), found, known: FORMAT })
        }
        _ => Ok(()),
    }
}

/// Writes this flock's format number to the home.
///
/// # Errors
///
/// Returns [`HomeError::Newer`] if the home has a newer format, and another error if the file can't be read or written.
pub(crate) fn stamp(home: &Home) -> Result<(), HomeError> {
    check_writable(home)?;
    atomic::write(&home.version(), format!("{FORMAT}\n").as_bytes(), 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_home_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        assert_eq!(read(&home).unwrap(), None);
        stamp(&home).unwrap();
        assert_eq!(read(&home).unwrap(), Some(FORMAT));
        std::fs::write(home.version(), format!("{}", FORMAT + 1)).unwrap();
        assert!(matches!(stamp(&home), Err(HomeError::Newer { .. })));
        std::fs::write(home.version(), "x").unwrap();
        assert!(matches!(check_writable(&home), Err(HomeError::BadVersion { .. })));
    }
}
