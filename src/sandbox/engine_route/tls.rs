//! Connections to an engine with TLS: only the given authority is trusted, and the engine asks for a certificate of ours.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{RouteError, TlsAddress};
use crate::config::secret;
use crate::home::Home;
use crate::id::EngineName;

/// The files that a connection needs. Each is a secret of the home, in PEM form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateFile {
    /// The certificates of the authority that has signed the engine's.
    Authority,
    /// The certificate by which the engine knows this home.
    Certificate,
    /// The key of that certificate.
    Key,
}

impl CertificateFile {
    pub(crate) const ALL: [Self; 3] = [Self::Authority, Self::Certificate, Self::Key];

    /// Returns the name, which is also that of its option.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Authority => "ca",
            Self::Certificate => "cert",
            Self::Key => "key",
        }
    }

    /// Returns the name of the secret.
    pub(crate) fn secret(self, engine: &EngineName) -> String {
        format!("engine-{engine}.{}.pem", self.name())
    }
}

/// The texts of the three files of an engine.
#[derive(Clone)]
pub(crate) struct CertificateTexts {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl CertificateTexts {
    pub(crate) fn of(&self, file: CertificateFile) -> &str {
        match file {
            CertificateFile::Authority => &self.authority,
            CertificateFile::Certificate => &self.certificate,
            CertificateFile::Key => &self.key,
        }
    }

    /// Checks that a connection can be made with them.
    ///
    /// # Errors
    ///
    /// Returns a sentence about the first one that can't be used.
    pub(crate) fn check(&self) -> Result<(), String> {
        client_config(self).map(drop)
    }
}

/// The place of the files for a connection.
enum Source {
    /// The secrets of the home.
    Home(Home),
    /// Files that are tried before the home keeps them.
    Given(CertificateTexts),
}

/// The way to an engine with TLS.
pub(crate) struct TlsRoute {
    source: Source,
    name: EngineName,
    address: TlsAddress,
}

impl TlsRoute {
    pub(super) fn new(home: &Home, name: &EngineName, address: TlsAddress) -> Self {
        Self { source: Source::Home(home.clone()), name: name.clone(), address }
    }

    pub(super) fn with_certificates(name: &EngineName, address: TlsAddress, given: CertificateTexts) -> Self {
        Self { source: Source::Given(given), name: name.clone(), address }
    }

    pub(super) fn place(&self) -> String {
        let TlsAddress { host, port } = &self.address;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// The command by which a person sees what the engine shows.
    pub(super) fn hint(&self) -> String {
        format!("openssl s_client -connect {}", self.place())
    }

    pub(super) async fn connect(&self) -> Result<TlsStream<TcpStream>, RouteError> {
        let given = match &self.source {
            // Read for each connection, so that a renewed certificate is used at once.
            Source::Home(home) => {
                let (home, name) = (home.clone(), self.name.clone());
                let read = tokio::task::spawn_blocking(move || read(&home, &name)).await;
                read.map_err(|error| RouteError::new(error.to_string(), "flock doctor"))?
            }
            Source::Given(given) => Ok(given.clone()),
        };
        let config = given.and_then(|given| client_config(&given)).map_err(|text| {
            RouteError::of_certificates(
                text,
                format!("flock engine renew {} --ca CA.pem --cert CERT.pem --key KEY.pem", self.name),
            )
        })?;
        let TlsAddress { host, port } = &self.address;
        let server = ServerName::try_from(host.clone())
            .map_err(|_| RouteError::new(format!("{host} is no name for a certificate"), self.hint()))?;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| {
            RouteError::new(format!("no connection to {}: {error}", self.place()), self.hint())
        })?;
        let connecting = TlsConnector::from(Arc::new(config)).connect(server, stream);
        connecting.await.map_err(|error| {
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
            match cause {
                Some(cause) => self.refused(cause),
                None => RouteError::new(
                    format!("{} broke off the TLS connection: {error}", self.place()),
                    self.hint(),
                ),
            }
        })
    }

    /// Returns what an error of TLS after the connection means, such as a refused certificate.
    pub(super) fn explain(&self, error: &hyper::Error) -> Option<RouteError> {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(cause) = next {
            let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
            if let Some(tls) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                return Some(self.refused(tls));
            }
            next = cause.source();
        }
        None
    }

