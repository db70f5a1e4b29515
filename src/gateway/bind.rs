//! Binds the gateway's port, and finds out who has it if it is taken.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;

use crate::error::{Explain, Kind};
use crate::supervise::health::{self, HealthError, HomeIdentity, Imposter, PORT_HINT};

/// The reason why the gateway can't listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The gateway of this home runs already.
    #[error("this home's gateway (pid {pid}) listens at {address} already")]
    Running {
        address: SocketAddr,
        /// The process id, as that gateway reports it.
        pid: i32,
    },
    /// The gateway of another home has the port.
    #[error("another home's gateway (pid {pid}) listens at {address}")]
    OtherHome {
        address: SocketAddr,
        /// The process id, as that gateway reports it.
        pid: i32,
    },
    /// Another program has the port.
    #[error("another program listens at {address}")]
    Taken { address: SocketAddr },
    /// The port could not be bound for another reason.
    #[error("failed to listen at {address}")]
    Refused {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

impl Explain for BindError {
    fn kind(&self) -> Kind {
        match self {
            Self::Running { .. } | Self::OtherHome { .. } => Kind::Conflict,
            Self::Taken { .. } | Self::Refused { .. } => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Running { .. } => "flock status".to_owned(),
            Self::OtherHome { .. } | Self::Taken { .. } | Self::Refused { .. } => PORT_HINT.to_owned(),
        })
    }
}

/// Listens on 127.0.0.1.
///
/// The address can be bound again at once after a gateway has ended, because the socket is created with `SO_REUSEADDR`.
///
/// # Errors
///
/// Returns [`BindError::Running`], [`BindError::OtherHome`] or [`BindError::Taken`] if the port is in use, depending on
/// who answers there, and [`BindError::Refused`] if it can't be bound for another reason.
pub(crate) async fn bind(port: u16, home: &HomeIdentity) -> Result<TcpListener, BindError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let source = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(source) => source,
    };
    if source.kind() != std::io::ErrorKind::AddrInUse {
        return Err(BindError::Refused { address, source });
    }
    // The program on the port is asked who it is, because the error alone does not tell.
    Err(match health::ask(port, home, Duration::from_secs(1)).await {
        Ok(health) => BindError::Running { address, pid: health.pid },
        Err(HealthError::Imposter(Imposter::OtherHome { pid, .. })) => BindError::OtherHome { address, pid },
        Err(_) => BindError::Taken { address },
    })
}

/// Returns an error that names the gateway of this home, if one answers at this port.
pub(crate) async fn running(port: u16, home: &HomeIdentity) -> Option<BindError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let health = health::ask(port, home, Duration::from_secs(1)).await.ok()?;
    Some(BindError::Running { address, pid: health.pid })
}
