//! The adapter that runs an [`ObjectReconciler`]: finds the object, keeps its finalizer, tells it of deletion.
//!
//! | the object | our finalizer | what happens |
//! |---|---|---|
//! | absent | | nothing to do |
//! | alive | none declared | `apply` |
//! | alive | missing | the finalizer is added, then `apply` |
//! | alive | present | `apply` |
//! | deleting | present | `cleanup`; removed only on [`Cleanup::done`] |
//! | deleting | missing, or none declared | nothing to do |
//!
//! Promises: the finalizer is on the stored object before `apply` is called for the first time, so that nothing
//! is left behind; it is never added to an object that is being deleted, nor to another incarnation under the
//! same name; `cleanup` is repeated until it says that it is done.
//!
//! Not here: conditions, and the cleanup of children, which the owner references take care of.

use std::fmt;

use reconcile_core::{
    Action, Error, ObjectKey, ObjectMeta, ObjectReconciler, Reconciler, Resource, Run, StoreFault, Uid,
    store::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER},
};

use crate::Api;

/// Runs an [`ObjectReconciler`] as a [`Reconciler`]; made by
/// [`Controller::managed`](crate::Controller::managed).
pub struct Managed<T: ObjectReconciler> {
    objects: Api<T::Object>,
    inner: T,
}

impl<T: ObjectReconciler> Managed<T> {
    pub(super) fn new(objects: &Api<T::Object>, inner: T) -> Self {
        Managed { objects: objects.clone(), inner }
    }
}

impl<T: ObjectReconciler> fmt::Debug for Managed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Managed")
            .field("kind", &T::Object::KIND)
            .field("finalizer", &T::FINALIZER)
            .finish_non_exhaustive()
    }
}

/// What is to be done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    AddFinalizerThenApply,
    Apply,
    Cleanup,
}

fn step(meta: &ObjectMeta, finalizer: Option<&str>) -> Step {
    let ours = finalizer.map(|finalizer| meta.has_finalizer(finalizer));
    match (meta.is_deleting(), ours) {
        (false, Some(false)) => Step::AddFinalizerThenApply,
        (false, Some(true) | None) => Step::Apply,
        (true, Some(true)) => Step::Cleanup,
        (true, Some(false) | None) => Step::Nothing,
    }
}

/// Adds the finalizer to the incarnation that was decided on, and to no other.
fn add_finalizer(meta: &mut ObjectMeta, uid: &Uid, finalizer: &str) {
    if meta.uid == *uid && !meta.is_deleting() && !meta.has_finalizer(finalizer) {
        meta.finalizers.push(finalizer.to_owned());
    }
}

/// Removes the finalizer from the incarnation that was cleaned up, and from no other.
fn remove_finalizer(meta: &mut ObjectMeta, uid: &Uid, finalizer: &str) {
    if meta.uid == *uid {
        meta.finalizers.retain(|name| name != finalizer);
    }
}

/// What is wrong with a finalizer's name.
pub(super) fn finalizer_fault(finalizer: &str) -> Option<&'static str> {
    if finalizer.is_empty() {
        Some("it is empty; use a name of your own, or `None` for a reconciler that leaves nothing behind")
    } else if finalizer == FOREGROUND_FINALIZER || finalizer == ORPHAN_FINALIZER {
        Some("it belongs to the garbage collector; use a name of your own")
    } else if finalizer.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        Some("it contains white space or a control character; use letters, digits, `-`, `.` and `/`")
    } else {
        None
    }
}

impl<T: ObjectReconciler> Reconciler for Managed<T> {
    type Key = ObjectKey;

