//! The form itself.

use std::collections::BTreeMap;

use super::*;
use crate::{ObjectKey, OwnerReference, Revision, Timestamp, Uid};

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

#[test]
fn a_map_of_labels_is_plain_json() {
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    let mut meta = ObjectMeta::new("a");
    meta.labels = labels;
    assert_eq!(serde_json::to_string(&meta).unwrap(), r#"{"name":"a","labels":{"app":"web"}}"#);
}
