//! System calls that only the probe needs.

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use crate::sys::{self, O_CLOEXEC, O_NONBLOCK, Pid, owned, prctl, syscall};

#[repr(C)]
struct SocketAddress {
    family: u16,
    path: [u8; 108],
}

unsafe extern "C" {
    fn getppid() -> Pid;
    fn ptrace(request: c_long, ...) -> c_long;
    fn unshare(flags: c_int) -> c_int;
    fn mknod(path: *const c_char, mode: c_uint, device: c_ulong) -> c_int;
    fn unlink(path: *const c_char) -> c_int;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn connect(fd: c_int, address: *const SocketAddress, length: c_uint) -> c_int;
    fn uname(name: *mut [[u8; 65]; 6]) -> c_int;
    fn _exit(code: c_int) -> !;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut c_uint) -> c_int;
}

pub fn parent() -> Pid {
    // SAFETY: a plain system call.
    unsafe { getppid() }
}

/// Returns `true` if this process may trace another one. The trace ends with this process.
pub fn can_trace(pid: Pid) -> bool {
    const PTRACE_SEIZE: c_long = 0x4206;
    // SAFETY: seizing changes nothing in this process, and does not stop the other.
    unsafe { ptrace(PTRACE_SEIZE, pid as c_ulong, 0 as c_ulong, 0 as c_ulong) == 0 }
}

/// Returns `true` if this process can create a user namespace. It has then entered it.
pub fn new_user_namespace() -> bool {
    const CLONE_NEWUSER: c_int = 0x1000_0000;
    // SAFETY: a plain system call.
    unsafe { unshare(CLONE_NEWUSER) == 0 }
}

/// Returns the number of a system call, which is one on x86-64 and another on all later architectures.
const fn number(x86_64: c_long, others: c_long) -> c_long {
    if cfg!(target_arch = "x86_64") { x86_64 } else { others }
}

/// Returns `true` if a call returned a descriptor. The descriptor is closed again.
fn gives_descriptor(result: c_long) -> bool {
    owned(result as c_int).is_ok()
}

fn can_make_socket(family: c_int, kind: c_int) -> bool {
    // SAFETY: a plain system call.
    gives_descriptor(c_long::from(unsafe { socket(family, kind | O_CLOEXEC, 0) }))
}

/// Returns `true` if this process can create a vsock socket, which leads from a virtual machine to its host.
pub fn can_reach_the_hypervisor() -> bool {
    const AF_VSOCK: c_int = 40;
    can_make_socket(AF_VSOCK, 1)
}

/// Returns `true` if this process can create a socket to the kernel's ciphers.
pub fn can_use_the_kernels_ciphers() -> bool {
    const AF_ALG: c_int = 38;
    can_make_socket(AF_ALG, 5)
}

/// Returns `true` if this process can create an io_uring queue, through which the kernel runs calls that no filter
/// sees.
pub fn can_queue_calls() -> bool {
    const IO_URING_SETUP: c_long = 425;
    let mut parameters = [0_u64; 32];
    // SAFETY: `parameters` is larger than an io_uring_params, and outlives the call.
    gives_descriptor(unsafe { syscall(IO_URING_SETUP, 1 as c_ulong, parameters.as_mut_ptr()) })
}

/// Returns `true` if this process can add a key to a keyring. Keyrings belong to the user, not to the container.
pub fn can_keep_a_key() -> bool {
    const ADD_KEY: c_long = number(248, 217);
    const PROCESS_KEYRING: c_long = -2;
    // SAFETY: the texts end with a zero byte, and the payload has the length that is named.
    let key = unsafe {
        syscall(
            ADD_KEY,
            c"user".as_ptr(),
            c"flock-probe".as_ptr(),
            c"x".as_ptr(),
            1 as c_ulong,
            PROCESS_KEYRING,
        )
    };
    key >= 0
}

/// Returns `true` if this process can create a map for BPF programs in the kernel.
pub fn can_load_bpf() -> bool {
    const BPF: c_long = number(321, 280);
    const MAP_CREATE: c_long = 0;
    // An array of one element. The fields are type, size of a key, size of a value, and number of elements.
    let attributes = [2_u32, 4, 4, 1, 0, 0, 0, 0];
    let size = size_of_val(&attributes) as c_ulong;
    // SAFETY: `attributes` has the size that is named, and outlives the call.
    gives_descriptor(unsafe { syscall(BPF, MAP_CREATE, attributes.as_ptr(), size) })
}

