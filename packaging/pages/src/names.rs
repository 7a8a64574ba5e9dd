//! Completion of an argument by the lines of a command's output, such as the names of running jobs:
//! the generated scripts know only the command line.

use clap::Command;
use clap_complete::Shell;

/// An argument of several subcommands, and the command that prints its possible values, one per
/// line.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Identifier of the argument, which is the first positional one of its subcommands.
    pub argument: &'a str,
    /// The command. Its lines must have no special meaning for a shell.
    pub command: &'a str,
}

impl Names<'_> {
    /// Adds the completion to a generated script.
    pub(crate) fn add(self, shell: Shell, script: String, command: &Command) -> String {
        let program = command.get_name();
        let subcommands: Vec<&Command> =
            command.get_subcommands().filter(|part| self.help(part).is_some()).collect();
        let names: Vec<&str> = subcommands.iter().map(|part| part.get_name()).collect();
        match shell {
            Shell::Bash => {
                let rest = script.split("complete -F ").nth(1).unwrap_or_default();
                let generated = rest.split(' ').next().unwrap_or_default();
                let more = self.bash(program, generated, &names.join("|"));
                script + &more
            }
            Shell::Zsh => {
                let function = format!("_{program}_{}", self.argument);
                let helps = subcommands.iter().filter_map(|part| self.help(part));
                let named = helps.fold(script, |script, help| {
                    let start = format!(":{} -- {help}:", self.argument);
                    script.replace(&format!("{start}_default"), &format!("{start}{function}"))
                });
                let (head, rest) = named.split_once('\n').unwrap_or((&named, ""));
                let command = self.command;
                format!(
                    "{head}\n\n{function}() {{\n    local -a names\n    \
                     names=(${{(f)\"$({command} 2>/dev/null)\"}})\n    compadd -a names\n}}\n{rest}"
                )
            }
            Shell::Fish => script + &self.fish(program, &names),
            _ => script,
        }
    }

    /// Returns the help of the argument if it is the first one of a visible subcommand.
    fn help(self, part: &Command) -> Option<String> {
        let first = part.get_positionals().next()?;
        let is_it = first.get_id() == self.argument && !part.is_hide_set();
        is_it.then(|| first.get_help().map(ToString::to_string).unwrap_or_default())
    }

    fn bash(self, program: &str, generated: &str, subcommands: &str) -> String {
        let command = self.command;
        let function = format!("_{}_{}", program.replace('-', "_"), self.argument);
        format!(
            r#"
{function}() {{
    {generated} "$@"
    local cur="${{COMP_WORDS[COMP_CWORD]}}"
    if [[ ${{COMP_CWORD}} -eq 2 && "${{cur}}" != -* ]]; then
        case "${{COMP_WORDS[1]}}" in
            {subcommands})
                COMPREPLY=( $(compgen -W "$({command} 2>/dev/null)" -- "${{cur}}") )
                ;;
        esac
    fi
}}

complete -F {function} -o nosort -o bashdefault -o default {program} 2>/dev/null ||
    complete -F {function} -o bashdefault -o default {program}
"#
        )
    }

    fn fish(self, program: &str, subcommands: &[&str]) -> String {
        let of_program = program.replace('-', "_");
        let line = |name: &&str| {
            format!(
                "complete -c {program} -n \"__fish_{of_program}_using_subcommand {name}\" -f -a \"({} 2>/dev/null)\"\n",
                self.command
            )
        };
        subcommands.iter().map(line).collect()
    }
}
