//! Mends a damaged transcript: every line that is a record stays, byte for byte; what is none is cut out.

use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use super::model::Record;

/// Rewrites the file without its broken lines, in one step, and says how many there were. While that is
/// done the old file has a second name, `<name>.bak-<pid>-<time>`; it stays only if this fails.
///
/// # Errors
///
/// If a file can't be read or written; the transcript is then as it was.
pub fn repair(path: &Path) -> io::Result<usize> {
    let old = std::fs::File::open(path)?;
    let mut lines = io::BufReader::with_capacity(256 * 1024, old);
    let folder = path.parent().unwrap_or(Path::new("."));
    // Mode 0600, as all temporary files of this kind.
    let mut new = tempfile::Builder::new().prefix(".mend-").tempfile_in(folder)?;
    let mut writer = io::BufWriter::with_capacity(256 * 1024, new.as_file_mut());
    let mut cut = 0;
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if Record::parse(line.trim_ascii_end()).is_ok() {
            writer.write_all(&line)?;
            // The last line may be whole but for its end.
            if line.last() != Some(&b'\n') {
                writer.write_all(b"\n")?;
            }
        } else {
            cut += 1;
        }
        line.clear();
    }
    writer.flush()?;
    drop(writer);
    new.as_file().sync_all()?;
    let backup = backup_of(path);
    fs_err::hard_link(path, &backup)?;
    new.persist(path).map_err(|error| error.error)?;
    std::fs::File::open(folder)?.sync_all()?;
    fs_err::remove_file(&backup)?;
    tracing::warn!(path = %path.display(), cut, "mended a transcript");
    Ok(cut)
}

fn backup_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".bak-{}-{}", std::process::id(), crate::clock::unix_ms()));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_lines_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let unknown = r#"{"type":"later","z":1,  "a":2}"#;
        let damaged = format!("{unknown}\n\n{{\"type\":\"mess\nnonsense\n{unknown}\n{{\"no\":1}}\n{unknown}");
        fs_err::write(&path, &damaged).unwrap();
        assert_eq!(repair(&path).unwrap(), 4);
        assert_eq!(fs_err::read_to_string(&path).unwrap(), format!("{unknown}\n").repeat(3));
        assert_eq!(repair(&path).unwrap(), 0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