/// Returns `true` if this process can count its own events with perf.
pub fn can_count_events() -> bool {
    const PERF_EVENT_OPEN: c_long = number(298, 241);
    const SOFTWARE: u64 = 1;
    const SIZE: u64 = 64;
    const USER_ONLY: u64 = 1 << 5 | 1 << 6;
    // Type and size share the first word. The flags are the sixth word.
    let attributes = [SIZE << 32 | SOFTWARE, 0, 0, 0, 0, USER_ONLY, 0, 0];
    let (own, any) = (0 as c_long, -1 as c_long);
    // SAFETY: `attributes` has the size that it names, and outlives the call.
    gives_descriptor(unsafe { syscall(PERF_EVENT_OPEN, attributes.as_ptr(), own, any, any, 0 as c_ulong) })
}

/// Returns `true` if this process can start a process in a new user namespace with `clone`.
pub fn can_clone_into_a_user_namespace() -> bool {
    const CLONE: c_long = number(56, 220);
    let none = 0 as c_ulong;
    // SAFETY: without a stack and shared memory this is a fork.
    starts_process(|| unsafe { syscall(CLONE, NEW_USER | SIGCHLD, none, none, none, none) })
}

/// Returns `true` if this process can do the same with `clone3`, whose flags lie in memory.
pub fn can_clone3_into_a_user_namespace() -> bool {
    const CLONE3: c_long = 435;
    // The first field holds the flags, the fifth the signal at the end.
    let arguments = [NEW_USER, 0, 0, 0, SIGCHLD, 0, 0, 0];
    let size = size_of_val(&arguments) as c_ulong;
    // SAFETY: without a stack and shared memory this is a fork; `arguments` has the size that is named.
    starts_process(|| unsafe { syscall(CLONE3, arguments.as_ptr(), size) })
}

const NEW_USER: c_ulong = 0x1000_0000;
const SIGCHLD: c_ulong = 17;

fn starts_process(fork: impl FnOnce() -> c_long) -> bool {
    match fork() {
        // SAFETY: ends the new process and touches nothing that it shares with this one.
        0 => unsafe { _exit(0) },
        pid if pid > 0 => {
            sys::reap(pid as Pid);
            true
        }
        _ => false,
    }
}

/// Sets a mode with `fchmodat2`, which takes flags. It does not follow a symbolic link.
pub fn fchmodat2(path: &std::path::Path, mode: c_uint) {
    const FCHMODAT2: c_long = 452;
    const NOFOLLOW: c_ulong = 0x100;
    with_path(path, |path| {
        // SAFETY: `path` ends with a zero byte.
        unsafe { syscall(FCHMODAT2, AT_FDCWD, path, c_ulong::from(mode), NOFOLLOW) };
    });
}

/// Creates a file with `openat2`, whose mode lies in memory.
pub fn openat2(path: &std::path::Path, mode: u64) {
    const OPENAT2: c_long = 437;
    const WRITE_CREATE_CLOEXEC: u64 = 0o1 | 0o100 | 0o2_000_000;
    let how = [WRITE_CREATE_CLOEXEC, mode, 0];
    let size = size_of_val(&how) as c_ulong;
    with_path(path, |path| {
        // SAFETY: `path` ends with a zero byte, and `how` has the size that is named.
        gives_descriptor(unsafe { syscall(OPENAT2, AT_FDCWD, path, how.as_ptr(), size) });
    });
}

/// Creates a regular file with `mknod`.
pub fn make_file(path: &std::path::Path, mode: c_uint) {
    const S_IFREG: c_uint = 0o100_000;
    with_path(path, |path| {
        // SAFETY: `path` ends with a zero byte.
        unsafe { mknod(path, S_IFREG | mode, 0) };
    });
}

const AT_FDCWD: c_long = -100;

fn with_path(path: &std::path::Path, call: impl FnOnce(*const c_char)) {
    if let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) {
        call(path.as_ptr());
    }
}

