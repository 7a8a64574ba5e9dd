use super::*;

fn file(path: &str, text: &str) -> Item {
    let content = Content::File { bytes: text.as_bytes().to_vec(), mode: 0o644 };
    Item { path: path.to_owned(), content }
}

fn link(path: &str, to: &str) -> Item {
    Item { path: path.to_owned(), content: Content::Link { to: to.to_owned() } }
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn prefix(&self) -> PathBuf {
        self.0.path().join("prefix")
    }

    fn install(&self, items: &[Item]) -> Result<Report> {
        install(&self.prefix(), items, "1.0.0", false)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.prefix().join(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.prefix().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

#[test]
fn files_and_links_are_replaced_and_nothing_else_appears() {
    let place = Place::new();
    for content in ["old", "new"] {
        let items =
            [file("lib/libquo.so.8.0.0", content), link("lib/libquo.so", "libquo.so.8.0.0")];
        assert_eq!(place.install(&items).unwrap(), Report::default());
    }
    assert_eq!(place.read("lib/libquo.so"), "new");
    let mode = place.prefix().join("lib/libquo.so.8.0.0").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert_eq!(fs::read_dir(place.prefix().join("lib")).unwrap().count(), 2);
}

#[test]
fn what_cannot_be_written_is_named() {
    let place = Place::new();
    place.write("lib", "a file where a folder should be");
    let error = place.install(&[file("lib/libquo.a", "")]).unwrap_err();
    assert!(error.to_string().contains("lib/libquo.a"), "{error}");
}

#[test]
fn files_of_others_are_not_replaced_unasked() {
    let place = Place::new();
    place.write("include/quo.h", "another library's");
    let error = place.install(&[file("include/quo.h", "ours")]).unwrap_err().to_string();
    assert!(error.contains("include/quo.h") && error.contains("--overwrite"), "{error}");
    assert_eq!(place.read("include/quo.h"), "another library's");
    assert!(!place.prefix().join(manifest::PLACE).exists());
    install(&place.prefix(), &[file("include/quo.h", "ours")], "1.0.0", true).unwrap();
    assert_eq!(place.read("include/quo.h"), "ours");
}

#[test]
fn an_upgrade_removes_what_is_gone_and_sets_changes_aside() {
    let place = Place::new();
    let first = [
        file("include/quo.h", "old"),
        file("include/old.h", "old"),
        file("share/old/mine", "old"),
        file("share/gone/a", "old"),
    ];
    place.install(&first).unwrap();
    place.write("include/quo.h", "changed by the user");
    place.write("share/old/mine", "changed by the user");
    let report = place.install(&[file("include/quo.h", "new")]).unwrap();
    assert_eq!(report.set_aside, ["include/quo.h.changed-1"]);
    assert_eq!(report.kept, ["share/old/mine"]);
    assert_eq!(report.removed, 2);
    assert_eq!(place.read("include/quo.h"), "new");
    assert_eq!(place.read("include/quo.h.changed-1"), "changed by the user");
    assert!(!place.prefix().join("share/gone").exists());
    assert!(place.prefix().join("share/old/mine").exists());
}

#[test]
fn what_an_interrupted_installation_leaves_is_ours() {
    let place = Place::new();
    place.install(&[file("include/quo.h", "old")]).unwrap();
    let old = Manifest::read(&place.prefix()).unwrap().unwrap();
    // A folder of that name stops the installation after its first file.
    fs::create_dir_all(place.prefix().join("lib/libquo.a")).unwrap();
    fs::write(place.prefix().join("include").join(UNFINISHED), "half").unwrap();
    let items = [file("include/quo.h", "new"), file("lib/libquo.a", "new")];
    assert!(place.install(&items).is_err());
    assert_eq!(Manifest::read(&place.prefix()).unwrap().unwrap(), old, "judged before it is begun");

    fs::remove_dir(place.prefix().join("lib/libquo.a")).unwrap();
    let prefix = place.prefix();
    let mut new = Manifest { version: "2".to_owned(), ..Manifest::default() };
    items.iter().for_each(|item| new.add(&item.path, item.kind()));
    Prefix { folder: &prefix }.write_manifest(&old.joined(&new)).unwrap();
    place.write("include/quo.h", "new");
    let report = place.install(&items).unwrap();
    assert_eq!(report, Report::default(), "the new file is not taken for the user's");
    assert!(!prefix.join("include").join(UNFINISHED).exists());
}

#[test]
fn folders_that_were_there_are_not_counted_as_made() {
    let place = Place::new();
    fs::create_dir_all(place.prefix().join("lib")).unwrap();
    place.install(&[file("lib/libquo.a", ""), file("include/quo.h", "")]).unwrap();
    let folders = Manifest::read(&place.prefix()).unwrap().unwrap().folders;
    assert_eq!(folders.into_iter().collect::<Vec<_>>(), ["include", "share", "share/quo"]);
}
