//! What a verb gets besides its own arguments, and how it ends.

use std::future::Future;
use std::path::PathBuf;

use super::Failure;
use crate::config::{self, ConfigError};
use crate::error::Kind;
use crate::home::{Home, instance, version};
use crate::ui::Printer;

/// How a verb ended that has said all there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what it was asked.
    Done,
    /// It did not, or what it reports is of this kind, as in `status` of a home where nothing runs.
    Failed(Kind),
    /// With the code of a program it ran.
    Code(u8),
}

impl Exit {
    /// The process' exit code.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed(kind) => kind.exit_code(),
            Self::Code(code) => code,
        }
    }
}

/// What every verb works with.
#[derive(Debug)]
pub struct Context {
    /// Where it says what it has to say.
    pub printer: Printer,
    home: Option<PathBuf>,
    yes: bool,
}

impl Context {
    /// A context of the global options.
    #[must_use]
    pub const fn new(printer: Printer, home: Option<PathBuf>, yes: bool) -> Self {
        Self { printer, home, yes }
    }

    /// Where the home is or would be.
    ///
    /// # Errors
    ///
    /// If there is no place for one.
    pub fn place(&self) -> Result<Home, Failure> {
        Ok(Home::locate(self.home.as_deref())?)
    }

    /// The home, which `init` has made.
    ///
    /// # Errors
    ///
    /// If it has not.
    pub fn home(&self) -> Result<Home, Failure> {
        let home = self.place()?;
        home.require()?;
        Ok(home)
    }

    /// The home, to be changed.
    ///
    /// # Errors
    ///
    /// If `init` has not made it, or a newer flock has.
    pub fn home_to_change(&self) -> Result<Home, Failure> {
        let home = self.home()?;
        version::check_writable(&home)?;
        relocate(&home)?;
        Ok(home)
    }

    /// Whether a person can be asked: there is one on both ends, and neither `--yes` nor `--json` was given.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        use std::io::IsTerminal as _;
        !self.yes
            && !self.printer.json_wanted()
            && std::io::stdin().is_terminal()
            && std::io::stderr().is_terminal()
    }

    /// Whether `--yes` was given.
    #[must_use]
    pub const fn yes(&self) -> bool {
        self.yes
    }

    /// Runs a future to its end on a runtime of one thread, made here so that other verbs don't pay for it.
    ///
    /// # Errors
    ///
    /// The future's own, or that no runtime could be made.
    pub fn block_on<T>(&self, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::caused("failed to start the runtime", &error))?;
        runtime.block_on(future)
    }
}

/// Has a home that was copied or moved lead to its own folders before anything is changed: a removal in a copy must not
/// take the workspace of the first home. A configuration that can't be used stays as it is; whoever reads it says why.
fn relocate(home: &Home) -> Result<(), Failure> {
    let Ok(Some(from)) = instance::came_from(home) else { return Ok(()) };
    let Ok((_, mut document)) = config::file::read_document(home) else { return Ok(()) };
    if config::relocate::relocate(&mut document, &from, home) && config::read(home).is_ok() {
        config::edit(home, |document| {
            config::relocate::relocate(document, &from, home);
            Ok::<_, ConfigError>(())
        })?;
    }
    Ok(())
}
