//! The calls to Linux that only the probe needs.

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use crate::sys::{O_CLOEXEC, O_NONBLOCK, Pid, owned};

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
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut c_uint) -> c_int;
}

pub fn parent() -> Pid {
    // SAFETY: a plain system call.
    unsafe { getppid() }
}

/// Whether this process may trace another one. A trace that was taken ends with this process.
pub fn can_trace(pid: Pid) -> bool {
    const PTRACE_SEIZE: c_long = 0x4206;
    // SAFETY: seizing changes nothing in this process, and does not stop the other.
    unsafe { ptrace(PTRACE_SEIZE, pid as c_ulong, 0 as c_ulong, 0 as c_ulong) == 0 }
}

/// Whether this process may make a user namespace. It then is in it.
pub fn new_user_namespace() -> bool {
    const CLONE_NEWUSER: c_int = 0x1000_0000;
    // SAFETY: a plain system call.
    unsafe { unshare(CLONE_NEWUSER) == 0 }
}

/// Whether this process may make a device file, of a disk, at a path where nothing is.
pub fn can_make_device(path: &std::path::Path) -> bool {
    const S_IFBLK_0600: c_uint = 0o060_600;
    const SDA: c_ulong = 8 << 8;
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: `path` ends with a zero byte.
    unsafe {
        let made = mknod(path.as_ptr(), S_IFBLK_0600, SDA) == 0;
        if made {
            unlink(path.as_ptr());
        }
        made
    }
}

/// What came of connecting to a socket in the file system.
pub enum Dialled {
    /// Nobody listens, or this process may not.
    Closed,
    /// Somebody listens, and who is not known.
    Unknown,
    /// The listener's pid as seen from here, 0 for one that can't be seen.
    Open { listener: Pid },
}

/// Tries to connect without waiting, by stream and by packets.
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
            // Only a stream knows who listened.
            return if kind == 2 { Dialled::Unknown } else { Dialled::Open { listener: listener(number) } };
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(EAGAIN) => return Dialled::Unknown,
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
