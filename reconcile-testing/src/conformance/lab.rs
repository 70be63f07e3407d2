//! What a case works with: one fresh store, and short words for what is done to it.

use std::sync::{
    Arc, Barrier, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use futures::future::{BoxFuture, join_all};
use reconcile_core::{
    ObjectKey, Revision, Store, StoreError, Timestamp, Uid,
    store::{
        Cursor, Leases, ListQuery, Page, PageToken, Preconditions, Propagation, Scope, Unreadable, Write,
        WriteContext, Written,
    },
};
use reconcile_runtime::store::Damage;

use super::{
    Gadget, GadgetSpec, Harness, Power, Probe, ProbeSpec, Stores,
    check::{Check, Failure, ok},
    runner::powered,
    tail::Tail,
};

/// The first instant of a case's wall time: stores have no clock, so any will do.
const START: i64 = 1_700_000_000;

/// What was asked for last, for the report of a store that hangs.
#[derive(Clone, Debug, Default)]
pub(super) struct Doing(Arc<Mutex<String>>);

impl Doing {
    pub(super) fn last(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, what: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}

/// One fresh store, and one more of its kind. Clones work on the same stores.
#[derive(Clone)]
pub(super) struct Lab {
    harness: Arc<dyn Harness>,
    other: Arc<dyn Harness>,
    stores: Stores,
    doing: Doing,
    /// How many contexts were made: each has a uid and an instant of its own.
    contexts: Arc<AtomicU64>,
}

/// A whole listing, all pages together.
pub(super) struct Listing {
    pub(super) items: Vec<Arc<Probe>>,
    pub(super) unreadable: Vec<Unreadable>,
    pub(super) cursor: Cursor,
}

impl Listing {
    pub(super) fn keys(&self) -> Vec<String> {
        self.items.iter().map(|item| key_of(item).to_string()).collect()
    }
}

/// A probe of this name, of size 1.
pub(super) fn probe(name: &str) -> Probe {
    Probe::new(name, ProbeSpec { size: 1, ..ProbeSpec::default() })
}

/// The same with a finalizer.
pub(super) fn held(name: &str, finalizer: &str) -> Probe {
    let mut probe = probe(name);
    probe.meta.finalizers.push(finalizer.to_owned());
    probe
}

pub(super) fn gadget(name: &str) -> Gadget {
    Gadget::new(name, GadgetSpec { count: 1 })
}

pub(super) fn key_of(probe: &Probe) -> ObjectKey {
    reconcile_core::Resource::key(probe)
}

pub(super) fn delete_of<R>(key: ObjectKey, only_if: Preconditions) -> Write<R> {
    Write::Delete { key, only_if, propagation: Propagation::Background }
}

impl Lab {
    pub(super) async fn new(harness: Box<dyn Harness>, other: Box<dyn Harness>) -> Self {
        let harness: Arc<dyn Harness> = harness.into();
        let stores = harness.stores().await;
        Lab { harness, other: other.into(), stores, doing: Doing::default(), contexts: Arc::default() }
    }

    pub(super) fn doing(&self) -> Doing {
        self.doing.clone()
    }

    pub(super) fn harness(&self) -> &dyn Harness {
        &*self.harness
    }

    /// How often what depends on a race is tried.
    pub(super) fn races(&self) -> usize {
        self.harness.races().max(1)
    }

    /// Other handles on the same store; after a kill, on the one that was started again.
    pub(super) async fn reopened(&self) -> Lab {
        Lab { stores: self.harness.stores().await, ..self.clone() }
    }

    /// A lab for another store of the same kind.
    pub(super) async fn elsewhere(&self) -> Lab {
        Lab { harness: self.other.clone(), stores: self.other.stores().await, ..self.clone() }
    }

    pub(super) fn probes(&self) -> &Arc<dyn Store<Probe>> {
        &self.stores.probes
    }

    pub(super) fn gadgets(&self) -> &Arc<dyn Store<Gadget>> {
        &self.stores.gadgets
    }

    pub(super) fn leases(&self) -> Check<&Arc<dyn Leases>> {
        self.stores.leases.as_ref().ok_or_else(|| {
            Failure::new(
                "asking the harness for leases",
                "leases, since they are not declared as missing",
                "none",
            )
        })
    }

    // === powers ===

    pub(super) async fn compact(&self) -> Check {
        powered(Power::Compact, self.harness.compact().await)
    }

    pub(super) async fn damage(&self, key: &ObjectKey, damage: Damage) -> Check {
        powered(Power::Damage, self.harness.damage(key, damage).await)
    }

    pub(super) async fn undefault(&self, key: &ObjectKey) -> Check {
        powered(Power::Undefault, self.harness.undefault(key).await)
    }

    pub(super) async fn kill(&self) -> Check {
        powered(Power::Kill, self.harness.kill().await)
    }

    pub(super) async fn lose_next_reply(&self) -> Check {
        powered(Power::LoseReply, self.harness.lose_next_reply().await)
    }

    pub(super) async fn save(&self) -> Check {
        powered(Power::Restore, self.harness.save().await)
    }

    pub(super) async fn restore(&self) -> Check {
        powered(Power::Restore, self.harness.restore().await)
    }

    // === writing ===

    /// A context with a new uid and a later instant.
    pub(super) fn cx(&self) -> WriteContext {
        let number = self.contexts.fetch_add(1, Ordering::Relaxed);
        let now = Timestamp::from_second(START.saturating_add_unsigned(number)).unwrap_or(Timestamp::MAX);
        WriteContext::new(now, Uid::from(format!("00000000-0000-4000-8000-{number:012}")))
    }

    /// Writes, and gives what came of it.
    pub(super) async fn write(&self, write: Write<Probe>) -> Result<Written<Probe>, StoreError> {
        self.write_as(write, &self.cx()).await
    }

    pub(super) async fn write_as(
        &self,
        write: Write<Probe>,
        cx: &WriteContext,
    ) -> Result<Written<Probe>, StoreError> {
        self.doing.set(format!("{} {}", write.operation(), write.key()));
        self.stores.probes.write(write, cx).await
    }

    /// A create that must store.
    pub(super) async fn create(&self, object: Probe) -> Check<Arc<Probe>> {
        let operation = format!("create {}", key_of(&object));
        stored(&operation, ok(&operation, self.write(Write::Create(object)).await)?)
    }

    /// An update that must store.
    pub(super) async fn edit(&self, object: &Probe, edit: impl FnOnce(&mut Probe)) -> Check<Arc<Probe>> {
        let operation = format!("update {}", key_of(object));
        stored(&operation, ok(&operation, self.write(update_of(object, edit)).await)?)
    }

    /// An update of the size, which must store.
    pub(super) async fn resize(&self, object: &Probe, size: u32) -> Check<Arc<Probe>> {
        self.edit(object, |probe| probe.spec.size = size).await
    }

    /// A status update that must store.
    pub(super) async fn report(&self, object: &Probe, ready: u32) -> Check<Arc<Probe>> {
        let operation = format!("update the status of {}", key_of(object));
        stored(&operation, ok(&operation, self.write(status_of(object, ready)).await)?)
    }

    /// A delete without conditions that must remove. Gives the last state, and the delete's revision.
    pub(super) async fn remove(&self, key: &ObjectKey) -> Check<(Option<Arc<Probe>>, Revision)> {
        let operation = format!("delete {key}");
        let written = ok(&operation, self.write(delete_of(key.clone(), Preconditions::none())).await)?;
        removed(&operation, written)
    }

    // === reading ===

    pub(super) async fn get(&self, key: &ObjectKey) -> Check<Option<Arc<Probe>>> {
        self.doing.set(format!("get {key}"));
        ok(format!("get {key}"), self.stores.probes.get(key).await)
    }

    /// An object that must be there.
    pub(super) async fn present(&self, key: &ObjectKey) -> Check<Arc<Probe>> {
        let found = self.get(key).await?;
        found.ok_or_else(|| Failure::new(format!("get {key}"), "the object", "nothing"))
    }

    /// An object that must be gone, for `get` and for a listing.
    pub(super) async fn absent(&self, key: &ObjectKey) -> Check {
        if let Some(found) = self.get(key).await? {
            return Err(Failure::new(format!("get {key}"), "nothing", format!("{found:?}")));
        }
        let listing = self.list().await?;
        let unreadable = listing.unreadable.iter().find(|item| item.key == *key);
        if listing.items.iter().any(|item| key_of(item) == *key) || unreadable.is_some() {
            return Err(Failure::new("list", format!("a listing without {key}"), "it is listed"));
        }
        Ok(())
    }

    pub(super) async fn page(&self, query: ListQuery) -> Check<Page<Probe>> {
        self.doing.set("list".to_owned());
        ok("list", self.stores.probes.list(query).await)
    }

    /// All pages of everything, as the store makes them.
    pub(super) async fn list(&self) -> Check<Listing> {
        self.list_by(ListQuery::all()).await
    }

    /// All pages of a query.
    pub(super) async fn list_by(&self, query: ListQuery) -> Check<Listing> {
        let mut page = self.page(query.clone()).await?;
        let mut listing = Listing { items: vec![], unreadable: vec![], cursor: page.cursor.clone() };
        loop {
            listing.items.append(&mut page.items);
            listing.unreadable.append(&mut page.unreadable);
            let Some(next) = page.next.take() else { return Ok(listing) };
            page = self.next_page(&query, next, &listing.cursor).await?;
        }
    }

    /// The page after a token, which must repeat the first page's cursor.
    pub(super) async fn next_page(
        &self,
        query: &ListQuery,
        token: PageToken,
        cursor: &Cursor,
    ) -> Check<Page<Probe>> {
        let page = self.page(query.clone().after(token)).await?;
        super::check::same("list, the cursor of a later page", &page.cursor, cursor)?;
        Ok(page)
    }

    /// Where a watch starts that sees only what comes from now on.
    pub(super) async fn cursor(&self) -> Check<Cursor> {
        Ok(self.list().await?.cursor)
    }

    pub(super) async fn watch(&self, from: &Cursor) -> Check<Tail> {
        self.watch_in(from, &Scope::all()).await
    }

    pub(super) async fn watch_in(&self, from: &Cursor, scope: &Scope) -> Check<Tail> {
        self.doing.set(format!("watch from {from}"));
        let changes = ok(format!("watch from {from}"), self.stores.probes.watch(from.clone(), scope).await)?;
        Ok(Tail::new(changes, from.clone(), self.doing.clone()))
    }

    /// A revision that a watch will reach without further writes.
    pub(super) async fn revision(&self) -> Check<Revision> {
        self.doing.set("read the revision".to_owned());
        ok("read the revision", self.stores.probes.revision().await)
    }
}

/// An update of an object that was read.
pub(super) fn update_of(object: &Probe, edit: impl FnOnce(&mut Probe)) -> Write<Probe> {
    let mut object = object.clone();
    edit(&mut object);
    Write::Update(object)
}

/// A status update of an object that was read.
pub(super) fn status_of(object: &Probe, ready: u32) -> Write<Probe> {
    let mut object = object.clone();
    object.status.ready = ready;
    Write::UpdateStatus(object)
}

/// A write that must have stored.
pub(super) fn stored(operation: &str, written: Written<Probe>) -> Check<Arc<Probe>> {
    match written {
        Written::Stored(object) => Ok(object),
        other => Err(Failure::new(operation, "Stored", format!("{other:?}"))),
    }
}

/// A write that must have changed nothing.
pub(super) fn unchanged(operation: &str, written: Written<Probe>) -> Check<Arc<Probe>> {
    match written {
        Written::Unchanged(object) => Ok(object),
        other => Err(Failure::new(operation, "Unchanged", format!("{other:?}"))),
    }
}

/// A write that must have removed.
pub(super) fn removed(operation: &str, written: Written<Probe>) -> Check<(Option<Arc<Probe>>, Revision)> {
    match written {
        Written::Removed { last, revision } => Ok((last, revision)),
        other => Err(Failure::new(operation, "Removed", format!("{other:?}"))),
    }
}

/// Runs all jobs at the same time, each on a thread of its own, so that also a store whose operations never
/// wait meets them at once. No job starts before all threads are there. Results come in the order of the jobs.
///
/// Jobs write and read; a watch belongs on the task of the case, where the limit also holds on a paused clock.
#[allow(clippy::disallowed_methods, reason = "the suite checks stores under real concurrency, on threads")]
pub(super) async fn at_once<T: Send + 'static>(jobs: Vec<BoxFuture<'static, Check<T>>>) -> Check<Vec<T>> {
    let handle = tokio::runtime::Handle::current();
    let start = Arc::new(Barrier::new(jobs.len()));
    let threads = jobs.into_iter().map(|job| {
        let (handle, start) = (handle.clone(), start.clone());
        // Blocking tasks hold a paused clock still, so that the limit of the case does not pass meanwhile.
        tokio::task::spawn_blocking(move || {
            start.wait();
            handle.block_on(job)
        })
    });
    let mut results = Vec::new();
    for joined in join_all(threads.collect::<Vec<_>>()).await {
        match joined {
            Ok(result) => results.push(result?),
            Err(error) => {
                return Err(Failure::new("concurrent operations", "an answer from each", error.to_string()));
            }
        }
    }
    Ok(results)
}
