//! A client that sends requests as the OpenAPI document describes them, and checks each answer against it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flock::supervise::gateway_client::{Answer, Call, Client};
use jsonschema::Validator;
use serde_json::Value;

use crate::gateway::house::LIMIT;
use crate::support::schema;

/// The document, and which of its operations were used.
pub struct Document {
    value: Value,
    used: RefCell<BTreeMap<String, BTreeSet<u16>>>,
    /// What does not fit.
    wrong: RefCell<Vec<String>>,
    /// By the text of their schemas. Each takes long to build.
    validators: RefCell<BTreeMap<String, Arc<Validator>>>,
}

/// An operation of the document.
struct Operation<'d> {
    id: &'d str,
    value: &'d Value,
}

impl Document {
    pub fn new(value: Value) -> Self {
        Self { value, used: RefCell::default(), wrong: RefCell::default(), validators: RefCell::default() }
    }

    /// Sends a request without a body. It must succeed.
    pub async fn get(&self, client: &Client, path: &str) -> Value {
        self.done(client, "GET", path, &Value::Null).await
    }

    /// Sends a request that must succeed.
    pub async fn done(&self, client: &Client, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(client, method, path, body, &[]).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Sends a request that must fail with this status; gives the code of the error.
    pub async fn fails(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        body: &Value,
        status: u16,
    ) -> String {
        let (found, answer) = self.ask(client, method, path, body, &[]).await;
        assert_eq!(found, status, "{method} {path}: {answer}");
        answer["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Sends a request; gives the status and the body, which is null if it is not JSON.
    pub async fn ask(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        body: &Value,
        headers: &[(&'static str, &str)],
    ) -> (u16, Value) {
        let answer = self.open(client, method, path, body, headers).await;
        let (status, kind) = (answer.status(), media_type(&answer));
        let bytes = answer.bytes(16 << 20, LIMIT).await.unwrap();
        let Some(kind) = kind else {
            assert!(bytes.is_empty(), "{method} {path}: a body without a type");
            return (status, Value::Null);
        };
        let content = self.content(method, path, status, &kind);
        if kind != "application/json" {
            assert!(!bytes.is_empty(), "{method} {path}");
            return (status, Value::Null);
        }
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        self.fits(&format!("{method} {path}: {status}"), &content["schema"], &answer);
        (status, answer)
    }

    /// Sends a request whose answer is a stream.
    pub async fn open(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        body: &Value,
        headers: &[(&'static str, &str)],
    ) -> Answer {
        let operation = self.operation(method, path);
        let mut call = match method {
            "GET" => Call::get(path),
            "POST" => Call::post(path),
            "PUT" => Call::put(path),
            _ => Call::delete(path),
        };
        if !body.is_null() {
            call = call.json(body).unwrap();
        }
        for (name, value) in headers {
            assert!(
                // OpenAPI has this one in the types of the answers.
                *name == "accept"
                    || self.has_parameter(&operation, "header", name)
                    || self.takes_credential(&operation, name),
                "{} has no header {name}",
                operation.id
            );
            call = call.header(name, value);
        }
        let query = path.split_once('?').map_or("", |(_, query)| query);
        for (name, _) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            assert!(
                self.has_parameter(&operation, "query", name) || self.takes_credential(&operation, name),
                "{} has no parameter {name}",
                operation.id
            );
        }
        let answer = client.send(call, LIMIT).await.unwrap();
        let status = answer.status();
        assert!(answer.header("x-request-id").is_some(), "{method} {path}: no X-Request-Id");
        // What was taken must be a request that the document allows.
        if status < 300 {
            let wanted = &operation.value["requestBody"];
            assert_eq!(wanted.is_object(), !body.is_null(), "{method} {path}: the body");
            if wanted.is_object() {
                // The bytes of a file may be any.
                let schema = &wanted["content"]["application/json"]["schema"];
                self.fits(&format!("the body of {method} {path}"), schema, body);
            }
        }
        let response = &operation.value["responses"][status.to_string()];
        if !response.is_object() {
            self.note(format!("{} does not describe {status}", operation.id));
        }
        if media_type(&answer).is_none() {
            assert!(
                self.followed(response)["content"].is_null(),
                "{}: {status} has no content",
                operation.id
            );
        }
        self.used.borrow_mut().entry(operation.id.to_owned()).or_default().insert(status);
        answer
    }

    /// Checks the data of an event of an operation's stream.
    pub fn check_event(&self, method: &str, path: &str, name: &str, data: &str) {
        let content = self.content(method, path, 200, "text/event-stream");
        let schema = &content["x-flock-events"][name];
        assert!(schema.is_object(), "{method} {path} has no event {name:?}: {data}");
        let data = serde_json::from_str(data).unwrap_or_else(|error| panic!("{name}: {error}: {data}"));
        self.fits(&format!("the event {name:?} of {path}"), schema, &data);
    }

    /// The operations that were used, each with the statuses of its answers.
    pub fn used(&self) -> BTreeMap<String, BTreeSet<u16>> {
        self.used.borrow().clone()
    }

    /// The names of all operations with this method.
    pub fn operations(&self, method: &str) -> BTreeSet<String> {
        let items = self.value["paths"].as_object().unwrap().values();
        items.filter_map(|item| Some(item[method]["operationId"].as_str()?.to_owned())).collect()
    }

    /// Fails the test if anything did not fit.
    pub fn assert_kept(&self) {
        let wrong = self.wrong.borrow();
        assert!(wrong.is_empty(), "these do not fit the document:\n  {}", wrong.join("\n  "));
    }

    /// Remembers what does not fit, so that a test says all of it at once.
    fn note(&self, wrong: String) {
        // A later step may fail before the test ends.
        eprintln!("not as the document says: {wrong}");
        self.wrong.borrow_mut().push(wrong);
    }

    fn operation(&self, method: &str, path: &str) -> Operation<'_> {
        let path = path.split('?').next().unwrap();
        let items = self.value["paths"].as_object().unwrap().iter();
        let mut fitting: Vec<_> = items.filter(|(template, _)| is_at(template, path)).collect();
        // A path without parameters goes before one with them, and a longer one before one that takes the rest.
        fitting.sort_by_key(|(template, _)| {
            (template.matches('{').count(), std::cmp::Reverse(template.matches('/').count()))
        });
        let (_, item) = fitting.first().unwrap_or_else(|| panic!("the document has no path for {path}"));
        let value = &item[method.to_lowercase()];
        let id = value["operationId"].as_str();
        Operation { id: id.unwrap_or_else(|| panic!("the document has no {method} {path}")), value }
    }

    fn content(&self, method: &str, path: &str, status: u16, kind: &str) -> &Value {
        let operation = self.operation(method, path);
        let response = self.followed(&operation.value["responses"][status.to_string()]);
        let content = &response["content"][kind];
        if !content.is_object() {
            self.note(format!("{} does not describe {status} as {kind}", operation.id));
        }
        content
    }

    fn has_parameter(&self, operation: &Operation<'_>, place: &str, name: &str) -> bool {
        let mut all = operation.value["parameters"].as_array().into_iter().flatten();
        all.any(|parameter| {
            let parameter = self.followed(parameter);
            parameter["in"] == place && parameter["name"].as_str().unwrap().eq_ignore_ascii_case(name)
        })
    }

    /// Returns `true` if an operation takes a credential in this header, cookie or query parameter.
    fn takes_credential(&self, operation: &Operation<'_>, name: &str) -> bool {
        let needed = operation.value["security"].as_array().into_iter().flatten();
        let mut schemes = needed.flat_map(|needed| needed.as_object().unwrap().keys());
        schemes.any(|scheme| {
            let scheme = &self.value["components"]["securitySchemes"][scheme];
            let carrier =
                if scheme["in"] == "cookie" { "cookie" } else { scheme["name"].as_str().unwrap_or("") };
            carrier.eq_ignore_ascii_case(name)
        })
    }

    fn followed<'d>(&'d self, value: &'d Value) -> &'d Value {
        let target = value["$ref"].as_str().map(|target| target.trim_start_matches('#'));
        target.map_or(value, |target| self.value.pointer(target).unwrap())
    }

    fn fits(&self, what: &str, schema: &Value, value: &Value) {
        let validator = self.validator(schema);
        let wrong: Vec<String> =
            validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        if !wrong.is_empty() {
            self.note(format!("{what}:\n    {}\n    in {value}", wrong.join("\n    ")));
        }
    }

    fn validator(&self, schema: &Value) -> Arc<Validator> {
        let build = || Arc::new(schema::validator(&self.value, schema).unwrap());
        Arc::clone(self.validators.borrow_mut().entry(schema.to_string()).or_insert_with(build))
    }
}

fn media_type(answer: &Answer) -> Option<String> {
    answer.header("content-type").map(|kind| kind.split(';').next().unwrap().trim().to_owned())
}

/// Returns `true` if a path has the form of a template.
fn is_at(template: &str, path: &str) -> bool {
    let (wanted, parts): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    // These take the rest of a path.
    let takes_rest = matches!(template, "/relay/{path}" | "/v1/models/{id}" | "/dashboard/{path}")
        && parts.len() > wanted.len();
    let fits = |(wanted, part): (&&str, &&str)| wanted.starts_with('{') && !part.is_empty() || wanted == part;
    (takes_rest || wanted.len() == parts.len()) && wanted.iter().zip(&parts).all(fits)
}
