use std::{cell::Cell, os::unix::fs::PermissionsExt, time::SystemTime};

use tempfile::TempDir;

use super::*;

/// Two trees, `from` and `to`.
struct Trees(TempDir);

impl Trees {
    fn new() -> Self {
        let trees = Trees(tempfile::tempdir().unwrap());
        fs::create_dir(trees.from()).unwrap();
        fs::create_dir(trees.to()).unwrap();
        trees
    }

    fn from(&self) -> PathBuf {
        self.0.path().join("from")
    }

    fn to(&self) -> PathBuf {
        self.0.path().join("to")
    }

    fn step(&self, path: &str) -> Result<Done> {
        make_equal(&self.from(), &self.to(), Path::new(path), &|| true)
    }

    /// What is in `to`, as text.
    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.to().join(path)).unwrap()
    }

    fn list(&self) -> Vec<String> {
        let paths = list(&[self.from(), self.to()]).unwrap();
        paths.iter().map(|path| path.display().to_string()).collect()
    }
}

#[test]
fn a_file_is_copied_once_with_its_permissions_and_time() {
    let trees = Trees::new();
    fs::write(trees.from().join("a"), "one").unwrap();
    fs::set_permissions(trees.from().join("a"), fs::Permissions::from_mode(0o440)).unwrap();
    assert_eq!(trees.step("a").unwrap(), Done::Copied(3));
    assert_eq!(trees.read("a"), "one");
    assert_eq!(fs::metadata(trees.to().join("a")).unwrap().permissions().mode() & 0o777, 0o440);
    assert_eq!(trees.step("a").unwrap(), Done::Equal);
    fs::set_permissions(trees.from().join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(trees.step("a").unwrap(), Done::Copied(3));
    let file = File::options().write(true).open(trees.from().join("a")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(trees.step("a").unwrap(), Done::Copied(3));
    assert_eq!(trees.list(), ["a"], "no unfinished copy is left");
}

#[test]
fn what_is_gone_is_removed_unless_the_whole_source_is_gone() {
    let trees = Trees::new();
    fs::create_dir(trees.to().join("old")).unwrap();
    fs::write(trees.to().join("old/a"), "one").unwrap();
    fs::write(trees.to().join("b"), "two").unwrap();
    fs::rename(trees.from(), trees.0.path().join("elsewhere")).unwrap();
    assert!(trees.step("b").unwrap_err().to_string().contains("is not there, so nothing is removed"));
    assert_eq!(trees.read("b"), "two");
    fs::create_dir(trees.from()).unwrap();
    assert_eq!(trees.step("old").unwrap(), Done::Removed);
    assert_eq!(trees.step("old/a").unwrap(), Done::Equal);
    assert_eq!(trees.step("b").unwrap(), Done::Removed);
    assert_eq!(trees.list(), [""; 0]);
}

#[test]
fn a_directory_names_its_children_and_what_is_below_waits_for_it() {
    let trees = Trees::new();
    fs::create_dir(trees.from().join("d")).unwrap();
    fs::write(trees.from().join("d/a"), "one").unwrap();
    fs::write(trees.to().join("d"), "a file in the way").unwrap();
    assert_eq!(trees.step("d/a").unwrap(), Done::NoDirectory);
    assert_eq!(trees.step("d").unwrap(), Done::MadeDirectory(vec!["d/a".into()]));
    assert_eq!(trees.step("d/a").unwrap(), Done::Copied(3));
    // And the other way round.
    fs::remove_dir_all(trees.from().join("d")).unwrap();
    fs::write(trees.from().join("d"), "a file again").unwrap();
    assert_eq!(trees.step("d").unwrap(), Done::Copied(12));
    assert_eq!(trees.read("d"), "a file again");
}

#[test]
fn links_are_copied_and_never_followed() {
    let trees = Trees::new();
    let outside = trees.0.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "keep me").unwrap();
    symlink("nowhere", trees.from().join("dangling")).unwrap();
    assert_eq!(trees.step("dangling").unwrap(), Done::Linked);
    assert_eq!(trees.step("dangling").unwrap(), Done::Equal);
    assert_eq!(fs::read_link(trees.to().join("dangling")).unwrap(), Path::new("nowhere"));
    // A link in the target to a directory outside, where the source has a directory without that file.
    fs::create_dir(trees.from().join("d")).unwrap();
    fs::write(trees.from().join("d/new"), "new").unwrap();
    symlink(&outside, trees.to().join("d")).unwrap();
    assert_eq!(trees.step("d/precious").unwrap(), Done::Equal);
    assert_eq!(trees.step("d/new").unwrap(), Done::NoDirectory);
    assert_eq!(trees.step("d").unwrap(), Done::MadeDirectory(vec!["d/new".into()]));
    // A link in the source to a directory outside: nothing below it is in the tree.
    symlink(&outside, trees.from().join("l")).unwrap();
    assert_eq!(trees.step("l/precious").unwrap(), Done::Equal);
    assert_eq!(trees.list(), ["d", "d/new", "dangling", "l"]);
    assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "keep me");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_copy_that_is_stopped_leaves_nothing_and_the_old_file_stays() {
    let trees = Trees::new();
    fs::write(trees.from().join("a"), "new and longer").unwrap();
    fs::write(trees.to().join("a"), "old").unwrap();
    let done = make_equal(&trees.from(), &trees.to(), Path::new("a"), &|| false).unwrap();
    assert_eq!((done, trees.read("a").as_str()), (Done::Stopped, "old"));
    assert_eq!(fs::read_dir(trees.to()).unwrap().count(), 1);
}

#[test]
fn a_source_that_grows_while_it_is_read_is_not_put_in_place() {
    let trees = Trees::new();
    let source = trees.from().join("a");
    fs::write(&source, "one").unwrap();
    fs::write(trees.to().join("a"), "older").unwrap();
    let grown = Cell::new(false);
    let grow = || {
        if !grown.replace(true) {
            fs::write(&source, "one two").unwrap();
        }
        true
    };
    let done = make_equal(&trees.from(), &trees.to(), Path::new("a"), &grow).unwrap();
    assert_eq!((done, trees.read("a").as_str()), (Done::Changing, "older"));
    assert_eq!(trees.step("a").unwrap(), Done::Copied(7));
}

#[test]
fn a_name_of_the_longest_length_can_be_copied() {
    let trees = Trees::new();
    let name = "n".repeat(255);
    fs::write(trees.from().join(&name), "one").unwrap();
    assert_eq!(trees.step(&name).unwrap(), Done::Copied(3));
}

#[test]
fn an_unfinished_copy_of_this_process_is_not_listed_and_one_of_another_is() {
    let trees = Trees::new();
    let ours = format!("{PART}{}-7", std::process::id());
    let theirs = format!("{PART}{}-7", u32::MAX);
    for name in [&ours, &theirs] {
        fs::write(trees.to().join(name), "half").unwrap();
    }
    assert_eq!(trees.list(), [theirs.as_str()]);
    assert_eq!(trees.step(&theirs).unwrap(), Done::Removed);
}

#[test]
fn an_unreadable_root_is_an_error_that_names_it() {
    let trees = Trees::new();
    fs::remove_dir(trees.from()).unwrap();
    let error = list(&[trees.from(), trees.to()]).unwrap_err();
    assert!(error.to_string().starts_with("cannot read the directory /"), "{error}");
}

#[test]
fn a_full_path_has_no_links_and_need_not_be_there() {
    let trees = Trees::new();
    symlink(trees.from(), trees.to().join("l")).unwrap();
    let from = trees.from().canonicalize().unwrap();
    assert_eq!(full(&trees.to().join("l/a/b")).unwrap(), from.join("a/b"));
    assert_eq!(full(&trees.to().join("l")).unwrap(), from);
    assert!(full(&trees.to().join("missing/../../from")).unwrap_err().to_string().contains("goes up"));
    assert_eq!(full(Path::new("")).unwrap_err().to_string(), "cannot look at ");
}
