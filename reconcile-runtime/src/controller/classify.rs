//! What a change of an object means for a key: the pure part of every source.
//!
//! Promises: every change of the primary is exactly one of Input, Deletion and Observed, by the rules of
//! [`primary`]; the pause annotation is read by [`pause`], which knows no filter.
//!
//! Not here: whether a change is a run's own. The queue judges that when the run ends.

use reconcile_core::{CauseKind, ObjectMeta, Resource};

use crate::{
    change::{Change, Initial},
    queue::{Lane, SignalKind},
};

/// The annotation that pauses the reconciling of one object, with the value `"true"`.
///
/// The engine reads it on every change of a controller's primary, ahead of all filters: while it is there, the
/// key is parked, collects its causes and is explained as "paused"; when it goes, or the object is gone, the
/// key runs again. It pauses runs that have not started, and stops none.
pub const PAUSE_ANNOTATION: &str = "reconcile/paused";

/// The value of [`PAUSE_ANNOTATION`] that pauses. Any other value does not: a typo must not stop a controller.
const PAUSED: &str = "true";

/// Whether the annotation pauses this object.
fn is_paused(meta: &ObjectMeta) -> bool {
    meta.annotations.get(PAUSE_ANNOTATION).is_some_and(|value| value == PAUSED)
}

/// What a change does to the pause of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PauseStep {
    Nothing,
    Pause,
    Resume,
}

/// What a change of the primary does to the pause of its key.
pub(super) fn pause<R: Resource>(change: &Change<R>) -> PauseStep {
    let before = change.old().is_some_and(|old| is_paused(old.meta()));
    match change {
        // An object that is gone pauses nothing; its name may be used again.
        Change::Deleted(last) if is_paused(last.meta()) => PauseStep::Resume,
        Change::Deleted(_) => PauseStep::Nothing,
        Change::Added(new) | Change::Updated { new, .. } => match (before, is_paused(new.meta())) {
            (false, true) => PauseStep::Pause,
            (true, false) => PauseStep::Resume,
            (false, false) | (true, true) => PauseStep::Nothing,
        },
    }
}

/// What a change of the primary is for its key.
///
/// | change | signal |
/// |---|---|
/// | added | Input |
/// | updated, other generation or uid | Input |
/// | updated, anything else | Observed |
/// | deleted | Deletion |
pub(super) fn primary<R: Resource>(change: &Change<R>) -> SignalKind {
    match change {
        Change::Added(_) => SignalKind::Input,
        Change::Updated { old, new } => {
            let (old, new) = (old.meta(), new.meta());
            if old.generation != new.generation || old.uid != new.uid {
                SignalKind::Input
            } else {
                SignalKind::Observed
            }
        }
        Change::Deleted(_) => SignalKind::Deletion,
    }
}

/// The word for a change.
pub(super) fn cause_kind<R>(change: &Change<R>, initial: Initial) -> CauseKind {
    match (change, initial) {
        (Change::Deleted(_), _) => CauseKind::Deleted,
        (_, Initial::Yes) => CauseKind::Initial,
        (Change::Added(_), Initial::No) => CauseKind::Added,
        (Change::Updated { .. }, Initial::No) => CauseKind::Updated,
    }
}

/// The lane of a change: what was there at the start never goes ahead of news.
pub(super) fn lane(initial: Initial, lane: Lane) -> Lane {
    match initial {
        Initial::Yes => Lane::Low,
        Initial::No => lane,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reconcile_core::{Object, Spec};

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Web;
    impl Spec for Web {
        const KIND: &'static str = "Web";
        type Status = usize;
    }

    fn web(change: impl FnOnce(&mut Object<Web>)) -> Arc<Object<Web>> {
        let mut web = Object::new("web", Web);
        change(&mut web);
        Arc::new(web)
    }

    fn paused(value: &str) -> Arc<Object<Web>> {
        web(|web| drop(web.meta.annotations.insert(PAUSE_ANNOTATION.into(), value.into())))
    }

    #[test]
    fn changes_of_the_primary_are_input_deletion_or_observed() {
        let old = web(|_| ());
        let update = |new| Change::Updated { old: old.clone(), new };
        let cases = [
            (Change::Added(old.clone()), SignalKind::Input),
            (Change::Deleted(old.clone()), SignalKind::Deletion),
            (update(web(|web| web.meta.generation = 7)), SignalKind::Input),
            (update(web(|web| web.meta.uid = "other".into())), SignalKind::Input),
            (update(web(|web| web.status = 1)), SignalKind::Observed),
            (update(web(|web| drop(web.meta.labels.insert("a".into(), "b".into())))), SignalKind::Observed),
            (update(web(|web| web.meta.finalizers.push("x".into()))), SignalKind::Observed),
        ];
        for (change, expected) in cases {
            assert_eq!(primary(&change), expected, "{change:?}");
        }
    }

    #[test]
    fn the_pause_annotation_pauses_resumes_and_ends_with_its_object() {
        let (plain, on, off) = (web(|_| ()), paused("true"), paused("false"));
        let update = |old: &Arc<Object<Web>>, new: &Arc<Object<Web>>| Change::Updated {
            old: old.clone(),
            new: new.clone(),
        };
        let cases = [
            (Change::Added(plain.clone()), PauseStep::Nothing),
            (Change::Added(on.clone()), PauseStep::Pause),
            (Change::Added(off.clone()), PauseStep::Nothing),
            (update(&plain, &on), PauseStep::Pause),
            (update(&on, &on), PauseStep::Nothing),
            (update(&on, &plain), PauseStep::Resume),
            (update(&on, &off), PauseStep::Resume),
            (update(&plain, &plain), PauseStep::Nothing),
            (Change::Deleted(on), PauseStep::Resume),
            (Change::Deleted(plain), PauseStep::Nothing),
        ];
        for (change, expected) in cases {
            assert_eq!(pause(&change), expected, "{change:?}");
        }
    }

    #[test]
    fn what_was_there_at_the_start_is_low_and_called_initial() {
        let web = web(|_| ());
        let added = Change::Added(web.clone());
        assert_eq!(lane(Initial::Yes, Lane::High), Lane::Low);
        assert_eq!(lane(Initial::No, Lane::High), Lane::High);
        assert_eq!(cause_kind(&added, Initial::Yes), CauseKind::Initial);
        assert_eq!(cause_kind(&added, Initial::No), CauseKind::Added);
        assert_eq!(cause_kind(&Change::Deleted(web), Initial::Yes), CauseKind::Deleted);
    }
}
