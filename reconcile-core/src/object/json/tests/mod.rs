//! Both readers on one spec that uses every way of reading a field.

mod any;
mod form;
mod stored;
mod typed;

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::{Object, ObjectMeta, Spec};

/// A spec with every way in which serde's derives read a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebSpec {
    replicas: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image_name: Option<String>,
    #[serde(default, alias = "tmpl")]
    template: Template,
    #[serde(default)]
    ports: Vec<Port>,
    #[serde(default)]
    hosts: BTreeSet<String>,
    #[serde(default)]
    zones: BTreeSet<Zone>,
    #[serde(default)]
    env: HashMap<String, String>,
    #[serde(default)]
    ratio: f64,
    #[serde(default)]
    source: Option<Source>,
    #[serde(default)]
    probe: Option<Probe>,
    #[serde(default)]
    anything: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    #[serde(default, skip)]
    cache: u32,
    #[serde(flatten)]
    limits: Limits,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Template {
    #[serde(default)]
    command: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Port {
    #[serde(default)]
    name: String,
    number: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Zone {
    id: u8,
    #[serde(default)]
    weight: u8,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Source {
    Git {
        url: String,
    },
    Image {
        image: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        depth: Option<u32>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Probe {
    Http { path: String },
    Tcp { port: u16 },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    #[serde(default)]
    max_memory: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct WebStatus {
    ready: u32,
}

impl Spec for WebSpec {
    const KIND: &'static str = "Web";
    type Status = WebStatus;

    fn set_defaults(&mut self, _meta: &ObjectMeta) {
        self.image_name.get_or_insert_with(|| "nginx".into());
    }
}

type Web = Object<WebSpec>;

fn typed(spec: Value) -> Value {
    json!({"kind": "Web", "metadata": {"name": "web"}, "spec": spec})
}

/// The paths of the faults of a document that a person wrote.
#[track_caller]
fn paths(value: &Value) -> Vec<String> {
    match parse_typed::<Web>(&value.to_string()) {
        Ok(_) => Vec::new(),
        Err(error) => error.faults().iter().map(|fault| fault.path.clone()).collect(),
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Small {
    size: u32,
}

impl Spec for Small {
    const KIND: &'static str = "Small";
    type Status = ();
}

fn stored(value: &Value) -> Document {
    Document::from_slice("Web", value.to_string().as_bytes()).unwrap()
}

/// A document of a newer version, with something new at every level.
fn newer() -> Value {
    json!({
        "kind": "Web",
        "apiVersion": "v2",
        "metadata": {
            "name": "web", "uid": "u", "generation": 3, "labels": {"app": "web"}, "managedBy": {"who": "x"},
            "ownerReferences": [
                {"kind": "A", "name": "a", "uid": "ua", "since": 1},
                {"kind": "A", "name": "b", "uid": "ub", "since": 2},
            ],
        },
        "spec": {
            "replicas": 3, "color": "red",
            "template": {"command": "run", "nice": 5},
            "ports": [{"name": "http", "number": 80, "tls": false}, {"name": "https", "number": 443, "tls": true}],
        },
        "status": {"ready": 2, "phase": "Up", "since": 1.1},
        "audit": [1, 2],
    })
}

fn changed(value: &Value, change: impl FnOnce(&mut Web)) -> Value {
    let document = stored(value);
    let mut web: Web = document.read().unwrap();
    change(&mut web);
    let new = document.rewrite(&web).unwrap();
    assert_eq!(new.read::<Web>().unwrap(), web, "the new document says what was written");
    new.as_value().clone()
}
