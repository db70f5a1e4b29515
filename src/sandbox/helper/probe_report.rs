//! Parses and judges the report of a probe inside a sandbox: what the probe tried, and which tries should have failed.
//!
//! A report consists of lines `key=word word…`. Characters that are not printable ASCII are written as `%XX`:
//!
//! | line | meaning |
//! |---|---|
//! | `status.<name>=…` | a field of /proc/self/status: ids, capabilities, NoNewPrivs, Seccomp |
//! | `limit.<name>=…` | a limit of the control group, if it is visible |
//! | `helper.pid=N`, `helper.<what>=open\|closed` | what the probe can do to the helper |
//! | `mount=<ro\|rw> <type> <target> <part of the source> <source>` | a mount |
//! | `writable=<path>` | a place that took a new file, or a file that could be opened for writing |
//! | `interface=<name>` | a network interface |
//! | `connect=<address> <unreachable\|refused\|timeout\|open>` | a try to connect; only the first is no way out |
//! | `socket=<path> <open\|closed> <inside\|outside\|unknown>` | a socket in the file system and its listener's place |
//! | `device=<path>`, `mknod=open\|empty\|closed` | a device that opened; if one, or only its name, can be made |
//! | `namespace.user=open\|closed` | whether a user namespace can be made |
//! | `kernel=<release>` | the kernel that answers inside |
//! | `wall.<call>=open\|closed` | a system call that no sandbox may make |
//! | `walked=<entries> <whole\|truncated>` | how far sockets and devices were searched |
//! | `took_us=N`, `end=<whole\|truncated>` | the last lines |

use std::time::Duration;

use crate::clean::percent_decode;

/// Limit on the lines of a report. The container's own processes can write the report, so longer ones are cut.
const MAX_LINES: usize = 4_000;
/// Limit on the findings, because more of them say nothing new.
const MAX_FINDINGS: usize = 50;
/// Folders that an agent may write to, with everything below. `/dev/shm` is the container's own memory.
const WRITABLE: [&str; 3] = ["/workspace", "/tmp", "/dev/shm"];
/// Devices that gVisor gives every container and opens for anyone. They belong to the kernel inside, which lets nobody
/// without capabilities mount or configure anything through them.
const OWN_KERNEL_DEVICES: [&str; 2] = ["/dev/fuse", "/dev/net/tun"];
/// The system calls that are tried, each with the finding if it is let through.
const BLOCKED_SYSCALLS: [(&str, &str); 15] = [
    ("vsock", "it can make sockets to the hypervisor (AF_VSOCK)"),
    ("alg", "it can make sockets to the kernel's ciphers (AF_ALG)"),
    ("io_uring", "io_uring can be used"),
    ("keys", "the kernel's keyrings can be used"),
    ("bpf", "bpf can be used"),
    ("perf", "perf_event_open can be used"),
    ("clone", "user namespaces can be made by clone"),
    ("clone3", "user namespaces can be made by clone3"),
    ("setuid-chmod", "setuid files can be made by chmod"),
    ("setuid-chmod-group", "setgid files can be made by chmod"),
    ("setuid-fchmod", "setuid files can be made by fchmod"),
    ("setuid-fchmodat2", "setuid files can be made by fchmodat2"),
    ("setuid-open", "setuid files can be made by open"),
    ("setuid-openat2", "setuid files can be made by openat2"),
    ("setuid-mknod", "setuid files can be made by mknod"),
];
/// The place where control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";
const CAPABILITIES: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

/// The facts about one sandbox that its probe is judged by, in addition to the rules for every sandbox.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProbeExpectations<'a> {
    /// Folders that this sandbox may write to besides its workspace and `/tmp`.
    pub writable: &'a [&'a str],
    /// The release of the engine's kernel, if it was asked for. A runtime with its own kernel (gVisor, Kata) shows no
    /// seccomp mode, and is judged by the results of the tries.
    pub kernel: Option<&'a str>,
    /// `true` if it has a network interface, behind a policy that denies all traffic. Then nothing that is sent gets an
    /// answer, which the probe has to wait for.
    pub is_behind_policy: bool,
}

