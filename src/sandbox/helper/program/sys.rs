//! System calls that the standard library does not offer, each behind a safe function.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_short, c_uint, c_ulong, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

pub type Pid = i32;

pub const SIGKILL: c_int = 9;
pub const SIGSTOP: c_int = 19;
pub const POLLIN: c_short = 1;
pub const POLLOUT: c_short = 4;

const SIGINT: c_int = 2;
pub const SIGTERM: c_int = 15;
const SIGCHLD: c_int = 17;
pub const O_NONBLOCK: c_int = 0o4000;
pub const O_CLOEXEC: c_int = 0o2_000_000;
pub const O_PATH: c_int = 0o10_000_000;
pub const O_NOCTTY: c_int = 0o400;
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
pub const O_DIRECTORY: c_int = 0o40_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
pub const O_DIRECTORY: c_int = 0o200_000;
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
pub const O_NOFOLLOW: c_int = 0o100_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
pub const O_NOFOLLOW: c_int = 0o400_000;
const RLIMIT_CORE: c_int = 4;
const RLIMIT_RTTIME: c_int = 15;
const PR_SET_DUMPABLE: c_int = 4;
const PR_SET_CHILD_SUBREAPER: c_int = 36;
const SPAWN_SETSIGDEF: c_short = 0x04;
const SPAWN_SETSIGMASK: c_short = 0x08;
const SPAWN_SETSID: c_short = 0x80;

/// Memory for glibc's opaque types. It is larger than `posix_spawnattr_t` (336 bytes), `posix_spawn_file_actions_t`
/// (80) and `sigset_t` (128) on every architecture.
#[repr(C, align(16))]
struct Opaque([u8; 1024]);

impl Opaque {
    fn zeroed() -> Self {
        Self([0; 1024])
    }

    fn as_mut(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }
}

