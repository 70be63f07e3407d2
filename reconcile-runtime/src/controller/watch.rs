//! Watches: changes of one kind wake keys of a controller.
//!
//! A watch maps an object to the keys that it concerns. It is called on the old and on the new object of an
//! update, so that a key that an object points away from hears of it too.
//!
//! Promises: changes are mapped in the order of the cache; the mapper, its iterator and the drop of what it
//! gives are guarded each time; an old object that cannot be mapped does not keep the new one from being mapped.
//!
//! Not here: whether a change is worth a run. The reconciler reads state, and finds nothing to do.

use std::{fmt, sync::Arc};

use reconcile_core::{Cause, CauseKind, Key, ObjectKey, Resource};

use super::{
    classify::{cause_kind, lane},
    source::{KindId, Line, Source},
};
use crate::{
    Api,
    change::{Change, Initial, Step, Subscriber},
    manager::supervise::LoopSpec,
    queue::{Lane, Signal, SignalKind},
};

/// A filter on changes, shared.
pub(super) type Filter<R> = Arc<dyn Fn(&Change<R>) -> bool + Send + Sync>;

/// Gives each key that an object concerns to the second argument.
type Mapper<R, K> = Arc<dyn Fn(&R, &mut dyn FnMut(K)) + Send + Sync>;

/// A watch on a kind, with its options. [`Controller::watches`](crate::Controller::watches) and
/// [`Controller::owns`](crate::Controller::owns) are the short forms.
///
/// Without options it is a mere observation: its changes run a key, and bring a failing key's retry forward,
/// but do not count as a new wanted state. [`as_input`](Self::as_input) is for kinds that are part of the
/// wanted state, such as a template or a secret.
///
/// # Examples
///
/// ```
/// use reconcile_runtime::prelude::*;
/// use reconcile_runtime::{Lane, Watch, changed};
/// # #[derive(Clone, Debug, PartialEq)]
/// # struct WebSpec { template: String }
/// # impl Spec for WebSpec { const KIND: &'static str = "Web"; type Status = (); }
/// # type Web = Object<WebSpec>;
/// # #[derive(Clone, Debug, PartialEq)]
/// # struct TemplateSpec;
/// # impl Spec for TemplateSpec { const KIND: &'static str = "Template"; type Status = (); }
/// # type Template = Object<TemplateSpec>;
/// # fn build(webs: Api<Web>, templates: Api<Template>, reconciler: impl Reconciler<Key = ObjectKey>) {
/// let index = webs.clone();
/// let uses = move |template: &Template| {
///     let name = template.meta.name.clone();
///     index.list().into_iter().filter(move |web| web.spec.template == name).map(|web| web.key())
/// };
/// let controller = Controller::for_objects("web", &webs, reconciler).watches_with(
///     Watch::new(&templates, uses).as_input().filter(changed::generation()).lane(Lane::High),
/// );
/// # let _ = controller;
/// # }
/// ```
#[must_use = "a watch does nothing until it is given to a controller"]
pub struct Watch<R: Resource, K> {
    api: Api<R>,
    map: Mapper<R, K>,
    filters: Vec<Filter<R>>,
    kind: SignalKind,
    lane: Lane,
}

