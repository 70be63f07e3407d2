//! `mirror`, on real files.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        net::UnixListener,
        process::CommandExt,
    },
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use super::{plain, program};

/// How long a program may take for something that it does in milliseconds: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// The user that the program runs as where the tests are run by root, who may read everything.
const NOBODY: u32 = 65534;

/// A directory with `src` and `dst` in it.
struct Trees(TempDir);

impl Trees {
    fn new() -> Self {
        let trees = Trees(tempfile::tempdir().unwrap());
        fs::create_dir(trees.src("")).unwrap();
        trees
    }

    fn src(&self, path: &str) -> PathBuf {
        self.0.path().join("src").join(path)
    }

    fn dst(&self, path: &str) -> PathBuf {
        self.0.path().join("dst").join(path)
    }

    fn mirror(&self, options: &[&str]) -> Command {
        let mut command = Command::new(program("mirror"));
        plain(&mut command).args(options).arg(self.src("")).arg(self.dst(""));
        command
    }

    fn once(&self) -> (Output, String) {
        let output = self.mirror(&["--once"]).output().unwrap();
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        (output, text)
    }

    fn differ(&self) -> Option<String> {
        let output = Command::new("diff")
            .args(["-r", "--no-dereference"])
            .arg(self.src(""))
            .arg(self.dst(""))
            .output();
        let output = output.expect("diff is there");
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until both are equal.
    fn become_equal(&self) {
        wait_until(|| self.differ());
    }
}

/// Waits until there is nothing to complain about.
#[allow(clippy::disallowed_methods, reason = "another process takes real time")]
fn wait_until(complaint: impl Fn() -> Option<String>) {
    let start = std::time::Instant::now();
    while let Some(complaint) = complaint() {
        assert!(start.elapsed() < PATIENCE, "still: {complaint}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A mirror that follows; killed if the test fails.
struct Following {
    child: Child,
    /// What it prints, by a thread that reads it: a program that prints nothing must not hang the test.
    lines: Receiver<String>,
}

impl Following {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, lines) = sync_channel(1024);
        let printed = BufReader::new(child.stdout.take().unwrap()).lines();
        // A line that nobody takes comes after the test is over.
        thread::spawn(move || printed.map_while(Result::ok).try_for_each(|line| send.send(line)));
        Following { child, lines }
    }

    /// The next line that the program prints.
    fn line(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the program prints a line in time")
    }

    /// Presses Ctrl-C; gives what was printed since, and the log.
    fn interrupt(mut self) -> (String, String) {
        let killed = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let rest = self.lines.iter().collect::<Vec<_>>().join("\n");
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}\n{log}");
        (rest, log)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn once_makes_a_tree_equal_and_copies_nothing_the_second_time() {
    let trees = Trees::new();
    fs::create_dir_all(trees.src("a/b/empty")).unwrap();
    fs::create_dir_all(trees.dst("a/old/older")).unwrap();
    for number in 0..300 {
        fs::write(trees.src(&format!("a/b/{number}")), number.to_string()).unwrap();
    }
    fs::write(trees.dst("a/old/older/file"), "to be removed").unwrap();
    fs::create_dir(trees.dst("link")).unwrap();
    symlink("a/b/7", trees.src("link")).unwrap();
    let (output, text) = trees.once();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text, "equal: 301 files and links were copied\n");
    assert_eq!(trees.differ(), None);
    assert_eq!(trees.once().1, "equal: 0 files and links were copied\n");
}

#[test]
fn once_explains_what_cannot_be_copied_and_fails() {
    let trees = Trees::new();
    fs::write(trees.src("a"), "one").unwrap();
    let _socket = UnixListener::bind(trees.src("socket")).unwrap();
    let (output, text) = trees.once();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.starts_with("\"socket\" failed for good and waits for a new input"), "{text}");
    assert!(text.contains("a pipe, a socket or a device has no content to copy"), "{text}");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "Error: not equal: 1 of the paths could not be copied\n"
    );
    assert_eq!(fs::read_to_string(trees.dst("a")).unwrap(), "one");
}

