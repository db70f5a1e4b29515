//! The pages of the program that a process has resident.
//!
//! The kernel maps sixteen pages of a file wherever one is looked at, and takes none of them back while memory is free. A
//! process that has long started so keeps most of a large program resident, of which it uses little.

use std::ffi::c_void;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::ptr::NonNull;
use std::time::Duration;

use fs_err::File;
use nix::sys::mman::{MmapAdvise, madvise};

use crate::error::chain;

/// After the start, most of which is never looked at again.
const STARTED: Duration = Duration::from_secs(2);
/// Each time takes a fraction of a millisecond.
const EVERY: Duration = Duration::from_secs(20);

/// Keeps small what a process that goes on for days has resident of its program: [`release`]s it again and again. What is
/// in use is mapped again at once.
pub async fn watch() {
    let mut pause = STARTED;
    loop {
        tokio::time::sleep(pause).await;
        pause = EVERY;
        if let Err(error) = release() {
            // Nothing but memory depends on it, and without /proc it fails each time.
            tracing::debug!(error = chain(&error), "failed to read the mappings of this process");
            return;
        }
    }
}

/// Has the kernel unmap all that this process has of its program and its libraries and never wrote to. What is looked at
/// again is mapped again from the page cache, which costs well under a millisecond for all of it. Gives the bytes that
/// were resident of these mappings.
///
/// # Errors
///
/// If `/proc/self/smaps` can't be read.
pub fn release() -> io::Result<u64> {
    let mappings = clean_mappings(BufReader::new(File::open("/proc/self/smaps")?))?;
    let mut released = 0;
    for Mapping { range, resident } in mappings {
        let Some(start) = NonNull::new(range.start as *mut c_void) else { continue };
        // SAFETY: a page that was never written is read from its file again, so that whoever looks at it, another thread
        // among them, finds what was there. Only mappings without a written page get here, and nothing makes one
        // writable later: the loader has done its relocations before `main`.
        match unsafe { madvise(start, range.len(), MmapAdvise::MADV_DONTNEED) } {
            Ok(()) => released += resident,
            Err(error) => tracing::debug!(error = chain(&error), "failed to unmap pages of the program"),
        }
    }
    Ok(released)
}

/// A mapping of a file of which no page was written.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    range: Range<usize>,
    /// In bytes.
    resident: u64,
}

/// The mappings of files, as `smaps` lists them, that can't be written and have no page that differs from its file. A
/// part of the program that the loader relocated can't be written either, and has such pages.
fn clean_mappings(smaps: impl BufRead) -> io::Result<Vec<Mapping>> {
    let mut clean = Vec::new();
    let mut current: Option<Mapping> = None;
    for line in smaps.lines() {
        let line = line?;
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        let Some(figure) = first.strip_suffix(':') else {
            clean.extend(current.take());
            current = head(first, words);
            continue;
        };
        let kib: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match figure {
            "Rss" => {
                if let Some(mapping) = &mut current {
                    mapping.resident = kib * 1024;
                }
            }
            "Private_Dirty" | "Shared_Dirty" | "Anonymous" | "Swap" | "Locked" if kib > 0 => current = None,
            _ => {}
        }
    }
    clean.extend(current);
    clean.retain(|mapping| mapping.resident > 0);
    Ok(clean)
}

/// The mapping that a line begins, where it is a private one of a file and can't be written.
fn head<'a>(range: &str, mut rest: impl Iterator<Item = &'a str>) -> Option<Mapping> {
    let (start, end) = range.split_once('-')?;
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let permissions = rest.next()?;
    let (_offset, _device, inode) = (rest.next()?, rest.next()?, rest.next()?);
    let is_clean_file = matches!(permissions, "r-xp" | "r--p") && inode != "0";
    is_clean_file.then_some(Mapping { range, resident: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(head: &str, figures: &str) -> String {
        let figures = figures.split(", ").map(|figure| format!("{figure} kB\n"));
        format!("{head}\n{}VmFlags: rd ex mr mw me\n", figures.collect::<String>())
    }

    #[test]
    fn only_files_that_were_never_written_are_unmapped() {
        let clean = "Size: 40, Rss: 12, Shared_Dirty: 0, Private_Dirty: 0, Anonymous: 0, Swap: 0, Locked: 0";
        let dirty = clean.replace("Private_Dirty: 0", "Private_Dirty: 4");
        let relocated = clean.replace("Anonymous: 0", "Anonymous: 8");
        let locked = clean.replace("Locked: 0", "Locked: 12");
        let listed = [
            mapping("10000-1a000 r--p 00000000 08:01 77 /usr/bin/flock", clean),
            mapping("1a000-24000 r-xp 0000a000 08:01 77 /usr/bin/a name (deleted)", clean),
            mapping("30000-31000 r-xp 0000a000 08:01 77 /usr/bin/flock", &dirty),
            mapping("31000-32000 r--p 0000a000 08:01 77 /usr/bin/flock", &relocated),
            mapping("32000-33000 r-xp 0000a000 08:01 77 /usr/bin/flock", &locked),
            mapping("33000-34000 rw-p 0000a000 08:01 77 /usr/bin/flock", clean),
            mapping("34000-35000 r--s 0000a000 08:01 78 /var/x.db-shm", clean),
            mapping("35000-36000 r-xp 00000000 00:00 0 [vdso]", clean),
            mapping("36000-37000 r--p 00000000 08:01 79 /lib/untouched", &clean.replace("Rss: 12", "Rss: 0")),
        ];
        let found = clean_mappings(listed.concat().as_bytes()).unwrap();
        let expected =
            [0x10000..0x1a000, 0x1a000..0x24000].map(|range| Mapping { range, resident: 12 << 10 });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_program_goes_on_after_its_pages_were_unmapped() {
        let table: Vec<u32> = (0..1000).collect();
        assert!(release().unwrap() > 0);
        assert_eq!(table.iter().sum::<u32>(), 499_500);
        // This code, and what it calls, was among them.
        assert!(release().unwrap() > 0);
    }
}
