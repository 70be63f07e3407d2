//! Rule 6, listings: never older than a write completed before, in pages that fit together and with a watch.

use std::{collections::BTreeMap, sync::Arc};

use futures::FutureExt;
use reconcile_core::{
    ObjectKey, StoreFault,
    store::{ListQuery, PageToken, WatchEvent},
};

use super::{
    Probe,
    check::{Check, Failure, holds, refused, same},
    lab::{Lab, Listing, at_once, key_of, probe},
    rule6::a_short_life,
    tail::{applied, exactly},
};

pub(super) async fn rule6_a_listing_is_as_new_as_the_last_write(lab: Lab) -> Check {
    let mut object = lab.create(probe("a")).await?;
    for size in 2..30 {
        object = lab.resize(&object, size).await?;
        let listing = lab.list().await?;
        same("list right after an update", listing.items, vec![object.clone()])?;
        let (cursor, written) = (listing.cursor.revision(), object.meta.revision);
        holds(
            "cursor of a listing right after an update",
            format!("{written} or later"),
            cursor >= written,
            || cursor.to_string(),
        )?;
        let other = lab.create(probe("b")).await?;
        same("list right after a create", lab.list().await?.keys(), vec!["a".to_owned(), "b".to_owned()])?;
        lab.remove(&key_of(&other)).await?;
        same("list right after a delete", lab.list().await?.keys(), vec!["a".to_owned()])?;
        same("get right after an update", &lab.present(&key_of(&object)).await?, &object)?;
    }
    Ok(())
}

pub(super) async fn rule6_a_listing_is_as_new_as_writes_of_others(lab: Lab) -> Check {
    // Each writer checks its own writes while the others write.
    let jobs = (0..3).map(|writer| {
        let lab = lab.clone();
        async move {
            let mut object = lab.create(probe(&format!("w{writer}"))).await?;
            for size in 2..40 {
                object = lab.resize(&object, size).await?;
                let listing = lab.list().await?;
                let listed = listing.items.iter().find(|item| item.meta.uid == object.meta.uid);
                same("own object in a listing after its update", listed, Some(&object))?;
            }
            Ok(())
        }
        .boxed()
    });
    at_once(jobs.collect()).await.map(drop)
}

/// Objects in some namespaces and in none. They are made in no order that a listing could be in by chance.
async fn nine(lab: &Lab) -> Check<Vec<Arc<Probe>>> {
    let mut all = Vec::new();
    for (namespace, name) in [
        (Some("b"), "a.b"),
        (None, "c"),
        (Some("a"), "b"),
        (Some("b"), "aa"),
        (None, "a"),
        (Some("a-b"), "a"),
        (Some("b"), "a"),
        (Some("a"), "a"),
        (None, "z"),
    ] {
        let mut object = probe(name);
        object.meta.namespace = namespace.map(str::to_owned);
        all.push(lab.create(object).await?);
    }
    Ok(all)
}

pub(super) async fn rule6_pages_are_in_key_order_and_repeat_the_cursor(lab: Lab) -> Check {
    let mut all = nine(&lab).await?;
    all.sort_by_key(|object| key_of(object));
    for limit in 1..=all.len() + 1 {
        let query = ListQuery::all().limit(limit);
        let mut page = lab.page(query.clone()).await?;
        let cursor = page.cursor.clone();
        let mut items = Vec::new();
        loop {
            let got = page.items.len();
            holds("size of a page", format!("at most {limit}"), got <= limit, || got.to_string())?;
            items.append(&mut page.items);
            let Some(next) = page.next.take() else { break };
            page = lab.next_page(&query, next, &cursor).await?;
        }
        let keys = |objects: &[Arc<Probe>]| objects.iter().map(|object| key_of(object)).collect::<Vec<_>>();
        same(format!("keys in pages of {limit}"), keys(&items), keys(&all))?;
        same(format!("objects in pages of {limit}"), &items, &all)?;
    }
    Ok(())
}

pub(super) async fn rule6_pages_while_writes_go_on_lose_nothing(lab: Lab) -> Check {
    let (stay, go): (Vec<_>, Vec<_>) = (0..40).partition(|index| index % 2 == 0);
    for index in 0..40 {
        lab.create(probe(&format!("a{index:02}"))).await?;
    }
    let before = lab.list().await?.items;
    let query = ListQuery::all().limit(3);
    let mut page = lab.page(query.clone()).await?;
    let cursor = page.cursor.clone();
    let mut listing = Listing { items: vec![], unreadable: vec![], cursor: cursor.clone() };
    let mut leaving = go.iter();
    let mut turn = 0;
    loop {
        listing.items.append(&mut page.items);
        let Some(next) = page.next.take() else { break };
        // Between two pages some go, ahead of the reader and behind it, some come, and one is changed.
        for _ in 0..2 {
            if let Some(index) = leaving.next() {
                lab.remove(&ObjectKey::new(&format!("a{index:02}"))).await?;
            }
        }
        lab.create(probe(&format!("a{turn:02}-new"))).await?;
        lab.create(probe(&format!("z{turn:02}"))).await?;
        let kept = lab.present(&ObjectKey::new("a38")).await?;
        lab.resize(&kept, 2 + turn).await?;
        turn += 1;
        page = lab.next_page(&query, next, &cursor).await?;
        if turn > 100 {
            return Err(Failure::new("listing by pages of 3", "an end", "more than a hundred pages"));
        }
    }
    let keys = listing.keys();
    for index in stay {
        let count = keys.iter().filter(|key| **key == format!("a{index:02}")).count();
        same(format!("how often a{index:02}, which was there throughout, is listed"), count, 1)?;
    }
    let mut sorted = listing.items.iter().map(|item| key_of(item)).collect::<Vec<_>>();
    sorted.dedup();
    same("number of keys listed, and of those listed once", sorted.len(), keys.len())?;
    fits_together(&lab, listing).await?;
    same("objects before", before.len(), 40)
}