impl<R: Resource, K: Key> Watch<R, K> {
    /// A watch: `map` says which keys an object concerns.
    pub fn new<I>(api: &Api<R>, map: impl Fn(&R) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = K>,
    {
        Watch {
            api: api.clone(),
            map: Arc::new(move |object, each| map(object).into_iter().for_each(each)),
            filters: Vec::new(),
            kind: SignalKind::Observed,
            lane: Lane::Normal,
        }
    }

    /// Counts each change as a new wanted state: a failing key runs at once and starts its backoff over.
    pub fn as_input(mut self) -> Self {
        self.kind = SignalKind::Input;
        self
    }

    /// Lets only these changes pass. Several filters must all pass. See [`changed`](crate::changed).
    pub fn filter(mut self, filter: impl Fn(&Change<R>) -> bool + Send + Sync + 'static) -> Self {
        self.filters.push(Arc::new(filter));
        self
    }

    /// The lane of its signals; [`Lane::Normal`] if not set. What is there at the start is always
    /// [`Lane::Low`].
    pub fn lane(mut self, lane: Lane) -> Self {
        self.lane = lane;
        self
    }
}

impl<R: Resource> Watch<R, ObjectKey> {
    /// A watch on children: a change wakes the owner of kind `P` that the child's controller reference names.
    ///
    /// It goes by the reference's kind and key and not by its uid, so that a new owner under an old name hears
    /// when its predecessor's child is gone.
    pub fn children_of<P: Resource>(api: &Api<R>) -> Self {
        Watch {
            api: api.clone(),
            map: children::<R, P>(),
            filters: Vec::new(),
            kind: SignalKind::Observed,
            lane: Lane::Normal,
        }
    }
}

/// Maps a child to its controller owner, if that is of kind `P`.
fn children<R: Resource, P: Resource>() -> Mapper<R, ObjectKey> {
    Arc::new(|child: &R, each| {
        if let Some(owner) = child.meta().controller()
            && *owner.kind == *P::KIND
        {
            each(owner.key.clone());
        }
    })
}

impl<R: Resource, K> fmt::Debug for Watch<R, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("kind", &R::KIND)
            .field("filters", &self.filters.len())
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

impl<R: Resource, K: Key> Source<K> for Watch<R, K> {
    fn name(&self) -> String {
        format!("watch of {}", R::KIND)
    }

    fn kind(&self) -> Option<KindId> {
        Some(KindId::of(&self.api))
    }

    fn connect(self: Box<Self>, line: Line<K>) -> Vec<LoopSpec> {
        let Watch { api, map, filters, kind, lane } = *self;
        let watching = Watching { line: line.clone(), map, filters, kind, lane };
        line.subscribe(&api, Arc::new(watching));
        Vec::new()
    }
}

/// A watch that is connected.
struct Watching<R, K> {
    line: Line<K>,
    map: Mapper<R, K>,
    filters: Vec<Filter<R>>,
    kind: SignalKind,
    lane: Lane,
}

impl<R: Resource, K: Key> Watching<R, K> {
    fn signal(&self, key: K, lane: Lane, cause: &Cause, step: Option<Step>) {
        self.line.signal(key, Signal { kind: self.kind, lane, cause: cause.clone(), step });
    }
}

impl<R: Resource, K: Key> Subscriber<R> for Watching<R, K> {
    fn changed(&self, key: &ObjectKey, change: &Change<R>, step: Step, initial: Initial) {
        if !self.line.passes(&self.filters, change) {
            return;
        }
        let lane = lane(initial, self.lane);
        let cause = Cause::of_object(cause_kind(change, initial), R::KIND, key.clone());
        // Most objects map to one key, before and after: one signal is enough then, and no list is needed to
        // see that. Beyond the first key the queue merges.
        let mut first: Option<K> = None;
        if let Some(old) = change.old() {
            let _counted = self.line.guard("mapper", || {
                (self.map)(old, &mut |key| {
                    if first.is_none() {
                        first = Some(key.clone());
                    }
                    self.signal(key, lane, &cause, Some(step));
                });
            });
        }
        let _counted = self.line.guard("mapper", || {
            let first = first;
            (self.map)(change.object(), &mut |key| {
                if first.as_ref() != Some(&key) {
                    self.signal(key, lane, &cause, Some(step));
                }
            });
        });
    }

    fn flagged(&self, object: &Arc<R>) {
        let cause = Cause::of_object(CauseKind::Updated, R::KIND, object.key());
        let _counted = self.line.guard("mapper", || {
            (self.map)(object, &mut |key| self.signal(key, self.lane, &cause, None));
        });
    }
}

#[cfg(test)]
mod tests {
    use reconcile_core::{Object, OwnerReference, Revision, Spec};

