use proptest::prelude::*;

use super::*;
use crate::{ObjectKey, Uid};

fn faults_of(meta: &ObjectMeta) -> Vec<String> {
    let mut faults = Faults::default();
    validate_meta(meta, &mut faults);
    faults.iter().map(ToString::to_string).collect()
}

fn paths_of(meta: &ObjectMeta) -> Vec<String> {
    let mut faults = Faults::default();
    validate_meta(meta, &mut faults);
    faults.iter().map(|fault| fault.path.clone()).collect()
}

fn owner(kind: &str, key: ObjectKey, uid: &str) -> OwnerReference {
    OwnerReference { kind: kind.into(), key, uid: Uid::from(uid), controller: false, blocking: false }
}

fn long(byte: char, length: usize) -> String {
    std::iter::repeat_n(byte, length).collect()
}

#[test]
fn names_are_subdomains() {
    let good = ["a", "0", "web-1", "a.b", "a-1.b--2.c", &long('a', 253)];
    let bad = [
        "",
        "A",
        "web_1",
        "-a",
        "a-",
        ".a",
        "a.",
        "a..b",
        "a.-b",
        "a-.b",
        "a/b",
        "a b",
        "a\0",
        "a\u{7}",
        "ä",
        "..",
        &long('a', 254),
    ];
    for name in good {
        assert_eq!(faults_of(&ObjectMeta::new(name)), Vec::<String>::new(), "{name:?}");
    }
    for name in bad {
        assert_eq!(paths_of(&ObjectMeta::new(name)), ["metadata.name"], "{name:?}");
    }
}

#[test]
fn namespaces_are_labels_of_a_host_name() {
    let with = |namespace: &str| ObjectMeta { namespace: Some(namespace.into()), ..ObjectMeta::new("a") };
    for namespace in ["a", "default", "team-1", &long('a', 63)] {
        assert_eq!(faults_of(&with(namespace)), Vec::<String>::new(), "{namespace:?}");
    }
    for namespace in ["", "a.b", "A", "a_b", "-a", "a-", "a/b", &long('a', 64)] {
        assert_eq!(paths_of(&with(namespace)), ["metadata.namespace"], "{namespace:?}");
    }
}

