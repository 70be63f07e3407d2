//! Rule 7: defaults and validation run on create and when the spec changed, and never in the way of metadata,
//! finalizers or status. All faults come in one answer.

use reconcile_core::{
    Object, StoreError, StoreFault,
    store::{Preconditions, Write},
};

use super::{
    Probe, ProbeSpec,
    check::{Check, holds, ok, refused, same},
    lab::{Lab, delete_of, held, key_of, probe, removed, stored, unchanged, update_of},
};

fn grey() -> Option<String> {
    Some(ProbeSpec::DEFAULT_TONE.to_owned())
}

/// Every one of these paths is among the faults.
fn names(operation: &str, error: &StoreError, paths: &[&str]) -> Check {
    for path in paths {
        let named = error.faults().iter().any(|fault| fault.path == *path);
        holds(operation, format!("a fault at {path:?} among all"), named, || error.to_string())?;
    }
    Ok(())
}

pub(super) async fn rule7_defaults_are_filled_in(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    same("tone after a create without one", &object.spec.tone, &grey())?;
    same("get", &lab.present(&key_of(&object)).await?, &object)?;
    let object = lab
        .edit(&object, |probe| {
            probe.spec.tone = None;
            probe.spec.size = 2;
        })
        .await?;
    same("tone after an update without one", &object.spec.tone, &grey())?;
    let object = lab.edit(&object, |probe| probe.spec.tone = Some("red".into())).await?;
    same("tone that was asked for", object.spec.tone.as_deref(), Some("red"))?;
    let object = lab.edit(&object, |probe| probe.spec.tone = None).await?;
    same("tone that is no longer asked for", &object.spec.tone, &grey())?;
    same("generation after two changes of tone and one of size", object.meta.generation, 4)
}

pub(super) async fn rule7_all_faults_come_in_one_answer(lab: Lab) -> Check {
    let mut bad = Object::new("Not A Name", ProbeSpec { size: u32::MAX, tone: None, text: "no!".into() });
    bad.meta.finalizers.push(String::new());
    let create = lab.write(Write::Create(bad.clone())).await;
    let error = refused("create of an object with four faults", StoreFault::Invalid, create)?;
    let all = ["metadata.name", "metadata.finalizers[0]", "spec.size", "spec.text"];
    names("create of an object with four faults", &error, &all)?;
    lab.absent(&key_of(&bad)).await?;
    let stored = lab.create(probe("a")).await?;
    let update = update_of(&stored, |probe| {
        (probe.spec.size, probe.spec.text) = (u32::MAX, "no!".into());
        probe.status.ready = 1;
    });
    let error = refused("update with three faults", StoreFault::Invalid, lab.write(update).await)?;
    names("update with three faults", &error, &["status", "spec.size", "spec.text"])
}

pub(super) async fn rule7_an_invalid_update_changes_nothing(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let update = update_of(&object, |probe| {
        probe.spec.text = "no!".into();
        probe.meta.labels.insert("app".into(), "web".into());
    });
    let error = refused("update to an invalid spec", StoreFault::Invalid, lab.write(update).await)?;
    names("update to an invalid spec", &error, &["spec.text"])?;
    same("get after an invalid update", lab.present(&key_of(&object)).await?, object)
}

pub(super) async fn rule7_metadata_is_validated(lab: Lab) -> Check {
    type Spoil = fn(&mut Probe);
    let bad: [(&str, Spoil); 4] = [
        ("a label with a bad value", |probe| drop(probe.meta.labels.insert("app".into(), "-".into()))),
        ("a label with a bad name", |probe| drop(probe.meta.labels.insert("a b".into(), "x".into()))),
        ("a finalizer with white space", |probe| probe.meta.finalizers.push("a b".into())),
        ("an annotation with a bad name", |probe| {
            drop(probe.meta.annotations.insert("a b".into(), "".into()));
        }),
    ];
    let object = lab.create(probe("a")).await?;
    for (what, make_bad) in bad {
        let mut new = probe("b");
        make_bad(&mut new);
        refused(format!("create with {what}"), StoreFault::Invalid, lab.write(Write::Create(new)).await)?;
        let update = lab.write(update_of(&object, make_bad)).await;
        refused(format!("update to {what}"), StoreFault::Invalid, update)?;
    }
    let names = ["", "Upper", "a/b", "a b", "-a", ".", "a..b"];
    for name in names {
        let create = lab.write(Write::Create(probe(name))).await;
        refused(format!("create under the name {name:?}"), StoreFault::Invalid, create)?;
    }
    same("number of objects", lab.list().await?.items.len(), 1)
}

pub(super) async fn rule7_validation_does_not_stand_in_the_way(lab: Lab) -> Check {
    let mut frozen = held("a", "example.com/hold");
    frozen.spec.text = ProbeSpec::FROZEN.into();
    let object = lab.create(frozen).await?;
    let update = lab.write(update_of(&object, |probe| probe.spec.size = 2)).await;
    refused("update of a spec that is no longer valid", StoreFault::Invalid, update)?;
    let object =
        lab.edit(&object, |probe| drop(probe.meta.labels.insert("app".into(), "web".into()))).await?;
    let object = lab.report(&object, 1).await?;
    let object = lab.edit(&object, |probe| probe.meta.finalizers.push("example.com/two".into())).await?;
    let delete = lab.write(delete_of(key_of(&object), Preconditions::none())).await;
    let object = stored("delete", ok("delete of an invalid object", delete)?)?;
    let update = lab.write(update_of(&object, |probe| probe.meta.finalizers.clear())).await;
    removed("update", ok("removing the finalizers of an invalid object", update)?)?;
    lab.absent(&key_of(&object)).await
}

pub(super) async fn rule7_defaults_are_applied_on_reading(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let object = lab.create(probe("a")).await?;
    lab.undefault(&key_of(&object)).await?;
    let read = lab.present(&key_of(&object)).await?;
    same("get of an object stored without its defaults", &read, &object)?;
    same("list of an object stored without its defaults", &lab.list().await?.items, &vec![object.clone()])?;
    let write = Write::Update((*read).clone());
    let after = unchanged("update", ok("update to what was read", lab.write(write).await)?)?;
    same("answer of an update to what was read", &after, &object)?;
    let edited = lab.edit(&read, |probe| drop(probe.meta.labels.insert("app".into(), "web".into()))).await?;
    same("generation after a new default and a label", edited.meta.generation, 1)?;
    let events = lab.watch(&cursor).await?.until(edited.meta.revision).await?;
    let expected = [super::tail::applied(&object), super::tail::applied(&edited)];
    super::tail::exactly("watch across a new default", &events, &expected)
}
