//! The rules of metadata: names, labels, annotations, finalizers and owners.
//!
//! They are those of Kubernetes, which takes them from the host names of RFC 1123, so that an object moves
//! between the stores of this library and a Kubernetes API unchanged:
//!
//! | field | rule |
//! |---|---|
//! | `name` | 1 to 253 bytes of `a`-`z`, `0`-`9`, `-` and `.`; every part between dots starts and ends with a letter or digit |
//! | `namespace` | the same without dots, 1 to 63 bytes |
//! | label name | `name` or `prefix/name`; the prefix as an object's name, the name 1 to 63 bytes of letters, digits, `-`, `_` and `.`, letter or digit first and last |
//! | label value | empty, or as the name of a label |
//! | annotation name | as the name of a label |
//! | annotations | names and values together at most 256 KiB |
//! | finalizer | 1 to 253 bytes, no white space or control characters, none twice |
//! | owner | kind, name and uid are given; in the object's namespace or in none; none twice, not the object itself |
//! | owners | at most one is the controller |
//!
//! Promises: all faults are found at once, each with its path, such as `metadata.labels["app"]`. On a change
//! ([`validate_meta_change`]) only what the change brings is checked, so that a rule that is younger than a
//! stored object never stands in the way of removing a finalizer or repairing a label.
//!
//! Not here: uid, revision, generation and timestamps, which the store sets; and anything about a spec.

mod text;

#[cfg(test)]
mod tests;

use super::{Faults, ObjectMeta, OwnerReference};

pub(super) use text::shown;

use text::{LABEL_NAME, LABEL_PREFIX, LABEL_VALUE, NAME, NAMESPACE};

/// The most bytes that names and values of all annotations may have together: what Kubernetes takes. They are
/// read with every list of the kind, so they are for notes and not for content.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The longest finalizer in bytes; it is a name, and has a name's limit.
const FINALIZER_LIMIT: usize = 253;

/// Checks the metadata of a new object. The rules are listed at [`validate_meta_change`].
///
/// # Examples
///
/// ```
/// use reconcile_core::{Faults, ObjectMeta, object::validate_meta};
///
/// let mut meta = ObjectMeta::new("Web 1");
/// meta.labels.insert("app".into(), "-".into());
/// let mut faults = Faults::default();
/// validate_meta(&meta, &mut faults);
/// let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
/// assert_eq!(paths, ["metadata.name", r#"metadata.labels["app"]"#]);
/// ```
pub fn validate_meta(meta: &ObjectMeta, faults: &mut Faults) {
    NAME.check("metadata.name", &meta.name, faults);
    if let Some(namespace) = &meta.namespace {
        NAMESPACE.check("metadata.namespace", namespace, faults);
    }
    validate_meta_change(&ObjectMeta::default(), meta, faults);
}

/// Checks what `new` brings that `old`, which is stored, does not have. Name and namespace cannot change, and
/// are not looked at.
///
/// The rules are those of Kubernetes and RFC 1123: label and annotation names are `name` or `prefix/name` with
/// a name of at most 63 bytes, label values are empty or at most 63 bytes of letters, digits, `-`, `_` and `.`,
/// all annotations together have at most 256 KiB, a finalizer has 1 to 253 bytes without white space, an owner
/// has a kind, a name and a uid, and lives in the object's namespace or in none, and at most one owner is the
/// controller.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Faults, ObjectMeta, object::validate_meta_change};
///
/// let mut old = ObjectMeta::new("web");
/// old.labels.insert("written before there were rules".into(), "!".into());
/// let mut new = old.clone();
/// new.finalizers.push("no spaces please".into());
/// let mut faults = Faults::default();
/// validate_meta_change(&old, &new, &mut faults);
/// assert_eq!(faults.len(), 1, "{faults}");
/// ```
pub fn validate_meta_change(old: &ObjectMeta, new: &ObjectMeta, faults: &mut Faults) {
    labels(old, new, faults);
    annotations(old, new, faults);
    finalizers(old, new, faults);
    owners(old, new, faults);
}

fn labels(old: &ObjectMeta, new: &ObjectMeta, faults: &mut Faults) {
    for (name, value) in &new.labels {
        let before = old.labels.get(name);
        if before == Some(value) {
            continue;
        }
        let path = format!("metadata.labels[{}]", shown(name));
        if before.is_none() {
            qualified_name(&path, name, faults);
        }
        if !value.is_empty() {
            LABEL_VALUE.check(&path, value, faults);
        }
    }
}