/// The parsed lines of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeReport {
    lines: Vec<(String, Vec<String>)>,
}

impl ProbeReport {
    /// Parses a probe's output. Invalid lines are skipped. A result that is then missing becomes a finding.
    #[must_use]
    pub fn parse(output: &[u8]) -> Self {
        let lines = output.split(|byte| *byte == b'\n').filter_map(|line| {
            let (key, value) = std::str::from_utf8(line).ok()?.split_once('=')?;
            Some((key.to_owned(), value.split(' ').map(decode).collect()))
        });
        Self { lines: lines.take(MAX_LINES).collect() }
    }

    /// Returns the words of every line with this key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a [String]> {
        self.lines.iter().filter(move |(found, _)| found == key).map(|(_, words)| words.as_slice())
    }

    /// Returns the first word of the first line with this key.
    #[must_use]
    pub fn first(&self, key: &str) -> Option<&str> {
        self.lines.iter().find(|(found, _)| found == key)?.1.first().map(String::as_str)
    }

    /// Returns the duration of the probe.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.first("took_us")?.parse().ok().map(Duration::from_micros)
    }

    /// Returns everything that is not confined as a sandbox without a network must be. An empty list means that the
    /// sandbox is confined. A check without a result is a finding.
    #[must_use]
    pub fn findings(&self, expected: &ProbeExpectations<'_>) -> Vec<String> {
        let writable = expected.writable;
        let mut findings = Vec::new();
        if self.first("end") != Some("whole") {
            findings.push("the probe did not finish".to_owned());
        }
        let has_own_kernel = self.has_own_kernel(expected);
        self.judge_identity(has_own_kernel, &mut findings);
        self.judge_files(writable, has_own_kernel, &mut findings);
        self.judge_network(expected, &mut findings);
        self.judge_calls(has_own_kernel, &mut findings);
        findings.truncate(MAX_FINDINGS);
        findings
    }

    /// Returns `true` if another kernel than the engine's answers inside, as with gVisor or a virtual machine.
    fn has_own_kernel(&self, expected: &ProbeExpectations<'_>) -> bool {
        match (self.first("kernel"), expected.kernel) {
            // An unknown release counts as the engine's own kernel, which is judged more strictly.
            (Some(inside), Some(outside)) => !inside.is_empty() && !outside.is_empty() && inside != outside,
            _ => false,
        }
    }

    fn judge_identity(&self, has_own_kernel: bool, findings: &mut Vec<String>) {
        for name in CAPABILITIES {
            match self.first(&format!("status.{name}")) {
                Some(value) if value.bytes().all(|byte| byte == b'0') => {}
                found => findings.push(format!("its {name} is {}, not 0", or_unknown(found))),
            }
        }
        for name in ["Uid", "Gid"] {
            let key = format!("status.{name}");
            // The four ids are the real, effective, saved and file system id.
            let ids: Vec<&String> = self.all(&key).flatten().collect();
            if ids.len() != 4 || ids.iter().any(|id| *id == "0") {
                findings.push(format!("its {name} may be root's"));
            }
        }
        if self.first("status.NoNewPrivs") != Some("1") {
            findings.push("programs in it can gain privileges".to_owned());
        }
        if self.first("helper.pid") != Some("1") {
            findings.push("the helper is not its first process".to_owned());
        }
        // gVisor lets processes of the same user open each other's descriptors, environment and root. The helper's
        // output is parsed as hostile in any case.
        let out_of_reach: &[&str] =
            if has_own_kernel { &["mem", "ptrace"] } else { &["fd", "environ", "mem", "root", "ptrace"] };
        for what in out_of_reach {
            if self.first(&format!("helper.{what}")) != Some("closed") {
                findings.push(format!("the helper's {what} can be reached"));
            }
        }
        for limit in ["pids", "memory"] {
            let value = self.first(&format!("limit.{limit}"));
            // Version 1 of the control groups writes "no limit" as a number close to the largest one.
            if value.is_some_and(|value| value == "max" || value.parse().is_ok_and(|n: u64| n > 1 << 50)) {
                findings.push(format!("its {limit} limit is off"));
            }
        }
    }

    fn judge_calls(&self, has_own_kernel: bool, findings: &mut Vec<String>) {
        if self.first("status.Seccomp") != Some("2") && !has_own_kernel {
            findings.push("no seccomp filter limits its system calls".to_owned());
        }
        for (name, open) in BLOCKED_SYSCALLS {
            match self.first(&format!("wall.{name}")) {
                Some("closed") => {}
                Some("open") => findings.push(open.to_owned()),
                _ => findings.push(format!("{name} was not probed")),
            }
        }
        if self.first("namespace.user") != Some("closed") {
            findings.push("user namespaces can be made by unshare".to_owned());
        }
    }

    fn judge_files(&self, writable: &[&str], has_own_kernel: bool, findings: &mut Vec<String>) {
        // With version 1 of the control groups, crun leaves the tmpfs writable in which it mounts them.
        let is_memory = |path: &str| path == CGROUPS && self.all("mount").any(|words| is_tmpfs(words, path));
        let may = |path: &str| {
            WRITABLE.iter().chain(writable).any(|place| is_below(path, place)) || is_memory(path)
        };
        for path in self.all("writable").filter_map(<[String]>::first) {
            if !may(path) {
                findings.push(format!("{path} can be written"));
            }
        }
        // Every workspace is writable. If the report does not say so, the tries of the probe do not work.
        if !self.all("writable").any(|words| words.first().is_some_and(|path| path == "/workspace")) {
            findings.push("/workspace can't be written".to_owned());
        }
        for words in self.all("mount") {
            if let [mode, kind, target, ..] = words
                && mode == "rw"
                && (kind == "sysfs" || kind.starts_with("cgroup"))
            {
                findings.push(format!("{target} is not mounted read-only"));
            }
        }
        for path in self.all("device").filter_map(<[String]>::first) {
            if !(has_own_kernel && OWN_KERNEL_DEVICES.contains(&path.as_str())) {
                findings.push(format!("the device {path} opens"));
            }
        }
        // A device name without a device behind it is harmless if the kernel inside is not the one that owns the host's
        // devices.
        let made = self.first("mknod");
        if made != Some("closed") && !(has_own_kernel && made == Some("empty")) {
            findings.push("devices can be made".to_owned());
        }
    }

    fn judge_network(&self, expected: &ProbeExpectations<'_>, findings: &mut Vec<String>) {
        let writable = expected.writable;
        for name in self.all("interface").filter_map(<[String]>::first) {
            if name != "lo" && !expected.is_behind_policy {
                findings.push(format!("it has the network interface {name}"));
            }
        }
        let mut tried = false;
        for words in self.all("connect") {
            tried = true;
            if let [address, result, ..] = words
                && result != "unreachable"
                && !(result == "timeout" && expected.is_behind_policy)
            {
                findings.push(format!("{address} can be reached ({result})"));
            }
        }
        // Without a single try, interface or walk the probe did not examine the network.
        if !tried || self.first("interface").is_none() || self.first("walked").is_none() {
            findings.push("its network was not probed".to_owned());
        }
        for words in self.all("socket") {
            let [path, state, listener, ..] = words else { continue };
            // For a socket that the agent itself may have created, the probe cannot always tell who listens.
            let may = WRITABLE.iter().chain(writable).any(|place| is_below(path, place));
            let own = may && listener != "outside";
            if state == "open" && listener != "inside" && !own {
                findings.push(format!("the socket {path} answers"));
            }
        }
    }
}

