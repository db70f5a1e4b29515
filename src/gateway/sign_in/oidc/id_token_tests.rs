use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::json;

use super::*;

const NOW: i64 = 1_700_000_000;

/// The public key, and the token.
const RSA: (&str, &str) = (
    "{\"kty\":\"RSA\",\"kid\":\"rsa\",\"use\":\"sig\",\"alg\":\"RS256\",\"n\":\"xToCiLdoUn15P3V\
     uUaBBQ0-OSLqQvA2AXtkqqZ4tXQPHCN8b_6fDo9t5Lu6hc1zNIttZ0du27AwDJFOTgkTBLv_42AEa_gWHYjTEOhzOt\
     japDdB4VBZex2fPIFEzw4DHYShAUnfx_7EaaD0F0IOu98Qk9bDfkedrZFJHTlIAkxOUGLxqitGSazI0Vwiu7umcxcy\
     Ee9ngetMzbFE4o2l7uLpteVMsAWjYHTWNFajPrS0g0yfI6fJhgv9T95n9tG8tffE4kLckMVye7A6IspXiL0_QUmZWq\
     RAGsK1sv81B7t_BgDObxr9cr2SOlSLJNeoOkgaNr_1jW8wM4hgUOFFfkw\",\"e\":\"AQAB\"}",
    "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLmV4YW1wb\
     GUub3JnIiwic3ViIjoiNDcxMSIsImF1ZCI6ImZsb2NrIiwiZXhwIjoxNzAwMDAwMzAwLCJpYXQiOjE3MDAwMDAwMDA\
     sIm5vbmNlIjoibi0xIn0.P2AZ0eYPf8fY_p4cGW9kOXvQvvBcR1jWTdSiSuEoWOusDTOYhsokdDjN3Xqhq_L53VgVb\
     naml2FAsZErtWDrl1FhGSzmlVZIjTZ6XwsY-3AX_o_aVbUdjiGovTx19FgsdeLAAUdG2tmE9tJNfKMMpcQUGYiRK0_\
     aJ0RTJoejOWykpIs-EyKAWW_M_o5a0Gb6aG01jRqDMQzPSfeuJso7fLPcJ23oCho_3IuyAWnQcZABZ-ASe_EbrL8O5\
     1QnmZQaUxHAGsCGPlU7foz0m4fb_QdXqo53mko6lZArb5CnOEoGSpiYmLiBu0SK1lRRh1UAy-5q1sdI6ko6QLkt7W9\
     NKA",
);

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A provider with a key of each kind that is made here.
struct Signer {
    p256: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
}

impl Signer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let p256 = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            p256: EcdsaKeyPair::from_pkcs8(kind, p256.as_ref(), &random).unwrap(),
            ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).unwrap(),
        }
    }

    fn point(&self) -> (String, String) {
        let point = self.p256.public_key().as_ref();
        (text(&point[1..33]), text(&point[33..]))
    }

    fn jwks(&self) -> Value {
        let (x, y) = self.point();
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "alg": "ES256", "x": x, "y": y},
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": text(self.ed25519.public_key().as_ref())},
            {"kty": "EC", "crv": "P-256", "kid": "enc", "use": "enc", "x": x, "y": y},
            {"kty": "oct", "kid": "shared", "k": "AAAA"},
            {"kty": "RSA", "kid": "no-number", "n": "!", "e": "AQAB"},
            "no key",
        ]})
    }

    fn keys(&self) -> KeySet {
        KeySet::parse(&self.jwks()).unwrap()
    }

    fn signed(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header), encoded(claims));
        let signature = match header["alg"].as_str() {
            Some("EdDSA") => text(self.ed25519.sign(message.as_bytes()).as_ref()),
            _ => text(self.p256.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref()),
        };
        format!("{message}.{signature}")
    }

    fn es256(&self, claims: &Value) -> String {
        self.signed(&json!({"alg": "ES256", "kid": "ec", "typ": "JWT"}), claims)
    }
}

fn claims() -> Value {
    json!({"iss": "https://login.example.org", "sub": "4711", "aud": "flock", "exp": NOW + 300, "iat": NOW,
        "nonce": "n-1", "email": "Ann@Example.org", "email_verified": true})
}