    use super::*;
    use crate::{
        Environment,
        controller::source::tests::{Remember, Told, line},
    };

    #[derive(Clone, Debug, PartialEq)]
    struct PodSpec {
        webs: Vec<u32>,
    }
    impl Spec for PodSpec {
        const KIND: &'static str = "Pod";
        type Status = ();
    }
    type Pod = Object<PodSpec>;

    #[derive(Clone, Debug, PartialEq)]
    struct WebSpec;
    impl Spec for WebSpec {
        const KIND: &'static str = "Web";
        type Status = ();
    }

    const STEP: Step = Step { kind: 0, before: Revision(1), after: Revision(2) };

    fn pod(webs: &[u32]) -> Arc<Pod> {
        Arc::new(Object::new("pod", PodSpec { webs: webs.to_vec() }))
    }

    fn updated(old: &[u32], new: &[u32]) -> Change<Pod> {
        Change::Updated { old: pod(old), new: pod(new) }
    }

    fn watching<K: Key>(map: Mapper<Pod, K>) -> (Watching<Pod, K>, Arc<Remember<K>>) {
        let (line, intake) = line(&Environment::seeded(1));
        let watching =
            Watching { line, map, filters: Vec::new(), kind: SignalKind::Observed, lane: Lane::Normal };
        (watching, intake)
    }

    fn by_webs() -> Mapper<Pod, u32> {
        Arc::new(|pod, each| pod.spec.webs.iter().copied().for_each(each))
    }

