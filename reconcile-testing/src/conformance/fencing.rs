//! Leases and fencing: a write of a term that is over is refused, before everything else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use reconcile_core::{
    ObjectKey, Revision, StoreError, StoreFault,
    store::{Fence, LeaseRecord, LeaseState, Preconditions, Write, WriteContext, Written},
};

use super::{
    Probe,
    check::{Check, Failure, holds, ok, refused, same, told},
    lab::{Lab, at_once, delete_of, held, key_of, probe, removed, status_of, stored, unchanged, update_of},
    tail::{applied, exactly},
};

const LEASE: &str = "main";

fn record(holder: &str) -> LeaseRecord {
    LeaseRecord::new(Some(holder.to_owned()), Duration::from_secs(15), 0)
}

async fn swap(lab: &Lab, seen: Option<Revision>, holder: &str) -> Check<LeaseState> {
    ok(format!("swap by {holder}"), lab.leases()?.swap(LEASE, seen, record(holder)).await)
}

fn as_term(lab: &Lab, lease: &str, token: Revision) -> WriteContext {
    lab.cx().fenced(Fence::new(lease, token))
}

pub(super) async fn fencing_a_lease_is_swapped_by_revision(lab: Lab) -> Check {
    let leases = lab.leases()?.clone();
    same("lease before the first swap", ok("lease", leases.lease(LEASE).await)?, None)?;
    let early = leases.swap(LEASE, Some(Revision(1)), record("a")).await;
    refused("swap of a lease that is not there", StoreFault::Conflict, early)?;
    let first = swap(&lab, None, "a").await?;
    same("record of a lease", &first.record, &record("a"))?;
    same("lease", ok("lease", leases.lease(LEASE).await)?.as_ref(), Some(&first))?;
    refused(
        "first swap of a lease that is there",
        StoreFault::Conflict,
        leases.swap(LEASE, None, record("b")).await,
    )?;
    let second = swap(&lab, Some(first.revision), "a").await?;
    let (before, after) = (first.revision, second.revision);
    holds("revision of a renewed lease", format!("above {before}"), after > before, || after.to_string())?;
    let stale = leases.swap(LEASE, Some(first.revision), record("b")).await;
    refused("swap on an old revision", StoreFault::Conflict, stale)?;
    same("lease after a refused swap", ok("lease", leases.lease(LEASE).await)?, Some(second))?;
    same("another lease", ok("lease", leases.lease("other").await)?, None)
}

pub(super) async fn fencing_the_token_changes_with_the_holder(lab: Lab) -> Check {
    let first = swap(&lab, None, "a").await?;
    same("token of a takeover", first.token, first.revision)?;
    let renewed = swap(&lab, Some(first.revision), "a").await?;
    same("token after a renewal", renewed.token, first.token)?;
    let taken = swap(&lab, Some(renewed.revision), "b").await?;
    same("token of the next takeover", taken.token, taken.revision)?;
    let back = swap(&lab, Some(taken.revision), "a").await?;
    let (before, after) = (taken.token, back.token);
    holds("token of a holder that came back", format!("above {before}"), after > before, || after.to_string())
}

pub(super) async fn fencing_one_of_many_takeovers_wins(lab: Lab) -> Check {
    let mut state = swap(&lab, None, "nobody").await?;
    for round in 0..25 {
        let jobs = (0..4).map(|candidate| {
            let (lab, seen) = (lab.clone(), state.revision);
            async move {
                let next = record(&format!("candidate-{round}-{candidate}"));
                match lab.leases()?.swap(LEASE, Some(seen), next).await {
                    Ok(state) => Ok(Some(state)),
                    Err(error) if error.fault() == StoreFault::Conflict => Ok(None),
                    Err(error) => Err(Failure::new("concurrent swaps", "success or Conflict", told(&error))),
                }
            }
            .boxed()
        });
        let mut won: Vec<_> = at_once(jobs.collect()).await?.into_iter().flatten().collect();
        same("number of swaps that succeeded", won.len(), 1)?;
        let Some(winner) = won.pop() else { continue };
        let stored = ok("lease", lab.leases()?.lease(LEASE).await)?;
        same("lease after concurrent swaps", stored.as_ref(), Some(&winner))?;
        state = winner;
    }
    Ok(())
}

