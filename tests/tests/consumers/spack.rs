//! The recipe for Spack, with a stand-in for Spack itself.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use quo_tests::Checkout;

use super::{need, tool};

/// Replaces Spack: records the recipe's directives, and the commands that it would run.
const STAND_IN: &str = r#"
import sys, types

class Spec:
    def __init__(self, off): self.off = off
    def satisfies(self, text): return text[1:] in self.off if text[0] == "~" else text[1:] not in self.off
    def __getitem__(self, name): return types.SimpleNamespace(mpicc="mpicc", mpicxx="mpicxx", mpifc="mpifort")

class Prefix(str):
    bin = "/prefix/bin"

class Cargo:
    def add_default_env(self, name, value): print("environment", name)
    def __call__(self, *words): print("run", *words)

package = types.ModuleType("spack.package")
for name in ("license", "version", "variant", "depends_on", "conflicts"):
    def directive(*words, name=name, **options): print(name, *words, options)
    setattr(package, name, directive)
package.run_after = lambda phase: lambda function: function
package.on_package_attributes = lambda **options: lambda function: function
package.join_path = lambda *parts: "/".join(str(part) for part in parts)
package.which = lambda name, required=False: Cargo()
package.make_jobs = 2
package.Executable = lambda path: lambda *words: print("run", path, *words)
generic = types.ModuleType("spack_repo.builtin.build_systems.generic")
generic.Package = object
for name in ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["spack.package"], sys.modules[generic.__name__] = package, generic

sys.dont_write_bytecode = True
import importlib.util
found = importlib.util.spec_from_file_location("recipe", sys.argv[1])
recipe = importlib.util.module_from_spec(found)
found.loader.exec_module(recipe)
print("git", recipe.Quo.git)
for off in ((), ("fortran",), ("fortran", "static")):
    quo = recipe.Quo()
    quo.spec, quo.stage = Spec(off), types.SimpleNamespace(path="/stage")
    quo.prefix = Prefix("/prefix")
    quo.setup_build_environment(types.SimpleNamespace(set=lambda name, value: print("environment", name)))
    quo.setup_run_environment(types.SimpleNamespace(prepend_path=lambda name, value: print("path", name, value)))
    quo.install(quo.spec, "/prefix")
    quo.check_install()
"#;

pub fn spack_would_call_what_is_there() -> Result<()> {
    need("python3")?;
    let checkout = Checkout::find()?;
    let recipe = "packaging/spack/spack_repo/quo/packages/quo/package.py";
    let mut python = Command::new("python3");
    let told = tool(python.args(["-c", STAND_IN]).arg(checkout.root().join(recipe)))?.stdout;
    let root = checkout.root().canonicalize()?;
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let rust = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let rust = rust.context("no rust-version")?.trim_matches('"');
    for line in [
        format!("git file://{}", root.display()),
        format!("depends_on rust@{rust}: {{'type': 'build'}}"),
        "run /prefix/bin/quo-info --config".to_owned(),
        "environment MPIFC".to_owned(),
        "path PYTHONPATH /prefix/lib/python".to_owned(),
    ] {
        ensure!(told.lines().any(|told| told == line), "no line {line:?} in\n{told}");
    }
    let calls: Vec<&str> =
        told.lines().filter_map(|line| line.strip_prefix("run xtask ")).collect();
    ensure!(calls.len() == 3 && calls[2].contains("--no-fortran"), "{told}");
    for call in calls {
        // Help is shown only after the arguments before it are accepted.
        let mut xtask = Command::new(checkout.program("xtask")?);
        tool(xtask.args(call.split(' ')).arg("--help"))?;
    }
    Ok(())
}
