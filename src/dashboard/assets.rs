//! The scripts, styles and pictures of the pages, which are in the binary.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// The files by name, with their types.
const FILES: [(&str, &str, &[u8]); 5] = [
    ("style.css", "text/css; charset=utf-8", include_bytes!("assets/style.css")),
    ("app.js", "text/javascript; charset=utf-8", include_bytes!("assets/app.js")),
    ("events.js", "text/javascript; charset=utf-8", include_bytes!("assets/events.js")),
    // highlight.js of https://highlightjs.org with its common languages, as npm's @highlightjs/cdn-assets 11.12.0 has it.
    ("highlight.js", "text/javascript; charset=utf-8", include_bytes!("assets/vendor/highlight.js")),
    ("icon.svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
];

/// Number of hex digits of the digest in an asset's address.
const DIGEST: usize = 12;

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let digest = FILES.iter().fold(Sha256::new(), |hash, (_, _, bytes)| hash.chain_update(bytes));
    // One digest stands for all files: they import each other, and a browser must not mix two versions.
    let digest = crate::id::hex(&digest.finalize())[..DIGEST].to_owned();
    FILES.iter().map(|(name, kind, bytes)| Asset::new(name, kind, bytes, &digest)).collect()
});

/// A file that the pages use.
#[derive(Debug)]
pub(crate) struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: Bytes,
    gzipped: Bytes,
    address: String,
}

impl Asset {
    fn new(name: &'static str, content_type: &'static str, bytes: &'static [u8], digest: &str) -> Self {
        // The scripts import each other by these addresses.
        let bytes = match std::str::from_utf8(bytes) {
            Ok(text) if text.contains("{digest}") => {
                Cow::Owned(text.replace("{digest}", digest).into_bytes())
            }
            _ => Cow::Borrowed(bytes),
        };
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        // A write into memory does not fail. If it did, the file would be sent as it is.
        let gzipped = encoder.write_all(&bytes).and_then(|()| encoder.finish()).unwrap_or_default();
        Self {
            name,
            content_type,
            bytes: Bytes::from(bytes.into_owned()),
            gzipped: Bytes::from(gzipped),
            address: format!("/dashboard/assets/{digest}-{name}"),
        }
    }

    /// Returns the file that an address names, whatever digest stands before its name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        let name = name.split_once('-').map_or(name, |(_, name)| name);
        ASSETS.iter().find(|asset| asset.name == name)
    }

    /// Returns the address of a file. It changes with the content of the files.
    pub(super) fn address(name: &str) -> &'static str {
        ASSETS.iter().find(|asset| asset.name == name).map_or("", |asset| &asset.address)
    }

    pub(crate) const fn content_type(&self) -> &'static str {
        self.content_type
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Returns the file in gzip's format, which every browser accepts.
    pub(crate) fn gzipped(&self) -> Bytes {
        self.gzipped.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_there_under_its_address() {
        for (name, _, _) in FILES {
            let address = Asset::address(name);
            let asset = Asset::named(address.rsplit('/').next().unwrap()).unwrap();
            assert!(!asset.bytes().is_empty() && !asset.gzipped().is_empty(), "{name}");
            assert!(!String::from_utf8_lossy(&asset.bytes()).contains("{digest}"), "{name}");
        }
        assert!(Asset::named("x-secret.txt").is_none() && Asset::named("..").is_none());
    }

    #[test]
    fn no_file_names_an_address_elsewhere() {
        for (name, _, bytes) in FILES {
            let text = String::from_utf8_lossy(bytes).replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{name}");
        }
    }
}
