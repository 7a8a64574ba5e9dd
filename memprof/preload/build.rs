//! Links the object that is loaded into programs.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    let glibc = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|library| library == "gnu");
    if !linux || !glibc {
        return;
    }
    // The standard library asks for libgcc_s.so, which a program in C would then load only because of
    // us. A linker script of that name, found first, takes the unwinder in instead.
    if let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from)
        && fs::write(folder.join("libgcc_s.so"), "GROUP ( -lgcc_eh -lgcc -lc )\n").is_ok()
    {
        println!("cargo::rustc-link-search=native={}", folder.display());
    }
    // Its functions are called from everywhere until the process ends; and each call into it is bound
    // when it is loaded, so that none enters the loader later.
    for argument in ["-Wl,-z,nodelete", "-Wl,-z,now"] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
