use super::{
    code::{Code, Level, codes},
    found::{Found, Ignored, Program, bars, listed, programs},
    page::{TestId, Unclear, rows},
    verdict::{Standing, Verdict},
};

fn page(rows: &str) -> String {
    format!(
        "# Scenarios\n\n| not | a row |\n|---|---|\n\n## Rows\n\n| code | title | level | test | mutation |\n|---|---|---|---|---|\n{rows}"
    )
}

const GOOD: &str =
    "| Q1 | a parked key wakes | U | `reconcile-runtime/queue::q1_parked_key` | the mark stays |\n";

/// The verdict on rows, where these tests are found.
fn verdict(text: &str, found: &Found) -> Verdict {
    let (rows, unclear) = rows(&page(text));
    Verdict::of(rows, unclear, found)
}

fn found(tests: &[(&str, Ignored)]) -> Found {
    let tests = tests.iter().map(|(test, ignored)| (TestId::of(test).unwrap(), *ignored)).collect();
    Found { tests, ..Found::default() }
}

fn standing(verdict: &Verdict, code: &str) -> Standing {
    verdict.lines.iter().find(|line| line.code.to_string() == code).unwrap().standing.clone()
}

#[test]
fn every_area_has_its_size_and_every_code_a_need() {
    let all: Vec<_> = codes().map(|code| code.to_string()).collect();
    let count = |prefix: &str| all.iter().filter(|code| code.starts_with(prefix)).count();
    assert_eq!(["Q", "B", "C", "R", "bar_p"].map(count), [10, 13, 15, 13, 15]);
    assert_eq!(all.len(), 66);
    assert!(codes().all(|code| !code.needs().is_empty()));
    let deferred: Vec<_> =
        codes().filter(|code| code.deferred().is_some()).map(|code| code.to_string()).collect();
    assert_eq!(deferred, ["C14", "R5", "R9", "R11", "R13"]);
}

#[test]
fn a_row_is_read_with_its_line() {
    let (rows, unclear) = rows(&page(GOOD));
    assert_eq!(unclear, []);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.line, row.level, row.code), (10, Level::Unit, Code::of("Q1").unwrap()));
    assert_eq!(row.test.to_string(), "reconcile-runtime/queue::q1_parked_key");
    let program = TestId::of("reconcile-examples/bin:scenarios::a::b").unwrap();
    assert_eq!((program.target.as_str(), program.name()), ("bin:scenarios", "b"));
}

#[test]
fn a_row_that_cannot_be_read_is_a_fault_with_its_line_and_cause() {
    let check = |row: &str, cause: &str| {
        let (read, unclear) = rows(&page(row));
        let [Unclear { line: 10, what }] = &unclear[..] else { panic!("{row}: {read:?} {unclear:?}") };
        assert!(what.contains(cause), "{row}: {what}");
    };
    check("| Q1 | a | U |", "this has 3");
    check("| Q11 | a title | U | `p/t::q11_a` | a change |", "`Q11` is no code of ours");
    check("| q1 | a title | U | `p/t::q1_a` | a change |", "`q1` is no code of ours");
    check("| Q1 | a title | US | `p/t::q1_a` | a change |", "`US` is no level");
    check("| Q1 | a title | U | p/t::q1_a | a change |", "in backticks");
    check("| Q1 | a title | U | `t::q1_a` | a change |", "is no test");
    check("| Q1 | a title | U | `p/t::q10_a` | a change |", "does not start with `q1_`");
    check("| Q6 | a title | L | `p/lib::q6_a` | a change |", "does not start with `loom_q6_`");
    check("| bar_p4 | a title | P | `reconcile-benches/latency::bar_p5` | a change |", "does not start with");
    check("| Q1 |  | U | `p/t::q1_a` | a change |", "the title is missing");
    check("| Q1 | a title | U | `p/t::q1_a` | - |", "the mutation is missing");
    let (read, unclear) = rows(&page(&GOOD.repeat(2)));
    assert_eq!((read.len(), unclear.len()), (1, 1));
    assert!(unclear[0].to_string().starts_with("docs/scenarios.md:11: Q1 names reconcile-runtime/queue::"));
    assert_eq!(rows("# Scenarios").1[0].line, 0);
}

