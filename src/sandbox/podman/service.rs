//! Facts of a service on which a container depends, by its own words.

use hyper::Method;
use nix::sys::resource::{Resource, getrlimit};

use super::client::call;
use super::{API, strings};
use crate::sandbox::SandboxError;
use crate::sandbox::engine::{self, Engine};

/// The limits on processes and on open files that are set where none is given, if this process has no lower ones. Podman sets its
/// own limit on processes to the kernel's number of process ids, which is at least this on usual machines.
const PROCESSES: u64 = 32_768;
const OPEN_FILES: u64 = 1_048_576;

/// Facts about a service that a container depends on.
pub(super) struct Service {
    pub(super) is_rootless: bool,
    /// The OCI runtime of all its containers.
    pub(super) runtime: String,
    /// The controllers of the control groups that it may use.
    pub(super) controllers: Vec<String>,
    /// The limits of a process to set where a container has none of its own.
    pub(super) limits: [(&'static str, u64); 2],
}

impl Service {
    /// Asks the service of an engine.
    pub(super) async fn ask(engine: &Engine) -> Result<Self, SandboxError> {
        let path = format!("{API}/info");
        let asked = call(engine, Method::GET, &path, None);
        let answer = engine.call("describe itself", engine::QUICK, asked).await?;
        let host = &answer["host"];
        Ok(Self {
            is_rootless: host["security"]["rootless"] == true,
            runtime: host["ociRuntime"]["name"].as_str().unwrap_or_default().to_owned(),
            controllers: strings(&host["cgroupControllers"]),
            // Podman sets 1,048,576 where none is given, and the runtime fails if Podman's own limit is lower and can't be
            // raised.
            limits: [
                ("nproc", at_most(Resource::RLIMIT_NPROC, PROCESSES)),
                ("nofile", at_most(Resource::RLIMIT_NOFILE, OPEN_FILES)),
            ],
        })
    }
}

fn at_most(resource: Resource, most: u64) -> u64 {
    getrlimit(resource).map_or(most, |(_, hard)| hard.min(most))
}