/// What was listed, and what a watch from its cursor adds, is what is there.
async fn fits_together(lab: &Lab, listing: Listing) -> Check {
    let end = lab.create(probe("zz-end")).await?;
    let mut known: BTreeMap<ObjectKey, Arc<Probe>> =
        listing.items.into_iter().map(|item| (key_of(&item), item)).collect();
    for event in lab.watch(&listing.cursor).await?.until(end.meta.revision).await? {
        let key = event.key();
        match event {
            WatchEvent::Applied(object) => {
                // A page may already be newer than an event that comes later: newer wins.
                let newer = known.get(&key).is_none_or(|known| known.meta.revision <= object.meta.revision);
                if newer {
                    known.insert(key, object);
                }
            }
            WatchEvent::Deleted { revision, .. } => {
                if known.get(&key).is_some_and(|known| known.meta.revision < revision) {
                    known.remove(&key);
                }
            }
            _ => drop(known.remove(&key)),
        }
    }
    let stored: Vec<_> = lab.list().await?.items;
    let told =
        |objects: &[Arc<Probe>]| objects.iter().map(|object| applied(object)).collect::<Vec<_>>().join(" ");
    let known: Vec<_> = known.into_values().collect();
    same("a listing and a watch from its cursor, together", told(&known), told(&stored))
}

pub(super) async fn rule6_a_listing_and_its_watch_fit_together(lab: Lab) -> Check {
    let writer = {
        let lab = lab.clone();
        async move {
            for index in 0..120 {
                a_short_life(&lab, &format!("a{index}")).await?;
                lab.create(probe(&format!("b{index}"))).await?;
            }
            Ok(vec![])
        }
    };
    let reader = {
        let lab = lab.clone();
        async move {
            let mut listings = Vec::new();
            for limit in 1..=20 {
                listings.push(lab.list_by(ListQuery::all().limit(limit * 3)).await?);
            }
            Ok(listings)
        }
    };
    let came = at_once(vec![writer.boxed(), reader.boxed()]).await?;
    for listing in came.into_iter().flatten() {
        fits_together(&lab, listing).await?;
        lab.remove(&ObjectKey::new("zz-end")).await?;
    }
    Ok(())
}

pub(super) async fn rule6_bad_page_tokens_are_expired(lab: Lab) -> Check {
    nine(&lab).await?;
    let other = lab.elsewhere().await;
    nine(&other).await?;
    let foreign = other.page(ListQuery::all().limit(2)).await?.next;
    let foreign =
        foreign.ok_or_else(|| Failure::new("list with a limit", "a token for the next page", "none"))?;
    let noise: [&[u8]; 3] = [b"", b"x", &[0xff; 64]];
    let tokens = noise.into_iter().map(|bytes| ("of noise", PageToken::new(bytes)));
    for (what, token) in tokens.chain([("of another store", foreign)]) {
        let page = lab.probes().list(ListQuery::all().after(token)).await;
        refused(format!("list from a page token {what}"), StoreFault::Expired, page)?;
    }
    Ok(())
}

pub(super) async fn rule6_limits_are_kept(lab: Lab) -> Check {
    nine(&lab).await?;
    let page = lab.page(ListQuery::all().limit(0)).await?;
    same("size of a page with the limit 0, which counts as 1", page.items.len(), 1)?;
    let page = lab.page(ListQuery::all().limit(usize::MAX)).await?;
    holds("size of a page with a huge limit", "some", !page.items.is_empty(), || "0".into())?;
    // An empty store has one empty page, and a cursor to watch from.
    let empty = lab.elsewhere().await;
    let page = empty.page(ListQuery::all()).await?;
    holds("page of an empty store", "the last one", page.next.is_none(), || "a token for another".into())?;
    same("items of an empty store", page.items.len(), 0)?;
    let first = empty.create(probe("a")).await?;
    let events = empty.watch(&page.cursor).await?.until(first.meta.revision).await?;
    exactly("watch from the listing of an empty store", &events, &[applied(&first)])
}
