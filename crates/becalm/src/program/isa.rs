//! The processor's instruction set: instructions as data, as words of 64 bits, and as text.
//!
//! A binary is [`MAGIC`] and instructions, little endian. The first word of an instruction holds the operation in bits 0 to 7, a
//! destination register in 8 to 23, a source in 24 to 39 and a count or flag in 40 to 63; addresses (bytes) and constants
//! follow as separate words. Fields that an operation does not use are 0, so that every binary that is accepted is
//! what [`encode`] writes. The words are listed in `docs/isa.md`.

use crate::{Error, Result};
use std::fmt::{Display, Formatter, Write};

/// The first word of a binary: `becalm01`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"becalm01");
/// Most terms of a linear combination and most results of a bootstrap.
pub const MAX_COUNT: usize = 1 << 12;
/// The table is encrypted (bootstraps); under the small key (loads, stores, sums).
const FLAG: u64 = 1 << 23;

/// A place for one LWE ciphertext on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// An instruction of the processor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Instruction {
    /// The end of the program.
    Halt,
    /// `dst` ← the ciphertext at an address.
    Load {
        /// Result.
        dst: Slot,
        /// Byte address.
        address: u64,
        /// Under the small key.
        small: bool,
    },
    /// The ciphertext at an address ← `src`.
    Store {
        /// Source.
        src: Slot,
        /// Byte address.
        address: u64,
        /// Under the small key.
        small: bool,
    },
    /// `dst` ← Σ coefficient·slot + constant.
    MulAdd {
        /// Result.
        dst: Slot,
        /// Coefficients, of 48 bits with their sign, and sources.
        terms: Vec<(i64, Slot)>,
        /// Added to the body.
        constant: u64,
        /// All of them under the small key.
        small: bool,
    },
    /// `dst` ← `src` under the small key.
    KeySwitch {
        /// Result.
        dst: Slot,
        /// Source.
        src: Slot,
        /// Byte address of the key.
        key: u64,
    },
    /// `dst`, the slot after it, … ← coefficients of the table turned by `src`, one for each index.
    Bootstrap {
        /// First result.
        dst: Slot,
        /// Source.
        src: Slot,
        /// Byte address of the key.
        key: u64,
        /// Byte address of the table: N words, or (k + 1)·N of an encrypted one.
        table: u64,
        /// Whether the table is a GLWE ciphertext.
        encrypted: bool,
        /// The coefficients to extract.
        indices: Vec<u64>,
    },
    /// Waits until all that came before is written.
    Sync,
    /// Starts a batch of bootstraps that is not full.
    Flush,
}

impl Instruction {
    fn words(&self, out: &mut Vec<u64>) -> Result<()> {
        let head = |op: u64, dst: u16, src: u16, extra: u64| {
            op | u64::from(dst) << 8 | u64::from(src) << 24 | extra << 40
        };
        match self {
            Instruction::Halt => out.push(head(0, 0, 0, 0)),
            Instruction::Load { dst, address, small } => {
                out.extend([head(1, dst.0, 0, flag(*small)), *address]);
            }
            Instruction::Store { src, address, small } => {
                out.extend([head(2, 0, src.0, flag(*small)), *address]);
            }
            Instruction::MulAdd { dst, terms, constant, small } => {
                let count = counted(terms.len(), "terms")? | flag(*small);
                out.extend([head(3, dst.0, 0, count), *constant]);
                for (c, slot) in terms {
                    if (c << 16) >> 16 != *c {
                        let wanted = "coefficients of 48 bits";
                        return Err(unencodable(wanted, c.to_string(), "split the combination"));
                    }
                    out.push((*c as u64) << 16 | u64::from(slot.0));
                }
            }
            Instruction::KeySwitch { dst, src, key } => {
                out.extend([head(4, dst.0, src.0, 0), *key]);
            }
            Instruction::Bootstrap { dst, src, key, table, encrypted, indices } => {
                let count = counted(indices.len(), "results")?;
                if u64::from(dst.0) + count > 1 << 16 {
                    let got = format!("{count} from slot {}", dst.0);
                    return Err(unencodable("results below slot 65536", got, "use lower slots"));
                }
                out.extend([head(5, dst.0, src.0, count | flag(*encrypted)), *key, *table]);
                out.extend(indices);
            }
            Instruction::Sync => out.push(head(6, 0, 0, 0)),
            Instruction::Flush => out.push(head(7, 0, 0, 0)),
        }
        Ok(())
    }
}

fn flag(set: bool) -> u64 {
    if set { FLAG } else { 0 }
}

