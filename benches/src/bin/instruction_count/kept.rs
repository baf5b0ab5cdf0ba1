//! The kept counts, which are a file of the repository, and the comparison with new ones.

use std::fmt;

use am_examples::Failure;

/// The file of the kept counts.
pub(crate) const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instruction_counts.txt");

/// Maximum difference between a count and the kept one, in percent. A collective of three tasks is counted more roughly: while the counted
/// task waits for the answer to what it sent, it looks as often as the other two, which run beside it, leave it time for.
pub(crate) fn tolerance_percent(name: &str) -> f64 {
    if name.ends_with("/3") { 10.0 } else { 3.0 }
}

/// Counts, with the version of their compiler.
pub(crate) struct Kept {
    compiler: String,
    /// Name, bytes, instructions for each message.
    rows: Vec<(String, usize, f64)>,
}

/// A count compared with the kept one.
pub(crate) enum Comparison {
    Same { kept: f64 },
    Differs { kept: f64 },
    Missing,
}

impl Kept {
    /// An empty list for the compiler of this machine.
    pub(crate) fn of_this_compiler() -> Result<Self, Failure> {
        let output = std::process::Command::new("rustc").arg("--version").output();
        let compiler = output.ok().and_then(|output| {
            // `rustc 1.95.0 (59807616e 2026-04-14)`: only the number is used.
            let said = String::from_utf8(output.stdout).ok()?;
            Some(said.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        });
        match compiler.filter(|compiler| !compiler.is_empty()) {
            Some(compiler) => Ok(Self { compiler, rows: Vec::new() }),
            None => Err(Failure::Input("rustc --version prints nothing: is rustc on the PATH?".to_owned())),
        }
    }

    /// The kept counts.
    pub(crate) fn read() -> Result<Self, Failure> {
        let text = std::fs::read_to_string(FILE)
            .map_err(|error| Failure::Input(format!("cannot read {FILE}: {error}")))?;
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let compiler = lines.next().unwrap_or_default().to_owned();
        let mut rows = Vec::new();
        for line in lines {
            let words: Vec<_> = line.split_whitespace().collect();
            let row = match words.as_slice() {
                [name, bytes, count] => {
                    bytes.parse().ok().zip(count.parse().ok()).map(|(b, c)| ((*name).to_owned(), b, c))
                }
                _ => None,
            };
            rows.push(
                row.ok_or_else(|| Failure::Wrong(format!("{FILE}: not NAME BYTES INSTRUCTIONS: {line}")))?,
            );
        }
        Ok(Self { compiler, rows })
    }

    pub(crate) fn compiler(&self) -> &str {
        &self.compiler
    }

    pub(crate) fn is_comparable_with(&self, other: &Self) -> bool {
        self.compiler == other.compiler
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn keep(&mut self, name: &str, bytes: usize, count: f64) {
        self.rows.push((name.to_owned(), bytes, count));
    }

    pub(crate) fn compare(&self, name: &str, bytes: usize, count: f64) -> Comparison {
        match self.rows.iter().find(|row| row.0 == name && row.1 == bytes) {
            None => Comparison::Missing,
            Some(&(_, _, kept)) if (count / kept - 1.0).abs() * 100.0 > tolerance_percent(name) => {
                Comparison::Differs { kept }
            }
            Some(&(_, _, kept)) => Comparison::Same { kept },
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let row = |(name, bytes, count): &(String, usize, f64)| serde_json::json!({ "name": name, "bytes": bytes, "instructions": count });
        self.rows.iter().map(row).collect()
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Instructions a message, as `instruction_count --write` keeps them: NAME BYTES INSTRUCTIONS. First line: the compiler."
        )?;
        writeln!(f, "{}", self.compiler)?;
        self.rows.iter().try_for_each(|(name, bytes, count)| writeln!(f, "{name} {bytes} {count:.1}"))
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same { kept } => write!(f, "{kept:>9.1}"),
            Self::Differs { kept } => write!(f, "{kept:>9.1}  DIFFERS"),
            Self::Missing => write!(f, "{:>9}", "not kept"),
        }
    }
}
