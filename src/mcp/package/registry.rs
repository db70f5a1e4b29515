//! Requests to the registries. flock sends them itself, with the proxy and the certificates of the machine.

use std::io::Write;
use std::time::Duration;

use reqwest::{Response, StatusCode, Url};

use super::error::PackageError;
use super::lock::Integrity;
use crate::config::PackageSource;
use crate::env;
use crate::error::chain;
use crate::provider::http::{HttpClients, HttpLimits};

/// The registries that are asked if the environment names no others.
const NPM: &str = "https://registry.npmjs.org/";
const PYPI: &str = "https://pypi.org/simple/";
/// The host of the files that `PyPI` lists.
const PYPI_FILES: &str = "https://files.pythonhosted.org/";

/// The most bytes of an answer about a package, and of an archive.
pub(super) const MAX_ANSWER: u64 = 96 << 20;
pub(super) const MAX_ARCHIVE: u64 = 512 << 20;
/// The longest wait for the beginning of an answer, and between two pieces of it.
const FIRST_BYTE: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(30);
/// The number of times that a request is sent.
const TRIES: u32 = 3;

/// The registries.
pub(crate) struct Registry {
    http: HttpClients,
    npm: Url,
    pypi: Url,
}

impl Registry {
    /// Returns the public registries, or those of the environment.
    ///
    /// # Errors
    ///
    /// Returns [`PackageError::Address`] if the environment has something that is no address.
    pub fn from_env() -> Result<Self, PackageError> {
        Ok(Self {
            http: HttpClients::new(HttpLimits::default()),
            npm: address(env::NPM_REGISTRY, NPM)?,
            pypi: address(env::PYPI_INDEX, PYPI)?,
        })
    }

    /// Returns the address of a registry, which ends with `/`.
    #[must_use]
    pub const fn base(&self, source: PackageSource) -> &Url {
        match source {
            PackageSource::Npm => &self.npm,
            PackageSource::Pypi => &self.pypi,
        }
    }

    /// Returns the address of an archive if it is one of the registry's. Nothing else is fetched, whatever a registry or a
    /// lock says.
    ///
    /// # Errors
    ///
    /// Returns [`PackageError::Unpinned`] if it is elsewhere.
    pub fn archive(&self, source: PackageSource, package: &str, text: &str) -> Result<Url, PackageError> {
        let base = self.base(source);
        // npm writes this address for its own registry and for a copy of it.
        let text = match text.strip_prefix(NPM).filter(|_| source == PackageSource::Npm) {
            Some(rest) => format!("{base}{rest}"),
            None => text.to_owned(),
        };
        let own = |url: &Url| {
            let files = Url::parse(PYPI_FILES)
                .ok()
                .filter(|_| source == PackageSource::Pypi && base.as_str() == PYPI);
            [Some(base.clone()), files].into_iter().flatten().any(|known| {
                (known.scheme(), known.host_str(), known.port_or_known_default())
                    == (url.scheme(), url.host_str(), url.port_or_known_default())
            })
        };
        let found = Url::parse(&text)
            .ok()
            .filter(|url| own(url) && url.username().is_empty() && url.password().is_none());
        found.ok_or_else(|| PackageError::Unpinned {
            package: package.to_owned(),
            what: format!("does not come from {}: {}", source.title(), crate::clean::summary(&text, 200)),
        })
    }

    /// Asks for something, and returns the answer. `None` if there is no such thing.
    ///
    /// # Errors
    ///
    /// Returns an error if the registry can't be reached, or answers with an error.
    pub async fn get(
        &self,
        source: PackageSource,
        url: &Url,
        accept: &str,
    ) -> Result<Option<Response>, PackageError> {
        let mut tried = 0;
        loop {
            tried += 1;
            let error = match self.get_once(source, url, accept).await {
                Err(error @ PackageError::Unreached { .. }) if tried < TRIES => error,
                other => return other,
            };
            tracing::debug!(%url, error = chain(&error), "a request to a registry is sent again");
            tokio::time::sleep(Duration::from_millis(500 * u64::from(tried))).await;
        }
    }

