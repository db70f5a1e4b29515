//! The `flock` command. Starting up, in order:
//!
//! 1. A panic gets a short message and exit code 70.
//! 2. Called as util-linux's `flock`, the process becomes that program.
//! 3. The command line is read; `--help` and `--version` end here.
//! 4. The verb runs. Only verbs that need one make a runtime, so that the others start at once.
//! 5. What went wrong is reported, and the exit code says what kind it was.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// glibc's allocator keeps most of what a load has taken: docs/performance.md compares.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// jemalloc's own settings, which it looks for under this name. One arena, since few threads allocate at once; small
/// caches of threads, since what lies in them is given back only when a thread ends; and pages that are free for half a
/// second go back to the kernel.
#[unsafe(export_name = "malloc_conf")]
#[used]
static MALLOC_CONF: &[u8; CONF.len()] = CONF;

const CONF: &[u8; 114] = b"narenas:1,tcache_max:1024,tcache_nslots_small_min:2,tcache_nslots_small_max:8,dirty_decay_ms:500,muzzy_decay_ms:0\0";

fn main() -> ExitCode {
    flock::ui::panic::guard(flock::cli::main)
}
