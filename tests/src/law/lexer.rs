//! Rust text as words and marks, with comments apart, strings emptied, and test modules taken out.

/// A word or mark of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// What it is.
    pub(super) kind: Kind,
    /// Its line, from 1.
    pub(super) line: u32,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word: identifier or keyword, without a leading `r#`.
    Word(String),
    /// `::`
    PathSeparator,
    /// Any other mark, one character each.
    Mark(char),
    /// A string, character or number; a lifetime. What it says names nothing.
    Literal,
}

impl Token {
    pub(super) fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    pub(super) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }
}

/// A comment, each line of it on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comment {
    /// The line of the file, from 1.
    pub(super) line: u32,
    /// What stands there.
    pub(super) text: String,
}

/// A source taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    /// Words and marks, in order.
    pub(super) tokens: Vec<Token>,
    /// Comments, in order.
    pub(super) comments: Vec<Comment>,
}

/// Takes a source apart. Text that is not Rust gives tokens all the same.
pub(super) fn lex(text: &str) -> Source {
    let mut lexer = Lexer { rest: text.chars().collect(), at: 0, line: 1, source: Source::default() };
    while lexer.step() {}
    lexer.source
}

struct Lexer {
    rest: Vec<char>,
    at: usize,
    line: u32,
    source: Source,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.rest.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.get(self.at).copied()?;
        self.at += 1;
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn push(&mut self, kind: Kind, line: u32) {
        self.source.tokens.push(Token { kind, line });
    }

    /// Takes one thing; `false` at the end.
    fn step(&mut self) -> bool {
        let line = self.line;
        let c = self.peek(0);
        match c {
            _ if self.at >= self.rest.len() => return false,
            '/' if self.peek(1) == '/' => self.line_comment(),
            '/' if self.peek(1) == '*' => self.block_comment(),
            '"' => self.string(line),
            '\'' => self.quote(line),
            _ if self.is_prefixed_string() => self.prefixed_string(line),
            _ if c.is_ascii_digit() => self.number(line),
            _ if c == '_' || c.is_alphabetic() => self.word(line),
            ':' if self.peek(1) == ':' => {
                self.at += 2;
                self.push(Kind::PathSeparator, line);
            }
            _ => {
                self.next();
                if !c.is_whitespace() {
                    self.push(Kind::Mark(c), line);
                }
            }
        }
        true
    }

    fn line_comment(&mut self) {
        let line = self.line;
        let mut text = String::new();
        while self.at < self.rest.len() && self.peek(0) != '\n' {
            text.extend(self.next());
        }
        self.source.comments.push(Comment { line, text });
    }

    fn block_comment(&mut self) {
        let first = self.line;
        let mut text = String::new();
        let mut depth = 0_u32;
        while self.at < self.rest.len() {
            let step = match (self.peek(0), self.peek(1)) {
                ('/', '*') => 1,
                ('*', '/') => -1,
                _ => 0,
            };
            text.extend(self.next());
            if step != 0 {
                text.extend(self.next());
                depth = depth.saturating_add_signed(step);
            }
            if depth == 0 {
                break;
            }
        }
        for (line, part) in (first..).zip(text.split('\n')) {
            self.source.comments.push(Comment { line, text: part.to_owned() });
        }
    }

    /// From the opening quote to past the closing one.
    fn string(&mut self, line: u32) {
        self.next();
        while let Some(c) = self.next() {
            match c {
                '\\' => drop(self.next()),
                '"' => break,
                _ => {}
            }
        }
        self.push(Kind::Literal, line);
    }

    /// A character or a lifetime.
    fn quote(&mut self, line: u32) {
        self.next();
        if self.peek(0) == '\\' || self.peek(1) == '\'' {
            while let Some(c) = self.next() {
                match c {
                    '\\' => drop(self.next()),
                    '\'' => break,
                    _ => {}
                }
            }
        } else {
            self.take_word();
        }
        self.push(Kind::Literal, line);
    }

    /// Whether `b"`, `b'`, `c"`, `r"`, `r#"`, `br#"`, `cr#"` and the like stand here.
    fn is_prefixed_string(&self) -> bool {
        let letters = match (self.peek(0), self.peek(1)) {
            ('b' | 'c', 'r') => 2,
            ('b', '\'') => return true,
            ('b' | 'c', '"') => return true,
            ('r', _) => 1,
            _ => return false,
        };
        let hashes = (letters..).take_while(|&i| self.peek(i) == '#').count();
        self.peek(letters + hashes) == '"'
    }

    fn prefixed_string(&mut self, line: u32) {
        let raw = self.peek(0) == 'r' || self.peek(1) == 'r';
        while !matches!(self.peek(0), '"' | '\'' | '#') {
            self.next();
        }
        match self.peek(0) {
            '\'' => return self.quote(line),
            '"' if !raw => return self.string(line),
            _ => {}
        }
        let mut hashes = 0;
        while self.peek(0) == '#' {
            self.next();
            hashes += 1;
        }
        self.next();
        while let Some(c) = self.next() {
            if c == '"' && (0..hashes).all(|i| self.peek(i) == '#') {
                self.at += hashes;
                break;
            }
        }
        self.push(Kind::Literal, line);
    }