/// Returns `true` if a mount is a tmpfs at this place.
fn is_tmpfs(words: &[String], place: &str) -> bool {
    matches!(words, [_, kind, target, ..] if kind == "tmpfs" && target == place)
}

fn is_below(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn or_unknown(found: Option<&str>) -> String {
    found.map_or("unknown".to_owned(), |value| value.chars().take(40).collect())
}

/// Decodes `%XX`. Anything else stays as it is. Control characters are replaced, because the result is shown to people
/// and must not move a terminal's cursor.
fn decode(word: &str) -> String {
    percent_decode(word).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFINED: &str = "\
status.Uid=10001 10001 10001 10001
status.Gid=10001 10001 10001 10001
status.CapInh=0000000000000000
status.CapPrm=0000000000000000
status.CapEff=0000000000000000
status.CapBnd=0000000000000000
status.CapAmb=0000000000000000
status.NoNewPrivs=1
status.Seccomp=2
limit.pids=256
limit.memory=2147483648
helper.pid=1
helper.fd=closed
helper.environ=closed
helper.mem=closed
helper.root=closed
helper.ptrace=closed
mount=ro overlay / / overlay
mount=ro sysfs /sys / sysfs
writable=/tmp
writable=/workspace
writable=/workspace/a%20b
interface=lo
connect=1.1.1.1:53 unreachable
walked=100 whole
mknod=closed
socket=/tmp/own open inside
socket=/tmp/dgram open unknown
socket=/nix/var/nix/daemon-socket/socket closed unknown
kernel=6.1.0
wall.vsock=closed
wall.alg=closed
wall.io_uring=closed
wall.keys=closed
wall.bpf=closed
wall.perf=closed
wall.clone=closed
wall.clone3=closed
wall.setuid-chmod=closed
wall.setuid-chmod-group=closed
wall.setuid-fchmod=closed
wall.setuid-fchmodat2=closed
wall.setuid-open=closed
wall.setuid-openat2=closed
wall.setuid-mknod=closed
namespace.user=closed
took_us=3000
end=whole
";
    const ANY: ProbeExpectations<'static> =
        ProbeExpectations { writable: &[], kernel: None, is_behind_policy: false };

    #[test]
    fn a_confined_sandbox_has_no_findings() {
        let report = ProbeReport::parse(CONFINED.as_bytes());
        assert_eq!(report.findings(&ANY), Vec::<String>::new());
        assert_eq!(report.took(), Some(Duration::from_millis(3)));
    }

    #[test]
    fn every_line_of_a_weaker_sandbox_is_a_finding() {
        for line in [
            "writable=/etc",
            "writable=/sys/fs/cgroup",
            "writable=/workspaces",
            "writable=/proc/sys/kernel/core_pattern",
            "interface=eth0",
            "connect=169.254.169.254:80 open",
            "connect=169.254.169.254:80 timeout",
            "connect=172.17.0.1:2375 refused",
            "socket=/nix/var/nix/daemon-socket/socket open outside",
            "socket=/run/x open unknown",
            "socket=/workspace/x open outside",
            "device=/dev/sda",
            "mount=rw cgroup /sys/fs/cgroup/pids / cgroup",
        ] {
            let text = CONFINED.replace("took_us", &format!("{line}\ntook_us"));
            assert_eq!(ProbeReport::parse(text.as_bytes()).findings(&ANY).len(), 1, "{line}");
        }
        let crun = "mount=rw tmpfs /sys/fs/cgroup / cgroup\nwritable=/sys/fs/cgroup\ntook_us";
        assert!(ProbeReport::parse(CONFINED.replace("took_us", crun).as_bytes()).findings(&ANY).is_empty());
        let text = CONFINED.replace("took_us", "writable=/data/x\ntook_us");
        assert!(
            ProbeReport::parse(text.as_bytes())
                .findings(&ProbeExpectations { writable: &["/data"], ..ANY })
                .is_empty()
        );
    }

    #[test]
    fn every_line_that_is_missing_or_wrong_is_a_finding() {
        let judged = CONFINED.lines().filter(|line| {
            let key = line.split('=').next().unwrap();
            !matches!(key, "mount" | "socket" | "kernel" | "took_us" | "limit.pids" | "limit.memory")
                && *line != "writable=/tmp"
                && !line.contains("a%20b")
        });
        for line in judged {
            let text = CONFINED.replace(line, "");
            assert!(!ProbeReport::parse(text.as_bytes()).findings(&ANY).is_empty(), "without {line}");
        }
        for (line, wrong) in [
            ("CapBnd=0000000000000000", "CapBnd=00000000a80425fb"),
            ("helper.ptrace=closed", "helper.ptrace=open"),
            ("limit.pids=256", "limit.pids=max"),
            ("limit.memory=2147483648", "limit.memory=9223372036854771712"),
            ("end=whole", "end=truncated"),
            ("wall.vsock=closed", "wall.vsock=open"),
            ("wall.setuid-mknod=closed", "wall.setuid-mknod=open"),
            ("namespace.user=closed", "namespace.user=open"),
            ("status.Seccomp=2", "status.Seccomp=0"),
            ("Uid=10001 10001 10001 10001", "Uid=10001 10001 0 10001"),
        ] {
            let text = CONFINED.replace(line, wrong);
            assert_eq!(ProbeReport::parse(text.as_bytes()).findings(&ANY).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_runtime_with_its_own_kernel_needs_no_visible_seccomp_filter() {
        let text =
            CONFINED.replace("status.Seccomp=2", "status.Seccomp=0").replace("kernel=6.1.0", "kernel=4.4.0");
        let judge = |text: &str, kernel| {
            ProbeReport::parse(text.as_bytes()).findings(&ProbeExpectations { kernel, ..ANY }).len()
        };
        assert_eq!(judge(&text, Some("6.1.0")), 0);
        assert_eq!(judge(&text, Some("4.4.0")), 1, "it is the engine's");
        assert_eq!(judge(&text, None), 1, "the engine's is not known");
        assert_eq!(judge(&text.replace("kernel=4.4.0", "kernel="), Some("6.1.0")), 1);
        let gvisor =
            text.replace("helper.fd=closed", "helper.fd=open").replace("\nmknod=closed", "\nmknod=empty");
        assert_eq!((judge(&gvisor, Some("6.1.0")), judge(&gvisor, Some("4.4.0"))), (0, 3));
        assert_eq!(judge(&text.replace("\nmknod=closed", "\nmknod=open"), Some("6.1.0")), 1);
        let devices = text.replace("\nmknod=closed", "\ndevice=/dev/fuse\ndevice=/dev/net/tun\nmknod=closed");
        assert_eq!((judge(&devices, Some("6.1.0")), judge(&devices, Some("4.4.0"))), (0, 3));
        assert_eq!(judge(&devices.replace("/dev/net/tun", "/dev/vda"), Some("6.1.0")), 1);
        assert_eq!(
            judge(&text.replace("io_uring=closed", "io_uring=open"), Some("6.1.0")),
            1,
            "tries are judged"
        );
    }

    #[test]
    fn behind_a_policy_an_interface_is_no_way_out_and_an_answer_is_one() {
        let policy = ProbeExpectations { is_behind_policy: true, ..ANY };
        let judge = |line: &str| {
            let text = CONFINED.replace("took_us", &format!("interface=eth0\n{line}\ntook_us"));
            ProbeReport::parse(text.as_bytes()).findings(&policy)
        };
        assert_eq!(judge("connect=10.96.0.1:443 timeout"), Vec::<String>::new());
        for result in ["open", "refused", "unknown"] {
            let findings = judge(&format!("connect=10.96.0.1:443 {result}"));
            assert_eq!(findings, [format!("10.96.0.1:443 can be reached ({result})")]);
        }
        assert!(!judge("writable=/etc").is_empty(), "all else is judged as everywhere");
    }

    #[test]
    fn words_are_decoded_without_control_characters() {
        let report = ProbeReport::parse(b"writable=/a%20b%1B[2J%zz%C3%A9 c\n\xff=x\nno line\n");
        let words: Vec<_> = report.all("writable").collect();
        assert_eq!(words, [["/a b\u{fffd}[2J%zzé".to_owned(), "c".to_owned()].as_slice()]);
    }

    proptest::proptest! {
        #[test]
        fn any_output_is_judged_without_a_panic(output: Vec<u8>) {
            let findings = ProbeReport::parse(&output).findings(&ANY);
            proptest::prop_assert!(!findings.is_empty());
        }
    }
}
