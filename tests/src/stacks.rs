//! Stacks of hanging processes, as gdb shows them.

use std::process::Command;

use rustix::process::Pid;

/// Maximum number of processes shown, and the limit in seconds for each.
const MOST: usize = 12;
const SECONDS: &str = "20";

/// Returns the stacks of all threads of the processes. Without gdb, the text says so.
pub fn of(processes: &[Pid]) -> String {
    let stack = |process: &Pid| {
        let number = process.to_string();
        let mut command = Command::new("timeout");
        command.args([SECONDS, "gdb", "-batch", "-nx", "-p", &number]);
        command.args(["-ex", "set debuginfod enabled off", "-ex", "thread apply all bt 30"]);
        match command.output() {
            Ok(output) if output.status.success() => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let told = |line: &&str| line.starts_with("Thread ") || line.starts_with('#');
                let lines: Vec<&str> = text.lines().filter(told).collect();
                format!("process {process}\n{}\n", lines.join("\n"))
            }
            Ok(output) => format!("process {process}: no stack by gdb: {}\n", output.status),
            Err(error) => format!("process {process}: no stack by gdb: {error}\n"),
        }
    };
    processes.iter().take(MOST).map(stack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_of_a_sleeper_names_its_process() {
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let text = of(&[Pid::from_child(&sleeper)]);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(text.starts_with(&format!("process {}", sleeper.id())), "{text}");
    }
}
