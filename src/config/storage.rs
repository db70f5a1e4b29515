//! The `storage` block: a second place for what has to outlive this machine's disk.

use std::path::PathBuf;
use std::sync::Arc;

use super::secret;
use super::telemetry::{is_endpoint, is_near};
use super::view::{Problem, View};

/// The store of blobs: a folder of another disk, or a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobSettings {
    /// A folder, such as one of a network file system.
    Folder(PathBuf),
    /// A bucket with the API of S3.
    S3(S3Settings),
}

/// A bucket and the key for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Settings {
    /// The base URL, without a slash at its end.
    pub endpoint: String,
    /// The bucket. `None` if the host of the endpoint already names it.
    pub bucket: Option<String>,
    /// The beginning of each key in the bucket, without slashes at its ends. Empty for none.
    pub prefix: String,
    pub region: String,
    /// The id of the access key, or a reference to it.
    pub key_id: String,
    /// A reference to the secret of the access key, such as `secret:blobs.secret`.
    pub secret: String,
    /// A reference to the session token of a temporary key.
    pub token: Option<String>,
}

impl BlobSettings {
    /// Returns the place for people, without a key.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Folder(path) => path.display().to_string(),
            Self::S3(s3) => {
                let parts = [s3.bucket.as_deref().unwrap_or_default(), &s3.prefix];
                let path: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                let slash = if path.is_empty() { "" } else { "/" };
                format!("{}{slash}{}", s3.endpoint, path.join("/"))
            }
        }
    }
}

/// The region of servers that have none.
const REGION: &str = "us-east-1";

const KEYS: [&str; 9] = [
    "kind",
    "path",
    "endpoint",
    "bucket",
    "prefix",
    "region",
    "accessKeyId",
    "secretAccessKey",
    "sessionToken",
];

/// Reads the settings of the store of blobs. `None` keeps everything on this machine's disk only.
pub(super) fn blobs(view: &View<'_>) -> Result<Option<Arc<BlobSettings>>, Problem> {
    view.only(&["blobs"])?;
    let view = view.get("blobs")?;
    view.only(&KEYS)?;
    // Every key is looked up, whatever the kind is: one that is never looked up counts as unknown.
    let at = |name: &str| view.get(name);
    let (kind_at, path_at, endpoint_at) = (at("kind")?, at("path")?, at("endpoint")?);
    let (id_at, secret_at) = (at("accessKeyId")?, at("secretAccessKey")?);
    let kind = kind_at.text_if(|kind| matches!(kind, "folder" | "s3"), "must be \"folder\" or \"s3\"")?;
    let path = path_at.text()?.map(PathBuf::from);
    let endpoint = endpoint_at
        .text_if(is_endpoint, "must be a URL without a password, as in \"https://s3.example.org\"")?
        .map(|endpoint| endpoint.trim_end_matches('/').to_owned());
    let bucket = at("bucket")?.text_if(is_bucket, "must be the name of a bucket")?;
    let prefix = at("prefix")?.text_if(
        is_prefix,
        "must be names of letters, digits, '.', '-' and '_' with slashes between them, at most 200 characters",
    )?;
    let region = at("region")?.text_if(is_region, "must be a region, as in \"eu-central-1\"")?;
    let key_id = id_at.text()?.filter(|id| !id.trim().is_empty());
    let secret = reference(&secret_at, "secret:blobs.secret")?;
    let token = reference(&at("sessionToken")?, "secret:blobs.token")?;
    let Some(kind) = kind else {
        // Without the kind, a home would look as if its checkpoints were safe elsewhere.
        let is_set = !view.entries()?.is_empty();
        return if is_set { Err(kind_at.problem("is missing: \"folder\" or \"s3\"")) } else { Ok(None) };
    };
    if kind == "folder" {
        let path = needed(path, &path_at)?;
        if !path.is_absolute() {
            return Err(path_at.problem("must be an absolute path"));
        }
        return Ok(Some(Arc::new(BlobSettings::Folder(path))));
    }
    let endpoint = needed(endpoint, &endpoint_at)?;
    // Conversations and files would be readable on their way.
    if endpoint.starts_with("http://") && !is_near(&endpoint) {
        return Err(endpoint_at.problem("must be https, because conversations and files are sent there"));
    }
    Ok(Some(Arc::new(BlobSettings::S3(S3Settings {
        endpoint,
        bucket,
        prefix: prefix.unwrap_or_default(),
        region: region.unwrap_or_else(|| REGION.to_owned()),
        key_id: needed(key_id, &id_at)?,
        secret: needed(secret, &secret_at)?,
        token,
    }))))
}

fn needed<T>(found: Option<T>, at: &View<'_>) -> Result<T, Problem> {
    found.ok_or_else(|| at.problem("is missing"))
}

/// Reads a reference to a secret.
fn reference(view: &View<'_>, example: &str) -> Result<Option<String>, Problem> {
    let message = format!("must be a reference such as \"{example}\": flock config set moves it");
    view.text_if(secret::is_reference, &message)
}

/// Returns the name of the secret for a key of the store, as in `….storage.blobs.secretAccessKey`.
pub(super) fn key_secret(way: &[String]) -> Option<String> {
    let [.., "storage", "blobs", key] = way.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        return None;
    };
    match key {
        "secretAccessKey" => Some("blobs.secret".to_owned()),
        "sessionToken" => Some("blobs.token".to_owned()),
        _ => None,
    }
}

fn is_bucket(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (1..=255).contains(&name.len()) && name.bytes().all(allowed) && !name.bytes().all(|byte| byte == b'.')
}

fn is_prefix(prefix: &str) -> bool {
    prefix.len() <= 200 && (prefix.is_empty() || prefix.split('/').all(is_bucket))
}

fn is_region(region: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=64).contains(&region.len()) && region.bytes().all(allowed)
}
