//! The home's key for receipts: an ed25519 key in `secrets/`, made at its first use.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::ReceiptError;
use super::sshsig::{self, PublicKey};
use crate::config::secret;
use crate::home::Home;
use crate::home::lock::Lock;

/// The name of the secret with the key.
pub(crate) const SECRET: &str = "receipt-key";

/// A home's key for receipts.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Reads the key of a home, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the secret can't be read or written, or holds something else.
    pub fn of(home: &Home) -> Result<Self, ReceiptError> {
        if let Some(key) = Self::read(home)? {
            return Ok(key);
        }
        // Of two processes that find none, only one makes it: receipts must not be signed with a key that is lost.
        let _lock = Lock::acquire(&home.receipt_key_lock(), LOCK_TIME)?;
        if let Some(key) = Self::read(home)? {
            return Ok(key);
        }
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| ReceiptError::Random)?;
        secret::set(home, SECRET, &STANDARD.encode(made.as_ref()))?;
        Self::read(home)?.ok_or(ReceiptError::Key)
    }

    /// Reads the key of a home. Returns `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Key`] if the secret holds something else.
    pub fn read(home: &Home) -> Result<Option<Self>, ReceiptError> {
        let Some(text) = secret::get(home, SECRET)? else { return Ok(None) };
        let pair = STANDARD.decode(text).ok().and_then(|pkcs8| Ed25519KeyPair::from_pkcs8(&pkcs8).ok());
        pair.map(|pair| Some(Self(pair))).ok_or(ReceiptError::Key)
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(key)
    }

    /// Signs a document and returns the signature in OpenSSH's format.
    #[must_use]
    pub fn sign(&self, namespace: &str, document: &[u8]) -> String {
        sshsig::sign(&self.public(), namespace, document, |bytes| {
            let mut signature = [0; 64];
            signature.copy_from_slice(self.0.sign(bytes).as_ref());
            signature
        })
    }
}

