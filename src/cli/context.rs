//! The context of a verb besides its own arguments, and the ways in which a verb ends.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::{Pin, pin};

use tokio::runtime::{Builder, Runtime};

use super::{Failure, rollback};
use crate::config::{self, ConfigError};
use crate::error::Kind;
use crate::home::{Home, instance, version};
use crate::ui::{OutputOptions, Printer, ask};

/// The end of a verb that has already printed everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The verb did what it was asked to do.
    Done,
    /// The verb failed, or it reports a state of this kind, as `status` does if nothing runs.
    Failed(Kind),
    /// The exit code of a program that the verb ran.
    Code(u8),
}

impl Exit {
    /// Returns the exit code of the process.
    #[must_use]
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed(kind) => kind.exit_code(),
            Self::Code(code) => code,
        }
    }
}

/// The context that every verb gets.
#[derive(Debug)]
pub(crate) struct Context {
    /// The printer for all output of the verb.
    pub printer: Printer,
    home: Option<PathBuf>,
    yes: bool,
}

impl Context {
    /// Creates a context from the global options.
    #[must_use]
    pub(crate) const fn new(printer: Printer, home: Option<PathBuf>, yes: bool) -> Self {
        Self { printer, home, yes }
    }

    /// Returns the same context with a printer that prints no messages, for a verb that has the whole screen.
    #[must_use]
    pub(crate) fn silent(&self) -> Self {
        let printer = Printer::new(OutputOptions { quiet: true, ..OutputOptions::default() });
        Self { printer, home: self.home.clone(), yes: self.yes }
    }

    /// Returns the location of the home, which need not exist yet.
    ///
    /// # Errors
    ///
    /// Returns an error if no location is known, or if it can't be a home, such as the root folder or a file.
    pub(crate) fn place(&self) -> Result<Home, Failure> {
        Ok(Home::locate(self.home.as_deref())?)
    }

    /// Returns the home, which must exist.
    ///
    /// # Errors
    ///
    /// Returns an error if `flock init` has not created it.
    pub(crate) fn home(&self) -> Result<Home, Failure> {
        let home = self.place()?;
        home.require_initialised()?;
        Ok(home)
    }

    /// Returns the home for a command that changes it.
    ///
    /// # Errors
    ///
    /// Returns an error if `flock init` has not created it, or if a newer version of flock has written it.
    pub(crate) fn writable_home(&self) -> Result<Home, Failure> {
        let home = self.home()?;
        // The version is checked first: an older flock must not change files whose format it does not know.
        version::check_writable(&home)?;
        // A rollback that was killed is completed first: everything else works on one state of the home.
        rollback::recover::complete(&home, self)?;
        relocate(&home)?;
        Ok(home)
    }

    /// Returns `true` if a person can be asked: stdin and stderr are terminals, and neither `--yes` nor `--json` was
    /// given.
    #[must_use]
    pub(crate) fn may_ask(&self) -> bool {
        use std::io::IsTerminal as _;
        !self.yes
            && !self.printer.is_json()
            && std::io::stdin().is_terminal()
            && std::io::stderr().is_terminal()
    }

    /// Returns `true` if `--yes` was given.
    #[must_use]
    pub(crate) const fn yes(&self) -> bool {
        self.yes
    }

    /// Asks a person to agree to something that can't be undone. `refused` is the error if the answer is no.
    ///
    /// # Errors
    ///
    /// Returns `unasked` if nobody can be asked, and an error if the person does not agree.
    pub(crate) fn confirm(&self, question: &str, unasked: Failure, refused: &str) -> Result<(), Failure> {
        if !self.may_ask() {
            return Err(unasked);
        }
        if ask::confirm(question, false)? { Ok(()) } else { Err(Failure::new(Kind::Failed, refused)) }
    }

    /// Returns a new single-threaded runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if no runtime can be created.
    pub(crate) fn runtime(&self) -> Result<Runtime, Failure> {
        new_runtime().map_err(|error| not_started(&error))
    }

    /// Runs a future to completion on a new single-threaded runtime, so that verbs without async work do not pay for
    /// one.
    ///
    /// # Errors
    ///
    /// Returns the future's own error, or an error if no runtime can be created.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        block_on(future).map_err(|error| not_started(&error))?
    }
}

/// Runs a future to its end on a new single-threaded runtime.
///
/// # Errors
///
/// Returns an error if no runtime can be created.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let mut done = None;
    drive(pin!(async { done = Some(future.await) }))?;
    done.ok_or_else(|| io::Error::other("the work has ended without a result"))
}

/// Not generic, so that the runtime is not compiled once more for each verb.
fn drive(future: Pin<&mut dyn Future<Output = ()>>) -> io::Result<()> {
    new_runtime()?.block_on(future);
    Ok(())
}

fn new_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn not_started(error: &io::Error) -> Failure {
    Failure::with_cause("failed to start the runtime", error)
}

/// Rewrites the configuration's paths of a home that was copied or moved, before anything is changed.
///
/// Otherwise a removal in the copy would delete the workspace of the original. A configuration that is not valid stays
/// as it is; the command that reads it next reports why.
fn relocate(home: &Home) -> Result<(), Failure> {
    let Ok(Some(from)) = instance::previous_path(home) else { return Ok(()) };
    let Ok((_, mut document)) = config::file::read_document(home) else { return Ok(()) };
    // Only paths that lead into the home it was copied from change, and the volume of the package store.
    if config::relocate::relocate(&mut document, &from, home) && config::read(home).is_ok() {
        // The change is computed again under the lock of the file, because another process may have changed it.
        config::edit(home, |document| {
            config::relocate::relocate(document, &from, home);
            Ok::<_, ConfigError>(())
        })?;
    }
    Ok(())
}
