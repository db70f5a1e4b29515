//! TLS for connections to PostgreSQL, through rustls with ring.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::settings::{Encryption, Settings};

/// Returns what makes a connection secure, as far as the settings ask for it.
///
/// # Errors
///
/// Returns a sentence if the certificates to be trusted can't be read.
pub(super) fn connector(settings: &Settings) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(ring::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be set up: {error}"))?;
    let config = match (settings.encryption, settings.root_certificates()) {
        (Encryption::Checked, Some(path)) => versions.with_root_certificates(trusted(path)?),
        (Encryption::Checked, None) => {
            let verifier = rustls_platform_verifier::Verifier::new(provider)
                .map_err(|error| format!("the machine's own certificates can't be read: {error}"))?;
            versions.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        (Encryption::Off | Encryption::Spared | Encryption::Offered | Encryption::Unchecked, _) => {
            versions.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
        }
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

/// Reads the certificates to be trusted from a PEM file.
fn trusted(path: &Path) -> Result<RootCertStore, String> {
    let unread = |error: &dyn std::fmt::Display| {
        format!("the certificates in {} (sslrootcert) can't be read: {error}", path.display())
    };
    let mut roots = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unread(&error))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| unread(&error))?;
        roots.add(certificate).map_err(|error| unread(&error))?;
    }
    if roots.is_empty() { Err(unread(&"there are none")) } else { Ok(roots) }
}

/// Accepts every certificate, as `sslmode=require` does in PostgreSQL's own programs. The server still has to hold the
/// certificate's key.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_roots(path: &Path) -> Result<MakeRustlsConnect, String> {
        let address = format!("postgres://f@db/f?sslmode=verify-full&sslrootcert={}", path.display());
        connector(&Settings::parse(&address, "flock").unwrap())
    }

    #[test]
    fn certificates_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let refused = |path: &Path| with_roots(path).err().unwrap();
        assert!(refused(&path).contains("ca.pem"));
        std::fs::write(&path, "nothing").unwrap();
        assert!(refused(&path).contains("there are none"));
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(refused(&path).contains("ca.pem"));
    }

    #[test]
    fn every_mode_has_a_connector() {
        for mode in ["disable", "allow", "prefer", "require", "verify-full"] {
            let address = format!("postgres://f@db/f?sslmode={mode}");
            connector(&Settings::parse(&address, "flock").unwrap()).unwrap();
        }
    }
}
