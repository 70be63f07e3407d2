use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::{Error, Object, ObjectKey, ObjectMeta, OwnerReference, Retry, Revision, Spec, Timestamp, Uid};

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

// === the form ===

#[test]
fn the_form_is_as_people_know_it() {
    let mut owner: Object<Small> = Object::new("node-1", Small::default());
    owner.meta.uid = Uid::from("u-node");
    let mut object = Object::new("web", Small { size: 3 }).namespace("default").label("app", "web");
    assert_eq!(
        serde_json::to_value(&object).unwrap(),
        json!({
            "kind": "Small",
            "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
            "spec": {"size": 3},
            "status": null,
        }),
        "empty fields are left out"
    );
    object.meta.uid = Uid::from("u-web");
    object.meta.revision = Revision(7);
    object.meta.generation = 2;
    object.meta.annotations.insert("note".into(), "n".into());
    object.meta.owner_references =
        vec![OwnerReference::controller_of(&owner), OwnerReference::plain(&object.clone())];
    object.meta.finalizers = vec!["volumes".into()];
    object.meta.created_at = Timestamp::from_second(0).ok();
    object.meta.deleted_at = Timestamp::from_second(60).ok();
    let value = serde_json::to_value(&object).unwrap();
    assert_eq!(
        value["metadata"],
        json!({
            "name": "web", "namespace": "default", "uid": "u-web", "revision": 7, "generation": 2,
            "labels": {"app": "web"}, "annotations": {"note": "n"},
            "ownerReferences": [
                {"kind": "Small", "name": "node-1", "uid": "u-node", "controller": true, "blocking": true},
                {"kind": "Small", "namespace": "default", "name": "web", "uid": "u-web"},
            ],
            "finalizers": ["volumes"],
            "createdAt": "1970-01-01T00:00:00Z", "deletedAt": "1970-01-01T00:01:00Z",
        })
    );
    assert_eq!(serde_json::from_value::<Object<Small>>(value.clone()).unwrap(), object);
    assert_eq!(parse_typed_value::<Object<Small>>(&value).unwrap(), object, "and a person may give it back");
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Small {
    size: u32,
}

impl Spec for Small {
    const KIND: &'static str = "Small";
    type Status = ();
}

#[test]
fn a_key_is_written_as_it_is_printed() {
    for key in [ObjectKey::new("web"), ObjectKey::namespaced("default", "web")] {
        let text = serde_json::to_string(&key).unwrap();
        assert_eq!(text, format!("\"{key}\""));
        assert_eq!(serde_json::from_str::<ObjectKey>(&text).unwrap(), key);
    }
    for key in [ObjectKey::new("a/b"), ObjectKey::namespaced("a/b", "c"), ObjectKey::namespaced("a", "b/c")] {
        assert!(serde_json::to_string(&key).is_err(), "{key} would read back as another one");
    }
    assert!(serde_json::from_str::<ObjectKey>("\"a/b/c\"").is_err());
}

#[test]
fn the_plain_reader_is_lenient_but_not_about_the_kind() {
    let read = |value: Value| serde_json::from_value::<Object<Small>>(value);
    let meta = json!({"name": "a"});
    let object = read(json!({"metadata": meta, "spec": {"size": 1, "colour": 2}, "more": 3})).unwrap();
    assert_eq!(object.spec.size, 1);
    let error = read(json!({"kind": "Pod", "metadata": meta, "spec": {"size": 1}})).unwrap_err();
    assert!(error.to_string().contains(r#"the kind is "Pod", expected "Small""#), "{error}");
    assert!(read(json!({"kind": "Small", "metadata": meta})).is_err(), "no spec");
    assert!(read(json!({"kind": "Small", "spec": {"size": 1}})).is_err(), "no metadata");
}

// === what a person wrote ===

#[test]
fn a_person_may_leave_out_what_others_set() {
    let web: Web = parse_typed(&typed(json!({"replicas": 3})).to_string()).unwrap();
    assert_eq!((web.meta.uid.is_empty(), web.status.ready, web.spec.replicas), (true, 0, 3));
    assert_eq!(web.spec.image_name, None, "defaults are the store's part");
}

#[test]
fn every_known_spelling_is_accepted() {
    let everything = json!({
        "replicas": 3, "imageName": "nginx", "tmpl": {"command": "run"},
        "ports": [{"name": "http", "number": 80}, {"number": 443}],
        "hosts": ["b", "a", "a"], "env": {"B": "1", "A": "2"}, "ratio": 1,
        "source": {"type": "Git", "url": "u"}, "probe": {"port": 80},
        "anything": {"x": [1, {"y": null}]}, "args": [], "maxMemory": 5,
    });
    assert_eq!(paths(&typed(everything)), Vec::<String>::new());
    let empty = json!({
        "replicas": 0, "imageName": null, "template": {}, "ports": [], "hosts": [], "env": {},
        "source": null, "probe": null, "anything": null, "maxMemory": null,
    });
    assert_eq!(paths(&typed(empty)), Vec::<String>::new(), "what says nothing is not unknown");
}

#[test]
fn unknown_fields_are_all_named_wherever_they_are() {
    let mut value = typed(json!({
        "replicas": 3, "replica": 4, "image_name": "x",
        "template": {"command": "x", "comand": "y"},
        "ports": [{"number": 80, "protocol": "tcp"}, {"number": 81, "deep": {"er": [1]}}],
        "source": {"type": "Git", "url": "u", "depth": 3},
        "probe": {"path": "/", "port": 80},
        "anything": {"at": "all"},
        "maxMemory": 1, "minMemory": 2, "cache": 3,
    }));
    value["metadata"]["label"] = json!({"app": "x"});
    value["metadata"]["ownerReferences"] =
        json!([{"kind": "A", "name": "a", "uid": "u", "apiVersion": "v1", "controller": false}]);
    value["status"] = json!({"ready": 1, "phase": "x"});
    value["apiVersion"] = json!("v1");
    value["weird key"] = json!(1);
    assert_eq!(
        paths(&value),
        [
            "apiVersion",
            "metadata.label",
            "metadata.ownerReferences[0].apiVersion",
            "spec.cache",
            "spec.image_name",
            "spec.minMemory",
            "spec.ports[0].protocol",
            "spec.ports[1].deep",
            "spec.probe.port",
            "spec.replica",
            "spec.source.depth",
            "spec.template.comand",
            "status.phase",
            r#"["weird key"]"#,
        ]
    );
}

#[test]
fn unknown_fields_are_found_behind_aliases_and_in_sets() {
    assert_eq!(
        paths(&typed(json!({"replicas": 1, "tmpl": {"command": "x", "more": 1}}))),
        ["spec.tmpl.more"]
    );
    let ports = json!([{"number": 1, "extra": 1}, {"number": 2}, {"extra": 3, "number": 3}]);
    assert_eq!(
        paths(&typed(json!({"replicas": 1, "ports": ports}))),
        ["spec.ports[0].extra", "spec.ports[2].extra"]
    );
}

#[test]
fn a_nan_in_a_default_hides_no_unknown_field() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Ratio {
        #[serde(default = "nan")]
        ratio: f64,
        size: u32,
    }
    fn nan() -> f64 {
        f64::NAN
    }
    impl Spec for Ratio {
        const KIND: &'static str = "Ratio";
        type Status = ();
    }
    let text = r#"{"kind": "Ratio", "metadata": {"name": "a"}, "spec": {"size": 1, "sise": 2}}"#;
    let error = parse_typed::<Object<Ratio>>(text).unwrap_err();
    assert_eq!(error.faults().to_string(), "spec.sise: is not known");
}

#[test]
fn a1_fields_given_twice_are_all_named() {
    let text = r#"{
        "kind": "Web", "kind": "Web",
        "metadata": {"name": "web", "labels": {"a.b/c": "1", "a.b/c": "1"}},
        "spec": {"replicas": 1, "replicas": 2, "unknown": 1, "ports": [{"number": 1}, {"number": 1, "number": 2}]}
    }"#;
    let error = parse_typed::<Web>(text).unwrap_err();
    let paths: Vec<&str> = error.faults().iter().map(|fault| fault.path.as_str()).collect();
    let expected =
        ["kind", r#"metadata.labels["a.b/c"]"#, "spec.replicas", "spec.ports[1].number", "spec.unknown"];
    assert_eq!(paths, expected);
}

#[test]
fn a2_a_wrong_type_names_the_path() {
    let rows = [
        (json!({"replicas": "3"}), "spec.replicas"),
        (json!({"replicas": -1}), "spec.replicas"),
        (json!({"replicas": 1, "ports": [{"number": 1}, {"number": 70_000}]}), "spec.ports[1].number"),
        (json!({"replicas": 1, "env": {"A": 1}}), "spec.env.A"),
        (json!({"replicas": 1, "template": 5}), "spec.template"),
        (json!({"imageName": "x"}), "spec"),
        (json!(7), "spec"),
    ];
    for (spec, path) in rows {
        assert_eq!(paths(&typed(spec.clone())), [path], "{spec}");
    }
    let mut value = typed(json!({"replicas": 1}));
    value["metadata"]["labels"] = json!({"on": true});
    assert_eq!(paths(&value), [r#"metadata.labels["on"]"#]);
    value["metadata"] = json!({"namespace": "x"});
    assert_eq!(paths(&value), ["metadata"], "a name has to be given");
    value["metadata"] = json!({"name": "x", "createdAt": "yesterday"});
    assert_eq!(paths(&value), ["metadata.createdAt"]);
}

#[test]
fn another_kind_is_said_before_anything_else() {
    let text = |kind: Value| json!({"kind": kind, "metadata": {"name": "web"}, "spec": {"x": 1}}).to_string();
    let said = |text: &str| parse_typed::<Web>(text).unwrap_err().to_string();
    assert_eq!(said(&text(json!("Pod"))), r#"bad JSON of Web web: kind: is "Pod", expected "Web""#);
    assert_eq!(said(&text(json!(3))), r#"bad JSON of Web web: kind: is the number 3, expected "Web""#);
    assert_eq!(said(r#"{"spec": {}}"#), r#"bad JSON of Web: kind: is missing, expected "Web""#);
    assert_eq!(
        said("[1]"),
        "bad JSON of Web: document: is a list, expected an object with kind, metadata and spec"
    );
}

#[test]
fn a7_a_syntax_error_has_line_and_column() {
    let error = parse_typed::<Web>("{\n  \"kind\" \"Web\"\n}").unwrap_err();
    assert!(error.to_string().contains("line 2 column 10"), "{error}");
    for text in ["", "{", "{}{}", "\u{feff}{}", &"[".repeat(100_000)] {
        assert!(parse_typed::<Web>(text).is_err());
    }
}

#[test]
fn bad_json_is_permanent() {
    let error = parse_typed::<Web>("{").unwrap_err();
    assert_eq!(Error::from(error).retry(), Retry::Never);
}

#[test]
fn too_many_fields_to_try_are_a_fault_and_not_silence() {
    let mut spec = json!({"replicas": 1});
    for number in 0..300 {
        spec[format!("unknown-{number:03}")] = json!(1);
    }
    let error = parse_typed::<Web>(&typed(spec).to_string()).unwrap_err();
    assert_eq!(error.faults().len(), 300);
    assert!(error.to_string().contains("spec.unknown-299: cannot be checked"));
}

// === what a store wrote ===

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

#[test]
fn unknown_fields_survive_a_rewrite_at_every_level() {
    let new = changed(&newer(), |web| {
        web.spec.replicas = 4;
        web.status.ready = 4;
        web.meta.labels.clear();
    });
    assert_eq!(new["apiVersion"], json!("v2"));
    assert_eq!(new["audit"], json!([1, 2]));
    assert_eq!(new["metadata"]["managedBy"], json!({"who": "x"}));
    assert_eq!(new["metadata"]["ownerReferences"], newer()["metadata"]["ownerReferences"]);
    assert_eq!(new["metadata"].get("labels"), None, "what is known and gone is gone");
    assert_eq!((&new["spec"]["replicas"], &new["spec"]["color"]), (&json!(4), &json!("red")));
    assert_eq!(new["spec"]["template"]["nice"], json!(5));
    assert_eq!(new["spec"]["ports"], newer()["spec"]["ports"]);
    assert_eq!(new["status"], json!({"ready": 4, "phase": "Up", "since": 1.1}));
}

#[test]
fn unknown_fields_follow_their_item_through_a_list() {
    let swapped = changed(&newer(), |web| web.spec.ports.reverse());
    assert_eq!(swapped["spec"]["ports"][0], json!({"name": "https", "number": 443, "tls": true}));
    assert_eq!(swapped["spec"]["ports"][1], json!({"name": "http", "number": 80, "tls": false}));
    let edited = changed(&newer(), |web| web.spec.ports[1].number = 8443);
    assert_eq!(
        edited["spec"]["ports"][1],
        json!({"name": "https", "number": 8443, "tls": true}),
        "by its name"
    );
    let removed = changed(&newer(), |web| drop(web.spec.ports.remove(0)));
    assert_eq!(removed["spec"]["ports"], json!([{"name": "https", "number": 443, "tls": true}]));
    let replaced = changed(&newer(), |web| {
        web.spec.ports[0] = Port { name: "other".into(), number: 1 };
        web.meta.owner_references.remove(0);
    });
    assert_eq!(replaced["spec"]["ports"][0], json!({"name": "other", "number": 1}), "another item");
    assert_eq!(replaced["metadata"]["ownerReferences"][0]["since"], json!(2));
}

#[test]
fn an_unknown_field_never_changes_what_is_written() {
    let mut value = newer();
    value["spec"]["source"] = json!({"type": "Git", "url": "u", "depth": 3, "shallow": true});
    let new = changed(&value, |web| web.spec.source = Some(Source::Image { image: "i".into(), depth: None }));
    assert_eq!(
        new["spec"]["source"],
        json!({"type": "Image", "image": "i", "shallow": true}),
        "`depth` is a field of the new variant, and would be read"
    );
    assert_eq!(new["spec"]["color"], json!("red"), "the others stay");
    let mut aliased = newer();
    aliased["spec"]["tmpl"] = aliased["spec"]["template"].take();
    if let Some(spec) = aliased["spec"].as_object_mut() {
        spec.remove("template");
    }
    let new = changed(&aliased, |web| web.spec.template.command = "walk".into());
    assert_eq!(
        new["spec"].get("tmpl"),
        None,
        "an old spelling of a known field is not kept beside the new one"
    );
    assert_eq!(new["spec"]["template"]["command"], json!("walk"));
}

#[test]
fn a_rewrite_without_a_change_is_the_same_document() {
    for value in [newer(), typed(json!({"replicas": 1}))] {
        let once = stored(&value).rewrite(&stored(&value).read::<Web>().unwrap()).unwrap();
        let twice = once.rewrite(&once.read::<Web>().unwrap()).unwrap();
        assert_eq!(once, twice);
        assert_eq!(once.to_vec(), twice.to_vec());
    }
}

#[test]
fn defaults_are_applied_on_reading() {
    let web: Web = stored(&newer()).read().unwrap();
    assert_eq!(web.spec.image_name.as_deref(), Some("nginx"));
}

#[test]
fn an_unreadable_document_keeps_its_metadata_and_its_content() {
    let mut value = newer();
    value["spec"]["replicas"] = json!("many");
    let document = stored(&value);
    let error = document.read::<Web>().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"bad JSON of Web web: spec.replicas: invalid type: string "many", expected u32"#
    );
    let mut meta = document.meta().unwrap();
    assert_eq!((meta.name.as_str(), meta.uid.as_str()), ("web", "u"));
    meta.finalizers.push("foreground".into());
    meta.labels.clear();
    let mut expected = value.clone();
    expected["metadata"]["finalizers"] = json!(["foreground"]);
    if let Some(metadata) = expected["metadata"].as_object_mut() {
        metadata.remove("labels");
    }
    assert_eq!(*document.rewrite_meta(&meta).unwrap().as_value(), expected);
    let web: Web = stored(&newer()).read().unwrap();
    assert!(document.rewrite(&web).is_err(), "what cannot be read is not overwritten");
}

#[test]
fn bytes_that_are_no_document_are_refused() {
    for bytes in [&b""[..], b"{", b"[]", b"\xff", b"{\"kind\": \"Pod\"}", b"{\"kind\": 1}"] {
        assert!(Document::from_slice("Web", bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
    }
    let nothing = Document::from_slice("Web", b"{}").unwrap();
    assert!(nothing.read::<Web>().is_err() && nothing.meta().is_none());
    assert!(nothing.rewrite_meta(&ObjectMeta::new("a")).is_err());
    let broken = stored(&json!({"metadata": {"name": 7}, "spec": {}}));
    assert!(broken.meta().is_none() && broken.rewrite_meta(&ObjectMeta::new("a")).is_err());
}

// === a struct of the user's own ===

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Node {
    metadata: ObjectMeta,
    address: String,
    #[serde(default)]
    status: Option<String>,
}

impl Resource for Node {
    const KIND: &'static str = "Node";
    type Status = Option<String>;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn status(&self) -> &Option<String> {
        &self.status
    }

    fn status_mut(&mut self) -> &mut Option<String> {
        &mut self.status
    }

    fn spec_eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

#[test]
fn an_own_struct_has_its_own_form_and_the_same_rules() {
    let value = json!({"kind": "Node", "metadata": {"name": "n"}, "address": "a", "adress": "b"});
    let error = parse_typed_value::<Node>(&value).unwrap_err();
    assert_eq!(error.faults().to_string(), "adress: is not known");
    let document = Document::from_slice("Node", value.to_string().as_bytes()).unwrap();
    let mut node: Node = document.read().unwrap();
    node.address = "c".into();
    let new = document.rewrite(&node).unwrap();
    assert_eq!(new.as_value()["adress"], json!("b"));
    assert_eq!(Document::new(&node).unwrap().as_value()["kind"], json!("Node"));
}

// === anything ===

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no others", |f| f.is_finite()).prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_float_reads_back_as_itself(ratio in any::<f64>().prop_filter("finite", |f| f.is_finite())) {
        let mut web: Web = parse_typed_value(&typed(json!({"replicas": 1}))).unwrap();
        web.spec.ratio = ratio;
        web.set_defaults();
        let bytes = Document::new(&web).unwrap().to_vec();
        prop_assert_eq!(Document::from_slice("Web", &bytes).unwrap().read::<Web>().unwrap(), web);
    }

    #[test]
    fn whatever_a_newer_version_adds_survives(
        top in json_value(), meta in json_value(), spec in json_value(), port in json_value(),
        status in json_value(), replicas in any::<u32>()
    ) {
        let mut value = newer();
        value["new"] = top;
        value["metadata"]["new"] = meta;
        value["spec"]["new"] = spec;
        value["spec"]["ports"][1]["new"] = port;
        value["status"]["new"] = status;
        let rewritten = changed(&value, |web| {
            web.spec.replicas = replicas;
            web.spec.image_name = Some("x".into());
        });
        for at in ["", "/metadata", "/spec", "/spec/ports/1", "/status"] {
            let pointer = format!("{at}/new");
            prop_assert_eq!(rewritten.pointer(&pointer), value.pointer(&pointer), "{}", pointer);
        }
        prop_assert_eq!(&rewritten["spec"]["replicas"], &json!(replicas));
    }

    #[test]
    fn no_text_panics(text in any::<String>(), value in json_value()) {
        let _ = parse_typed::<Web>(&text);
        let _ = parse_typed_value::<Web>(&value);
        let _ = parse_typed_value::<Web>(&typed(value.clone()));
        if let Ok(document) = Document::from_slice("Web", typed(value).to_string().as_bytes())
            && let Ok(web) = document.read::<Web>()
        {
            prop_assert_eq!(document.rewrite(&web).unwrap().read::<Web>().unwrap(), web);
        }
    }

    #[test]
    fn metadata_reads_back_as_itself(
        labels in prop::collection::btree_map(any::<String>(), any::<String>(), 0..3),
        finalizers in prop::collection::vec(any::<String>(), 0..3),
        namespace in prop::option::of(any::<String>()),
        revision in any::<u64>(), second in 0i64..4_000_000_000
    ) {
        let mut meta = ObjectMeta::new("a");
        meta.annotations = labels.clone();
        meta.labels = labels;
        meta.finalizers = finalizers;
        meta.namespace = namespace.clone();
        meta.revision = Revision(revision);
        meta.deleted_at = Timestamp::from_second(second).ok();
        let mut owner: Object<Small> = Object::new("o", Small::default());
        owner.meta.namespace = namespace;
        meta.owner_references = vec![OwnerReference::controller_of(&owner)];
        let text = serde_json::to_string(&meta).unwrap();
        prop_assert_eq!(serde_json::from_str::<ObjectMeta>(&text).unwrap(), meta);
    }
}

#[test]
fn a_map_of_labels_is_plain_json() {
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    let mut meta = ObjectMeta::new("a");
    meta.labels = labels;
    assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"name":"a","labels":{"app":"web"}}"#);
}
