//! The kernel's counters in `/proc`.

use std::fs;

use super::{Cpu, Task};

/// The threads of a process; none if it is gone.
pub fn tasks(process: u32) -> Vec<Task> {
    let directory = format!("/proc/{process}/task");
    let Ok(entries) = fs::read_dir(&directory) else { return Vec::new() };
    let task = |entry: std::io::Result<fs::DirEntry>| {
        let thread: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("{directory}/{thread}/stat")).ok()?;
        let (coarse, cpu) = task_stat(&stat)?;
        // To the nanosecond where the kernel counts so, else to the clock tick.
        let fine = fs::read_to_string(format!("{directory}/{thread}/schedstat")).ok();
        let used = fine.as_deref().and_then(task_schedstat).unwrap_or(coarse);
        Some(Task { process, thread, used, cpu })
    };
    entries.filter_map(task).collect()
}

/// CPU time in seconds and last CPU, from a task's `stat`.
fn task_stat(text: &str) -> Option<(f64, usize)> {
    // The name, in parentheses, may hold anything; fields are counted behind it.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some((ticks / ticks_per_second(), fields.get(36)?.parse().ok()?))
}

/// CPU time in seconds, from a task's `schedstat`; `None` where the kernel does not count.
fn task_schedstat(text: &str) -> Option<f64> {
    let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    (nanoseconds > 0.0).then_some(nanoseconds * 1e-9)
}

/// All CPUs; none if the kernel does not say.
pub fn cpus() -> Vec<Cpu> {
    fs::read_to_string("/proc/stat").map(|text| parse_cpus(&text)).unwrap_or_default()
}

fn parse_cpus(text: &str) -> Vec<Cpu> {
    let cpu = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = fields.next()?.parse().ok()?;
        let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; what follows is counted in user.
        let busy: f64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|k| ticks.get(*k)).sum();
        Some(Cpu { cpu, busy: busy / ticks_per_second() })
    };
    // The first line sums over all; it has no number and is left out.
    text.lines().filter(|line| !line.starts_with("cpu ")).filter_map(cpu).collect()
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_spaces_and_parentheses_shifts_no_fields() {
        let mut text = "42 (a) (b c) R".to_owned();
        for field in 4..=52 {
            text += &format!(" {field}");
        }
        let (used, cpu) = task_stat(&text).unwrap();
        assert_eq!(used, (14.0 + 15.0) / ticks_per_second());
        assert_eq!(cpu, 39);
        assert_eq!(task_stat("42 (short) R 1 2"), None);
    }

    #[test]
    fn cpus_are_busy_unless_idle_or_waiting_for_disks() {
        let text =
            "cpu  9 9 9 9 9 9 9 9\ncpu0 100 10 50 900 70 1 2 3 0 0\ncpu5 1 0 0 0 0 0 0 0\nintr 5\n";
        let cpus = parse_cpus(text);
        let expected = [(0, 166.0), (5, 1.0)];
        assert_eq!(cpus.len(), 2);
        for (cpu, (number, ticks)) in cpus.iter().zip(expected) {
            assert_eq!(cpu.cpu, number);
            assert!((cpu.busy * ticks_per_second() - ticks).abs() < 1e-9);
        }
    }

    #[test]
    fn time_this_thread_spends_is_seen() {
        let used = || -> f64 { tasks(std::process::id()).iter().map(|task| task.used).sum() };
        let before = used();
        // Until it is seen: the kernel updates the counter at its own pace.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while used() <= before {
            assert!(std::time::Instant::now() < deadline);
        }
    }

    #[test]
    fn a_process_that_is_gone_has_no_tasks() {
        assert!(tasks(u32::MAX).is_empty());
    }
}
