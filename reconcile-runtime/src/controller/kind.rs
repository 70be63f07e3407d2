//! Kinds without their type: how a controller says which kinds it reads from.

use std::{fmt, sync::Arc};

use reconcile_core::Resource;

use crate::{Api, cache::Kind};

/// One kind of one manager. Equal for all `Api`s of that kind that the manager gave out, and for no other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KindId {
    name: &'static str,
    /// Where the manager keeps the kind. Compared only while an `Api` or the manager holds it.
    address: usize,
}

impl KindId {
    pub(crate) fn of<R: Resource>(api: &Api<R>) -> Self {
        KindId::at(api.kind())
    }

    pub(crate) fn at<R: Resource>(kind: &Arc<Kind<R>>) -> Self {
        KindId { name: R::KIND, address: Arc::as_ptr(kind).addr() }
    }

    /// The name of the kind.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

mod sealed {
    pub trait Sealed {}
    impl<R: reconcile_core::Resource> Sealed for crate::Api<R> {}
}

/// An [`Api`] of any kind, for [`Controller::needs_only`](crate::Controller::needs_only).
pub trait AnyApi: sealed::Sealed {
    /// Which kind of which manager it is.
    fn kind_id(&self) -> KindId;
}

impl<R: Resource> AnyApi for Api<R> {
    fn kind_id(&self) -> KindId {
        KindId::of(self)
    }
}