    async fn reconcile(&self, key: &ObjectKey, run: &Run) -> Result<Action, Error> {
        let Some(object) = self.objects.get(key) else { return Ok(Action::await_change()) };
        let next = step(object.meta(), T::FINALIZER);
        let finalizer = T::FINALIZER.unwrap_or_default();
        match next {
            Step::Nothing => Ok(Action::await_change()),
            Step::Apply => self.inner.apply(object, run).await,
            Step::AddFinalizerThenApply => {
                let uid = object.meta().uid.clone();
                let added =
                    self.objects.modify(key, |live| add_finalizer(live.meta_mut(), &uid, finalizer)).await;
                let stored = match added {
                    Ok(stored) => stored,
                    // Gone: there is nothing left to apply.
                    Err(error) if error.fault() == StoreFault::NotFound => return Ok(Action::await_change()),
                    Err(error) => return Err(error.into()),
                };
                if stored.meta().uid != uid || step(stored.meta(), Some(finalizer)) != Step::Apply {
                    // Somebody deleted or replaced it meanwhile. That change has been delivered with the
                    // answer, and runs this key again.
                    return Ok(Action::await_change());
                }
                self.inner.apply(stored, run).await
            }
            Step::Cleanup => {
                let uid = object.meta().uid.clone();
                if let Some(wait) = self.inner.cleanup(object, run).await?.into_wait() {
                    return Ok(wait);
                }
                let removed =
                    self.objects.modify(key, |live| remove_finalizer(live.meta_mut(), &uid, finalizer)).await;
                match removed {
                    Ok(_) => Ok(Action::await_change()),
                    // Gone already: that is what the cleanup was for.
                    Err(error) if error.fault() == StoreFault::NotFound => Ok(Action::await_change()),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use reconcile_core::Timestamp;

    use super::*;

    fn meta(deleting: bool, finalizers: &[&str]) -> ObjectMeta {
        let mut meta = ObjectMeta::new("web");
        meta.uid = "one".into();
        meta.deleted_at = deleting.then_some(Timestamp::UNIX_EPOCH);
        meta.finalizers = finalizers.iter().map(|name| (*name).to_owned()).collect();
        meta
    }

    #[test]
    fn the_finalizer_comes_before_the_first_apply_and_the_cleanup_only_with_it() {
        let cases = [
            (false, &[][..], None, Step::Apply),
            (false, &[], Some("db"), Step::AddFinalizerThenApply),
            (false, &["other"], Some("db"), Step::AddFinalizerThenApply),
            (false, &["db"], Some("db"), Step::Apply),
            (true, &["db"], Some("db"), Step::Cleanup),
            (true, &["other"], Some("db"), Step::Nothing),
            (true, &["other"], None, Step::Nothing),
        ];
        for (deleting, finalizers, ours, expected) in cases {
            assert_eq!(
                step(&meta(deleting, finalizers), ours),
                expected,
                "{deleting} {finalizers:?} {ours:?}"
            );
        }
    }

    #[test]
    fn a_finalizer_is_added_to_a_living_object_of_the_right_incarnation_only() {
        let cases = [
            (meta(false, &["other"]), "one", &["other", "db"][..]),
            (meta(false, &["db"]), "one", &["db"]),
            (meta(true, &["other"]), "one", &["other"]),
            (meta(false, &[]), "two", &[]),
        ];
        for (mut stored, uid, expected) in cases {
            add_finalizer(&mut stored, &uid.into(), "db");
            assert_eq!(stored.finalizers, expected);
        }
    }

    #[test]
    fn a_finalizer_is_removed_from_the_incarnation_that_was_cleaned_up_only() {
        let mut stored = meta(true, &["a", "db", "b"]);
        remove_finalizer(&mut stored, &"two".into(), "db");
        assert_eq!(stored.finalizers, ["a", "db", "b"]);
        remove_finalizer(&mut stored, &"one".into(), "db");
        assert_eq!(stored.finalizers, ["a", "b"]);
    }

    #[test]
    fn finalizers_that_cannot_work_are_told_apart() {
        for bad in ["", FOREGROUND_FINALIZER, ORPHAN_FINALIZER, "a b", "a\n"] {
            assert!(finalizer_fault(bad).is_some(), "{bad:?}");
        }
        assert_eq!(finalizer_fault("example.org/volumes"), None);
    }
}