    fn refused(&self, error: &rustls::Error) -> RouteError {
        let place = self.place();
        let renew = format!("flock engine renew {}", self.name);
        match meaning(error) {
            Meaning::Theirs(why) => RouteError::new(format!("the certificate of {place} {why}"), self.hint()),
            Meaning::OtherAuthority => RouteError::of_certificates(
                format!("the certificate of {place} is not signed by the given authority"),
                format!("{renew} --ca CA.pem"),
            ),
            Meaning::Ours(why) => RouteError::of_certificates(
                format!("{place} refuses the certificate of this home: {why}"),
                format!("{renew} --cert CERT.pem --key KEY.pem"),
            ),
            Meaning::NoTls => RouteError::new(
                format!("{place} does not speak TLS, and flock uses no engine without"),
                "start the engine with --tlsverify",
            ),
            Meaning::Other => RouteError::new(format!("TLS with {place} failed: {error}"), self.hint()),
        }
    }
}

/// The meaning of an error of TLS for a person.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    /// The engine's certificate is wrong.
    Theirs(&'static str),
    /// The engine's certificate is of another authority.
    OtherAuthority,
    /// The engine does not take the certificate of the home.
    Ours(&'static str),
    NoTls,
    Other,
}

fn meaning(error: &rustls::Error) -> Meaning {
    use CertificateError as Bad;
    match error {
        rustls::Error::InvalidCertificate(bad) => match bad {
            Bad::Expired | Bad::ExpiredContext { .. } => Meaning::Theirs("has expired"),
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => Meaning::Theirs("is not valid yet"),
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                Meaning::Theirs("is for another name")
            }
            Bad::UnknownIssuer | Bad::BadSignature => Meaning::OtherAuthority,
            Bad::Revoked => Meaning::Theirs("was revoked"),
            _ => Meaning::Theirs("can't be used"),
        },
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => Meaning::Ours("it asks for one"),
            AlertDescription::CertificateExpired => Meaning::Ours("it has expired"),
            AlertDescription::CertificateRevoked => Meaning::Ours("it was revoked"),
            AlertDescription::UnknownCA => Meaning::Ours("another authority has signed it"),
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::AccessDenied => Meaning::Ours("it is not one that the engine takes"),
            _ => Meaning::Other,
        },
        rustls::Error::InvalidMessage(_) => Meaning::NoTls,
        _ => Meaning::Other,
    }
}

fn read(home: &Home, engine: &EngineName) -> Result<CertificateTexts, String> {
    let one = |file: CertificateFile| {
        let name = file.secret(engine);
        match secret::get(home, &name) {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err(format!("the file secrets/{name} is missing")),
            Err(error) => Err(crate::error::chain(&error)),
        }
    };
    Ok(CertificateTexts {
        authority: one(CertificateFile::Authority)?,
        certificate: one(CertificateFile::Certificate)?,
        key: one(CertificateFile::Key)?,
    })
}

fn client_config(given: &CertificateTexts) -> Result<ClientConfig, String> {
    let unusable = |what: &str, error: &dyn std::fmt::Display| format!("the {what} can't be used: {error}");
    let mut roots = RootCertStore::empty();
    for found in
        certificates(&given.authority).map_err(|error| unusable("authority's certificate", &error))?
    {
        roots.add(found).map_err(|error| unusable("authority's certificate", &error))?;
    }
    let chain =
        certificates(&given.certificate).map_err(|error| unusable("certificate of this home", &error))?;
    let key = PrivateKeyDer::from_pem_slice(given.key.as_bytes())
        .map_err(|error| unusable("key of this home", &error))?;
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be set up: {error}"))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| unusable("certificate of this home", &error))
}

fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err("there is none in it".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_tls_has_its_meaning() {
        let bad = rustls::Error::InvalidCertificate;
        let alert = rustls::Error::AlertReceived;
        assert_eq!(meaning(&bad(CertificateError::Expired)), Meaning::Theirs("has expired"));
        assert_eq!(meaning(&bad(CertificateError::NotValidForName)), Meaning::Theirs("is for another name"));
        assert_eq!(meaning(&bad(CertificateError::UnknownIssuer)), Meaning::OtherAuthority);
        assert_eq!(meaning(&alert(AlertDescription::CertificateRequired)), Meaning::Ours("it asks for one"));
        let plain = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        assert_eq!(meaning(&plain), Meaning::NoTls);
    }

    #[test]
    fn files_that_are_no_certificates_are_refused_by_what_they_are() {
        let nothing = || "nothing".to_owned();
        let texts = CertificateTexts { authority: nothing(), certificate: nothing(), key: nothing() };
        let refused = texts.check().unwrap_err();
        assert_eq!(refused, "the authority's certificate can't be used: there is none in it");
    }
}