fn unencodable(wanted: &str, got: String, remedy: &str) -> Error {
    Error::bad_input("assemble", wanted, got, remedy)
}

fn counted(count: usize, what: &str) -> Result<u64> {
    match count {
        1..=MAX_COUNT => Ok(count as u64),
        _ => Err(unencodable(&format!("1 to {MAX_COUNT} {what}"), count.to_string(), "split it")),
    }
}

/// The binary of a program; [`Instruction::Halt`] must stand at its end and nowhere else.
///
/// # Errors
/// [`Error::BadInput`] for a count, coefficient or slot that does not fit its field, or another end.
pub fn encode(program: &[Instruction]) -> Result<Vec<u8>> {
    let last = program.len().checked_sub(1);
    let halt = program.iter().position(|i| *i == Instruction::Halt);
    if halt.is_none() || halt != last {
        let got = match halt {
            _ if program.is_empty() => "no instructions".to_string(),
            None => format!("{} without one", program.len()),
            Some(at) => format!("one as number {} of {}", at + 1, program.len()),
        };
        return Err(unencodable("`halt` at the end and nowhere else", got, "see docs/isa.md"));
    }
    let mut words = vec![MAGIC];
    for instruction in program {
        instruction.words(&mut words)?;
    }
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    decode(&bytes)?;
    Ok(bytes)
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn refuse(&self, wanted: &str, got: impl Display) -> Error {
        // The word that was read last.
        let offset = self.at.saturating_sub(8);
        Error::bad_file(
            "disassemble",
            format!("{wanted} at byte {offset}"),
            got.to_string(),
            "assemble the program again",
        )
    }

    fn word(&mut self) -> Result<u64> {
        let word = self.bytes.get(self.at..self.at + 8).and_then(|b| b.try_into().ok());
        self.at += 8;
        match word {
            Some(word) => Ok(u64::from_le_bytes(word)),
            None => Err(self.refuse("a word", "the end of the binary")),
        }
    }

    fn instruction(&mut self) -> Result<Instruction> {
        let word = self.word()?;
        let (dst, src) = (Slot((word >> 8) as u16), Slot((word >> 24) as u16));
        let (op, extra) = (word & 0xFF, word >> 40);
        let unused = |dst_used: bool, src_used: bool, extra_used: bool| {
            (dst_used || dst.0 == 0) && (src_used || src.0 == 0) && (extra_used || extra == 0)
        };
        let fits = match op {
            0 | 6 | 7 => unused(false, false, false),
            1 => unused(true, false, extra == FLAG),
            2 => unused(false, true, extra == FLAG),
            3 => unused(true, false, true),
            4 => unused(true, true, false),
            5 => true,
            _ => return Err(self.refuse("an operation from 0 to 7", op)),
        };
        if !fits {
            return Err(self.refuse("0 in the fields without a use", format!("{word:#018x}")));
        }
        let (count, flag) = (extra & !FLAG, extra & FLAG != 0);
        if matches!(op, 3 | 5) && !(1..=MAX_COUNT as u64).contains(&count) {
            return Err(self.refuse(&format!("a count from 1 to {MAX_COUNT}"), count));
        }
        Ok(match op {
            0 => Instruction::Halt,
            1 => Instruction::Load { dst, address: self.word()?, small: flag },
            2 => Instruction::Store { src, address: self.word()?, small: flag },
            3 => self.muladd(dst, count, flag)?,
            4 => Instruction::KeySwitch { dst, src, key: self.word()? },
            5 if u64::from(dst.0) + count > 1 << 16 => {
                return Err(self.refuse("results below slot 65536", format!("{count} more")));
            }
            5 => Instruction::Bootstrap {
                dst,
                src,
                key: self.word()?,
                table: self.word()?,
                encrypted: flag,
                indices: (0..count).map(|_| self.word()).collect::<Result<_>>()?,
            },
            6 => Instruction::Sync,
            _ => Instruction::Flush,
        })
    }

    fn muladd(&mut self, dst: Slot, count: u64, small: bool) -> Result<Instruction> {
        let constant = self.word()?;
        let mut terms = vec![];
        for _ in 0..count {
            let word = self.word()?;
            terms.push(((word as i64) >> 16, Slot(word as u16)));
        }
        Ok(Instruction::MulAdd { dst, terms, constant, small })
    }
}

