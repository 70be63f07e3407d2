//! Conditions: one line each about one aspect of an object's state, as its status reports them.
//!
//! Promise: [`Conditions::set`] moves the transition time only when the status value flips, so that setting
//! the same condition again changes nothing and causes no write.
//!
//! Not here: which conditions a kind has, and a clock; the time is an argument.

use crate::Timestamp;

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can tell yet.
    #[default]
    Unknown,
}

/// One aspect of an object's state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct Condition {
    /// The aspect, such as `Ready`.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One word for programs, such as `PodsStarting`.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
    /// The generation of the object that this speaks of.
    pub observed_generation: u64,
    /// When `status` last changed; set by [`Conditions::set`].
    pub last_transition: Timestamp,
}

impl Condition {
    /// A condition about the object at `observed_generation`. Its transition time is set when it is stored.
    pub fn new(
        kind: impl Into<String>,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
        observed_generation: u64,
    ) -> Self {
        Condition {
            kind: kind.into(),
            status,
            reason: reason.into(),
            message: message.into(),
            observed_generation,
            last_transition: Timestamp::UNIX_EPOCH,
        }
    }
}

/// A list of conditions with at most one of each kind, in the order in which the kinds first appeared.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Condition, ConditionStatus, Conditions, Timestamp};
///
/// let mut conditions = Conditions::default();
/// let early = Timestamp::from_second(10).unwrap();
/// let late = Timestamp::from_second(20).unwrap();
/// let ready = Condition::new("Ready", ConditionStatus::True, "AllPods", "3 of 3 pods are ready", 1);
/// assert!(conditions.set(ready.clone(), early));
/// assert!(!conditions.set(ready, late), "the same again changes nothing");
/// assert_eq!(conditions.get("Ready").unwrap().last_transition, early);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Conditions(
    /// Kinds are distinct, in the order of their first appearance.
    Vec<Condition>,
);

impl Conditions {
    /// The condition of a kind.
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.kind == kind)
    }

    /// Whether the condition of a kind is there and true.
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Sets a condition; answers whether anything changed. The transition time moves to `now` only when the
    /// status value differs from the stored one.
    pub fn set(&mut self, mut condition: Condition, now: Timestamp) -> bool {
        match self.0.iter_mut().find(|old| old.kind == condition.kind) {
            None => {
                condition.last_transition = now;
                self.0.push(condition);
                true
            }
            Some(old) => {
                condition.last_transition =
                    if old.status == condition.status { old.last_transition } else { now };
                let changed = *old != condition;
                *old = condition;
                changed
            }
        }
    }

    /// Removes the condition of a kind; answers whether it was there.
    pub fn remove(&mut self, kind: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|condition| condition.kind != kind);
        self.0.len() != before
    }

    /// All conditions, in the order in which their kinds first appeared.
    pub fn iter(&self) -> std::slice::Iter<'_, Condition> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Conditions {
    type Item = &'a Condition;
    type IntoIter = std::slice::Iter<'a, Condition>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(status: ConditionStatus, message: &str, generation: u64) -> Condition {
        Condition::new("Ready", status, "Reason", message, generation)
    }

    #[test]
    fn s1_the_same_condition_again_changes_nothing() {
        let mut conditions = Conditions::default();
        assert!(conditions.set(ready(ConditionStatus::True, "m", 1), at(1)));
        let before = conditions.clone();
        for second in 2..12 {
            assert!(!conditions.set(ready(ConditionStatus::True, "m", 1), at(second)));
        }
        assert_eq!(conditions, before, "so that no store write follows");
    }

    #[test]
    fn s1_the_transition_time_moves_only_with_the_status() {
        let mut conditions = Conditions::default();
        let rows = [
            (ready(ConditionStatus::False, "m", 1), 1, true, 1),
            (ready(ConditionStatus::False, "another message", 1), 2, true, 1),
            (ready(ConditionStatus::True, "m", 1), 3, true, 3),
            (ready(ConditionStatus::Unknown, "m", 1), 4, true, 4),
        ];
        for (condition, now, changed, transition) in rows {
            assert_eq!(conditions.set(condition.clone(), at(now)), changed, "{condition:?}");
            assert_eq!(conditions.get("Ready").unwrap().last_transition, at(transition), "{condition:?}");
        }
    }

    #[test]
    fn s2_the_observed_generation_advances_without_a_transition() {
        let mut conditions = Conditions::default();
        conditions.set(ready(ConditionStatus::True, "m", 1), at(1));
        assert!(conditions.set(ready(ConditionStatus::True, "m", 2), at(2)));
        let condition = conditions.get("Ready").unwrap();
        assert_eq!((condition.observed_generation, condition.last_transition), (2, at(1)));
    }

    #[test]
    fn there_is_one_condition_of_a_kind_in_the_order_of_appearance() {
        let mut conditions = Conditions::default();
        for kind in ["B", "A", "B", "C", "A"] {
            conditions.set(Condition::new(kind, ConditionStatus::True, "", "", 1), at(1));
        }
        let kinds: Vec<&str> = conditions.iter().map(|condition| condition.kind.as_str()).collect();
        assert_eq!(kinds, ["B", "A", "C"]);
        assert!(conditions.is_true("A") && !conditions.is_true("D"));
        assert!(conditions.remove("A") && !conditions.remove("A"));
        assert_eq!((conditions.len(), conditions.is_empty()), (2, false));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn the_json_form_is_a_list_with_types() {
        let mut conditions = Conditions::default();
        conditions.set(ready(ConditionStatus::True, "m", 1), at(0));
        let text = serde_json::to_string(&conditions).unwrap();
        let expected = r#"[{"type":"Ready","status":"True","reason":"Reason","message":"m","observedGeneration":1,"lastTransition":"1970-01-01T00:00:00Z"}]"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Conditions>(&text).unwrap(), conditions);
    }
}
