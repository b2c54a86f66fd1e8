//! `flags.md`: the command line as defined in clap.

use clap::{Arg, Command, CommandFactory};

use super::page::{Page, Section, code, codes};
use crate::args::CommandLine;

const COLUMNS: [&str; 3] = ["flag", "default", "meaning"];

pub(super) fn page() -> Page {
    let mut command = CommandLine::command();
    command.build();
    let mut sections = vec![Section::text([
        "The manager has the management role, the cell role, and the role of a lower hub:",
        "    compute-federation --server-config=FILE --kubeconfig=FILE --federation-kubeconfig=FILE \\\n        \
         --enable-management-controllers | --enable-cell-controllers | --enable-lower-hub-controllers",
        "Except for `interpret`, `verify` and `rules`, flags have the forms of Go's `flag` package: `--leader-elect=false`, `-leader-elect`. An empty value of a path, a name or a boolean means unset. An \
         address `:8081` means all addresses, `0` means off. Times are written like `5s` or `1m30s`.",
        "No flag reads an environment variable. Without `--kubeconfig`, the file that `KUBECONFIG` names is used, else the \
         service account of the pod.",
        "A role without its prerequisites does not start. The error names the missing prerequisite.",
    ])];
    sections.extend(groups("Manager", &command));
    if let Some(command) = command.find_subcommand("interpreter") {
        // The flags of the webhook server and of the log are the same in both commands.
        sections.extend(groups("`interpreter`", command).into_iter().take(1));
    }
    let registration = command
        .find_subcommand("interpreter")
        .and_then(|command| command.find_subcommand("registration"));
    if let Some(command) = registration {
        sections.extend(groups("`interpreter registration`", command));
    }
    if let Some(command) = command.find_subcommand("interpret") {
        sections.extend(groups("`interpret`", command));
    }
    if let Some(command) = command.find_subcommand("verify") {
        sections.extend(groups("`verify`", command));
    }
    if let Some(command) = command.find_subcommand("rules") {
        sections.extend(groups("`rules`", command));
    }
    Page {
        file: "flags.md",
        title: "Flags",
        sections,
    }
}

/// Returns the flags of a command. The first section contains the flags without their own heading.
fn groups(name: &str, command: &Command) -> Vec<Section> {
    let about = match name {
        "Manager" => "Flags of the manager. It runs without a subcommand.",
        "`interpret`" => {
            "Flags of `compute-federation interpret OPERATION [KIND/NAMESPACE/NAME]`, which prints what the interpreter answers \
              about one object. They have the forms of kubectl: two dashes, or one dash and one letter. See [Ask the \
              interpreter](../operate/interpret.md)."
        }
        "`interpreter registration`" => {
            "Flags of `compute-federation interpreter registration`, which prints the registration of the kinds that \
              customizations interpret. See [Serve Lua customizations](../operate/serve-lua-customizations.md)."
        }
        "`verify`" => {
            "Flags of `compute-federation verify`, which compares the customizations of a hub with the native interpreter. They \
              have the forms of kubectl. See [Remove a Lua customization](../operate/remove-lua-customization.md)."
        }
        "`rules`" => {
            "Flags of `compute-federation rules`, which shows what CellRules would change in each cell. They have the forms of \
              kubectl. See [Rules per cell](../operate/cell-rules.md)."
        }
        _ => {
            "Flags of `compute-federation interpreter`: the resource interpreter webhook alone, without a kubeconfig and without \
              admission. It also has the flags of the webhook server and of the log above."
        }
    };
    let mut headings = vec![None];
    for arg in command.get_arguments() {
        let heading = arg.get_help_heading();
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let section = |heading: Option<&str>| {
        let flags = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set() && arg.get_help_heading() == heading)
            .filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"));
        let rows: Vec<_> = flags.filter_map(row).collect();
        let section = match heading {
            None => Section::named(name, [about]),
            Some(heading) => {
                let text = match heading {
                    "Webhook server" => "[Limits](limits.md) describes these limits in detail.",
                    _ => "",
                };
                Section::named(heading, [text])
            }
        };
        (!rows.is_empty()).then(|| section.table(COLUMNS, rows))
    };
    headings.into_iter().filter_map(section).collect()
}

fn row(arg: &Arg) -> Option<Vec<String>> {
    let flag = code(&format!("--{}", arg.get_long()?));
    let flag = match arg.get_short() {
        Some(short) => format!("{}, {flag}", code(&format!("-{short}"))),
        None => flag,
    };
    let aliases = arg.get_all_aliases().unwrap_or_default();
    let flag = match aliases.as_slice() {
        [] => flag,
        aliases => {
            let aliases: Vec<_> = aliases.iter().map(|alias| format!("--{alias}")).collect();
            format!("{flag}; also {}", codes(aliases.iter().map(String::as_str)))
        }
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let is_choice = arg.get_action().takes_values() && !values.is_empty();
    let choice = match is_choice {
        true => format!(
            " One of {}.",
            codes(values.iter().map(clap::builder::PossibleValue::get_name))
        ),
        false => String::new(),
    };
    Some(vec![
        flag,
        default(arg),
        format!(
            "{help}{}{choice}",
            if help.ends_with('.') { "" } else { "." }
        ),
    ])
}

/// Returns the default as it is written on a command line.
pub(super) fn default(arg: &Arg) -> String {
    let values = arg.get_default_values();
    let values: Vec<_> = values.iter().map(|value| value.to_string_lossy()).collect();
    match values.as_slice() {
        [] if !arg.get_action().takes_values() => code("false"),
        [value] if !value.is_empty() => code(value),
        _ => "unset".to_owned(),
    }
}
