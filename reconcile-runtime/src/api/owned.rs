//! Making an object the child of another. Pure.

use reconcile_core::{Faults, Owner, OwnerReference, Resource, StoreError, StoreFault};

/// Makes `owner` the controller of a new object, which inherits the owner's namespace.
///
/// # Errors
///
/// `Invalid`, with all faults: an owner that was never stored, an owner in another namespace, a second
/// controller.
pub(super) fn adopt<R: Resource>(owner: &impl Owner, child: &mut R) -> Result<(), StoreError> {
    let mut faults = Faults::default();
    let reference = OwnerReference::controller_of(owner);
    if reference.uid.is_empty() {
        faults.add(
            "metadata.ownerReferences",
            format!(
                "the owner {} {} has no uid: create it first, and pass what the store gave back",
                reference.kind, reference.key
            ),
        );
    }
    let meta = child.meta_mut();
    match (reference.key.namespace(), meta.namespace.as_deref()) {
        (Some(namespace), None) => meta.namespace = Some(namespace.to_owned()),
        (Some(owners), Some(childs)) if owners != childs => faults.add(
            "metadata.namespace",
            format!("is {childs:?}, but the owner lives in {owners:?}: an owner lives in the child's namespace or in none"),
        ),
        _ => {}
    }
    if let Some(other) = meta.controller()
        && other.uid != reference.uid
    {
        faults.add(
            "metadata.ownerReferences",
            format!("{} {} is the controller already: an object has at most one", other.kind, other.key),
        );
    }
    if !faults.is_empty() {
        return Err(StoreError::new("create", R::KIND, &child.key(), StoreFault::Invalid).with_faults(faults));
    }
    // A plain reference to the same owner becomes the controller's.
    let meta = child.meta_mut();
    meta.owner_references.retain(|known| known.uid != reference.uid);
    meta.owner_references.push(reference);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::test_store::{Pod, Web, pod, web};

    fn stored(mut web: Web) -> Web {
        web.meta.uid = "u1".into();
        web
    }

    fn refusal(owner: &Web, mut child: Pod) -> Vec<String> {
        let error = adopt(owner, &mut child).unwrap_err();
        assert_eq!(error.fault(), StoreFault::Invalid);
        error.faults().iter().map(|fault| fault.path.clone()).collect()
    }

    #[test]
    fn a_child_inherits_the_namespace_and_gets_one_controller() {
        let owner = stored(web("w").namespace("n"));
        let mut child = pod("p");
        child.meta.owner_references.push(OwnerReference::plain(&owner));
        adopt(&owner, &mut child).unwrap();
        assert_eq!(child.meta.namespace.as_deref(), Some("n"));
        assert_eq!(child.meta.owner_references, [OwnerReference::controller_of(&owner)]);
    }

    #[test]
    fn a_cluster_wide_owner_may_have_children_anywhere() {
        let owner = stored(web("w"));
        let mut child = pod("p").namespace("n");
        adopt(&owner, &mut child).unwrap();
        assert_eq!(child.meta.namespace.as_deref(), Some("n"));
        let mut child = pod("p");
        adopt(&owner, &mut child).unwrap();
        assert_eq!(child.meta.namespace, None);
    }

    #[test]
    fn all_faults_come_in_one_answer_with_their_paths() {
        let other = stored(web("other").namespace("m"));
        let mut child = pod("p").namespace("m");
        adopt(&other, &mut child).unwrap();
        let owner = web("w").namespace("n");
        assert_eq!(
            refusal(&owner, child),
            ["metadata.ownerReferences", "metadata.namespace", "metadata.ownerReferences"]
        );
        assert_eq!(
            refusal(&stored(web("w").namespace("n")), pod("p").namespace("m")),
            ["metadata.namespace"]
        );
        assert_eq!(refusal(&web("w"), pod("p")), ["metadata.ownerReferences"]);
    }
}
