use super::*;

const AT: &str = "20150830T123600Z";
const SCOPE: SigningScope<'static> = SigningScope { region: "us-east-1", service: "service" };
const HOST: (&str, &str) = ("host", "example.amazonaws.com");
const DATE: (&str, &str) = ("x-amz-date", AT);

const KEY: AccessKey<'static> =
    AccessKey { id: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" };

fn signature(method: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
    let body_digest = digest(body);
    let request = UnsignedRequest { method, path: "/", query: "", headers, body_digest: &body_digest };
    let value = authorization(&request, KEY, SCOPE, AT);
    value.rsplit_once("Signature=").unwrap().1.to_owned()
}

/// Checks signatures from AWS's published test suite for this version.
#[test]
fn the_published_requests_have_the_published_signatures() {
    let token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
    let form = ("content-type", "application/x-www-form-urlencoded");
    let twice = ("my-header1", "value2,value2,value1");
    for (name, method, headers, body, expected) in [
        (
            "get-vanilla",
            "GET",
            vec![HOST, DATE],
            "",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            "get-header-key-duplicate",
            "GET",
            vec![HOST, twice, DATE],
            "",
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
        ),
        (
            "post-vanilla",
            "POST",
            vec![HOST, DATE],
            "",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "post-x-www-form-urlencoded",
            "POST",
            vec![form, HOST, DATE],
            "Param1=value1",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        (
            "post-sts-header-before",
            "POST",
            vec![HOST, DATE, ("x-amz-security-token", token)],
            "",
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
        ),
    ] {
        assert_eq!(signature(method, &headers, body.as_bytes()), expected, "{name}");
    }
}

#[test]
fn the_header_names_key_place_and_signed_headers() {
    let (headers, body_digest) = ([HOST, DATE], digest(b""));
    let request =
        UnsignedRequest { method: "GET", path: "/", query: "", headers: &headers, body_digest: &body_digest };
    let value = authorization(&request, KEY, SCOPE, AT);
    let start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature=";
    assert!(value.starts_with(start), "{value}");
}

#[test]
fn the_derived_signing_key_matches_the_published_one() {
    let scope = SigningScope { region: "us-east-1", service: "iam" };
    let key = signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830", scope);
    assert_eq!(hex(&key), "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
}

#[test]
fn a_models_id_is_one_part_of_the_path_and_is_signed_encoded_twice() {
    let arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-v1:0";
    let part = encode(arn);
    assert!(!part.contains(['/', ':']), "{part}");
    assert!(part.ends_with("inference-profile%2Fus.anthropic.claude-v1%3A0"), "{part}");
    assert_eq!(encoded_path("/model/a%3A0/converse-stream"), "/model/a%253A0/converse-stream");
}

/// Checks signatures from the examples in AWS's documentation of S3.
#[test]
fn the_published_requests_to_storage_have_the_published_signatures() {
    let at = "20130524T000000Z";
    let scope = SigningScope { region: "us-east-1", service: "s3" };
    let key = AccessKey { id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };
    let host = ("host", "examplebucket.s3.amazonaws.com");
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let text = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    let date = ("x-amz-date", at);
    for (method, path, query, headers, body_digest, expected) in [
        (
            "GET",
            "/test.txt",
            "",
            vec![host, ("range", "bytes=0-9"), ("x-amz-content-sha256", empty), date],
            empty,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            "",
            vec![
                ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                host,
                ("x-amz-content-sha256", text),
                date,
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ],
            text,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/",
            "lifecycle=",
            vec![host, ("x-amz-content-sha256", empty), date],
            empty,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET",
            "/",
            "max-keys=2&prefix=J",
            vec![host, ("x-amz-content-sha256", empty), date],
            empty,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        let request = UnsignedRequest { method, path, query, headers: &headers, body_digest };
        let value = authorization(&request, key, scope, at);
        assert_eq!(value.rsplit_once("Signature=").unwrap().1, expected, "{method} {path}?{query}");
    }
}
