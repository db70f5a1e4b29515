//! Proof that the program on the port is this home's gateway.
//!
//! The client sends random bytes, and the gateway answers with their HMAC under the owner's token. Only a gateway that
//! has read this home's configuration can compute it. Another program on the port, or another home's gateway, can't.
//!
//! All functions except [`ask`] and [`challenge`] are pure. The gateway uses them to answer.

use std::net::SocketAddr;
use std::time::Duration;

use hmac::{Hmac, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::gateway_client::{Call, Client, GatewayClientError};
use crate::config::Config;
use crate::error::{Explain, Kind, chain};
use crate::home::{Home, HomeError, instance};
use crate::id::hex;

/// The header that carries the challenge.
pub(crate) const CHALLENGE: &str = "x-flock-challenge";

/// The answer to `GET /health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// One of `ok`, `stopping` and `unhealthy`.
    pub status: String,
    /// The reason why it is unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub version: String,
    /// The instance id of the gateway's home.
    pub instance: String,
    pub pid: i32,
    /// Unix seconds.
    pub started_at: i64,
    /// The HMAC of the challenge, if one was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// A program that answers and is not this home's gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Imposter {
    /// The gateway of another home.
    #[error("another home's gateway (pid {pid}, version {version}) answers at {address}")]
    OtherHome {
        /// The address that was asked.
        address: SocketAddr,
        /// The pid that it reported.
        pid: i32,
        /// The version that it reported.
        version: String,
    },
    /// It knows the home's instance id but not its token: an impostor, or a gateway that still uses an older token.
    #[error("the program at {address} does not know the owner's token")]
    NoProof {
        /// The address that was asked.
        address: SocketAddr,
    },
}

/// An error of a health check.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// No usable answer came.
    #[error(transparent)]
    Loopback(#[from] GatewayClientError),
    /// Another program than a flock gateway answered.
    #[error("another program answers at {address}")]
    Foreign {
        /// The address that was asked.
        address: SocketAddr,
        /// The fault in its answer.
        #[source]
        source: GatewayClientError,
    },
    /// It answered that it has no free connection.
    #[error("the program at {address} has too many open connections")]
    Busy {
        /// The address that was asked.
        address: SocketAddr,
    },
    /// It is not this home's gateway.
    #[error(transparent)]
    Imposter(#[from] Imposter),
}

/// A health check that did not get an answer from the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheckFailure {
    pub reason: String,
    /// Set if the process may be at fault. A process that is only busy is not: otherwise anybody who can connect could
    /// have it killed by holding all of its connections.
    pub counts: bool,
}

impl From<HealthError> for HealthCheckFailure {
    fn from(error: HealthError) -> Self {
        Self { reason: chain(&error), counts: !matches!(error, HealthError::Busy { .. }) }
    }
}

impl Explain for HealthError {
    fn kind(&self) -> Kind {
        match self {
            Self::Loopback(error) => error.kind(),
            Self::Foreign { .. } | Self::Busy { .. } | Self::Imposter(Imposter::NoProof { .. }) => {
                Kind::Failed
            }
            Self::Imposter(Imposter::OtherHome { .. }) => Kind::Conflict,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Loopback(error) => error.hint(),
            Self::Busy { .. } | Self::Imposter(Imposter::NoProof { .. }) => Some("flock restart".to_owned()),
            Self::Foreign { .. } | Self::Imposter(_) => Some(PORT_HINT.to_owned()),
        }
    }
}

/// The hint for a port that another program holds.
pub(crate) const PORT_HINT: &str = "stop the program that uses the port, or run `flock config set \
                             plugins.entries.flock.config.gateway.port PORT`";

/// Returns 32 random bytes as hex.
#[must_use]
pub(crate) fn challenge() -> String {
    hex(&rand::random::<[u8; 32]>())
}

/// Returns the HMAC of a challenge.
///
/// Returns `None` unless the challenge is 32 to 128 hex digits, so that nobody can have other texts signed.
#[must_use]
pub fn proof(token: &str, challenge: &str) -> Option<String> {
    let fits =
        (32..=128).contains(&challenge.len()) && challenge.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).ok().filter(|_| fits)?;
    mac.update(challenge.as_bytes());
    Some(hex(&mac.finalize().into_bytes()))
}

