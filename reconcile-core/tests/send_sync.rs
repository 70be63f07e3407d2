//! Every public type can be shared between threads and kept for as long as needed. A private field that
//! cannot would be a breaking change that nothing else notices.

use std::{fmt::Debug, future::Future, sync::Arc};

use reconcile_core::{
    Action, Backoff, Cancelled, Cause, CauseKind, Causes, Cleanup, Condition, ConditionStatus, Conditions,
    Error, Faults, LabelSelector, Next, Object, ObjectKey, ObjectMeta, OwnerReference, ReconcileError,
    ReconcileFn, Retry, Revision, Run, RunBuilder, RunControl, Spec, StoreError, StoreFault, Timestamp, Uid,
    object::Fault,
    reconcile_fn,
    store::{
        ByteStore, Changes, Commit, Committed, Current, Cursor, Decision, Fence, Guarantees, LeaseRecord,
        LeaseState, Leases, ListQuery, Page, PageToken, Preconditions, Propagation, RawChanges, RawItem,
        Refused, Scope, Store, Unreadable, WatchBatch, WatchEvent, Write, WriteContext, Written,
    },
};

#[derive(Clone, Debug, PartialEq)]
struct Web;

impl Spec for Web {
    const KIND: &'static str = "Web";
    type Status = ();
}

type Thing = Object<Web>;

fn shared<T: Send + Sync + 'static>() {}
fn debug<T: Debug>() {}
fn sent<T: Send>(_: &T) {}
fn unpin<T: Unpin>() {}

macro_rules! shared_and_debug {
    ($($type:ty),* $(,)?) => { $( shared::<$type>(); debug::<$type>(); unpin::<$type>(); )* };
}

#[test]
fn every_type_is_send_sync_and_debug() {
    shared_and_debug!(
        Action,
        Backoff,
        Cancelled,
        Cause,
        CauseKind,
        Causes,
        Cleanup,
        Condition,
        ConditionStatus,
        Conditions,
        Error,
        Fault,
        Faults,
        LabelSelector,
        Next,
        ObjectKey,
        ObjectMeta,
        OwnerReference,
        ReconcileError,
        Retry,
        Revision,
        Run,
        RunBuilder,
        RunControl,
        StoreError,
        StoreFault,
        Timestamp,
        Uid,
    );
    shared_and_debug!(
        Thing,
        Commit,
        Committed,
        Current<'static, Thing>,
        Cursor,
        Decision<Thing>,
        Fence,
        Guarantees,
        LeaseRecord,
        LeaseState,
        ListQuery,
        Page<Thing>,
        PageToken,
        Preconditions,
        Propagation,
        RawItem,
        Refused,
        Scope,
        Unreadable,
        WatchBatch<Thing>,
        WatchEvent<Thing>,
        Write<Thing>,
        WriteContext,
        Written<Thing>,
    );
}

#[test]
fn stores_live_behind_dyn() {
    shared::<Arc<dyn Store<Thing>>>();
    shared::<Arc<dyn ByteStore>>();
    shared::<Arc<dyn Leases>>();
    fn is_a_store<S: Store<Thing>>() {}
    is_a_store::<Arc<dyn Store<Thing>>>();
}

#[test]
fn streams_are_sent() {
    fn send<T: Send>() {}
    send::<Changes<Thing>>();
    send::<RawChanges>();
}

#[test]
fn futures_are_sent() {
    let (run, _control) = Run::builder().build();
    sent(&run.cancelled());
    sent(&run.until_cancelled(std::future::ready(())));
    sent(&run.scope(std::future::ready(())));
    let reconciler = reconcile_fn(|_: String, _| async { Ok(Action::await_change()) });
    fn check<K, F>(_: &ReconcileFn<K, F>)
    where
        ReconcileFn<K, F>: Send + Sync,
    {
    }
    check(&reconciler);
    fn spawned(_: impl Future + Send + 'static) {}
    spawned(run.scope(async {}));
}
