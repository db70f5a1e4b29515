//! The region of a Bedrock endpoint: from its host name, then from the configuration, then from the environment.

use reqwest::Url;

use crate::config::is_aws_region;
use crate::env;

/// The default region.
const DEFAULT_REGION: &str = "us-east-1";

/// Returns the region to sign for.
pub(super) fn of(base: &Url, configured: Option<&str>) -> String {
    base.host_str().and_then(in_host).map_or_else(|| configured_or_default(configured), str::to_owned)
}

/// Returns Bedrock's public address in the configured region, else in the environment's, else in the default one.
#[must_use]
pub(crate) fn public_address(configured: Option<&str>) -> String {
    let region = configured_or_default(configured);
    // China's regions are a separate partition with their own domain.
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://bedrock-runtime.{region}.{domain}")
}

fn configured_or_default(configured: Option<&str>) -> String {
    let of_environment = || env::AWS_REGION.get().or_else(|| env::AWS_DEFAULT_REGION.get());
    let set = configured.map(str::to_owned).or_else(of_environment);
    // The name becomes part of a host name, so anything that is no region is ignored.
    set.filter(|name| is_aws_region(name)).unwrap_or_else(|| DEFAULT_REGION.to_owned())
}

/// Returns the region in `bedrock-runtime.REGION.amazonaws.com`. The host may have the prefix of a private link, or be
/// a FIPS endpoint.
fn in_host(host: &str) -> Option<&str> {
    let mut labels = host.split('.');
    // The region is the label after the service's name.
    labels.find(|label| matches!(*label, "bedrock-runtime" | "bedrock-runtime-fips"))?;
    labels.next().filter(|name| is_aws_region(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_takes_precedence_over_the_configured_region() {
        assert_eq!(
            public_address(Some("eu-central-1")),
            "https://bedrock-runtime.eu-central-1.amazonaws.com"
        );
        assert_eq!(public_address(Some("cn-north-1")), "https://bedrock-runtime.cn-north-1.amazonaws.com.cn");
        let of = |base: &str| super::of(&base.parse().unwrap(), Some("eu-central-1"));
        assert_eq!(of("http://127.0.0.1:1"), "eu-central-1");
        assert_eq!(of("https://bedrock-runtime.us-west-2.amazonaws.com"), "us-west-2");
    }

    #[test]
    fn the_region_is_read_from_the_host() {
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
