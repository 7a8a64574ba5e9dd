//! Files that are written: as a whole or not at all.

use anyhow::Context;
use quo_files::Output;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Fills a file, which is there when it is whole; how many bytes it has. A file that is no plain one, as `/dev/null` or
/// a pipe, is written to and stays.
///
/// # Errors
/// If the file cannot be created or written, or those of `fill`; no file is left then.
pub fn fill(
    file: &Path,
    fill: impl FnOnce(&mut Output) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let cannot = || format!("cannot write {}", file.display());
    let mut out = Output::create(file).with_context(cannot)?;
    match fill(&mut out).and_then(|()| Ok(out.finish()?)) {
        Err(error) if is_abandoned(&error) => Ok(0),
        done => done.with_context(cannot),
    }
}

/// Returns true if the reader of a pipe has gone: it has seen enough, as `head` behind `/dev/stdout`.
fn is_abandoned(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Writes a path in JSON. Bytes that are not Unicode are replaced, as in tables, and do not prevent
/// a report.
///
/// # Errors
/// Those of the serialiser.
pub fn path<S: serde::Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(&path.display())
}

/// Writes several paths in the same way.
///
/// # Errors
/// Those of the serialiser.
pub fn paths<S: serde::Serializer>(paths: &[PathBuf], out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// Writes a file of this content; how many bytes.
///
/// # Errors
/// If the file cannot be created or written.
pub fn write(file: &Path, content: &[u8]) -> anyhow::Result<u64> {
    fill(file, |out| Ok(out.write_all(content)?))?;
    Ok(content.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::FileTypeExt;

    #[test]
    fn file_is_replaced_whole_and_kept_if_writing_fails() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        assert_eq!(write(&file, b"first").unwrap(), 5);
        let failed = fill(&file, |out| {
            out.write_all(b"half")?;
            bail!("no more")
        });
        assert!(format!("{:#}", failed.unwrap_err()).contains("no more"));
        assert_eq!(std::fs::read(&file).unwrap(), b"first");
        write(&file, b"second").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"second");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_is_written_to_and_stays_a_pipe() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || {
                let mut content = Vec::new();
                File::open(pipe).and_then(|mut file| file.read_to_end(&mut content)).unwrap();
                content
            })
        };
        write(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
    }

    #[test]
    fn folders_and_what_names_no_file_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let refused = |path: &Path| format!("{:#}", write(path, b"").unwrap_err());
        assert!(refused(place.path()).contains("is a folder"));
        assert!(refused(Path::new("/")).contains("names no file"));
    }

    #[test]
    fn a_device_that_takes_no_more_is_named() {
        let refused = write(Path::new("/dev/full"), &[0; 1 << 17]).unwrap_err();
        assert!(refused.to_string().contains("/dev/full"), "{refused:#}");
    }
}
