//! The access to a cluster: its address, the authority that has signed its certificate, and what it knows flock by. All of it
//! comes from a kubeconfig and is kept among the secrets of the home, so that the gateway needs no file of a person.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use reqwest::{Certificate, Identity, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::EngineName;

/// Longest text of an access, in bytes.
pub const MAX_BYTES: usize = 60 << 10;

/// The access to a cluster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterAccess {
    /// The address of the API server.
    pub server: String,
    /// PEM text of the authorities that the server's certificate may be signed by. Without any, those of the machine count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token: Option<String>,
    /// PEM text of a client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// PEM text of its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<String>,
}

impl fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterAccess").field("server", &self.server).finish_non_exhaustive()
    }
}

impl ClusterAccess {
    /// Returns the name of the secret that has the access to an engine.
    #[must_use]
    pub fn secret(engine: &EngineName) -> String {
        format!("engine-{engine}.cluster")
    }

    /// Takes the access of a context out of a kubeconfig in the form of JSON.
    ///
    /// # Errors
    ///
    /// Returns a sentence if the context or a part of it is missing, or if it needs something that flock does not do, such as
    /// running another program for each token.
    pub fn from_kubeconfig(text: &str, context: &str) -> Result<Self, String> {
        let document: Value =
            serde_json::from_str(text).map_err(|error| format!("the kubeconfig is no JSON: {error}"))?;
        let found = entry(&document, "context", context)?;
        let named = |key: &str| found[key].as_str().unwrap_or_default();
        let cluster = entry(&document, "cluster", named("cluster"))?;
        let user = entry(&document, "user", named("user"))?;
        for (part, key, why) in [
            (cluster, "insecure-skip-tls-verify", "does not check the server's certificate"),
            (cluster, "tls-server-name", "expects another name in the server's certificate"),
            (cluster, "proxy-url", "uses a proxy of its own"),
            (user, "exec", "runs a program for each token"),
            (user, "auth-provider", "uses a provider of tokens"),
            (user, "username", "uses a password"),
            (user, "tokenFile", "reads the token from a file"),
            (user, "as", "acts for another user"),
        ] {
            if !matches!(part[key], Value::Null | Value::Bool(false)) {
                return Err(format!("the context {context:?} {why} ({key}), which flock does not do"));
            }
        }
        for (part, key) in
            [(cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")]
        {
            if !part[key].is_null() {
                return Err(format!(
                    "the kubeconfig names the file of {key} instead of having it in it (--flatten)"
                ));
            }
        }
        let text_of =
            |part: &Value, key: &str| part[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let access = Self {
            server: text_of(cluster, "server")
                .ok_or_else(|| format!("the context {context:?} has no server"))?,
            authority: decoded(cluster, "certificate-authority-data")?,
            access_token: text_of(user, "token"),
            certificate: decoded(user, "client-certificate-data")?,
            private_key: decoded(user, "client-key-data")?,
        };
        access.check()?;
        Ok(access)
    }

    /// Reads an access as [`ClusterAccess::to_text`] writes it.
    ///
    /// # Errors
    ///
    /// Returns a sentence without any part of the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        // The error of the parser would quote the text.
        let access: Self = serde_json::from_str(text).map_err(|_| "the secret is damaged".to_owned())?;
        access.check()?;
        Ok(access)
    }

    /// Returns the text that is kept as a secret.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the address of the API server.
    ///
    /// # Errors
    ///
    /// Returns a sentence if the address would send what is secret over a network in the clear.
    pub fn url(&self) -> Result<Url, String> {
        let url: Url =
            self.server.parse().map_err(|_| format!("{:?} is no address of a server", self.server))?;
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err("the address of the server has more than a host, a port and a path".to_owned());
        }
        match url.scheme() {
            "https" => Ok(url),
            "http" if is_loopback(&url) => Ok(url),
            _ => Err(format!("{:?} must begin with https://", self.server)),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.url()?;
        self.authorities()?;
        self.identity()?;
        if self.access_token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err("the token has characters that no token has".to_owned());
        }
        Ok(())
    }

    /// Returns the authorities that count, or `None` for those of the machine.
    ///
    /// # Errors
    ///
    /// Returns a sentence if there are none in the text.
    pub(crate) fn authorities(&self) -> Result<Option<Vec<Certificate>>, String> {
        let Some(text) = &self.authority else { return Ok(None) };
        match Certificate::from_pem_bundle(text.as_bytes()) {
            Ok(found) if !found.is_empty() => Ok(Some(found)),
            _ => Err("the certificate of the authority can't be read".to_owned()),
        }
    }

    /// Returns the client certificate with its key.
    ///
    /// # Errors
    ///
    /// Returns a sentence if one of the two is missing, or they can't be read.
    pub(crate) fn identity(&self) -> Result<Option<Identity>, String> {
        match (&self.certificate, &self.private_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                let both = format!("{certificate}\n{key}\n");
                let read = Identity::from_pem(both.as_bytes());
                read.map(Some).map_err(|_| "the client certificate and its key can't be read".to_owned())
            }
            _ => Err("the client certificate or its key is missing".to_owned()),
        }
    }
}

