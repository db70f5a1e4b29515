//! The errors of packages, each with the command that helps.

use std::path::PathBuf;

use crate::config::PackageSource;
use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::id::McpServerName;
use crate::sandbox::check::CheckError;

/// The reason why a package can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackageError {
    /// The address of a registry in the environment is no usable address. It may have a password in it.
    #[error("{variable} is no http or https address, or has a login or a query in it")]
    Address { variable: &'static str },
    #[error("{} can't be reached: {reason}", registry.title())]
    Unreached { registry: PackageSource, reason: String },
    /// The registry answered with an error, or with something else than a registry does.
    #[error("{} gave no usable answer for {what}: {reason}", registry.title())]
    Answer { registry: PackageSource, what: String, reason: String },
    #[error("{} has no package {name}", registry.title())]
    UnknownPackage { registry: PackageSource, name: String },
    #[error("{name} has no version {range:?}; it has {}", known.join(", "))]
    UnknownVersion { name: String, range: String, known: Vec<String> },
    /// The package, or one that it needs, has no built form.
    #[error("{package} has no wheel, and flock builds nothing; {wheels}")]
    NoWheel { package: String, wheels: String },
    /// The registry's program found no set of packages that fits.
    #[error("no packages that fit {asked} were found: {output}")]
    Unresolved { asked: String, output: String },
    /// A package of the lock can't be pinned.
    #[error("{package} {what}")]
    Unpinned { package: String, what: String },
    /// The archive is not the one that the lock or flock's own list names.
    #[error("{package} has another hash than it should: {found} instead of {wanted}")]
    Integrity { package: String, wanted: String, found: String },
    /// An archive holds something that no package needs.
    #[error("{package} can't be unpacked: {what}")]
    Hostile { package: String, what: String },
    #[error("{what} is larger than flock fetches: more than {limit}")]
    TooLarge { what: String, limit: String },
    #[error("{package} has no program to run")]
    NoProgram { package: String },
    #[error("{package} has {}: {}", if wanted.is_some() { "no such program" } else { "several programs" }, bins.join(", "))]
    WhichProgram { registry: PackageSource, package: String, wanted: Option<String>, bins: Vec<String> },
    #[error("no Node for this kind of processor ({0}) is known to flock")]
    Processor(&'static str),
    #[error("the MCP server {0} has no package")]
    NoPackage(McpServerName),
    #[error("the lock of the MCP server {server} {why}")]
    BadLock { server: McpServerName, why: &'static str },
    /// A file of the home can't be read or written.
    #[error("failed to use {}", path.display())]
    Host {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A task of flock ended before its work did.
    #[error("a defect stopped the work: {0}")]
    Defect(String),
}

impl PackageError {
    /// Returns a function that adds the path to an error of the disk.
    pub(super) fn host(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Host { path, source }
    }
}

impl Explain for PackageError {
    fn kind(&self) -> Kind {
        match self {
            Self::Address { .. } | Self::WhichProgram { .. } => Kind::Usage,
            Self::Check(error) => error.kind(),
            Self::Home(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Address { variable, .. } => format!("unset {variable}, or set it to an address"),
            Self::Unreached { registry, .. } => {
                format!("check the network, HTTPS_PROXY and {}, then run it again", variable(*registry))
            }
            Self::Answer { registry, .. } => {
                format!("check {}, then run it again", variable(*registry))
            }
            Self::UnknownPackage { .. } | Self::UnknownVersion { .. } | Self::Unresolved { .. } => {
                "flock mcp add --help".to_owned()
            }
            Self::NoWheel { .. } => {
                "choose a version that has a wheel for this Python, or another server".to_owned()
            }
            Self::NoProgram { .. } | Self::Processor(_) => {
                "add its program with flock mcp add NAME -- COMMAND".to_owned()
            }
            Self::WhichProgram { registry, bins, .. } => {
                let first = bins.first().map_or("NAME", String::as_str);
                match registry {
                    PackageSource::Npm => format!("flock mcp add NAME --npm PACKAGE --bin {first}"),
                    PackageSource::Pypi => format!("flock mcp add NAME --pypi PACKAGE --bin {first}"),
                }
            }
            Self::Unpinned { .. } | Self::Integrity { .. } | Self::Hostile { .. } | Self::TooLarge { .. } => {
                "nothing of it was kept; tell the owner of the package or of the registry".to_owned()
            }
            Self::NoPackage(server) => format!("flock mcp show {server}"),
            Self::BadLock { server, .. } => format!("flock mcp update {server}"),
            Self::Host { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                "make room on the disk, then run it again".to_owned()
            }
            Self::Host { .. } => "flock doctor".to_owned(),
            Self::Check(error) => return error.hint(),
            Self::Home(error) => return error.hint(),
            Self::Defect(_) => return None,
        };
        Some(text)
    }
}

/// Returns the variable with the address of a registry.
const fn variable(registry: PackageSource) -> &'static str {
    match registry {
        PackageSource::Npm => crate::env::NPM_REGISTRY.name,
        PackageSource::Pypi => crate::env::PYPI_INDEX.name,
    }
}
