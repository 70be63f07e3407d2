//! What a mirror does to a file system: lists two trees, and makes one path of the second equal to the first.
//!
//! Promises: a file appears under its name whole or not at all (it is written beside it and renamed); symbolic
//! links are copied as links, and no link is ever followed, at whatever depth; nothing is removed because the
//! source could not be looked at. Every error names the operation and the path.
//!
//! Not here: owners, times and permissions of directories, hard links and extended attributes. Files are compared
//! by size, time of change and permissions, not by their content: a change within one tick of the file clock, to the
//! same size, is not noticed. All of it blocks: see [`off_thread`].

mod events;

use std::{
    collections::BTreeSet,
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Read},
    os::unix::fs::symlink,
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result, bail};

pub use events::events;

/// How the names of unfinished copies start; the process and a number follow. Short, so that it fits beside the
/// longest name.
const PART: &str = ".mirror-part-";
/// How much is copied between two questions whether to go on: a fraction of a second on a slow disk.
const CHUNK: u64 = 16 << 20;

/// What was done to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// Nothing: it was equal.
    Equal,
    /// A file of so many bytes was copied.
    Copied(u64),
    /// A link was made.
    Linked,
    /// A directory was made. What is in the source's came with it, and no event has told of it.
    MadeDirectory(Vec<PathBuf>),
    /// It was removed, with all that was in it.
    Removed,
    /// Nothing yet: the directory that it belongs into is not there.
    NoDirectory,
    /// Nothing yet: the source changed while it was read.
    Changing,
    /// Nothing: `go_on` said no.
    Stopped,
    /// Nothing: what the source has is a pipe, a socket or a device.
    Special,
}

/// Makes `to/path` equal to `from/path`. `go_on` is asked between the parts of a large file.
///
/// # Errors
///
/// When something cannot be read, written or removed. An unfinished copy is removed then.
pub fn make_equal(from: &Path, to: &Path, path: &Path, go_on: &dyn Fn() -> bool) -> Result<Done> {
    let (want, have) = (look(from, path)?, look(to, path)?);
    if want.same(&have) {
        return Ok(Done::Equal);
    }
    let (source, target) = (from.join(path), to.join(path));
    let parent = path.parent().unwrap_or(Path::new(""));
    if !matches!(want, Entry::Absent) && !matches!(look(to, parent)?, Entry::Directory) {
        return Ok(Done::NoDirectory);
    }
    match want {
        Entry::Absent => {
            // A source that was unmounted looks like one in which everything was deleted.
            if !from.is_dir() {
                bail!("{} is not there, so nothing is removed from {}", from.display(), to.display());
            }
            have.remove(&target)?;
            Ok(Done::Removed)
        }
        Entry::Directory => {
            let names = names(&source)?;
            have.remove(&target)?;
            fs::create_dir(&target).with_context(|| format!("cannot make {}", target.display()))?;
            Ok(Done::MadeDirectory(names.into_iter().map(|(name, _)| path.join(name)).collect()))
        }
        Entry::Link(link) => {
            let part = Part::beside(&target);
            symlink(link, &part.0).with_context(|| format!("cannot make the link {}", target.display()))?;
            part.put(&target, &have)?;
            Ok(Done::Linked)
        }
        Entry::File(metadata) => copy(&source, &metadata, &target, &have, go_on),
        Entry::Special => Ok(Done::Special),
    }
}

fn copy(
    source: &Path,
    before: &Metadata,
    target: &Path,
    have: &Entry,
    go_on: &dyn Fn() -> bool,
) -> Result<Done> {
    let what = || format!("cannot copy {} to {}", source.display(), target.display());
    let mut input = File::open(source).with_context(what)?;
    let part = Part::beside(target);
    let mut output = File::create_new(&part.0).with_context(what)?;
    let mut copied = 0;
    loop {
        let more = io::copy(&mut (&mut input).take(CHUNK), &mut output).with_context(what)?;
        copied += more;
        if more == 0 {
            break;
        }
        if !go_on() {
            return Ok(Done::Stopped);
        }
    }
    // By the handle: this is the file that was read, whatever the name leads to by now.
    let after = input.metadata().with_context(what)?;
    if copied != before.len() || !same_file(before, &after) {
        return Ok(Done::Changing);
    }
    output.set_permissions(before.permissions()).with_context(what)?;
    output.set_modified(before.modified().with_context(what)?).with_context(what)?;
    part.put(target, have)?;
    Ok(Done::Copied(copied))
}

/// What stands under a path.
enum Entry {
    Absent,
    Directory,
    /// With what it is compared by.
    File(Metadata),
    /// With its target.
    Link(PathBuf),
    Special,
}