#[test]
fn a_code_is_there_only_by_a_test_that_exists_and_is_not_ignored() {
    let test = "reconcile-runtime/queue::q1_parked_key";
    let good = verdict(GOOD, &found(&[(test, Ignored::No)]));
    assert_eq!(standing(&good, "Q1"), Standing::There);
    assert_eq!(good.faults, []);
    let ignored = verdict(GOOD, &found(&[(test, Ignored::Yes)]));
    assert!(matches!(standing(&ignored, "Q1"), Standing::Missing(_)));
    assert!(ignored.faults[0].what.contains("is ignored"));
    let moved = verdict(GOOD, &found(&[("reconcile-runtime/queue::a::q1_parked_key", Ignored::No)]));
    assert!(matches!(standing(&moved, "Q1"), Standing::Missing(_)));
    assert!(moved.faults[0].what.contains("there is reconcile-runtime/queue::a::q1_parked_key"));
    let gone = verdict(GOOD, &found(&[]));
    assert!(gone.faults[0].what.ends_with("there is no test reconcile-runtime/queue::q1_parked_key"));
    assert!(gone.to_string().contains("missing Q1: no row that holds of level U or S or E or T\n"), "{gone}");
    assert!(!good.is_good(), "the other codes are missing");
}

#[test]
fn every_level_of_a_code_needs_a_row_of_its_own() {
    let c3 = "| C3 | a title | C | `reconcile-testing/memory_store::rule6::c3_a` | a change |\n";
    let mut found = found(&[
        ("reconcile-testing/memory_store::rule6::c3_a", Ignored::No),
        ("reconcile-runtime/watch::c3_b", Ignored::No),
    ]);
    let outside = verdict(c3, &found);
    assert!(outside.faults[0].what.contains("is no case of the conformance suite"));
    found.conformance.insert("c3_a".to_owned());
    let half = verdict(c3, &found);
    assert_eq!(half.faults, []);
    assert!(half.to_string().contains("missing C3: no row that holds of level U or S or E or T\n"), "{half}");
    let s = "| C3 | a title | S | `reconcile-runtime/watch::c3_b` | a change |\n";
    assert!(verdict(s, &found).to_string().contains("missing C3: no row that holds of level C\n"));
    assert_eq!(standing(&verdict(&format!("{c3}{s}"), &found), "C3"), Standing::There);
}

#[test]
fn interleavings_are_looked_for_in_the_model_checkers_target_only() {
    let row = "| Q6 | a title | L | `reconcile-runtime/lib::loom_q6_a` | a change |\n";
    let mut found = found(&[("reconcile-runtime/lib::loom_q6_a", Ignored::No)]);
    let left = verdict(row, &found);
    assert_eq!((left.unchecked, standing(&left, "Q6")), (1, Standing::There));
    assert!(left.to_string().contains("unchecked: 1 rows of level L, which take `--with-loom`"));
    found.loom = Some(Default::default());
    let looked = verdict(row, &found);
    assert!(looked.faults[0].what.contains("there is no test"), "an ordinary test explores nothing");
    found.loom = Some(found.tests.clone());
    let there = verdict(row, &found);
    assert_eq!((there.unchecked, standing(&there, "Q6")), (0, Standing::There));
    // A compiler that refuses the fault is as good as all interleavings.
    let types = "| Q6 | a title | T | `reconcile-runtime/types::q6_a` | a change |\n";
    found.tests.insert(TestId::of("reconcile-runtime/types::q6_a").unwrap(), Ignored::No);
    assert_eq!(standing(&verdict(types, &found), "Q6"), Standing::There);
}