#[repr(C)]
pub struct PollFd {
    pub fd: RawFd,
    pub events: c_short,
    pub revents: c_short,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Limit {
    soft: u64,
    hard: u64,
}

/// The beginning of `siginfo_t` as `waitid` fills it in.
#[repr(C, align(8))]
struct SigInfo {
    signo: c_int,
    errno: c_int,
    code: c_int,
    _pad: c_int,
    pid: Pid,
    uid: c_uint,
    status: c_int,
    _rest: [u8; 100],
}

unsafe extern "C" {
    fn kill(pid: Pid, signal: c_int) -> c_int;
    fn waitpid(pid: Pid, status: *mut c_int, options: c_int) -> Pid;
    fn waitid(kind: c_int, id: c_uint, info: *mut SigInfo, options: c_int) -> c_int;
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
    fn pipe2(fds: *mut c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    pub fn prctl(option: c_int, ...) -> c_int;
    pub fn syscall(number: c_long, ...) -> c_long;
    fn setrlimit(resource: c_int, limit: *const Limit) -> c_int;
    fn getrlimit(resource: c_int, limit: *mut Limit) -> c_int;
    fn prlimit(pid: Pid, resource: c_int, new: *const Limit, old: *mut Limit) -> c_int;
    fn sigemptyset(set: *mut c_void) -> c_int;
    fn sigfillset(set: *mut c_void) -> c_int;
    fn sigaddset(set: *mut c_void, signal: c_int) -> c_int;
    fn sigprocmask(how: c_int, set: *const c_void, old: *mut c_void) -> c_int;
    fn signalfd(fd: c_int, set: *const c_void, flags: c_int) -> c_int;
    fn umask(mask: c_uint) -> c_uint;
    fn syncfs(fd: c_int) -> c_int;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn posix_spawn(
        pid: *mut Pid,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        argv: *const *const c_char,
        envp: *const *const c_char,
    ) -> c_int;
    fn posix_spawnattr_init(attributes: *mut c_void) -> c_int;
    fn posix_spawnattr_destroy(attributes: *mut c_void) -> c_int;
    fn posix_spawnattr_setflags(attributes: *mut c_void, flags: c_short) -> c_int;
    fn posix_spawnattr_setsigmask(attributes: *mut c_void, set: *const c_void) -> c_int;
    fn posix_spawnattr_setsigdefault(attributes: *mut c_void, set: *const c_void) -> c_int;
    fn posix_spawn_file_actions_init(actions: *mut c_void) -> c_int;
    fn posix_spawn_file_actions_destroy(actions: *mut c_void) -> c_int;
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, new: c_int) -> c_int;
    fn posix_spawn_file_actions_addfchdir_np(actions: *mut c_void, fd: c_int) -> c_int;
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub fn owned(fd: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    check(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Protects this process: processes of the same user cannot read it, it writes no core file, and its children do not
/// inherit its descriptors. It also becomes the parent of orphans (subreaper).
pub fn settle() {
    // SAFETY: plain system calls on this process; a refused one leaves things as they were.
    unsafe {
        prctl(PR_SET_DUMPABLE, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong);
        prctl(PR_SET_CHILD_SUBREAPER, 1 as c_ulong, 0 as c_ulong, 0 as c_ulong, 0 as c_ulong);
        setrlimit(RLIMIT_CORE, &Limit::default());
        umask(0o022);
        // close_range(3, max, CLOSE_RANGE_CLOEXEC), by number because older versions of glibc have no function for it.
        syscall(436, 3 as c_ulong, c_uint::MAX as c_ulong, 4 as c_ulong);
    }
}

/// Blocks SIGCHLD, SIGTERM and SIGINT and returns a file from which they are read instead.
pub fn signals() -> io::Result<File> {
    let mut set = Opaque::zeroed();
    // SAFETY: `set` is large enough for a sigset_t.
    unsafe {
        sigemptyset(set.as_mut());
        for signal in [SIGCHLD, SIGTERM, SIGINT] {
            sigaddset(set.as_mut(), signal);
        }
        check(sigprocmask(0, set.as_mut(), std::ptr::null_mut()))?;
        owned(signalfd(-1, set.as_mut(), O_CLOEXEC | O_NONBLOCK)).map(File::from)
    }
}

/// Returns `true` if a record read from [`signals`] asks this process to end. As init of a container it obeys only
/// senders outside, which have no pid inside. Processes that it started share its user and may send signals, too.
pub fn asks_to_end(record: &[u8]) -> bool {
    let number = |at: usize| -> Option<u32> {
        // The fields `ssi_signo` and `ssi_pid` of `signalfd_siginfo`.
        record.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes))
    };
    let (signal, sender) = (number(0), number(12));
    signal != Some(SIGCHLD as u32) && (std::process::id() != 1 || sender == Some(0))
}

pub fn signal(pid: Pid, signal: c_int) -> io::Result<()> {
    // SAFETY: a plain system call.
    check(unsafe { kill(pid, signal) }).map(drop)
}

/// Waits for one of `fds`. If a signal interrupts the wait, no entry is ready.
pub fn wait_for(fds: &mut [PollFd], timeout_ms: c_int) {
    // SAFETY: the pointer and the count are those of the slice.
    if unsafe { poll(fds.as_mut_ptr(), fds.len() as c_ulong, timeout_ms) } <= 0 {
        fds.iter_mut().for_each(|entry| entry.revents = 0);
    }
}

pub enum Child {
    /// This child has ended but is not reaped yet, so its pid and group id are not reused.
    Ended(Pid),
    /// There are children, and all of them run.
    Running,
    /// There is no child.
    None,
}

pub fn ended_child() -> Child {
    const P_ALL: c_int = 0;
    // WNOWAIT leaves the child unreaped.
    const WNOHANG_WEXITED_WNOWAIT: c_int = 1 | 4 | 0x0100_0000;
    // SAFETY: all zeroes is a valid SigInfo, and it has the size of a siginfo_t.
    let (result, info) = unsafe {
        let mut info: SigInfo = std::mem::zeroed();
        (waitid(P_ALL, 0, &mut info, WNOHANG_WEXITED_WNOWAIT), info)
    };
    match (result, info.pid) {
        (0, 0) => Child::Running,
        (0, pid) => Child::Ended(pid),
        _ => Child::None,
    }
}

/// The way a child ended.
#[derive(Clone, Copy, Debug)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

pub fn reap(pid: Pid) -> Exit {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    unsafe { waitpid(pid, &mut status, 0) };
    match status & 0x7f {
        0 => Exit::Code((status >> 8) & 0xff),
        signal => Exit::Signal(signal),
    }
}

/// Creates a pipe and returns its reading and writing ends. Started programs inherit neither.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two, and both are ours on success.
    unsafe {
        check(pipe2(fds.as_mut_ptr(), O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// Makes a pipe as large as an unprivileged process may. Anything else, and a pipe that cannot grow, stays as it is.
pub fn widen(fd: RawFd) {
    const F_SETPIPE_SZ: c_int = 1031;
    const LARGEST: c_int = 1 << 20;
    // SAFETY: a plain system call on a descriptor number.
    unsafe { fcntl(fd, F_SETPIPE_SZ, LARGEST) };
}

pub fn set_nonblocking(fd: RawFd) {
    const F_GETFL: c_int = 3;
    const F_SETFL: c_int = 4;
    // SAFETY: plain system calls on a descriptor number.
    unsafe {
        let flags = fcntl(fd, F_GETFL);
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    }
}

/// Waits until everything on the file system of an open file is on the disk.
pub fn sync_file_system(file: &File) -> io::Result<()> {
    // SAFETY: a plain system call on a descriptor that is open for as long as it lasts.
    check(unsafe { syncfs(file.as_raw_fd()) }).map(drop)
}

/// Opens a folder only as a reference to it, without reading it.
pub fn open_folder(path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: `path` ends with a zero byte.
    owned(unsafe { open(path.as_ptr(), O_PATH | O_DIRECTORY | O_CLOEXEC) })
}

/// Returns the limit that marks a job's processes. RLIMIT_RTTIME counts only for real-time scheduling. Every descendant
/// inherits it, whatever it does to its session, parent or environment. It can be read of any process of the same user,
/// and it can only be lowered.
pub fn mark() -> u64 {
    let mut limit = Limit::default();
    // SAFETY: `limit` outlives the call.
    unsafe { getrlimit(RLIMIT_RTTIME, &mut limit) };
    limit.hard
}

/// Sets the mark that children inherit from now on.
pub fn set_mark(mark: u64) {
    // SAFETY: the pointer is to a live value.
    unsafe { setrlimit(RLIMIT_RTTIME, &Limit { soft: mark, hard: mark }) };
}

/// Returns the mark of another process.
pub fn mark_of(pid: Pid) -> Option<u64> {
    let mut limit = Limit::default();
    // SAFETY: `limit` outlives the call; nothing is set.
    check(unsafe { prlimit(pid, RLIMIT_RTTIME, std::ptr::null(), &mut limit) }).ok()?;
    Some(limit.hard)
}

/// The properties of a new process.
pub struct Spawn<'a> {
    pub path: &'a CStr,
    pub args: &'a [CString],
    pub env: &'a [CString],
    pub folder: RawFd,
    pub stdin: RawFd,
    /// Standard output and standard error. They share one descriptor, so that their order is kept.
    pub output: RawFd,
}

/// Starts a process in a new session. It uses `posix_spawn`, because `fork` would copy the page tables of this process,
/// and glibc's version offers every action that is needed before the exec.
pub fn spawn(spawn: &Spawn) -> io::Result<Pid> {
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(spawn.args), pointers(spawn.env));
    let (mut attributes, mut actions) = (Opaque::zeroed(), Opaque::zeroed());
    let (mut none, mut all) = (Opaque::zeroed(), Opaque::zeroed());
    let mut pid = 0;
    // SAFETY: the opaque values are larger than what glibc keeps in them, are initialised before use and
    // destroyed after it; the lists end with null and outlive the call.
    let error = unsafe {
        posix_spawnattr_init(attributes.as_mut());
        posix_spawn_file_actions_init(actions.as_mut());
        sigemptyset(none.as_mut());
        sigfillset(all.as_mut());
        // All signals get their default action and none is blocked, whatever this process has set for itself.
        posix_spawnattr_setsigmask(attributes.as_mut(), none.as_mut());
        posix_spawnattr_setsigdefault(attributes.as_mut(), all.as_mut());
        posix_spawnattr_setflags(attributes.as_mut(), SPAWN_SETSID | SPAWN_SETSIGMASK | SPAWN_SETSIGDEF);
        posix_spawn_file_actions_addfchdir_np(actions.as_mut(), spawn.folder);
        posix_spawn_file_actions_adddup2(actions.as_mut(), spawn.stdin, 0);
        posix_spawn_file_actions_adddup2(actions.as_mut(), spawn.output, 1);
        posix_spawn_file_actions_adddup2(actions.as_mut(), spawn.output, 2);
        let error = posix_spawn(
            &mut pid,
            spawn.path.as_ptr(),
            actions.as_mut(),
            attributes.as_mut(),
            argv.as_ptr(),
            envp.as_ptr(),
        );
        posix_spawn_file_actions_destroy(actions.as_mut());
        posix_spawnattr_destroy(attributes.as_mut());
        error
    };
    if error == 0 { Ok(pid) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Returns `true` if a call on a non-blocking descriptor may succeed later.
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
