//! The binary cache from which packages are fetched that are already built, and the key that signs them.

/// A binary cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Substituter {
    /// The cache's URL.
    pub url: String,
    /// The public key of its signatures, for example `cache.nixos.org-1:…`.
    pub key: String,
}

impl Default for Substituter {
    /// Returns the cache of nixpkgs.
    fn default() -> Self {
        Self {
            url: "https://cache.nixos.org".to_owned(),
            key: "cache.nixos.org-1:6NCHdD59X431o0gWypbMrAURkbJ16ZPMQFGspcDShjY=".to_owned(),
        }
    }
}

impl Substituter {
    /// Returns the setting with the trusted key.
    pub(super) fn keys(&self) -> String {
        format!("trusted-public-keys = {}", self.key)
    }

    /// Returns Nix's settings for fetching. All are written out, because Nix disables most of them when it sees no
    /// network interface, and here the network is a proxy.
    pub(super) fn settings(&self) -> String {
        format!(
            "{}\nsubstituters = {}\nsubstitute = true\ntarball-ttl = 3600\ndownload-attempts = 2\nconnect-timeout = \
             15\nfallback = false",
            self.keys(),
            self.url
        )
    }
}