pub(super) async fn fencing_the_current_term_may_write(lab: Lab) -> Check {
    let first = swap(&lab, None, "a").await?;
    let cx = as_term(&lab, LEASE, first.token);
    let object = stored("create", ok("create", lab.write_as(Write::Create(probe("a")), &cx).await)?)?;
    // A renewal keeps the token good.
    swap(&lab, Some(first.revision), "a").await?;
    let cx = as_term(&lab, LEASE, first.token);
    let update = update_of(&object, |probe| probe.spec.size = 2);
    let object = stored("update", ok("update", lab.write_as(update, &cx).await)?)?;
    let object = stored("status", ok("status update", lab.write_as(status_of(&object, 1), &cx).await)?)?;
    let equal = Write::Update((*object).clone());
    unchanged("update", ok("equal update", lab.write_as(equal, &cx).await)?)?;
    let delete = delete_of(key_of(&object), Preconditions::none());
    removed("delete", ok("delete", lab.write_as(delete, &cx).await)?)?;
    Ok(())
}

/// Every kind of write, each of which would do something.
fn all_writes(object: &Probe) -> Vec<Write<Probe>> {
    vec![
        Write::Create(probe("new")),
        update_of(object, |probe| probe.spec.size = 9),
        status_of(object, 9),
        delete_of(key_of(object), Preconditions::none()),
    ]
}

/// All of these writes are refused as fenced, and none leaves a trace.
async fn all_fenced(lab: &Lab, what: &str, lease: &str, token: Revision, writes: Vec<Write<Probe>>) -> Check {
    let before = lab.list().await?;
    for write in writes {
        let operation = format!("{} {}, {what}", write.operation(), write.key());
        let cx = as_term(lab, lease, token);
        let answer: Result<Written<Probe>, StoreError> = lab.write_as(write, &cx).await;
        refused(operation, StoreFault::Fenced, answer)?;
    }
    let after = lab.list().await?;
    same(format!("what is stored after writes {what}"), &after.items, &before.items)?;
    let end = lab.create(probe("fenced-end")).await?;
    let events = lab.watch(&before.cursor).await?.until(end.meta.revision).await?;
    exactly(&format!("watch across writes {what}"), &events, &[applied(&end)])?;
    lab.remove(&key_of(&end)).await.map(drop)
}

pub(super) async fn fencing_an_old_term_may_not_write(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let first = swap(&lab, None, "a").await?;
    let second = swap(&lab, Some(first.revision), "b").await?;
    all_fenced(&lab, "with an old token", LEASE, first.token, all_writes(&object)).await?;
    let never = Revision(second.token.0 + 1_000);
    all_fenced(&lab, "with a token that was never given", LEASE, never, all_writes(&object)).await?;
    // After a release nobody is in term: the last holder's late writes are refused.
    let released = LeaseRecord::new(None, Duration::from_secs(15), 2);
    ok("release", lab.leases()?.swap(LEASE, Some(second.revision), released).await)?;
    all_fenced(&lab, "after a release", LEASE, second.token, all_writes(&object)).await
}

pub(super) async fn fencing_an_unknown_lease_may_not_write(lab: Lab) -> Check {
    let object = lab.create(probe("a")).await?;
    let first = swap(&lab, None, "a").await?;
    all_fenced(&lab, "for an unknown lease", "unknown", first.token, all_writes(&object)).await?;
    all_fenced(&lab, "for an unknown lease", "unknown", Revision(0), all_writes(&object)).await
}

