//! Rule 6, scopes: a listing or a watch of one namespace, or of objects with some labels.

use reconcile_core::{
    LabelSelector,
    store::{ListQuery, Scope, WatchEvent},
};

use super::{
    Probe,
    check::{Check, Failure, holds, same},
    lab::{Lab, key_of, probe},
    tail::{applied, deleted, exactly, trace},
};

fn web() -> Scope {
    Scope::all().labels(LabelSelector::default().with("app", "web"))
}

fn labelled(value: &str) -> impl FnOnce(&mut Probe) {
    let value = value.to_owned();
    move |probe| drop(probe.meta.labels.insert("app".to_owned(), value))
}

pub(super) async fn rule6_a_scoped_listing_holds_the_scope(lab: Lab) -> Check {
    for (namespace, name, app) in [
        ("one", "a", "web"),
        ("one", "b", "db"),
        ("two", "a", "web"),
        ("two", "b", "web"),
        ("on", "a", "web"),
        ("one-more", "a", "web"),
    ] {
        lab.create(probe(name).namespace(namespace).label("app", app).label("tier", "x")).await?;
    }
    lab.create(probe("one").label("app", "web")).await?;
    let cases: [(&str, Scope, &[&str]); 5] = [
        ("a namespace", Scope::all().namespace("one"), &["one/a", "one/b"]),
        ("a label", web(), &["one", "on/a", "one/a", "one-more/a", "two/a", "two/b"]),
        ("both", web().namespace("two"), &["two/a", "two/b"]),
        ("an empty namespace", Scope::all().namespace("nobody"), &[]),
        (
            "two labels",
            Scope::all().labels(LabelSelector::default().with("app", "db").with("tier", "x")),
            &["one/b"],
        ),
    ];
    for (what, scope, expected) in cases {
        for limit in [1, 2, 100] {
            let listing = lab.list_by(ListQuery::all().scope(scope.clone()).limit(limit)).await?;
            let operation = format!("list by {what} in pages of {limit}");
            same(
                operation,
                listing.keys(),
                expected.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(),
            )?;
        }
    }
    Ok(())
}

pub(super) async fn rule6_a_scoped_watch_sees_entering_and_leaving(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let outside = lab.create(probe("a")).await?;
    let entered = lab.edit(&outside, labelled("web")).await?;
    let changed = lab.resize(&entered, 2).await?;
    let left = lab.edit(&changed, labelled("db")).await?;
    let hidden = lab.resize(&left, 3).await?;
    let back = lab.edit(&hidden, labelled("web")).await?;
    let (_, gone) = lab.remove(&key_of(&back)).await?;
    let other = lab.create(probe("b")).await?;
    let (_, never_in) = lab.remove(&key_of(&other)).await?;
    let key = key_of(&outside);
    let events = lab.watch_in(&cursor, &web()).await?.until(never_in).await?;
    let expected = [
        applied(&entered),
        applied(&changed),
        deleted(&key, left.meta.revision),
        applied(&back),
        deleted(&key, gone),
    ];
    exactly("watch by a label", &events, &expected)?;
    // Who leaves the scope is told with the last state inside it; the watch checks that. Its uid is known.
    match events.get(2) {
        Some(WatchEvent::Deleted { uid, .. }) => {
            same("uid of what left the scope", uid.as_ref(), Some(&outside.meta.uid))
        }
        _ => Err(Failure::new("watch by a label", "a delete as third event", trace(&events))),
    }
}

pub(super) async fn rule6_a_scoped_watch_sees_its_namespace_only(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let mut tail = lab.watch_in(&cursor, &Scope::all().namespace("one")).await?;
    let inside = lab.create(probe("a").namespace("one")).await?;
    let other = lab.create(probe("a").namespace("two")).await?;
    let none = lab.create(probe("one")).await?;
    lab.remove(&key_of(&other)).await?;
    lab.remove(&key_of(&none)).await?;
    let (_, gone) = lab.remove(&key_of(&inside)).await?;
    let expected = [applied(&inside), deleted(&key_of(&inside), gone)];
    exactly("watch of a namespace", &tail.until(gone).await?, &expected)
}

pub(super) async fn rule6_a_scoped_watch_marks_progress(lab: Lab) -> Check {
    let cursor = lab.cursor().await?;
    let mut tail = lab.watch_in(&cursor, &web()).await?;
    for index in 0..20 {
        lab.create(probe(&format!("a{index}"))).await?;
    }
    let revision = lab.revision().await?;
    let events = tail.until(revision).await?;
    holds("watch of a scope in which nothing happens", "no events, and progress", events.is_empty(), || {
        trace(&events)
    })?;
    // The mark is a place to resume from: what was before it does not come again.
    let inside = lab.create(probe("b").label("app", "web")).await?;
    let events = lab.watch_in(tail.cursor(), &web()).await?.until(inside.meta.revision).await?;
    exactly("watch resumed from a mark of progress", &events, &[applied(&inside)])
}
