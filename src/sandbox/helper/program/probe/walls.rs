//! Tries the system calls that no sandbox may make.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Lines;
use super::calls;

/// A folder of the host. Anyone on the host who runs a setuid file in it gets the rights of the sandbox's user.
const WORKSPACE: &str = "/workspace";
const SET_ID: u32 = 0o6000;

/// Reports `kernel=<release>`, because a runtime may have its own kernel.
pub fn kernel(lines: &mut Lines) {
    lines.say("kernel", &[&calls::kernel_release()]);
}

/// Reports `wall.<call>=open|closed` for each system call.
pub fn calls(lines: &mut Lines) {
    let tries: [(&str, fn() -> bool); 8] = [
        ("vsock", calls::can_reach_the_hypervisor),
        ("alg", calls::can_use_the_kernels_ciphers),
        ("io_uring", calls::can_queue_calls),
        ("keys", calls::can_keep_a_key),
        ("bpf", calls::can_load_bpf),
        ("perf", calls::can_count_events),
        ("clone", calls::can_clone_into_a_user_namespace),
        ("clone3", calls::can_clone3_into_a_user_namespace),
    ];
    for (name, can) in tries {
        lines.say_open(&format!("wall.{name}"), can());
    }
}

/// Reports `wall.setuid-<call>=open|closed`: if a file in the workspace can get the setuid or setgid bit.
pub fn set_id(lines: &mut Lines) {
    let tries: [(&str, fn(&Path)); 7] = [
        ("chmod", |path| {
            drop(File::create(path));
            drop(fs::set_permissions(path, Permissions::from_mode(0o4755)));
        }),
        ("chmod-group", |path| {
            drop(File::create(path));
            drop(fs::set_permissions(path, Permissions::from_mode(0o2755)));
        }),
        ("fchmod", |path| {
            if let Ok(file) = File::create(path) {
                drop(file.set_permissions(Permissions::from_mode(0o4755)));
            }
        }),
        ("fchmodat2", |path| {
            drop(File::create(path));
            calls::fchmodat2(path, 0o4755);
        }),
        ("open", |path| {
            drop(OpenOptions::new().write(true).create_new(true).mode(0o4755).open(path));
        }),
        ("openat2", |path| calls::openat2(path, 0o4755)),
        ("mknod", |path| calls::make_file(path, 0o4755)),
    ];
    for (name, make) in tries {
        let path = PathBuf::from(format!("{WORKSPACE}/.flock-probe-{}-{name}", std::process::id()));
        make(&path);
        // The mode is read back, because the bit in the file counts and not the result of the call.
        let is_set = fs::symlink_metadata(&path).is_ok_and(|found| found.mode() & SET_ID != 0);
        lines.say_open(&format!("wall.setuid-{name}"), is_set);
        drop(fs::remove_file(&path));
    }
}