    async fn get_once(
        &self,
        source: PackageSource,
        url: &Url,
        accept: &str,
    ) -> Result<Option<Response>, PackageError> {
        let unreached = |reason: String| PackageError::Unreached { registry: source, reason };
        let client = self.http.client(url).await.map_err(unreached)?;
        let sent = client.get(url.clone()).header("accept", accept).send();
        let response = match tokio::time::timeout(FIRST_BYTE, sent).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unreached(chain(&error.without_url()))),
            Err(_) => return Err(unreached(format!("no answer within {} s", FIRST_BYTE.as_secs()))),
        };
        match response.status() {
            StatusCode::OK => Ok(Some(response)),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(unreached(format!("it answers {status}")))
            }
            status => Err(PackageError::Answer {
                registry: source,
                what: crate::clean::summary(url.path(), 120),
                reason: status.to_string(),
            }),
        }
    }

    /// Reads an answer to its end.
    ///
    /// # Errors
    ///
    /// Returns an error if it breaks off, or is longer than `cap`.
    pub async fn bytes(
        &self,
        source: PackageSource,
        response: Response,
        cap: u64,
    ) -> Result<Vec<u8>, PackageError> {
        let mut bytes = Vec::new();
        read(source, response, cap, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .await?;
        Ok(bytes)
    }

    /// Writes an archive into a file if it has this hash, and returns its length.
    ///
    /// # Errors
    ///
    /// Returns [`PackageError::Integrity`] if it has another hash. What was written has to be thrown away then.
    pub async fn download(
        &self,
        (source, package): (PackageSource, &str),
        url: &Url,
        wanted: &Integrity,
        to: &mut std::fs::File,
    ) -> Result<u64, PackageError> {
        let gone = || PackageError::Answer {
            registry: source,
            what: package.to_owned(),
            reason: "the archive is not there".to_owned(),
        };
        let response = self.get(source, url, "*/*").await?.ok_or_else(gone)?;
        let mut hash = wanted.hasher();
        let mut length = 0;
        read(source, response, MAX_ARCHIVE, |piece| {
            hash.update(piece);
            length += piece.len() as u64;
            to.write_all(piece)
        })
        .await?;
        let found = hash.finish();
        if found != *wanted {
            return Err(PackageError::Integrity {
                package: package.to_owned(),
                wanted: wanted.to_string(),
                found: found.to_string(),
            });
        }
        Ok(length)
    }
}

async fn read(
    source: PackageSource,
    mut response: Response,
    cap: u64,
    mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), PackageError> {
    let what = crate::clean::summary(response.url().path(), 120);
    let too_large = || PackageError::TooLarge { what: what.clone(), limit: format!("{} MiB", cap >> 20) };
    if response.content_length().is_some_and(|length| length > cap) {
        return Err(too_large());
    }
    let mut left = cap;
    loop {
        let piece = match tokio::time::timeout(IDLE, response.chunk()).await {
            Ok(Ok(Some(piece))) => piece,
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => {
                let reason = chain(&error.without_url());
                return Err(PackageError::Unreached { registry: source, reason });
            }
            Err(_) => {
                let reason = format!("the answer stopped for {} s", IDLE.as_secs());
                return Err(PackageError::Unreached { registry: source, reason });
            }
        };
        left = left.checked_sub(piece.len() as u64).ok_or_else(too_large)?;
        take(&piece).map_err(PackageError::host("the folder of the packages"))?;
    }
}

fn address(variable: env::Var, default: &str) -> Result<Url, PackageError> {
    let Some(value) = variable.get() else {
        return Url::parse(default).map_err(|error| PackageError::Defect(error.to_string()));
    };
    usable(&value).ok_or(PackageError::Address { variable: variable.name })
}

