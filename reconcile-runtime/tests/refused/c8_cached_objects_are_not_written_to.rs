//! What the cache gives out cannot be written to: a reconciler changes a copy of its own, or writes to the store.

use reconcile_runtime::{
    Api,
    core::{Object, ObjectKey, Spec},
};

#[derive(Clone, Debug, PartialEq)]
struct WebSpec {
    replicas: u32,
}
impl Spec for WebSpec {
    const KIND: &'static str = "Web";
    type Status = u32;
}

fn edits_the_cache(webs: &Api<Object<WebSpec>>) {
    let web = webs.get(&ObjectKey::new("web")).expect("it is cached");
    web.status = 7;
}

fn main() {
    let _ = edits_the_cache;
}
