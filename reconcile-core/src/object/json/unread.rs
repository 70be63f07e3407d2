//! Finds the fields of a document that its type does not read.
//!
//! No attribute on the type is needed, and `flatten`, untagged enums, renames and aliases are seen through: a
//! field that comes back when the typed value is written again is read; of each other one it is tried out, by
//! putting something absurd in its place. A type that reads the field then fails, or gives another value.
//!
//! What it cannot tell apart: a field whose reader takes anything at all and makes the same of it.

use serde_json::{Map, Value};

use super::path::{Path, Step};

/// The most fields that are tried out one by one. Each costs a reading of the whole document; a document that
/// needs more is either absurd or of another type altogether.
const TRIES: usize = 256;

/// What was found.
#[derive(Default)]
pub(super) struct Unread {
    /// The topmost fields that are not read.
    pub(super) fields: Vec<Path>,
    /// Fields beyond [`TRIES`], of which nobody knows.
    pub(super) untried: Vec<Path>,
}

/// The fields of `document` that are not read, where `back` is the typed value written again, and `same` says
/// whether a document still reads as the same value.
pub(super) fn find(document: &Value, back: &Value, same: &dyn Fn(&Value) -> bool) -> Unread {
    let mut search = Search { copy: document.clone(), same, tries: 0, found: Unread::default() };
    search.descend(document, Some(back), &mut Path::default());
    search.found
}

struct Search<'a> {
    /// The document, with the field that is being tried out replaced. Whole again between two tries.
    copy: Value,
    same: &'a dyn Fn(&Value) -> bool,
    tries: usize,
    found: Unread,
}

impl Search<'_> {
    /// Looks at everything below `at`, which is itself read.
    fn descend(&mut self, at: &Value, back: Option<&Value>, path: &mut Path) {
        match at {
            Value::Object(fields) => {
                for (key, field) in fields {
                    path.0.push(Step::Key(key.clone()));
                    self.field(field, back.and_then(|back| back.get(key)), path);
                    path.0.pop();
                }
            }
            Value::Array(items) => {
                // A set comes back in another order: its items differ then, and are tried out.
                for (index, item) in items.iter().enumerate() {
                    path.0.push(Step::Index(index));
                    self.descend(item, back.and_then(|back| back.get(index)), path);
                    path.0.pop();
                }
            }
            _ => {}
        }
    }

    fn field(&mut self, field: &Value, back: Option<&Value>, path: &mut Path) {
        match (field, back) {
            (field, Some(back)) if field == back => {}
            (Value::Object(_), Some(Value::Object(_))) | (Value::Array(_), Some(Value::Array(_))) => {
                self.descend(field, back, path);
            }
            _ if self.tries == TRIES => self.found.untried.push(path.clone()),
            _ if self.is_read(path) => self.descend(field, None, path),
            _ => self.found.fields.push(path.clone()),
        }
    }

    fn is_read(&mut self, path: &Path) -> bool {
        self.tries += 1;
        let Some(place) = path.in_mut(&mut self.copy) else {
            return true; // not reached: the copy has every path of the document
        };
        let field = std::mem::replace(place, absurd());
        let same = (self.same)(&self.copy);
        if let Some(place) = path.in_mut(&mut self.copy) {
            *place = field;
        }
        !same
    }
}

/// Fits no type, and in a type that takes anything it is not what was there.
fn absurd() -> Value {
    let mut fields = Map::new();
    fields.insert("\u{1}nobody has this field".to_owned(), Value::Array(vec![Value::Null]));
    Value::Object(fields)
}
