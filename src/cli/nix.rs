//! `flock nix`: packages of agents' profiles in the shared store.

use super::{Context, Failure};
use crate::error::Kind;
use crate::home::Home;
use crate::id::AgentId;

/// Whether a text can name a package.
///
/// # Errors
///
/// If it can't.
pub fn check_package(name: &str) -> Result<(), Failure> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-');
    if name.is_empty() || name.len() > 200 || name.starts_with('-') || !name.chars().all(allowed) {
        let text = format!("{name:?} is not the name of a package: use its attribute name, as in ripgrep");
        return Err(Failure::new(Kind::Usage, text).hint("flock nix --help"));
    }
    Ok(())
}

/// Installs a package into an agent's profile.
///
/// # Errors
///
/// If the store does not answer, or the package can't be had.
pub async fn install(_home: &Home, _id: &AgentId, package: &str, _context: &Context) -> Result<(), Failure> {
    Err(Failure::new(
        Kind::DockerUnavailable,
        format!("the package {package} can't be installed: there is no store yet"),
    ))
}
