//! The writes as the user knows them, over the one write path. `Api` and `Client` differ only in where they
//! read an object that is to be changed.
//!
//! Not here: requests, caches and runs; see [`write`](super::write).

use std::sync::Arc;

use reconcile_core::{
    Faults, ObjectKey, Owner, Resource, Revision, StoreError, StoreFault,
    store::{Preconditions, Propagation, Write},
};

use super::{
    backend::Landed,
    owned,
    write::{Failed, Live, Writer},
};

/// How often `modify` tries. Each loss means that somebody else's write went through in the few milliseconds
/// between a read and a write; to lose eight times in a row takes writers that never pause, and then the
/// conflict is worth reporting.
const MODIFY_TRIES: u32 = 8;

/// Which part of an object a change may touch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    SpecAndMeta,
    Status,
}

impl<R: Resource> Writer<R> {
    pub(super) async fn create(&self, object: R) -> Result<Arc<R>, StoreError> {
        let key = object.key();
        stored(self.write(Write::Create(object), Some(Revision(0))).await?, "create", &key)
    }

    pub(super) async fn create_owned(&self, owner: &impl Owner, mut object: R) -> Result<Arc<R>, StoreError> {
        owned::adopt(owner, &mut object)?;
        self.create(object).await
    }

    pub(super) async fn update(&self, object: R) -> Result<Arc<R>, StoreError> {
        let as_written = Arc::new(object.clone());
        let revision = object.meta().revision;
        Ok(self
            .write(Write::Update(object), Some(revision))
            .await
            .map(|written| left(written, &as_written))?)
    }

    pub(super) async fn update_status(
        &self,
        object: &R,
        change: impl FnOnce(&mut R::Status) + Send,
    ) -> Result<Arc<R>, StoreError> {
        let mut new = object.clone();
        change(new.status_mut());
        if new.status() == object.status() {
            return Ok(Arc::new(new));
        }
        let key = new.key();
        let revision = new.meta().revision;
        stored(self.write(Write::UpdateStatus(new), Some(revision)).await?, "update status of", &key)
    }

    pub(super) async fn modify(
        &self,
        key: &ObjectKey,
        change: impl FnMut(&mut R) + Send,
    ) -> Result<Arc<R>, StoreError> {
        self.change(key, Part::SpecAndMeta, change).await
    }

    pub(super) async fn modify_status(
        &self,
        key: &ObjectKey,
        mut change: impl FnMut(&mut R::Status) + Send,
    ) -> Result<Arc<R>, StoreError> {
        self.change(key, Part::Status, move |object| change(object.status_mut())).await
    }

    async fn change(
        &self,
        key: &ObjectKey,
        part: Part,
        mut change: impl FnMut(&mut R) + Send,
    ) -> Result<Arc<R>, StoreError> {
        let cached = self.cache().and_then(|cache| cache.get(key));
        let operation = if part == Part::Status { "update status of" } else { "update" };
        let gone = || StoreError::new(operation, R::KIND, key, StoreFault::NotFound);
        let mut current = match cached {
            Some(object) => object,
            None => self.read(key).await?.ok_or_else(gone)?,
        };
        let mut tries = 1;
        loop {
            let mut new = (*current).clone();
            change(&mut new);
            if !is_changed(part, &*current, &new, key)? {
                return Ok(current);
            }
            let revision = Some(current.meta().revision);
            let as_written = Arc::new(new.clone());
            let write = match part {
                Part::SpecAndMeta => Write::Update(new),
                Part::Status => Write::UpdateStatus(new),
            };
            let Failed { error, live } = match self.write(write, revision).await {
                Ok(written) => return Ok(left(written, &as_written)),
                Err(failed) => failed,
            };
            if error.fault() != StoreFault::Conflict {
                return Err(error);
            }
            if tries == MODIFY_TRIES {
                return Err(error.because(format!("lost to another writer {tries} times in a row")));
            }
            tries += 1;
            current = match live {
                Live::Found(object) => object,
                Live::Absent => return Err(gone()),
                Live::Unknown if self.cache().is_some() => return Err(error),
                Live::Unknown => self.read(key).await?.ok_or_else(gone)?,
            };
        }
    }

    pub(super) async fn delete(&self, object: &R, propagation: Propagation) -> Result<(), StoreError> {
        let meta = object.meta();
        let key = object.key();
        if meta.uid.is_empty() {
            let mut faults = Faults::default();
            faults.add("metadata.uid", "is empty: read the object first, then delete what was read");
            let error = StoreError::new("delete", R::KIND, &key, StoreFault::Invalid);
            return Err(error.with_faults(faults));
        }
        let only_if = Preconditions::uid(meta.uid.clone()).revision(meta.revision);
        self.delete_key(key, only_if, propagation).await
    }

    pub(super) async fn delete_key(
        &self,
        key: ObjectKey,
        only_if: Preconditions,
        propagation: Propagation,
    ) -> Result<(), StoreError> {
        let decided_on = only_if.revision;
        self.write(Write::Delete { key, only_if, propagation }, decided_on).await?;
        Ok(())
    }
}

/// The object that a write left in the store.
fn stored<R: Resource>(
    written: Landed<R>,
    operation: &'static str,
    key: &ObjectKey,
) -> Result<Arc<R>, StoreError> {
    match written {
        Landed::Stored(object) | Landed::Unchanged(object) => Ok(object),
        // Against the store rules; said as what it looks like from here.
        Landed::Removed { .. } => Err(StoreError::new(operation, R::KIND, key, StoreFault::NotFound)
            .because("the store says that this write removed the object")),
    }
}

/// The object that an update left in the store, or the last there was: removing the last finalizer of a deleted
/// object removes it.
fn left<R: Resource>(written: Landed<R>, as_written: &Arc<R>) -> Arc<R> {
    match written {
        Landed::Stored(object) | Landed::Unchanged(object) => object,
        Landed::Removed { last, .. } => last.unwrap_or_else(|| as_written.clone()),
    }
}

/// Whether the closure changed something that it may change.
fn is_changed<R: Resource>(part: Part, old: &R, new: &R, key: &ObjectKey) -> Result<bool, StoreError> {
    let mut faults = Faults::default();
    let status = new.status() != old.status();
    if part == Part::SpecAndMeta {
        if status {
            faults.add("status", "`modify` cannot change the status: use `modify_status`");
        }
        if new.key() != *key {
            faults.add("metadata.name", format!("is {} now: an object cannot be renamed", new.key()));
        }
    }
    if !faults.is_empty() {
        return Err(StoreError::new("update", R::KIND, key, StoreFault::Invalid).with_faults(faults));
    }
    Ok(match part {
        Part::SpecAndMeta => new.meta() != old.meta() || !new.spec_eq(old),
        Part::Status => status,
    })
}
