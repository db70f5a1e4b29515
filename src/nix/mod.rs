//! The shared Nix store: the daemon's container, its volume, and a profile for each agent.
