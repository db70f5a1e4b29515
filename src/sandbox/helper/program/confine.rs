//! Installs a seccomp filter if the container's runtime applies none. gVisor ignores a container's profile unless it is
//! configured to apply it, and so do Kata's guests. In a Kubernetes cluster it is installed besides that of the runtime, which
//! refuses less than flock's profile.
//!
//! The profile that flock gives the engine is an allow-list and stricter. This filter covers what must hold even
//! without it. A workspace is a folder of the host whatever kernel the sandbox has, and a setuid file in it is a setuid
//! file on the host, too.

use std::ffi::{OsString, c_int, c_ulong, c_void};
use std::process::ExitCode;

use crate::job;
use crate::sys::prctl;

/// An instruction of the kernel's packet filter (BPF).
#[repr(C)]
#[derive(Clone, Copy)]
struct Step {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

#[repr(C)]
struct Program {
    length: u16,
    steps: *const Step,
}

/// A reason to refuse a system call.
enum Rule {
    /// Refuse every call, with this error.
    Always(u32),
    /// Refuse a call whose argument has one of these bits.
    Bits { argument: u32, bits: u32 },
    /// Refuse a call whose first argument has one of its bits and whose second has one of its own. Both are pairs of an
    /// argument's index and bits.
    Both { first: (u32, u32), second: (u32, u32) },
    /// Refuse a call whose first argument is none of these values.
    NoneOf(&'static [u32]),
}

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
const SET_ID: u32 = 0o6000;
/// `O_CREAT` and the bit that only `O_TMPFILE` sets.
const MAKES_A_FILE: u32 = 0o100 | 0o20_000_000;
/// All flags of `clone` for a new namespace.
const NAMESPACES: u32 = 0x7e02_0000;
const FAMILIES: [u32; 4] = [1, 2, 10, 16];

const fn mode(argument: u32) -> Rule {
    Rule::Bits { argument, bits: SET_ID }
}

const fn opens(flags: u32) -> Rule {
    Rule::Both { first: (flags, MAKES_A_FILE), second: (flags + 1, SET_ID) }
}

/// The filtered calls: the number on x86-64, the number shared by later architectures (0 if there is no such call), and
/// the rule.
const RULES: [(u32, u32, Rule); 27] = [
    // openat and open, socket, clone, then clone3 and openat2. The last two report "no such call", because their
    // arguments lie in memory that a filter cannot read.
    (257, 56, opens(2)),
    (2, 0, opens(1)),
    (41, 198, Rule::NoneOf(&FAMILIES)),
    (56, 220, Rule::Bits { argument: 0, bits: NAMESPACES }),
    (435, 435, Rule::Always(ENOSYS)),
    (437, 437, Rule::Always(ENOSYS)),
    // chmod, fchmod, fchmodat, fchmodat2, creat, mkdir, mkdirat, mknod, mknodat.
    (90, 0, mode(1)),
    (91, 52, mode(1)),
    (268, 53, mode(2)),
    (452, 452, mode(2)),
    (85, 0, mode(1)),
    (83, 0, mode(1)),
    (258, 34, mode(2)),
    (133, 0, mode(1)),
    (259, 33, mode(2)),
    // unshare and setns.
    (272, 97, Rule::Always(EPERM)),
    (308, 268, Rule::Always(EPERM)),
    // io_uring_setup, io_uring_enter and io_uring_register.
    (425, 425, Rule::Always(EPERM)),
    (426, 426, Rule::Always(EPERM)),
    (427, 427, Rule::Always(EPERM)),
    // add_key, request_key and keyctl.
    (248, 217, Rule::Always(EPERM)),
    (249, 218, Rule::Always(EPERM)),
    (250, 219, Rule::Always(EPERM)),
    // bpf, perf_event_open, userfaultfd and open_by_handle_at.
    (321, 280, Rule::Always(EPERM)),
    (298, 241, Rule::Always(EPERM)),
    (323, 282, Rule::Always(EPERM)),
    (304, 265, Rule::Always(EPERM)),
];

/// Installs the filter unless the process has one already. All processes that it starts inherit the filter.
pub fn confine() {
    const PR_GET_SECCOMP: c_int = 21;
    let none = 0 as c_ulong;
    // SAFETY: a plain system call.
    let mode = unsafe { prctl(PR_GET_SECCOMP, none, none, none, none) };
    // Mode 2 means that a filter is installed already, usually the engine's profile.
    if mode != 2 {
        restrict();
    }
}

/// Installs the filter, besides any that the process has already. A call is refused if one of them refuses it.
pub fn restrict() {
    const PR_SET_SECCOMP: c_int = 22;
    const PR_SET_NO_NEW_PRIVS: c_int = 38;
    const FILTER: c_ulong = 2;
    let none = 0 as c_ulong;
    // SAFETY: plain system calls; the steps outlive the last one, which copies them.
    unsafe {
        let steps = steps();
        let program = Program { length: steps.len() as u16, steps: steps.as_ptr() };
        // Without this flag the kernel accepts filters only from privileged processes.
        prctl(PR_SET_NO_NEW_PRIVS, 1 as c_ulong, none, none, none);
        // A kernel without filters leaves these calls open. The probe detects that.
        prctl(PR_SET_SECCOMP, FILTER, (&raw const program).cast::<c_void>(), none, none);
    }
}

/// Replaces this process with the named program, which inherits the filter.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(program) = arguments.next() else {
        eprintln!("flock-helper: confine PROGRAM [ARGUMENT]…");
        return ExitCode::from(2);
    };
    job::exec(&program, arguments)
}

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
/// The first number of the second set of calls that x86-64 has for programs with 32-bit pointers.
const X32: u32 = 0x4000_0000;
const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };

const fn step(code: u16, value: u32) -> Step {
    Step { code, if_true: 0, if_false: 0, value }
}

/// Returns an instruction that continues with the next one if the condition holds, and otherwise skips `skip`
/// instructions.
const fn unless(code: u16, value: u32, skip: u8) -> Step {
    Step { code, if_true: 0, if_false: skip, value }
}

/// Returns the instruction that loads the lower half of an argument. It comes first in memory on the little-endian
/// architectures that flock supports.
const fn argument(index: u32) -> Step {
    step(LOAD, 16 + 8 * index)
}

fn steps() -> Vec<Step> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return vec![step(RETURN, ALLOW)];
    }
    let (refuse, allow) = (step(RETURN, ERRNO | EPERM), step(RETURN, ALLOW));
    let mut all = vec![
        // The architecture is checked first, because the numbers of the calls depend on it.
        step(LOAD, 4),
        Step { code: IF_EQUAL, if_true: 1, if_false: 0, value: ARCHITECTURE },
        step(RETURN, KILL),
        step(LOAD, 0),
        unless(IF_AT_LEAST, X32, 1),
        refuse,
    ];
    for (x86_64, others, rule) in &RULES {
        let number = if cfg!(target_arch = "x86_64") { *x86_64 } else { *others };
        if number == 0 {
            continue;
        }
        let body = match rule {
            Rule::Always(errno) => vec![step(RETURN, ERRNO | errno)],
            Rule::Bits { argument: index, bits } => {
                vec![argument(*index), unless(IF_BITS, *bits, 1), refuse, allow]
            }
            Rule::Both { first, second } => vec![
                argument(first.0),
                unless(IF_BITS, first.1, 3),
                argument(second.0),
                unless(IF_BITS, second.1, 1),
                refuse,
                allow,
            ],
            Rule::NoneOf(values) => {
                let mut body = vec![argument(0)];
                // A match jumps over the remaining values and the refusal, to the final `allow`.
                body.extend(values.iter().enumerate().map(|(at, value)| Step {
                    code: IF_EQUAL,
                    if_true: (values.len() - at) as u8,
                    if_false: 0,
                    value: *value,
                }));
                body.extend([refuse, allow]);
                body
            }
        };
        all.push(unless(IF_EQUAL, number, body.len() as u8));
        all.extend(body);
    }
    all.push(allow);
    all
}
