//! Filters on changes: which changes of an object are worth a signal.
//!
//! A filter is any `Fn(&Change<R>) -> bool`; this module has the ones that everybody needs, and the words to
//! combine them. It is used with [`Controller::filter`](crate::Controller::filter) on the primary, and with
//! [`Watch::filter`](crate::Watch::filter) on a watched kind.
//!
//! Promises: the filters made here let every creation and every deletion pass, and the mark of deletion too,
//! so that none of them can hide from a controller that an object came, goes or is gone. Resync, the pause
//! annotation and explicit enqueues are no changes and meet no filter.
//!
//! Not here: what happens to a change that does not pass. It is dropped: the key is not signalled, and a later
//! change is judged on its own. A filter that panics lets its change pass, and is counted.
//!
//! # Examples
//!
//! ```
//! use reconcile_runtime::{Change, changed, core::{Object, Spec}};
//! use std::sync::Arc;
//!
//! #[derive(Clone, Debug, PartialEq)]
//! struct Web { replicas: usize }
//! impl Spec for Web {
//!     const KIND: &'static str = "Web";
//!     type Status = ();
//! }
//!
//! // New wanted states, and changed labels; nothing that only touches the status.
//! let filter = changed::or(changed::generation(), changed::labels());
//!
//! let old = Arc::new(Object::new("web", Web { replicas: 1 }));
//! let labelled = Arc::new(old.as_ref().clone().label("app", "web"));
//! assert!(filter(&Change::Added(old.clone())));
//! assert!(filter(&Change::Updated { old: old.clone(), new: labelled }));
//! assert!(!filter(&Change::Updated { old: old.clone(), new: old }));
//! ```

use reconcile_core::Resource;

use crate::Change;

/// Updates that changed the wanted state: the generation. The usual filter of a controller that writes the
/// status of its own primary and does not want to see it again.
pub fn generation<R: Resource>() -> impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static {
    updates(|old: &R, new: &R| old.meta().generation != new.meta().generation)
}

/// Updates that changed a label.
pub fn labels<R: Resource>() -> impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static {
    updates(|old: &R, new: &R| old.meta().labels != new.meta().labels)
}

/// Updates that changed an annotation.
pub fn annotations<R: Resource>() -> impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static {
    updates(|old: &R, new: &R| old.meta().annotations != new.meta().annotations)
}

/// Updates that changed the spec, compared by [`Resource::spec_eq`]. [`generation`] is cheaper, and says the
/// same but for the mark of deletion, which both let pass.
pub fn spec<R: Resource>() -> impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static {
    updates(|old: &R, new: &R| !old.spec_eq(new))
}

/// Updates that changed the status.
pub fn status<R: Resource>() -> impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static {
    updates(|old: &R, new: &R| old.status() != new.status())
}

/// What passes `a`, `b`, or both.
pub fn or<R: Resource>(
    a: impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static,
    b: impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static,
) -> impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static {
    move |change| a(change) || b(change)
}

/// What passes both `a` and `b`.
pub fn and<R: Resource>(
    a: impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static,
    b: impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static,
) -> impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static {
    move |change| a(change) && b(change)
}

/// The updates that do not pass `filter`. Creation, deletion and the mark of deletion pass, as with every
/// filter of this module; to turn a closure of your own round wholly, write `!` inside it.
///
/// # Examples
///
/// ```
/// # use reconcile_runtime::{changed, core::{Object, Spec}};
/// # #[derive(Clone, Debug, PartialEq)]
/// # struct Web;
/// # impl Spec for Web { const KIND: &'static str = "Web"; type Status = (); }
/// // Everything but what only changed the status.
/// let filter = changed::not(changed::status::<Object<Web>>());
/// # let web = std::sync::Arc::new(Object::new("a", Web));
/// # assert!(filter(&reconcile_runtime::Change::Deleted(web)));
/// ```
pub fn not<R: Resource>(
    filter: impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static,
) -> impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static {
    move |change| always_passes(change) || !filter(change)
}

