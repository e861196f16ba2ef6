//! How much memory this process can still get: one reading for the library, the command and the Python package.
//!
//! Linux tells in four places, of which the least counts: what the machine has (`meminfo`), the groups of processes that this one is
//! in with all their parents (cgroup, version 1 or 2; a container is one), and the limit of addresses (`ulimit -v`).

use crate::words::megabytes;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// From this size on a request is compared with the free memory.
const CHECKED: usize = 64 << 20;
/// Addresses that a thread reserves beside the memory that it uses: its stack, and the heap that the GNU library gives it.
const OF_THREAD: usize = 72 << 20;

/// Bytes that this process can still get without swapping; none where the system does not tell.
///
/// ```
/// if let Some(free) = becalm::math::memory::available_memory() {
///     println!("{:.2} GB free", free as f64 / 1e9);
/// }
/// ```
pub fn available_memory() -> Option<usize> {
    Left::below(Path::new("/")).least()
}

/// Bytes that are left to this process: of memory, and of addresses where these have a limit.
struct Left {
    memory: Option<usize>,
    addresses: Option<usize>,
}

impl Left {
    /// By the files below `root`.
    fn below(root: &Path) -> Left {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
        let machine = read("proc/meminfo").and_then(|text| kilobytes(&text, "MemAvailable:"));
        let addresses =
            || left_of_addresses(&read("proc/self/limits")?, &read("proc/self/status")?);
        let groups = read("proc/self/cgroup").map(|text| groups(root, &text)).unwrap_or_default();
        let groups = groups.iter().filter_map(Group::left).min();
        Left { memory: machine.into_iter().chain(groups).min(), addresses: addresses() }
    }

    fn least(&self) -> Option<usize> {
        self.memory.into_iter().chain(self.addresses).min()
    }
}

/// The number of the line that begins with `name`, in units of 1024 bytes.
fn kilobytes(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<usize>().ok()?.saturating_mul(1024))
}

/// The memory that `limits` and `status` leave; none without a limit.
fn left_of_addresses(limits: &str, status: &str) -> Option<usize> {
    let line = limits.lines().find_map(|l| l.strip_prefix("Max address space"))?;
    let most: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(most.saturating_sub(kilobytes(status, "VmSize:")?))
}

/// A group of processes: its folder, and the names of its files there.
struct Group {
    folder: PathBuf,
    names: &'static Names,
}

/// The files of a group, and the line of the last that counts pages of files which can be dropped.
struct Names {
    limit: &'static str,
    usage: &'static str,
    dropped: &'static str,
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    dropped: "total_inactive_file ",
};
const VERSION_2: Names =
    Names { limit: "memory.max", usage: "memory.current", dropped: "inactive_file " };

/// The groups that `/proc/self/cgroup` names, with their parents. In a container the path may be that of the host: its own group is
/// then at the root of what is mounted there, which is a parent of every path.
fn groups(root: &Path, text: &str) -> Vec<Group> {
    let mut found = vec![];
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, names) = match controllers {
            "" => ("sys/fs/cgroup", &VERSION_2),
            some if some.split(',').any(|c| c == "memory") => ("sys/fs/cgroup/memory", &VERSION_1),
            _ => continue,
        };
        let group = |path: &Path| Group { folder: root.join(mount).join(path), names };
        found.extend(Path::new(path.trim_start_matches('/')).ancestors().map(group));
    }
    found
}

impl Group {
    /// The memory that it leaves; none without a limit. Pages of files that can be dropped count as free.
    fn left(&self) -> Option<usize> {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).ok();
        let number = |text: String| text.trim().parse::<usize>().ok();
        let (most, usage) = (number(read(self.names.limit)?)?, number(read(self.names.usage)?)?);
        let stat = read("memory.stat").unwrap_or_default();
        let dropped = stat.lines().find_map(|l| l.strip_prefix(self.names.dropped));
        let dropped = dropped.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
        Some(most.saturating_sub(usage.saturating_sub(dropped)))
    }
}