/// Returns the release of the kernel that answers here.
pub fn kernel_release() -> Vec<u8> {
    let mut name = [[0; 65]; 6];
    // SAFETY: `name` has the size of a utsname.
    unsafe { uname(&mut name) };
    name[2].split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// Returns `true` if programs started by this process cannot gain privileges.
pub fn has_no_new_privileges() -> bool {
    const PR_GET_NO_NEW_PRIVS: c_int = 39;
    let none = 0 as c_ulong;
    // SAFETY: a plain system call.
    unsafe { prctl(PR_GET_NO_NEW_PRIVS, none, none, none, none) == 1 }
}

/// Returns the ambient capabilities, which started programs without capabilities of their own get all the same. A
/// kernel that does not know them reports none.
pub fn ambient_capabilities() -> u64 {
    const PR_CAP_AMBIENT: c_int = 47;
    const IS_SET: c_ulong = 1;
    let none = 0 as c_ulong;
    // SAFETY: plain system calls.
    let is_set = |number: u64| unsafe { prctl(PR_CAP_AMBIENT, IS_SET, number as c_ulong, none, none) == 1 };
    (0..64).filter(|number| is_set(*number)).map(|number| 1 << number).sum()
}

/// The result of creating a device file.
pub enum Device {
    /// The file could not be created.
    Refused,
    /// The file was created, but no such device exists.
    Empty,
    /// The file was created and the device exists.
    Made,
}

/// Creates the device file of a disk at an unused path and removes it again.
pub fn make_device(path: &std::path::Path) -> Device {
    const S_IFBLK_0600: c_uint = 0o060_600;
    const SDA: c_ulong = 8 << 8;
    const ENXIO: i32 = 6;
    let Ok(name) = CString::new(path.as_os_str().as_encoded_bytes()) else { return Device::Refused };
    // SAFETY: `name` ends with a zero byte.
    if unsafe { mknod(name.as_ptr(), S_IFBLK_0600, SDA) } != 0 {
        return Device::Refused;
    }
    let opened = std::fs::File::open(path);
    // SAFETY: as above.
    unsafe { unlink(name.as_ptr()) };
    match opened {
        Err(error) if error.raw_os_error() == Some(ENXIO) => Device::Empty,
        _ => Device::Made,
    }
}

/// The result of connecting to a socket in the file system.
pub enum Dialled {
    /// Nobody listens, or this process may not connect.
    Closed,
    /// Somebody listens, but it is not known who.
    Unknown,
    /// A process listens. Its pid is as seen from here, and 0 if it cannot be seen.
    Open { listener: Pid },
}

/// Tries to connect without waiting, with stream, datagram and sequenced-packet sockets.
pub fn dial(path: &[u8]) -> Dialled {
    const AF_UNIX: c_int = 1;
    const CLOEXEC_NONBLOCK: c_int = O_CLOEXEC | O_NONBLOCK;
    const EAGAIN: i32 = 11;
    const EPROTOTYPE: i32 = 91;
    let mut address = SocketAddress { family: AF_UNIX as u16, path: [0; 108] };
    let Some(room) = address.path.get_mut(..path.len()).filter(|room| room.len() < 108) else {
        return Dialled::Closed;
    };
    room.copy_from_slice(path);
    // SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET.
    for kind in [1, 2, 5] {
        // SAFETY: plain system calls; `address` is a whole sockaddr_un.
        let Ok(fd) = owned(unsafe { socket(AF_UNIX, kind | CLOEXEC_NONBLOCK, 0) }) else { continue };
        let number = fd.as_raw_fd();
        if unsafe { connect(number, &address, size_of::<SocketAddress>() as c_uint) } == 0 {
            // Only connection-oriented sockets report who listens.
            return if kind == 2 { Dialled::Unknown } else { Dialled::Open { listener: listener(number) } };
        }
        match io::Error::last_os_error().raw_os_error() {
            // The listener's queue is full, so there is a listener.
            Some(EAGAIN) => return Dialled::Unknown,
            // The socket is of another type. Try the next one.
            Some(EPROTOTYPE) => {}
            _ => return Dialled::Closed,
        }
    }
    Dialled::Closed
}

fn listener(fd: RawFd) -> Pid {
    const SOL_SOCKET: c_int = 1;
    const SO_PEERCRED: c_int = 17;
    let mut credentials = [0_u32; 3];
    let mut length = 12;
    // SAFETY: `credentials` has the size of a ucred, and outlives the call.
    unsafe { getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials.as_mut_ptr().cast(), &mut length) };
    credentials[0] as Pid
}
