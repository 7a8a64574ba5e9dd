//! Segments: which processes may attach, the effect of a full directory, and leftovers.

use std::fs::{self, File, Permissions};
use std::io::{Seek, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Uid, geteuid, setuid};
use quo::node::{Node, NodeError, NodeOptions, SegmentName};

use super::crew::{Home, LONG, die, join, reap, spawn};
use super::{Skipped, Test};

pub const TESTS: &[Test] = &[
    ("nothing_is_left_when_the_maker_fails_to_unlink", the_maker_is_killed_after_unlinking),
    ("job_killed_while_making_a_segment_is_swept_up", swept_up),
    ("what_is_not_a_whole_segment_is_refused", what_is_not_a_whole_segment_is_refused),
    ("a_segment_cut_anywhere_is_refused", a_segment_cut_anywhere_is_refused),
    ("another_user_is_refused_on_both_sides", another_user_is_refused_on_both_sides),
    ("a_full_directory_is_an_error_and_no_signal", a_full_directory),
    ("limit_on_file_sizes_is_an_error_and_no_signal", limit_on_file_sizes),
    ("a_name_in_use_is_refused_and_stays", a_name_in_use_is_refused_and_stays),
    ("a_parent_makes_what_its_children_attach_to", a_parent_makes_what_its_children_attach_to),
];

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

fn the_maker_is_killed_after_unlinking(directory: &Path) -> Result<(), Skipped> {
    let maker = spawn(|| {
        let home = Home::new(directory, 1);
        let node = home.attach(0);
        assert_eq!(files(directory), 1);
        home.segment.unlink().unwrap();
        home.segment.unlink().unwrap();
        node.barrier_timeout(LONG).unwrap();
        die();
    });
    reap(maker);
    assert_eq!(files(directory), 0);
    Ok(())
}

fn swept_up(directory: &Path) -> Result<(), Skipped> {
    reap(spawn(|| {
        let home = Home::new(directory, 1);
        let _node = home.attach(0);
        assert_eq!(Node::sweep_older_than(directory, Duration::ZERO).unwrap(), 0);
        // Another process sees that the creator and the member are alive.
        join(spawn(|| {
            assert_eq!(Node::sweep_older_than(directory, Duration::ZERO).unwrap(), 0);
        }));
        die();
    }));
    assert_eq!(files(directory), 1);
    assert_eq!(Node::sweep(directory).unwrap(), 0, "it is too young to be sure");
    assert_eq!(Node::sweep_older_than(directory, Duration::ZERO).unwrap(), 1);
    assert_eq!(files(directory), 0);
    Ok(())
}

fn what_is_not_a_whole_segment_is_refused(directory: &Path) -> Result<(), Skipped> {
    let home = Home::new(directory, 2);
    let path = directory.join(home.name.to_string());
    let whole = fs::read(&path).unwrap();
    let try_bytes = |bytes: &[u8]| {
        let name = SegmentName::random().unwrap();
        let path = directory.join(name.to_string());
        let mut file = File::create_new(&path).unwrap();
        file.set_permissions(Permissions::from_mode(0o600)).unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let result = Node::attach(&name, directory, 0);
        fs::remove_file(path).unwrap();
        result
    };
    drop(try_bytes(&whole).expect("a copy is as good"));
    let with = |place: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[place] ^= byte;
        bytes
    };
    let refused: [(&str, Vec<u8>); 7] = [
        ("empty", Vec::new()),
        ("shorter than a header", whole[..100].to_vec()),
        ("cut short", whole[..whole.len() - 1].to_vec()),
        ("too long", [&whole[..], &[0]].concat()),
        ("another beginning", with(0, 1)),
        ("an older layout", with(8, 1)),
        ("another place", with(64, 0x80)),
    ];
    for (what, bytes) in refused {
        let error = try_bytes(&bytes).err().unwrap_or_else(|| panic!("{what} was taken"));
        assert!(matches!(error, NodeError::Refused { .. }), "{what}: {error}");
    }
    Ok(())
}

fn a_segment_cut_anywhere_is_refused(directory: &Path) -> Result<(), Skipped> {
    let home = Home::new(directory, 2);
    let whole = fs::read(directory.join(home.name.to_string())).unwrap();
    let name = SegmentName::random().unwrap();
    let path = directory.join(name.to_string());
    let mut copy = File::create_new(&path).unwrap();
    copy.set_permissions(Permissions::from_mode(0o600)).unwrap();
    copy.write_all(&whole).unwrap();
    for length in (0..whole.len()).rev() {
        copy.set_len(length as u64).unwrap();
        let error = Node::attach(&name, directory, 0).unwrap_err();
        assert!(matches!(error, NodeError::Refused { .. }), "{length} bytes: {error}");
    }
    fs::remove_file(path).unwrap();
    Ok(())
}