#[test]
fn a_bar_may_be_a_benchmark_that_names_it() {
    let row = "| bar_p4 | a title | P | `reconcile-benches/latency::bar_p4` | a change |\n";
    let mut found = found(&[]);
    assert!(verdict(row, &found).faults[0].what.contains("there is no benchmark `latency`"));
    found.benchmarks.insert("latency".to_owned(), bars(r#"Bar::new("P14"), "P4x""#));
    assert!(verdict(row, &found).faults[0].what.contains("does not name \"P4\""));
    found.benchmarks.insert("latency".to_owned(), bars(r#"Bar::new("P4", 50)"#));
    assert_eq!(standing(&verdict(row, &found), "bar_p4"), Standing::There);
    let scenario = "| Q1 | a title | P | `reconcile-benches/latency::Q1` | a change |\n";
    assert_ne!(standing(&verdict(scenario, &found), "Q1"), Standing::There);
}

#[test]
fn a_deferred_code_is_told_with_its_reason_and_its_rows_are_checked_all_the_same() {
    let row = "| R11 | a title | U | `reconcile-runtime/lib::r11_a` | a change |\n";
    let deferred = verdict(row, &found(&[("reconcile-runtime/lib::r11_a", Ignored::No)]));
    assert!(matches!(standing(&deferred, "R11"), Standing::Deferred(_)));
    assert_eq!(deferred.faults, []);
    assert!(deferred.to_string().contains("deferred R11: health and metrics endpoints"), "{deferred}");
    assert_eq!(verdict(row, &found(&[])).faults.len(), 1);
}

#[test]
fn a_page_with_everything_is_good() {
    let mut found = found(&[]);
    let mut text = String::new();
    for code in codes().filter(|code| code.deferred().is_none()) {
        for need in code.needs() {
            let level = need[0];
            let loom = if level == Level::Interleavings { "loom_" } else { "" };
            let name = format!("{loom}{}{}", code.test_prefix(), level.letter());
            text += &format!("| {code} | a title | {} | `p/t::{name}` | a change |\n", level.letter());
            found.tests.insert(TestId::of(&format!("p/t::{name}")).unwrap(), Ignored::No);
            found.conformance.insert(name);
        }
    }
    found.loom = Some(found.tests.clone());
    let good = verdict(&text, &found);
    assert!(good.is_good(), "{good}");
    assert!(good.to_string().contains("61 of 66 codes are there"), "{good}");
}

#[test]
fn test_programs_are_found_among_cargos_messages() {
    let messages = concat!(
        r#"{"reason":"compiler-artifact","package_id":"path+file:///w/reconcile-core#0.1.0","target":{"kind":["lib"],"name":"reconcile_core"},"profile":{"test":true},"executable":"/t/a"}"#,
        "\n",
        r#"{"reason":"compiler-artifact","package_id":"path+file:///w/reconcile-core#0.1.0","target":{"kind":["lib"],"name":"reconcile_core"},"profile":{"test":false},"executable":null}"#,
        "\n",
        r#"{"reason":"compiler-artifact","package_id":"path+file:///w/examples#reconcile-examples@0.1.0","target":{"kind":["test"],"name":"programs"},"profile":{"test":true},"executable":"/t/b"}"#,
        "\n",
        r#"{"reason":"compiler-artifact","package_id":"path+file:///w/examples#reconcile-examples@0.1.0","target":{"kind":["example"],"name":"mirror"},"profile":{"test":false},"executable":"/t/c"}"#,
        "\n",
        r#"{"reason":"compiler-artifact","package_id":"path+file:///w/examples#reconcile-examples@0.1.0","target":{"kind":["bin"],"name":"scenarios"},"profile":{"test":true},"executable":"/t/d"}"#,
        "\n",
        r#"{"reason":"build-finished","success":true}"#,
    );
    let program = |package: &str, target: &str, file: &str| Program {
        package: package.into(),
        target: target.into(),
        file: file.into(),
    };
    let expected = [
        program("reconcile-core", "lib", "/t/a"),
        program("reconcile-examples", "programs", "/t/b"),
        program("reconcile-examples", "bin:scenarios", "/t/d"),
    ];
    assert_eq!(programs(messages).unwrap(), expected);
    assert!(programs("warning: not json").is_err());
    assert_eq!(listed("a::b: test\nc: benchmark\n\n2 tests\n"), ["a::b"]);
}

/// The page of this repository, without building anything: every row can be read.
#[test]
fn our_own_page_can_be_read() {
    let (rows, unclear) = rows(include_str!("../../../docs/scenarios.md"));
    assert_eq!(unclear, []);
    assert!(!rows.is_empty());
}