    #[tokio::test(start_paused = true)]
    async fn the_keys_of_the_old_and_of_the_new_object_are_signalled() {
        let (watch, intake) = watching(by_webs());
        let cases: [(Change<Pod>, &[u32]); 6] = [
            (Change::Added(pod(&[1, 2])), &[1, 2]),
            (Change::Deleted(pod(&[1])), &[1]),
            (updated(&[1], &[2]), &[1, 2]),
            (updated(&[1], &[1]), &[1]),
            (updated(&[1], &[]), &[1]),
            (updated(&[], &[3]), &[3]),
        ];
        for (change, keys) in cases {
            watch.changed(&ObjectKey::new("pod"), &change, STEP, Initial::No);
            assert_eq!(intake.keys(), keys, "{change:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_of_a_watch_observes_and_names_object_and_event() {
        let (mut watch, intake) = watching(by_webs());
        watch.changed(&ObjectKey::new("pod"), &updated(&[1], &[1]), STEP, Initial::No);
        watch.changed(&ObjectKey::new("pod"), &Change::Added(pod(&[1])), STEP, Initial::Yes);
        watch.kind = SignalKind::Input;
        watch.lane = Lane::High;
        watch.changed(&ObjectKey::new("pod"), &Change::Deleted(pod(&[1])), STEP, Initial::No);
        watch.flagged(&pod(&[1]));
        assert_eq!(
            intake.take(),
            [
                Told::Signal(1, SignalKind::Observed, Lane::Normal, "Pod pod updated".into()),
                Told::Signal(1, SignalKind::Observed, Lane::Low, "Pod pod initial".into()),
                Told::Signal(1, SignalKind::Input, Lane::High, "Pod pod deleted".into()),
                Told::Signal(1, SignalKind::Input, Lane::High, "Pod pod updated".into()),
            ]
        );
        assert_eq!(intake.steps(), [Some(STEP), Some(STEP), Some(STEP), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_mapper_that_panics_on_the_old_object_still_maps_the_new_one() {
        let (watch, intake) = watching::<u32>(Arc::new(|pod, each| {
            assert!(!pod.spec.webs.is_empty(), "a pod without webs");
            pod.spec.webs.iter().copied().for_each(each);
        }));
        watch.changed(&ObjectKey::new("pod"), &updated(&[], &[3]), STEP, Initial::No);
        assert_eq!(intake.keys(), [3]);
        watch.changed(&ObjectKey::new("pod"), &updated(&[4], &[]), STEP, Initial::No);
        assert_eq!(intake.keys(), [4]);
        let status = watch.line.stats.status();
        assert_eq!(status.panics, 2);
        assert_eq!(status.last_panic.as_deref(), Some("mapper: a pod without webs"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_the_mappers_iterator_or_in_its_drop_loses_no_key_before_it() {
        struct Bomb(u32);
        impl Iterator for Bomb {
            type Item = u32;
            fn next(&mut self) -> Option<u32> {
                self.0 += 1;
                match self.0 {
                    3 => panic!("iterator"),
                    key => Some(key),
                }
            }
        }
        struct Fuse(std::vec::IntoIter<u32>);
        impl Iterator for Fuse {
            type Item = u32;
            fn next(&mut self) -> Option<u32> {
                self.0.next()
            }
        }
        impl Drop for Fuse {
            fn drop(&mut self) {
                panic!("drop");
            }
        }
        let (watch, intake) = watching(Arc::new(|_, each| Bomb(0).for_each(each)));
        watch.changed(&ObjectKey::new("pod"), &Change::Added(pod(&[])), STEP, Initial::No);
        assert_eq!(intake.keys(), [1, 2]);
        assert_eq!(watch.line.stats.status().last_panic.as_deref(), Some("mapper: iterator"));

        let (watch, intake) = watching(Arc::new(|_, each| {
            let mut fuse = Fuse(vec![8, 9].into_iter());
            (&mut fuse).for_each(each);
        }));
        watch.changed(&ObjectKey::new("pod"), &Change::Added(pod(&[])), STEP, Initial::No);
        assert_eq!(intake.keys(), [8, 9]);
        assert_eq!(watch.line.stats.status().last_panic.as_deref(), Some("mapper: drop"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_filter_that_panics_lets_its_change_pass_and_is_counted() {
        let (mut watch, intake) = watching(by_webs());
        watch.filters.push(Arc::new(|_| panic!("no spec")));
        watch.filters.push(Arc::new(|change| change.object().spec.webs != [5]));
        watch.changed(&ObjectKey::new("pod"), &Change::Added(pod(&[1])), STEP, Initial::No);
        watch.changed(&ObjectKey::new("pod"), &Change::Added(pod(&[5])), STEP, Initial::No);
        assert_eq!(intake.keys(), [1]);
        assert_eq!(watch.line.stats.status().last_panic.as_deref(), Some("filter: no spec"));
    }

    #[tokio::test(start_paused = true)]
    async fn children_wake_the_controller_owner_of_the_right_kind_before_and_after() {
        let child = |owner: Option<OwnerReference>| {
            let mut pod = Object::new("pod", PodSpec { webs: vec![] }).namespace("shop");
            pod.meta.owner_references.extend(owner);
            Arc::new(pod)
        };
        let owner = |name: &str| Object::new(name, WebSpec).namespace("shop");
        let other = pod(&[]);
        let (kept, moved) =
            (OwnerReference::controller_of(&owner("a")), OwnerReference::controller_of(&owner("b")));
        let key = |name| ObjectKey::namespaced("shop", name);
        let cases: [(Change<Pod>, Vec<ObjectKey>); 5] = [
            (Change::Deleted(child(Some(kept.clone()))), vec![key("a")]),
            (Change::Updated { old: child(Some(kept)), new: child(Some(moved)) }, vec![key("a"), key("b")]),
            (Change::Added(child(Some(OwnerReference::plain(&owner("a"))))), vec![]),
            (Change::Added(child(Some(OwnerReference::controller_of(&other)))), vec![]),
            (Change::Added(child(None)), vec![]),
        ];
        let (watch, intake) = watching(children::<Pod, Object<WebSpec>>());
        for (change, keys) in cases {
            watch.changed(&ObjectKey::new("pod"), &change, STEP, Initial::No);
            assert_eq!(intake.keys(), keys, "{change:?}");
        }
    }
}
