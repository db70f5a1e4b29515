//! A server of a test's own, on a thread of its own.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::sync::oneshot;

use super::wait_until;

const LIMIT: Duration = Duration::from_secs(30);

/// A router that is served until this is dropped, by which its channel ends.
pub struct ServedRouter {
    pub address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl ServedRouter {
    pub fn start(router: Router) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), router)
    }

    /// Serves it at an address that another one had.
    pub fn start_at(address: SocketAddr, router: Router) -> Self {
        let listener = wait_until("the port is free", LIMIT, || {
            std::net::TcpListener::bind(address).map_err(|error| error.to_string())
        });
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = axum::serve(listener, router) => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self { address, _stop: stop }
    }
}
