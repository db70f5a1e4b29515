//! `flock session export`: writes a transcript as one JSON document.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{SessionArg, backend};
use crate::agent::transcript::import_export;
use crate::cli::{Context, Exit, Failure};

/// Export a session's transcript as one JSON document
///
/// Writes every record as it is stored, including data that providers want back. docs/transcript.md describes the
/// records.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: SessionArg,
    /// File to write, or "-" for stdout
    #[arg(default_value = "-")]
    file: PathBuf,
}

/// Writes the document.
///
/// # Errors
///
/// Returns an error if there is no such session, or if the transcript can't be read or the file can't be written.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let key = backend::key(&args.which.session, &home)?;
    let session = backend::find(&home, &key)?;
    let path = home.sessions(key.agent()).join(format!("{}.jsonl", session.file));
    let transcript = crate::home::regular::open(&path)
        .map_err(|error| Failure::with_cause(format!("failed to open {}", path.display()), &error))?;
    // The whole document is made before anything is written, so that an unreadable transcript leaves no half file.
    let mut document = Vec::new();
    let records = import_export::export(&transcript, &key, session.created_at, &mut document)
        .map_err(|error| Failure::with_cause(format!("failed to read {}", path.display()), &error))?;
    if args.file == Path::new("-") {
        context.printer.raw(&document);
        return Ok(Exit::Done);
    }
    write(&args.file, &document)
        .map_err(|error| Failure::with_cause(format!("failed to write {}", args.file.display()), &error))?;
    context.printer.if_json(&json!({"key": key, "file": args.file, "records": records}));
    context.printer.say(format!("{records} records of {key} are in {}", args.file.display()));
    Ok(Exit::Done)
}

/// Writes the file atomically and readable only by its owner, because it holds a conversation.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The draft lies in the same folder, because a rename works only within one file system.
    let mut file = tempfile::Builder::new().prefix(".flock-export-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
