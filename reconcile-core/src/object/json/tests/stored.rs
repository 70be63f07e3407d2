//! What a store wrote.

use super::*;

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
    let reborn = changed(&newer(), |web| web.meta.owner_references[0].uid = "uc".into());
    assert_eq!(
        reborn["metadata"]["ownerReferences"][0].get("since"),
        None,
        "another incarnation of that name"
    );
    assert_eq!(reborn["metadata"]["ownerReferences"][1]["since"], json!(2));
}

#[test]
fn unknown_fields_follow_their_item_through_a_set() {
    let mut value = newer();
    value["spec"]["zones"] =
        json!([{"id": 3, "x": "c"}, {"id": 1, "x": "a"}, {"id": 2, "x": "b"}, {"id": 1}]);
    let new = changed(&value, |web| web.spec.replicas = 9);
    let expected = json!([
        {"id": 1, "weight": 0, "x": "a"}, {"id": 2, "weight": 0, "x": "b"}, {"id": 3, "weight": 0, "x": "c"},
    ]);
    assert_eq!(new["spec"]["zones"], expected);
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
