//! The `flock` command. It starts in this order:
//!
//! 1. It installs a panic hook: a panic prints a short message and ends with exit code 70.
//! 2. If it was called as util-linux's `flock`, the process becomes that program.
//! 3. It reads the command line; `--help` and `--version` end here.
//! 4. It runs the verb. Only verbs that need an async runtime create one, so that the others start at once.
//! 5. It reports the error, if there was one. The exit code tells the kind of error.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// The allocator of the whole program. glibc's allocator keeps most of the memory that a load has used;
/// docs/performance.md compares both.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The settings of jemalloc, which looks for them under this symbol name.
///
/// There is one arena, since few threads allocate at once. The caches of threads are small, since their contents are
/// freed only when a thread ends. Pages that were free for half a second go back to the kernel.
#[unsafe(export_name = "malloc_conf")]
#[used]
static MALLOC_CONF: &[u8; CONF.len()] = CONF;

const CONF: &[u8; 114] = b"narenas:1,tcache_max:1024,tcache_nslots_small_min:2,tcache_nslots_small_max:8,dirty_decay_ms:500,muzzy_decay_ms:0\0";

fn main() -> ExitCode {
    flock::ui::panic::catch(flock::cli::main)
}
