//! Rule 8: an unreadable object is present, and disturbs nothing else.

use reconcile_core::{
    ObjectKey, ObjectMeta, StoreFault,
    store::{ListQuery, Preconditions, Propagation, Scope, WatchEvent, Write, Written},
};
use reconcile_runtime::store::Damage;

use super::{
    check::{Check, Failure, holds, ok, refused, same},
    lab::{Lab, delete_of, gadget, held, key_of, probe, removed, status_of, update_of},
    tail::{applied, trace},
};

const BOTH: [Damage; 2] = [Damage::Content, Damage::Everything];

fn key() -> ObjectKey {
    ObjectKey::new("m")
}

pub(super) async fn rule8_an_unreadable_object_is_present(lab: Lab) -> Check {
    for damage in BOTH {
        let object = lab.create(probe("m")).await?;
        lab.damage(&key(), damage).await?;
        let operation = |what: &str| format!("{what} an unreadable object ({damage:?})");
        refused(operation("get"), StoreFault::Unreadable, lab.probes().get(&key()).await)?;
        let create = lab.write(Write::Create(probe("m"))).await;
        refused(operation("create over"), StoreFault::AlreadyExists, create)?;
        let update = lab.write(update_of(&object, |probe| probe.spec.size = 2)).await;
        refused(operation("update"), StoreFault::Unreadable, update)?;
        let status = lab.write(status_of(&object, 2)).await;
        refused(operation("update the status of"), StoreFault::Unreadable, status)?;
        let listing = lab.list().await?;
        same(operation("list"), listing.keys(), vec![])?;
        match &listing.unreadable[..] {
            [item] => {
                same(operation("list, the key of"), &item.key, &key())?;
                let newer = item.revision > object.meta.revision;
                holds(operation("list, the revision of"), "that of the damage", newer, || {
                    item.revision.to_string()
                })?;
                let uid = item.meta.as_ref().map(|meta| &meta.uid);
                let expected = (damage == Damage::Content).then_some(&object.meta.uid);
                same(operation("list, the uid of"), uid, expected)?;
            }
            other => return Err(Failure::new(operation("list"), "it as unreadable", format!("{other:?}"))),
        }
        lab.remove(&key()).await?;
    }
    Ok(())
}

pub(super) async fn rule8_an_unreadable_object_is_listed_on_its_page(lab: Lab) -> Check {
    for name in ["a", "b", "m", "x", "y"] {
        lab.create(probe(name)).await?;
    }
    lab.damage(&key(), Damage::Everything).await?;
    for limit in 1..=5 {
        let listing = lab.list_by(ListQuery::all().limit(limit)).await?;
        let operation = format!("list by pages of {limit}");
        same(&operation, listing.keys(), ["a", "b", "x", "y"].map(str::to_owned).to_vec())?;
        let unreadable: Vec<_> = listing.unreadable.iter().map(|item| item.key.clone()).collect();
        same(format!("{operation}, the unreadable ones"), unreadable, vec![key()])?;
    }
    Ok(())
}

pub(super) async fn rule8_a_watch_tells_of_the_damage(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let object = lab.create(probe("m")).await?;
    lab.damage(&key(), Damage::Content).await?;
    let (last, gone) = lab.remove(&key()).await?;
    holds("last state of an unreadable object", "none", last.is_none(), || format!("{last:?}"))?;
    let events = lab.watch(&cursor).await?.until(gone).await?;
    match &events[..] {
        [
            WatchEvent::Applied(first),
            WatchEvent::Unreadable(item),
            WatchEvent::Deleted { key: k, last: None, .. },
        ] => {
            same("watch, the first event", first, &object)?;
            same("watch, the key of what is unreadable", &item.key, &key())?;
            same("watch, the key of what is gone", k, &key())
        }
        _ => Err(Failure::new(
            "watch across damage and delete",
            format!("{}, then unreadable, then deleted without a last state", applied(&object)),
            trace(&events),
        )),
    }
}

