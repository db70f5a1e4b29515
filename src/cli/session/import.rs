//! `flock session import`: creates a session from an exported one.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::backend::{self, SessionBackend};
use crate::agent::transcript::import_export::{self, ImportedSession};
use crate::agent::transcript::import_note;
use crate::cli::{Context, Exit, Failure, database, person};
use crate::clock;
use crate::error::Kind;
use crate::home::Home;
use crate::id::{SessionKey, SessionKind};

/// Create a session from an exported one
///
/// The agent is shown the messages of the document as brought from elsewhere. None of them counts as said here, or by
/// you.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock session import coder.json
  flock session import coder.json --session agent:coder:flock:main:ann")]
pub(crate) struct Args {
    /// Document to read, or "-" for stdin
    file: PathBuf,
    /// Key of the new session [default: the exported key]
    ///
    /// Must be given if the exported session was not somebody's own session with an agent.
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
}

/// Imports the session.
///
/// # Errors
///
/// Returns an error if the file is not an exported session, if its agent does not exist here, or if a session already
/// has the key.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let document = read(&args.file)?;
    let imported = import_export::import(&document)?;
    // The document can be large, and its text is no longer needed.
    drop(document);
    let key = match &args.session {
        Some(key) => key.clone(),
        // A document must not decide that it is an agent's conversation with others, such as a channel.
        None if imported.key.kind() == SessionKind::Main => imported.key.clone(),
        None => {
            let own = SessionKey::new(imported.key.agent(), SessionKind::Main, &person::login());
            let problem = format!("{} was a conversation with others, so it needs another key", imported.key);
            return Err(Failure::new(Kind::Usage, problem)
                .hint(format!("flock session import {} --session {own}", args.file.display())));
        }
    };
    context.block_on(async {
        let backend = SessionBackend::open(&home, context).await?;
        backend.live().current().require_agent(key.agent())?;
        let find = || database::read(&home, async |reader| reader.sessions().find(&key).await);
        if find()?.flatten().is_some() {
            return Err(backend::exists(&key));
        }
        let name = uuid::Uuid::now_v7().to_string();
        let failed = |error: io::Error| {
            Failure::with_cause(format!("failed to write the transcript of {key}"), &error)
        };
        let folder = made(&home, &key).map_err(failed)?;
        // The note names the transcript before it exists, so that the next start can remove one that no session uses.
        let note = import_note::begin(&folder, &name).map_err(failed)?;
        let adopted = match put(&folder, &key, &name, &imported) {
            Ok(()) => backend.adopt(&key, &name).await,
            Err(error) => Err(failed(error)),
        };
        // A gateway that was killed before it answered may have created the session.
        let has_session = |error| match find()? {
            Some(Some(made)) if made.file == name => Ok(()),
            _ => Err(error),
        };
        let adopted = adopted.or_else(has_session);
        if adopted.is_err() {
            // No session uses the file. If removing it fails too, the note makes the next start remove it.
            match fs_err::remove_file(folder.join(format!("{name}.jsonl"))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        import_note::done(&note);
        adopted
    })?;
    context.printer.if_json(&json!({"key": key, "records": imported.records}));
    context.printer.say(format!("{key} has {} records", imported.records));
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let all = |source: &mut dyn io::Read| {
        let mut bytes = Vec::new();
        // One byte more than allowed tells a document of exactly the limit from a larger one.
        source.take(import_export::MOST_BYTES + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let read = if path == Path::new("-") {
        all(&mut io::stdin())
    } else {
        std::fs::File::open(path).and_then(|mut file| all(&mut file))
    };
    let bytes =
        read.map_err(|error| Failure::with_cause(format!("failed to read {}", path.display()), &error))?;
    if bytes.is_empty() {
        return Err(Failure::new(Kind::Usage, "the document is empty").hint("flock session export KEY FILE"));
    }
    Ok(bytes)
}

/// Returns the folder of the agent's transcripts and creates it if necessary.
fn made(home: &Home, key: &SessionKey) -> io::Result<PathBuf> {
    let folder = home.sessions(key.agent());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    Ok(folder)
}

/// Writes the transcript into its folder. No session refers to it yet.
fn put(folder: &Path, key: &SessionKey, name: &str, imported: &ImportedSession) -> io::Result<()> {
    let path = folder.join(format!("{name}.jsonl"));
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let mut writer = io::BufWriter::with_capacity(256 * 1024, file);
    imported.write(key, clock::unix_ms(), &mut writer)?;
    writer.flush()?;
    writer.get_ref().sync_all()?;
    // A new file survives a power failure only if its folder is synced too.
    std::fs::File::open(folder)?.sync_all()
}