fn annotations(old: &ObjectMeta, new: &ObjectMeta, faults: &mut Faults) {
    for name in new.annotations.keys().filter(|name| !old.annotations.contains_key(*name)) {
        qualified_name(&format!("metadata.annotations[{}]", shown(name)), name, faults);
    }
    let size = |meta: &ObjectMeta| -> usize {
        meta.annotations.iter().map(|(name, value)| name.len().saturating_add(value.len())).sum()
    };
    let bytes = size(new);
    // Shrinking what is too large must be possible step by step.
    if bytes > ANNOTATIONS_LIMIT && bytes > size(old) {
        faults.add(
            "metadata.annotations",
            format!("have {bytes} bytes together, at most {ANNOTATIONS_LIMIT} are kept"),
        );
    }
}

/// `name` or `prefix/name`.
fn qualified_name(path: &str, text: &str, faults: &mut Faults) {
    match text.split_once('/') {
        None => LABEL_NAME.check(path, text, faults),
        Some((prefix, name)) => {
            LABEL_PREFIX.check(path, prefix, faults);
            LABEL_NAME.check(path, name, faults);
        }
    }
}

fn finalizers(old: &ObjectMeta, new: &ObjectMeta, faults: &mut Faults) {
    for (index, name) in new.finalizers.iter().enumerate() {
        let known = count(&old.finalizers, name);
        let place = new.finalizers.iter().take(index).filter(|other| *other == name).count();
        if place < known {
            continue;
        }
        let path = format!("metadata.finalizers[{index}]");
        if place > 0 {
            faults.add(path, format!("{} is already in the list", shown(name)));
            continue;
        }
        if name.is_empty() {
            faults.add(path, "must not be empty");
            continue;
        }
        if name.len() > FINALIZER_LIMIT {
            faults.add(&path, format!("has {} bytes, at most {FINALIZER_LIMIT} are allowed", name.len()));
        }
        if name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            faults.add(&path, format!("{} must not contain white space or control characters", shown(name)));
        }
    }
}

fn count(list: &[String], text: &str) -> usize {
    list.iter().filter(|other| *other == text).count()
}

fn owners(old: &ObjectMeta, new: &ObjectMeta, faults: &mut Faults) {
    for (index, owner) in new.owner_references.iter().enumerate() {
        let same = |other: &&OwnerReference| *other == owner;
        let known = old.owner_references.iter().filter(same).count();
        if new.owner_references.iter().take(index).filter(same).count() < known {
            continue;
        }
        let path = format!("metadata.ownerReferences[{index}]");
        one_owner(&path, owner, new, faults);
        let twice = |other: &OwnerReference| !owner.uid.is_empty() && other.uid == owner.uid;
        if new.owner_references.iter().take(index).any(twice) {
            faults.add(format!("{path}.uid"), format!("{} is already an owner", shown(owner.uid.as_str())));
        }
    }
    let controllers =
        |meta: &ObjectMeta| meta.owner_references.iter().filter(|owner| owner.controller).count();
    let now = controllers(new);
    if now > controllers(old).max(1) {
        faults.add(
            "metadata.ownerReferences",
            format!("{now} owners are marked as the controller, at most one can be"),
        );
    }
}

fn one_owner(path: &str, owner: &OwnerReference, meta: &ObjectMeta, faults: &mut Faults) {
    if owner.kind.is_empty() {
        faults.add(format!("{path}.kind"), "must not be empty");
    }
    NAME.check(&format!("{path}.name"), owner.key.name(), faults);
    if owner.uid.is_empty() {
        faults.add(format!("{path}.uid"), "must not be empty: an owner has to be stored first");
    } else if owner.uid == meta.uid {
        faults.add(format!("{path}.uid"), "is the object's own: an object cannot own itself");
    }
    match (owner.key.namespace(), meta.namespace.as_deref()) {
        (None, _) => {}
        (Some(theirs), Some(ours)) if theirs == ours => {}
        (Some(theirs), Some(ours)) => faults.add(
            format!("{path}.namespace"),
            format!(
                "is {}, but an owner lives in the object's namespace {} or in none",
                shown(theirs),
                shown(ours)
            ),
        ),
        (Some(theirs), None) => faults.add(
            format!("{path}.namespace"),
            format!("is {}, but the owner of a cluster-wide object is cluster-wide", shown(theirs)),
        ),
    }
}
