//! The region of a Bedrock endpoint: what its host says, then the environment.

use reqwest::Url;

use crate::env;

/// Where nothing else is said.
const USUAL: &str = "us-east-1";

/// The region to sign for.
pub(super) fn of(base: &Url) -> String {
    base.host_str().and_then(in_host).map_or_else(usual, str::to_owned)
}

/// Bedrock's public address in the environment's region, or in the usual one.
#[must_use]
pub fn public_address() -> String {
    format!("https://bedrock-runtime.{}.amazonaws.com", usual())
}

fn usual() -> String {
    let set = env::AWS_REGION.get().or_else(|| env::AWS_DEFAULT_REGION.get());
    set.filter(|name| is_region(name)).unwrap_or_else(|| USUAL.to_owned())
}

/// `bedrock-runtime.REGION.amazonaws.com`, also behind the name of a private link and for FIPS.
fn in_host(host: &str) -> Option<&str> {
    let mut labels = host.split('.');
    labels.find(|label| matches!(*label, "bedrock-runtime" | "bedrock-runtime-fips"))?;
    labels.next().filter(|name| is_region(name))
}

fn is_region(name: &str) -> bool {
    (4..=32).contains(&name.len())
        && name.contains('-')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_says_its_region() {
        for (host, expected) in [
            ("bedrock-runtime.eu-central-1.amazonaws.com", Some("eu-central-1")),
            ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
            ("vpce-1-2.bedrock-runtime.us-west-2.vpce.amazonaws.com", Some("us-west-2")),
            ("bedrock-runtime.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("127.0.0.1", None),
            ("bedrock-runtime.X/../y", None),
            ("example.org", None),
        ] {
            assert_eq!(in_host(host), expected, "{host}");
        }
    }
}
