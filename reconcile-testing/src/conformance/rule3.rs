//! Rule 3: a write that changes nothing raises no revision and emits no event.

use std::sync::Arc;

use reconcile_core::{
    ObjectKey, StoreFault,
    store::{Cursor, Preconditions, Write, Written},
};

use super::{
    Probe,
    check::{Check, ok, refused, same},
    lab::{Lab, delete_of, held, key_of, probe, status_of, stored, unchanged, update_of},
    tail::{applied, exactly},
};

/// Nothing happened to an object since `cursor`: no event, no revision. A write to another one ends the watch.
async fn nothing_happened(lab: &Lab, operation: &str, cursor: &Cursor, object: &Arc<Probe>) -> Check {
    same(format!("get after {operation}"), &lab.present(&key_of(object)).await?, object)?;
    let end = lab.create(probe("end")).await?;
    let events = lab.watch(cursor).await?.until(end.meta.revision).await?;
    exactly(&format!("watch across {operation}"), &events, &[applied(&end)])
}

async fn changes_nothing(lab: &Lab, operation: &str, object: &Arc<Probe>, write: Write<Probe>) -> Check {
    let cursor = lab.cursor().await?;
    let revision = lab.revision().await?;
    let answer = unchanged(operation, ok(operation, lab.write(write).await)?)?;
    same(format!("answer of {operation}"), &answer, object)?;
    same(format!("revision of the store after {operation}"), lab.revision().await?, revision)?;
    nothing_happened(lab, operation, &cursor, object).await
}

pub(super) async fn rule3_an_equal_update_changes_nothing(lab: Lab) -> Check {
    let object = lab.create(probe("a").label("app", "web")).await?;
    changes_nothing(&lab, "an equal update", &object, Write::Update((*object).clone())).await
}

pub(super) async fn rule3_an_equal_status_changes_nothing(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let object = lab.report(&object, 3).await?;
    changes_nothing(&lab, "an equal status update", &object, status_of(&object, 3)).await
}

pub(super) async fn rule3_left_out_defaults_change_nothing(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let update = update_of(&object, |probe| probe.spec.tone = None);
    changes_nothing(&lab, "an update that leaves a default out", &object, update).await
}

pub(super) async fn rule3_deleting_again_changes_nothing(lab: Lab) -> Check {
    let object = lab.create(held("a", "example.com/hold")).await?;
    let delete = || delete_of(key_of(&object), Preconditions::none());
    let marked = stored("delete", ok("delete with finalizers", lab.write(delete()).await)?)?;
    changes_nothing(&lab, "a second delete", &marked, delete()).await
}

pub(super) async fn rule3_a_refused_write_changes_nothing(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let cursor = lab.cursor().await?;
    let mut stale = (*object).clone();
    stale.meta.revision.0 += 1000;
    let refusals: [(Write<Probe>, StoreFault); 5] = [
        (Write::Create(probe("a")), StoreFault::AlreadyExists),
        (Write::Update(stale.clone()), StoreFault::Conflict),
        (Write::UpdateStatus(stale), StoreFault::Conflict),
        (update_of(&object, |probe| probe.spec.text = "!".into()), StoreFault::Invalid),
        (delete_of(ObjectKey::new("nothing"), Preconditions::none()), StoreFault::NotFound),
    ];
    for (write, fault) in refusals {
        let operation = format!("{} that must be refused", write.operation());
        let answer: Result<Written<Probe>, _> = lab.write(write).await;
        refused(operation, fault, answer)?;
    }
    nothing_happened(&lab, "refused writes", &cursor, &object).await
}