/// The instructions of a binary.
///
/// # Errors
/// [`Error::BadFile`] with the offset of the word that is wrong and why.
pub fn decode(bytes: &[u8]) -> Result<Vec<Instruction>> {
    let mut cursor = Cursor { bytes, at: 0 };
    let magic = cursor.word()?;
    if magic != MAGIC {
        return Err(cursor.refuse("the word becalm01", format!("{magic:#018x}")));
    }
    let mut program = vec![];
    while program.last() != Some(&Instruction::Halt) {
        program.push(cursor.instruction()?);
    }
    if cursor.at != bytes.len() {
        cursor.at += 8;
        let left = bytes.len() + 8 - cursor.at;
        return Err(cursor.refuse("nothing after the end", format!("{left} bytes")));
    }
    Ok(program)
}

impl Display for Slot {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// The suffix of operations on ciphertexts under the small key.
fn suffix(small: bool) -> &'static str {
    if small { "s" } else { "" }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Instruction::Halt => write!(f, "halt"),
            Instruction::Load { dst, address, small } => {
                write!(f, "ld{} {dst} {address:#x}", suffix(*small))
            }
            Instruction::Store { src, address, small } => {
                write!(f, "st{} {src} {address:#x}", suffix(*small))
            }
            Instruction::MulAdd { dst, terms, constant, small } => {
                write!(f, "muladd{} {dst} {constant:#x}", suffix(*small))?;
                terms.iter().try_for_each(|(c, slot)| write!(f, " {c}*{slot}"))
            }
            Instruction::KeySwitch { dst, src, key } => write!(f, "ks {dst} {src} {key:#x}"),
            Instruction::Bootstrap { dst, src, key, table, encrypted, indices } => {
                let op = if *encrypted { "pbsx" } else { "pbs" };
                write!(f, "{op} {dst} {src} {key:#x} {table:#x}")?;
                indices.iter().try_for_each(|i| write!(f, " {i:#x}"))
            }
            Instruction::Sync => write!(f, "sync"),
            Instruction::Flush => write!(f, "flush"),
        }
    }
}

/// The text of a program, an instruction a line; [`assemble`] reads it.
pub fn disassemble(program: &[Instruction]) -> String {
    program.iter().fold(String::new(), |mut text, instruction| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{instruction}");
        text
    })
}

/// How a text is written, for who wrote it otherwise.
const TEXT: &str =
    "numbers are hexadecimal (0x100), slots r0 to r65535, terms 2*r1; see docs/isa.md";

/// The instructions of a text; `#` begins a comment.
///
/// # Errors
/// [`Error::BadInput`] with the line and the expected form.
pub fn assemble(text: &str) -> Result<Vec<Instruction>> {
    let mut program = vec![];
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        program.push(parse(&words).ok_or_else(|| {
            let wanted = format!("an instruction with its operands in line {}", i + 1);
            let got: String = line.trim().chars().take(60).collect();
            unencodable(&wanted, format!("`{got}`"), TEXT)
        })?);
    }
    Ok(program)
}

fn parse(words: &[&str]) -> Option<Instruction> {
    // Neither has a sign.
    let digits = |w: &&str| w.chars().all(|c| c.is_ascii_hexdigit());
    let slot = |w: &str| w.strip_prefix('r').filter(digits)?.parse().ok().map(Slot);
    let number = |w: &&str| u64::from_str_radix(w.strip_prefix("0x").filter(digits)?, 16).ok();
    Some(match words {
        ["halt"] => Instruction::Halt,
        ["sync"] => Instruction::Sync,
        ["flush"] => Instruction::Flush,
        [op @ ("ld" | "lds"), dst, address] => {
            let (dst, address) = (slot(dst)?, number(address)?);
            Instruction::Load { dst, address, small: *op == "lds" }
        }
        [op @ ("st" | "sts"), src, address] => {
            let (src, address) = (slot(src)?, number(address)?);
            Instruction::Store { src, address, small: *op == "sts" }
        }
        ["ks", dst, src, key] => {
            Instruction::KeySwitch { dst: slot(dst)?, src: slot(src)?, key: number(key)? }
        }
        [op @ ("muladd" | "muladds"), dst, constant, terms @ ..] => {
            let term = |w: &&str| {
                let (c, s) = w.split_once('*')?;
                Some((c.parse().ok()?, slot(s)?))
            };
            let terms = terms.iter().map(term).collect::<Option<_>>()?;
            let (dst, constant, small) = (slot(dst)?, number(constant)?, *op == "muladds");
            Instruction::MulAdd { dst, terms, constant, small }
        }
        [op @ ("pbs" | "pbsx"), dst, src, key, table, indices @ ..] => Instruction::Bootstrap {
            dst: slot(dst)?,
            src: slot(src)?,
            key: number(key)?,
            table: number(table)?,
            encrypted: *op == "pbsx",
            indices: indices.iter().map(number).collect::<Option<_>>()?,
        },
        _ => return None,
    })
}
