//! Proof that what answers on the port is this home's gateway.
//!
//! Whoever asks sends random bytes; the gateway answers with their HMAC under the owner's token, which only
//! a gateway that has read this home's configuration can compute. A program that happens to hold the port,
//! or another home's gateway, can't. The functions are pure but for [`ask`] and [`challenge`]; the gateway
//! uses the same ones to answer.

use std::net::SocketAddr;
use std::time::Duration;

use hmac::{Hmac, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use super::loopback::{Call, Client, LoopbackError};
use crate::error::{Explain, Kind, chain};
use crate::id::hex;

/// The header that carries the challenge.
pub const CHALLENGE: &str = "x-flock-challenge";

/// What `GET /health` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `ok`, `stopping`, or `unhealthy`.
    pub status: String,
    /// Why it is unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The gateway's version.
    pub version: String,
    /// The instance id of its home.
    pub instance: String,
    /// Its pid.
    pub pid: i32,
    /// When it began, in seconds since the epoch.
    pub started_at: i64,
    /// The proof, where a challenge was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// What answered is not this home's gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Imposter {
    /// A flock gateway, but another home's.
    #[error("another home's gateway (pid {pid}, version {version}) answers at {address}")]
    OtherHome {
        /// Where.
        address: SocketAddr,
        /// Its pid, as it says.
        pid: i32,
        /// Its version, as it says.
        version: String,
    },
    /// It knows the home's instance id and not its token: an impostor, or a gateway that runs with an older token.
    #[error("what answers at {address} does not know the owner's token")]
    NoProof {
        /// Where.
        address: SocketAddr,
    },
}

/// Why the health of the gateway could not be seen.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// Nothing usable came back.
    #[error(transparent)]
    Loopback(#[from] LoopbackError),
    /// Something answered that is no flock gateway.
    #[error("another program answers at {address}")]
    Foreign {
        /// Where.
        address: SocketAddr,
        /// What was wrong with its answer.
        #[source]
        source: LoopbackError,
    },
    /// It answers, and has no room for one more connection.
    #[error("what answers at {address} has too many connections")]
    Busy {
        /// Where.
        address: SocketAddr,
    },
    /// A gateway that is not this home's.
    #[error(transparent)]
    Imposter(#[from] Imposter),
}

/// A check that did not see the gateway's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Why.
    pub reason: String,
    /// Whether the process may be at fault. One that is only busy is not: else whoever can connect could have
    /// it ended by holding all of its connections.
    pub counts: bool,
}

impl From<HealthError> for Unseen {
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

/// What helps when the port belongs to somebody else.
pub const PORT_HINT: &str =
    "stop what holds the port, or run `flock config set plugins.entries.flock.config.gateway.port PORT`";

/// 32 random bytes as hex.
#[must_use]
pub fn challenge() -> String {
    hex(&rand::random::<[u8; 32]>())
}

/// The proof for a challenge. `None` for what is no challenge: it must be 32 to 128 hex digits, so that
/// nobody gets other texts signed.
#[must_use]
pub fn proof(token: &str, challenge: &str) -> Option<String> {
    let fits =
        (32..=128).contains(&challenge.len()) && challenge.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).ok().filter(|_| fits)?;
    mac.update(challenge.as_bytes());
    Some(hex(&mac.finalize().into_bytes()))
}

/// Checks that an answer to `challenge` comes from the gateway of the home with this instance id and token.
///
/// # Errors
/// If it comes from elsewhere.
pub fn verify(
    health: &Health,
    address: SocketAddr,
    home: &Identity,
    challenge: &str,
) -> Result<(), Imposter> {
    if health.instance != home.instance {
        let version: String = health.version.chars().filter(|c| !c.is_control()).take(40).collect();
        return Err(Imposter::OtherHome { address, pid: health.pid, version });
    }
    let given = health.proof.as_deref().unwrap_or_default();
    match proof(&home.token, challenge) {
        Some(right) if bool::from(right.as_bytes().ct_eq(given.as_bytes())) => Ok(()),
        _ => Err(Imposter::NoProof { address }),
    }
}

/// What a home's gateway must know.
#[derive(Clone)]
pub struct Identity {
    /// The content of the home's instance file.
    pub instance: String,
    /// The owner's token.
    pub token: String,
}

/// Asks what listens on `port` who it is.
///
/// # Errors
/// If nothing answers, or what answers is not this home's gateway.
pub async fn ask(port: u16, home: &Identity, limit: Duration) -> Result<Health, HealthError> {
    let client = Client::new(port);
    let address = client.address();
    let challenge = challenge();
    // The token stays here: it is not sent to whoever listens before that has proved itself.
    let answer = async {
        let answer = client.send(Call::get("/health").header(CHALLENGE, &challenge), limit).await?;
        let busy = answer.status() == 503;
        match answer.json::<Health>(limit).await {
            // One that is unhealthy answers with the same status, and says who it is.
            Err(_) if busy => Ok(None),
            health => health.map(Some),
        }
    };
    let health = match answer.await {
        Ok(Some(health)) => health,
        Ok(None) => return Err(HealthError::Busy { address }),
        Err(source @ (LoopbackError::Decode { .. } | LoopbackError::TooLong { .. })) => {
            return Err(HealthError::Foreign { address, source });
        }
        Err(LoopbackError::Broken { address, source }) if source.is_parse() => {
            return Err(HealthError::Foreign { address, source: LoopbackError::Broken { address, source } });
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

    fn home() -> Identity {
        Identity { instance: "i-1".to_owned(), token: "t".to_owned() }
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
    fn only_who_knows_the_token_passes() {
        let challenge = challenge();
        let check = |proof| verify(&answer(proof), address(), &home(), &challenge);
        assert_eq!(check(proof("t", &challenge)), Ok(()));
        for wrong in [None, proof("other", &challenge), proof("t", &"0".repeat(64)), Some(String::new())] {
            assert_eq!(check(wrong), Err(Imposter::NoProof { address: address() }));
        }
    }

    #[test]
    fn another_home_is_named() {
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
        assert!(!Unseen::from(error).counts);
        let refused = ask(1, &home(), Duration::from_secs(10)).await.unwrap_err();
        assert!(Unseen::from(refused).counts);
    }
}
