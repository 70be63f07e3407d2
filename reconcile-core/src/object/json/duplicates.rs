//! Finds fields that are given twice, of which a JSON parser silently keeps the last.

use std::{collections::BTreeSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::path::{Path, Step};
use crate::Faults;

/// Adds a fault for every repeated key of any object in `text`, which is known to be JSON.
///
/// # Errors
///
/// What the parser says, if it is not.
pub(super) fn find(text: &str, faults: &mut Faults) -> Result<(), serde_json::Error> {
    let mut path = Path::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Keys { path: &mut path, faults }.deserialize(&mut deserializer)
}

/// Visits one value and forgets it.
struct Keys<'a> {
    /// Where the value is. Every visit leaves it as it was.
    path: &'a mut Path,
    faults: &'a mut Faults,
}

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for index in 0.. {
            self.path.0.push(Step::Index(index));
            let next = seq.next_element_seed(Keys { path: self.path, faults: self.faults })?;
            self.path.0.pop();
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            self.path.0.push(Step::Key(key.clone()));
            if !seen.insert(key) {
                self.faults.add(self.path.render(), "is given twice: keep one of them");
            }
            map.next_value_seed(Keys { path: self.path, faults: self.faults })?;
            self.path.0.pop();
        }
        Ok(())
    }
}
