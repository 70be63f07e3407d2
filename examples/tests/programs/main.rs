//! The examples as programs: what they print, and how they end.
#![allow(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

mod mirror;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The built example. Cargo builds it before this test, unless some tests only were asked for by name: an old one
/// would then be tested.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("tests are in PROFILE/deps");
    let program = profile.join("examples").join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("rs");
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified());
    let source = changed(&source).expect("the source is there");
    let built = changed(&program).is_ok_and(|built| built >= source);
    assert!(built, "{} is not built, or old: run `cargo test` without a filter once", program.display());
    program
}

/// Keeps out what the tests' own environment says about logs and backtraces.
fn plain(command: &mut Command) -> &mut Command {
    command.env_remove("RUST_LOG").env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE")
}

fn run(name: &str) -> Output {
    plain(&mut Command::new(program(name))).output().expect("the program starts")
}

/// Checks that the parts are in the text, in this order.
fn check_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("`{part}` is missing in:\n{rest}\nof:\n{text}")
        };
        rest = after;
    }
}

#[test]
fn quickstart_tells_its_story_and_ends() {
    let output = run("quickstart");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {text}", output.status);
    check_order(
        &text,
        &[
            "applied: shop wants 3 pods",
            "converged: shop-0, shop-1, shop-2 are ready",
            "shop-1 was deleted\n",
            "healed in ",
            " ms: shop-0, shop-1, shop-2 are ready",
            "shop-0 was deleted, while no image can be had",
            "explain: default/shop backs off after ", // once, or twice on a busy machine
            ", next run in ",
            "; last run: failed, ",
            ": the image registry does not answer",
            "healed: shop-0, shop-1, shop-2 are ready",
            "explain: default/shop has nothing to do; last run: done",
            "scaled: shop wants 5 pods",
            "converged: shop-0, shop-1, shop-2, shop-3, shop-4 are ready",
            "deleted: shop",
            "converged: 0 pods are left",
        ],
    );
}

#[test]
fn failures_shows_every_row_of_the_outcome_table() {
    let output = run("failures");
    let (text, log) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{}: {log}", output.status);
    // Of each row: its runs, and then its explanation.
    for (row, parts) in [
        ("await_change", &["1 done\n", "has nothing to do"][..]),
        ("requeue_now", &["1 done, 2 again\n", "has nothing to do"]),
        ("requeue_after", &[" requeued\n", "is as wanted and looks again, next run in "]),
        ("requeue_at", &["1 done, 1 requeued\n", "has nothing to do"]),
        ("wait_for", &[" waiting\n", "waits for the database to be up, next run in "]),
        ("Err", &[" failed\n", "backs off after ", "connection refused"]),
        ("Err retry_after", &[" failed\n", "backs off after ", "too many requests"]),
        ("Err permanent", &["1 permanent\n", "failed for good", "reading the port: invalid digit"]),
        ("Err conflict", &["1 done, 1 conflict\n", "has nothing to do"]),
        ("Err cancelled", &["1 done, 1 cancelled\n", "has nothing to do"]),
        ("panic", &[" panicked\n", "panicked: index out of bounds, say"]),
        ("too long", &[" timed out\n", "longer than its limit of 300ms"]),
    ] {
        let start = format!("{row:<16} runs: ");
        let about = text.split(&start).nth(1).unwrap_or_else(|| panic!("no row `{row}` in:\n{text}"));
        let about = about.splitn(3, '\n').take(2).collect::<Vec<_>>().join("\n");
        check_order(&about, parts);
    }
    // The log names controller, key and cause.
    check_order(&log, &["WARN", "controller=Err", "key=\"key\"", "attempt=1", "connection refused"]);
    check_order(&log, &["ERROR", "controller=panic", "error=panicked: index out of bounds, say"]);
}
