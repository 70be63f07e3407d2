//! What the documents of this repository say is there, is there: every test that they name, every file that they
//! link, and the programs of the README, which are compiled as examples of the crate's own README.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The documents that name tests.
const DOCUMENTS: [&str; 4] = ["README.md", "docs/semantics.md", "docs/ARCHITECTURE.md", "CHANGELOG.md"];

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package is a folder of the repository").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Everything between two backticks, outside of fenced code.
fn quoted(text: &str) -> Vec<&str> {
    let mut fenced = false;
    let prose = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    prose.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

/// A path as the documents write it: of this package if it begins with `src/` or `tests/`.
fn located(path: &str) -> PathBuf {
    let own = path.starts_with("src/") || path.starts_with("tests/");
    if own { root().join("reconcile-runtime").join(path) } else { root().join(path) }
}

/// The names of the tests of a Rust file: functions below an attribute that makes a test of them, and those in a
/// `proptest!` block, which carry the attribute as well.
fn tests_of(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ")
            && is_test
        {
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
            names.insert(rest[..end.unwrap_or(rest.len())].to_owned());
            is_test = false;
        }
    }
    names
}

/// `path.rs::name`, if the text has that form.
fn named_test(text: &str) -> Option<(&str, &str)> {
    let (path, name) = text.split_once("::")?;
    let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    (path.ends_with(".rs") && is_name).then_some((path, name))
}

#[test]
fn every_test_that_a_document_names_exists() {
    let mut known: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut named = 0;
    for document in DOCUMENTS {
        for (path, name) in quoted(&read(&root().join(document))).into_iter().filter_map(named_test) {
            named += 1;
            let file = located(path);
            let tests = known.entry(file).or_insert_with_key(|file| {
                fs::read_to_string(file).map_or_else(|_| BTreeSet::new(), |text| tests_of(&text))
            });
            if !tests.contains(name) {
                wrong.push(format!("{document}: {path} has no test `{name}`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(named > 80, "only {named} tests are named: the form of the documents has changed");
}

#[test]
fn every_line_of_the_semantics_names_a_test() {
    let text = read(&root().join("docs/semantics.md"));
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let mut rows_of_behaviour = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let last = cells.last().copied().unwrap_or_default().trim();
        if last == "test" || last == "---" {
            continue;
        }
        rows_of_behaviour += 1;
        assert!(quoted(last).into_iter().any(|text| named_test(text).is_some()), "names no test: {row}");
    }
    assert!(rows_of_behaviour > 60, "only {rows_of_behaviour} rows: the form of the page has changed");
}

#[test]
fn every_file_that_a_document_names_or_links_exists() {
    for document in DOCUMENTS {
        let path = root().join(document);
        let folder = path.parent().expect("a document is in a folder");
        let text = read(&path);
        for file in
            quoted(&text).into_iter().filter(|text| text.ends_with(".rs") && !text.contains([' ', '*']))
        {
            assert!(located(file).is_file(), "{document} names `{file}`");
        }
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap_or_default();
            assert!(folder.join(file).is_file(), "{document} links to {link}");
        }
    }
}

/// The Rust programs of a document.
fn programs(text: &str) -> Vec<&str> {
    let blocks = text.split("```rust").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks.filter_map(|block| block.split_once('\n')).map(|(_, program)| program).collect()
}

/// Rustdoc compiles the README of the crate, which is packaged with it; the one of the repository has the same
/// programs.
#[test]
fn the_programs_of_the_readme_are_those_that_are_compiled() {
    let compiled = read(&root().join("reconcile-runtime/README.md"));
    let compiled = programs(&compiled);
    let text = read(&root().join("README.md"));
    let shown = programs(&text);
    assert_eq!(shown.len(), 2, "the smallest program, and the one with objects");
    for program in shown {
        assert!(compiled.contains(&program), "not in the README of reconcile-runtime:\n{program}");
    }
}
