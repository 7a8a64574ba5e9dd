//! Attempts of another user of the machine to read, lock, signal, and lay traps in the directory.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, geteuid, mkfifo, pipe, setgid, setgroups, setuid};
use quo::node::{Node, NodeError, NodeOptions, SegmentName};

use super::crew::{Home, LONG, join, spawn};
use super::{Skipped, Test};

pub const TESTS: &[Test] = &[
    ("another_user_cannot_read_lock_move_or_signal", cannot_touch),
    ("names_laid_beforehand_are_refused_and_left_alone", names_laid_beforehand),
    ("directories_where_others_replace_files_are_refused", unsafe_directories),
    ("a_directory_that_was_exchanged_is_refused", exchanged_directory),
    ("forked_processes_make_up_different_names", names_after_a_fork),
];

/// The user whose segments are attacked. Neither user is the administrator, who may do anything.
const VICTIM: u32 = 54_321;
const INTRUDER: u32 = 65_534;

fn needs_root() -> Result<(), Skipped> {
    if geteuid().is_root() { Ok(()) } else { Err(Skipped("becoming other users needs root")) }
}

/// Runs `act` as another user and waits for it to succeed.
fn as_user(user: u32, act: impl FnOnce()) {
    join(spawn(|| {
        become_user(user);
        act();
    }));
}

fn become_user(user: u32) {
    setgroups(&[]).unwrap();
    setgid(Gid::from_raw(user)).unwrap();
    setuid(Uid::from_raw(user)).unwrap();
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn options(directory: &Path) -> NodeOptions<'static> {
    NodeOptions { directory: directory.to_owned(), ..NodeOptions::new(1) }
}

fn cannot_touch(directory: &Path) -> Result<(), Skipped> {
    needs_root()?;
    mode(directory, 0o1777);
    let (ready_out, ready_in) = pipe().unwrap();
    let (done_out, done_in) = pipe().unwrap();
    let member = spawn(|| {
        become_user(VICTIM);
        let home = Home::new(directory, 1);
        let node = home.attach(0);
        nix::unistd::write(&ready_in, home.name.to_string().as_bytes()).unwrap();
        nix::unistd::read(&done_out, &mut [0]).unwrap();
        assert!(node.is_alive(0), "the member's lock is gone");
        node.barrier_timeout(LONG).unwrap();
    });
    let mut name = [0; 64];
    let length = nix::unistd::read(&ready_out, &mut name).unwrap();
    let path = directory.join(std::str::from_utf8(&name[..length]).unwrap());
    as_user(INTRUDER, || {
        let denied = |result: std::io::Result<File>| {
            assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
        };
        // Without a descriptor there is no lock to take and nothing to map.
        denied(File::open(&path));
        denied(OpenOptions::new().write(true).open(&path));
        for refused in [fs::remove_file(&path), fs::rename(&path, directory.join("moved"))] {
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EPERM));
        }
        for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGSTOP), Some(Signal::SIGKILL)] {
            assert_eq!(kill(member, signal), Err(Errno::EPERM));
        }
        // The maps of the process give no descriptor either.
        assert!(fs::read_dir(format!("/proc/{member}/fd")).is_err());
        assert!(File::open(format!("/proc/{member}/mem")).is_err());
        assert_eq!(Node::sweep_older_than(directory, Duration::ZERO).unwrap(), 0);
    });
    assert!(path.exists());
    nix::unistd::write(&done_in, &[1]).unwrap();
    join(member);
    Ok(())
}

/// A trap: its name, the user that lays it, and how.
type Trap<'a> = (&'static str, u32, &'a dyn Fn(&Path));

fn names_laid_beforehand(directory: &Path) -> Result<(), Skipped> {
    needs_root()?;
    mode(directory, 0o1777);
    let treasure = directory.join("treasure");
    fs::write(&treasure, "precious").unwrap();
    mode(&treasure, 0o600);
    chown(&treasure, Some(VICTIM), Some(VICTIM)).unwrap();
    let lay_file = |path: &Path| fs::write(path, "").unwrap();
    let lay_folder = |path: &Path| fs::create_dir(path).unwrap();
    let lay_pipe = |path: &Path| mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let lay_link = |path: &Path| symlink(&treasure, path).unwrap();
    let lay_dangling = |path: &Path| symlink(directory.join("nothing"), path).unwrap();
    // By the administrator: the kernel usually prevents others from doing it.
    let lay_second_name = |path: &Path| fs::hard_link(&treasure, path).unwrap();
    let traps: [Trap<'_>; 6] = [
        ("a file", INTRUDER, &lay_file),
        ("a directory", INTRUDER, &lay_folder),
        ("a pipe", INTRUDER, &lay_pipe),
        ("a symbolic link", INTRUDER, &lay_link),
        ("a dangling link", INTRUDER, &lay_dangling),
        ("a second name", 0, &lay_second_name),
    ];
    for (what, layer, lay) in traps {
        let name = victims_name();
        let path = directory.join(&name);
        as_user(layer, || lay(&path));
        let before = fs::symlink_metadata(&path).unwrap();
        as_user(VICTIM, || {
            let name: SegmentName = name.parse().unwrap();
            let error = Node::create(&name, &options(directory)).unwrap_err();
            assert!(matches!(error, NodeError::System { call: "open", .. }), "{what}: {error}");
            let error = Node::attach(&name, directory, 0).unwrap_err();
            assert!(
                matches!(error, NodeError::Refused { .. } | NodeError::System { call: "open", .. }),
                "{what}: {error}"
            );
            assert_eq!(Node::sweep_older_than(directory, Duration::ZERO).unwrap(), 0, "{what}");
        });
        let after = fs::symlink_metadata(&path).unwrap();
        assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()), "{what}");
        assert_eq!(fs::read_to_string(&treasure).unwrap(), "precious", "{what}");
        assert!(!directory.join("nothing").exists());
        if before.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) }.unwrap();
    }
    fs::remove_file(treasure).unwrap();
    Ok(())
}

