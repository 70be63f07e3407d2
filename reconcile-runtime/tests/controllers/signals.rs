//! What wakes a key, and what does not.

use reconcile_runtime::{Lane, PAUSE_ANNOTATION, Trigger, Watch, changed};

use super::*;

#[derive(Clone, Debug, PartialEq)]
struct TemplateSpec {
    dbs: Vec<String>,
}
impl Spec for TemplateSpec {
    const KIND: &'static str = "Template";
    type Status = ();
}
type Template = Object<TemplateSpec>;

fn template(dbs: &[&str]) -> Template {
    Template::new("t", TemplateSpec { dbs: dbs.iter().map(|db| (*db).to_owned()).collect() })
}

#[tokio::test(start_paused = true)]
async fn c14_what_was_there_at_the_start_runs_once() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let api = manager.api::<Db>(&store);
    for name in ["a", "b", "c"] {
        api.create(db(name)).await.unwrap();
    }
    let runs = Runs::default();
    manager.add(Controller::for_objects("db", &api, Remember(runs.clone())))?;
    manager.run_until(env.sleep(SECOND)).await?;
    let mut ran = runs.take();
    ran.sort();
    assert_eq!(ran, ["a", "b", "c"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watch_wakes_the_keys_of_the_old_and_of_the_new_object() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let (api, templates) = (manager.api::<Db>(&store), manager.api::<Template>(&store));
    let runs = Runs::default();
    let watch = Watch::new(&templates, |template: &Template| {
        template.spec.dbs.iter().map(|name| ObjectKey::new(name)).collect::<Vec<_>>()
    });
    manager.add(
        Controller::for_objects("db", &api, Remember(runs.clone()))
            .concurrency(1)
            .watches_with(watch.as_input().filter(changed::generation()).lane(Lane::High)),
    )?;
    let stop = async {
        env.sleep(SECOND).await;
        templates.create(template(&["a"])).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["a"]);
        templates
            .modify(&ObjectKey::new("t"), |template| template.spec.dbs = vec!["b".into()])
            .await
            .unwrap();
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["a", "b"]);
        let label = |template: &mut Template| drop(template.meta.labels.insert("x".into(), "y".into()));
        templates.modify(&ObjectKey::new("t"), label).await.unwrap();
        env.sleep(SECOND).await;
        assert!(runs.take().is_empty());
        templates.delete(&templates.get(&ObjectKey::new("t")).unwrap()).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["b"]);
    };
    manager.run_until(stop).await
}

#[tokio::test(start_paused = true)]
async fn the_pause_annotation_parks_a_key_and_its_removal_runs_it() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let api = manager.api::<Db>(&store);
    let runs = Runs::default();
    let handle = manager
        .add(Controller::for_objects("db", &api, Remember(runs.clone())).filter(changed::generation()))?;
    let key = ObjectKey::new("a");
    let stop = async {
        env.sleep(SECOND).await;
        let mut paused = db("a");
        paused.meta.annotations.insert(PAUSE_ANNOTATION.into(), "true".into());
        api.create(paused).await.unwrap();
        api.modify(&key, |db| db.spec.size = 2).await.unwrap();
        handle.enqueue(key.clone());
        env.sleep(SECOND).await;
        assert!(runs.take().is_empty());
        assert!(handle.explain(&key).to_string().contains("paused"), "{}", handle.explain(&key));

        api.modify(&key, |db| db.meta.annotations.clear()).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["a"]);

        // An object that goes while it is paused: its key runs, and its successor is not paused.
        api.modify(&key, |db| drop(db.meta.annotations.insert(PAUSE_ANNOTATION.into(), "true".into())))
            .await
            .unwrap();
        api.delete(&api.get(&key).unwrap()).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["a"]);
        api.create(db("a")).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["a"]);
    };
    manager.run_until(stop).await
}

#[tokio::test(start_paused = true)]
async fn resync_runs_every_object_and_meets_no_filter() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let api = manager.api::<Db>(&store);
    let runs = Runs::default();
    manager.add(
        Controller::for_objects("db", &api, Remember(runs.clone()))
            .filter(|_| false)
            .resync_every(60 * SECOND),
    )?;
    let stop = async {
        api.create(db("a")).await.unwrap();
        env.sleep(50 * SECOND).await;
        assert!(runs.take().is_empty());
        env.sleep(11 * SECOND).await;
        assert_eq!(runs.take(), ["a"]);
    };
    manager.run_until(stop).await
}

#[tokio::test(start_paused = true)]
async fn user_code_that_panics_in_a_source_is_named_and_disturbs_nothing_else() -> Result<(), RunError> {
    let (mut manager, env, store) = manager();
    let (api, templates) = (manager.api::<Db>(&store), manager.api::<Template>(&store));
    let runs = Runs::default();
    manager.add(
        Controller::for_objects("db", &api, Remember(runs.clone()))
            .watches(&templates, |template: &Template| {
                assert!(!template.spec.dbs.is_empty(), "a template without databases");
                template.spec.dbs.iter().map(|name| ObjectKey::new(name)).collect::<Vec<_>>()
            })
            .trigger_with(Trigger::new("queue", || {
                futures::stream::poll_fn(|_| -> std::task::Poll<Option<ObjectKey>> { panic!("no broker") })
            })),
    )?;
    let health = manager.handle();
    let stop = async {
        env.sleep(SECOND).await;
        templates.create(template(&[])).await.unwrap();
        api.create(db("a")).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["a"]);
        let status = health.status();
        let sources = &status.controllers[0].sources;
        let source = |name: &str| sources.iter().find(|source| source.name.contains(name)).unwrap();
        let watch = source("watch of Template");
        assert_eq!(
            (watch.panics, watch.last_panic.as_deref()),
            (1, Some("mapper: a template without databases"))
        );
        let trigger = source("trigger `queue`");
        assert!(trigger.panics >= 2, "it is made again: {trigger:?}");
        assert!(trigger.last_panic.as_ref().is_some_and(|text| text.contains("no broker")));
        assert!(status.readiness.is_ready(), "{}", status.readiness);
    };
    manager.run_until(stop).await
}
