//! The scripts, styles and pictures of the pages, which are in the binary.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// The files by name, with their types.
const FILES: [(&str, &str, &[u8]); 26] = [
    ("style.css", "text/css; charset=utf-8", include_bytes!("assets/style.css")),
    ("actions.js", "text/javascript; charset=utf-8", include_bytes!("assets/actions.js")),
    ("app.js", "text/javascript; charset=utf-8", include_bytes!("assets/app.js")),
    ("attach.js", "text/javascript; charset=utf-8", include_bytes!("assets/attach.js")),
    ("chat.js", "text/javascript; charset=utf-8", include_bytes!("assets/chat.js")),
    ("code.js", "text/javascript; charset=utf-8", include_bytes!("assets/code.js")),
    ("commands.js", "text/javascript; charset=utf-8", include_bytes!("assets/commands.js")),
    ("config.js", "text/javascript; charset=utf-8", include_bytes!("assets/config.js")),
    ("conversation.js", "text/javascript; charset=utf-8", include_bytes!("assets/conversation.js")),
    ("events.js", "text/javascript; charset=utf-8", include_bytes!("assets/events.js")),
    ("freeze.js", "text/javascript; charset=utf-8", include_bytes!("assets/freeze.js")),
    ("keyboard.js", "text/javascript; charset=utf-8", include_bytes!("assets/keyboard.js")),
    ("names.js", "text/javascript; charset=utf-8", include_bytes!("assets/names.js")),
    ("offers.js", "text/javascript; charset=utf-8", include_bytes!("assets/offers.js")),
    ("page.js", "text/javascript; charset=utf-8", include_bytes!("assets/page.js")),
    ("people.js", "text/javascript; charset=utf-8", include_bytes!("assets/people.js")),
    // highlight.js of https://highlightjs.org with its common languages, as npm's @highlightjs/cdn-assets 11.12.0 has it.
    ("highlight.js", "text/javascript; charset=utf-8", include_bytes!("assets/vendor/highlight.js")),
    ("push.js", "text/javascript; charset=utf-8", include_bytes!("assets/push.js")),
    ("times.js", "text/javascript; charset=utf-8", include_bytes!("assets/times.js")),
    ("update.js", "text/javascript; charset=utf-8", include_bytes!("assets/update.js")),
    ("visit.js", "text/javascript; charset=utf-8", include_bytes!("assets/visit.js")),
    (WORKER, "text/javascript; charset=utf-8", include_bytes!("assets/worker.js")),
    ("manifest.webmanifest", "application/manifest+json", include_bytes!("assets/manifest.webmanifest")),
    ("icon.svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
    // Phones take no SVG for the icon of an application.
    ("icon-192.png", "image/png", include_bytes!("assets/icon-192.png")),
    ("icon-512.png", "image/png", include_bytes!("assets/icon-512.png")),
];

/// The script of the service worker.
const WORKER: &str = "worker.js";

/// The scripts that only some pages fetch.
const RARE: [&str; 3] = ["highlight.js", "push.js", WORKER];

/// Number of hex digits of the digest in an asset's address.
const DIGEST: usize = 12;

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let texts = super::texts::worker_texts();
    let digest = FILES.iter().fold(Sha256::new(), |hash, (_, _, bytes)| hash.chain_update(bytes));
    let digest = digest.chain_update(&texts);
    // One digest stands for all files: they import each other, and a browser must not mix two versions.
    let digest = crate::id::hex(&digest.finalize())[..DIGEST].to_owned();
    FILES.iter().map(|(name, kind, bytes)| Asset::new(name, kind, bytes, &digest, &texts)).collect()
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
    fn new(
        name: &'static str,
        content_type: &'static str,
        bytes: &'static [u8],
        digest: &str,
        texts: &str,
    ) -> Self {
        // The scripts import each other by these addresses. JSON is a literal of the language too.
        let bytes = match std::str::from_utf8(bytes) {
            Ok(text) if text.contains("{digest}") => {
                let text = text.replace("{digest}", digest);
                Cow::Owned(text.replace("\"{worker_texts}\"", texts).into_bytes())
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

    /// Returns the addresses of the scripts that every page needs.
    pub(super) fn modules() -> impl Iterator<Item = &'static str> {
        let is_needed = |asset: &&Self| asset.name.ends_with(".js") && !RARE.contains(&asset.name);
        ASSETS.iter().filter(is_needed).map(|asset| asset.address.as_str())
    }

    /// Returns the path of the pages that the file may control as a service worker, if it is one.
    pub(crate) fn worker_scope(&self) -> Option<&'static str> {
        (self.name == WORKER).then_some("/dashboard")
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
            let text = String::from_utf8_lossy(&asset.bytes()).into_owned();
            assert!(!text.contains("{digest}") && !text.contains("{worker_texts}"), "{name}");
        }
        assert!(Asset::named("x-secret.txt").is_none() && Asset::named("..").is_none());
    }

    #[test]
    fn the_worker_has_its_texts_in_both_languages() {
        let worker = Asset::named("x-worker.js").unwrap();
        assert_eq!(worker.worker_scope(), Some("/dashboard"));
        let script = String::from_utf8(worker.bytes().to_vec()).unwrap();
        let texts = script.split_once("const TEXTS = ").unwrap().1.split_once(";\n").unwrap().0;
        let texts: serde_json::Value = serde_json::from_str(texts).unwrap();
        for language in ["en", "ko"] {
            for kind in ["request", "pause", "crash", "other"] {
                assert!(texts[language][format!("{kind}Title")].is_string(), "{language} {kind}");
                assert!(texts[language][format!("{kind}Body")].is_string(), "{language} {kind}");
            }
        }
        assert!(!script.contains("caches") && !script.contains("\"fetch\""), "it keeps nothing of the pages");
    }

    #[test]
    fn the_manifest_names_icons_that_are_there() {
        let manifest = Asset::named("x-manifest.webmanifest").unwrap();
        let manifest: serde_json::Value = serde_json::from_slice(&manifest.bytes()).unwrap();
        assert_eq!(
            (&manifest["start_url"], &manifest["display"]),
            (&"/dashboard".into(), &"standalone".into())
        );
        for icon in manifest["icons"].as_array().unwrap() {
            let address = icon["src"].as_str().unwrap();
            let asset = Asset::named(address.rsplit('/').next().unwrap()).unwrap();
            assert_eq!((asset.content_type(), &*asset.address), (icon["type"].as_str().unwrap(), address));
        }
    }

    #[test]
    fn no_file_names_an_address_elsewhere() {
        // The name of SVG, and pages that highlight.js names in its warnings.
        let names = ["http://www.w3.org/2000/svg", "https://github.com/highlightjs/highlight.js/"];
        for (name, _, bytes) in FILES {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let text = names.iter().fold(text, |text, known| text.replace(known, ""));
            assert!(!text.contains("http://") && !text.contains("https://"), "{name}");
        }
    }
}
