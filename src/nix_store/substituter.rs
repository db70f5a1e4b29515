//! The binary cache from which packages are fetched that are already built, and the key that signs them.

/// The setting with the key of the cache of nixpkgs.
pub(super) const TRUSTED_KEYS: &str =
    "trusted-public-keys = cache.nixos.org-1:6NCHdD59X431o0gWypbMrAURkbJ16ZPMQFGspcDShjY=";

/// Nix's settings for fetching. All are written out, because Nix disables most of them when it sees no network
/// interface, and here the network is a proxy.
pub(super) const FETCH_SETTINGS: &str = "\
substituters = https://cache.nixos.org
substitute = true
tarball-ttl = 3600
download-attempts = 2
connect-timeout = 15
fallback = false";