/// Returns the entry of a list such as `contexts` by its name.
fn entry<'a>(document: &'a Value, kind: &str, name: &str) -> Result<&'a Value, String> {
    let list = document[format!("{kind}s")].as_array();
    let found = list.and_then(|list| list.iter().find(|entry| entry["name"] == name));
    found.map(|entry| &entry[kind]).ok_or_else(|| format!("the kubeconfig has no {kind} {name:?}"))
}

/// Returns PEM text that is in base64.
fn decoded(part: &Value, key: &str) -> Result<Option<String>, String> {
    let Some(text) = part[key].as_str().filter(|text| !text.is_empty()) else { return Ok(None) };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Some).ok_or_else(|| format!("{key} in the kubeconfig can't be read"))
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubeconfig(cluster: &Value, user: &Value) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "contexts": [{"name": "work", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        })
        .to_string()
    }

    #[test]
    fn an_access_is_taken_and_kept_without_being_shown() {
        let server = json!({"server": "https://10.0.0.1:6443"});
        let text = kubeconfig(&server, &json!({"token": "top-secret"}));
        let access = ClusterAccess::from_kubeconfig(&text, "work").unwrap();
        assert_eq!(access.access_token.as_deref(), Some("top-secret"));
        assert_eq!(ClusterAccess::parse(&access.to_text()).unwrap(), access);
        assert!(!format!("{access:?}").contains("top-secret"));
        let damaged = access.to_text().replace("accessToken", "accessTokens");
        assert!(!ClusterAccess::parse(&damaged).unwrap_err().contains("top-secret"));
    }

    #[test]
    fn what_flock_does_not_do_is_refused_by_name() {
        let (plain, token) = (json!({"server": "https://c:6443"}), json!({"token": "t"}));
        for (cluster, user, words) in [
            (
                json!({"server": "https://c", "insecure-skip-tls-verify": true}),
                token.clone(),
                "does not check",
            ),
            (json!({"server": "https://c", "certificate-authority": "/ca.pem"}), token.clone(), "--flatten"),
            (json!({"server": "http://c:8080"}), token.clone(), "must begin with https://"),
            (json!({"server": "https://a:b@c"}), token.clone(), "more than a host"),
            (json!({}), token.clone(), "has no server"),
            (json!({"server": "https://c", "certificate-authority-data": "AAAA"}), token, "can't be read"),
            (plain.clone(), json!({"exec": {"command": "aws"}}), "runs a program"),
            (plain.clone(), json!({"username": "a", "password": "b"}), "uses a password"),
            (plain.clone(), json!({"token": "a b"}), "no token has"),
            (plain, json!({"client-key-data": "QUFB"}), "is missing"),
        ] {
            let why = ClusterAccess::from_kubeconfig(&kubeconfig(&cluster, &user), "work").unwrap_err();
            assert!(why.contains(words), "{why}");
        }
        let text = kubeconfig(&json!({"server": "http://127.0.0.1:8001"}), &json!({}));
        assert!(ClusterAccess::from_kubeconfig(&text, "work").is_ok(), "kubectl proxy");
        assert!(ClusterAccess::from_kubeconfig(&text, "home").unwrap_err().contains("no context \"home\""));
        assert!(ClusterAccess::from_kubeconfig("apiVersion: v1", "work").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_kubeconfig_is_read_or_refused(text: String, server: String, data: String) {
            let _ = ClusterAccess::from_kubeconfig(&text, "work");
            let cluster = json!({"server": server, "certificate-authority-data": data});
            let _ = ClusterAccess::from_kubeconfig(&kubeconfig(&cluster, &json!({"token": data})), "work");
        }
    }
}
