//! The recipes of flock's own images. The hash of a recipe names its image, so a changed recipe gives another image.

use sha2::{Digest as _, Sha256};

use crate::home::Home;

/// One of the images that flock needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// The image in which agents' commands run.
    Sandbox,
    /// The image of the container that writes the Nix store.
    Store,
}

impl Recipe {
    /// Both recipes in the order they are made, because bootstrapping extends the first system to the second.
    pub const ALL: [Self; 2] = [Self::Sandbox, Self::Store];

    /// Returns the repository part of the image's name.
    #[must_use]
    pub const fn repository(self) -> &'static str {
        match self {
            Self::Sandbox => "flock-sandbox",
            Self::Store => "flock-nix",
        }
    }

    /// Returns the distribution's packages to install on top of the minimal system.
    #[must_use]
    pub const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Sandbox => &["ca-certificates", "git", "python3"],
            Self::Store => &["ca-certificates", "git", "python3", "nix-bin"],
        }
    }

    /// Returns a hash of everything that goes into the image except the state of the distribution's archive.
    #[must_use]
    pub fn hash(self) -> String {
        let mut digest = Sha256::new();
        for part in [self.repository(), BASE, INSTALL, CLEAN] {
            digest.update(part);
            // The zero byte separates the parts, so that moving text from one to the next changes the hash.
            digest.update([0]);
        }
        for package in self.packages() {
            digest.update(package);
            digest.update([0]);
        }
        crate::id::hex(&digest.finalize()[..6])
    }

    /// Returns the tag of this home.
    #[must_use]
    pub fn tag(self, home: &Home) -> String {
        format!("{}{}", self.hash(), home.suffix())
    }

    /// Returns the image's full name: repository and tag.
    #[must_use]
    pub fn reference(self, home: &Home) -> String {
        format!("{}:{}", self.repository(), self.tag(home))
    }
}

/// The public image that both images are built from if a registry answers.
pub(crate) const BASE: &str = "docker.io/library/debian:bookworm-20250520-slim";

/// Shell script that installs the packages `$@` in the system it runs in.
pub(crate) const INSTALL: &str = "\
export DEBIAN_FRONTEND=noninteractive
printf 'force-unsafe-io\\n' > /etc/dpkg/dpkg.cfg.d/flock
apt-get -q -o Acquire::Languages=none update
apt-get -q -y -o APT::Install-Recommends=false -o APT::Install-Suggests=false upgrade
apt-get -q -y -o APT::Install-Recommends=false -o APT::Install-Suggests=false install \"$@\"
rm -f /etc/dpkg/dpkg.cfg.d/flock
";

/// Shell script that makes the system it runs in small, and equal to any other made from the same packages.
pub(crate) const CLEAN: &str = "\
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
