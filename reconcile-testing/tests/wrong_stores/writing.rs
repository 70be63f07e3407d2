//! Stores that write wrongly.

use std::sync::Arc;

use reconcile_runtime::{
    MemoryStore,
    core::{
        Resource, Revision, Store, StoreError, StoreFault,
        store::{LeaseRecord, LeaseState, Leases, Preconditions, Propagation, Write, WriteContext, Written},
    },
};

use crate::flaw::{Fallible, Flaw};

/// The flaws below override only `write`; this is its signature once.
macro_rules! writes_wrongly {
    ($(#[$doc:meta])* $name:ident, |$store:ident, $write:pat, $cx:ident| $body:expr) => {
        $(#[$doc])*
        #[derive(Clone, Default)]
        pub(crate) struct $name;

        impl Flaw for $name {
            async fn write<R: Resource>(
                &self,
                $store: &MemoryStore,
                request: Write<R>,
                $cx: &WriteContext,
            ) -> Fallible<Written<R>> {
                let $write = request;
                $body
            }
        }
    };
}

async fn current<R: Resource>(store: &MemoryStore, write: &Write<R>) -> Option<Arc<R>> {
    store.get(&write.key()).await.ok().flatten()
}

/// How often a store that looks before it acts lets others run between the two, so that in every race the
/// other side gets there; if it has not by then, it does not want to.
const MOMENT: usize = 1_000;

writes_wrongly!(
    /// Overwrites an object by creating it.
    CreateIsAnUpsert,
    |store, write, cx| {
        match (current(store, &write).await, write) {
            (Some(stored), Write::Create(mut object)) if stored.meta().uid != cx.new_uid => {
                object.meta_mut().uid = stored.meta().uid.clone();
                object.meta_mut().revision = stored.meta().revision;
                *object.status_mut() = stored.status().clone();
                store.write(Write::Update(object), cx).await
            }
            (_, write) => store.write(write, cx).await,
        }
    }
);

writes_wrongly!(
    /// Creates an object by updating it.
    UpdateIsAnUpsert,
    |store, write, cx| {
        match (current(store, &write).await, write) {
            (None, Write::Update(object)) => store.write(Write::Create(object), cx).await,
            (_, write) => store.write(write, cx).await,
        }
    }
);

writes_wrongly!(
    /// Writes to any incarnation.
    UidIsIgnored,
    |store, mut write, cx| {
        if let Some(stored) = current(store, &write).await {
            match &mut write {
                Write::Update(object) | Write::UpdateStatus(object) => {
                    object.meta_mut().uid = stored.meta().uid.clone();
                }
                Write::Delete { only_if, .. } => only_if.uid = None,
                _ => {}
            }
        }
        store.write(write, cx).await
    }
);

writes_wrongly!(
    /// The last writer wins.
    RevisionIsIgnored,
    |store, mut write, cx| {
        if let Some(stored) = current(store, &write).await {
            match &mut write {
                Write::Update(object) | Write::UpdateStatus(object) => {
                    object.meta_mut().revision = stored.meta().revision;
                }
                Write::Delete { only_if, .. } => only_if.revision = None,
                _ => {}
            }
        }
        store.write(write, cx).await
    }
);

writes_wrongly!(
    /// Deletes without looking at the conditions.
    DeleteIgnoresItsConditions,
    |store, mut write, cx| {
        if let Write::Delete { only_if, .. } = &mut write {
            *only_if = Preconditions::none();
        }
        store.write(write, cx).await
    }
);

writes_wrongly!(
    /// Stores, and tells, what was there already.
    UnchangedWritesAreEvents,
    |store, write, cx| {
        let key = write.key();
        let written = store.write(write, cx).await?;
        let Written::Unchanged(_) = written else { return Ok(written) };
        store.repair::<R>(&key)?; // stores what is there again, with a new revision
        let stored = store.get(&key).await?.expect("it was just stored");
        Ok(Written::Stored(stored))
    }
);

writes_wrongly!(
    /// Changes the status with the spec.
    UpdateChangesTheStatus,
    |store, write, cx| {
        let Write::Update(object) = &write else { return store.write(write, cx).await };
        let mut object = object.clone();
        match store.write(Write::UpdateStatus(object.clone()), cx).await {
            Ok(Written::Stored(stored)) => object.meta_mut().revision = stored.meta().revision,
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        store.write(Write::Update(object), cx).await
    }
);

writes_wrongly!(
    /// Writes labels with the status.
    StatusUpdateChangesLabels,
    |store, write, cx| {
        let Write::UpdateStatus(object) = &write else { return store.write(write, cx).await };
        let mut object = object.clone();
        let Written::Stored(stored) = store.write(write, cx).await? else { return Ok(Written::Stored(Arc::new(object))) };
        let labels = std::mem::take(&mut object.meta_mut().labels);
        let mut relabelled = (*stored).clone();
        relabelled.meta_mut().labels = labels;
        store.write(Write::Update(relabelled), cx).await
    }
);

writes_wrongly!(
    /// Says that a late finalizer was added.
    LateFinalizersAreConfirmed,
    |store, write, cx| {
        let stored = current(store, &write).await;
        match store.write(write.clone(), cx).await {
            Err(error) if error.fault() == StoreFault::Invalid => match (stored, write) {
                (Some(stored), Write::Update(object))
                    if stored.meta().is_deleting()
                        && object.meta().finalizers.iter().any(|name| !stored.meta().has_finalizer(name)) =>
                {
                    Ok(Written::Stored(Arc::new(object)))
                }
                _ => Err(error),
            },
            written => written,
        }
    }
);

writes_wrongly!(
    /// Leaves a deleting object without finalizers where it is.
    LastFinalizerRemovesNothing,
    |store, write, cx| {
        match (current(store, &write).await, &write) {
            (Some(stored), Write::Update(object))
                if stored.meta().is_deleting() && object.meta().finalizers.is_empty() =>
            {
                Ok(Written::Unchanged(stored))
            }
            _ => store.write(write, cx).await,
        }
    }
);

writes_wrongly!(
    /// Removes at once, whatever the finalizers say.
    DeleteIgnoresFinalizers,
    |store, write, cx| {
        let deletes = matches!(write, Write::Delete { .. });
        match store.write(write, cx).await? {
            Written::Stored(marked) if deletes => {
                let mut bare = (*marked).clone();
                bare.meta_mut().finalizers.clear();
                store.write(Write::Update(bare), cx).await
            }
            written => Ok(written),
        }
    }
);

writes_wrongly!(
    /// Looks for finalizers, and removes a moment later whatever is there by then.
    DeleteLooksBeforeItRemoves,
    |store, write, cx| {
        let Write::Delete { only_if, .. } = &write else { return store.write(write, cx).await };
        let bare = current(store, &write).await.is_some_and(|stored| stored.meta().finalizers.is_empty());
        if !bare || *only_if != Preconditions::none() {
            return store.write(write, cx).await;
        }
        for _ in 0..MOMENT {
            if current(store, &write).await.is_none_or(|now| !now.meta().finalizers.is_empty()) {
                break;
            }
            std::thread::yield_now();
        }
        loop {
            match store.write(write.clone(), cx).await? {
                Written::Stored(marked) | Written::Unchanged(marked) => {
                    let mut stripped = (*marked).clone();
                    stripped.meta_mut().finalizers.clear();
                    match store.write(Write::Update(stripped), cx).await {
                        Err(error) if error.fault() == StoreFault::Conflict => {}
                        written => return written,
                    }
                }
                written => return Ok(written),
            }
        }
    }
);

writes_wrongly!(
    /// Marks in one write, and sets the finalizer of an orphaning or foreground delete in another.
    PropagationTakesTwoWrites,
    |store, write, cx| {
        match (current(store, &write).await, write) {
            (Some(stored), Write::Delete { key, only_if, propagation })
                if propagation != Propagation::Background && !stored.meta().is_deleting() =>
            {
                let mut object = (*stored).clone();
                object.meta_mut().finalizers.push(match propagation {
                    Propagation::Orphan => reconcile_runtime::core::store::ORPHAN_FINALIZER.to_owned(),
                    _ => reconcile_runtime::core::store::FOREGROUND_FINALIZER.to_owned(),
                });
                store.write(Write::Update(object), cx).await?;
                let only_if = only_if.uid.map_or_else(Preconditions::none, Preconditions::uid);
                store.write(Write::Delete { key, only_if, propagation }, cx).await
            }
            (_, write) => store.write(write, cx).await,
        }
    }
);

writes_wrongly!(
    /// Does not know its own create again.
    RetriedCreateIsRefused,
    |store, write, cx| {
        if let (Some(_), Write::Create(_)) = (current(store, &write).await, &write) {
            let error = StoreError::new("create", R::KIND, &write.key(), StoreFault::AlreadyExists);
            return Err(error);
        }
        store.write(write, cx).await
    }
);

writes_wrongly!(
    /// Lets every term write.
    FencesAreIgnored,
    |store, write, cx| {
        let mut cx = cx.clone();
        cx.fence = None;
        store.write(write, &cx).await
    }
);

writes_wrongly!(
    /// Looks at the fence last.
    OtherFaultsBeatTheFence,
    |store, write, cx| {
        match store.write(write.clone(), cx).await {
            Err(fenced) if fenced.fault() == StoreFault::Fenced => {
                // What a copy of the store says to the same write without a fence.
                let copy = MemoryStore::default();
                copy.restore(&store.snapshot());
                let mut unfenced = cx.clone();
                unfenced.fence = None;
                match copy.write(write, &unfenced).await {
                    Ok(Written::Unchanged(object)) => Ok(Written::Unchanged(object)),
                    Ok(_) => Err(fenced),
                    Err(other) => Err(other),
                }
            }
            written => written,
        }
    }
);

writes_wrongly!(
    /// Looks at the fence first, and writes a moment later without it.
    FenceIsCheckedBeforeTheWrite,
    |store, write, cx| {
        if let Some(fence) = &cx.fence {
            let lease = store.lease(&fence.lease).await?;
            if lease.as_ref().is_none_or(|lease| lease.token != fence.token) {
                return Err(StoreError::new("write", R::KIND, &write.key(), StoreFault::Fenced));
            }
            for _ in 0..MOMENT {
                if store.lease(&fence.lease).await? != lease {
                    break;
                }
                std::thread::yield_now();
            }
        }
        let mut cx = cx.clone();
        cx.fence = None;
        store.write(write, &cx).await
    }
);

writes_wrongly!(
    /// Gives one fault at a time.
    OneFaultAtATime,
    |store, write, cx| {
        store.write(write, cx).await.map_err(|error| {
            let Some(first) = error.faults().iter().next().cloned() else { return error };
            let mut faults = reconcile_runtime::core::Faults::default();
            faults.add(first.path, first.message);
            error.with_faults(faults)
        })
    }
);

writes_wrongly!(
    /// Validates the spec with every update.
    ValidationStandsInTheWay,
    |store, write, cx| {
        if let (Some(stored), Write::Update(object)) = (current(store, &write).await, &write) {
            let mut faults = reconcile_runtime::core::Faults::default();
            object.validate(Some(&stored), &mut faults);
            if !faults.is_empty() {
                let error = StoreError::new("update", R::KIND, &write.key(), StoreFault::Invalid);
                return Err(error.with_faults(faults));
            }
        }
        store.write(write, cx).await
    }
);

writes_wrongly!(
    /// Takes what is unreadable for nothing, and creates over it.
    CreateReplacesTheUnreadable,
    |store, write, cx| {
        let unreadable = store.get(&write.key()).await.map(|_: Option<Arc<R>>| ()).is_err();
        if let (true, Write::Create(_)) = (unreadable, &write) {
            let propagation = Propagation::Background;
            let delete = Write::<R>::Delete { key: write.key(), only_if: Preconditions::none(), propagation };
            store.write(delete, cx).await?;
        }
        store.write(write, cx).await
    }
);

writes_wrongly!(
    /// Answers a delete with the revision of the state that was deleted.
    DeleteAnswersAnOldRevision,
    |store, write, cx| {
        Ok(match store.write(write, cx).await? {
            Written::Removed { last: Some(last), .. } => {
                Written::Removed { revision: last.meta().revision, last: Some(last) }
            }
            written => written,
        })
    }
);

/// Gives every renewal a token of its own.
#[derive(Clone, Default)]
pub(crate) struct RenewalsChangeTheToken;

impl Flaw for RenewalsChangeTheToken {
    async fn swap(
        &self,
        store: &MemoryStore,
        name: &str,
        seen: Option<Revision>,
        next: LeaseRecord,
    ) -> Fallible<LeaseState> {
        let released = LeaseRecord::new(None, next.duration, next.transitions);
        let between = store.swap(name, seen, released).await?;
        store.swap(name, Some(between.revision), next).await
    }
}

/// Keeps the token when the holder changes.
#[derive(Clone, Default)]
pub(crate) struct TakeoversKeepTheToken;

impl Flaw for TakeoversKeepTheToken {
    async fn swap(
        &self,
        store: &MemoryStore,
        name: &str,
        seen: Option<Revision>,
        mut next: LeaseRecord,
    ) -> Fallible<LeaseState> {
        if let Some(lease) = store.lease(name).await? {
            next.holder = lease.record.holder;
        }
        store.swap(name, seen, next).await
    }
}
