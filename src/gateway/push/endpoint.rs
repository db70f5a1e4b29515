//! The address of a browser at its push service. It comes from the browser, and the gateway sends requests there, so it
//! must not lead to this machine or its networks.

use reqwest::Url;

use super::PushSettings;
use crate::sandbox::egress::public;

/// Most bytes of an address. Those of the known services have a few hundred.
const MAX_LENGTH: usize = 1024;

/// Checks an address and returns it.
///
/// A name is not resolved here. The [client](super::client) checks the addresses behind it each time it connects, since
/// they can change.
///
/// # Errors
///
/// Returns the reason why nothing is sent there.
pub(crate) fn parse(text: &str, settings: PushSettings) -> Result<Url, &'static str> {
    if text.len() > MAX_LENGTH {
        return Err("it is longer than 1024 bytes");
    }
    let url: Url = text.parse().map_err(|_| "it is no address")?;
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err("it has parts that no push service uses");
    }
    url.host_str().ok_or("it names no server")?;
    if !settings.allow_local {
        public::check(&url)?;
    }
    Ok(url)
}

/// Returns the origin of an address, which a token is made for.
#[must_use]
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns the name of the push service, for people. The rest of the address is secret.
#[must_use]
pub(crate) fn service(endpoint: &str) -> String {
    endpoint.parse::<Url>().ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_to_the_public_internet_is_an_address() {
        for (text, is_good) in [
            ("https://fcm.googleapis.com/fcm/send/abc:APA91b", true),
            ("https://updates.push.services.mozilla.com/wpush/v2/gAAAA", true),
            ("https://web.push.apple.com/QOa?x=1", true),
            ("https://8.8.8.8/x", true),
            ("http://fcm.googleapis.com/fcm/send/abc", false),
            ("https://127.0.0.1/x", false),
            ("https://0x7f.1/x", false),
            ("https://2130706433/x", false),
            ("https://[::1]/x", false),
            ("https://[::ffff:127.0.0.1]/x", false),
            ("https://10.1.2.3/x", false),
            ("https://169.254.169.254/latest", false),
            ("https://localhost/x", false),
            ("https://localhost./x", false),
            ("https://router/x", false),
            ("https://me:secret@push.example.com/x", false),
            ("https://push.example.com/x#y", false),
            ("file:///etc/passwd", false),
            ("/x", false),
            ("", false),
        ] {
            assert_eq!(parse(text, PushSettings::default()).is_ok(), is_good, "{text}");
        }
        let long = format!("https://push.example.com/{}", "x".repeat(MAX_LENGTH));
        assert!(parse(&long, PushSettings::default()).is_err());
    }

    #[test]
    fn only_the_origin_and_the_name_of_a_service_are_shown() {
        let url: Url = "https://push.example.com:8443/secret".parse().unwrap();
        assert_eq!(origin(&url), "https://push.example.com:8443");
        assert_eq!(service(url.as_str()), "push.example.com");
    }
}
