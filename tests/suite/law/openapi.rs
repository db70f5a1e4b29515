//! The OpenAPI document describes the routes of the table, all of them and no others, and is sound in itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flock::gateway::openapi;
use serde_json::{Value, json};

use super::routes::ROUTES;
use super::verdict;
use crate::support::schema;

const METHODS: [&str; 5] = ["get", "post", "put", "delete", "patch"];

/// Schemas that may have keys which they do not name: requests with keys that have no effect, and documents of others.
const OPEN: [&str; 10] = [
    "ChatCompletionRequest",
    "ChatMessage",
    "ChatContentPart",
    "ResponseRequest",
    "ResponseInputItem",
    "JsonRpcRequest",
    "PluginCall",
    "PluginReport",
    "RelayError",
    "OpenApiDocument",
];

/// Each operation of a document with its method and its path.
fn operations(document: &Value) -> Vec<(String, &str, &Value)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(METHODS.contains(&method.as_str()), "{method} of {path}");
            found.push((method.to_uppercase(), path.as_str(), operation));
        }
    }
    found
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The security requirements that stand for the words of the table.
fn security(method: &str, access: &str) -> Value {
    match access {
        "nothing" => json!([]),
        "plugin" => json!([{"pluginToken": []}]),
        "turn" => json!([{"turnToken": []}]),
        "browser" => json!([{"cookie": []}, {"signInCode": []}]),
        words => {
            let rights = words.trim_end_matches(" for all agents").split(" or ");
            // A browser that is signed in may do what the owner may.
            let browser =
                if method == "GET" { json!({"cookie": []}) } else { json!({"cookie": [], "csrf": []}) };
            rights.map(|right| json!({"token": [right]})).chain([browser]).collect()
        }
    }
}

#[test]
fn the_document_has_every_route_with_its_credential() {
    let operations = operations(openapi::document());
    let mut table = BTreeSet::new();
    for (method, path, access) in ROUTES {
        // OpenAPI has no word for a parameter that takes the rest of a path.
        let path = path.replace("{*", "{");
        let row = |method: &str| (method.to_owned(), path.clone(), (*access).to_owned());
        if *method == "ANY" {
            // The document names the methods that do something.
            let methods = operations.iter().filter(|(_, found, _)| *found == path);
            let before = table.len();
            table.extend(methods.map(|(method, ..)| row(method)));
            assert!(table.len() > before, "the document does not have {path}");
        } else {
            table.insert(row(method));
        }
    }
    let described: BTreeSet<_> = operations
        .iter()
        .map(|(method, path, operation)| {
            (method.clone(), (*path).to_owned(), text(operation, "x-flock-access").to_owned())
        })
        .collect();
    let difference: Vec<String> = table
        .symmetric_difference(&described)
        .map(|row| {
            let where_ = if table.contains(row) { "the table" } else { "the document" };
            format!("only {where_} has {} {} for {}", row.0, row.1, row.2)
        })
        .collect();
    verdict("routes of the document that differ from those of the table", difference);
    for (method, path, operation) in operations {
        let named = operation["security"].as_array().unwrap();
        let needed = security(&method, text(operation, "x-flock-access"));
        for needed in needed.as_array().unwrap() {
            assert!(named.contains(needed), "{method} {path} does not name {needed} in `security`");
        }
        let is_relay = path.starts_with("/relay/");
        assert!(is_relay || operation["security"] == needed, "{method} {path}: {named:?}");
    }
}

#[test]
fn every_reference_resolves_and_every_name_is_unique() {
    let document = openapi::document();
    let mut wrong = Vec::new();
    each(document, "", &mut |at, value| {
        let Some(target) = value["$ref"].as_str() else { return };
        let found = target.strip_prefix('#').and_then(|target| document.pointer(target));
        if found.is_none() {
            wrong.push(format!("{at}: {target} is not there"));
        }
    });
    let tags: BTreeSet<&str> =
        document["tags"].as_array().unwrap().iter().map(|tag| text(tag, "name")).collect();
    let mut ids = BTreeMap::new();
    for (method, path, operation) in operations(document) {
        let at = format!("{method} {path}");
        let id = text(operation, "operationId");
        if id.is_empty() || text(operation, "summary").is_empty() {
            wrong.push(format!("{at} has no operationId or no summary"));
        }
        if let Some(other) = ids.insert(id, at.clone()) {
            wrong.push(format!("{at} and {other} are both {id}"));
        }
        for tag in operation["tags"].as_array().unwrap() {
            if !tags.contains(tag.as_str().unwrap()) {
                wrong.push(format!("{at} has the tag {tag}, which is not declared"));
            }
        }
        let named: BTreeSet<String> = parameters(document, operation)
            .iter()
            .filter(|parameter| text(parameter, "in") == "path")
            .map(|parameter| format!("{{{}}}", text(parameter, "name")))
            .collect();
        let in_path = path.split('/').filter(|part| part.starts_with('{')).map(str::to_owned).collect();
        if named != in_path {
            wrong.push(format!("{at} describes the parameters {named:?}"));
        }
    }
    verdict("mistakes of the document", wrong);
}

