//! The fuzz targets as a program: with the engine if built for fuzzing, otherwise for replays.
#![cfg_attr(fuzzing, no_main)]
#![allow(clippy::print_stdout, clippy::print_stderr)] // A command talks to its user.

#[cfg(not(fuzzing))]
use std::process::ExitCode;

#[cfg(not(fuzzing))]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match quo_fuzz::command(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("usage: quo-fuzz list | seeds TARGET FOLDER | replay TARGET FILE...");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(fuzzing)]
mod engine {
    use std::sync::OnceLock;

    use quo_fuzz::Target;

    /// Variable that names the target.
    const VARIABLE: &str = "QUO_FUZZ_TARGET";

    static TARGET: OnceLock<Target> = OnceLock::new();

    /// Runs the other commands and selects the target, before the engine reads the command line.
    fn begin() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let chosen = quo_fuzz::command(&arguments).and_then(|done| {
            if done {
                std::process::exit(0);
            }
            quo_fuzz::limit_memory()?;
            quo_fuzz::target(&std::env::var(VARIABLE)?)
        });
        match chosen {
            Ok(target) => drop(TARGET.set(target)),
            Err(error) => {
                eprintln!("error: {error:#} (is {VARIABLE} set?)");
                std::process::exit(2);
            }
        }
    }

    libfuzzer_sys::fuzz_target!(init: begin(), |bytes: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(bytes);
        }
    });
}
