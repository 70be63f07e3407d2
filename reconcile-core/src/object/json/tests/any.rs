//! Anything at all.

use proptest::prelude::*;

use super::*;
use crate::{OwnerReference, Revision, Timestamp};

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