/// Refuses a request that would not fit, before the system kills the process for trying. Small requests are not checked.
///
/// # Errors
/// `Error::Memory` with the size wanted and the free memory.
pub fn require_memory(op: &'static str, bytes: usize) -> Result<()> {
    let remedy =
        "use a smaller batch or parameter set (`becalm params` lists key sizes), or free memory";
    require_memory_or(op, bytes, remedy)
}

/// [`require_memory`] with its own remedy.
///
/// # Errors
/// As [`require_memory`].
pub(crate) fn require_memory_or(op: &'static str, bytes: usize, remedy: &str) -> Result<()> {
    if bytes < CHECKED { Ok(()) } else { require_free(op, bytes, remedy) }
}

/// A reading takes as long as a product in a small ring. So a request far below the last one passes for this long without another.
const FRESH: Duration = Duration::from_millis(50);

/// The last reading, when it was made, and the process that made it. Nobody waits for it: in a forked child it may be locked for ever.
static LAST: Mutex<Option<(Instant, usize, u32)>> = Mutex::new(None);

/// Whether `bytes` are at most a sixteenth of what was free a moment ago, in this process.
fn plainly_free(bytes: usize) -> bool {
    let last = LAST.try_lock().ok().and_then(|last| *last);
    last.is_some_and(|(when, free, process)| {
        process == std::process::id() && when.elapsed() < FRESH && bytes <= free / 16
    })
}

/// [`require_memory_or`] for requests of any size: what many threads will take piece by piece, when none of them can refuse.
///
/// # Errors
/// As [`require_memory`].
pub(crate) fn require_free(op: &'static str, bytes: usize, remedy: &str) -> Result<()> {
    require_for_threads(op, bytes, 0, remedy)
}

