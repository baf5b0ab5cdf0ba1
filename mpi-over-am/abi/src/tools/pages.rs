//! Manual pages and completions, made from the help texts of the programs. `amrun` writes its own.

use std::fmt::Write as _;

/// A manual page of section 1 whose body is the program's help text.
pub(super) fn manual(name: &str, purpose: &str, help: &str) -> String {
    let mut text =
        format!(".TH {} 1 \"\" \"mpi-over-am {}\"\n", name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    // Writing to a String cannot fail.
    let _ = write!(text, ".SH NAME\n{name} \\- {purpose}\n.SH DESCRIPTION\n.nf\n");
    for line in help.lines() {
        // A leading dot or quote would be a command to the formatter.
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        let _ = match line.starts_with(['.', '\'']) {
            true => writeln!(text, "\\&{line}"),
            false => writeln!(text, "{line}"),
        };
    }
    text.push_str(".fi\n.SH SEE ALSO\nmpicc(1), mpiexec(1), amrun(1)\n");
    text
}

/// The options in a help text: words that begin with a minus.
pub(super) fn options(help: &str) -> Vec<&str> {
    let words = help.split(|letter: char| letter.is_whitespace() || "[]|,=;".contains(letter));
    let mut options: Vec<&str> =
        words.filter(|word| word.len() > 1 && word.starts_with('-') && *word != "--").collect();
    options.sort_unstable();
    options.dedup();
    options
}

/// A completion for bash: options after a minus, files otherwise.
pub(super) fn bash_completion(names: &[&str], help: &str) -> String {
    let options = options(help).join(" ");
    format!(
        "_mpi_over_am() {{\n    [[ $2 == -* ]] && COMPREPLY=($(compgen -W '{options}' -- \"$2\"))\n}}\n\
         complete -o default -o bashdefault -F _mpi_over_am {}\n",
        names.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_help_without_requests_to_the_formatter() {
        let page = manual("mpiexec", "starts programs", "usage: mpiexec -n N\n.hidden \\ here");
        assert!(page.starts_with(".TH MPIEXEC 1"), "{page}");
        assert!(page.contains("mpiexec \\-n N\n") && page.contains("\\&.hidden \\e here\n"), "{page}");
    }

    #[test]
    fn options_are_found_in_a_help_text() {
        assert_eq!(options("-n, --np N  [--all|--json]\n a - b -- c"), ["--all", "--json", "--np", "-n"]);
    }
}
