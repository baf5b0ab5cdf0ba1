//! How the types of settings are parsed and shown.

/// The type of a setting.
pub trait Value: Sized {
    /// The values that the type takes, as text.
    const FORM: &'static str;
    /// The words that the type accepts; none for a number.
    const CHOICES: &'static [&'static str] = &[];
    /// Whether a number may also be `auto`.
    const MAY_BE_AUTO: bool = false;

    /// Parses a value.
    ///
    /// # Errors
    /// What is wrong with the text.
    fn parse(text: &str) -> Result<Self, String>;

    /// Shows a value, in a form that [`parse`](Self::parse) understands.
    fn show(&self) -> String;

    /// The number that a range is compared with, if the value has one.
    fn number(&self) -> Option<u64> {
        None
    }
}

impl Value for u64 {
    const FORM: &'static str = "a number (64k is 65536)";

    fn parse(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let digits = lower.trim_end_matches(|last: char| last.is_ascii_alphabetic());
        let shift = match &lower[digits.len()..] {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            unit => return Err(format!("the unit {unit:?} is unknown")),
        };
        let number: u64 = digits.trim().parse().map_err(|error| format!("{digits:?}: {error}"))?;
        number.checked_mul(1 << shift).ok_or_else(|| "it does not fit into 64 bits".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Value for u32 {
    const FORM: &'static str = <u64 as Value>::FORM;

    fn parse(text: &str) -> Result<Self, String> {
        let number = <u64 as Value>::parse(text)?;
        Self::try_from(number).map_err(|_| "it does not fit into 32 bits".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<u64> {
        Some(u64::from(*self))
    }
}

impl Value for bool {
    const FORM: &'static str = "on or off";
    const CHOICES: &'static [&'static str] = &["off", "on"];

    fn parse(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "on" | "1" | "true" | "yes" => Ok(true),
            "off" | "0" | "false" | "no" => Ok(false),
            _ => Err("it is neither on nor off".to_owned()),
        }
    }

    fn show(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

impl Value for usize {
    const FORM: &'static str = <u64 as Value>::FORM;

    fn parse(text: &str) -> Result<Self, String> {
        let number = <u64 as Value>::parse(text)?;
        Self::try_from(number).map_err(|_| "it does not fit into an address".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<u64> {
        u64::try_from(*self).ok()
    }
}

/// `None` is `auto`: the library chooses the value.
impl<T: Value> Value for Option<T> {
    const FORM: &'static str = "auto, or a number (64k is 65536)";
    const MAY_BE_AUTO: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("auto") { Ok(None) } else { T::parse(text).map(Some) }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "auto".to_owned(), Value::show)
    }

    fn number(&self) -> Option<u64> {
        self.as_ref().and_then(Value::number)
    }
}

/// Makes an enumeration the type of a setting: implements [`Value`] and `Display` by the word of each variant.
///
/// ```
/// # use am_via_settings::{Value, choices};
/// enum Memory {
///     Auto,
///     Job,
///     Kernel,
/// }
///
/// choices! { Memory: Auto = "auto", Job = "job"; or Kernel = "kernel" }
/// assert_eq!(Memory::FORM, "auto, job or kernel");
/// assert_eq!(Memory::parse("Job")?.show(), "job");
/// # Ok::<(), String>(())
/// ```
#[macro_export]
macro_rules! choices {
    ($type:ty: $first:ident = $first_word:literal $(, $variant:ident = $word:literal)*; or $last:ident = $last_word:literal) => {
        impl $crate::Value for $type {
            const FORM: &'static str = concat!($first_word, $(", ", $word,)* " or ", $last_word);
            const CHOICES: &'static [&'static str] = &[$first_word, $($word,)* $last_word];

            fn parse(text: &str) -> Result<Self, String> {
                match text.to_ascii_lowercase().as_str() {
                    $first_word => Ok(Self::$first),
                    $($word => Ok(Self::$variant),)*
                    $last_word => Ok(Self::$last),
                    _ => Err("it is not one of the choices".to_owned()),
                }
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    Self::$first => $first_word,
                    $(Self::$variant => $word,)*
                    Self::$last => $last_word,
                })
            }
        }
    };
}
