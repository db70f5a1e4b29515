//! Where packages that somebody built already are fetched from, and whose signature makes them believed.

/// A binary cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substituter {
    /// Its address.
    pub url: String,
    /// The public key of its signatures, as in `cache.nixos.org-1:…`.
    pub key: String,
}

impl Default for Substituter {
    /// The cache of nixpkgs.
    fn default() -> Self {
        Self {
            url: "https://cache.nixos.org".to_owned(),
            key: "cache.nixos.org-1:6NCHdD59X431o0gWypbMrAURkbJ16ZPMQFGspcDShjY=".to_owned(),
        }
    }
}

impl Substituter {
    /// The setting that says whose signatures count.
    pub(super) fn keys(&self) -> String {
        format!("trusted-public-keys = {}", self.key)
    }

    /// Settings of Nix where it fetches. Each is written out: Nix gives up most of them by itself where it sees
    /// no network interface, and here the network is a proxy.
    pub(super) fn settings(&self) -> String {
        format!(
            "{}\nsubstituters = {}\nsubstitute = true\ntarball-ttl = 3600\ndownload-attempts = 2\nconnect-timeout = \
             15\nfallback = false",
            self.keys(),
            self.url
        )
    }
}
