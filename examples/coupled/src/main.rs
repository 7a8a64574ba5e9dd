//! The program `coupled`.

use std::process::ExitCode;

fn main() -> ExitCode {
    coupled::main()
}