const LOCK_TIME: std::time::Duration = std::time::Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::receipt::sshsig::{RECEIPT_NAMESPACE, SignatureError};

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        (folder, home)
    }

    #[test]
    fn the_key_is_made_once_and_only_its_owner_can_read_it() {
        let (_folder, home) = home();
        assert!(SigningKey::read(&home).unwrap().is_none());
        let key = SigningKey::of(&home).unwrap().public();
        assert_eq!(SigningKey::of(&home).unwrap().public(), key);
        let mode = std::fs::metadata(home.secrets().join(SECRET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(home.secrets().join(SECRET), "something else").unwrap();
        assert!(matches!(SigningKey::of(&home), Err(ReceiptError::Key)));
    }

    #[test]
    fn only_the_signed_content_the_purpose_and_the_key_are_accepted() {
        let (_folder, home) = home();
        let key = SigningKey::of(&home).unwrap();
        let signature = key.sign(RECEIPT_NAMESPACE, b"content");
        let public = key.public();
        assert_eq!(public.verify(RECEIPT_NAMESPACE, b"content", &signature), Ok(()));
        assert_eq!(sshsig::key_of(&signature), Ok(public));
        let wrong = public.verify(RECEIPT_NAMESPACE, b"Content", &signature);
        assert_eq!(wrong, Err(SignatureError::Wrong));
        let purpose = public.verify("file", b"content", &signature);
        assert_eq!(purpose, Err(SignatureError::Namespace(RECEIPT_NAMESPACE.to_owned())));
        let (_folder, home) = self::home();
        let other = SigningKey::of(&home).unwrap().public();
        assert_eq!(other.verify(RECEIPT_NAMESPACE, b"content", &signature), Err(SignatureError::OtherKey));
        for end in [0, 20, 40, signature.len() - 30] {
            let cut = public.verify(RECEIPT_NAMESPACE, b"content", &signature[..end]);
            assert_eq!(cut, Err(SignatureError::Malformed), "{end}");
        }
    }

    #[test]
    fn a_line_of_a_key_is_read_back() {
        let (_folder, home) = home();
        let key = SigningKey::of(&home).unwrap().public();
        assert_eq!(PublicKey::parse(&key.line("flock receipts")), Ok(key));
        for wrong in ["", "ssh-rsa AAAA", "ssh-ed25519", "ssh-ed25519 !!", "ssh-ed25519 AAAA"] {
            assert_eq!(PublicKey::parse(wrong), Err(SignatureError::Key), "{wrong}");
        }
        let line = key.line("x");
        let allowed = PublicKey::allowed_signers(&format!(
            "# a comment ssh-ed25519 x\nann namespaces=\"flock-receipt\" {line}\n"
        ));
        assert_eq!(allowed, [key]);
        assert_eq!(PublicKey::allowed_signers(&format!("ann {line}")), [key]);
        for refused in [
            format!("ann namespaces=\"git\" {line}"),
            format!("ann cert-authority {line}"),
            format!("ann valid-before=\"20200101\" {line}"),
            line,
        ] {
            assert_eq!(PublicKey::allowed_signers(&refused), [], "{refused}");
        }
    }

    /// Runs ssh-keygen with a document as its input. Returns `None` if it is not installed.
    fn ssh_keygen(folder: &Path, arguments: &[&str], input: &[u8]) -> Option<bool> {
        use std::io::Write as _;
        let mut command = Command::new("ssh-keygen");
        command.current_dir(folder).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            let required = std::env::var("FLOCK_TEST_REQUIRE_DOCKER").is_ok_and(|value| value == "1");
            assert!(!required, "ssh-keygen (openssh-client) is missing");
            eprintln!("not run, no ssh-keygen");
            return None;
        };
        // It may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        Some(child.wait().unwrap().success())
    }

    #[test]
    fn the_real_ssh_keygen_accepts_a_signature_and_refuses_a_changed_document() {
        let (folder, home) = home();
        let key = SigningKey::of(&home).unwrap();
        let document = b"{\"format\":1}";
        std::fs::write(folder.path().join("sig"), key.sign(RECEIPT_NAMESPACE, document)).unwrap();
        let signers = format!("flock namespaces=\"{RECEIPT_NAMESPACE}\" {}\n", key.public().line("home"));
        std::fs::write(folder.path().join("signers"), signers).unwrap();
        let verify = |namespace: &str, input: &[u8]| {
            let arguments = ["-Y", "verify", "-f", "signers", "-I", "flock", "-n", namespace, "-s", "sig"];
            ssh_keygen(folder.path(), &arguments, input)
        };
        let Some(accepted) = verify(RECEIPT_NAMESPACE, document) else { return };
        assert!(accepted);
        assert_eq!(verify(RECEIPT_NAMESPACE, b"{\"format\":2}"), Some(false));
        assert_eq!(verify("file", document), Some(false));
        let loose = ["-Y", "check-novalidate", "-n", RECEIPT_NAMESPACE, "-s", "sig"];
        assert_eq!(ssh_keygen(folder.path(), &loose, document), Some(true));
    }

    #[test]
    fn a_signature_by_the_real_ssh_keygen_is_accepted_here() {
        let folder = tempfile::tempdir().unwrap();
        let make = ["-q", "-t", "ed25519", "-N", "", "-f", "key"];
        if ssh_keygen(folder.path(), &make, b"").is_none() {
            return;
        }
        std::fs::write(folder.path().join("document"), "content").unwrap();
        let sign = ["-Y", "sign", "-f", "key", "-n", RECEIPT_NAMESPACE, "document"];
        assert_eq!(ssh_keygen(folder.path(), &sign, b""), Some(true));
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let key = PublicKey::parse(&read("key.pub")).unwrap();
        assert_eq!(key.verify(RECEIPT_NAMESPACE, b"content", &read("document.sig")), Ok(()));
    }
}
