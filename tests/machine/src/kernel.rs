//! The machine's kernel and its drivers. Debian's package is fetched once and unpacked in the build
//! folder; nothing is installed on the host.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Variable with the folder of an unpacked kernel package, to use instead of Debian's current one.
const VARIABLE: &str = "QUO_MACHINE_KERNEL";

/// The package that always depends on Debian's current kernel.
const PACKAGE: &str = "linux-image-amd64";

/// Drivers by which the machine reaches the host: the port, the host's files, and the overlay in
/// memory.
const DRIVERS: &[&str] = &["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay"];

/// A kernel that can be started.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub version: String,
    pub image: PathBuf,
    /// Drivers in loading order.
    pub drivers: Vec<PathBuf>,
    /// List of built-in drivers, one path a line.
    built_in: PathBuf,
}

/// Fetches what emulated machines need and the host lacks into the folder `cache`, and reports that
/// on standard error. Does nothing if it is there.
///
/// # Errors
///
/// The package cannot be fetched or read.
pub fn prepare(cache: &Path) -> Result<()> {
    Kernel::find(cache).map(drop)
}

impl Kernel {
    /// Finds the kernel that the variable `QUO_MACHINE_KERNEL` names, otherwise Debian's, from the
    /// cache if possible.
    pub(crate) fn find(cache: &Path) -> Result<Kernel> {
        if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
            return Kernel::in_folder(Path::new(&folder)).context(VARIABLE);
        }
        let kept = cache.join("kernel");
        if !kept.exists() {
            fetch(cache, &kept).context("fetching a kernel for emulated machines")?;
        }
        Kernel::in_folder(&kept)
    }

    fn in_folder(folder: &Path) -> Result<Kernel> {
        let mut images = Vec::new();
        for entry in fs::read_dir(folder.join("boot")).context("no kernel in `boot`")? {
            let image = entry?.path();
            let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(version) = name.strip_prefix("vmlinuz-") {
                images.push((version.to_owned(), image));
            }
        }
        images.sort_unstable();
        let (version, image) = images.pop().context("no kernel in `boot`")?;
        let modules = ["lib/modules", "usr/lib/modules"]
            .map(|place| folder.join(place).join(&version))
            .into_iter()
            .find(|modules| modules.exists())
            .with_context(|| format!("no drivers for kernel {version}"))?;
        let mut files = BTreeMap::new();
        collect(&modules, &mut files)?;
        let built_in = modules.join("modules.builtin");
        let known = fs::read_to_string(&built_in).unwrap_or_default();
        let is_built_in = |name: &str| known.lines().any(|line| driver_name(line) == name);
        let order = in_loading_order(DRIVERS, &mut |name| match files.get(name) {
            Some(file) => Ok(Some(needed_drivers(&content(file)?))),
            None if is_built_in(name) => Ok(None),
            None => bail!("kernel {version} has no driver {name}"),
        })?;
        let drivers = order.iter().filter_map(|name| files.get(name).cloned()).collect();
        Ok(Kernel { version, image, drivers, built_in })
    }

    /// Copies the machine's files to the same relative paths.
    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        for file in self.drivers.iter().chain([&self.image, &self.built_in]) {
            let place = to.join(file.strip_prefix(from)?);
            fs::create_dir_all(place.parent().unwrap_or(to))?;
            fs::copy(file, &place).with_context(|| format!("copying {}", file.display()))?;
        }
        Ok(())
    }
}

fn fetch(cache: &Path, kept: &Path) -> Result<()> {
    fs::create_dir_all(cache).with_context(|| format!("making {}", cache.display()))?;
    let work = tempfile::Builder::new().prefix("fetching-").tempdir_in(cache)?;
    let about = output(Command::new("apt-cache").args(["depends", PACKAGE]))?;
    let Some(package) = current_package(&about) else {
        bail!(
            "apt-cache knows no {PACKAGE}. Is this Debian, and are its lists of packages there \
             (`apt-get update`)? {VARIABLE} can name a folder that a kernel package was unpacked into"
        );
    };
    say(&format!("machine: downloading {package} (about 70 MB, once)"))?;
    let mut apt = Command::new("apt-get");
    // apt's own user may not write here, which would cause a warning.
    apt.args(["download", "--option", "APT::Sandbox::User=root", package]).current_dir(work.path());
    // Standard output is reserved for the command to run.
    apt.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?));
    let status = apt.status().context("starting apt-get")?;
    ensure!(status.success(), "apt-get download {package}: {status}");
    let archive = fs::read_dir(work.path())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get downloaded no package")?;
    let (whole, slim) = (work.path().join("whole"), work.path().join("slim"));
    output(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&whole))?;
    Kernel::in_folder(&whole)?.copy(&whole, &slim)?;
    match fs::rename(&slim, kept) {
        // Another process was faster.
        Err(_) if kept.exists() => Ok(()),
        outcome => outcome.with_context(|| format!("keeping {}", kept.display())),
    }
}

