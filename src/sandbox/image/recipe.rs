//! The recipes of flock's own images, and the hash that names each: a changed recipe is another image.

use sha2::{Digest as _, Sha256};

use crate::home::Home;

/// An image flock needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// Where agents' commands run.
    Sandbox,
    /// Where the Nix store is written.
    Store,
}

impl Recipe {
    /// Both, in the order they are made: the second grows out of the first.
    pub const ALL: [Self; 2] = [Self::Sandbox, Self::Store];

    /// The repository of the image.
    #[must_use]
    pub const fn repository(self) -> &'static str {
        match self {
            Self::Sandbox => "flock-sandbox",
            Self::Store => "flock-nix",
        }
    }

    /// The distribution's packages in it, on top of those of the smallest system.
    #[must_use]
    pub const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Sandbox => &["ca-certificates", "python3"],
            Self::Store => &["ca-certificates", "python3", "nix-bin"],
        }
    }

    /// The hash that stands for all that goes into the image but the distribution's own state.
    #[must_use]
    pub fn hash(self) -> String {
        let mut digest = Sha256::new();
        for part in [self.repository(), BASE, INSTALL, CLEAN] {
            digest.update(part);
            digest.update([0]);
        }
        for package in self.packages() {
            digest.update(package);
            digest.update([0]);
        }
        crate::id::hex(&digest.finalize()[..6])
    }

    /// The tag that this home owns.
    #[must_use]
    pub fn tag(self, home: &Home) -> String {
        format!("{}{}", self.hash(), home.suffix())
    }

    /// Repository and tag.
    #[must_use]
    pub fn reference(self, home: &Home) -> String {
        format!("{}:{}", self.repository(), self.tag(home))
    }
}

/// The public image that both are built from where a registry answers.
pub const BASE: &str = "docker.io/library/debian:bookworm-20250520-slim";

/// Installs `$@` in the system this runs in.
pub const INSTALL: &str = "\
export DEBIAN_FRONTEND=noninteractive
printf 'force-unsafe-io\\n' > /etc/dpkg/dpkg.cfg.d/flock
apt-get -q -o Acquire::Languages=none update
apt-get -q -y -o APT::Install-Recommends=false -o APT::Install-Suggests=false upgrade
apt-get -q -y -o APT::Install-Recommends=false -o APT::Install-Suggests=false install \"$@\"
rm -f /etc/dpkg/dpkg.cfg.d/flock
";

/// Makes the system this runs in small, and like any other made from the same packages.
pub const CLEAN: &str = "\
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/debconf/*-old
rm -rf /usr/share/man/* /usr/share/info/* /usr/share/lintian /usr/share/linda /var/log/* /tmp/* /var/tmp/*
find /usr/share/doc -type f ! -name copyright -delete
find /usr/share/doc -type l -delete
find /usr/share/doc -depth -type d -empty -delete
find /usr/share/locale -mindepth 1 -maxdepth 1 ! -name 'C*' ! -name locale.alias -exec rm -rf {} +
find / -xdev -name __pycache__ -type d -prune -exec rm -rf {} +
rm -f /var/lib/dbus/machine-id /etc/machine-id && : > /etc/machine-id
mkdir -p /workspace /nix
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_recipe_and_home_has_its_own_tag() {
        let default = std::path::Path::new("/home/ann/.flock");
        let home = Home::new(default.to_owned(), Some(default));
        let other = Home::new("/srv/flock".into(), Some(default));
        assert_ne!(Recipe::Sandbox.hash(), Recipe::Store.hash());
        let reference = Recipe::Sandbox.reference(&home);
        assert_eq!(reference, format!("flock-sandbox:{}", Recipe::Sandbox.hash()));
        assert_eq!(Recipe::Sandbox.reference(&other), format!("{reference}{}", other.suffix()));
    }
}