#[test]
fn every_answer_has_a_closed_schema() {
    let document = openapi::document();
    let mut wrong = Vec::new();
    // Most refusals have the same one, and to build it takes long.
    let mut built = BTreeSet::new();
    for (method, path, operation) in operations(document) {
        let at = format!("{method} {path}");
        let responses = operation["responses"].as_object().unwrap();
        for (status, response) in responses {
            let response = response["$ref"].as_str().map_or(response, |target| {
                document.pointer(target.trim_start_matches('#')).expect("another test checks references")
            });
            // A notification of MCP, a session of MCP that was ended, a card that did not change and a browser that is led
            // elsewhere have no body.
            let has_none = matches!(status.as_str(), "202" | "204" | "303" | "304");
            if response["content"].is_object() == has_none {
                wrong.push(format!("{at}: {status} must have content unless it is 202, 204, 303 or 304"));
            }
            for (kind, content) in response["content"].as_object().into_iter().flatten() {
                if !built.insert(content["schema"].to_string()) {
                    continue;
                }
                if let Err(error) = schema::validator(document, &content["schema"]) {
                    wrong.push(format!("{at}: {status} {kind}: {error}"));
                }
            }
        }
        let refusals = if operation["security"] == json!([]) { vec!["403"] } else { vec!["401", "403"] };
        for status in refusals {
            if !responses.contains_key(status) {
                wrong.push(format!("{at} does not describe {status}"));
            }
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        each(schema, name, &mut |at, value| {
            let is_closed = ["additionalProperties", "unevaluatedProperties"]
                .iter()
                .any(|key| !value[*key].is_null() && value[*key] != true);
            // Fields that several schemas share are closed by those.
            let is_open = OPEN.contains(&name.as_str()) || name.ends_with("Fields") && at == name;
            if value["properties"].is_object() && !is_closed && !is_open {
                wrong.push(format!("{at} takes keys that it does not name"));
            }
        });
    }
    verdict("answers that are not described completely", wrong);
}

#[test]
fn a_schema_is_built_with_all_that_its_references_reach() {
    let document = json!({"components": {"schemas": {
        "Task": {"type": "object", "properties": {"parent": {"$ref": "#/components/schemas/Parent"}}},
        "Parent": {"anyOf": [{"$ref": "#/components/schemas/Task"}, {"type": "null"}]},
    }}});
    let list = json!({"type": "array", "items": {"$ref": "#/components/schemas/Task"}});
    let validator = schema::validator(&document, &list).unwrap();
    assert!(validator.is_valid(&json!([{"parent": {"parent": null}}])));
    assert!(!validator.is_valid(&json!([{"parent": {"parent": "x"}}])));
    let error = schema::validator(&document, &json!({"$ref": "#/components/schemas/Lost"})).err().unwrap();
    assert!(error.to_string().contains("Lost"), "{error}");
}

#[test]
fn each_part_is_in_the_document_and_repeats_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gateway/openapi");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    let parts: BTreeSet<String> = openapi::PARTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files, parts);
    let mut found = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, part) in openapi::PARTS {
        let part: Value = serde_json::from_str(part).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut add = |what: String| {
            if let Some(other) = found.insert(what.clone(), name) {
                wrong.push(format!("{other} and {name} both have {what}"));
            }
        };
        for (path, item) in part["paths"].as_object().into_iter().flatten() {
            item.as_object().unwrap().keys().for_each(|method| add(format!("{method} {path}")));
        }
        for (kind, components) in part["components"].as_object().into_iter().flatten() {
            components.as_object().unwrap().keys().for_each(|component| add(format!("{kind}/{component}")));
        }
        part["tags"].as_array().into_iter().flatten().for_each(|tag| add(format!("the tag {}", tag["name"])));
    }
    verdict("parts of the document that repeat another", wrong);
}

/// The parameters of an operation, with references followed.
fn parameters<'d>(document: &'d Value, operation: &'d Value) -> Vec<&'d Value> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    all.map(|parameter| {
        parameter["$ref"].as_str().map_or(parameter, |target| {
            document.pointer(target.trim_start_matches('#')).unwrap_or(&Value::Null)
        })
    })
    .collect()
}

/// Looks at every value below this one, with its place.
fn each(value: &Value, at: &str, look: &mut impl FnMut(&str, &Value)) {
    look(at, value);
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| each(value, &format!("{at}/{key}"), look)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| each(value, &format!("{at}/{index}"), look));
        }
        _ => {}
    }
}
