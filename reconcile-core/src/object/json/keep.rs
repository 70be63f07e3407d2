//! Puts fields that a type does not know back into what it writes.
//!
//! A field goes where it was. Where the way leads through a list, the item is looked for: the one that is still
//! equal, or the one with the same uid or name. What was in an item that is gone, goes with it.

use serde_json::Value;

use super::path::{Path, Step};

/// Puts the fields at `paths` of `old` into `new`, where `back` is `old` without them, as its type writes it.
/// Never replaces anything.
pub(super) fn put_back(paths: &[Path], old: &Value, back: &Value, new: &mut Value) {
    for path in paths {
        if let Some((last, way)) = path.0.split_last() {
            put(way, last, old, Some(back), new);
        }
    }
}

fn put(way: &[Step], last: &Step, old: &Value, back: Option<&Value>, new: &mut Value) {
    let Some((step, way)) = way.split_first() else {
        if let (Step::Key(key), Some(field), Value::Object(fields)) = (last, child(old, last), new) {
            fields.entry(key.clone()).or_insert_with(|| field.clone());
        }
        return;
    };
    let Some(old) = child(old, step) else { return };
    let (below, place) = match step {
        Step::Key(key) => (back.and_then(|back| back.get(key)), new.get_mut(key)),
        Step::Index(index) => {
            let below = back.and_then(|back| written(*index, old, back));
            (below, item(*index, below, new))
        }
    };
    if let Some(new) = place {
        put(way, last, old, below, new);
    }
}

fn child<'a>(at: &'a Value, step: &Step) -> Option<&'a Value> {
    match step {
        Step::Key(key) => at.get(key),
        Step::Index(index) => at.get(*index),
    }
}

/// The item that was at `index` as its type writes it: a set comes back in another order, or shorter.
fn written<'a>(index: usize, item: &Value, back: &'a Value) -> Option<&'a Value> {
    let items = back.as_array()?;
    items
        .get(index)
        .filter(|other| agree(item, other))
        .or_else(|| items.iter().find(|other| agree(item, other)))
}

/// Whether no field that both have says different things.
fn agree(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Object(one), Value::Object(two)) => {
            one.iter().all(|(key, field)| two.get(key).is_none_or(|other| agree(field, other)))
        }
        // Their items may be in another order as well.
        (Value::Array(_), Value::Array(_)) => true,
        (one, two) => one == two,
    }
}

/// What has become of the item that was at `index`.
fn item<'a>(index: usize, before: Option<&Value>, new: &'a mut Value) -> Option<&'a mut Value> {
    let (before, items) = (before?, new.as_array_mut()?);
    let place = if items.get(index) == Some(before) {
        index
    } else {
        let equal = items.iter().position(|item| item == before);
        equal.or_else(|| items.iter().position(|item| same_name(item, before)))?
    };
    items.get_mut(place)
}

fn same_name(one: &Value, two: &Value) -> bool {
    let same = |key: &str| match (one.get(key), two.get(key)) {
        (Some(one), Some(two)) => Some(one == two),
        (None, None) => None,
        _ => Some(false),
    };
    match (same("uid"), same("name")) {
        (None, None) => false,
        (uid, name) => uid.unwrap_or(true) && name.unwrap_or(true),
    }
}