fn say(text: &str) -> Result<()> {
    Ok(std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes())?)
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{}", output.status, complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the package that an empty package depends on.
fn current_package(about: &str) -> Option<&str> {
    about.lines().find_map(|line| line.trim().strip_prefix("Depends: "))
}

fn collect(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        // `build` and `source` are links to folders elsewhere.
        if path.is_dir() && !path.is_symlink() {
            collect(&path, files)?;
        } else if let Some(name) = path.to_str().filter(|name| name.contains(".ko")) {
            files.insert(driver_name(name), path);
        }
    }
    Ok(())
}

/// Returns the kernel's name for the driver in a file: `fs/9p/9p.ko.xz` is `9p`, and a dash is an
/// underscore.
fn driver_name(file: &str) -> String {
    let file = file.rsplit('/').next().unwrap_or(file);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

/// Returns the unpacked content of a driver file.
pub(crate) fn content(file: &Path) -> Result<Vec<u8>> {
    let unpack = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(file).with_context(|| format!("reading {}", file.display())),
    };
    let mut command = Command::new(unpack);
    let output = command.arg("-dc").arg(file).output().with_context(|| format!("{unpack} -dc"))?;
    ensure!(output.status.success(), "{unpack} -dc {}: {}", file.display(), output.status);
    Ok(output.stdout)
}

/// Returns the drivers that a driver needs, from the strings that the kernel's build put into it.
fn needed_drivers(driver: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = driver.windows(KEY.len()).position(|bytes| bytes == KEY) else {
        return Vec::new();
    };
    let list = driver[start + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let list = String::from_utf8_lossy(list);
    list.split(',').filter(|name| !name.is_empty()).map(driver_name).collect()
}

/// Returns the wanted drivers and all their dependencies, dependencies first. `needs` returns
/// `None` for a built-in driver.
fn in_loading_order(
    wanted: &[&str],
    needs: &mut dyn FnMut(&str) -> Result<Option<Vec<String>>>,
) -> Result<Vec<String>> {
    fn visit(
        name: &str,
        seen: &mut Vec<String>,
        order: &mut Vec<String>,
        needs: &mut dyn FnMut(&str) -> Result<Option<Vec<String>>>,
    ) -> Result<()> {
        if seen.iter().any(|known| known == name) {
            return Ok(());
        }
        seen.push(name.to_owned());
        if let Some(before) = needs(name)? {
            for other in before {
                visit(&other, seen, order, needs)?;
            }
            order.push(name.to_owned());
        }
        Ok(())
    }
    let (mut seen, mut order) = (Vec::new(), Vec::new());
    for name in wanted {
        visit(name, &mut seen, &mut order, needs)?;
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_package_is_what_the_empty_one_depends_on() {
        let about = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n  Suggests: x\n";
        assert_eq!(current_package(about), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(current_package("N: Unable to locate package"), None);
    }

    #[test]
    fn drivers_come_after_those_they_need_and_once() {
        let order = in_loading_order(&["9p", "virtio_pci"], &mut |name| {
            Ok(match name {
                "9p" => Some(vec!["9pnet".into(), "netfs".into()]),
                "virtio_pci" => Some(vec!["virtio".into(), "built_in".into()]),
                "built_in" => None,
                "9pnet" => Some(vec!["virtio".into()]),
                _ => Some(Vec::new()),
            })
        });
        assert_eq!(order.unwrap(), ["virtio", "9pnet", "netfs", "9p", "virtio_pci"]);
    }

    #[test]
    fn a_driver_tells_what_it_needs() {
        let driver = b"\x7fELF..\0license=GPL\0depends=9pnet,fscache,net-fs\0retpoline=Y\0";
        assert_eq!(needed_drivers(driver), ["9pnet", "fscache", "net_fs"]);
        assert_eq!(needed_drivers(b"\0depends=\0"), Vec::<String>::new());
    }

    #[test]
    fn drivers_are_known_by_the_kernels_name() {
        for file in ["kernel/fs/net-fs.ko", "/x/net-fs.ko.xz", "net_fs"] {
            assert_eq!(driver_name(file), "net_fs");
        }
    }
}