/// Returns a name that the victim would choose, known before the victim has used it.
fn victims_name() -> String {
    let digits = SegmentName::random().unwrap().to_string();
    format!("quo-{VICTIM}-{}", digits.rsplit_once('-').unwrap().1)
}

fn unsafe_directories(directory: &Path) -> Result<(), Skipped> {
    needs_root()?;
    mode(directory, 0o755);
    let place = |name: &str, owner: u32, bits: u32| -> PathBuf {
        let path = directory.join(name);
        fs::create_dir(&path).unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        mode(&path, bits);
        path
    };
    let link = directory.join("link");
    let places = [
        place("open to all", VICTIM, 0o777),
        place("open to a group", VICTIM, 0o770),
        place("of the administrator", 0, 0o777),
        place("of another", INTRUDER, 0o755),
        place("of another, sticky", INTRUDER, 0o1777),
        link.clone(),
    ];
    symlink(&places[0], &link).unwrap();
    let name = victims_name();
    as_user(VICTIM, || {
        let name: SegmentName = name.parse().unwrap();
        for place in &places {
            let refused = |result: Result<(), NodeError>| {
                let error = result.unwrap_err();
                assert!(matches!(error, NodeError::UnsafeDirectory { .. }), "{place:?}: {error}");
                assert!(error.to_string().contains(&place.display().to_string()), "{error}");
            };
            refused(Node::create(&name, &options(place)).map(drop));
            refused(Node::attach(&name, place, 0).map(drop));
            refused(Node::sweep(place).map(drop));
        }
        for (place, bits) in [(&places[0], 0o1777), (&places[1], 0o700)] {
            mode(place, bits);
            let segment = Node::create(&name, &options(place)).unwrap();
            Node::attach(&name, place, 0).unwrap();
            drop(segment);
        }
    });
    fs::remove_file(&link).unwrap();
    places.iter().filter(|place| **place != link).for_each(|place| fs::remove_dir(place).unwrap());
    Ok(())
}

fn exchanged_directory(directory: &Path) -> Result<(), Skipped> {
    needs_root()?;
    // The directory itself is safe, but the owner of its parent can replace it by another.
    mode(directory, 0o755);
    chown(directory, Some(INTRUDER), Some(INTRUDER)).unwrap();
    let (good, away, trap) =
        (directory.join("good"), directory.join("away"), directory.join("trap"));
    fs::create_dir(&good).unwrap();
    chown(&good, Some(VICTIM), Some(VICTIM)).unwrap();
    mode(&good, 0o700);
    let (name_out, name_in) = pipe().unwrap();
    let (go_out, go_in) = pipe().unwrap();
    let victim = spawn(|| {
        become_user(VICTIM);
        let name = SegmentName::random().unwrap();
        let segment = Node::create(&name, &options(&good)).unwrap();
        nix::unistd::write(&name_in, name.to_string().as_bytes()).unwrap();
        nix::unistd::read(&go_out, &mut [0]).unwrap();
        let error = Node::attach(&name, &good, 0).unwrap_err();
        assert!(matches!(error, NodeError::UnsafeDirectory { .. }), "{error}");
        assert!(Node::sweep_older_than(&good, Duration::ZERO).is_err());
        drop(segment);
    });
    let mut name = [0; 64];
    let length = nix::unistd::read(&name_out, &mut name).unwrap();
    let name = std::str::from_utf8(&name[..length]).unwrap();
    as_user(INTRUDER, || {
        fs::rename(&good, &away).unwrap();
        fs::create_dir(&trap).unwrap();
        fs::write(trap.join(name), "bait").unwrap();
        symlink(&trap, &good).unwrap();
    });
    nix::unistd::write(&go_in, &[1]).unwrap();
    join(victim);
    assert!(away.join(name).exists(), "the segment itself is where it was");
    fs::remove_file(&good).unwrap();
    fs::remove_dir_all(&away).unwrap();
    fs::remove_dir_all(&trap).unwrap();
    Ok(())
}

fn names_after_a_fork(_: &Path) -> Result<(), Skipped> {
    // A generator in the process, seeded by time or process, would repeat itself in its forks.
    let _first = SegmentName::random().unwrap();
    let (out, into) = pipe().unwrap();
    let children: Vec<_> = (0..8)
        .map(|_| {
            spawn(|| {
                let name = SegmentName::random().unwrap().to_string();
                nix::unistd::write(&into, format!("{name}\n").as_bytes()).unwrap();
            })
        })
        .collect();
    children.into_iter().for_each(join);
    drop(into);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut File::from(out), &mut text).unwrap();
    assert_eq!(text.lines().collect::<BTreeSet<_>>().len(), 8, "{text}");
    Ok(())
}
