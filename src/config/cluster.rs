//! The address of a Kubernetes cluster that is used as an engine, and its settings.

use std::fmt;
use std::str::FromStr;

/// The address of a cluster, as in `k8s://work/flock-sandboxes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAddress {
    /// The name of the context in the kubeconfig from which the access was taken.
    pub context: String,
    /// The namespace in which the sandboxes are made.
    pub namespace: String,
}

impl ClusterAddress {
    /// Returns the command by which a person removes the volume of a workspace.
    #[must_use]
    pub(crate) fn removal_of(&self, claim: &str) -> String {
        self.command(&format!("delete pvc {claim}"))
    }

    /// Returns the command by which a person gives the volume of a workspace a label.
    #[must_use]
    pub(crate) fn labelling_of(&self, claim: &str, label: &str) -> String {
        self.command(&format!("label pvc {claim} {label} --overwrite"))
    }

    fn command(&self, what: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "@%_+=:,./-".contains(c);
        let context = match self.context.chars().all(plain) {
            true => self.context.clone(),
            false => format!("'{}'", self.context.replace('\'', "'\\''")),
        };
        format!("kubectl {what} --namespace {} --context {context}", self.namespace)
    }
}

/// The settings of a cluster that no other engine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The image of the sandboxes, which has the helper in it.
    pub image: String,
    /// Size of the volume of a workspace in bytes.
    pub storage: u64,
    /// The storage class of these volumes. `None` is the cluster's default.
    pub storage_class: Option<String>,
}

/// Size of the volume of a workspace if the configuration names none, in bytes.
pub(crate) const DEFAULT_STORAGE: u64 = 10 << 30;

impl ClusterSettings {
    /// Checks the settings. The error names the setting, and continues a sentence that begins with it.
    ///
    /// # Errors
    ///
    /// Returns the first setting that can't be one.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if !is_image(&self.image) {
            return Err(("image", "must be the reference of an image, as in registry.example.org/flock:1"));
        }
        if self.storage_class.as_ref().is_some_and(|class| !is_class(class)) {
            return Err(("storageClass", "must be the name of a storage class"));
        }
        Ok(())
    }
}

impl fmt::Display for ClusterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k8s://{}/{}", self.context, self.namespace)
    }
}

impl FromStr for ClusterAddress {
    type Err = &'static str;

    /// Reads an address. The error continues a sentence that begins with the address.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix("k8s://").ok_or("must begin with k8s://")?;
        // Names of contexts hold slashes in the clusters of some providers.
        let (context, namespace) = rest.rsplit_once('/').ok_or("must be k8s://CONTEXT/NAMESPACE")?;
        let is_usable = |c: char| !c.is_control() && !c.is_whitespace();
        if context.is_empty() || context.len() > 253 || !context.chars().all(is_usable) {
            return Err("has no usable name of a context");
        }
        // The context becomes an argument of kubectl.
        if context.starts_with('-') {
            return Err("has a context that begins with a dash");
        }
        if !is_label(namespace) {
            return Err("has no usable namespace: 1 to 63 lower-case letters, digits and dashes");
        }
        Ok(Self { context: context.to_owned(), namespace: namespace.to_owned() })
    }
}

/// Returns `true` if a text can name a namespace.
fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=63).contains(&text.len())
        && text.starts_with(plain)
        && text.ends_with(plain)
        && text.chars().all(|c| plain(c) || c == '-')
}

/// Returns `true` if a text can name a class of storage or of a runtime.
fn is_class(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Returns `true` if a text can be the reference of an image.
fn is_image(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@');
    (1..=255).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for (text, context, namespace) in [
            ("k8s://work/flock", "work", "flock"),
            (
                "k8s://arn:aws:eks:eu-1:1234:cluster/big/flock-2",
                "arn:aws:eks:eu-1:1234:cluster/big",
                "flock-2",
            ),
            ("k8s://ann@work/f", "ann@work", "f"),
        ] {
            let address: ClusterAddress = text.parse().unwrap();
            assert_eq!((address.context.as_str(), address.namespace.as_str()), (context, namespace));
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "kube://work/flock",
            "k8s://work",
            "k8s:///flock",
            "k8s://--kubeconfig=x/flock",
            "k8s://a b/flock",
            "k8s://work/Flock",
            "k8s://work/-f",
            "k8s://work/",
        ] {
            assert!(text.parse::<ClusterAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_that_removes_a_volume_is_one_for_a_shell() {
        for (address, context) in [("k8s://arn:aws:1/f", "arn:aws:1"), ("k8s://a'$(b)/f", "'a'\\''$(b)'")] {
            let address: ClusterAddress = address.parse().unwrap();
            assert_eq!(
                address.removal_of("flock-ws-a-1"),
                format!("kubectl delete pvc flock-ws-a-1 --namespace f --context {context}")
            );
            assert_eq!(
                address.labelling_of("flock-ws-a-1", "a=b"),
                format!("kubectl label pvc flock-ws-a-1 a=b --overwrite --namespace f --context {context}")
            );
        }
    }

    #[test]
    fn names_of_classes_and_images_are_plain() {
        assert!(is_class("gvisor") && is_class("csi.example.org") && !is_class("a b") && !is_class(""));
        assert!(is_image("registry.example.org:5000/flock/sandbox:1@sha256:ab"));
        for text in ["", "-x", "a b", "a\nb", "a\"b"] {
            assert!(!is_image(text), "{text:?}");
        }
    }
}
