//! Memory and CPU usage of processes, as the system reports it.

use std::collections::HashMap;

use serde::Serialize;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// The resource usage of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceUsage {
    /// Resident memory in bytes.
    pub memory_bytes: u64,
    /// Total CPU time used, in milliseconds.
    pub cpu_ms: u64,
}

/// Returns the usage of those of the given processes that are alive.
#[must_use]
pub(crate) fn of(pids: &[i32]) -> HashMap<i32, ResourceUsage> {
    let wanted: Vec<Pid> =
        pids.iter().filter_map(|pid| u32::try_from(*pid).ok()).map(Pid::from_u32).collect();
    let Ok(mut system) = System::new() else { return HashMap::new() };
    let kind = ProcessRefreshKind::nothing().with_memory().with_cpu().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&wanted), false, kind);
    let figure = |pid: Pid| {
        let process = system.process(pid)?;
        let number = i32::try_from(pid.as_u32()).ok()?;
        let figures =
            ResourceUsage { memory_bytes: process.memory(), cpu_ms: process.accumulated_cpu_time() };
        Some((number, figures))
    };
    wanted.into_iter().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        let pid = crate::process::ProcessId::current().pid;
        let found = of(&[pid, -1, i32::MAX]);
        assert_eq!(found.len(), 1);
        assert!(found[&pid].memory_bytes > 1 << 20);
    }
}
