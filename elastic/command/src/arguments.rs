//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use elastic::manager::control::wire::{Call, Hosts, Many};

use crate::launch::Launch;
use crate::manage::Manage;
use crate::simulate::Simulate;
use crate::top::Top;

/// Ask running elastic jobs to grow, shrink and move
#[derive(Debug, Parser)]
#[command(
    name = "quo-elastic",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_long_help = "JOB is the name of a job of yours, as `list` has them, or the path of its \
        control socket. A request is refused at once, or accepted and done at one of the job's next \
        safe points; with --wait the command tells how it ended. A grace time is reported when it is \
        over. QUO_ELASTIC_DIR names the folder of control sockets, for jobs and commands.\n\n\
        Exit status: 0 done or accepted, 1 no answer, 2 usage, 3 refused, 4 aborted.",
    max_term_width = 80
)]
pub struct Arguments {
    /// Print JSON, of jobs an object per line
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the jobs that accept requests
    List {
        /// Print names alone, for the completion of shells
        #[arg(long, hide = true)]
        names: bool,
    },
    /// Show the status of a job
    Status {
        /// Name of the job, or path of its socket
        job: String,
    },
    /// Add ranks to a job
    Grow(More),
    /// Take ranks from a job, the highest first
    Shrink {
        /// Name of the job, or path of its socket
        job: String,
        /// Number of ranks to remove
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        ranks: u32,
        /// Hosts to take them from
        #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
        from: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Give a job this many ranks
    Size(More),
    /// Take all ranks from hosts
    Leave {
        /// Name of the job, or path of its socket
        job: String,
        /// Hosts to leave
        #[arg(required = true, value_delimiter = ',')]
        hosts: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Move the ranks of some hosts to others
    Move {
        /// Name of the job, or path of its socket
        job: String,
        /// Hosts to leave
        #[arg(long, required = true, value_name = "HOSTS", value_delimiter = ',')]
        from: Vec<String>,
        /// Hosts to move to
        #[arg(long, required = true, value_name = "HOSTS", value_delimiter = ',')]
        to: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Cancel a request that waits for its turn
    Cancel {
        /// Name of the job, or path of its socket
        job: String,
        /// The number of the request
        request: u64,
    },
    /// Run a command on a node of the Slurm job, for launchers
    ///
    /// It is a step of the job that has the node.
    #[command(
        hide = true,
        after_help = "`quo-elastic launch --slurm` gives launchers this command in place of a remote \
        shell; `--show` prints how."
    )]
    SlurmAgent {
        /// Options of remote shells (ignored), a host, and a command
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Start an elastic program with the options that this MPI needs
    #[command(override_usage = "quo-elastic launch -n MIN..MAX [OPTIONS] [--] PROGRAM...")]
    Launch(Box<Launch>),
    /// Try schedulers on a log of a cluster, or a description
    Simulate(Box<Simulate>),
    /// Run a queue on some hosts, or resize running Slurm jobs
    Manage(Box<Manage>),
    /// Show a live table of the jobs: sizes, iterations, last requests
    Top(Top),
    /// Run a program of elements in a shared object, on each rank
    #[command(
        after_help = "Options between PROGRAM and -- are the driver's: --serial (one process, no MPI), \
        --initial-ranks N, --max-ranks N, --oversubscribe, --plan FILE, --name NAME, --log FILE and \
        --trace FILE. The words after -- are the program's.\n\nmpirun -n 4 quo-elastic run ./prog.so"
    )]
    Run {
        /// A shared object with a QUO_program, the driver's options, --, and words for the program
        #[arg(
            required = true,
            value_name = "PROGRAM",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<OsString>,
    },
    /// Pass a call to a job, and print its answer
    #[command(hide = true)]
    Call {
        /// Name of the job, or path of its socket
        job: String,
        /// The call, as a line of JSON
        call: String,
    },
    /// Print the events of a job, one JSON object per line
    Events {
        /// Name of the job, or path of its socket
        job: String,
        /// First event to print
        #[arg(long, default_value_t = 0, value_name = "NUMBER")]
        since: u64,
        /// Continue until the job ends
        #[arg(long)]
        follow: bool,
    },
}

/// A number of ranks, and the place of the joiners.
#[derive(Debug, Args)]
pub struct More {
    /// Name of the job, or path of its socket
    job: String,
    /// Number of ranks: additional ones for `grow`, all ranks for `size`
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,
    /// Hosts to grow on
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', conflicts_with = "nodes")]
    on: Vec<String>,
    /// Grow on this many new nodes, which the job's resource manager brings
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    #[command(flatten)]
    how: How,
}

impl More {
    fn call(self, call: fn(Many) -> Call) -> (String, Call) {
        let More { job, ranks, on, nodes, how } = self;
        let from = Vec::new();
        let (grace_ms, wait) = (how.milliseconds(), how.wait);
        let many = Many { ranks, on, nodes, from, grace_ms, wait, why: None };
        (job, call(many))
    }
}

#[derive(Debug, Args)]
pub struct How {
    /// Time limit of the resize, such as 30s or 2min
    #[arg(long, value_name = "TIME", value_parser = time)]
    grace: Option<Duration>,
    /// Wait, and print the outcome
    #[arg(long)]
    wait: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    elastic::plan::duration(text).ok_or_else(|| "a time like 30s is expected".to_owned())
}

impl Command {
    /// Returns the job and the call for it; `None` if no job is called.
    pub fn call(self) -> Option<(String, Call)> {
        let hosts = |from, on, how: How| Hosts {
            from,
            on,
            grace_ms: how.milliseconds(),
            wait: how.wait,
            why: None,
        };
        Some(match self {
            Command::List { .. }
            | Command::SlurmAgent { .. }
            | Command::Simulate(_)
            | Command::Manage(_)
            | Command::Launch(_)
            | Command::Top(_)
            | Command::Run { .. }
            | Command::Call { .. } => return None,
            Command::Status { job } => (job, Call::Status {}),
            Command::Grow(more) => more.call(Call::Grow),
            Command::Size(more) => more.call(Call::Size),
            Command::Shrink { job, ranks, from, how } => {
                let (grace_ms, wait) = (how.milliseconds(), how.wait);
                (job, Call::Shrink(Many { ranks, from, grace_ms, wait, ..Many::default() }))
            }
            Command::Leave { job, hosts: from, how } => {
                (job, Call::Leave(hosts(from, Vec::new(), how)))
            }
            Command::Move { job, from, to, how } => (job, Call::Move(hosts(from, to, how))),
            Command::Cancel { job, request } => {
                (job, Call::Cancel { request: elastic::change::RequestId(request) })
            }
            Command::Events { job, since, follow } => (job, Call::Events { since, follow }),
        })
    }
}

impl How {
    fn milliseconds(&self) -> Option<u64> {
        self.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn help_of_every_command_fits_a_small_terminal() {
        assert_eq!(quo_pages::oversized(Arguments::command()), [""; 0]);
    }

    fn refusal(words: &[&str]) -> String {
        let words = ["quo-elastic"].iter().chain(words);
        Arguments::try_parse_from(words).unwrap_err().to_string()
    }

    #[test]
    fn manage_alone_names_both_kinds_of_jobs() {
        let error = refusal(&["manage"]);
        assert!(error.contains("--slurm|--pool <HOSTS>"), "{error}");
        let error = refusal(&["manage", "--slurm", "--pool", "n1:2", "--queue", "jobs"]);
        assert!(error.contains("cannot be used with"), "{error}");
    }
}