/// Checks that an answer to `challenge` comes from the gateway of this home.
///
/// # Errors
/// Returns [`Imposter::OtherHome`] if the instance id differs, and [`Imposter::NoProof`] if the proof is missing or
/// wrong.
pub fn verify(
    health: &Health,
    address: SocketAddr,
    home: &HomeIdentity,
    challenge: &str,
) -> Result<(), Imposter> {
    if health.instance != home.instance {
        // The version is text from another program that will be printed, so control characters and excess length are
        // removed.
        let version: String = health.version.chars().filter(|c| !c.is_control()).take(40).collect();
        return Err(Imposter::OtherHome { address, pid: health.pid, version });
    }
    let given = health.proof.as_deref().unwrap_or_default();
    match proof(&home.token, challenge) {
        // Compared in constant time, so that response times reveal nothing about the right proof.
        Some(right) if bool::from(right.as_bytes().ct_eq(given.as_bytes())) => Ok(()),
        _ => Err(Imposter::NoProof { address }),
    }
}

/// The secrets that a home's gateway must know.
#[derive(Clone)]
pub struct HomeIdentity {
    /// The content of the home's instance file.
    pub instance: String,
    pub token: String,
}

impl HomeIdentity {
    /// Returns the identity of a home.
    ///
    /// # Errors
    ///
    /// Returns an error if the home has no instance file, or if the file can't be read.
    pub(crate) fn of(home: &Home, config: &Config) -> Result<Self, HomeError> {
        Ok(Self { instance: instance::read(home)?, token: config.token.clone() })
    }
}

/// Asks the program that listens on `port` for its health, and checks that it is this home's gateway.
///
/// # Errors
/// Returns a [`HealthError`] if nothing answers, if the answer is not that of a flock gateway or is that of another
/// home's, or if all connections are in use.
pub async fn ask(port: u16, home: &HomeIdentity, limit: Duration) -> Result<Health, HealthError> {
    let client = Client::new(port);
    let address = client.address();
    let challenge = challenge();
    // The token is not sent: the listener has not proved its identity yet.
    let answer = async {
        let answer = client.send(Call::get("/health").header(CHALLENGE, &challenge), limit).await?;
        let busy = answer.status() == 503;
        match answer.json::<Health>(limit).await {
            // An unhealthy gateway answers with the same status, but with a health document.
            Err(_) if busy => Ok(None),
            health => health.map(Some),
        }
    };
    let health = match answer.await {
        Ok(Some(health)) => health,
        Ok(None) => return Err(HealthError::Busy { address }),
        Err(source @ (GatewayClientError::Decode { .. } | GatewayClientError::TooLong { .. })) => {
            return Err(HealthError::Foreign { address, source });
        }
        Err(GatewayClientError::Broken { address, source }) if source.is_parse() => {
            return Err(HealthError::Foreign {
                address,
                source: GatewayClientError::Broken { address, source },
            });
        }
        Err(error) => return Err(error.into()),
    };
    verify(&health, address, home, &challenge)?;
    Ok(health)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 3779))
    }

    fn home() -> HomeIdentity {
        HomeIdentity { instance: "i-1".to_owned(), token: "t".to_owned() }
    }

    fn answer(proof: Option<String>) -> Health {
        Health {
            status: "ok".to_owned(),
            reason: None,
            version: "0.1.0".to_owned(),
            instance: "i-1".to_owned(),
            pid: 7,
            started_at: 1,
            proof,
        }
    }

    #[test]
    fn only_a_gateway_with_the_token_passes() {
        let challenge = challenge();
        let check = |proof| verify(&answer(proof), address(), &home(), &challenge);
        assert_eq!(check(proof("t", &challenge)), Ok(()));
        for wrong in [None, proof("other", &challenge), proof("t", &"0".repeat(64)), Some(String::new())] {
            assert_eq!(check(wrong), Err(Imposter::NoProof { address: address() }));
        }
    }

    #[test]
    fn another_home_is_reported() {
        let challenge = challenge();
        let other = Health { instance: "i-2".to_owned(), ..answer(proof("t", &challenge)) };
        let found = verify(&other, address(), &home(), &challenge);
        assert!(matches!(found, Err(Imposter::OtherHome { pid: 7, .. })));
    }

    #[test]
    fn nothing_but_challenges_is_signed() {
        for text in ["", "abc", &"g".repeat(64), &"a".repeat(129)] {
            assert_eq!(proof("t", text), None);
        }
        assert_eq!(proof("key", &"0".repeat(32)).as_deref().map(str::len), Some(64), "hex of 32 bytes");
    }

    #[tokio::test]
    async fn a_gateway_without_room_for_one_more_connection_is_not_at_fault() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            let _ = stream.read(&mut head).await;
            let answer =
                "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let error = ask(port, &home(), Duration::from_secs(10)).await.unwrap_err();
        assert!(matches!(error, HealthError::Busy { .. }), "{error:?}");
        assert!(!HealthCheckFailure::from(error).counts);
        let refused = ask(1, &home(), Duration::from_secs(10)).await.unwrap_err();
        assert!(HealthCheckFailure::from(refused).counts);
    }
}
