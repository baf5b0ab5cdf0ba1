//! Names of the program's variables, for the report of a hang: from the symbols of its file, if they were not stripped.

use std::fs;

use crate::statics;

/// Offsets in the file's header, a section's header and a symbol (ELF, 64 bits).
const SECTIONS_AT: usize = 0x28;
const SECTION_COUNT_AT: usize = 0x3c;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
/// A table of symbols, and the kind of a symbol that is a variable.
const SYMBOL_TABLE: u32 = 2;
const VARIABLE: u8 = 1;

/// The variable that has the byte at an address, as "flag" or "table + 16"; if it has no name, the address.
pub(crate) fn name_of(address: usize) -> String {
    let found = fs::read("/proc/self/exe")
        .ok()
        .and_then(|file| variable(&file, address.checked_sub(statics::base())?));
    match found {
        Some((name, 0)) => name,
        Some((name, offset)) => format!("{name} + {offset}"),
        None => format!("the word at {address:#x}"),
    }
}

/// The variable with the byte at this address of the file's numbering, and the offset of the byte in it. Any file gives some answer.
fn variable(file: &[u8], address: usize) -> Option<(String, usize)> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(file.get(at..at.checked_add(bytes)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    let sections = number(SECTIONS_AT, 8)?;
    let section = |index: usize| sections.checked_add(index.checked_mul(SECTION_BYTES)?);
    let table = (0..number(SECTION_COUNT_AT, 2)?)
        .filter_map(section)
        .find(|&at| number(at + 4, 4) == Some(SYMBOL_TABLE as usize))?;
    let (begin, len, names) = (number(table + 24, 8)?, number(table + 32, 8)?, number(table + 40, 4)?);
    let names = number(section(names)? + 24, 8)?;
    (0..len / SYMBOL_BYTES).find_map(|index| {
        let at = begin.checked_add(index * SYMBOL_BYTES)?;
        let (from, size) = (number(at + 8, 8)?, number(at + 16, 8)?);
        let is_it = file.get(at + 4)? & 0xf == VARIABLE && address >= from && address - from < size;
        let name = names.checked_add(number(at, 4)?).filter(|_| is_it)?;
        let name = file.get(name..)?.split(|&byte| byte == 0).next()?;
        Some((String::from_utf8_lossy(name).into_owned(), address - from))
    })
}