fn another_user_is_refused_on_both_sides(directory: &Path) -> Result<(), Skipped> {
    if !geteuid().is_root() {
        return Err(Skipped("becoming another user needs root"));
    }
    const NOBODY: u32 = 65_534;
    let home = Home::new(directory, 1);
    let (mine, secret) = (home.name.to_string(), home.name.to_string()[6..].to_owned());
    let theirs = format!("quo-{NOBODY}-{secret}");
    fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    // Even under its own name, another user cannot open the file.
    fs::hard_link(directory.join(&mine), directory.join(&theirs)).unwrap();
    join(spawn(|| {
        setuid(Uid::from_raw(NOBODY)).unwrap();
        let foreign = mine.parse::<SegmentName>().unwrap_err();
        assert!(foreign.to_string().contains("another user"), "{foreign}");
        let name = theirs.parse().unwrap();
        let error = Node::attach(&name, directory, 0).unwrap_err();
        assert!(matches!(error, NodeError::System { call: "open", .. }), "{error}");
    }));
    fs::remove_file(directory.join(&theirs)).unwrap();
    // A user who could open anything still refuses what another user created.
    chown(directory.join(&mine), Some(NOBODY), None).unwrap();
    let error = Node::attach(&home.name, directory, 0).unwrap_err();
    assert!(error.to_string().contains("belongs to another user"), "{error}");
    Ok(())
}

const LARGE: &[u8] = &[0; 1 << 20];

fn a_full_directory(directory: &Path) -> Result<(), Skipped> {
    if !geteuid().is_root() {
        return Err(Skipped("mounting a small file system needs root"));
    }
    // The mounts below belong to this process only and end with it.
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_PRIVATE, None);
    let target = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes()).unwrap();
    mount(c"tmpfs", &target, c"tmpfs", 0, Some(c"size=512k"));
    let options = |members, payload| NodeOptions {
        directory: directory.to_owned(),
        payload,
        ..NodeOptions::new(members)
    };
    let name = SegmentName::random().unwrap();
    let error = Node::create(&name, &options(1, LARGE)).unwrap_err();
    assert!(matches!(error, NodeError::NoRoom { .. }), "{error}");
    assert_eq!(files(directory), 0);

    let home = Home::with(options(3, &[]));
    let crew = home.crew(3, |node| {
        let error = node.allocate(200 << 10).unwrap_err();
        assert!(matches!(error, NodeError::Allocation { .. }), "{error}");
        node.barrier_timeout(LONG).unwrap();
        assert_eq!(files(node.directory()), 0);
        node.barrier_timeout(LONG).unwrap();
        // An allocation that fits succeeds.
        let memory = node.allocate(10 << 10).unwrap();
        // SAFETY: this member's own part.
        unsafe { memory.local().as_mut_slice().fill(1) };
    });
    crew.into_iter().for_each(join);
    Ok(())
}

fn limit_on_file_sizes(directory: &Path) -> Result<(), Skipped> {
    let home = Home::new(directory, 2);
    let crew = home.crew(2, |node| {
        let limit = libc::rlimit { rlim_cur: 4096, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: reads the limit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        let options = NodeOptions { directory: node.directory().to_owned(), ..NodeOptions::new(1) };
        let error = Node::create(&SegmentName::random().unwrap(), &options).unwrap_err();
        let NodeError::NoRoom { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.raw_os_error(), Some(libc::EFBIG));
        let error = node.allocate(200 << 10).unwrap_err();
        assert!(matches!(error, NodeError::Allocation { .. }), "{error}");
        node.barrier_timeout(LONG).unwrap();
        assert_eq!(files(node.directory()), 0);
    });
    crew.into_iter().for_each(join);
    Ok(())
}

fn mount(
    source: &std::ffi::CStr,
    target: &std::ffi::CStr,
    kind: &std::ffi::CStr,
    flags: libc::c_ulong,
    data: Option<&std::ffi::CStr>,
) {
    let data = data.map_or(std::ptr::null(), |data| data.as_ptr().cast());
    // SAFETY: valid strings for the duration of the call.
    let result =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn a_name_in_use_is_refused_and_stays(directory: &Path) -> Result<(), Skipped> {
    let home = Home::new(directory, 1);
    let options = NodeOptions { directory: directory.to_owned(), ..NodeOptions::new(1) };
    let error = Node::create(&home.name, &options).unwrap_err();
    assert!(matches!(error, NodeError::System { call: "open", .. }), "{error}");
    assert_eq!(files(directory), 1);
    home.attach(0).barrier_timeout(LONG).unwrap();
    Ok(())
}

fn a_parent_makes_what_its_children_attach_to(directory: &Path) -> Result<(), Skipped> {
    // A child inherits the creator's descriptors; dropping the inherited segment must neither
    // remove the name nor cost the child its own membership.
    let home = Home::new(directory, 2);
    let mut home = Some(home);
    let others = [0, 1].map(|member| {
        spawn(|| {
            let node = home.as_ref().unwrap().attach(member);
            node.barrier_timeout(LONG).unwrap();
            drop(home.take());
            assert_eq!(files(directory), 1);
            node.barrier_timeout(LONG).unwrap();
            assert!(node.is_alive(1 - member));
            node.barrier_timeout(LONG).unwrap();
        })
    });
    others.into_iter().for_each(join);
    Ok(())
}