/// [`require_free`] for work of some threads, each of which reserves addresses too.
///
/// # Errors
/// As [`require_memory`].
pub(crate) fn require_for_threads(
    op: &'static str,
    bytes: usize,
    threads: usize,
    remedy: &str,
) -> Result<()> {
    let reserved = bytes.saturating_add(threads.saturating_mul(OF_THREAD));
    // A web page has no clock, and is not told how much is free.
    if cfg!(target_family = "wasm") || plainly_free(reserved) {
        return Ok(());
    }
    let left = Left::below(Path::new("/"));
    if let Ok(mut last) = LAST.try_lock() {
        *last = left.least().map(|free| (Instant::now(), free, std::process::id()));
    }
    let refused = |bytes: usize, free: usize, of: &str| {
        Err(Error::memory(op, megabytes(bytes), format!("{} free{of}", megabytes(free)), remedy))
    };
    match left {
        Left { memory: Some(free), .. } if bytes > free => refused(bytes, free, ""),
        Left { addresses: Some(free), .. } if reserved > free => refused(
            reserved,
            free,
            if threads > 0 { " of the addresses (`ulimit -v`)" } else { "" },
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       24000 kB\nMemAvailable:   20000 kB\n";
    const LIMITS: &str =
        "Limit                     Soft Limit           Hard Limit           Units\n";

    /// A folder with these files, read as the root of a machine.
    fn left(name: &str, files: &[(&str, &str)]) -> Option<usize> {
        let root =
            std::env::temp_dir().join(format!("becalm-memory-{name}-{}", std::process::id()));
        for (path, text) in files {
            let file = root.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let found = Left::below(&root).least();
        _ = std::fs::remove_dir_all(&root);
        found
    }

    #[test]
    fn a_machine_that_tells_nothing_has_no_figure() {
        assert_eq!(left("nothing", &[]), None);
        assert_eq!(left("odd", &[("proc/meminfo", "MemAvailable: many kB")]), None);
    }

    /// The reading is shared by every test of this process, so only what one of them cannot change is asserted.
    #[test]
    fn a_request_beyond_the_last_reading_is_read_anew() {
        let free = available_memory().unwrap_or(usize::MAX - 1);
        require_free("test", 1, "").unwrap();
        assert!(!plainly_free(free / 8));
        assert_eq!(require_free("test", usize::MAX, "").is_err(), free < usize::MAX - 1);
    }

    #[test]
    fn the_machine_and_the_limit_of_addresses_count() {
        let machine = ("proc/meminfo", MEMINFO);
        assert_eq!(left("machine", &[machine]), Some(20000 << 10));
        let status = ("proc/self/status", "Name:\tx\nVmSize:\t    4000 kB\n");
        let limits =
            |most: &str| format!("{LIMITS}Max address space         {most}   unlimited   bytes\n");
        let (some, none) = (limits("10240000"), limits("unlimited"));
        let with = |text| [machine, status, ("proc/self/limits", text)];
        assert_eq!(left("limited", &with(&some)), Some(10_240_000 - (4000 << 10)));
        assert_eq!(left("unlimited", &with(&none)), Some(20000 << 10));
    }

    #[test]
    fn a_group_of_version_2_and_its_parents_count() {
        let files = |own: &'static str, parent: &'static str| {
            left(
                &format!("v2-{own}-{parent}"),
                &[
                    ("proc/meminfo", MEMINFO),
                    ("proc/self/cgroup", "0::/a/b\n"),
                    ("sys/fs/cgroup/a/b/memory.max", own),
                    ("sys/fs/cgroup/a/b/memory.current", "3000000\n"),
                    ("sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file 1000000\n"),
                    ("sys/fs/cgroup/a/memory.max", parent),
                    ("sys/fs/cgroup/a/memory.current", "4000000\n"),
                    ("sys/fs/cgroup/a/memory.stat", "inactive_file 0\n"),
                ],
            )
        };
        assert_eq!(files("max", "max"), Some(20000 << 10));
        assert_eq!(files("9000000", "max"), Some(7_000_000));
        assert_eq!(files("9000000", "8000000"), Some(4_000_000), "the parent leaves less");
        assert_eq!(files("1000000", "max"), Some(0), "more than its limit");
    }

    #[test]
    fn a_group_of_version_1_and_its_parents_count() {
        let cgroup = "12:pids:/x\n4:cpuset,memory:/docker/1a2b\n0::/x\n";
        let files = |limit: &str, folder: &str| {
            let file = |name: &str| format!("sys/fs/cgroup/memory{folder}/memory.{name}");
            let all = [file("limit_in_bytes"), file("usage_in_bytes"), file("stat")];
            left(
                &format!("v1-{}-{}", limit.len(), folder.len()),
                &[
                    ("proc/meminfo", MEMINFO),
                    ("proc/self/cgroup", cgroup),
                    (&all[0], limit),
                    (&all[1], "5000000\n"),
                    (&all[2], "inactive_file 7\ntotal_inactive_file 500000\n"),
                ],
            )
        };
        for folder in ["/docker/1a2b", "/docker"] {
            assert_eq!(files("9000000\n", folder), Some(4_500_000));
        }
        assert_eq!(
            files("9000000\n", ""),
            Some(4_500_000),
            "a container sees its group as the root"
        );
        assert_eq!(files("9223372036854771712\n", "/docker"), Some(20000 << 10), "no limit");
    }

    #[test]
    fn more_than_there_is_is_refused() {
        if available_memory().is_some() {
            assert_eq!(require_memory("test", usize::MAX).unwrap_err().kind(), "memory");
            // The numbers are legible, however small what is wanted is.
            let error = require_free("test", usize::MAX - 1, "");
            assert!(error.is_err_and(|e| !e.to_string().contains("0.00 GB")));
        }
        require_memory("test", CHECKED - 1).unwrap();
    }

    #[test]
    fn threads_take_addresses_alone() {
        let left = Left::below(Path::new("/"));
        let most = usize::MAX / OF_THREAD;
        let refused = require_for_threads("test", 1, most, "");
        assert_eq!(refused.is_err(), left.addresses.is_some());
    }
}
