//! Leases of a store in memory: who may write, in which term.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use reconcile_core::{
    ObjectKey, Revision, StoreError, StoreFault,
    store::{LeaseRecord, LeaseState, Leases},
};

use super::MemoryStore;

/// What errors call a lease: it has no kind of its own.
const KIND: &str = "Lease";

/// All leases of a store. Pure.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaseBook(BTreeMap<Arc<str>, LeaseState>);

impl LeaseBook {
    /// The fencing token of a lease.
    pub(super) fn token(&self, name: &str) -> Option<Revision> {
        self.0.get(name).map(|lease| lease.token)
    }

    fn get(&self, name: &str) -> Option<&LeaseState> {
        self.0.get(name)
    }

    /// Whether `next` begins a term: also a release does, so that the last holder's late writes are refused.
    fn begins_term(&self, name: &str, next: &LeaseRecord) -> bool {
        self.get(name).is_none_or(|lease| lease.record.holder != next.holder)
    }

    fn put(&mut self, name: &str, state: LeaseState) {
        self.0.insert(name.into(), state);
    }
}

#[async_trait]
impl Leases for MemoryStore {
    async fn lease(&self, name: &str) -> Result<Option<LeaseState>, StoreError> {
        Ok(self.inner.lock_read().leases().get(name).cloned())
    }

    async fn swap(
        &self,
        name: &str,
        seen: Option<Revision>,
        next: LeaseRecord,
    ) -> Result<LeaseState, StoreError> {
        let mut shared = self.inner.lock_write();
        let current = shared.leases().get(name);
        let revision = current.map(|lease| lease.revision);
        if revision != seen {
            let found = match revision {
                Some(revision) => format!("it is at revision {revision}"),
                None => "there is no such lease".to_owned(),
            };
            let expected = match seen {
                Some(seen) => format!("not at {seen}"),
                None => "and was expected not to exist".to_owned(),
            };
            return Err(StoreError::new("swap", KIND, &ObjectKey::new(name), StoreFault::Conflict)
                .because(format!("{found}, {expected}: read it again")));
        }
        let token = current.map(|lease| lease.token);
        let state = match token {
            Some(token) if !shared.leases().begins_term(name, &next) => {
                let revision = shared.next_revision();
                shared.reached(revision);
                LeaseState::new(next, revision, token)
            }
            _ => {
                let token = shared.next_token();
                shared.reached_token(token);
                LeaseState::new(next, token, token)
            }
        };
        shared.leases_mut().put(name, state.clone());
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn held_by(holder: &str) -> LeaseRecord {
        LeaseRecord::new(Some(holder.to_owned()), Duration::from_secs(15), 0)
    }

    #[tokio::test]
    async fn a_renewal_keeps_the_token_and_a_takeover_changes_it() {
        let store = MemoryStore::default();
        let first = store.swap("main", None, held_by("a")).await.unwrap();
        assert_eq!(first.token, first.revision);
        let renewed = store.swap("main", Some(first.revision), held_by("a")).await.unwrap();
        assert_eq!(renewed.token, first.token);
        assert!(renewed.revision > first.revision);
        let taken = store.swap("main", Some(renewed.revision), held_by("b")).await.unwrap();
        assert_eq!(taken.token, taken.revision);
        assert_eq!(store.lease("main").await.unwrap(), Some(taken));
    }

    #[tokio::test]
    async fn a_release_ends_the_term() {
        let store = MemoryStore::default();
        let first = store.swap("main", None, held_by("a")).await.unwrap();
        let released = LeaseRecord::new(None, Duration::from_secs(15), 1);
        let released = store.swap("main", Some(first.revision), released).await.unwrap();
        assert_ne!(released.token, first.token);
    }

    #[tokio::test]
    async fn a_swap_on_an_old_revision_is_a_conflict_that_says_what_is_there() {
        let store = MemoryStore::default();
        store.swap("main", None, held_by("a")).await.unwrap();
        for seen in [None, Some(Revision(77))] {
            let error = store.swap("main", seen, held_by("b")).await.unwrap_err();
            assert_eq!(error.fault(), StoreFault::Conflict);
            assert!(error.to_string().contains("it is at revision 1"), "{error}");
        }
        let error = store.swap("other", Some(Revision(1)), held_by("b")).await.unwrap_err();
        assert!(error.to_string().contains("there is no such lease"), "{error}");
    }

    #[tokio::test]
    async fn a_store_that_went_back_in_time_gives_no_token_twice() {
        let store = MemoryStore::default();
        let snapshot = store.snapshot();
        let lost = store.swap("main", None, held_by("a")).await.unwrap();
        store.restore(&snapshot);
        assert_eq!(store.lease("main").await.unwrap(), None);
        let again = store.swap("main", None, held_by("b")).await.unwrap();
        assert!(again.token > lost.token, "{again:?} after {lost:?}");
    }
}