    fn number(&mut self, line: u32) {
        loop {
            self.take_word();
            if self.peek(0) == '.' && self.peek(1).is_ascii_digit() {
                self.next();
            } else {
                break;
            }
        }
        self.push(Kind::Literal, line);
    }

    fn word(&mut self, line: u32) {
        if self.peek(0) == 'r' && self.peek(1) == '#' {
            self.at += 2;
        }
        let word = self.take_word();
        self.push(Kind::Word(word), line);
    }

    fn take_word(&mut self) -> String {
        let mut word = String::new();
        while self.peek(0) == '_' || self.peek(0).is_alphanumeric() {
            word.extend(self.next());
        }
        word
    }
}

/// The index after the bracket that closes the one at `open`; the end if none does.
pub(super) fn after_closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Mark('(' | '[' | '{') => depth += 1,
            Kind::Mark(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Takes out modules under `#[cfg(test)]` (or under `all(test, ...)`), and returns the names of those that are files.
///
/// `any(test, ...)` stays: such a module is also built for others.
pub(super) fn take_out_test_modules(tokens: &mut Vec<Token>) -> Vec<String> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut files = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match test_module(tokens, at) {
            Some((end, file)) => {
                files.extend(file);
                at = end;
            }
            None => {
                // An attribute goes over as a whole, or its tail would be taken for the first one of its item.
                let end = if is_attribute(tokens, at) { after_closing(tokens, at + 1) } else { at + 1 };
                kept.extend_from_slice(&tokens[at..end]);
                at = end;
            }
        }
    }
    *tokens = kept;
    files
}

fn is_attribute(tokens: &[Token], at: usize) -> bool {
    tokens[at].is('#') && tokens.get(at + 1).is_some_and(|token| token.is('['))
}

/// The end of the test module whose first attribute is at `at`, and its name if it is a file.
fn test_module(tokens: &[Token], mut at: usize) -> Option<(usize, Option<String>)> {
    let mut is_test = false;
    while at < tokens.len() && is_attribute(tokens, at) {
        let end = after_closing(tokens, at + 1);
        is_test |= tokens.get(at + 2..end - 1).is_some_and(needs_test);
        at = end;
    }
    if tokens.get(at)?.is_word("pub") {
        at += 1;
        if tokens.get(at)?.is('(') {
            at = after_closing(tokens, at);
        }
    }
    if !is_test || !tokens.get(at)?.is_word("mod") {
        return None;
    }
    let name = tokens.get(at + 1)?.word()?;
    let body = at + 2;
    if tokens.get(body)?.is('{') {
        Some((after_closing(tokens, body), None))
    } else {
        Some((body + 1, Some(name.to_owned())))
    }
}

/// Whether the inside of an attribute is a `cfg` that holds in tests only.
fn needs_test(attribute: &[Token]) -> bool {
    let [cfg, open, inside @ .., _close] = attribute else { return false };
    if !cfg.is_word("cfg") || !open.is('(') {
        return false;
    }
    match inside {
        [only] => only.is_word("test"),
        [all, open, terms @ .., _close] if all.is_word("all") && open.is('(') => {
            let mut depth = 0_usize;
            terms.iter().enumerate().any(|(index, token)| {
                match token.kind {
                    Kind::Mark('(') => depth += 1,
                    Kind::Mark(')') => depth = depth.saturating_sub(1),
                    _ => {}
                }
                let ends = terms.get(index + 1).is_none_or(|next| next.is(','));
                depth == 0 && token.is_word("test") && ends
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        lex(text).tokens.iter().filter_map(|token| token.word().map(str::to_owned)).collect()
    }

    #[test]
    fn comments_and_strings_say_nothing() {
        let text = r####"
            a // b
            /* c /* d */ e */ f
            "g \" h" b"i" r"j\" k r#"l " m"# br##"n "# o"## c"p" 'q' '\'' b'r' '\u{73}' 't: u
            1.5e3 0..v r#type
        "####;
        assert_eq!(words(text), ["a", "f", "k", "u", "v", "type"]);
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let source = lex("/* 1\n2 SAFETY: */ \"3\n4\"\n x");
        assert_eq!(source.tokens.last().expect("x is there").line, 4);
        assert_eq!(source.comments[1], Comment { line: 2, text: "2 SAFETY: */".to_owned() });
    }

    #[test]
    fn test_modules_are_taken_out_and_others_stay() {
        let text = "
            #[cfg(test)] #[expect(x)] mod tests { a::b!{} }
            #[expect(y)] #[cfg(all(loom, test))] pub(crate) mod more { c }
            #[cfg(test)] mod file;
            #[cfg(any(test, loom))] mod kept { d }
            #[cfg(not(test))] mod also { e }
            #[cfg(all(not(test), loom))] mod third { f }
            #[cfg(test)] use g::h;
        ";
        let mut tokens = lex(text).tokens;
        assert_eq!(take_out_test_modules(&mut tokens), ["file"]);
        let left: Vec<_> = tokens.iter().filter_map(Token::word).collect();
        for word in ["d", "e", "f", "g"] {
            assert!(left.contains(&word), "{word} was taken out");
        }
        for word in ["a", "c", "tests", "more", "file"] {
            assert!(!left.contains(&word), "{word} stayed");
        }
    }
}