/// A filter that judges updates only.
fn updates<R: Resource>(
    differs: impl Fn(&R, &R) -> bool + Clone + Send + Sync + 'static,
) -> impl Fn(&Change<R>) -> bool + Clone + Send + Sync + 'static {
    move |change| always_passes(change) || change.old().is_none_or(|old| differs(old, change.object()))
}

/// What no filter of this module may hide: a controller that misses the mark of deletion would keep its
/// finalizer for ever.
fn always_passes<R: Resource>(change: &Change<R>) -> bool {
    match change {
        Change::Added(_) | Change::Deleted(_) => true,
        Change::Updated { old, new } => !old.meta().is_deleting() && new.meta().is_deleting(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reconcile_core::{Object, Spec, Timestamp};

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Web(usize);
    impl Spec for Web {
        const KIND: &'static str = "Web";
        type Status = usize;
    }
    type Filter = Box<dyn Fn(&Change<Object<Web>>) -> bool>;

    fn updated(change: impl FnOnce(&mut Object<Web>)) -> Change<Object<Web>> {
        let old = Object::new("web", Web(1));
        let mut new = old.clone();
        change(&mut new);
        Change::Updated { old: Arc::new(old), new: Arc::new(new) }
    }

    #[test]
    fn each_filter_passes_its_own_part_of_an_update_and_nothing_else() {
        let filters: [(&str, Filter); 5] = [
            ("generation", Box::new(generation())),
            ("labels", Box::new(labels())),
            ("annotations", Box::new(annotations())),
            ("spec", Box::new(spec())),
            ("status", Box::new(status())),
        ];
        let changes = [
            ("generation", updated(|web| web.meta.generation = 2)),
            ("labels", updated(|web| drop(web.meta.labels.insert("a".into(), "b".into())))),
            ("annotations", updated(|web| drop(web.meta.annotations.insert("a".into(), "b".into())))),
            ("spec", updated(|web| web.spec.0 = 2)),
            ("status", updated(|web| web.status = 2)),
            ("none", updated(|web| web.meta.revision.0 = 9)),
        ];
        for (part, filter) in &filters {
            for (changed, change) in &changes {
                assert_eq!(filter(change), part == changed, "filter {part}, change of {changed}");
            }
        }
    }

    #[test]
    fn no_filter_hides_that_an_object_came_goes_or_is_gone() {
        let web = Arc::new(Object::new("web", Web(1)));
        let marked = updated(|web| web.meta.deleted_at = Some(Timestamp::UNIX_EPOCH));
        let filters: [Filter; 8] = [
            Box::new(generation()),
            Box::new(labels()),
            Box::new(annotations()),
            Box::new(spec()),
            Box::new(status()),
            Box::new(not(generation())),
            Box::new(and(labels(), status())),
            Box::new(or(labels(), status())),
        ];
        for (index, filter) in filters.iter().enumerate() {
            assert!(filter(&Change::Added(web.clone())), "filter {index}");
            assert!(filter(&Change::Deleted(web.clone())), "filter {index}");
            assert!(filter(&marked), "filter {index}");
        }
    }

    #[test]
    fn combinators_follow_their_words() {
        let both = updated(|web| {
            web.meta.generation = 2;
            web.status = 2;
        });
        let one = updated(|web| web.status = 2);
        assert!(and(generation(), status())(&both) && !and(generation(), status())(&one));
        assert!(or(generation(), status())(&one) && !or(generation(), labels())(&one));
        assert!(not(generation())(&one) && !not(generation())(&both));
        // A closure of the user's own hides what it wants to.
        let big = |change: &Change<Object<Web>>| change.object().spec.0 > 3;
        assert!(!and(generation(), big)(&Change::Added(Arc::new(Object::new("web", Web(1))))));
    }
}
