//! What a person wrote.

use super::*;
use crate::{Error, Retry};

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
    let zones = json!([{"id": 3, "x": 1}, {"id": 1, "weight": 2}, {"id": 1, "weight": 2, "y": 1}]);
    assert_eq!(paths(&typed(json!({"replicas": 1, "zones": zones}))), ["spec.zones[0].x", "spec.zones[2].y"]);
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