pub(super) async fn rule8_nothing_else_is_disturbed(lab: Lab) -> Check {
    let before = lab.create(probe("a").namespace("one")).await?;
    lab.create(probe("m")).await?;
    let other = lab.gadgets().write(Write::Create(gadget("m")), &lab.cx()).await;
    ok("create of a gadget of the same name", other)?;
    lab.damage(&key(), Damage::Everything).await?;
    same("get beside damage", &lab.present(&key_of(&before)).await?, &before)?;
    let gadget = ok("get of a gadget beside damage", lab.gadgets().get(&key()).await)?;
    holds("get of a gadget beside damage", "the gadget", gadget.is_some(), || "nothing".into())?;
    let mut tail = lab.watch(&lab.cursor().await?).await?;
    let after = lab.resize(&before, 2).await?;
    let new = lab.create(probe("z")).await?;
    let events = tail.until(new.meta.revision).await?;
    super::tail::exactly("watch beside damage", &events, &[applied(&after), applied(&new)])?;
    let scoped = lab.list_by(ListQuery::all().scope(Scope::all().namespace("one"))).await?;
    same("list of another namespace", scoped.keys(), vec!["one/a".to_owned()])?;
    same("list of another namespace, the unreadable ones", scoped.unreadable.len(), 0)
}

pub(super) async fn rule8_an_unreadable_object_can_be_deleted(lab: Lab) -> Check {
    for damage in BOTH {
        let object = lab.create(probe("m")).await?;
        lab.damage(&key(), damage).await?;
        if damage == Damage::Content {
            // What can be read of it is still compared.
            let wrong = Preconditions::uid("somebody-else".into());
            let delete = lab.write(delete_of(key(), wrong)).await;
            refused("delete of an unreadable object with a wrong uid", StoreFault::Conflict, delete)?;
            let right = Preconditions::uid(object.meta.uid.clone());
            let delete =
                ok("delete of an unreadable object by its uid", lab.write(delete_of(key(), right)).await)?;
            removed("delete of an unreadable object by its uid", delete)?;
        } else {
            lab.remove(&key()).await?;
        }
        lab.absent(&key()).await?;
        lab.create(probe("m")).await?;
        lab.remove(&key()).await?;
    }
    Ok(())
}

pub(super) async fn rule8_finalizers_hold_an_unreadable_object(lab: Lab) -> Check {
    lab.create(held("m", "example.com/hold")).await?;
    lab.damage(&key(), Damage::Content).await?;
    let operation = "delete of an unreadable object with finalizers";
    for _ in 0..2 {
        let delete = lab.write(delete_of(key(), Preconditions::none())).await;
        match ok(operation, delete)? {
            Written::Marked(item) => {
                let marked = item.meta.as_ref().is_some_and(ObjectMeta::is_deleting);
                holds(operation, "metadata with deleted_at", marked, || format!("{item:?}"))?;
            }
            other => return Err(Failure::new(operation, "Marked", format!("{other:?}"))),
        }
    }
    refused("get after it", StoreFault::Unreadable, lab.probes().get(&key()).await)?;
    Ok(())
}

pub(super) async fn rule8_conditions_on_unreadable_metadata_are_not_guessed(lab: Lab) -> Check {
    let object = lab.create(probe("m")).await?;
    lab.damage(&key(), Damage::Everything).await?;
    let only_if = Preconditions::uid(object.meta.uid.clone());
    let delete = lab.write(delete_of(key(), only_if)).await;
    refused("delete by uid of what has no readable uid", StoreFault::Unreadable, delete)?;
    for propagation in [Propagation::Foreground, Propagation::Orphan] {
        let write = Write::Delete { key: key(), only_if: Preconditions::none(), propagation };
        let operation = format!("delete, {propagation}, of what has no readable finalizers");
        refused(operation, StoreFault::Unreadable, lab.write(write).await)?;
    }
    refused("get", StoreFault::Unreadable, lab.probes().get(&key()).await)?;
    Ok(())
}