pub(super) async fn fencing_comes_before_every_other_fault(lab: Lab) -> Check {
    let object = lab.create(held("a", "example.com/hold")).await?;
    let first = swap(&lab, None, "a").await?;
    swap(&lab, Some(first.revision), "b").await?;
    let old = lab.create(probe("b")).await?;
    lab.resize(&old, 2).await?;
    let mut nameless = (*object).clone();
    nameless.meta.uid = Default::default();
    let writes = vec![
        Write::Create(probe("a")),                                      // AlreadyExists
        Write::Create(probe("Not A Name")),                             // Invalid
        Write::Update((*object).clone()),                               // Unchanged
        Write::UpdateStatus((*object).clone()),                         // Unchanged
        update_of(&old, |probe| probe.spec.size = 3),                   // Conflict
        update_of(&object, |probe| probe.spec.text = "no!".into()),     // Invalid
        Write::Update(nameless),                                        // Invalid
        delete_of(ObjectKey::new("nothing"), Preconditions::none()),    // NotFound
        delete_of(key_of(&object), Preconditions::uid("other".into())), // Conflict
    ];
    all_fenced(&lab, "that would be refused or empty anyway", LEASE, first.token, writes).await
}

pub(super) async fn fencing_nothing_lands_after_the_takeover(lab: Lab) -> Check {
    for round in 0..lab.races().div_ceil(10).min(100) as u32 {
        let object = lab.create(probe(&format!("a{round}"))).await?;
        let seen = ok("lease", lab.leases()?.lease(LEASE).await)?;
        let old = swap(&lab, seen.map(|lease| lease.revision), &format!("old-{round}")).await?;
        let taken = Arc::new(AtomicBool::new(false));
        // The takeover comes when the writer is in full swing, each round a write later.
        let (swing, in_swing) = tokio::sync::oneshot::channel();
        let (mut swing, swing_at) = (Some(swing), round % 5 + 3);
        let writer = {
            let (lab, object, taken) = (lab.clone(), object.clone(), taken.clone());
            async move {
                let mut object = object;
                for size in 2.. {
                    if size > swing_at
                        && let Some(swing) = swing.take()
                    {
                        // Nobody listens only if the takeover has failed, which is reported by it.
                        let _ = swing.send(());
                    }
                    // Looked at before the write: what lands afterwards began after the takeover was answered.
                    let after_takeover = taken.load(Ordering::SeqCst);
                    let cx = as_term(&lab, LEASE, old.token);
                    match lab.write_as(update_of(&object, |probe| probe.spec.size = size), &cx).await {
                        Ok(Written::Stored(_)) if after_takeover => {
                            return Err(Failure::new("write of an old term", "the fault Fenced", "success"));
                        }
                        Ok(Written::Stored(next)) => object = next,
                        Err(error) if error.fault() == StoreFault::Fenced => break,
                        other => {
                            return Err(Failure::new(
                                "write beside a takeover",
                                "Stored or Fenced",
                                format!("{other:?}"),
                            ));
                        }
                    }
                }
                Ok(object.meta.revision)
            }
        };
        let takeover = {
            let (lab, taken, revision) = (lab.clone(), taken.clone(), old.revision);
            async move {
                // A writer that fails drops its end, and that is reported by the writer.
                let _ = in_swing.await;
                // And not where the writer has just told of it, but anywhere in its next write.
                for _ in 0..round * 7 % 20 {
                    std::thread::yield_now();
                }
                let new = swap(&lab, Some(revision), &format!("new-{round}")).await;
                taken.store(true, Ordering::SeqCst);
                Ok(new?.token)
            }
        };
        let came = at_once(vec![writer.boxed(), takeover.boxed()]).await?;
        if let [last, token] = came[..]
            && lab.probes().guarantees().store_wide_order
        {
            holds(
                "last write of an old term",
                format!("one before its successor, {token}"),
                last < token,
                || last.to_string(),
            )?;
        }
        let stored = lab.present(&key_of(&object)).await?;
        same("what is stored after a takeover", Some(&stored.meta.revision), came.first())?;
    }
    Ok(())
}
