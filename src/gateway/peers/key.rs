//! The key of this run of a gateway, and TLS by which gateways know each other.
//!
//! Each run makes a key of its own, which never leaves the process. Its public half is in the gateway's row of the database, so
//! whoever can write there says who the gateways are, and could add people and tokens just as well. Both ends of a connection
//! show their keys (RFC 7250), so there are no certificates, no authority and no secret that two machines would have to share.

use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

use crate::id::{hex, unhex};

/// The bytes before the 32 of an Ed25519 key in its public form (RFC 8410).
const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The key of this run.
#[derive(Debug)]
pub(crate) struct PeerKey {
    certified: Arc<CertifiedKey>,
    public: String,
}

impl PeerKey {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// Returns an error if the system gives no random bytes.
    pub(super) fn new() -> Result<Self, Error> {
        let unmade = |_| Error::General("no key could be made".to_owned());
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(unmade)?;
        let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(document.as_ref()))?;
        let info = key.public_key().ok_or_else(|| Error::General("a key has no public half".to_owned()))?;
        let public =
            public_text(info.as_ref()).ok_or_else(|| Error::General("a key is malformed".to_owned()))?;
        let certificate = CertificateDer::from(info.as_ref().to_vec());
        Ok(Self { certified: Arc::new(CertifiedKey::new(vec![certificate], key)), public })
    }

    /// Returns the public half as it is in the database.
    pub(super) fn public(&self) -> &str {
        &self.public
    }

    /// Returns the settings of a connection to the gateway with this public key.
    ///
    /// # Errors
    ///
    /// Returns an error if the key is not one.
    pub(super) fn client(&self, theirs: &str) -> Result<ClientConfig, Error> {
        let key = unhex(theirs).filter(|key| key.len() == 32);
        let key =
            key.ok_or_else(|| Error::General("the key of the other gateway is malformed".to_owned()))?;
        let expected = [PREFIX.as_slice(), &key].concat();
        let provider = Arc::new(provider::default_provider());
        let check = Arc::new(RawKeyCheck { provider: Arc::clone(&provider), expected: Some(expected) });
        let resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&self.certified)));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(check)
            .with_client_cert_resolver(resolver);
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// Returns the settings of the server. It takes any key whose private half the other end has; its caller looks whose it
    /// is.
    ///
    /// # Errors
    ///
    /// Returns an error if rustls refuses the settings.
    pub(super) fn server(&self) -> Result<ServerConfig, Error> {
        let provider = Arc::new(provider::default_provider());
        let check = Arc::new(RawKeyCheck { provider: Arc::clone(&provider), expected: None });
        let resolver = Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.certified)));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(check)
            .with_cert_resolver(resolver);
        // A gateway that ended must not come back by an old ticket.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// Returns a key in its public form as it is in the database. `None` if it is not one of Ed25519.
pub(super) fn public_text(info: &[u8]) -> Option<String> {
    info.strip_prefix(PREFIX.as_slice()).filter(|key| key.len() == 32).map(hex)
}

/// Checks that the other end has the private half of the key that it shows, and if one is expected, that it shows this one.
#[derive(Debug)]
struct RawKeyCheck {
    provider: Arc<CryptoProvider>,
    /// The expected key in its public form.
    expected: Option<Vec<u8>>,
}

impl RawKeyCheck {
    fn check_key(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        let is_expected = match &self.expected {
            Some(expected) => expected.as_slice() == shown.as_ref(),
            None => public_text(shown.as_ref()).is_some(),
        };
        if is_expected {
            Ok(())
        } else {
            Err(Error::General("this is the key of another gateway".to_owned()))
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(
            message,
            &key,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }
}

/// The error for a version of TLS that is not offered.
fn no_tls12() -> Error {
    Error::General("only TLS 1.3 is spoken here".to_owned())
}

impl ServerCertVerifier for RawKeyCheck {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check_key(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for RawKeyCheck {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check_key(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    /// Has a client that expects `expected` reach the server. Returns the key that the server saw.
    async fn meet(server: &PeerKey, client: &PeerKey, expected: &str) -> Result<Option<String>, String> {
        let (near, far) = tokio::io::duplex(4096);
        let acceptor = TlsAcceptor::from(Arc::new(server.server().unwrap()));
        let config = client.client(expected).map_err(|error| error.to_string())?;
        let served = tokio::spawn(async move {
            let mut stream = acceptor.accept(far).await.map_err(|error| error.to_string())?;
            let shown = stream.get_ref().1.peer_certificates().map(|shown| public_text(&shown[0]));
            stream.write_all(b"x").await.map_err(|error| error.to_string())?;
            Ok(shown.flatten())
        });
        let name = ServerName::try_from("flock").unwrap();
        let connected = TlsConnector::from(Arc::new(config)).connect(name, near).await;
        let mut stream = connected.map_err(|error| error.to_string())?;
        stream.read_u8().await.map_err(|error| error.to_string())?;
        served.await.unwrap()
    }

    #[tokio::test]
    async fn each_end_knows_the_key_of_the_other() {
        let (server, client, other) =
            (PeerKey::new().unwrap(), PeerKey::new().unwrap(), PeerKey::new().unwrap());
        assert_eq!(server.public().len(), 64);
        assert_eq!(meet(&server, &client, server.public()).await, Ok(Some(client.public().to_owned())));
        let refused = meet(&server, &client, other.public()).await.unwrap_err();
        assert!(refused.contains("another gateway"), "{refused}");
        for malformed in ["", "xy", &server.public()[2..]] {
            assert!(meet(&server, &client, malformed).await.unwrap_err().contains("malformed"));
        }
    }

    #[tokio::test]
    async fn who_shows_no_key_is_not_served() {
        let server = PeerKey::new().unwrap();
        let provider = Arc::new(provider::default_provider());
        let expected = [PREFIX.as_slice(), &unhex(server.public()).unwrap()].concat();
        let check = Arc::new(RawKeyCheck { provider: Arc::clone(&provider), expected: Some(expected) });
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(check)
            .with_no_client_auth();
        let (near, far) = tokio::io::duplex(4096);
        let acceptor = TlsAcceptor::from(Arc::new(server.server().unwrap()));
        let served = tokio::spawn(async move { acceptor.accept(far).await.is_ok() });
        let name = ServerName::try_from("flock").unwrap();
        if let Ok(mut stream) = TlsConnector::from(Arc::new(config)).connect(name, near).await {
            assert!(stream.read_u8().await.is_err());
        }
        assert!(!served.await.unwrap());
    }
}
