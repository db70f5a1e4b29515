//! The seccomp profile of a sandbox. flock brings its own profile, because an engine's default depends on the engine's
//! version and some engines have none.
//!
//! The profile is an allow-list. It allows nothing that Docker's default of May 2026 (github.com/moby/profiles,
//! 3c28324) refuses to a container without capabilities. The calls allowed by that default are listed in
//! `seccomp_docker.txt`, for the test. In addition flock's profile refuses:
//!
//! - sockets of all families except the four that programs need. `AF_VSOCK` and `AF_ALG` are among the refused ones.
//! - the setuid and setgid bits in every mode argument. A workspace is a folder of the host, where a program with such
//!   a bit would give its rights to any local user.
//! - `openat2`, because its mode lies in memory that a filter cannot read. The call fails with "no such call"
//!   (`ENOSYS`), on which programs fall back to `openat`. `clone3` fails the same way, because of its flags for new
//!   namespaces.
//! - programs of other architectures, 32-bit ones included, because their system calls have other numbers.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// Returns the profile as JSON in the form that Docker's API takes.
#[must_use]
pub fn profile() -> &'static str {
    static PROFILE: LazyLock<String> = LazyLock::new(|| document().to_string());
    &PROFILE
}

/// Returns the profile as a security option of a container.
#[must_use]
pub fn option() -> String {
    format!("seccomp={}", profile())
}

fn document() -> Value {
    let plain: Vec<&str> = ALLOWED.split_ascii_whitespace().collect();
    let mut rules = vec![json!({"names": plain, "action": ALLOW})];
    // Each rule holds a single condition. Several rules for one call are alternatives, so a list of values needs a rule
    // for each value.
    rules.extend(FAMILIES.map(|family| allow_rule("socket", &[], &equal(0, family))));
    rules.extend(PERSONALITIES.map(|persona| allow_rule("personality", &[], &equal(0, persona))));
    // A call of `clone` with one of these flags matches no rule and gets the default action.
    rules.push(allow_rule("clone", &[], &none_of(0, NAMESPACES)));
    for (calls, mode) in MODES {
        rules.push(allow_rule(calls[0], &calls[1..], &none_of(mode, SET_ID_BITS)));
    }
    // The mode argument is meaningful only if the call may create a file. Otherwise the register holds an arbitrary
    // value. So a call passes if it cannot create a file or if its mode has no such bit.
    for (call, flags) in [("open", 1), ("openat", 2)] {
        rules.push(allow_rule(call, &[], &none_of(flags, CREATE_FLAGS)));
        rules.push(allow_rule(call, &[], &none_of(flags + 1, SET_ID_BITS)));
    }
    // `ENOSYS` and not `EPERM`: only on "no such call" do programs fall back to the older call.
    rules.push(json!({"names": ["clone3", "openat2"], "action": ERRNO, "errnoRet": ENOSYS}));
    let mut document = json!({"defaultAction": ERRNO, "defaultErrnoRet": EPERM, "syscalls": rules});
    if let Some(architecture) = ARCHITECTURE {
        document["architectures"] = json!([architecture]);
    }
    document
}

fn allow_rule(call: &str, more: &[&str], condition: &Value) -> Value {
    let names: Vec<&str> = std::iter::once(call).chain(more.iter().copied()).collect();
    json!({"names": names, "action": ALLOW, "args": [condition]})
}

fn equal(argument: u32, value: u64) -> Value {
    json!({"index": argument, "value": value, "op": "SCMP_CMP_EQ"})
}

