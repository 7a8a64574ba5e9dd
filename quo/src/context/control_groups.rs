//! Folders of this process's control groups.

use std::sync::Mutex;

use super::peer_identity::read_unsized;

/// Folder of a control group that this process may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub path: String,
    /// True for version 2, whose single hierarchy has all controllers.
    pub unified: bool,
}

/// Groups of this process and what is mounted, as read last. The kernel takes long to write a list
/// of mounts.
static KNOWN: Mutex<Option<(String, String)>> = Mutex::new(None);

/// Returns the folders of this process's group for a controller and of its ancestors, innermost
/// first. The list of mounts is read again if the process is in other groups than before.
pub(super) fn folders(controller: &str) -> Vec<Folder> {
    let text = |path| String::from_utf8_lossy(&read_unsized(path).unwrap_or_default()).into_owned();
    let groups = text("/proc/self/cgroup");
    // Never waited for: a forked child would wait for a thread that it does not have.
    let Ok(mut known) = KNOWN.try_lock() else {
        return folders_of(controller, &groups, &text("/proc/self/mountinfo"));
    };
    let (groups, mounts) = match known.take() {
        Some((before, mounts)) if before == groups => (before, mounts),
        _ => (groups, text("/proc/self/mountinfo")),
    };
    let folders = folders_of(controller, &groups, &mounts);
    *known = Some((groups, mounts));
    folders
}

/// Like [`folders`], from `/proc/self/cgroup` and `/proc/self/mountinfo`. Pure.
fn folders_of(controller: &str, groups: &str, mounts: &str) -> Vec<Folder> {
    let mut folders = Vec::new();
    for line in mounts.lines() {
        let Some((place, system)) = line.split_once(" - ") else { continue };
        let (place, system): (Vec<&str>, Vec<&str>) =
            (place.split(' ').collect(), system.split(' ').collect());
        let (Some(root), Some(mount), Some(kind)) = (place.get(3), place.get(4), system.first())
        else {
            continue;
        };
        let is_for = |all: &&str| all.split(',').any(|one| one == controller);
        let (wanted, unified) = match *kind {
            "cgroup2" => ("", true),
            "cgroup" if system.get(2).is_some_and(is_for) => (controller, false),
            _ => continue,
        };
        let group = groups.lines().find_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|one| one == wanted).then_some(group)
        });
        let Some(group) = group else { continue };
        // A container sees its own part as the root.
        let mut group = group.strip_prefix(*root).unwrap_or(group).trim_matches('/');
        loop {
            let inner = if group.is_empty() { String::new() } else { format!("/{group}") };
            folders.push(Folder { path: format!("{mount}{inner}"), unified });
            if group.is_empty() {
                break;
            }
            group = group.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(controller: &str, groups: &str, mounts: &str) -> Vec<(String, bool)> {
        let folders = folders_of(controller, groups, mounts);
        folders.into_iter().map(|folder| (folder.path, folder.unified)).collect()
    }

    #[test]
    fn folders_are_found_by_mount_and_path() {
        let second = "0::/jobs/step\n";
        let mount = "25 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        let wanted = ["/jobs/step", "/jobs", ""];
        let wanted = wanted.map(|folder| (format!("/sys/fs/cgroup{folder}"), true));
        assert_eq!(shown("cpuset", second, mount), wanted);
        let first = "4:memory:/m\n3:cpu,cpuset:/inside/a\n";
        let mount = "30 1 0:26 /inside /cg/cpuset rw - cgroup cgroup rw,cpuset\n";
        let wanted = ["/cg/cpuset/a", "/cg/cpuset"].map(|path| (path.to_owned(), false));
        assert_eq!(shown("cpuset", first, mount), wanted);
        assert!(shown("cpu", first, mount).is_empty());
        assert!(shown("cpuset", "", "nonsense\n").is_empty());
    }
}