/// Reads the address of a registry, without a login. It is joined with names, so it ends where they begin.
fn usable(text: &str) -> Option<Url> {
    let text = format!("{}/", text.trim_end_matches('/'));
    Url::parse(&text).ok().filter(|url| {
        let has_login = !url.username().is_empty() || url.password().is_some();
        let is_plain = url.query().is_none() && url.fragment().is_none() && !has_login;
        ["http", "https"].contains(&url.scheme()) && url.host_str().is_some() && is_plain
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::sync::lock;

    fn registry(npm: &str, pypi: &str) -> Registry {
        Registry {
            http: HttpClients::new(HttpLimits::default()),
            npm: npm.parse().unwrap(),
            pypi: pypi.parse().unwrap(),
        }
    }

    #[test]
    fn the_address_of_a_registry_has_no_login_and_ends_where_names_begin() {
        let found = |text: &str| usable(text).map(|url| url.to_string());
        assert_eq!(found("https://a.example/npm").as_deref(), Some("https://a.example/npm/"));
        assert_eq!(found("http://127.0.0.1:4873/").as_deref(), Some("http://127.0.0.1:4873/"));
        for text in [
            "",
            "no address",
            "file:///x",
            "https://ann@a.example/",
            "https://:hidden@a.example/",
            "https://a.example/?token=hidden",
            "https://a.example/#x",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    /// Answers with a redirect, with more bytes than it announces, or with more than are read. Returns its address and what
    /// was asked for.
    fn liar() -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (own, seen) = (base.clone(), Arc::clone(&asked));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut buffer = [0; 4096];
                let count = std::io::Read::read(&mut stream, &mut buffer).unwrap();
                let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                let answer = match path.as_str() {
                    "/away" => format!("302 Found\r\nlocation: {own}secret\r\ncontent-length: 0\r\n\r\n"),
                    "/announced" => "200 OK\r\ncontent-length: 5000000000\r\n\r\nx".to_owned(),
                    "/endless" => format!("200 OK\r\nconnection: close\r\n\r\n{}", "x".repeat(4_000)),
                    _ => "200 OK\r\ncontent-length: 1\r\n\r\nx".to_owned(),
                };
                lock(&seen).push(path);
                let _ = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes());
            }
        });
        (base, asked)
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed_and_no_more_is_read_than_the_limit() {
        let (base, asked) = liar();
        let registry = registry(&base, &base);
        let source = PackageSource::Npm;
        let get = async |path: &str| {
            let url = format!("{base}{path}").parse().unwrap();
            let response = registry.get(source, &url, "*/*").await?.unwrap();
            registry.bytes(source, response, 2_000).await
        };
        assert_eq!(get("plain").await.unwrap(), b"x");
        let error = get("away").await.unwrap_err();
        assert!(error.to_string().contains("302"), "{error}");
        assert_eq!(*lock(&asked), ["/plain", "/away"], "asked once, and nothing else");
        for path in ["announced", "endless"] {
            let error = get(path).await.unwrap_err();
            assert!(matches!(error, PackageError::TooLarge { .. }), "{path}: {error}");
        }
    }

    #[tokio::test]
    async fn an_archive_with_another_hash_is_told_from_the_wanted_one() {
        let (base, _) = liar();
        let registry = registry(&base, &base);
        let url: Url = format!("{base}plain").parse().unwrap();
        let wanted = |content: &[u8]| {
            let mut hash = Integrity::parse(&format!("sha256:{}", "00".repeat(32))).unwrap().hasher();
            hash.update(content);
            hash.finish()
        };
        for (content, is_good) in [(&b"x"[..], true), (b"y", false), (b"", false), (b"xx", false)] {
            let mut file = tempfile::tempfile().unwrap();
            let got = registry.download((PackageSource::Npm, "a@1"), &url, &wanted(content), &mut file).await;
            assert_eq!(got.is_ok(), is_good, "{content:?}");
            assert!(is_good || matches!(got, Err(PackageError::Integrity { .. })), "{got:?}");
        }
    }

    #[test]
    fn an_archive_comes_from_the_registry_and_from_nowhere_else() {
        let public = registry(NPM, PYPI);
        let get = |source, text| public.archive(source, "a", text).map(|url| url.to_string()).ok();
        let tarball = "https://registry.npmjs.org/a/-/a-1.tgz";
        assert_eq!(get(PackageSource::Npm, tarball).as_deref(), Some(tarball));
        let wheel = "https://files.pythonhosted.org/packages/a/b/x.whl";
        assert_eq!(get(PackageSource::Pypi, wheel).as_deref(), Some(wheel));
        for text in [
            "http://registry.npmjs.org/a.tgz",
            "https://registry.npmjs.org.evil.example/a",
            "file:///etc/passwd",
            "https://x@registry.npmjs.org/a",
            "https://:x@registry.npmjs.org/a",
            "https://registry.npmjs.org:8443/a",
            "https://169.254.169.254/a",
            "git+ssh://git@github.com/a",
            "",
            wheel,
        ] {
            assert_eq!(get(PackageSource::Npm, text), None, "{text}");
        }
        assert_eq!(get(PackageSource::Pypi, tarball), None);
        let own = registry("http://127.0.0.1:9/npm/", "http://127.0.0.1:9/simple/");
        let found = own.archive(PackageSource::Npm, "a", tarball).unwrap();
        assert_eq!(found.as_str(), "http://127.0.0.1:9/npm/a/-/a-1.tgz");
        assert!(own.archive(PackageSource::Pypi, "a", wheel).is_err(), "files of another index");
    }
}