/// Returns the condition that an argument has none of these bits.
fn none_of(argument: u32, bits: u64) -> Value {
    json!({"index": argument, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"})
}

const ALLOW: &str = "SCMP_ACT_ALLOW";
const ERRNO: &str = "SCMP_ACT_ERRNO";
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// The only architecture whose calls are listed here. Programs of any other architecture are killed.
const ARCHITECTURE: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("SCMP_ARCH_X86_64")
} else if cfg!(target_arch = "aarch64") {
    Some("SCMP_ARCH_AARCH64")
} else {
    None
};

/// `AF_UNIX`, `AF_INET`, `AF_INET6` and `AF_NETLINK`. The C library needs the last one to list network interfaces.
const FAMILIES: [u64; 4] = [1, 2, 10, 16];
/// `PER_LINUX` and `PER_LINUX32`, each with and without `UNAME26`, and the value that asks for the current personality.
const PERSONALITIES: [u64; 5] = [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// `CLONE_NEWNS`, `CLONE_NEWCGROUP`, `CLONE_NEWUTS`, `CLONE_NEWIPC`, `CLONE_NEWUSER`, `CLONE_NEWPID` and
/// `CLONE_NEWNET`.
const NAMESPACES: u64 = 0x7e02_0000;
const SET_ID_BITS: u64 = 0o6000;
/// `O_CREAT` and the bit that only `O_TMPFILE` sets.
const CREATE_FLAGS: u64 = 0o100 | 0o20_000_000;
/// Calls that always take a mode, with the index of the mode argument.
const MODES: [(&[&str], u32); 2] = [
    (&["chmod", "creat", "fchmod", "mkdir", "mknod"], 1),
    (&["fchmodat", "fchmodat2", "mkdirat", "mknodat"], 2),
];

/// Calls that are allowed with any arguments. Names that the engine or the architecture does not know are skipped.
const ALLOWED: &str = "
    accept accept4 access adjtimex alarm arch_prctl bind brk cachestat capget capset chdir chown clock_adjtime
    clock_getres clock_gettime clock_nanosleep close close_range connect copy_file_range dup dup2 dup3
    epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat
    exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchown fchownat fcntl fdatasync fgetxattr
    flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait
    futex_waitv futex_wake futimesat get_robust_list getcpu getcwd getdents getdents64 getegid geteuid getgid
    getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid
    getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr getxattrat
    inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents
    io_pgetevents io_setup io_submit ioctl ioprio_get ioprio_set kill landlock_add_rule
    landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listmount listxattr
    listxattrat llistxattr lremovexattr lseek lsetxattr lstat madvise map_shadow_stack membarrier memfd_create
    memfd_secret mincore mlock mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open mq_timedreceive
    mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap
    name_to_handle_at nanosleep newfstatat pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free
    pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_mrelease process_vm_readv
    process_vm_writev pselect6 ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv
    recvfrom recvmmsg recvmsg remap_file_pages removexattr removexattrat rename renameat renameat2
    restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
    rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
    sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity
    sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop
    sendfile sendmmsg sendmsg sendto set_robust_list set_tid_address setfsgid setfsuid setgid setgroups
    setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid
    setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair splice
    stat statfs statmount statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time
    timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
    timerfd_settime times tkill truncate umask uname unlink unlinkat uretprobe utime utimensat utimes vfork
    vmsplice wait4 waitid write writev";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the rules that name a call.
    fn rules(call: &str) -> Vec<Value> {
        let names = |rule: &Value| rule["names"].as_array().unwrap().iter().any(|name| name == call);
        document()["syscalls"].as_array().unwrap().iter().filter(|rule| names(rule)).cloned().collect()
    }

    #[test]
    fn calls_that_reach_beyond_a_sandbox_are_in_no_rule() {
        for call in [
            "add_key",
            "bpf",
            "chroot",
            "fanotify_init",
            "fsopen",
            "init_module",
            "io_uring_enter",
            "io_uring_register",
            "io_uring_setup",
            "kcmp",
            "kexec_load",
            "keyctl",
            "mount",
            "mount_setattr",
            "move_mount",
            "open_by_handle_at",
            "open_tree",
            "perf_event_open",
            "pidfd_getfd",
            "pivot_root",
            "process_madvise",
            "quotactl",
            "reboot",
            "request_key",
            "setns",
            "socketcall",
            "swapon",
            "syslog",
            "umount2",
            "unshare",
            "userfaultfd",
            "vhangup",
        ] {
            assert_eq!(rules(call), Vec::<Value>::new(), "{call}");
        }
        let document = document();
        assert_eq!(document["defaultAction"], ERRNO);
        for call in ["clone3", "openat2"] {
            let rules = rules(call);
            assert_eq!(
                (rules.len(), &rules[0]["action"], &rules[0]["errnoRet"]),
                (1, &json!(ERRNO), &json!(ENOSYS))
            );
        }
    }

    #[test]
    fn calls_with_a_mode_flags_or_a_family_are_allowed_by_argument_only() {
        for call in [
            "chmod",
            "clone",
            "creat",
            "fchmod",
            "fchmodat",
            "fchmodat2",
            "mkdir",
            "mkdirat",
            "mknod",
            "mknodat",
            "open",
            "openat",
            "personality",
            "socket",
        ] {
            let rules = rules(call);
            assert!(!rules.is_empty(), "{call}");
            assert!(
                rules.iter().all(|rule| rule["args"].as_array().is_some_and(|args| args.len() == 1)),
                "{call}"
            );
        }
    }

    #[test]
    fn every_call_is_named_once() {
        let mut names: Vec<&str> = ALLOWED.split_ascii_whitespace().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// The calls that Docker's default profile allows to a container without capabilities.
    const DOCKER_DEFAULT: &str = include_str!("seccomp_docker.txt");

    /// Returns the names in the sections whose titles `is_chosen` accepts.
    fn dockers(is_chosen: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
        let mut is_in = false;
        let mut names = BTreeSet::new();
        for line in DOCKER_DEFAULT.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(title) => is_in = is_chosen(title),
                None if is_in => names.extend(line.split_ascii_whitespace()),
                None => {}
            }
        }
        names
    }

    #[test]
    fn nothing_is_allowed_that_dockers_default_refuses() {
        const BY_ARGUMENT: &str = "by argument";
        let (plain, by_argument) =
            (dockers(|title| title != BY_ARGUMENT), dockers(|title| title == BY_ARGUMENT));
        assert!(plain.len() > 300 && by_argument.len() == 3, "the list must have been read");
        let document = document();
        let mut seen = BTreeSet::new();
        for rule in document["syscalls"].as_array().unwrap().iter().filter(|rule| rule["action"] == ALLOW) {
            for name in rule["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
                seen.insert(name);
                if plain.contains(name) {
                    continue;
                }
                assert!(by_argument.contains(name), "Docker's default refuses {name}");
                let argument = &rule["args"][0];
                let value = argument["value"].as_u64().unwrap();
                let is_within = match name {
                    // All families except 38 (`AF_ALG`) and 40 (`AF_VSOCK`).
                    "socket" => argument["op"] == "SCMP_CMP_EQ" && (value < 38 || value == 39 || value > 40),
                    "personality" => {
                        argument["op"] == "SCMP_CMP_EQ"
                            && [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff].contains(&value)
                    }
                    "clone" => {
                        argument["op"] == "SCMP_CMP_MASKED_EQ"
                            && argument["valueTwo"] == 0
                            && value & 0x7e02_0000 == 0x7e02_0000
                    }
                    _ => false,
                };
                assert!(
                    is_within && argument["index"] == 0,
                    "Docker's default refuses {name} with {argument}"
                );
            }
        }
        assert!(seen.len() > 250 && by_argument.is_subset(&seen), "the profile must have been read");
    }
}