impl Entry {
    fn same(&self, other: &Entry) -> bool {
        match (self, other) {
            (Entry::Absent, Entry::Absent) | (Entry::Directory, Entry::Directory) => true,
            (Entry::Link(one), Entry::Link(two)) => one == two,
            (Entry::File(one), Entry::File(two)) => same_file(one, two),
            _ => false,
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let removed = match self {
            Entry::Absent => return Ok(()),
            Entry::Directory => fs::remove_dir_all(path),
            _ => fs::remove_file(path),
        };
        unless_absent(removed).with_context(|| format!("cannot remove {}", path.display()))?;
        Ok(())
    }
}

fn same_file(one: &Metadata, two: &Metadata) -> bool {
    // Where a file system knows no times of change, nothing can be compared cheaply, and nothing is equal.
    let changed = |metadata: &Metadata| metadata.modified().ok();
    one.len() == two.len()
        && one.permissions() == two.permissions()
        && changed(one).is_some()
        && changed(one) == changed(two)
}

/// What stands under a path of a tree. Below a link there is nothing: it is in another tree.
fn look(root: &Path, path: &Path) -> Result<Entry> {
    let mut full = root.to_owned();
    let mut entry = Entry::Directory; // the root, which may well be reached by a link
    for name in path {
        if !matches!(entry, Entry::Directory) {
            return Ok(Entry::Absent);
        }
        full.push(name);
        let cannot = || format!("cannot look at {}", full.display());
        let Some(metadata) = unless_absent(fs::symlink_metadata(&full)).with_context(cannot)? else {
            return Ok(Entry::Absent);
        };
        let kind = metadata.file_type();
        entry = match kind {
            _ if kind.is_dir() => Entry::Directory,
            _ if kind.is_file() => Entry::File(metadata),
            _ if kind.is_symlink() => Entry::Link(fs::read_link(&full).with_context(cannot)?),
            _ => Entry::Special,
        };
    }
    Ok(entry)
}

/// `None` for what is not there: also when what should be its directory is none.
fn unless_absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names in a directory, each with whether it is a directory itself.
fn names(directory: &Path) -> Result<Vec<(PathBuf, bool)>> {
    let read = || -> io::Result<Vec<_>> {
        fs::read_dir(directory)?
            .map(|entry| {
                let entry = entry?;
                Ok((PathBuf::from(entry.file_name()), entry.file_type()?.is_dir()))
            })
            .collect()
    };
    read().with_context(|| format!("cannot read the directory {}", directory.display()))
}

/// A path from the root without links, also of what is not there yet.
///
/// # Errors
///
/// When a part of it cannot be looked at.
pub fn full(path: &Path) -> Result<PathBuf> {
    let cannot = || format!("cannot look at {}", path.display());
    let path = std::path::absolute(path).with_context(cannot)?;
    for there in path.ancestors() {
        if let Some(full) = unless_absent(there.canonicalize()).with_context(cannot)? {
            let rest = path.strip_prefix(there).with_context(cannot)?;
            if rest.components().any(|part| part == Component::ParentDir) {
                bail!("{} goes up from a directory that is not there", path.display());
            }
            return Ok(full.join(rest));
        }
    }
    bail!("{} has no root", path.display())
}

/// Every path under at least one of the two roots, relative to them, parents first; without the copies that
/// this process has not finished.
///
/// A directory below the roots that cannot be read is listed without what is in it: making it equal will tell why.
///
/// # Errors
///
/// When a root cannot be read.
pub fn list(roots: &[PathBuf; 2]) -> Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    for root in roots {
        let mut left = names(root)?;
        while let Some((path, is_directory)) = left.pop() {
            if is_unfinished(&path) {
                continue;
            }
            if is_directory && let Ok(names) = names(&root.join(&path)) {
                left.extend(names.into_iter().map(|(name, is_directory)| (path.join(name), is_directory)));
            }
            found.insert(path);
        }
    }
    Ok(found.into_iter().collect())
}

/// Whether a path is a copy that this process has not finished. Those of other processes are left-overs.
pub fn is_unfinished(path: &Path) -> bool {
    let ours = format!("{PART}{}-", std::process::id());
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(ours.as_bytes()))
}

/// An unfinished copy, which is removed when it goes out of scope before it was put in its place.
struct Part(PathBuf);

impl Part {
    /// Under a name that nobody has had before.
    fn beside(path: &Path) -> Part {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Part(path.with_file_name(format!("{PART}{}-{number}", std::process::id())))
    }

    /// Puts the copy in its place. Only a directory has to go before: all else is replaced in one step.
    fn put(self, path: &Path, have: &Entry) -> Result<()> {
        if matches!(have, Entry::Directory) {
            have.remove(path)?;
        }
        fs::rename(&self.0, path).with_context(|| format!("cannot put {} in its place", path.display()))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After a rename there is nothing. What cannot be removed is found by the next start, in no source.
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs something that blocks where it holds up no task.
///
/// # Errors
///
/// What it gives, and its panic.
#[allow(
    clippy::disallowed_methods,
    reason = "a step on files is one hop; tokio::fs would be one for each call"
)]
pub async fn off_thread<T: Send + 'static>(
    blocking: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(blocking).await.context("work on files broke off")?
}

#[cfg(test)]
mod tests;