#[test]
fn changes_of_either_side_are_followed_until_ctrl_c() {
    let trees = Trees::new();
    fs::create_dir(trees.src("d")).unwrap();
    // Without a resync that could help where an event was missed.
    let following = Following::start(trees.mirror(&["--resync", "3600"]));
    wait_until(|| (!trees.dst("d").is_dir()).then(|| "no directory".to_owned()));
    fs::write(trees.src("d/new"), "one").unwrap();
    trees.become_equal();
    fs::write(trees.src("d/new"), "one and two").unwrap();
    trees.become_equal();
    // A directory that comes with all that is in it.
    fs::create_dir_all(trees.0.path().join("outside/deep")).unwrap();
    fs::write(trees.0.path().join("outside/deep/file"), "moved in").unwrap();
    fs::rename(trees.0.path().join("outside"), trees.src("moved")).unwrap();
    trees.become_equal();
    // Somebody else in the target.
    fs::write(trees.dst("d/new"), "not from the source").unwrap();
    fs::write(trees.dst("stranger"), "").unwrap();
    trees.become_equal();
    fs::remove_dir_all(trees.src("moved")).unwrap();
    fs::remove_file(trees.src("d/new")).unwrap();
    trees.become_equal();
    assert!(!trees.dst("moved").exists() && !trees.dst("d/new").exists());
    let (rest, _) = following.interrupt();
    assert!(rest.starts_with("stopped: "), "{rest}");
}

#[test]
fn a_missed_event_is_healed_by_the_resync() {
    let trees = Trees::new();
    fs::write(trees.src("a"), "one").unwrap();
    let outside = trees.0.path().join("outside");
    fs::write(&outside, "one").unwrap();
    let following = Following::start(trees.mirror(&["--resync", "1"]));
    trees.become_equal();
    // A hard link of a file is changed under another name, of which no event tells.
    fs::remove_file(trees.src("a")).unwrap();
    fs::hard_link(&outside, trees.src("a")).unwrap();
    trees.become_equal();
    fs::write(&outside, "changed from outside").unwrap();
    trees.become_equal();
    following.interrupt();
}

#[test]
fn an_unreadable_file_backs_off_is_explained_and_heals() {
    let trees = Trees::new();
    fs::create_dir(trees.dst("")).unwrap();
    fs::write(trees.src("secret"), "one").unwrap();
    fs::set_permissions(trees.src("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = trees.mirror(&[]);
    if fs::metadata(trees.src("")).unwrap().uid() == 0 {
        // Root reads everything, so another user has to run it, and has to reach it.
        let copy = trees.0.path().join("mirror");
        fs::copy(program("mirror"), &copy).unwrap();
        fs::set_permissions(trees.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        chown(trees.dst(""), Some(NOBODY), Some(NOBODY)).unwrap();
        command = Command::new(copy);
        plain(&mut command).arg(trees.src("")).arg(trees.dst("")).uid(NOBODY).gid(NOBODY);
    }
    let mut following = Following::start(command);
    let line = following.line();
    assert!(line.starts_with("\"secret\" backs off after "), "{line}");
    assert!(line.contains("cannot copy ") && line.contains("src/secret"), "{line}");
    assert!(line.contains("Permission denied"), "{line}");
    fs::set_permissions(trees.src("secret"), fs::Permissions::from_mode(0o644)).unwrap();
    trees.become_equal();
    let (_, log) = following.interrupt();
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn bad_arguments_are_refused_with_the_cause() {
    let trees = Trees::new();
    let src = trees.src("");
    let inside = trees.src("inside");
    let file = trees.0.path().join("file");
    fs::write(&file, "").unwrap();
    for (arguments, cause) in [
        (vec![src.clone()], "<DST>"),
        (vec![trees.src("missing"), trees.dst("")], "SRC has to be a directory"),
        (vec![file.clone(), trees.dst("")], "SRC has to be a directory"),
        (vec![src.clone(), inside.clone()], "is in the other"),
        (vec![src.clone(), src.clone()], "is in the other"),
        (vec![src.clone(), file], "cannot make"),
        (vec!["--resync=0".into(), src, trees.dst("")], "0 is not in 1.."),
    ] {
        // Once, so that what is not refused ends as well.
        let output = Command::new(program("mirror")).arg("--once").args(&arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(cause), "{arguments:?}: {text}");
    }
    assert!(!inside.exists() && !trees.dst("").exists(), "nothing was made");
}
