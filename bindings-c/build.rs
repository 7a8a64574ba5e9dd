//! Gives libquo the name under which programs find it, since cargo gives none. 8 is the number
//! that the library of QUO 1.4.1 carries.
#![allow(clippy::print_stdout)] // That is how build scripts talk to cargo.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libquo.so.8");
}