#[test]
fn label_names_have_an_optional_prefix() {
    let with = |name: &str| {
        let mut meta = ObjectMeta::new("a");
        meta.labels.insert(name.into(), "v".into());
        meta
    };
    let (name, prefix) = (long('N', 63), long('p', 253));
    for name in ["app", "App_1.x", "example.com/app", "e/A", &name, &format!("{prefix}/{name}")] {
        assert_eq!(faults_of(&with(name)), Vec::<String>::new(), "{name:?}");
    }
    let bad = [
        "",
        "/",
        "a/",
        "/a",
        "Ex/a",
        "a/b/c",
        "-a",
        "a-",
        "a b",
        "_",
        &format!("{name}N"),
        &format!("{prefix}p/n"),
    ];
    for name in bad {
        let faults = paths_of(&with(name));
        assert!(!faults.is_empty(), "{name:?}");
        assert!(faults.iter().all(|path| path.starts_with("metadata.labels[\"")), "{faults:?}");
    }
    assert_eq!(paths_of(&with("a b")), [r#"metadata.labels["a b"]"#]);
}

#[test]
fn label_values_may_be_empty() {
    let with = |value: &str| {
        let mut meta = ObjectMeta::new("a");
        meta.labels.insert("app".into(), value.into());
        meta
    };
    for value in ["", "x", "V1.2_rc-3", &long('v', 63)] {
        assert_eq!(faults_of(&with(value)), Vec::<String>::new(), "{value:?}");
    }
    for value in ["-", "a-", ".a", "a b", "a/b", "\n", "é", &long('v', 64)] {
        assert_eq!(paths_of(&with(value)), [r#"metadata.labels["app"]"#], "{value:?}");
    }
}

#[test]
fn annotations_are_bounded_together() {
    let with = |bytes: usize| {
        let mut meta = ObjectMeta::new("a");
        meta.annotations.insert("note".into(), long('x', bytes - "note".len()));
        meta
    };
    assert_eq!(faults_of(&with(ANNOTATIONS_LIMIT)), Vec::<String>::new());
    assert_eq!(paths_of(&with(ANNOTATIONS_LIMIT + 1)), ["metadata.annotations"]);
    let mut meta = with(10);
    meta.annotations.insert("a note".into(), "any \0 text".into());
    assert_eq!(paths_of(&meta), [r#"metadata.annotations["a note"]"#]);
}

#[test]
fn finalizers_are_names_without_white_space() {
    let with = |names: &[&str]| ObjectMeta {
        finalizers: names.iter().map(ToString::to_string).collect(),
        ..ObjectMeta::new("a")
    };
    let rows: &[(&[&str], &[&str])] = &[
        (&["foreground", "example.com/Volume_1"], &[]),
        (&[""], &["metadata.finalizers[0]"]),
        (&["a", "a b"], &["metadata.finalizers[1]"]),
        (&["a\n"], &["metadata.finalizers[0]"]),
        (&["a\u{7}"], &["metadata.finalizers[0]"]),
        (&["a", "b", "a"], &["metadata.finalizers[2]"]),
        (&["a", "a", "a"], &["metadata.finalizers[1]", "metadata.finalizers[2]"]),
    ];
    for (finalizers, expected) in rows {
        assert_eq!(paths_of(&with(finalizers)), *expected, "{finalizers:?}");
    }
    assert_eq!(faults_of(&with(&[&long('f', 253)])), Vec::<String>::new());
    assert_eq!(paths_of(&with(&[&long('f', 254)])), ["metadata.finalizers[0]"]);
}

#[test]
fn g1_owners_live_in_the_objects_namespace_or_in_none() {
    let with = |namespace: Option<&str>, owners: Vec<OwnerReference>| ObjectMeta {
        namespace: namespace.map(Into::into),
        uid: Uid::from("self"),
        owner_references: owners,
        ..ObjectMeta::new("a")
    };
    let node = || owner("Node", ObjectKey::new("n"), "u1");
    let web = || owner("Web", ObjectKey::namespaced("x", "w"), "u2");
    let rows = [
        ("cluster-wide owner", with(Some("x"), vec![node()]), vec![]),
        ("same namespace", with(Some("x"), vec![web(), node()]), vec![]),
        ("other namespace", with(Some("y"), vec![node(), web()]), vec!["[1].namespace"]),
        ("namespaced owner of a cluster-wide object", with(None, vec![web()]), vec!["[0].namespace"]),
        ("no uid", with(None, vec![owner("Node", ObjectKey::new("n"), "")]), vec!["[0].uid"]),
        ("itself", with(None, vec![owner("Node", ObjectKey::new("a"), "self")]), vec!["[0].uid"]),
        (
            "no kind, bad name",
            with(None, vec![owner("", ObjectKey::new("N"), "u")]),
            vec!["[0].kind", "[0].name"],
        ),
        ("twice", with(None, vec![node(), node()]), vec!["[1].uid"]),
        (
            "no uid twice",
            with(None, vec![owner("A", ObjectKey::new("n"), ""), owner("A", ObjectKey::new("n"), "")]),
            vec!["[0].uid", "[1].uid"],
        ),
        (
            "two controllers",
            with(
                Some("x"),
                vec![
                    OwnerReference { controller: true, ..node() },
                    OwnerReference { controller: true, ..web() },
                ],
            ),
            vec![""],
        ),
    ];
    for (row, meta, expected) in rows {
        let expected: Vec<String> =
            expected.iter().map(|end| format!("metadata.ownerReferences{end}")).collect();
        assert_eq!(paths_of(&meta), expected, "{row}");
    }
}

#[test]
fn all_faults_come_at_once() {
    let mut meta = ObjectMeta::new("A");
    meta.namespace = Some("B".into());
    meta.labels.insert("c d".into(), "-".into());
    meta.annotations.insert("e f".into(), String::new());
    meta.finalizers.push(String::new());
    meta.owner_references.push(owner("", ObjectKey::new("g"), ""));
    assert_eq!(
        paths_of(&meta),
        [
            "metadata.name",
            "metadata.namespace",
            r#"metadata.labels["c d"]"#,
            r#"metadata.labels["c d"]"#,
            r#"metadata.annotations["e f"]"#,
            "metadata.finalizers[0]",
            "metadata.ownerReferences[0].kind",
            "metadata.ownerReferences[0].uid",
        ]
    );
}

/// Metadata that breaks every rule at once, as if it had been stored before there were rules.
fn ancient() -> ObjectMeta {
    let mut meta = ObjectMeta::new("OLD NAME");
    meta.labels.insert("bad label".into(), "bad value!".into());
    meta.annotations.insert("bad note".into(), long('x', 2 * ANNOTATIONS_LIMIT));
    meta.finalizers = vec!["bad finalizer".into(), "twice".into(), "twice".into(), "good".into()];
    let controller = |uid: &str| OwnerReference { controller: true, ..owner("", ObjectKey::new("N"), uid) };
    meta.owner_references = vec![controller("a"), controller("b")];
    meta
}

#[test]
fn a_change_answers_only_for_what_it_brings() {
    type Change = fn(&mut ObjectMeta);
    let rows: &[(&str, Change, &[&str])] = &[
        ("nothing", |_| {}, &[]),
        ("a finalizer removed", |m| drop(m.finalizers.remove(0)), &[]),
        ("the good finalizer removed", |m| drop(m.finalizers.pop()), &[]),
        ("one of two equal finalizers removed", |m| drop(m.finalizers.remove(1)), &[]),
        ("finalizers in another order", |m| m.finalizers.reverse(), &[]),
        ("a third equal finalizer", |m| m.finalizers.push("twice".into()), &["metadata.finalizers[4]"]),
        ("a good label", |m| drop(m.labels.insert("app".into(), "x".into())), &[]),
        ("the value repaired", |m| drop(m.labels.insert("bad label".into(), "x".into())), &[]),
        (
            "another bad value",
            |m| drop(m.labels.insert("bad label".into(), "-".into())),
            &[r#"metadata.labels["bad label"]"#],
        ),
        (
            "notes shortened",
            |m| drop(m.annotations.insert("bad note".into(), long('x', 2 * ANNOTATIONS_LIMIT - 1))),
            &[],
        ),
        (
            "notes lengthened",
            |m| drop(m.annotations.insert("n".into(), String::new())),
            &["metadata.annotations"],
        ),
        ("an owner removed", |m| drop(m.owner_references.remove(0)), &[]),
        (
            "a third controller",
            |m| {
                let third = OwnerReference { controller: true, ..owner("K", ObjectKey::new("n"), "c") };
                m.owner_references.push(third);
            },
            &["metadata.ownerReferences"],
        ),
        (
            "an owner again",
            |m| {
                m.owner_references
                    .push(OwnerReference { controller: false, ..m.owner_references[0].clone() });
            },
            &[
                "metadata.ownerReferences[2].kind",
                "metadata.ownerReferences[2].name",
                "metadata.ownerReferences[2].uid",
            ],
        ),
        (
            "a bad owner",
            |m| m.owner_references.push(owner("K", ObjectKey::new("n"), "")),
            &["metadata.ownerReferences[2].uid"],
        ),
    ];
    for (row, change, expected) in rows {
        let (old, mut new) = (ancient(), ancient());
        change(&mut new);
        let mut faults = Faults::default();
        validate_meta_change(&old, &new, &mut faults);
        let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, *expected, "{row}: {faults}");
    }
}

#[test]
fn a_huge_name_is_shortened_in_the_answer() {
    let mut meta = ObjectMeta::new("a");
    meta.labels.insert(long('?', 1_000_000), long('?', 1_000_000));
    for fault in faults_of(&meta) {
        assert!(fault.len() < 400, "{} bytes", fault.len());
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_every_accepted_name_is_a_key(text in any::<String>(), ascii in "[a-zA-Z0-9._/ -]{0,70}") {
        for text in [&text, &ascii] {
            let mut meta = ObjectMeta::new(text.clone());
            let named = paths_of(&meta).is_empty();
            if named {
                prop_assert!(!text.contains(['/', '\0']) && text.is_ascii() && *text == text.to_lowercase());
                prop_assert!((1..=253).contains(&text.len()));
                prop_assert_eq!(ObjectKey::new(text).to_string(), text.clone());
            }
            meta.namespace = Some(text.clone());
            meta.labels.insert(text.clone(), text.clone());
            meta.annotations.insert(text.clone(), text.clone());
            meta.finalizers.push(text.clone());
            meta.owner_references.push(owner(text, ObjectKey::namespaced(text, text), text));
            let paths = paths_of(&meta);
            prop_assert_eq!(named, !paths.contains(&"metadata.name".to_string()));
        }
    }
}