/// The claims with some of them replaced, or removed by `null`.
fn with(changes: Value) -> Value {
    let mut claims = claims();
    let Value::Object(changes) = changes else { panic!("no object") };
    for (name, value) in changes {
        claims[name.as_str()] = value;
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn verified(token: &str, keys: &KeySet) -> Result<SignedAccount, TokenFault> {
    let expected = Expected { issuer: "https://login.example.org", client: "flock", nonce: "n-1", now: NOW };
    verify(token, keys, expected)
}

#[test]
fn a_good_token_of_each_kind_says_who_signed_in() {
    let signer = Signer::new();
    let keys = signer.keys();
    assert_eq!(keys.len(), 2, "keys for something else do not count");
    let ann = SignedAccount { subject: "4711".to_owned(), email: Some("ann@example.org".to_owned()) };
    assert_eq!(verified(&signer.es256(&claims()), &keys), Ok(ann.clone()));
    let header = json!({"alg": "EdDSA", "kid": "ed"});
    assert_eq!(verified(&signer.signed(&header, &claims()), &keys), Ok(ann.clone()));
    for aud in [json!(["flock"]), json!("flock")] {
        assert_eq!(verified(&signer.es256(&with(json!({"aud": aud}))), &keys), Ok(ann.clone()));
    }
    let shared = with(json!({"aud": ["flock", "other"], "azp": "flock"}));
    assert_eq!(verified(&signer.es256(&shared), &keys), Ok(ann));
}

/// A key of 2048 bits and a token that it signed, made by OpenSSL.
#[test]
fn a_token_with_rsa_is_checked() {
    let (jwk, token) = RSA;
    let keys = KeySet::parse(&json!({"keys": [serde_json::from_str::<Value>(jwk).unwrap()]})).unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(verified(token, &keys).unwrap().subject, "4711");
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let forged = format!("{header}.{}.{signature}", encoded(&with(json!({"sub": "1"}))));
    assert_eq!(verified(&forged, &keys), Err(TokenFault::Signature));
}

#[test]
fn an_address_counts_only_if_the_provider_has_verified_it() {
    let signer = Signer::new();
    let keys = signer.keys();
    for (email, verified_email) in [
        (json!("ann@example.org"), json!(false)),
        (json!("ann@example.org"), json!("true")),
        (json!("ann@example.org"), json!(1)),
        (json!("ann@example.org"), Value::Null),
        (Value::Null, json!(true)),
        (json!("аnn@example.org"), json!(true)),
        (json!("ann"), json!(true)),
    ] {
        let token = signer.es256(&with(json!({"email": email, "email_verified": verified_email})));
        assert_eq!(verified(&token, &keys).unwrap().email, None, "{email} {verified_email}");
    }
}

#[test]
fn a_token_without_a_signature_or_with_the_public_key_as_a_secret_is_refused() {
    let signer = Signer::new();
    let keys = signer.keys();
    let message = |alg: &str, kid: &str| {
        format!("{}.{}", encoded(&json!({"alg": alg, "kid": kid})), encoded(&claims()))
    };
    for alg in ["none", "None", "NONE", "nOnE", ""] {
        for token in [format!("{}.", message(alg, "ec")), message(alg, "ec")] {
            assert!(verified(&token, &keys).is_err(), "{alg}: {token}");
        }
        let token = format!("{}.", message(alg, "ec"));
        assert_eq!(verified(&token, &keys), Err(TokenFault::Algorithm), "{alg}");
    }
    // The public key is known to everybody, so a signature with it as the secret of HS256 proves nothing.
    let point = signer.p256.public_key().as_ref().to_vec();
    for secret in [point.clone(), point[1..].to_vec(), signer.jwks().to_string().into_bytes()] {
        for alg in ["HS256", "HS384", "HS512"] {
            let message = message(alg, "ec");
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
            let signature = text(ring::hmac::sign(&key, message.as_bytes()).as_ref());
            assert_eq!(
                verified(&format!("{message}.{signature}"), &keys),
                Err(TokenFault::Algorithm),
                "{alg}"
            );
        }
    }
    for alg in ["RS512", "PS256", "ES384", "ES256K", "es256", "EdDSA "] {
        let token = format!("{}.AAAA", message(alg, "ec"));
        assert_eq!(verified(&token, &keys), Err(TokenFault::Algorithm), "{alg}");
    }
    // The key of one algorithm is not tried with another one.
    let mut token = signer.signed(&json!({"alg": "EdDSA", "kid": "ec"}), &claims());
    assert_eq!(verified(&token, &keys), Err(TokenFault::UnknownKey));
    token = signer.signed(&json!({"alg": "RS256", "kid": "ec"}), &claims());
    assert_eq!(verified(&token, &keys), Err(TokenFault::UnknownKey));
}

#[test]
fn a_key_that_is_not_the_providers_signs_nothing() {
    let (signer, other) = (Signer::new(), Signer::new());
    let keys = signer.keys();
    assert_eq!(verified(&other.es256(&claims()), &keys), Err(TokenFault::Signature));
    for kid in ["", "EC", "enc", "shared", "no-number", "ec2"] {
        let token = signer.signed(&json!({"alg": "ES256", "kid": kid}), &claims());
        assert_eq!(verified(&token, &keys), Err(TokenFault::UnknownKey), "{kid}");
    }
    // A key in the token itself, or an address of one, is not looked at.
    let (x, y) = other.point();
    let header = json!({"alg": "ES256", "kid": "ec", "jku": "https://evil.example/keys",
        "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y}});
    assert_eq!(verified(&other.signed(&header, &claims()), &keys), Err(TokenFault::Signature));
    // Without a name of the key there has to be one of this kind alone.
    let unnamed = json!({"alg": "ES256"});
    assert!(verified(&signer.signed(&unnamed, &claims()), &keys).is_ok());
    assert_eq!(verified(&other.signed(&unnamed, &claims()), &keys), Err(TokenFault::UnknownKey));
    let mut two = signer.jwks();
    two["keys"]
        .as_array_mut()
        .unwrap()
        .extend(other.jwks()["keys"].as_array().unwrap().iter().take(1).cloned());
    let two = KeySet::parse(&two).unwrap();
    assert_eq!(verified(&signer.signed(&unnamed, &claims()), &two), Err(TokenFault::UnknownKey));
    for document in [json!({}), json!({"keys": {}}), json!([])] {
        assert_eq!(KeySet::parse(&document), None, "{document}");
    }
}

#[test]
fn a_token_for_somebody_else_or_of_another_time_is_refused() {
    let signer = Signer::new();
    let keys = signer.keys();
    let fault = |changes: Value| verified(&signer.es256(&with(changes)), &keys).unwrap_err();
    for iss in ["https://login.example.org/", "https://evil.example", "http://login.example.org", ""] {
        assert_eq!(fault(json!({"iss": iss})), TokenFault::Issuer, "{iss}");
    }
    for changes in [
        json!({"aud": "other"}),
        json!({"aud": []}),
        json!({"aud": ["other"]}),
        json!({"aud": ["flock", "other"]}),
        json!({"aud": ["flock", "other"], "azp": "other"}),
        json!({"azp": "other"}),
        json!({"aud": "other", "azp": "flock"}),
    ] {
        assert_eq!(fault(changes.clone()), TokenFault::Audience, "{changes}");
    }
    for nonce in [json!("n-2"), json!(""), Value::Null] {
        assert_eq!(fault(json!({"nonce": nonce})), TokenFault::Nonce, "{nonce}");
    }
    for changes in [
        json!({"exp": NOW - SKEW}),
        json!({"iat": NOW + SKEW + 1}),
        json!({"iat": NOW - MAX_AGE - SKEW - 1}),
        json!({"nbf": NOW + SKEW + 1}),
        json!({"exp": i64::MIN}),
    ] {
        assert_eq!(fault(changes.clone()), TokenFault::Time, "{changes}");
    }
    // The clocks may differ a little.
    for changes in [
        json!({"exp": NOW - SKEW + 1}),
        json!({"iat": NOW + SKEW}),
        json!({"nbf": NOW + SKEW}),
        json!({"exp": i64::MAX}),
    ] {
        assert!(verified(&signer.es256(&with(changes.clone())), &keys).is_ok(), "{changes}");
    }
    let long = "x".repeat(256);
    for changes in [
        json!({"iss": null}),
        json!({"sub": null}),
        json!({"sub": ""}),
        json!({"sub": long}),
        json!({"sub": "a\nb"}),
        json!({"sub": "ä"}),
        json!({"sub": 4711}),
        json!({"aud": null}),
        json!({"aud": 1}),
        json!({"exp": null}),
        json!({"exp": "never"}),
        json!({"iat": null}),
    ] {
        assert_eq!(fault(changes.clone()), TokenFault::Malformed, "{changes}");
    }
}

#[test]
fn what_is_no_token_is_refused() {
    let signer = Signer::new();
    let keys = signer.keys();
    let good = signer.es256(&claims());
    assert!(verified(&good, &keys).is_ok());
    for token in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        good.replace('.', ""),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}="),
        format!("{good}.{good}"),
        format!(" {good}"),
        "x".repeat(MAX_TOKEN + 1),
    ] {
        assert!(verified(&token, &keys).is_err(), "{token}");
    }
    for header in [
        json!({"alg": "ES256", "kid": "ec", "crit": ["exp"]}),
        json!({"alg": "ES256", "kid": "ec", "typ": "at+jwt"}),
        json!({"alg": "ES256", "kid": "ec", "typ": "logout+jwt"}),
        json!({"kid": "ec"}),
        json!([]),
    ] {
        assert_eq!(
            verified(&signer.signed(&header, &claims()), &keys),
            Err(TokenFault::Malformed),
            "{header}"
        );
    }
    // Two readers could take different ones of a claim that stands there twice.
    let twice = claims().to_string().replacen('{', "{\"sub\":\"1\",", 1);
    let message = format!("{}.{}", encoded(&json!({"alg": "ES256", "kid": "ec"})), text(twice.as_bytes()));
    let signature = text(signer.p256.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref());
    assert_eq!(verified(&format!("{message}.{signature}"), &keys), Err(TokenFault::Malformed));
}
